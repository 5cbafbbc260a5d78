"""Decodes ``wmma``, by which a warp multiplies matrices of 16 × 16, and models the arithmetic of tensor cores.

A matrix is spread over the registers of a warp's lanes, as a fragment. WMMA does not say which lane holds which
element, only that load, multiplication and store agree. Here the layout is that of ``mma.m16n8k16``, to which the
compiler translates WMMA for compute capability 8.0 and later. No kernel may rely on it.

WMMA does not say either which lane accesses which address. Here it is as in the machine code for an H100: FP16 in
shared memory takes one ``ldmatrix``, counted as a load of 16 bytes per lane, and in global memory four loads of 4
bytes. BF16 comes from generic addresses, by four loads of 4 bytes. Accumulators of FP16 take four accesses of 4 bytes,
and those of FP32 four of 8, or eight of 4 where columns are contiguous. The bytes, and the sectors of a matrix, are
certain; requests and wavefronts are those of that code. For the race check, every lane reads or writes all of a matrix.

The sources are NVIDIA's: "Parallel Thread Execution ISA", "wmma.load", "wmma.store", "wmma.mma" and "Matrix Fragments
for mma.m16n8k16"; and "CUDA Programming Guide", "Warp Matrix Functions", for pointers and strides: a matrix begins at a
multiple of 32 bytes, and its rows are a multiple of 16 bytes apart. (PTX asks 32 bytes of every row. The machine code
needs at most 16.)
"""

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .batch import Batch
from .errors import UnsupportedInstruction
from .execution import Step
from .fma import canonical
from .lanes import Lanes, highest, lowest
from .limits import WARP
from .memory import ARRAYS, SHARED_WINDOW, of_part, refuse
from .ptx import DTYPES, Instruction, Operand, Register, reject, unsupported
from .warps import of_warps, of_whole_warps

SIZE = 16  # rows, columns and depth
FLOPS = 2 * SIZE**3 // WARP  # of one multiplication, per thread
ALIGNMENT = 32  # bytes, of a matrix
STRIDE_STEP = 16  # bytes, of the distance between its rows
CHUNK = 128  # warps to multiply as one array: more would not fit the caches

FRACTION = 25  # bits behind the point to which the H100 aligns its summands, two more than float32 has
LEAST_EXPONENT = {np.dtype(np.float16): -14, np.dtype(np.float32): -126}  # subnormals have it too
NO_EXPONENT = -1000  # of zero: a product's is below any other's
INFINITE = 128  # the exponent of infinity and NaN
BIAS = 127  # of the exponents of float32
LEAST_TOP = -133  # the exponent to which summands are aligned if none has a larger one
MODEST = 40  # the largest exponent of factors that may be multiplied in float32
TOGETHER = 1 << 16  # products to compute as one array: more would not fit the caches
KEPT = np.int64(-(1 << 29))  # masks the bits that float32 has of a float64, rounded towards zero

TRANSFER = re.compile(
    r"wmma\.(load|store)\.([abcd])\.sync\.aligned\.(row|col)\.m16n16k16(?:\.(global|shared))?\.(b?f16|f32)"
)
TRANSFERS = {
    ("load", "a", "f16"): 8,
    ("load", "b", "f16"): 8,
    ("load", "a", "bf16"): 4,
    ("load", "b", "bf16"): 4,
    ("load", "c", "f16"): 4,
    ("load", "c", "f32"): 8,
    ("store", "d", "f16"): 4,
    ("store", "d", "f32"): 8,
}
"""Registers that hold each lane's part of a matrix."""
MULTIPLY = re.compile(
    r"wmma\.mma\.sync\.aligned(?:\.(?:row|col)){2}\.m16n16k16\.(?:f32\.(bf16)\.bf16\.f32|(f16|f32)\.(f16|f32))"
)
"""A product: that its factors are BF16, or the types of D and C, which need not be the same then."""

_lane, _element = np.arange(WARP, dtype=np.int64)[:, None], np.arange(8, dtype=np.int64)
_group, _pair = _lane // 4, _lane % 4 * 2 + _element % 2  # four lanes hold a row, or a column, of each 8 × 8
_first, _second = _element // 2 % 2 * 8, _element // 4 * 8  # the corner of that 8 × 8
PLACES = {"a": (_group + _first) * SIZE + _pair + _second, "b": (_pair + _first) * SIZE + _group + _second}
PLACES |= {"c": PLACES["a"], "d": PLACES["a"]}
"""The places of each lane's eight elements, counted row by row: shape (32, 8), for each matrix."""


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode a ``wmma`` instruction.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        Methods of `Decoder` that turn an operand into a function.

    Raises
    ------
    UnsupportedInstruction
        The shape or the type is not known.
    """
    if match := TRANSFER.fullmatch(instruction.opcode):
        action, matrix, layout, space, kind = match.groups()
        if (action, matrix, kind) in TRANSFERS and len(instruction.operands) == 3 and (space or kind == "bf16"):
            return _transfer(instruction, reader, address, action, matrix, layout, space, kind)
    elif (match := MULTIPLY.fullmatch(instruction.opcode)) and len(instruction.operands) == 4:
        sums = DTYPES[match[2] or "f32"], DTYPES[match[3] or "f32"]
        return _multiply(instruction, reader, *((of_bf16, 4) if match[1] else (of_fp16, 8)), *sums)
    raise unsupported(instruction)


def flops(opcode: str) -> int:
    """Return the floating-point operations per thread."""
    return FLOPS if opcode.startswith("wmma.mma.") else 0


def of_fp16(words: np.ndarray) -> np.ndarray:
    """Return the FP16 numbers in 32-bit words, two in each."""
    return words.view(np.float16)


def of_bf16(words: np.ndarray) -> np.ndarray:
    """Return the BF16 numbers in 32-bit words, two in each, as float32, of which BF16 is the upper half."""
    return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def multiply_accumulate(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a·b + c as an H100's tensor cores compute it.

    The products are exact. The products and c are aligned to the largest exponent among them and truncated 25 bits
    behind the point; a product's exponent is the sum of its factors' exponents, and the least is -133. Their sum is
    exact, and is truncated to float32, or infinite beyond its range: F. A. Khattak and M. Mikaitis, "Accurate Models of
    NVIDIA Tensor Cores", arXiv:2512.07004, 2025; P. Xie et al., "MMA-Sim", arXiv:2511.10909, 2025. NVIDIA documents
    none of this, and other GPUs add fewer products at once or truncate elsewhere. Checksums
    recorded on Hopper confirm it bit by bit.

    Parameters
    ----------
    a, b : array of float16 or float32, shapes (n, rows, depth) and (n, depth, columns)
        Float32 stands for BF16 and TF32, which have the same exponents and fewer bits.
    c : array of float32, shape (n, rows, columns)

    Returns
    -------
    array of float32, shape (n, rows, columns)
    """
    a, b, c = a.transpose(2, 1, 0), b.transpose(1, 2, 0), c.transpose(1, 2, 0)
    return accumulated(Factors.of(a[:, :, None]), Factors.of(b[:, None]), c).transpose(2, 0, 1)


class Factors(NamedTuple):
    """Factors as float32, and their exponents as int16: products share them, so both are made once."""

    numbers: np.ndarray
    exponents: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> "Factors":
        """Return factors of float16 or float32."""
        numbers = np.ascontiguousarray(x, np.float32)
        return cls(numbers, _exponents(numbers, LEAST_EXPONENT[x.dtype]))

    def map(self, arranged: Callable[[np.ndarray], np.ndarray]) -> "Factors":
        """Return the same factors in another arrangement."""
        return Factors(*map(arranged, self))


def accumulated(a: Factors, b: Factors, c: np.ndarray) -> np.ndarray:
    """Return what `multiply_accumulate` returns, for factors whose first axis is the depth.

    Beyond the edges of a matrix, rows, columns and depths are zeros, and a sum of nothing but zeros and c is c. So they
    are left out if all factors are finite: a tile is seldom full in a small problem.

    Parameters
    ----------
    a, b : Factors
        Their product broadcasts to shape (depth, rows, ...), of four axes. b has one row.
    c : array of float32, shape (rows, ...)
    """
    exponents = a.exponents, b.exponents
    if min(map(lowest, exponents)) > NO_EXPONENT or max(map(highest, exponents)) == INFINITE:
        return _sums(a, b, c)
    result, spans = canonical(c + np.float32(0)), _alive(*(of != NO_EXPONENT for of in exponents))

    def cut(of: np.ndarray) -> np.ndarray:
        for axis, span in enumerate(spans):
            if of.shape[axis] > 1:
                of = of[(slice(None),) * axis + (span,)] if isinstance(span, slice) else of.take(span, axis)
        return of

    if spans:
        where = tuple(spans[1:])
        result[where] = _sums(a.map(cut), b.map(cut), c[where])
    return result


def _alive(a: np.ndarray, b: np.ndarray) -> list[slice | np.ndarray]:
    """Return for each axis where both factors have elements that are not zero; an empty list if they nowhere have.

    There may be gaps along the one axis, beside the depth, that both factors have.
    """
    spans: list[slice | np.ndarray] = []
    for axis in range(a.ndim):
        others = tuple(other for other in range(a.ndim) if other != axis)
        (at,) = (a.any(axis=others) & b.any(axis=others)).nonzero()
        if not len(at):
            return []
        ends, both = slice(int(at[0]), int(at[-1]) + 1), min(a.shape[axis], b.shape[axis]) > 1
        spans.append(at if axis and both and ends.stop - ends.start > len(at) else ends)
    return spans


def _sums(a: Factors, b: Factors, c: np.ndarray) -> np.ndarray:
    """Return what `accumulated` returns, of all elements.

    It multiplies in float32 and adds in int32 where that is exact, which is far faster than float64. A product of two
    factors of 11 bits has 22, so it is exact in float32 unless it is subnormal. Times its unit, it is an integer and a
    fraction, and conversion to int32 truncates it. The integer is at most (2 - 2⁻¹⁰)²·2²⁵, and 16 of them are less than
    2³¹. Neither product nor unit overflows if the exponents of factors are at most `MODEST`, and those to which
    products are aligned are at least -2·`MODEST`: a unit is at most 2¹⁰⁵ then. A product or a c that is subnormal then
    is less than 1 after that, and is truncated to 0. No sum is subnormal. Where all products are 0, the sum is c.
    """
    (a, across), (b, down) = a, b
    biased = (c.view(np.uint32) << 1 >> 24).astype(np.int16)
    modest = len(a) <= SIZE and max(highest(across), highest(down)) <= MODEST and highest(biased) < INFINITE + BIAS
    biased -= BIAS
    result = np.empty(c.shape, np.float32)
    wide = min(max(TOGETHER // (len(a) * c.shape[2]), 1), c.shape[1])
    high = max(TOGETHER // (len(a) * c.shape[2] * wide), 1)
    for row, column in itertools.product(range(0, len(c), high), range(0, c.shape[1], wide)):
        rows, columns = slice(row, row + high), slice(column, column + wide)
        these = slice(None), rows, columns if a.shape[2] > 1 else slice(None)
        x, y, z = a[these], b[:, :, columns], c[rows, columns]
        most = np.maximum.reduce(across[these] + down[:, :, columns])
        low = most < -2 * MODEST
        if modest and not (low & (most > NO_EXPONENT // 2)).any():
            top = np.maximum(np.maximum(most, -2 * MODEST), biased[rows, columns]).astype(np.int32)
            unit = (BIAS + FRACTION - top << 23).view(np.float32)  # a power of two
            scaled = x * y
            scaled *= unit
            total = np.add.reduce(scaled.astype(np.int32), dtype=np.int32)
            total = np.add(total, (z * unit).astype(np.int32), dtype=np.float64)
            total.view(np.int64)[...] &= KEPT
            part = total.astype(np.float32) * (BIAS - FRACTION + top << 23).view(np.float32)
            result[rows, columns] = np.where(low, z + np.float32(0), part) if low.any() else part
        else:
            top = np.maximum(np.maximum(most, _exponents(z, LEAST_EXPONENT[c.dtype])), LEAST_TOP)
            unit = (FRACTION + 1023 - top.astype(np.int64) << 52).view(np.float64)
            scaled = np.multiply(x, y, dtype=np.float64)
            scaled *= unit
            total = np.trunc(z * unit) + np.trunc(scaled, out=scaled).sum(axis=0)
            result[rows, columns] = _truncated(total / unit)
    return result


def _exponents(x: np.ndarray, least: int) -> np.ndarray:
    """Return the exponents of float32: at least `least` except for 0, and `INFINITE` for infinity and NaN."""
    exponents = (x.view(np.uint32) << 1 >> 24).astype(np.int16)
    exponents -= BIAS
    np.maximum(exponents, least, out=exponents)
    exponents[x == 0] = NO_EXPONENT
    return exponents


def _truncated(x: np.ndarray) -> np.ndarray:
    """Return float64 truncated to float32: infinite beyond its range, and +0 below it."""
    fine = np.trunc(x * 2.0**149) * 2.0**-149  # multiples of the least float32
    cut = (fine.view(np.int64) & KEPT).view(np.float64)  # of 53 bits, 24 are left
    return canonical(cut.astype(np.float32) + np.float32(0))


def _accesses(matrix: str, kind: str, layout: str, space: str | None) -> np.ndarray:
    """Return the places in a matrix, in memory order, of each access by each lane: shape (accesses, 32, count)."""
    if matrix in "ab" and (kind, space) == ("f16", "shared"):
        return (_lane % SIZE * SIZE + _lane // SIZE * 8 + _element)[None]
    if kind != "f32" or layout == "row":
        return PLACES["a"].reshape(WARP, 4, 2).transpose(1, 0, 2)
    return _turned(PLACES["c"]).T[:, :, None]


def _turned(places: np.ndarray) -> np.ndarray:
    """Return the same places counted column by column."""
    return places % SIZE * SIZE + places // SIZE


def _parts(space: str | None, base: np.ndarray) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return for each space that holds matrices its name, the warps whose matrices it holds, and their addresses.

    A generic address below the first array is in the window of shared memory.
    """
    if space:
        return [(space, np.ones(len(base), bool), base)]
    shared = base < np.uint64(ARRAYS)
    parts = (("shared", shared, base - np.uint64(SHARED_WINDOW)), ("global", ~shared, base))
    return [(name, warps, begin[warps]) for name, warps, begin in parts if warps.any()]


def _transfer(
    instruction: Instruction,
    reader: Callable,
    address: Callable,
    action: str,
    matrix: str,
    layout: str,
    space: str | None,
    kind: str,
) -> Step:
    """Decode ``load {registers}, [address], stride`` or ``store [address], {registers}, stride``.

    The address is generic if `space` is None.
    """
    where, vector = instruction.operands[:2] if action == "store" else instruction.operands[1::-1]
    held_in = registers(vector, TRANSFERS[action, matrix, kind], instruction)
    locate, step_by = address(where, instruction), reader(instruction.operands[2], "u32", instruction)
    reads = [reader(register, "b32", instruction) for register in held_in] if action == "store" else []
    dtype = np.dtype(np.float32 if kind == "f32" else np.uint16)
    accesses = _accesses(matrix, kind, layout, space)
    count = accesses.shape[2]
    offsets = accesses[:, :, 0].astype(np.uint64)
    mine = PLACES[matrix] if layout == "row" else _turned(PLACES[matrix])
    line = instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        detail = "has another address or stride than its warp's first lane"
        base, stride = (of_warps(batch, lanes, get(batch, lanes), detail) for get in (locate, step_by))
        with of_part(np.arange(0, WARP * len(base), WARP, np.int64)):
            _require_fit(base, stride * np.uint64(dtype.itemsize), dtype, action)
        held = np.empty((len(base), SIZE**2), dtype)
        if action == "store":
            fragment = np.stack([batch.threads.spread(read(batch, lanes), lanes) for read in reads], axis=1)
            held[:, mine] = fragment.view(dtype).reshape(-1, WARP, 8)
        for where, warps, begin in _parts(space, base):
            here = np.repeat(warps, WARP)
            those, part = batch.threads.among(lanes, here), held[warps]
            with of_part(np.flatnonzero(here)):
                for places, offset in zip(accesses, offsets, strict=True):
                    steps = offset // SIZE * stride[warps, None] + offset % SIZE
                    addresses = (begin[:, None] + steps * np.uint64(dtype.itemsize)).ravel()
                    if action == "load":
                        loaded = batch.spaces.load(where, addresses, those, dtype, count, as_warp=True)
                        for i, value in enumerate(loaded):
                            part[:, places[:, i]] = value.reshape(-1, WARP)
                    else:
                        values = [part[:, places[:, i]].ravel() for i in range(count)]
                        batch.spaces.store(where, addresses, those, values, as_warp=True)
                    batch.counter.count(line, where, action, addresses, those, count * dtype.itemsize)
                    batch.tracer.access(line, where, action, addresses, those, count * dtype.itemsize)
            held[warps] = part
        if action == "load":
            fragment = held[:, mine].reshape(-1, 8)
            values = fragment if kind == "f32" else fragment.view(np.uint32)
            for register, value in zip(held_in, [*values.T] * (len(held_in) // values.shape[1]), strict=True):
                batch.registers.write(register.name, np.ascontiguousarray(value), lanes)

    return of_whole_warps(execute, "wmma")


def _multiply(
    instruction: Instruction,
    reader: Callable,
    numbers: Callable[[np.ndarray], np.ndarray],
    count: int,
    of_d: np.dtype,
    of_c: np.dtype,
) -> Step:
    """Decode ``mma d, a, b, c``. Four registers hold a fragment of A or B; for FP16 four more repeat them.

    `numbers` decodes their words to numbers, and `count` is the number of registers. Elements of float16 lie two in a
    register of C or D, which are of those types. To such a D, the sum in float32 is rounded to nearest.
    """
    named = zip(instruction.operands, (2 * of_d.itemsize, count, count, 2 * of_c.itemsize), strict=True)
    d, *sources = (registers(operand, size, instruction) for operand, size in named)
    reads = [[reader(register, "b32", instruction) for register in source] for source in sources]

    def matrix(batch: Batch, lanes: Lanes, name: str) -> np.ndarray:
        words = [batch.threads.spread(read(batch, lanes), lanes) for read in reads["abc".index(name)]]
        if name != "c":
            if words[4:] and any(not np.array_equal(*pair) for pair in zip(words[:4], words[4:], strict=True)):
                raise UnsupportedInstruction(
                    f"line {instruction.line}: the two copies that a fragment has of its "
                    f"elements differ: {instruction.text}"
                )
            words = words[:4]
        words = np.stack(words, axis=1)
        elements = words.view(of_c).astype(np.float32) if name == "c" else numbers(words)
        held = np.empty((len(elements) // WARP, SIZE**2), elements.dtype)
        held[:, PLACES[name]] = elements.reshape(-1, WARP, 8)
        return held.reshape(-1, SIZE, SIZE)

    def execute(batch: Batch, lanes: Lanes) -> None:
        a, b, c = (matrix(batch, lanes, name) for name in "abc")
        result = np.empty(c.shape, of_d)
        for first in range(0, len(c), CHUNK):
            part = slice(first, first + CHUNK)
            result[part] = multiply_accumulate(a[part], b[part], c[part])
        elements = result.reshape(-1, SIZE**2)[:, PLACES["d"]].reshape(-1, 8)
        for register, element in zip(d, elements.view(np.uint32).T, strict=True):
            batch.registers.write(register.name, np.ascontiguousarray(element), lanes)

    return of_whole_warps(execute, "wmma")


def parts(operand: Operand, count: int, instruction: Instruction) -> tuple[Operand, ...]:
    """Return the parts of a vector operand, which must have so many."""
    reject(instruction, not isinstance(operand, tuple) or len(operand) != count)
    return operand


def registers(operand: Operand, count: int, instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers of a vector operand, which must have so many."""
    found = parts(operand, count, instruction)
    reject(instruction, not all(isinstance(part, Register) for part in found))
    return found


def _require_fit(base: np.ndarray, pitch: np.ndarray, dtype: np.dtype, action: str) -> None:
    """Raise Violation for a warp whose matrix or pitch in bytes is misaligned, or whose rows overlap in a store."""
    for stray, detail in (
        (base % ALIGNMENT, "a matrix at address {:#x}, not a multiple of 32"),
        (pitch % STRIDE_STEP, "a stride of {1} bytes, not a multiple of 16"),
    ):
        refuse("misaligned", stray, lambda warp, detail=detail: detail.format(int(base[warp]), int(pitch[warp])))
    close = (pitch < SIZE * dtype.itemsize) & (action == "store")
    refuse("race", close, lambda warp: f"stores rows that overlap, {pitch[warp]} bytes apart")
