"""Measures the clock that multiprocessors run at, by their own count of cycles, beside the clock that NVML tells.

A kernel is given a few lines more. When it begins, each thread reads the multiprocessor's counter of cycles and the
GPU's timer. At its end, the first thread of the first block reads them again, and writes the differences over the first
two elements of C.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cupy
import numpy as np

from sgemm_tutorial import gpu
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.timing import Queue

from ..measure.driver import Item, Plan
from ..measure.sensors import Sensors
from ..records import files
from ..records.files import Recording
from ..records.sizes import sizes_of
from .sustained import Fed, middle, problems

READ = (
    'asm volatile("mov.u32 %0, %%clock;" : "=r"({0}Cycles)); '
    'asm volatile("mov.u64 %0, %%globaltimer;" : "=l"({0}Time));'
)
BEGIN = "    unsigned firstCycles, lastCycles; unsigned long long firstTime, lastTime;\n    " + READ.format("first")
END = f"""    if (threadIdx.x == 0 && blockIdx.x == 0) {{
        {READ.format("last")}
        reinterpret_cast<unsigned*>(C)[0] = lastCycles - firstCycles;
        reinterpret_cast<unsigned*>(C)[1] = unsigned(lastTime - firstTime);
    }}
"""
SECONDS, TOGETHER = 1.6, 20
"""The time for which a kernel runs, and the number of launches; the counts of the last one are read."""


@dataclass(frozen=True, kw_only=True)
class Clocks(Fed):
    """The clocks in the second half of a lasting run of a kernel.

    Attributes
    ----------
    own_mhz, nvml_mhz, watts : int
        Medians of cycles per µs in a launch, of NVML's clock of the multiprocessors, and of the card's power; of the
        last two None where NVML does not tell.
    """

    own_mhz: int
    nvml_mhz: int | None
    watts: int | None

    PROBLEM = ("size", "inputs")


def of(kernel: Kernel, size: int = 4096, inputs: str = "normal") -> Clocks:
    """Return what is recorded of a kernel, as it is now.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code.
    """
    return files.point("clocks", Clocks, kernel, (size,) * 3, inputs)


def plan() -> Plan:
    """Return the plan: kernels of all kinds on random numbers and on zeros, some at a larger size."""
    full, large = sizes_of((4096, 8192))
    kernels = [
        find(name)
        for name in (
            "async_pipeline",
            "autotuned",
            "wmma",
            "wmma_warp_tile",
            "mma",
            "tf32x3",
            "wgmma",
            "producer_warp",
            "persistent",
            "tf32x3_wgmma",
        )
    ]
    items = [(kernel, full, inputs) for kernel in kernels for inputs in ("normal", "zeros")]
    items += [(find(name), large, "normal") for name in ("autotuned", "persistent")]
    return Plan("clocks", Recording[Clocks], items, measure, {"seconds": SECONDS}, takes=2.0)


def counting(kernel: Kernel) -> Kernel:
    """Return the kernel with the lines that count."""
    source = kernel.source
    begin, end = source.index("\n{\n", source.index("__global__")) + 3, source.rindex("}")
    return kernel.edited((source, source[:begin] + BEGIN + "\n" + source[begin:end] + END + source[end:]))


def measure(missing: Sequence[Item]) -> Iterator[Clocks]:
    """Measure the missing items one after the other on this machine's GPU."""
    sensors = Sensors()
    for (kernel, size, inputs), problem in problems(missing):
        with gpu.reported(kernel.name):
            launch = counting(kernel.resolve(problem, gpu.place()).kernel).launcher(problem)
            seen = _seen(launch, problem.C, sensors)
        own, nvml, watts = map(middle, zip(*seen, strict=True))
        yield Clocks.of(kernel, size, inputs=inputs, own_mhz=own, nvml_mhz=nvml, watts=watts)


def _seen(launch: Queue, C: cupy.ndarray, sensors: Sensors) -> list[tuple[float, int | None, float | None]]:
    """Return the own clock and what the sensors read, again and again in the second half of a lasting run."""
    seen, begin = [], time.monotonic()
    while (passed := time.monotonic() - begin) < SECONDS:
        for _ in range(TOGETHER):
            launch()
        told = sensors.read()  # while they run
        cycles, ns = cupy.asnumpy(C.ravel()[:2]).view(np.uint32)
        if passed > SECONDS / 2:
            seen.append((1e3 * int(cycles) / int(ns), *told))
    return seen
