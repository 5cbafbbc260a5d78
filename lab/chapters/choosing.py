"""Accuracy by type: the table of kernels by error and speed."""

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..experiments import split_errors, sustained
from ..experiments.ceilings import card
from ..variants import IN_BF16, find_variant

SINGLE = find_variant("17", "big parts alone")
CHOICES = (
    ("FP32, on FP32 units", find("11"), find("11")),
    ("FP32, tensor cores 8.0+", find("17_tf32x3"), find("17_tf32x3")),
    ("FP32, Hopper", find("21_tf32x3_wgmma"), find("21_tf32x3_wgmma")),
    ("TF32, tensor cores 8.0+", SINGLE, SINGLE),
    ("FP16, tensor cores 8.0+", find("16"), find("16")),
    ("FP16, Hopper", find("20"), None),
    ("BF16, tensor cores 8.0+", IN_BF16[1], IN_BF16[1]),
    ("BF16, Hopper", IN_BF16[2], None),
)
"""Matrices and hardware, the kernel for them, and the kernel whose errors were recorded, if there is one.

8.0+ stands for tensor cores from compute capability 8.0 on.
"""


def choices() -> Table:
    """Return the kernels to choose from, with their errors at K = 4096 and their lasting speeds."""
    rows, sgemm = [], sustained.of(cublas.sgemm).ms
    for need, kernel, measured in CHOICES:
        kinds = ("normal", "positive")
        errors = (measured and f"{split_errors.of(measured, kind, 4096).rms:.1e}" for kind in kinds)
        lasting = (long := sustained.lasted(kernel)) and f"{sgemm / long[0]:,.0%}"
        name = ", ".join(filter(None, (kernel.name, kernel.label)))
        rows.append((need, name, *errors, lasting))
    return Table(
        ("A and B, hardware", "kernel", "rms error, normal", "positive", "of SGEMM's speed"),
        rows,
        f"Errors relative to |A||B| at M = N = 2048, K = 4096; speed at M = N = K = 4096, {card().name}",
    )
