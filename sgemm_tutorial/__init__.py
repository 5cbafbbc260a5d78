"""Launch, check, simulate and time the kernels of the book."""

from . import correctness, cublas, gpu, timing
from .catalogue import CATALOGUE, LADDER, find
from .correctness import check, matrices, suite, summary
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .kernel import Kernel
from .own import kernel_from
from .simulation import simulate
from .table import Table

__all__ = [
    "CATALOGUE",
    "LADDER",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "SimulationFault",
    "Table",
    "TutorialError",
    "UnsupportedInstruction",
    "check",
    "correctness",
    "cublas",
    "find",
    "gpu",
    "kernel_from",
    "matrices",
    "simulate",
    "suite",
    "summary",
    "timing",
]
