"""Further arithmetic instructions, made of a few patterns: `FUNCTIONS` has those that `OPERATIONS` has not.

These are functions of floats in all rounding modes, half precision, conversions, and bits. Semantics: NVIDIA, "Parallel
Thread Execution ISA", "Instruction Set".
"""

from itertools import product

import numpy as np

from .fma import canonical, round_to_odd
from .instructions import OPERATIONS, Operation
from .memory import LOCAL_WINDOW
from .ptx import DTYPES
from .rounding import (
    APPROXIMATE,
    MODES,
    NEAREST,
    Function,
    approximate,
    coarse,
    least,
    modified,
    most,
    of_nan,
    rounded,
    saturated,
    stepped,
)

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "f32", "f64")
FLOPS = {"add": 1, "sub": 1, "mul": 1, "fma": 2}
TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
COMPARE |= {"ge": np.greater_equal}
COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)
NAN16 = {"f16": 0x7FFF, "bf16": 0x7FFF}


def bits(a: np.ndarray) -> np.ndarray:
    """Return how many bits it takes to write each unsigned integer, 0 for 0."""
    wide, half = a.astype(np.uint64), np.uint64(32)
    high, low = (np.frexp(part.astype(np.float64))[1] for part in (wide >> half, wide & np.uint64(0xFFFF_FFFF)))
    return np.where(high > 0, high + 32, low).astype(np.uint32)


def _find(a: np.ndarray, shift: bool) -> np.ndarray:
    """Return the place of the highest bit that is not the sign's, or how far left it can go; all ones if none."""
    unsigned = np.where(a < 0, ~a, a).astype(f"u{a.itemsize}")
    place = bits(unsigned) - np.uint32(1)
    return np.where((unsigned > 0) & shift, np.uint32(8 * a.itemsize - 1) - place, place)


def _reverse(a: np.ndarray) -> np.ndarray:
    return REVERSED[np.ascontiguousarray(a).view(np.uint8)].view(a.dtype).byteswap()


def _permute(a: np.ndarray, b: np.ndarray, select: np.ndarray) -> np.ndarray:
    """Return four bytes of b:a, chosen by four bits each: three for the byte, and one to spread its sign instead."""
    both, result = b.astype(np.uint64) << np.uint64(32) | a, np.uint32(0)
    for i in range(4):
        choice = select >> np.uint32(4 * i) & np.uint32(15)
        byte = (both >> (choice & np.uint32(7)).astype(np.uint64) * np.uint64(8)).astype(np.uint32) & np.uint32(0xFF)
        byte = np.where(choice > 7, (byte >> np.uint32(7)) * np.uint32(0xFF), byte)
        result = result | byte << np.uint32(8 * i)
    return result


def _logic(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the bits that a truth table of eight rows gives for those of a, b and c."""
    result = np.uint32(0)
    for row in range(8):
        chosen = np.uint32(0) - (table >> np.uint32(row) & np.uint32(1))
        for place, of in ((4, a), (2, b), (1, c)):
            chosen = chosen & (of if row & place else ~of)
        result = result | chosen
    return result


def _dot(kinds: tuple[str, str], parts: tuple[int, int], start: int) -> Function:
    """Return the sum of c and the products of four bytes of b with as many bytes or halves of a."""

    def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        one, other = (
            np.ascontiguousarray(of).view(f"{kind[0].replace('s', 'i')}{size}").reshape(len(of), -1).astype(np.int64)
            for of, kind, size in zip((a, b), kinds, parts, strict=True)
        )
        other = other[:, start : start + one.shape[1]]
        return (c.astype(np.int64) + (one * other).sum(axis=1, dtype=np.int64)).astype(c.dtype)

    return dot


def _to_integer(way: str, target: str) -> Function:
    """Return the conversion of floats to integers: what is out of range becomes the nearest integer that is in it."""
    dtype = DTYPES[target]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def convert(a: np.ndarray) -> np.ndarray:
        whole = TO_INTEGER[way](a.astype(np.float64))
        fits = (whole >= float(low)) & (whole < float(high + 1))
        result = np.where(fits, whole, 0).astype(dtype)
        result = np.where(fits, result, np.where(whole > 0, dtype.type(high), dtype.type(low)))
        strange = 1 << 8 * dtype.itemsize - 1 if a.itemsize == 8 or dtype.itemsize == 8 else 0
        return np.where(np.isnan(a), np.array(strange, f"u{dtype.itemsize}").view(dtype), result)

    return convert


def _to_float(target: str, mode: str) -> Function:
    """Return the conversion of integers, or of wider floats, to floats."""
    dtype = DTYPES[target]

    def convert(a: np.ndarray) -> np.ndarray:
        small = a.dtype.kind == "f" or dtype == np.float16
        nearest = (a.astype(np.float64) if small else a).astype(dtype)
        if dtype == np.float16:
            nearest = np.where(np.isnan(nearest), np.uint16(NAN16["f16"]).view(np.float16), nearest)
        if mode == "rn":
            return canonical(nearest) if dtype == np.float32 else nearest
        if a.dtype.kind == "f":
            return stepped(nearest, np.nan_to_num(a - nearest.astype(a.dtype)), mode)
        high = (a >> a.dtype.type(4 * a.itemsize)).astype(np.float64) * 2.0 ** (4 * a.itemsize)
        low = (a & a.dtype.type((1 << 4 * a.itemsize) - 1)).astype(np.float64)
        return stepped(nearest, (high - nearest.astype(np.float64)) + low, mode)

    return convert


def _saturate(a: np.ndarray, target: str) -> np.ndarray:
    """Return integers limited to the range of another type."""
    limits = [np.iinfo(of) for of in (a.dtype, DTYPES[target])]
    low, high = max(of.min for of in limits), min(of.max for of in limits)
    return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(DTYPES[target])


def _add_saturated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _saturate(a.astype(np.int64) + b, "s32")


def widened(a: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers whose bits are halves: float16, or bfloat16 as the upper half of a float32."""
    if kind == "f16":
        return a.view(np.float16).astype(np.float32)
    return (a.astype(np.uint32) << np.uint32(16)).view(np.float32)


def halved(a: np.ndarray, kind: str) -> np.ndarray:
    """Return the bits of float64 rounded to halves."""
    if kind == "f16":
        result = a.astype(np.float16).view(np.uint16)
    else:
        exact = a.astype(np.float32)
        odd = stepped(exact, np.nan_to_num(a - exact), "rz").view(np.uint32)  # rounded to odd, as twice is not once
        odd = odd | (odd.view(np.float32) != a)
        result = ((odd + np.uint32(0x7FFF) + (odd >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(a), np.uint16(NAN16[kind]), result)


def _of_halves(name: str, kind: str, sat: bool = False) -> Function:
    """Return an operation on halves, one or two in a register."""
    functions = {"min": least, "max": most, "neg": np.negative, "abs": np.abs}

    def function(*operands: np.ndarray) -> np.ndarray:
        numbers = [widened(of.view(np.uint16), kind).astype(np.float64) for of in np.broadcast_arrays(*operands)]
        if name == "fma":
            result = round_to_odd(numbers[0] * numbers[1], numbers[2])
        else:
            result = functions.get(name, NEAREST.get(name))(*numbers)
        return halved(saturated(result) if sat else result, kind).view(operands[0].dtype)

    return lambda *operands: function(*map(np.ascontiguousarray, np.broadcast_arrays(*operands)))


def _pack(kind: str) -> Function:
    """Return two float32 as two halves; the first has the upper bits."""
    return lambda a, b: halved(b.astype(np.float64), kind) | halved(a.astype(np.float64), kind).astype(np.uint32) << 16


def _functions() -> dict[str, Operation]:
    table: dict[str, Operation] = {}

    def add(opcode: str, function: Function, operands: str, result: str, kind: str = "integer", flops: int = 0) -> None:
        table[opcode] = Operation(function, tuple(operands.split()), result, kind, flops)

    counts = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}
    for (name, count), mode, ftz, sat, t in product(counts.items(), MODES, ("", ".ftz"), ("", ".sat"), ("f32", "f64")):
        if (t == "f32" or not ftz + sat) and (not sat or name in FLOPS):
            function = modified(rounded(name, mode), bool(ftz), bool(sat))
            for way in (f".{mode}", "")[: 1 + (mode == "rn" and name in ("add", "sub", "mul"))]:
                kind = "fma" if name == "fma" else "float"
                add(f"{name}{way}{ftz}{sat}.{t}", function, f"{t} " * count, t, kind, FLOPS.get(name, 0))
    for name, ftz in product(APPROXIMATE, ("", ".ftz")):
        operands = "f32 f32" if name == "div" else "f32"
        add(f"{name}.approx{ftz}.f32", modified(approximate(name), bool(ftz)), operands, "f32", "float")
    for ftz in ("", ".ftz"):
        add(f"div.full{ftz}.f32", modified(approximate("div", full=True), bool(ftz)), "f32 f32", "f32", "float")
        for name, function in (("neg", np.negative), ("abs", np.abs)):
            add(f"{name}{ftz}.f32", modified(lambda a, f=function: canonical(f(a)), bool(ftz)), "f32", "f32", "float")
    for name in ("rcp", "rsqrt"):
        add(f"{name}.approx.ftz.f64", modified(coarse(name), ftz=True), "f64", "f64", "float")
    add("rsqrt.approx.f64", APPROXIMATE["rsqrt"], "f64", "f64", "float")
    for (name, function), ftz, t in product((("min", least), ("max", most)), ("", ".ftz"), ("f32", "f64")):
        for nan, of in (("", function), (".NaN", of_nan(function))):
            checked = (lambda a, b, f=of: canonical(f(a, b))) if t == "f32" else of
            add(f"{name}{ftz}{nan}.{t}", modified(checked, bool(ftz)), f"{t} {t}", t, "float")
    for t in ("f32", "f64"):
        add(f"copysign.{t}", lambda a, b: np.copysign(b, a), f"{t} {t}", t, "float")
        tests = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan}
        for name, function in (tests | {"number": lambda a: ~np.isnan(a)}).items():
            add(f"testp.{name}.{t}", function, t, "pred", "compare")
        add(f"setp.num.{t}", lambda a, b: ~(np.isnan(a) | np.isnan(b)), f"{t} {t}", "pred", "compare")
        add(f"setp.nan.{t}", lambda a, b: np.isnan(a) | np.isnan(b), f"{t} {t}", "pred", "compare")
    for kind, (name, count) in product(("f16", "bf16"), ({"min": 2, "max": 2, "neg": 1, "abs": 1} | counts).items()):
        if name not in ("div", "rcp", "sqrt"):
            for rounding, (packed, whole) in product(("", ".rn"), (("", "b16"), ("x2", "b32"))):
                of = f"{name}{rounding}.{kind}{packed}"
                add(of, _of_halves(name, kind), f"{whole} " * count, whole, "float", FLOPS.get(name, 0))
    for (name, function), u in product(COMPARE.items(), ("", "u")):
        unordered = lambda a, b, f=function, u=u: np.where(np.isnan(a) | np.isnan(b), bool(u), f(a, b))  # noqa: E731
        add(f"setp.{name}{u}.f16", unordered, "f16 f16", "pred", "compare")
        add(f"setp.{name}{u}.ftz.f32", modified(unordered, ftz=True), "f32 f32", "pred", "compare")
    comparisons = {name: of for name, of in (OPERATIONS | table).items() if name.startswith("setp.")}
    for name, of in comparisons.items():
        _, how, *rest = name.split(".")
        kinds, rest = " ".join(of.operands), ".".join(rest)
        for by, combine in COMBINE.items():
            both = lambda a, b, c, f=of.function, g=combine: g(f(a, b), c)  # noqa: E731
            add(f"setp.{how}.{by}.{rest}", both, f"{kinds} pred", "pred", "compare")

    for way, ftz, source, target in product(TO_INTEGER, ("", ".ftz"), FLOATS, INTEGERS):
        for sat in ("", ".sat"):
            add(
                f"cvt.{way}{ftz}{sat}.{target}.{source}",
                modified(_to_integer(way, target), bool(ftz)),
                source,
                target,
                "convert",
            )
        for sat in ("", ".sat"):
            function = modified(
                lambda a, f=TO_INTEGER[way]: canonical(f(a)) if a.itemsize == 4 else f(a), bool(ftz), bool(sat)
            )
            add(f"cvt.{way}{ftz}{sat}.{source}.{source}", function, source, source, "convert")
    for mode, source, target in product(MODES, (*INTEGERS, "f32", "f64"), FLOATS):
        if source in INTEGERS or DTYPES[source].itemsize > DTYPES[target].itemsize:
            for ftz, sat in product(("", ".ftz"), ("", ".sat")):
                function = modified(_to_float(target, mode), bool(ftz), bool(sat))
                add(f"cvt.{mode}{ftz}{sat}.{target}.{source}", function, source, target, "convert")
    for ftz, sat, source, target in product(("", ".ftz"), ("", ".sat"), FLOATS, FLOATS):
        if DTYPES[source].itemsize <= DTYPES[target].itemsize:
            function = modified(_to_float(target, "rn"), bool(ftz), bool(sat))
            add(f"cvt{ftz}{sat}.{target}.{source}", function, source, target, "convert")
    for source, target in product(INTEGERS, INTEGERS):
        add(f"cvt.sat.{target}.{source}", lambda a, t=target: _saturate(a, t), source, target, "convert")
    for kind in ("f16", "bf16"):
        add(f"cvt.rn.{kind}x2.f32", _pack(kind), "f32 f32", "b32", "convert")
    add("cvt.rn.bf16.f32", lambda a: halved(a.astype(np.float64), "bf16"), "f32", "b16", "convert")
    add("cvt.f32.bf16", lambda a: canonical(widened(a, "bf16")), "b16", "f32", "convert")

    for t in ("b32", "b64"):
        add(f"popc.{t}", lambda a: np.bitwise_count(a).astype(np.uint32), t, "u32")
        add(f"clz.{t}", lambda a: np.uint32(8 * a.itemsize) - bits(a), t, "u32")
        add(f"brev.{t}", _reverse, t, t)
    for t, (name, shift) in product(INTEGERS[4:], (("", False), (".shiftamt", True))):
        add(f"bfind{name}.{t}", lambda a, s=shift: _find(a, s), t, "u32")
    for t in INTEGERS[4:]:
        high = OPERATIONS[f"mul.hi.{t}"].function
        add(f"mad.hi.{t}", lambda a, b, c, f=high: f(a, b) + c, f"{t} {t} {t}", t)
    for t in INTEGERS[2:]:
        add(f"sad.{t}", lambda a, b, c: np.where(a > b, a - b, b - a) + c, f"{t} {t} {t}", t)
        add(f"cnot.b{t[1:]}", lambda a: (a == 0).astype(a.dtype), f"b{t[1:]}", f"b{t[1:]}")
    add("add.sat.s32", _add_saturated, "s32 s32", "s32")
    add("sub.sat.s32", lambda a, b: _saturate(a.astype(np.int64) - b, "s32"), "s32 s32", "s32")
    for name, t in product(("add", "min", "max"), ("u16", "s16")):
        pair = lambda a, b, f=OPERATIONS[f"{name}.{t}"].function, to=DTYPES[t]: f(a.view(to), b.view(to)).view(a.dtype)  # noqa: E731
        add(f"{name}.{t}x2", pair, "b32 b32", "b32")
    add("prmt.b32", _permute, "b32 b32 b32", "b32")
    add("lop3.b32", _logic, "b32 b32 b32 b32", "b32")
    wrap = {way: OPERATIONS[f"shf.{way}.wrap.b32"].function for way in "lr"}
    for way, full in (("l", lambda low, high: low), ("r", lambda low, high: high)):
        clamp = lambda a, b, n, f=wrap[way], g=full: np.where(n > 31, g(a, b), f(a, b, n))  # noqa: E731
        add(f"shf.{way}.clamp.b32", clamp, "b32 b32 u32", "b32")
    for kinds in product(("u32", "s32"), repeat=2):
        result = "u32" if kinds == ("u32", "u32") else "s32"
        for name, parts, start in (("dp4a", (1, 1), 0), ("dp2a.lo", (2, 1), 0), ("dp2a.hi", (2, 1), 2)):
            add(f"{name}.{'.'.join(kinds)}", _dot(kinds, parts, start), f"{' '.join(kinds)} {result}", result)
    same = lambda a: a  # noqa: E731
    for way, t in product(("global", "const", "to.const"), ("u32", "u64")):
        add(f"cvta.{way}.{t}", same, t, t, "convert")
    add("cvta.local.u64", lambda a: a + np.uint64(LOCAL_WINDOW), "u64", "u64", "convert")
    add("cvta.to.local.u64", lambda a: a - np.uint64(LOCAL_WINDOW), "u64", "u64", "convert")
    return {opcode: of for opcode, of in table.items() if opcode not in OPERATIONS}


FUNCTIONS = _functions()
"""These opcodes, none of which `OPERATIONS` has."""

CARRY = "%carry"
"""The register that stands for the carry flag."""


def _carrying() -> dict[str, tuple[Function, int]]:
    """Return the operations with a carry: functions of operands and flag, and the number of operands."""
    table: dict[str, tuple[Function, int]] = {}

    def plus(a: np.ndarray, b: np.ndarray, flag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        once = a + b
        total = once + flag.astype(a.dtype)
        return total, (once < a) | (total < once)

    def minus(a: np.ndarray, b: np.ndarray, flag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        once, borrow = a - b, flag.astype(a.dtype)
        return once - borrow, (a < b) | (once < borrow)

    for (name, function, count), t in product((("add", plus, 2), ("sub", minus, 2)), ("32", "64")):
        for form, kind in product((f"{name}.cc", f"{name}c", f"{name}c.cc"), "us"):
            table[f"{form}.{kind}{t}"] = (
                (lambda a, b, flag, f=function, t=t: f(a.view(f"u{int(t) // 8}"), b.view(f"u{int(t) // 8}"), flag)),
                count,
            )
    for half, t in product(("lo", "hi"), ("u32", "u64")):
        times = OPERATIONS[f"mul.{half}.{t}"].function
        for form in (f"mad.{half}.cc", f"madc.{half}", f"madc.{half}.cc"):
            table[f"{form}.{t}"] = (lambda a, b, c, flag, f=times: plus(f(a, b), c, flag)), 3
    return table


CARRYING = _carrying()
"""The operations on integers with a carry, which PTX keeps in a flag."""
