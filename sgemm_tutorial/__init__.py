"""Launch, check, simulate and time the kernels of the book."""

from . import correctness, cublas, gpu, timing
from .catalogue import CATALOGUE, LADDER, find
from .correctness import check, matrices, suite
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .families import autotuned, hopper
from .kernel import Kernel
from .launch import Place
from .operands import imagined
from .own import CONTRACT, kernel_from
from .simulation import simulate
from .table import Table
from .tuned import Way

__all__ = [
    "CATALOGUE",
    "CONTRACT",
    "LADDER",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "Place",
    "SimulationFault",
    "Table",
    "TutorialError",
    "UnsupportedInstruction",
    "Way",
    "autotuned",
    "check",
    "correctness",
    "cublas",
    "find",
    "gpu",
    "hopper",
    "imagined",
    "kernel_from",
    "matrices",
    "simulate",
    "suite",
    "timing",
]
