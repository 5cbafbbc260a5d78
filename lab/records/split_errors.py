"""How far 17, and kernels for other types, are from the product, on matrices of several kinds, by the sums' length.

Errors are relative to ``|A||B|``, element by element, as in `records.accuracy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from . import files
from .files import Measured

SIDE = 2048  # M and N
DEPTHS = (2048, 4096, 16384, 65536)
"""K of the sums."""
KINDS = ("normal", "positive", "wide", "cancelling")
"""Of elements: standard normal; uniform from 0 to 1; normal times two to a power from -30 to 30; and such that all but
about 2⁻¹² of a sum of normal products cancels."""


@dataclass(frozen=True)
class SplitError(Measured):
    """Errors of one kernel, or of a routine of cuBLAS.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    K : int
    worst, rms, mean : float or None
        The largest error, the root of the mean square, and the mean with its sign, of what is finite; None if nothing
        is.
    lost : float
        The share of C that is infinite or NaN.
    """

    kind: str
    K: int
    worst: float | None
    rms: float | None
    mean: float | None
    lost: float = 0.0

    PROBLEM = ("kind", "K")


def of(kernel: Kernel | Gemm, kind: str, K: int) -> SplitError:
    """Return what is recorded of a kernel, as it is now, or of a routine of cuBLAS.

    Raises
    ------
    ArgumentError
        It is not recorded, or of other code, or not on such matrices.
    """
    return files.point("split_errors", SplitError, kernel, kind, K)
