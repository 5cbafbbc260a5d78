"""Some blocks' lanes on their way through a program: their registers and memories, where they part and where they wait.

Lanes that wait at the same basic block run it together, the block that comes first in the program first, so that
lanes that parted meet again where their paths join. A lane at a barrier waits for its block's other lanes, or, at a
warp's barrier, for its warp's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..errors import SimulationFault, UnsupportedInstruction
from ..hardware import WARP
from . import counting
from .copies import Copies
from .counting import Counts
from .instructions import DTYPES
from .memory import GlobalMemory, SharedMemory, Violation
from .ptx import Instruction, Program

Lanes = np.ndarray | None
"""Active lanes of a batch: their places in ascending order, or None for all."""


Step = Callable[["Batch", Lanes], None]
"""What an instruction does to the active lanes of a batch."""


@dataclass(frozen=True)
class Access:
    """One execution of one load or store by a traced block.

    Attributes
    ----------
    line : int
        Line of the kernel's source.
    space, kind : str
        "global" or "shared"; "load" or "store".
    array : str
        The kernel's parameter, or the shared variable, that is accessed.
    width : int
        Bytes per thread.
    block : int
        Linear block index.
    threads : array of int
        Linear indices in the block of the threads that take part.
    offsets : array of int
        Each thread's byte offset in `array`.
    """

    line: int
    space: str
    kind: str
    array: str
    width: int
    block: int
    threads: np.ndarray
    offsets: np.ndarray


@dataclass(eq=False)
class Launch:
    """What all batches of one launch share: what they run, on what, and what is counted and kept of it.

    Attributes
    ----------
    name : str
        The kernel's name, for messages.
    program : Program
    steps : list of list of Step
        What to do, by basic block.
    granule : int
        Bytes of the narrowest access to shared memory, 4 at most.
    warpwise : bool
        Whether the order of accesses within a warp has to be kept.
    local : frozenset of str
        Registers that no basic block hands to another.
    threads : int
        Per block.
    memory : GlobalMemory
    parameters : dict of str to array
        The kernel's arguments by their mangled names, an element each.
    traced : frozenset of int
        Blocks whose accesses are kept.
    trace : list of Access
        Those accesses, in the order in which they are made.
    tallies : dict of int to Counts
        What accesses to memory take, by source line.
    warps_through, threads_through : array of int64
        How many come through each basic block.
    """

    name: str
    program: Program
    steps: list[list[Step]]
    granule: int
    warpwise: bool
    local: frozenset[str]
    threads: int
    memory: GlobalMemory
    parameters: dict[str, np.ndarray]
    traced: frozenset[int]
    trace: list[Access] = field(default_factory=list)
    tallies: defaultdict[int, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def __post_init__(self) -> None:
        self.warps_through = np.zeros(len(self.program.blocks), np.int64)
        self.threads_through = np.zeros(len(self.program.blocks), np.int64)


class Batch:
    """Some blocks' lanes on their way through the program.

    A register is an array with an element per lane, or one element where all lanes hold the same. One that no basic
    block hands to another has elements for the active lanes alone.
    """

    def __init__(self, launch: Launch, blocks: np.ndarray, grid: int) -> None:
        self.launch, self.blocks = launch, blocks
        self.traced = np.flatnonzero(np.isin(blocks, list(launch.traced)))  # their places in the batch
        threads = launch.threads
        self.size = len(blocks) * threads
        self.block = np.repeat(np.arange(len(blocks)), threads)  # each lane's block within the batch
        self.thread = np.tile(np.arange(threads), len(blocks))
        warps_per_block = -(-threads // WARP)
        self.warps = len(blocks) * warps_per_block
        self.slot = (self.block * warps_per_block + self.thread // WARP) * WARP + self.thread % WARP
        self.full = threads % WARP == 0
        shared = launch.program.shared.values()
        of = launch.program.shared_bytes, len(blocks), launch.granule, launch.warpwise, threads
        self.shared = SharedMemory(shared, *of)
        self.copies = Copies(self.shared, self.block, self.thread)
        zero = np.zeros(1, np.uint32)
        self.registers: dict[str, np.ndarray] = {
            "%tid.x": self.thread.astype(np.uint32),
            "%tid.y": zero,
            "%tid.z": zero,
            "%ctaid.x": blocks.astype(np.uint32)[self.block],
            "%ctaid.y": zero,
            "%ctaid.z": zero,
            "%ntid.x": np.array([threads], np.uint32),
            "%ntid.y": zero + 1,
            "%ntid.z": zero + 1,
            "%nctaid.x": np.array([grid], np.uint32),
            "%nctaid.y": zero + 1,
            "%nctaid.z": zero + 1,
            "%laneid": (self.thread % WARP).astype(np.uint32),
        }
        self.waiting: dict[int, Lanes] = {0: None}  # lanes by the basic block they are to run next
        self.barrier: np.ndarray | None = None  # where lanes stand at a barrier: its basic block, else -1

    def run(self) -> None:
        """Execute until every lane has left the kernel."""
        program, steps = self.launch.program, self.launch.steps
        while self.waiting:
            here = min(self.waiting)
            lanes = self.waiting.pop(here)
            self.launch.warps_through[here] += self._count_warps(lanes)
            self.launch.threads_through[here] += self.size if lanes is None else len(lanes)
            for step in steps[here]:
                step(self, lanes)
            for target, going in self._leave(program, program.blocks[here][-1], here, lanes):
                self._arrive(target, going)
        if self.barrier is not None and (self.barrier >= 0).any():
            self._report_stuck()

    def _leave(self, program: Program, last: Instruction, here: int, lanes: Lanes) -> Iterator[tuple[int, Lanes]]:
        """Yield where the lanes go from the end of a basic block, and which."""
        if last.opcode in ("bar.sync", "bar.warp.sync"):
            yield from self._meet(here, lanes, *self._party(last))
            return
        taking, staying = (lanes, np.empty(0, np.int64))
        if last.guard:
            taking, staying = self.split(last, lanes)
        if last.opcode.startswith("bra"):
            yield program.targets[last.operands[0].name], taking
        elif last.opcode not in ("ret", "exit"):
            staying = lanes
        yield here + 1, staying

    def _arrive(self, target: int, lanes: Lanes) -> None:
        if lanes is not None and len(lanes) == 0:
            return
        if target in self.waiting:
            lanes = np.sort(np.concatenate([self.waiting[target], lanes]), kind="stable")  # quick, as both are sorted
        self.waiting[target] = None if lanes is None or len(lanes) == self.size else lanes

    def _party(self, barrier: Instruction) -> tuple[np.ndarray, np.ndarray]:
        """Return who meets at a barrier, as a number per lane, and their clock, which the barrier advances."""
        if barrier.opcode == "bar.sync":
            return self.block, self.shared.interval
        return self.shared.warp(self.block, self.thread), self.shared.warp_interval

    def _meet(self, here: int, lanes: Lanes, party: np.ndarray, clock: np.ndarray) -> Iterator[tuple[int, Lanes]]:
        """Take lanes into the barrier; yield on those whose party is complete."""
        if lanes is None:
            clock += 1
            yield here + 1, None
            return
        if self.barrier is None:
            self.barrier = np.full(self.size, -1)
        self.barrier[lanes] = here
        complete = np.ones(len(clock), bool)
        complete[party[self.barrier != here]] = False
        clock[complete] += 1
        released = np.flatnonzero(complete[party])
        self.barrier[released] = -1
        yield here + 1, released

    def _report_stuck(self) -> None:
        lane = int(np.flatnonzero(self.barrier >= 0)[0])
        bar = self.launch.program.blocks[self.barrier[lane]][-1]
        party, _ = self._party(bar)
        other = int(np.flatnonzero((party == party[lane]) & (self.barrier != self.barrier[lane]))[0])
        place = "has left the kernel"
        if self.barrier[other] >= 0:
            place = f"waits at line {self.launch.program.blocks[self.barrier[other]][-1].line}"
        whom = "block" if bar.opcode == "bar.sync" else "warp"
        detail = f"waits at a barrier that thread {self.thread[other]} of its {whom} never reaches: that one {place}"
        raise self.fault(Violation("barrier", lane, detail), bar, None)

    def split(self, instruction: Instruction, lanes: Lanes) -> tuple[Lanes, Lanes]:
        """Return the lanes whose guard holds, and the others."""
        name, wanted = instruction.guard
        holds = self.read(name, DTYPES["pred"], lanes, instruction) == wanted
        none = np.empty(0, np.int64)
        if holds.all():
            return lanes, none
        if not holds.any():
            return none, lanes
        return self.among(lanes, holds), self.among(lanes, ~holds)

    @staticmethod
    def among(lanes: Lanes, holds: np.ndarray) -> Lanes:
        """Return those of the active lanes for which it holds."""
        if holds.all():
            return lanes
        return np.flatnonzero(holds) if lanes is None else lanes[holds]

    def spread(self, values: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Return a value per active lane where there may be one for all."""
        return _spread(values, self.size if lanes is None else len(lanes))

    def read(self, name: str, dtype: np.dtype, lanes: Lanes, instruction: Instruction) -> np.ndarray:
        """Return the value of a register that the instruction reads, as that type."""
        value = self.registers.get(name)
        if value is None:
            raise UnsupportedInstruction(
                f"line {instruction.line}: reads {name}, which nothing wrote: {instruction.text}"
            )
        if value.dtype is not dtype:
            if value.dtype.itemsize > dtype.itemsize:  # PTX takes the low bits of a wider register
                value = value.astype(f"u{dtype.itemsize}")
            value = value.view(dtype)
        return value if lanes is None or value.size == 1 or name in self.launch.local else value[lanes]

    def write(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a register a value in the active lanes."""
        if lanes is not None and name not in self.launch.local:
            before, whole = self.registers.get(name), np.empty(self.size, value.dtype)
            whole[:] = 0 if before is None else before.view(value.dtype)
            whole[lanes] = value
            value = whole
        self.registers[name] = value

    def load(self, space: str, addresses: np.ndarray, lanes: Lanes, dtype: np.dtype, count: int) -> list[np.ndarray]:
        """Load `count` elements behind each address."""
        if space == "global":
            return self.launch.memory.load(addresses, dtype, count)
        addresses, block, thread = self._spread(addresses, lanes)
        return self.shared.load(addresses, block, thread, dtype, count)

    def store(self, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray]) -> None:
        """Store one element per value behind each address."""
        addresses, block, thread = self._spread(addresses, lanes)
        if space == "global":
            self.launch.memory.store(addresses, values)
        else:
            self.shared.store(addresses, block, thread, values)

    def tally(
        self,
        line: int,
        space: str,
        kind: str,
        addresses: np.ndarray,
        lanes: Lanes,
        width: int,
        total: int | None = None,
    ) -> None:
        """Count one access of a source line, of `total` bytes if not all lanes want `width`."""
        tally = self.launch.tallies[line]
        slots = None if lanes is None and self.full else self._lanes(self.slot, lanes)
        rows = counting.by_warp(slots, addresses.astype(np.int64), self.warps)
        if total is None:
            total = (self.size if lanes is None else len(lanes)) * width
        count = {"requests": len(rows), "bytes": total}
        if space == "global":
            count["sectors"] = counting.sectors(rows)
        else:
            alike, blocks = 1, rows.reshape(len(self.blocks) if slots is None else 1, -1, WARP)
            if (blocks == blocks[0]).all():  # nearly always, as each block's shared memory begins at 0
                alike, rows = len(blocks), blocks[0]
            served = counting.wavefronts(rows, width, kind)
            count["wavefronts"], count["conflicts"] = (alike * number for number in served)
        for what, number in count.items():
            name = f"{space}_{kind}_{what}"
            setattr(tally, name, getattr(tally, name) + number)

    def trace(self, line: int, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int) -> None:
        """Keep the access as each traced block made it."""
        if not len(self.traced):
            return
        addresses, block, thread = self._spread(addresses, lanes)
        for number in self.traced:
            mine = block == number
            if mine.any():
                first = int(addresses[mine][0])
                if space == "global":
                    array, offset = self.launch.memory.name(first)
                else:
                    array, offset = next(
                        (v.name, first - v.offset)
                        for v in self.launch.program.shared.values()
                        if v.offset <= first < v.offset + v.size
                    )
                self.launch.trace.append(
                    Access(
                        line,
                        space,
                        kind,
                        array,
                        width,
                        int(self.blocks[number]),
                        thread[mine],
                        addresses[mine].astype(np.int64) - (first - offset),
                    )
                )

    def fault(self, violation: Violation, instruction: Instruction, lanes: Lanes) -> SimulationFault:
        """Complete a violation with kernel, block, thread and source line."""
        lane = violation.lane if lanes is None else lanes[violation.lane]
        block, thread = int(self.blocks[self.block[lane]]), int(self.thread[lane])
        return SimulationFault(violation.kind, self.launch.name, violation.detail, (instruction.line, block, thread))

    def _spread(self, addresses: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return address, block within the batch, and thread of each active lane."""
        block = self._lanes(self.block, lanes)
        return _spread(addresses, block.size), block, self._lanes(self.thread, lanes)

    @staticmethod
    def _lanes(values: np.ndarray, lanes: Lanes) -> np.ndarray:
        return values if lanes is None else values[lanes]

    def _count_warps(self, lanes: Lanes) -> int:
        if lanes is None:
            return self.warps
        warp = self.slot[lanes] // WARP
        return 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))


def _spread(values: np.ndarray, size: int) -> np.ndarray:
    return values if values.size == size else np.broadcast_to(values, size)  # which takes its time
