"""What chapter 13 and its deeper page compare: the model's choices, what the search found, and cuBLAS at any shape."""

from collections.abc import Iterable
from functools import lru_cache
from statistics import geometric_mean

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw import Figure, lines
from ..experiments import anatomy, sustained, tune
from ..experiments.ceilings import card
from ..records import files
from ..records.files import Recording
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
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


def timed(n: int, tile: str) -> float | None:
    """Return the least ms that the search timed carefully, at M = N = K = n, of a tile; None if it didn't."""
    return min((of.ms for of in found()[n, n, n].finalists if tune.tile_of(of.way.setting) == tile), default=None)


def share(size: Size, searches: str) -> float:
    """Return 13's percentage of cuBLAS where "only 13", "both" or "neither" searches."""
    if searches == "neither":
        return 100 * found()[size].cublas_ms / found()[size].expected_ms
    return raced()[size].percent_of_searched if searches == "both" else raced()[size].percent_of_cublas


def mean_and_least(sizes: Iterable[Size], searches: str) -> tuple[str, str]:
    """Return the mean and the least share of cuBLAS where "only 13", "both" or "neither" searches."""
    return means([share(size, searches) for size in sizes])


def means(shares: list[float]) -> tuple[str, str]:
    """Return the geometric mean and the least of percentages."""
    return f"{geometric_mean(shares):.0f}%", f"{min(shares):.1f}%"


def by_model(setting: tuple[int, ...], size: Size) -> list[tuple[float, int, int]]:
    """Return the µs that the model expects of a setting in each division, the quickest first."""
    return autotuned.ways(setting, size, card().architecture, card().sms)


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

    Times of 13 are the search's, with the fastest of the settings and divisions that it tried. They are careful ones,
    but 12's tile has a brief one where it wasn't among the fastest few.
    """
    gains = {}
    for n in SIZES:
        if us := tried((n, n, n)).get(TILES[0]):
            ms = timed(n, TILES[0]) or us / 1e3
            gains[n] = before()[n, n, n].ms / ms, ms / found()[n, n, n].ms
    return gains


def gains() -> Table:
    """Return how many times as fast as 12 the loop and the tile make 13, by ranges of sizes."""
    parts, rows = by_twelves_tile(), []
    for low, high in ((256, 640), (768, 896), (1024, 2048), (2176, 4096)):
        some = [n for n in SIZES if low <= n <= high]
        factors = [geometric_mean(of) for of in zip(*(parts[n] for n in some if n in parts), strict=True)]
        both = geometric_mean(before()[n, n, n].ms / found()[n, n, n].ms for n in some)
        texts = (f"{of:.2f}" for of in factors) if factors else (None, None)
        rows.append((f"{low:,} to {high:,}", *texts, f"{both:.2f}"))
    return Table(
        ("M = N = K", "all else, with 12's tile", "then the best tile", "both"),
        rows,
        f"Times as fast as 12, geometric means, {card().name}",
        "–: 12's tile was not timed. It has a brief time where it wasn't among the search's fastest. Where both are "
        "known, the brief one is up to 4% longer than the careful one.",
    )


def loop_alone() -> dict[int, float]:
    """Return by M = N = K how much longer 12 takes than 13 with 12's tile in 12's division, a share for each SM.

    Only sizes count at which the search timed this way carefully.
    """
    return {n: before()[n, n, n].ms / ms - 1 for n in SIZES if (ms := in_way(n, 0))}


def rate(of: dict[str, int], paces: tuple[float, float]) -> float:
    """Return the TFLOP/s of a card whose SMs are full of steps of a setting, which take these µs."""
    us = paces[0] if of["BLOCKS"] > 1 else max(paces)
    return round(2e-6 * of["BM"] * of["BN"] * of["BK"] * card().sms / us, 1)


def tiles() -> Figure:
    """Draw by size the best speed that the search timed of each tile."""
    speeds = {n: {tile: 2e-6 * n**3 / us for tile, us in tried((n, n, n)).items()} for n in SIZES}
    return lines(
        "Four tiles, timed by the search",
        {tile: [(n, speeds[n][tile]) for n in SIZES if tile in speeds[n]] for tile in TILES},
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
    """Return the shares of cuBLAS, by who searches, and at random products the model's."""
    who = {
        "neither": "model, plain cuBLAS",
        "only 13": "search, plain cuBLAS",
        "both": "search, better opponent",
    }
    shares = {
        (name, text): [share(size, of) for size in sizes]
        for name, sizes in (("31 squares", [(n, n, n) for n in SIZES]), (f"{len(SHAPES)} others", SHAPES))
        for of, text in who.items()
    }
    random = f"{len(drawn()):,} random"
    shares[random, "model, plain cuBLAS"] = [point.percent_of_cublas for point in drawn()]
    shares[random, "model, better opponent"] = [point.percent_of_searched for point in drawn()]
    return Table(
        ("products", "13's setting, opponent", "mean", "least", "13 is behind at"),
        [(*names, *means(of), sum(each < 100 for each in of)) for names, of in shares.items()],
        f"Share of cuBLAS, {card().name}",
        "In each row cuBLAS was timed beside 13. Times at random products are medians of five brief ones.",
    )


def figures() -> dict[str, str]:
    """Return the figures in chapter 13's sentences, by name."""
    late, squares, random, loop = slower(), [(n, n, n) for n in SIZES], drawn(), loop_alone()
    new, steps = anatomy.of(RUNG, (4096,) * 3).main.counts, 512 * 512 / card().sms  # of each SM in 128×256
    misses = [abs(by_model(chosen(p.size).setting, p.size)[0][0] / 1e3 / p.ms - 1) for p in random]
    worst, large = max(late, key=late.get), 1e3 * found()[4096, 4096, 4096].expected_ms
    own, long, theirs = raced()[4096, 4096, 4096], sustained.of(RUNG), sustained.of(cublas.sgemm)
    point = found()[640, 640, 640]
    short = {of.way.shares: 1e3 * of.ms for of in point.finalists if of.way.setting[:-1] == point.expected.setting[:-1]}
    low = [
        by_model(found()[n, n, n].expected.setting, (n,) * 3)[0][0] / found()[n, n, n].expected_ms for n in (640, 896)
    ]
    assert short[0] < short[132] and 880 < min(low) < max(low) < 920, "short shares cost more than expected"
    return {
        "card": card().name,
        "before": f"{geometric_mean(before()[size].percent_of_cublas for size in squares):.0f}%",
        "alone": mean_and_least(squares, "neither")[0],
        "same": str(len(loop)),
        "same gains": f"{min(loop.values()):.1%} to {max(loop.values()):.1%}",
        "tried": str(len(settings())),
        "searched": str(len(late)),
        "median": f"{np.median(list(late.values())) - 1:.1%}",
        "late": ", ".join(
            f"over {most}% at {sum(of > 1 + most / 100 for of in late.values())}" for most in (5, 10, 20)
        ),
        "worst": f"{late[worst] - 1:.0%}",
        "worst shape": times_of(worst).replace("×", " × "),
        "random": f"{len(random):,}",
        "random error": f"{np.median(misses):.0%}",
        "pace": f"{large:,.0f} µs for {steps:,.0f} steps on each SM, {large / steps:.2f} µs each",
        "of several": f"{autotuned.SETTINGS[SMALL][0]:.3f}",
        "fill": str(autotuned.FILL),
        "launch": str(autotuned.LAUNCH),
        "meeting": str(autotuned.MEETING),
        "adding": f"{autotuned.ADDING * 1e6:.2f}",
        **sums(),
        "small 256 timed": f"{1e3 * timed(256, '16×32/4'):.2f} µs",
        "medium 256 tried": f"{tried((256,) * 3)['32×64/4']:.1f} µs",
        "shares 640": f"{short[132]:.2f} µs",
        "whole 640": f"{short[0]:.2f} µs",
        "medium 512 timed": f"{1e3 * timed(512, '32×64/4'):.1f} µs",
        **{f"{name} timed": f"{1e3 * in_way(2560, whole):.1f} µs" for name, whole in (("equal", 0), ("hybrid", 132))},
        "issued": f"{new['issue slots used, %']:.1f}%",
        "ffma": f"{new['FFMA'] / WARP / new['all']:.1%}",
        "peak": f"{own.tflops / card().fp32_tflops:.0%}",
        "short share": f"{own.percent_of_cublas:.0f}%",
        "short ms": f"{own.ms:.3f}",
        "lasting share": f"{theirs.ms / long.ms:.0%}",
        "lasting ms": f"{long.ms:.3f}",
        "lasting mhz": f"{long.sm_mhz:,}",
        "boost mhz": f"{theirs.sm_mhz:,}",
        "limit": str(files.load("sustained", Recording[sustained.Sustained]).provenance["power_limit_watts"]),
        "lasting watts": str(long.watts),
        "cublas watts": str(theirs.watts),
    }


def sums() -> dict[str, str]:
    """Return the model's sums as a pencil writes them."""
    small, medium, large = (max(autotuned.SETTINGS[of]) for of in (SMALL, MEDIUM, LARGE))
    fill, launch, meeting, several = (autotuned.FILL, autotuned.LAUNCH, autotuned.MEETING, autotuned.SETTINGS[SMALL][0])
    part = f"{autotuned.ADDING * 4 * LARGE[0] * LARGE[1]:.2f}"
    return {
        "part": part,
        **{
            f"{name} {n}": f"{text} + {launch}{more} = {us(setting, n, shares):.{digits}f} µs"
            for name, setting, n, shares, text, more, digits in (
                ("small", SMALL, 256, 0, f"(8 + {fill}) · {small}", "", 2),
                ("medium", MEDIUM, 256, 0, f"(8 + {fill}) · {medium}", "", 2),
                ("small", SMALL, 512, 0, f"(16 + {fill}) · 4 · {several:.3f}", "", 1),
                ("medium", MEDIUM, 512, 0, f"(16 + {fill}) · {medium}", "", 1),
                ("whole", LARGE, 2560, 0, f"2 · (320 + {fill}) · {large}", "", 1),
                ("equal", LARGE, 2560, 132, f"(485 + 2 · {fill}) · {large}", f" + {meeting} + 2 · {part}", 1),
            )
        },
    }


def us(setting: tuple[int, ...], n: int, shares: int) -> float:
    """Return the µs that the model expects of a setting at M = N = K = n, with all tiles whole or all in shares."""
    tiles = n * n // (setting[0] * setting[1])
    return next(us for us, *way in by_model(setting, (n, n, n)) if way == [0 if shares else tiles, shares])


def in_way(n: int, whole: int) -> float | None:
    """Return the careful ms of 12's tile at M = N = K = n, with so many whole tiles and a share for each SM."""
    way = Way(LARGE, whole, card().sms)
    return next((of.ms for of in found()[n, n, n].finalists if of.way == way), None)
