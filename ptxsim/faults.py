"""Writes the faults of a batch: completes the finding of a check, and describes threads that wait for ever."""

import numpy as np

from .errors import SimulationFault
from .lanes import Lanes, Threads
from .memory import Violation


class FaultWriter:
    """Writes faults in terms of the kernel, its blocks, its threads and its source lines.

    Parameters
    ----------
    name : str
        The kernel's name.
    threads : Threads
    """

    def __init__(self, name: str, threads: Threads) -> None:
        self.name, self.threads = name, threads

    def complete(self, violation: Violation, line: int, lanes: Lanes) -> SimulationFault:
        """Return the fault that a violation by one of the active lanes makes."""
        return self._at(
            violation.kind, violation.detail, line, violation.lane if lanes is None else lanes[violation.lane]
        )

    def deadlock(self, waits: list[tuple[int, int, str]]) -> SimulationFault:
        """Return the fault of lanes that nothing will ever wake.

        Parameters
        ----------
        waits : list of (int, int, str)
            A lane, the line at which it waits, and what it waits for: "waits ...". The first lane's block is named in
            the fault, and its threads come first.
        """
        threads = self.threads
        block = threads.block[min(lane for lane, _, _ in waits)]
        groups: dict[tuple[int, int, str], list[int]] = {}
        for lane, line, words in waits:
            groups.setdefault((int(threads.block[lane]), line, words), []).append(int(threads.thread[lane]))
        first, *others = sorted(groups, key=lambda group: (group[0] != block, group[0], groups[group]))
        details, who = [first[2]], groups[first]
        if len(who) > 1:
            details[0] += f", as {self._threads(who[1:])} do{'es' if len(who) == 2 else ''}"
        for group in others:
            of = f" of block {threads.block_name(group[0])}" if group[0] != block else ""
            words = group[2] if len(groups[group]) == 1 else group[2].replace("waits", "wait", 1)
            details.append(f"{self._threads(groups[group])}{of} {words}, line {group[1]}")
        lane = block * threads.per_block + who[0]
        return self._at("deadlock", "; ".join(details), first[1], lane)

    def missed(self, lane: int, line: int, other: int, other_line: int | None, party: str) -> SimulationFault:
        """Return the fault of a lane at a barrier to which another lane of its block or warp does not come.

        Parameters
        ----------
        lane, other : int
        line : int
            The line of the lane's barrier.
        other_line : int, optional
            The line of the barrier at which the other waits; None if it has left the kernel.
        party : str
            "block" or "warp".
        """
        who = f"thread {self.threads.thread_name(self.threads.thread[other])} of its {party}"
        if other_line is None:
            detail = (
                f"waits at a barrier that {who} never reaches: that one has left the kernel "
                "(GPUs from Volta on let this pass: they wait for the threads that are still there)"
            )
        else:
            detail = (
                f"waits at a barrier while {who} waits at another barrier instruction, line {other_line}: "
                "which barrier meets which is undefined"
            )
        return self._at("barrier", detail, line, lane)

    def _at(self, kind: str, detail: str, line: int, lane: int | np.integer) -> SimulationFault:
        """Return the fault of a lane at a line."""
        threads, block, thread = self.threads, self.threads.block[lane], self.threads.thread[lane]
        place = line, int(threads.blocks[block]), int(thread)
        return SimulationFault(kind, self.name, detail, place, (threads.block_name(block), threads.thread_name(thread)))

    def _threads(self, numbers: list[int]) -> str:
        """Return threads in words: the one, or the first and the last of several."""
        first, *others = map(self.threads.thread_name, numbers)
        return f"threads {first} to {others[-1]}" if others else f"thread {first}"
