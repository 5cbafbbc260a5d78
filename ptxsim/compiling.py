"""CUDA C++ in, PTX out: what `run` takes, by way of NVRTC, which this imports only when it is called.

NVRTC has no headers of the host's C library. Kernels include some of them for a handful of names, so `HEADERS` stands
for those that declare types and limits, and for those that declare only what the compiler knows by itself.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .errors import ArgumentError, Error

ARCHITECTURE = "compute_90a"

INTEGERS = "".join(
    f"typedef {sign}{kind} {'u' * bool(sign)}int{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign in ("", "unsigned ")
).replace("typedef char", "typedef signed char")
LIMITS = "#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295u\n"
FLOATS = (
    "#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n"
    "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_EPSILON 2.2204460492503131e-16\n"
)
MATHS = (
    "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n#endif\n"
    "#define M_PI 3.14159265358979323846\n"
)
HEADERS = {
    "stdint": INTEGERS,
    "limits": LIMITS,
    "float": FLOATS,
    "math": MATHS,
    **dict.fromkeys(("stdio", "stdlib", "assert", "string", "stddef", "cuda", "cuda_runtime"), ""),
    **dict.fromkeys(("device_launch_parameters", "time", "iostream"), ""),
}
"""The text that stands for each of the host's headers, without ``.h`` or the ``c`` before it."""

INCLUDED = re.compile(r"(?m)^(\s*#\s*include\s*)[<\"](?:c(?!uda))?(" + "|".join(HEADERS) + r")(?:\.h)?[>\"]")
BESIDE = re.compile(r'(?m)^\s*#\s*include\s*"([^"\n]+)"')
KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?\w+\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)"
)


class Compiled(NamedTuple):
    """A compiled kernel: the first two arguments of `run`."""

    ptx: str
    entry: str


def compile(
    source: str | Path,
    name: str | None = None,
    headers: Mapping[str, str] | None = None,
    architecture: str = ARCHITECTURE,
) -> Compiled:
    """Compile a kernel with NVRTC: ``run(*compile(source, "scale<float>"), grid=..., block=..., arguments=...)``.

    Parameters
    ----------
    source : str or Path
        CUDA C++, or the file that has it; headers beside that file are found.
    name : str, optional
        The kernel, or the instance of a template, for example ``"scale<float, 4>"``. If left out, the source must have
        one kernel.
    headers : mapping of str to str, optional
        The texts of headers that the source includes, by their names.
    architecture : str
        The virtual architecture to compile for.

    Raises
    ------
    CompileError
        The source does not compile; the message is the compiler's.
    Error
        NVRTC is not installed.
    """
    try:
        from . import nvrtc
    except ImportError as error:
        raise Error(f"compiling needs NVRTC, pip install 'ptxsim[compile]': {error}") from None
    file, texts = "kernel.cu", dict(headers or {})
    if isinstance(source, Path):
        file, folder, source = source.name, source.parent, source.read_text(encoding="utf-8")
        todo = [source]
        while todo:
            for found in BESIDE.findall(todo.pop()):
                if found not in texts and (folder / found).is_file():
                    texts[found] = (folder / found).read_text(encoding="utf-8")
                    todo.append(texts[found])
    if name is None:
        kernels = list(dict.fromkeys(KERNEL.findall(source)))
        if len(kernels) != 1:
            raise ArgumentError("name", "none", f"one of {', '.join(kernels)}" if kernels else "a source with a kernel")
        name = kernels[0]
    standing = {f"{stem}.h": text for stem, text in HEADERS.items()}
    files = [(file, source), *texts.items()]
    files = [(path, INCLUDED.sub(r'\1"\2.h"', text)) for path, text in files]
    wanted = {found for _, text in files for found in BESIDE.findall(text)}
    files += [(path, "#pragma once\n" + text) for path, text in standing.items() if path in wanted - texts.keys()]
    entry, ptx, _, _ = nvrtc.compiled(tuple(files), name, architecture)
    return Compiled(ptx, entry)
