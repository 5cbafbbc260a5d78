"""A player: the ladder, rung by rung."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError

from ..records.timings import Point, Record
from .charts import DASHES
from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    SMALL,
    TITLE,
    Figure,
    Page,
)
from .player import Control, Layer, Player

WIDTH = 416
"""Pixels of the picture: as many as a phone has."""
PITCH, THICK = 25, 16
TOP, LEFT, RIGHT = 5 * LINE + 4, 176, WIDTH - MARGIN - 62
LETTERS = 54
"""Of an idea, in a line."""


def climb(record: Record, size: int = 4096) -> Player:
    """Draw how fast kernels are beside cuBLAS, one after the other and each with its idea.

    It begins with the last, when all are there.

    Parameters
    ----------
    record : Record
        Of times, for instance what `climb <sgemm_tutorial.climb>` returns.
    size : int
        Which of the recorded M = N = K.

    Raises
    ------
    ArgumentError
        The record has no point of that size.
    """
    points = [point for point in record.points if point.size == (size,) * 3]
    if not points:
        raise ArgumentError("size", str(size), f"one of {sorted({p.M for p in record.points if p.M == p.N == p.K})}")
    scale = (RIGHT - LEFT) / max(100.0, *(point.percent_of_cublas for point in points))
    frame = _frame(len(points), scale, f"M = N = K = {size}; {record.made}")
    steps = {(last,): _rungs(points[: last + 1], frame.height, scale) for last in range(len(points))}
    control = Control("Rung", [point.kernel for point in points], "step", len(points) - 1)
    title = f"The ladder's speed at M = N = K = {size}, rung by rung"
    return Player("ladder", title, [control], [[Layer((), {(): frame}), Layer((0,), steps)]])


def _frame(rungs: int, scale: float, note: str) -> Figure:
    """Draw what all steps have: cuBLAS below the rungs, and how far it gets."""
    bottom, goal = TOP + PITCH * rungs, LEFT + 100 * scale
    sheet = Page(bottom + PITCH + LINE, WIDTH)
    sheet.text(WIDTH - MARGIN, TOP - 9, "of cuBLAS", SMALL, "right")
    sheet.text(LEFT - 8, bottom + 13, "cuBLAS", SMALL, "right")
    sheet.boxes([(LEFT, bottom, 100 * scale, THICK)], (INK, 0.45))
    sheet.text(WIDTH - MARGIN, bottom + 13, "100%", SMALL, "right")
    sheet.lines([[(LEFT, TOP - 4), (LEFT, bottom + THICK + 4)]])
    sheet.lines([[(goal, TOP - 4), (goal, bottom)]], linewidth=1.5, dashes=DASHES[1])
    sheet.text(MARGIN, bottom + PITCH + 14, note, SMALL)
    return sheet.finish("")


def _rungs(points: Sequence[Point], height: float, scale: float) -> Figure:
    """Draw the rungs so far, and say what the last of them adds and gains."""
    last, idea = points[-1], find(points[-1].kernel).idea
    faster = f", {points[0].ms / last.ms:.3g} times as fast as the first" if len(points) > 1 else ""
    speed = f"{last.tflops:.3g} TFLOP/s{faster}"
    sheet = Page(height, WIDTH)
    sheet.text(MARGIN, LINE - 4, last.kernel, TITLE, weight="bold")
    for i, line in enumerate(textwrap.wrap(idea[0].upper() + idea[1:], LETTERS)):
        sheet.text(MARGIN, (2 + i) * LINE - 5, line, SMALL)
    sheet.text(MARGIN, 4 * LINE - 5, speed, SMALL, weight="bold")
    for i, point in enumerate(points):
        y = TOP + PITCH * i
        sheet.text(LEFT - 8, y + 13, point.kernel, SMALL, "right")
        sheet.boxes([(LEFT, y, point.percent_of_cublas * scale, THICK)], ORANGE if point is last else BLUE)
        sheet.text(WIDTH - MARGIN, y + 13, f"{point.percent_of_cublas:.1f}%", SMALL, "right")
    return sheet.finish(f"{last.kernel}, {idea}: {speed}, {last.percent_of_cublas:.1f}% of cuBLAS.")
