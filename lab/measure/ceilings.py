"""Measures what no kernel can exceed on a GPU: the rates of its arithmetic and of each level of its memory.

Each ceiling is a kernel that does one thing and nothing else, in ``kernels/`` beside the rungs. A data sheet's peaks
are products of widths and clocks; these are what the same card does, at the clock it runs at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import cupy
import numpy as np

from sgemm_tutorial import gpu, timing
from sgemm_tutorial.hardware import WARP

from ..model.ceilings import (
    ARITHMETIC,
    DRAM,
    L2,
    MMA_FP16,
    MMA_TF32,
    READ,
    SHARED,
)
from ..records.ceilings import CHAINS, KERNELS, LATER, THREADS, Rate
from ..records.files import Recording
from ..records.provenance import provenance
from .driver import Item, Plan

STEPS, TIMES = 16384, 100
PRODUCTS = 1024  # of each chain
ONES_FP16, ONE_TF32 = 0x3C003C00, 0x3F800000


def plan() -> Plan:
    """Return the plan of the recording."""
    items = [(kernel, name) for name, kernel in (KERNELS | LATER).items()]
    return Plan("ceilings", Recording[Rate], items, measure, takes=1.0)


def measure(missing: Sequence[Item]) -> Iterator[Rate]:
    """Measure the ceilings of this machine's GPU, all in one run, and yield those that are missing.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed.
    """
    made = provenance()
    blocks = 8 * made["multiprocessors"]
    threads = blocks * THREADS
    small = made["l2_bytes"] // 8  # source and target together take a quarter of L2
    large = min(2**30, made["memory_bytes"] // 8)
    out = cupy.empty(1, np.float32)
    read = cupy.zeros(2 * small, np.uint8)
    arrays = {size: (cupy.zeros(size, np.uint8), cupy.empty(size, np.uint8)) for size in (small, large)}

    arguments = {
        ARITHMETIC: (np.int32(STEPS), np.float32(0.5), np.float32(1.0), out),
        SHARED: (np.int32(STEPS), out),
        L2: (np.int32(TIMES), np.uint64(small // 16), *arrays[small]),
        DRAM: (np.int32(1), np.uint64(large // 16), *arrays[large]),
        READ: (np.int32(TIMES), np.uint64(2 * small // 16), read, out),
        MMA_FP16: (np.int32(PRODUCTS), np.uint32(ONES_FP16), np.uint32(ONES_FP16), out),
        MMA_TF32: (np.int32(PRODUCTS), np.uint32(ONE_TF32), np.uint32(ONE_TF32), out),
    }
    amounts = {
        ARITHMETIC: ("FLOP", 2 * STEPS * CHAINS * threads),
        SHARED: ("byte", 16 * STEPS * threads),
        L2: ("byte", 2 * TIMES * small),
        DRAM: ("byte", 2 * large),
        READ: ("byte", 2 * TIMES * small),
        MMA_FP16: ("FLOP", 2 * 16 * 8 * 16 * PRODUCTS * CHAINS * threads // WARP),
        MMA_TF32: ("FLOP", 2 * 16 * 8 * 8 * PRODUCTS * CHAINS * threads // WARP),
    }
    functions = {name: gpu.load(kernel.instance) for name, kernel in (KERNELS | LATER).items()}
    taken = timing.time_interleaved(
        {name: partial(functions[name], (blocks,), (THREADS,), given) for name, given in arguments.items()}
    )
    for kernel, name in missing:
        unit, amount = amounts[name]
        yield Rate.of(kernel, name=name, unit=unit, amount=amount, **taken[name].summary)
