"""The exceptions this package raises. Each message names what was wrong, what came and what is needed."""

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
