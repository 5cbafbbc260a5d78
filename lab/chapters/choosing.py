"""Accuracy by type: the table of kernels by correct digits and speed, and what its sentences say of the errors."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import split_errors, sustained
from ..experiments.ceilings import card
from ..records import files
from ..records.checks import Checksum
from ..variants import IN_BF16, find_variant
from .tf32x3 import same_as_cublas

FP32 = cublas.sgemm
FP16, BF16 = find("16"), IN_BF16[1]
CHOICES = (
    ("FP32, any", find("13")),
    ("FP32, 8.0+", find("17_tf32x3")),
    ("FP32, Hopper", find("21_tf32x3_wgmma")),
    ("FP16, 8.0+", FP16),
    ("FP16, Hopper", find("22")),
    ("BF16, 8.0+", BF16),
    ("FP32, cuBLAS", FP32),
    ("FP16, cuBLAS", cublas.gemm_ex),
)
"""Type and hardware, and the kernel or cuBLAS's routine for them. 8.0+ is a compute capability."""
ALIKE = {find("13"): find("11"), find("22"): FP16}
"""Kernels whose errors aren't recorded, and the one whose digits are shown for them."""
DEPTH = 4096
"""The K of the digits shown."""


def relative(kernel: Kernel | cublas.Gemm, kind: str, K: int = DEPTH) -> float:
    """Return the recorded error (rms), relative to a typical element of C.

    The recording's errors are relative to |A||B|. Of positive matrices that is C. Of normal ones it is K · 2/π, and
    an element of C is √K (rms).
    """
    return split_errors.of(kernel, kind, K).rms * (2 / np.pi * np.sqrt(K) if kind == "normal" else 1)


def choices() -> Table:
    """Return the kernels to choose from, with their correct digits at K = `DEPTH` and their lasting speeds."""
    check_alike(FP16, find("20"), find("22"))
    check_alike(*IN_BF16[1:3])
    rows, sgemm = [], sustained.of(FP32).ms
    for need, kernel in CHOICES:
        right = [digits(kernel, kind) for kind in ("normal", "positive")]
        lasting = (long := sustained.lasted(kernel)) and f"{sgemm / long[0]:,.0%}"
        rows.append((need, kernel.name, *right, lasting))
    return Table(
        ("type and GPU", "kernel", "digits, both signs", "digits, one sign", "speed"),
        rows,
        f"Digits at M = N = 2048, K = {DEPTH}; speed at M = N = K = 4096, of SGEMM's, on {card().name}",
    )


def digits(kernel: Kernel | cublas.Gemm, kind: str) -> str:
    """Return how many decimal digits of a typical element of C are right, in brackets if another kernel's."""
    right = f"{-np.log10(relative(ALIKE.get(kernel, kernel), kind)):.1f}"
    return f"({right})" if kernel in ALIKE else right


def check_alike(*kernels: Kernel) -> None:
    """Assert that the GPU gave the same bits in all kernels, in a recorded product of whole tiles."""
    assert len({files.point("checksums", Checksum, kernel, 0).sha256 for kernel in kernels}) == 1, kernels


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    cases = [(kind, K) for kind in split_errors.KINDS for K in split_errors.DEPTHS]
    split, burst = (find("17"), find("21")), [sustained.of(of, protocol="burst").ms for of in (FP32, cublas.gemm_ex)]
    found = {of: {case: split_errors.of(of, *case) for case in cases} for of in (*split, FP32, FP16, BF16)}
    errors = {
        kernel: np.array([(each.rms, each.worst) for each in found[kernel].values()]) for kernel in (*split, FP32)
    }
    assert len(cases) == 16 and all((errors[kernel] < errors[FP32]).all() for kernel in split)
    assert same_as_cublas()[0] == 2 * len(cases) == 28 + len(split_errors.DEPTHS)
    assert all(
        each.lost == (kernel == FP16 and case[0] == "wide") for kernel in found for case, each in found[kernel].items()
    )
    deep, shorter = found[FP16]["positive", 65536], [found[split[0]]["positive", K] for K in split_errors.DEPTHS]
    share = [found[BF16]["positive", K].mean / found[FP16]["positive", K].mean for K in split_errors.DEPTHS]
    single = [-split_errors.of(find_variant(of.name, "one accumulator"), "positive", DEPTH).mean for of in split]
    assert (
        deep.mean < -0.99 * deep.rms
        and 0.99 < shorter[0].mean / shorter[-1].mean < 1.01
        and shorter[-1].rms > 2 * shorter[0].rms
        and single[1] > 1.2 * single[0]
        and share == sorted(share)
    )
    return {
        "times": f"{sustained.of(FP32).ms / sustained.of(cublas.gemm_ex).ms:.0f}",
        "bias": f"{-1e4 * deep.mean:.1f} · 10⁻⁴",
        "one 17": f"{1e5 * single[0]:.1f} · 10⁻⁵",
        "one 21": f"{1e5 * single[1]:.1f} · 10⁻⁵",
        "rms 17": f"{1e7 * shorter[0].rms:.1f} · 10⁻⁷",
        "rms 17 deep": f"{1e7 * shorter[-1].rms:.1f} · 10⁻⁷",
        "bias 17": f"{-1e7 * shorter[0].mean:.1f} · 10⁻⁷",
        "bias 4096": f"{-1e5 * found[FP16]['positive', 4096].mean:.2f} · 10⁻⁵",
        "share": f"{share[1]:.0%}",
        "share deep": f"{share[-1]:.0%}",
        "burst times": f"{burst[0] / burst[1]:.0f}",
        "MHz": f"{sustained.of(cublas.gemm_ex).sm_mhz:,} MHz",
        "MHz 32": f"{sustained.of(FP32).sm_mhz:,} MHz",
    }
