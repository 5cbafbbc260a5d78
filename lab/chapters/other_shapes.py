"""The page beside chapter 13: shapes at which 13 loses, and what cuBLAS launches."""

import re
from collections.abc import Iterable
from itertools import pairwise, product
from statistics import geometric_mean

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.table import Table

from ..experiments import anatomy, tune
from ..experiments.ceilings import card
from ..records.shapes import FAMILIES, FAMILY_OF, SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point
from .by_shape import LONG, drawn, found, mean_and_least, means, raced, share

TIMES = (0, 10, 20, 50, 200, np.inf)
"""Of random products, in µs: where one line of their table ends, and the next begins."""


def families() -> Table:
    """Return 13's share of the better opponent, by family."""
    rows = []
    for family in FAMILIES:
        sizes = [size for size in SHAPES if FAMILY_OF[size] == family]
        example = times_of(sizes[len(sizes) // 2])
        rows.append((family, example, len(sizes), *mean_and_least(sizes, "both")))
    return Table(
        ("family", "for example", "shapes", "mean", "at the worst"), rows, f"Of the better opponent, {card().name}"
    )


def lost() -> list[Point]:
    """Return the points at which 13 is behind the better opponent, the worst first."""
    points = sorted((raced()[size] for size in SHAPES), key=lambda point: point.percent_of_searched)
    return [point for point in points if point.percent_of_searched < 100]


def why(point: Point) -> str:
    """Return the group of a point at which 13 is behind: the first that fits."""
    if point.N > 1 and point.N % 4:
        return "N % 4 > 0"
    return "K < 4" if point.K < 4 else "long K"


def behind() -> Table:
    """Return where 13 is behind, by group."""
    points = sorted(lost(), key=lambda point: ("N % 4 > 0", "K < 4", "long K").index(why(point)))
    return Table(
        (
            "M×N×K",
            "group",
            "of plain cuBLAS",
            "of the better opponent",
            "cuBLASLt's fastest: number, tile by columns, parts of K",
        ),
        [
            (
                times_of(point.size),
                why(point),
                f"{point.percent_of_cublas:.1f}%",
                f"{point.percent_of_searched:.1f}%",
                re.sub("algorithm |tile |split K |stages [^,]*, |, tile number 0.*", "", point.searched.algorithm),
            )
            for point in points
        ],
        card().name,
    )


def one_more() -> Table:
    """Return what a row, a column or a k more or less than 2,048 costs 13, and the better opponent."""
    points, rows, square = raced(), [], raced()[2048, 2048, 2048]
    for at, n in ((0, 2048), *product(range(3), (2047, 2049))):
        point = points[tuple(n if i == at else 2048 for i in range(3))]
        times = [(p.ms, p.ms * p.percent_of_searched / 100) for p in (point, square)]
        changes = (f"{round(new / old - 1, 3) + 0.0:+.1%}" for new, old in zip(*times, strict=True))
        name = f"{'MNK'[at]} = {n:,}" if n % 2 else "all 2,048"
        rows.append((name, tune.tile_of(found()[point.size].best.setting), 1e3 * point.ms, *changes))
    columns = ("", "13's tile", "13, µs", "13 against 2048", "opponent against 2048")
    return Table(columns, rows, card().name)


def losses(points: list[Point], below: float = 100) -> int:
    """Return at how many points 13 has less than this percentage of the better opponent."""
    return sum(point.percent_of_searched < below for point in points)


def risky(point: Point) -> bool:
    """Return whether the N of a product is no multiple of 4, and its K is below 512."""
    return point.N % 4 > 0 and point.K < 512


def kinds() -> Table:
    """Return 13's shares at random products, by how long they take, and whether they are risky."""
    return Table(
        ("13's µs", "N % 4 > 0 and K < 512", "all others"),
        [
            (
                f"{low} to {high}" if high < np.inf else f"{low} and more",
                *(
                    f"{means([p.percent_of_searched for p in of])[0]}, {losses(of, 98)} of {len(of)}"
                    for which in (True, False)
                    for of in [[p for p in drawn() if low <= 1e3 * p.ms < high and risky(p) == which]]
                ),
            )
            for low, high in pairwise(TIMES)
        ],
        f"Mean of the better opponent, and behind it by over 2%; {card().name}",
    )


def launched(sizes: Iterable[Size]) -> Table:
    """Return what plain cuBLAS launches."""
    rows = []
    for size in sizes:
        point = anatomy.of(cublas.sgemm, size)
        main = next((one for one in point.launches if anatomy.tile_of(one.name)), point.main)
        tile = "×".join(map(str, reversed(anatomy.tile_of(main.name) or ()))) or None
        adds = [re.search("(?i)split_?k", one.name) for one in point.launches[1:]]
        assert all(adds) and (not tile or re.search("sm80_xmma_gemm|cutlass_80_simt_sgemm", main.name))
        rows.append((times_of(size), tile, "×".join(map(str, main.grid)), len(point.launches)))
    return Table(("M×N×K", "tile", "grid", "launches"), rows, f"Plain cuBLAS, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by name, after checking what they say."""
    again = [abs(np.log(share(size, "only 13") / 100 * of.ms / of.cublas_ms)) for size, of in found().items()]
    long, odd = [p for p in drawn() if p.ms >= LONG], [raced()[size] for size in SHAPES if size[1] % 4]
    lost_by = {of: losses([p for p in long if risky(p) == of], 98) for of in (True, False)}
    row, column = (found()[size] for size in ((2049, 2048, 2048), (2048, 2049, 2048)))
    shared = [
        next(of.ms for of in at.finalists if (*of.way.setting[:2], of.way.shares) == (128, 256, card().sms))
        for at in (row, column)
    ]
    assert [
        of
        for of in product((False, True), repeat=2)
        if geometric_mean(p.percent_of_searched for p in long if (p.N % 4 > 0, p.K < 512) == of) < 100
    ] == [(True, True)], "in one of the four groups"
    assert [float(row[1].split("%")[0]) < 100 for row in kinds().rows] == [low >= 1e3 * LONG for low in TIMES[:-1]]
    assert (losses(odd), len(lost()), losses(lost(), 98)) == (5, 10, 9) and lost_by[True] < lost_by[False]
    assert (row.best.whole, column.best.whole) == (33 * 4, 16 * 33) and row.ms < shared[0] and column.ms < shared[1]
    return {
        "card": card().name,
        "shapes": str(len(SHAPES)),
        "model behind plain": str(sum(share(size, "neither") < 100 for size in SHAPES)),
        "chance": f"{np.percentile(again, 90):.1%}",
        "margin": "2%",
        "odd ahead": str(len(odd) - losses(odd)),
        "row in shares": f"{1e3 * shared[0]:.0f} µs",
        "row whole": f"{1e3 * row.ms:.0f} µs",
        "column in shares": f"{1e3 * shared[1]:.0f} µs",
        "column whole": f"{1e3 * column.ms:.0f} µs",
        "column": f"{raced()[2048, 2047, 2048].ms / raced()[2048, 2048, 2048].ms - 1:.1%}",
        "limit": f"{1e3 * LONG:.0f} µs",
        "random": f"{len(drawn()):,}",
        "random behind plain": str(sum(point.percent_of_cublas < 100 for point in drawn())),
        "random behind": str(losses(drawn())),
        "random tied": str(losses(drawn()) - losses(drawn(), 98)),
        "risky lost": str(lost_by[True]),
        "others lost": str(lost_by[False]),
    }
