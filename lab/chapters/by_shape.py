"""What chapter 13 and its deeper page compare: the model's choices, what the search found, and cuBLAS at any shape."""

from collections.abc import Iterable
from functools import lru_cache
from statistics import geometric_mean

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw import Figure, lines
from ..experiments import anatomy, profiles, sustained, tune
from ..experiments.ceilings import card
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from . import account
from .by_size import SIZES

RUNG = find("13_autotuned")
TILES = ("128×256", "64×128/2", "32×64/4", "16×32/4")
"""Tiles that the charts show, as `tune.tile_of` names them. The search timed the last at few sizes."""
SMALL, MEDIUM = (16, 32, 32, 16, 32, 4, 4, 4, 4, 4, 5, 1), (32, 64, 32, 32, 32, 8, 4, 4, 4, 4, 2, 1)
LARGE = next(iter(autotuned.SETTINGS))
"""The settings of the last, the third and the first of these tiles."""
LONG = 0.02
"""The ms from which a random product counts as long."""


def chosen(size: Size) -> Way:
    """Return what the model takes on the shown card."""
    launch = RUNG.resolve(imagined(*size), Place(card().architecture, card().sms))
    return Way(tuple(launch.kernel.parameters.values()), *(launch.division.counts[of] for of in ("whole", "shares")))


@lru_cache
def before() -> dict[Size, Point]:
    """Return 12's times at the squares, by size."""
    return {point.size: point for point in recorded("12", [(n, n, n) for n in SIZES]).points}


def drawn() -> list[Point]:
    """Return the products at random, at which the model alone chooses."""
    return recorded(RUNG, recording="random").points


def settings() -> list[tuple[int, ...]]:
    """Return the settings that the search tried, by their numbers."""
    return list(map(tuple, tune.load().settings["settings"]))


@lru_cache
def found() -> dict[Size, tune.Tuned]:
    """Return what the search found, by size."""
    return {point.size: point for point in tune.select(tune.load(), None)}


def slower() -> dict[Size, float]:
    """Return how many times as long the model's choice takes as the fastest way found."""
    return {size: point.expected_ms / point.ms for size, point in found().items()}


def raced() -> dict[Size, Point]:
    """Return the race's points at every size, with the table that the search wrote."""
    return {point.size: point for name in ("shapes", "squares") for point in recorded(RUNG, recording=name).points}


def tried(size: Size) -> dict[str, float]:
    """Return the µs of each tile in the search, with the fastest of its settings and divisions that were tried."""
    of = settings()
    return {tune.tile_of(of[number]): us for number, *_, us in reversed(found()[size].tried)}


def tried_with(n: int, setting: tuple[int, ...]) -> float:
    """Return the search's µs of a setting at M = N = K = n, in the fastest division tried."""
    of = settings()
    return min(us for number, *_, us in found()[n, n, n].tried if of[number] == setting)


def share(size: Size, searches: str) -> float:
    """Return 13's percentage of cuBLAS where "only 13", "both" or "neither" searches."""
    if searches == "neither":
        return 100 * found()[size].cublas_ms / found()[size].expected_ms
    return raced()[size].percent_of_searched if searches == "both" else raced()[size].percent_of_cublas


def mean_and_least(sizes: Iterable[Size], searches: str) -> tuple[str, str]:
    """Return the mean and the least share of cuBLAS where "only 13", "both" or "neither" searches."""
    shares = [share(size, searches) for size in sizes]
    return f"{geometric_mean(shares):.0f}%", f"{min(shares):.1f}%"


def by_model(setting: tuple[int, ...], size: Size) -> list[tuple[float, int, int]]:
    """Return the µs that the model expects of a setting in each division, the quickest first."""
    return autotuned.ways(setting, size, card().architecture, card().sms)


def expected(n: int) -> dict[str, float]:
    """Return the TFLOP/s that the model expects at M = N = K = n of each of `TILES`, in its best division."""
    settings = {tune.tile_of(setting): setting for setting in autotuned.SETTINGS}
    return {tile: 2e-6 * n**3 / by_model(settings[tile], (n, n, n))[0][0] for tile in TILES}


def steps() -> Table:
    """Return what the model knows of the steps of the charts' tiles: µs of one on an SM, and of each of several."""
    known = {tune.tile_of(setting): (autotuned.named(setting), paces) for setting, paces in autotuned.SETTINGS.items()}
    return Table(
        ("tile/slices", "BK", "one block on the SM", "each of several", "TFLOP/s of all SMs"),
        [
            (tile, of["BK"], max(paces), paces[0] if of["BLOCKS"] > 1 else None, rate(of, paces))
            for tile in TILES
            for of, paces in [known[tile]]
        ],
        f"µs of a step by the model, {card().name}",
    )


def by_twelves_tile() -> dict[int, tuple[float, float]]:
    """Return by M = N = K how many times as fast 13 is as 12 with 12's tile, and with the best tile as with that one.

    Both times of 13 are the search's, with the fastest of the settings and divisions that it tried.
    """
    gains = {}
    for point in before().values():
        if TILES[0] in (us := tried(point.size)):
            gains[point.M] = 1e3 * point.ms / us[TILES[0]], us[TILES[0]] / min(us.values())
    return gains


def gains() -> Table:
    """Return how many times as fast as 12 the loop and the tile make 13, by ranges of sizes."""
    parts, rows = by_twelves_tile(), []
    for low, high in ((256, 640), (768, 896), (1024, 2048), (2176, 4096)):
        some = [point for point in before().values() if low <= point.M <= high]
        factors = [geometric_mean(of) for of in zip(*(parts[p.M] for p in some if p.M in parts), strict=True)]
        both = geometric_mean(1e3 * p.ms / min(tried(p.size).values()) for p in some)
        texts = (f"{of:.2f}" for of in factors) if factors else (None, None)
        rows.append((f"{low:,} to {high:,}", *texts, f"{both:.2f}"))
    columns = ("M = N = K", "all else, with 12's tile", "then the best tile", "both")
    return Table(columns, rows, f"Times as fast as 12, geometric means, {card().name}", "–: not timed.")


def loop_alone() -> dict[int, float]:
    """Return by M = N = K how much longer 12 takes than 13 with 12's tile in 12's division, a share for each SM."""
    of, longer = settings(), {}
    for point in before().values():
        for number, whole, shares, us in found()[point.size].tried:
            if (of[number], whole, shares) == (LARGE, 0, card().sms):
                longer[point.M] = 1e3 * point.ms / us - 1
    return longer


def rate(of: dict[str, int], paces: tuple[float, float]) -> float:
    """Return the TFLOP/s of a card whose SMs are full of steps of a setting, which take these µs."""
    us = paces[0] if of["BLOCKS"] > 1 else max(paces)
    return round(2e-6 * of["BM"] * of["BN"] * of["BK"] * card().sms / us, 1)


def tiles() -> Figure:
    """Draw by size the speed that the model expects of each tile, and dashed the best that the search timed of it."""
    speeds = {n: {tile: 2e-6 * n**3 / us for tile, us in tried((n, n, n)).items()} for n in SIZES}
    return lines(
        "Four tiles, by the model and by the search",
        {tile: [(n, expected(n)[tile]) for n in SIZES] for tile in TILES}
        | {f"{tile}, timed": [(n, speeds[n][tile]) for n in SIZES if tile in speeds[n]] for tile in TILES[:3]},
        "Across: M = N = K. Up: TFLOP/s. After a stroke, slices.",
        log_x=True,
    )


def choices(sizes: Iterable[Size]) -> Table:
    """Return at each size what the model takes, what it expects, what the search measured of it, and what it found."""
    rows = []
    for size in sizes:
        point = found()[size]
        taken, best = (
            f"{tune.tile_of(way.setting)}, {way.whole} + {way.shares}" for way in (point.expected, point.best)
        )
        us = by_model(point.expected.setting, size)[0][0], 1e3 * point.expected_ms, 1e3 * point.ms
        expected, timed, fastest = (f"{each:#,.4g}".rstrip(".") for each in us)
        rows.append((times_of(size), taken, expected, timed, best, fastest, f"{slower()[size] - 1:.1%}"))
    return Table(
        ("M×N×K", "the model takes", "expected µs", "measured µs", "fastest found", "its µs", "model slower by"),
        rows,
        f"Tile, whole tiles + shares, {card().name}",
        "Where equal names have unequal times, the settings differ in thread tiles or BLOCKS.",
    )


def race() -> Table:
    """Return the shares of cuBLAS, by who searches."""
    return Table(
        ("products", "who searches", "mean", "least", "13 is behind at"),
        [
            (name, who, *mean_and_least(sizes, who), sum(share(size, who) < 100 for size in sizes))
            for name, sizes in (("31 squares", [(n, n, n) for n in SIZES]), (f"{len(SHAPES)} others", SHAPES))
            for who in ("neither", "only 13", "both")
        ],
        f"Share of cuBLAS, {card().name}",
    )


def figures() -> dict[str, str]:
    """Return the figures in chapter 13's sentences, by name."""
    points, late, squares = raced(), slower(), [(n, n, n) for n in SIZES]
    twelve, loop, random = before(), loop_alone(), drawn()
    counts, worst, paces = anatomy.of(RUNG, (4096,) * 3).main.counts, max(late, key=late.get), autotuned.SETTINGS
    old, between = profiles.measured(find("12")), "cycles between a warp's instructions"
    misses = [abs(by_model(chosen(p.size).setting, p.size)[0][0] / 1e3 / p.ms - 1) for p in random]
    large, own = twelve[4096, 4096, 4096], points[4096, 4096, 4096]
    lasting, lasting_share = sustained.lasted(RUNG)
    behind = [size for size in squares if share(size, "neither") < 100]
    assert len(behind) == 1
    fewer, longer = old["all"] / counts["all"], old[between] / counts[between]
    return {
        "card": card().name,
        "before": f"{geometric_mean(twelve[size].percent_of_cublas for size in squares):.0f}%",
        "before large": f"{geometric_mean(twelve[size].percent_of_cublas for size in squares[6:]):.0f}%",
        "now": mean_and_least(squares, "only 13")[0],
        "alone": mean_and_least(squares, "neither")[0],
        "alone large": mean_and_least(squares[6:], "neither")[0],
        "same": str(len(loop)),
        "same gains": f"{min(loop.values()):.1%} to {max(loop.values()):.1%}",
        "tried": str(len(settings())),
        "searched": str(len(late)),
        "median": f"{np.median(list(late.values())) - 1:.1%}",
        "tenth": f"{np.percentile(list(late.values()), 90) - 1:.0%}",
        "worst": f"{late[worst] - 1:.0%}",
        "worst shape": times_of(worst).replace("×", " × "),
        "dispatch": "from {} to {}".format(*(each["state: dispatch"] for each in (old, counts))),
        "fewer": f"{fewer:.3f}",
        "between ratio": f"{longer:.3f}",
        **{f"alone {rung}": f"{account.with_registers(find(rung)):.2f} ms" for rung in ("12", "13")},
        "gap": f"{large.ms - own.ms:.2f} ms",
        "lost square": times_of(behind[0]),
        "short share": f"{own.percent_of_cublas:.0f}%",
        "lasting share": f"{lasting_share:.0%}",
        "lasting ms": f"{lasting:.3f} against {lasting * lasting_share:.3f} ms",
        "longer": f"{large.ms / own.ms:.3f}",
        "random": f"{len(random):,}",
        "random error": f"{np.median(misses):.0%}",
        "random behind": str(sum(p.percent_of_cublas < 100 for p in random)),
        "random behind both": str(sum(p.percent_of_searched < 100 for p in random)),
        "small step": str(max(paces[SMALL])),
        "of several": f"{paces[SMALL][0]:.3f}",
        "medium step": str(max(paces[MEDIUM])),
        "fill": str(autotuned.FILL),
        "launch": str(autotuned.LAUNCH),
        **{
            f"{name} {n}": f"{by_model(setting, (n,) * 3)[0][0]:.{digits}f} µs"
            for n, digits in ((256, 2), (512, 1))
            for name, setting in (("small", SMALL), ("medium", MEDIUM))
        },
        "small 256 timed": f"{tried_with(256, SMALL):.2f} µs",
        "medium 512 timed": f"{tried_with(512, MEDIUM):.1f} µs",
        "peak": f"{own.tflops / card().fp32_tflops:.0%}",
        "empty": f"{100 - counts['issue slots used, %']:.0f}%",
    }
