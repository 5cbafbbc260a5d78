"""The exceptions this package raises. Each message names what was wrong, what came and what is needed."""

from ptxsim.errors import ArgumentError, SimulationFault, UnsupportedInstruction
from ptxsim.errors import Error as TutorialError

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "SimulationFault",
    "TutorialError",
    "UnsupportedInstruction",
]


class CompileError(TutorialError):
    """A CUDA source does not compile; the message is NVRTC's log, with the file's lines."""


class DeviceError(TutorialError):
    """There is no GPU, it is too old for the kernel, or it was lost or ran out of memory."""
