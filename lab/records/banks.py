"""What multiply-adds take by the registers that they read, and the patterns and loops of which that was measured.

A kernel of nothing but multiply-adds is compiled, and `measure.banks` writes other registers into its machine code:
those of a pattern, or those of the multiply-adds of a rung's hot loop, in their order and with their marks ``.reuse``,
without what stands between them. Of a rung's registers it keeps the number modulo 4, and so the bank if there are up
to four, by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..model.sass import Operands, hot_loop, operands, read_anew, sass
from . import files
from .files import Measured, Recording

LENGTH = 1024
"""Multiply-adds in the loop that is measured, of which a rung's loop gives the first, or gives them several times."""
PROBES = {
    warps: Kernel(
        "register_banks", "multiply-adds alone", {"LENGTH": LENGTH, "CHAINS": chains, "THREADS": 4 * 32 * warps}
    )
    for warps, chains in ((1, 216), (2, 216), (4, 112))
}
"""The kernel, by the warps per scheduler that share the registers."""
SOURCES = 32  # registers of a pattern that differ from turn to turn
PATTERNS = {
    "one register thrice": "eee",
    "one register twice, of one bank": "0=0",
    "one register twice, of two banks": "0=1",
    "three of one bank": "000",
    "three of one bank, the banks in turn": "000 111",
    "two of one bank": "001",
    "two of one bank, the banks in turn": "001 110",
    "two of one bank, but not of one in four": "021",
    "one kept, one of each bank": "E01",
    "one kept, one of each bank, not marked": "e01",
    "one kept, two of one bank": "E11",
    "one kept, two of one bank, not of one in four": "E13",
    "one kept, two of one bank, the banks in turn": "E11 E00",
    "two kept": "EO0",
    "any three": "???",
}
"""Registers that multiply-adds read, in turn, by name. A digit is another register each time, of such numbers modulo 4,
and a question mark one of any; ``=`` is the register before it again. ``e`` and ``o`` are an even and an odd register,
always the same ones; as capitals, marked ``.reuse``. What is written is never read."""
LOOP = "its hot loop"


@dataclass(frozen=True)
class Cycles(Measured):
    """What a pattern takes, or the multiply-adds of a kernel's hot loop.

    Attributes
    ----------
    name : str
        Of `PATTERNS` one, or `LOOP`.
    warps : int
        Per scheduler.
    cycles : float
        From one multiply-add of a scheduler to its next.
    """

    name: str
    warps: int
    cycles: float

    PROBLEM = ("name", "warps")


def sequence(kernel: Kernel, name: str, architecture: str = ARCHITECTURE) -> list[Operands]:
    """Return the registers of `LENGTH` multiply-adds: of a pattern, or of the kernel's hot loop.

    The last keeps none, as what comes after it is not ours.
    """
    endless = _pattern(PATTERNS[name]) if name != LOOP else cycle(operands(hot_loop(sass(kernel, architecture))))
    *found, last = islice(endless, LENGTH)
    return [*found, last._replace(kept=(False, False, False))]


def _pattern(text: str) -> Iterator[Operands]:
    """Yield the registers of multiply-adds without end."""
    random, turns = Random(0), [cycle(range(bank, SOURCES, 4)) for bank in range(4)]
    for place, signs in enumerate(cycle(text.split())):
        sources: list[int] = []
        for sign in signs:
            if sign in "eEoO":
                sources.append(SOURCES + "eo".index(sign.lower()))
            else:
                bank = random.randrange(4) if sign == "?" else sign
                sources.append(sources[-1] if sign == "=" else next(turns[int(bank)]))
        yield Operands(SOURCES + 4 + place % 32, tuple(sources), tuple(map(str.isupper, signs)))


Model = Callable[[Sequence[set[int]]], float]
"""What says, by the registers that each multiply-add reads anew, how many cycles one takes."""


def cycles(name: str, warps: int = 4, kernel: Kernel | None = None) -> float:
    """Return what is recorded of a pattern, or with `LOOP` of a kernel; see `Cycles`.

    Raises
    ------
    ArgumentError
        There is no such recording.
    """
    return files.point("banks", Cycles, kernel or PROBES[warps], name, warps).cycles


def table(names: Sequence[str] = tuple(PATTERNS), models: Mapping[str, Model] | None = None) -> Table:
    """Return the cycles of patterns, a row for each: what models say, by their names, and what is recorded."""
    rows = []
    for name in names:
        read, measured = read_anew(sequence(PROBES[1], name)), (f"{cycles(name, warps):.2f}" for warps in PROBES)
        rows.append((name, PATTERNS[name], *(f"{model(read):.2f}" for model in (models or {}).values()), *measured))
    made, warps = files.load("banks", Recording[Cycles]).made, (f"{n} warp{'s' * (n > 1)}" for n in PROBES)
    columns = ("registers that each multiply-add reads", "", *(models or {}), *warps)
    return Table(columns, rows, "Cycles from one FFMA of a scheduler to its next", f"Measured on {made}.")
