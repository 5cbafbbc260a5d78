"""Compiles CUDA C++ to the PTX that `run` takes, with NVRTC, which is imported only when something is compiled.

NVRTC has no headers of the host's C library. Kernels include some of them for a handful of names, so `HEADERS` stands
for those that declare types and limits, and for those that declare only what the compiler knows by itself.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .cuda_source import for_device, signatures
from .errors import ArgumentError, CompileError, Error

ARCHITECTURE = "compute_90a"

INTEGERS = "".join(
    f"typedef {sign}{kind} {'u' * bool(sign)}int{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign in ("", "unsigned ")
).replace("typedef char", "typedef signed char")
FLOATS = (
    "#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n"
    "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_EPSILON 2.2204460492503131e-16\n"
)
LIMITS = (
    "#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295u\n"
    "namespace std { template <class T> struct numeric_limits; }\n"
    + "".join(
        f"template <> struct std::numeric_limits<{of}> {{\n"
        f"static __host__ __device__ constexpr {of} max() {{ return {most}; }}\n"
        f"static __host__ __device__ constexpr {of} lowest() {{ return {lowest}; }}\n"
        f"static __host__ __device__ constexpr {of} min() {{ return {least}; }}\n"
        f"static __host__ __device__ constexpr {of} epsilon() {{ return {epsilon}; }}\n"
        f"static __device__ {of} infinity() {{ return {infinity}; }}\n}};\n"
        for of, most, lowest, least, epsilon, infinity in (
            ("int", "INT_MAX", "INT_MIN", "INT_MIN", "0", "0"),
            ("unsigned", "UINT_MAX", "0", "0", "0", "0"),
            ("float", "0x1.fffffep127f", "-0x1.fffffep127f", "0x1p-126f", "0x1p-23f", "__int_as_float(0x7f800000)"),
            (
                *("double", "0x1.fffffffffffffp1023", "-0x1.fffffffffffffp1023", "0x1p-1022", "0x1p-52"),
                "__longlong_as_double(0x7ff0000000000000ll)",
            ),
        )
    )
)
MATHS = (
    "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n#endif\n"
    "#define M_PI 3.14159265358979323846\nnamespace std { "
    + re.sub(
        r"(\w+) ",
        r"using ::\1; ",
        "abs acos asin atan atan2 cbrt ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmax fmin fmod hypot "
        "isfinite isinf isnan ldexp log log10 log1p log2 lround pow rint round sin sinh sqrt tan tanh trunc ",
    )
    + "}\n"
)
ALGORITHMS = """\
#ifndef STD_ALGORITHMS
#define STD_ALGORITHMS
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
#endif
"""
TRAITS = """\
namespace std {
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool C, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;
template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;
}
"""
HEADERS = {
    "stdint": INTEGERS + "namespace std { " + re.sub(r"typedef [^;]*?(\w+);\n", r"using ::\1; ", INTEGERS) + "}\n",
    "limits": LIMITS,
    "float": FLOATS,
    "math": MATHS + ALGORITHMS,
    "algorithm": ALGORITHMS,
    "utility": ALGORITHMS,
    "type_traits": TRAITS,
}
"""The text that stands for each of the host's headers, without ``.h`` or the ``c`` before it."""

GLIBC = {f"u{kind}": f"typedef unsigned {kind} u{kind};" for kind in ("int", "short", "long")}
"""Names that a host's headers also declare."""

INCLUDED = re.compile(r'(?m)^([ \t]*#[ \t]*include[ \t]*)([<"])([^>"\n]+)[>"]')
OF_CUDA = re.compile(
    r"cuda_(?:fp16|bf16|fp8|pipeline)\w*\.hp?p?|mma\.h|cooperative_groups.*|(?:cuda|nv|crt)/.*|vector_types\.h"
    r"|curand_kernel\.h|cuComplex\.h|(?:cub|cutlass|cute)/.*"
)
"""Headers that the device needs: NVRTC reads them, or says that it has none. All others are taken for the host's."""

NO_INSTANCE = re.compile(r"compute_\w+:\n__nv_name_map")
"""How NVRTC's log begins where the source is right, and the name is not that of a function in it."""


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
    kernels = signatures(source)
    names = [f"{of.name}<{', '.join(map(str, of.template))}>" if of.template else of.name for of in kernels]
    needs = f"one of {', '.join(names)}" if names else "a source with a kernel"
    if not name and len(kernels) != 1:
        raise ArgumentError("name", "none", needs)
    name = name or kernels[0].name
    try:
        entry, ptx, _, _ = nvrtc.compiled(prepared(((file, source), *texts.items())), name, architecture)
    except CompileError as error:
        raise ArgumentError("name", repr(name), needs) if NO_INSTANCE.search(str(error)) else error from None
    return Compiled(ptx, entry)


def prepared(files: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return source files that NVRTC can read, without host code and the host's headers, every line where it was.

    Parameters
    ----------
    files : tuple of (str, str)
        Names and texts, of the source file and then of headers.
    """
    here, wanted = dict(files), set()

    def included(found: re.Match[str]) -> str:
        stem = re.sub(r"^c(?!uda)|\.h$", "", found[3])
        if found[3] in here or OF_CUDA.fullmatch(found[3]):
            return found[0]
        if stem not in HEADERS:
            return ""
        wanted.add(stem)
        return f'{found[1]}"{stem}.h"'

    made = tuple((name, INCLUDED.sub(included, for_device(text))) for name, text in files)
    needed = [typedef for word, typedef in GLIBC.items() if any(re.search(rf"\b{word}\b", text) for _, text in made)]
    if needed:
        (name, text), *others = made
        made = ((name, "\n".join((*needed, "#line 1", text))), *others)
    return *made, *((f"{stem}.h", "#pragma once\n" + HEADERS[stem]) for stem in sorted(wanted))
