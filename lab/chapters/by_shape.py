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
from ..experiments import anatomy, banks, sustained, tune
from ..experiments.ceilings import card
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from .by_size import SIZES
from .power import slowing

RUNG = find("13_autotuned")
TILES = ("16×32/4", "32×64/4", "64×128/2", "128×256")
"""Tiles that the charts show, as `tune.tile_of` names them."""
SMALL, MEDIUM = (16, 32, 32, 16, 32, 4, 4, 4, 4, 4, 5, 1), (32, 64, 32, 32, 32, 8, 4, 4, 4, 4, 2, 1)
LARGE = next(iter(autotuned.SETTINGS))
"""The settings of the first, the second and the last of these tiles."""


def chosen(size: Size) -> Way:
    """Return what the model takes on the shown card."""
    launch = RUNG.resolve(imagined(*size), Place(card().architecture, card().sms))
    return Way(tuple(launch.kernel.parameters.values()), *(launch.division.counts[of] for of in ("whole", "shares")))


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


def mean_and_least(sizes: Iterable[Size], searches: str) -> tuple[str, str]:
    """Return the mean and the least share of cuBLAS where "only 13", "both" or "neither" searches."""
    points, times = raced(), slower()
    shares = [
        points[size].percent_of_searched
        if searches == "both"
        else points[size].percent_of_cublas
        if searches == "only 13"
        else 100 * found()[size].cublas_ms / found()[size].ms / times[size]
        for size in sizes
    ]
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
        ("tile/slices", "BK", "one block on the SM", "each of several"),
        [
            (tile, of["BK"], max(paces), paces[0] if of["BLOCKS"] > 1 else None)
            for tile in TILES
            for of, paces in [known[tile]]
        ],
        f"µs of a step by the model, {card().name}",
    )


def predicted() -> Figure:
    """Draw the speed that the model expects of each tile, by size."""
    return lines(
        "Expected by the model",
        {tile: [(n, expected(n)[tile]) for n in SIZES] for tile in TILES},
        "Across: M = N = K. Up: TFLOP/s. After a stroke, slices.",
        log_x=True,
    )


def checked() -> Figure:
    """Draw by size what the model expects of its choice, what the search measured of it, and the fastest way found."""
    times = {
        "expected": lambda point: by_model(point.expected.setting, point.size)[0][0] / 1e3,
        "measured": lambda point: point.expected_ms,
        "fastest": lambda point: point.ms,
    }
    speeds = {name: [(n, found()[n, n, n].tflops(ms(found()[n, n, n]))) for n in SIZES] for name, ms in times.items()}
    return lines("The model's choice, and the fastest way found", speeds, "Across: M = N = K. Up: TFLOP/s.", log_x=True)


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
    """Return the shares of cuBLAS, against plain cuBLAS and against the fastest that cuBLASLt offers."""
    points = raced()
    return Table(
        ("products", "opponent", "mean", "least", "13 is behind at"),
        [
            (name, opponent, *mean_and_least(sizes, searches), sum(share(points[size]) < 100 for size in sizes))
            for name, sizes in (("31 squares", [(n, n, n) for n in SIZES]), (f"{len(SHAPES)} others", SHAPES))
            for searches, opponent, share in (
                ("only 13", "cuBLAS", lambda point: point.percent_of_cublas),
                ("both", "the better opponent", lambda point: point.percent_of_searched),
            )
        ],
        f"Share of cuBLAS, {card().name}",
    )


def figures() -> dict[str, str]:
    """Return the figures in chapter 13's sentences, by name."""
    points, late, squares = raced(), slower(), [(n, n, n) for n in SIZES]
    large_ones, poor = [size for size in squares if size[0] >= 1024], [size for size in squares if late[size] > 1.1]
    off = {
        size: by_model(of.expected.setting, size)[0][0] / 1e3 / of.expected_ms - 1
        for size in squares
        for of in [found()[size]]
    }
    lost = points[min(SHAPES, key=lambda size: points[size].percent_of_searched)]
    odd, even, large = (points[size] for size in ((2048, 2047, 2048), (2048,) * 3, (4096,) * 3))
    counts, worst, paces = anatomy.of(RUNG, (4096,) * 3).main.counts, max(late, key=late.get), autotuned.SETTINGS
    expects = {(whole, shares): us for us, whole, shares in by_model(LARGE, (2560,) * 3)}
    return {
        "card": card().name,
        "before": f"{geometric_mean(p.percent_of_cublas for p in recorded('12', squares).points):.0f}%",
        "now": mean_and_least(squares, "only 13")[0],
        "before large": f"{geometric_mean(p.percent_of_cublas for p in recorded('12', large_ones).points):.0f}%",
        "now large": mean_and_least(large_ones, "only 13")[0],
        "shapes": str(len(SHAPES)),
        "lost": times_of(lost.size).replace("×", " × "),
        "us": f"{1e3 * lost.ms:.2f} µs",
        "theirs": f"{1e3 * lost.searched.ms:.2f} µs",
        "tried": str(len(tune.load().settings["settings"])),
        "searched": str(len(late)),
        "median": f"{np.median(list(late.values())) - 1:.1%}",
        "tenth": f"{np.percentile(list(late.values()), 90) - 1:.0%}",
        "worst": f"{late[worst] - 1:.0%}",
        "worst shape": times_of(worst).replace("×", " × "),
        "hit": str(sum(late[size] == 1 for size in squares)),
        "near": str(sum(late[size] > 1 for size in squares if size not in poor)),
        "near regret": f"{max(late[size] for size in squares if size not in poor) - 1:.1%}",
        "close": f"{max(abs(off[size]) for size in squares if size not in poor):.1%}",
        "good": str(len(squares) - len(poor)),
        "poor": ", ".join(str(size[0]) for size in poor),
        "too fast": f"{-max(off[size] for size in poor):.0%} to {-min(off[size] for size in poor):.0%}",
        "poor regrets": f"{min(late[size] for size in poor) - 1:.0%} to {max(late[size] for size in poor) - 1:.0%}",
        "other tiles": str(sum(n >= 1280 and tune.tile_of(found()[n, n, n].best.setting) != TILES[-1] for n in SIZES)),
        "lasting": f"{sustained.lasted(RUNG)[1]:.1%}",
        "watts": f"{slowing(sustained.of(RUNG))[0]:.0f} W",
        "slows": f"{slowing(sustained.of(RUNG))[1]:.0%}",
        "ffma": f"{banks.cycles(banks.LOOP, 2, RUNG):.3f}",
        "banks": f"{counts['FMA pipes used, %'] * (banks.cycles(banks.LOOP, 2, RUNG) - 1):.1f}%",
        "dispatch": str(counts["state: dispatch"]),
        "chosen": str(counts["state: another warp was chosen"]),
        "between": str(counts["cycles between a warp's instructions"]),
        "step": str(paces[LARGE][0]),
        "small step": str(max(paces[SMALL])),
        "of several": f"{paces[SMALL][0]:.3f}",
        "medium step": str(max(paces[MEDIUM])),
        "fill": str(autotuned.FILL),
        "launch": str(autotuned.LAUNCH),
        "meeting": str(autotuned.MEETING),
        "part": f"{autotuned.ADDING * 4 * LARGE[0] * LARGE[1]:.2f}",
        "whole": f"{expects[200, 0]:.1f} µs",
        "shares": f"{expects[0, 132]:.1f} µs",
        "both": f"{expects[132, 132]:.1f} µs",
        **{
            f"{name} {n}": f"{by_model(setting, (n,) * 3)[0][0]:.{digits}f} µs"
            for n, digits in ((256, 2), (512, 1))
            for name, setting in (("small", SMALL), ("medium", MEDIUM))
        },
        "shortest": f"{1e3 * points[412, 1, 85].ms:.2f} µs",
        "column": f"{odd.ms / even.ms - 1:.0%}",
        "cublas column": f"{abs(odd.cublas_ms / even.cublas_ms - 1):.1%}",
        "peak": f"{large.tflops / card().fp32_tflops:.0%}",
        "other": f"{counts['issue slots used, %'] - counts['FMA pipes used, %']:.0f}%",
        "empty": f"{100 - counts['issue slots used, %']:.0f}%",
    }
