"""Records checksums of results on a GPU, which the simulator must reproduce bit for bit."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import Types

from .. import variants
from ..measure.driver import Item, Plan
from ..records import files
from ..records.checks import Checksum
from ..records.files import Recording

CASES: tuple[dict[str, Any], ...] = (
    {"M": 128, "N": 128, "K": 128, "alpha": 1.0, "beta": 0.0},
    {"M": 131, "N": 67, "K": 70, "alpha": -1.5, "beta": 0.75},
    {"M": 33, "N": 129, "K": 257, "alpha": 0.1, "beta": 1.0},
    {"M": 64, "N": 64, "K": 100, "alpha": 1.0, "beta": 0.5, "scale": 1e-20},  # products and sums are subnormal
    {"M": 40, "N": 72, "K": 50, "alpha": 2.0, "beta": 1.0, "scale": 1e19},  # products near the largest float
    {"M": 65, "N": 31, "K": 48, "alpha": 1.0, "beta": -1.0, "special": True},
    {"M": 1, "N": 1, "K": 1000, "alpha": 1.0, "beta": 0.0},
    {"M": 50, "N": 50, "K": 0, "alpha": float("inf"), "beta": 0.5},
    {"M": 50, "N": 50, "K": 20, "alpha": 0.0, "beta": 0.5},
)


def matrices_of(case: dict[str, Any], types: Types, wide: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, B and C of a case, the same on any machine; their columns are made a multiple of `wide`."""
    M, N, K = case["M"], -(-case["N"] // wide) * wide, -(-case["K"] // wide) * wide
    A, B = matrices(M, N, K, seed=7, on_gpu=False, types=types)
    C = np.random.default_rng(8).standard_normal((M, N), types.result)
    with np.errstate(over="ignore"):  # a scale may be past FP16's range
        scale = types.operand.type(case.get("scale", 1.0))
        A, B = A * scale, B * scale
    C *= types.result.type(min(float(scale) ** 2, 1e37))
    if case.get("special"):
        A[3, 5], A[7], A[9, 2], A[11, 4] = np.nan, 0.0, np.inf, -np.inf
        B[2, 8], B[:, 6], B[6, 3] = -np.inf, -0.0, 1e-42
        C[20, 20], C[21, 21], C[22, 22] = np.nan, np.inf, 1e-44
    return A, B, C


def digest(kernel: Kernel, case: dict[str, Any], on_gpu: bool = False) -> str:
    """Return the SHA-256 of the bytes of C.

    A kernel with tensor maps gets rows that the copy engine can fetch.
    """
    wide = 16 // kernel.types.operand.itemsize if kernel.exact else 1
    take = cupy.asarray if on_gpu else np.asarray
    kernel = kernel.family.itself(kernel)
    result = kernel(*map(take, matrices_of(case, kernel.types, wide)), case["alpha"], case["beta"])
    return hashlib.sha256(cupy.asnumpy(result).tobytes()).hexdigest()


def same_bytes(kernel: Kernel | str) -> str:
    """Return in how many of `CASES` the simulator's result has the bytes that the recorded GPU's had.

    Raises
    ------
    ArgumentError
        The kernel is not recorded, or only with other code.
    """
    recording = files.load("checksums", Recording[Checksum])
    recorded = {point.case: point.sha256 for point in files.find(recording.points, find(kernel), "checksums")}
    same = [digest(find(kernel), CASES[case]) == of for case, of in recorded.items()]
    return f"{sum(same)} of {len(same)} products have the same bytes as on {recording.provenance['gpu']}"


def plan() -> Plan:
    """Return the plan of the recording."""
    items = [
        (kernel, case)
        for kernel in (*CATALOGUE, variants.STEP_IN_FP64, *variants.IN_BF16)
        for case in range(len(CASES))
    ]
    return Plan("checksums", Recording[Checksum], items, measure, {"cases": list(map(str, CASES))})


def measure(missing: Sequence[Item]) -> Iterator[Checksum]:
    """Yield the checksums of results on this machine's GPU."""
    for kernel, case in missing:
        yield Checksum.of(kernel, case=case, sha256=digest(kernel, CASES[case], on_gpu=True))
