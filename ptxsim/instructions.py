"""Defines the arithmetic PTX instructions, each as a NumPy function of whole arrays of lanes.

`functions` has further ones, those on floats among them, but for the fused multiply-add in its usual mode.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .fma import fma32, fma64
from .memory import RANK, SHARED_WINDOW
from .ptx import DTYPES


@dataclass(frozen=True)
class Operation:
    """An operation on arrays: its function, the types of its operands and result, and its class for the counters.

    `flops` is the floating-point operations per thread.
    """

    function: Callable[..., np.ndarray]
    operands: tuple[str, ...]
    result: str
    kind: str
    flops: int = 0


def _to_tf32(a: np.ndarray) -> np.ndarray:
    """Return the bits of float32 rounded to 10 bits behind the point, ties away from zero; NaNs are the GPU's."""
    bits = (a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(a), np.uint32(0x7FFFFFFF), np.where(np.isinf(a), a.view(np.uint32), bits))


def _high_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the upper 64 bits of products of unsigned 64-bit integers, from products of their halves."""
    low, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    (al, ah), (bl, bh) = ((x & low, x >> half) for x in (a, b))
    middle = (al * bl >> half) + (ah * bl & low) + (al * bh & low)
    return ah * bh + (ah * bl >> half) + (al * bh >> half) + (middle >> half)


def _high_half_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the upper 64 bits of products of signed integers: taken as unsigned, a negative one is 2**64 too large."""
    x, y, none = a.view(np.uint64), b.view(np.uint64), np.uint64(0)
    return (_high_half(x, y) - np.where(a < 0, y, none) - np.where(b < 0, x, none)).view(np.int64)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the integer quotient rounded towards zero, as in C and PTX."""
    quotient = a // b  # rounded towards minus infinity, as in Python
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0)))


def _shift_left(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    return a << _at_most_all(a, count)  # NumPy shifts by all bits or more as PTX does


def _shift_right(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    return a >> _at_most_all(a, count)


def _at_most_all(a: np.ndarray, count: np.ndarray) -> np.ndarray | np.generic:
    """Return how far to shift a, at most by all of its bits."""
    bits = a.dtype.itemsize * 8
    # The count is usually a constant.
    return a.dtype.type(min(count.item(), bits)) if count.size == 1 else np.minimum(count, bits).astype(a.dtype)


def _funnel(low: np.ndarray, high: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the upper half of high:low shifted left, by 32 at most: a rotation where both are the same."""
    return _shift_left(high, left) | _shift_right(low, np.uint32(32) - left)


def _bit_field_extract(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the `length` bits of a from `position` on, extended with the sign if the type has one."""
    bits = np.uint32(a.dtype.itemsize * 8)
    beyond = bits - np.minimum(length & np.uint32(0xFF), bits)
    return _shift_right(_shift_left(_shift_right(a, position & np.uint32(0xFF)), beyond), beyond)


def _bit_field_insert(a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return b with its `length` bits from `position` on replaced by the lowest bits of a."""
    bits = a.dtype.itemsize * 8
    one = a.dtype.type(1)
    position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
    ones = np.where(length < bits, _shift_left(one, length) - one, ~a.dtype.type(0))
    mask = _shift_left(ones, position)
    return (b & ~mask) | (_shift_left(a, position) & mask)


def operation(
    function: Callable[..., np.ndarray], operands: str, result: str, kind: str = "integer", flops: int = 0
) -> Operation:
    """Return an operation; `operands` has their types with spaces between them."""
    return Operation(function, tuple(operands.split()), result, kind, flops)


def ordered(function: Callable[..., np.ndarray], unordered: bool = False) -> Callable[..., np.ndarray]:
    """Return a comparison of floats that has this result where one is a NaN."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), unordered, function(a, b))


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul.lo": np.multiply,
    "div": _divide,
    "rem": lambda a, b: a - b * _divide(a, b),
    "min": np.minimum,
    "max": np.maximum,
}
LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
TYPES = ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
TURNS = (("l", lambda count: count % 32), ("r", lambda count: 32 - count % 32))
WINDOW = np.uint64(SHARED_WINDOW)

OPERATIONS = {
    **{f"{name}.{t}": operation(f, f"{t} {t}", t) for t in INTEGERS for name, f in ARITHMETIC.items()},
    **{f"mad.lo.{t}": operation(lambda a, b, c: a * b + c, f"{t} {t} {t}", t) for t in INTEGERS},
    **{f"shr.{t}": operation(_shift_right, f"{t} u32", t) for t in (*INTEGERS, "b16", "b32", "b64")},
    **{f"shl.{t}": operation(_shift_left, f"{t} u32", t) for t in ("b16", "b32", "b64")},
    **{
        f"{name}.{t}": operation(f, t, t)
        for t in ("s16", "s32", "s64")
        for name, f in (("neg", np.negative), ("abs", np.abs))
    },
    **{
        f"mul.wide.{t}": operation(lambda a, b, to=DTYPES[wide]: np.multiply(a, b, dtype=to), f"{t} {t}", wide)
        for t, wide in WIDER.items()
    },
    **{
        f"mad.wide.{t}": operation(
            lambda a, b, c, to=DTYPES[wide]: np.multiply(a, b, dtype=to) + c, f"{t} {t} {wide}", wide
        )
        for t, wide in WIDER.items()
    },
    **{
        f"mul.hi.{t}": operation(
            lambda a, b, of=DTYPES[t], to=DTYPES[WIDER[t]]: (np.multiply(a, b, dtype=to) >> 8 * of.itemsize).astype(of),
            f"{t} {t}",
            t,
        )
        for t in WIDER
    },
    "mul.hi.u64": operation(_high_half, "u64 u64", "u64"),
    "mul.hi.s64": operation(_high_half_signed, "s64 s64", "s64"),
    **{f"{name}.{t}": operation(f, f"{t} {t}", t) for t in ("b16", "b32", "b64", "pred") for name, f in LOGIC.items()},
    **{f"not.{t}": operation(np.invert, t, t) for t in ("b16", "b32", "b64", "pred")},
    **{
        f"shf.{way}.wrap.b32": operation(
            lambda low, high, count, left=left: _funnel(low, high, left(count)), "b32 b32 u32", "b32"
        )
        for way, left in TURNS
    },
    **{f"bfe.{t}": operation(_bit_field_extract, f"{t} u32 u32", t) for t in INTEGERS[2:]},
    **{f"bfi.{t}": operation(_bit_field_insert, f"{t} {t} u32 u32", t) for t in ("b32", "b64")},
    **{
        f"setp.{name}.{t}": operation(f, f"{t} {t}", "pred", "compare")
        for t in TYPES
        for name, f in COMPARE.items()
        if t[0] in "us" or (t[0] == "b" and name in ("eq", "ne"))
    },
    **{
        f"setp.{name}{u}.{t}": operation(ordered(f, bool(u)), f"{t} {t}", "pred", "compare")
        for t in ("f32", "f64")
        for name, f in COMPARE.items()
        for u in ("", "u")
    },
    **{f"selp.{t}": operation(lambda a, b, p: np.where(p, a, b), f"{t} {t} pred", t, "move") for t in TYPES},
    **{f"mov.{t}": operation(lambda a: a, t, t, "move") for t in (*TYPES, "pred")},
    **{
        f"cvt.{target}.{source}": operation(lambda a, to=DTYPES[target]: a.astype(to), source, target, "convert")
        for source in ("u8", "s8", *INTEGERS)
        for target in ("u8", "s8", *INTEGERS)
    },
    **{f"cvta.to.global.{t}": operation(lambda a: a, t, t, "convert") for t in ("u32", "u64")},
    **{
        f"mapa.shared::cluster.{t}": operation(
            lambda a, rank: a % (1 << RANK) | rank.astype(a.dtype) << a.dtype.type(RANK), f"{t} u32", t
        )
        for t in ("u32", "u64")
    },
    "mapa.u64": operation(
        lambda a, rank: ((a - WINDOW) % (1 << RANK) | rank.astype(a.dtype) << a.dtype.type(RANK)) + WINDOW,
        "u64 u32",
        "u64",
    ),
    "cvta.param.u64": operation(lambda a: a, "u64", "u64", "convert"),
    "cvta.shared.u64": operation(lambda a: a + WINDOW, "u64", "u64", "convert"),
    "cvta.to.shared.u64": operation(lambda a: a - WINDOW, "u64", "u64", "convert"),
    "fma.rn.f32": operation(fma32, "f32 f32 f32", "f32", "fma", flops=2),
    "fma.rn.f64": operation(fma64, "f64 f64 f64", "f64", "fma", flops=2),
    "cvt.rna.tf32.f32": operation(_to_tf32, "f32", "b32", "convert"),
}
"""The arithmetic opcodes of integers, bits and moves."""
