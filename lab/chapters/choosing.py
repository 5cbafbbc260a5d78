"""Accuracy by type: the table of kernels by error and speed."""

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
    ("FP32, on FP32 units", find("11"), find("11")),
    ("FP32, tensor cores 8.0+", find("17_tf32x3"), find("17_tf32x3")),
    ("FP32, Hopper", find("21_tf32x3_wgmma"), find("21_tf32x3_wgmma")),
    ("FP16, tensor cores 8.0+", find("16"), find("16")),
    ("FP16, Hopper", find("20"), find("16")),
    ("BF16, tensor cores 8.0+", IN_BF16[1], IN_BF16[1]),
    ("BF16, Hopper", IN_BF16[2], IN_BF16[1]),
)
"""Matrices and hardware, the kernel for them, and the kernel whose errors were recorded: itself, or one alike.

8.0+ stands for tensor cores from compute capability 8.0 on.
"""


def choices() -> Table:
    """Return the kernels to choose from, with their errors at K = 4096 and their lasting speeds."""
    check_alike(find("16"), find("22"))
    rows, sgemm = [], sustained.of(cublas.sgemm).ms
    for need, kernel, measured in CHOICES:
        kinds = ("normal", "positive")
        errors = [f"{split_errors.of(measured, kind, 4096).rms:.1e}" for kind in kinds]
        if measured is not kernel:
            check_alike(kernel, measured)
            errors = [f"as {measured.name[:2]}"] * 2
        lasting = (long := sustained.lasted(kernel)) and f"{sgemm / long[0]:,.0%}"
        name = ", ".join(filter(None, (kernel.name, kernel.label)))
        rows.append((need, name, *errors, lasting))
    return Table(
        ("A and B, hardware", "kernel", "rms error, normal", "positive", "of SGEMM's speed"),
        rows,
        f"Errors relative to |A||B| at M = N = 2048, K = 4096; speed at M = N = K = 4096, {card().name}",
    )


def check_alike(*kernels: Kernel) -> None:
    """Check that the GPU gave the same bits in all kernels, in a recorded product of whole tiles.

    Raises
    ------
    AssertionError
        It did not.
    """
    if len({files.point("checksums", Checksum, kernel, 0).sha256 for kernel in kernels}) != 1:
        raise AssertionError(f"{', '.join(map(str, kernels))} gave different bits")
