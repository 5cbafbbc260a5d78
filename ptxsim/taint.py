"""Follows values that PTX leaves undefined: those that a lane shuffles from one that takes no part.

Such a value may exist: when half a warp adds up its numbers, the upper lanes get sums that nobody reads. It must not be
stored where others see it, be an address, or decide a branch. Each register keeps a mark for every lane that has
something of such a value. What goes to local memory, and to a function that is called, is followed no further.
"""

from functools import lru_cache

import numpy as np

from .lanes import Lanes
from .limits import WARP
from .memory import LOCAL_WINDOW, Violation, of_part, refuse
from .ptx import DTYPES, LEAVES, Address, Instruction, Operand, Register, meeting, registers_of
from .registers import RegisterFile

STORES = ("st", "atom.", "red.", "wmma.store")
OWN = (".local", ".param")
CLEAN = np.zeros(1, np.int64)
"""The mark of what is defined."""


def mark(line: int, lane: np.ndarray) -> np.ndarray:
    """Return the marks of values that a shuffle in a line brings from lanes of the warp that take no part.

    Of several marks the highest counts: that of the lowest lane.
    """
    return line * WARP + WARP - lane


@lru_cache(maxsize=4096)
def _parts(instruction: Instruction) -> tuple[list[str], list[Operand], list[str]]:
    """Return the registers that an instruction writes, its operands that it reads, and the registers in addresses."""
    target, sources = instruction.operands[:1], instruction.operands[1:]
    if instruction.opcode in LEAVES or (target and isinstance(target[0], Address)):
        target, sources = (), instruction.operands
    places = [of for of in sources if isinstance(of, Address)]
    return registers_of(target), [of for of in sources if of not in places], registers_of(tuple(places))


class Taint:
    """The marks of a batch's registers.

    Parameters
    ----------
    registers : RegisterFile

    Attributes
    ----------
    of : dict of str to array of int64, shape (lanes,)
        The marks of each register that has any; 0 for lanes in which it is defined. It stays one and the same object.
    """

    def __init__(self, registers: RegisterFile) -> None:
        self.registers, self.threads, self.faults = registers, registers.threads, registers.faults
        self.of: dict[str, np.ndarray] = {}

    def marks(self, names: list[str], lanes: Lanes) -> np.ndarray:
        """Return a mark for each active lane that has something undefined in one of these registers."""
        return joined([self.threads.pick(self.of[name], lanes) for name in names if name in self.of])

    def give(self, name: str, marks: np.ndarray, lanes: Lanes) -> None:
        """Give a register these marks in the active lanes."""
        whole = self.of.get(name, np.zeros(self.threads.size, np.int64)).copy()
        whole[self.threads.places(lanes)] = marks
        self.of[name] = whole
        if not np.count_nonzero(whole):
            del self.of[name]

    def follow(self, run: list[Instruction], lanes: Lanes) -> None:
        """Pass marks on as instructions do that are about to be executed, none of which needs another's result.

        Raises
        ------
        SimulationFault
            One of them uses a value that is undefined.
        """
        for instruction in run:
            writes, reads, places = _parts(instruction)
            guard = [instruction.guard[0]] if instruction.guard else []
            if not self.of.keys().isdisjoint((*writes, *registers_of(tuple(reads)), *places, *guard)):
                try:
                    self._follow(instruction, guard, lanes)
                except Violation as violation:
                    raise self.faults.complete(violation, instruction.line, lanes) from None

    def _follow(self, instruction: Instruction, guard: list[str], lanes: Lanes) -> None:
        (writes, reads, places), opcode = _parts(instruction), instruction.opcode
        decides, (taking, _) = self.marks(guard, lanes), self.registers.split(instruction, lanes)
        if not writes:
            self._require_none(decides, "branches on")
        part = np.searchsorted(self.threads.places(lanes), self.threads.places(taking))
        with of_part(part):
            self._require_none(self.marks(places, taking), "uses as an address")
            if meeting(opcode):
                self._require_none(self.marks(registers_of(tuple(reads)), taking), "brings to a barrier")
            if opcode.startswith(STORES) and not any(of in opcode for of in OWN):
                marks = self.marks(registers_of(tuple(reads)), taking)
                if places and not any(of in opcode for of in (".global", ".shared")):
                    at = self.registers.read(places[0], DTYPES["u64"], taking, instruction)
                    marks = np.where(at - np.uint64(LOCAL_WINDOW) < 1 << 32, 0, marks)
                self._require_none(marks, "stores")
        made = self._made(instruction, reads, taking)
        for name in writes:
            self.give(name, made, taking)
            if decides.any():
                self.give(name, joined([decides, self.marks([name], lanes)]), lanes)

    def _made(self, instruction: Instruction, reads: list[Operand], lanes: Lanes) -> np.ndarray:
        """Return the marks of a result, which none of its operands may decide where another one alone does."""
        marks, opcode = [self.marks(registers_of((of,)), lanes) for of in reads], instruction.opcode
        if opcode.startswith("selp."):
            holds = self.registers.read(reads[2].name, DTYPES["pred"], lanes, instruction)
            return joined([np.where(holds, *marks[:2]), marks[2]])
        if opcode.startswith("and.") or opcode == "or.pred":
            for this, other in ((0, 1), (1, 0)):
                if isinstance(reads[this], Register):
                    dtype = DTYPES[opcode.rpartition(".")[2]]
                    value = self.registers.read(reads[this].name, dtype, lanes, instruction)
                    alone = (value == (opcode == "or.pred")) & (marks[this] == 0)
                    marks[other] = np.where(alone, 0, marks[other])
        return joined(marks)

    @staticmethod
    def _require_none(marks: np.ndarray, does: str) -> None:
        """Raise Violation where a lane would use a value that is undefined."""
        refuse(
            "shuffle",
            marks > 0,
            lambda lane: (
                f"{does} what depends on what line {(marks[lane] - 1) // WARP} shuffled from lane "
                f"{-marks[lane] % WARP}, which takes no part in it: PTX leaves that value undefined"
            ),
        )


def joined(marks: list[np.ndarray]) -> np.ndarray:
    """Return for each lane the highest of its marks, `CLEAN` if none has any."""
    together = CLEAN
    for of in marks:
        together = np.maximum(together, of)
    return together
