"""Measures the rounding errors of FP16 and BF16 against float64, by the depth K and by the range of values.

An error is given relative to ``|A||B|``, element by element, and the largest of them is kept. The a-priori bounds of
rounding errors are relative to the same (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002,
§3.5).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cupy
import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel

from ..measure.driver import Item, Plan
from ..records import files
from ..records.files import Measured, Recording
from ..variants import IN_BF16

SIDE = 256  # M and N
DEPTHS = (16, 64, 256, 1024, 4096, 16384)
"""The depths K, with standard-normal A and B."""
EXPONENTS = tuple(range(-26, 17, 2))
"""Exponents of the powers of two that A and B are scaled by, with K = `SIDE`."""
KERNELS = ("async_pipeline", "wmma", "wmma_warp_tile")


@dataclass(frozen=True)
class Error(Measured):
    """The error of a result against the product of the float32 matrices.

    Attributes
    ----------
    K : int
    exponent : int
        A and B are standard normal times two to this power.
    total : float
        The largest error relative to ``|A||B|``. It includes rounding A and B to the kernel's type.
    arithmetic : float
        The largest error against the product of the rounded matrices.
    lost : float
        The share of C that is infinite or NaN. The errors are those of the other elements. They are NaN if there are no
        others, and null in the file.
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
        It is missing or malformed, or one of `KERNELS` was recorded with other code.
    """
    points = files.load(path, Recording[Error]).points
    for name in KERNELS:
        files.find(points, find(name), "accuracy")
    return [
        replace(of, **{name: math.nan for name in ("total", "arithmetic") if getattr(of, name) is None})
        for of in points
    ]


def plan() -> Plan:
    """Return the plan of the recording: some kernels and cuBLAS."""
    chosen = [*map(find, KERNELS), IN_BF16[0], cublas.sgemm, cublas.gemm_ex, cublas.gemm_ex_bf16]
    where = [(K, 0) for K in DEPTHS] + [(SIDE, exponent) for exponent in EXPONENTS if exponent]
    items = [(kernel, *at) for kernel in chosen for at in where]
    return Plan("accuracy", Recording[Error], items, measure, {"side": SIDE})


def measure(missing: Sequence[Item]) -> Iterator[Error]:
    """Yield the errors on this machine's GPU, with null instead of NaN, as JSON has no NaN."""
    for kernel, K, exponent in missing:
        found = error(kernel, K, exponent, on_gpu=True)
        storable = {name: None for name in ("total", "arithmetic") if math.isnan(getattr(found, name))}
        yield replace(found, **storable)


def error(kernel: Kernel | Gemm, K: int, exponent: int = 0, side: int = SIDE, on_gpu: bool = False) -> Error:
    """Run a kernel on float32 matrices, rounded to the type that it takes, and return its error.

    Parameters
    ----------
    kernel : Kernel or Gemm
    K, side : int
        A is side × K, and B K × side.
    exponent : int
        A and B are standard normal times two to this power.
    on_gpu : bool
        On the GPU, or simulated.

    Raises
    ------
    DeviceError, ArgumentError
        As for calling the kernel.
    """
    A, B = (np.ldexp(matrix, exponent) for matrix in matrices(side, side, K, on_gpu=False))
    with np.errstate(over="ignore"):
        given = [matrix.astype(kernel.types.operand) for matrix in (A, B)]
    C = cupy.asnumpy(kernel(*(cupy.asarray(matrix) for matrix in given))) if on_gpu else kernel(*given)
    finite = np.isfinite(C)

    def largest(A: np.ndarray, B: np.ndarray) -> float:
        A, B = A.astype(np.float64), B.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            off, size = np.abs(C - A @ B), np.abs(A) @ np.abs(B)
            relative = np.divide(off, size, out=np.zeros_like(off), where=off != 0)
        return float(relative[finite].max()) if finite.any() else float("nan")

    lost = float(1 - finite.mean())
    return Error.of(kernel, K=K, exponent=exponent, total=largest(A, B), arithmetic=largest(*given), lost=lost)
