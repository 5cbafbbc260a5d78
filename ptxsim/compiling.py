"""Compiles CUDA C++ to the PTX that `run` takes, with NVRTC, which is imported only when something is compiled.

NVRTC takes neither code of the host nor its headers: the one is left out, and `host_headers` stands for the other.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .cuda_source import device_words, for_device, macros, signatures
from .errors import ArgumentError, CompileError, Error
from .host_headers import ALWAYS, GIVEN, HEADERS

ARCHITECTURE = "compute_90a"

INCLUDED = re.compile(r'(?m)^([ \t]*#[ \t]*include[ \t]*)([<"])([^>"\n]+)[>"]')
OF_CUDA = re.compile(
    r"cuda_(?:fp16|bf16|fp8|pipeline|awbarrier)\w*\.hp?p?|mma\.h|cooperative_groups.*|(?:cuda|nv|crt)/.*|vector_types\.h"
    r"|cuComplex\.h|math_constants\.h"
)
"""Headers that the device needs, and NVRTC reads. All others are taken for the host's."""

LIBRARY = re.compile(
    r'(?m)^[ \t]*#[ \t]*include[ \t]*[<"]((cub|thrust|cutlass|cute|curand|torch)\b[^>"\n]*|(curand)_\w+\.h)[>"]'
)
"""Headers of libraries, which only the host's code may use here."""
INTEGER = r"\bu?int(?:8|16|32|64|ptr)_t\b"
"""The integers that nvcc knows in every source, as headers that it includes by itself declare them."""
OWN_INTEGER = re.compile(rf"\btypedef\b[^;]*{INTEGER}\s*;|\busing\s+{INTEGER}\s*=")
OPTIONS = ("-w", "--device-int128")
"""The options of NVRTC that let it take what nvcc takes, and leave out warnings, among which one overlooks errors."""

NO_INSTANCE = re.compile(r"compute_\w+:\n__nv_name_map")
"""The beginning of NVRTC's log where the source is right but has no function of that name."""


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
    ArgumentError
        The source has no such kernel, or it is a template and needs arguments.
    Error
        NVRTC is not installed.
    """
    try:
        from . import nvrtc
    except ImportError as error:
        raise Error(f"compiling needs NVRTC, pip install 'ptxsim[compile]': {error}") from None
    file, texts = "kernel.cu", dict(headers or {})
    if isinstance(source, Path):
        file, folder, source = source.name, source.parent, source.read_text(encoding="utf-8-sig")
        todo = [source]
        while todo:
            for _, _, found in INCLUDED.findall(todo.pop()):
                if found not in texts and (folder / found).is_file():
                    texts[found] = (folder / found).read_text(encoding="utf-8-sig")
                    todo.append(texts[found])
    kernels = signatures(source, macros("\n".join((source, *texts.values()))))
    names = [f"{of.name}<{', '.join(map(str, of.template))}>" if of.template else of.name for of in kernels]
    needs = f"one of {', '.join(names)}" if names else "a source with a kernel"
    if not name and len(kernels) != 1:
        raise ArgumentError("name", "none", needs)
    name, files = name or kernels[0].name, ((file, source), *texts.items())
    try:
        entry, ptx, _, _ = nvrtc.compiled(prepared(files), name, architecture, OPTIONS)
    except CompileError as error:
        log = str(error)
        raise (
            ArgumentError("name", repr(name), needs) if NO_INSTANCE.search(log) else _explained(log, files)
        ) from None
    return Compiled(ptx, entry)


def _explained(log: str, files: tuple[tuple[str, str], ...]) -> CompileError:
    """Return the error for a log, which names the library that the simulator lacks if that is the reason."""
    for _, text in files:
        for header, *of in LIBRARY.findall(text):
            if header not in dict(files) and re.search(
                r'\b{0}::|namespace {0}\b|"{0}\w*" is undefined'.format("".join(of)), log
            ):
                return CompileError(f"kernels cannot use {header} here: write what they need of it in CUDA\n{log}")
    return CompileError(log)


def prepared(files: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return source files that NVRTC can read, without host code and the host's headers, every line where it was.

    Parameters
    ----------
    files : tuple of (str, str)
        Names and texts, of the source file and then of headers.
    """
    here, text = dict(files), "\n".join(text for _, text in files)
    known, integers = macros(text), bool(re.search(INTEGER, text)) and not OWN_INTEGER.search(text)
    wanted = {"stdint"} if integers else set()
    used = set().union(*(device_words(text, known) for _, text in files))

    def included(found: re.Match[str]) -> str:
        stem = re.sub(r"^c(?!uda)|\.h$", "", found[3])
        if found[3] in here:
            return f'{found[1]}"{found[3]}"'
        if OF_CUDA.fullmatch(found[3]):
            return found[0]
        if stem not in HEADERS:
            return ""
        wanted.add(stem)
        return f'{found[1]}"{stem}.h"'

    (name, source), *others = ((name, INCLUDED.sub(included, for_device(text, known, used))) for name, text in files)
    always = ALWAYS + '#include "stdint.h"\n' * integers
    given = ((GIVEN, always), *((f"{stem}.h", "#pragma once\n" + HEADERS[stem]) for stem in sorted(wanted)))
    return (name, f'#include "{GIVEN}"\n#line 1\n{source}'), *others, *given
