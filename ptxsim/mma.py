"""Decodes ``mma.sync`` and ``wmma.mma``, which multiply on tensor cores, and ``ldmatrix``, ``stmatrix``, ``movmatrix``.

PTX documents which lane holds which element, and kernels rely on it. A matrix of 8 × 8 halves is eight rows of 16 bytes
in shared memory, each at an address that one lane gives. Lane 4i + j holds elements 2j and 2j + 1 of row i, or of
column i if the matrix is transposed. `tensor.accumulated` adds the products. All lanes of a warp take part in
each of these instructions. PTX does not say which lane moves which bytes, so for the race check the whole warp
loads and stores every row.

The sources are NVIDIA's: "Parallel Thread Execution ISA", 9.7.14.5, "mma", "Matrix Fragments for mma.m16n8k4" to
"mma.m16n8k32", "Warp-level matrix load instruction: ldmatrix", "Warp-level matrix transpose instruction: movmatrix" and
"Warp-level matrix store instruction: stmatrix"; the last is for compute capability 9.0 and later. A 32-bit register
holds a TF32 number, and its lower 13 bits are ignored; tensor cores cut them off (P. Xie et al., "MMA-Sim",
arXiv:2511.10909, 2025).
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from .batch import Batch
from .errors import UnsupportedInstruction
from .execution import Step
from .fma import fma64
from .functions import saturate
from .lanes import Lanes
from .limits import WARP
from .memory import WIDEST, of_part, refuse
from .ptx import DTYPES, Instruction, reject
from .tensor import COPIES, FACTORS, SIZES, Factors, accumulated, parts, places, registers, upright
from .warps import of_whole_warps

SIDE = 8  # rows of a matrix that ldmatrix moves, and halves in each
ROW = 16  # bytes of such a row

MOVE = re.compile(
    r"(ld|st)matrix\.sync\.aligned(?=.*\.m8n8)(?!.*m8n8.*m8n8)(?:\.m8n8)?\.x([124])(?:\.m8n8)?(\.trans)?(?:\.m8n8)?"
    r"\.shared(?:::cta)?\.b16"
)
PLACES = {"c": places("c", 16, 8, 4)} | {
    (matrix, size): places(matrix, *shape, size)
    for size in (2, 4, 1)
    for matrix, shape in (("a", (16, 32 // size)), ("b", (32 // size, 8)))
}
"""Rows and columns of each lane's elements in ``mma.m16n8``, as `places` has them.

The key is the matrix and, for a and b, the bytes of an element; "c" stands for d too. Of half the depth, a lane has the
first half of the elements.
"""


@dataclass(frozen=True)
class Kind:
    """The operands of a product.

    Attributes
    ----------
    rows, columns, depth : int
        A is rows × depth, and B is depth × columns.
    turned : bool
        Whether B and A are those two, transposed.
    size : int
        Bytes of an element of A or B.
    numbers : dict of str to callable
        Decode words of A and B, "a" and "b", to numbers.
    sums, adds : dtype
        The types of D and C. Those of float16 lie two in a register, and the sum in float32 is rounded to nearest.
    copied : bool
        Whether A and B have eight registers each, which hold an element several times if they have more places.
    limited : bool
        Whether integer sums that are out of range become the nearest integer that is in it.
    """

    rows: int
    columns: int
    depth: int
    turned: bool
    size: int
    numbers: dict[str, Callable[[np.ndarray], np.ndarray]]
    sums: np.dtype
    adds: np.dtype
    copied: bool = False
    limited: bool = False


NUMBERS = {
    "f16": lambda words: words.view(np.float16),
    "bf16": lambda words: (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32),
    "tf32": lambda words: (words & np.uint32(0xFFFFE000)).view(np.float32),
    "s8": lambda words: words.view(np.int8),
    "u8": lambda words: words.view(np.uint8),
    "f64": lambda words: words.view(np.float64),
}
"""Functions that return the numbers in words, by type: as float32 where NumPy lacks it."""
TYPES = {"s8": ("s32",), "u8": ("s32",), "f64": ("f64",), "f16": ("f32", "f16")}
"""The types of sums by those of factors, if not float32 alone."""


def _kinds() -> Iterator[tuple[str, Kind]]:
    """Yield the opcodes of the products that the simulator knows, with their kinds."""
    for name, other in (*zip(NUMBERS, NUMBERS, strict=True), ("s8", "u8"), ("u8", "s8")):
        size, numbers = SIZES.get(name, 4), {"a": NUMBERS[name], "b": NUMBERS[other]}
        narrow = ("m8n8k4",) if name == "f64" else (f"m16n8k{32 // size}", f"m16n8k{16 // size}")
        ends = ("", ".satfinite")[: 1 + (size == 1)]
        for d, c, end in itertools.product(*[TYPES.get(name, ("f32",))] * 2, ends):
            of, types = (size, numbers, DTYPES[d], DTYPES[c]), f"{d}.{name}.{other}.{c}"
            for shape in narrow if d == c else ():
                yield f"mma.sync.aligned.{shape}.row.col{end}.{types}", Kind(*upright(shape), *of, limited=bool(end))
            types = f"{d}.{c}" if name == "f16" else types + ".rn" * (name == "f64") + end
            shapes = FACTORS[name] if name == other else ()
            for shape, layouts in itertools.product(shapes, ("row.row", "row.col", "col.row", "col.col")):
                kind = Kind(*upright(shape), *of, name == "f16", bool(end))
                yield f"wmma.mma.sync.aligned.{layouts}.{shape}.{types}", kind


KINDS = dict(_kinds())
"""The kinds of products by their opcodes."""


def flops(opcode: str) -> int:
    """Return the floating-point operations per thread."""
    kind = KINDS.get(opcode)
    return 2 * kind.rows * kind.columns * kind.depth // WARP if kind else 0


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode one of this module's instructions.

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
    if instruction.opcode == "movmatrix.sync.aligned.m8n8.trans.b16" and len(instruction.operands) == 2:
        return _transposed(instruction, reader)
    if (match := MOVE.fullmatch(instruction.opcode)) and len(instruction.operands) == 2:
        count, transposed = int(match[2]), bool(match[3])
        if match[1] == "ld":
            return _load(instruction, address, count, transposed)
        return _store(instruction, reader, address, count, transposed)
    return products([instruction], reader)


def _load(instruction: Instruction, address: Callable, count: int, transposed: bool) -> Step:
    """Decode ``ldmatrix {registers}, [address]``: lane 8i + j gives the address of row j of matrix i."""
    target, where = instruction.operands
    targets = registers(target, count, instruction)
    locate, line = address(where, instruction), instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        addresses, giving = _rows(batch, lanes, locate, count)
        with of_part(np.flatnonzero(giving)):
            who = batch.threads.among(lanes, giving)
            (rows,) = batch.spaces.load("shared", addresses, who, WIDEST, 1, as_warp=True)
        batch.counter.count(line, "shared", "load", addresses, who, ROW)
        batch.tracer.access(line, "shared", "load", addresses, who, ROW)
        words = rows.view(np.uint32).reshape(-1, count, SIDE, ROW // 4)
        held = _turned(words) if transposed else words
        for i, register in enumerate(targets):
            batch.registers.write(register.name, held[:, i].ravel(), lanes)

    return of_whole_warps(execute, "ldmatrix")


def _store(instruction: Instruction, reader: Callable, address: Callable, count: int, transposed: bool) -> Step:
    """Decode ``stmatrix [address], {registers}``: lane 8i + j gives the address of row j of matrix i."""
    where, vector = instruction.operands
    reads = [reader(part, "b32", instruction) for part in parts(vector, count, instruction)]
    locate, line = address(where, instruction), instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        words = np.stack([batch.threads.spread(read(batch, lanes), lanes) for read in reads], axis=1)
        rows = words.reshape(-1, WARP, count).transpose(0, 2, 1).copy().reshape(-1, count, SIDE, ROW // 4)
        held = _turned(rows) if transposed else rows
        addresses, giving = _rows(batch, lanes, locate, count)
        with of_part(np.flatnonzero(giving)):
            who = batch.threads.among(lanes, giving)
            _require_apart(batch, addresses, SIDE * count)
            batch.spaces.store("shared", addresses, who, list(held.reshape(-1, ROW // 4).T), as_warp=True)
        batch.counter.count(line, "shared", "store", addresses, who, ROW)
        batch.tracer.access(line, "shared", "store", addresses, who, ROW)

    return of_whole_warps(execute, "stmatrix")


def _transposed(instruction: Instruction, reader: Callable) -> Step:
    """Decode ``movmatrix target, source``: each lane gets its elements of the transposed matrix."""
    (target,), read = (
        registers((instruction.operands[0],), 1, instruction),
        reader(instruction.operands[1], "b32", instruction),
    )

    def execute(batch: Batch, lanes: Lanes) -> None:
        words = batch.threads.spread(read(batch, lanes), lanes).copy().reshape(-1, 1, SIDE, ROW // 4)
        batch.registers.write(target.name, _turned(words).ravel(), lanes)

    return of_whole_warps(execute, "movmatrix")


def _rows(batch: Batch, lanes: Lanes, locate: Callable, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the rows of so many matrices, and which of the active lanes give one."""
    addresses = batch.threads.spread(locate(batch, lanes), lanes)
    giving = np.arange(addresses.size, dtype=np.int64) % WARP < SIDE * count
    return addresses[giving], giving


def _turned(matrices: np.ndarray) -> np.ndarray:
    """Return matrices of halves, two in each word, transposed."""
    return np.ascontiguousarray(matrices.view(np.uint16).swapaxes(2, 3)).view(np.uint32)


def _require_apart(batch: Batch, addresses: np.ndarray, rows: int) -> None:
    """Raise Violation where two lanes of a warp store the same row; `rows` lanes of each warp give one."""
    of_warps = addresses.reshape(-1, rows)
    same = np.tril(of_warps[:, :, None] == of_warps[:, None, :], -1).any(axis=2).ravel()
    refuse(
        "race",
        same,
        lambda lane: (
            f"stores a row to {batch.shared.name(int(addresses[lane]))}, where another lane of its warp stores one"
        ),
    )


def products(run: list[Instruction], reader: Callable) -> Step:
    """Decode several ``mma d, a, b, c`` of one kind, none of which needs another's result, as one step."""
    kind = KINDS.get(run[0].opcode)
    for instruction in run:
        reject(instruction, not kind or len(instruction.operands) != 4)
    rows, columns, depth, word = kind.rows, kind.columns, kind.depth, np.dtype(f"u{max(kind.size, 4)}")
    shapes = {"d": (rows, columns), "a": (rows, depth), "b": (depth, columns), "c": (rows, columns)}
    sizes = {"d": kind.sums.itemsize, "a": kind.size, "b": kind.size, "c": kind.adds.itemsize}
    order = {name: _order(name, *shape, sizes[name]) for name, shape in shapes.items()}
    counts = {name: of.size * sizes[name] // (word.itemsize * WARP) for name, of in order.items()}
    operands = [dict(zip("dbac" if kind.turned else "dabc", of.operands, strict=True)) for of in run]
    targets = [registers(of["d"], counts["d"], user) for of, user in zip(operands, run, strict=True)]
    reads, which = {}, {}
    for name in "abc":
        users = {of[name]: user for of, user in zip(operands, run, strict=True)}  # it may be in several products
        places_of = {operand: place for place, operand in enumerate(users)}
        which[name] = [places_of[of[name]] for of in operands]
        given = COPIES if kind.copied and name != "c" else counts[name]
        reads[name] = [
            _alike([reader(of, f"b{8 * word.itemsize}", user) for of in held[first :: counts[name]]], user)
            for held, user in ((parts(operand, given, user), user) for operand, user in users.items())
            for first in range(counts[name])
        ]

    together: dict[int, list[int]] = {}  # the products of each A
    for product, row in enumerate(which["a"]):
        together.setdefault(row, []).append(product)
    alike = len({tuple(which["b"][product] for product in row) for row in together.values()}) == 1
    grids = [np.array([*together.values()])] if alike else [np.array([row]) for row in together.values()]

    def matrices(batch: Batch, lanes: Lanes, name: str) -> np.ndarray:
        """Return the elements of each operand's matrices: one place after the other, for all operands and warps."""
        words = np.stack([batch.threads.spread(read(batch, lanes), lanes) for read in reads[name]])
        elements = words.view(kind.adds) if name == "c" else kind.numbers[name](words)
        of_warps = elements.reshape(-1, counts[name], words.shape[1] // WARP, order[name].size // counts[name])
        matrix = of_warps.transpose(1, 3, 0, 2).reshape(order[name].size, -1, of_warps.shape[2])[order[name]]
        return matrix.reshape(*shapes[name][:: -1 if name == "a" else 1], *matrix.shape[1:])

    def execute(batch: Batch, lanes: Lanes) -> None:
        """Multiply matrices of A, one above the other, by matrices of B, side by side, as these share their factors."""
        a, b, c = (matrices(batch, lanes, name) for name in "abc")
        result = np.empty((rows * columns, len(run), c.shape[3]), kind.sums)
        for grid in grids:
            high, wide = grid.shape
            left = a[:, :, np.array(which["a"])[grid[:, 0]]].swapaxes(1, 2).reshape(depth, rows * high, -1, 1)
            right = b[:, :, np.array(which["b"])[grid[0]]].transpose(0, 3, 2, 1).reshape(depth, 1, -1, columns * wide)
            before = c[:, :, np.array(which["c"])[grid]].transpose(2, 0, 4, 3, 1)
            sums = _added(left, right, before.reshape(rows * high, -1, columns * wide), kind.limited)
            sums = sums.reshape(high, rows, -1, wide, columns).transpose(1, 4, 0, 3, 2)
            result[:, grid] = sums.reshape(rows * columns, high, wide, -1)
        elements = np.empty_like(result)
        elements[order["d"]] = result
        elements = elements.reshape(counts["d"], WARP, -1, len(run), c.shape[3]).transpose(3, 0, 4, 1, 2)
        words = np.ascontiguousarray(elements).view(word)
        for target, values in zip(targets, words.reshape(len(run), counts["d"], -1), strict=True):
            for register, element in zip(target, values, strict=True):
                batch.registers.write(register.name, element, lanes)

    return of_whole_warps(execute, run[0].opcode.partition(".")[0])


def _added(left: np.ndarray, right: np.ndarray, before: np.ndarray, limited: bool) -> np.ndarray:
    """Return `before` plus products, the first axis of whose factors is the depth; integers may be `limited`."""
    if before.dtype == np.int32:
        total = np.einsum("drwx,dywc->rwc", left, right, dtype=np.int32)
        return saturate(before.astype(np.int64) + total, "s32") if limited else before + total
    if before.dtype == np.float64:
        return reduce(lambda total, factors: fma64(*factors, total), zip(left, right, strict=True), before)
    return accumulated(Factors.of(left), Factors.of(right), before.astype(np.float32, copy=False))


def _alike(reads: list[Callable], instruction: Instruction) -> Callable[[Batch, Lanes], np.ndarray]:
    """Return the function that fetches a register, copies of which must have the same value."""

    def fetch(batch: Batch, lanes: Lanes) -> np.ndarray:
        first, *others = (read(batch, lanes) for read in reads)
        if not all(np.array_equal(first, other) for other in others):
            what = f"the copies that a fragment has of its elements differ: {instruction.text}"
            raise UnsupportedInstruction(f"line {instruction.line}: {what}")
        return first

    return fetch


def _order(name: str, rows: int, columns: int, size: int) -> np.ndarray:
    """Return where each element, of so many bytes, of a matrix is among those of a warp's registers, one by one.

    The matrix is counted row by row, but A column by column, as the depth comes first.
    """
    row, column = places(name, rows, columns, size)
    place = column * rows + row if name == "a" else row * columns + column
    return np.argsort(place.reshape(WARP, -1, max(4 // size, 1)).swapaxes(0, 1), axis=None)
