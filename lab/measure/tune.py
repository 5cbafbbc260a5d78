"""Searches 12's settings on this GPU: which template arguments, and which division of the work, are quickest at a size.

What the compiler or the occupancy calculator rules out is never run. Of the rest each is launched briefly at each size,
those from which the model expects most first; the few quickest are then timed in turn with cuBLAS. What is found is
12's choice from then on, at these sizes, on GPUs of this name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from sgemm_tutorial import correctness, cublas, gpu, operands, timing, tuned
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import DeviceError, TutorialError
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.families.autotuned import PARAMETERS
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import FP32, imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..model.resources import obstacle
from ..records import files
from ..records.provenance import provenance, same
from ..records.sizes import Size, times_of
from ..records.tune import Timed, Tuned, Tuning, tile_of
from .driver import Plan, compile_kernels, follow

KERNEL = find("12")
REGISTERS = 65_536  # of an SM, every GPU since Kepler
FINALISTS = 4
"""Settings that are timed closely at each size, beside the model's choice."""
HOPEFUL = 2.5
"""Ways from which the model expects so many times the least time are not tried."""
CLOSE = 1.25
"""A setting that takes so many times the least found so far is not tried with other divisions."""
LOOKING = 5.0
"""Seconds after which no other setting is looked at, at one size."""
DIVISIONS = 6
"""Divisions that are tried of a setting at most."""
SAMPLING: dict[str, Any] = {"samples": 9, "least_samples": 5, "seconds": 0.1, "warm_s": (0.01, 0.03)}
POOL = 2**24 + 43
"""Random numbers that matrices are filled with, over and over; odd, so that no two rows are alike for long."""
ROWS = 16
"""Rows of C that are checked."""

Setting = tuple[int, ...]
"""Template arguments: all of 12's, or those of another kernel that are tried; see `sweep`."""


def settings() -> list[Setting]:
    """Return the settings that take part: combinations by a rule, those of `autotuned.SETTINGS` among them.

    A thread's tile and how the lanes lie make a warp's tile. Up to 8 warps make a block, and share its tile, its depth
    or both. Registers for the sums, two fragments and some 40 more say how many blocks an SM may hold: that many, and
    one more, if the compiler manages. Thin tiles and vectors have a few of their own.
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
    found += [  # a tile of 16 columns, and three with fewer blocks than an SM would hold
        (64, 16, 32, 64, 16, 4, 8, 4, 4, 4, 4, 1),
        (64, 64, 8, 32, 64, 8, 8, 1, 4, 4, 6, 1),
        (32, 32, 32, 32, 32, 8, 4, 4, 4, 4, 4, 1),
        (16, 32, 32, 16, 32, 4, 4, 4, 4, 4, 5, 1),
    ]
    return list(dict.fromkeys(found))


def fitted(setting: Setting, size: Size, architecture: str, multiprocessors: int) -> Kernel | None:
    """Return 12 with a setting as a size has it, or nothing where the setting is for other sizes.

    Words that don't lie in fours are copied one by one; before 8.0 tiles go through registers. Vectors have their own
    settings, and tiles far larger than C are left out.
    """
    M, N, _ = size
    of = autotuned.named(setting)
    if not autotuned.meant(of, size) or of["BM"] >= max(4 * M, 64) or of["BN"] >= max(4 * N, 64):
        return None
    return KERNEL.variant(**of).resolve(imagined(*size), Place(architecture, multiprocessors)).kernel


@dataclass(frozen=True)
class Field:
    """Who takes part, on one architecture.

    Attributes
    ----------
    kernels : dict of tuple to Kernel
        By template arguments.
    obstacles : dict of tuple to str
        Of those that were ruled out, what the compiler or the occupancy calculator said.
    names : sequence of str
        Of the template arguments.
    """

    kernels: dict[Setting, Kernel]
    obstacles: dict[Setting, str]
    names: Sequence[str] = PARAMETERS

    def table(self) -> Table:
        """Return what was ruled out, and why."""
        rows = [(", ".join(map(str, setting)), why) for setting, why in self.obstacles.items()]
        note = f"{len(rows)} of {len(rows) + len(self.kernels)}. Settings are {', '.join(self.names)}."
        return Table(("setting", "why"), rows, "Ruled out before anything is timed", note)


def field(
    sizes: Iterable[Size], architecture: str, multiprocessors: int, progress: bool | None = None, among: Sequence = ()
) -> Field:
    """Compile the settings as these sizes have them, and rule out what cannot do.

    Parameters
    ----------
    sizes : iterable of (M, N, K)
    architecture, multiprocessors
        Of the GPU; there need be none.
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
    return ruled(Field(found, {}), architecture, progress)


def ruled(entered: Field, architecture: str, progress: bool | None = None) -> Field:
    """Return who of these takes part: compile them, and rule out what the compiler or the occupancy calculator does."""
    compile_kernels(entered.kernels.values(), architecture, progress)
    why = {setting: obstacle(kernel, limits_of(architecture)) for setting, kernel in entered.kernels.items()}
    kept = {setting: kernel for setting, kernel in entered.kernels.items() if not why[setting]}
    reasons = {setting: reason for setting, reason in why.items() if reason}
    return Field(kept, entered.obstacles | reasons, entered.names)


def plan(
    sizes: Sequence[Size],
    seconds: float = float("inf"),
    ruled_out: Callable[[Table], None] = lambda table: None,
    progress: bool | None = None,
) -> Plan:
    """Return the plan of a recording of 12's settings.

    Parameters
    ----------
    sizes : sequence of (M, N, K)
    seconds : float
        After that many, compiling included, no other size is begun.
    ruled_out : callable
        Is given `Field.table` before anything is measured.
    progress : bool, optional
        Whether compiling shows a progress bar.
    """
    every = settings()

    def measure(missing: list) -> Iterator[Tuned]:
        begin, place = time.monotonic(), gpu.place()
        taking_part = field([size for _, size in missing], place.architecture, place.multiprocessors, progress)
        ruled_out(taking_part.table())
        search = Search(taking_part, every, place)
        for _, size in missing:
            if time.monotonic() - begin >= seconds:
                return
            yield search.tune(size)

    shared = {"settings": [list(setting) for setting in every], "inputs": "standard normal, repeated"}
    return Plan("tune", Tuning, [(KERNEL, size) for size in sizes], measure, shared, takes=1.0)


class Search:
    """Finds the quickest way for one size after the other, on the current GPU.

    Parameters
    ----------
    taking_part : Field
    every : sequence of tuple
        All settings, by whose numbers results are kept.
    place : Place
        The GPU.
    """

    def __init__(self, taking_part: Field, every: Sequence[Setting], place: Place) -> None:
        self._kernels, self._every, self._place = dict(taking_part.kernels), every, place
        self._model = place.architecture, place.multiprocessors
        pool, _ = correctness.matrices(1, 0, POOL, on_gpu=False)
        with gpu.reported("making room for random numbers"):
            self._pool, self._clock = cupy.asarray(pool.ravel()), timing.DeviceClock()

    def tune(self, size: Size) -> Tuned:
        """Return what is quickest at a size.

        Raises
        ------
        DeviceError
            The GPU failed.
        TutorialError
            A finalist computed wrong values.
        """
        M, N, K = size
        with gpu.reported("making room for A, B and C"):
            A, B, C = (cupy.empty(shape, np.float32) for shape in ((M, K), (K, N), (M, N)))
            self._fill(A, 0)
            self._fill(B, A.size)
        problem = operands.check(A, B, C, 1.0, 0.0, FP32)

        def launch(way: Way) -> timing.Queue:
            kernel = dataclasses.replace(self._kernels[way.setting], settled=True).divided(way.whole, way.shares)
            return gpu.launcher(kernel.resolve(problem, self._place), problem)

        with gpu.reported("trying settings"):
            tried = brief_look(self._ways(size), lambda way: timing.brief(launch(way), self._clock))
        expected = self._expected(size)
        final = list(dict.fromkeys([way for _, _, way in tried[:FINALISTS]] + [expected]))
        for way in final:
            self._check(way, launch(way), A, B, C)
        times = timing.time_interleaved(
            {str(way): launch(way) for way in final} | {"cuBLAS": cublas.launch(problem)}, **SAMPLING
        )
        timed = sorted((Timed(way, **times[str(way)].summary) for way in final), key=lambda one: one.ms)
        kept: dict[str, tuple[int, int, int, float]] = {}
        for ms, number, way in tried:
            kept.setdefault(tile_of(way.setting), (number, way.whole, way.shares, float(f"{1e3 * ms:.4g}")))
        return Tuned.of(
            KERNEL,
            size,
            cublas_ms=times["cuBLAS"].median_ms,
            best=timed[0].way,
            expected=expected,
            finalists=timed,
            tried=list(kept.values()),
        )

    def _fill(self, matrix: cupy.ndarray, begin: int) -> None:
        """Fill a matrix with random numbers, from one of them on."""
        flat, first = matrix.ravel(), 0
        while first < flat.size:
            part = self._pool[(begin + first) % POOL :][: flat.size - first]
            flat[first : first + part.size] = part
            first += part.size

    def _ways(self, size: Size) -> list[tuple[float, int, list[Way]]]:
        """Return what each setting takes at least by the model, its number and its ways, the most hopeful first."""
        found = []
        for number, setting in enumerate(self._every):
            kernel = fitted(setting, size, *self._model)
            if not kernel:
                continue
            key = tuple(kernel.parameters.values())
            divisions = [
                (expected, Way((*key[:-1], int(shares > 0)), whole, shares))
                for expected, whole, shares in autotuned.ways(key, size, *self._model)
            ]
            divisions = [(expected, way) for expected, way in divisions if way.setting in self._kernels][:DIVISIONS]
            if divisions:
                found.append((divisions[0][0], number, [way for _, way in divisions]))
        return sorted(found, key=lambda of: of[0])

    def _expected(self, size: Size) -> Way:
        """Return what the model takes; it is launched even if it was ruled out."""
        launch = KERNEL.resolve(imagined(*size), Place(*self._model))  # a place without a name: no table is asked
        kernel, counts = launch.kernel, launch.division.counts
        self._kernels.setdefault(tuple(kernel.parameters.values()), kernel)
        return Way(tuple(kernel.parameters.values()), counts["whole"], counts["shares"])

    def _check(self, way: Way, launch: timing.Queue, A: Any, B: Any, C: Any) -> None:
        """Compare some rows of what a way computes with float64."""
        rows = np.unique(np.linspace(0, len(C) - 1, ROWS).astype(np.int64))
        with gpu.reported("checking"):
            C.fill(np.nan)
            launch()
            right = bool((correctness.excess(C[rows], A[rows], B, C[rows], 1.0, 0.0) <= 1).all())
        if not right:
            raise TutorialError(f"{way} is wrong at M×N×K = {times_of((*C.shape, len(B)))}; nothing is made of it")


def brief_look(
    ways: Sequence[tuple[float, int, list[Way]]],
    sample: Callable[[Way], float],
    now: Callable[[], float] = time.monotonic,
) -> list[tuple[float, int, Way]]:
    """Return about how long settings take, each with its quickest division: milliseconds, number and way, in order.

    Parameters
    ----------
    ways : sequence
        For each setting the microseconds that the model expects, its number, and its divisions, the most hopeful first.
    sample : callable
        Returns about how many milliseconds a way takes.
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
    """Find the quickest settings at some sizes on this GPU, for 12 to take from then on.

    What the table of this GPU holds of the present code, with the present software, is not measured again. A table that
    cannot be continued is kept beside the new one, as ``….old.json``.

    Parameters
    ----------
    sizes, seconds, ruled_out, progress
        As for `plan`.
    path : Path, optional
        Where the table is; unless given, where 12 looks for it.

    Returns
    -------
    Recording of Tuned
        The whole table; not `complete` if it was broken off, from the keyboard or for want of time.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed; what was found until then is in the table.
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
