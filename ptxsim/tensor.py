"""Decodes ``wmma.load`` and ``wmma.store``, and models the arithmetic of tensor cores.

A matrix is spread over the registers of a warp's lanes, as a fragment. WMMA does not say which lane holds which
element, only that load, multiplication and store agree. Here the layout is that of ``mma.m16n8k16`` and the like, to
which the compiler translates WMMA for compute capability 8.0 and later; a product of 8 × 32 is one of 32 × 8,
transposed. No kernel may rely on it.

WMMA does not say either which lane accesses which address. Here it is as in the machine code for an H100: factors of 8
and 16 bits in shared memory take ``ldmatrix``, counted as loads of 16 bytes per lane, and otherwise one load for each
register of 32 or 64 bits. Those of 8 bits that lie across the register, as in an A whose columns are contiguous, take a
load for each element. BF16, TF32 and FP64 come from generic addresses, and never by ``ldmatrix``. Accumulators take an
access for each register of FP16, and of other types one for two elements, or for each where columns are contiguous. The
bytes, and the sectors of a matrix, are certain; requests and wavefronts are those of that code. For the race check,
every lane reads or writes all of a matrix.

The sources are NVIDIA's: "Parallel Thread Execution ISA", "wmma.load", "wmma.store" and "Matrix Fragments for
mma.m16n8k16"; and "CUDA Programming Guide", "Warp Matrix Functions", for pointers and strides: a matrix begins at a
multiple of 32 bytes, and its rows are a multiple of 16 bytes apart. (PTX asks of every row as many bytes as a lane has
of a fragment. The machine code needs at most 16. Of factors of 8 bits no more is asked here, as steps of 16 along K are
common.)
"""

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .batch import Batch
from .execution import Step
from .fma import canonical
from .lanes import Lanes, highest, lowest
from .limits import WARP
from .memory import ARRAYS, SHARED_WINDOW, of_part, refuse
from .ptx import Instruction, Operand, Register, reject
from .warps import of_warps, of_whole_warps

DEPTH = 16  # the most products to add in float32 and int32
ALIGNMENT = 32  # bytes, of a matrix
STRIDE_STEP = 16  # bytes, of the distance between its rows
ROW = 16  # bytes that a lane loads by ``ldmatrix``

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
    r"wmma\.(?P<action>load(?=\.[abc])|store(?=\.d))\.([abcd])\.sync\.aligned\.(row|col)\.(m\d+n\d+k\d+)"
    r"(?:\.(?P<space>global|shared))?\.(\w+)"
)
SHAPES = ("m16n16k16", "m32n8k16", "m8n32k16")
FACTORS = {**dict.fromkeys(("f16", "bf16", "s8", "u8"), SHAPES), "tf32": ("m16n16k8",), "f64": ("m8n8k4",)}
SUMS = {**dict.fromkeys(("f16", "s32"), SHAPES), "f32": (*SHAPES, "m16n16k8"), "f64": ("m8n8k4",)}
"""The shapes of products by the types of A and B, and by those of C and D."""
SIZES = {"s8": 1, "u8": 1, "f16": 2, "bf16": 2, "f64": 8}
"""Bytes of an element, if not 4."""
COPIES = 8
"""Registers that hold a factor of FP16, several times if it has fewer elements than they."""
SWAPPED = {"a": "b", "b": "a", "row": "col", "col": "row"}
"""The matrices and layouts of a transposed product."""


def places(matrix: str, rows: int, columns: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of each lane's elements, in the order of its registers: two arrays of (32, elements).

    Four lanes side by side have a row, or of b a column: of c or d two elements each, of a or b as many of `size` bytes
    as fit a register of 32 bits, but at least one. Then follow those of the next eight rows, or of b of as many more
    rows, and then those of the columns behind.
    """
    wide = 2 if matrix in "cd" else max(4 // size, 1)
    lane, element = np.arange(WARP, dtype=np.int64)[:, None], np.arange(rows * columns // WARP, dtype=np.int64)
    group, member, tile = lane // 4, lane % 4 * wide + element % wide, element // wide
    row, column, down, across = (member, group, 4 * wide, 8) if matrix == "b" else (group, member, 8, 4 * wide)
    return row + tile % (rows // down) * down, column + tile // (rows // down) * across


def upright(shape: str) -> tuple[int, int, int, bool]:
    """Return the rows, columns and depth of a product such as "m32n8k16", and whether it is to be transposed first."""
    rows, columns, depth = map(int, re.findall(r"\d+", shape))
    return max(rows, columns), min(rows, columns), depth, rows < columns


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode ``load {registers}, [address], stride`` or ``store [address], {registers}, stride``.

    The address is generic if the opcode names no space.

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
    match = TRANSFER.fullmatch(instruction.opcode)
    reject(instruction, not match or len(instruction.operands) != 3)
    action, matrix, layout, shape, space, kind = match.groups()
    reject(instruction, shape not in (FACTORS if matrix in "ab" else SUMS).get(kind, ()))
    *sides, depth, turned = upright(shape)
    matrix, layout = (SWAPPED.get(of, of) if turned else of for of in (matrix, layout))
    rows, columns = {"a": (sides[0], depth), "b": (depth, sides[1])}.get(matrix, sides)
    size = SIZES.get(kind, 4)
    dtype, word = np.dtype(f"u{size}"), np.dtype(f"u{max(size, 4)}")
    row, column = places(matrix, rows, columns, size)
    length = columns if layout == "row" else rows  # of what is contiguous
    mine = row * length + column if layout == "row" else column * length + row
    across, by_rows = (layout == "row") == (matrix == "b"), space == "shared" and kind in ("f16", "s8", "u8")
    accesses = _accesses(matrix, mine, size, length, across, by_rows)
    offsets, count = accesses[:, :, 0].astype(np.uint64), accesses.shape[2]
    where, vector = instruction.operands[:2] if action == "store" else instruction.operands[1::-1]
    own = mine.shape[1] * size // word.itemsize
    held_in = registers(vector, COPIES if kind == "f16" and matrix in "ab" else own, instruction)
    locate, step_by = address(where, instruction), reader(instruction.operands[2], "u32", instruction)
    reads = [reader(of, f"b{8 * word.itemsize}", instruction) for of in held_in] if action == "store" else []

    def execute(batch: Batch, lanes: Lanes) -> None:
        detail = "has another address or stride than its warp's first lane"
        base, stride = (of_warps(batch, lanes, get(batch, lanes), detail) for get in (locate, step_by))
        with of_part(np.arange(0, WARP * len(base), WARP, np.int64)):
            _require_fit(base, stride * np.uint64(size), length * size, ALIGNMENT if size > 1 else STRIDE_STEP, action)
        held = np.empty((len(base), mine.size), dtype)
        if action == "store":
            fragment = np.stack([batch.threads.spread(read(batch, lanes), lanes) for read in reads], axis=1)
            held[:, mine] = fragment.view(dtype).reshape(-1, *mine.shape)
        for where, warps, begin in _parts(space, base):
            here = np.repeat(warps, WARP)
            here &= np.arange(len(here)) % WARP < accesses.shape[1]
            those, part = batch.threads.among(lanes, here), held[warps]
            with of_part(np.flatnonzero(here)):
                for places, offset in zip(accesses, offsets, strict=True):
                    steps = offset // length * stride[warps, None] + offset % length
                    addresses = (begin[:, None] + steps * np.uint64(size)).ravel()
                    if action == "load":
                        loaded = batch.spaces.load(where, addresses, those, dtype, count, as_warp=True)
                        for i, value in enumerate(loaded):
                            part[:, places[:, i]] = value.reshape(len(part), -1)
                    else:
                        values = [part[:, places[:, i]].ravel() for i in range(count)]
                        batch.spaces.store(where, addresses, those, values, as_warp=True)
                    batch.counter.count(instruction.line, where, action, addresses, those, count * size)
                    batch.tracer.access(instruction.line, where, action, addresses, those, count * size)
            held[warps] = part
        if action == "load":
            values = np.ascontiguousarray(held[:, mine]).reshape(-1, mine.shape[1]).view(word).T
            for register, value in zip(held_in, [*values] * (len(held_in) // own), strict=True):
                batch.registers.write(register.name, np.ascontiguousarray(value), lanes)

    return of_whole_warps(execute, "wmma")


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
    modest = len(a) <= DEPTH and max(highest(across), highest(down)) <= MODEST and highest(biased) < INFINITE + BIAS
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


def _accesses(matrix: str, mine: np.ndarray, size: int, length: int, across: bool, by_rows: bool) -> np.ndarray:
    """Return the places in a matrix, in memory order, of each access by each lane: shape (accesses, lanes, count).

    `mine` has each lane's own, `length` elements are contiguous, and those of a register do not if they lie `across`.
    If `by_rows`, factors come by ``ldmatrix`` where that can give each lane its own.
    """
    lines = mine.size // length
    if matrix in "ab" and by_rows and (size == 2 or not across):
        lane = np.arange(mine.size * size // ROW, dtype=np.int64)
        every = (lane % lines * length + lane // lines * (ROW // size))[:, None] + np.arange(
            ROW // size, dtype=np.int64
        )
        return every.reshape(-1, min(len(lane), WARP * size // 2), ROW // size)
    if size == 2:  # the machine code transposes the registers of what lies across
        row, column = places("a", lines, length, size)
        mine, across = row * length + column, False
    wide = 1 if across else 2 if matrix in "cd" else max(4 // size, 1)
    return mine.reshape(WARP, -1, wide).swapaxes(0, 1)


def _parts(space: str | None, base: np.ndarray) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return for each space that holds matrices its name, the warps whose matrices it holds, and their addresses.

    A generic address below the first array is in the window of shared memory.
    """
    if space:
        return [(space, np.ones(len(base), bool), base)]
    shared = base < np.uint64(ARRAYS)
    parts = (("shared", shared, base - np.uint64(SHARED_WINDOW)), ("global", ~shared, base))
    return [(name, warps, begin[warps]) for name, warps, begin in parts if warps.any()]


def parts(operand: Operand, count: int, instruction: Instruction) -> tuple[Operand, ...]:
    """Return the parts of a vector operand, which must have so many."""
    reject(instruction, not isinstance(operand, tuple) or len(operand) != count)
    return operand


def registers(operand: Operand, count: int, instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers of a vector operand, which must have so many."""
    found = parts(operand, count, instruction)
    reject(instruction, not all(isinstance(part, Register) for part in found))
    return found


def _require_fit(base: np.ndarray, pitch: np.ndarray, width: int, least: int, action: str) -> None:
    """Raise Violation for a warp whose matrix or pitch in bytes is misaligned, or whose rows overlap in a store."""
    for stray, detail in (
        (base % np.uint64(least), f"a matrix at address {{:#x}}, not a multiple of {least}"),
        (pitch % STRIDE_STEP, "a stride of {1} bytes, not a multiple of 16"),
    ):
        refuse("misaligned", stray, lambda warp, detail=detail: detail.format(int(base[warp]), int(pitch[warp])))
    refuse(
        "race",
        (pitch < width) & (action == "store"),
        lambda warp: f"stores rows that overlap, {pitch[warp]} bytes apart",
    )
