"""Decodes the instructions by which the lanes of a warp exchange values: shuffles, votes, matches and reductions.

A mask names the lanes that take part. Those of them that have not left the kernel must be here, with the same mask. A
lane that wants the value of one that takes no part gets `UNDEFINED`, as PTX promises no value, and `taint` follows it.
Semantics: NVIDIA,
"Parallel Thread Execution ISA", "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask" and "elect.sync".
"""

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from .batch import Batch
from .execution import Step
from .lanes import Lanes, packed
from .limits import WARP
from .memory import refuse
from .ptx import Instruction, Register, Symbol, registers_of, reject
from .taint import joined, mark

EVERY = np.uint32(0xFFFF_FFFF)
"""The mask of a whole warp."""
UNDEFINED = np.uint32(0x7FFF_DEAD)
"""The value that a shuffle brings from a lane that takes no part: a NaN as a float, a conspicuous integer otherwise."""

WAYS = {
    "up": (lambda lane, of, first: lane - of, np.greater_equal),
    "down": (lambda lane, of, first: lane + of, np.less_equal),
    "bfly": (lambda lane, of, first: lane ^ of, np.less_equal),
    "idx": (lambda lane, of, first: first | of, np.less_equal),
}
"""The lane to read from for each way of shuffling, and how it must compare with the last one of the segment."""

REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class Group:
    """The active lanes, each with those of its warp that do something with it.

    Parameters
    ----------
    batch : Batch
    lanes : Lanes
    mask : array of uint32, optional
        Each lane's mask; without it, all active lanes of a warp take part.

    Attributes
    ----------
    row, lane : array of int64
        Each lane's warp among those that are here, and its number in the warp.
    table : array of int64, shape (warps, 32)
        The places of those lanes among the active ones, -1 where none is.
    whole : bool
        Whether the masks are those of whole warps.
    full : bool
        Whether, besides, all lanes of these warps are here; only for groups with masks.

    Raises
    ------
    Violation
        A mask lacks its own lane, or names one that is elsewhere or has another mask.
    """

    def __init__(self, batch: Batch, lanes: Lanes, mask: np.ndarray | None) -> None:
        threads = batch.threads
        slots = threads.pick(threads.slot, lanes)
        self.lane, places = slots % WARP, np.arange(slots.size, dtype=np.int64)
        if threads.whole(lanes):
            warps = None
            self.row, self.table, here = places // WARP, places.reshape(-1, WARP), np.full(slots.size, EVERY)
        else:
            warps, self.row = np.unique(slots // WARP, return_inverse=True)
            self.table = np.full((len(warps), WARP), -1, np.int64)
            self.table[self.row, self.lane] = places
            here = packed(self.table >= 0)[self.row]
        self.whole = mask is not None and not np.count_nonzero(mask != EVERY)
        self.full = self.whole and (warps is None or not np.count_nonzero(here != EVERY))
        self.mask = here if mask is None else mask
        if warps is None and self.whole:
            return
        there = here if warps is None else here | packed(batch.gone().reshape(-1, WARP)[warps])[self.row]
        refuse("shuffle", ~self.mask >> self.lane & 1 > 0, lambda i: f"is not in its own mask, {self.mask[i]:#x}")
        refuse(
            "shuffle",
            self.mask & ~there > 0,
            lambda i: f"waits for lanes of its warp that are not here: {self.mask[i] & ~there[i]:#x} of its mask",
        )
        if (self.mask != self.mask[0]).any():
            others = self.values(self.mask, self.mask[:, None])
            refuse("shuffle", (others != self.mask[:, None]).any(axis=1), "has another mask than a lane that it names")

    def takes(self) -> np.ndarray:
        """Return for each lane whether each of its warp takes part with it."""
        bits = self.mask[:, None] >> np.arange(WARP, dtype=np.uint32) & np.uint32(1)
        return (bits > 0) & (self.table >= 0)[self.row]

    def sources(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of the lane that each one wants of its warp, and whether that takes part with it."""
        source = self.table[self.row, wanted]
        return source, (source >= 0) & (self.mask >> wanted.astype(np.uint32) & np.uint32(1) > 0)

    def values(self, given: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """Return for each lane the values of the 32 lanes of its warp, and `otherwise` for those that take no part."""
        return np.where(self.takes(), given[self.table[self.row]], otherwise)


def _wanted(way: str, lane: np.ndarray, of: np.ndarray, clamp: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lane of the warp from which each lane shuffles, and whether it is in its segment."""
    segment, last = clamp.astype(np.int64) >> 8 & 31, clamp.astype(np.int64) & 31
    function, compare = WAYS[way]
    wanted = function(lane, of.astype(np.int64) & 31 & (~segment if way == "idx" else -1), lane & segment)
    valid = compare(wanted, lane & segment | last & ~segment)
    return np.where(valid, wanted, lane), valid


@cache
def _wanted_of_all(way: str, of: int, clamp: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_wanted` returns for the lanes of a warp that all shuffle alike."""
    return _wanted(way, np.arange(WARP, dtype=np.int64), np.array([of]), np.array([clamp]))


def _shuffle(group: Group, way: str, value: np.ndarray, of: np.ndarray, clamp: np.ndarray) -> tuple[np.ndarray, ...]:
    if group.full and of.strides == clamp.strides == (0,):  # the same in every warp
        wanted, valid = _wanted_of_all(way, of.item(0), clamp.item(0))
        return (
            value.reshape(-1, WARP).take(wanted, axis=1).reshape(-1),
            valid[None].repeat(value.size // WARP, axis=0).reshape(-1),  # far faster than tile()
        )
    wanted, valid = _wanted(way, group.lane, of, clamp)
    source, known = group.sources(wanted)
    return (value[source] if known.all() else np.where(known, value[source], UNDEFINED)), valid


def _vote(group: Group, what: str, holds: np.ndarray) -> tuple[np.ndarray]:
    yes = packed(group.values(holds, np.False_))
    every = packed(group.takes())
    votes = {"ballot": yes, "any": yes > 0, "all": yes == every, "uni": (yes == 0) | (yes == every)}
    return (votes[what],)


def _match(group: Group, among: str, value: np.ndarray) -> tuple[np.ndarray, ...]:
    same = packed(group.values(value, value[:, None]) == value[:, None]) & packed(group.takes())
    if among == "any":
        return (same,)
    alike = same == packed(group.takes())
    return np.where(alike, same, np.uint32(0)), alike


def _reduce(group: Group, name: str, value: np.ndarray) -> tuple[np.ndarray]:
    others = group.values(value, value[:, None] if name not in ("add", "xor") else value.dtype.type(0))
    return (REDUCTIONS[name].reduce(others, axis=1, dtype=value.dtype),)


def _elect(group: Group) -> tuple[np.ndarray, ...]:
    leader = np.argmax(group.takes(), axis=1)
    return leader.astype(np.uint32), leader == group.lane


FORMS = (
    (r"shfl\.sync\.(up|down|bfly|idx)\.b32", "b32 b32 b32 b32", _shuffle),
    (r"vote\.sync\.(all|any|uni|ballot)\.(?:pred|b32)", "pred b32", _vote),
    (r"match\.(any|all)\.sync\.(b32|b64)", "{1} b32", _match),
    (r"redux\.sync\.(add|min|max|and|or|xor)\.([usb]32)", "{1} b32", _reduce),
    (r"elect\.sync()", "b32", _elect),
    (r"activemask\.b32()", "", lambda group: (group.mask,)),
)
"""The instructions: how they are written, the types of their operands, the mask last, and what they return."""


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
        The instruction, or one of its operands, is not known.
    """
    known = ((re.fullmatch(form, instruction.opcode), *others) for form, *others in FORMS)
    found, kinds, act = next((of for of in known if of[0]), (None, "", None))
    reject(instruction, not found)
    (target, *sources), kinds = instruction.operands, kinds.format(*found.groups()).split()
    targets = [of for of in (target if isinstance(target, tuple) else (target,)) if of != Symbol("_")]
    reject(instruction, len(sources) != len(kinds) or not all(isinstance(of, Register) for of in targets))
    reads = [reader(source, kind, instruction) for source, kind in zip(sources, kinds, strict=True)]
    said, masked = found.groups()[:1] if found[1] else (), bool(kinds)
    skipped = isinstance(target, tuple) and target[0] == Symbol("_")

    def execute(batch: Batch, lanes: Lanes) -> None:
        *given, mask = [batch.threads.spread(read(batch, lanes), lanes) for read in reads] if masked else [None]
        before, group = batch.group
        if group is None or lanes is not before or mask is None or mask.strides != (0,) or mask[0] != EVERY:
            group = Group(batch, lanes, mask)
            batch.group = lanes, group if group.full else None
        if group.whole:
            batch.join(lanes)
        if batch.taint.of or (act is _shuffle and not group.full):
            mine, others = (batch.taint.marks(registers_of(of), lanes) for of in (sources[:1], sources[1:]))
            mine = batch.threads.spread(mine, lanes)
            if act is _shuffle:
                wanted, _ = _wanted(*said, group.lane, *given[1:])
                source, known = group.sources(wanted)
                mine = np.where(known, mine[source], mark(instruction.line, wanted))
            else:
                mine = others = group.values(mine, np.int64(0)).max(axis=1)
            for register, marks in zip(targets, (joined([mine, others]), others)[skipped:], strict=False):
                batch.taint.give(register.name, marks, lanes)
        for register, value in zip(targets, act(group, *said, *given)[skipped:], strict=False):
            batch.registers.write(register.name, value, lanes)

    return execute
