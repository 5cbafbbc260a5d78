"""The arithmetic PTX instructions, each as a NumPy function of whole arrays of lanes.

`OPERATIONS` is the complete list: any other opcode is refused. Arithmetic on float32 and float64 follows IEEE 754 with
rounding to nearest even and with subnormals, which is NVRTC's default. The payload of a float64 NaN is not modelled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .fma import canonical, fma32, fma64
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


def _float(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda *operands: canonical(function(*operands))


def _convert(a: np.ndarray, to: np.dtype) -> np.ndarray:
    """Convert floats to another width, rounding to nearest even; NaNs of float16 and float32 are the GPU's."""
    result = a.astype(to)
    if to == np.float16:
        return np.where(np.isnan(result), np.uint16(0x7FFF).view(np.float16), result)
    return canonical(result) if to == np.float32 else result


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
    """Return the same of signed integers: a negative one counts as itself plus 2**64 above."""
    x, y, none = a.view(np.uint64), b.view(np.uint64), np.uint64(0)
    return (_high_half(x, y) - np.where(a < 0, y, none) - np.where(b < 0, x, none)).view(np.int64)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the integer quotient rounded towards zero, as in C and PTX."""
    quotient = a // b  # rounded towards minus infinity, as in Python
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0)))


def _shift_left(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    return np.where(count < bits, a << np.minimum(count, bits - 1).astype(a.dtype), a.dtype.type(0))


def _shift_right(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    shifted = a >> np.minimum(count, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(count < bits, shifted, a.dtype.type(0))


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


def _operations() -> dict[str, Operation]:
    table: dict[str, Operation] = {}
    two = {
        "add": np.add,
        "sub": np.subtract,
        "mul.lo": np.multiply,
        "div": _divide,
        "min": np.minimum,
        "max": np.maximum,
    }
    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for name, function in two.items():
            table[f"{name}.{t}"] = Operation(function, (t, t), t, "integer")
        table[f"rem.{t}"] = Operation(lambda a, b: a - b * _divide(a, b), (t, t), t, "integer")
        table[f"mad.lo.{t}"] = Operation(lambda a, b, c: a * b + c, (t, t, t), t, "integer")
        table[f"shr.{t}"] = Operation(_shift_right, (t, "u32"), t, "integer")
    for t in ("s16", "s32", "s64"):
        table[f"neg.{t}"] = Operation(np.negative, (t,), t, "integer")
        table[f"abs.{t}"] = Operation(np.abs, (t,), t, "integer")
    for t, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        table[f"mul.wide.{t}"] = Operation(
            lambda a, b, to=DTYPES[wide]: np.multiply(a, b, dtype=to), (t, t), wide, "integer"
        )
        table[f"mad.wide.{t}"] = Operation(
            lambda a, b, c, to=DTYPES[wide]: np.multiply(a, b, dtype=to) + c, (t, t, wide), wide, "integer"
        )
    for t, wide in (("u32", "u64"), ("s32", "s64")):
        table[f"mul.hi.{t}"] = Operation(
            lambda a, b, of=DTYPES[t], to=DTYPES[wide]: (np.multiply(a, b, dtype=to) >> 32).astype(of),
            (t, t),
            t,
            "integer",
        )

    table["mul.hi.u64"] = Operation(_high_half, ("u64", "u64"), "u64", "integer")
    table["mul.hi.s64"] = Operation(_high_half_signed, ("s64", "s64"), "s64", "integer")

    for t in ("b16", "b32", "b64", "pred"):
        for name, function in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
            table[f"{name}.{t}"] = Operation(function, (t, t), t, "integer")
        table[f"not.{t}"] = Operation(np.invert, (t,), t, "integer")
    for t in ("b16", "b32", "b64"):
        table[f"shl.{t}"] = Operation(_shift_left, (t, "u32"), t, "integer")
        table[f"shr.{t}"] = Operation(_shift_right, (t, "u32"), t, "integer")
    for direction, left in (("l", lambda count: count % 32), ("r", lambda count: 32 - count % 32)):
        table[f"shf.{direction}.wrap.b32"] = Operation(
            lambda low, high, count, left=left: _funnel(low, high, left(count)), ("b32", "b32", "u32"), "b32", "integer"
        )
    for t in ("u32", "s32", "u64", "s64"):
        table[f"bfe.{t}"] = Operation(_bit_field_extract, (t, "u32", "u32"), t, "integer")
    for t in ("b32", "b64"):
        table[f"bfi.{t}"] = Operation(_bit_field_insert, (t, t, "u32", "u32"), t, "integer")

    compare = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"):
        for name, function in compare.items():
            if t[0] != "b" or name in ("eq", "ne"):
                table[f"setp.{name}.{t}"] = Operation(function, (t, t), "pred", "compare")
    for t in ("f32", "f64"):
        for name, function in compare.items():
            unordered = lambda a, b: np.isnan(a) | np.isnan(b)  # noqa: E731
            table[f"setp.{name}.{t}"] = Operation(
                lambda a, b, f=function, u=unordered: f(a, b) & ~u(a, b), (t, t), "pred", "compare"
            )
            table[f"setp.{name}u.{t}"] = Operation(
                lambda a, b, f=function, u=unordered: f(a, b) | u(a, b), (t, t), "pred", "compare"
            )
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        table[f"selp.{t}"] = Operation(lambda a, b, p: np.where(p, a, b), (t, t, "pred"), t, "move")
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "pred"):
        table[f"mov.{t}"] = Operation(lambda a: a, (t,), t, "move")

    integers = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    for source in integers:
        for target in integers:
            table[f"cvt.{target}.{source}"] = Operation(
                lambda a, to=DTYPES[target]: a.astype(to), (source,), target, "convert"
            )
    for t in ("u64", "u32"):
        table[f"cvta.to.global.{t}"] = Operation(lambda a: a, (t,), t, "convert")
    for t in ("u32", "u64"):
        table[f"mapa.shared::cluster.{t}"] = Operation(
            lambda a, rank: a % (1 << RANK) | rank.astype(a.dtype) << a.dtype.type(RANK), (t, "u32"), t, "integer"
        )
    table["cvta.param.u64"] = Operation(lambda a: a, ("u64",), "u64", "convert")
    window = np.uint64(SHARED_WINDOW)
    table["cvta.shared.u64"] = Operation(lambda a: a + window, ("u64",), "u64", "convert")
    table["cvta.to.shared.u64"] = Operation(lambda a: a - window, ("u64",), "u64", "convert")

    table["fma.rn.f32"] = Operation(fma32, ("f32", "f32", "f32"), "f32", "fma", flops=2)
    table["fma.rn.f64"] = Operation(fma64, ("f64", "f64", "f64"), "f64", "fma", flops=2)
    for t, checked in (("f32", _float), ("f64", lambda function: function)):
        for name, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
            for rounding in ("", ".rn"):
                table[f"{name}{rounding}.{t}"] = Operation(checked(function), (t, t), t, "float", flops=1)
        table[f"neg.{t}"] = Operation(checked(np.negative), (t,), t, "float")
        table[f"abs.{t}"] = Operation(checked(np.abs), (t,), t, "float")
    for target, source in (("f64", "f32"), ("f32", "f64"), ("f32", "f16"), ("f16", "f32")):
        rounding = "" if DTYPES[target].itemsize > DTYPES[source].itemsize else ".rn"
        table[f"cvt{rounding}.{target}.{source}"] = Operation(
            lambda a, to=DTYPES[target]: _convert(a, to), (source,), target, "convert"
        )
    table["cvt.rna.tf32.f32"] = Operation(_to_tf32, ("f32",), "b32", "convert")
    return table


OPERATIONS = _operations()
"""Every arithmetic opcode that the simulator knows."""
