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
from ..records import checks, files
from ..records.timings import recorded
from ..variants import EVERY, STEPS

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


def agreed() -> tuple[int, int]:
    """Return for how many kernels CUDA's own count of blocks is ours, and how many were asked about."""
    points = checks.load("occupancy", checks.Fit).points
    kernels = {files.identity(kernel): kernel for kernel in (*CATALOGUE, *EVERY)}
    ours = [kernel_occupancy(kernels[point.identity], card()).blocks_per_sm for point in points]
    return sum(point.blocks_per_sm == fit for point, fit in zip(points, ours, strict=True)), len(points)


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    naive, tile, last = (busy(find(number)) for number in ("01", "03", "11"))
    fits = {kernel.name[:2]: kernel_occupancy(kernel, card()) for kernel in RUNGS}
    speeds = {point.kernel[:2]: point.percent_of_cublas for point in recorded(RUNGS, profiles.SIZE).points}
    full = [number for number, fit in fits.items() if fit.fraction == 1]
    assert full == ["01", "02", "03"] and min(speeds[n] for n in fits if n > "03") > 2 * speeds["03"]
    l1 = [profiles.measured(find(number))["L1 and shared memory used, %"] for number in ("01", "03")]
    assert l1[0] > 98 and l1[1] > 90 and last[0] < tile[0] / 7 and last[1] < tile[1] / 14
    four, _, sixteen = map(milliseconds, TILES.values())
    more, fewer = map(milliseconds, ASKED.values())
    assert four > 1.3 * sixteen and fewer > 1.3 * more
    agree, asked = agreed()
    assert agree == asked
    return {
        "asked": str(asked),
        "naive gap": f"{naive[1]:.0f}",
        "naive slots": f"{naive[2]:.0%}",
        "naive L1": f"{l1[0]:.0f}%",
        "tile gap": f"{tile[1]:.0f}",
        "tile slots": f"{tile[2]:.0%}",
        "tile L1": f"{l1[1]:.0f}%",
        "last gap": f"{last[1]:.1f}",
        "last slots": f"{last[2]:.0%}",
        "last warps": f"{last[0]:.0f}",
        **{f"{number} share": f"{speeds[number]:.0f}%" for number in ("01", "02", "03", "11")},
        "longer": f"{fewer / more - 1:.0%}",
        "shorter": f"{1 - sixteen / four:.0%}",
    }
