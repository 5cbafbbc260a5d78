"""Runs a batch: decides which lanes run next, where lanes part, and where they wait.

Lanes that are at the same basic block run it together, and the block that comes first in the program runs first, so
that lanes which parted come together again where their paths join. A lane at a barrier waits for the other lanes of its
block, or of its warp at a warp's barrier. A lane that waits for an mbarrier's phase or for its cluster sleeps until the
wait is over, so that others can end it. PTX lets such a wait return early and in vain; here it never does.
"""

import numpy as np

from .batch import Batch
from .budget import Budget
from .clusters import ClusterWait
from .errors import SimulationFault
from .lanes import Lanes
from .mbarriers import MbarrierWait
from .memory import Violation
from .ptx import CLUSTER_WAITS, LEAVES, WAITS, Instruction

NOWHERE = -1  # in the place of the basic block at whose barrier a lane waits


class Scheduler:
    """Runs one batch to its end.

    Parameters
    ----------
    batch : Batch

    Attributes
    ----------
    ready : dict of int to Lanes
        The lanes to run next, by basic block.
    asleep : list of (int, MbarrierWait or ClusterWait)
        Waits that are not over, and the basic block where their lanes go on.
    barrier : array of int64
        For each lane, the basic block at whose end it waits at a barrier, or `NOWHERE`.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch, self.execution, self.threads = batch, batch.execution, batch.threads
        self.blocks = batch.execution.program.blocks
        self.budget = Budget(batch.execution.program, batch.execution.budget, self.threads.size)
        self.ready: dict[int, Lanes] = {0: None}
        self.asleep: list[tuple[int, MbarrierWait | ClusterWait]] = []
        self.barrier = np.full(self.threads.size, NOWHERE, np.int64)

    def run(self) -> None:
        """Execute until every lane has left the kernel.

        Raises
        ------
        SimulationFault
            A check failed, or lanes wait for what never comes.
        """
        execution, batch = self.execution, self.batch
        while self.ready:
            here = min(self.ready)
            lanes, changes = self.ready.pop(here), batch.barriers.changes
            execution.warps_through[here] += self.threads.count_warps(lanes)
            execution.threads_through[here] += self.threads.size if lanes is None else len(lanes)
            try:
                self.budget.spend(here, lanes)
            except Violation as violation:
                line = self.blocks[self.budget.loop(here)[1]][-1].line
                raise batch.faults.complete(violation, line, lanes) from None
            for instruction, step in execution.code.steps[here]:
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
        if last.opcode in ("bar.sync", "bar.warp.sync"):
            staying = self._meet(here, last, lanes)
            if last.opcode == "bar.sync":
                batch.tracer.event(last.line, "barrier", staying)
        elif last.opcode.startswith((WAITS, CLUSTER_WAITS)):
            if batch.convergence and isinstance(batch.wait, MbarrierWait):
                batch.convergence.alone(batch.wait.lanes, f"has waited at an mbarrier, line {last.line},")
            staying = self._passed(here + 1, batch.wait)
        elif last.opcode in LEAVES:
            going, staying = batch.registers.split(last, lanes)
            if last.opcode.startswith("bra"):
                if batch.convergence and lanes is not None and here in self.execution.code.loop_exits:
                    batch.convergence.alone(lanes, f"has run a loop, line {last.line},")
                self._arrive(self.execution.program.targets[last.operands[0].name], going)
        self._arrive(here + 1, staying)

    def _arrive(self, target: int, lanes: Lanes) -> None:
        """Make lanes ready to run a basic block."""
        if lanes is not None and len(lanes) == 0:
            return
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

    def _party(self, barrier: Instruction) -> tuple[np.ndarray, np.ndarray]:
        """Return each lane's block or warp, whichever meets at a barrier, and how many barriers each has passed."""
        shared = self.batch.shared
        if barrier.opcode == "bar.sync":
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
            complete = np.ones(len(passed), bool)
            complete[party[absent]] = False
            if barrier.opcode == "bar.sync":
                self._require_one_barrier(lanes, absent)
            passed[complete] += 1
            lanes = np.flatnonzero(complete[party])
            self.barrier[lanes] = NOWHERE
        batch.join(lanes)
        batch.barriers.meet(self.threads.places(lanes), party)
        return lanes

    def _require_one_barrier(self, lanes: np.ndarray, absent: np.ndarray) -> None:
        """Raise the fault of lanes at a block's barrier while absent lanes of their blocks wait at another one."""
        for other in np.flatnonzero(absent & (self.barrier != NOWHERE)):
            there = self.blocks[self.barrier[other]][-1]
            mates = lanes[self.threads.block[lanes] == self.threads.block[other]]
            if there.opcode == "bar.sync" and len(mates):
                raise self._missed(mates[0], other)

    def _deadlock(self) -> SimulationFault:
        """Return the fault of sleeping lanes that nothing will ever wake."""
        threads, barriers = self.threads, self.batch.barriers
        cluster = threads.block // self.execution.program.cluster
        concerned = cluster == cluster[min(wait.lanes[0] for _, wait in self.asleep)]
        waits = []
        for _, wait in self.asleep:
            for i in np.flatnonzero(concerned[wait.lanes]):
                cause = (
                    barriers.describe(wait, i) if isinstance(wait, MbarrierWait) else "waits at the cluster's barrier"
                )
                waits.append((int(wait.lanes[i]), wait.line, cause))
        for lane in np.flatnonzero((self.barrier != NOWHERE) & concerned):
            waits.append((int(lane), self.blocks[self.barrier[lane]][-1].line, "waits at a barrier"))
        return self.batch.faults.deadlock(waits)

    def _stuck(self) -> SimulationFault:
        """Return the fault of lanes at a barrier to which others of their block or warp never come."""
        lane = np.flatnonzero(self.barrier != NOWHERE)[0]
        party, _ = self._party(self.blocks[self.barrier[lane]][-1])
        return self._missed(lane, np.flatnonzero((party == party[lane]) & (self.barrier != self.barrier[lane]))[0])

    def _missed(self, lane: np.integer, other: np.integer) -> SimulationFault:
        """Return the fault of a lane at a barrier while another one waits elsewhere or has left."""
        barrier = self.blocks[self.barrier[lane]][-1]
        there = None if self.barrier[other] == NOWHERE else self.blocks[self.barrier[other]][-1].line
        party = "block" if barrier.opcode == "bar.sync" else "warp"
        return self.batch.faults.missed(int(lane), barrier.line, int(other), there, party)
