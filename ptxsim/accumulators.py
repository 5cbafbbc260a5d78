"""What ``wgmma`` works on while it goes on: registers that no other instruction may touch, and tiles that it reads.

A warp commits its multiplications as groups, and waits for all groups but the most recent few. Until then a register of
theirs is in flight. Here the sums are computed at once, and the registers are kept apart until the wait, so that
whatever touches them is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .memory import Violation
from .tiles import Reading, Tiles

LANDED = -1  # in a group's place


@dataclass(eq=False)
class Held:
    """The registers of one operand.

    Attributes
    ----------
    values : dict of str to array, shape (lanes of the batch,)
        By name; what they hold where they are not in flight, and what they will hold where they are.
    group : array of int64, shape (lanes of the batch,)
        The group of the last multiplication that has them, `LANDED` where none has.
    line : int
        Where in the source that is.
    """

    values: dict[str, np.ndarray]
    group: np.ndarray
    line: int


class Accumulators:
    """The registers of a batch of lanes that are in flight.

    Parameters
    ----------
    lanes : int
    tiles : Tiles
    """

    def __init__(self, lanes: int, tiles: Tiles) -> None:
        self.tiles = tiles
        self.committed = np.zeros(lanes, np.int64)  # groups that each lane has committed
        self.ordered = np.zeros(lanes, bool)  # whether a wgmma.fence lies behind what each lane did to registers
        self.held: dict[str, Held] = {}
        self.readings: list[tuple[np.ndarray, Reading]] = []

    def hold(self, names: list[str], registers: dict[str, np.ndarray], lanes: np.ndarray, line: int) -> Held:
        """Take the registers of an operand out of those that all may touch; return them.

        Raises
        ------
        Violation
            Some belong to another operand that is in flight, or no fence orders what was done to them before.
        """
        found = self.held.get(names[0])
        if found is None:
            others = [self.held[name] for name in names if name in self.held]
            values = {}
            for name in names:
                value = registers.get(name, np.zeros(1, np.uint32))
                values[name] = np.array(np.broadcast_to(value, len(self.committed)))
            found = Held(values, np.full(len(self.committed), LANDED), line)
        else:
            others = [] if found.values.keys() == set(names) else [found]
        if others:
            raise Violation("in flight", 0, f"uses registers of another wgmma, line {others[0].line}, not waited for")
        hasty = np.flatnonzero((found.group[lanes] == LANDED) & ~self.ordered[lanes])
        if len(hasty):
            raise Violation(
                "in flight", hasty[0], "uses registers that no wgmma.fence has ordered since they were free"
            )
        for name in names:
            registers.pop(name, None)
            self.held[name] = found
        found.group[lanes], found.line = self.committed[lanes], line
        return found

    def touch(self, name: str, lanes: np.ndarray | None, does: str) -> np.ndarray:
        """Return a register's values where it is in flight for some lanes, but for none of these; else raise."""
        held = self.held[name]
        flying = np.flatnonzero((held.group if lanes is None else held.group[lanes]) != LANDED)
        if len(flying):
            raise Violation(
                "in flight", flying[0], f"{does} {name}, a register of the wgmma of line {held.line}, not waited for"
            )
        return held.values[name]

    def read(self, reading: Reading) -> None:
        """Remember that a multiplication reads tiles."""
        self.readings.append((self.committed[reading.lanes], reading))

    def commit(self, lanes: np.ndarray) -> None:
        """Make a group, for each lane, of its multiplications that are in none yet."""
        self.committed[lanes] += 1

    def wait(self, lanes: np.ndarray, pending: int, registers: dict[str, np.ndarray]) -> None:
        """Finish all groups that the lanes have committed, but the `pending` most recent of each lane."""
        first_pending = np.zeros_like(self.committed)  # groups are numbered from 0: of other lanes none is due
        first_pending[lanes] = self.committed[lanes] - pending
        for held in {id(held): held for held in self.held.values()}.values():
            due = (held.group != LANDED) & (held.group < first_pending)
            held.group[due] = LANDED
            self.ordered[due] = False
            if (held.group == LANDED).all():
                for name, values in held.values.items():
                    registers[name] = values
                    del self.held[name]
        going_on = []
        for group, reading in self.readings:
            due = group < first_pending[reading.lanes]
            if due.any():
                self.tiles.end(reading.part(due))
            if not due.all():
                going_on.append((group[~due], reading.part(~due)))
        self.readings = going_on
        for _, reading in going_on:  # two may read the same
            self.tiles.go_on(reading)
