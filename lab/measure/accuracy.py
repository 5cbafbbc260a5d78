"""Measures what FP16 and BF16 cost in accuracy; see `records.accuracy`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import cupy
import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from ..records.accuracy import DEPTHS, EXPONENTS, KERNELS, SIDE, Error
from ..records.files import Recording
from ..variants import IN_BF16
from .driver import Item, Plan


def plan() -> Plan:
    """Return the plan of the recording: kernels, and cuBLAS."""
    chosen = [*map(find, KERNELS), IN_BF16[0], cublas.sgemm, cublas.gemm_ex, cublas.gemm_ex_bf16]
    where = [(K, 0) for K in DEPTHS] + [(SIDE, exponent) for exponent in EXPONENTS if exponent]
    items = [(kernel, *at) for kernel in chosen for at in where]
    return Plan("accuracy", Recording[Error], items, measure, {"side": SIDE})


def measure(missing: Sequence[Item]) -> Iterator[Error]:
    """Yield the errors on this machine's GPU, null for NaN, which JSON has not."""
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
