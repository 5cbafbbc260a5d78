"""Measures the trap that `timing` avoids: what single launches seem to take, timed one at a time from Python.

The same launches are timed in three ways: by the host's clock, one at a time; between two events, one at a time; and
as `timing` does, in batches behind a spin kernel, which is the GPU's time alone. The launches have nothing left to
check or prepare, so what the first two add is the least that launching from Python costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import cupy
import numpy as np

from sgemm_tutorial import correctness, cublas, gpu, operands, timing
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.timing import Queue, Timing

from ..records.launch_cost import CUBLAS, KERNEL, WAYS, Costs, Launches
from ..records.provenance import provenance
from .driver import Item, Plan

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


def measure(sizes: Sequence[int] = SIZES) -> Costs:
    """Time cuBLAS and a kernel in the three ways, on this machine's GPU, on random matrices.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed.
    """
    return Costs(provenance(), {}, True, list(points([(CUBLAS, size) for size in sizes])))


def plan() -> Plan:
    """Return the plan of the recording."""
    settings = {"calls": CALLS, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal"}
    items = [(what, size) for size in SIZES for what in (CUBLAS, find(KERNEL))]
    return Plan("launch_cost", Costs, items, points, settings, takes=0.6)


def points(missing: Sequence[Item]) -> Iterator[Launches]:
    """Measure cuBLAS and the kernel at each size of which one is missing."""
    for size, _ in groupby(missing, key=lambda item: item[1]):
        A, B = correctness.matrices(size, size, size, on_gpu=True)
        with gpu.reported(f"timing single launches at {size}"):
            problem = operands.check(A, B, cupy.empty((size, size), np.float32), 1.0, 0.0)
            both = {CUBLAS: cublas.launch(problem), find(KERNEL): find(KERNEL).launcher(problem)}
            device = timing.time_interleaved({what.name: launch for what, launch in both.items()}, seconds=0.5)
            for what, launch in both.items():
                taken = (by_host_clock(launch), by_events(launch), device[what.name])
                yield Launches.of(what, size=size, us=dict(zip(WAYS, map(_us, taken), strict=True)))


def _us(taken: Timing) -> tuple[float, float, float]:
    return tuple(round(1e3 * ms, 3) for ms in taken.summary.values())
