"""Pictures for tensor cores: which lane has which elements of a matrix, where in shared memory chunks of a tile lie."""

from collections.abc import Callable

import numpy as np

from ptxsim import PLACES
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run

from ..accesses import Request, request
from .figure import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    PINK,
    WIDTH,
    Colour,
    Figure,
    Page,
)
from .maps import Matrix
from .warp import lane_colour

HEIGHT = 22  # pixels of a row
LEFT, TOP = MARGIN + 56, 2 * LINE + 16
ACROSS = WIDTH - MARGIN - LEFT  # pixels for all columns
SIDE = 16  # rows and columns of a fragment
CHUNK, BANKS = 16, 128  # bytes of a chunk, and of the 32 banks
FOUR = (BLUE, ORANGE, GREEN, PINK)
_b, _b17, _b21 = PLACES["b", 2], PLACES["b", 4], PLACES["a", 4]
HELD = {
    "A": ("register", *PLACES["a", 2]),
    "B": ("register", np.hstack([_b[0], _b[0]]), np.hstack([_b[1], _b[1] + 8])),
    "B, FP32": (
        "fragment",
        np.hstack([_b17[0]] * 4),
        np.hstack([4 * (_b17[1] // 2 + _b17[1] % 2 * 4) + f for f in range(4)]),
    ),
    "B, wgmma": ("register", _b21[1], _b21[0] % 8 // 4 * 4 + _b21[0] // 2 % 2 * 16 + _b21[0] % 2 * 2 + _b21[0] // 8),
}
"""Whether a lane's elements are counted by register or by fragment, and the row and column of each lane's elements."""


def fragment(run: Run, array: str = "A", kind: str = "load", warp: int = 0) -> Figure:
    """Draw the first fragment of a matrix in global memory that a warp loads or stores, element by element.

    Neighbours that a lane accesses at once are one box in the lane's colour, with its number. The quarters of 8 × 8
    are framed.

    Parameters
    ----------
    run : Run
        Of a kernel that loads or stores fragments, simulated with ``trace=[block]``.
    array, kind, warp
        As for `request`: "A", "B" or "C", "load" or "store", and the number of the warp.

    Raises
    ------
    ArgumentError
        As for `request`, or the warp's first accesses are not a 16 × 16 matrix's.
    """
    columns = run.K if array == "A" else run.C.shape[1]
    places: dict[tuple[int, int], int] = {}
    for step in range(SIDE**2 // WARP):
        asked = request(run, array=array, kind=kind, warp=warp, step=step)
        together = asked.width // asked.element
        for lane, offset in zip(asked.lanes, asked.offsets, strict=True):
            places[divmod(int(offset) // asked.element, columns)] = int(lane)
        if len(places) * together >= SIDE**2:
            break
    top, left = (min(place[axis] for place in places) for axis in (0, 1))
    if len(places) * together != SIDE**2 or max(row for row, _ in places) - top != SIDE - 1:
        raise ArgumentError("run", f"one whose first {kind}s of {array} are not of 16 × 16", "one with fragments")
    cells = _Cells(f"A {kind} of {array}, {step + 1} requests", SIDE, SIDE, ACROSS / SIDE)
    lanes = {(row - top, column - left): lane for (row, column), lane in places.items()}
    for (row, column), lane in lanes.items():
        cells.fill(row, column, str(lane), lane_colour(lane), together)
    cells.beside(4, "row {}".format)
    cells.above(8, "column {}".format)
    cells.sheet.boxes([cells.box(row, column, 8, 8) for column in (0, 8) for row in (0, 8)], edgecolor=INK, linewidth=2)
    return cells.sheet.finish(
        f"{run.kernel.name}, warp {warp}: which lane has which elements of a 16 × 16 matrix of "
        f"{array}. Lane 0 has {_listed(lanes, 0, together)}, lane 1 {_listed(lanes, 1, together)}."
    )


def held(matrix: str, lane: int = 13) -> Figure:
    """Draw which lane holds which element of a part of A or B that a warp of 16, 17 or 21 loads into registers.

    Each element has the number of its lane, or, where that is the one that is followed, r and its register, or f and
    its fragment. Beside the rows of 16 × 16 are the lanes that name their halves to ``ldmatrix``, as 16 has them. What
    the followed lane names is framed.

    Parameters
    ----------
    matrix : str
        "A", "B" (two operands of 16 × 8 side by side), "B, FP32" (one step of 17, four fragments), or "B, wgmma" (one
        step of the first warp of 21).
    lane : int
        The lane to follow.

    Raises
    ------
    ArgumentError
        There is no such matrix or lane.
    """
    if matrix not in HELD or lane not in range(WARP):
        raise ArgumentError("matrix, lane", f"{matrix!r}, {lane}", f"one of {list(HELD)}, and 0 to 31")
    what, rows, columns = HELD[matrix]
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    by_name, side = width == SIDE, ACROSS - LEFT * (width == SIDE)
    cells = _Cells(f"{height} × {width} elements of {matrix}", height, width, side / width)
    together = 4 if what == "fragment" else 1  # neighbours that a lane reads at once
    for (number, i), row in np.ndenumerate(rows):
        column = int(columns[number, i])
        if number == lane:
            cells.fill(int(row), column, f"{what[0]}{i * 4 // rows.shape[1]}", BLUE)
        elif column % together == 0:
            cells.fill(int(row), column, str(number), PALE, together)
    cells.above(8, "column {}".format)
    cells.beside(1, ("lane {}" if by_name else "row {}").format)
    parts = [cells.box(row, column, 8, 8) for row in range(0, height, 8) for column in range(0, width, 8)]
    cells.sheet.boxes(parts, edgecolor=INK, linewidth=2)
    places = enumerate(zip(rows[lane], columns[lane], strict=True))
    has = ", ".join(f"row {row} column {column} in {what} {i * 4 // rows.shape[1]}" for i, (row, column) in places)
    if by_name:
        for row in range(SIDE):
            cells.sheet.text(WIDTH - MARGIN, cells.y + row * HEIGHT + 16, f"lane {row + SIDE}", "right")
        cells.sheet.boxes([cells.box(lane % SIDE, lane // SIDE * 8, 1, 8)], edgecolor=ORANGE, linewidth=4)
        has += f". It names row {lane % SIDE}, columns {lane // SIDE * 8} to {lane // SIDE * 8 + 7}"
    return cells.sheet.finish(f"{height} × {width} elements of {matrix}. Lane {lane} has {has}.")


def chunks(run: Run, array: str = "A", lines: int = 8, asked: Request | None = None) -> Figure:
    """Draw where in shared memory the chunks of 16 bytes lie that were copied there from a matrix.

    A line is the 32 banks. Each chunk has the row and the column that it has in the tile, counted in chunks; those of
    the tile's first columns are framed, or those that a request asks for are in a colour for each eight lanes.

    Parameters
    ----------
    run : Run
        Of a kernel with asynchronous copies, simulated with ``trace=[block]``.
    array : str
        "A" or "B".
    lines : int
        How many lines of shared memory are drawn, from the first that is copied to, or asked for.
    asked : Request, optional
        To shared memory: each of its lanes names a chunk, whose number is drawn there.

    Raises
    ------
    ArgumentError
        No chunks of the matrix were copied.
    """
    pitch = (run.K if array == "A" else run.C.shape[1]) * run.kernel.types.operand.itemsize
    found: dict[int, tuple[int, int]] = {}
    for read, written in zip(run.trace, run.trace[1:], strict=False):
        copied = read.array == array and written.space == "shared" and written.kind == "store"
        if copied and read.width == written.width == CHUNK:
            for source, target in zip(read.offsets.tolist(), written.offsets.tolist(), strict=True):
                found.setdefault(target // CHUNK, (source // pitch, source % pitch // CHUNK))
    if not found:
        raise ArgumentError("run", f"one without copies of {array}", "one with asynchronous copies of 16 bytes")
    named = {} if asked is None else dict(zip((asked.offsets // CHUNK).tolist(), asked.lanes.tolist(), strict=True))
    start = min(named or found) * CHUNK // BANKS
    across = BANKS // CHUNK
    shown = {place: of for place, of in found.items() if start <= place // across < start + lines}
    top_row, left_column = (min(of[axis] for of in found.values()) for axis in (0, 1))
    cells = _Cells(
        f"A tile of {array}: row, chunk", lines, across, ACROSS / across, tall=2 * HEIGHT if named else HEIGHT
    )
    for place, (row, column) in shown.items():
        line, slot = divmod(place - start * across, across)
        lane = named.get(place)
        text = f"{row - top_row}, {column - left_column}" + ("" if lane is None else f"\nlane {lane}")
        plain = lane_colour((column - left_column) * 4 % WARP) if asked is None else PALE
        colour = plain if lane is None else FOUR[lane // 8]
        cells.fill(line, slot, text, colour, framed=asked is None and column == left_column)
    cells.above(2, lambda slot: f"bank {slot * 4}")
    cells.beside(1 if named else 2, lambda line: f"{(line + (start if named else 0)) * BANKS:,} B")
    first = [
        f"row {row - top_row} at bank {place % across * 4}"
        for place, (row, column) in sorted(shown.items())
        if column == left_column
    ]
    return cells.sheet.finish(
        f"{run.kernel.name}: where chunks of a tile of {array} lie in shared memory, {lines} lines of 128 bytes. "
        f"The first chunk of each row: {', '.join(first)}."
    )


class _Cells(Matrix):
    """Cells so many pixels wide in rows and columns under a title, with room for texts on their left and above."""

    def __init__(self, title: str, rows: int, columns: int, wide: float, tall: float = HEIGHT) -> None:
        super().__init__(rows, columns, LEFT, TOP, wide, tall)
        self.sheet = Page(TOP + rows * tall + MARGIN, title=title)

    def fill(self, row: int, column: int, text: str, on: Colour, width: int = 1, framed: bool = False) -> None:
        """Fill one cell, or as many side by side as `width` says, with a colour and lines of text."""
        x, y, across, down = self.box(row, column, 1, width)
        inside = (x + 1, y + 1, across - 2, down - 2)
        self.sheet.boxes([inside], on)
        for i, line in enumerate(text.split("\n")):
            self.sheet.text(x + across / 2, y + 16 + 20 * i, line, "center", on=on)
        if framed:
            self.sheet.boxes([inside], edgecolor=INK, linewidth=3)

    def beside(self, step: int, text: Callable[[int], str]) -> None:
        """Write labels before every so many rows."""
        for row in range(0, self.rows, step):
            self.sheet.text(MARGIN, self.y + row * self.down + 16, text(row))

    def above(self, step: int, text: Callable[[int], str]) -> None:
        """Write labels above every so many columns."""
        for column in range(0, self.columns, step):
            self.sheet.text(self.x + column * self.across, self.y - 8, text(column))


def _listed(lanes: dict[tuple[int, int], int], lane: int, together: int) -> str:
    """Return a lane's elements in words."""
    (row, column), *others = sorted(place for place, owner in lanes.items() if owner == lane)
    columns = f"columns {column}–{column + together - 1}" if together > 1 else f"column {column}"
    return f"row {row}, {columns} and {len(others)} more such places"
