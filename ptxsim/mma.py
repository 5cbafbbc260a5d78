"""Decodes ``mma.sync``, which multiplies on the tensor cores, and ``ldmatrix`` and ``stmatrix``, which move fragments.

PTX documents which lane holds which element, and kernels rely on it. A matrix of 8 × 8 halves is eight rows of 16 bytes
in shared memory, each at an address that one lane gives. Lane 4i + j holds elements 2j and 2j + 1 of row i, or of
column i if the matrix is transposed. `tensor.accumulated` adds the products. All lanes of a warp take part in
each of the three instructions. PTX does not say which lane moves which bytes, so for the race check the whole warp
loads and stores every row.

The sources are NVIDIA's: "Parallel Thread Execution ISA", 9.7.14.5, "mma", "Matrix Fragments for mma.m16n8k4" to
"mma.m16n8k32", "Warp-level matrix load instruction: ldmatrix" and "Warp-level matrix store instruction: stmatrix"; the
last is for compute capability 9.0 and later. A 32-bit register holds a TF32 number, and its lower 13 bits are ignored;
tensor cores cut them off (P. Xie et al., "MMA-Sim", arXiv:2511.10909, 2025).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .batch import Batch
from .execution import Step
from .lanes import Lanes
from .limits import WARP
from .memory import WIDEST, of_part, refuse
from .ptx import DTYPES, Instruction, reject, unsupported
from .tensor import (
    Factors,
    accumulated,
    of_bf16,
    of_fp16,
    parts,
    registers,
)
from .warps import of_whole_warps

SIDE = 8  # rows of a matrix that ldmatrix moves, and halves in each
ROW = 16  # bytes of such a row

MOVE = re.compile(
    r"(ld|st)matrix\.sync\.aligned(?=.*\.m8n8)(?!.*m8n8.*m8n8)(?:\.m8n8)?\.x([124])(?:\.m8n8)?(\.trans)?(?:\.m8n8)?"
    r"\.shared(?:::cta)?\.b16"
)
MULTIPLY = re.compile(r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.([fs]32|f16)\.(\w+)\.\3\.\2")

_lane = np.arange(WARP, dtype=np.int64)[:, None]
_group, _member = _lane // 4, _lane % 4
_half, _byte = np.arange(2, dtype=np.int64), np.arange(4, dtype=np.int64)


def _quarters(down: tuple[int, ...], across: tuple[int, ...], row: np.ndarray, column: np.ndarray) -> tuple:
    """Return rows and columns of each lane's elements: those of one quarter, repeated at each of several places."""
    rows = np.concatenate([row + 0 * column + place for place in down], axis=1)
    return rows, np.concatenate([column + 0 * row + place for place in across], axis=1)


_pair = 2 * _member + _half
PLACES = {
    "c": _quarters((0, 8), (0, 0), _group, _pair),
    ("a", 2): _quarters((0, 8, 0, 8), (0, 0, 8, 8), _group, _pair),
    ("b", 2): _quarters((0, 8), (0, 0), _pair, _group),
    ("a", 4): _quarters((0, 8, 0, 8), (0, 0, 4, 4), _group, _member),
    ("b", 4): _quarters((0, 4), (0, 0), _member, _group),
    ("a", 1): _quarters((0, 8, 0, 8), (0, 0, 16, 16), _group, 4 * _member + _byte),
    ("b", 1): _quarters((0, 16), (0, 0), 4 * _member + _byte, _group),
}
"""Rows and columns of each lane's elements, in the order of its registers: two arrays of shape (32, elements).

The key is the matrix and, for a and b, the bytes of an element; "c" stands for d too. Of half the depth, a lane has the
first half of the elements.
"""


@dataclass(frozen=True)
class Kind:
    """The operands of an ``mma``: their depth, the bytes of an element, and the function that decodes words to numbers.

    A is 16 × depth, B is depth × 8, and C and D are 16 × 8, of the type of the sums. Those of float16 lie two in a
    register, and the sum in float32 is rounded to nearest.
    """

    depth: int
    size: int
    numbers: Callable[[np.ndarray], np.ndarray]
    sums: np.dtype

    @property
    def flops(self) -> int:
        """Floating-point operations per thread."""
        return 2 * 16 * 8 * self.depth // WARP


FLOATS = {
    "f16": (2, of_fp16),
    "bf16": (2, of_bf16),
    "tf32": (4, lambda words: (words & np.uint32(0xFFFFE000)).view(np.float32)),
}
INTEGERS = {"s8": (1, lambda words: words.view(np.int8)), "u8": (1, lambda words: words.view(np.uint8))}
KINDS = {
    (str(width // of[0]), sums, name): Kind(width // of[0], *of, DTYPES[sums])
    for kinds, sums in ((FLOATS, "f32"), ({"f16": FLOATS["f16"]}, "f16"), (INTEGERS, "s32"))
    for name, of in kinds.items()
    for width in (32, 16)  # bytes of a row of A
}
"""The kinds by depth, and the types of sums and of factors."""


def flops(opcode: str) -> int:
    """Return the floating-point operations per thread."""
    match = MULTIPLY.fullmatch(opcode)
    return KINDS[match.groups()].flops if match else 0


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
    if (match := MOVE.fullmatch(instruction.opcode)) and len(instruction.operands) == 2:
        count, transposed = int(match[2]), bool(match[3])
        if match[1] == "ld":
            return _load(instruction, address, count, transposed)
        return _store(instruction, reader, address, count, transposed)
    if instruction.opcode.startswith("mma."):
        return products([instruction], reader)
    raise unsupported(instruction)


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
        held = rows.view(np.uint32).reshape(-1, count, SIDE, ROW // 4)
        if transposed:
            held = _turned(held)
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
        held = np.ascontiguousarray(words.reshape(-1, WARP, count).transpose(0, 2, 1))
        held = held.reshape(-1, count, SIDE, ROW // 4)
        if transposed:
            held = _turned(held)
        addresses, giving = _rows(batch, lanes, locate, count)
        with of_part(np.flatnonzero(giving)):
            who = batch.threads.among(lanes, giving)
            _require_apart(batch, addresses, SIDE * count)
            batch.spaces.store("shared", addresses, who, list(held.reshape(-1, ROW // 4).T), as_warp=True)
        batch.counter.count(line, "shared", "store", addresses, who, ROW)
        batch.tracer.access(line, "shared", "store", addresses, who, ROW)

    return of_whole_warps(execute, "stmatrix")


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
    match = MULTIPLY.fullmatch(run[0].opcode)
    for instruction in run:
        reject(instruction, not match or match.groups() not in KINDS or len(instruction.operands) != 4)
    kind = KINDS[match.groups()]
    shapes = {"a": (16, kind.depth), "b": (kind.depth, 8), "c": (16, 8)}
    sizes = {"a": kind.size, "b": kind.size, "c": kind.sums.itemsize}
    counts = {name: rows * columns * sizes[name] // 4 // WARP for name, (rows, columns) in shapes.items()}
    targets = [registers(instruction.operands[0], counts["c"], instruction) for instruction in run]
    reads, which = {}, {}
    for name, place in zip("abc", (1, 2, 3), strict=True):
        users = {
            instruction.operands[place]: instruction for instruction in run
        }  # an operand may be in several products
        rows = {operand: row for row, operand in enumerate(users)}
        which[name] = [rows[instruction.operands[place]] for instruction in run]
        reads[name] = [
            reader(part, "b32", user) for operand, user in users.items() for part in parts(operand, counts[name], user)
        ]

    order = {name: _order(name, sizes[name], shape) for name, shape in shapes.items()}
    together: dict[int, list[int]] = {}  # the products of each A
    for product, row in enumerate(which["a"]):
        together.setdefault(row, []).append(product)
    alike = len({tuple(which["b"][product] for product in row) for row in together.values()}) == 1
    grids = [np.array([*together.values()])] if alike else [np.array([row]) for row in together.values()]

    def matrices(batch: Batch, lanes: Lanes, name: str) -> np.ndarray:
        """Return the elements of each operand's matrices: one place after the other, for all operands and warps."""
        words = np.stack([batch.threads.spread(read(batch, lanes), lanes) for read in reads[name]])
        elements = words.view(kind.sums) if name == "c" else kind.numbers(words)
        of_warps = elements.reshape(-1, counts[name], words.shape[1] // WARP, order[name].size // counts[name])
        matrix = of_warps.transpose(1, 3, 0, 2).reshape(order[name].size, -1, of_warps.shape[2])[order[name]]
        return matrix.reshape(*shapes[name][:: -1 if name == "a" else 1], *matrix.shape[1:])

    def execute(batch: Batch, lanes: Lanes) -> None:
        """Multiply matrices of A, one above the other, by matrices of B, side by side, as these share their factors."""
        a, b, c = (matrices(batch, lanes, name) for name in "abc")
        result = np.empty((128, len(run), c.shape[3]), kind.sums)
        for grid in grids:
            high, wide = grid.shape
            left = a[:, :, np.array(which["a"])[grid[:, 0]]].swapaxes(1, 2).reshape(kind.depth, 16 * high, -1, 1)
            right = b[:, :, np.array(which["b"])[grid[0]]].transpose(0, 3, 2, 1).reshape(kind.depth, 1, -1, 8 * wide)
            before = c[:, :, np.array(which["c"])[grid]].transpose(2, 0, 4, 3, 1).reshape(16 * high, -1, 8 * wide)
            if kind.sums == np.int32:
                sums = before + np.einsum("drwx,dywc->rwc", left, right, dtype=np.int32)
            else:
                sums = accumulated(Factors.of(left), Factors.of(right), before.astype(np.float32, copy=False))
            sums = sums.reshape(high, 16, -1, wide, 8).transpose(1, 4, 0, 3, 2)
            result[:, grid] = sums.reshape(128, high, wide, -1)
        elements = np.empty_like(result)
        elements[order["c"]] = result
        elements = elements.reshape(counts["c"], WARP, -1, len(run), c.shape[3]).transpose(3, 0, 4, 1, 2)
        words = np.ascontiguousarray(elements).view(np.uint32)
        for target, values in zip(targets, words.reshape(len(run), counts["c"], -1), strict=True):
            for register, element in zip(target, values, strict=True):
                batch.registers.write(register.name, element, lanes)

    return of_whole_warps(execute, "mma")


def _order(name: str, size: int, shape: tuple[int, int]) -> np.ndarray:
    """Return where each element, of so many bytes, of a matrix is among those of a warp's registers, one by one.

    The matrix is counted row by row, but A column by column, as the depth comes first.
    """
    every = PLACES["c" if name == "c" else (name, size)]
    rows, columns = (of[:, : shape[0] * shape[1] // WARP] for of in every)
    places = columns * shape[0] + rows if name == "a" else rows * shape[1] + columns
    return np.argsort(places.reshape(WARP, -1, 4 // size).swapaxes(0, 1), axis=None)
