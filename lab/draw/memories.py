"""A picture of a GPU's memories: the nearer to the arithmetic, the faster."""

from ..boards import Gpu
from ..model.ceilings import DRAM, L2, SHARED, Ceilings
from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    WIDTH,
    Figure,
    Page,
)

ROW = 56  # pixels
TOP = 2 * LINE


def memories(gpu: Gpu, ceilings: Ceilings) -> Figure:
    """Draw registers, shared memory, L2 and DRAM, the nearest first, with sizes, and rates where they are measured.

    A bar in a box has the length of its rate.

    Parameters
    ----------
    gpu : Gpu
        Whose sizes to write.
    ceilings : Ceilings
        Its measured rates, as `ceilings.load` returns.
    """
    limits, rates = gpu.limits, {name: ceilings[name].tera_per_second for name in (SHARED, L2, DRAM)}
    registers = 4 * limits.registers_per_sm
    levels = [
        ("registers", f"{_size(registers)} on each SM, {_size(gpu.sms * registers)} in all"),
        ("shared memory, beside L1", f"up to {_size(limits.shared_per_sm)} on each SM: {_rate(rates[SHARED])}"),
        ("L2", f"{_size(gpu.l2_bytes)} for all SMs: {_rate(rates[L2])}"),
        ("DRAM", f"off the chip, where arrays lie: {_rate(rates[DRAM])}"),
    ]
    said = []
    sheet = Page(TOP + ROW * len(levels) + MARGIN, title=f"Memories of the {gpu.name}")
    for i, (name, note) in enumerate(levels):
        box = (MARGIN, TOP + i * ROW, WIDTH - 2 * MARGIN, ROW - 4)
        sheet.boxes([box], (BLUE, 0.4 - 0.1 * i), edgecolor=INK)
        sheet.text(WIDTH / 2, box[1] + 20, name, align="center", weight="bold")
        sheet.text(WIDTH / 2, box[1] + 40, note, "center")
        said.append(f"{name}: {note}")
    for i, rate in enumerate(rates.values(), 1):
        sheet.boxes([(MARGIN, TOP + (i + 1) * ROW - 10, (WIDTH - 2 * MARGIN) * rate / max(rates.values()), 6)], BLUE)
    return sheet.finish(f"Memories of the {gpu.name}, from the nearest to the arithmetic down. {'; '.join(said)}.")


def _size(number: int) -> str:
    """Return bytes as KiB or MiB."""
    return f"{number / 2**20:.0f} MiB" if number >= 2**20 else f"{number // 2**10} KiB"


def _rate(tera_per_second: float) -> str:
    return f"{tera_per_second:.3g} TB/s"
