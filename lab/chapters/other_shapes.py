"""The page beside chapter 13: shapes at which 13 loses, and what cuBLAS launches."""

import re
from collections.abc import Iterable
from itertools import pairwise, product
from statistics import geometric_mean

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.table import Table

from ..experiments import anatomy
from ..experiments.ceilings import card
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point
from .by_shape import LONG, divided, drawn, found, raced, settings, undone

GROUPS = {
    "odd": lambda size: size[1] > 1 and size[1] % 4 > 0,
    "short": lambda size: size[2] < 4,
    "deep": lambda size: size[2] >= 16384,
}
"""To which of three groups a shape belongs."""
DEPTHS = 8, 256, 512, 1024, 2048, 12000
"""Bounds of K by which the table has random products."""


def lost() -> list[Point]:
    """Return the points at which 13 is behind the better opponent, those with the most multiply-adds first."""
    behind = [raced()[size] for size in SHAPES if raced()[size].percent_of_searched < 100]
    return sorted(behind, key=lambda point: -point.M * point.N * point.K)


def behind() -> Table:
    """Return where 13 is behind."""
    return Table(
        ("M×N×K", "13's tile, whole tiles + shares", "13, µs", "of plain cuBLAS", "of the opponent"),
        [
            (
                times_of(point.size),
                divided(found()[point.size].best),
                f"{1e3 * point.ms:,.1f}",
                f"{point.percent_of_cublas:.1f}%",
                f"{point.percent_of_searched:.1f}%",
            )
            for point in lost()
        ],
        card().name,
        "Those with the most multiply-adds first. The first has 8 · 197 = 1,576 tiles: 1,452 have a block each, and "
        "124 blocks share the rest. With 0 + 128, 128 blocks share all. /2: two groups of warps divide a step's depth.",
    )


def one_more() -> Table:
    """Return what a row, a column or a k more or less than 2,048 costs 13, and the better opponent."""
    points, rows, square = raced(), [], raced()[2048, 2048, 2048]
    for at, n in ((0, 2048), *product(range(3), (2047, 2049))):
        point = points[tuple(n if i == at else 2048 for i in range(3))]
        times = [(p.ms, p.ms * p.percent_of_searched / 100) for p in (point, square)]
        changes = (f"{round(new / old - 1, 3) + 0.0:+.1%}" for new, old in zip(*times, strict=True))
        name = f"{'MNK'[at]} = {n:,}" if n % 2 else "all 2,048"
        rows.append((name, divided(found()[point.size].best), 1e3 * point.ms, *changes))
    columns = ("", "13's tile, whole tiles + shares", "13, µs", "13 against 2048", "opponent against 2048")
    return Table(columns, rows, f"{card().name}, 13 with searched settings")


def losses(points: list[Point], below: float = 100) -> int:
    """Return at how many points 13 has less than this percentage of the better opponent."""
    return sum(point.percent_of_searched < below for point in points)


def group(odd: bool, long: bool, depths: tuple[int, int] = (8, 12000)) -> list[float]:
    """Return 13's shares at random products with N no multiple of 4 or one, that take `LONG` or not, by K's bounds."""
    return [
        p.percent_of_searched
        for p in drawn()
        if (p.N % 4 > 0, p.ms >= LONG) == (odd, long) and depths[0] <= p.K < depths[1]
    ]


def kinds() -> Table:
    """Return 13's shares at random products that take `LONG`, by K and N."""
    return Table(
        ("K", "4 doesn't divide N", "10% to 90%", "4 divides N", "10% to 90%"),
        [
            (
                f"{least:,} to {below - 1:,}" if below < 12000 else f"{least:,} and more",
                *(
                    text
                    for of in (group(odd, True, (least, below)) for odd in (True, False))
                    for text in (
                        f"{geometric_mean(of):.1f}% of {len(of)}",
                        "{:.0f}% to {:.0f}%".format(*np.quantile(of, (0.1, 0.9))),
                    )
                ),
            )
            for least, below in pairwise(DEPTHS)
        ],
        f"Geometric mean of the opponent's speed, products that take 13 {1e3 * LONG:.0f} µs or more, {card().name}",
        "Each time is the median of five turns of single launches.",
    )


def launched(sizes: Iterable[Size]) -> Table:
    """Return what plain cuBLAS launches."""
    rows = []
    for size in sizes:
        point = anatomy.of(cublas.sgemm, size)
        main = next((one for one in point.launches if anatomy.tile_of(one.name)), point.main)
        tile = "×".join(map(str, reversed(anatomy.tile_of(main.name) or ()))) or None
        family = re.findall("xmma|cutlass|Gemv", main.name)[0].lower()
        adds = [re.search("(?i)split_?k", one.name) for one in point.launches[1:]]
        assert all(adds)
        rows.append((times_of(size), family, tile, "×".join(map(str, main.grid)), len(point.launches)))
    return Table(("M×N×K", "family", "tile", "grid", "launches"), rows, f"Plain cuBLAS, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by name, after checking what they say."""
    odd, even, short = (
        [geometric_mean(group(N, long, ends)) for N in sides for ends in pairwise(depths)]
        for sides, long, depths in (
            ((True,), True, DEPTHS),
            ((False,), True, DEPTHS),
            ((True, False), False, DEPTHS[::5]),
        )
    )
    plain = [of for of in lost() if of.percent_of_cublas < 100]
    of_group = {name: [raced()[size] for size in SHAPES if belongs(size)] for name, belongs in GROUPS.items()}
    assert [len(lost()), sum(map(losses, of_group.values())), losses(lost(), 98)] == [10, 10, 9]
    assert (len(plain), losses(plain, 98)) == (5, 4) and max(odd[:2]) < 98 < 100 < min(*odd[2:], *even, *short)
    assert [of.size for of in plain if found()[of.size].cublas_ms < found()[of.size].ms] == [of.size for of in plain]
    assert [found()[of].best.whole for of in ((2049, 2048, 2048), (2048, 2049, 2048), lost()[0].size)] == [
        33 * 4,
        16 * 33,
        8 * 197 - 124,
    ]
    return {
        "card": card().name,
        "shapes": str(len(SHAPES)),
        "ahead": str(len(SHAPES) - len(lost())),
        **{name: f"{losses(of)} of {len(of)}" for name, of in of_group.items()},
        **{
            f"{name} by": " to ".join(f"{100 - end(p for p in shares if p < 100):.0f}%" for end in (max, min))
            for name, shares in ((name, [p.percent_of_searched for p in of]) for name, of in of_group.items())
        },
        "random behind": f"{losses(drawn())} of {len(drawn()):,}",
        "random least": f"{min(p.percent_of_searched for p in drawn()):.0f}%",
        **{
            f"random {name}": f"{sum(of < 100 for of in shares)} of {len(shares)}"
            for name, shares in (("odd", group(True, True)), ("even", group(False, True)))
        },
        "settings": str(len(settings())),
        "random": f"{len(drawn()):,}",
        "long": f"{1e3 * LONG:.0f} µs",
        "least short": f"{min(short):.0f}%",
        "branch": next(
            f"{of.ms / undone()['nothing'].ms - 1:.1%}" for name, of in undone().items() if "six copies" in name
        ),
    }
