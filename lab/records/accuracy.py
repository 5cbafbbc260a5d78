"""What FP16 and BF16 cost in accuracy: errors against float64, by the length of sums and by the range of values.

An error is given relative to ``|A||B|``, element by element, the largest of all elements: what the a-priori bounds of
rounding errors are relative to (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, §3.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sgemm_tutorial.catalogue import find

from . import files
from .files import Measured, Recording

SIDE = 256  # M and N
DEPTHS = (16, 64, 256, 1024, 4096, 16384)
"""K of the sums, with standard-normal A and B."""
EXPONENTS = tuple(range(-26, 17, 2))
"""A and B are scaled by two to the power of these, with K = `SIDE`."""
KERNELS = ("11", "14", "15")


@dataclass(frozen=True)
class Error(Measured):
    """How far a result is from the product of the float32 matrices that it stands for.

    Attributes
    ----------
    K : int
    exponent : int
        A and B are standard normal times two to this power.
    total : float
        The largest error relative to ``|A||B|``; where A and B had to be rounded first, that is part of it.
    arithmetic : float
        The same against the product of the matrices as they were after rounding.
    lost : float
        The share of C that is infinite or NaN. The errors are those of the rest, and NaN if there is none, in a file
        null.
    """

    K: int
    exponent: int
    total: float | None
    arithmetic: float | None
    lost: float

    PROBLEM = ("K", "exponent")


def load(path: str | Path = "accuracy") -> list[Error]:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed, or what it holds of a kernel is of other code.
    """
    points = files.load(path, Recording[Error]).points
    for name in KERNELS:
        files.find(points, find(name), "accuracy")
    return [replace(p, total=_or_nan(p.total), arithmetic=_or_nan(p.arithmetic)) for p in points]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
