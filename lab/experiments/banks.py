"""Measures the cycles of a multiply-add, depending on the banks of the registers that it reads.

A kernel of nothing but multiply-adds is compiled, and `patched` writes other registers into its machine code: those of
a pattern, or those of the multiply-adds in a rung's hot loop, in their order and with their ``.reuse`` marks, without
the instructions between them. A rung's registers keep their numbers modulo 4, and so their bank, whether there are two
banks or four.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

import cupy
import numpy as np

from sgemm_tutorial import gpu
from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.compiler import ARCHITECTURE, Binary
from sgemm_tutorial.errors import CompileError
from sgemm_tutorial.kernel import Kernel

from ..measure.driver import Item, Plan
from ..model.sass import Operands, disassembled, hot_loop, operands, sass
from ..records import files
from ..records.files import Measured, Recording
from ..variants import find_variant

LENGTH = 1024
"""Multiply-adds in the loop that is measured. A rung's longer loop is cut to that many, a shorter one is repeated."""
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
"""The registers that multiply-adds read, in turn, by the pattern's name.

A digit stands for another register each time, whose number modulo 4 is the digit; a question mark for another register
of any number; ``=`` for the same register as before it. ``e`` and ``o`` are an even and an odd register, always the
same ones; capitals mark them ``.reuse``. No register that is written is ever read.
"""
LOOP = "its hot loop"


@dataclass(frozen=True)
class Cycles(Measured):
    """The cycles that a pattern takes, or the multiply-adds of a kernel's hot loop.

    Attributes
    ----------
    name : str
        One of `PATTERNS`, or `LOOP`.
    warps : int
        Warps per scheduler.
    cycles : float
        Cycles from one multiply-add of a scheduler to its next.
    """

    name: str
    warps: int
    cycles: float

    PROBLEM = ("name", "warps")


def sequence(kernel: Kernel, name: str, architecture: str = ARCHITECTURE) -> list[Operands]:
    """Return the registers of `LENGTH` multiply-adds: of a pattern, or of the kernel's hot loop.

    The last one keeps no operand, as the instruction after it is not ours.
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


def cycles(name: str, warps: int = 4, kernel: Kernel | None = None) -> float:
    """Return the recorded cycles of a pattern, or with `LOOP` those of a kernel; see `Cycles`.

    Raises
    ------
    ArgumentError
        There is no such recording.
    """
    return files.point("banks", Cycles, kernel or PROBES[warps], name, warps).cycles


STEPS = 512  # rounds of the loop
OPCODE = b"\x23\x72"  # of an FFMA whose operands are all registers, from Volta on
PLACES = (3, 4, 8)  # bytes with the registers that it reads; byte 2 has its target, bits 2 to 4 of byte 15 `.reuse`


def plan() -> Plan:
    """Return the plan of the recording: all patterns, and the loops of rungs whose threads have a tile of TM × TN.

    A probe has a loop if it has as many sums as the tile.
    """
    rungs = (
        *(rung for rung in LADDER if "TN" in rung.parameters),
        *(find_variant(rung, "one way") for rung in ("warp_tile", "double_buffer", "async_pipeline")),
    )
    items = [(probe, name, warps) for name in PATTERNS for warps, probe in PROBES.items()]
    sums = {rung: rung.parameters["TM"] * rung.parameters["TN"] for rung in rungs}
    items += [
        (rung, LOOP, n) for rung in rungs for n, probe in PROBES.items() if sums[rung] <= probe.parameters["CHAINS"]
    ]
    return Plan("banks", Recording[Cycles], items, measure, {"steps": STEPS, "probe": PROBES[1].digest}, takes=0.5)


def measure(missing: Sequence[Item]) -> Iterator[Cycles]:
    """Yield the cycles on this machine's GPU: the median of its SMs, each with a block of its own."""
    place = gpu.place()
    where, sms = place.architecture, place.multiprocessors
    taken, out = cupy.empty(sms, np.int64), cupy.empty(1, np.float32)
    for kernel, name, warps in missing:
        binary = patched(PROBES[warps].build(where), sequence(kernel, name, where))
        with gpu.reported(f"{kernel.name}, {name}"):
            module = cupy.cuda.function.Module()
            module.load(binary.cubin)
            function = module.get_function(binary.entry)
            for _ in range(2):  # the first brings the code to the SMs
                function((sms,), (PROBES[warps].threads,), (np.int32(STEPS), np.float32(0), taken, out))
            cycles = float(cupy.median(taken)) / (STEPS * LENGTH * warps)
        yield Cycles.of(kernel, name=name, warps=warps, cycles=round(cycles, 4))


def patched(binary: Binary, wanted: Sequence[Operands]) -> Binary:
    """Return the binary with these registers in the FFMAs of its loop, renamed to the registers that the loop has.

    Raises
    ------
    CompileError
        It has other FFMAs than expected, or too few registers, or nvdisasm doesn't read back what was written.
    """
    free = {register for of in operands(hot_loop(disassembled(binary))) for register in (of.target, *of.sources)}
    used = {register for of in wanted for register in (of.target, *of.sources)}
    name: dict[int, int] = {}
    for bank in range(4):
        ours, theirs = (sorted(r for r in registers if r % 4 == bank) for registers in (used, free))
        if len(ours) > len(theirs):
            raise CompileError(
                f"{binary.kernel} has {len(theirs)} registers of number {bank} modulo 4, not {len(ours)}"
            )
        name |= dict(zip(ours, theirs, strict=False))
    renamed = [Operands(name[of.target], tuple(name[r] for r in of.sources), of.kept) for of in wanted]
    cubin = bytearray(binary.cubin)
    places = [at for at in range(0, len(cubin) - 15, 16) if cubin[at : at + 2] == OPCODE]
    for at, of in zip(places, renamed, strict=False):
        cubin[at + 2] = of.target
        for place, register in zip(PLACES, of.sources, strict=True):
            cubin[at + place] = register
        cubin[at + 15] = cubin[at + 15] & ~0b11100 | sum(kept << 2 + place for place, kept in enumerate(of.kept))
    made = dataclasses.replace(binary, cubin=bytes(cubin))
    if operands(hot_loop(disassembled(made))) != renamed:
        raise CompileError(f"nvdisasm does not read in {binary.kernel} what was written for {binary.architecture}")
    return made
