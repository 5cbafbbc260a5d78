"""The least time that a data sheet allows a product: for its arithmetic, and for moving its matrices once.

The model is that of S. Williams, A. Waterman, D. Patterson, Roofline: an insightful visual performance model for
multicore architectures, CACM 52(4), 2009. What a kernel really moves is counted: `chapters.roofs`.
"""

from ..boards import Gpu


def bounds(gpu: Gpu, M: int, N: int, K: int) -> tuple[float, float]:
    """Return the least milliseconds that a GPU's data sheet allows: for the arithmetic, and for moving A, B and C once.

    C ← αAB + βC takes 2MNK + 3MN FLOP. A, B and C are read, and C is written, from and to DRAM.
    """
    flops, moved = 2 * M * N * K + 3 * M * N, 4 * (M * K + K * N + 2 * M * N)
    return flops / gpu.fp32_tflops / 1e9, moved / gpu.bandwidth_gbs / 1e6
