"""The copy engine (TMA): one thread has a box of a matrix, or a row of bytes, copied into shared memory.

Of a box of 128 bytes to a row, chunks of 16 bytes change places: bits 4 to 6 of a byte's address in shared memory are
XORed with its bits 7 to 9. What lies outside the matrix comes as zeros, and counts among the bytes that an mbarrier is
told of. A copy is counted as one request, with the sectors that it touches. So is one that several blocks of a cluster
get, each at the same place of its memory and told of by its mbarrier at the same place; that L2 is read once for all is
what the instruction is for, though NVIDIA does not document how it is counted. Semantics: NVIDIA, "Parallel
Thread Execution ISA", "cp.async.bulk", "cp.async.bulk.tensor" and "Tensors"; "CUDA Driver API",
``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .batch import Batch, Lanes, Step, of_part
from .counting import SECTOR
from .memory import RANK, Buffer, Violation
from .ptx import Address, Instruction, unsupported
from .tensor_map import ALIGNMENT, SWIZZLE

TENSOR = re.compile(
    r"cp\.async\.bulk\.tensor\.2d\.shared::(?:cluster|cta)\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
    r"(\.multicast::cluster)?"
)
BULK = re.compile(r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes")


def kind(_opcode: str) -> str:
    """Return the instruction's class for the counters."""
    return "copy"


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """Return where in shared memory lies what would lie there without the swizzle of 128 bytes."""
    return addresses ^ (addresses >> 7 & 7) << 4


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode a copy.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        What makes functions of operands: `Decoder`'s methods.

    Raises
    ------
    UnsupportedInstruction
        Another form than a kernel of this book uses.
    """
    opcode, operands = instruction.opcode, instruction.operands
    tensor = TENSOR.fullmatch(opcode)
    if tensor and len(operands) == (4 if tensor[1] else 3) and isinstance(operands[1], tuple):
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
    """Return what copies for each active lane what `fetch` makes of the source's address and the numbers.

    It goes to the block of its cluster that the address names, or to those whose bits are set in `mask`.
    """
    line = instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.places(lanes)
        to, source, barrier = (batch.spread(get(batch, lanes), lanes) for get in places)
        values = [batch.spread(read(batch, lanes), lanes).tolist() for read in numbers]
        copies, tally = np.arange(len(who)), batch.launch.tallies[line]  # the lane of each destination
        if mask:
            bits = batch.spread(mask(batch, lanes), lanes)[:, None] >> np.arange(16, dtype=np.uint16) & 1
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
                batch.tiles.depart(int(who[lane]), goes, data, place)
            except Violation as violation:
                raise Violation(violation.kind, lane, violation.detail) from None
            batch.note(line, "copy", who[lane : lane + 1], np.array([goes]))
            tally.shared_store_bytes += len(data)
            before = lane

    return execute


def _box(batch: Batch, source: int, to: int, column: int, row: int) -> tuple[np.ndarray, int, int]:
    """Return a box as it is to lie in shared memory, the bytes of it that are in the matrix, and their sectors."""
    if source not in batch.launch.maps:
        raise Violation("out of bounds", 0, f"a copy by the tensor map at address {source:#x}, where none is")
    if to % SWIZZLE:
        raise Violation("misaligned", 0, f"copies a box to byte {to} of shared memory, not a multiple of {SWIZZLE}")
    tensor, buffer = batch.launch.maps[source]
    bytes_ = buffer.data.reshape(tensor.array.shape[0], tensor.pitch)
    first, left = max(row, 0), column * tensor.array.itemsize
    top, start = first - row, max(left, 0)
    part = bytes_[first : max(row + tensor.rows, 0), start : max(left + SWIZZLE, 0)]
    box = np.zeros((tensor.rows, SWIZZLE), np.uint8)
    box[top : top + part.shape[0], start - left : start - left + part.shape[1]] = part
    _require_written(buffer, first, start, part.shape, tensor.pitch)
    chunks = to + np.arange(0, tensor.size, ALIGNMENT)
    data = np.empty((len(chunks), ALIGNMENT), np.uint8)
    data[(swizzled(chunks) - to) // ALIGNMENT] = box.reshape(len(chunks), ALIGNMENT)
    begins = buffer.base + (first + np.arange(part.shape[0])) * tensor.pitch + start
    sectors = (begins + part.shape[1] - 1) // SECTOR - begins // SECTOR + 1 if part.shape[1] else np.zeros(0, np.int64)
    return data.reshape(-1), part.size, int(sectors.sum())


def _require_written(buffer: Buffer, top: int, left: int, shape: tuple[int, int], pitch: int) -> None:
    """Raise Violation where nothing has written a part of a matrix that begins in row `top`, at byte `left`."""
    if buffer.written is not None:
        words = buffer.written.reshape(-1, pitch // 4)[top : top + shape[0], left // 4 : -(-(left + shape[1]) // 4)]
        if not words.all():
            raise Violation("uninitialised", 0, f"reads {buffer.name}, of which the box was never written as a whole")


def _bytes(batch: Batch, source: int, to: int, size: int) -> tuple[np.ndarray, int, int]:
    """Return a row of bytes, their number, and their sectors."""
    if source % ALIGNMENT or size % ALIGNMENT or not size:
        raise Violation("misaligned", 0, f"copies {size} bytes from address {source:#x}, not multiples of {ALIGNMENT}")
    places = source + np.arange(0, size, 4, np.uint64)
    (words,) = batch.launch.memory.load(places, np.dtype(np.uint32), 1)
    return np.ascontiguousarray(words).view(np.uint8), size, (source + size - 1) // SECTOR - source // SECTOR + 1
