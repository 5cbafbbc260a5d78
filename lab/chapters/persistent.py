"""What chapter 20 and its deeper page draw, predict and compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import hopper
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, WIDTH, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..variants import HOPPER_STEPS, find_variant
from .copy_engine import PRODUCT, SIZES, TWICE, chance, timed

KERNEL = find("20_persistent")
TILE = KERNEL.parameters
STEPS = (*HOPPER_STEPS, KERNEL)
ALL = (2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192)
"""The sizes of `copy_engine.TWICE`, smallest first."""


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


ROUNDS, PAIRS = 4, 4096 // TILE["BK"]
"""Tiles of C that the busiest SM computes at 4096, and pairs of tiles of A and B for each."""


def units(cycles: float) -> float:
    """Return how many units, each of one pair's products, a tile of C costs beyond its products, by a launch's cycles.

    That is at 4096, on the busiest SM, by the products' cycles in the data sheet.
    """
    return cycles / ROUNDS / PRODUCT - PAIRS


def lost(kernel: Kernel) -> float:
    """Return `units` of a launch at 4096 by Nsight Compute's count of cycles."""
    return units(profiles.measured(kernel)["SM cycles"])


def gap(writing: int = 10, copy: int = 2) -> Figure:
    """Draw what an SM does between two tiles of C, in units of one pair's product, in 19 and in a block that stays.

    The copy of a pair begins when the pair that had its stage before has been multiplied.
    """
    stages, first, end, wide = TILE["STAGES"], -5, 16, 24
    sheet = Page(11 * LINE + 14)
    for top, title, pause, begins in (  # begins: of the next tile's first copies
        (0, "19: the block ends, another one begins", writing + copy, [writing] * stages),
        (5 * LINE + 8, "A block that stays", writing, range(1 - stages, 1)),
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
                sheet.boxes(
                    [(92 + (start - first) * wide, y, (stop - start) * wide, tall)] * (start < stop),
                    (colour, dark),
                    INK,
                )
        sheet.boxes([(92 - first * wide, top + 3.6 * LINE, writing * wide, 18)], GREEN, INK)
        sheet.text(92 + (pause / 2 - first) * wide, top + 2.6 * LINE + 14, f"{pause} units, supposed", "center")
    sheet.text(MARGIN, sheet.height - 8, "Dark: this tile of C. Pale: the next one. Copies: a line for each stage.")
    return sheet.finish(
        "Copies, products and writes of an SM round the end of a tile of C. In 19 no product runs for "
        f"{writing + copy} units: the tile is written, then the next block waits for its first copies. In a block that "
        f"stays it is {writing} units: the tile is written, and the next tile's first copies are there."
    )


def halves() -> Figure:
    """Draw what two blocks of a cluster ask for, and where the copy engines put it."""
    sheet, wide, tall, top = Page(9.5 * LINE), 150, 34, 1.6 * LINE
    left, middle, right = MARGIN, (WIDTH - wide) / 2, WIDTH - MARGIN - wide
    for x, block, colour in ((left, 36, ORANGE), (right, 37, BLUE)):
        sheet.text(x, LINE, f"stage 0 of block {block}", weight="bold")
        sheet.diagram([((x, top, wide, 2 * tall), (colour, 0.3), "A, its own tile")], ())
    for y, rows, block, colour in ((4.7, "0 to 31", 36, ORANGE), (6.2, "32 to 63", 37, BLUE)):
        sheet.diagram(
            [
                ((x, y * LINE, wide, tall), (colour, 0.3), text)
                for x, text in (
                    (left, f"B, rows {rows}"),
                    (middle, f"block {block} asks"),
                    (right, f"B, rows {rows}"),
                )
            ],
            [
                ((start, y * LINE + tall / 2), (end, y * LINE + tall / 2))
                for start, end in ((middle, left + wide + 4), (middle + wide, right - 4))
            ],
        )
    sheet.text(MARGIN, sheet.height - MARGIN, "Orange: asked for by block 36. Blue: asked for by block 37.")
    return sheet.finish(
        "Stage 0 of blocks 36 and 37. Each block asks for its own tile of A. Block 36 asks for rows 0 to 31 of B and "
        "block 37 for rows 32 to 63, and each half lands in the shared memory of both."
    )


MOMENTS = (
    ("announces 49,152 bytes, asks", "full[0] lacks 49,152 bytes", "", "", "full[0] lacks 1 arrival"),
    (
        "its A and its half of B land",
        "full[0] lacks 16,384 bytes",
        ">",
        "36's half of B lands",
        "1 arrival, −16,384 bytes",
    ),
    ("", "", "", "announces 49,152 bytes, asks", "full[0] lacks 32,768 bytes"),
    ("37's half of B lands", "full[0]: phase over", "<", "its A and its half of B land", "full[0]: phase over"),
    ("8 warps multiply, and let go", "empty[0] lacks 8 of 16", ">", "its warps multiply", "empty[0] lacks 8 of 16"),
    ("the producer waits for room", "empty[0] lacks 8 of 16", "", "its warps multiply", "empty[0] lacks 8 of 16"),
    ("", "empty[0]: phase over", "<", "8 warps let go", "empty[0]: phase over"),
    ("announces and asks again", "full[0], phase 1: lacks 49,152 bytes", "", "", "full[0], phase 1: lacks 1 arrival"),
)
"""What happens to stage 0 in blocks 36 and 37, and what a barrier of each says then; and which acts on the other."""


def time_line() -> Figure:
    """Draw what happens to stage 0 in two blocks of a cluster, in the order of time, with their barriers' counts."""
    wide, tall, told, boxes, arrows = 276, 52, [], [], []
    sides = ((3.5 * MARGIN, ORANGE, "Block 36"), (WIDTH - MARGIN - wide, BLUE, "Block 37"))
    sheet = Page(LINE + 58 * len(MOMENTS) + MARGIN)
    for row, (ours, count, arrow, theirs, other) in enumerate(MOMENTS):
        y = 1.4 * LINE + 58 * row
        sheet.text(MARGIN, y + 22, str(row + 1))
        for (x, colour, block), *said in ((sides[0], ours, count), (sides[1], theirs, other)):
            boxes += [((x, y, wide, tall), (colour, 0.35) if said[0] else "none", *said)] * any(said)
            told += [f"{row + 1}. {block}: {', '.join(filter(None, said))}."] * any(said)
        arrows += {
            ">": [((sides[0][0] + wide + 3, y + tall / 2), (sides[1][0] - 3, y + tall / 2))],
            "<": [((sides[1][0] - 3, y + tall / 2), (sides[0][0] + wide + 3, y + tall / 2))],
        }.get(arrow, [])
    for x, _, block in sides:
        sheet.text(x, LINE, block, weight="bold")
    sheet.diagram(boxes, arrows)
    return sheet.finish("Stage 0 of blocks 36 and 37 in the order of time. " + " ".join(told))


def chosen(size: int) -> int:
    """Return how many columns the tile has that 20 chooses."""
    return hopper.quickest(size, size, card().sms).BN


def change(kernel: Kernel, base: Kernel, size: int) -> str:
    """Return by how much a kernel's share of cuBLAS is above another's, in both recordings."""
    return ", ".join(f"{gain - 1:+.1%}" for gain in np.divide(*shares((kernel, base), [size])[:, 0]))


def steps_table() -> Table:
    """Return what each step of 20 changes at each size, what all change together, and the noise."""
    nineteen = find("19_producer_warp")
    steps = (
        ("stay, write late", STEPS[0], nineteen),
        ("in groups", STEPS[1], STEPS[0]),
        ("in clusters", STEPS[2], STEPS[1]),
        ("late writing alone", STEPS[2], find_variant("20", "all at once")),
        ("width as chosen", KERNEL, STEPS[2]),
        ("20 against 19", KERNEL, nineteen),
        ("20 against 18", KERNEL, find("18_wgmma")),
    )
    same = {("width as chosen", size) for size in SIZES if chosen(size) == TILE["BN"]}  # KERNEL is STEPS[2] there
    rows = [
        (name, *("same code" if (name, size) in same else change(kernel, base, size) for size in SIZES))
        for name, kernel, base in steps
    ]
    rows.append(("noise", *(f"{chance(size):.1%}" for size in SIZES)))
    return Table(
        ("step", *(f"{size:,}" for size in SIZES)),
        rows,
        f"Change of the share of cuBLAS, in hopper and in hopper_again, {card().name}",
    )


def widths_table() -> Table:
    """Return what the choice of a width gains, where it isn't 256 columns."""
    rows = [
        (
            f"{size:,}",
            f"{rounds(size):.1f}",
            f"{chosen(size)}: {rounds(size, chosen(size)):.1f}",
            change(KERNEL, STEPS[2], size),
        )
        for size in ALL
        if chosen(size) != TILE["BN"]
    ]
    return Table(
        ("M = N = K", "rounds of 256 columns", "chosen: rounds", "measured"),
        rows,
        f"A width for each problem: change of the share, {card().name}",
    )
