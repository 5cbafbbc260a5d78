"""Measures kernels and cuBLAS running for seconds, at the clock that the card's power limit then allows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cupy

from sgemm_tutorial import correctness, cublas, gpu, operands
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.timing import sensors

from ..measure.driver import Item, Plan
from ..records import files
from ..records.files import Measured, Recording
from ..records.timings import Ms
from ..variants import HOPPER_STEPS


@dataclass(frozen=True)
class Sustained(Measured):
    """The second half of the time that one kernel, or a routine of cuBLAS, ran at full size.

    Attributes
    ----------
    ms : float
        Median device time of a launch.
    sm_mhz : int or None
        Median clock of the multiprocessors; None where NVML does not tell.
    watts : int or None
        Median power of the card, likewise.
    """

    ms: Ms
    sm_mhz: int | None
    watts: int | None

    @property
    def cycles(self) -> float:
        """Cycles of a multiprocessor in a launch."""
        return self.ms * 1e3 * self.sm_mhz


def of(kernel: Kernel | Gemm) -> Sustained:
    """Return the recorded run of a kernel, as it is now, or of a routine of cuBLAS.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code.
    """
    return files.point("sustained", Sustained, kernel)


SIZE = 4096
"""M = N = K."""
SECONDS, LAUNCHES = 1.6, 64
"""How long each kernel runs, and how many launches are queued at a time."""


def plan() -> Plan:
    """Return the plan of the recording: the kernels for tensor cores, and cuBLAS with their types."""
    best = find("16").variant(BM=128, BN=256, BK=64, STAGES=3)
    halves = (find("15"), find("16"), best, HOPPER_STEPS[1], find("20"), cublas.gemm_ex)
    items = [(kernel,) for kernel in (*halves, find("17"), find("21_tf32x3_wgmma"), cublas.sgemm)]
    return Plan("sustained", Recording[Sustained], items, measure, {"size": SIZE, "seconds": SECONDS}, takes=2.0)


def measure(missing: Sequence[Item]) -> Iterator[Sustained]:
    """Let each kernel run on this machine's GPU until the clocks have settled, and yield its time from then on."""
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
