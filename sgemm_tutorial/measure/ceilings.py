"""Measures what no kernel can exceed on a GPU: the rates of its arithmetic and of each level of its memory.

Each ceiling is a kernel that does one thing and nothing else, in ``kernels/`` beside the rungs. A data sheet's peaks
are products of widths and clocks; these are what the same card does, at the clock it runs at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from .. import gpu
from ..kernel import Kernel
from ..model.ceilings import ARITHMETIC, DRAM, L2, SHARED, Ceiling, Ceilings
from ..paths import RESULTS
from ..records import files
from ..records.provenance import provenance
from . import timing

RECORDING = RESULTS / "ceilings.json"

CHAINS, THREADS, STEPS, TIMES = 8, 256, 16384, 100
MULTIPLY_ADD = Kernel("multiply_add", "multiply-adds and nothing else", {"CHAINS": CHAINS})
SHARED_READ = Kernel("shared_read", "reads of shared memory and nothing else", {"THREADS": THREADS})
COPY = Kernel("copy", "copies an array", {})


def measure() -> Ceilings:
    """Measure the ceilings of this machine's GPU, in one run.

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
    arrays = {size: (cupy.zeros(size, np.uint8), cupy.empty(size, np.uint8)) for size in (small, large)}

    def launch(kernel: Kernel, *arguments: Any) -> Callable[[], None]:
        function = gpu.load(kernel.instance)
        return lambda: function((blocks,), (THREADS,), arguments)

    work = {
        ARITHMETIC: (
            "FLOP",
            2 * STEPS * CHAINS * threads,
            launch(MULTIPLY_ADD, np.int32(STEPS), np.float32(0.5), np.float32(1.0), out),
        ),
        SHARED: ("byte", 16 * STEPS * threads, launch(SHARED_READ, np.int32(STEPS), out)),
        L2: ("byte", 2 * TIMES * small, launch(COPY, np.int32(TIMES), np.uint64(small // 16), *arrays[small])),
        DRAM: ("byte", 2 * large, launch(COPY, np.int32(1), np.uint64(large // 16), *arrays[large])),
    }
    taken = timing.time_interleaved({name: start for name, (_, _, start) in work.items()})
    found = {
        name: Ceiling(name, unit, amount, taken[name].median_ms, taken[name].p10_ms, taken[name].p90_ms)
        for name, (unit, amount, _) in work.items()
    }
    return Ceilings(made, found)


def record(path: Path = RECORDING) -> None:
    """Measure and save the recording."""
    found = measure()
    files.write(path, {"provenance": found.provenance, "points": [asdict(c) for c in found.by_name.values()]})


if __name__ == "__main__":
    record()
