"""Measures how long the simulator takes, by kernel and size; needs no GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.compiler import PTX_ALONE
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import simulate

from ..records.cost import Computer, Cost, Simulated
from ..records.provenance import host
from .driver import Item, Plan

SIZES = (32, 64, 128, 256, 512, 1024)


def computer() -> Computer:
    """Return what the times depend on, as far as it can be told without naming a machine."""
    return {**host(), "processors": os.cpu_count() or 1}


def seconds(kernel: Kernel, size: int) -> float:
    """Return the processor time of a simulated run of size³, the shorter of two below 512; without compilation."""
    kernel.build(PTX_ALONE)
    A, B = matrices(size, size, size, on_gpu=False)
    times = []
    for _ in range(2 if size < 512 else 1):
        begin = time.process_time()
        simulate(kernel, A, B)
        times.append(time.process_time() - begin)
    return min(times)


def plan() -> Plan:
    """Return the plan of the recording."""
    items = [(kernel, size) for kernel in LADDER for size in SIZES]
    return Plan("cost", Cost, items, measure, takes=3.0, made_on=computer)


def measure(missing: Sequence[Item]) -> Iterator[Simulated]:
    """Yield the simulator's times on this machine."""
    for kernel, size in missing:
        yield Simulated.of(kernel, size=size, seconds=round(seconds(kernel, size), 6))
