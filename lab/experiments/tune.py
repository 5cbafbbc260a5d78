"""Searches the settings of 13 on this GPU: the template arguments and the division of work that are quickest at a size.

Settings that the compiler or the occupancy calculator rules out are never run. The others are launched briefly at each
size, those from which the model expects most first; the few quickest are then timed in turn with cuBLAS. From then on
13 takes the quickest at these sizes, on GPUs of this name.
"""

import contextlib
import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, operands, timing, tuned
from sgemm_tutorial.errors import ArgumentError, DeviceError, TutorialError
from sgemm_tutorial.families import any_shape, autotuned
from sgemm_tutorial.families.autotuned import PARAMETERS, named
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import Problem, imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..correctness import excess
from ..measure import cublaslt
from ..measure.brief import brief
from ..measure.driver import Plan, compile_kernels, follow
from ..measure.sweep import Field, Setting, ruled
from ..records import files
from ..records.files import Recording, Sized
from ..records.provenance import provenance, same
from ..records.shapes import RANDOM
from ..records.sizes import Size, times_of
from ..records.timings import Ms, Point, Process, Record, Samples, Spread


@dataclass(frozen=True)
class Timed(Spread):
    """One way to do a product, timed in turn with others and with cuBLAS: the device time of one launch.

    Attributes
    ----------
    way : Way
    """

    way: Way


@dataclass(frozen=True)
class Tuned(Sized):
    """The result of the search at one size.

    Attributes
    ----------
    M, N, K : int
    cublas_ms : float
        Median device time of cuBLAS, in the same run as `finalists`.
    best : Way
        What 13 or 22 takes from then on: the quickest of the finalists if even its slow samples beat the quick ones of
        the model's choice, and that choice if not.
    expected : Way
        The model's choice, which is a finalist too.
    finalists : list of Timed
        The quickest first.
    tried : list of list
        For each tile at least the quickest setting, as [number, whole, shares, µs]: its number among the recording's
        settings, its quickest division, and the approximate time. The quickest comes first.
    """

    cublas_ms: Ms
    best: Way
    expected: Way
    finalists: list[Timed] = field(hash=False)
    tried: list[tuple[int, int, int, float]] = field(hash=False)

    @property
    def ms(self) -> float:
        """Median device time of what is taken."""
        return self._of(self.best).ms

    @property
    def expected_ms(self) -> float:
        """The same of the model's choice."""
        return self._of(self.expected).ms

    def _of(self, way: Way) -> Timed:
        """Return the times of a finalist."""
        return next(timed for timed in self.finalists if timed.way == way)

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
    """Return the points of these sizes, or of all, with the kernel as it is now.

    Raises
    ------
    ArgumentError
        There are none.
    """
    points = files.find(recording.points, KERNEL, "tune")
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
    """Return the quickest setting at each size, and how close the model's choice comes to it.

    Parameters
    ----------
    points : sequence of Tuned
    made : str
        The recording's `made`, for the title.
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


def speeds(point: Tuned, settings: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the TFLOP/s of each tile at one size, with the fastest of its settings and divisions that were tried."""
    return {tile_of(settings[number]): point.tflops(us / 1e3) for number, _, _, us in reversed(point.tried)}


def by_tile(points: Sequence[Tuned], settings: Sequence[Sequence[int]]) -> dict[str, list]:
    """Return for each tile its best setting's TFLOP/s by M = N = K.

    Parameters
    ----------
    points : sequence of Tuned
        Only the points of squares are shown.
    settings : sequence of sequence of int
        Those of the recording, by their numbers.

    Returns
    -------
    dict of str to list of (int, float)
        Empty if there are fewer than two squares.
    """
    squares = sorted((point for point in points if point.M == point.N == point.K), key=lambda point: point.M)
    if len(squares) < 2:
        return {}
    wins = Counter(tile_of(settings[point.tried[0][0]]) for point in squares).most_common(TILES)
    of = [(point.M, speeds(point, settings)) for point in squares]
    return {tile: [(size, found[tile]) for size, found in of if tile in found] for tile, _ in wins} | {
        "cuBLAS": [(point.M, point.tflops(point.cublas_ms)) for point in squares]
    }


Hopeful = tuple[float, int, list[Way]]
"""The least µs that a model expects of a setting, the setting's number, and its ways, the most promising first."""

KERNEL = autotuned.KERNEL
TRIED = (
    *any_shape.PACES,
    (32, 64, 12, 1, 32),
    (64, 64, 12, 2, 64),
    (64, 176, 6, 4, 16),
    (96, 64, 10, 2, 96),
    (112, 192, 5, 1, 112),
    (128, 64, 8, 4, 16),
    (128, 128, 6, 4, 32),
    (128, 208, 4, 2, 16),
    (128, 224, 4, 4, 16),
    (128, 240, 4, 2, 16),
    (192, 96, 4, 2, 16),
)
"""Settings of 22 that are tried: those that the model knows, and some more. BM, BN, STAGES, CLUSTER and WM."""
REGISTERS = 65_536  # of an SM, every GPU since Kepler
FINALISTS = 4
"""Settings that are timed precisely at each size, beside the model's choice."""
HOPEFUL = 1.75
"""Settings are not tried if the model expects more than this many times the least time of them."""
CLOSE = 1.25
"""A setting that takes more than this many times the least time so far is not tried with other divisions."""
LOOKING = 5.0
"""Seconds after which no other setting is tried at a size."""
DIVISIONS = 6
"""The most divisions that are tried of a setting."""
SAMPLING: dict[str, Any] = {"samples": 9, "least_samples": 5, "seconds": 0.1, "warm_s": (0.01, 0.03)}
POOL = 2**24 + 43
"""Random numbers that fill the matrices, over and over. Their number is odd, so that rows don't repeat each other."""
ROWS = 16
"""Rows of C that are checked."""
H200 = Place("sm_90", 132)
"""The GPU that the models were fitted to, without a name, so that no table is asked."""
TURNS = 5
"""Brief looks at each opponent on a random problem."""


def settings() -> list[Setting]:
    """Return the settings that take part: combinations by a rule, those of `autotuned.SETTINGS` among them.

    The thread's tile and the arrangement of lanes give the warp's tile. Up to 8 warps make a block, and divide its
    tile, its depth or both. The number of blocks per SM follows from the registers for the sums, two fragments and
    about 40 more; one block more is tried too, in case that the compiler manages. Thin tiles and vectors have a few
    settings of their own.
    """
    found: list[Setting] = []
    threads = ((8, 16, 8), (8, 8, 4), (12, 8, 8), (8, 4, 4), (4, 8, 4), (4, 4, 4))
    warps = (
        (1, 1, 1),
        (1, 1, 2),
        (1, 1, 4),
        (1, 1, 8),
        (1, 2, 1),
        (1, 2, 2),
        (2, 1, 1),
        (2, 1, 2),
        (1, 2, 4),
        (2, 1, 4),
        (1, 4, 1),
        (1, 8, 1),
        (2, 2, 1),
        (2, 2, 2),
        (2, 4, 1),
    )
    for (TM, TN, lanes), (down, across, slices) in product(threads, warps):
        WM, WN = lanes * TM, 32 // lanes * TN
        share = REGISTERS / (32 * down * across * slices * (TM * TN + 2 * (TM + TN) + 40))
        tile = (down * WM, across * WN, 8 * slices, WM, WN, TM, TN, slices, 4, 4)
        found += [(*tile, blocks, 1) for blocks in sorted({max(int(share), 1), int(share) + 1})]
    found += [
        thin
        for side, blocks in product((4, 8, 16), (1, 2, 3))
        for thin in (
            (side, 128, 32, side, 128, side, 4, 4, 4, 4, blocks, 1),
            (128, side, 32, 128, side, 4, side, 4, 4, 4, blocks, 1),
        )
    ]
    found += [(rows, 1, 128, 4, 1, 1, 4, 1, 1, 4, 64 // rows, 1) for rows in (8, 16, 32, 64)]
    found += [
        (1, columns, 4 * slices, 1, 32, 1, 4, slices, 1, 4, 1024 // (slices * columns), 1)
        for slices, columns in product((4, 8, 16, 32), (32, 64, 128))
        if slices * columns <= 1024
    ]
    found += [
        (1, columns, 128 // columns * slices, 1, columns, 1, 4, slices, 1, 4, 32 // slices, 1)
        for columns, slices in product((8, 16), (4, 8, 16, 32))
    ]
    found += [
        (rows, 1, 128 * slices, 4, 1, 1, 4, slices, 1, 4, max(busy // (8 * rows * slices), 1), 1)
        for rows, slices, busy in product((4, 8, 16, 32), (2, 4, 8, 16), (512, 1024))
        if rows * slices <= 128
    ]
    found += [(*setting[:-1], 1) for setting in autotuned.SETTINGS] + [(64, 64, 8, 32, 64, 8, 8, 1, 4, 4, 6, 1)]
    return list(dict.fromkeys(found))


def fitted(setting: Setting, size: Size, architecture: str, multiprocessors: int) -> Kernel | None:
    """Return 13 with a setting fitted to a size, or None if the setting is meant for other sizes.

    Words that don't lie in groups of four are copied one by one; before 8.0, tiles go through registers. Vectors have
    their own settings, and tiles much larger than C are left out.
    """
    M, N, _ = size
    of = autotuned.named(setting)
    if not autotuned.meant(of, size) or of["BM"] >= max(4 * M, 64) or of["BN"] >= max(4 * N, 64):
        return None
    return KERNEL.family.choose(KERNEL.variant(**of), imagined(*size), Place(architecture, multiprocessors))


def taking_part(
    sizes: Iterable[Size], architecture: str, multiprocessors: int, progress: bool | None = None, among: Sequence = ()
) -> Field:
    """Return the settings, fitted to these sizes, that neither the compiler nor the occupancy calculator rules out.

    Parameters
    ----------
    sizes : iterable of (M, N, K)
    architecture, multiprocessors
        Those of the GPU. No GPU needs to be there.
    progress : bool, optional
        Show a progress bar on stderr; None shows it in a terminal only.
    among : sequence of tuple, optional
        Settings; those of `settings` unless given.
    """
    found = {}
    for size, setting in product(sizes, among or settings()):
        kernel = fitted(setting, size, architecture, multiprocessors)
        for sharing in (0, 1) if kernel else ():
            parameters = kernel.parameters | {"SHARING": sharing}
            found.setdefault(tuple(parameters.values()), dataclasses.replace(kernel, parameters=parameters))
    return ruled(Field(found, {}, PARAMETERS), architecture, progress)


def _ways(kernels: Mapping[Setting, Kernel], every: Sequence[Setting], size: Size, place: Place) -> list[Hopeful]:
    """Return the ways of 13 at a size that are among some kernels."""
    found = []
    for number, setting in enumerate(every):
        kernel = fitted(setting, size, place.architecture, place.multiprocessors)
        if not kernel:
            continue
        key = tuple(kernel.parameters.values())
        divisions = [
            (expected, way)
            for expected, whole, shares in autotuned.ways(key, size, place.architecture, place.multiprocessors)
            for way in [Way((*key[:-1], int(shares > 0)), whole, shares)]
            if way.setting in kernels
        ][:DIVISIONS]
        if divisions:
            found.append((divisions[0][0], number, [way for _, way in divisions]))
    return found


def _expected(size: Size, place: Place) -> tuple[Way, Kernel]:
    """Return the choice of 13's model, and the kernel: launched even if it was ruled out."""
    launch = KERNEL.resolve(imagined(*size), place)
    kernel, counts = launch.kernel, launch.division.counts
    return Way(tuple(kernel.parameters.values()), counts["whole"], counts["shares"]), kernel


def _ways_on_tensor_cores(
    kernels: Mapping[Setting, Kernel], every: Sequence[Setting], size: Size, place: Place
) -> list[Hopeful]:
    """Return the ways of 22 at a size, and of `any_shape.DEEP`."""
    found = []
    for number, setting in enumerate(every):
        if len(setting) == len(any_shape.PARAMETERS):
            divisions = any_shape.ways(setting, size, place)[:DIVISIONS]
        else:
            of = dict(zip(any_shape.DEEP_PARAMETERS, setting, strict=True))
            divisions = [(any_shape.deep_cost(of, size, place), 0, 1)]
        if divisions[0][0] < float("inf"):
            found.append((divisions[0][0], number, [Way(setting, *division) for _, *division in divisions]))
    return found


def _expected_on_tensor_cores(size: Size, place: Place) -> tuple[Way, Kernel]:
    """Return the choice of 22's model, if it leaves the size to no kernel but `any_shape.DEEP`, and the kernel."""
    kernel = ON_TENSOR_CORES.kernel
    launch = kernel.resolve(imagined(*size, kernel.types), place)
    if launch.kernel.name != any_shape.DEEP.name:
        launch = kernel.family.itself(kernel).resolve(imagined(*size, kernel.types), place)
    return way_on_tensor_cores(launch), launch.kernel


def way_on_tensor_cores(launch: Launch) -> Way:
    """Return the way in which 22, or `any_shape.DEEP`, does what it launches."""
    of, counts = launch.kernel.parameters, launch.division.counts
    if not counts:
        return Way(tuple(of[name] for name in any_shape.DEEP_PARAMETERS), 0, 1)
    return Way(tuple(of[name] for name in any_shape.PARAMETERS), counts["shared"], launch.blocks // of["CLUSTER"])


class Space(NamedTuple):
    """A kernel to tune: its ways at a size, and the one that its model chooses."""

    kernel: Kernel
    ways: Callable[[Mapping[Setting, Kernel], Sequence[Setting], Size, Place], list[Hopeful]]
    expected: Callable[[Size, Place], tuple[Way, Kernel]]


ON_CUDA_CORES = Space(KERNEL, _ways, _expected)
ON_TENSOR_CORES = Space(any_shape.KERNEL, _ways_on_tensor_cores, _expected_on_tensor_cores)


def tensor_plan(sizes: Sequence[Size]) -> Plan:
    """Return the plan of a recording of settings of 22 and of `any_shape.DEEP`, in FP16, where a model chooses them."""
    kernel, tried = ON_TENSOR_CORES.kernel, [any_shape.setting(*of) for of in TRIED]
    kernels = {tuple(of.values()): kernel.variant(**of) for of in tried}
    kernels |= {tuple(of.values()): any_shape.DEEP.variant(**of) for of in any_shape.DEEP_SETTINGS}

    def measure(missing: list) -> Iterator[Tuned]:
        own = [each.parameters for each in kernels.values() if "CLUSTER" in each.parameters]
        adders = {any_shape.adder(of, slices): None for of in own for slices in (1, any_shape.MANY)}
        compile_kernels([*kernels.values(), *adders], gpu.architecture())
        return map(Search(kernels, list(kernels), gpu.place(), ON_TENSOR_CORES).tune, [size for _, size in missing])

    shared = {"settings": [list(setting) for setting in kernels], "inputs": "standard normal, repeated"}
    own = [  # some layers are among the shapes
        size
        for size in dict.fromkeys(sizes)
        if kernel.resolve(imagined(*size, kernel.types), H200).kernel.name in (kernel.name, any_shape.DEEP.name)
    ]
    return Plan("tune_22", Tuning, [(kernel, size) for size in own], measure, shared, takes=1.0)


def plan(
    sizes: Sequence[Size],
    seconds: float = float("inf"),
    ruled_out: Callable[[Table], None] = lambda table: None,
    progress: bool | None = None,
) -> Plan:
    """Return the plan of a recording of 13's settings.

    Parameters
    ----------
    sizes : sequence of (M, N, K)
    seconds : float
        No other size is begun after that many seconds, including the time for compiling.
    ruled_out : callable
        Takes `Field.table`, before anything is measured.
    progress : bool, optional
        Whether compiling shows a progress bar.
    """
    every = settings()

    def measure(missing: list) -> Iterator[Tuned]:
        begin, place = time.monotonic(), gpu.place()
        entered = taking_part([size for _, size in missing], place.architecture, place.multiprocessors, progress)
        ruled_out(entered.table())
        search = Search(entered.kernels, every, place)
        for _, size in missing:
            if time.monotonic() - begin < seconds:
                yield search.tune(size)

    shared = {"settings": [list(setting) for setting in every], "inputs": "standard normal, repeated"}
    return Plan("tune", Tuning, [(KERNEL, size) for size in sizes], measure, shared, takes=1.0)


def random_plan(name: str = "random", space: Space = ON_CUDA_CORES, sizes: Sequence[Size] = RANDOM) -> Plan:
    """Return the plan of times at random problems: the model's choice, cuBLAS, and the quickest of cuBLASLt."""

    def measure(missing: list) -> Iterator[Point]:
        return map(Search({}, (), gpu.place(), space).race, [size for _, size in missing])

    shared = {"inputs": "standard normal, repeated", "turns": TURNS}
    return Plan(name, Record, [(space.kernel, size) for size in sizes], measure, shared, takes=0.07)


class Search:
    """Finds the quickest setting and division for one size after the other, on the current GPU.

    Parameters
    ----------
    kernels : mapping of tuple to Kernel
        Those that take part, by their settings.
    every : sequence of tuple
        All settings. Results are recorded by their numbers here.
    place : Place
        The GPU.
    space : Space
        What is tuned; 13 unless given.
    """

    def __init__(
        self,
        kernels: Mapping[Setting, Kernel],
        every: Sequence[Setting],
        place: Place,
        space: Space = ON_CUDA_CORES,
    ) -> None:
        self._kernels, self._every, self._place, self._space = dict(kernels), every, place, space
        self._model = place._replace(name="")  # no table is asked
        pool, _ = matrices(1, 0, POOL, on_gpu=False)
        with gpu.reported("making room for random numbers"):
            self._pool, self._clock = cupy.asarray(pool.ravel()), timing.DeviceClock()

    def tune(self, size: Size) -> Tuned:
        """Return the point of a size: the quickest of all that is tried.

        Raises
        ------
        DeviceError
            The GPU failed.
        TutorialError
            A finalist computed wrong values.
        """
        problem = self._problem(size)
        with gpu.reported("trying settings"):
            ways = sorted(self._space.ways(self._kernels, self._every, size, self._place), key=lambda of: of[0])
            tried = brief_look(ways, lambda way: brief(self._launch(way, problem), self._clock))
        expected = self._expected(size)
        final = list(dict.fromkeys([way for _, _, way in tried[:FINALISTS]] + [expected]))
        launches = {str(way): self._launch(way, problem) for way in final}
        for way, launch in launches.items():
            _check(way, launch, problem)
        times = timing.time_interleaved(launches | {"cuBLAS": cublas.launch(problem)}, **SAMPLING)
        timed = sorted((Timed(way, **times[str(way)].percentiles) for way in final), key=lambda one: one.ms)
        models = next(one for one in timed if one.way == expected)
        kept: dict[tuple[int, ...], tuple[int, int, int, float]] = {}  # by tile, and slices or blocks of a cluster
        for ms, number, way in tried:
            kept.setdefault(
                (len(way.setting), *way.setting[:2], way.setting[7]),
                (number, way.whole, way.shares, float(f"{1e3 * ms:.4g}")),
            )
        return Tuned.of(
            self._space.kernel,
            size,
            cublas_ms=times["cuBLAS"].percentiles["ms"],
            best=timed[0].way if timed[0].ms_p90 < models.ms_p10 else expected,
            expected=expected,
            finalists=timed,
            tried=list(kept.values()),
        )

    def race(self, size: Size) -> Point:
        """Return the point of a size: the model's choice beside cuBLAS and cuBLASLt's quickest, looked at in turn.

        Raises
        ------
        DeviceError, TutorialError
            As for `tune`.
        """
        problem = self._problem(size)
        launch = gpu.launcher(self._space.kernel.resolve(problem, self._model), problem)
        _check("the model's choice", launch, problem)
        best, offered = cublaslt.quickest(problem)
        with gpu.reported("racing"):
            launches = [launch, cublas.launch(problem), *([best.launch] if best else [])]
            turns = [[float(f"{brief(launch, self._clock):.4g}") for launch in launches] for _ in range(TURNS)]
        process = Process(*(Samples(list(ms), [], []) for ms in zip(*turns, strict=True)))
        return Point.summing(1, [process], best and (best.text, offered), **files.fields(self._space.kernel, size))

    def _problem(self, size: Size) -> Problem:
        """Return the problem of a size, with random numbers in A and B."""
        M, N, K = size
        with gpu.reported("making room for A, B and C"):
            types = self._space.kernel.types
            A, B = cupy.empty((M, K), types.operand), cupy.empty((K, N), types.operand)
            C = cupy.empty((M, N), types.result)
            self._fill(A, 0)
            self._fill(B, A.size)
        return operands.check(A, B, C, 1.0, 0.0, types)

    def _launch(self, way: Way, problem: Problem) -> timing.Queue:
        """Return what queues a product in one way."""
        kernel = dataclasses.replace(self._kernels[way.setting], settled=True).divided(way.whole, way.shares)
        return gpu.launcher(kernel.resolve(problem, self._place), problem)

    def _fill(self, matrix: cupy.ndarray, begin: int) -> None:
        """Fill a matrix with random numbers, from one of them on."""
        flat = matrix.ravel()
        for first in range(-(begin % POOL), flat.size, POOL):  # where the pool's first number goes
            flat[max(first, 0) : first + POOL] = self._pool[max(-first, 0) : flat.size - first]

    def _expected(self, size: Size) -> Way:
        """Return the model's choice."""
        way, kernel = self._space.expected(size, self._model)
        self._kernels.setdefault(way.setting, kernel)
        return way


def _check(what: str, launch: timing.Queue, problem: Problem) -> None:
    """Compare some rows of a launch's result with float64."""
    A, B, C = problem.A, problem.B, problem.C
    rows = np.unique(np.linspace(0, len(C) - 1, ROWS).astype(np.int64))
    with gpu.reported("checking"):
        C.fill(np.nan)
        launch()
        right = bool((excess(C[rows], A[rows], B, C[rows], 1.0, 0.0) <= 1).all())
    if not right:
        raise TutorialError(f"{what} is wrong at M×N×K = {times_of((*C.shape, len(B)))}; nothing is made of it")


def brief_look(
    ways: Sequence[Hopeful],
    sample: Callable[[Way], float],
    now: Callable[[], float] = time.monotonic,
) -> list[tuple[float, int, Way]]:
    """Return the approximate times of settings, each with its quickest division, as milliseconds, number and way.

    The quickest setting comes first.

    Parameters
    ----------
    ways : sequence
        For each setting the microseconds that the model expects, its number, and its divisions, the most promising
        first.
    sample : callable
        Returns the approximate milliseconds of a way.
    now : callable
        Returns the host's time in seconds.
    """
    found, least, begin = [], float("inf"), now()
    for expected, number, divisions in ways:
        if expected > HOPEFUL * ways[0][0] or now() - begin > LOOKING:
            break
        mine = []
        for way in divisions:
            mine.append((sample(way), number, way))
            least = min(least, mine[-1][0])
            if mine[-1][0] > CLOSE * least:
                break
        found.append(min(mine, key=lambda one: one[0]))
    return sorted(found, key=lambda one: one[0])


def tune(
    sizes: Sequence[Size],
    seconds: float = float("inf"),
    path: Path | None = None,
    ruled_out: Callable[[Table], None] = lambda table: None,
    progress: bool | None = None,
) -> Tuning:
    """Find the quickest settings at some sizes on this GPU, for 13 to take from then on.

    Points that this GPU's table has with the present code and software are not measured again. A table that cannot be
    continued is kept beside the new one, as ``….old.json``.

    Parameters
    ----------
    sizes, seconds, ruled_out, progress
        As for `plan`.
    path : Path, optional
        The table's file: the one in which 12 looks, unless given.

    Returns
    -------
    Recording of Tuned
        The whole table; not `complete` if it was broken off, from the keyboard or for want of time.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed. The table has the points that were found until then.
    """
    wanted, made = plan(sizes, seconds, ruled_out, progress), provenance()
    path = path or tuned.path(made["gpu"])
    earlier, kept = None, []
    with contextlib.suppress(TutorialError):  # there is none, or it cannot be read
        earlier = files.load(path, Tuning)
    if earlier and same(earlier.provenance, made) and earlier.settings == wanted.settings:
        made, kept = earlier.provenance, [point for point in earlier.points if point.digest == KERNEL.digest]
    elif path.exists():
        os.replace(path, path.with_suffix(".old.json"))

    try:
        return follow(wanted, made, kept, lambda now: files.write(path, now), progress=progress)
    except KeyboardInterrupt:
        return files.load(path, Tuning)
    except DeviceError as error:
        raise DeviceError(f"{error}; what was found before is in {path}") from error
