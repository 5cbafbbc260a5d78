"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import async_copies, async_pipeline, board, double_buffer, measuring, register_banks, register_l1, warp_tile

__all__ = [
    "async_copies",
    "async_pipeline",
    "board",
    "double_buffer",
    "measuring",
    "register_banks",
    "register_l1",
    "warp_tile",
]
