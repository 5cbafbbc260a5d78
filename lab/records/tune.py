"""What 12's settings gave on a GPU, size by size: how the quickest was found, and how good the model's choice was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.families.autotuned import PARAMETERS, named
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from . import files
from .files import Recording, Sized
from .sizes import Size, times_of
from .timings import Ms


@dataclass(frozen=True)
class Timed:
    """One way to do a product, timed in turn with others and with cuBLAS.

    Attributes
    ----------
    way : Way
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of one launch.
    """

    way: Way
    ms: Ms
    ms_p10: Ms
    ms_p90: Ms


@dataclass(frozen=True)
class Tuned(Sized):
    """What was found at one size.

    Attributes
    ----------
    M, N, K : int
    cublas_ms : float
        Median device time of cuBLAS, in the same run as `finalists`.
    best : Way
        The quickest of the finalists, which 12 takes from then on.
    expected : Way
        What the model would have taken; it is a finalist too.
    finalists : list of Timed
        The quickest first.
    tried : list of list
        Of each tile at least the quickest setting, by its number among those in the recording's
        settings, its quickest division and about how many microseconds that took: [number, whole, shares, µs], the
        quickest first.
    """

    cublas_ms: Ms
    best: Way
    expected: Way
    finalists: list[Timed] = field(hash=False)
    tried: list[tuple[int, int, int, float]] = field(hash=False)

    @property
    def ms(self) -> float:
        """Median device time of the quickest."""
        return self.finalists[0].ms

    @property
    def expected_ms(self) -> float:
        """The same of what the model would have taken."""
        return next(timed.ms for timed in self.finalists if timed.way == self.expected)

    def tflops(self, ms: float) -> float:
        """Return the rate in 10¹² operations per second at so many milliseconds."""
        return 2 * self.M * self.N * self.K / ms / 1e9


Tuning = Recording[Tuned]


def load(path: str | Path = "tune") -> Tuning:
    """Read a recording: of the shown card unless a file is named.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.load(path, Tuning)


def select(recording: Tuning, sizes: Sequence[Size] | None) -> list[Tuned]:
    """Return what there is of these sizes, as the kernel is now; all sizes unless given.

    Raises
    ------
    ArgumentError
        There is none of them.
    """
    points = files.find(recording.points, find("12"), "tune")
    found = [point for point in points if sizes is None or point.size in sizes]
    if not found:
        has = ", ".join(times_of(point.size) for point in points)
        raise ArgumentError("sizes", ", ".join(map(times_of, sizes or ())), f"some of {has}")
    return found


def tile_of(setting: Sequence[int]) -> str:
    """Return the tile of a block, as in "128×256", with the slices that share its depth if there are any."""
    of = named(setting)
    return f"{of['BM']}×{of['BN']}" + (f"/{of['SLICES']}" if of["SLICES"] > 1 else "")


def table(points: Sequence[Tuned], made: str) -> Table:
    """Return what is quickest at each size, and what the model's choice loses against it.

    Parameters
    ----------
    points : sequence of Tuned
    made : str
        Of the recording, for the title.
    """
    rows = [
        (
            times_of(point.size),
            tile_of(point.best.setting),
            ", ".join(map(str, point.best.setting)),
            point.best.whole,
            point.best.shares,
            1e3 * point.ms,
            point.tflops(point.ms),
            f"{100 * point.cublas_ms / point.ms:.1f}%",
            f"{100 * point.ms / point.expected_ms:.1f}%",
        )
        for point in points
    ]
    columns = ("M×N×K", "tile", "setting", "whole", "shares", "µs", "TFLOP/s", "of cuBLAS", "the model's choice")
    note = f"Settings are {', '.join(PARAMETERS)}. Whole tiles have a block each, shares divide the rest."
    return Table(columns, rows, f"What is quickest, {made}", note)


TILES = 6
"""Tiles that `by_tile` shows: those that are quickest most often."""
BY_TILE = "Tiles that are quickest somewhere; after a stroke, slices of their depth."


def by_tile(points: Sequence[Tuned], settings: Sequence[Sequence[int]]) -> dict[str, list]:
    """Return what each tile's best setting gave, by size: M = N = K and TFLOP/s.

    Parameters
    ----------
    points : sequence of Tuned
        Of which those of squares are shown.
    settings : sequence of sequence of int
        Those of the recording, by their numbers.

    Returns
    -------
    dict of str to list of (int, float)
        Nothing where there are fewer than two squares.
    """
    squares = sorted((point for point in points if point.M == point.N == point.K), key=lambda point: point.M)
    if len(squares) < 2:
        return {}
    wins = Counter(tile_of(settings[point.tried[0][0]]) for point in squares)
    lines: dict[str, list] = {tile: [] for tile, _ in wins.most_common(TILES)}
    for point in squares:
        quickest = {tile_of(settings[number]): us for number, _, _, us in reversed(point.tried)}
        for tile in lines.keys() & quickest.keys():
            lines[tile].append((point.M, point.tflops(quickest[tile] / 1e3)))
    return lines | {"cuBLAS": [(point.M, point.tflops(point.cublas_ms)) for point in squares]}


def of_quickest(point: Tuned, settings: Sequence[Sequence[int]], way: Way) -> float | None:
    """Return the speed of a way as a part of that of the quickest that was looked at; None if it was not looked at.

    Where it is among the finalists, that is of their times, else of those at the first brief look.

    Parameters
    ----------
    point : Tuned
    settings : sequence of sequence of int
        Those of the recording, by their numbers. How many words are fetched at once, and whether tiles are shared, are
        the size's and the division's.
    way : Way
    """
    timed = [one.ms for one in point.finalists if one.way == way]
    if timed:
        return point.ms / timed[0]
    words, sharing = PARAMETERS.index("WORDS"), PARAMETERS.index("SHARING")
    fixed = [place for place in range(len(PARAMETERS)) if place not in (words, sharing)]
    wanted = [way.setting[place] for place in fixed]
    times = [
        us
        for number, whole, shares, us in point.tried
        if (whole, shares) == (way.whole, way.shares) and [settings[number][place] for place in fixed] == wanted
    ]
    return min(us for *_, us in point.tried) / min(times) if times else None
