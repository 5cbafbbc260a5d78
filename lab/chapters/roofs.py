"""The page on rooflines: what kernels move at each level by the hardware's counters, and the roofs over them."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsim.counting import BANKS, SECTOR
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table, shown

from ..draw import Figure, roofline
from ..experiments import ceilings, counters, profiles
from ..experiments.ceilings import card
from ..model.ceilings import DRAM, L2, READ
from ..records.timings import recorded

L1 = "L1 and shared memory"
LEVELS = (L1, L2, DRAM)
"""From the arithmetic outwards."""
SIZE = profiles.SIZE


def moved(kernel: Kernel | str) -> dict[str, int | float]:
    """Return the bytes that a kernel moved at each level at `SIZE`, by the recorded counters.

    L1 and shared memory: 128 for each wavefront. L2: the sectors that it sent to the SMs, and those of their stores.
    """
    of = counters.measured(find(kernel), SIZE, SIZE, SIZE)
    sectors = of["l1_fill_sectors"] + of["global_store_sectors"]
    return {L1: 4 * BANKS * of["l1_data_wavefronts"], L2: SECTOR * sectors, DRAM: of["dram_bytes"]}


def rates() -> dict[str, float]:
    """Return TB/s of each level: by design, and of L2, whose design is not published, the highest that was measured."""
    width, measured = 4 * BANKS * card().sms * card().boost_mhz / 1e6, ceilings.load().by_name
    reached = max(measured[name].tera_per_second for name in (L2, READ) if name in measured)
    return {L1: width, L2: reached, DRAM: card().bandwidth_gbs / 1e3}


def allowed(kernel: Kernel | str) -> dict[str, float]:
    """Return the TFLOP/s that each level's rate allows a kernel at `SIZE`."""
    return {level: 2 * SIZE**3 / moved(kernel)[level] * rate for level, rate in rates().items()}


def tflops(kernel: Kernel | str) -> float:
    """Return the recorded speed at `SIZE`."""
    (point,) = recorded(find(kernel), SIZE).points
    return point.tflops


def under(level: str, kernels: Iterable[Kernel | str]) -> Figure:
    """Draw kernels under the roofs of one level and of the arithmetic."""
    points = {kernel.name[:2]: (2 * SIZE**3 / moved(kernel)[level], tflops(kernel)) for kernel in map(find, kernels)}
    return roofline(points, card().fp32_tflops, {level: rates()[level]}, f"Bytes of {level}")


def table(kernels: Iterable[Kernel | str]) -> Table:
    """Return the speed that each level allows, and the speed that was measured, as a share of the lowest too."""
    rows = []
    for kernel in map(find, kernels):
        roofs, speed = allowed(kernel), tflops(kernel)
        rows.append((kernel.name, *roofs.values(), f"{shown(speed)} ({speed / min(roofs.values()):.0%})"))
    title = f"TFLOP/s at M = N = K = {SIZE}, {card().name}"
    return Table(("kernel", *LEVELS, "measured (of the lowest)"), rows, title)
