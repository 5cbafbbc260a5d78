"""What chapters 18 and 19 draw: who does what, and what a descriptor names; and their times, as far as recorded."""

from __future__ import annotations

import statistics

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table, shown

from ..draw.figure import BLUE, GREEN, INK, LINE, ORANGE, PALE, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..records import files
from ..records.timings import Point, load, recorded

BEFORE, RUNG = find("16_mma"), find("18_wgmma")
SETTINGS = {"18_wgmma": "plain", "19_producer_warp": "a fetcher"}
"""The steps of one large file that 18, 19 and 20 were cut from, by the name of the file that has the step now."""
BY_ITSELF = "timed as a setting of the file that 18, 19 and 20 were cut from; this file has not been timed by itself yet"
SIZES = (2048, 3072, 4096, 8192)
CHUNK, DOWN, CELL = 8, 2, 20  # pixels: the width of a chunk and the height of a row, and the height of a cell close up
BOX = 8 * CHUNK


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
