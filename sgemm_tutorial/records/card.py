"""The GPU whose recordings the book shows."""

from __future__ import annotations

from ..hardware import Gpu, find_gpu
from . import timings


def card() -> Gpu:
    """Return the data sheet of the GPU that the ladder was recorded on.

    Raises
    ------
    ArgumentError
        The recording is missing or malformed, or its GPU is not among `hardware.GPUS`.
    """
    recorded_on = timings.load("ladder").provenance["gpu"]  # as CUDA calls it: "NVIDIA H100 80GB HBM3"
    return find_gpu(recorded_on.split()[1])
