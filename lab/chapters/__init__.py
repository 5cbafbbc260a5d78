"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import account, board, conflict_free, thread_tile_1d, thread_tile_2d, vectorized

__all__ = ["account", "board", "conflict_free", "thread_tile_1d", "thread_tile_2d", "vectorized"]
