"""Measures what no kernel can exceed on a GPU: the rates of its arithmetic and of each level of its memory.

Each ceiling is a kernel that does one thing and nothing else, in ``kernels/`` beside the rungs. A data sheet's peaks
are products of widths and clocks; these are what the same card does, at the clock it runs at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from . import gpu, records, timing
from .catalogue import Kernel
from .table import Table

RECORDING = records.RESULTS / "ceilings.json"

CHAINS, THREADS, STEPS, TIMES = 8, 256, 16384, 100
MULTIPLY_ADD = Kernel("multiply_add", "multiply-adds and nothing else", {"CHAINS": CHAINS})
SHARED_READ = Kernel("shared_read", "reads of shared memory and nothing else", {"THREADS": THREADS})
COPY = Kernel("copy", "copies an array", {})

FP32, SHARED, L2, DRAM = "FP32", "shared memory", "L2", "DRAM"


@dataclass(frozen=True)
class Ceiling:
    """One ceiling, measured.

    Attributes
    ----------
    name : str
        `FP32`, `SHARED`, `L2` or `DRAM`.
    unit : str
        "FLOP" or "byte".
    amount : int
        How many of them one launch does; copies count bytes read and bytes written.
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of a launch.
    """

    name: str
    unit: str
    amount: int
    ms: float
    ms_p10: float
    ms_p90: float

    @property
    def tera_per_second(self) -> float:
        """10¹² FLOP or bytes in a second."""
        return self.amount / self.ms / 1e9


@dataclass(frozen=True)
class Ceilings:
    """All ceilings of a GPU, by name, with their provenance."""

    provenance: dict[str, Any]
    by_name: dict[str, Ceiling]

    def __getitem__(self, name: str) -> Ceiling:
        return self.by_name[name]

    def table(self) -> Table:
        """Return a row for each."""
        rows = [
            (c.name, f"{c.tera_per_second:.3g} T{'FLOP' if c.unit == 'FLOP' else 'B'}/s", c.ms)
            for c in self.by_name.values()
        ]
        return Table(
            ("ceiling", "measured", "ms per launch"),
            rows,
            f"{self.provenance['gpu']}, {self.provenance['date'][:10]}",
            "Copies count bytes read and bytes written.",
        )


def measure() -> Ceilings:
    """Measure the ceilings of this machine's GPU, in one run.

    Raises
    ------
    DeviceError
        There is no GPU, or it failed.
    """
    provenance = records.provenance()
    blocks = 8 * provenance["multiprocessors"]
    threads = blocks * THREADS
    small = provenance["l2_bytes"] // 8  # source and target together take a quarter of L2
    large = min(2**30, provenance["memory_bytes"] // 8)
    out = cupy.empty(1, np.float32)
    arrays = {size: (cupy.zeros(size, np.uint8), cupy.empty(size, np.uint8)) for size in (small, large)}

    def launch(kernel: Kernel, *arguments: Any) -> Callable[[], None]:
        function = gpu.load(kernel)
        return lambda: function((blocks,), (THREADS,), arguments)

    work = {
        FP32: (
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
    return Ceilings(provenance, found)


def record(path: Path = RECORDING) -> None:
    """Measure and save the recording."""
    found = measure()
    records.write(path, {"provenance": found.provenance, "points": [asdict(c) for c in found.by_name.values()]})


def load(path: Path = RECORDING) -> Ceilings:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return records.read(
        path,
        "ceilings.record",
        lambda data: Ceilings(data["provenance"], {point["name"]: Ceiling(**point) for point in data["points"]}),
    )


if __name__ == "__main__":
    record()
