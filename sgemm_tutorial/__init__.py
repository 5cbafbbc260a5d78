"""Find, launch, simulate and time the kernels of the book."""

from . import cublas, gpu, timing
from .catalogue import CATALOGUE, LADDER, find
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .families import autotuned, hopper
from .inputs import matrices
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
    "cublas",
    "find",
    "gpu",
    "hopper",
    "imagined",
    "kernel_from",
    "matrices",
    "simulate",
    "timing",
]
