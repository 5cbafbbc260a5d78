"""Decodes atomic operations on global and shared memory, and memory fences.

Lanes that change the same word do so one after the other, in the order of their blocks and threads in the batch. The
hardware promises no order, and a correct kernel needs none. Semantics: NVIDIA, "Parallel Thread Execution ISA", "atom",
"red" and "membar".
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .batch import Batch
from .execution import Step
from .functions import FUNCTIONS
from .lanes import Lanes
from .memory import of_part, require_aligned
from .ptx import DTYPES, Address, Instruction, Register, Symbol, reject
from .rounding import least, most
from .spaces import CLUSTER

ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "cluster", "gpu", "sys")
SPACES = ("global", "shared", "shared::cta", CLUSTER)
VECTORS = ("v2", "v4", "v8")

HALVES = {f"{kind}{packed}": f"b{bits}" for kind in ("f16", "bf16") for packed, bits in (("", 16), ("x2", 32))}
"""The types whose addition follows the instructions for halves, and how they are stored."""

CHANGES: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "min": lambda old, new: least(old, new) if old.dtype.kind == "f" else np.minimum(old, new),
    "max": lambda old, new: most(old, new) if old.dtype.kind == "f" else np.maximum(old, new),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, most: np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - old.dtype.type(1)),
    "exch": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
}
"""Functions that return the new value of a word, given the old one and the operands."""

FENCE = re.compile(r"membar\.(cta|gl|sys)|fence(?:\.(?:sc|acq_rel|acquire|release))?\.(cta|cluster|gpu|sys)")


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step | None:
    """Decode one of this module's instructions.

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
    if fence := FENCE.fullmatch(instruction.opcode):
        scope = fence[1] or fence[2]
        return lambda batch, lanes: batch.fence(lanes, scope)
    head, *words, written = instruction.opcode.split(".")  # which compilers write in several orders
    of = {kind: [word for word in words if word in kind] for kind in (ORDERS, SCOPES, SPACES, tuple(CHANGES), VECTORS)}
    order, scope, space, name, vector = (next(iter(found), "") for found in of.values())
    kind = HALVES.get(written, written)
    reject(instruction, not name or len(words) > sum(map(len, of.values())) + ("noftz" in words))
    reject(instruction, kind not in DTYPES or DTYPES[kind].itemsize == 1)
    if vector:
        return _of_vector(instruction, vector, DTYPES[kind].itemsize, reader, address)
    target, where, *sources = (Symbol("_"),) * (head == "red") + instruction.operands
    reject(instruction, len(sources) != 1 + (name == "cas"))
    floats = name == "add" and (written in HALVES or written[0] == "f")
    usual = FUNCTIONS[f"add.{written}"].function if floats else CHANGES[name]
    locate, reads = address(where, instruction), [reader(source, kind, instruction) for source in sources]
    order, scope, dtype = order or "relaxed", scope or "gpu", DTYPES[kind]
    space = (space or "generic").replace("::cta", "")

    def execute(batch: Batch, lanes: Lanes) -> None:
        addresses = batch.threads.spread(locate(batch, lanes), lanes)
        operands = [batch.threads.spread(read(batch, lanes), lanes) for read in reads]
        found = np.empty(len(addresses), dtype)
        everywhere = [(space, addresses, np.arange(len(addresses), dtype=np.int64))]
        for home, there, part in batch.spaces.homes(addresses, lanes) if space == "generic" else everywhere:
            who = batch.threads.at(lanes, part)
            reject(instruction, home not in ("global", "shared", CLUSTER))
            if home != "global":
                batch.watch(atomic=True).line = instruction.line
            change = FUNCTIONS["add.ftz.f32"].function if home + name + written == "globaladdf32" else usual
            with of_part(part), batch.strong(order, scope):
                for elements, places, some in batch.spaces.words(home, there, who, dtype):
                    found[part[some]] = one_by_one(elements, places, [of[part[some]] for of in operands], change)
                    batch.spaces.changes += bool((elements[places] != found[part[some]]).any())
                batch.spaces.pass_on(addresses[part], who, True, True)
        if isinstance(target, Register):
            batch.registers.write(target.name, found, lanes)

    return execute


def _of_vector(instruction: Instruction, vector: str, size: int, reader: Callable, address: Callable) -> Step:
    """Decode an operation on a vector of elements of `size` bytes, each of which changes on its own."""
    opcode, count, operands = instruction.opcode.replace(f".{vector}", ""), int(vector[1:]), instruction.operands
    (where,) = [of for of in operands if isinstance(of, Address)]
    reject(instruction, not all(isinstance(of, tuple) and len(of) == count for of in operands if of is not where))
    elements = [
        tuple(Address(of.base, of.offset + i * size) if of is where else of[i] for of in operands) for i in range(count)
    ]
    steps = [step(replace(instruction, opcode=opcode, operands=of), reader, address) for of in elements]
    locate = address(where, instruction)

    def execute(batch: Batch, lanes: Lanes) -> None:
        require_aligned(locate(batch, lanes), count * size, batch.execution.memory.where)
        for one in steps:
            one(batch, lanes)

    return execute


def one_by_one(
    elements: np.ndarray, places: np.ndarray, operands: list[np.ndarray], change: Callable[..., np.ndarray]
) -> np.ndarray:
    """Change the elements at these places, those at one place in order; return what each lane found."""
    found = np.empty(len(places), elements.dtype)
    order = np.argsort(places, kind="stable")
    sorted_ = places[order]
    first = np.flatnonzero(np.concatenate(([True], sorted_[1:] != sorted_[:-1])))
    rank = np.arange(len(places), dtype=np.int64) - np.repeat(first, np.diff(np.append(first, len(places))))
    turns = np.argsort(rank, kind="stable")
    for turn in np.split(order[turns], np.cumsum(np.bincount(rank.astype(np.intp)))[:-1]):
        found[turn] = elements[places[turn]]
        elements[places[turn]] = change(found[turn], *(operand[turn] for operand in operands))
    return found
