"""Pictures of A, B and C to scale: what one warp touches, and how a kernel cuts them into tiles."""

from collections.abc import Iterator, Sequence

import numpy as np

from ptxsim import SECTOR
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run

from ..accesses import Request, plural, request
from .figure import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    TITLE,
    WIDTH,
    Box,
    Figure,
    Page,
    room,
)
from .warp import in_words, key, paint

GAP = 44  # pixels between matrices
LARGEST_CELL, TALLEST = 24.0, 900  # pixels
LEGIBLE = 1.0  # pixels an element needs to be seen


def access_map(run: Run, warp: int = 0, step: int = 0, block: int | None = None) -> Figure:
    """Draw which elements of A, B and C the lanes of one warp touch, and the 32-byte sectors they lie in.

    Its accesses are those of the first line that loads from A, the first that loads from B, and the first that stores
    to C.

    Parameters
    ----------
    run : Run
        Simulated with ``trace=[block]``.
    warp, step, block
        As for `request`. The store to C is that of step 0.

    Raises
    ------
    ArgumentError
        The run holds no such access, or the matrices have so many elements that none could be seen.
    """
    wanted = (("A", "load", step), ("B", "load", step), ("C", "store", 0))
    requests = [request(run, None, kind, array, warp, at, block) for array, kind, at in wanted]
    (M, N), K, block = run.C.shape, run.K, requests[0].block
    notes = [f"block {block}, warp {warp}; loads of step {step}"]
    notes += [f"{r.array} {r.kind}, line {r.line}: {r.cost}" for r in requests]
    place = Operands(M, N, K, 1 + len(notes) + 3)
    if place.cell < LEGIBLE:
        raise ArgumentError("run", f"M, N, K = {M}, {N}, {K}", "matrices small enough to see elements, as 64 × 64")
    sheet = Page(place.height)
    for matrix in place.matrices.values():
        sheet.lines(matrix.grid(8, 8), (INK, 0.15), linewidth=0.7)
    for r in requests:
        _touch(sheet, place.matrices[r.array], r)
    place.draw(sheet)
    key(sheet, place.left, place.write(sheet, run.kernel.name, notes))
    return sheet.finish(
        f"Matrices A ({M} × {K}), B ({K} × {N}) and C ({M} × {N}) and the elements that warp {warp} of block "
        f"{block} of {run.kernel.name} touches in step {step}. " + " ".join(map(in_words, requests))
    )


def tiles(kernel: Kernel | str, M: int, N: int, K: int) -> Figure:
    """Draw how a kernel cuts C into tiles, and what of A and B one block near the middle reads for its tile.

    Parameters
    ----------
    kernel : Kernel or str
        Its BM, BN and, if it has one, BK are drawn.
    M, N, K : int
        Sizes of the matrices, such that tiles can be seen: not far apart, and not very many tiles.

    Raises
    ------
    ArgumentError
        The kernel names no tile, or some tile would be too small or too narrow to see.
    """
    kernel = find(kernel)
    if not {"BM", "BN"} <= kernel.parameters.keys():
        raise ArgumentError("kernel", kernel.name, "template parameters BM and BN, the sides of its tile")
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    BK = kernel.parameters.get("BK", 1)
    cell = Operands(M, N, K, 0).cell if min(M, N, K) > 0 else 0
    if cell * min(M, N) < 100 or cell * K < 24 or cell * min(BM, BN) < 3:
        raise ArgumentError("M, N, K", f"{M}, {N}, {K}", "sizes not far apart, and at most some 60 tiles a side")
    down, across, steps = -(-M // BM), -(-N // BN), -(-K // BK)
    block, row, col = (down - 1) // 2 * across + (across - 1) // 2, (down - 1) // 2 * BM, (across - 1) // 2 * BN
    slab_A, slab_B, tile = (row, 0, BM, K), (0, col, K, BN), (row, col, BM, BN)
    k = steps // 3 * BK  # a step in the first half, so that much of the way is still to go
    step_A, step_B = (slab_A[0], k, BM, BK), (k, slab_B[1], BK, BN)
    notes = [
        f"C: {down} × {across} tiles of {BM} × {BN}",
        f"block {block} computes one of them",
        f"in {plural(steps, 'step')} along K",
    ]
    place = Operands(M, N, K, 1 + len(notes))
    A, B, C = place.matrices.values()
    sheet = Page(place.height)
    sheet.lines(A.grid(BM, K) + B.grid(K, BN) + C.grid(BM, BN), (INK, 0.35), linewidth=0.7)
    lit = ((A, slab_A, step_A, BLUE), (B, slab_B, step_B, ORANGE), (C, tile, tile, GREEN))
    for matrix, whole, now, colour in lit:
        sheet.boxes([matrix.box(*whole)], (colour, 0.3))
        sheet.boxes([matrix.box(*now)], colour)
    x, y, width, height = A.box(slab_A[0], k + BK, BM, K)  # the way still to go
    if width > 16:
        sheet.arrow((x, y + height / 2), (x + width, y + height / 2))
    x, y, width, height = B.box(k + BK, slab_B[1], K, BN)
    if height > 16:
        sheet.arrow((x + width / 2, y), (x + width / 2, y + height))
    place.draw(sheet)
    place.write(sheet, kernel.name, notes)
    _measure(sheet, C, tile, "BM", "BN")
    if "BK" in kernel.parameters:
        _measure(sheet, A, step_A, "", "BK")
        _measure(sheet, B, step_B, "BK", "")
    return sheet.finish(
        f"{kernel.name} cuts C ({M} × {N}) into {down} × {across} tiles of {BM} × {BN}. Block {block} computes one "
        f"of them from {BM} rows of A ({M} × {K}) and {BN} columns of B ({K} × {N}), in {plural(steps, 'step')} "
        f"of {BK} along K."
    )


class Matrix:
    """A matrix of so many rows and columns, drawn at (x, y) with elements so many pixels across and down, or square."""

    def __init__(self, rows: int, columns: int, x: float, y: float, across: float, down: float = 0) -> None:
        self.rows, self.columns, self.x, self.y, self.across, self.down = rows, columns, x, y, across, down or across

    @property
    def whole(self) -> Box:
        """The whole matrix."""
        return self.x, self.y, self.columns * self.across, self.rows * self.down

    def box(self, row: int, column: int, height: int, width: int) -> Box:
        """Return a rectangle of elements, cut off at the matrix's edges."""
        height, width = min(height, self.rows - row), min(width, self.columns - column)
        return self.x + column * self.across, self.y + row * self.down, width * self.across, height * self.down

    def strips(self, start: int, count: int) -> Iterator[Box]:
        """Yield boxes that `count` elements from index `start` on fill: in their first row, whole rows, the last."""
        end = min(start + count, self.rows * self.columns)
        while start < end:
            row, column = divmod(start, self.columns)
            height = max((end - start) // self.columns, 1) if column == 0 else 1
            width = min(end - start, self.columns - column)
            yield self.box(row, column, height, width)
            start += height * width

    def grid(self, rows: int, columns: int) -> list[list[tuple[float, float]]]:
        """Return lines after every so many rows and columns, or none where they would run together."""
        x, y, width, height = self.whole
        ys = [y + i * self.down for i in range(rows, self.rows, rows) if rows * self.down >= 3]
        xs = [x + i * self.across for i in range(columns, self.columns, columns) if columns * self.across >= 3]
        return [[(x, at), (x + width, at)] for at in ys] + [[(at, y), (at, y + height)] for at in xs]


def side_by_side(
    M: int, N: int, K: int, x: float, y: float, cell: float, deep: float, gap: float
) -> tuple[Matrix, Matrix, Matrix]:
    """Return A, to the left of C, B, above C, and C, all in one corner at (x, y).

    Elements of C are `cell` pixels wide and high, and K elements take `deep` pixels, before a gap.
    """
    left, top = x + deep + gap, y + deep + gap
    A, B = Matrix(M, K, x, top, deep / K, cell), Matrix(K, N, left, y, cell, deep / K)
    return A, B, Matrix(M, N, left, top, cell)


class Operands:
    """A, B and C to one scale: A's rows in line with C's, B's columns above C's.

    `lines` of text stand in the free corner, or above everything if the corner is too small.
    """

    def __init__(self, M: int, N: int, K: int, lines: int) -> None:
        self.cell = cell = min(LARGEST_CELL, (WIDTH - 2 * MARGIN - GAP) / (K + N), TALLEST / (K + M))
        left = (WIDTH - GAP - (K + N) * cell) / 2
        fits = K * cell >= 270 and K * cell >= lines * LINE
        self.left = left if fits else MARGIN
        top = LINE + (0 if fits else (lines + 1) * LINE)
        A, B, C = side_by_side(M, N, K, left, top + 10, cell, K * cell, GAP)
        self.matrices = {"A": A, "B": B, "C": C}
        self.height = C.y + M * cell + LINE + 12

    def draw(self, sheet: Page) -> None:
        """Draw the frames, and the name and size of each matrix."""
        sheet.boxes([matrix.whole for matrix in self.matrices.values()], edgecolor=INK)
        for name, shape in (("A", "M × K"), ("B", "K × N"), ("C", "M × N")):
            matrix = self.matrices[name]
            text = f"{name}: {shape} = {matrix.rows:,} × {matrix.columns:,}"
            x, y, width, height = matrix.whole
            y += height + 19 if name == "C" else -8
            _label(sheet, x, width, y, text)

    def write(self, sheet: Page, title: str, notes: Sequence[str]) -> float:
        """Write the title and the notes; return the baseline of the next line."""
        sheet.text(self.left, LINE, title, size=TITLE, weight="bold")
        for i, note in enumerate(notes, 2):
            sheet.text(self.left, i * LINE, note)
        return (len(notes) + 2) * LINE


def _touch(sheet: Page, matrix: Matrix, r: Request) -> None:
    """Colour the elements a request touches by lane, and outline its sectors."""
    per_sector = SECTOR // r.element
    sectors = [
        box for sector in np.unique(r.offsets // SECTOR) for box in matrix.strips(int(sector) * per_sector, per_sector)
    ]
    sheet.boxes(sectors, PALE)
    paint(sheet, r, matrix.strips)
    sheet.boxes(sectors, edgecolor=INK, linewidth=0.6)


def _measure(sheet: Page, matrix: Matrix, area: tuple[int, int, int, int], height: str, width: str) -> None:
    """Label the height of a tile on its right and the width below, or on the left and above near the edge.

    `height` and `width` are names, "" for no label. A tile that the matrix's edge cuts off is labelled as such.
    """
    row, column, tall, wide = area
    x, y, w, h = matrix.box(*area)
    left, top, across, down = matrix.whole
    if width:
        label = _extent(width, wide, matrix.columns - column)
        below = y + h + 24 <= top + down
        line, base = (y + h + 5, y + h + 21) if below else (y - 5, y - 10)
        sheet.lines([[(x, line), (x + w, line)]], linewidth=2)
        _label(sheet, x, w, base, label)
    if height:
        label = _extent(height, tall, matrix.rows - row)
        right = x + w + 11 + room(label) <= left + across
        line, start, align = (x + w + 5, x + w + 11, "left") if right else (x - 5, x - 11, "right")
        sheet.lines([[(line, y), (line, y + h)]], linewidth=2)
        sheet.text(start, y + h / 2 + 6, label, align=align)


def _label(sheet: Page, x: float, width: float, y: float, text: str) -> None:
    """Write a text from the left end of something so wide or, where the page ends before the text, up to the right."""
    if x + room(text) <= WIDTH:
        sheet.text(x, y, text)
    else:
        sheet.text(x + width, y, text, align="right")


def _extent(name: str, size: int, there: int) -> str:
    return f"{name} = {size}" if size <= there else f"{there} of {name} = {size}"
