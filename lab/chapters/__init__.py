"""Computations, tables and assertions of single chapters, one module for each chapter that needs one."""

from . import (
    account,
    board,
    conflict_free,
    mma_sync,
    tensor_cores,
    tf32x3,
    tf32x3_hopper,
    thread_tile_1d,
    thread_tile_2d,
    vectorized,
    wmma,
    wmma_warp_tile,
)

__all__ = [
    "account",
    "board",
    "conflict_free",
    "mma_sync",
    "tensor_cores",
    "tf32x3",
    "tf32x3_hopper",
    "thread_tile_1d",
    "thread_tile_2d",
    "vectorized",
    "wmma",
    "wmma_warp_tile",
]
