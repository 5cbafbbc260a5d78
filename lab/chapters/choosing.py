"""Accuracy by type: the table of kernels by error and speed, and the check that lends the errors of 16 to 20."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import split_errors, sustained
from ..experiments.ceilings import card
from ..records.timings import recorded
from ..variants import IN_BF16

ON_HOPPER = find("21_tf32x3_wgmma")
CHOICES = (
    ("FP32, on FP32 units", find("11"), find("11"), "ladder"),
    ("FP32, tensor cores 8.0+", find("17_tf32x3"), find("17_tf32x3"), "others"),
    ("FP32, Hopper", ON_HOPPER, ON_HOPPER, "tensor"),
    ("FP16, tensor cores 8.0+", find("16"), find("16"), "others"),
    ("FP16, Hopper", find("20"), find("16"), "others"),
    ("BF16, tensor cores 8.0+", IN_BF16[1], IN_BF16[1], "tensor"),
    ("BF16, Hopper", IN_BF16[2], IN_BF16[1], "tensor"),
)
"""Matrices and hardware, the kernel for them, the kernel whose errors were recorded, and the recording of its speed.

8.0+ stands for tensor cores from compute capability 8.0 on.
"""


def speeds() -> dict[str, float]:
    """Return the speed at 4096 in % of cuBLAS's SGEMM, by the first entry of `CHOICES`.

    All are compared with SGEMM as it ran beside 17, because those in FP16 and BF16 ran beside other routines.
    """
    (beside_17,) = recorded(find("17_tf32x3"), [4096], "others").points
    found = {}
    for need, kernel, _, recording in CHOICES:
        (point,) = recorded(kernel, [4096], recording).points
        found[need] = 100 * beside_17.cublas_ms / point.ms
    return found


def choices() -> Table:
    """Return the kernels to choose from, with their errors at K = 4096 and their speeds."""
    speed, rows, sgemm = speeds(), [], sustained.of(cublas.sgemm).ms
    for need, kernel, measured, _ in CHOICES:
        errors = (f"{split_errors.of(measured, kind, 4096).rms:.1e}" for kind in ("normal", "positive"))
        lasting = (long := sustained.lasted(kernel)) and f"{sgemm / long[0]:,.0%}"
        rows.append((need, kernel.name + "*" * (measured is not kernel), *errors, lasting, f"{speed[need]:,.0f}%"))
    return Table(
        ("A and B, hardware", "kernel", "rms error, normal", "positive", "of SGEMM's speed, lasting", "in turns"),
        rows,
        f"Errors relative to |A||B| at M = N = 2048, K = 4096; speed at M = N = K = 4096, {card().name}",
    )


def same_bits(one: Kernel, other: Kernel) -> bool:
    """Return whether two kernels, simulated, give the same bits for normal and for positive matrices, K = 512."""
    A, B = matrices(256, 256, 512, on_gpu=False, types=one.types)
    return all(np.array_equal(one(*given), other(*given)) for given in ((A, B), (abs(A), abs(B))))
