"""Decodes shuffles within a warp, atomic additions to global memory, and memory fences.

Lanes that add to the same word do so one after the other, in the order of their blocks and threads in the batch. The
hardware promises no order, and a correct kernel needs none. A fence orders a thread's accesses as other threads see
them, and so does an addition that acquires and releases. Here every access is visible to all threads at once, so a
fence does nothing, and a missing fence is not found. Semantics: NVIDIA, "Parallel Thread Execution ISA",
"shfl.sync", "atom" and "membar".
"""

from collections.abc import Callable

import numpy as np

from .batch import Batch
from .execution import Step
from .lanes import Lanes
from .limits import WARP
from .memory import Violation
from .ptx import Instruction, Register, unsupported

FROM = {"shfl.sync.bfly.b32": np.bitwise_xor, "shfl.sync.idx.b32": lambda lane, of: of % WARP}
"""For each shuffle, the lane that a lane reads from, given its own number and the third operand."""

ADDITIONS = ("atom.global.add.u32", "atom.add.acq_rel.gpu.u32")


def kind(opcode: str) -> str:
    """Return the instruction's class for the counters."""
    return {"shfl": "shuffle", "atom": "atomic", "membar": "fence"}[opcode.partition(".")[0]]


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step | None:
    """Decode one of this module's instructions; None where it has no effect.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        Methods of `Decoder` that turn an operand into a function.

    Raises
    ------
    UnsupportedInstruction
        The instruction, or one of its operands, is not known.
    """
    if instruction.opcode in FROM:
        return _shuffle(instruction, reader)
    if instruction.opcode == "membar.gl":
        return None
    if instruction.opcode in ADDITIONS:
        return _atomic(instruction, reader, address)
    raise unsupported(instruction)


def _shuffle(instruction: Instruction, reader: Callable) -> Step:
    """Decode ``shfl.sync result|valid, value, of, clamp, mask`` of a whole warp: clamp is 31, mask all ones."""
    if len(instruction.operands) != 5 or instruction.guard:
        raise unsupported(instruction)
    target, *sources = instruction.operands
    result, valid = target if isinstance(target, tuple) else (target, None)
    if not isinstance(result, Register):
        raise unsupported(instruction)
    value, of, clamp, mask = (reader(source, "b32", instruction) for source in sources)
    source_of = FROM[instruction.opcode]

    def execute(batch: Batch, lanes: Lanes) -> None:
        given, wanted = (batch.threads.spread(read(batch, lanes), lanes) for read in (value, of))
        slots = batch.threads.slot if lanes is None else batch.threads.slot[lanes]  # a warp's lanes in a row
        if (clamp(batch, lanes) != WARP - 1).any() or (mask(batch, lanes) != 2**WARP - 1).any():
            raise unsupported(instruction)
        place = np.arange(slots.size, dtype=np.int64)
        first = place // WARP * WARP  # of each lane's warp, if all of them are there
        there = slots == slots[first] // WARP * WARP + place % WARP
        if slots.size % WARP or not there.all():
            lane = first[-1 if there.all() else np.argmin(there)]
            raise Violation("shuffle", lane, "a shuffle of a warp whose lanes are not all there")
        batch.join(lanes)
        batch.registers.write(result.name, given[first + source_of(slots % WARP, wanted).astype(np.int64)], lanes)
        if valid:
            batch.registers.write(valid.name, np.ones(1, bool), lanes)

    return execute


def _atomic(instruction: Instruction, reader: Callable, address: Callable) -> Step:
    """Decode an addition to global memory: ``found, [address], value``."""
    if len(instruction.operands) != 3 or not isinstance(instruction.operands[0], Register):
        raise unsupported(instruction)
    target, where, added = instruction.operands
    locate, read = address(where, instruction), reader(added, "u32", instruction)

    def execute(batch: Batch, lanes: Lanes) -> None:
        addresses, numbers = (batch.threads.spread(get(batch, lanes), lanes) for get in (locate, read))
        batch.registers.write(target.name, batch.execution.memory.add_to(addresses, numbers), lanes)

    return execute
