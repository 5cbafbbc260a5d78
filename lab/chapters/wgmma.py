"""What chapters 18 and 19 draw and predict: who does what, what a descriptor names; and times, as far as recorded."""

from __future__ import annotations

import statistics

from ptxsim.tma import swizzled
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, Figure, Page
from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import READ
from ..records import files
from ..records.timings import Point, load

BEFORE, RUNG = find("16_mma"), find("18_wgmma")
FORMER = {"18_wgmma": "plain", "19_producer_warp": "a fetcher"}
"""The settings of one large file that 18, 19 and 20 were cut from, by the name of the file that has the step now."""
NOT_BY_ITSELF = "Timed as a setting of the file that 18, 19 and 20 were cut from; not timed by itself yet."
SIZES = (2048, 3072, 4096, 8192)
CHUNK, DOWN = 16, 3  # bytes of a chunk, and of the stage's picture: pixels to a row of 128 bytes
BOX = 64  # pixels: as many as a row has elements


def timed(kernel: Kernel, size: int) -> tuple[Point, str]:
    """Return a kernel's recorded time, and the sentence that must stand beside it, "" if it was timed by itself."""
    points = [point for point in load("hopper").points if point.size == (size,) * 3]
    own = [point for point in points if point.identity == files.identity(kernel)]
    former = [p for p in points if (p.kernel, p.label) == ("18_hopper_wgmma", FORMER.get(kernel.name))]
    return (own[0], "") if own else (former[0], NOT_BY_ITSELF)


def spread(point: Point) -> str:
    """Return a point's share of cuBLAS, and the lowest and the highest share that one process found."""
    ratios = [100 * statistics.median(p.cublas.ms) / statistics.median(p.own.ms) for p in point.processes]
    return f"{point.percent_of_cublas:.1f}% ({min(ratios):.1f}–{max(ratios):.1f})"


def rounds(size: int) -> float:
    """Return how many rounds the blocks of 18 or 19 take on all SMs, one block on each at a time."""
    return RUNG.grid(size, size) / card().sms


def times() -> Table:
    """Return 18's times by size, and how many blocks there are for the SMs."""
    found = [timed(RUNG, size) for size in SIZES]
    rows = [
        (f"{size:,}", f"{RUNG.grid(size, size):,}", f"{rounds(size):.2f}", point.ms, spread(point))
        for size, (point, _) in zip(SIZES, found, strict=True)
    ]
    columns = ("M = N = K", "blocks", "rounds", "ms", "of cuBLAS (processes)")
    return Table(columns, rows, f"18_wgmma, {card().name}", found[0][1])


def cycles() -> dict[str, float]:
    """Return the cycles that each part of an SM needs for a pair of tiles, at the highest clock."""
    of = RUNG.parameters
    tile_a, tile_b = (2 * of["BK"] * of[side] for side in ("BM", "BN"))  # bytes
    from_l2 = ceilings.load()[READ].tera_per_second * 1e6 / card().sms / card().boost_mhz  # bytes per cycle of an SM
    return {
        "L2, by reads alone": (tile_a + tile_b) / from_l2,
        "tensor cores, by the data sheet": of["BM"] * of["BN"] * of["BK"] / 2048,
        "shared memory, read by wgmma": (tile_a + of["BM"] // 64 * tile_b) / 128,
        "shared memory, written by copies": (tile_a + tile_b) / 128,
    }


def least_ms(part: str, mhz: float | None = None, full_rounds: bool = False) -> float:
    """Return the milliseconds that a part of the machine needs at 4096 if it is never idle."""
    tiles = -(-rounds(4096) // 1) if full_rounds else rounds(4096)
    return tiles * 4096 / RUNG.parameters["BK"] * cycles()[part] / (mhz or card().boost_mhz) / 1e3


def predicted() -> Table:
    """Return `cycles`, and the time at 4096 that follows."""
    rows = [(part, f"{needed:,.0f}", f"{least_ms(part):.3f}") for part, needed in cycles().items()]
    title = f"Predicted, {card().name}, cycles of {card().boost_mhz:,} MHz"
    return Table(("", "cycles for a pair of tiles", "ms at 4096, at least"), rows, title)


def who() -> Figure:
    """Draw who asks for tiles, who copies them, who is told, and who multiplies them."""
    sheet = Page(322)
    for box, fill, *lines in (
        ((8, 32, 150, 92), PALE, "global memory", "A and B, described", "by tensor maps"),
        ((240, 32, 150, 92), ORANGE, "copy engine", "fetches boxes,", "swizzles their chunks"),
        ((470, 32, 162, 122), (GREEN, 0.3), "shared memory", "4 stages: a tile of A", "and one of B in each;", "4 mbarriers full"),
        ((8, 206, 280, 92), (BLUE, 0.3), "warpgroup 0: threads 0 to 127", "rows 0 to 63 of the block's tile;", "thread 0 also asks for tiles"),
        ((352, 206, 280, 92), (BLUE, 0.3), "warpgroup 1: threads 128 to 255", "rows 64 to 127,", "with the same tile of B"),
    ):
        sheet.boxes([box], fill, edgecolor=INK)
        for i, line in enumerate(lines):
            sheet.text(box[0] + 10, box[1] + 22 + 22 * i, line, weight="normal" if i else "bold")
    for start, end, x, y, text in (
        ((110, 206), (264, 126), 34, 160, "1 asks for boxes"),
        ((158, 70), (238, 70), 170, 62, "2 reads"),
        ((390, 60), (468, 60), 400, 52, "3 writes"),
        ((390, 108), (468, 134), 246, 146, "4 counts the bytes that arrived"),
        ((506, 154), (250, 204), 396, 172, ""),
        ((540, 154), (540, 204), 372, 194, "5 waits, multiplies"),
    ):
        sheet.arrow(start, end)
        sheet.text(x, y, text)
    return sheet.finish(
        "Thread 0 asks the copy engine for boxes of A and B. The engine reads them, writes them into a stage of shared "
        "memory, and counts their bytes at the stage's mbarrier. Both warpgroups wait for that and multiply the tiles "
        "where they lie."
    )


def stage(k: int = 16, group: int = 1) -> Figure:
    """Draw a tile of A and its four boxes of B to one scale, and what one wgmma of a warpgroup reads of both.

    Rows and columns are those of the matrices, before chunks are swizzled.

    Parameters
    ----------
    k : int
        The first of the 16 columns of A, and rows of B's tile.
    group : int
        The warpgroup, which has 64 rows of A.
    """
    of, top = RUNG.parameters, 2 * LINE + 12
    tall_a, tall_b = DOWN * of["BM"], DOWN * of["BK"]
    sheet = Page(top + tall_a + LINE)
    lefts = [252 + 98 * n for n in range(of["BN"] // 64)]
    for left, tall in [(84, tall_a), *((left, tall_b) for left in lefts)]:
        sheet.boxes([(left, top, BOX, tall)], PALE, edgecolor=INK)
    sheet.boxes([(84 + k, top + group * 64 * DOWN, 16, 64 * DOWN)], BLUE)
    sheet.boxes([(left, top + k * DOWN, BOX, 16 * DOWN) for left in lefts], BLUE)
    for left, tall in [(84, tall_a), *((left, tall_b) for left in lefts)]:
        sheet.lines([[(left, top + y), (left + BOX, top + y)] for y in range(8 * DOWN, tall, 8 * DOWN)], (INK, 0.5))
    sheet.text(84, LINE, f"A, {of['BM']} × {of['BK']}", weight="bold")
    sheet.text(lefts[0], LINE, f"B, {of['BK']} × {of['BN']}, in four boxes of 64 columns", weight="bold")
    for row in (0, 64):
        sheet.text(76, top + row * DOWN + 12, f"row {row}", "right")
    for n, left in enumerate(lefts):
        sheet.text(left, top - 8, f"{n * of['BK'] * 128:,} B")
    y = top + k * DOWN
    sheet.lines([[(lefts[0] - 6, y), (lefts[0] - 12, y), (lefts[0] - 12, y + 8 * DOWN), (lefts[0] - 6, y + 8 * DOWN)]])
    sheet.text(lefts[0] - 18, y + 16, "stride", "right")
    y = top + tall_b + 14
    sheet.arrow((lefts[0], y), (lefts[1], y))
    sheet.text(lefts[0], y + LINE, "leading: from a box to the next one")
    y += 3 * LINE
    for i, line in enumerate(("Blue: what one wgmma reads.", "A line ends each atom of 8 rows, 1,024 bytes.")):
        sheet.text(lefts[0], y + i * LINE, line)
    return sheet.finish(
        f"A tile of A, {of['BM']} rows of 128 bytes, and the four boxes of a tile of B, {of['BK']} rows of 128 bytes "
        f"each, to one scale. One wgmma of warpgroup {group} reads columns {k} to {k + 15} of rows {64 * group} to "
        f"{64 * group + 63} of A, and rows {k} to {k + 15} of all boxes of B. Atoms of eight rows are 1,024 bytes "
        f"apart, boxes {of['BK'] * 128:,} bytes."
    )


def atom(row: int = 70, chunk: int = 3) -> Figure:
    """Draw the eight rows of a box round one chunk: where each chunk stands in the matrix, and in shared memory."""
    first, cell, tall, top = row // 8 * 8, 34, 24, 3 * LINE
    sheet = Page(top + 8 * tall + MARGIN)
    for left, title in ((58, "in A"), (352, "in shared memory")):
        sheet.text(left, LINE, title, weight="bold")
        for r in range(8):
            sheet.text(left - 6, top + r * tall + 17, str(first + r), "right")
            for c in range(8):
                at = c if left == 58 else swizzled(r * 128 + c * CHUNK) % 128 // CHUNK
                fill = ORANGE if (first + r, c) == (row, chunk) else (BLUE, 0.35) if c in (2, 3) else PALE
                box = (left + at * cell + 1, top + r * tall + 1, cell - 2, tall - 2)
                sheet.boxes([box], fill)
                sheet.text(box[0] + cell / 2, box[1] + 16, str(c), "center", on=fill)
    for c in range(0, 8, 2):
        sheet.text(58 + c * cell, top - 8, f"col {8 * c}")
        sheet.text(352 + c * cell, top - 8, f"bank {4 * c}")
    place = swizzled(row % 8 * 128 + chunk * CHUNK) % 128 // CHUNK
    return sheet.finish(
        f"Rows {first} to {first + 7} of a box of A, eight chunks in each row, as they stand in the matrix and in "
        f"shared memory. Chunk {chunk} of row {row} is at place {place} of its row. Chunks 2 and 3 of all eight rows "
        "are blue; in shared memory, chunk 2 of each row lies in other banks, and so does chunk 3."
    )
