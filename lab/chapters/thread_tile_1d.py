"""Draws the elements that a thread of 04 fetches from its block's tiles, and the elements of C that it computes."""

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..accesses import owners, plural
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, Figure, Page
from ..draw.maps import Matrix, side_by_side
from ..experiments.ceilings import card
from ..model.sass import sass_mix
from . import account
from .vectorized import milliseconds, profile

CELL, GAP = 5.4, 10
"""Pixels of an element, and between tiles."""

TILES = ((32, 4), (32, 8), (32, 16), (8, 8), (4, 16))
"""BK and TM of the variants of 04 that are compared."""


def fetch_map(run: Run, thread: int) -> Figure:
    """Draw the elements of both tiles that one thread fetches and those of C that it computes, solid; its warp's, pale.

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
        shares += [(tile, warp & ~mine, (colour, 0.35)), (tile, mine, colour)]
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


def tiles() -> Table:
    """Return the work of shared memory and the schedulers in 04 with other BK and TM, and the times, at 4096.

    Wavefronts are by the machine code: one for each read, as all lanes want the same of As; one for each row of a tile
    that a load touches; one for each store.
    """
    rows = []
    for BK, TM in TILES:
        kernel = find("04").variant(BK=BK, TM=TM)
        loop, (BM, BN) = sass_mix(kernel)["loop"], (kernel.parameters[name] for name in ("BM", "BN"))
        reads = sum(count for opcode, count in loop.items() if opcode.startswith("LDS")) / loop["FFMA"]
        loads, stores = max(1, WARP // BK) / BN + 1 / BM, 1 / BN + 1 / BM
        wavefronts = account.milliseconds(account.SIZE**3 / WARP * (reads + loads + stores))
        counted = profile(kernel).get("all")
        slots = account.issuing(counted) if counted else None
        rows.append((BK, TM, wavefronts, slots, milliseconds(kernel)))
    columns = [dict(zip(TILES, column, strict=True)) for column in list(zip(*rows, strict=True))[2:]]
    for column in columns:
        if None not in column.values():
            assert column[32, 16] < column[32, 8] < column[32, 4]
            assert column[32, 8] < column[8, 8] and column[32, 16] < column[4, 16]
    return Table(
        ("BK", "TM", "wavefronts, ms", "instructions, ms", "measured, ms"),
        [(*row[:2], *(f"{ms:.2f}" if ms else "–" for ms in row[2:])) for row in rows],
        f"Tiles of 04 with BM = BN = 64, at {account.SIZE}, {card().name}",
        "Wavefronts by the machine code, one in a cycle; instructions as counted, four in a cycle.",
    )
