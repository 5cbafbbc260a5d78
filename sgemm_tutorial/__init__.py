"""Launch, check, simulate, time and draw the kernels of the book."""

from .catalogue import LADDER, Kernel, find
from .compiler import build
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .simulator import simulate

__all__ = [
    "LADDER",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "SimulationFault",
    "TutorialError",
    "UnsupportedInstruction",
    "build",
    "find",
    "simulate",
]
