"""Records the actions of traced blocks: their accesses to memory, and the events that order asynchronous work."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from .lanes import Lanes, Threads
from .memory import RANK, GlobalMemory
from .modules import Variable


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
    """One execution, by a traced block, of an instruction that starts asynchronous work or orders it.

    Attributes
    ----------
    line : int
        Line of the kernel's source.
    kind : str
        "copy": starts a copy of a box. "multiply": starts a ``wgmma``. "commit copies" and "commit products": ends a
        group. "wait for copies" and "wait for products": waits for groups. "arrive": arrives at an mbarrier. "ask":
        starts to wait for a phase of an mbarrier. "go on": has waited for it. "barrier": the whole block has met.
    block : int
        Linear block index.
    threads : array of int
        Linear indices in the block of the threads that take part.
    before : int
        Length of the trace of accesses at this moment.
    array, offset : str, int
        The shared variable and the byte in it where the first thread's box, tile or mbarrier lies; empty and 0 for
        the other kinds.
    pending : int
        How many groups a wait leaves unfinished.
    """

    line: int
    kind: str
    block: int
    threads: np.ndarray
    before: int
    array: str = ""
    offset: int = 0
    pending: int = 0


class Tracer:
    """Appends the accesses and events of a batch's traced blocks to the run's lists.

    Parameters
    ----------
    threads : Threads
    traced : collection of int
        Linear indices in the grid of the blocks to trace.
    accesses, events : list
        The run's lists.
    memory : GlobalMemory
    variables : collection of Variable
        The variables in shared memory.

    Attributes
    ----------
    blocks : array of int64
        Places in the batch of the blocks to trace; usually none.
    """

    def __init__(
        self,
        threads: Threads,
        traced: Collection[int],
        accesses: list[Access],
        events: list[Event],
        memory: GlobalMemory,
        variables: Collection[Variable],
    ) -> None:
        self.threads, self.memory, self.variables = threads, memory, variables
        self.accesses, self.events = accesses, events
        self.blocks = np.flatnonzero([number in traced for number in threads.blocks.tolist()])

    def access(self, line: int, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int) -> None:
        """Record an access as each traced block makes it."""
        if not len(self.blocks):
            return
        threads = self.threads
        addresses, block = threads.spread(addresses, lanes), threads.pick(threads.block, lanes)
        if space == "shared":
            addresses = addresses % np.uint64(1 << RANK)
        for number in self.blocks:
            mine = block == number
            if mine.any():
                first = int(addresses[mine][0])
                array, offset = self.memory.name(first) if space == "global" else self._variable(first)
                who = threads.pick(threads.thread, lanes)[mine]
                offsets = addresses[mine].astype(np.int64) - (first - offset)
                self.accesses.append(Access(line, space, kind, array, width, int(threads.blocks[number]), who, offsets))

    def event(self, line: int, kind: str, lanes: Lanes, addresses: np.ndarray | None = None, pending: int = 0) -> None:
        """Record an event of each traced block; `addresses` are in shared memory, one per active lane."""
        threads = self.threads
        for number in self.blocks:
            mine = np.flatnonzero(threads.pick(threads.block, lanes) == number)
            if len(mine):
                place = ("", 0) if addresses is None else self._variable(int(addresses[mine[0]]) % (1 << RANK))
                block, who = int(threads.blocks[number]), threads.pick(threads.thread, lanes)[mine]
                self.events.append(Event(line, kind, block, who, len(self.accesses), *place, pending))

    def _variable(self, address: int) -> tuple[str, int]:
        """Return the shared variable that holds an address, and the byte in it."""
        return next(
            (variable.name, address - variable.offset)
            for variable in self.variables
            if variable.offset <= address < variable.offset + variable.size
        )
