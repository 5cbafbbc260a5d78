"""Each chapter's prediction before anything is counted: how long the busiest part of an SM is busy.

The parts are the FP32 units, a multiply-add of a warp taking 32 lanes, and the pipeline of L1 and shared memory, one
wavefront to a cycle. `WAVEFRONTS` holds each chapter's formula, from the template parameters alone. Nothing else is in
it: no instructions to issue, no latency, no barriers. So a prediction is a bound from below, if the machine does what
the source says.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel

from ..boards import Gpu

ARITHMETIC, PIPELINE = "FP32 units", "L1 and shared memory"
FOUR = 4
"""Elements of an access of 16 bytes."""
Parameters = Mapping[str, Any]


def _fetched(of: Parameters) -> float:
    """Return the wavefronts that load both tiles' elements: rows of a narrow tile of A share banks at round sizes."""
    return max(1, WARP // of["BK"]) / of["BN"] + 1 / of["BM"]


def _stored(of: Parameters) -> float:
    """Return the wavefronts that store both tiles' elements, without conflicts."""
    return 1 / of["BN"] + 1 / of["BM"]


def _read(of: Parameters, a: int, b: int) -> float:
    """Return the wavefronts that read a thread's elements four at a time, `a` to four of A and `b` to four of B."""
    return (of["TM"] / FOUR * a + of["TN"] / FOUR * b) / (of["TM"] * of["TN"])


def _words(of: Parameters) -> float:
    """Return two reads for each multiply-add, and what fills the tiles."""
    return 2 + max(1, WARP // of["BN"]) * (1 / of["BM"] + 1 / of["BN"]) + _stored(of)


def _column(of: Parameters) -> float:
    """Return the same with an element of B for TM of A."""
    return 1 + 1 / of["TM"] + _fetched(of) + _stored(of)


def _rectangle(of: Parameters) -> float:
    """Return the same with TM elements of A and TN of B, four at a time; a warp is two rows of threads."""
    return _read(of, 2, 4) + _fetched(of) + _stored(of)


def _transposed(of: Parameters) -> float:
    """Return the same, with stores of A of which BK / 4 meet in a bank."""
    return _rectangle(of) + (of["BK"] / FOUR - 1) / of["BN"]


def _squares(of: Parameters) -> float:
    """Return the same without conflicts, with lanes in squares of 2 × 2."""
    return _read(of, 2, 2) + _fetched(of) + _stored(of)


def _copied(of: Parameters) -> float:
    """Return the same without stores: copies take the wavefronts of their worse end, where they read."""
    return _squares(of) - _stored(of)


WAVEFRONTS: dict[str, Callable[[Parameters], float]] = {
    "01_naive": lambda of: min(of["BM"], WARP) + 1,
    "02_coalesced": lambda of: 2,
    "03_shared_tile": _words,
    "04_thread_tile_1d": _column,
    "05_thread_tile_2d": _rectangle,
    "06_register_fragments": _rectangle,
    "07_vectorized": _transposed,
    "08_conflict_free": _rectangle,
    "09_warp_tile": _squares,
    "10_double_buffer": _squares,
    "11_async_pipeline": _copied,
}
"""Wavefronts for each multiply-add of a warp, at the rung's own shape of a warp, by rung."""


def cycles(kernel: Kernel | str, gpu: Gpu) -> dict[str, float]:
    """Return the cycles that a multiply-add of a warp keeps each part of an SM busy, by the rung's chapter.

    Raises
    ------
    ArgumentError
        No chapter predicts this kernel.
    """
    kernel = find(kernel)
    if kernel.name not in WAVEFRONTS:
        raise ArgumentError("kernel", kernel.name, f"one of {', '.join(WAVEFRONTS)}")
    return {ARITHMETIC: WARP / gpu.limits.fp32_lanes, PIPELINE: WAVEFRONTS[kernel.name](kernel.parameters)}


def predicted(kernel: Kernel | str, gpu: Gpu, size: int = 4096) -> tuple[str, float]:
    """Return the part that should be busiest, and for how many milliseconds, at M = N = K = `size`.

    Raises
    ------
    ArgumentError
        As for `cycles`.
    """
    of = cycles(kernel, gpu)
    part = max(of, key=of.get)
    return part, size**3 / WARP * of[part] / gpu.sms / (gpu.boost_mhz * 1e3)
