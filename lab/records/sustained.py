"""What kernels and cuBLAS take when they run on and on, with the clock that the card's power then allows."""

from __future__ import annotations

from dataclasses import dataclass

from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from . import files
from .files import Measured
from .timings import Ms


@dataclass(frozen=True)
class Sustained(Measured):
    """One kernel, or a routine of cuBLAS, at full size, in the second half of the time that it ran.

    Attributes
    ----------
    ms : float
        Median device time of a launch.
    sm_mhz : int or None
        Median clock of the multiprocessors; None where NVML does not tell.
    watts : int or None
        Median power of the card, likewise.
    """

    ms: Ms
    sm_mhz: int | None
    watts: int | None

    @property
    def cycles(self) -> float:
        """Cycles of a multiprocessor in a launch."""
        return self.ms * 1e3 * self.sm_mhz


def of(kernel: Kernel | Gemm) -> Sustained:
    """Return what is recorded of a kernel, as it is now, or of a routine of cuBLAS.

    Raises
    ------
    ArgumentError
        It is not recorded, or of other code.
    """
    return files.point("sustained", Sustained, kernel)
