"""Tabulates for chapter 14 the errors of FP16, from the recording `records.accuracy`."""

from sgemm_tutorial.table import Table

from ..experiments import accuracy
from ..experiments.accuracy import Error
from ..experiments.ceilings import card

KERNEL, FP32 = "14_wmma", "11_async_pipeline"


def recorded(kernel: str, K: int) -> Error:
    """Return the recorded errors of a kernel or a routine of cuBLAS for standard-normal A and B; of 14 in FP16."""
    found = (e for e in accuracy.load() if (e.kernel, e.K, e.exponent) == (kernel, K, 0))
    return next(e for e in found if kernel != KERNEL or e.types == "FP16")


def errors_by_depth() -> Table:
    """Return the largest errors of 14, of cuBLAS with its types, and of 11, for standard-normal A and B."""
    rows = []
    for K in (16, 256, 4096, 16384):
        ours, theirs, fp32 = (recorded(name, K) for name in (KERNEL, "gemmEx", FP32))
        assert 10 * ours.arithmetic < ours.total < 2 * 2**-11 + 2**-22
        rows.append((K, *(f"{e:.1e}" for e in (ours.total, ours.arithmetic, theirs.arithmetic, fp32.total))))
    columns = ("K", "14, with rounding A and B", "14, sums alone", "cuBLAS, sums alone", "11, in FP32")
    return Table(columns, rows, f"Largest error relative to |A||B|, M = N = {accuracy.SIDE}, {card().name}")
