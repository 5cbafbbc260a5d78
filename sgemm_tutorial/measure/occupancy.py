"""Records how many blocks of each kernel fit on an SM by CUDA's own count, to hold `occupancy` against.

``python -m tests.driver_occupancy [FILE]`` on a machine with a GPU asks ``cuOccupancyMaxActiveBlocksPerMultiprocessor``
of every kernel of the ladder and every variant.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cupy.cuda import driver

from .. import gpu
from ..catalogue import CATALOGUE
from ..paths import RESULTS
from ..records import files
from ..records.provenance import provenance
from ..variants import FRAGMENTS, STEP_IN_FP64, STEPS, VARIANTS

RECORD = RESULTS / "occupancy.json"
KERNELS = list(dict.fromkeys((*CATALOGUE, *VARIANTS, *STEPS, STEP_IN_FP64, *FRAGMENTS)))


def main(path: Path = RECORD) -> None:
    """Ask, and save what CUDA says."""
    points = [
        {
            "kernel": kernel.name,
            "label": kernel.label,
            "parameters": kernel.parameters,
            "blocks_per_sm": driver.occupancyMaxActiveBlocksPerMultiprocessor(
                gpu.load(kernel.instance).ptr, kernel.threads, kernel.dynamic_shared_bytes
            ),
        }
        for kernel in KERNELS
    ]
    files.write(path, {"provenance": provenance(), "points": points})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
