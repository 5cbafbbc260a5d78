"""A picture of ownership: a block's tile of C divided among warps, a warp's among lanes, and one thread's elements."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel

from ..accesses import owners, plural
from .figure import (
    BLUE,
    BODY,
    INK,
    LINE,
    MARGIN,
    WIDTH,
    Box,
    Colour,
    Figure,
    Page,
    room,
)
from .maps import Matrix
from .warp import lane_colour

WIDEST, TALLEST = (WIDTH - 4 * MARGIN) / 2, 440.0  # pixels for the tile of a block, and of a warp
TOP = 4 * LINE  # pixels above them


def hierarchy(kernel: Kernel | str, warp: int = 0, fragment: int = 0) -> Figure:
    """Draw which warp computes which part of a block's tile of C, and which lane which part of that warp's.

    All of it is taken from the stores of a simulated run. On the left is the block's tile, each part with the number
    of its warp. On the right are the elements of one warp, moved together if they are not in one place, in the
    colours of the lanes, with their numbers if there is room. The elements of lane 0 are framed,
    or black where fragments are outlined.

    Parameters
    ----------
    kernel : Kernel or str
    warp : int
        The warp on the right.
    fragment : int
        Rows and columns of its fragments, outlined; 0 if it has none.

    Raises
    ------
    ArgumentError
        The block has no such warp.
    """
    kernel = find(kernel)
    thread = owners(kernel)
    warps = thread // WARP
    if not 0 <= warp <= warps.max():
        raise ArgumentError("warp", str(warp), f"0 to {warps.max()}")
    rows, columns = (np.unique(places) for places in np.nonzero(warps == warp))
    lanes = thread[np.ix_(rows, columns)] % WARP
    block_tile = _place(warps, MARGIN)
    warp_tile = _place(lanes, 3 * MARGIN + WIDEST)
    framed = _boxes(warp_tile, lanes, 0)
    notes = (
        f"Block: {len(warps)} × {len(warps.T)}, {plural(kernel.threads // WARP, 'warp')}",
        f"Warp {warp}: {len(rows)} × {len(columns)}, 32 lanes",
        f"Lane 0: {np.count_nonzero(lanes == 0)} elements in {plural(len(framed), 'piece')}",
    )
    height = max(tile.rows * tile.down for tile in (block_tile, warp_tile))
    sheet = Page(TOP + height + MARGIN, title=kernel.name)
    sheet.text(block_tile.x, TOP - LINE - 10, notes[0])
    sheet.text(warp_tile.x, TOP - LINE - 10, notes[1])
    sheet.text(warp_tile.x, TOP - 10, notes[2] + (", black" if fragment else ", framed"))
    sheet.boxes(_boxes(block_tile, warps, warp), (BLUE, 0.4))
    sheet.boxes([block_tile.box(*area) for area, _ in rectangles(warps)], edgecolor=INK)
    _numbers(sheet, block_tile, warps, lambda _: INK)
    for lane in range(WARP):
        sheet.boxes(_boxes(warp_tile, lanes, lane), lane_colour(lane))
    _numbers(sheet, warp_tile, lanes, lane_colour)
    sheet.boxes(framed, INK if fragment else "none", INK, 1 if fragment else 3)
    corners = product(range(0, len(rows), fragment), range(0, len(columns), fragment)) if fragment else ()
    sheet.boxes([warp_tile.box(*corner, fragment, fragment) for corner in corners], edgecolor=INK, linewidth=2)
    return sheet.finish(f"{kernel.name}, who computes which elements of C. {'. '.join(notes)}.")


def rectangles(values: np.ndarray) -> Iterator[tuple[tuple[int, int, int, int], int]]:
    """Yield (row, column, height, width) and the value of each rectangle, cut wherever any row or column changes."""
    down = [0, *(np.flatnonzero((values[1:] != values[:-1]).any(axis=1)) + 1).tolist(), len(values)]
    across = [0, *(np.flatnonzero((values[:, 1:] != values[:, :-1]).any(axis=0)) + 1).tolist(), len(values.T)]
    for top, bottom in pairwise(down):
        for left, right in pairwise(across):
            yield (top, left, bottom - top, right - left), int(values[top, left])


def _place(values: np.ndarray, x: float) -> Matrix:
    rows, columns = values.shape
    return Matrix(rows, columns, x, TOP, min(WIDEST / columns, TALLEST / rows))


def _boxes(tile: Matrix, values: np.ndarray, wanted: int) -> list[Box]:
    return [tile.box(*area) for area, value in rectangles(values) if value == wanted]


def _numbers(sheet: Page, tile: Matrix, values: np.ndarray, ground: Callable[[int], Colour]) -> None:
    """Write the number in each rectangle, or in none if one has no room for it; `ground` is each number's colour."""
    places = [(tile.box(*area), number) for area, number in rectangles(values)]
    if all(room(str(number)) + 2 <= width and height >= BODY for (_, _, width, height), number in places):
        for (x, y, width, height), number in places:
            sheet.text(x + width / 2, y + height / 2 + 5, str(number), "center", on=ground(number))
