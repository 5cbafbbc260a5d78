"""The reader's own kernels: any CUDA file that keeps the contract can be used like a kernel of the book."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ptxsim.cuda_source import blanked

from .errors import ArgumentError
from .families import autotuned, hopper
from .kernel import Kernel
from .operands import (
    FP16,
    FP32,
    IN_CUDA,
    SPLIT,
    Types,
    named_in_cuda,
)

SUFFIX = ".cu"

COPIED = (
    autotuned.STREAM_K,
    autotuned.KERNEL,
    hopper.WGMMA,
    hopper.PRODUCER_WARP,
    hopper.PERSISTENT,
    hopper.TF32X3_WGMMA,
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

  A copy of kernel 12, 13, 18, 19, 20 or 21 keeps its template parameters and the arguments that
  it has more: for each problem it gets what that kernel would.
"""
"""In one screen, for the command line."""

_IN_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^<>]*)>\s*)?(?:(?:static|inline)\s+)*__global__\s+"
    rf"(?:(?:void\b|static\b|inline\b|__\w+__(?:\s*{_IN_PARENTHESES})?)\s*)*"
    r"(?P<name>\w+)\s*\((?P<arguments>[^()]*)\)\s*\{"
)
_PARAMETER = re.compile(r"\s*(?P<type>[\w\s:]*?)\s*\b(?P<name>\w+)\s*(?:=\s*(?P<default>.+?)\s*)?", re.DOTALL)
_OF_TF32 = ".tf32.tf32."
"""Text that a file holds if it multiplies TF32 with ``mma``; it has to split FP32 for that."""


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
    if path.suffix != SUFFIX:
        raise ArgumentError("path", str(path), f"a CUDA file, whose name ends in {SUFFIX}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError("path", f"{path}, which cannot be read ({error})", "a CUDA file") from None
    found = _the_kernel(path.name, text)
    values = _values(path.name, found["template"], parameters)
    if not {"BM", "BN"} <= values.keys():
        names = ", ".join(values) or "none"
        raise ArgumentError(
            path.name, f"template parameters {names}", "BM and BN, a block's rows and columns of C, for the grid"
        )
    arguments = [_type(argument) for argument in found["arguments"].split(",")]
    shared: dict[str, Any] = {}
    for kernel in COPIED:
        family = kernel.family
        if tuple(arguments[8:]) == family.arguments and tuple(values) == family.parameters:
            arguments, shared = arguments[:8], {"family": family, "settled": bool(parameters), **family.defaults}
    types = _types(path.name, arguments, found["arguments"], values)
    if types == FP32 and _OF_TF32 in blanked(text, strings=False):
        types = SPLIT
    shared = {"types": types} | shared
    return Kernel(path.stem, "", values, folder=path.resolve().parent, entry=found["name"], **shared)


def _the_kernel(file: str, text: str) -> re.Match[str]:
    """Return where the one kernel of a file is."""
    code = blanked(text)
    found = list(KERNEL.finditer(code))
    needs = "one __global__ function template: template <int BM, int BN> __global__ void name(...) {...}"
    if not found:
        got = "a __global__ function that cannot be read" if "__global__" in code else "no __global__ function"
        raise ArgumentError(file, got, needs)
    if len(found) > 1:
        names = ", ".join(match["name"] for match in found)
        raise ArgumentError(file, f"{len(found)} __global__ functions ({names})", needs)
    if found[0]["template"] is None:
        raise ArgumentError(file, f"{found[0]['name']}, which is no template", needs)
    return found[0]


def _values(file: str, template: str, given: dict[str, int | str]) -> dict[str, int | str]:
    """Return the template arguments: what is given, or else the file's defaults."""
    declared = [_PARAMETER.fullmatch(part) for part in re.split(r",(?![^()]*\))", template) if part.strip()]
    names = [match["name"] for match in declared if match]
    for name in given:
        if name not in names:
            raise ArgumentError(name, f"a parameter unknown to {file}", f"one of {', '.join(names) or 'none'}")
    values: dict[str, int | str] = {}
    for match in declared:
        if not match or not match["type"] or (match["type"] in ("typename", "class")) != (match["name"] == "T"):
            raise ArgumentError(
                file,
                f"template <{' '.join(template.split())}>",
                "whole numbers with names, or typename T: int BM, int BN",
            )
        name, default = match["name"], match["default"]
        if name in given:
            values[name] = given[name]
        elif default is None:
            raise ArgumentError(name, "no value", f"one, given (--set {name}=64) or in {file} (int {name} = 64)")
        else:
            values[name] = default if name == "T" else _whole_number(name, default, values)
    return values


def _whole_number(name: str, text: str, values: dict[str, int | str]) -> int:
    """Return the value of a default: whole numbers and parameters before it, and arithmetic with them."""
    try:
        if not re.fullmatch(r"[\w\s+*/%()-]+", text):
            raise SyntaxError
        return int(eval(text.replace("/", "//"), {"__builtins__": {}}, dict(values)))
    except (SyntaxError, NameError, TypeError, ValueError, ArithmeticError):
        raise ArgumentError(
            name, f"the default {text}", "a whole number, made of numbers and parameters before it"
        ) from None


def _types(file: str, got: list[str], arguments: str, values: dict[str, int | str]) -> Types:
    """Return the types of a kernel's elements, which the types of its arguments tell."""
    known = IN_CUDA | {"__half": FP16}
    if "T" in values:
        known["T"] = named_in_cuda(values["T"])
    element = got[4].removesuffix("*") if len(got) == 8 else "float"
    element = element if element in known else "float"
    types = known[element]
    result = element if types.operand == types.result else "float"
    needed = ["int"] * 3 + [result, f"{element}*", f"{element}*", result, f"{result}*"]
    if got != needed:
        asked = f"const {element}*"
        raise ArgumentError(
            file,
            f"arguments ({' '.join(arguments.split())})",
            f"(int M, int N, int K, {result} alpha, {asked} A, {asked} B, {result} beta, {result}* C)",
        )
    return types


def _type(argument: str) -> str:
    """Return an argument's type without its name and qualifiers."""
    words = re.findall(r"\w+|[^\w\s]", argument)
    words = [
        word for word in words if word not in ("const", "volatile", "__restrict__", "__restrict", "__grid_constant__")
    ]
    return "".join(words[:-1])
