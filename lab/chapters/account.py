"""Tabulates a rung beside the rung before it: the strip at the top of its chapter, and the account of its time."""

from collections.abc import Mapping

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import banks, counters, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..records.timings import recorded

SIZE = profiles.SIZE
PARTS = ("shared memory and L1", "issue slots", "FP32 units")
"""The parts of an SM whose work is counted, as `busy` names them."""


WAITS = {
    "waits for L2 or DRAM": "L2 or DRAM",
    "waits for shared memory": "shared memory",
    "barrier": "barrier",
    "dispatch": "dispatch",
    "another warp was chosen": "ready, another warp was chosen",
}
"""The states in which warps of kernels 09 to 11 spend most of their time: `profiles.STALLS`' names, and the page's."""


def milliseconds(cycles: float) -> float:
    """Return how long cycles of an SM take if all SMs share them evenly, at the boost clock of the shown card."""
    return cycles / card().sms / (card().boost_mhz * 1e3)


def issuing(instructions: float) -> float:
    """Return for how many milliseconds so many instructions of warps keep schedulers busy: each starts one a cycle."""
    return milliseconds(instructions / card().limits.warp_granularity)


def busy(kernel: Kernel | str) -> dict[str, float]:
    """Return for how many milliseconds a rung keeps each part of an SM busy at 4096, by the hardware's counters.

    Shared memory and L1 pass one wavefront in a cycle, each scheduler issues one instruction, and the FP32 units do so
    many multiply-adds as there are lanes.
    """
    counts = counters.measured(find(kernel), SIZE, SIZE, SIZE)
    of = (
        milliseconds(counts["l1_data_wavefronts"]),
        issuing(counts["instructions"]),
        milliseconds(counts["fma_thread_instructions"] / card().limits.fp32_lanes),
    )
    return dict(zip(PARTS, of, strict=True))


def strip(before: Kernel | str, now: Kernel | str) -> dict[str, str]:
    """Return the figures of a chapter's first line, to be glued: the card, both rungs' times and shares at 4096."""
    found = {"card": card().name}
    for name, kernel in (("before", before), ("now", now)):
        (point,) = recorded(kernel, SIZE).points
        found |= {f"{name} ms": f"{point.ms:.2f} ms", f"{name} share": f"{point.percent_of_cublas:.0f}%"}
    return found


def with_registers(kernel: Kernel | str) -> float | None:
    """Return the milliseconds that a rung's multiply-adds take at 4096 with nothing between them, if that is measured.

    They take longer than `busy` says of the FP32 units wherever registers of one bank must be read one after another.
    """
    try:
        return banks.cycles(banks.LOOP, 2, find(kernel)) * milliseconds(SIZE**3 / card().limits.fp32_lanes)
    except ArgumentError:
        return None


def table(before: Kernel | str, now: Kernel | str, registers: bool = False) -> Table:
    """Return how long two rungs keep each part of an SM busy at 4096, how long they take, and cuBLAS beside them.

    With `registers`, there is also a row of what `with_registers` returns.
    """
    kernels = [find(before), find(now)]
    first, second = (recorded(kernel, SIZE).points[0] for kernel in kernels)
    rows: list[tuple[str | float, ...]] = [
        (f"{part} busy, ms", *(f"{busy(kernel)[part]:.2f}" for kernel in kernels), "") for part in PARTS
    ]
    if registers:
        rows.append(
            ("FP32 with register reads, ms", *(f"{ms:.2f}" if ms else "–" for ms in map(with_registers, kernels)), "")
        )
    rows += [
        ("time, ms", f"{first.ms:.2f}", f"{second.ms:.2f}", f"{second.cublas_ms:.2f}"),
        ("speed, of cuBLAS", f"{first.percent_of_cublas:.1f}%", f"{second.percent_of_cublas:.1f}%", "100%"),
    ]
    return Table(
        ("", *(kernel.name[:2] for kernel in kernels), "cuBLAS"),
        rows,
        f"M = N = K = {SIZE}, {card().name}",
        "Busy: Nsight Compute's counts of wavefronts, instructions and multiply-adds, at the most that the part can do "
        f"in a cycle and at the boost clock of {card().boost_mhz:,} MHz. Times are medians of device time, cuBLAS "
        "measured in the same run.",
    )


def waits(kernels: Mapping[str, Kernel], *more: str) -> Table:
    """Return the cycles between two instructions of a warp at 4096, by its state, for some profiled variants.

    `more` are states beyond `WAITS`, by `profiles.STALLS`' names.
    """
    columns, states = [], WAITS | dict(zip(more, more, strict=True))
    for of in (counted(kernel, (SIZE,) * 3, "variant_profiles") for kernel in kernels.values()):
        *spent, total = [of[f"state: {wait}"] for wait in states] + [of[profiles.BETWEEN]]
        cycles = (*spent, total - sum(spent), total)
        columns.append((*(f"{each:.2f}" for each in cycles), f"{of['all'] / 1e6:,.0f}"))
    names = (*states.values(), "all else, 1 of it to issue", "in all", "instructions of all warps, millions")
    rows = list(zip(names, *columns, strict=True))
    return Table(("cycles", *kernels), rows, f"From one instruction of a warp to its next, {card().name}")


def per_multiply_add(count: float) -> float:
    """Return a count at 4096 for each multiply-add of a warp."""
    return count / (SIZE**3 / WARP)
