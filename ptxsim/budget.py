"""Gives each thread of a batch a budget of instructions, so that a kernel which never ends is found."""

import re

import numpy as np

from .lanes import NONE, Lanes
from .memory import Violation
from .ptx import Program

READS = re.compile(r"ld\.(?!param|const|local)")
CHANGES = re.compile(r"st|atom|red|bar|mbarrier|call|ld\.(?:volatile|relaxed|acquire)")
"""Instructions that change memory, may let other threads change it, or read it again."""


class Budget:
    """Counts the instructions that each lane of a batch executes.

    Parameters
    ----------
    program : Program
    limit : int
        Instructions that a thread may execute.
    lanes : int

    Attributes
    ----------
    everyone, spent : int, array of int64
        The instructions that all lanes have executed together, and for each lane the others.
    total : int
        The instructions that some lane has executed. No lane has executed more.
    seen : list of int
        For each basic block, `total` when it last ran; -1 if it never has.
    """

    def __init__(self, program: Program, limit: int, lanes: int) -> None:
        self.blocks, self.targets, self.limit = program.blocks, program.targets, limit
        self.sizes = [len(block) for block in program.blocks]
        self.everyone, self.spent = 0, np.zeros(lanes, np.int64)
        self.total, self.check_at = 0, limit
        self._last: tuple[np.ndarray, int] = NONE, 0
        self.seen = [-1] * len(self.sizes)

    def spend(self, here: int, lanes: Lanes) -> None:
        """Count a basic block that lanes are about to run.

        Raises
        ------
        Violation
            One of them would exceed its budget.
        """
        size = self.sizes[here]
        self.total += size
        self.seen[here] = self.total
        if lanes is None:
            self.everyone += size
        elif lanes is self._last[0]:  # they often run many basic blocks in a row
            self._last = lanes, self._last[1] + size
        else:
            self._settle(lanes, size)
        if self.total > self.check_at:
            self._settle(NONE, 0)
            most = self.everyone + int(self.spent.max())
            self.check_at = self.total + self.limit - most
            if most > self.limit:
                mine = self.spent if lanes is None else self.spent[lanes]
                raise Violation("endless", int(mine.argmax()), self._describe(here))

    def _settle(self, lanes: np.ndarray, size: int) -> None:
        """Note what the last lanes have executed, and begin with others."""
        last, count = self._last
        self.spent[last] += count
        self._last = lanes, size

    def loop(self, here: int) -> tuple[int, int]:
        """Return the first and the last basic block of the outermost loop around one that has run again and again."""
        recent = [seen > self.total - self.limit // 2 for seen in self.seen]
        loops = [(here, here)]
        for tail, block in enumerate(self.blocks):
            if recent[tail] and block[-1].opcode.startswith("bra"):
                head = self.targets[block[-1].operands[0].name]
                if head <= here <= tail and recent[head]:
                    loops.append((head, tail))
        return min(loops, key=lambda of: (of[0], -of[1]))

    def _describe(self, here: int) -> str:
        return (
            f"has executed more than {self.limit:,} instructions and is in the loop of {self.where(here)}, which seems "
            f"never to end; a larger budget allows more{self._waits(here)}"
        )

    def _waits(self, here: int) -> str:
        """Return words for a loop that changes nothing: it may wait for memory that is read once, before it."""
        head, tail = self.loop(here)
        loop = [of for block in self.blocks[head : tail + 1] for of in block]
        reads = [of.line for of in loop if READS.match(of.opcode)]
        if any(CHANGES.match(of.opcode) for of in loop) or not (reads or all(of.opcode[:3] == "bra" for of in loop)):
            return ""
        what = f"what line {reads[0]} reads" if reads else "memory"
        return (
            f". If it waits for {what} to change, that must be volatile or atomic: the compiler may read other memory "
            "once, before the loop"
        )

    def where(self, here: int) -> str:
        """Return the lines of that loop in words."""
        head, tail = self.loop(here)
        lines = [of.line for block in self.blocks[head : tail + 1] for of in block if of.line]
        return f"lines {min(lines)} to {max(lines)}" if len(set(lines)) > 1 else f"line {max(lines, default=0)}"
