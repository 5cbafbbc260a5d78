"""Defines element types, and checks the matrices and scalars that a caller passes before anything starts."""

import dataclasses
import numbers
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy
import ml_dtypes
import numpy as np

from ptxsim import past_alignment
from ptxsim.memory import ALIGNMENT

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
        Of C.
    roundoff : float
        The u of the error bound that results must keep; `lab.correctness` says why it is what it is.
    least_capability : tuple of int
        Oldest compute capability that multiplies them.
    """

    name: str
    operand: np.dtype
    result: np.dtype
    roundoff: float
    least_capability: tuple[int, int] = (6, 0)

    @property
    def scalar(self) -> np.dtype:
        """The type of α, β and the sums: C's, or float32 where C's has 16 bits."""
        return self.result if self.result.itemsize > 2 else np.dtype(np.float32)


FP32 = Types("FP32", np.dtype(np.float32), np.dtype(np.float32), 2.0**-24)
FP64 = Types("FP64", np.dtype(np.float64), np.dtype(np.float64), 2.0**-52)
FP16 = Types("FP16", np.dtype(np.float16), np.dtype(np.float32), 2.0**-23)
BF16 = Types("BF16", np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), 2.0**-23, (8, 0))
SPLIT = Types("FP32", np.dtype(np.float32), np.dtype(np.float32), 2.0**-22)
"""FP32 that is split into parts for tensor cores."""
IN_16_BITS = {
    types: dataclasses.replace(types, name=f"{types.name} to {types.name}", result=types.operand)
    for types in (FP16, BF16)
}
"""The same types with a C of A's type."""


def sized(types: Types, bits: int) -> Types:
    """Return the types whose C has elements of so many bits: 32 for float32, or 16 for A's type.

    Raises
    ------
    ArgumentError
        `bits` is neither, or 16 where A's type has more.
    """
    wide = next((of for of, narrow in IN_16_BITS.items() if narrow == types), types)
    found = {32: wide, 16: IN_16_BITS.get(wide)}.get(bits)
    if found is None:
        raise ArgumentError("BITS", str(bits), "16 or 32" if wide in IN_16_BITS else f"32, as A is {wide.name}")
    return found


IN_CUDA = {"float": FP32, "double": FP64, "half": FP16, "__nv_bfloat16": BF16}
"""Types by what CUDA C++ calls the type of A's and B's elements."""


def named_in_cuda(name: str, like: Types | None = None) -> Types:
    """Return the types of a template over the element type T, as CUDA C++ calls it.

    Parameters
    ----------
    name : str
    like : Types, optional
        Types that the template is known to take. The new ones must agree with them on whether C's type is A's.

    Raises
    ------
    ArgumentError
        It is none of `IN_CUDA`, or the template is not for it.
    """
    known = [of for of, types in IN_CUDA.items() if like is None or _alike(types) == _alike(like)]
    if not isinstance(name, str) or name not in known:
        raise ArgumentError("T", repr(name), " or ".join(known))
    return IN_CUDA[name]


def _alike(types: Types) -> bool:
    """Whether all elements are of one type."""
    return types.operand == types.result


INT_MAX = 2**31 - 1  # the kernels take M, N and K as int


class Problem(NamedTuple):
    """Checked operands of C ← αAB + βC: what a back end may rely on."""

    M: int
    N: int
    K: int
    alpha: np.floating
    A: Any
    B: Any
    beta: np.floating
    C: Any
    fresh_C: bool
    """Whether C was made here and holds nothing yet."""
    on_gpu: bool
    types: Types = FP32

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.M, self.N, self.K

    @property
    def alignment(self) -> tuple[int, int, int]:
        """Bytes past a multiple of 512 at which each of A, B and C begins."""
        if self.on_gpu:
            return tuple(array.data.ptr % ALIGNMENT for array in (self.A, self.B, self.C))
        return tuple(past_alignment(array) for array in (self.A, self.B, self.C))

    @property
    def arguments(self) -> dict[str, Any]:
        """The kernel's arguments by name, in the order of the kernel contract."""
        return {
            "M": np.int32(self.M),
            "N": np.int32(self.N),
            "K": np.int32(self.K),
            "alpha": self.alpha,
            "A": self.A,
            "B": self.B,
            "beta": self.beta,
            "C": self.C,
        }


def imagined(M: int, N: int, K: int, types: Types = FP32) -> Problem:
    """Return a problem of that size whose matrices begin at multiples of 512 bytes and are left out.

    It serves to ask a kernel what it would do, and cannot be launched.
    """
    operand, result = np.zeros(1, types.operand), np.zeros(1, types.result)
    one, zero = types.scalar.type(1), types.scalar.type(0)
    return Problem(M, N, K, one, operand, operand, zero, result, fresh_C=True, on_gpu=False, types=types)


def check(A: Any, B: Any, C: Any, alpha: float, beta: float, types: Types = FP32) -> Problem:
    """Return the checked problem.

    Raises
    ------
    ArgumentError
        An array is of the wrong kind, dtype, rank, order or shape, C is missing where β ≠ 0 or shares
        memory with A or B, or a scalar is not a real number.
    """
    given = {"A": A, "B": B} if C is None else {"A": A, "B": B, "C": C}
    kinds = {name: _kind(name, array) for name, array in given.items()}
    for name, kind in kinds.items():
        if kind != kinds["A"]:
            raise ArgumentError(name, f"a {kind} array", f"a {kinds['A']} array, as A is")
    for name, array in given.items():
        _check_layout(name, array, types.result if name == "C" else types.operand)
    on_gpu = kinds["A"] == "CuPy"
    (M, K), (depth, N) = A.shape, B.shape
    if depth != K:
        raise ArgumentError("B", f"shape {B.shape}", f"({K}, N), as A is {A.shape}")
    alpha, beta = scalar("alpha", alpha, types.scalar), scalar("beta", beta, types.scalar)
    fresh_C = C is None
    if fresh_C:
        if beta != 0:
            raise ArgumentError("C", "none", f"an array of shape ({M}, {N}), as beta is {beta}, not 0")
        C = (cupy if on_gpu else np).empty((M, N), types.result)
    elif not on_gpu and not C.flags.writeable:
        raise ArgumentError("C", "a read-only array", "an array to write to: C.copy()")
    elif C.shape != (M, N):
        raise ArgumentError("C", f"shape {C.shape}", f"({M}, {N}), as A is {A.shape} and B is {B.shape}")
    else:
        for name, array in (("A", A), ("B", B)):
            if _overlap(C, array, on_gpu):
                raise ArgumentError("C", f"memory shared with {name}", "memory of its own")
    return Problem(M, N, K, alpha, A, B, beta, C, fresh_C, on_gpu, types)


def _overlap(one: Any, other: Any, on_gpu: bool) -> bool:
    """Whether two contiguous arrays share memory."""
    if not on_gpu:
        return np.may_share_memory(one, other)
    begin, another = one.data.ptr, other.data.ptr
    return begin < another + other.nbytes and another < begin + one.nbytes


def _kind(name: str, array: Any) -> str:
    """Return "NumPy" or "CuPy"."""
    if isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        return "NumPy"
    if isinstance(array, cupy.ndarray):
        return "CuPy"
    raise ArgumentError(name, type(array).__name__, "a CuPy array (GPU) or a NumPy array (simulator)")


def _check_layout(name: str, array: Any, dtype: np.dtype) -> None:
    """Check dtype, rank, order and extent of one matrix."""
    if array.dtype != dtype:
        got = array.dtype.str if array.dtype != BF16.operand else str(array.dtype)  # whose .str says only its size
        module = dtype.type.__module__.replace("numpy", "np")
        raise ArgumentError(name, f"dtype {got}", f"{dtype}: {name}.astype({module}.{dtype})")
    if array.ndim != 2:
        raise ArgumentError(name, f"{array.ndim} dimension(s), shape {array.shape}", "2 dimensions, rows and columns")
    if not array.flags.c_contiguous:
        order = "Fortran (column-major) order" if array.flags.f_contiguous else f"strides {array.strides}"
        raise ArgumentError(name, order, f"row-major contiguous memory: np.ascontiguousarray({name})")
    if isinstance(array, np.ndarray) and not array.flags.aligned:
        raise ArgumentError(
            name, f"memory not at a multiple of {dtype.itemsize} bytes", f"an aligned copy: {name}.copy()"
        )
    if max(array.shape) > INT_MAX:
        raise ArgumentError(name, f"shape {array.shape}", f"at most {INT_MAX} rows and columns")


def scalar(name: str, value: float, dtype: np.dtype) -> np.floating:
    """Return the value rounded to that type; past the type's range it is an infinity, as in C."""
    if type(value) is float and abs(value) < 1e38:
        return dtype.type(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real | np.floating):
        raise ArgumentError(name, f"{type(value).__name__} {value!r}", "a real number")
    with np.errstate(over="ignore"):
        try:
            return dtype.type(value)
        except OverflowError:  # an integer past even float64's range
            return dtype.type(np.inf if value > 0 else -np.inf)


def natural(name: str, value: int) -> int:
    """Return the whole number that a size or a seed is; anything else, or a negative one, is an ArgumentError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(name, f"{type(value).__name__} {value!r}", "a whole number, 0 or more") from None
    if number < 0:
        raise ArgumentError(name, str(number), "0 or more")
    return number
