"""What single chapters compute, tabulate or assert, in functions with names: a module a chapter that needs one."""

from . import board

__all__ = ["board"]
