"""Computations, tables and assertions of single chapters, one module for each chapter that needs one."""

from . import account, board, conflict_free, thread_tile_1d, thread_tile_2d, vectorized

__all__ = ["account", "board", "conflict_free", "thread_tile_1d", "thread_tile_2d", "vectorized"]
