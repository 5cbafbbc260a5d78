"""The page on occupancy: what resident warps buy, by profiles and by kernels of which one number was changed."""

from __future__ import annotations

from collections.abc import Iterable

from sgemm_tutorial.catalogue import CATALOGUE, LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw import Figure, lines
from ..experiments import profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..records.checks import Fit, load
from ..records.files import identity
from ..records.timings import recorded
from ..variants import EVERY, STEPS

RUNGS = LADDER[:11]
L1 = "L1 and shared memory used, %"
TILES = {f"04, TM = {TM}": find("04").variant(TM=TM) for TM in (4, 8, 16)}
ASKED = {f"{kernel.name[:2]}, BLOCKS = {kernel.parameters['BLOCKS']}": kernel for kernel in STEPS[-2:]}


def busy(kernel: Kernel) -> tuple[float, float, float]:
    """Return the warps that a scheduler held on average, the cycles between two instructions of one, and the quotient.

    By the recorded profile. The quotient is the share of its slots that the scheduler fills.
    """
    of, limits = profiles.measured(kernel), card().limits
    warps = of["warps resident, %"] / 100 * limits.max_warps_per_sm / limits.warp_granularity
    between = of["cycles between a warp's instructions"]
    assert abs(100 * warps / between - of["issue slots used, %"]) < 0.7
    return warps, between, warps / between


def slots(kernels: Iterable[Kernel | str]) -> Table:
    """Return a row of `busy` for each kernel, and how busy its L1 and shared memory are."""
    rows = []
    for kernel in map(find, kernels):
        warps, between, share = busy(kernel)
        l1 = profiles.measured(kernel)[L1]
        rows.append((kernel.name, f"{warps:.2f}", f"{between:.2f}", f"{share:.0%}", f"{l1:.0f}%"))
    columns = (
        "kernel",
        "warps per scheduler",
        "cycles from one instruction to the next",
        "slots filled",
        "L1 and shared busy",
    )
    return Table(columns, rows, f"M = N = K = {profiles.SIZE}, {card().name}: averages of a profile")


def settings() -> Table:
    """Return kernels of which one number was changed: what else changes with it, and the time."""
    rows = []
    for name, kernel in (TILES | ASKED).items():
        fit = kernel_occupancy(kernel, card())
        rows.append((name, kernel.threads, resources(kernel).registers, fit.warps, milliseconds(kernel)))
    title = f"M = N = K = {profiles.SIZE}, {card().name}"
    return Table(("kernel", "threads of a block", "registers", "warps per SM", "ms"), rows, title)


def milliseconds(kernel: Kernel) -> float:
    """Return the recorded time of one of these kernels."""
    return recorded(kernel, profiles.SIZE, "steps" if kernel in STEPS else "variants").points[0].ms


def climb() -> Figure:
    """Draw the occupancy and the speed of the FP32 rungs."""
    speeds = {point.kernel: point.percent_of_cublas for point in recorded(RUNGS, profiles.SIZE).points}
    drawn = {
        "occupancy": [(int(k.name[:2]), 100 * kernel_occupancy(k, card()).fraction) for k in RUNGS],
        "speed, of cuBLAS": [(int(k.name[:2]), speeds[k.name]) for k in RUNGS],
    }
    return lines("Occupancy and speed", drawn, "Across: number of the kernel. Up: percent.", "%")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    asked = load("occupancy", Fit).points
    kernels = {identity(kernel): kernel for kernel in (*CATALOGUE, *EVERY)}
    for point in asked:
        assert kernel_occupancy(kernels[point.identity], card()).blocks_per_sm == point.blocks_per_sm
    warps = [kernel_occupancy(kernel, card()).warps for kernel in RUNGS]
    rising = [kernel.name[:2] for kernel, before, now in zip(RUNGS[1:], warps, warps[1:], strict=False) if now > before]
    assert (warps[:3], warps[3:5], warps[6:8], warps[-1]) == ([64] * 3, [32, 16], [24, 12], 8) and rising == [
        "07",
        "09",
    ]
    filled = {kernel.name[:2]: busy(kernel)[2] for kernel in RUNGS}
    l1 = {kernel.name[:2]: profiles.measured(kernel)[L1] / 100 for kernel in RUNGS}
    assert filled["03"] < filled["02"] < min(filled["04"], filled["05"]) and l1["05"] < filled["05"] < 0.7
    assert abs(filled["07"] - filled["05"]) < 0.02 < filled["08"] - filled["07"] < filled["11"] - filled["07"]
    four, eight, sixteen = map(milliseconds, TILES.values())
    more, fewer = map(milliseconds, ASKED.values())
    assert sixteen < 0.9 * eight
    first, last = (point.percent_of_cublas for point in recorded([RUNGS[2], RUNGS[-1]], profiles.SIZE).points)
    shares = {
        "wait": profiles.states(find("02"))["waits for L2 or DRAM"],
        "shorter": 1 - sixteen / four,
        "same warps": 1 - sixteen / eight,
        "longer": fewer / more - 1,
    }
    shares |= {f"{number} L1": share for number, share in l1.items()}
    shares |= {f"{number} more": 1 / share - 1 for number, share in l1.items()}
    shares |= {f"{number} slots": share for number, share in filled.items()}
    counts = {
        "asked": f"{len(asked)}",
        "climb": f"{last / first:.1f}",
        "registers": f"{resources(find('05')).registers}",
    }
    return counts | {name: f"{share:.0%}" for name, share in shares.items()}
