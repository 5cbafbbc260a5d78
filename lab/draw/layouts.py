"""Pictures for tensor cores: which lane has which elements of a matrix, where in shared memory chunks of a tile lie."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.mma import PLACES
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run

from ..accesses import request
from .figure import (
    INK,
    LINE,
    MARGIN,
    WIDTH,
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
        cells.fill(row, column, str(lane), lane, together)
    cells.beside(4, "row {}".format)
    cells.above(8, "column {}".format)
    quarters = [cells.box(row, column, 8, 8) for column in (0, 8) for row in (0, 8)]
    cells.sheet.boxes(quarters, edgecolor=INK, linewidth=2)
    return cells.sheet.finish(
        f"{run.kernel.name}, warp {warp}: which lane has which elements of a 16 × 16 matrix of "
        f"{array}. Lane 0 has {_listed(lanes, 0, together)}, lane 1 {_listed(lanes, 1, together)}."
    )


def layout(matrix: str, element: int = 2) -> Figure:
    """Draw which lane of a warp has which element of a matrix that ``mma.sync`` multiplies or adds to.

    Each element is a box in its lane's colour, with the lane's number and the number of its register.

    Parameters
    ----------
    matrix : str
        "a", "b" or "c", which is d's too.
    element : int
        Bytes of an element of A and B: 2 for m16n8k16, 4 for m16n8k8.

    Raises
    ------
    ArgumentError
        There is no such matrix.
    """
    which = "c" if matrix == "c" else (matrix, element)
    if which not in PLACES:
        raise ArgumentError("matrix, element", f"{matrix!r}, {element}", "'a', 'b' or 'c', and 2 or 4 bytes")
    rows, columns = PLACES[which]
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    together = 1 if matrix == "c" else 4 // element  # elements in a register
    cells = _Cells(f"{matrix.upper()}, {height} × {width}: lane, register", height, width, min(ACROSS / width, 56))
    for lane in range(WARP):
        for i, (row, column) in enumerate(zip(rows[lane], columns[lane], strict=True)):
            cells.fill(row, column, f"{lane},{i // together}", lane)
    cells.beside(4, "row {}".format)
    cells.above(8, "column {}".format)
    wide = 4 if element == 4 and matrix == "a" else 8
    parts = [cells.box(row, column, 8, wide) for row in range(0, height, 8) for column in range(0, width, wide)]
    cells.sheet.boxes(parts, edgecolor=INK, linewidth=2)
    first = ", ".join(f"row {row} column {column}" for row, column in zip(rows[1], columns[1], strict=True))
    return cells.sheet.finish(
        f"Which lane of a warp has which element of {matrix.upper()}, {height} by {width}, and in which register. "
        f"Lane 1 has, register by register, {first}."
    )


def chunks(run: Run, array: str = "A", lines: int = 8) -> Figure:
    """Draw where in shared memory the chunks of 16 bytes lie that were copied there from a matrix.

    A line is the 32 banks. Each chunk has the row and the column that it has in the tile, counted in chunks; those of
    the tile's first columns are framed.

    Parameters
    ----------
    run : Run
        Of a kernel with asynchronous copies, simulated with ``trace=[block]``.
    array : str
        "A" or "B".
    lines : int
        How many lines of shared memory are drawn, from the first that is copied to.

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
    start = min(found) * CHUNK // BANKS
    across = BANKS // CHUNK
    shown = {place: of for place, of in found.items() if start <= place // across < start + lines}
    top_row, left_column = (min(of[axis] for of in shown.values()) for axis in (0, 1))
    cells = _Cells(f"A tile of {array}: row, chunk", lines, across, ACROSS / across)
    for place, (row, column) in shown.items():
        line, slot = divmod(place - start * across, across)
        lane = (column - left_column) * 4 % WARP
        framed = column == left_column
        cells.fill(line, slot, f"{row - top_row}, {column - left_column}", lane, framed=framed)
    cells.above(2, lambda slot: f"bank {slot * 4}")
    cells.beside(2, lambda line: f"{line * BANKS} B")
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

    def __init__(self, title: str, rows: int, columns: int, wide: float) -> None:
        super().__init__(rows, columns, LEFT, TOP, wide, HEIGHT)
        self.sheet = Page(TOP + rows * HEIGHT + MARGIN, title=title)

    def fill(self, row: int, column: int, text: str, lane: int, width: int = 1, framed: bool = False) -> None:
        """Fill one cell, or as many side by side as `width` says, with a lane's colour and a text."""
        x, y, across, _ = self.box(row, column, 1, width)
        inside = (x + 1, y + 1, across - 2, HEIGHT - 2)
        self.sheet.boxes([inside], lane_colour(lane))
        self.sheet.text(x + across / 2, y + 16, text, "center", on=lane_colour(lane))
        if framed:
            self.sheet.boxes([inside], edgecolor=INK, linewidth=3)

    def beside(self, step: int, text: Callable[[int], str]) -> None:
        """Write what stands before every so many rows."""
        for row in range(0, self.rows, step):
            self.sheet.text(MARGIN, self.y + row * HEIGHT + 16, text(row))

    def above(self, step: int, text: Callable[[int], str]) -> None:
        """Write what stands above every so many columns."""
        for column in range(0, self.columns, step):
            self.sheet.text(self.x + column * self.across, self.y - 8, text(column))


def _listed(lanes: dict[tuple[int, int], int], lane: int, together: int) -> str:
    """Return a lane's elements in words."""
    (row, column), *others = sorted(place for place, owner in lanes.items() if owner == lane)
    columns = f"columns {column}–{column + together - 1}" if together > 1 else f"column {column}"
    return f"row {row}, {columns} and {len(others)} more such places"
