"""Measures the rates that no kernel can exceed on a GPU: of its arithmetic and of each level of its memory.

Each ceiling has a kernel that does one thing and nothing else, in ``kernels/`` beside the rungs. The peaks of a data
sheet are products of widths and clocks; a ceiling is the rate that the card reaches, at the clock that it runs at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cupy
import numpy as np

from sgemm_tutorial import gpu, timing
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP, limits_of
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Place

from ..boards import Gpu, find_gpu
from ..measure.driver import Item, Plan
from ..model.ceilings import (
    ARITHMETIC,
    DRAM,
    L2,
    MMA_FP16,
    MMA_TF32,
    READ,
    SHARED,
    Ceiling,
    Ceilings,
)
from ..records import cards, files
from ..records.files import Measured, Recording
from ..records.provenance import provenance

CHAINS, THREADS = 8, 256
MULTIPLY_ADD = Kernel("multiply_add", "multiply-adds and nothing else", {"CHAINS": CHAINS})
SHARED_READ = Kernel("shared_read", "reads of shared memory and nothing else", {"THREADS": THREADS})
COPY = Kernel("copy", "copies an array", {})
READS = Kernel("read", "reads an array", {})
PRODUCTS = Kernel("multiply_fragments", "products of fragments and nothing else", {"TF32": 0, "CHAINS": CHAINS}, (8, 0))
KERNELS = {ARITHMETIC: MULTIPLY_ADD, SHARED: SHARED_READ, L2: COPY, DRAM: COPY}
LATER = {READ: READS, MMA_FP16: PRODUCTS, MMA_TF32: PRODUCTS.variant(TF32=1)}
"""Ceilings that were added later, and that older recordings don't have."""


@dataclass(frozen=True)
class Rate(Ceiling, Measured):
    """One ceiling, with the kernel that reached it."""

    PROBLEM = ("name",)


def load(path: str | Path = "ceilings") -> Ceilings:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed, or of other code.
    """
    recording = files.load(path, Recording[Rate])
    later = {rate.name: LATER[rate.name] for rate in recording.points if rate.name in LATER}
    found = {name: files.point(path, Rate, kernel, name) for name, kernel in (KERNELS | later).items()}
    return Ceilings(recording.provenance, found)


def card() -> Gpu:
    """Return the board whose recordings the book shows.

    The figures are those of its data sheet, if `boards.GPUS` has it. Otherwise they are what CUDA tells, with the
    bandwidth that was measured.

    Raises
    ------
    ArgumentError
        The recording is missing or malformed, or of an architecture that `hardware` doesn't know.
    """
    of = files.load("ceilings", Recording[Rate]).provenance
    try:
        return find_gpu(cards.slug(of["gpu"]).replace("-", " "))
    except ArgumentError:
        return Gpu(
            of["gpu"],
            limits_of("sm_" + of["compute_capability"].replace(".", "")),
            of["multiprocessors"],
            of["sm_clock_max_mhz"],
            round(1000 * load()[DRAM].tera_per_second),
            of["l2_bytes"],
        )


def place(name: str = "") -> Place:
    """Return the shown card as a place for launches, whose table is asked if it has a name."""
    return Place(card().architecture, card().sms, name=name)


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
        yield Rate.of(kernel, name=name, unit=unit, amount=amount, **taken[name].percentiles)
