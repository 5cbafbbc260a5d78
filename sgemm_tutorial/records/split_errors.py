"""How far 17 is from the product, beside cuBLAS's SGEMM, on matrices of several kinds, by the length of the sums.

Errors are relative to ``|A||B|``, element by element, as in `records.accuracy`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cublas import Gemm
from ..errors import ArgumentError
from ..kernel import Kernel
from . import files
from .files import Measured, Recording

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
    worst, rms, mean : float
        The largest error, the root of the mean square, and the mean with its sign.
    """

    kind: str
    K: int
    worst: float
    rms: float
    mean: float

    @property
    def key(self) -> Hashable:
        """Kernel, kind and K."""
        return (self.identity, self.kind, self.K)


def of(kernel: Kernel | Gemm, kind: str, K: int) -> SplitError:
    """Return what is recorded of a kernel, as it is now, or of a routine of cuBLAS.

    Raises
    ------
    ArgumentError
        It is not recorded, or of other code, or not on such matrices.
    """
    points = files.find(files.load("split_errors", Recording[SplitError]).points, kernel, "split_errors")
    for point in points:
        if (point.kind, point.K) == (kind, K):
            return point
    raise ArgumentError("kind, K", f"{kind}, {K}", f"of {', '.join(KINDS)} one, and of {DEPTHS}")
