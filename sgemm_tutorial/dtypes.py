"""Which numbers a kernel multiplies and which it gives, and how precisely its arithmetic must be done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import ArgumentError


@dataclass(frozen=True)
class Types:
    """The element types of C ← αAB + βC.

    Attributes
    ----------
    name : str
        Type of A and B as the field calls it, for example ``"FP16"``.
    operand : dtype
        Of A and B.
    result : dtype
        Of C, α and β, and of the sums.
    roundoff : float
        The u of the error bound that results must keep; `correctness` says why it is what it is.
    """

    name: str
    operand: np.dtype
    result: np.dtype
    roundoff: float


FP32 = Types("FP32", np.dtype(np.float32), np.dtype(np.float32), 2.0**-24)
FP64 = Types("FP64", np.dtype(np.float64), np.dtype(np.float64), 2.0**-52)
FP16 = Types("FP16", np.dtype(np.float16), np.dtype(np.float32), 2.0**-23)


def types_of(operand: np.dtype) -> Types:
    """Return the types whose A and B are of that dtype."""
    return next(types for types in (FP32, FP64, FP16) if types.operand == operand)


def named_in_cuda(name: str) -> Types:
    """Return the types of a template over the element type T, as CUDA C++ calls it.

    Raises
    ------
    ArgumentError
        It is neither "float" nor "double".
    """
    known = {"float": FP32, "double": FP64}
    if name not in known:
        raise ArgumentError("T", repr(name), " or ".join(known))
    return known[name]
