"""Compiles instances of kernels from their sources to PTX and machine code, without a GPU.

`build` returns a `Binary` for both back ends: the GPU loads its cubin, and the simulator runs its PTX.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from ptxsim import nvrtc

from .errors import ArgumentError, CompileError
from .hardware import limits_of

ARCHITECTURE = "sm_90"
"""The architecture to compile for by default: that of the recorded measurements' H100."""
PTX_ALONE = "compute_90"
"""The simulator's default: the same PTX, in half the time."""
DECLARED_MOST = 48 << 10
"""Bytes of shared memory that a block's arrays of fixed size may take, on any GPU."""


@dataclass(frozen=True)
class Instance:
    """One template instance in a source text, and what its launches have in common.

    Attributes
    ----------
    kernel : str
        The kernel's name, for messages.
    files : tuple of (str, str)
        Name and text of the source file, and then of the headers that it includes.
    expression : str
        The instance, for example ``"shared_tile<32, 32, 32>"``.
    threads : int
        Per block.
    least_capability : tuple of int
        Oldest compute capability that the source compiles for.
    dynamic_shared_bytes : int
        Shared memory per block that a launch adds to what the source declares.
    exact : bool
        Whether it compiles for `least_capability` alone, with the instructions that no other has: for ``"sm_90a"``.
    """

    kernel: str
    files: tuple[tuple[str, str], ...]
    expression: str
    threads: int
    least_capability: tuple[int, int]
    dynamic_shared_bytes: int
    exact: bool = False


@dataclass(frozen=True)
class Binary:
    """A kernel compiled for one architecture.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    architecture : str
        For example ``"sm_90"``.
    entry : str
        The mangled name of the function, which PTX and cubin know it by.
    ptx : str
        PTX with line information.
    cubin : bytes
        Machine code, an ELF file; nothing for a virtual architecture.
    log : str
        What NVRTC and ptxas said, with registers, shared memory and spills unless the architecture is virtual.
    """

    kernel: str
    architecture: str
    entry: str
    ptx: str
    cubin: bytes
    log: str


def build(instance: Instance, architecture: str = ARCHITECTURE) -> Binary:
    """Compile a template instance.

    Parameters
    ----------
    instance : Instance
    architecture : str
        A real architecture, ``"sm_75"`` or later, and with CUDA 12 ``"sm_60"`` or later. Or a virtual one such as
        ``"compute_90"``, for which there is the same PTX in half the time and no machine code: enough to simulate.

    Raises
    ------
    CompileError
        The source does not compile; the message is NVRTC's log with the file's name and lines.
    ArgumentError
        The architecture is malformed, older than the kernel needs or the compiler knows, or another than it is for, or
        has less shared memory than it adds. Or the source is for fewer threads, or wants shared memory to be added and
        none is.
    """
    architecture = target(instance, architecture)
    binary = _compile(instance.kernel, instance.files, instance.expression, architecture)
    bounds = re.search(r"\.maxntid (\d+)", binary.ptx)
    if bounds and instance.threads > int(bounds[1]):
        raise ArgumentError(
            "threads",
            f"{instance.threads:,} per block of {instance.expression}",
            f"at most {int(bounds[1]):,}, as __launch_bounds__ says",
        )
    if ".extern .shared" in binary.ptx and not instance.dynamic_shared_bytes:
        raise ArgumentError(
            "SHARED_BYTES",
            f"none for {instance.expression}, which has an extern __shared__ array",
            "the array's bytes: a template parameter of that name, or // launch: shared = bytes",
        )
    declared = sum(map(int, re.findall(r"\.shared .*\[(\d+)\];", binary.ptx)))
    if declared > DECLARED_MOST:  # where ptxas has run, it has said so
        raise CompileError(
            f"{instance.expression} uses too much shared memory: {declared:,} bytes, {DECLARED_MOST:,} at most"
        )
    if instance.dynamic_shared_bytes:
        shared = instance.dynamic_shared_bytes + declared
        most = limits_of(architecture.replace("compute", "sm")).max_shared_per_block
        if shared > most:
            raise ArgumentError(
                "dynamic_shared",
                f"{shared:,} bytes of shared memory per block of {instance.expression}",
                f"at most {most:,} on {architecture}",
            )
    return binary


def require(instance: Instance, architecture: str) -> None:
    """Require that ptxas accepts an instance, by its recorded answer or a new one; a virtual architecture has none.

    Raises
    ------
    CompileError, ArgumentError
        As `build` does.
    """
    if architecture.startswith("sm") and not known(instance, architecture):
        build(instance, architecture)


def known(instance: Instance, architecture: str) -> object:
    """Return the record of an instance that was compiled, if there is one: none here.

    A package that has recordings puts its own function in the place of this one.
    """
    return None


def target(instance: Instance, architecture: str) -> str:
    """Return the architecture in full, if the instance can be compiled for it."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[af]?", str(architecture))
    if not match:
        raise ArgumentError("architecture", repr(architecture), "one such as 'sm_90', or 'compute_90' for PTX alone")
    capability, least = (int(match[1]), int(match[2])), instance.least_capability
    if capability < least or (instance.exact and capability != least):
        needs = "sm_{}{}".format(*least) + " or later" * (not instance.exact)
        raise ArgumentError("architecture", architecture, f"{needs} for {instance.kernel}")
    return architecture.rstrip("af") + "a" if instance.exact else architecture


@lru_cache(maxsize=64)
def _compile(kernel: str, files: tuple[tuple[str, str], ...], expression: str, architecture: str) -> Binary:
    """Compile the first of the files, which are names and texts; the others are headers that it includes."""
    entry, ptx, cubin, log = nvrtc.compiled(files, expression, architecture)
    return Binary(kernel, architecture, entry, ptx, cubin.encode("latin-1"), log)
