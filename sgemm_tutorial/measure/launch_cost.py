"""Measures the trap that `timing` avoids: what single launches seem to take, timed one at a time from Python.

The same launches are timed in three ways: by the host's clock, one at a time; between two events, one at a time; and
as `timing` does, in batches behind a spin kernel, which is the GPU's time alone. The launches have nothing left to
check or prepare, so what the first two add is the least that launching from Python costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import cupy
import numpy as np

from .. import correctness, cublas, gpu, operands
from ..catalogue import find
from ..kernel import Kernel
from ..progress import bar
from ..records import files, timings
from ..records.launch_cost import RECORDING, WAYS, Costs, Launches, load
from ..records.provenance import provenance
from ..records.timings import no_gpu
from ..table import Table
from . import timing
from .timing import Launch, Timing

SIZES = tuple(range(128, 1025, 128))
"""Square problems that are recorded."""
KERNEL = "03_shared_tile"
"""What is timed beside cuBLAS."""
CALLS, WARM_UP = 200, 20
"""Launches that are timed one at a time, and launches before them that are not."""


def by_host_clock(
    launch: Launch,
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


def by_events(launch: Launch, calls: int = CALLS) -> Timing:
    """Time single launches between two events, each on an idle GPU."""
    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    times = []
    for _ in range(WARM_UP + calls):
        cupy.cuda.get_current_stream().synchronize()
        before.record()
        launch()
        after.record()
        after.synchronize()
        times.append(cupy.cuda.get_elapsed_time(before, after))
    return Timing(tuple(times[WARM_UP:]), 1)


def measure(sizes: Sequence[int] = SIZES, kernel: Kernel | str = KERNEL, progress: bool | None = None) -> Costs:
    """Time cuBLAS and a kernel in the three ways, on this machine's GPU, on random matrices.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed.
    """
    kernel = find(kernel) if isinstance(kernel, str) else kernel
    points = [point for size in bar(sizes, show=progress, unit="size") for point in _at(size, kernel)]
    return Costs(provenance(), points)


def measure_or_recording(size: int = 256) -> Table:
    """Return the table of one size, measured on this GPU, or, where there is none, recorded."""
    if gpu.available():
        return measure([size]).table(size)
    costs = load()
    print(no_gpu(timings.Record(costs.provenance, {})))
    return costs.table(size)


def record(path: Path = RECORDING) -> None:
    """Measure all of `SIZES` and save the recording."""
    costs = measure(progress=True)
    settings = {"calls": CALLS, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal", "ways": WAYS}
    files.write(
        path,
        {"provenance": costs.provenance, "settings": settings, "points": [asdict(point) for point in costs.points]},
    )


def _at(size: int, kernel: Kernel) -> Iterator[Launches]:
    A, B = correctness.matrices(size, size, size, on_gpu=True)
    with gpu.reported(f"timing single launches at {size}"):
        problem = operands.check(A, B, cupy.empty((size, size), np.float32), 1.0, 0.0)
        launches: Mapping[str, Launch] = {"cuBLAS": cublas.launch(problem), kernel.name: kernel.launcher(problem)}
        device = timing.time_interleaved(launches)
        for name, launch in launches.items():
            taken = (by_host_clock(launch), by_events(launch), device[name])
            yield Launches(name, size, dict(zip(WAYS, map(_us, taken), strict=True)))


def _us(taken: Timing) -> tuple[float, float, float]:
    return tuple(round(1e3 * ms, 3) for ms in (taken.median_ms, taken.p10_ms, taken.p90_ms))


if __name__ == "__main__":
    record()
