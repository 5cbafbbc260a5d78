"""Reads the reader's own kernels: any CUDA file that keeps the contract can be used like a kernel of the book."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptxsim.cuda_source import Declared, Signature, blanked, evaluate, signatures

from . import paths
from .errors import ArgumentError
from .families import any_shape, autotuned, hopper
from .kernel import Kernel
from .operands import FP32, IN_CUDA, SPLIT, Types, named_in_cuda, sized

SUFFIX = ".cu"
FILES = (SUFFIX, ".cuh", ".ptx")
"""Endings of a name that is a file's: a kernel's, or a header's or PTX, which `kernel_from` refuses."""

COPIED = (
    autotuned.STREAM_K,
    autotuned.KERNEL,
    hopper.WGMMA,
    hopper.PRODUCER_WARP,
    hopper.PERSISTENT,
    hopper.TF32X3_WGMMA,
    any_shape.KERNEL,
)
"""Kernels whose copies are launched as they are: a copy keeps the template parameters and the arguments after C."""

CONTRACT = """\
the contract, which the book's kernels keep:
  A file NAME.cu with one __global__ template, and whatever that needs. It may include "edges.cuh".

    template <int BM, int BN, ...>
    __global__ void __launch_bounds__(threads)
    any_name(int M, int N, int K, float alpha, const float* A, const float* B,
             float beta, float* C)

  It computes C = alpha A B + beta C. A is M x K, B is K x N and C is M x N, row by row.
  Sizes are 0 or more, also past 2^31 elements, and a matrix may begin at any element.
  beta = 0 never reads C; K = 0 and alpha = 0 never read A and B.
  A and B may be double, and C, alpha and beta too; or half or __nv_bfloat16, and those stay float.

  The launch follows from template parameters, by name:
    BM, BN        A block computes BM x BN elements of C. The grid is one-dimensional, a block
                  for each tile: tile row blockIdx.x / tilesN, tile column blockIdx.x % tilesN,
                  where tilesN is N / BN, rounded up.
    TM, TN        A thread computes TM x TN of them, 1 each unless given, so that a block has
                  BM BN / (TM TN) threads.
    WM, WN        A warp computes WM x WN of them: 32 BM BN / (WM WN) threads, whatever TM, TN.
    THREADS       So many threads, whatever the others say. At most 1,024 in any case.
    SHARED_BYTES  The bytes of an extern __shared__ array; none unless given.
    T             The type of the elements of A and B, where it is a typename.
  Others are the kernel's own. Values come from --set NAME=VALUE or the file: int BM = 64.

  A copy of kernel 12, 13, 18, 19, 20, 21 or 22 keeps its template parameters and the arguments
  that it has more: for each problem it gets what that kernel would.
"""
"""The contract in one screen, for the command line."""


def read(path: Path) -> str:
    """Return the text of a CUDA file.

    Raises
    ------
    ArgumentError
        Its name is no CUDA file's, or it cannot be read.
    """
    if path.suffix != SUFFIX:
        raise ArgumentError("path", str(path), f"a CUDA file, {SUFFIX}: rename a header; python -m ptxsim runs PTX")
    return paths.read(path)


def splits(text: str) -> bool:
    """Whether a source has tensor cores multiply TF32, so that FP32 has to be split for them."""
    return ".tf32.tf32." in blanked(text, strings=False)


def kernel_from(path: str | Path, **parameters: int | str) -> Kernel:
    """Return the kernel in a CUDA file, to call, check, trace, time and draw like those of the book.

    Parameters
    ----------
    path : str or Path
        The file, which keeps the contract: ``python -m lab new --help`` prints it. It is read again each time the
        kernel is used; its name and its template parameters are read now.
    **parameters : int or str
        Template arguments; those that the file gives a default may be left out.

    Raises
    ------
    ArgumentError
        There is no such file, a parameter is unknown, missing or no whole number, or the file breaks the contract: it
        holds no kernel or several, the kernel is no template, has other arguments, or no parameters BM and BN.
    """
    path = Path(path)
    text = read(path)
    found = _the_kernel(path.name, text)
    values = _values(path.name, found.template, parameters)
    if not {"BM", "BN"} <= values.keys():
        got = f"template parameters {', '.join(values) or 'none'}"
        raise ArgumentError(path.name, got, "BM and BN, a block's rows and columns of C, for the grid")
    own, more = found.arguments, tuple(one.type for one in found.arguments[8:])
    shared: dict[str, Any] = {}
    for kernel in COPIED:
        family = kernel.family
        if more == family.arguments and tuple(values) == family.parameters:
            own, shared = own[:8], {"family": family, "settled": bool(parameters), **family.defaults}
    types = _types(path.name, own, values)
    shared = {"types": SPLIT if types == FP32 and splits(text) else types} | shared
    return Kernel(path.stem, "", values, folder=path.resolve().parent, entry=found.name, **shared)


def _the_kernel(file: str, text: str) -> Signature:
    """Return the one kernel of a file, a template."""
    found = signatures(text)
    needs = "one __global__ function template: template <int BM, int BN> __global__ void name(...) {...}"
    if len(found) != 1:
        got = f"{len(found)} __global__ functions ({', '.join(one.name for one in found)})"
        if not found:
            unread = "__global__" in blanked(text)
            got = "a __global__ function that cannot be read" if unread else "no __global__ function"
        raise ArgumentError(file, got, needs)
    if found[0].template is None:
        raise ArgumentError(file, f"{found[0].name}, which is no template", needs)
    return found[0]


def _values(file: str, template: Sequence[Declared], given: dict[str, int | str]) -> dict[str, int | str]:
    """Return the template arguments: what is given, or else the file's defaults."""
    names = [one.name for one in template]
    for name in given:
        if name not in names:
            raise ArgumentError(name, f"a parameter unknown to {file}", f"one of {', '.join(names) or 'none'}")
    if not all(names) or any(one.type == "typename" and one.name != "T" for one in template):
        shown = ", ".join(map(str, template))
        raise ArgumentError(file, f"template <{shown}>", "whole numbers with names, or typename T: int BM, int BN")
    values: dict[str, int | str] = {}
    for kind, name, default, _ in template:
        if name in given:
            values[name] = given[name]
        elif default is None:
            raise ArgumentError(name, "no value", f"one, given (--set {name}=64) or in {file} (int {name} = 64)")
        else:
            try:
                values[name] = default if kind == "typename" else evaluate(default, values)
            except ArgumentError:
                needs = "a whole number, made of numbers and parameters before it"
                raise ArgumentError(name, f"the default {default}", needs) from None
    return values


def _types(file: str, arguments: Sequence[Declared], values: dict[str, int | str]) -> Types:
    """Return the types of a kernel's elements, which the types of its arguments tell."""
    got = [one.type for one in arguments]
    known = IN_CUDA | ({"T": named_in_cuda(values["T"])} if "T" in values and {"T", "T*"} & set(got) else {})
    element = got[4].removesuffix("*") if len(got) == 8 else ""
    element = element if element in known else "float"
    types = known[element]
    result = element if types.operand == types.result else "float"
    if "BITS" in values and got[7:8] == ["Result*"]:
        types, got[7] = sized(types, values["BITS"]), f"{result}*"
    if got != ["int"] * 3 + [result, f"{element}*", f"{element}*", result, f"{result}*"]:
        asked = f"{result} alpha, const {element}* A, const {element}* B, {result} beta, {result}* C"
        raise ArgumentError(file, f"arguments ({', '.join(map(str, arguments))})", f"(int M, int N, int K, {asked})")
    return types
