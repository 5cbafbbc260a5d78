"""The resources that the compiler gives a kernel, for any architecture and without a GPU, as ptxas's log says.

`tools.compiled` has recorded them for the book's kernels, by a digest of all that they depend on: source, template
arguments, options and compiler. So most answers need no compilation; for any other kernel the compiler is asked.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.errors import ArgumentError, CompileError, TutorialError
from sgemm_tutorial.hardware import Limits, limits_of
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..boards import Gpu
from . import compiled
from .compiled import Resources
from .occupancy import Occupancy, occupancy
from .sass import sass_mix


def resources(kernel: Kernel | str, architecture: str = ARCHITECTURE) -> Resources:
    """Return what the compiled kernel takes.

    Raises
    ------
    CompileError
        The source does not compile, or ptxas's log lacks a figure.
    """
    kernel = find(kernel)
    known = compiled.recorded(kernel.instance, architecture)
    return known.used if known else allotted(kernel, architecture)


def allotted(kernel: Kernel, architecture: str) -> Resources:
    """Return the resources of a kernel that is compiled now, whatever is recorded."""
    binary = kernel.build(architecture)
    used = _parse_log(binary.log, binary.entry)
    return dataclasses.replace(used, shared_bytes=used.shared_bytes + kernel.dynamic_shared_bytes)


def _parse_log(log: str, entry: str) -> Resources:
    """Read the figures of one entry function from what ``ptxas -v`` printed."""
    _, _, rest = log.partition(f"Compiling entry function '{entry}'")

    def figures(what: str, pattern: str) -> tuple[str, ...]:
        match = re.search(pattern, rest)
        if not match:
            raise CompileError(f"ptxas's log does not give the {what} of {entry}:\n{log}")
        return match.groups()

    stack, stores, loads = figures(
        "spills",
        (
            rf"Function properties for {re.escape(entry)}\n"
            r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        ),
    )
    registers, barriers, memories = figures("registers", r"Used (\d+) registers, used (\d+) barriers(.*)")
    shared = re.search(r"(\d+) bytes smem", memories)  # left out where it is 0
    constants = re.findall(r"(\d+) bytes cmem\[\d+\]", memories)
    return Resources(
        registers=int(registers),
        shared_bytes=int(shared[1]) if shared else 0,
        stack_bytes=int(stack),
        spill_store_bytes=int(stores),
        spill_load_bytes=int(loads),
        constant_bytes=sum(map(int, constants)) if constants else None,
        barriers=int(barriers),
    )


def kernel_occupancy(kernel: Kernel | str, gpu: Gpu | Limits | str) -> Occupancy:
    """Return how many blocks of the kernel, compiled for this GPU, or architecture such as "sm_90", fit on an SM of it.

    Raises
    ------
    ArgumentError
        There is no such kernel or architecture, or the kernel cannot be compiled for it.
    """
    kernel, gpu = find(kernel), limits_of(gpu) if isinstance(gpu, str) else gpu
    used = resources(kernel, gpu.architecture)
    return occupancy(kernel.threads, used.registers, used.shared_bytes, gpu)


def obstacle(kernel: Kernel, gpu: Gpu | Limits) -> str:
    """Return why a kernel cannot be what it was made for on a GPU, in a few words; nothing if it can.

    It does not compile, has more threads or shared memory than a block may, spills registers, or fits on an SM fewer
    times than its `BLOCKS` say.
    """
    try:
        used, fit = resources(kernel, gpu.architecture), kernel_occupancy(kernel, gpu)
    except ArgumentError as error:
        return f"{error.got}, and may have {error.needs}"
    except CompileError as error:
        reasons = re.findall(r"error *: (.*)", str(error)) or str(error).splitlines()
        return f"does not compile: {reasons[0]}"
    if used.spill_store_bytes:
        return f"spills {used.spill_store_bytes} bytes per thread at {used.registers} registers"
    if fit.blocks_per_sm < kernel.parameters.get("BLOCKS", 1):
        return f"fits {fit.blocks_per_sm} times on an SM, not {kernel.parameters['BLOCKS']}, for {fit.limiter}"
    return ""


def resources_table(kernels: Iterable[Kernel | str], architecture: str = ARCHITECTURE) -> Table:
    """Return a row of resources and occupancy for each kernel; of one that does not compile, the note says so."""
    limits, rows = limits_of(architecture), []
    note = "Registers and spilled bytes are per thread, shared bytes per block."
    for kernel in map(find, kernels):
        try:
            used, fit = resources(kernel, architecture), kernel_occupancy(kernel, limits)
        except TutorialError as error:
            rows.append((kernel.name, *[None] * 5))
            note += f" {str(error).splitlines()[0].rstrip(':')}."
            continue
        spilled = used.spill_store_bytes + used.spill_load_bytes
        rows.append((kernel.name, used.registers, used.shared_bytes, spilled, fit.blocks_per_sm, f"{fit.fraction:.0%}"))
    columns = ("Kernel", "Registers", "Shared bytes", "Spilled bytes", "Blocks per SM", "Occupancy")
    return Table(
        columns,
        rows,
        title=f"What the compiler allots for {architecture}",
        note=note,
    )


def loops_table(kernels: Mapping[str, Kernel], architecture: str = ARCHITECTURE) -> Table:
    """Return a column for each kernel: its hot loop's instructions per FFMA, its registers, and the warps on an SM."""
    columns = []
    for kernel in kernels.values():
        loop = sass_mix(kernel, architecture)["loop"]
        loads = sum(count for name, count in loop.items() if name.startswith(("LDG", "LDS")))
        counts = [loads, loop["integer, address"], loop.get("predicate", 0) + loop.get("move, select", 0)]
        counts += [sum(loop.values()) - sum(counts), sum(loop.values())]
        each = (f"{count / loop['FFMA']:.2f}" for count in counts)
        columns.append((*each, resources(kernel, architecture).registers, kernel_occupancy(kernel, architecture).warps))
    names = (
        *("loads", "address arithmetic", "comparisons, selections, moves", "multiply-adds and others"),
        *("all instructions", "registers of a thread", "warps on an SM"),
    )
    return Table(
        ("count", *kernels),
        list(zip(names, *columns, strict=True)),
        "Instructions of the loop for each multiply-add, and what a thread and an SM hold",
    )
