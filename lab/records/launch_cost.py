"""What single launches seem to take, recorded in three ways: the trap that `measure.timing` avoids."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.operands import FP32
from sgemm_tutorial.table import Table

from . import files
from .files import Measured, Recording
from .timings import Ms

WAYS = ("host clock", "events", "device")
CUBLAS = Gemm("cuBLAS", FP32)
KERNEL = "03_shared_tile"
"""What is timed beside cuBLAS."""


@dataclass(frozen=True)
class Launches(Measured):
    """One launch at one size, timed in the three ways.

    Attributes
    ----------
    size : int
        M = N = K.
    us : dict of str to tuple of float
        For each of `WAYS`, microseconds per launch: the median, the 10th and the 90th percentile.
    """

    size: int
    us: dict[str, tuple[Ms, Ms, Ms]] = field(hash=False)

    PROBLEM = ("size",)


@dataclass(frozen=True)
class Costs(Recording[Launches]):
    """Launches with their provenance."""

    def at(self, size: int) -> Table:
        """Return the points of one size as a table.

        Raises
        ------
        ArgumentError
            There are none of that size.
        """
        points = [point for point in self.points if point.size == size]
        if not points:
            raise ArgumentError("size", str(size), f"one of {', '.join(map(str, self.sizes))}")
        rows = [(point.kernel, *(f"{point.us[way][0]:.1f}" for way in WAYS)) for point in points]
        note = (
            "Medians. Host clock and events: one launch at a time, with nothing left to prepare. Device: batches "
            "behind a spin kernel."
        )
        return Table(("", *WAYS), rows, f"One launch at M = N = K = {size}, in µs: {self.made}", note)

    @property
    def sizes(self) -> list[int]:
        """The sizes measured, ascending."""
        return sorted({point.size for point in self.points})

    def seconds(self, kernel: str) -> dict[str, list[float]]:
        """Return for each of `WAYS` the medians by size, in seconds, as `draw.scaling` takes them."""
        points = sorted((point for point in self.points if point.kernel == kernel), key=lambda point: point.size)
        return {way: [point.us[way][0] / 1e6 for point in points] for way in WAYS}


def load(path: str | Path = "launch_cost") -> Costs:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.load(path, Costs)
