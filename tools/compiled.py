"""Records the compiler's results for the book's kernels, so that readers need not compile them.

``python -m tools.compiled`` compiles the kernels that ``book/results/compiled.json`` lacks, or that have changed since,
and writes the results there. It may be interrupted and started again. `resources` reads the recording. The suite
compiles the kernels that it lacks, and a sample of the others again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab import correctness, variants
from lab.model import compiled as records
from lab.model import resources as model
from lab.model.sass import hot_loop, mixed, multiply_adds, placed, sass
from lab.records import files
from ptxsim import bar
from sgemm_tutorial import compiler, operands
from sgemm_tutorial.catalogue import CATALOGUE
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.hardware import LIMITS
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Place

from . import mutants
from .sampling import sample

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
SAMPLE = 5
LIMIT = 60
"""The number of kernels and architectures that may lack a record before the suite asks for one."""


@dataclass(frozen=True)
class Loop:
    """A kernel's hot loop.

    Attributes
    ----------
    opcodes : dict of str to int
        The number of each opcode, without modifiers.
    files : list of str
        The source files of its instructions.
    multiplied : dict of str to list of int
        For each file, the lines that its multiply-adds come from.
    """

    opcodes: dict[str, int]
    files: list[str]
    multiplied: dict[str, list[int]]


@dataclass(frozen=True)
class Compiled(records.Compiled):
    """The compiler's results, with the hot loop for kernels whose loop is looked at."""

    loop: Loop | None = None


def plan() -> list[tuple[Kernel, str]]:
    """Return the items of the recording: kernels, each with an architecture.

    The kernels of the catalogue, the steps of 22, and 13 with each of its settings are compiled for every architecture
    that can run them. Other variants, and the kernels that `check` launches, are compiled for the default one.
    """
    everywhere = (*CATALOGUE, *variants.STEPS, variants.STEP_IN_FP64)
    items = [(kernel, architecture) for kernel in everywhere for architecture in ARCHITECTURES]
    items += [(kernel, architecture) for architecture in ARCHITECTURES for kernel in settled(architecture)]
    items += [(kernel, compiler.ARCHITECTURE) for kernel in (*variants.EVERY, *variants.UNTIMED, *checked())]
    return [item for item in dict.fromkeys(items) if _possible(*item)]


def settled(architecture: str) -> Iterator[Kernel]:
    """Yield 13 with each of its settings, for rows whose words lie in groups of four, and for others."""
    for setting in autotuned.SETTINGS:
        kernel = autotuned.KERNEL.variant(**autotuned.named(setting))
        for side in (8, 7):
            N = 1 if kernel.parameters["BN"] == 1 else side
            yield kernel.resolve(operands.imagined(8, N, side, kernel.types), Place(architecture)).kernel


def checked() -> Iterator[Kernel]:
    """Yield the kernels that `check` launches in its cases, also with the small tiles of mutants."""
    for kernel in dict.fromkeys(kernel for rung in CATALOGUE for kernel in (rung, *mutants.instances(rung))):
        for arguments in correctness.cases(kernel, on_gpu=False):
            case = correctness.Case(**arguments)
            problem = operands.imagined(case.M, case.N, case.K, kernel.types)
            yield case.applied_to(kernel).resolve(problem, Place(compiler.ARCHITECTURE)).kernel


def _possible(kernel: Kernel, architecture: str) -> bool:
    """Whether a kernel can be compiled for an architecture."""
    try:
        records.digest(kernel.instance, architecture)
    except ArgumentError:
        return False
    return kernel.dynamic_shared_bytes <= LIMITS[architecture].max_shared_per_block


def name_of(kernel: Kernel, architecture: str) -> str:
    """Return the recording's name for a kernel on an architecture."""
    return ", ".join(filter(None, (kernel.name, kernel.expression, kernel.label, architecture)))


def compiled(kernel: Kernel, architecture: str) -> Compiled:
    """Compile a kernel and return its entry in the recording."""
    looked_at = kernel in CATALOGUE or kernel in variants.HOPPER_STEPS
    # By name, as a kernel with its own setting and one that was given the same have one entry.
    names = (name_of(of, architecture) for of in (*variants.EVERY, *variants.UNTIMED))
    compared = architecture == compiler.ARCHITECTURE and name_of(kernel, architecture) in names
    return Compiled(
        records.digest(kernel.instance, architecture),
        model.allotted(kernel, architecture),
        mixed(sass(kernel, architecture)) if looked_at or compared else None,
        placed(sass(kernel, architecture)) if looked_at else None,
        _loop(kernel, architecture) if looked_at else None,
    )


def _loop(kernel: Kernel, architecture: str) -> Loop:
    code = hot_loop(sass(kernel, architecture))
    multiplied = {(of.file, of.line) for of in code if multiply_adds(of)}
    return Loop(
        dict(sorted(Counter(of.opcode.partition(".")[0] for of in code).items())),
        sorted({of.file for of in code}),
        {file: sorted(line for of, line in multiplied if of == file) for file, _ in sorted(multiplied)},
    )


def loop(kernel: Kernel, architecture: str = compiler.ARCHITECTURE) -> Loop:
    """Return a kernel's hot loop from the recording, or compiled now if it is not recorded."""
    found = _known(load(), kernel, architecture)
    return found.loop if found and found.loop else _loop(kernel, architecture)


def load() -> dict[str, Compiled]:
    """Return the recorded entries, by `name_of`."""
    return files.load(records.RECORD, dict[str, Compiled]) if records.RECORD.exists() else {}


def _known(recorded: Mapping[str, Compiled], kernel: Kernel, architecture: str) -> Compiled | None:
    """Return a kernel's entry, unless it is of other code or from another compiler."""
    found = recorded.get(name_of(kernel, architecture))
    return found if found and found.digest == records.digest(kernel.instance, architecture) else None


def missing() -> list[tuple[Kernel, str]]:
    """Return the items of the plan without an entry of the present code and compiler."""
    recorded = load()
    return [item for item in plan() if not _known(recorded, *item)]


def sampled() -> list[tuple[Kernel, str]]:
    """Return the few items that the tests compile again, others whenever the recording changes."""
    known = load()
    items = {name_of(*item): item for item in plan()}
    seed = hashlib.sha256("".join(of.digest for of in known.values()).encode()).hexdigest()
    return [items[name] for name in sample(items.keys() & known.keys(), SAMPLE, seed)]


def main() -> None:
    """Record the missing items, and drop those that are no longer in the plan."""
    known, names = dict(load()), [name_of(*item) for item in plan()]  # a copy, as `load` keeps what it has read
    try:
        for item in bar(missing(), unit="kernel"):
            known[name_of(*item)] = compiled(*item)
    finally:
        files.write(records.RECORD, {name: known[name] for name in names if name in known})


if __name__ == "__main__":
    main()
