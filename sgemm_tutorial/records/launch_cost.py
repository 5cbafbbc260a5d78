"""What single launches seem to take, recorded in three ways: the trap that `measure.timing` avoids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..paths import RESULTS
from ..table import Table
from . import files

RECORDING = RESULTS / "launch_cost.json"
WAYS = ("host clock", "events", "device")


@dataclass(frozen=True)
class Launches:
    """One launch at one size, timed in the three ways.

    Attributes
    ----------
    name : str
        "cuBLAS", or the kernel's name.
    size : int
        M = N = K.
    us : dict of str to tuple of float
        For each of `WAYS`, microseconds per launch: the median, the 10th and the 90th percentile.
    """

    name: str
    size: int
    us: dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Costs:
    """Points with their provenance."""

    provenance: dict[str, Any]
    points: list[Launches]

    def table(self, size: int) -> Table:
        """Return the points of one size as a table.

        Raises
        ------
        ArgumentError
            There are none of that size.
        """
        points = [point for point in self.points if point.size == size]
        if not points:
            raise ArgumentError("size", str(size), f"one of {', '.join(map(str, self.sizes))}")
        rows = [(point.name, *(f"{point.us[way][0]:.1f}" for way in WAYS)) for point in points]
        title = f"One launch at M = N = K = {size}, in µs: {self.provenance['gpu']}, {self.provenance['date'][:10]}"
        note = (
            "Medians. Host clock and events: one launch at a time, with nothing left to prepare. Device: batches "
            "behind a spin kernel."
        )
        return Table(("", *WAYS), rows, title, note)

    @property
    def sizes(self) -> list[int]:
        """The sizes measured, ascending."""
        return sorted({point.size for point in self.points})

    def seconds(self, name: str) -> dict[str, list[float]]:
        """Return for each of `WAYS` the medians by size, in seconds, as `draw.scaling` takes them."""
        points = sorted((point for point in self.points if point.name == name), key=lambda point: point.size)
        return {way: [point.us[way][0] / 1e6 for point in points] for way in WAYS}


def load(path: Path = RECORDING) -> Costs:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.read(
        path,
        "launch_cost.record",
        lambda data: Costs(
            data["provenance"],
            [
                Launches(point["name"], point["size"], {way: tuple(point["us"][way]) for way in WAYS})
                for point in data["points"]
            ],
        ),
    )
