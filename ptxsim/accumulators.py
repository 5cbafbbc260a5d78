"""Guards the registers of running ``wgmma`` instructions, which no other instruction may touch meanwhile.

A warp commits its multiplications as groups, and waits for all groups but the most recent few. Until that wait, a
register of theirs is in flight. Here the sums are computed at once, but the registers stay reserved until the wait, so
that an instruction which touches them too early is found.
"""

from dataclasses import dataclass

import numpy as np

from .lanes import Lanes
from .memory import refuse
from .proxy import AsyncProxy, OperandRead

LANDED = -1  # in the place of a group


@dataclass(eq=False)
class HeldRegisters:
    """The registers of one operand.

    Attributes
    ----------
    table : array of uint32, shape (registers, lanes of the batch)
        The present value in lanes where a register is free, and the future one where it is in flight.
    values : dict of str to array, shape (lanes of the batch,)
        Its rows by the registers' names.
    group : array of int64, shape (lanes of the batch,)
        The group of the last multiplication that uses them, `LANDED` where none does.
    line : int
        The source line of that multiplication.
    """

    table: np.ndarray
    values: dict[str, np.ndarray]
    group: np.ndarray
    line: int


class Accumulators:
    """The registers of a batch that are in flight in some lanes.

    Parameters
    ----------
    lanes : int
    proxy : AsyncProxy

    Attributes
    ----------
    committed : array of int64
        How many groups each lane has committed.
    ordered : array of bool
        Whether each lane has executed a ``wgmma.fence`` since it last used registers otherwise.
    held : dict of str to HeldRegisters
    readings : list of (array, OperandRead)
        The group of each lane, and the operand in shared memory that it reads.
    """

    def __init__(self, lanes: int, proxy: AsyncProxy) -> None:
        self.proxy = proxy
        self.committed = np.zeros(lanes, np.int64)
        self.ordered = np.zeros(lanes, bool)
        self.held: dict[str, HeldRegisters] = {}
        self.readings: list[tuple[np.ndarray, OperandRead]] = []

    def hold(self, names: list[str], registers: dict[str, np.ndarray], lanes: np.ndarray, line: int) -> HeldRegisters:
        """Move the registers of an operand from the register file to those in flight, and return them.

        Raises
        ------
        Violation
            Another operand in flight uses some of them, or no fence orders earlier accesses to them.
        """
        found = self.held.get(names[0])
        if found is None:
            others = [self.held[name] for name in names if name in self.held]
            table = np.empty((len(names), len(self.committed)), np.uint32)
            for row, name in zip(table, names, strict=True):
                row[:] = registers[name].view(np.uint32) if name in registers else 0
            found = HeldRegisters(
                table, dict(zip(names, table, strict=True)), np.full(len(self.committed), LANDED, np.int64), line
            )
        else:
            others = [] if found.values.keys() == set(names) else [found]
            if not others and [*found.values] != names:  # in another order
                found.table = np.stack([found.values[name] for name in names])
                found.values = dict(zip(names, found.table, strict=True))
        refuse(
            "in flight",
            bool(others),
            lambda _: f"uses registers of another wgmma, line {others[0].line}, not waited for",
        )
        refuse(
            "in flight",
            (found.group[lanes] == LANDED) & ~self.ordered[lanes],
            "uses registers that no wgmma.fence has ordered since they were free",
        )
        for name in names:
            registers.pop(name, None)
            self.held[name] = found
        found.group[lanes], found.line = self.committed[lanes], line
        return found

    def touch(self, name: str, lanes: Lanes, does: str) -> np.ndarray:
        """Return a register's values where it is in flight for other lanes only.

        Raises
        ------
        Violation
            It is in flight for one of the active lanes.
        """
        held = self.held[name]
        refuse(
            "in flight",
            (held.group if lanes is None else held.group[lanes]) != LANDED,
            f"{does} {name}, a register of the wgmma of line {held.line}, not waited for",
        )
        return held.values[name]

    def read(self, reading: OperandRead) -> None:
        """Remember that a multiplication reads an operand from shared memory."""
        self.readings.append((self.committed[reading.lanes], reading))

    def commit(self, lanes: np.ndarray) -> None:
        """Make a group of each lane's multiplications that are in none yet."""
        self.committed[lanes] += 1

    def wait(self, lanes: np.ndarray, pending: int, registers: dict[str, np.ndarray]) -> None:
        """Finish all groups that the lanes have committed except the `pending` most recent ones of each lane."""
        first_pending = np.zeros_like(self.committed)  # groups are numbered from 0: other lanes finish none
        first_pending[lanes] = self.committed[lanes] - pending
        for held in {id(held): held for held in self.held.values()}.values():
            due = (held.group != LANDED) & (held.group < first_pending)
            held.group[due] = LANDED
            self.ordered[due] = False
            if (held.group == LANDED).all():
                for name, values in held.values.items():
                    registers[name] = values
                    del self.held[name]
        unfinished = []
        for group, reading in self.readings:
            due = group < first_pending[reading.lanes]
            if due.any():
                self.proxy.end(reading if due.all() else reading.part(due))
            if not due.all():
                unfinished.append((group[~due], reading.part(~due)))
        self.readings = unfinished
        for _, reading in unfinished:  # a finished one may have read the same cells
            self.proxy.keep(reading)
