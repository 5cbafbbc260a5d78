"""What the book's own instruments cost: the simulator's time against the size, and the suite's by file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sgemm_tutorial.kernel import Kernel

from . import files
from .files import Measured, Recording
from .provenance import Host


class Computer(Host):
    """What the times depend on, as far as it can be told without naming a machine."""

    processors: int


@dataclass(frozen=True)
class Simulated(Measured):
    """How long the simulator took for M = N = K = size."""

    size: int
    seconds: float

    PROBLEM = ("size",)


@dataclass(frozen=True)
class File:
    """A file of tests or a notebook, how many tests it has, and how long they took."""

    file: str
    tests: int
    seconds: float


@dataclass(frozen=True)
class Cost(Recording[Simulated]):
    """Both, the suite's as `tools.cost` has added it."""

    provenance: Computer
    suite: list[File] = field(default_factory=list)


def load() -> Cost:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.load("cost", Cost)


def seconds(kernels: Iterable[Kernel]) -> dict[tuple[str, int], float]:
    """Return the simulator's recorded seconds, by kernel and size.

    Raises
    ------
    ArgumentError
        Those of a kernel are not recorded, or of other code.
    """
    points = load().points
    return {(p.kernel, p.size): p.seconds for kernel in kernels for p in files.find(points, kernel, "cost")}
