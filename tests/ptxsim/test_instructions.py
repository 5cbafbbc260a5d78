"""Every arithmetic instruction against exact arithmetic: Python's integers and fractions."""

import itertools
import math
import operator
import re
from dataclasses import dataclass
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ptxsim.functions import FUNCTIONS
from ptxsim.instructions import OPERATIONS as BASIC
from ptxsim.memory import RANK, SHARED_WINDOW
from ptxsim.ptx import DTYPES

from ..examples import steady
from ..together import for_each
from .cuda import per_thread


@dataclass(frozen=True)
class Format:
    """An independent floating point: bits to exact numbers and back, rounding to nearest, ties to even."""

    kind: str  # PTX's type
    width: int
    mantissa: int  # bits that are stored
    nan: int | None  # the NaN that arithmetic makes on the GPU; None where any may stand for any other

    @property
    def sign(self):
        return 1 << self.width - 1

    @property
    def infinity(self):
        return (1 << self.width - 1 - self.mantissa) - 1 << self.mantissa

    @property
    def bias(self):
        return (1 << self.width - 2 - self.mantissa) - 1

    def value(self, bits):
        """Return what the bits stand for: a Fraction, or a float for infinities and NaNs."""
        size = bits & ~self.sign
        if size >= self.infinity:
            return math.nan if size > self.infinity else -math.inf if bits & self.sign else math.inf
        exponent, mantissa = size >> self.mantissa, size & (1 << self.mantissa) - 1
        if exponent:
            mantissa |= 1 << self.mantissa
        size = mantissa * Fraction(2) ** (max(exponent, 1) - self.bias - self.mantissa)
        return -size if bits & self.sign else size

    def rounded(self, number):
        """Return the bits of the nearest float to a Fraction other than 0."""
        size = abs(number)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2) ** exponent
        exponent = max(exponent, 1 - self.bias)  # below, subnormals keep this spacing
        steps = round(size / Fraction(2) ** (exponent - self.mantissa))  # Python rounds ties to even
        bits = (exponent + self.bias - 1 << self.mantissa) + steps  # a carry out of the mantissa goes where it should
        return min(bits, self.infinity) | (self.sign if number < 0 else 0)

    def added(self, x, x_sign, y, y_sign):
        """Return the bits of x + y, given the signs that zeros have."""
        if any(isinstance(number, float) for number in (x, y)):
            total = float(x) + float(y) if not (x != x or y != y) else math.nan
            return self.nan if math.isnan(total) else self.infinity | (self.sign if total < 0 else 0)
        if x + y == 0:
            both_negative = (x < 0 or x_sign) and (y < 0 or y_sign) and x == 0
            return self.sign if both_negative else 0
        return self.rounded(x + y)

    def product(self, a, b):
        """Return the exact product of two floats given by their bits: its value, and whether its sign is minus."""
        x, y = self.value(a), self.value(b)
        minus = bool((a ^ b) & self.sign)
        if isinstance(x, float) or isinstance(y, float):
            if x != x or y != y or x == 0 or y == 0:
                return math.nan, minus
            return (-math.inf if minus else math.inf), minus
        return x * y, minus

    def fma(self, a, b, c):
        x, minus = self.product(a, b)
        return self.added(x, minus, self.value(c), bool(c & self.sign))

    def mul(self, a, b):
        x, minus = self.product(a, b)
        return self.added(x, minus, Fraction(0), minus)

    def add(self, a, b):
        return self.added(self.value(a), bool(a & self.sign), self.value(b), bool(b & self.sign))

    def converted(self, bits, source):
        """Return the bits of a float of another format in this one."""
        x = source.value(bits)
        minus = self.sign if bits & source.sign else 0
        return self.added(x, minus, Fraction(0), minus) if isinstance(x, float) or x == 0 else self.rounded(x)

    def agree(self, got, expected):
        """Whether bits are what they should be; None stands for any NaN."""
        return math.isnan(self.value(got)) if expected is None else got == expected

    def bits(self):
        """Draw any bits, and often those where things go wrong."""
        one = self.bias << self.mantissa
        special = (
            0,
            1,
            2,
            3,
            (1 << self.mantissa) - 1,
            1 << self.mantissa,
            (1 << self.mantissa) + 1,
            one,
            one - 1,
            one + 1,
            self.infinity - 1,
            self.infinity,
            self.infinity + 1,
            self.sign - 1,
        )
        return st.one_of(
            st.integers(0, 2**self.width - 1),
            st.sampled_from([sign | bits for sign in (0, self.sign) for bits in special]),
        )


F16, F32, F64 = Format("f16", 16, 10, 0x7FFF), Format("f32", 32, 23, 0x7FFFFFFF), Format("f64", 64, 52, None)
WIDE = pytest.mark.parametrize("of", [F32, F64], ids=lambda of: of.kind)


def run(opcode, *columns):
    """Apply an opcode to lists of bits or integers; return a list of the same."""
    operation = FUNCTIONS[opcode]
    arrays = [
        np.array(
            [number & (1 << 8 * DTYPES[kind].itemsize) - 1 for number in column], f"u{DTYPES[kind].itemsize}"
        ).view(DTYPES[kind])
        for kind, column in zip(operation.operands, columns, strict=True)
    ]
    with np.errstate(all="ignore"):
        result = np.broadcast_to(operation.function(*arrays), len(columns[0]))
    assert result.dtype == DTYPES[operation.result]
    return result.view(f"u{result.dtype.itemsize}").tolist()


def check(of, opcode, meaning, rows):
    """Hold an opcode against the exact result of each row of operands."""
    got = run(f"{opcode}.{of.kind}", *zip(*rows, strict=True))
    for row, bits in zip(rows, got, strict=True):
        assert of.agree(bits, meaning(*row)), (opcode, *map(hex, row), hex(bits))


def test_the_reference_itself():
    for number in (1.0, -0.1, 1e-45, 1.5e-45, 1e-40, 3.4028235e38, 3.4028236e38, -1e39, 2.0**-126, 16777217.0):
        with np.errstate(over="ignore"):
            assert F32.rounded(Fraction(number)) == int(np.float32(number).view(np.uint32)), number
    for number in (1.0, -0.1, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308):
        assert F64.rounded(Fraction(number)) == int(np.float64(number).view(np.uint64))
        assert F64.value(int(np.float64(number).view(np.uint64))) == Fraction(number)
    for number in (1.0, -0.1, 65519.9, 65520.0, 5.9e-8, 2.9e-8):
        with np.errstate(over="ignore"):
            assert F16.rounded(Fraction(number)) == int(np.float16(number).view(np.uint16)), number
    one, minus = F32.bias << 23, F32.sign
    assert F32.fma(minus, one, minus) == minus  # -0 · 1 + -0
    assert F32.fma(minus | one, one, one) == 0  # -1 · 1 + 1
    assert F32.fma(F32.infinity, 0, 0) == F32.nan


@WIDE
@steady
@given(data=st.data())
def test_fma_of_any_bits(of, data):
    triples = data.draw(st.lists(st.tuples(of.bits(), of.bits(), of.bits()), min_size=1, max_size=30))
    check(of, "fma.rn", of.fma, triples)


def near_ties(of, lowest, highest):
    """Yield triples whose sum misses a tie between two floats by so little that twice the bits cannot see it.

    c lies between two bit patterns, and the product is, nearly, half a unit in its last place.
    """
    random = np.random.default_rng(5)
    top = 2 * of.bias
    for c in random.integers(lowest, highest, 3000, np.uint64, endpoint=True).tolist():
        exponents = max(c >> of.mantissa, 1) - of.mantissa - 1 + of.bias  # of a and b together: subnormals are spaced
        left = int(random.integers(max(1, exponents - top), min(top, exponents - 1), endpoint=True))  # like normals
        a = (left << of.mantissa) + int(random.choice([0, 1, 2, 3, 1 << of.mantissa - 1]))
        b = (exponents - left << of.mantissa) + int(random.integers(-3, 3, endpoint=True))
        yield a, b, c
        yield a | of.sign, b, c
        yield a, b, c | of.sign


@pytest.mark.parametrize("range_of_c", ["subnormal", "normal", "largest"])
@WIDE
def test_fma_where_rounding_twice_goes_wrong(of, range_of_c):
    one = 1 << of.mantissa
    lowest, highest = {
        "subnormal": (0, 2 * one - 1),
        "normal": (one, of.infinity - one),
        "largest": (of.infinity - 16, of.infinity - 1),
    }[range_of_c]
    triples = list(near_ties(of, lowest, highest))
    check(of, "fma.rn", of.fma, triples)
    a, b, c = (np.array(column, f"u{of.width // 8}").view(DTYPES[of.kind]) for column in zip(*triples, strict=True))
    with np.errstate(all="ignore"):
        twice = ((a.astype(np.float64) * b + c) if of is F32 else a * b + c).astype(DTYPES[of.kind])
    wrong = sum(
        not of.agree(bits, of.fma(*triple))
        for bits, triple in zip(twice.view(f"u{of.width // 8}").tolist(), triples, strict=True)
    )
    assert wrong > 100  # or these cases test nothing


def test_fma_where_products_and_sums_cancel():
    """The result is far below the product, and the bits that the product lost decide."""
    random = np.random.default_rng(7)
    rows = []
    for _ in range(2000):
        a, b = (int(random.integers(1, 2**52)) | 1023 + int(random.integers(-60, 60)) << 52 for _ in range(2))
        c = F64.rounded(-F64.value(a) * F64.value(b)) + int(random.integers(-2, 3))
        rows.append((a, b, c))
    check(F64, "fma.rn", F64.fma, rows)
    a, b, c = (np.array(column, np.uint64).view(np.float64) for column in zip(*rows, strict=True))
    assert np.count_nonzero(a * b + c == 0) > 100


@pytest.mark.parametrize("exponent", [-1074, -1022, -970, -960, -959, -530, 0, 480, 968, 969, 970, 1020])
def test_fma_at_the_ends_of_float64(exponent):
    """Products and factors are near over- and underflow, alone or together: some take the exact way, some do not."""
    random = np.random.default_rng(abs(exponent))
    rows = []
    for _ in range(400):
        left = int(random.integers(max(exponent - 1000, -1074), min(exponent + 1000, 1023)))
        a, b, c = (
            F64.rounded(Fraction(int(random.integers(2**52, 2**53))) * Fraction(2) ** (power - 52))
            for power in (left, exponent - left, exponent + int(random.integers(-120, 120)))
        )
        rows.append((a, b, c | int(random.integers(2)) << 63))
    check(F64, "fma.rn", F64.fma, rows)


def test_fma_broadcasts():
    lanes = np.arange(8, dtype=np.float32)
    one = np.array([2.0**-30], np.float32)  # 2**-30 · 2**-120 is a tie below the least subnormal
    fma = FUNCTIONS["fma.rn.f32"].function
    assert fma(one, one, lanes).tolist() == (lanes.astype(np.float64) + 2.0**-60).astype(np.float32).tolist()
    tiny = np.array([2.0**-75], np.float32)
    assert fma(tiny, tiny, np.zeros(4, np.float32)).tolist() == [0, 0, 0, 0]
    assert fma(tiny, tiny * np.float32(1.5), np.zeros(4, np.float32)).tolist() == [2.0**-149] * 4
    wide = FUNCTIONS["fma.rn.f64"].function
    assert wide(np.array([0.5]), np.array([4.0]), np.arange(8.0)).tolist() == [2 + c for c in range(8)]
    assert wide(np.array([0.0, 2.0**-600]), np.array([2.0**-500]), np.array([3.0])).tolist() == [3, 3]


@WIDE
@steady
@given(data=st.data())
def test_add_sub_and_mul_of_any_bits(of, data):
    pairs = data.draw(st.lists(st.tuples(of.bits(), of.bits()), min_size=1, max_size=30))
    for rounding in ("", ".rn"):
        check(of, f"add{rounding}", of.add, pairs)
        check(of, f"sub{rounding}", lambda x, y: of.add(x, y ^ of.sign), pairs)
        check(of, f"mul{rounding}", of.mul, pairs)


@WIDE
@steady
@given(data=st.data())
def test_neg_and_abs_of_any_bits(of, data):
    rows = data.draw(st.lists(st.tuples(of.bits()), min_size=1, max_size=30))
    check(of, "neg", lambda x: of.nan if math.isnan(of.value(x)) else x ^ of.sign, rows)
    check(of, "abs", lambda x: of.nan if math.isnan(of.value(x)) else x & ~of.sign, rows)


@pytest.mark.parametrize(
    ("opcode", "to", "of"),
    [
        ("cvt.f64.f32", F64, F32),
        ("cvt.rn.f32.f64", F32, F64),
        ("cvt.f32.f16", F32, F16),
        ("cvt.rn.f16.f32", F16, F32),
    ],
)
@steady
@given(data=st.data())
def test_floats_as_floats_of_another_width(opcode, to, of, data):
    drawn = data.draw(st.lists(of.bits(), min_size=1, max_size=30))
    half = 1 << max(of.mantissa - to.mantissa - 1, 0)  # from a number of the narrower format to a tie
    drawn += [of.converted(bits, to) or 0 for bits in data.draw(st.lists(to.bits(), max_size=9))]
    steps = (-1, 1, half - 1, half, half + 1)
    drawn += [bits + step for bits in drawn for step in steps if bits + step in range(2**of.width)]
    for bits, got in zip(drawn, run(opcode, drawn), strict=True):
        assert to.agree(got, to.converted(bits, of)), (hex(bits), hex(got))


# Comparison: PTX ISA, "Comparison operators": eq … ge are false if an operand is NaN, equ … geu are true.

COMPARE = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", COMPARE)
def test_floating_point_comparison(name, kind):
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0**-149, math.inf, -math.inf, math.nan]
    pairs = list(itertools.product(numbers, repeat=2))
    bits = [
        [int(np.array(x, DTYPES[kind]).view(f"u{DTYPES[kind].itemsize}")) for x in column]
        for column in zip(*pairs, strict=True)
    ]
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
    """Insert bit by bit, as PTX ISA, "bfi", writes it."""
    for i in range(length & 0xFF):
        at = (position & 0xFF) + i
        if at < bits:
            b = b & ~(1 << at) | (a >> i & 1) << at
    return b


def extract_bits(a, position, length, kind):
    """Extract bit by bit, as PTX ISA, "bfe", writes it; bits beyond the field are its last bit, or a's, or 0."""
    bits, position, length = 8 * DTYPES[kind].itemsize, position & 0xFF, length & 0xFF
    sign = a >> min(position + length - 1, bits - 1) & 1 if kind[0] == "s" and length else 0
    return sum((a >> position + i & 1 if i < length and position + i < bits else sign) << i for i in range(bits))


def reference(opcode):
    """Return the opcode's meaning for Python integers, or None if it is not an integer operation."""
    name, *modifiers, kind = opcode.split(".")
    bits = 8 * DTYPES[kind].itemsize
    if name == "cvt" and "f" in (kind[0], modifiers[-1][0]):
        return None
    if kind in ("f32", "f64") and name not in ("mov", "selp"):
        return None
    if name == "setp":
        return COMPARE[modifiers[0]]
    if kind == "pred" and name == "not":
        return operator.not_
    if opcode == "mapa.u64":  # of generic addresses
        return lambda a, rank: (rank << RANK | (a - SHARED_WINDOW) % (1 << RANK)) + SHARED_WINDOW
    if name == "cvta":
        return {
            ("to", "global"): lambda a: a,
            ("param",): lambda a: a,
            ("shared",): lambda a: a + SHARED_WINDOW,
            ("to", "shared"): lambda a: a - SHARED_WINDOW,
        }[tuple(modifiers)]
    if name == "shf":
        return {
            "l": lambda a, b, count: (b << 32 | a) << (count & 31) >> 32,
            "r": lambda a, b, count: (b << 32 | a) >> (count & 31),
        }[modifiers[0]]
    return {
        "add": operator.add,
        "sub": operator.sub,
        "min": min,
        "max": max,
        "div": towards_zero,
        "rem": lambda a, b: a - b * towards_zero(a, b),
        "mul": lambda a, b: a * b >> bits if modifiers == ["hi"] else a * b,
        "mad": lambda a, b, c: a * b + c,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "not": operator.invert,
        "neg": operator.neg,
        "abs": abs,
        "shl": shift_left,
        "shr": shift_right,
        "bfi": lambda a, b, position, length: insert_bits(a, b, position, length, bits),
        "bfe": lambda a, position, length: extract_bits(a, position, length, kind),
        "selp": lambda a, b, p: a if p else b,
        "mapa": lambda a, rank: rank << RANK | a % (1 << RANK),
        "mov": lambda a: a,
        "cvt": lambda a: a,
    }.get(name)


def samples(kind):
    """Return numbers of that type where things go wrong."""
    if kind == "pred":
        return [0, 1]
    bits = 8 * DTYPES[kind].itemsize
    patterns = [
        0,
        1,
        2,
        3,
        5,
        7,
        0x55555555_55555555,
        0x12345678_9ABCDEF0,
        (1 << bits // 2) - 1,
        1 << bits // 2,
        (1 << bits - 1) - 1,
        1 << bits - 1,
        (1 << bits - 1) + 1,
        -2,
        -1,
    ]
    return sorted({wrap(pattern, kind) for pattern in patterns})


COUNTS = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 264, 1 << 31, (1 << 32) - 1]


def operands_of(opcode):
    kinds = FUNCTIONS[opcode].operands
    name = opcode.split(".")[0]
    counts = {"shl": 1, "shr": 1, "shf": 1, "bfi": 2, "bfe": 2}.get(name, 0)
    choices = [samples(kind) for kind in kinds[: len(kinds) - counts]] + [COUNTS] * counts
    if name in ("div", "rem"):
        choices[1] = [number for number in choices[1] if number]
    return list(itertools.product(*choices))


INTEGER = [opcode for opcode in BASIC if reference(opcode)]


@for_each(opcode=INTEGER)
def test_integer_operation(opcode):
    meaning, operation = reference(opcode), FUNCTIONS[opcode]
    rows = operands_of(opcode)
    got = run(opcode, *zip(*rows, strict=True))
    bits = 8 * DTYPES[operation.result].itemsize if operation.result != "pred" else 1
    for row, number in zip(rows, got, strict=True):
        assert number == int(meaning(*row)) & (1 << bits) - 1, (opcode, row)


ARITHMETIC = [f"{name}{rounding}" for name in ("add", "sub", "mul") for rounding in ("", ".rn")]


def test_every_opcode_is_tested():
    """Opcodes of `functions` are tested here or in test_functions."""
    floating = {"fma.rn.f32", "fma.rn.f64", "cvt.rna.tf32.f32"}  # the last in test_mma
    floating |= {f"setp.{name}{u}.{kind}" for name in COMPARE for u in ("", "u") for kind in ("f32", "f64")}
    assert set(BASIC) == floating | set(INTEGER)


@steady
@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.sampled_from(["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]), min_size=2, max_size=6),
)
def test_chains_of_conversions(number, kinds):
    expected, array = wrap(number, kinds[0]), np.array([number], np.uint64).astype(DTYPES[kinds[0]])
    for source, target in itertools.pairwise(kinds):
        expected = wrap(expected, target)
        array = FUNCTIONS[f"cvt.{target}.{source}"].function(array)
    assert array.tolist() == [expected]


def test_moves_keep_a_nan_as_it_is():
    strange = [0x7F800001, 0xFFC12345, 0x7FFFFFFF]
    assert run("mov.f32", strange) == strange
    assert run("selp.f32", strange, [0] * 3, [1, 0, 1]) == [strange[0], 0, strange[2]]


def test_what_counts_as_floating_point_operations():
    flops = {opcode: operation.flops for opcode, operation in FUNCTIONS.items() if operation.flops}
    plain = {
        f"{name}.{kind}": count
        for kind in ("f32", "f64")
        for name, count in [("fma.rn", 2), *((name, 1) for name in ARITHMETIC)]
    }
    assert plain.items() <= flops.items()
    of_names = {opcode.partition(".")[0]: count for opcode, count in flops.items()}
    assert of_names == {"fma": 2, "add": 1, "sub": 1, "mul": 1}
    classes = {"fma", "float", "integer", "compare", "move", "convert"}
    assert {operation.kind for operation in FUNCTIONS.values()} == classes
    assert all(re.fullmatch(r"[a-z][\w.:]*", opcode) for opcode in FUNCTIONS)


@pytest.mark.parametrize("name", ["mul.hi.u64", "mul.hi.s64"])
def test_the_upper_half_of_products_of_64_bits(name):
    """Against Python's integers, at the edges and at random."""
    dtype = np.dtype(np.uint64 if name.endswith("u64") else np.int64)
    edges = [0, 1, 3, 2**31, 2**32 - 1, 2**32, 2**63 - 1] + ([2**64 - 1] if dtype.kind == "u" else [-1, -(2**63)])
    random = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 300, dtype, endpoint=True)
    values = np.concatenate([np.array(edges, dtype), random])
    a, b = (part.ravel() for part in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        got = FUNCTIONS[name].function(a, b)
    assert got.dtype == dtype
    assert got.tolist() == [int(x) * int(y) >> 64 for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_multiply_adds_of_each_factor_by_each_in_more_lanes_than_are_done_at_once():
    body = """
    const float x = a[t];
    float sums[4][4] = {};
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(x + i, x * j + k, sums[i][j]);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) o[t] += (4 * i + j) * sums[i][j];"""
    x = np.arange(8192) % 50
    expected = sum((4 * i + j) * (x + i) * (x * j + k) for i in range(4) for j in range(4) for k in range(2))
    assert expected.max() < 1 << 24
    assert np.array_equal(per_thread(body, x.astype(np.float32)), expected)
