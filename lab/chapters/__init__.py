"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import board, thread_tile_1d

__all__ = ["board", "thread_tile_1d"]
