"""Measures the errors of 17, of cuBLAS's SGEMM and of kernels for other types, on matrices of several kinds.

Errors are relative to ``|A||B|``, element by element, as in `accuracy`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from .. import variants
from ..measure.driver import Item, Plan
from ..records import files
from ..records.files import Measured, Recording

SIDE = 2048  # M and N
DEPTHS = (2048, 4096, 16384, 65536)
"""The depths K."""
KINDS = ("normal", "positive", "wide", "cancelling")
"""Distributions of the elements.

They are standard normal; uniform from 0 to 1; normal times two to a power from -30 to 30; and normal, but chosen so
that each sum of products cancels to about 2⁻¹² of their size.
"""


@dataclass(frozen=True)
class SplitError(Measured):
    """Errors of one kernel, or of a routine of cuBLAS.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    K : int
    worst, rms, mean : float or None
        The largest error, the root of the mean square, and the mean with its sign, of the finite elements; None if
        there are none.
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
    """Return the recorded errors of a kernel, as it is now, or of a routine of cuBLAS.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code, or not on such matrices.
    """
    return files.point("split_errors", SplitError, kernel, kind, K)


SEED = 7
POWER = 30  # the largest exponent of two that elements of a wide range are multiplied by
LEFT = 2.0**-12  # the part of a sum that does not cancel


def plan() -> Plan:
    """Return the plan of the recording.

    It has both versions of 17, also with one accumulator, and one with big parts alone; a kernel for each other type;
    and cuBLAS.
    """
    split, on_hopper = find("tf32x3"), find("tf32x3_wgmma")
    kernels = (
        split,
        variants.find_variant("tf32x3", "one accumulator"),
        variants.find_variant("tf32x3", "big parts alone"),
        on_hopper,
        variants.find_variant("tf32x3_wgmma", "one accumulator"),
        cublas.sgemm,
        variants.STEP_IN_FP64,
        find("async_pipeline"),
        find("mma"),
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
