"""How much arithmetic a kernel does for each byte it moves, at each level of memory, and what that allows.

The model: S. Williams, A. Waterman, D. Patterson, Roofline: an insightful visual performance model for multicore
architectures, CACM 52(4), 2009. A kernel that does I FLOP per byte of a level runs at most at I times the rate of that
level, and never above the rate of the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ptxsim.counting import BANKS, SECTOR, Counts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.compiler import Instance
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import simulate
from sgemm_tutorial.table import Table

from ..boards import Gpu
from .ceilings import ARITHMETIC, DRAM, L2, SHARED, Ceilings

OPERANDS = "registers"
LEVELS = (OPERANDS, SHARED, L2, DRAM)
"""From the arithmetic outwards."""

DEPTHS = (128, 256)  # K of the two runs that are extrapolated, whole steps of every rung


@dataclass(frozen=True)
class Traffic:
    """What a kernel does and moves for one problem.

    Attributes
    ----------
    flops : int
        2·M·N·K, as the field counts.
    bytes : dict of str to int
        By level, elements as large as the kernel's types. Registers: three operands read for each multiply-add. Shared
        memory and L1: 128 for each wavefront in shared memory, and 32 for each sector of global memory. L2: the sectors
        alone, as if L1 held nothing. DRAM: A, B and C, each once.
    """

    flops: int
    bytes: dict[str, int]

    def intensity(self, level: str) -> float:
        """FLOP per byte moved at a level."""
        return self.flops / self.bytes[level]


def traffic(kernel: Kernel | str, M: int, N: int, K: int) -> Traffic:
    """Count what a kernel moves, on the simulator, for a problem of whole tiles.

    All blocks do the same, and for each step along K the same again. So two small runs of one block give the counts of
    any problem of whole tiles and steps, exactly: they grow in a straight line with K.

    Raises
    ------
    ArgumentError
        M or N is not a multiple of the tile, or K not of both depths that are simulated.
    """
    kernel = find(kernel)
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    for name, size, tile in (("M", M, BM), ("N", N, BN), ("K", K, DEPTHS[0])):
        if size < 1 or size % tile:
            raise ArgumentError(name, str(size), f"a multiple of {tile}, for {kernel.expression}")
    few, more = (_counts(kernel, kernel.instance, depth) for depth in DEPTHS)
    steps = (K - DEPTHS[0]) // (DEPTHS[1] - DEPTHS[0])
    blocks = kernel.grid(M, N)

    def total(*names: str) -> int:
        first, second = (sum(getattr(counts, name) for name in names) for counts in (few, more))
        return blocks * (first + steps * (second - first))

    sectors = total("global_load_sectors", "global_store_sectors")
    wavefronts = total("shared_load_wavefronts", "shared_store_wavefronts")
    operand, result = kernel.types.operand.itemsize, kernel.types.result.itemsize
    moved = {
        OPERANDS: (2 * operand + result) * M * N * K,
        SHARED: 4 * BANKS * wavefronts + SECTOR * sectors,
        L2: SECTOR * sectors,
        DRAM: operand * (M * K + K * N) + result * M * N,
    }
    return Traffic(2 * M * N * K, moved)


@lru_cache(maxsize=256)
def _counts(kernel: Kernel, instance: Instance, K: int) -> Counts:
    """Count one block's work; `instance` says which source of the kernel's it is that is counted."""
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    return simulate(kernel, *(np.ones(shape, kernel.types.operand) for shape in ((BM, K), (K, BN)))).total


def attainable(traffic: Traffic, ceilings: Ceilings) -> dict[str, float]:
    """Return the TFLOP/s that each ceiling allows: arithmetic, and every level of memory but the registers."""
    allowed = {ARITHMETIC: ceilings[ARITHMETIC].tera_per_second}
    return allowed | {level: traffic.intensity(level) * ceilings[level].tera_per_second for level in LEVELS[1:]}


def bounds(gpu: Gpu, M: int, N: int, K: int) -> tuple[float, float]:
    """Return the least milliseconds that a GPU's data sheet allows: for the arithmetic, and for moving A, B and C once.

    C ← αAB + βC takes 2MNK + 3MN FLOP. A, B and C are read, and C is written, from and to DRAM.
    """
    flops, moved = 2 * M * N * K + 3 * M * N, 4 * (M * K + K * N + 2 * M * N)
    return flops / gpu.fp32_tflops / 1e9, moved / gpu.bandwidth_gbs / 1e6


def bounds_table(gpus: tuple[Gpu, ...], M: int, N: int, K: int) -> Table:
    """Return `bounds` for several GPUs, and which is the tighter."""
    rows = []
    for gpu in gpus:
        arithmetic, memory = bounds(gpu, M, N, K)
        rows.append(
            (
                gpu.name,
                arithmetic,
                memory,
                f"{arithmetic / memory:.0f}",
                "arithmetic" if arithmetic > memory else "memory",
            )
        )
    return Table(
        ("GPU", "arithmetic, ms", "memory, ms", "ratio", "bound by"),
        rows,
        f"The least time for M, N, K = {M:,}, {N:,}, {K:,}, from data sheets",
    )
