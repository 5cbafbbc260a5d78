"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import rungs, thread_tile_2d

__all__ = ["rungs", "thread_tile_2d"]
