"""Defines a batch: some blocks of a grid, with everything that their instructions can touch.

All blocks of a cluster are in one batch. `Scheduler` runs a batch; a decoded instruction is a function of a batch and
its active lanes.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .accumulators import Accumulators
from .clusters import Clusters, ClusterWait
from .copies import AsyncCopies
from .counting import AccessCounter
from .execution import Execution, Step
from .faults import FaultWriter
from .history import History
from .lanes import Lanes, Threads
from .limits import WARP
from .local import LocalMemory, Stack
from .mbarriers import Mbarriers, MbarrierWait
from .memory import SharedMemory, Violation
from .proxy import AsyncProxy
from .ptx import Instruction
from .registers import RegisterFile, special
from .spaces import AddressSpaces
from .taint import Taint
from .tracing import Tracer
from .warps import Convergence


class Batch:
    """Some blocks of a grid.

    Parameters
    ----------
    execution : Execution
    blocks : array of int64
        Linear indices of the blocks.
    grid : tuple of int
        Blocks of the whole grid along x, y and z.

    Attributes
    ----------
    threads : Threads
        The lanes.
    registers : RegisterFile
    taint : Taint
        Which registers hold something that a shuffle left undefined.
    shared : SharedMemory
    local : LocalMemory
    stack : Stack
    spaces : AddressSpaces
    barriers : Mbarriers
    copies : AsyncCopies
        Copies by ``cp.async`` that have not landed yet.
    proxy : AsyncProxy, optional
        Where the copy engine and ``wgmma`` use shared memory.
    accumulators : Accumulators, optional
        The registers that a running ``wgmma`` uses.
    clusters : Clusters, optional
    convergence : Convergence, optional
    counter : AccessCounter
    tracer : Tracer
    faults : FaultWriter
    history : History, optional
        The order of accesses, where it is kept.
    left : array of bool
        For each place of `Threads.slot`, whether its lane has left the kernel, or there is none.
    ready : dict of int to Lanes
        The scheduler's.
    wait : MbarrierWait or ClusterWait, optional
        The wait that lanes have just begun, for the scheduler.
    group : tuple of (Lanes, Group or None)
        Lanes of whole warps that have exchanged values, for those that do so next, and the `exchange.Group` of them.
    brought : tuple of (array or None)
        What lanes bring to the named barrier at which they arrive: its number, its threads, and a predicate.
    called : array of uint64, optional
        The addresses of the functions that lanes call next.
    """

    def __init__(self, execution: Execution, blocks: np.ndarray, grid: tuple[int, int, int]) -> None:
        program, code = execution.program, execution.code
        variables, cluster = program.shared.values(), program.cluster
        self.execution = execution
        self.threads = threads = Threads(blocks, execution.shape, grid)
        self.shared = SharedMemory(
            variables, program.shared_bytes, len(blocks), code.granule, code.warpwise, threads.per_block, cluster
        )
        self.shared.thread_name = threads.thread_name
        self.barriers = Mbarriers(self.shared, threads)
        self.copies = AsyncCopies(self.shared, threads.block, threads.thread)
        self.proxy = AsyncProxy(self.shared, self.barriers) if code.proxies else None
        self.accumulators = Accumulators(threads.size, self.proxy) if code.proxies else None
        self.clusters = Clusters(self.barriers, self.proxy) if code.clustered else None
        self.convergence = None if code.loop_exits is None else Convergence(threads)
        self.faults = FaultWriter(execution.name, threads)
        self.registers = RegisterFile(
            threads, special(threads, execution.shape, grid, cluster), self.accumulators, self.faults
        )
        self.taint = Taint(self.registers)
        self.local = LocalMemory(threads.size, program.functions[""][1].frame)
        self.stack = Stack(self.local, self.registers)
        self.spaces = AddressSpaces(threads, execution.memory, self.shared, self.local, self.barriers, code.clustered)
        self.counter = AccessCounter(execution.tallies, threads, code.clustered)
        self.tracer = Tracer(threads, execution.traced, execution.trace, execution.events, execution.memory, variables)
        self.wait: MbarrierWait | ClusterWait | None = None
        self.group: tuple[Lanes, Any] = None, None
        self.brought: tuple[np.ndarray | None, ...] = ()
        self.called: np.ndarray | None = None
        self.left = np.ones(threads.warps * WARP, bool)
        self.left[threads.slot] = False
        self.ready: dict[int, Lanes] = {}
        self.history: History | None = None
        if execution.careful or code.flags:
            self.watch()

    def do(self, instruction: Instruction, step: Step, lanes: Lanes) -> None:
        """Do a step for the active lanes for which the instruction's guard holds.

        Raises
        ------
        SimulationFault
            A check failed.
        """
        if instruction.guard:
            lanes, _ = self.registers.split(instruction, lanes)
            if lanes is not None and not len(lanes):
                return
        if self.history:
            self.history.line = instruction.line
        try:
            step(self, lanes)
        except Violation as violation:
            raise self.faults.complete(violation, instruction.line, lanes) from None
        while self.shared.notes:
            note = str(self.faults.complete(self.shared.notes.pop(0), instruction.line, None))
            self.execution.notes.setdefault(instruction.line, note)

    def watch(self, atomic: bool = False) -> History:
        """Begin to keep the history of accesses, if that has not begun.

        Where there are proxies, that of shared memory is kept only from the first `atomic` operation there on.
        """
        if not self.history:
            self.history = History(self.threads, self.execution.code.finest, self.execution.program.cluster)
            self.spaces.history = self.barriers.history = self.history
        if "" not in self.history.marks and (atomic or not self.execution.code.proxies):
            self.history.observe(self.shared)
            ours, first = self.history.ordered, self.shared.ordered  # which a proxy has kept from the start
            self.shared.ordered = (lambda *of: first(*of) | ours(*of)) if first else ours
        return self.history

    def gone(self) -> np.ndarray:
        """Return for each place of `Threads.slot` whether its lane has left the kernel, or does so next."""
        gone, blocks = self.left.copy(), self.execution.program.blocks
        for key, lanes in self.ready.items():
            if blocks[key % len(blocks)][0].opcode in ("ret", "exit") and not blocks[key % len(blocks)][0].guard:
                gone[self.threads.pick(self.threads.slot, lanes)] = True
        return gone

    def strong(self, order: str, scope: str) -> AbstractContextManager[None]:
        """Take the accesses within for strong ones, if there is a history of them."""
        return self.history.strong(order, scope) if self.history else nullcontext()

    def fence(self, lanes: Lanes, scope: str) -> None:
        """Order the active lanes' accesses before those that follow."""
        if self.history:
            self.history.fence(self.threads.places(lanes), scope)

    def join(self, lanes: Lanes) -> None:
        """Note that the active lanes' warps are whole and have waited for each other."""
        if self.convergence:
            self.convergence.join(lanes)
