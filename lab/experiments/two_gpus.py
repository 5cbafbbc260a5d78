"""Measures products on two GPUs of one host or more, for each way of distributing B, and reads through the link.

The ways are those of `lab.several`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, timing
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel

from .. import several
from ..measure.driver import Item, Plan
from ..records import files
from ..records.files import Measured, Recording, Sized
from ..records.sizes import sizes_of
from ..records.timings import Spread
from .ceilings import READS, THREADS


@dataclass(frozen=True)
class Divided(Sized, Spread):
    """One kernel, or a routine of cuBLAS, at one size, on some GPUs in one way: the time until all had finished.

    Attributes
    ----------
    gpus : int
    way : str
        One of `several.WAYS`; on one GPU all are the same.
    alone : bool
        Whether only the panels were transferred, and nothing was multiplied.
    """

    gpus: int
    way: str
    alone: bool

    PROBLEM = ("size", "gpus", "way", "alone")

    @property
    def tflops(self) -> float:
        """Rate in 10¹² operations per second, 2MNK of them on all GPUs together."""
        return 2 * self.M * self.N * self.K / self.ms / 1e9


@dataclass(frozen=True)
class Reach(Measured, Spread):
    """The device time of a launch that reads an array again and again, in a GPU's own memory or in another GPU's.

    Attributes
    ----------
    bytes : int
        The size of the array.
    far : bool
        Whether it lies in another GPU's memory.
    reads : int
        How often one launch reads it.
    """

    bytes: int
    far: bool
    reads: int

    PROBLEM = ("bytes", "far")

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.bytes * self.reads / self.ms * 1e3


def reach(size: int, far: bool) -> Reach:
    """Return the recorded time of reading an array of that many bytes.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code.
    """
    return files.point("reach", Reach, READS, size, far)


def of(kernel: Kernel | Gemm, size: int, gpus: int = 1, way: str = "held", alone: bool = False) -> Divided:
    """Return the recorded times of a kernel as it is now, or of a routine of cuBLAS, at M = N = K = `size`.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code.
    """
    return files.point("two_gpus", Divided, kernel, (size,) * 3, gpus, way, alone)


SIZES = sizes_of((2048, 4096, 8192, 16384))
LARGE = sizes_of((32768,))
"""Sizes for more than two GPUs."""
READS_OF, READS_EACH = (16 << 20, 64 << 20, 512 << 20), 20
"""Bytes of arrays that are read again and again, and how often a launch reads them."""
SAMPLING = {"samples": 11, "least_samples": 5, "seconds": 1.5, "warm_s": [0.1, 0.6]}


def numbers() -> list[int]:
    """Return on how many GPUs to measure: on two, four, eight … of this machine's, and on as many as are recorded."""
    there = files.load("two_gpus", Recording[Divided]).points if files.path_of("two_gpus").exists() else []
    doubled = {2**power for power in range(1, several.count().bit_length())}
    return sorted({point.gpus for point in there if point.gpus > 1} | doubled) or [2]


def plan() -> Plan:
    """Return the plan of the recording: our fastest kernels and cuBLAS in each way, and the transfers alone."""
    ours, many = ((find("autotuned"), cublas.sgemm), (find("persistent"), cublas.gemm_ex)), numbers()
    items: list[Item] = []
    for size in (*SIZES, *LARGE) if max(many) > 2 else SIZES:
        for kernel, gemm in ours:
            items += [(who, size, 1, "held", False) for who in (kernel, gemm)]
            for gpus in many if size in SIZES else many[1:]:
                ways = [way for way in several.WAYS if way != "grid" or several.grid(way, gpus)[1] > 1]
                items += [(who, size, gpus, way, False) for who in (kernel, gemm) for way in ways]
                items += [(gemm, size, gpus, way, True) for way in ("gathered", "ahead")]
    settings = {**SAMPLING, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal"}
    return Plan("two_gpus", Recording[Divided], items, measure, settings, takes=0.6)


def measure(missing: Sequence[Item]) -> Iterator[Divided]:
    """Measure the missing items of each size and type, in turns, and yield their points."""
    for (size, types), group in groupby(missing, key=lambda item: (item[1], item[0].types.name)):
        items = list(group)
        A, B = matrices(*size, on_gpu=True, types=items[0][0].types)
        launches = {}
        with gpu.reported(f"{types} at {size[0]} on several GPUs"):
            ways = {(gpus, way) for _, _, gpus, way, _ in items}
            parts = {key: several.spread(A, B, None, *key, items[0][0].types) for key in ways}
            for kernel, _, gpus, way, alone in items:  # each has the same parts: one GPU has no room for more at 32768
                name = f"{kernel.name} {gpus} {way} {alone}"
                launches[name] = several.launch(kernel, parts[gpus, way], way, alone=alone)
            taken = timing.time_interleaved(launches, **SAMPLING)
            parts.clear()
            launches.clear()
            for device in range(several.count()):
                with cupy.cuda.Device(device):
                    cupy.get_default_memory_pool().free_all_blocks()
        for (kernel, _, gpus, way, alone), of in zip(items, taken.values(), strict=True):
            yield Divided.of(kernel, size, gpus=gpus, way=way, alone=alone, **of.percentiles)


def reach_plan() -> Plan:
    """Return the plan of reads of memory: a GPU's own and the other's."""
    items = [(READS, size, far) for size in READS_OF for far in (False, True)]
    return Plan("reach", Recording[Reach], items, measure_reach, {"reads": READS_EACH}, takes=0.5)


def measure_reach(missing: Sequence[Item]) -> Iterator[Reach]:
    """Measure how fast a kernel reads arrays here and there, and yield the points."""
    blocks, out = 8 * gpu.place().multiprocessors, cupy.empty(1, np.float32)
    function = gpu.load(READS.instance)
    several.reaches(0, 1)
    launches = {}
    for _, size, far in missing:
        with cupy.cuda.Device(int(far)):
            array = cupy.zeros(size, np.uint8)
            cupy.cuda.runtime.deviceSynchronize()
        arguments = np.int32(READS_EACH), np.uint64(size // 16), array, out
        launches[f"{size} {far}"] = partial(function, (blocks,), (THREADS,), arguments)
    taken = timing.time_interleaved(launches, **SAMPLING)
    for (kernel, size, far), of in zip(missing, taken.values(), strict=True):
        yield Reach.of(kernel, bytes=size, far=far, reads=READS_EACH, **of.percentiles)
