"""NVRTC, from its pip wheel: a kernel's source in, PTX and machine code out. Needs no GPU.

Both back ends take what `build` returns: the GPU its cubin, the simulator its PTX.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from cuda.pathfinder import load_nvidia_dynamic_lib
from cupy.cuda import nvrtc

from .cache import cached, kept
from .errors import ArgumentError, CompileError
from .hardware import limits_of

INCLUDE = re.compile(r'(?m)^(\s*#\s*include\s*)"([^"\n]+)"')

ARCHITECTURE = "sm_90"
"""What is compiled for unless something else is asked: the H100 of the recorded measurements."""
PTX_ALONE = "compute_90"
"""What the simulator compiles for unless something else is asked: the same PTX, in half the time."""
DECLARED_MOST = 48 << 10
"""Bytes of shared memory that a block's arrays of fixed size may take, on any GPU."""
OPTIONS = ("-std=c++17", "-lineinfo", "--ptxas-options=-v", "--no-cache")
"""What NVRTC is told. Where there is a driver, it keeps what it compiled, and gives no log when it finds it there."""


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


@dataclass(frozen=True)
class Resources:
    """What a kernel takes, as ptxas reports it.

    Attributes
    ----------
    registers : int
        Per thread, 32 bits each.
    shared_bytes : int
        Shared memory per block, with what a launch adds.
    stack_bytes : int
        Local memory per thread, spills included.
    spill_store_bytes, spill_load_bytes : int
        What the compiler's spill instructions move per thread, each counted once.
    constant_bytes : int or None
        Constant memory, kernel arguments included; None where ptxas does not tell (sm_90 and later).
    barriers : int
        Hardware barriers per block, of 16.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    constant_bytes: int | None
    barriers: int


@dataclass(frozen=True)
class Compiled:
    """What the compiler has made of a kernel once.

    Attributes
    ----------
    digest : str
        Of what it was made from and by which compiler, as `compiler.digest` gives it.
    used : Resources
    mix : dict, optional
        Its instructions by class, as `sass_mix` returns them, where chapters ask for that.
    note : str, optional
        Where its hot loop is, as `sass_table` says it, where chapters show that.
    """

    digest: str
    used: Resources
    mix: dict[str, dict[str, int]] | None = None
    note: str | None = None


def build(instance: Instance, architecture: str = ARCHITECTURE) -> Binary:
    """Compile a template instance.

    Parameters
    ----------
    instance : Instance
    architecture : str
        A real architecture, ``"sm_75"`` or later. Or a virtual one such as ``"compute_90"``, for which there is the
        same PTX in half the time and no machine code: enough to simulate.

    Raises
    ------
    CompileError
        The source does not compile; the message is NVRTC's log with the file's name and lines.
    ArgumentError
        The architecture is malformed or older than the kernel needs, or another than it is for, or has less shared
        memory than it adds. Or the source is for fewer threads, or wants shared memory to be added and none is.
    """
    architecture = _target(instance, architecture)
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
            "a template parameter of that name, the array's bytes",
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
    """Require that ptxas takes an instance, as it is recorded or as it says now; of a virtual architecture, nothing.

    Raises
    ------
    CompileError, ArgumentError
        As `build` does.
    """
    if architecture.startswith("sm") and not recorded(instance, architecture):
        build(instance, architecture)


def recorded(instance: Instance, architecture: str) -> Compiled | None:
    """Return what is recorded of an instance, if it was made of the very same and by this compiler.

    Raises
    ------
    ArgumentError
        As `build` does of architectures.
    """
    return known().get(digest(instance, architecture))


known: Callable[[], Mapping[str, Compiled]] = dict
"""Returns what is recorded, by digest: nothing, until a package that has recordings puts its own function here."""


def digest(instance: Instance, architecture: str = ARCHITECTURE) -> str:
    """Return what tells machine code from any other before it is made, 12 digits of a SHA-256.

    It is of all that `build` passes on to the compiler, of the compiler itself, and of what the answer is checked for.

    Raises
    ------
    ArgumentError
        As `build` does of architectures.
    """
    asked = instance.files, instance.expression, instance.threads, instance.dynamic_shared_bytes
    made_of = (*asked, _target(instance, architecture), OPTIONS, _toolchain())
    return hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]


def _target(instance: Instance, architecture: str) -> str:
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

    def key(architecture: str) -> tuple[Any, ...]:
        return files, expression, (f"-arch={architecture}", *OPTIONS), _toolchain(), _text()

    def make() -> tuple[str, ...]:
        if architecture.startswith("compute"):
            real = kept(key(architecture.replace("compute", "sm"))) or ()
            if len(real) == 4:  # the same PTX, beside machine code
                entry, ptx, _, log = real
                return entry, ptx, "", re.sub(r"(?m)^ptxas .*\n?", "", log).strip()
        try:
            return _nvrtc(files, expression, (f"-arch={architecture}", *OPTIONS, *_headers()))
        except CompileError as error:  # it would be the same the next time
            return (str(error),)

    made = cached(key(architecture), make)
    if len(made) == 1:
        raise CompileError(*made)
    entry, ptx, cubin, log = made
    return Binary(kernel, architecture, entry, ptx, cubin.encode("latin-1"), log)


def _nvrtc(files: tuple[tuple[str, str], ...], expression: str, options: tuple[str, ...]) -> tuple[str, str, str, str]:
    """Return the function's mangled name, PTX, machine code with a character per byte, and the log.

    NVRTC writes the folder that it runs in into the line information, unless names begin with a slash. So all do here:
    the same source gives the same binary wherever one works, and no file that happens to lie there is included.
    """
    known = {name for name, _ in files}

    def placed(text: str) -> str:
        """Return a file's text with a slash before the headers that are here."""
        return INCLUDE.sub(lambda found: f'{found[1]}"/{found[2]}"' if found[2] in known else found[0], text)

    (file, source), *headers = [(f"/{name}", placed(text)) for name, text in files]
    names, texts = [name.encode() for name, _ in headers], [text.encode() for _, text in headers]
    program = nvrtc.createProgram(source, file, texts, names)
    try:
        nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            architecture = options[0].removeprefix("-arch=")
            log = _log(program)
            for name in known:
                log = log.replace(f"/{name}", name)
            raise CompileError(f"{files[0][0]} does not compile for {architecture}:\n{log or error}") from None
        virtual = options[0].startswith("-arch=compute_")
        return (
            nvrtc.getLoweredName(program, expression),
            nvrtc.getPTX(program).decode(),
            "" if virtual else nvrtc.getCUBIN(program).decode("latin-1") + "\0",  # CuPy 14 drops a byte
            _log(program),
        )
    finally:
        nvrtc.destroyProgram(program)


@lru_cache(maxsize=1)
def _toolchain() -> tuple[str, ...]:
    """Return what tells this compiler and its headers from any other."""
    library = Path(load_nvidia_dynamic_lib("nvrtc").abs_path)  # the one that CuPy uses
    with open(library, "rb") as file:
        build = file.read(4096)  # holds the sizes of the file's parts, and the build's number
    headers = [f"{name} {_version(name)}" for name in ("nvidia-cuda-crt", "nvidia-cuda-runtime", "cupy-cuda13x")]
    return (build.hex(), str(library.stat().st_size), *headers)


@lru_cache(maxsize=1)
def _text() -> str:
    """Return this module, which tells what is made of the compiler's answers."""
    return Path(__file__).read_text(encoding="utf-8")


def _version(package: str) -> str:
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return "is not installed"


@lru_cache(maxsize=1)
def _headers() -> tuple[str, ...]:
    """Return the option that names the folder of CUDA's headers, ``mma.h`` and ``cuda_fp16.h`` among them.

    Most kernels include none, and are compiled where there are none.
    """
    try:
        return (f"-I{distribution('nvidia-cuda-crt').locate_file('nvidia/cu13/include')}",)
    except PackageNotFoundError:
        return ()


def _log(program: Any) -> str:
    """Return what NVRTC said, the same at every run: without the time it took."""
    log = nvrtc.getProgramLog(program).replace("\0", "")
    return re.sub(r"(?m)^.*Compile time = .*\n?", "", log).strip()
