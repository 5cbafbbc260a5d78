"""A picture of many shares: a row for each group, a mark for each of its members, on one logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sgemm_tutorial.errors import ArgumentError

from .charts import scale
from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    SMALL,
    WIDTH,
    Figure,
    Page,
    room,
)

TICKS = (10, 25, 50, 70, 80, 90, 100, 110, 125, 150, 200, 300, 500, 1000)
PITCH = 34


def spread(title: str, groups: Mapping[str, Sequence[float]], note: str) -> Figure:
    """Draw percentages by group, with each group's geometric mean and least in figures.

    Parameters
    ----------
    title, note : str
        What is drawn; what is along the axis.
    groups : mapping of str to sequence of float
        By name, percentages, all positive.

    Raises
    ------
    ArgumentError
        There is no group, an empty one, or a value that is not positive.
    """
    if not groups or not all(groups.values()) or min(map(min, groups.values())) <= 0:
        raise ArgumentError("groups", str(dict(groups)), "one or more, each with positive values")
    low, high = min(*map(min, groups.values()), 95) / 1.05, max(*map(max, groups.values()), 105) * 1.05
    left, right = MARGIN + max(room(name, SMALL) for name in groups) + 12, WIDTH - MARGIN - 120
    top = 3 * LINE
    bottom = top + PITCH * len(groups)
    x = scale(low, high, left, right, log=True)
    sheet = Page(bottom + 3 * LINE, title=title)
    sheet.text(right + 60, top - 10, "mean", SMALL, "right")
    sheet.text(WIDTH - MARGIN, top - 10, "least", SMALL, "right")
    said, last = [], -math.inf
    for tick in TICKS:
        if low <= tick <= high and (x(tick) - last > 36 or tick == 100):
            sheet.lines([[(x(tick), top), (x(tick), bottom)]], INK if tick == 100 else (INK, 0.18))
            sheet.text(x(tick), bottom + 18, f"{tick}", SMALL, "center")
            last = x(tick)
    for i, (name, values) in enumerate(groups.items()):
        y = top + PITCH * (i + 0.5)
        mean = math.exp(sum(map(math.log, values)) / len(values))
        sheet.text(left - 10, y + 5, name, SMALL, "right")
        sheet.boxes([(x(value) - 3, y - 3, 6, 6) for value in values], (BLUE, 0.5))
        sheet.lines([[(x(mean), y - 11), (x(mean), y + 11)]], ORANGE, linewidth=3)
        sheet.text(right + 60, y + 5, f"{mean:.0f}%", SMALL, "right")
        sheet.text(WIDTH - MARGIN, y + 5, f"{min(values):.0f}%", SMALL, "right")
        said.append(f"{name}: {len(values)} marks, mean {mean:.0f}%, from {min(values):.0f}% to {max(values):.0f}%")
    sheet.text(MARGIN, bottom + 2 * LINE + 4, note, SMALL)
    return sheet.finish(f"{title}. {note} {'; '.join(said)}.")
