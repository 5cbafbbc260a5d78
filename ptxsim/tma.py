"""Decodes the instructions of the copy engine (TMA): one thread copies a box of a matrix, or a row of bytes.

A row of a box has 128 bytes, and its chunks of 16 bytes are swizzled: bits 4 to 6 of a byte's address in shared memory
are XORed with bits 7 to 9. Elements outside the matrix arrive as zeros, and an mbarrier counts their bytes too. A copy
is counted as one request, with the sectors that it touches. A multicast copy, which several blocks of a cluster receive
at the same place of their memories, is counted once as well: it reads L2 once for all of them, though NVIDIA does not
document how the hardware counts it. Semantics: NVIDIA, "Parallel Thread Execution ISA", "cp.async.bulk",
"cp.async.bulk.tensor" and "Tensors"; "CUDA Driver API", ``cuTensorMapEncodeTiled``.
"""

import re
from collections.abc import Callable

import numpy as np

from .batch import Batch
from .counting import SECTOR
from .execution import Step
from .lanes import Lanes
from .memory import RANK, Buffer, Violation, of_part, refuse
from .ptx import Address, Instruction, unsupported
from .tensor_map import ALIGNMENT, SWIZZLE

TENSOR = re.compile(
    r"cp\.async\.bulk\.tensor\.2d\.shared::(?:cluster|cta)\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
    r"(\.multicast::cluster)?"
)
BULK = re.compile(r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes")


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """Return the addresses with the swizzle of 128 bytes of those without it."""
    return addresses ^ (addresses >> 7 & 7) << 4


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode a copy.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        Methods of `Decoder` that turn an operand into a function.

    Raises
    ------
    UnsupportedInstruction
        The form of the instruction is not known.
    """
    opcode, operands = instruction.opcode, instruction.operands
    if (
        (tensor := TENSOR.fullmatch(opcode))
        and len(operands) == (4 if tensor[1] else 3)
        and isinstance(operands[1], tuple)
    ):
        to, (source, coordinates), barrier, *masks = operands
        if isinstance(coordinates, tuple) and len(coordinates) == 2:
            sizes = [reader(coordinate, "s32", instruction) for coordinate in coordinates]
            places = [address(part, instruction) for part in (to, source, barrier)]
            mask = reader(masks[0], "u16", instruction) if masks else None
            return _copy(instruction, places, sizes, _box, mask)
    elif BULK.fullmatch(opcode) and len(operands) == 4 and isinstance(operands[1], Address):
        to, source, size, barrier = operands
        places = [address(part, instruction) for part in (to, source, barrier)]
        return _copy(instruction, places, [reader(size, "u32", instruction)], _bytes)
    raise unsupported(instruction)


def _copy(
    instruction: Instruction,
    places: list[Callable],
    numbers: list[Callable],
    fetch: Callable,
    mask: Callable | None = None,
) -> Step:
    """Return the step that copies, for each active lane, the bytes that `fetch` reads.

    The destination is in the block of the cluster that its address names, or in those whose bits are set in `mask`.
    """
    line = instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.threads.places(lanes)
        to, source, barrier = (batch.threads.spread(get(batch, lanes), lanes) for get in places)
        values = [batch.threads.spread(read(batch, lanes), lanes).tolist() for read in numbers]
        copies, tally = np.arange(len(who), dtype=np.int64), batch.execution.tallies[line]  # each destination's lane
        if mask:
            bits = batch.threads.spread(mask(batch, lanes), lanes)[:, None] >> np.arange(16, dtype=np.uint16) & 1
            copies, ranks = np.nonzero(bits)
            to, barrier = (at[copies] % (1 << RANK) | ranks.astype(np.uint64) << RANK for at in (to, barrier))
        with of_part(copies):
            told = batch.barriers.find(who[copies], barrier, far=True)
        before = -1
        for lane, goes, place in zip(copies.tolist(), to.tolist(), told.tolist(), strict=True):
            try:
                if lane != before:
                    data, bytes_read, sectors = fetch(batch, int(source[lane]), goes, *(v[lane] for v in values))
                    tally.global_load_requests += 1
                    tally.global_load_bytes += bytes_read
                    tally.global_load_sectors += sectors
                batch.proxy.depart(int(who[lane]), goes, data, place)
            except Violation as violation:
                raise Violation(violation.kind, lane, violation.detail) from None
            batch.tracer.event(line, "copy", who[lane : lane + 1], np.array([goes]))
            tally.shared_store_bytes += len(data)
            before = lane

    return execute


def _box(batch: Batch, source: int, to: int, column: int, row: int) -> tuple[np.ndarray, int, int]:
    """Return a box swizzled as in shared memory, the number of its bytes inside the matrix, and their sectors."""
    refuse(
        "out of bounds",
        source not in batch.execution.maps,
        f"a copy by the tensor map at address {source:#x}, where none is",
    )
    refuse("misaligned", to % SWIZZLE > 0, f"copies a box to byte {to} of shared memory, not a multiple of {SWIZZLE}")
    tensor, buffer = batch.execution.maps[source]
    bytes_ = buffer.data.reshape(tensor.array.shape[0], tensor.pitch)
    first, left = max(row, 0), column * tensor.array.itemsize
    top, start = first - row, max(left, 0)
    part = bytes_[first : max(row + tensor.rows, 0), start : max(left + SWIZZLE, 0)]
    box = np.zeros((tensor.rows, SWIZZLE), np.uint8)
    box[top : top + part.shape[0], start - left : start - left + part.shape[1]] = part
    _require_written(buffer, first, start, part.shape, tensor.pitch)
    chunks = to + np.arange(0, tensor.size, ALIGNMENT, np.int64)
    data = np.empty((len(chunks), ALIGNMENT), np.uint8)
    data[(swizzled(chunks) - to) // ALIGNMENT] = box.reshape(len(chunks), ALIGNMENT)
    begins = buffer.base + (first + np.arange(part.shape[0], dtype=np.int64)) * tensor.pitch + start
    sectors = (begins + part.shape[1] - 1) // SECTOR - begins // SECTOR + 1 if part.shape[1] else np.zeros(0, np.int64)
    return data.reshape(-1), part.size, int(sectors.sum(dtype=np.int64))


def _require_written(buffer: Buffer, top: int, left: int, shape: tuple[int, int], pitch: int) -> None:
    """Raise Violation unless all of the part that begins in row `top`, at byte `left`, has been written."""
    if buffer.written is not None:
        words = buffer.written.reshape(-1, pitch // 4)[top : top + shape[0], left // 4 : -(-(left + shape[1]) // 4)]
        refuse("uninitialised", ~words, f"reads {buffer.name}, of which the box was never written as a whole")


def _bytes(batch: Batch, source: int, to: int, size: int) -> tuple[np.ndarray, int, int]:
    """Return a row of bytes, their number, and their sectors."""
    refuse(
        "misaligned",
        source % ALIGNMENT > 0 or size % ALIGNMENT > 0 or not size,
        f"copies {size} bytes from address {source:#x}, not multiples of {ALIGNMENT}",
    )
    places = source + np.arange(0, size, 4, np.uint64)
    (words,) = batch.execution.memory.load(places, np.dtype(np.uint32), 1)
    return np.ascontiguousarray(words).view(np.uint8), size, (source + size - 1) // SECTOR - source // SECTOR + 1
