"""Which elements of its block's tiles one thread fetches, and which elements of C it computes."""

import numpy as np

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run

from ..accesses import owners, plural
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, Figure, Page
from ..draw.maps import Matrix, side_by_side

CELL, GAP = 5.4, 10
"""Pixels of an element, and between tiles."""


def fetch_map(run: Run, thread: int) -> Figure:
    """Draw what one thread fetches of both tiles and computes of C, solid, and what its warp does, pale.

    All three tiles are drawn to one scale: As to the left of C, Bs above it.

    Parameters
    ----------
    run : Run
        With a traced block of a kernel that stages tiles As and Bs in shared memory.
    thread : int
        Its number in the block.

    Raises
    ------
    ArgumentError
        The block has no such thread.
    """
    kernel = run.kernel
    if not 0 <= thread < kernel.threads:
        raise ArgumentError("thread", str(thread), f"0 to {kernel.threads - 1}")
    BM, BN, BK = (kernel.parameters[name] for name in ("BM", "BN", "BK"))
    deep = BK * CELL
    tiles = dict(zip(("As", "Bs", "C"), side_by_side(BM, BN, BK, MARGIN, 2 * LINE, CELL, deep, GAP), strict=True))
    by_thread = owners(kernel)
    notes, shares = [], []
    for (name, tile), colour in zip(tiles.items(), (BLUE, ORANGE, GREEN), strict=True):
        whose = by_thread if name == "C" else _fetched(run, name, tile)
        mine, warp = whose == thread, whose // WARP == thread // WARP
        shares.append((tile, warp & ~mine, (colour, 0.35)))
        shares.append((tile, mine, colour))
        (column,) = np.unique(np.nonzero(mine)[1])
        rows = np.nonzero(mine)[0]
        does = "computes" if name == "C" else "fetches"
        notes.append(
            f"{name}: {does} {plural(len(rows), 'element')}, rows {rows[0]}, {rows[1]} … {rows[-1]} of column {column}"
        )
    C = tiles["C"]
    height = C.y + BM * CELL + (len(notes) + 0.5) * LINE + MARGIN
    title = f"Thread {thread} of {kernel.name}, and its warp (pale)"
    sheet = Page(height, title=title)
    sheet.boxes([tile.whole for tile in tiles.values()], PALE)
    for tile, mask, fill in shares:
        sheet.boxes([tile.box(row, column, 1, 1) for row, column in np.argwhere(mask)], fill)
    sheet.boxes([tile.whole for tile in tiles.values()], edgecolor=INK)
    sheet.text(tiles["As"].x, C.y - 8, f"As, {BM} × {BK}")
    sheet.text(C.x + C.columns * CELL + 8, tiles["Bs"].y + 14, f"Bs, {BK} × {BN}")
    sheet.text(C.x + C.columns * CELL + 8, C.y + 14, f"C, {BM} × {BN}")
    for i, note in enumerate(notes):
        sheet.text(MARGIN, C.y + BM * CELL + (i + 1) * LINE, note)
    return sheet.finish(f"{title}. " + ". ".join(notes) + ".")


def _fetched(run: Run, name: str, tile: Matrix) -> np.ndarray:
    """Return which thread of the traced block stores each element of a tile in shared memory first."""
    whose = np.full(tile.rows * tile.columns, -1)
    for access in run.trace:
        if (access.array, access.kind) == (name, "store"):
            places = access.offsets // 4
            first = whose[places] < 0
            whose[places[first]] = access.threads[first]
    return whose.reshape(tile.rows, tile.columns)
