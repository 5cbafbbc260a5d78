"""Measures products on two GPUs of one host; see `records.two_gpus`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import cupy

from .. import correctness, cublas, gpu, several
from ..catalogue import find
from ..records import files
from ..records.files import Recording
from ..records.sizes import sizes_of
from ..records.two_gpus import Divided
from . import timing
from .driver import Item, Plan

GPUS = 2
SIZES = sizes_of((2048, 4096, 8192, 16384))
SAMPLING = {"samples": 11, "least_samples": 5, "seconds": 1.5, "warm_s": (0.1, 0.6)}


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
    return Plan("two_gpus", Recording[Divided], items, measure, settings, lambda item: 0.6)


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
            launches.clear()
            cupy.get_default_memory_pool().free_all_blocks()
        for (kernel, _, gpus, way, alone), of in zip(items, taken.values(), strict=True):
            M, N, K = size
            times = {"ms": of.median_ms, "ms_p10": of.p10_ms, "ms_p90": of.p90_ms}
            yield Divided(**files.of(kernel), M=M, N=N, K=K, gpus=gpus, way=way, alone=alone, **times)
