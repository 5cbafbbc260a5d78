"""Draws random matrices, the same on any machine."""

import re
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from . import gpu
from .errors import ArgumentError
from .operands import FP32, Types, natural

LARGE = 1 << 26  # bytes of matrices for which it matters how much memory is free


def matrices(M: int, N: int, K: int, seed: int = 0, on_gpu: bool | None = None, types: Types = FP32) -> tuple[Any, Any]:
    """Return standard-normal A and B, the same values on any machine.

    Parameters
    ----------
    M, N, K : int
        A is M × K, B is K × N.
    seed : int
        Of NumPy's default generator.
    on_gpu : bool, optional
        CuPy arrays or NumPy arrays; CuPy where there is a GPU, unless given.
    types : Types
        Of a kernel that takes others than float32.

    Returns
    -------
    A, B : array of ``types.operand``

    Raises
    ------
    ArgumentError
        A size or the seed is no whole number or negative, or `types` is no `Types`.
    DeviceError
        CuPy arrays are asked for where there is no GPU.
    """
    if not isinstance(types, Types):
        raise ArgumentError("types", repr(types), "Types: one of operands.FP32, FP64, FP16 and BF16")
    M, N, K, seed = (natural(name, n) for name, n in (("M", M), ("N", N), ("K", K), ("seed", seed)))
    A, B, _ = draw(M, N, K, seed, types)
    if not gpu.chosen(on_gpu):
        return A, B
    with gpu.reported("copying A and B to the GPU"):
        return cupy.asarray(A), cupy.asarray(B)


def draw(M: int, N: int, K: int, seed: int, types: Types, more: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard-normal A, B and C, drawn in this order and in the type of the sums.

    Raises
    ------
    MemoryError
        They do not fit into memory with so many `more` bytes for each element: before anything is drawn.
    """
    need = (M * K + K * N + M * N) * (types.scalar.itemsize + more)
    if need > LARGE and (told := Path("/proc/meminfo")).exists():  # only Linux says how much there is
        free = 1024 * int(re.search(r"MemAvailable: *(\d+)", told.read_text())[1])
        if need > free:
            raise MemoryError(f"at least {need / 1e9:,.0f} GB are needed, and {free / 1e9:,.0f} GB are free")
    random = np.random.default_rng(seed)
    return tuple(
        random.standard_normal(shape, types.scalar).astype(dtype, copy=False)
        for shape, dtype in (((M, K), types.operand), ((K, N), types.operand), ((M, N), types.result))
    )
