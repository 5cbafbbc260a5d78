"""Runs a batch: decides which lanes run next, where lanes part, and where they wait.

Lanes that are at the same basic block run it together, and the block that comes first in the program runs first, so
that lanes which parted come together again where their paths join. A lane at a barrier waits for the other lanes of its
block, or of its warp at a warp's barrier. A lane that waits for an mbarrier's phase or for its cluster sleeps until the
wait is over, so that others can end it. PTX lets such a wait return early and in vain; here it never does. A lane that
goes around a loop in which it may wait for a word of memory lets all others go first.

In another order than the usual one, lanes have turns: those of a later turn run when none of an earlier one can.
"""

import numpy as np

from . import calls
from .batch import Batch
from .budget import Budget
from .clusters import ClusterWait
from .errors import SimulationFault
from .lanes import Lanes, packed
from .limits import WARP
from .mbarriers import MbarrierWait
from .memory import Violation
from .ptx import CLUSTER_WAITS, LEAVES, WAITS, Instruction, meeting, uncollected

NOWHERE = -1  # in the place of the basic block at whose barrier a lane waits
VOTE = "%vote"
"""The register that stands for what lanes bring to a barrier with a vote."""
BARRIERS = 16  # of a block
VAIN = 2000  # rounds of lanes that wait for words of memory, in which nothing changes


class Scheduler:
    """Runs one batch to its end.

    Parameters
    ----------
    batch : Batch

    Attributes
    ----------
    ready : dict of int to Lanes
        The lanes to run next, by turn times the number of basic blocks, plus basic block.
    spinning : list of (int, int, Lanes)
        Lanes that let all others go first, the basic block from which they come, and the one where they go on.
    asleep : list of (int, MbarrierWait or ClusterWait)
        Waits that are not over, and the basic block where their lanes go on.
    barrier : array of int64
        For each lane, the basic block at whose end it waits at a barrier, or `NOWHERE`.
    named : array of int64
        For each lane at a named barrier, `BARRIERS` times its block plus the barrier's number; else `NOWHERE`.
    mask : array of uint32
        The mask of each lane at a barrier of its warp.
    came, needs : array of int64
        For each named barrier of each block, how many threads have come, and for how many it is.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch, self.execution, self.threads = batch, batch.execution, batch.threads
        self.blocks, self.barriers = batch.execution.program.blocks, batch.execution.code.barriers
        self.budget = Budget(batch.execution.program, batch.execution.budget, self.threads.size)
        self.turn = batch.execution.order(self.threads) if batch.execution.order else None
        self.ready: dict[int, Lanes] = batch.ready
        self.spinning: list[tuple[int, int, Lanes]] = []
        self.vain, self.changes = 0, -1
        self.named = np.full(self.threads.size, NOWHERE, np.int64)
        self.mask = np.zeros(self.threads.size, np.uint32)
        self.came = np.zeros(len(self.threads.blocks) * BARRIERS, np.int64)
        self.needs = np.zeros_like(self.came)
        self._arrive(batch.execution.program.entry, None)
        self.asleep: list[tuple[int, MbarrierWait | ClusterWait]] = []
        self.barrier = np.full(self.threads.size, NOWHERE, np.int64)

    @uncollected
    def run(self) -> None:
        """Execute until every lane has left the kernel, without garbage collection, as steps leave no cycles behind.

        Raises
        ------
        SimulationFault
            A check failed, or lanes wait for what never comes.
        """
        execution, batch, count, tainted = self.execution, self.batch, len(self.blocks), self.batch.taint.of
        before, warps = None, self.threads.warps  # the lanes of the last round, which often go on, and their warps
        while self.ready or self.spinning:
            if not self.ready:
                self._go_around()
            first = min(self.ready) if len(self.ready) > 1 else next(iter(self.ready))
            lanes, changes, here = self.ready.pop(first), batch.barriers.changes, first % count
            if lanes is not before:
                before, warps = lanes, self.threads.count_warps(lanes)
            execution.warps_through[here] += warps
            execution.threads_through[here] += self.threads.size if lanes is None else len(lanes)
            try:
                self.budget.spend(here, lanes)
            except Violation as violation:
                line = self.blocks[self.budget.loop(here)[1]][-1].line
                raise batch.faults.complete(violation, line, lanes) from None
            for instruction, step, run in execution.code.steps[here]:
                if tainted:
                    batch.taint.follow(run, lanes)
                batch.do(instruction, step, lanes)
            self._leave(here, lanes)
            if self.asleep and batch.barriers.changes != changes:
                self._wake()
        if self.asleep:
            raise self._deadlock()
        if (self.barrier != NOWHERE).any():
            raise self._stuck()

    def _leave(self, here: int, lanes: Lanes) -> None:
        """Send the lanes on from the end of a basic block."""
        batch, last, staying = self.batch, self.blocks[here][-1], lanes
        barrier = self.barriers[here]
        if barrier in ("warp", "block"):
            staying = self._meet(here, last, lanes)
            if barrier == "block":
                batch.tracer.event(last.line, "barrier", staying)
        elif barrier:
            staying = self._come(here, last, lanes)
        elif last.opcode.startswith((WAITS, CLUSTER_WAITS)):
            if batch.convergence and isinstance(batch.wait, MbarrierWait):
                batch.convergence.alone(batch.wait.lanes, f"has waited at an mbarrier, line {last.line},")
            staying = self._passed(here + 1, batch.wait)
        elif last.opcode in LEAVES:
            if batch.taint.of:
                batch.taint.follow([last], lanes)
            going, staying = batch.registers.split(last, lanes)
            if last.opcode == "call":
                for begins, part in calls.enter(batch, last, going, here + 1):
                    self._arrive(begins, part)
            elif last.opcode == "return":
                for back, part in batch.stack.leave(self.threads.places(going)):
                    calls.leave(batch, self.blocks[back - 1][-1], part, back, here)
                    self._arrive(back, part)
            elif last.opcode.startswith("bra"):
                if batch.convergence and lanes is not None and here in self.execution.code.loop_exits:
                    batch.convergence.alone(lanes, f"has run a loop, line {last.line},")
                target = self.execution.program.targets[last.operands[0].name]
                if here in self.execution.code.spins and target <= here and (going is None or len(going)):
                    self.spinning.append((here, target, going))
                else:
                    self._arrive(target, going)
        self._arrive(here + 1, staying)

    def _arrive(self, target: int, lanes: Lanes) -> None:
        """Make lanes ready to run a basic block."""
        if lanes is not None and len(lanes) == 0:
            return
        if self.turn is not None:
            lanes = self.threads.places(lanes)
            turns = self.turn[lanes]
            first, *others = np.unique(turns).tolist()
            for turn in others:
                self._ready(turn * len(self.blocks) + target, lanes[turns == turn])
            target, lanes = first * len(self.blocks) + target, lanes[turns == first]
        self._ready(target, lanes)

    def _go_around(self) -> None:
        """Let the lanes that wait for words of memory go on, as no other lane can.

        Raises
        ------
        SimulationFault
            They have done so again and again, and no word has changed.
        """
        changes = self.batch.spaces.changes + self.batch.barriers.changes
        self.vain, self.changes = self.vain + 1 if changes == self.changes else 0, changes
        if self.vain > VAIN:
            raise self._deadlock()
        spinning, self.spinning = self.spinning, []
        for _, target, lanes in spinning:
            self._arrive(target, lanes)

    def _ready(self, target: int, lanes: Lanes) -> None:
        if target in self.ready:
            lanes = np.sort(np.concatenate([self.ready[target], lanes]), kind="stable")  # quick, as both are sorted
        self.ready[target] = None if lanes is None or len(lanes) == self.threads.size else lanes

    def _passed(self, target: int, wait: MbarrierWait | ClusterWait) -> np.ndarray:
        """Return the lanes whose wait is over, and let the others sleep."""
        batch = self.batch
        if isinstance(wait, ClusterWait):
            over = batch.clusters.passed(wait)
        else:
            if batch.proxy:
                batch.proxy.land(wait.places[~batch.barriers.over(wait)])
            over = batch.barriers.passed(wait)
            batch.tracer.event(wait.line, "go on", wait.lanes[over], wait.addresses[over])
        if not over.all():
            self.asleep.append((target, wait.part(~over)))
        lanes = wait.lanes[over]
        if len(lanes) and isinstance(wait, MbarrierWait):
            every = len(lanes) == self.threads.size
            batch.registers.write(wait.target, np.ones(1, bool), None if every else lanes)
        return lanes

    def _wake(self) -> None:
        """Let lanes go on whose wait is over by now."""
        asleep, self.asleep = self.asleep, []
        for target, wait in asleep:
            self._arrive(target, self._passed(target, wait))

    def _come(self, here: int, barrier: Instruction, lanes: Lanes) -> np.ndarray:
        """Take lanes to named barriers, or to votes; return those that only arrive, and let complete parties go on.

        Raises
        ------
        SimulationFault
            More threads come than a barrier is for, or they differ about how many it is for.
        """
        batch, lanes, action = self.batch, self.threads.places(lanes), meeting(barrier.opcode)
        number, needs, vote = batch.brought
        party = self.threads.block[lanes] * BARRIERS + number.astype(np.int64)
        needs = np.full(len(lanes), self.threads.per_block) if needs is None else needs.astype(np.int64)
        again = (self.came[party] > 0) & (self.needs[party] != needs) | (number >= BARRIERS)
        np.add.at(self.came, party, 1)
        if (wrong := again | (self.came[party] > needs)).any():
            detail = f"comes to barrier {number[wrong][0]} of {needs[wrong][0]} threads, which others need otherwise"
            raise batch.faults.complete(Violation("barrier", np.flatnonzero(wrong)[0], detail), barrier.line, lanes)
        self.needs[party] = needs
        batch.barriers.hand_on([("barrier", of) for of in party.tolist()], lanes)
        if vote is not None:
            batch.registers.write(VOTE, vote, lanes)
        if action == "arrive":
            arrived = lanes
        else:
            arrived, self.barrier[lanes], self.named[lanes] = lanes[:0], here, party
        for complete in np.unique(party[self.came[party] == needs]).tolist():
            self.came[complete] = 0
            self._go_on(np.flatnonzero(self.named == complete))
        return arrived

    def _go_on(self, lanes: np.ndarray) -> None:
        """Let lanes go on from a named barrier, which may be the barrier of their whole block."""
        batch, places = self.batch, self.barrier[lanes]
        batch.barriers.hand_on([("barrier", of) for of in self.named[lanes].tolist()], lanes)
        batch.barriers.meet(lanes, self.threads.block)
        if len(lanes) == self.threads.per_block:
            batch.shared.interval[self.threads.block[lanes[0]]] += 1
            batch.join(lanes)
            if batch.history:
                batch.history.meet(lanes, self.threads.block)
        self.barrier[lanes] = self.named[lanes] = NOWHERE
        for here in np.unique(places).tolist():
            barrier, part = self.blocks[here][-1], lanes[places == here]
            action, _, how = meeting(barrier.opcode).partition(".")
            if action == "red":
                votes = batch.registers.read(VOTE, np.dtype(bool), lanes, barrier)
                value = {"popc": np.uint32(np.count_nonzero(votes)), "and": votes.all(), "or": votes.any()}[how]
                batch.registers.write(barrier.operands[0].name, np.array([value]), part)
            self._arrive(here + 1, part)

    def _party(self, barrier: Instruction) -> tuple[np.ndarray, np.ndarray]:
        """Return each lane's block or warp, whichever meets at a barrier, and how many barriers each has passed."""
        shared = self.batch.shared
        if barrier.opcode != "bar.warp.sync":
            return self.threads.block, shared.interval
        return shared.warp(self.threads.block, self.threads.thread), shared.warp_interval

    def _meet(self, here: int, barrier: Instruction, lanes: Lanes) -> Lanes:
        """Take lanes into a barrier, and return those whose block or warp is complete.

        Raises
        ------
        SimulationFault
            Other lanes of the block wait at another barrier for the block.
        """
        batch, (party, passed) = self.batch, self._party(barrier)
        if lanes is None:
            passed += 1
        else:
            self.barrier[lanes] = here
            absent = self.barrier != here
            if barrier.opcode == "bar.warp.sync":
                lanes = self._whole(here, lanes)
                passed[np.unique(party[lanes])] += 1
            else:
                complete = np.ones(len(passed), bool)
                complete[party[absent]] = False
                self._require_one_barrier(lanes, absent)
                passed[complete] += 1
                lanes = np.flatnonzero(complete[party])
            self.barrier[lanes] = NOWHERE
        batch.join(lanes)
        batch.barriers.meet(self.threads.places(lanes), party)
        if batch.history:
            batch.history.meet(self.threads.places(lanes), party)
        return lanes

    def _whole(self, here: int, lanes: np.ndarray) -> np.ndarray:
        """Return the lanes at a barrier of the warp of which all that their masks name are there or have left."""
        slots, there = self.threads.slot, self.batch.gone()
        self.mask[lanes] = self.batch.brought[0]
        waiting = np.flatnonzero(self.barrier == here)
        there[slots[waiting]] = True
        return waiting[self.mask[waiting] & ~packed(there.reshape(-1, WARP))[slots[waiting] // WARP] == 0]

    def _require_one_barrier(self, lanes: np.ndarray, absent: np.ndarray) -> None:
        """Raise the fault of lanes at a block's barrier while absent lanes of their blocks wait at another one."""
        for other in np.flatnonzero(absent & (self.barrier != NOWHERE)):
            there = self.blocks[self.barrier[other]][-1]
            mates = lanes[self.threads.block[lanes] == self.threads.block[other]]
            if there.opcode != "bar.warp.sync" and len(mates):
                raise self._missed(mates[0], other)

    def _deadlock(self) -> SimulationFault:
        """Return the fault of sleeping lanes that nothing will ever wake."""
        threads, barriers = self.threads, self.batch.barriers
        cluster = threads.block // self.execution.program.cluster
        spinning = [(here, self.threads.places(lanes)) for here, _, lanes in self.spinning]
        first = [wait.lanes[0] for _, wait in self.asleep] + [lanes[0] for _, lanes in spinning]
        concerned, waits = cluster == cluster[min(first)], []
        for here, lanes in spinning:
            words = f"waits in the loop of {self.budget.where(here)} for memory to change, which no thread does"
            waits += [(lane, self.blocks[here][-1].line, words) for lane in lanes[concerned[lanes]].tolist()]
        for _, wait in self.asleep:
            for i in np.flatnonzero(concerned[wait.lanes]):
                cause = (
                    barriers.describe(wait, i) if isinstance(wait, MbarrierWait) else "waits at the cluster's barrier"
                )
                waits.append((int(wait.lanes[i]), wait.line, cause))
        waits += [
            (lane, self.blocks[self.barrier[lane]][-1].line, "waits at a barrier")
            for lane in np.flatnonzero((self.barrier != NOWHERE) & concerned).tolist()
        ]
        return self.batch.faults.deadlock(waits)

    def _stuck(self) -> SimulationFault:
        """Return the fault of lanes at a barrier to which others of their block or warp never come."""
        lane = np.flatnonzero(self.barrier != NOWHERE)[0]
        if (name := self.named[lane]) != NOWHERE:
            came = f"to which {self.came[name]} of {self.needs[name]} threads have come"
            return self.batch.faults.complete(
                Violation("barrier", lane, f"waits at barrier {name % BARRIERS}, {came}"),
                self.blocks[self.barrier[lane]][-1].line,
                None,
            )
        party, _ = self._party(self.blocks[self.barrier[lane]][-1])
        return self._missed(lane, np.flatnonzero((party == party[lane]) & (self.barrier != self.barrier[lane]))[0])

    def _missed(self, lane: np.integer, other: np.integer) -> SimulationFault:
        """Return the fault of a lane at a barrier while another one waits elsewhere or has left."""
        barrier = self.blocks[self.barrier[lane]][-1]
        there = None if self.barrier[other] == NOWHERE else self.blocks[self.barrier[other]][-1].line
        party = "warp" if barrier.opcode == "bar.warp.sync" else "block"
        return self.batch.faults.missed(int(lane), barrier.line, int(other), there, party)
