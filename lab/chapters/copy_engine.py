"""Draws the work of each warp and the fields of a descriptor for chapters 18 to 20, and reads their recorded times."""

import numpy as np

from ptxsim import swizzled
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, Figure, Page
from ..records.timings import Point, load, recorded

RUNG, SIZES = find("18_wgmma"), (2048, 3072, 4096, 8192)
TWICE = ("hopper", "hopper_again")
"""Two recordings of one plan: the same code, measured twice."""
STUDENT = {6: 2.447, 12: 2.179}
"""The standard deviations that one in twenty differences exceeds, by degrees of freedom: Student's t."""
CHUNK, BOX, DOWN = 16, 64, 3  # bytes; elements in a row of a box, and its pixels; pixels from row to row


def timed(kernel: Kernel, size: int, recording: str = TWICE[0]) -> Point:
    """Return the recorded times of a kernel at M = N = K = `size`, in turns with cuBLAS."""
    return recorded(kernel, [size], recording).points[0]


def twice(size: int) -> np.ndarray:
    """Return the shares of cuBLAS in % at M = N = K = `size`, by recording of `TWICE`, and by the point in it."""
    shares = [{point.key: point.percent_of_cublas for point in load(name).points if size == point.M} for name in TWICE]
    return np.array([[of[key] for key in shares[0]] for of in shares])


def moves(size: int) -> np.ndarray:
    """Return by what fraction each share at M = N = K = `size` rose from one recording to the other."""
    return np.diff(np.log(twice(size)), axis=0)[0]


def chance(size: int) -> float:
    """Return the noise at M = N = K = `size`: by what fraction two kernels of a recording may differ by chance.

    Of what separates two recordings of the same code, a shift of all is left out. One difference in twenty of the rest
    exceeds what is returned, by `STUDENT` and the standard deviation.
    """
    return float(STUDENT[len(moves(size)) - 1] * np.std(moves(size), ddof=1))


PRODUCT = RUNG.parameters["BM"] * RUNG.parameters["BN"] * RUNG.parameters["BK"] // 2048
"""Cycles that the tensor cores of an SM need for a pair of tiles, by the data sheet's 2,048 multiply-adds a cycle."""


def who() -> Figure:
    """Draw the threads and units that ask for tiles, copy them, are told of them, and multiply them."""
    sheet = Page(306)
    boxes = (
        ((8, 8, 150, 92), PALE, "global memory", "A and B, described", "by tensor maps"),
        ((234, 8, 150, 92), (ORANGE, 0.4), "copy engine", "fetches boxes", "and swizzles them"),
        (
            (462, 8, 170, 122),
            (GREEN, 0.3),
            "shared memory",
            "4 stages, each with",
            "a tile of A, one of B,",
            "and an mbarrier",
        ),
        (
            (8, 206, 280, 92),
            (BLUE, 0.3),
            "warpgroup 0: threads 0 to 127",
            "rows 0 to 63 of the block's tile;",
            "thread 0 also asks for boxes",
        ),
        (
            (352, 206, 280, 92),
            (BLUE, 0.3),
            "warpgroup 1: threads 128 to 255",
            "rows 64 to 127,",
            "with the same tile of B",
        ),
    )
    arrows = (
        ((110, 206), (258, 102), 58, 152, "1 asks for boxes"),
        ((158, 46), (232, 46), 167, 38, "2 reads"),
        ((384, 34), (460, 34), 392, 26, "3 writes"),
        ((384, 84), (460, 84), 392, 76, "4 counts"),
        ((500, 130), (250, 204), 322, 160, "5 ready"),
        ((566, 130), (566, 204), 506, 172, "5 ready"),
    )
    sheet.diagram(boxes, arrows)
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
    of, top, left, apart = RUNG.parameters, 2 * LINE + 12, 252, 98
    row, below = top + k * DOWN, top + DOWN * of["BK"] + 14
    sheet = Page(top + DOWN * of["BM"] + LINE)
    boxes = [(left + apart * n, of["BK"], (0, k, BOX, 16), n * of["BK"] * 128) for n in range(of["BN"] // BOX)]
    for x, rows, (i, j, wide, tall), start in [(84, of["BM"], (k, 64 * group, 16, 64), 0), *boxes]:
        sheet.boxes([(x, top, BOX, rows * DOWN)], PALE, edgecolor=INK)
        sheet.boxes([(x + i, top + j * DOWN, wide, tall * DOWN)], BLUE)
        sheet.lines([[(x, top + y * DOWN), (x + BOX, top + y * DOWN)] for y in range(8, rows, 8)], (INK, 0.5))
        sheet.text(x, top - 8, f"byte {start:,}")
    for x, y, text, align in (
        (84, LINE, f"A, {of['BM']} × {of['BK']}", "left"),
        (left, LINE, f"B, {of['BK']} × {of['BN']}, in four boxes of 64 columns", "left"),
        (76, top + 12, "row 0", "right"),
        (76, top + 64 * DOWN + 12, "row 64", "right"),
        (left - 18, row + 16, "stride", "right"),
        (left, below + LINE, "leading: from a box to the next one", "left"),
        (left, below + 3 * LINE, "Blue: what one wgmma reads.", "left"),
        (left, below + 4 * LINE, "A line ends each atom of 8 rows, 1,024 bytes.", "left"),
    ):
        sheet.text(x, y, text, align)
    sheet.lines([[(left - 6, row), (left - 12, row), (left - 12, row + 8 * DOWN), (left - 6, row + 8 * DOWN)]])
    sheet.arrow((left, below), (left + apart, below))
    return sheet.finish(
        f"A tile of A, {of['BM']} rows of 128 bytes, and the four boxes of a tile of B, {of['BK']} rows of 128 bytes "
        f"each, to one scale. One wgmma of warpgroup {group} reads columns {k} to {k + 15} of rows {64 * group} to "
        f"{64 * group + 63} of A, and rows {k} to {k + 15} of all boxes of B. Atoms of eight rows are 1,024 bytes "
        f"apart, boxes {of['BK'] * 128:,} bytes."
    )


def atom(row: int = 70, chunk: int = 3) -> Figure:
    """Draw the eight rows of a box round one chunk: where each chunk stands in the matrix, and in shared memory."""
    first, cell, tall, top = row // 8 * 8, 32, 24, 3 * LINE
    sheet = Page(top + 8 * tall + MARGIN)
    for left, title, heads, apart in ((58, "in A", "col {}", 8), (374, "in shared memory", "bank {}", 4)):
        sheet.text(left, LINE, title, weight="bold")
        for r, c in np.ndindex(8, 8):
            place = c if left == 58 else swizzled(r * 128 + c * CHUNK) % 128 // CHUNK
            fill = ORANGE if (first + r, c) == (row, chunk) else (BLUE, 0.35) if c in (2, 3) else PALE
            x, y = left + place * cell + 1, top + r * tall + 1
            sheet.boxes([(x, y, cell - 2, tall - 2)], fill)
            sheet.text(x + cell / 2, y + 16, str(c), "center", on=fill)
            sheet.text(left + c * cell, top - 8, heads.format(c * apart) if r == 0 and c % 2 == 0 else "")
            sheet.text(left - 6, top + r * tall + 17, str(first + r) if c == 0 else "", "right")
    return sheet.finish(
        f"Rows {first} to {first + 7} of a box of A, eight chunks in each row, as they stand in the matrix and in "
        f"shared memory. Chunk {chunk} of row {row} is at place {chunk ^ row % 8} of its row. Chunks 2 and 3 of all "
        "eight rows are blue; in shared memory, chunk 2 of each row lies in other banks, and so does chunk 3."
    )
