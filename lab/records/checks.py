"""Points of the recorded checks on a GPU: checksums, random problems, compute-sanitizer and CUDA's own occupancy."""

from dataclasses import dataclass

from . import files
from .files import Measured, Recording


@dataclass(frozen=True)
class Checksum(Measured):
    """The SHA-256 of the bytes of C, in one of `checksums.CASES`."""

    case: int
    sha256: str

    PROBLEM = ("case",)


@dataclass(frozen=True)
class Fit(Measured):
    """The number of blocks of a kernel that fit on a multiprocessor, by CUDA's own count."""

    blocks_per_sm: int


@dataclass(frozen=True)
class Fuzzed(Measured):
    """The outcome of a kernel's random problems.

    Attributes
    ----------
    problems, aligned, failures : int
        The number of problems; of those whose rows all begin at multiples of 16 bytes; and of those that failed.
    worst_error_over_bound : float or None
        None where it is infinite or NaN.
    """

    problems: int
    aligned: int
    failures: int
    worst_error_over_bound: float | None

    @property
    def fault(self) -> str:
        """The kernel's fault, if it has one."""
        return f"{self.kernel} {self.label}: {self.failures} of {self.problems} problems" * bool(self.failures)


@dataclass(frozen=True)
class Sanitized(Measured):
    """The findings of one of compute-sanitizer's tools in a kernel.

    Attributes
    ----------
    tool : str
    launches, errors : int
    broken : bool
        Whether the kernel is broken on purpose, so that the tool must find something in it.
    """

    tool: str
    launches: int
    errors: int
    broken: bool

    PROBLEM = ("tool", "broken")

    @property
    def fault(self) -> str:
        """The fault of the kernel, or of the tool, if there is one."""
        what = f"{self.tool} of {self.kernel} {self.label}"
        if self.broken:
            return "" if self.errors else f"{what}: not noticed"
        return "" if self.launches and not self.errors else f"{what}: {self.errors} errors, {self.launches} launches"


def load(name: str, point: type[Measured]) -> Recording:
    """Read one of these recordings, whose points are of that type."""
    return files.load(name, Recording[point])
