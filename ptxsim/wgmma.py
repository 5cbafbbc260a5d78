"""Decodes ``wgmma``: a warpgroup multiplies tiles in shared memory on the tensor cores, asynchronously.

Four warps multiply 64 × 16 by 16 × N, or 64 × 8 by 8 × N of TF32. Each warp holds 16 rows of A and of the sums in its
lanes' registers, with the layout of ``mma.m16n8k16`` or ``mma.m16n8k8`` repeated for each eight columns. So each warp
can be computed on its own. Sums are of float32, or for factors of float16 of float16, two in a register. A comes from
registers or, like B, from shared memory, where a descriptor gives its layout: swizzled by 128 bytes, in atoms of eight
rows of 128 bytes, with rows along K (K-major) or, for types of 16 bits, across it (MN-major). `tensor.accumulated` adds
the products.

Accesses to shared memory are checked as accesses of the whole warp. They are not counted: the tensor cores make them.

The source is NVIDIA's "Parallel Thread Execution ISA", "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions", from "Register Fragments and Shared Memory Matrix Layouts" to "wgmma.wait_group".
"""

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from .batch import Batch
from .execution import Step
from .lanes import Lanes
from .limits import WARP
from .memory import OF_WARP, WIDEST, of_part, refuse
from .mma import KINDS, PLACES, Kind
from .ptx import Immediate, Instruction, Register, reject, unsupported
from .tensor import Factors, accumulated, registers
from .tma import swizzled
from .warps import of_warps, of_whole_warps

GROUP = 128  # threads
ROWS = 16  # of A, per warp
ATOM = 8  # rows of 128 bytes, and chunks in each
CHUNK = 16  # bytes: a row of a product's operand has two

MULTIPLY = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(16(?!\.f32\.t)|8(?=\.f32\.t))\.(f\d\d)\.(\w+)\.\4")
FENCE, COMMIT, WAIT = (f"wgmma.{name}.sync.aligned" for name in ("fence", "commit_group", "wait_group"))


def flops(opcode: str) -> int:
    """Return the floating-point operations per thread."""
    match = MULTIPLY.fullmatch(opcode)
    return 2 * 64 * int(match[1]) * int(match[2]) // GROUP if match else 0


def step(instruction: Instruction, reader: Callable, _address: Callable) -> Step:
    """Decode one of this module's instructions.

    Parameters
    ----------
    instruction : Instruction
    reader, _address : callable
        Methods of `Decoder` that turn an operand into a function. The only addresses are in descriptors.

    Raises
    ------
    UnsupportedInstruction
        The shape or the type is not known.
    """
    opcode, operands = instruction.opcode, instruction.operands
    reject(instruction, instruction.guard)
    if opcode == FENCE and not operands:
        return of_whole_warps(_fence, "wgmma")
    if opcode == COMMIT and not operands:
        return of_whole_warps(partial(_commit, instruction.line), "wgmma")
    if opcode == WAIT and len(operands) == 1 and isinstance(operands[0], Immediate) and operands[0].value >= 0:
        return of_whole_warps(partial(_wait, instruction.line, operands[0].value), "wgmma")
    match = MULTIPLY.fullmatch(opcode)
    kind = match and KINDS.get("mma.sync.aligned.m16n8k{1}.row.col.{2}.{3}.{3}.{2}".format(*match.groups()))
    if kind and int(match[1]) in range(8, 257, 8) and len(operands) >= 6:
        return _multiply(instruction, reader, int(match[1]), kind)
    raise unsupported(instruction)


def _fence(batch: Batch, lanes: Lanes) -> None:
    batch.accumulators.ordered[batch.threads.places(lanes)] = True


def _commit(line: int, batch: Batch, lanes: Lanes) -> None:
    batch.tracer.event(line, "commit products", lanes)
    batch.accumulators.commit(batch.threads.places(lanes))


def _wait(line: int, pending: int, batch: Batch, lanes: Lanes) -> None:
    batch.tracer.event(line, "wait for products", lanes, pending=pending)
    batch.accumulators.wait(batch.threads.places(lanes), pending, batch.registers.values)


def _multiply(instruction: Instruction, reader: Callable, columns: int, kind: Kind) -> Step:
    """Decode ``mma_async {d}, a, b, add, 1, 1, ...``.

    A is a descriptor or four registers. For types of 16 bits, a flag per descriptor follows: whether it is MN-major.
    """
    d, a, b, add, *immediates = instruction.operands
    in_registers = isinstance(a, tuple)
    described = 1 if in_registers else 2  # operands in shared memory
    reject(instruction, not all(isinstance(value, Immediate) for value in immediates))
    values = [value.value for value in immediates]
    factors, majors = values[:2], values[2:] if kind.size == 2 else [*values[2:], *[0] * described]
    reject(
        instruction,
        factors != [1, 1] or len(majors) != described or not set(majors) <= {0, 1} or not isinstance(b, Register),
    )
    adds = reader(add, "pred", instruction)
    descriptors = [reader(operand, "b64", instruction) for operand in (*(() if in_registers else (a,)), b)]
    size = kind.sums.itemsize
    sums = [register.name for register in registers(d, columns * size // 8, instruction)]
    fragment = [register.name for register in registers(a, 4, instruction)] if in_registers else []
    line, depth = instruction.line, kind.depth

    def matrix(batch: Batch, lanes: Lanes, which: int, count: int, first: np.ndarray) -> np.ndarray:
        """Return each warp's matrix from row `first` on, as its descriptor names it: shape (warps, count, depth)."""
        detail = "has another descriptor than its warp's first lane"
        given = of_warps(batch, lanes, descriptors[which](batch, lanes), detail)
        across = bool(majors[which - len(descriptors)])
        addresses = _addresses(given, across, count, first, instruction)
        heads = np.repeat(batch.threads.places(lanes)[::WARP], addresses[0].size)
        flat = addresses.reshape(-1).astype(np.uint64) + batch.spaces.window[heads]
        thread = batch.threads.thread[heads] | OF_WARP
        with of_part(np.repeat(np.arange(0, WARP * len(given), WARP, np.int64), addresses[0].size)):
            (chunks,) = batch.shared.load(flat, batch.threads.block[heads], thread, WIDEST, 1)
            offsets = batch.threads.block[heads] * batch.shared.pitch + addresses.reshape(-1)
            batch.accumulators.read(batch.proxy.begin(heads, offsets, flat))
        elements = kind.numbers["a"](chunks.view(np.uint32).reshape(-1, CHUNK // 4))
        if across:
            return elements.reshape(len(given), depth, count).transpose(0, 2, 1)
        return elements.reshape(len(given), count, depth)

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.threads.places(lanes)
        refuse(
            "divergence",
            batch.threads.thread[who] // GROUP >= batch.execution.threads // GROUP,
            "is of a warpgroup that lacks warps",
        )
        keep = of_warps(batch, lanes, adds(batch, lanes), "adds where its warp does not")
        heads = who[::WARP]
        if in_registers:
            held = batch.accumulators.hold(fragment, batch.registers.values, who, line)
            rows, places = PLACES["a", kind.size]
            factors = kind.numbers["a"](np.ascontiguousarray(held.table[:, who].T)).reshape(-1, *rows.shape)
            left = np.empty((depth, ROWS, len(heads)), factors.dtype)
            left[places, rows] = factors.transpose(1, 2, 0)
        else:
            first = batch.threads.thread[heads] // WARP % 4 * ROWS
            left = matrix(batch, lanes, 0, ROWS, first).transpose(2, 1, 0)
        right = matrix(batch, lanes, len(descriptors) - 1, columns, np.zeros(len(heads), np.int64)).transpose(2, 0, 1)
        held = batch.accumulators.hold(sums, batch.registers.values, who, line)
        rows, places = PLACES["c"]
        before = np.empty((ROWS, len(heads), columns // 8, 8), np.float32)
        elements = held.table.take(who, axis=1).view(kind.sums).reshape(columns // 8, size, len(heads), WARP, 4 // size)
        before[rows, :, :, places] = elements.transpose(3, 1, 4, 2, 0).reshape(WARP, 4, len(heads), -1)
        before[:, ~keep] = 0
        before = before.reshape(ROWS, len(heads), columns)
        result = accumulated(Factors.of(left[..., None]), Factors.of(right[:, None]), before)
        spread = result.reshape(ROWS, len(heads), columns // 8, 8)[rows, :, :, places].astype(kind.sums)
        spread = spread.reshape(WARP, size, 4 // size, len(heads), -1).transpose(4, 1, 3, 0, 2)
        held.table[:, who] = np.ascontiguousarray(spread.reshape(len(sums), -1)).view(np.uint32)
        first = batch.threads.spread(descriptors[0](batch, lanes), lanes)
        batch.tracer.event(line, "multiply", lanes, (first & np.uint64(0x3FFF)) << np.uint64(4))

    return of_whole_warps(execute, "wgmma")


def _addresses(
    descriptors: np.ndarray, across: bool, count: int, first: np.ndarray, instruction: Instruction
) -> np.ndarray:
    """Return, for each descriptor, the addresses of the chunks of `count` rows of a matrix, from row `first` on.

    A row has two chunks; or, `across`, each of 16 columns has a chunk for every eight rows.
    """
    start, leading, stride = (
        ((descriptors >> np.uint64(bit)) & np.uint64(0x3FFF)).astype(np.int64) << 4 for bit in (0, 16, 32)
    )
    swizzle, base = descriptors >> np.uint64(62), (descriptors >> np.uint64(49)) & np.uint64(7)
    reject(instruction, (swizzle != 1).any() or base.any())
    start, leading, stride, first = (value[:, None, None] for value in (start, leading, stride, first))
    if across:
        k, chunk = np.arange(16, dtype=np.int64)[:, None], first // 8 + np.arange(count // 8, dtype=np.int64)
        places = chunk // ATOM * leading + chunk % ATOM * CHUNK + k // ATOM * stride + k % ATOM * ATOM * CHUNK
    else:
        row, chunk = first + np.arange(count, dtype=np.int64)[:, None], np.arange(2, dtype=np.int64)
        places = row // ATOM * stride + row % ATOM * ATOM * CHUNK + chunk * CHUNK
    return swizzled(start + places)
