"""A picture of what one thread does at one step along K: a column of A times a row of B, its outer product."""

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel

from ..accesses import owners, plural
from .figure import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    Figure,
    Page,
)
from .maps import side_by_side

GAP = 10
TALLEST, WIDEST = 260, 250  # pixels for the block's tiles, and for one thread's
LARGEST = 34  # pixels of an element on the right
TOP = 2 * LINE + 12
MIDDLE = 340  # pixels: where the right half begins


def outer_product(kernel: Kernel | str, thread: int = 0) -> Figure:
    """Draw the elements of both tiles that one thread of a block reads at one k, and their products.

    On the left are the block's tiles, As left of C and Bs above it, with what the thread reads at some k and the
    elements of C that it computes, as a simulated run shows them. On the right the same elements, enlarged.

    Parameters
    ----------
    kernel : Kernel or str
        With tiles in shared memory.
    thread : int
        Its number in the block.
    """
    kernel = find(kernel)
    BM, BN, BK = (kernel.parameters[name] for name in ("BM", "BN", "BK"))
    mine = owners(kernel) == thread
    rows, columns = (np.unique(places) for places in np.nonzero(mine))
    cell = TALLEST / (BK + max(BM, BN))
    As, Bs, C = side_by_side(BM, BN, BK, MARGIN, TOP, cell, BK * cell, GAP)
    size = min(LARGEST, TALLEST / (1 + len(rows)), WIDEST / (1 + len(columns)))
    column, row, product = side_by_side(len(rows), len(columns), 1, MIDDLE, TOP, size, size, GAP)
    k = BK // 3
    words, products = len(rows) + len(columns), len(rows) * len(columns)
    height = max(C.y + BM * cell, product.y + len(rows) * size) + LINE + MARGIN
    note = f"{len(rows)} + {len(columns)} words, {plural(products, 'multiply-add')}"
    sheet = Page(height, title=f"{kernel.name}: thread {thread} at one k")
    sheet.boxes([matrix.whole for matrix in (As, Bs, C)], PALE)
    sheet.boxes([As.box(row, k, 1, 1) for row in rows], BLUE)
    sheet.boxes([Bs.box(k, column, 1, 1) for column in columns], ORANGE)
    sheet.boxes([C.box(row, column, 1, 1) for row, column in np.argwhere(mine)], GREEN)
    sheet.boxes([matrix.whole for matrix in (As, Bs, C)], edgecolor=INK)
    for name, matrix in (("As", As), ("Bs", Bs), ("C", C)):
        box = matrix.whole
        sheet.text(box[0] + box[2] / 2, box[1] + box[3] / 2 + 5, name, "center")
    for matrix, fill in ((column, BLUE), (row, ORANGE), (product, (GREEN, 0.55))):
        cells = [matrix.box(i, j, 1, 1) for i in range(matrix.rows) for j in range(matrix.columns)]
        sheet.boxes(cells, fill, edgecolor=INK)
    sheet.text(MIDDLE, TOP - 8, "of Bs")
    sheet.text(MIDDLE - 8, column.y + size / 2 + 5, "of As", "right")
    sheet.text(MIDDLE, height - MARGIN, note)
    return sheet.finish(
        f"{kernel.name}, thread {thread} of a block at one k. It reads {plural(len(rows), 'element')} of As and "
        f"{plural(len(columns), 'element')} of Bs, and multiplies each with each: {words} words for "
        f"{plural(products, 'multiply-add')}, into {plural(products, 'element')} of C."
    )
