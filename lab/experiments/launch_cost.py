"""Measures single launches in three ways, two of which are a trap.

The same launches are timed by the host's clock, one at a time; between two events, one at a time; and as `timing` does,
in batches behind a spin kernel, which is the time of the GPU alone. The launches have nothing left to check or prepare,
so the difference is the least that launching from Python costs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, operands, timing
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.operands import FP32
from sgemm_tutorial.table import Table
from sgemm_tutorial.timing import Queue, Timing

from ..measure.driver import Item, Plan
from ..records import files
from ..records.files import Measured, Recording
from ..records.timings import Ms

WAYS = ("host clock", "events", "device")
CUBLAS = Gemm("cuBLAS", FP32)
KERNEL = find("shared_tile").name
"""The kernel that is timed beside cuBLAS."""


@dataclass(frozen=True)
class Launches(Measured):
    """One launch at one size, timed in the three ways.

    Attributes
    ----------
    size : int
        M = N = K.
    us : dict of str to tuple of float
        For each of `WAYS`, microseconds per launch: the median, the 10th and the 90th percentile.
    """

    size: int
    us: dict[str, tuple[Ms, Ms, Ms]] = field(hash=False)

    PROBLEM = ("size",)


@dataclass(frozen=True)
class Costs(Recording[Launches]):
    """Launches with their provenance."""

    def at(self, size: int) -> Table:
        """Return the points of one size as a table."""
        points = [point for point in self.points if point.size == size]
        rows = [(point.kernel, *(f"{point.us[way][0]:.1f}" for way in WAYS)) for point in points]
        note = (
            "Medians. Host clock and events: one launch at a time, with nothing left to prepare. Device: batches "
            "behind a spin kernel."
        )
        return Table(("", *WAYS), rows, f"One launch at M = N = K = {size}, in µs: {self.made}", note)

    @property
    def sizes(self) -> list[int]:
        """The sizes measured, ascending."""
        return sorted({point.size for point in self.points})

    def seconds(self, kernel: str) -> dict[str, list[float]]:
        """Return for each of `WAYS` the medians by size, in seconds, as `draw.scaling` takes them."""
        points = sorted((point for point in self.points if point.kernel == kernel), key=lambda point: point.size)
        return {way: [point.us[way][0] / 1e6 for point in points] for way in WAYS}


def load(path: str | Path = "launch_cost") -> Costs:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.load(path, Costs)


SIZES = tuple(range(128, 1025, 128))
"""Square problems that are recorded."""
CALLS, WARM_UP = 200, 20
"""Launches that are timed one at a time, and launches before them that are not."""


def by_host_clock(
    launch: Queue,
    calls: int = CALLS,
    wait: Callable[[], None] | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time single launches with the host's clock: wait until the GPU is idle, start, launch, wait, stop.

    Parameters
    ----------
    launch : callable
        Queues work on the current stream.
    calls : int
    wait : callable, optional
        Returns when the GPU has done all its work; the current stream's `synchronize`, unless given.
    now : callable
        Returns the host's time in seconds.
    """
    wait = wait or cupy.cuda.get_current_stream().synchronize
    times = []
    for _ in range(WARM_UP + calls):
        wait()
        begin = now()
        launch()
        wait()
        times.append(1e3 * (now() - begin))
    return Timing(tuple(times[WARM_UP:]), 1)


def by_events(launch: Queue) -> Timing:
    """Time single launches between two events, each on an idle GPU."""
    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    times = []
    for _ in range(WARM_UP + CALLS):
        cupy.cuda.get_current_stream().synchronize()
        before.record()
        launch()
        after.record()
        after.synchronize()
        times.append(cupy.cuda.get_elapsed_time(before, after))
    return Timing(tuple(times[WARM_UP:]), 1)


def plan() -> Plan:
    """Return the plan of the recording."""
    settings = {"calls": CALLS, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal"}
    items = [(what, size) for size in SIZES for what in (CUBLAS, find(KERNEL))]
    return Plan("launch_cost", Costs, items, points, settings, takes=0.6)


def points(missing: Sequence[Item]) -> Iterator[Launches]:
    """Measure cuBLAS and the kernel at each size of which one is missing."""
    for size, _ in groupby(missing, key=lambda item: item[1]):
        A, B = matrices(size, size, size, on_gpu=True)
        with gpu.reported(f"timing single launches at {size}"):
            problem = operands.check(A, B, cupy.empty((size, size), np.float32), 1.0, 0.0)
            both = {CUBLAS: cublas.launch(problem), find(KERNEL): find(KERNEL).launcher(problem)}
            device = timing.time_interleaved({what.name: launch for what, launch in both.items()}, seconds=0.5)
            for what, launch in both.items():
                taken = (by_host_clock(launch), by_events(launch), device[what.name])
                us = (tuple(round(1e3 * ms, 3) for ms in each.percentiles.values()) for each in taken)
                yield Launches.of(what, size=size, us=dict(zip(WAYS, us, strict=True)))
