"""Measures the errors of 17, of cuBLAS's SGEMM and of kernels for other types; see `records.split_errors`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu
from sgemm_tutorial.catalogue import find

from .. import variants
from ..records.files import Recording
from ..records.split_errors import DEPTHS, KINDS, SIDE, SplitError
from .driver import Item, Plan

SEED = 7
POWER = 30  # of two, at most, that elements of a wide range are multiplied by
LEFT = 2.0**-12  # what of a sum does not cancel


def plan() -> Plan:
    """Return the plan of the recording.

    Both of 17, with one accumulator, and one with big parts alone; a kernel for each other type; and cuBLAS.
    """
    split, on_hopper = find("17"), find("17_tf32x3_hopper")
    kernels = (
        split,
        split.edited(*variants.ONE_ACCUMULATOR, label="one accumulator"),
        split.edited(*variants.BIG_PARTS_ALONE, label="big parts alone"),
        on_hopper,
        on_hopper.edited(*variants.ONE_ACCUMULATOR_ON_HOPPER, label="one accumulator"),
        cublas.sgemm,
        variants.STEP_IN_FP64,
        find("11"),
        find("16"),
        variants.IN_BF16[1],
        cublas.gemm_ex,
        cublas.gemm_ex_bf16,
    )
    items = [(kernel, kind, K) for kind in KINDS for K in DEPTHS for kernel in kernels]
    settings = {"side": SIDE, "seed": SEED, "power": POWER, "left": LEFT}
    return Plan("split_errors", Recording[SplitError], items, measure, settings, takes=0.05)


def measure(missing: Sequence[Item]) -> Iterator[SplitError]:
    """Yield the errors on this machine's GPU, against float64 there."""
    drawn = None
    for kernel, kind, K in missing:
        with gpu.reported(kernel.name):
            if drawn != (kind, K):
                A, B = matrices(kind, K)
                a, b = A.astype(np.float64), B.astype(np.float64)
                exact, size = a @ b, abs(a) @ abs(b)
                del a, b
                drawn = kind, K
            error = (kernel(*(matrix.astype(kernel.types.operand) for matrix in (A, B))) - exact) / size
            kept = error[cupy.isfinite(error)]
            found = (abs(kept).max(), cupy.sqrt((kept**2).mean()), kept.mean()) if kept.size else ()
            worst, rms, mean = map(float, found) if kept.size else (None,) * 3
        lost = 1 - kept.size / error.size
        yield SplitError.of(kernel, kind=kind, K=K, worst=worst, rms=rms, mean=mean, lost=lost)


def matrices(kind: str, K: int, side: int = SIDE) -> tuple[cupy.ndarray, cupy.ndarray]:
    """Return A, side × K, and B, K × side, of a kind of `KINDS`."""
    random = cupy.random.RandomState(SEED)
    shapes = (side, K), (K, side)
    if kind == "positive":
        return tuple(random.random_sample(shape, np.float32) for shape in shapes)
    A, B = (random.standard_normal(shape, np.float32) for shape in shapes)
    if kind == "wide":
        A, B = (X * cupy.exp2(random.uniform(-POWER, POWER, X.shape).astype(np.float32)) for X in (A, B))
    if kind == "cancelling":
        half = K // 2
        A[:, half:] = A[:, :half]
        B[half:] = -B[:half] * (1 + np.float32(LEFT) * random.standard_normal((half, side), np.float32))
    return A, B
