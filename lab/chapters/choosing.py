"""Accuracy by type: the table of kernels by error and speed."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import split_errors, sustained
from ..experiments.ceilings import card
from ..records import files
from ..records.checks import Checksum
from ..variants import IN_BF16

CHOICES = (
    ("FP32, on FP32 units", find("11")),
    ("FP32, cuBLAS", cublas.sgemm),
    ("FP32, tensor cores 8.0+", find("17_tf32x3")),
    ("FP32, Hopper", find("21_tf32x3_wgmma")),
    ("FP16, tensor cores 8.0+", find("16")),
    ("FP16, Hopper", find("20")),
    ("FP16, Hopper, any shape", find("22")),
    ("FP16, cuBLAS", cublas.gemm_ex),
    ("BF16, tensor cores 8.0+", IN_BF16[1]),
)
"""Matrices and hardware, and the kernel or cuBLAS's routine for them.

8.0+ stands for tensor cores from compute capability 8.0 on.
"""
DEPTH = 4096
"""The K of the errors shown."""
TYPICAL = {"normal": 2 / np.pi * np.sqrt(DEPTH), "positive": 1}
"""How many times as large as a typical element of C |A||B| is, by the kind of matrices."""


def choices() -> Table:
    """Return the kernels to choose from, with their errors at K = `DEPTH` and their lasting speeds."""
    check_alike(find("16"), find("20"), find("22"))
    check_alike(*IN_BF16[1:3])
    rows, sgemm = [], sustained.of(cublas.sgemm).ms
    for need, kernel in CHOICES:
        errors = [None, None] if kernel in (find("20"), find("22")) else [error(kernel, kind) for kind in TYPICAL]
        lasting = (long := sustained.lasted(kernel)) and f"{sgemm / long[0]:,.0%}"
        rows.append((need, kernel.name, *errors, lasting))
    return Table(
        ("A and B, hardware", "kernel", "rms error, normal", "positive", "of SGEMM's speed"),
        rows,
        f"Errors relative to |A||B| at M = N = 2048, K = {DEPTH}; speed at M = N = K = 4096, {card().name}",
        "In brackets: how many decimal digits of a typical element of C are right.",
    )


def error(kernel: Kernel | cublas.Gemm, kind: str) -> str:
    """Return the rms error at K = `DEPTH`, and how many decimal digits of a typical element of C are right."""
    return f"{(rms := split_errors.of(kernel, kind, DEPTH).rms):.1e} ({-np.log10(rms * TYPICAL[kind]):.1f})"


def check_alike(*kernels: Kernel) -> None:
    """Check that the GPU gave the same bits in all kernels, in a recorded product of whole tiles.

    Raises
    ------
    AssertionError
        It did not.
    """
    if len({files.point("checksums", Checksum, kernel, 0).sha256 for kernel in kernels}) != 1:
        raise AssertionError(f"{', '.join(map(str, kernels))} gave different bits")
