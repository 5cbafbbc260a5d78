"""The page on occupancy: what resident warps buy, by profiles and by kernels of which one number was changed."""

from __future__ import annotations

from collections.abc import Iterable

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw import Figure, lines
from ..experiments import profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from ..variants import STEPS

RUNGS = LADDER[:11]
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
    """Return a row of `busy` for each kernel, with its speed."""
    rows = []
    for kernel in map(find, kernels):
        warps, between, share = busy(kernel)
        (point,) = recorded(kernel, profiles.SIZE).points
        rows.append((kernel.name, f"{warps:.1f}", f"{between:.1f}", f"{share:.0%}", f"{point.percent_of_cublas:.1f}%"))
    columns = ("kernel", "warps per scheduler", "cycles from one instruction to the next", "slots filled", "of cuBLAS")
    return Table(columns, rows, f"M = N = K = {profiles.SIZE}, {card().name}")


def settings() -> Table:
    """Return kernels of which one number was changed: what the compiler allots, how many warps fit, and the time."""
    rows = []
    for name, kernel in (TILES | ASKED).items():
        fit = kernel_occupancy(kernel, card())
        rows.append((name, resources(kernel).registers, fit.warps, f"{fit.fraction:.0%}", milliseconds(kernel)))
    title = f"M = N = K = {profiles.SIZE}, {card().name}"
    return Table(("kernel", "registers", "warps per SM", "occupancy", "ms"), rows, title)


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
