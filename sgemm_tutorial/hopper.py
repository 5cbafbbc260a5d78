"""What launches of 18, and of 17's version for Hopper, take: blocks, tensor maps of A and B, and shared memory.

The copy engine wants rows that begin at multiples of 16 bytes. A problem that has others, or nothing to copy, is for
another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kernel import Kernel
from .operands import Division, Problem
from .simulator.mbarriers import BYTES
from .simulator.memory import past_alignment
from .simulator.tensor_map import ALIGNMENT, SWIZZLE, TensorMap


def dynamic_shared(of: Mapping[str, Any]) -> int:
    """Return the bytes of the tiles of A and B, of FP16, and of two mbarriers for each pair."""
    return of["STAGES"] * (of["BK"] * (of["BM"] + of["BN"]) * 2 + 2 * BYTES)


def dynamic_shared_of_parts(of: Mapping[str, Any]) -> int:
    """Return the bytes of the tiles of A, of A's small parts and of B, of FP32, and of three mbarriers for each."""
    return of["STAGES"] * (of["BK"] * (2 * of["BM"] + of["BN"]) * 4 + 3 * BYTES)


def divide(of: Mapping[str, Any], shape: tuple[int, int, int], architecture: str, multiprocessors: int) -> Division:
    """Return a block for each tile of C, or, where each does several, for each multiprocessor."""
    M, N, _ = shape
    cluster = of["CLUSTER"]
    tiles = -(-M // (cluster * of["BM"])) * -(-N // of["BN"])
    return Division(cluster * (min(tiles, multiprocessors // cluster) if of.get("PERSISTENT", 1) else tiles))


def maps(of: Mapping[str, Any], problem: Problem) -> dict[str, TensorMap]:
    """Return the maps: a box of A is a tile, as many rows of B as a tile has lie in boxes side by side."""
    columns = SWIZZLE // problem.types.operand.itemsize
    return {
        "mapA": TensorMap(problem.A, of["BM"], columns),
        "mapB": TensorMap(problem.B, of["BK"] // of["CLUSTER"], columns),
    }


def addressable(problem: Problem) -> bool:
    """Whether the copy engine can fetch A and B: neither is empty, and every row begins at a multiple of 16 bytes."""
    if not problem.A.size or not problem.B.size:
        return False
    begins = [array.data.ptr if problem.on_gpu else past_alignment(array) for array in (problem.A, problem.B)]
    pitches = [size * problem.types.operand.itemsize for size in (problem.K, problem.N)]
    return all(number % ALIGNMENT == 0 for number in begins + pitches)


def choose(kernel: Kernel, other: Kernel, problem: Problem) -> Kernel:
    """Return the kernel for a problem that the copy engine can fetch, and the other for any other."""
    return kernel if addressable(problem) else other


def choose_on_hopper(kernel: Kernel, other: Kernel, problem: Problem, architecture: str) -> Kernel:
    """Return the kernel for Hopper and a problem that it can fetch, of whose C it can write pairs; else the other."""
    if architecture.partition("_")[2].rstrip("a") != "90":
        return other
    begin = problem.C.data.ptr if problem.on_gpu else past_alignment(problem.C)
    return other if begin % 8 else choose(kernel, other, problem)
