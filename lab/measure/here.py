"""What notebooks show live: measured on this GPU, or, where there is none, the recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sgemm_tutorial import gpu
from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..records import launch_cost
from ..records.sizes import Size
from ..records.timings import Record, no_gpu, recorded
from .bench import bench
from .launch_cost import measure


def bench_or_recording(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] = (4096,),
    recording: str | Path = "ladder",
) -> Record:
    """Return the times of a benchmark on this GPU, or, where there is none, the recorded ones.

    Parameters
    ----------
    kernels, sizes
        As for `bench`. Of a recording, those of these kernels and sizes that it holds are shown.
    recording : str or Path
        As for `timings.load`.

    Raises
    ------
    ArgumentError
        As for `bench` and `timings.load`, or the recording holds none of these kernels and sizes.
    DeviceError, TutorialError
        As for `bench`.
    """
    if gpu.available():
        return bench(kernels, sizes)
    record = recorded(kernels, sizes, recording)
    print(no_gpu(record))
    return record


def launches_or_recording(size: int = 256) -> Table:
    """Return what single launches of one size seem to take, measured on this GPU, or, where there is none, recorded."""
    if gpu.available():
        return measure([size]).at(size)
    costs = launch_cost.load()
    print(no_gpu(costs))
    return costs.at(size)
