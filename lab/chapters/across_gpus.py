"""The page on several GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

from __future__ import annotations

from sgemm_tutorial.table import Table

from ..boards import Gpu, find_gpu
from ..draw import Figure, lines
from ..experiments.ceilings import card
from ..records import published
from ..records.timings import recorded

BOARDS = {"GeForce RTX 3080": "RTX 3080", "Tesla T4": "T4", "RTX A6000": "RTX A6000", "H100 80GB HBM3": "H100"}


def climbs() -> Figure:
    """Draw the shares of cuBLAS by rung, a line for each card and source."""
    columns = published.by_gpu(published.own(), published.load())
    drawn = {name: [(int(rung), share) for rung, share in sorted(of.items())] for name, of in columns.items()}
    return lines("Percent of the same card's cuBLAS", drawn, "Across: number of the kernel. Up: percent.", "%")


def yardstick() -> dict[str, tuple[Gpu, float]]:
    """Return cuBLAS's TFLOP/s at 4096 by who measured it, from the time if there is one, and the card."""
    (own,) = recorded("01", published.SIZE).points
    found = {"this book": (card(), 2e-9 * published.SIZE**3 / own.cublas_ms)}
    for of in published.load():
        if of.kernel == published.CUBLAS and of.table == "ladder":
            rate = 2e-9 * of.size**3 / of.ms if of.ms else of.gflops / 1e3
            found[published.NAMES.get(of.source, of.source)] = find_gpu(BOARDS[of.gpu]), rate
    return found


def yardsticks() -> Table:
    """Return cuBLAS's speed on each card beside what the data sheet promises."""
    rows = [
        (who, gpu.name, rate, gpu.fp32_tflops, f"{rate / gpu.fp32_tflops:.0%}")
        for who, (gpu, rate) in yardstick().items()
    ]
    return Table(("measured by", "card", "TFLOP/s", "data sheet", "of it"), rows, "cuBLAS's SGEMM at 4096")
