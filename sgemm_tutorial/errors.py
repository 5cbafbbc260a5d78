"""Defines the exceptions of this package. Each message names the mistake, the given value and the needed value."""

from ptxsim import ArgumentError, CompileError, SimulationFault, UnsupportedInstruction
from ptxsim import Error as TutorialError

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "SimulationFault",
    "TutorialError",
    "UnsupportedInstruction",
]


class DeviceError(TutorialError):
    """There is no GPU, it is too old for the kernel, or it was lost or ran out of memory."""
