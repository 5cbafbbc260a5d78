"""Arithmetic in all rounding modes, conversions, half precision and bits, against fractions and Python's integers."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import ptxsim
from ptxsim.functions import CARRYING, FUNCTIONS
from ptxsim.ptx import DTYPES

from ..together import for_each
from .cuda import launch, per_thread

DIRECTED = ("rz", "rm", "rp")
MANTISSA = {"f16": 10, "f32": 23, "f64": 52}


def run(opcode, *operands):
    of = FUNCTIONS[opcode]
    with np.errstate(all="ignore"):
        result = of.function(*(np.asarray(a, DTYPES[t]) for a, t in zip(operands, of.operands, strict=True)))
    assert result.dtype == DTYPES[of.result], opcode
    return result


def samples(t, count=400, seed=0):
    """Random bits, small numbers, and the edges."""
    random, dtype = np.random.default_rng(seed), DTYPES[t]
    info = np.finfo(dtype)
    edges = [0, 1, -1, 1.5, -2.5, 3, info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, info.eps]
    edges = np.array([*edges, np.inf, -np.inf, np.nan, -0.0], dtype)
    any_bits = np.frombuffer(random.bytes(count * dtype.itemsize), dtype)
    return np.concatenate([edges, any_bits, random.standard_normal(count).astype(dtype)])


def neighbours(exact, t):
    """Return the floats next to an exact number, below and above: the same where it is one."""
    dtype = DTYPES[t]
    with np.errstate(all="ignore"):
        try:
            near = dtype.type(float(exact)) if t != "f64" else np.float64(float(exact))
        except OverflowError:
            near = dtype.type(math.inf if exact > 0 else -math.inf)
        below = above = near
        if np.isinf(near) or Fraction(float(near)) > exact:
            below = np.nextafter(near, dtype.type(-np.inf)) if near > 0 or np.isfinite(near) else near
        if np.isinf(near) or Fraction(float(near)) < exact:
            above = np.nextafter(near, dtype.type(np.inf)) if near < 0 or np.isfinite(near) else near
    return below, above


def in_mode(exact, t, mode):
    below, above = neighbours(exact, t)
    return below if mode == "rm" or (mode == "rz" and exact > 0) else above


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else None,
    "rcp": lambda a: 1 / a if a else None,
    "fma": lambda a, b, c: a * b + c,
}


@for_each(name=EXACT, mode=DIRECTED, t=["f32", "f64"])
def test_directed_rounding_is_that_of_the_exact_result(name, mode, t):
    opcode, inexact = f"{name}.{mode}.{t}", 0
    columns = [np.random.default_rng(i).permutation(samples(t, seed=i)) for i in range(len(FUNCTIONS[opcode].operands))]
    if name == "fma":
        with np.errstate(all="ignore"):
            columns[2][::3] = -(columns[0] * columns[1])[::3]  # what cancels
    nearest = run(opcode.replace(mode, "rn"), *columns)
    for i, result in enumerate(run(opcode, *columns)):
        row = [column[i] for column in columns]
        if not all(map(np.isfinite, row)):
            assert np.array_equal(result, nearest[i], equal_nan=True)
            continue
        exact = EXACT[name](*(Fraction(float(a)) for a in row))
        if exact:
            assert result == in_mode(exact, t, mode), (opcode, row)
            inexact += result != nearest[i]
        elif exact is not None and name in ("add", "sub"):
            signs = {bool(np.signbit(row[0])), bool(np.signbit(row[1])) != (name == "sub")}
            assert result == 0 and np.signbit(result) == (mode == "rm" if len(signs) > 1 else True in signs)
    assert inexact > 50


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", *DIRECTED])
def test_square_roots(mode, t):
    a = np.abs(samples(t))
    for x, root in zip(a, run(f"sqrt.{mode}.{t}", a), strict=True):
        if not np.isfinite(x) or x == 0:
            assert np.array_equal(root, x, equal_nan=True)
            continue
        x, step = Fraction(float(x)), np.nextafter(root, DTYPES[t].type(np.inf))
        low, high = Fraction(float(root)), Fraction(float(step))
        before = Fraction(float(np.nextafter(root, DTYPES[t].type(0))))
        if mode in ("rz", "rm"):
            assert low**2 <= x < high**2
        elif mode == "rp":
            assert before**2 < x <= low**2
        else:
            assert ((before + low) / 2) ** 2 <= x <= ((low + high) / 2) ** 2
    assert np.isnan(run(f"sqrt.{mode}.{t}", [-1.0]))[0] and np.signbit(run(f"sqrt.{mode}.{t}", [-0.0]))[0]


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_quotients_are_rounded_to_nearest(t):
    a, b = samples(t, seed=1), samples(t, seed=2)[::-1]
    for x, y, q in zip(a, b, run(f"div.rn.{t}", a, b), strict=True):
        if np.isfinite(x) and np.isfinite(y) and x and y:
            below, above = neighbours(Fraction(float(x)) / Fraction(float(y)), t)
            assert q in (below, above)
    assert run(f"div.rn.{t}", [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]).tolist()[:2] == [math.inf, -math.inf]


BOUNDS = {
    "ex2": (lambda x: 2.0**x, np.linspace(-100, 100, 1001), 2.0**-22, 0),
    "lg2": (np.log2, np.geomspace(1e-30, 1e30, 1001), 2.0**-22, 2.0**-22),
    "sin": (np.sin, np.linspace(-3.1, 3.1, 1001), 0, 2.0**-20.5),
    "cos": (np.cos, np.linspace(-3.1, 3.1, 1001), 0, 2.0**-20.5),
    "rsqrt": (lambda x: x**-0.5, np.geomspace(1e-37, 1e37, 1001), 2.0**-22.9, 0),
    "sqrt": (np.sqrt, np.geomspace(1e-37, 1e37, 1001), 2.0**-23, 0),
    "rcp": (lambda x: 1 / x, np.geomspace(1e-37, 1e37, 1001), 2.0**-23, 0),
    "tanh": (np.tanh, np.linspace(-9, 9, 1001), 2.0**-11, 0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_approximations_keep_their_bounds(name):
    function, points, relative, absolute = BOUNDS[name]
    points = points.astype(np.float32)
    expected = function(points.astype(np.float64))
    for ftz in ("", ".ftz"):
        wrong = np.abs(run(f"{name}.approx{ftz}.f32", points) - expected)
        assert (wrong <= np.abs(expected) * relative + absolute).all()


def test_edges_of_approximations():
    inf = np.inf
    assert run("ex2.approx.f32", [-inf, inf]).tolist() == [0, inf]
    assert run("lg2.approx.f32", [0, inf]).tolist() == [-inf, inf] and np.isnan(run("lg2.approx.f32", [-1.0]))[0]
    assert run("rsqrt.approx.f32", [0.0, -0.0, inf]).tolist() == [inf, -inf, 0]
    for opcode in ("sin.approx.f32", "cos.approx.f32"):
        assert run(opcode, [inf]).view(np.uint32)[0] == 0x7FFFFFFF
    assert run("div.approx.f32", [1.0, 1.0], [2.0**127, 2.0**126]).tolist() == [0, 2.0**-126]
    assert run("div.full.f32", [1.0], [2.0**127]).tolist() == [2.0**-127]
    low = run("rcp.approx.ftz.f64", [3.0, 1e-310]).view(np.uint64)
    assert not (low & np.uint64(0xFFFFFFFF)).any() and low.view(np.float64)[0] == pytest.approx(1 / 3, rel=2e-6)
    assert run("rsqrt.approx.f64", [2.0])[0] == pytest.approx(2**-0.5, rel=1e-15)


def test_flushing_and_saturation():
    small = np.float32(1e-40)
    assert run("add.ftz.f32", [small], [0.0]) == 0 and run("add.f32", [small], [0.0]) == small
    assert np.signbit(run("mul.ftz.f32", [-1e-30], [1e-10]))[0] and run("mul.ftz.f32", [-1e-30], [1e-10])[0] == 0
    assert run("fma.rn.sat.f32", [2.0, -2, 0.5, np.nan], [1.0] * 4, [0.0] * 4).tolist() == [1, 0, 0.5, 0]
    assert run("setp.gt.ftz.f32", [small], [0.0]).tolist() == [False]
    assert run("cvt.sat.f32.f32", [-1, 0.25, 7, np.nan]).tolist() == [0, 0.25, 1, 0]


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_minimum_and_maximum(t):
    nan, a = np.nan, [1, -0.0, 0.0, np.nan, 5, np.nan]
    b = [2, 0.0, -0.0, 3, np.nan, np.nan]
    low, high = run(f"min.{t}", a, b), run(f"max.{t}", a, b)
    assert np.array_equal(low, [1, 0, 0, 3, 5, nan], equal_nan=True) and np.signbit(low[1:3]).all()
    assert np.array_equal(high, [2, 0, 0, 3, 5, nan], equal_nan=True) and not np.signbit(high[1:3]).any()
    assert np.isnan(run(f"min.NaN.{t}", a, b)[3:]).all() and run(f"max.NaN.{t}", a, b)[0] == 2
    if t == "f32":
        assert low.view(np.uint32)[-1] == 0x7FFFFFFF


WAYS = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("source", MANTISSA)
@pytest.mark.parametrize("way", WAYS)
def test_floats_to_integers(way, source):
    with np.errstate(all="ignore"):
        a = np.concatenate([samples(source), (np.arange(-600, 600) / 4).astype(DTYPES[source])])
    edges = [2.0**p + d for p in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 1)]
    with np.errstate(all="ignore"):
        a = np.concatenate([a, np.array(edges + [-e for e in edges]).astype(DTYPES[source])])
    for target in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        info, wide = np.iinfo(DTYPES[target]), source == "f64" or target[1:] == "64"
        for x, got in zip(a.tolist(), run(f"cvt.{way}.{target}.{source}", a).tolist(), strict=True):
            if math.isnan(x):
                expected = (1 << info.bits - 1) * (1 if info.min == 0 else -1) * wide
            else:
                whole = WAYS[way](x) if math.isfinite(x) else x
                expected = int(min(max(whole, info.min), info.max))
            assert got == expected, (way, source, target, x)


@pytest.mark.parametrize("target", MANTISSA)
@pytest.mark.parametrize("mode", ["rn", *DIRECTED])
def test_integers_to_floats(mode, target):
    random = np.random.default_rng(0)
    for source in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        info = np.iinfo(DTYPES[source])
        a = random.integers(info.min, info.max, 300, DTYPES[source], endpoint=True)
        a = np.concatenate([a, a >> DTYPES[source].type(info.bits // 2), np.array([info.min, info.max, 0, 1], a.dtype)])
        if target == "f16":
            a = a[np.abs(a.astype(np.float64)) < 65504]
        for x, got in zip(a.tolist(), run(f"cvt.{mode}.{target}.{source}", a), strict=True):
            if mode == "rn":
                assert abs(Fraction(float(got)) - x) <= min(
                    abs(Fraction(float(of)) - x) for of in neighbours(x, target)
                )
            else:
                assert got == in_mode(Fraction(x), target, mode), (source, x)


@pytest.mark.parametrize("source, target", [("f64", "f32"), ("f32", "f16"), ("f64", "f16")])
@pytest.mark.parametrize("mode", DIRECTED)
def test_floats_to_narrower_floats(mode, source, target):
    a = samples(source)
    for x, got in zip(a, run(f"cvt.{mode}.{target}.{source}", a), strict=True):
        if np.isfinite(x) and abs(x) < (60000 if target == "f16" else 3e38) and x:
            assert got == in_mode(Fraction(float(x)), target, mode), x


def test_rounding_to_whole_floats_and_saturated_integers():
    a = [-2.5, -1.5, -0.4, 0.5, 1.5, 2.5]
    for t in ("f32", "f64"):
        assert run(f"cvt.rni.{t}.{t}", a).tolist() == [-2, -2, -0.0, 0, 2, 2]
        assert run(f"cvt.rzi.{t}.{t}", a).tolist() == [-2, -1, 0, 0, 1, 2]
        assert run(f"cvt.rmi.{t}.{t}", a).tolist() == [-3, -2, -1, 0, 1, 2]
        assert run(f"cvt.rpi.{t}.{t}", a).tolist() == [-2, -1, 0, 1, 2, 3]
    numbers = [-(2**31), -129, -1, 0, 127, 128, 255, 256, 2**31 - 1]
    for target in ("u8", "s8", "u16", "s16", "u32", "u64", "s64"):
        info = np.iinfo(DTYPES[target])
        assert run(f"cvt.sat.{target}.s32", numbers).tolist() == [min(max(n, info.min), info.max) for n in numbers]
    assert run("cvt.sat.s32.u64", [2**63]).tolist() == [2**31 - 1]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_halves_and_infinities(kind):
    """A sum in which one term is infinite is that term, and NaN only if another one is of the other sign."""
    values = np.array([0, 1.5, -2, np.inf, -np.inf, np.nan])
    bits = values.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    of = np.stack(np.meshgrid(*[np.arange(6)] * 3), axis=-1).reshape(-1, 3).T
    got = run(f"fma.rn.{kind}", *bits[of])
    got = got.view(np.float16) if kind == "f16" else (got.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got, values[of[0]] * values[of[1]] + values[of[2]], equal_nan=True)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma.rn"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_precision_is_rounded_once(kind, name):
    random = np.random.default_rng(0)

    def wide(bits):
        return bits.view(np.float16).astype(float) if kind == "f16" else (bits.astype(np.uint32) << 16).view(np.float32)

    columns = [random.integers(0, 1 << 16, 3000).astype(np.uint16) for _ in range(3 if "fma" in name else 2)]
    if kind == "bf16":
        columns = [(c & 0x83FF) + np.uint16(0x3C00) for c in columns]  # exponents that matter to each other
    got = wide(run(f"{name}.{kind}", *columns))
    checked = 0
    for i in range(3000):
        row = [float(wide(c)[i]) for c in columns]
        if all(map(math.isfinite, row)) and math.isfinite(got[i]) and got[i]:
            exact = EXACT[name.split(".")[0]](*map(Fraction, row))
            unit = abs(Fraction(float(got[i])) - exact)
            for step in (-1, 1):
                near = np.array([run_bits(got[i], kind) + step], np.uint16)
                if math.isfinite(float(wide(near)[0])):
                    assert unit <= abs(Fraction(float(wide(near)[0])) - exact), row
            checked += 1
    assert checked > 500
    pair = (columns[0][:100].astype(np.uint32) << 16) | columns[1][:100]
    both = run(f"{name}.{kind}x2", *[pair] * len(columns))
    assert np.array_equal(both & 0xFFFF, run(f"{name}.{kind}", *[columns[1][:100]] * len(columns)))
    assert np.array_equal(both >> 16, run(f"{name}.{kind}", *[columns[0][:100]] * len(columns)))


def run_bits(value, kind):
    """Return the bits of a number that is a half."""
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    return int(np.float32(value).view(np.uint32)) >> 16


def test_packed_conversions():
    packed = run("cvt.rn.f16x2.f32", [1.5], [-2.0])
    assert packed.tolist() == [int(np.float16(1.5).view(np.uint16)) << 16 | int(np.float16(-2).view(np.uint16))]
    tie, more = np.float32(1 + 2.0**-8), np.nextafter(np.float32(1 + 2.0**-8), np.float32(2))
    assert run("cvt.rn.bf16.f32", [1.0, tie, more, np.inf, np.nan]).tolist() == [0x3F80, 0x3F80, 0x3F81, 0x7F80, 0x7FFF]
    assert run("cvt.f32.bf16", [0x3FC0]).tolist() == [1.5]


def permute(a, b, c):
    whole, result = b << 32 | a, 0
    for i in range(4):
        choice = c >> 4 * i & 15
        byte = whole >> 8 * (choice & 7) & 255
        result |= (255 * (byte >> 7) if choice & 8 else byte) << 8 * i
    return result


def lut(a, b, c, table):
    return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def of_24_bits(a):
    """Return the signed number that the lower 24 bits are."""
    return (a + 2**23) % 2**24 - 2**23


def within(a, low, high):
    """Return the 8 bits of the number that is next to a in a range."""
    return min(max(a, low), high) & 0xFF


BITS = {
    "popc.b32": lambda a: a.bit_count(),
    "popc.b64": lambda a: a.bit_count(),
    "clz.b32": lambda a: 32 - a.bit_length(),
    "clz.b64": lambda a: 64 - a.bit_length(),
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "brev.b64": lambda a: int(f"{a:064b}"[::-1], 2),
    "bfind.u32": lambda a: (a.bit_length() - 1) % 2**32,
    "bfind.s32": lambda a: ((a if a >= 0 else ~a).bit_length() - 1) % 2**32,
    "bfind.shiftamt.u64": lambda a: 64 - a.bit_length() if a else 2**32 - 1,
    "prmt.b32": permute,
    "lop3.b32": lambda a, b, c, d: lut(a, b, c, d % 256),
    "sad.s32": lambda a, b, c: abs(a - b) + c,
    "mul24.lo.u32": lambda a, b: a % 2**24 * (b % 2**24),
    "mul24.lo.s32": lambda a, b: of_24_bits(a) * of_24_bits(b),
    "mad24.lo.s32": lambda a, b, c: of_24_bits(a) * of_24_bits(b) + c,
    "slct.b32.s32": lambda a, b, c: a if c >= 0 else b,
    "cvt.pack.sat.s8.s32.b32": lambda a, b, c: c << 16 | within(a, -128, 127) << 8 | within(b, -128, 127),
    "cvt.pack.sat.u8.s32.b32": lambda a, b, c: c << 16 | within(a, 0, 255) << 8 | within(b, 0, 255),
    "mad.hi.s32": lambda a, b, c: (a * b >> 32) + c,
    "mad.hi.u64": lambda a, b, c: (a * b >> 64) + c,
    "mad.hi.s64": lambda a, b, c: (a * b >> 64) + c,
    "add.sat.s32": lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1),
    "sub.sat.s32": lambda a, b: min(max(a - b, -(2**31)), 2**31 - 1),
    "shf.l.clamp.b32": lambda a, b, n: (b << 32 | a) << min(n, 32) >> 32,
    "shf.r.clamp.b32": lambda a, b, n: (b << 32 | a) >> min(n, 32),
}


def lowered(number, kind, parts):
    """Return the parts of a register as numbers of its kind."""
    size = 32 // parts
    values = [number >> size * i & (1 << size) - 1 for i in range(parts)]
    return [v - (v >> size - 1 << size) if kind == "s32" else v for v in values]


for _one, _other in product(("u32", "s32"), repeat=2):
    BITS[f"dp4a.{_one}.{_other}"] = lambda a, b, c, k=(_one, _other): (
        c + sum(x * y for x, y in zip(lowered(a, k[0], 4), lowered(b, k[1], 4), strict=True))
    )
    for _half in (0, 1):
        BITS[f"dp2a.{'lh'[_half]}{'oi'[_half]}.{_one}.{_other}"] = lambda a, b, c, k=(_one, _other), h=_half: (
            c + sum(x * y for x, y in zip(lowered(a, k[0], 2), lowered(b, k[1], 4)[2 * h : 2 * h + 2], strict=True))
        )


@pytest.mark.parametrize("opcode", BITS)
def test_bits_are_those_of_python(opcode):
    random, of = np.random.default_rng(0), FUNCTIONS[opcode]
    columns = []
    for t in of.operands:
        info = np.iinfo(DTYPES[t])
        column = random.integers(info.min, info.max, 200, DTYPES[t], endpoint=True)
        columns.append(
            np.concatenate([column, column >> DTYPES[t].type(info.bits - 7), np.array([0, 1, info.max], column.dtype)])
        )
    width = 8 * DTYPES[of.result].itemsize
    for i, got in enumerate(run(opcode, *columns).tolist()):
        row = [int(column[i]) for column in columns]
        assert (got - BITS[opcode](*row)) % (1 << width) == 0, row


def test_the_nth_bit_that_is_set():
    """From a place on, up for positive numbers and down for negative ones; 0 asks for the bit at the place itself."""
    random = np.random.default_rng(0)
    for word in [0, 1, 1 << 31, 0xFFFFFFFF, *random.integers(0, 1 << 32, 6).tolist()]:
        rows = list(product((word,), range(32), range(-33, 34)))
        for (_, base, count), got in zip(rows, run("fns.b32", *zip(*rows, strict=True)).tolist(), strict=True):
            way = range(base, 32) if count > 0 else range(base, -1, -1) if count else (base,)
            set_ = [place for place in way if word >> place & 1]
            nth = max(abs(count), 1) - 1
            assert got == (set_[nth] if nth < len(set_) else 0xFFFFFFFF), (hex(word), base, count)


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_bfloat16_in_every_mode(source, mode):
    """It is one of the two neighbours: the nearest, or the one on the side of the mode; a float64 is rounded once."""
    least, edges = 2.0**-133, [0.0, -0.0, np.inf, -np.inf, np.finfo(DTYPES[source]).max, 2.0**-150, 1 + 2.0**-8]
    tie = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-134, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40])
    x = np.concatenate([edges, tie, -tie, samples("f32", 300).astype(np.float64)]).astype(DTYPES[source])
    x = x[~np.isnan(x)]
    for number, found in zip(x.tolist(), run(f"cvt.{mode}.bf16.{source}", x).tolist(), strict=True):
        got = float(np.array([found << 16], np.uint32).view(np.float32)[0])
        assert math.copysign(1, got) == math.copysign(1, number)
        if math.isinf(number) or math.isinf(got):
            away = mode == "rn" or mode == {1.0: "rp", -1.0: "rm"}[math.copysign(1, number)]
            assert got == number or (math.isinf(got) and away and abs(number) > 255 * 2.0**120)
            continue
        unit = Fraction(max(least, 2.0 ** (math.frexp(number)[1] - 8)))
        exact = Fraction(number) / unit
        rounded = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](exact)
        beyond = mode != "rn" and abs(number) > abs(got) == 255 * 2.0**120
        assert Fraction(got) == rounded * unit or beyond, (number, got)


SIMD = {
    "__vabsdiffu4(a[t], b[t])": (8, False, lambda x, y: abs(x - y)),
    "__vmaxs2(a[t], b[t])": (16, True, max),
    "__vimin_s16x2_relu(a[t], b[t])": (16, True, lambda x, y: max(min(x, y), 0)),
    "__vimax_s32_relu(a[t], b[t])": (32, True, lambda x, y: max(x, y, 0)),
}


def lanes_of(words, width, signed):
    return words.view(f"{'i' if signed else 'u'}{width // 8}").reshape(len(words), -1).tolist()


@pytest.mark.parametrize("text", SIMD)
def test_several_numbers_in_a_word(text):
    width, signed, function = SIMD[text]
    a, b = np.random.default_rng(0).integers(0, 1 << 32, (2, 64), np.uint32)
    got = lanes_of(per_thread(f"o[t] = {text};", a, b, out=np.uint32), width, signed)
    rows = zip(lanes_of(a, width, signed), lanes_of(b, width, signed), strict=True)
    assert got == [[function(x, y) for x, y in zip(one, other, strict=True)] for one, other in rows]
    three = [[function(x, 3) for x in row] for row in lanes_of(a, width, signed)]
    constant = "".join(f"{3:0{width // 4}x}" for _ in range(32 // width))
    assert (
        lanes_of(per_thread(f"o[t] = {text.replace('b[t]', f'0x{constant}')};", a, out=np.uint32), width, signed)
        == three
    )


@pytest.mark.parametrize(("name", "width"), [("__vsadu4", 8), ("__vsadu2", 16)])
def test_sums_of_distances(name, width):
    a, b = np.random.default_rng(0).integers(0, 1 << 32, (2, 64), np.uint32)
    rows = zip(lanes_of(a, width, False), lanes_of(b, width, False), strict=True)
    want = [sum(abs(x - y) for x, y in zip(one, other, strict=True)) for one, other in rows]
    assert per_thread(f"o[t] = {name}(a[t], b[t]);", a, b, out=np.uint32).tolist() == want


def test_sums_of_many_words_carry():
    """128 bits in four words, and in two; the flag decides."""
    random = np.random.default_rng(0)
    for t, dtype in (("u32", np.uint32), ("u64", np.uint64)):
        bits = 8 * np.dtype(dtype).itemsize
        a, b = (random.integers(0, 1 << bits, (4, 100), dtype) for _ in range(2))
        a[1], b[1] = ~dtype(0), 0  # carries run through

        def number(words, bits=bits):
            return [sum(int(w) << bits * i for i, w in enumerate(column)) for column in words.T]

        for name, sign in (("add", 1), ("sub", -1)):
            flag, words = np.full(100, name == "sub", np.uint32), []
            for i in range(4):
                function, _ = CARRYING[f"{name}{'c' * (i > 0)}.cc.{t}"]
                word, flag = function(a[i], b[i], flag.astype(np.uint32))
                words.append(word)
            expected = [(x + sign * y) % (1 << 4 * bits) for x, y in zip(number(a), number(b), strict=True)]
            assert number(np.array(words)) == expected


def test_sums_and_differences_share_a_flag():
    """A borrow is no carry: a sum behind a difference adds 1 where nothing is borrowed, as in the machine code."""
    a, b = np.array([3, 5, 7, 0], np.uint32), np.array([5, 5, 3, 1], np.uint32)
    got = per_thread(
        """unsigned before, sum, difference;
    asm("sub.cc.u32 %0, %2, %3; addc.u32 %1, 10, 0;" : "=r"(before), "=r"(sum) : "r"(a[t]), "r"(b[t]));
    asm("add.cc.u32 %0, %2, %3; subc.u32 %1, 10, 0;" : "=r"(before), "=r"(difference) : "r"(~a[t]), "r"(b[t]));
    o[t] = 100 * sum + difference;""",
        a, b, out=np.uint32
    )  # fmt: skip
    assert got.tolist() == [100 * (10 + (x >= y)) + 10 - (y <= x) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("signed", [False, True])
def test_integers_of_128_bits(signed):
    """The compiler divides them with many carries; numbers of every length, and some near powers of two."""
    random = np.random.default_rng(signed)
    lengths = random.integers(1, 129, (300, 2))
    rows = [[int.from_bytes(random.bytes(16), "little") >> 128 - int(length) for length in row] for row in lengths]
    rows += [[(1 << 128) - 1 - i, 1 << i] for i in range(128)] + [[(1 << 128) - i, (1 << 64) - i] for i in range(1, 9)]

    def value(number):
        number %= 1 << 128
        return number - (number >> 127 << 128) if signed else number

    rows = [(value(x), value(y) or 1) for x, y in rows]
    words = [
        np.array([[row[of] >> shift & (1 << 64) - 1 for shift in (0, 64)] for row in rows], np.uint64) for of in (0, 1)
    ]
    got = np.zeros((len(rows), 6, 2), np.uint64)
    source = f"""typedef {"" if signed else "unsigned"} __int128 T;
typedef unsigned long long Word;
__device__ T whole(const Word* of) {{ return T((unsigned __int128)of[1] << 64 | of[0]); }}
__global__ void k(const Word* a, const Word* b, Word* o, int n) {{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    T x = whole(a + 2 * t), y = whole(b + 2 * t);
    T all[] = {{x + y, x - y, x * y, x / y, x % y, x >> (int)(y & 127)}};
    for (int i = 0; i < 6; ++i) {{ o[12 * t + 2 * i] = all[i]; o[12 * t + 2 * i + 1] = all[i] >> 64; }}
}}"""
    launch(source, 4, 128, a=words[0], b=words[1], o=got, n=np.int32(len(rows)))
    for (x, y), found in zip(rows, got.tolist(), strict=True):
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        wanted = x + y, x - y, x * y, quotient, x - y * quotient, x >> (y & 127)
        assert [value(low + (high << 64)) for low, high in found] == [value(number) for number in wanted], (x, y)


@pytest.mark.parametrize("kind", sorted({kind for of in FUNCTIONS.values() for kind in of.operands}))
def test_an_operand_may_have_one_element_for_all_lanes(kind):
    """A constant has one; the result is that of as many as the others have."""
    random = np.random.default_rng(0)
    for opcode, of in FUNCTIONS.items():
        if of.operands[0] != kind:
            continue
        many = [np.frombuffer(random.bytes(8 * DTYPES[t].itemsize), f"u{DTYPES[t].itemsize}") | 1 for t in of.operands]
        many = [a % 2 == 0 if t == "pred" else a.view(DTYPES[t]) for a, t in zip(many, of.operands, strict=True)]
        for constant in range(len(many) if len(many) > 1 else 0):
            one = [a[:1] if place == constant else a for place, a in enumerate(many)]
            all_ = [np.repeat(a[:1], 8) if place == constant else a for place, a in enumerate(many)]
            with np.errstate(all="ignore"):
                got, wanted = of.function(*one), of.function(*all_)
            assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes(), opcode


def test_compares_that_combine():
    assert run("setp.lt.and.s32", [1, 1, 3], [2, 2, 2], [True, False, True]).tolist() == [True, False, False]
    assert run("setp.lt.or.s32", [1, 3, 3], [2, 2, 2], [False, True, False]).tolist() == [True, True, False]
    assert run("setp.nan.f32", [1, np.nan], [2, 2]).tolist() == [False, True]


FLOAT = {
    "expf": (np.exp, 2e-7), "logf": (np.log, 2e-7), "sinf": (np.sin, 3e-7), "cosf": (np.cos, 3e-7),
    "tanhf": (np.tanh, 2e-7), "sqrtf": (np.sqrt, 0), "rsqrtf": (lambda x: x**-0.5, 2e-7), "cbrtf": (np.cbrt, 2e-7),
    "floorf": (np.floor, 0), "roundf": (np.round, 0), "erff": (np.vectorize(math.erf), 2e-7),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOAT)
def test_functions_of_the_cuda_library(name):
    """They are compiled into many of the instructions above; arguments of 1e6 take the slow path of sines."""
    function, bound = FLOAT[name]
    x = np.concatenate([np.geomspace(1e-3, 60, 50), [1e6]])[: 51 if name in ("sinf", "cosf") else 50].astype(np.float32)
    got, expected = per_thread(f"o[t] = {name}(a[t]);", x), function(x.astype(np.float64))
    assert np.allclose(got, expected.astype(np.float32), rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "sqrt", "cbrt", "floor", "rsqrt"])
def test_functions_of_doubles(name):
    x = np.concatenate([np.geomspace(1e-3, 60, 30), [1e9]])[: 31 if name in ("sin", "cos") else 30]
    got = per_thread(f"o[t] = {name}(a[t]);", x, out=np.float64)
    expected = x**-0.5 if name == "rsqrt" else getattr(np, name)(x)
    assert np.allclose(got, expected, rtol=4e-16, atol=4e-16)


def test_quotients_and_powers_in_cuda():
    a, b = np.linspace(-3, 3, 40).astype(np.float32), np.linspace(0.5, 9, 40).astype(np.float32)
    assert np.array_equal(per_thread("o[t] = a[t] / b[t];", a, b), a / b)
    assert np.allclose(per_thread("o[t] = powf(b[t], a[t]);", a, b), b.astype(float) ** a, rtol=1e-6)
    assert np.allclose(per_thread("o[t] = pow(b[t], a[t]);", *(of.astype(float) for of in (a, b)), out=np.float64),
                       b.astype(float) ** a.astype(float), rtol=1e-15)  # fmt: skip
    assert np.array_equal(per_thread("o[t] = (int)a[t];", a, out=np.int32), a.astype(np.int32))
    assert np.array_equal(per_thread("o[t] = fmaxf(a[t], 0.0f);", a), np.maximum(a, 0))
    assert np.allclose(per_thread("o[t] = __fdividef(a[t], b[t]);", a, b), a / b, rtol=3e-7)
    assert np.allclose(per_thread("o[t] = __expf(a[t]);", a), np.exp(a), rtol=1e-6)


def test_half_precision_in_cuda():
    a = np.linspace(-3, 3, 40).astype(np.float16)
    before = "#include <cuda_fp16.h>\n"
    body = "o[t] = __half2float(__hadd(__ushort_as_half(a[t]), __float2half(1.0f)));"
    assert np.array_equal(per_thread(body, a.view(np.uint16), before=before), (a + np.float16(1)).astype(np.float32))
    body = """__half2 h = __floats2half2_rn((float)a[t], 2.0f);
    h = __hfma2(h, h, h);
    o[t] = __low2float(h) + __high2float(h);"""
    x = np.arange(40, dtype=np.int32)
    assert np.array_equal(per_thread(body, x, before=before), x * x + x + 6)


@pytest.mark.parametrize(("function", "reference"), [("hexp", np.exp), ("hlog", np.log), ("hsin", np.sin)])
def test_functions_of_halves(function, reference):
    a = np.linspace(0.1, 3, 64).astype(np.float16)
    before = "#include <cuda_fp16.h>\n"
    one = per_thread(f"o[t] = __half2float({function}(__ushort_as_half(a[t])));", a.view(np.uint16), before=before)
    assert np.allclose(one, reference(a.astype(np.float32)), rtol=1e-3, atol=1e-3)
    packed = f"o[t] = __low2float({function.replace('h', 'h2', 1)}(__halves2half2(__ushort_as_half(a[t]), 1)));"
    assert np.array_equal(per_thread(packed, a.view(np.uint16), before=before), one)


def test_comparisons_of_halves():
    numbers = np.array([-2, 0, 1.5, np.nan], np.float32)
    a, b = (of.ravel() for of in np.meshgrid(numbers, numbers))
    for kind, halves in (("f16", [x.astype(np.float16).view(np.uint16) for x in (a, b)]),
                         ("bf16", [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)])):  # fmt: skip
        one = {"f16": 0x3C00, "bf16": 0x3F80}[kind]
        of_setp = [x.view(np.float16) for x in halves] if kind == "f16" else halves
        pairs = [x.astype(np.uint32) << 16 for x in halves]
        for name, of in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "ge": np.greater_equal}.items():
            ordered = of(a, b) & ~(np.isnan(a) | np.isnan(b))
            assert np.array_equal(run(f"setp.{name}.{kind}", *of_setp), ordered)
            assert np.array_equal(run(f"set.{name}.{kind}.{kind}", *halves), ordered * one)
            unordered = (run(f"set.{name}u.{kind}x2.{kind}x2", *pairs) >> 16) > 0
            assert np.array_equal(unordered, ordered | np.isnan(a) | np.isnan(b))
            assert np.array_equal(run(f"set.{name}.u32.{kind}x2", *pairs) >> 16, ordered * 0xFFFF)
        assert np.array_equal(run(f"set.nan.{kind}.{kind}", *halves), (np.isnan(a) | np.isnan(b)) * one)


def test_a_choice_by_the_sign_of_a_float():
    assert run("slct.s32.f32", [1] * 4, [2] * 4, [0.5, -0.5, -0.0, np.nan]).tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_extremes_and_functions_of_halves_that_keep_nans(kind):
    """Those with ``.NaN`` give a NaN where one is, the others the number."""
    bits = np.array([run_bits(x, kind) for x in (1, -2, 0)], np.uint16)
    (one, minus, _), nan = bits, np.uint16(0x7FFF)
    for name, of_two in (("min", minus), ("max", one)):
        assert run(f"{name}.NaN.{kind}", [one, one, nan], [minus, nan, one]).tolist() == [of_two, nan, nan]
        assert run(f"{name}.{kind}", [one, one, nan], [minus, nan, one]).tolist() == [of_two, one, one]
        pair = run(f"{name}.NaN.{kind}x2", [np.uint32(one) << 16 | minus], [np.uint32(nan) << 16 | one])
        assert pair.tolist() == [int(nan) << 16 | (int(minus) if name == "min" else int(one))]
    for name, of in (("tanh.approx", np.tanh), ("ex2.approx", np.exp2)):
        wanted = [run_bits(of(x), kind) for x in (1, -2, 0)]  # whose last bit may be cut off
        assert np.abs(run(f"{name}.{kind}", bits).astype(int) - wanted).max() <= 1


def test_ends_of_operations_on_halves():
    a = np.array([-2, 0.25, 3, np.nan], np.float16).view(np.uint16)
    one = np.full(4, 0x3C00, np.uint16)
    assert run("add.sat.f16", a, one).view(np.float16).tolist() == [0, 1, 1, 0]
    relu = run("fma.rn.relu.f16", a, one, a).view(np.float16)
    assert relu[:3].tolist() == [0, 0.5, 6] and np.isnan(relu[3])


def test_bfloat16_and_integers():
    assert run("cvt.rn.bf16.s32", [3, -257, 2**24 + 1]).tolist() == [0x4040, 0xC380, 0x4B80]
    assert run("cvt.rm.bf16.s32", [3, -257, 2**24 + 1]).tolist() == [0x4040, 0xC381, 0x4B80]
    assert run("cvt.rzi.s32.bf16", [0x4060, 0xC060, 0x7FFF]).tolist() == [3, -3, 0]
    assert run("cvt.rmi.bf16.bf16", [0x4060, 0xC060]).tolist() == [0x4040, 0xC080]


FP8 = """#include <cuda_fp8.h>
__global__ void k(const unsigned char* codes, const float* x, float* of, unsigned char* to) {
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    __nv_fp8_KIND one, pair[2];
    one.__x = codes[t];
    of[t] = float(one);
    to[i] = __nv_fp8_KIND(x[i]).__x;
    to[gridDim.x * 256 + i] = __nv_fp8_KIND(__float2half(x[i])).__x;
    *reinterpret_cast<__nv_fp8x2_KIND*>(pair) = __nv_fp8x2_KIND(make_float2(x[i], -x[i]));
    to[2 * gridDim.x * 256 + i] = pair[0].__x;
    to[3 * gridDim.x * 256 + i] = pair[1].__x;
}"""


@pytest.mark.parametrize(("kind", "bits", "bias", "largest"), [("e4m3", 3, 7, 448.0), ("e5m2", 2, 15, 57344.0)])
def test_numbers_of_8_bits(kind, bits, bias, largest):
    """They are as the CUDA header computes them for GPUs without such instructions, and as IEEE 754 would have them."""
    random, codes = np.random.default_rng(3), np.arange(256, dtype=np.uint8)
    finite = [
        (code % (1 << bits) + ((code >> bits > 0) << bits)) * 2.0 ** (max(code >> bits, 1) - bias - bits)
        for code in range(127 if kind == "e4m3" else 124)
    ]
    ties = (np.array(finite[1:]) + finite[:-1]) / 2
    edges = [0.0, np.inf, np.nan, largest, largest * 1.07, 1e30, 1e-30]
    near = [at for tie in ties for at in (tie, np.nextafter(np.float32(tie), np.float32(0)), tie * (1 + 1e-7))]
    x = np.array([*edges, *near, *random.standard_normal(256) * 10.0 ** random.integers(-7, 6, 256)], np.float32)
    x = np.resize(np.concatenate([x, -x]), 256 * -(-2 * len(x) // 256))
    found = []
    for architecture in ("compute_90", "compute_80"):
        of, to = np.zeros(256, np.float32), np.zeros((4, len(x)), np.uint8)
        compiled = ptxsim.compile(FP8.replace("KIND", kind), architecture=architecture)
        assert ("satfinite" in compiled.ptx) == (architecture == "compute_90")
        ptxsim.run(*compiled, len(x) // 256, 256, {"codes": codes, "x": x, "of": of, "to": to})
        found.append((of, to))
    (of, to), (theirs, by_header) = found
    assert np.array_equal(of, theirs, equal_nan=True) and np.array_equal(to, by_header)
    assert of[: len(finite)].tolist() == finite and np.nanmax(of) == (np.inf if kind == "e5m2" else largest)
    assert to[0, :4].tolist() == [0, len(finite) - 1, 0x7F, len(finite) - 1]
