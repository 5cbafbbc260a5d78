"""What FP16 costs in accuracy: errors against float64, by the length of the sums and by the range of the values.

An error is given relative to |A||B|, element by element, the largest of all elements: what the a-priori bounds of
rounding errors are relative to (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, §3.5).
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import cupy
import numpy as np

from .. import cublas
from ..catalogue import find
from ..correctness import matrices
from ..cublas import Gemm
from ..kernel import Kernel
from ..paths import RESULTS
from ..records import files
from ..records.accuracy import Error
from ..records.provenance import provenance

RECORDING = RESULTS / "accuracy.json"

SIDE = 256  # M and N
DEPTHS = (16, 64, 256, 1024, 4096, 16384)
"""K of the sums, with standard-normal A and B."""
EXPONENTS = tuple(range(-26, 17, 2))
"""A and B are scaled by two to the power of these, with K = `SIDE`."""


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

    return Error(kernel.name, K, exponent, largest(A, B), largest(*given), float(1 - finite.mean()))


def record(path: Path = RECORDING) -> None:
    """Measure on this machine's GPU, kernels and cuBLAS, and save the recording."""
    chosen: list[Kernel | Gemm] = [find("11"), find("14"), find("15"), cublas.sgemm, cublas.gemm_ex]
    plan = [(K, 0) for K in DEPTHS] + [(SIDE, exponent) for exponent in EXPONENTS if exponent]
    points = [asdict(error(kernel, *where, on_gpu=True)) for kernel in chosen for where in plan]
    for point in points:  # JSON has no NaN
        point |= {name: None for name in ("total", "arithmetic") if np.isnan(point[name])}
    files.write(path, {"provenance": provenance(), "side": SIDE, "points": points})


if __name__ == "__main__":
    record(*map(Path, sys.argv[1:]))
