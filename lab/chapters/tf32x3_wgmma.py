"""What chapter 21, on TF32×3 by wgmma, predicts and compares."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import KIB
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import counters
from ..experiments.ceilings import card
from ..records.timings import recorded
from ..variants import TENSOR

RATE, WIDTH = 1024, 128  # TF32 multiply-adds, and bytes of shared memory, per cycle and SM
KERNEL = find("21_tf32x3_wgmma")
TILE = KERNEL.parameters
MULTIPLYING = 3 * TILE["BM"] * TILE["BN"] * TILE["BK"] // RATE
"""Cycles of the tensor cores for one step of BK."""


def flows() -> list[tuple[str, str, int]]:
    """Return who moves what through shared memory for one step of BK, and how many KiB."""
    tile_a, tile_b = (4 * TILE["BK"] * TILE[side] // KIB for side in ("BM", "BN"))
    groups = (KERNEL.threads - 128) // 128  # that multiply
    return [
        ("1 thread", "has the copy engine bring tiles of A and B", tile_a + tile_b),
        ("3 warps", "read A, write its small parts", 2 * tile_a),
        (f"{4 * groups} warps", "read B into registers, and split it there", tile_b),
        (f"{4 * groups} warps", f"wgmma: A, A's small parts, A again, for {groups} warpgroups", 3 * tile_a * groups),
    ]


def moving() -> int:
    """Return the cycles that shared memory needs for one step of BK."""
    return sum(kib for *_, kib in flows()) * KIB // WIDTH


def flows_table() -> Table:
    """Return `flows` and their sum."""
    return Table(
        ("who", "what", "KiB through shared memory"),
        [*flows(), ("", "all", sum(kib for *_, kib in flows()))],
        f"A block, for each {TILE['BK']} of K",
    )


def rounds(size: int) -> int:
    """Return how many tiles of C the busiest SM does, one after the other."""
    return -(-(-(-size // TILE["BM"]) * -(-size // TILE["BN"])) // card().sms)


def predicted_cycles(size: int) -> float:
    """Return the cycles of the busiest SM if its tensor cores never wait."""
    return rounds(size) * size / TILE["BK"] * MULTIPLYING


def sizes() -> Table:
    """Return predicted and recorded times by size."""
    rows = []
    for point in sorted(recorded(KERNEL, recording="tensor").points, key=lambda point: point.M):
        best = predicted_cycles(point.M) / card().boost_mhz / 1e3
        assert point.percent_of_cublas >= 200 and 0.65 < best / point.ms < 0.8
        rows.append((point.M, best, point.ms, point.tflops, f"{point.percent_of_cublas / 100:.2f}"))
    return Table(
        ("M = N = K", "predicted ms", "ms", "TFLOP/s", "times cuBLAS's SGEMM"),
        rows,
        f"{card().name}; predicted at {card().boost_mhz:,} MHz",
    )


def tried() -> dict[Kernel, tuple[float, dict[str, int | float]]]:
    """Return the recorded variants, each with its time and its counts at 4096."""
    return {
        kernel: (
            recorded(kernel, [4096], "tensor").points[0].ms,
            counters.counted(kernel, (4096,) * 3, "sectors"),
        )
        for kernel in TENSOR
        if kernel.name == KERNEL.name
    }


def tried_table() -> Table:
    """Return `tried` as a table."""
    rows = [
        (
            ", ".join(
                filter(None, (f"{k.parameters['STAGES']} stages, clusters of {k.parameters['CLUSTER']}", k.label))
            ),
            f"{ms:.3f}",
            f"{counts['l2_sectors'] / 1e6:.0f}",
            f"{counts['shared_load_conflicts'] / 1e6:.1f}",
            f"{counts['shared_store_conflicts'] / 1e6:.1f}",
        )
        for k, (ms, counts) in tried().items()
    ]
    columns = ("", "ms", "million sectors of L2", "million conflicts of loads", "of stores")
    return Table(columns, rows, f"At 4096, {card().name}")


def slower(kernel: Kernel, than: Kernel) -> bool:
    """Return whether every recorded sample of a kernel at 4096 is slower than every one of another."""
    ours, theirs = (
        [ms for process in recorded(of, [4096], "tensor").points[0].processes for ms in process.own.ms]
        for of in (kernel, than)
    )
    return min(ours) > max(theirs)


def rivals(size: int) -> tuple[float, list[float]]:
    """Return cuBLAS's times in one recording: beside this kernel, and beside the variants of 17."""
    others = [kernel for kernel in TENSOR if kernel.name == "17_tf32x3"]
    return recorded(KERNEL, [size], "tensor").points[0].cublas_ms, [
        recorded(kernel, [size], "tensor").points[0].cublas_ms for kernel in others
    ]
