"""The page beside chapter 13: at which products to expect it behind cuBLAS, and what a search saves."""

from collections.abc import Iterable
from statistics import median

import numpy as np

from sgemm_tutorial.table import Table

from ..experiments.ceilings import card
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point
from .by_shape import divided, drawn, found, raced, settings

ROWS = {
    "M·N·K below 300 million": lambda M, N, K: M * N * K < 3e8,
    "M or N below 256": lambda M, N, K: min(M, N) < 256,
    "K below 512, 4 doesn't divide N": lambda M, N, K: K < 512 and N % 4 > 0,
    "K below 512, 4 divides N": lambda M, N, K: K < 512,
    "K from 512 on": lambda M, N, K: True,
}
"""Which products a row of the table of odds has: those that fit it and none of the rows before."""
GROUPS = {
    "4 doesn't divide N > 1": lambda M, N, K: N > 1 and N % 4 > 0,
    "M = N = 256 or 512, K from 16,384 on": lambda M, N, K: M == N and M in (256, 512) and K >= 16384,
    "K = 1": lambda M, N, K: K == 1,
}
"""To which of three groups a shape belongs."""


def lost(sizes: Iterable[Size] = SHAPES) -> list[Point]:
    """Return the points at which 13 is behind the better opponent though it searches."""
    return [raced()[size] for size in sizes if raced()[size].percent_of_searched < 100]


def behind() -> Table:
    """Return where that is, by groups."""
    rows = []
    for name, belongs in GROUPS.items():
        of = [size for size in SHAPES if belongs(*size)]
        for at in sorted(lost(of), key=lambda point: -point.ms):
            shares = (f"{share:.1f}%" for share in (at.percent_of_cublas, at.percent_of_searched))
            rows.append((f"{name}: {len(lost(of))} of {len(of)}", times_of(at.size), f"{1e3 * at.ms:,.1f}", *shares))
    assert len(rows) == len({row[1] for row in rows}) == len(lost())
    return Table(
        ("", "M×N×K", "13, µs", "of plain cuBLAS", "of the opponent"), rows, f"13 with searched settings, {card().name}"
    )


def odds() -> dict[str, list[float]]:
    """Return 13's shares of the opponent's speed at the random products, by the rows of the table."""
    of = {name: [] for name in ROWS}
    for point in drawn():
        of[next(name for name, fits in ROWS.items() if fits(*point.size))].append(point.percent_of_searched)
    return of


def losses(shares: list[float]) -> int:
    """Return how many of these are behind."""
    return sum(share < 100 for share in shares)


def likely() -> Table:
    """Return how often 13 is behind, and its share in the median and at the worst tenth."""
    return Table(
        ("random products", "products", "13 is behind at", "median of 13's speed", "a tenth has less than"),
        [
            (
                name,
                len(of),
                f"{losses(of)} ({losses(of) / len(of):.0%})",
                *(f"{each:.0f}%" for each in np.quantile(of, (0.5, 0.1))),
            )
            for name, of in odds().items()
        ],
        f"Of the opponent's speed, the model chooses 13's settings, {card().name}",
        "Take the first row that fits.",
    )


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by name, after checking what they say."""
    of, every = odds(), [point.percent_of_searched for point in drawn()]
    large = [share for shares in [*of.values()][1:] for share in shares]
    late = [losses(each) / len(each) for each in of.values()]
    short, one = [*of.values()][2], [size for size in SHAPES if GROUPS["K = 1"](*size)]
    alone = [found()[at.size].expected_ms > at.ms * at.percent_of_searched / 100 for at in map(raced().get, SHAPES)]
    assert late[2] > 0.75 and 0.4 < late[3] < 0.5 and max(late[0], late[1], late[4]) < 1 / 3 and median(short) > 95
    assert len(lost()) == 10 and [at.size for at in lost() if at.percent_of_searched > 98] == [(2048, 2047, 2048)]
    assert divided(found()[256, 256, 65536].best) == "128×256, 0 + 132"
    assert sum(alone) > 3 * len(lost()) and max(len(found()[size].tried) for size in SHAPES) == 60
    return {
        "shapes": str(len(SHAPES)),
        "alone": str(sum(alone)),
        "settings": str(len(settings())),
        "random": f"{len(every):,}",
        "behind": str(losses(every)),
        "large": f"{losses(large)} of {len(large)}",
        "short": f"{losses(short)} of {len(short)}",
        "spread": f"{max(raced()[size].ms / found()[size].ms for size in one) - 1:.0%}",
    }
