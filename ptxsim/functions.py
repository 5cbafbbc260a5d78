"""Builds further arithmetic instructions from a few patterns: `FUNCTIONS` holds them, and those of `instructions`.

These are functions of floats in all rounding modes, half precision, conversions, and bits. Arithmetic on float32 and
float64 follows IEEE 754, rounds to nearest even unless an opcode says otherwise, and has subnormals, which is NVRTC's
default. The payload of a float64 NaN is not modelled. Semantics: NVIDIA, "Parallel Thread Execution ISA", "Instruction
Set".
"""

from itertools import product

import numpy as np

from .fma import canonical, round_to_odd
from .instructions import ARITHMETIC, COMPARE, OPERATIONS, TYPES, Operation, operation, ordered
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
COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)
NAN16 = {"f16": 0x7FFF, "bf16": 0x7FFF}


def bits(a: np.ndarray) -> np.ndarray:
    """Return how many bits it takes to write each unsigned integer, 0 for 0."""
    wide, half = a.astype(np.uint64), np.uint64(32)
    high, low = (np.frexp(part.astype(np.float64))[1] for part in (wide >> half, wide & np.uint64(0xFFFF_FFFF)))
    return np.where(high > 0, high + 32, low).astype(np.uint32)


def _find(a: np.ndarray, shift: bool) -> np.ndarray:
    """Return the place of the highest bit that differs from the sign, or its distance from the top, or all ones."""
    unsigned = np.where(a < 0, ~a, a).astype(f"u{a.itemsize}")
    place = bits(unsigned) - np.uint32(1)
    return np.where((unsigned > 0) & shift, np.uint32(8 * a.itemsize - 1) - place, place)


def _nth(a: np.ndarray, base: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the place of the bit that is the `count`-th one set from `base` on, or all ones if there is none.

    A negative count goes down from there; for 0, the bit at `base` itself is to be set.
    """
    place = np.arange(32, dtype=np.int64)[:, None]
    way = np.where(count < 0, -1, 1)
    ahead = (a >> place & 1 > 0) & (way * (place - base) >= 0)
    so_far = np.where(way > 0, ahead.cumsum(axis=0), ahead[::-1].cumsum(axis=0)[::-1])
    found = ahead & (so_far == np.maximum(np.abs(count), 1)) & ((count != 0) | (place == base))
    return np.where(found.any(axis=0), found.argmax(axis=0), 0xFFFFFFFF).astype(np.uint32)


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


def saturate(a: np.ndarray, target: str) -> np.ndarray:
    """Return integers limited to the range of another type."""
    limits = [np.iinfo(of) for of in (a.dtype, DTYPES[target])]
    low, high = max(of.min for of in limits), min(of.max for of in limits)
    return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(DTYPES[target])


def widened(a: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers whose bits are halves: float16, or bfloat16 as the upper half of a float32."""
    return a.view(np.float16).astype(np.float32) if kind == "f16" else (a.astype(np.uint32) << 16).view(np.float32)


def halved(a: np.ndarray, kind: str, mode: str = "rn") -> np.ndarray:
    """Return the bits of float64 rounded to halves; float16 only to nearest."""
    if kind == "f16":
        result = a.astype(np.float16).view(np.uint16)
    else:
        exact = a.astype(np.float32)
        odd = stepped(exact, np.nan_to_num(a - exact), "rz").view(np.uint32)  # rounded to odd, as twice is not once
        odd = odd | (odd.view(np.float32) != a)
        minus = odd >> 31
        most = {"rn": 0x7FFF + (odd >> 16 & 1), "rz": 0, "rm": 0xFFFF * minus, "rp": 0xFFFF * (1 - minus)}[mode]
        result = (odd + most >> 16).astype(np.uint16)
    return np.where(np.isnan(a), np.uint16(NAN16[kind]), result)


def _of_halves(name: str, kind: str, end: str = "") -> Function:
    """Return an operation on halves, one or two in a register; a comparison gives 1 or 0."""
    functions = EXTREMES | ONE_HALF | TESTS_OF_TWO

    def function(*operands: np.ndarray) -> np.ndarray:
        numbers = [widened(of.view(np.uint16), kind).astype(np.float64) for of in np.broadcast_arrays(*operands)]
        if name == "fma":
            result = round_to_odd(numbers[0] * numbers[1], numbers[2])
        else:
            result = functions.get(name, NEAREST.get(name))(*numbers)
        return halved(ENDS[end](result.astype(np.float64)), kind).view(operands[0].dtype)

    return lambda *operands: function(*map(np.ascontiguousarray, np.broadcast_arrays(*operands)))


def _of_bf16(function: Function) -> Function:
    """Return a function of float32 as one of the bits of bfloat16."""
    return lambda *operands: function(*(widened(of, "bf16") for of in operands))


def _mask(test: Function) -> Function:
    """Return a comparison of two pairs of halves that gives ones in all bits instead of the number 1."""
    return lambda a, b: (np.sign(test(a, b).view(np.uint16)) * np.uint16(0xFFFF)).view(np.uint32)


def _of_fp8(kind: str) -> Function:
    """Return the conversion of two numbers of 8 bits to two float16; a NaN is the GPU's."""
    positive = np.array([*FP8[kind], *[np.inf] * (kind == "e5m2"), *[np.nan] * 4])[:128]
    halves = halved(np.concatenate([positive, -positive]), "f16")
    return lambda a: halves[np.ascontiguousarray(a).view(np.uint8)].view(np.uint32)


def _to_fp8(a: np.ndarray, kind: str) -> np.ndarray:
    """Return the bits of floats rounded to 8 bits; what is out of range becomes the largest number."""
    size, middle = np.abs(a.astype(np.float64)), (FP8[kind][1:] + FP8[kind][:-1]) / 2
    below = np.searchsorted(middle, size)
    even = below + (below % 2 & (np.append(middle, np.nan)[below] == size))  # a tie goes up from an odd one
    return np.where(np.isnan(a), 0x7F, even | np.signbit(a) * 0x80).astype(np.uint8)


def checked(function: Function) -> Function:
    """Return a function of floats; NaNs of float32 are the GPU's."""
    return lambda *operands: canonical(function(*operands)) if operands[0].dtype == np.float32 else function(*operands)


def _pairwise(function: Function, dtype: np.dtype) -> Function:
    """Return a function of two numbers as one of two words, each of which has several of them."""
    return lambda *words: function(*(np.ascontiguousarray(of).view(dtype) for of in np.broadcast_arrays(*words))).view(
        np.uint32
    )


def _combined(name: str, of: Operation, by: str) -> tuple[str, Operation]:
    """Return a comparison whose result is combined with a predicate."""
    head, how, *rest = name.split(".")
    function, combine = of.function, COMBINE[by]
    combined = Operation(lambda a, b, c: combine(function(a, b), c), (*of.operands, "pred"), "pred", "compare")
    return ".".join((head, how, by, *rest)), combined


def _float(opcode: str, function: Function, operands: str, result: str = "") -> tuple[str, Operation]:
    """Return an operation on floats, flushing and saturating as its opcode says."""
    name, changed = opcode.partition(".")[0], modified(function, ".ftz" in opcode, ".sat" in opcode)
    kind = {"fma": "fma", "cvt": "convert", "setp": "compare"}.get(name, "float")
    return opcode, operation(changed, operands, result or operands.split()[0], kind, FLOPS.get(name, 0))


FP8 = {
    kind: np.ldexp((code % (1 << bits)) + ((code >> bits > 0) << bits), np.maximum(code >> bits, 1) - bias - bits)
    for kind, bits, bias, code in (("e4m3", 3, 7, np.arange(0x7F)), ("e5m2", 2, 15, np.arange(0x7C)))
}
"""The finite numbers of 8 bits that are not negative, by their bits."""
COUNTS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}
"""The number of operands of each of these."""
TESTS = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda a: ~np.isnan(a)}
NANS = {"num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b)}
TESTS_OF_TWO = NANS | {name + u: ordered(f, bool(u)) for (name, f), u in product(COMPARE.items(), ("", "u"))}
ENDS = {"": lambda a: a, ".sat": saturated, ".relu": lambda a: np.where(a <= 0, 0.0, a)}
DISTANCES = {size: _pairwise(lambda a, b: np.maximum(a, b) - np.minimum(a, b), np.dtype(f"u{size}")) for size in (1, 2)}
"""Functions that return how far apart the bytes of two words are, or the halves."""
ONES = np.array([0x01010101], np.uint32)
EXTREMES = {"min": least, "max": most, "min.NaN": of_nan(least), "max.NaN": of_nan(most)}
ONE_HALF = {"neg": np.negative, "abs": np.abs, "tanh.approx": np.tanh, "ex2.approx": np.exp2, "ex2.approx.ftz": np.exp2}
OF_HALVES = {"add": 2, "sub": 2, "mul": 2, "fma": 3} | dict.fromkeys(EXTREMES, 2) | dict.fromkeys(ONE_HALF, 1)
FTZ, SAT = ("", ".ftz"), ("", ".sat")

COMPARISONS = {
    **{name: of for name, of in OPERATIONS.items() if name.startswith("setp.")},
    **dict(_float(f"setp.{name}.{t}", f, f"{t} {t}", "pred") for (name, f), t in product(NANS.items(), ("f32", "f64"))),
    **dict(
        _float(f"setp.{name}{u}{t}", ordered(f, bool(u)), f"{t[-3:]} {t[-3:]}", "pred")
        for (name, f), u, t in product(COMPARE.items(), ("", "u"), (".f16", ".ftz.f32"))
    ),
    **{f"setp.{name}.bf16": operation(_of_bf16(f), "b16 b16", "pred", "compare") for name, f in TESTS_OF_TWO.items()},
}
FUNCTIONS = {
    **COMPARISONS,
    **dict(_combined(name, of, by) for (name, of), by in product(COMPARISONS.items(), COMBINE)),
    **dict(
        _float(f"{name}{way}{ftz}{sat}.{t}", rounded(name, mode), f"{t} " * count)
        for (name, count), mode, ftz, sat, t in product(COUNTS.items(), MODES, FTZ, SAT, ("f32", "f64"))
        if (t == "f32" or not ftz + sat) and (not sat or name in FLOPS)
        for way in (f".{mode}", "")[: 1 + (mode == "rn" and name in ("add", "sub", "mul"))]
    ),
    **dict(
        _float(f"{name}.approx{ftz}.f32", approximate(name), "f32 f32" if name == "div" else "f32")
        for name, ftz in product(APPROXIMATE, FTZ)
    ),
    **dict(_float(f"div.full{ftz}.f32", approximate("div", full=True), "f32 f32") for ftz in FTZ),
    **dict(
        _float(f"{name}{kind}", checked(f), kind[-3:])
        for (name, f), kind in product((("neg", np.negative), ("abs", np.abs)), (".f32", ".ftz.f32", ".f64"))
    ),
    **dict(_float(f"{name}.approx.ftz.f64", coarse(name), "f64") for name in ("rcp", "rsqrt")),
    **dict([_float("rsqrt.approx.f64", APPROXIMATE["rsqrt"], "f64")]),
    **dict(
        _float(f"{name.partition('.')[0]}{ftz}{name[3:]}.{t}", checked(f), f"{t} {t}")
        for (name, f), ftz, t in product(EXTREMES.items(), FTZ, ("f32", "f64"))
    ),
    **{f"copysign.{t}": operation(lambda a, b: np.copysign(b, a), f"{t} {t}", t, "float") for t in ("f32", "f64")},
    **{
        f"testp.{name}.{t}": operation(f, t, "pred", "compare")
        for (name, f), t in product(TESTS.items(), ("f32", "f64"))
    },
    **{
        f"{name}{rounding}{end}.{kind}{packed}": operation(
            _of_halves(name, kind, end),
            f"{whole} " * count,
            whole,
            "fma" if name == "fma" else "float",
            FLOPS.get(name, 0),
        )
        for (name, count), kind, rounding in product(OF_HALVES.items(), ("f16", "bf16"), ("", ".rn"))
        for end in (ENDS if name in FLOPS else ("",))
        for packed, whole in (("", "b16"), ("x2", "b32"))
    },
    **{
        f"set.{name}.{kind}{packed}.{kind}{packed}": operation(
            _of_halves(name, kind), f"{whole} {whole}", whole, "compare"
        )
        for name, kind in product(TESTS_OF_TWO, ("f16", "bf16"))
        for packed, whole in (("", "b16"), ("x2", "b32"))
    },
    **{
        f"set.{name}.u32.{kind}x2": operation(_mask(_of_halves(name, kind)), "b32 b32", "b32", "compare")
        for name, kind in product(TESTS_OF_TWO, ("f16", "bf16"))
    },
    **dict(
        _float(f"cvt.{way}{ftz}{sat}.{target}.{source}", _to_integer(way, target), source, target)
        for way, ftz, sat, source, target in product(TO_INTEGER, FTZ, ("",), FLOATS, INTEGERS)
    ),
    **{
        f"cvt.{way}{ftz}.sat.{target}.{source}": operation(
            modified(_to_integer(way, target), bool(ftz)), source, target, "convert"
        )
        for way, ftz, source, target in product(TO_INTEGER, FTZ, FLOATS, INTEGERS)
    },
    **dict(
        _float(f"cvt.{way}{ftz}{sat}.{t}.{t}", checked(TO_INTEGER[way]), t)
        for way, ftz, sat, t in product(TO_INTEGER, FTZ, SAT, FLOATS)
    ),
    **dict(
        _float(f"cvt.{mode}{ftz}{sat}.{target}.{source}", _to_float(target, mode), source, target)
        for mode, source, target, ftz, sat in product(MODES, (*INTEGERS, "f32", "f64"), FLOATS, FTZ, SAT)
        if source in INTEGERS or DTYPES[source].itemsize > DTYPES[target].itemsize
    ),
    **dict(
        _float(f"cvt{ftz}{sat}.{target}.{source}", _to_float(target, "rn"), source, target)
        for ftz, sat, source, target in product(FTZ, SAT, FLOATS, FLOATS)
        if DTYPES[source].itemsize <= DTYPES[target].itemsize
    ),
    **{
        f"cvt.sat.{target}.{source}": operation(lambda a, t=target: saturate(a, t), source, target, "convert")
        for source, target in product(INTEGERS, INTEGERS)
    },
    **{
        f"cvt.rn.{kind}x2.f32": operation(  # the first has the upper bits
            lambda a, b, kind=kind: (
                halved(b.astype(np.float64), kind) | halved(a.astype(np.float64), kind).astype(np.uint32) << 16
            ),
            "f32 f32",
            "b32",
            "convert",
        )
        for kind in ("f16", "bf16")
    },
    **{
        f"cvt.{mode}.bf16.{t}": operation(
            lambda a, mode=mode: halved(a.astype(np.float64), "bf16", mode), t, "b16", "convert"
        )
        for mode, t in product(MODES, (*INTEGERS[:6], "f32", "f64"))
    },
    **{
        f"cvt.{way}.bf16.bf16": operation(
            lambda a, f=f: halved(f(widened(a, "bf16")).astype(np.float64), "bf16"), "b16", "b16", "convert"
        )
        for way, f in TO_INTEGER.items()
    },
    **{
        f"cvt.{way}.{t}.bf16": operation(_of_bf16(_to_integer(way, t)), "b16", t, "convert")
        for way, t in product(TO_INTEGER, INTEGERS)
    },
    "cvt.f32.bf16": operation(lambda a: canonical(widened(a, "bf16")), "b16", "f32", "convert"),
    **{f"cvt.rn.f16x2.{kind}x2": operation(_of_fp8(kind), "b16", "b32", "convert") for kind in FP8},
    **{
        f"cvt.rn.satfinite.{kind}x2.f32": operation(
            lambda a, b, kind=kind: _to_fp8(np.stack(np.broadcast_arrays(b, a), 1), kind).view(np.uint16)[:, 0],
            "f32 f32",
            "b16",
            "convert",
        )
        for kind in FP8
    },
    **{
        f"cvt.rn.satfinite.{kind}x2.f16x2": operation(
            lambda a, kind=kind: _to_fp8(np.ascontiguousarray(a).view(np.float16), kind).view(np.uint16),
            "b32",
            "b16",
            "convert",
        )
        for kind in FP8
    },
    **{f"popc.{t}": operation(lambda a: np.bitwise_count(a).astype(np.uint32), t, "u32") for t in ("b32", "b64")},
    **{f"clz.{t}": operation(lambda a: np.uint32(8 * a.itemsize) - bits(a), t, "u32") for t in ("b32", "b64")},
    **{
        f"brev.{t}": operation(
            lambda a: REVERSED[np.ascontiguousarray(a).view(np.uint8)].view(a.dtype).byteswap(), t, t
        )
        for t in ("b32", "b64")
    },
    "fns.b32": operation(_nth, "b32 u32 s32", "b32"),
    **{
        f"bfind{name}.{t}": operation(lambda a, shift=bool(name): _find(a, shift), t, "u32")
        for t, name in product(INTEGERS[4:], ("", ".shiftamt"))
    },
    **{
        f"mad.hi.{t}": operation(
            lambda a, b, c, high=OPERATIONS[f"mul.hi.{t}"].function: high(a, b) + c, f"{t} {t} {t}", t
        )
        for t in INTEGERS[4:]
    },
    **{
        f"{name}24.lo.{t}": operation(lambda a, b, c=0: (a << 8 >> 8) * (b << 8 >> 8) + c, f"{t} " * count, t)
        for t in INTEGERS[4:6]
        for name, count in (("mul", 2), ("mad", 3))
    },
    **{
        f"slct.{t}.{sign}": operation(lambda a, b, c: np.where(c >= 0, a, b), f"{t} {t} {sign}", t, "move")
        for t, sign in product(TYPES, ("s32", "f32"))
    },
    **{
        f"cvt.pack.sat.{t}.s32.b32": operation(
            lambda a, b, c, t=t: (
                c << 16 | saturate(a, t).astype(np.uint8).astype(np.uint32) << 8 | saturate(b, t).astype(np.uint8)
            ),
            "s32 s32 b32",
            "b32",
            "convert",
        )
        for t in ("s8", "u8")
    },
    **{
        f"sad.{t}": operation(lambda a, b, c: np.where(a > b, a - b, b - a) + c, f"{t} {t} {t}", t)
        for t in INTEGERS[2:]
    },
    **{f"cnot.{t}": operation(lambda a: (a == 0).astype(a.dtype), t, t) for t in ("b16", "b32", "b64")},
    **{
        f"{name}.sat.s32": operation(lambda a, b, f=f: saturate(f(a.astype(np.int64), b), "s32"), "s32 s32", "s32")
        for name, f in (("add", np.add), ("sub", np.subtract))
    },
    **{
        f"{name}.{t}x2": operation(_pairwise(ARITHMETIC[name], DTYPES[t]), "b32 b32", "b32")
        for name, t in product(("add", "min", "max"), ("u16", "s16"))
    },
    **{
        f"{name}.{t}.relu": operation(function, f"{whole} {whole}", whole)
        for name in ("min", "max")
        for not_negative in (lambda a, b, f=ARITHMETIC[name]: np.maximum(f(a, b), a.dtype.type(0)),)
        for t, whole, function in (
            ("s32", "s32", not_negative),
            ("s16x2", "b32", _pairwise(not_negative, DTYPES["s16"])),
        )
    },
    "vabsdiff4.u32.u32.u32": operation(
        lambda a, b, c: np.broadcast_arrays(DISTANCES[1](a, b), c)[0], "b32 b32 b32", "b32"
    ),
    **{
        f"vabsdiff{4 // size}.u32.u32.u32.add": operation(
            lambda a, b, c, apart=apart, total=total: total(apart(a, b), ONES, c), "b32 b32 u32", "u32"
        )
        for size, apart in DISTANCES.items()
        for total in (_dot(("u32", "u32"), (size, 1), 0),)
    },
    "prmt.b32": operation(_permute, "b32 b32 b32", "b32"),
    "lop3.b32": operation(_logic, "b32 b32 b32 b32", "b32"),
    **{
        f"shf.{way}.clamp.b32": operation(
            lambda low, high, n, full=full, wrap=OPERATIONS[f"shf.{way}.wrap.b32"].function: np.where(
                n > 31, full(low, high), wrap(low, high, n)
            ),
            "b32 b32 u32",
            "b32",
        )
        for way, full in (("l", lambda low, high: low), ("r", lambda low, high: high))
    },
    **{
        f"{name}.{one}.{other}": operation(_dot((one, other), parts, start), f"{one} {other} {result}", result)
        for one, other in product(("u32", "s32"), repeat=2)
        for result in ("u32" if one == other == "u32" else "s32",)
        for name, parts, start in (("dp4a", (1, 1), 0), ("dp2a.lo", (2, 1), 0), ("dp2a.hi", (2, 1), 2))
    },
    **{
        f"cvta.{way}.{t}": operation(lambda a: a, t, t, "convert")
        for way, t in product(("global", "const", "to.const"), ("u32", "u64"))
    },
    "cvta.local.u64": operation(lambda a: a + np.uint64(LOCAL_WINDOW), "u64", "u64", "convert"),
    "cvta.to.local.u64": operation(lambda a: a - np.uint64(LOCAL_WINDOW), "u64", "u64", "convert"),
}
FUNCTIONS |= OPERATIONS
"""Every arithmetic opcode that the simulator knows, beside those that carry; those of `instructions` go first."""

CARRY = "%carry"
"""The register that stands for the carry flag. As a - b is a + ~b + 1, it is 1 if a difference borrows nothing:
compilers rely on that where they add behind a difference, as in a division of 128 bits."""


def _plus(a: np.ndarray, b: np.ndarray, flag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an unsigned sum with the carry before, and the carry after."""
    once = a + b
    total = once + flag.astype(a.dtype)
    return total, (once < a) | (total < once)


CARRYING: dict[str, tuple[Function, int]] = {
    **{
        f"{form}.{t}": (lambda a, b, flag, f=f, u=f"u{t[1:]}": f(a.view(DTYPES[u]), b.view(DTYPES[u]), flag), 2)
        for (name, f), t in product((("add", _plus), ("sub", lambda a, b, flag: _plus(a, ~b, flag))), INTEGERS[4:])
        for form in (f"{name}.cc", f"{name}c", f"{name}c.cc")
    },
    **{
        f"{form}.{t}": (lambda a, b, c, flag, f=OPERATIONS[f"mul.{half}.{t}"].function: _plus(f(a, b), c, flag), 3)
        for half, t in product(("lo", "hi"), ("u32", "u64"))
        for form in (f"mad.{half}.cc", f"madc.{half}", f"madc.{half}.cc")
    },
}
"""The operations on integers with a carry, which PTX keeps in a flag: functions, and how many operands they have."""
