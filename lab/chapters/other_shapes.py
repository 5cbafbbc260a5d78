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
from .by_shape import LONG, divided, drawn, found, mean_and_least, means, raced, tried

SHORT = 500
"""The K below which a random product's K counts as short."""


def families() -> Table:
    """Return 13's share of the better opponent, by family."""
    rows = []
    for family in FAMILIES:
        sizes = [size for size in SHAPES if FAMILY_OF[size] == family]
        example = times_of(sizes[len(sizes) // 2])
        rows.append((family, example, len(sizes), *mean_and_least(sizes, "both")))
    columns = ("family", "for example", "shapes", "mean", "at the worst")
    return Table(columns, rows, f"Of the better opponent, {card().name}")


def lost() -> list[Point]:
    """Return the points at which 13 is behind the better opponent, the worst first."""
    points = sorted((raced()[size] for size in SHAPES), key=lambda point: point.percent_of_searched)
    return [point for point in points if point.percent_of_searched < 100]


def why(point: Point) -> str:
    """Return the group of a point at which 13 is behind: the first that fits."""
    if point.N > 1 and point.N % 4:
        return "N % 4 > 0"
    return "K < 4" if point.K < 4 else "long K"


def _theirs(algorithm: str) -> str | None:
    """Return cuBLASLt's tile and the parts of K. It stores matrices by columns, so its rows are our columns."""
    tile = re.search(r"tile (\d+)x(\d+).*split K (\d+)", algorithm)
    return tile and f"{tile[2]}×{tile[1]}, {tile[3]}"


def behind() -> Table:
    """Return where 13 is behind, by group."""
    points = sorted(lost(), key=lambda point: ("N % 4 > 0", "K < 4", "long K").index(why(point)))
    return Table(
        ("M×N×K", "group", "13's tile", "of the better", "cuBLASLt's tile, parts of K"),
        [
            (
                times_of(point.size),
                why(point),
                tune.tile_of(found()[point.size].best.setting),
                f"{point.percent_of_searched:.1f}%",
                _theirs(point.searched.algorithm),
            )
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
            rows.append((f"{name} = {n:,}", divided(found()[point.size].best), 1e3 * point.ms, *changes))
    columns = ("", "13: tile, whole + shares", "13, µs", "13 against 2048", "opponent against 2048")
    return Table(columns, rows, card().name)


def alike(ragged: bool, short: bool) -> list[float]:
    """Return 13's shares at the long random products where 4 doesn't divide N or does, and K is short or isn't."""
    points = [p for p in drawn() if p.ms >= LONG and (p.N % 4 > 0, p.K < SHORT) == (ragged, short)]
    return [point.percent_of_searched for point in points]


def kinds() -> Table:
    """Return 13's shares at long random products, by what N and K are like."""
    return Table(
        ("N", "K", "products", "13 behind at", "mean", "at the worst"),
        [
            (
                "not a multiple of 4" if ragged else "a multiple of 4",
                f"{'below' if short else 'from'} {SHORT}{'' if short else ' on'}",
                len(shares),
                sum(of < 100 for of in shares),
                *means(shares),
            )
            for ragged in (False, True)
            for short in (False, True)
            for shares in [alike(ragged, short)]
        ],
        f"Of the better opponent, products of {1e3 * LONG:.0f} µs or more, {card().name}",
    )


def launched(sizes: Iterable[Size]) -> Table:
    """Return what plain cuBLAS launches, and what 13's search found."""
    rows = []
    for size in sizes:
        point = anatomy.of(cublas.sgemm, size)
        main = next((one for one in point.launches if anatomy.tile_of(one.name)), point.main)
        tile = "×".join(map(str, reversed(anatomy.tile_of(main.name) or ()))) or None
        assert not tile or re.search("sm80_xmma_gemm|cutlass_80_simt_sgemm", main.name)
        grid = "×".join(map(str, main.grid))
        rows.append((times_of(size), tile, grid, len(point.launches), divided(found()[size].best)))
    columns = ("M×N×K", "cuBLAS's tile", "grid", "launches", "13: tile, whole + shares")
    return Table(columns, rows, "Plain cuBLAS, and what 13's search found")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by name, after checking what they say."""
    points, losses = raced(), lost()
    groups = {name: [point for point in losses if why(point) == name] for name in ("N % 4 > 0", "K < 4", "long K")}
    again = [points[size].percent_of_cublas / 100 * of.ms / of.cublas_ms for size, of in found().items()]
    chance = np.percentile(np.abs(np.log(again)), 90)
    deep = [(found()[point.size].best, point) for point in groups["long K"]]
    ours = [way.shares * way.setting[0] * way.setting[1] // (point.M * point.N) for way, point in deep]
    theirs = [int(point.searched.algorithm.split()[-1]) for _, point in deep]
    assert all(point.M == point.N < 1024 < point.K for _, point in deep)
    brief = [point.percent_of_searched for point in drawn() if point.ms < LONG]
    mean = {of: geometric_mean(alike(*of)) for of in product((False, True), repeat=2)}
    worst = [mean_and_least([size for size in SHAPES if FAMILY_OF[size] == of], "both") for of in FAMILIES]
    assert sum(float(least[:-1]) < 100 for _, least in worst) == 6
    assert mean[True, True] < 100 < min(mean[False, False], mean[True, False], mean[False, True])
    ragged = [size for size in SHAPES if size[1] > 1 and size[1] % 4]
    return {
        "card": card().name,
        "shapes": str(len(SHAPES)),
        "behind": str(len(losses)),
        "chance": f"{chance:.1%}",
        "most chance": f"{max(np.abs(np.log(again))):.0%}",
        "beyond": str(sum(point.percent_of_searched < 100 * (1 - chance) for point in losses)),
        **{name: str(len(of)) for name, of in groups.items()},
        "short ahead": str(sum(points[size].K < 4 for size in SHAPES) - len(groups["K < 4"])),
        "parts": "{}, {} and {}".format(*ours),
        "their parts": "{}, {} and {}".format(*theirs),
        "row in shares": f"{tried((2049, 2048, 2048))['128×256']:.0f} µs",
        "column": f"{points[2048, 2047, 2048].ms / points[2048, 2048, 2048].ms - 1:.0%}",
        "limit": f"{1e3 * LONG:.0f} µs",
        "random": f"{len(drawn()):,}",
        "brief": str(len(brief)),
        "brief mean": means(brief)[0],
        "brief behind": str(sum(of < 100 for of in brief)),
        "ragged ahead": str(len(ragged) - len(groups["N % 4 > 0"])),
    }
