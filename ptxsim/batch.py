"""Some blocks' lanes on their way through a program: their registers and memories, where they part and where they wait.

Lanes that wait at the same basic block run it together, the block that comes first in the program first, so that
lanes that parted meet again where their paths join. A lane at a barrier waits for its block's other lanes, or, at a
warp's barrier, for its warp's. One that waits for an mbarrier's phase or for its cluster sleeps until that is over, so
that others can end it; a wait that is over in vain, which PTX allows, there is not. All blocks of a cluster are in one
batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from . import counting
from .accumulators import Accumulators
from .clusters import Clusters, Meeting
from .copies import Copies
from .counting import Counts
from .errors import SimulationFault, UnsupportedInstruction
from .far import Far
from .limits import WARP
from .mbarriers import Barriers, Question
from .memory import RANK, Buffer, GlobalMemory, SharedMemory, Violation
from .ptx import (
    CLUSTER_WAITS,
    DTYPES,
    LEAVES,
    WAITS,
    Instruction,
    Program,
)
from .tensor_map import TensorMap
from .tiles import Tiles

CLUSTER = "shared::cluster"
"""The state space of what a cluster's blocks share."""

Lanes = np.ndarray | None
"""Active lanes of a batch: their places in ascending order, or None for all."""


Step = Callable[["Batch", Lanes], None]
"""What an instruction does to the active lanes of a batch; it raises Violation where a check fails."""


@dataclass(frozen=True, eq=False)
class Code:
    """A program, decoded.

    Attributes
    ----------
    steps : list of list of (Instruction, Step)
        What to do, by basic block. Several instructions may be done as one, the first of them.
    mix : list of dict of int to (Counter, int)
        By basic block and source line: how many instructions there are of each class, and the floating-point
        operations of one thread.
    granule : int
        Bytes of the narrowest access to shared memory, 4 at most.
    warpwise : bool
        Whether the lanes of a warp synchronise among themselves, so that an order of their accesses has to be kept.
    proxies : bool
        Whether something other than threads' loads and stores reads or writes shared memory.
    clustered : bool
        Whether blocks meet in clusters, be it of one block.
    """

    steps: list[list[tuple[Instruction, Step]]]
    mix: list[dict[int, tuple[Counter[str], int]]]
    granule: int
    warpwise: bool
    proxies: bool
    clustered: bool


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


@dataclass(frozen=True)
class Event:
    """Something that threads of a traced block do, all at once, to begin asynchronous work or to keep it in order.

    Attributes
    ----------
    line : int
        Line of the kernel's source.
    kind : str
        "copy": has the copy engine bring a box. "multiply": has ``wgmma`` multiply tiles. "commit copies" and "commit
        products": ends a group. "wait for copies" and "wait for products": for groups. "arrive": at an mbarrier. "ask":
        begins to wait for a phase of one. "go on": has waited for it. "barrier": has waited for all of the block.
    block : int
        Linear block index.
    threads : array of int
        Linear indices in the block of the threads that do it.
    before : int
        How many accesses the trace held by then.
    array, offset : str, int
        Where the first of them has the box, a tile or the mbarrier: the variable in shared memory, and the byte. Of
        the other kinds, nowhere.
    pending : int
        Of a wait for groups, how many it leaves under way.
    """

    line: int
    kind: str
    block: int
    threads: np.ndarray
    before: int
    array: str = ""
    offset: int = 0
    pending: int = 0


@dataclass(eq=False)
class Launch:
    """What all batches of one launch share: what they run, on what, and what is counted and kept of it.

    Attributes
    ----------
    name : str
        The kernel's name, for messages.
    program : Program
    code : Code
        The program, decoded.
    threads : int
        Per block.
    memory : GlobalMemory
    parameters : dict of str to array
        The kernel's arguments by their mangled names, an element each, but for tensor maps.
    maps : dict of int to (TensorMap, Buffer)
        Those, by their addresses, and where their matrices are.
    traced : frozenset of int
        Blocks whose accesses are kept.
    trace : list of Access
        Those accesses, in the order in which they are made.
    events : list of Event
        What else those blocks do, likewise.
    tallies : dict of int to Counts
        What accesses to memory take, by source line.
    warps_through, threads_through : array of int64
        How many come through each basic block.
    """

    name: str
    program: Program
    code: Code
    threads: int
    memory: GlobalMemory
    parameters: dict[str, np.ndarray]
    maps: dict[int, tuple[TensorMap, Buffer]]
    traced: frozenset[int]
    trace: list[Access] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    tallies: defaultdict[int, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def __post_init__(self) -> None:
        self.warps_through = np.zeros(len(self.program.blocks), np.int64)
        self.threads_through = np.zeros(len(self.program.blocks), np.int64)


class Batch:
    """Some blocks' lanes on their way through the program.

    A register is an array with an element per lane, or one element where all lanes hold the same.
    """

    def __init__(self, launch: Launch, blocks: np.ndarray, grid: int) -> None:
        self.launch, self.blocks = launch, blocks
        self.traced = np.flatnonzero(np.isin(blocks, list(launch.traced)))  # their places in the batch
        threads, code = launch.threads, launch.code
        self.size = len(blocks) * threads
        self.block = np.repeat(np.arange(len(blocks)), threads)  # each lane's block within the batch
        self.thread = np.tile(np.arange(threads), len(blocks))
        warps_per_block = -(-threads // WARP)
        self.warps = len(blocks) * warps_per_block
        self.slot = (self.block * warps_per_block + self.thread // WARP) * WARP + self.thread % WARP
        self.full = threads % WARP == 0
        shared = launch.program.shared.values()
        cluster = launch.program.cluster
        of = launch.program.shared_bytes, len(blocks), code.granule, code.warpwise, threads, cluster
        self.shared = SharedMemory(shared, *of)
        self.copies = Copies(self.shared, self.block, self.thread)
        self.barriers = Barriers(self.shared, self.block, self.thread)
        self.tiles = Tiles(self.shared, self.barriers) if code.proxies else None
        self.accumulators = Accumulators(self.size, self.tiles) if code.proxies else None
        self.clusters = Clusters(self.barriers, self.tiles) if code.clustered else None
        self._far: Far | None = None
        self.question: Question | Meeting | None = None  # what lanes have just begun to wait for
        self.asleep: list[tuple[int, Question | Meeting]] = []  # where lanes go on and what they wait for
        zero = np.zeros(1, np.uint32)
        rank = (self.block % cluster).astype(np.uint32)
        self.window = rank.astype(np.uint64) << np.uint64(RANK)  # where each lane's block begins in its cluster's
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
            "%cluster_ctarank": rank,
            "%cluster_nctarank": np.array([cluster], np.uint32),
            "%cluster_ctaid.x": rank,
            "%cluster_ctaid.y": zero,
            "%cluster_ctaid.z": zero,
            "%cluster_nctaid.x": np.array([cluster], np.uint32),
            "%cluster_nctaid.y": zero + 1,
            "%cluster_nctaid.z": zero + 1,
            "%clusterid.x": (blocks // cluster).astype(np.uint32)[self.block],
            "%clusterid.y": zero,
            "%clusterid.z": zero,
            "%nclusterid.x": np.array([grid // cluster], np.uint32),
            "%nclusterid.y": zero + 1,
            "%nclusterid.z": zero + 1,
        }
        self.waiting: dict[int, Lanes] = {0: None}  # lanes by the basic block they are to run next
        self.barrier = np.full(self.size, -1)  # where lanes stand at a barrier: its basic block

    def run(self) -> None:
        """Execute until every lane has left the kernel."""
        while self.waiting:
            here = min(self.waiting)
            lanes, changes = self.waiting.pop(here), self.barriers.changes
            self.launch.warps_through[here] += self._count_warps(lanes)
            self.launch.threads_through[here] += self.size if lanes is None else len(lanes)
            for instruction, step in self.launch.code.steps[here]:
                self.do(instruction, step, lanes)
            self._leave(here, lanes)
            if self.asleep and self.barriers.changes != changes:
                self._wake()
        if self.asleep:
            self._report_asleep()
        if (self.barrier >= 0).any():
            self._report_stuck()

    def do(self, instruction: Instruction, step: Step, lanes: Lanes) -> None:
        """Let the active lanes for which the instruction's guard holds do a step.

        Raises
        ------
        SimulationFault
            A check failed.
        """
        if instruction.guard:
            lanes, _ = self.split(instruction, lanes)
            if lanes is not None and not len(lanes):
                return
        try:
            step(self, lanes)
        except Violation as violation:
            raise self.fault(violation, instruction, lanes) from None

    def _leave(self, here: int, lanes: Lanes) -> None:
        """Send the lanes on from the end of a basic block."""
        last, staying = self.launch.program.blocks[here][-1], lanes
        if last.opcode in ("bar.sync", "bar.warp.sync"):
            staying = self._meet(here, lanes, *self._party(last))
            if last.opcode == "bar.sync":
                self.note(last.line, "barrier", staying)
        elif last.opcode.startswith((WAITS, CLUSTER_WAITS)):
            if self.clusters and isinstance(self.question, Question):
                self.clusters.wait_alone(self.question.lanes)
            staying = self._answered(here + 1, self.question)
        elif last.opcode in LEAVES:
            going, staying = self.split(last, lanes)
            if last.opcode.startswith("bra"):
                self._arrive(self.launch.program.targets[last.operands[0].name], going)
        self._arrive(here + 1, staying)

    def _arrive(self, target: int, lanes: Lanes) -> None:
        if lanes is not None and len(lanes) == 0:
            return
        if target in self.waiting:
            lanes = np.sort(np.concatenate([self.waiting[target], lanes]), kind="stable")  # quick, as both are sorted
        self.waiting[target] = None if lanes is None or len(lanes) == self.size else lanes

    def _answered(self, target: int, question: Question | Meeting) -> np.ndarray:
        """Return the lanes whose wait is over; the others sleep."""
        meeting = isinstance(question, Meeting)
        if self.tiles and not meeting:
            self.tiles.land(question.places[~self.barriers.over(question)])
        over = self.clusters.answered(question) if meeting else self.barriers.answered(question)
        if not meeting:
            self.note(question.line, "go on", question.lanes[over], question.addresses[over])
        if not over.all():
            self.asleep.append((target, question.part(~over)))
        lanes = question.lanes[over]
        if len(lanes) and not meeting:
            self.write(question.target, np.ones(1, bool), None if len(lanes) == self.size else lanes)
        return lanes

    def _wake(self) -> None:
        """Let those go on whose wait is over by now."""
        asleep, self.asleep = self.asleep, []
        for target, question in asleep:
            self._arrive(target, self._answered(target, question))

    def _party(self, barrier: Instruction) -> tuple[np.ndarray, np.ndarray]:
        """Return who meets at a barrier, as a number per lane, and their clock, which the barrier advances."""
        if barrier.opcode == "bar.sync":
            return self.block, self.shared.interval
        return self.shared.warp(self.block, self.thread), self.shared.warp_interval

    def _meet(self, here: int, lanes: Lanes, party: np.ndarray, clock: np.ndarray) -> Lanes:
        """Take lanes into the barrier; return those whose party is complete."""
        if lanes is None:
            clock += 1
            self.gather(None)
            self.barriers.meet(self.places(None), party)
            return None
        self.barrier[lanes] = here
        complete = np.ones(len(clock), bool)
        complete[party[self.barrier != here]] = False
        clock[complete] += 1
        released = np.flatnonzero(complete[party])
        self.barrier[released] = -1
        self.gather(released)
        self.barriers.meet(released, party)
        return released

    def _report_asleep(self) -> None:
        """Raise the fault of lanes that nobody will ever wake: who waits where, and for what."""
        block = self.block[min(question.lanes[0] for _, question in self.asleep)]
        cluster = self.block // self.launch.program.cluster
        concerned = cluster == cluster[self.block == block][0]
        waits: dict[tuple[int, int, str], list[int]] = {}  # the threads of that cluster, by block, line and words
        for _, question in self.asleep:
            for i in np.flatnonzero(concerned[question.lanes]):
                lane, words = question.lanes[i], "waits at the cluster's barrier"
                if isinstance(question, Question):
                    words = self.barriers.waits(question, i)
                waits.setdefault((self.block[lane], question.line, words), []).append(int(self.thread[lane]))
        for lane in np.flatnonzero((self.barrier >= 0) & concerned):
            line = self.launch.program.blocks[self.barrier[lane]][-1].line
            waits.setdefault((self.block[lane], line, "waits at a barrier"), []).append(int(self.thread[lane]))
        first, *others = sorted(waits, key=lambda wait: (wait[0] != block, wait[0], waits[wait]))
        details, who = [first[2]], waits[first]
        if len(who) > 1:
            details[0] += f", as {_threads(who[1:])} do{'es' if len(who) == 2 else ''}"
        for wait in others:
            of = f" of block {self.blocks[wait[0]]}" if wait[0] != block else ""
            words = wait[2] if len(waits[wait]) == 1 else wait[2].replace("waits", "wait", 1)
            details.append(f"{_threads(waits[wait])}{of} {words}, line {wait[1]}")
        where = first[1], int(self.blocks[block]), who[0]
        raise SimulationFault("deadlock", self.launch.name, "; ".join(details), where)

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
        """Return the lanes whose guard holds, if there is one, and the others."""
        none = np.empty(0, np.int64)
        if not instruction.guard:
            return lanes, none
        name, wanted = instruction.guard
        holds = self.read(name, DTYPES["pred"], lanes, instruction) == wanted
        if holds.all():
            return lanes, none
        if not holds.any():
            return none, lanes
        return self.among(lanes, holds), self.among(lanes, ~holds)

    def places(self, lanes: Lanes) -> np.ndarray:
        """Return the active lanes' places, also where they are all."""
        return np.arange(self.size) if lanes is None else lanes

    def gather(self, lanes: Lanes) -> None:
        """Take note that the active lanes' warps are whole, and would have waited here until they are."""
        if self.clusters:
            self.clusters.apart[self.places(lanes)] = False

    def fence(self, lanes: Lanes, proxy: bool) -> None:
        """Show the copy engine the active lanes' mbarriers, and the cluster too; or, of a proxy, what they stored."""
        who = self.places(lanes)
        self.barriers.tell(who, "fenced")
        if not proxy:
            self.barriers.tell(who, "shown")
        elif self.tiles:
            self.tiles.fence(who)

    @staticmethod
    def among(lanes: Lanes, holds: np.ndarray) -> Lanes:
        """Return those of the active lanes for which it holds."""
        if holds.all():
            return lanes
        return np.flatnonzero(holds) if lanes is None else lanes[holds]

    def spread(self, values: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Return a value per active lane where there may be one for all."""
        size = self.size if lanes is None else len(lanes)
        return values if values.size == size else np.broadcast_to(values, size)  # which takes its time

    def read(self, name: str, dtype: np.dtype, lanes: Lanes, instruction: Instruction) -> np.ndarray:
        """Return the value of a register that the instruction reads, as that type."""
        value = self.registers.get(name)
        if value is None and self.accumulators and name in self.accumulators.held:
            value = self.accumulators.touch(name, lanes, "reads")
        if value is None:
            raise UnsupportedInstruction(
                f"line {instruction.line}: reads {name}, which nothing wrote: {instruction.text}"
            )
        if value.dtype is not dtype:
            if value.dtype.itemsize > dtype.itemsize:  # PTX takes the low bits of a wider register
                value = value.astype(f"u{dtype.itemsize}")
            value = value.view(dtype)
        return value if lanes is None or value.size == 1 else value[lanes]

    def write(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a register a value in the active lanes.

        Raises
        ------
        SimulationFault
            A wgmma that has not been waited for has it; the line is the wgmma's.
        """
        if self.accumulators and name in self.accumulators.held:
            self._write_held(name, value, lanes)
            return
        if lanes is not None:
            before, whole = self.registers.get(name), np.empty(self.size, value.dtype)
            whole[:] = 0 if before is None else before.view(value.dtype)
            whole[lanes] = value
            value = whole
        self.registers[name] = value

    def _write_held(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a register a value that is in flight for other lanes."""
        try:
            held = self.accumulators.touch(name, lanes, "something writes")
        except Violation as violation:
            lane, line = violation.lane if lanes is None else lanes[violation.lane], self.accumulators.held[name].line
            where = line, int(self.blocks[self.block[lane]]), int(self.thread[lane])
            raise SimulationFault(violation.kind, self.launch.name, violation.detail, where) from None
        held[self.places(lanes)] = value.view(held.dtype)

    @property
    def far(self) -> Far:
        """The accesses to other blocks' shared memories, from the first on."""
        if self._far is None:
            self._far = Far(self.shared, self.barriers)
        return self._far

    def load(
        self,
        space: str,
        addresses: np.ndarray,
        lanes: Lanes,
        dtype: np.dtype,
        count: int,
        behind: Sequence[int] = (0,),
    ) -> list[np.ndarray]:
        """Load `count` elements at each address, or, from shared memory, at several places `behind` it."""
        if space == "global":
            return self.launch.memory.load(addresses, dtype, count)
        addresses, block, thread = self._spread(addresses, lanes)
        if space == CLUSTER:
            return self._load_from_cluster(self.places(lanes), addresses, dtype, count)
        return self.shared.load(addresses, block, thread, dtype, count, behind)

    def _load_from_cluster(
        self, lanes: np.ndarray, addresses: np.ndarray, dtype: np.dtype, count: int
    ) -> list[np.ndarray]:
        values = [np.empty(len(lanes), dtype) for _ in range(count)]
        for part, far in self._parts(lanes, addresses):
            who = lanes[part]
            with of_part(part):
                if far:
                    loaded = self.far.load(who, addresses[part], dtype, count)
                else:
                    loaded = self.shared.load(addresses[part], self.block[who], self.thread[who], dtype, count)
            for value, piece in zip(values, loaded, strict=True):
                value[part] = piece
        return values

    def _parts(self, lanes: np.ndarray, addresses: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield which of the lanes' addresses are in other blocks' shared memories, True, and which are not."""
        far = (addresses >> np.uint64(RANK) != self.window[lanes] >> np.uint64(RANK)) & (self.clusters is not None)
        for kind in (True, False):
            if (far == kind).any():
                yield np.flatnonzero(far == kind), kind

    def store(self, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray]) -> None:
        """Store one element per value behind each address."""
        addresses, block, thread = self._spread(addresses, lanes)
        if space == "global":
            self.launch.memory.store(addresses, values)
        elif space == CLUSTER:
            for part, far in self._parts(self.places(lanes), addresses):
                pieces = [value if value.size == 1 else value[part] for value in values]
                with of_part(part):
                    if far:
                        self.far.store(self.places(lanes)[part], addresses[part], pieces)
                    else:
                        self.shared.store(addresses[part], block[part], thread[part], pieces)
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
        times: int = 1,
    ) -> None:
        """Count accesses of a source line, all alike, of `total` bytes if not all lanes want `width`."""
        tally, slots = self.launch.tallies[line], None if lanes is None and self.full else self.pick(self.slot, lanes)
        if total is None:
            total = (self.size if lanes is None else len(lanes)) * width
        alike = len(self.blocks) if space == "shared" and self.shared.alike else 1
        if alike > 1:  # what the first block does, all do
            addresses = self.spread(addresses, lanes)[: self.launch.threads]
            slots = slots if slots is None else slots[: self.launch.threads]
        rows = counting.by_warp(slots, addresses.view(np.int64), self.warps // alike)
        count = {"requests": alike * len(rows), "bytes": total}
        if space == "global":
            count["sectors"] = counting.sectors(rows)
        else:
            if self.clusters:
                rows = np.where(rows < 0, rows, rows % (1 << RANK))
            if slots is None and alike == 1:
                blocks = rows.reshape(len(self.blocks), -1, WARP)
                if (blocks == blocks[0]).all():  # nearly always, as each block's shared memory begins at 0
                    alike, rows = len(blocks), blocks[0]
            served = counting.wavefronts(rows, width, kind)
            count["wavefronts"], count["conflicts"] = (alike * number for number in served)
        for what, number in count.items():
            name = f"{space}_{kind}_{what}"
            setattr(tally, name, getattr(tally, name) + times * number)

    def trace(self, line: int, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int) -> None:
        """Keep the access as each traced block made it."""
        if not len(self.traced):
            return
        addresses, block, thread = self._spread(addresses, lanes)
        for number in self.traced:
            mine = block == number
            if mine.any():
                if space == "shared":
                    addresses = addresses % np.uint64(1 << RANK)
                first = int(addresses[mine][0])
                array, offset = self.launch.memory.name(first) if space == "global" else self._variable(first)
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

    def note(self, line: int, kind: str, lanes: Lanes, addresses: np.ndarray | None = None, pending: int = 0) -> None:
        """Keep what active lanes of each traced block do; of an address in shared memory per lane, the first counts."""
        for number in self.traced:
            mine = np.flatnonzero(self.pick(self.block, lanes) == number)
            if len(mine):
                place = ("", 0) if addresses is None else self._variable(int(addresses[mine[0]]) % (1 << RANK))
                block, threads = int(self.blocks[number]), self.pick(self.thread, lanes)[mine]
                self.launch.events.append(Event(line, kind, block, threads, len(self.launch.trace), *place, pending))

    def _variable(self, address: int) -> tuple[str, int]:
        """Return the variable in shared memory that an address is in, and the byte there."""
        return next(
            (v.name, address - v.offset)
            for v in self.launch.program.shared.values()
            if v.offset <= address < v.offset + v.size
        )

    def fault(self, violation: Violation, instruction: Instruction, lanes: Lanes) -> SimulationFault:
        """Complete a violation with kernel, block, thread and source line."""
        lane = violation.lane if lanes is None else lanes[violation.lane]
        block, thread = int(self.blocks[self.block[lane]]), int(self.thread[lane])
        return SimulationFault(violation.kind, self.launch.name, violation.detail, (instruction.line, block, thread))

    def _spread(self, addresses: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return address, block within the batch, and thread of each active lane."""
        return self.spread(addresses, lanes), self.pick(self.block, lanes), self.pick(self.thread, lanes)

    @staticmethod
    def pick(values: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Return the active lanes' of values that all lanes have."""
        return values if lanes is None else values[lanes]

    def _count_warps(self, lanes: Lanes) -> int:
        if lanes is None:
            return self.warps
        warp = self.slot[lanes] // WARP
        return 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))


@contextmanager
def of_part(part: np.ndarray) -> Iterator[None]:
    """Let what is raised of some of the active lanes name the lane's place among all."""
    try:
        yield
    except Violation as violation:
        raise Violation(violation.kind, part[violation.lane], violation.detail) from None


def _threads(numbers: list[int]) -> str:
    """Return threads in words: the first and the last of them, or the one."""
    return f"thread {numbers[0]}" if len(numbers) == 1 else f"threads {numbers[0]} to {numbers[-1]}"
