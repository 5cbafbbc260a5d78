"""Compiles CUDA C++ to PTX and machine code with NVRTC, which comes from a pip wheel and needs no GPU.

NVRTC is the one that CuPy loads: that of CUDA 13, or of CUDA 12 with the package ``cupy-cuda12x``. Results are kept on
disk; see `cache`. This module is imported only when something is compiled.
"""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from cuda.pathfinder import load_nvidia_dynamic_lib
from cupy.cuda import nvrtc

from .cache import cached, kept
from .errors import ArgumentError, CompileError
from .host_headers import GIVEN

INCLUDE = re.compile(r'(?m)^(\s*#\s*include\s*)"([^"\n]+)"')
LIBRARY = "cupy/_core/include/cupy/_cccl/libcudacxx"
WHEELS = {
    12: {
        "nvidia-cuda-nvcc-cu12": "nvidia/cuda_nvcc/include",
        "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/include",
        "cupy-cuda12x": LIBRARY,
    },
    13: {
        "nvidia-cuda-crt": "nvidia/cu13/include",
        "nvidia-cuda-runtime": "nvidia/cu13/include",
        "cupy-cuda13x": LIBRARY,
    },
}
"""The packages that bring headers, by the version of CUDA, and the folder of the headers in each package."""
OPTIONS = ("-std=c++17", "-lineinfo", "--ptxas-options=-v", "--no-cache")
"""The options of every compilation. Without ``--no-cache``, a driver would keep results and leave out their logs."""
AS_DEVICE = "-default-device"
"""The option for functions without an annotation: methods of classes, generic lambdas, and constexpr functions. nvcc
takes them, so that a prepared source, which has no code of the host, may need it."""


def compiled(
    files: tuple[tuple[str, str], ...], expression: str, architecture: str, options: tuple[str, ...] = ()
) -> tuple[str, str, str, str]:
    """Compile one function, or return what an earlier call has kept of it.

    Parameters
    ----------
    files : tuple of (str, str)
        Name and text of the source file, and then of the headers that it includes.
    expression : str
        The function, or the instance of a template, for example ``"shared_tile<32, 32, 32>"``.
    architecture : str
        ``"sm_90"``, or ``"compute_90"`` for PTX alone.
    options : tuple of str, optional
        Options of NVRTC beside those of every compilation.

    Returns
    -------
    entry, ptx, cubin, log : str
        The function's mangled name, PTX, machine code with a character per byte, and the messages of NVRTC and ptxas.

    Raises
    ------
    CompileError
        The source does not compile; the message is NVRTC's log with the file's name and lines.
    ArgumentError
        The architecture is too old for this NVRTC; the message names the CUDA that knows it.
    """

    def key(architecture: str) -> tuple[Any, ...]:
        return files, expression, (f"-arch={architecture}", *OPTIONS, *options), toolchain(), _text()

    def make() -> tuple[str, ...]:
        if architecture.startswith("compute"):
            real = kept(key(architecture.replace("compute", "sm"))) or ()
            if len(real) == 4:  # the same PTX, beside machine code
                entry, ptx, _, log = real
                return entry, ptx, "", re.sub(r"(?m)^ptxas .*\n?", "", log).strip()
        try:
            return _nvrtc(files, expression, (f"-arch={architecture}", *OPTIONS, *options, *_headers()))
        except CompileError as error:  # it would be the same the next time
            if AS_DEVICE in str(error) and AS_DEVICE not in options and GIVEN in dict(files):
                return compiled(files, expression, architecture, (*options, AS_DEVICE))
            return (str(error),)

    made = cached(key(architecture), make)
    if len(made) == 1:
        raise CompileError(*made)
    return made


def _nvrtc(files: tuple[tuple[str, str], ...], expression: str, options: tuple[str, ...]) -> tuple[str, str, str, str]:
    """Return the function's mangled name, PTX, machine code with a character per byte, and the log.

    All names begin with a slash here. NVRTC would write the folder that it runs in into the line information of other
    names, and the same source would give another binary in another folder. It would also include files of that folder.
    """
    known = {name for name, _ in files}

    def placed(text: str) -> str:
        """Return a file's text with a slash before the names of the given headers."""
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
            _require(architecture)
            log = _log(program)
            if "instance of overloaded function" in log and "__nv_name_map" in log:
                several = f"several functions are called {expression}, CUDA's own among them if it has one"
                raise CompileError(f"{files[0][0]}: {several}: give the kernel a name that no other has") from None
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
def toolchain() -> tuple[str, ...]:
    """Return values that distinguish this compiler and its headers from any other."""
    library = Path(load_nvidia_dynamic_lib("nvrtc").abs_path)  # the one that CuPy uses
    with open(library, "rb") as file:
        build = file.read(4096)  # holds the sizes of the file's parts, and the build's number
    return build.hex(), str(library.stat().st_size), *(f"{of} {_version(of)}" for of in WHEELS[nvrtc.getVersion()[0]])


@lru_cache(maxsize=1)
def _text() -> str:
    """Return this module without its docstrings: its code decides how the compiler's answers are kept."""
    return re.sub(r'""".*?"""', "", Path(__file__).read_text(encoding="utf-8"), flags=re.DOTALL)


def _version(package: str) -> str:
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return "is not installed"


@lru_cache(maxsize=1)
def _headers() -> tuple[str, ...]:
    """Return the options that name the folders of CUDA's headers, ``mma.h`` and ``cuda_fp16.h`` among them.

    Most kernels include no headers and compile without any. CuPy brings those of the C++ library, which cooperative
    groups need.
    """
    folders = []
    for name, folder in WHEELS[nvrtc.getVersion()[0]].items():
        with contextlib.suppress(PackageNotFoundError):
            folders.append(f"-I{distribution(name).locate_file(folder)}")
    return tuple(dict.fromkeys(folders))


def _require(architecture: str) -> None:
    """Require that an architecture is not too old for NVRTC. Of one that is too new, NVRTC's log says so."""
    version, oldest = nvrtc.getVersion(), min(nvrtc.getSupportedArchs())
    if int(re.findall(r"\d+", architecture)[0]) < oldest:
        older = "; for older GPUs, install the CUDA 12 extra: make CUDA=12, or pip install '.[cuda12]' where no CuPy is"
        needs = f"sm_{oldest} or later with CUDA {version[0]}.{version[1]}" + older * (version[0] > 12)
        raise ArgumentError("architecture", architecture, needs)


def _log(program: Any) -> str:
    """Return NVRTC's log without the time that it took, so that every run gives the same one."""
    log = nvrtc.getProgramLog(program).replace("\0", "")
    return re.sub(r"(?m)^.*Compile time = .*\n?", "", log).strip()
