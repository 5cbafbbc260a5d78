"""What FP16 costs in accuracy: errors against float64, by the length of the sums and by the range of the values.

An error is given relative to |A||B|, element by element, the largest of all elements: what the a-priori bounds of
rounding errors are relative to (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, §3.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..paths import RESULTS
from . import files

RECORDING = RESULTS / "accuracy.json"


@dataclass(frozen=True)
class Error:
    """How far a result is from the product of the float32 matrices that it stands for.

    Attributes
    ----------
    kernel : str
    K : int
    exponent : int
        A and B are standard normal times two to this power.
    total : float
        The largest error relative to |A||B|; where A and B had to be rounded first, that is part of it.
    arithmetic : float
        The same against the product of the matrices as they were after rounding.
    lost : float
        The share of C that is infinite or NaN. The errors are those of the rest, and NaN if there is none.
    """

    kernel: str
    K: int
    exponent: int
    total: float
    arithmetic: float
    lost: float


def load(path: Path = RECORDING) -> list[Error]:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """

    def parse(data: Any) -> list[Error]:
        return [
            Error(**{name: float("nan") if value is None else value for name, value in point.items()})
            for point in data["points"]
        ]

    return files.read(path, "accuracy.record", parse)
