"""Writes the faults of a batch: completes what a check found, and describes threads that wait for ever."""

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
        lane = violation.lane if lanes is None else lanes[violation.lane]
        return SimulationFault(violation.kind, self.name, violation.detail, (line, *self._named(lane)))

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
            details[0] += f", as {_threads(who[1:])} do{'es' if len(who) == 2 else ''}"
        for group in others:
            of = f" of block {threads.blocks[group[0]]}" if group[0] != block else ""
            words = group[2] if len(groups[group]) == 1 else group[2].replace("waits", "wait", 1)
            details.append(f"{_threads(groups[group])}{of} {words}, line {group[1]}")
        return SimulationFault(
            "deadlock", self.name, "; ".join(details), (first[1], int(threads.blocks[block]), who[0])
        )

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
        who = f"thread {self.threads.thread[other]} of its {party}"
        if other_line is None:
            detail = f"waits at a barrier that {who} never reaches: that one has left the kernel"
        else:
            detail = (
                f"waits at a barrier while {who} waits at another barrier instruction, line {other_line}: "
                "which barrier meets which is undefined"
            )
        return SimulationFault("barrier", self.name, detail, (line, *self._named(lane)))

    def _named(self, lane: int | np.integer) -> tuple[int, int]:
        """Return a lane's block in the grid and its thread in the block."""
        return int(self.threads.blocks[self.threads.block[lane]]), int(self.threads.thread[lane])


def _threads(numbers: list[int]) -> str:
    """Return threads in words: the one, or the first and the last of several."""
    return f"thread {numbers[0]}" if len(numbers) == 1 else f"threads {numbers[0]} to {numbers[-1]}"
