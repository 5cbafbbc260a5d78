"""Measures what kernels take when the card has been busy with them for a while; see `records.sustained`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

import cupy

from sgemm_tutorial import correctness, cublas, gpu, operands
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.timing import sensors

from ..records.files import Recording
from ..records.sustained import Sustained
from ..variants import HOPPER_STEPS
from .driver import Item, Plan

SIZE = 4096
"""M = N = K."""
SECONDS, LAUNCHES = 1.6, 64
"""How long each runs, and launches that are queued at a time."""


def plan() -> Plan:
    """Return the plan of the recording: the kernels for tensor cores, and cuBLAS with their types."""
    best = find("16").variant(BM=128, BN=256, BK=64, STAGES=3)
    halves = (find("15"), find("16"), best, HOPPER_STEPS[3], find("18"), cublas.gemm_ex)
    items = [(kernel,) for kernel in (*halves, find("17"), find("17_tf32x3_hopper"), cublas.sgemm)]
    return Plan("sustained", Recording[Sustained], items, measure, {"size": SIZE, "seconds": SECONDS}, takes=2.0)


def measure(missing: Sequence[Item]) -> Iterator[Sustained]:
    """Let each run on this machine's GPU until the clocks have settled, and yield what it takes then."""
    for (kernel,) in missing:
        A, B = correctness.matrices(SIZE, SIZE, SIZE, on_gpu=True, types=kernel.types)
        problem = operands.check(A, B, None, 1.0, 0.0, kernel.types)
        launch = kernel.launcher(problem)
        card, begin, taken = sensors(cupy.cuda.Device().id), time.monotonic(), []
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        with gpu.reported(kernel.name):
            while time.monotonic() - begin < SECONDS:
                before.record()
                for _ in range(LAUNCHES):
                    launch()
                after.record()
                reading = card.read()
                after.synchronize()
                taken.append((cupy.cuda.get_elapsed_time(before, after) / LAUNCHES, *reading))
        times, clocks, powers = zip(*taken[len(taken) // 2 :], strict=True)
        yield Sustained.of(kernel, ms=statistics.median(times), sm_mhz=_median(clocks), watts=_median(powers))


def _median(readings: Sequence[float | None]) -> int | None:
    return None if None in readings else round(statistics.median(readings))
