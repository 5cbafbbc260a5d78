"""What FP16 and BF16 cost in accuracy, of the recording `records.accuracy`, as chapter 14 tabulates it."""

import math

from sgemm_tutorial.table import Table

from ..experiments import accuracy
from ..experiments.accuracy import Error
from ..experiments.ceilings import card
from ..variants import IN_BF16

KERNEL, FP32 = "14_wmma", "11_async_pipeline"


def recorded(kernel: str, K: int, exponent: int = 0, types: str | None = None) -> Error:
    """Return what is recorded of a kernel or a routine of cuBLAS; of 14 in FP16, unless other types are named."""
    types = types or ("FP16" if kernel == KERNEL else None)
    at = (kernel, K, exponent)
    return next(e for e in accuracy.load() if (e.kernel, e.K, e.exponent) == at and types in (None, e.types))


def errors_by_depth() -> Table:
    """Return the largest errors of 14, of cuBLAS with its types, and of 11, for standard-normal A and B."""
    rows = []
    for K in (16, 256, 4096, 16384):
        ours, theirs, fp32 = (recorded(name, K) for name in (KERNEL, "gemmEx", FP32))
        assert 10 * ours.arithmetic < ours.total < 2 * 2**-11 + 2**-22
        rows.append((K, *(f"{e:.1e}" for e in (ours.total, ours.arithmetic, theirs.arithmetic, fp32.total))))
    columns = ("K", "14, with rounding A and B", "14, sums alone", "cuBLAS, sums alone", "11, in FP32")
    return Table(columns, rows, f"Largest error relative to |A||B|, M = N = {accuracy.SIDE}, {card().name}")


def errors_by_scale() -> Table:
    """Return the largest errors of 14 for A and B scaled by powers of two, in FP16 and in BF16, and what is lost."""
    rows = []
    for exponent in (-24, -20, -14, 0, 14, 16):
        half = recorded(KERNEL, accuracy.SIDE, exponent)
        brain = recorded(IN_BF16[0].name, accuracy.SIDE, exponent, "BF16")
        assert brain.lost == 0
        shown = "–" if math.isnan(half.total) else f"{half.total:.1e}"
        rows.append((f"2^{exponent}", shown, f"{half.lost:.1%}", f"{brain.total:.1e}", f"{brain.lost:.1%}"))
    columns = ("scale of A and B", "FP16, error", "C not finite", "BF16, error", "C not finite")
    side = accuracy.SIDE
    return Table(columns, rows, f"Largest error relative to |A||B|, M = N = K = {side}, {card().name}")
