"""The tensor cores as ``nvcuda::wmma`` drives them: a warp loads, multiplies and stores matrices of 16 × 16.

A matrix is spread over the registers of a warp's lanes, as a fragment. WMMA does not say which lane has which element,
only that load, multiplication and store agree. Here it is as PTX documents for ``mma.m16n8k16``, which is what the
compiler makes of it for compute capability 8.0 and later. No kernel may rely on it.

Nor does WMMA say which lane accesses which address. Here it is as in the machine code for an H100: FP16 in shared
memory takes one ``ldmatrix``, counted as a load of 16 bytes per lane; in global memory, four loads of 4 bytes; BF16, at
a generic address, four of 4 bytes in both; FP32 takes four accesses of 8 bytes, or eight of 4 where columns are what is
contiguous. The bytes are certain, and that each of a matrix's sectors is touched; requests and wavefronts are those of
that code. For lack of anything certain, every lane counts as reading or writing the whole of the matrix when races are
looked for.

The sources are NVIDIA's: "Parallel Thread Execution ISA", "wmma.load", "wmma.store", "wmma.mma" and "Matrix Fragments
for mma.m16n8k16"; and "CUDA Programming Guide", "Warp Matrix Functions", for pointers and strides: a matrix begins at a
multiple of 32 bytes, its rows a multiple of 16 bytes apart. (PTX asks that of each row which the guide asks of the
first. The machine code needs 16 bytes of each at most.)
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .batch import Batch, Lanes, Step, of_part
from .errors import UnsupportedInstruction
from .fma import canonical
from .limits import WARP
from .memory import ARRAYS, OF_WARP, SHARED_WINDOW, Violation
from .ptx import Instruction, Operand, Register, unsupported

SIZE = 16  # rows, columns and depth
FLOPS = 2 * SIZE**3 // WARP  # of one multiplication, per thread
ALIGNMENT = 32  # bytes, of a matrix
STRIDE_STEP = 16  # bytes, of the distance between its rows
CHUNK = 64  # warps that are multiplied as one array: more would only miss the caches

FRACTION = 25  # bits behind the point to which the H100 aligns what it adds, two more than float32 has
LEAST_EXPONENT = {np.dtype(np.float16): -14, np.dtype(np.float32): -126}  # subnormals have it too
NO_EXPONENT = -300  # of zero: below that of any product
LEAST_TOP = -133  # the exponent to which all is aligned where none is larger
UNIT_ROUNDOFF = 2.0**-23  # of float32 when it is truncated

TRANSFER = re.compile(
    r"wmma\.(load|store)\.([abcd])\.sync\.aligned\.(row|col)\.m16n16k16(?:\.(global|shared))?\.(b?f16|f32)"
)
TRANSFERS = {
    ("load", "a", "f16"),
    ("load", "b", "f16"),
    ("load", "a", "bf16"),
    ("load", "b", "bf16"),
    ("load", "c", "f32"),
    ("store", "d", "f32"),
}
MULTIPLY = re.compile(r"wmma\.mma\.sync\.aligned\.(row|col)\.(row|col)\.m16n16k16\.f32\.(bf16\.bf16\.)?f32")

_lane, _element = np.arange(WARP)[:, None], np.arange(8)
_group, _pair = _lane // 4, _lane % 4 * 2 + _element % 2  # in each 8 × 8, a group of four lanes has a row, or column
_first, _second = _element // 2 % 2 * 8, _element // 4 * 8  # which 8 × 8 of the four
PLACES = {"a": (_group + _first) * SIZE + _pair + _second, "b": (_pair + _first) * SIZE + _group + _second}
PLACES |= {"c": PLACES["a"], "d": PLACES["a"]}
"""Where in a matrix, counted row by row, each lane's eight elements are: shape (32, 8), by the matrix."""


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode a ``wmma`` instruction.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        What makes functions of operands: `Decoder`'s methods.

    Raises
    ------
    UnsupportedInstruction
        Another shape or type than a kernel of this book uses.
    """
    if match := TRANSFER.fullmatch(instruction.opcode):
        action, matrix, layout, space, kind = match.groups()
        if (action, matrix, kind) in TRANSFERS and len(instruction.operands) == 3 and (space or kind == "bf16"):
            return _transfer(instruction, reader, address, action, matrix, layout, space, kind)
    elif (match := MULTIPLY.fullmatch(instruction.opcode)) and len(instruction.operands) == 4:
        return _multiply(instruction, reader, *((of_bf16, 4) if match[3] else (of_fp16, 8)))
    raise unsupported(instruction)


def kind(opcode: str) -> str:
    """Return the class of a ``wmma`` instruction for the counters."""
    match = TRANSFER.fullmatch(opcode)
    return f"{match[4] or 'generic'} {match[1]}" if match else "tensor"


def flops(opcode: str) -> int:
    """Return the floating-point operations per thread."""
    return FLOPS if opcode.startswith("wmma.mma.") else 0


def of_fp16(words: np.ndarray) -> np.ndarray:
    """Return the FP16 in 32-bit words, two in each."""
    return words.view(np.float16)


def of_bf16(words: np.ndarray) -> np.ndarray:
    """Return the BF16 in 32-bit words, two in each, as the float32 that they are the upper halves of."""
    return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def multiply_accumulate(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a·b + c as an H100's tensor cores compute it.

    The products are exact. They and c are aligned to the largest exponent among them, where a product's is the sum of
    its factors' and -133 is the least, and cut off 25 bits behind the point; their sum is exact, and is cut off to
    float32, past whose range it is infinite: F. A. Khattak and M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores",
    arXiv:2512.07004, 2025; P. Xie et al., "MMA-Sim", arXiv:2511.10909, 2025. NVIDIA documents none of it, and other
    GPUs add fewer products at once or cut off elsewhere; see `accumulation_bound`. That it is so on Hopper the recorded
    checksums tell, bit by bit.

    Parameters
    ----------
    a, b : array of float16 or float32, shapes (n, rows, depth) and (n, depth, columns)
        Float32 stands for types with its exponents and fewer bits, BF16 and TF32.
    c : array of float32, shape (n, rows, columns)

    Returns
    -------
    array of float32, shape (n, rows, columns)
    """
    depth = a.shape[2]
    top, across, down = np.maximum(_exponents(c), LEAST_TOP), _exponents(a), _exponents(b)
    for k in range(depth):
        top = np.maximum(top, across[:, :, k, None] + down[:, None, k])
    a, b, unit = a.astype(np.float64), b.astype(np.float64), np.ldexp(1.0, FRACTION - top)
    total = np.trunc(c * unit) + 0.0  # a sum of zeros is +0
    for k in range(depth):
        product = a[:, :, k, None] * b[:, None, k]
        product *= unit
        total += np.trunc(product, out=product)  # in place: new arrays of this size take longer than the arithmetic
    return _truncated(total / unit)


def accumulation_bound(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return how far a matrix product on tensor cores may be from the exact one, and from another GPU's.

    "Parallel Thread Execution ISA", "wmma.mma", promises products and sums of at least single precision, and leaves
    order and rounding open. What that comes to was found out by M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh,
    "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021: the terms of a block, a few
    products and the sum so far, are aligned to the largest and cut off behind at least 23 bits, and so is their sum.
    A block of t terms then loses less than t·2⁻²³ of Σ|a||b|: t − 1 terms by their alignment, and their sum. Over all
    blocks t adds up to at most 2K, with blocks of one product each. So the error is at most γ(2K) Σ|a||b|, where
    γ(n) = n·u / (1 − n·u) and u = 2⁻²³ (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM
    2002, §3.1). What is returned is for 3K, since `multiply_accumulate`, with blocks of 17 terms and two more bits,
    loses at most another K. Factors below their type's normal range, the handling of which PTX leaves open too, are
    aligned as if they were its least, 2⁻¹⁴ for float16, and count so.

    Parameters
    ----------
    A, B : array of float16, or of a type with float32's exponents; shapes (M, K) and (K, N)
        Finite.

    Returns
    -------
    array of float64, shape (M, N)
        Of the sums themselves, before α and β, and as long as nothing overflows.
    """
    nu = 3 * A.shape[1] * UNIT_ROUNDOFF
    least = 2.0 ** LEAST_EXPONENT.get(A.dtype, LEAST_EXPONENT[np.dtype(np.float32)])
    sizes = [np.where(X == 0, 0.0, np.maximum(np.abs(X.astype(np.float64)), least)) for X in (A, B)]
    return nu / (1 - nu) * (sizes[0] @ sizes[1])


def _exponents(x: np.ndarray) -> np.ndarray:
    _, exponents = np.frexp(x.astype(np.float64))
    return np.where(x == 0, NO_EXPONENT, np.maximum(exponents - 1, LEAST_EXPONENT[x.dtype])).astype(np.int16)


def _truncated(x: np.ndarray) -> np.ndarray:
    """Return float64 cut off to float32: past its range infinite, and what is cut off whole is +0."""
    result = x.astype(np.float32)
    size = np.abs(x)
    over = (np.abs(result) > size) & (size < 2.0**128)
    return canonical((result.view(np.uint32) - over).view(np.float32) + np.float32(0))  # to the next one towards 0


def _accesses(kind: str, layout: str, space: str | None) -> np.ndarray:
    """Return where in a matrix, counted as it lies in memory, each access of each lane goes: (accesses, 32, count)."""
    if (kind, space) == ("f16", "shared"):
        return (_lane % SIZE * SIZE + _lane // SIZE * 8 + _element)[None]
    if kind != "f32" or layout == "row":
        return PLACES["a"].reshape(WARP, 4, 2).transpose(1, 0, 2)
    return _turned(PLACES["c"]).T[:, :, None]


def _turned(places: np.ndarray) -> np.ndarray:
    """Return the same places counted column by column."""
    return places % SIZE * SIZE + places // SIZE


def _parts(space: str | None, base: np.ndarray) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return the spaces in which warps find their matrices, which warps those are, and the addresses there.

    Of generic addresses those below the first array are in the window of shared memory.
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

    Without a space the address is generic.
    """
    where, vector = instruction.operands[:2] if action == "store" else instruction.operands[1::-1]
    held_in = registers(vector, 4 if kind == "bf16" else 8, instruction)
    locate, step_by = address(where, instruction), reader(instruction.operands[2], "u32", instruction)
    reads = [reader(register, "f32", instruction) for register in held_in] if action == "store" else []
    dtype = np.dtype(np.float32 if kind == "f32" else np.uint16)
    accesses = _accesses(kind, layout, space)
    count = accesses.shape[2]
    offsets = accesses[:, :, 0].astype(np.uint64)
    mine = PLACES[matrix] if layout == "row" else _turned(PLACES[matrix])
    line = instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        detail = "has another address or stride than its warp's first lane"
        base, stride = (of_warps(batch, lanes, get(batch, lanes), detail) for get in (locate, step_by))
        _require_fit(base, stride * np.uint64(dtype.itemsize), dtype, action)
        held = np.empty((len(base), SIZE**2), dtype)
        if action == "store":
            fragment = np.stack([batch.spread(read(batch, lanes), lanes) for read in reads], axis=1)
            held[:, mine] = fragment.reshape(-1, WARP, 8)
        for where, warps, begin in _parts(space, base):
            here = np.repeat(warps, WARP)
            those, part = batch.among(lanes, here), held[warps]
            with of_part(np.flatnonzero(here)):
                for places, offset in zip(accesses, offsets, strict=True):
                    steps = offset // SIZE * stride[warps, None] + offset % SIZE
                    addresses = (begin[:, None] + steps * np.uint64(dtype.itemsize)).ravel()
                    if action == "load":
                        loaded = _load(batch, where, addresses, those, dtype, count)
                        for i, value in enumerate(loaded):
                            part[:, places[:, i]] = value.reshape(-1, WARP)
                    else:
                        _store(batch, where, addresses, those, [part[:, places[:, i]].ravel() for i in range(count)])
                    batch.tally(line, where, action, addresses, those, count * dtype.itemsize)
                    batch.trace(line, where, action, addresses, those, count * dtype.itemsize)
            held[warps] = part
        if action == "load":
            fragment = held[:, mine].reshape(-1, 8)
            values = fragment if kind == "f32" else fragment.view(np.uint32)
            for register, value in zip(held_in, [*values.T] * (len(held_in) // values.shape[1]), strict=True):
                batch.write(register.name, np.ascontiguousarray(value), lanes)

    return of_whole_warps(execute)


def _multiply(
    instruction: Instruction, reader: Callable, numbers: Callable[[np.ndarray], np.ndarray], count: int
) -> Step:
    """Decode ``mma d, a, b, c``. Four registers hold a fragment of A or B; of FP16 four more, a relic, repeat them.

    `numbers` makes numbers of their words, and `count` is how many registers there are.
    """
    named = zip(instruction.operands, (8, count, count, 8), strict=True)
    d, *sources = (registers(operand, size, instruction) for operand, size in named)
    reads = [
        [reader(register, kind, instruction) for register in source]
        for source, kind in zip(sources, ("b32", "b32", "f32"), strict=True)
    ]

    def matrix(batch: Batch, lanes: Lanes, name: str) -> np.ndarray:
        words = [batch.spread(read(batch, lanes), lanes) for read in reads["abc".index(name)]]
        if name != "c":
            if words[4:] and any(not np.array_equal(*pair) for pair in zip(words[:4], words[4:], strict=True)):
                raise UnsupportedInstruction(
                    f"line {instruction.line}: the two copies that a fragment has of its "
                    f"elements differ: {instruction.text}"
                )
            words = words[:4]
        elements = np.stack(words, axis=1).view(np.float32) if name == "c" else numbers(np.stack(words, axis=1))
        held = np.empty((len(elements) // WARP, SIZE**2), elements.dtype)
        held[:, PLACES[name]] = elements.reshape(-1, WARP, 8)
        return held.reshape(-1, SIZE, SIZE)

    def execute(batch: Batch, lanes: Lanes) -> None:
        a, b, c = (matrix(batch, lanes, name) for name in "abc")
        result = np.empty(c.shape, np.float32)
        for first in range(0, len(c), CHUNK):
            part = slice(first, first + CHUNK)
            result[part] = multiply_accumulate(a[part], b[part], c[part])
        elements = result.reshape(-1, SIZE**2)[:, PLACES["d"]].reshape(-1, 8)
        for register, element in zip(d, elements.T, strict=True):
            batch.write(register.name, np.ascontiguousarray(element), lanes)

    return of_whole_warps(execute)


def parts(operand: Operand, count: int, instruction: Instruction) -> tuple[Operand, ...]:
    """Return the parts of a vector of so many registers or constants."""
    if not isinstance(operand, tuple) or len(operand) != count:
        raise unsupported(instruction)
    return operand


def registers(operand: Operand, count: int, instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers of a vector of so many."""
    found = parts(operand, count, instruction)
    if not all(isinstance(part, Register) for part in found):
        raise unsupported(instruction)
    return found


def require_whole(batch: Batch, lanes: Lanes) -> None:
    """Raise Violation unless every warp is here with all its lanes."""
    batch.gather(lanes)
    if lanes is None and batch.full:
        return
    warp = (batch.slot if lanes is None else batch.slot[lanes]) // WARP
    lonely = np.flatnonzero(np.bincount(warp)[warp] < WARP)
    if len(lonely):
        raise Violation("divergence", lonely[0], "does without all of its warp what 32 lanes must do together")


def of_whole_warps(act: Step) -> Step:
    """Return what does something for whole warps alone."""

    def execute(batch: Batch, lanes: Lanes) -> None:
        require_whole(batch, lanes)
        act(batch, lanes)

    return execute


def of_warps(batch: Batch, lanes: Lanes, values: np.ndarray, detail: str) -> np.ndarray:
    """Return one value per warp; raise Violation where a lane's is not its warp's first one's."""
    rows = batch.spread(values, lanes).reshape(-1, WARP)
    differs = np.flatnonzero(rows != rows[:, :1])
    if len(differs):
        raise Violation("divergence", differs[0], detail)
    return rows[:, 0]


def _require_fit(base: np.ndarray, pitch: np.ndarray, dtype: np.dtype, action: str) -> None:
    """Raise Violation where a matrix or its rows, `pitch` bytes apart, are not aligned, or rows to store overlap."""
    for stray, detail in (
        (base % ALIGNMENT, "a matrix at address {:#x}, not a multiple of 32"),
        (pitch % STRIDE_STEP, "a stride of {1} bytes, not a multiple of 16"),
    ):
        if stray.any():
            warp = np.flatnonzero(stray)[0]
            raise Violation("misaligned", warp * WARP, detail.format(int(base[warp]), int(pitch[warp])))
    close = np.flatnonzero(pitch < SIZE * dtype.itemsize)
    if action == "store" and len(close):
        raise Violation("race", close[0] * WARP, f"stores rows that overlap, {pitch[close[0]]} bytes apart")


def _load(
    batch: Batch, space: str, addresses: np.ndarray, lanes: Lanes, dtype: np.dtype, count: int
) -> list[np.ndarray]:
    if space == "global":
        return batch.launch.memory.load(addresses, dtype, count)
    return batch.shared.load(addresses, *owners(batch, lanes), dtype, count)


def _store(batch: Batch, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray]) -> None:
    if space == "global":
        batch.launch.memory.store(addresses, values)
    else:
        batch.shared.store(addresses, *owners(batch, lanes), values)


def owners(batch: Batch, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Return each lane's block, and, in the place of its thread, its whole warp."""
    block, thread = (batch.block, batch.thread) if lanes is None else (batch.block[lanes], batch.thread[lanes])
    return block, thread & -WARP | OF_WARP
