"""Pictures for ``mma.sync``: which lane has which element of a matrix, where in shared memory chunks of a tile lie."""

from __future__ import annotations

from ..errors import ArgumentError
from ..hardware import WARP
from ..simulation import Run
from ..simulator.mma import PLACES
from .figure import INK, LINE, MARGIN, SMALL, WIDTH, Figure, Page
from .warp import lane_colour

HEIGHT = 22  # pixels of a row
LEFT = MARGIN + 56
CHUNK, BANKS = 16, 128  # bytes of a chunk, and of the 32 banks


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
    cell = min((WIDTH - MARGIN - LEFT) / width, 56)
    top = 2 * LINE + 16
    sheet = Page(top + height * HEIGHT + MARGIN, title=f"{matrix.upper()}, {height} × {width}: lane, register")
    for lane in range(WARP):
        for i, (row, column) in enumerate(zip(rows[lane], columns[lane], strict=True)):
            x, y = LEFT + column * cell, top + row * HEIGHT
            sheet.boxes([(x + 1, y + 1, cell - 2, HEIGHT - 2)], lane_colour(lane))
            sheet.text(x + cell / 2, y + 16, f"{lane},{i // together}", SMALL, "center")
    for row in range(0, height, 4):
        sheet.text(MARGIN, top + row * HEIGHT + 16, f"row {row}", SMALL)
    for column in range(0, width, 8):
        sheet.text(LEFT + column * cell, top - 8, f"column {column}", SMALL)
    deep, wide = 8, 4 if element == 4 and matrix == "a" else 8
    sheet.boxes(
        [
            (LEFT + j * cell, top + i * HEIGHT, min(wide, width) * cell, min(deep, height) * HEIGHT)
            for i in range(0, height, deep)
            for j in range(0, width, wide)
        ],
        edgecolor=INK,
        linewidth=2,
    )
    first = ", ".join(f"row {row} column {column}" for row, column in zip(rows[1], columns[1], strict=True))
    return sheet.finish(
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
    cell, top = (WIDTH - MARGIN - LEFT) / across, 2 * LINE + 16
    sheet = Page(top + lines * HEIGHT + MARGIN, title=f"A tile of {array}: row, chunk")
    for place, (row, column) in shown.items():
        line, slot = divmod(place - start * across, across)
        x, y = LEFT + slot * cell, top + line * HEIGHT
        sheet.boxes([(x + 1, y + 1, cell - 2, HEIGHT - 2)], lane_colour((column - left_column) * 4 % WARP))
        sheet.text(x + cell / 2, y + 16, f"{row - top_row}, {column - left_column}", SMALL, "center")
        if column == left_column:
            sheet.boxes([(x + 1, y + 1, cell - 2, HEIGHT - 2)], edgecolor=INK, linewidth=3)
    for slot in range(0, across, 2):
        sheet.text(LEFT + slot * cell, top - 8, f"bank {slot * 4}", SMALL)
    for line in range(0, lines, 2):
        sheet.text(MARGIN, top + line * HEIGHT + 16, f"{line * BANKS} B", SMALL)
    first = [
        f"row {row - top_row} at bank {place % across * 4}"
        for place, (row, column) in sorted(shown.items())
        if column == left_column
    ]
    return sheet.finish(
        f"{run.kernel.name}: where chunks of a tile of {array} lie in shared memory, {lines} lines of 128 bytes. "
        f"The first chunk of each row: {', '.join(first)}."
    )
