"""Every arithmetic instruction against exact arithmetic: Python's integers and fractions."""

import itertools
import math
import operator
import re
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from sgemm_tutorial.simulator.instructions import DTYPES, OPERATIONS
from sgemm_tutorial.simulator.memory import SHARED_WINDOW

from .sources import steady

NAN = 0x7FFFFFFF  # the NaN that float32 arithmetic makes on the GPU
SIGN, INFINITY = 1 << 31, 0x7F800000


# An independent float32: bits to exact numbers and back, rounding to nearest, ties to even.


def value(bits):
    """Return what the bits stand for: a Fraction, or a float for infinities and NaNs."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return math.nan if mantissa else -math.inf if bits & SIGN else math.inf
    size = mantissa * Fraction(2) ** -149 if exponent == 0 else (mantissa | 1 << 23) * Fraction(2) ** (exponent - 150)
    return -size if bits & SIGN else size


def rounded(number):
    """Return the bits of the float32 nearest to a Fraction other than 0."""
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    exponent = max(exponent, -126)  # below, subnormals keep this spacing
    steps = round(size / Fraction(2) ** (exponent - 23))  # Python rounds ties to even
    bits = (exponent + 126 << 23) + steps  # a carry out of the mantissa goes where it should
    return min(bits, INFINITY) | (SIGN if number < 0 else 0)


def added(x, x_sign, y, y_sign):
    """Return the bits of x + y, given the signs that zeros have."""
    if any(isinstance(number, float) for number in (x, y)):
        total = float(x) + float(y) if not (x != x or y != y) else math.nan
        return NAN if math.isnan(total) else INFINITY | (SIGN if total < 0 else 0)
    if x + y == 0:
        both_negative = (x < 0 or x_sign) and (y < 0 or y_sign) and x == 0
        return SIGN if both_negative else 0
    return rounded(x + y)


def product(a, b):
    """Return the exact product of two floats given by their bits: its value, and whether its sign is minus."""
    x, y = value(a), value(b)
    sign = bool((a ^ b) & SIGN)
    if isinstance(x, float) or isinstance(y, float):
        if x != x or y != y or x == 0 or y == 0:
            return math.nan, sign
        return (-math.inf if sign else math.inf), sign
    return x * y, sign


def exact_fma(a, b, c):
    x, sign = product(a, b)
    return added(x, sign, value(c), bool(c & SIGN))


def exact_mul(a, b):
    x, sign = product(a, b)
    return added(x, sign, Fraction(0), sign)


def exact_add(a, b):
    return added(value(a), bool(a & SIGN), value(b), bool(b & SIGN))


def run(opcode, *columns):
    """Apply an opcode to lists of bits or integers; return a list of the same."""
    operation = OPERATIONS[opcode]
    arrays = [np.array([number & (1 << 8 * DTYPES[kind].itemsize) - 1 for number in column],
                       f"u{DTYPES[kind].itemsize}").view(DTYPES[kind])
              for kind, column in zip(operation.operands, columns, strict=True)]  # fmt: skip
    with np.errstate(all="ignore"):
        result = np.broadcast_to(operation.function(*arrays), len(columns[0]))
    assert result.dtype == DTYPES[operation.result]
    return result.view(f"u{result.dtype.itemsize}").tolist()


def check_fma(triples):
    a, b, c = zip(*triples, strict=True)
    got = run("fma.rn.f32", a, b, c)
    for triple, bits in zip(triples, got, strict=True):
        assert bits == exact_fma(*triple), " ".join(f"{operand:#010x}" for operand in triple)


def test_the_reference_itself():
    for number in (1.0, -0.1, 1e-45, 1.5e-45, 1e-40, 3.4028235e38, 3.4028236e38, -1e39, 2.0**-126, 16777217.0):
        with np.errstate(over="ignore"):
            assert rounded(Fraction(number)) == int(np.float32(number).view(np.uint32)), number
    assert exact_fma(0x80000000, 0x3F800000, 0x80000000) == 0x80000000  # -0 · 1 + -0
    assert exact_fma(0xBF800000, 0x3F800000, 0x3F800000) == 0  # -1 · 1 + 1
    assert exact_fma(INFINITY, 0, 0) == NAN


bits32 = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([sign | special for sign in (0, SIGN) for special in
                     (0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F7FFFFF, 0x3F800001, 0x7F7FFFFF,
                      INFINITY, 0x7F800001, 0x7FC00000, 0x7FFFFFFF)]),
)  # fmt: skip


@steady
@given(st.lists(st.tuples(bits32, bits32, bits32), min_size=1, max_size=30))
@example([(0x3F800001, 0x3F7FFFFF, 0x4C000000)])
def test_fma_of_any_bits(triples):
    check_fma(triples)


def near_ties(lowest, highest):
    """Yield triples whose sum misses a tie between two float32 by so little that float64 cannot see it.

    c lies between two bit patterns, and the product is, nearly, half a unit in its last place.
    """
    random = np.random.default_rng(5)
    for c in map(int, random.integers(lowest, highest, 3000, endpoint=True)):
        exponents = max(c >> 23, 1) - 24 + 127  # of a and b together: subnormals are spaced like the least normals
        left = int(random.integers(max(1, exponents - 254), min(254, exponents - 1), endpoint=True))
        a = (left << 23) + int(random.choice([0, 1, 2, 3, 1 << 22]))
        b = (exponents - left << 23) + int(random.integers(-3, 3, endpoint=True))
        yield a, b, c
        yield a | SIGN, b, c
        yield a, b, c | SIGN


@pytest.mark.parametrize("range_of_c", [(0, 0x00FFFFFF), (0x00800000, 0x7F000000), (0x7F7FFFF0, 0x7F7FFFFF)],
                         ids=["subnormal", "normal", "largest"])  # fmt: skip
def test_fma_where_rounding_twice_goes_wrong(range_of_c):
    triples = list(near_ties(*range_of_c))
    check_fma(triples)
    a, b, c = (np.array(column, np.uint32).view(np.float32) for column in zip(*triples, strict=True))
    with np.errstate(over="ignore"):
        twice = (a.astype(np.float64) * b + c).astype(np.float32).view(np.uint32).tolist()
    wrong = sum(bits != exact_fma(*triple) for bits, triple in zip(twice, triples, strict=True))
    assert wrong > 100  # or these cases test nothing


def test_fma_broadcasts():
    lanes = np.arange(8, dtype=np.float32)
    one = np.array([2.0**-30], np.float32)  # 2**-30 · 2**-120 is a tie below the least subnormal
    fma = OPERATIONS["fma.rn.f32"].function
    assert fma(one, one, lanes).tolist() == (lanes.astype(np.float64) + 2.0**-60).astype(np.float32).tolist()
    tiny = np.array([2.0**-75], np.float32)
    assert fma(tiny, tiny, np.zeros(4, np.float32)).tolist() == [0, 0, 0, 0]
    assert fma(tiny, tiny * np.float32(1.5), np.zeros(4, np.float32)).tolist() == [2.0**-149] * 4


@steady
@given(st.lists(st.tuples(bits32, bits32), min_size=1, max_size=30))
def test_add_sub_and_mul_of_any_bits(pairs):
    a, b = zip(*pairs, strict=True)
    for rounding in ("", ".rn"):
        assert run(f"add{rounding}.f32", a, b) == [exact_add(x, y) for x, y in pairs]
        assert run(f"sub{rounding}.f32", a, b) == [exact_add(x, y ^ SIGN) for x, y in pairs]
        assert run(f"mul{rounding}.f32", a, b) == [exact_mul(x, y) for x, y in pairs]


@steady
@given(st.lists(bits32, min_size=1, max_size=30))
def test_neg_and_abs_of_any_bits(bits):
    nan = [math.isnan(value(x)) for x in bits]
    assert run("neg.f32", bits) == [NAN if n else x ^ SIGN for x, n in zip(bits, nan, strict=True)]
    assert run("abs.f32", bits) == [NAN if n else x & ~SIGN for x, n in zip(bits, nan, strict=True)]


# Comparison: PTX ISA, "Comparison operators": eq … ge are false if an operand is NaN, equ … geu are true.

COMPARE = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", COMPARE)
def test_floating_point_comparison(name, kind):
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0**-149, math.inf, -math.inf, math.nan]
    pairs = list(itertools.product(numbers, repeat=2))
    bits = [[int(np.array(x, DTYPES[kind]).view(f"u{DTYPES[kind].itemsize}")) for x in column]
            for column in zip(*pairs, strict=True)]  # fmt: skip
    unordered = [x != x or y != y for x, y in pairs]
    plain = [COMPARE[name](x, y) for x, y in pairs]
    expected = [p and not u for p, u in zip(plain, unordered, strict=True)]
    assert run(f"setp.{name}.{kind}", *bits) == expected
    assert run(f"setp.{name}u.{kind}", *bits) == [p or u for p, u in zip(expected, unordered, strict=True)]


# Integers.


def wrap(number, kind):
    """Return the number as a register of that type holds it."""
    bits = 8 * DTYPES[kind].itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind[0] == "s" and number >> bits - 1 else number


def towards_zero(a, b):
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def shift_left(a, count):
    return a << min(count, 64)


def shift_right(a, count):
    return a >> min(count, 64)  # Python's shift keeps the sign, and a u32 is never negative


def insert_bits(a, b, position, length, bits):
    """As PTX ISA, "bfi", writes it: bit by bit."""
    for i in range(length & 0xFF):
        at = (position & 0xFF) + i
        if at < bits:
            b = b & ~(1 << at) | (a >> i & 1) << at
    return b


def extract_bits(a, position, length, kind):
    """As PTX ISA, "bfe", writes it: bit by bit; what the field does not hold is its last bit, or a's, or 0."""
    bits, position, length = 8 * DTYPES[kind].itemsize, position & 0xFF, length & 0xFF
    sign = a >> min(position + length - 1, bits - 1) & 1 if kind[0] == "s" and length else 0
    return sum((a >> position + i & 1 if i < length and position + i < bits else sign) << i for i in range(bits))


def reference(opcode):
    """Return the opcode's meaning for Python integers, or None if it is not an integer operation."""
    name, *modifiers, kind = opcode.split(".")
    bits = 8 * DTYPES[kind].itemsize
    if kind in ("f32", "f64") and name not in ("mov", "selp"):
        return None
    if name == "setp":
        return COMPARE[modifiers[0]]
    if kind == "pred" and name == "not":
        return operator.not_
    if name == "cvta":
        return {("to", "global"): lambda a: a, ("shared",): lambda a: a + SHARED_WINDOW,
                ("to", "shared"): lambda a: a - SHARED_WINDOW}[tuple(modifiers)]  # fmt: skip
    if name == "shf":
        return {"l": lambda a, b, count: (b << 32 | a) << (count & 31) >> 32,
                "r": lambda a, b, count: (b << 32 | a) >> (count & 31)}[modifiers[0]]  # fmt: skip
    return {
        "add": operator.add, "sub": operator.sub, "min": min, "max": max, "div": towards_zero,
        "rem": lambda a, b: a - b * towards_zero(a, b),
        "mul": lambda a, b: a * b >> bits if modifiers == ["hi"] else a * b,
        "mad": lambda a, b, c: a * b + c,
        "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
        "neg": operator.neg, "abs": abs, "shl": shift_left, "shr": shift_right,
        "bfi": lambda a, b, position, length: insert_bits(a, b, position, length, bits),
        "bfe": lambda a, position, length: extract_bits(a, position, length, kind),
        "selp": lambda a, b, p: a if p else b, "mov": lambda a: a, "cvt": lambda a: a,
    }.get(name)  # fmt: skip


def samples(kind):
    """Return numbers of that type where things go wrong."""
    if kind == "pred":
        return [0, 1]
    bits = 8 * DTYPES[kind].itemsize
    patterns = [0, 1, 2, 3, 5, 7, 0x55555555_55555555, 0x12345678_9ABCDEF0, (1 << bits // 2) - 1, 1 << bits // 2,
                (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits - 1) + 1, -2, -1]  # fmt: skip
    return sorted({wrap(pattern, kind) for pattern in patterns})


COUNTS = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 264, 1 << 31, (1 << 32) - 1]


def operands_of(opcode):
    kinds = OPERATIONS[opcode].operands
    name = opcode.split(".")[0]
    counts = {"shl": 1, "shr": 1, "shf": 1, "bfi": 2, "bfe": 2}.get(name, 0)
    choices = [samples(kind) for kind in kinds[: len(kinds) - counts]] + [COUNTS] * counts
    if name in ("div", "rem"):
        choices[1] = [number for number in choices[1] if number]
    return list(itertools.product(*choices))


INTEGER = [opcode for opcode in OPERATIONS if reference(opcode)]


@pytest.mark.parametrize("opcode", INTEGER)
def test_integer_operation(opcode):
    meaning, operation = reference(opcode), OPERATIONS[opcode]
    rows = operands_of(opcode)
    got = run(opcode, *zip(*rows, strict=True))
    bits = 8 * DTYPES[operation.result].itemsize if operation.result != "pred" else 1
    for row, number in zip(rows, got, strict=True):
        assert number == int(meaning(*row)) & (1 << bits) - 1, (opcode, row)


def test_every_opcode_is_tested():
    floating = {f"{name}{rounding}.f32" for name in ("add", "sub", "mul") for rounding in ("", ".rn")}
    floating |= {"fma.rn.f32", "neg.f32", "abs.f32"}
    floating |= {f"setp.{name}{u}.{kind}" for name in COMPARE for u in ("", "u") for kind in ("f32", "f64")}
    assert set(OPERATIONS) == floating | set(INTEGER)


@steady
@given(st.integers(0, 2**64 - 1), st.lists(st.sampled_from(["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]),
                                           min_size=2, max_size=6))  # fmt: skip
def test_chains_of_conversions(number, kinds):
    expected, array = wrap(number, kinds[0]), np.array([number], np.uint64).astype(DTYPES[kinds[0]])
    for source, target in itertools.pairwise(kinds):
        expected = wrap(expected, target)
        array = OPERATIONS[f"cvt.{target}.{source}"].function(array)
    assert array.tolist() == [expected]


def test_moves_keep_a_nan_as_it_is():
    strange = [0x7F800001, 0xFFC12345, 0x7FFFFFFF]
    assert run("mov.f32", strange) == strange
    assert run("selp.f32", strange, [0] * 3, [1, 0, 1]) == [strange[0], 0, strange[2]]


def test_what_counts_as_floating_point_operations():
    flops = {opcode: operation.flops for opcode, operation in OPERATIONS.items() if operation.flops}
    assert flops == {"fma.rn.f32": 2} | {f"{name}{rounding}.f32": 1 for name in ("add", "sub", "mul")
                                        for rounding in ("", ".rn")}  # fmt: skip
    classes = {"fma", "float", "integer", "compare", "move", "convert"}
    assert {operation.kind for operation in OPERATIONS.values()} == classes
    assert all(re.fullmatch(r"[a-z][\w.]*", opcode) for opcode in OPERATIONS)
