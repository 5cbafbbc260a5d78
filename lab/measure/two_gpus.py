"""Measures products on two GPUs of one host; see `records.two_gpus`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import cupy
import numpy as np

from sgemm_tutorial import correctness, cublas, gpu, timing
from sgemm_tutorial.catalogue import find

from .. import several
from ..records.ceilings import READS, THREADS
from ..records.files import Recording
from ..records.sizes import sizes_of
from ..records.two_gpus import Divided, Reach
from .driver import Item, Plan

GPUS = 2
SIZES = sizes_of((2048, 4096, 8192, 16384))
READS_OF, READS_EACH = (16 << 20, 64 << 20, 512 << 20), 20
"""Bytes of arrays that are read again and again, and how often a launch reads them."""
SAMPLING = {"samples": 11, "least_samples": 5, "seconds": 1.5, "warm_s": [0.1, 0.6]}


def plan() -> Plan:
    """Return the plan of the recording: our fastest kernels and cuBLAS, each way, and the panels' coming alone."""
    ours = ((find("12"), cublas.sgemm), (find("18"), cublas.gemm_ex))
    items: list[Item] = []
    for size in SIZES:
        for kernel, gemm in ours:
            items += [(who, size, 1, "held", False) for who in (kernel, gemm)]
            items += [(who, size, GPUS, way, False) for who in (kernel, gemm) for way in several.WAYS]
            items += [(gemm, size, GPUS, way, True) for way in ("gathered", "ahead")]
    settings = {**SAMPLING, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal"}
    return Plan("two_gpus", Recording[Divided], items, measure, settings, takes=0.6)


def measure(missing: Sequence[Item]) -> Iterator[Divided]:
    """Measure what is missing of each size and type, in turns, and yield it."""
    for (size, types), group in groupby(missing, key=lambda item: (item[1], item[0].types.name)):
        items = list(group)
        A, B = correctness.matrices(*size, on_gpu=True, types=items[0][0].types)
        launches = {}
        with gpu.reported(f"{types} at {size[0]} on two GPUs"):
            for kernel, _, gpus, way, alone in items:
                parts = several.spread(A, B, None, gpus, way, kernel.types)
                name = f"{kernel.name} {gpus} {way} {alone}"
                launches[name] = several.launch(kernel, parts, way, alone=alone)
            taken = timing.time_interleaved(launches, **SAMPLING)
            del parts
            launches.clear()
            for device in range(GPUS):
                with cupy.cuda.Device(device):
                    cupy.get_default_memory_pool().free_all_blocks()
        for (kernel, _, gpus, way, alone), of in zip(items, taken.values(), strict=True):
            yield Divided.of(kernel, size, gpus=gpus, way=way, alone=alone, **of.summary)


def reach_plan() -> Plan:
    """Return the plan of what it takes to read memory, a GPU's own and the other's."""
    items = [(READS, size, far) for size in READS_OF for far in (False, True)]
    return Plan("reach", Recording[Reach], items, reach, {"reads": READS_EACH}, takes=0.5)


def reach(missing: Sequence[Item]) -> Iterator[Reach]:
    """Measure how fast a kernel reads arrays here and there, and yield it."""
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
        yield Reach.of(kernel, bytes=size, far=far, reads=READS_EACH, **of.summary)
