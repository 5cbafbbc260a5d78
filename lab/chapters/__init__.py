"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import account, conflict_free, thread_tile_2d, vectorized

__all__ = ["account", "conflict_free", "thread_tile_2d", "vectorized"]
