"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import mma_sync, tensor_cores, tf32x3, tf32x3_hopper, wmma, wmma_warp_tile

__all__ = ["mma_sync", "tensor_cores", "tf32x3", "tf32x3_hopper", "wmma", "wmma_warp_tile"]
