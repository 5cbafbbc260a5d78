"""The page beside chapter 13: shapes at which 13 loses, and what cuBLAS launches."""

import re
from collections.abc import Iterable
from itertools import product
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

BANDS = ((8, 128), (128, 512), (512, 2048), (2048, 11601))
"""Of random products' K: the first, and the first beyond."""


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
        ("M×N×K", "group", "of plain cuBLAS", "of the better opponent"),
        [
            (times_of(point.size), why(point), f"{point.percent_of_cublas:.1f}%", f"{point.percent_of_searched:.1f}%")
            for point in points
        ],
        card().name,
    )


def one_more() -> Table:
    """Return what a row, a column or a k more or less than 2,048 costs 13, and the better opponent."""
    points, rows = raced(), []
    square = points[2048, 2048, 2048]
    for at, name in enumerate("MNK"):
        for n in (2047, 2049):
            point = points[tuple(n if i == at else 2048 for i in range(3))]
            times = [(p.ms, p.ms * p.percent_of_searched / 100) for p in (point, square)]
            changes = (f"{round(new / old - 1, 3) + 0.0:+.1%}" for new, old in zip(*times, strict=True))
            rows.append((f"{name} = {n:,}", tune.tile_of(found()[point.size].best.setting), 1e3 * point.ms, *changes))
    columns = ("", "13's tile", "13, µs", "13 against 2048", "opponent against 2048")
    return Table(columns, rows, card().name)


def alike(ragged: bool, band: tuple[int, int]) -> list[Point]:
    """Return the long random products whose N isn't a multiple of 4, or is, and whose K is in a range."""
    return [p for p in drawn() if p.ms >= LONG and (p.N % 4 > 0) == ragged and band[0] <= p.K < band[1]]


def losses(points: list[Point]) -> int:
    """Return at how many points 13 is behind the better opponent."""
    return sum(point.percent_of_searched < 100 for point in points)


def kinds() -> Table:
    """Return 13's shares at long random products, by what N and K are like."""
    return Table(
        ("K", "N a multiple of 4", "other N"),
        [
            (
                f"{band[0]:,} to {band[1] - 1:,}",
                *(
                    f"{means([p.percent_of_searched for p in of])[0]}, behind at {losses(of)} of {len(of)}"
                    for of in (alike(False, band), alike(True, band))
                ),
            )
            for band in BANDS
        ],
        f"Mean of the better opponent, products of {1e3 * LONG:.0f} µs or more, {card().name}",
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
    points, ours = raced(), [raced()[size] for size in SHAPES]
    again = [points[size].percent_of_cublas / 100 * of.ms / of.cublas_ms for size, of in found().items()]
    chance = np.percentile(np.abs(np.log(again)), 90)
    brief, long = [[p for p in drawn() if (p.ms < LONG) == of] for of in (True, False)]
    risky, odd = alike(True, BANDS[0]) + alike(True, BANDS[1]), [p for p in ours if p.N > 1 and p.N % 4]
    mean = {of: geometric_mean(p.percent_of_searched for p in alike(*of)) for of in product((False, True), BANDS)}
    assert {of for of in mean if mean[of] < 100} == set(product((True,), BANDS[:2]))
    worst = [mean_and_least([size for size in SHAPES if FAMILY_OF[size] == of], "both") for of in FAMILIES]
    assert sum(float(least[:-1]) < 100 for _, least in worst) == 6 and (losses(odd), len(lost())) == (5, 10)
    shares = {of.way.shares: of.ms for of in found()[2049, 2048, 2048].finalists if of.way.setting[:2] == (128, 256)}
    return {
        "card": card().name,
        "shapes": str(len(SHAPES)),
        "behind": str(len(lost())),
        "behind plain": str(sum(point.percent_of_cublas < 100 for point in ours)),
        "model behind plain": str(sum(share(size, "neither") < 100 for size in SHAPES)),
        "fewer": str(sum(point.searched.tried < 8 for point in ours)),
        "chance": f"{chance:.1%}",
        "beyond": str(sum(point.percent_of_searched < 100 * (1 - chance) for point in lost())),
        "odd ahead": str(len(odd) - losses(odd)),
        "row in shares": f"{1e3 * shares[card().sms]:.0f} µs",
        "row whole": f"{1e3 * found()[2049, 2048, 2048].ms:.0f} µs",
        "column": f"{points[2048, 2047, 2048].ms / points[2048, 2048, 2048].ms - 1:.1%}",
        "limit": f"{1e3 * LONG:.0f} µs",
        "random": f"{len(drawn()):,}",
        "random behind": str(losses(drawn())),
        "brief": str(len(brief)),
        "brief mean": means([p.percent_of_searched for p in brief])[0],
        "brief behind": str(losses(brief)),
        "long behind": str(losses(long)),
        "risky": str(len(risky)),
        "risky behind": str(losses(risky)),
        "risky part": f"{losses(risky) / losses(long):.0%}",
        "risky large": str(sum(p.M >= 512 for p in risky)),
    }
