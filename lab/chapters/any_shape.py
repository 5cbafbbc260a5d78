"""What chapter 13 and its deeper page compare: the model's choices, what the search found, and cuBLAS at any shape."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw import Figure, lines
from ..experiments import tune
from ..experiments.ceilings import card
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from .by_size import SIZES

RUNG = find("13_autotuned")
TILES = ("16×32/4", "32×64/4", "64×128/2", "64×128", "128×256")
"""Tiles that the charts show, as `tune.tile_of` names them."""
ACROSS = "Across: M = N = K. Up: TFLOP/s. After a stroke, slices."


def chosen(size: Size) -> Way:
    """Return what the model takes on the shown card."""
    launch = RUNG.resolve(imagined(*size), Place(card().architecture, card().sms))
    counts = launch.division.counts
    return Way(tuple(launch.kernel.parameters.values()), counts["whole"], counts["shares"])


@lru_cache
def found() -> dict[Size, tune.Tuned]:
    """Return what the search found, by size."""
    return {point.size: point for point in tune.select(tune.load(), None)}


@lru_cache
def slower() -> dict[Size, float]:
    """Return how many times as long the model's choice takes as the fastest way found, where it was tried."""
    settings = tune.load().settings["settings"]
    reached = {size: tune.of_quickest(point, settings, chosen(size)) for size, point in found().items()}
    return {size: 1 / part for size, part in reached.items() if part}


def raced() -> dict[Size, Point]:
    """Return the race's points at every size, with the table that the search wrote."""
    return {point.size: point for name in ("shapes", "squares") for point in recorded(RUNG, recording=name).points}


def expected(n: int) -> dict[str, float]:
    """Return the TFLOP/s that the model expects at M = N = K = n of each of `TILES`, in its best division."""
    settings = {tune.tile_of(setting): setting for setting in autotuned.SETTINGS}
    place = card().architecture, card().sms
    return {tile: 2e-6 * n**3 / autotuned.ways(settings[tile], (n, n, n), *place)[0][0] for tile in TILES}


def predicted() -> Figure:
    """Draw the speed that the model expects of each tile, by size."""
    speeds = {tile: [(n, expected(n)[tile]) for n in SIZES] for tile in TILES}
    return lines("Expected by the model", speeds, ACROSS, log_x=True)


def measured() -> Figure:
    """Draw the speed of each tile with the fastest of its settings and divisions that were tried, by size."""
    speeds = tune.by_tile([found()[n, n, n] for n in SIZES], tune.load().settings["settings"], TILES)
    shown = {tile: speeds[tile] for tile in TILES}
    return lines("Measured by the search", shown, f"{ACROSS} Brief timings.", log_x=True)


def choices(sizes: Iterable[Size]) -> Table:
    """Return at each size what the model takes, what the search found, and how much slower the former is."""
    rows = []
    for size in sizes:
        point, times = found()[size], slower().get(size)
        ways = (f"{tune.tile_of(way.setting)}, {way.whole} + {way.shares}" for way in (chosen(size), point.best))
        rows.append((times_of(size), *ways, 1e3 * point.ms, f"{times - 1:.1%}" if times else "not tried"))
    return Table(
        ("M×N×K", "the model takes", "fastest found", "its µs", "the model's is slower by"),
        rows,
        f"Tile, whole tiles + shares, {card().name}",
    )
