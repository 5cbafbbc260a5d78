"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import double_buffer, register_banks, rungs, warp_tile

__all__ = ["double_buffer", "register_banks", "rungs", "warp_tile"]
