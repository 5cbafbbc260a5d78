"""What products on two GPUs of one host take, by the way in which they come by B, and reading through their link.

See `lab.several`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from . import files
from .ceilings import READS
from .files import Measured, Sized
from .timings import Ms


@dataclass(frozen=True)
class Divided(Sized):
    """One kernel, or a routine of cuBLAS, at one size, on some GPUs in one way.

    Attributes
    ----------
    gpus : int
    way : str
        One of `several.WAYS`; on one GPU all are the same.
    alone : bool
        Whether the panels only came, and nothing was multiplied.
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the time until all GPUs had done their part.
    """

    gpus: int
    way: str
    alone: bool
    ms: Ms
    ms_p10: Ms
    ms_p90: Ms

    PROBLEM = ("size", "gpus", "way", "alone")

    @property
    def tflops(self) -> float:
        """Rate in 10¹² operations per second, 2MNK of them on all GPUs together."""
        return 2 * self.M * self.N * self.K / self.ms / 1e9


@dataclass(frozen=True)
class Reach(Measured):
    """What it takes to read an array again and again, in a GPU's own memory or in another GPU's.

    Attributes
    ----------
    bytes : int
        Of the array.
    far : bool
        Whether it lies in another GPU's memory.
    reads : int
        How often one launch reads it.
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of one launch.
    """

    bytes: int
    far: bool
    reads: int
    ms: Ms
    ms_p10: Ms
    ms_p90: Ms

    PROBLEM = ("bytes", "far")

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.bytes * self.reads / self.ms * 1e3


def reach(size: int, far: bool) -> Reach:
    """Return what is recorded of reading an array of that many bytes.

    Raises
    ------
    ArgumentError
        It is not recorded, or of other code.
    """
    return files.point("reach", Reach, READS, size, far)


def of(kernel: Kernel | Gemm, size: int, gpus: int = 1, way: str = "held", alone: bool = False) -> Divided:
    """Return what is recorded of a kernel as it is now, or of a routine of cuBLAS, at M = N = K = `size`.

    Raises
    ------
    ArgumentError
        It is not recorded, or of other code.
    """
    return files.point("two_gpus", Divided, kernel, (size,) * 3, gpus, way, alone)
