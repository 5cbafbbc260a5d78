"""Launch, check, simulate, time and draw the kernels of the book."""

from .catalogue import LADDER, Kernel, find
from .compiler import build
from .correctness import check, matrices, suite
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .gpus import find_gpu
from .occupancy import occupancy
from .report import kernel_occupancy, resources, resources_table, sass, sass_mix, sass_table
from .simulator import simulate
from .source import diff, show
from .table import Table

__all__ = [
    "LADDER",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "SimulationFault",
    "Table",
    "TutorialError",
    "UnsupportedInstruction",
    "build",
    "check",
    "diff",
    "find",
    "find_gpu",
    "kernel_occupancy",
    "matrices",
    "occupancy",
    "resources",
    "resources_table",
    "sass",
    "sass_mix",
    "sass_table",
    "show",
    "simulate",
    "suite",
]
