"""Measures what multiply-adds take by the registers that they read; see `records.banks`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import cupy
import numpy as np

from sgemm_tutorial import gpu
from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.compiler import Binary
from sgemm_tutorial.errors import CompileError

from ..model.sass import Operands, disassembled, hot_loop, operands
from ..records.banks import (
    LENGTH,
    LOOP,
    PATTERNS,
    PROBES,
    Cycles,
    sequence,
)
from ..records.files import Recording
from ..variants import find_variant
from .driver import Item, Plan

STEPS = 512  # rounds of the loop
OPCODE = b"\x23\x72"  # of an FFMA of registers alone, from Volta on
PLACES = (3, 4, 8)  # bytes that name the registers it reads; byte 2 the one it writes, bits 2 to 4 of byte 15 `.reuse`


def plan() -> Plan:
    """Return the plan of the recording: all patterns, and the loops from 05 on, with as many warps as find room."""
    rungs = (*LADDER[4:], *(find_variant(rung, "one way") for rung in ("09", "10", "11")))
    items = [(probe, name, warps) for name in PATTERNS for warps, probe in PROBES.items()]
    items += [(rung, LOOP, warps) for rung in rungs for warps in PROBES if warps <= (4 if rung.name < "10" else 2)]
    settings = {"steps": STEPS, "probe": PROBES[1].digest}
    return Plan("banks", Recording[Cycles], items, measure, settings, takes=0.5)


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
    """Return the binary with these registers in the FFMAs of its loop, renamed to those that are free there.

    Raises
    ------
    CompileError
        It has other FFMAs than expected, or too few registers, or nvdisasm does not read there what was written.
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
