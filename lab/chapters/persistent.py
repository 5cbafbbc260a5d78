"""What chapter 20 and its deeper page draw, predict and compare."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import hopper
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, Figure, Page
from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import DRAM
from ..records.timings import recorded
from ..variants import HOPPER_STEPS, HOPPER_WIDTHS
from .copy_engine import SIZES, TWICE, chance, timed

KERNEL = find("20_persistent")
TILE = KERNEL.parameters
STEPS = (*HOPPER_STEPS, KERNEL)
ALL = (2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192)
"""The sizes of `copy_engine.TWICE`, smallest first."""


def mean(recording: str) -> float:
    """Return the geometric mean of 20's share of cuBLAS over the sizes of a recording."""
    return statistics.geometric_mean(at.percent_of_cublas for at in recorded(KERNEL, None, recording).points)


def shares(kernels: Sequence[Kernel], sizes: Sequence[int] = SIZES) -> np.ndarray:
    """Return the shares of cuBLAS in % by kernel, by size, and by recording of `copy_engine.TWICE`."""
    return np.array([[[timed(each, size, of).percent_of_cublas for of in TWICE] for size in sizes] for each in kernels])


def corner(number: int, rank: int, size: int, group: int = TILE["GROUP"], cluster: int = TILE["CLUSTER"]) -> tuple:
    """Return where tile `number` of a cluster begins for its block of that rank, as `corner` in the kernel does."""
    high, together = cluster * TILE["BM"], group // cluster
    down, across = -(-size // high), -(-size // TILE["BN"])
    first = number // (together * across) * together
    inside, height = number % (together * across), min(down - first, together)
    return (first + inside % height) * high + rank * TILE["BM"], inside // height * TILE["BN"]


def rounds(size: int, width: int = TILE["BN"]) -> float:
    """Return how many tiles of C there are for each pair of SMs. A fraction is a last round with SMs to spare."""
    return -(-size // (2 * TILE["BM"])) * -(-size // width) / (card().sms // 2)


def gap(writing: int = 8, copy: int = 2) -> Figure:
    """Draw what an SM does between two tiles of C, in units of the product of one pair of tiles, in 19 and in 20.

    The copy of a pair begins when the pair that had its stage before has been multiplied.
    """
    half, stages, first, end = writing // 2, TILE["STAGES"], -5, 14
    sheet = Page(11 * LINE + 14)
    for top, title, pause, begins, writes in (  # when a tile's first copies begin; the parts of C that are written
        (0, "19: the block ends, another one begins", writing + copy, [writing] * stages, [(0, writing)]),
        (
            5 * LINE + 8,
            "20: the block stays",
            half,
            range(1 - stages, 1),
            [(0, half), *((half + i, 1) for i in range(1, 5))],
        ),
    ):
        sheet.text(MARGIN, top + LINE, title, weight="bold")
        for i, name in enumerate(("copies", "products", "writes C")):
            sheet.text(82, top + (1.4 + i) * LINE + 15 + 3 * (i == 0), name, "right")
        for pair in range(first, end + stages):
            at, dark = pair + pause * (pair >= 0), 0.4 if pair >= 0 else 1
            copied = begins[pair] if 0 <= pair < stages else at + 1 - stages
            for start, stop, y, tall, colour in (
                (max(copied, first), min(copied + copy, end), top + 1.4 * LINE + 6 * (pair % stages), 5, ORANGE),
                (at, min(at + 1, end), top + 2.6 * LINE, 18, BLUE),
            ):
                box = (92 + (start - first) * 26, y, (stop - start) * 26, tall)
                sheet.boxes([box] * (start < stop), (colour, dark), edgecolor=INK)
        sheet.boxes([(92 + (at - first) * 26, top + 3.6 * LINE, long * 26, 18) for at, long in writes], GREEN, INK)
        sheet.text(92 + (pause / 2 - first) * 26, top + 2.6 * LINE + 14, f"{pause} units", "center")
    sheet.text(MARGIN, sheet.height - 8, "Dark: this tile of C. Pale: the next one. Copies: a line for each stage.")
    return sheet.finish(
        "Copies, products and writes of an SM round the end of a tile of C. In 19 no product runs for "
        f"{writing + copy} units: the tile is written, then the next block waits for its first copies. In 20 it is "
        f"{half} units: half of the tile is written, and the next tile's first copies are there. The other half is "
        "written in four parts, beside the next tile's second to fifth product."
    )


def halves() -> Figure:
    """Draw what two blocks of a cluster ask for, and where the copy engines put it."""
    sheet, wide, tall, top = Page(12 * LINE), 150, 34, 1.6 * LINE
    for x, block, colour in ((MARGIN, 36, ORANGE), (sheet.width - MARGIN - wide, 37, BLUE)):
        sheet.text(x, LINE, f"stage 0 of block {block}", weight="bold")
        sheet.boxes([(x, top, wide, 2 * tall)], (colour, 0.3), edgecolor=INK)
        sheet.text(x + 10, top + tall + 5, "its own tile of A")
        for half, fill in enumerate((ORANGE, BLUE)):
            y = top + (2.6 + half) * tall
            sheet.boxes([(x, y, wide, tall)], (fill, 0.3), edgecolor=INK)
            sheet.text(x + 10, y + 22, f"B, rows {32 * half} to {32 * half + 31}")
    for half, (block, fill) in enumerate(((36, ORANGE), (37, BLUE))):
        y = top + (2.6 + half) * tall
        sheet.boxes([(245, y, 150, tall)], (fill, 0.3), edgecolor=INK)
        sheet.text(320, y + 22, f"block {block} asks once", "center")
        sheet.arrow((245, y + tall / 2), (MARGIN + wide + 4, y + tall / 2))
        sheet.arrow((395, y + tall / 2), (sheet.width - MARGIN - wide - 4, y + tall / 2))
    sheet.text(MARGIN, sheet.height - 2 * LINE, "Orange: asked for by block 36. Blue: by block 37.")
    sheet.text(MARGIN, sheet.height - LINE, "Each half of B is asked for once and lands in both SMs.")
    return sheet.finish(
        "Stage 0 of blocks 36 and 37. Each block asks for its own tile of A. Block 36 asks for rows 0 to 31 of B and "
        "block 37 for rows 32 to 63, and each half lands in the shared memory of both."
    )


def a_round() -> float:
    """Return the milliseconds in which all SMs write a tile of C each, at the rate of a copy in DRAM."""
    return card().sms * TILE["BM"] * TILE["BN"] * 4 / ceilings.load()[DRAM].tera_per_second / 1e9


def chosen(size: int) -> int:
    """Return how many columns the tile has that 20 chooses."""
    return min(hopper.WIDTHS, key=lambda width: hopper.columns(width, size, size, card().sms)).BN


def by_width(size: int) -> float:
    """Return by what fraction the chosen width should be faster than 256 columns: the busiest SM has fewer columns."""
    ways = [hopper.columns(width, size, size, card().sms) for width in hopper.WIDTHS]  # that of 256 columns first
    return ways[0] / min(ways) - 1


def change(kernel: Kernel, base: Kernel, size: int) -> str:
    """Return by how much a kernel's share of cuBLAS is above another's, in both recordings."""
    return ", ".join(f"{gain - 1:+.1%}" for gain in np.divide(*shares((kernel, base), [size])[:, 0]))


def steps_table() -> Table:
    """Return what each step of 20 changes at each size, what all change together, and the noise."""
    eighteen, nineteen = find("18_wgmma"), find("19_producer_warp")
    names = ("stay, write late", "in groups", "in clusters", "width as chosen")
    steps = [*zip(names, STEPS, (nineteen, *STEPS), strict=False)]
    steps += [("20 against 19", KERNEL, nineteen), ("20 against 18", KERNEL, eighteen)]
    rows = [(name, *(change(kernel, base, size) for size in SIZES)) for name, kernel, base in steps]
    rows.append(("noise", *(f"{chance(size):.1%}" for size in SIZES)))
    title = f"Change of the share of cuBLAS, in hopper and in hopper_again, {card().name}"
    return Table(("step", *(f"{size:,}" for size in SIZES)), rows, title)


def clusters_table() -> Table:
    """Return what clusters of two change with each width, at all sizes of the two recordings."""
    pairs = (STEPS[2:0:-1], HOPPER_WIDTHS[1::-1], HOPPER_WIDTHS[:1:-1])
    rows = [(f"{size:,}", *(change(*pair, size) for pair in pairs), f"{chance(size):.1%}") for size in ALL]
    heads = ("M = N = K", *(f"{pair[0].parameters['BN']} columns" for pair in pairs), "noise")
    return Table(heads, rows, f"Clusters of two: change of the share, in hopper and in hopper_again, {card().name}")


def widths_table() -> Table:
    """Return what the choice of a width gains, as predicted and as measured, where it isn't 256 columns."""
    rows = [
        (
            f"{size:,}",
            f"{rounds(size):.1f}",
            f"{chosen(size)}: {rounds(size, chosen(size)):.1f}",
            f"{by_width(size):+.1%}",
            change(KERNEL, STEPS[2], size),
        )
        for size in ALL
        if chosen(size) != TILE["BN"]
    ]
    heads = ("M = N = K", "rounds of 256 columns", "chosen: rounds", "predicted", "measured")
    return Table(heads, rows, f"A width for each problem: change of the share, {card().name}")
