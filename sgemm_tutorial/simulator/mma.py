"""The tensor cores as PTX itself drives them: ``ldmatrix`` loads 8 × 8 matrices, ``mma.sync`` multiplies fragments.

Here it is documented which lane has which element, and kernels rely on it. A matrix of 8 × 8 halves is eight rows of
16 bytes, each at an address that one lane gives; lane 4i + j gets elements 2j and 2j + 1 of row i, or, transposed, of
column i. Products are added as `tensor.multiply_accumulate` says. All lanes of a warp take part in both.

The sources are NVIDIA's: "Parallel Thread Execution ISA", "ldmatrix", "mma" and "Matrix Fragments for mma.m16n8k8" and
"mma.m16n8k16". Of TF32 it says that a 32-bit register holds it and that its lower 13 bits are of no account; tensor
cores cut them off (P. Xie et al., "MMA-Sim", arXiv:2511.10909, 2025).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..hardware import WARP
from .batch import Batch, Lanes, Step
from .memory import Violation
from .ptx import Instruction, Operand, Register, unsupported
from .tensor import CHUNK, multiply_accumulate, of_bf16, of_fp16, owners, require_whole

SIDE = 8  # rows of a matrix that ldmatrix loads, and halves in each
ROW = 16  # bytes of such a row

LOAD = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16")
MULTIPLY = re.compile(r"mma\.sync\.aligned\.m16n8k(16|8)\.row\.col\.f32\.(f16|bf16|tf32)\.\2\.f32")

_lane = np.arange(WARP)[:, None]
_group, _member = _lane // 4, _lane % 4
_half = np.arange(2)


def _quarters(down: tuple[int, ...], across: tuple[int, ...], row: np.ndarray, column: np.ndarray) -> tuple:
    """Return rows and columns of each lane's elements: those of one 8 × 8 or 8 × 4, in several places one by one."""
    rows = np.concatenate([row + 0 * column + place for place in down], axis=1)
    return rows, np.concatenate([column + 0 * row + place for place in across], axis=1)


_pair = 2 * _member + _half
PLACES = {
    "c": _quarters((0, 8), (0, 0), _group, _pair),
    ("a", 2): _quarters((0, 8, 0, 8), (0, 0, 8, 8), _group, _pair),
    ("b", 2): _quarters((0, 8), (0, 0), _pair, _group),
    ("a", 4): _quarters((0, 8, 0, 8), (0, 0, 4, 4), _group, _member),
    ("b", 4): _quarters((0, 4), (0, 0), _member, _group),
}
"""Row and column in its matrix of each lane's elements, in the registers' order: two arrays of shape (32, elements).

By the matrix, and for a and b by the bytes of an element; "c" is d's too.
"""


@dataclass(frozen=True)
class Kind:
    """What an ``mma`` multiplies: the depth of the products, bytes of an element, and what makes numbers of words.

    A's matrix is 16 × depth, B's depth × 8, and C and D are 16 × 8.
    """

    depth: int
    size: int
    numbers: Callable[[np.ndarray], np.ndarray]

    @property
    def flops(self) -> int:
        """Floating-point operations per thread."""
        return 2 * 16 * 8 * self.depth // WARP


KINDS = {
    ("16", "f16"): Kind(16, 2, of_fp16),
    ("16", "bf16"): Kind(16, 2, of_bf16),
    ("8", "tf32"): Kind(8, 4, lambda words: (words & np.uint32(0xFFFFE000)).view(np.float32)),
}


def knows(opcode: str) -> bool:
    """Whether an instruction is one of this module's."""
    return opcode.startswith(("ldmatrix.", "mma."))


def kind(opcode: str) -> str:
    """Return the instruction's class for the counters."""
    return "tensor" if opcode.startswith("mma.") else "shared load"


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
        What makes functions of operands: `Code`'s methods.

    Raises
    ------
    UnsupportedInstruction
        Another shape or type than a kernel of this book uses.
    """
    if (match := LOAD.fullmatch(instruction.opcode)) and len(instruction.operands) == 2:
        return _load(instruction, address, int(match[1]), bool(match[2]))
    match = MULTIPLY.fullmatch(instruction.opcode)
    if match and match.groups() in KINDS and len(instruction.operands) == 4:
        return _multiply(instruction, reader, KINDS[match.groups()])
    raise unsupported(instruction)


def _load(instruction: Instruction, address: Callable, count: int, transposed: bool) -> Step:
    """Decode ``ldmatrix {registers}, [address]``: of `count` matrices, lane 8i + j gives the address of i's row j."""
    target, where = instruction.operands
    registers = _registers(target, count, instruction)
    locate, line, rows = address(where, instruction), instruction.line, SIDE * count

    def execute(batch: Batch, lanes: Lanes) -> None:
        try:
            require_whole(batch, lanes)
            addresses = batch.spread(locate(batch, lanes), lanes)
            giving = np.arange(addresses.size) % WARP < rows
            addresses, giving = addresses[giving], batch.among(lanes, giving)
            words = batch.shared.load(addresses, *owners(batch, giving), np.dtype(np.uint32), ROW // 4)
        except Violation as violation:
            raise batch.fault(violation, instruction, lanes) from None
        batch.tally(line, "shared", "load", addresses, giving, ROW)
        batch.trace(line, "shared", "load", addresses, giving, ROW)
        held = np.stack(words, axis=1).reshape(-1, count, SIDE, ROW // 4)
        if transposed:
            halves = held.view(np.uint16).transpose(0, 1, 3, 2)
            held = np.ascontiguousarray(halves).view(np.uint32)
        for i, register in enumerate(registers):
            batch.write(register.name, held[:, i].ravel(), lanes)

    return execute


def _multiply(instruction: Instruction, reader: Callable, kind: Kind) -> Step:
    """Decode ``mma d, a, b, c``."""
    shapes = {"a": (16, kind.depth), "b": (kind.depth, 8), "c": (16, 8)}
    sizes = {name: 4 if name == "c" else kind.size for name in shapes}
    counts = {name: rows * columns * sizes[name] // 4 // WARP for name, (rows, columns) in shapes.items()}
    target = _registers(instruction.operands[0], counts["c"], instruction)
    reads = {
        name: [reader(part, "b32", instruction) for part in _parts(operand, counts[name], instruction)]
        for name, operand in zip("abc", instruction.operands[1:], strict=True)
    }

    def matrix(batch: Batch, lanes: Lanes, name: str) -> np.ndarray:
        words = np.stack([batch.spread(read(batch, lanes), lanes) for read in reads[name]], axis=1)
        elements = words.view(np.float32) if name == "c" else kind.numbers(words)
        held = np.empty((len(elements) // WARP, *shapes[name]), elements.dtype)
        rows, columns = PLACES["c" if name == "c" else (name, kind.size)]
        held[:, rows, columns] = elements.reshape(-1, *rows.shape)
        return held

    def execute(batch: Batch, lanes: Lanes) -> None:
        try:
            require_whole(batch, lanes)
        except Violation as violation:
            raise batch.fault(violation, instruction, lanes) from None
        a, b, c = (matrix(batch, lanes, name) for name in "abc")
        result = np.empty(c.shape, np.float32)
        for first in range(0, len(c), CHUNK):
            part = slice(first, first + CHUNK)
            result[part] = multiply_accumulate(a[part], b[part], c[part])
        rows, columns = PLACES["c"]
        elements = result[:, rows, columns].reshape(-1, len(target))
        for register, element in zip(target, elements.T, strict=True):
            batch.write(register.name, np.ascontiguousarray(element), lanes)

    return execute


def _parts(operand: Operand, count: int, instruction: Instruction) -> tuple[Operand, ...]:
    """Return the parts of a vector of so many registers or constants."""
    if not isinstance(operand, tuple) or len(operand) != count:
        raise unsupported(instruction)
    return operand


def _registers(operand: Operand, count: int, instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers of a vector of so many, which are to be written."""
    parts = _parts(operand, count, instruction)
    if not all(isinstance(part, Register) for part in parts):
        raise unsupported(instruction)
    return parts
