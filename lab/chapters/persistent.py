"""What chapter 20 and its deeper page draw, predict and compare."""

from __future__ import annotations

import statistics

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import hopper

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PINK, Figure, Page
from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import DRAM
from ..records.timings import recorded
from ..variants import HOPPER_STEPS

KERNEL = find("20_persistent")
TILE = KERNEL.parameters
SIZE = 4096
STEPS = (*HOPPER_STEPS, KERNEL)
FLOP = 4096
"""Operations of an SM's tensor cores in a cycle, by the data sheet: 1,024 each for four of them."""


def mean(recording: str) -> float:
    """Return the geometric mean of 20's share of cuBLAS over the sizes of a recording."""
    shares = [point.percent_of_cublas for point in recorded(KERNEL, None, recording).points]
    return statistics.geometric_mean(shares)


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


def gap(writing: int = 6, copy: int = 2) -> Figure:
    """Draw what an SM does between two tiles of C, in units of the product of one pair of tiles, in 19 and in 20."""
    half, pause, first, end, this = writing // 2, writing + copy, -6, 14, [(i, 1, 1) for i in range(-6, 0)]
    ways = {  # copies, products and writes: where each begins, how long it takes, and how dark it is
        "19: the block ends, another one begins": (
            [(first, 4, 1), (writing, end - writing, 0.4)],
            [*this, *((i, 1, 0.4) for i in range(pause, end))],
            [(0, writing, 1)],
        ),
        "20: the block stays": (
            [(first, 4, 1), (-copy, 2 * copy, 0.4), (half + 1, end - half - 1, 0.4)],
            [*this, *((i, 1, 0.4) for i in range(half, end))],
            [(0, half, 1), *((half + 1 + i, half / 4, 1) for i in range(4))],
        ),
    }
    sheet = Page(12 * LINE)
    for top, (title, rows) in zip((0, 5 * LINE), ways.items(), strict=True):
        sheet.text(MARGIN, top + LINE, title, weight="bold")
        for i, (name, colour) in enumerate((("copies", ORANGE), ("products", BLUE), ("writes C", GREEN))):
            y = top + (1.4 + i) * LINE
            sheet.text(82, y + 15, name, "right")
            for start, long, dark in rows[i]:
                sheet.boxes([(92 + (start - first) * 26, y, long * 26, 18)], (colour, dark), edgecolor=INK)
    sheet.text(MARGIN, 11 * LINE, "Dark: this tile of C. Pale: the next one. A product takes one unit of time.")
    return sheet.finish(
        f"Copies, products and writes of an SM round the end of a tile of C. In 19 no product runs for {pause} units: "
        f"the tile is written, then the next block waits for its first copies. In 20 it is {half} units: half of the "
        "tile is written, and the next tile's first copies are there. The other half is written in four parts, beside "
        "the next tile's second to fifth product."
    )


def by_round(size: int, group: int = TILE["GROUP"], cluster: int = TILE["CLUSTER"]) -> list[list[tuple[int, int]]]:
    """Return the corners of the tiles of each round, in the order of the blocks, if all blocks keep step."""
    places, every = card().sms // cluster, -(-size // (cluster * TILE["BM"])) * -(-size // TILE["BN"])
    return [
        [corner(i, rank, size, group, cluster) for i in range(at, min(at + places, every)) for rank in range(cluster)]
        for at in range(0, every, places)
    ]


def needed(size: int, group: int, cluster: int) -> float:
    """Return the mean KiB of different tiles of A and B that a round needs for each step of BK."""
    sides = [[len(set(side)) for side in zip(*corners, strict=True)] for corners in by_round(size, group, cluster)]
    return float(np.mean(np.dot(sides, [2 * TILE["BK"] * TILE[side] / 1024 for side in ("BM", "BN")])))


def order(block: int = 37) -> Figure:
    """Draw in which round each tile of C is computed at 4096, row by row and in groups, and which are a block's."""
    sheet, said, wide, tall = Page(3 * LINE + 7 * SIZE / TILE["BM"]), [], 14, 7
    for x, title, group, cluster in ((MARGIN, "row by row", 1, 1), (340, "in groups of 12 rows", 12, 2)):
        sheet.text(x, LINE, title, weight="bold")
        for corners, colour in zip(by_round(SIZE, group, cluster), (BLUE, ORANGE, GREEN, PINK), strict=True):
            boxes = [(x + c / 256 * wide, 1.5 * LINE + r / 128 * tall, wide - 1, tall - 1) for r, c in corners]
            sheet.boxes(boxes, (colour, 0.55))
            if cluster > 1 or colour == BLUE:  # a block that stays has a tile in each round
                sheet.boxes(boxes[block : block + 1], edgecolor=INK, linewidth=2.5)
            sides = [len(set(side)) for side in zip(*corners, strict=True)]
            said.append(f"{title}: a round of {sides[0]} rows and {sides[1]} columns")
    sheet.text(MARGIN, sheet.height - 8, f"Rounds: blue, orange, green, pink. Framed: the tiles of block {block}.")
    return sheet.finish(f"C of {SIZE} × {SIZE} in tiles of 128 × 256. {'; '.join(said)}.")


def a_round() -> float:
    """Return the milliseconds in which all SMs write a tile of C each, at the rate of a copy in DRAM."""
    return card().sms * TILE["BM"] * TILE["BN"] * 4 / ceilings.load()[DRAM].tera_per_second / 1e9


def chosen(size: int) -> int:
    """Return how many columns the tile has that 20 chooses."""
    return min(hopper.WIDTHS, key=lambda width: hopper.columns(width, size, size, card().sms)).BN


def ideal(busiest: bool = False) -> float:
    """Return the cycles of tensor cores at 4096 by the data sheet: of all SMs in the mean, or of the busiest."""
    return 2 * SIZE**3 / FLOP / card().sms * (np.ceil(rounds(SIZE)) / rounds(SIZE) if busiest else 1)
