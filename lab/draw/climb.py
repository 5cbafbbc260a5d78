"""The ladder as a page shows it: every rung as a bar that leads to its chapter, and the strip that opens a chapter.

Both are HTML, so that they are as wide as the page and their text is the page's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel

from ..records import timings
from ..records.timings import Point, Record
from .figure import BLUE

SIZE = 4096
"""The M = N = K that a chapter's strip tells of."""


@dataclass(frozen=True)
class Html:
    """A piece of a page; `alt` says the same in words where there is no page."""

    alt: str
    body: str

    def __repr__(self) -> str:
        return f"<Html: {self.alt}>"

    def _repr_html_(self) -> str:
        return self.body


def climb(record: Record, size: int = 4096) -> Html:
    """Draw how fast kernels are beside cuBLAS: a bar for each, which leads to its chapter, and its idea in a line.

    Parameters
    ----------
    record : Record
        Of times, for instance what `climb <lab.climb>` returns.
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
    most = max(100.0, *(point.percent_of_cublas for point in points))
    rungs = "".join(
        f'<li><a href="{point.kernel}.html"><b>{point.kernel}</b><span class="sg-idea">{_idea(point.kernel)}</span>'
        f"{_bar(0, point.percent_of_cublas / most, 100 / most)}"
        f'<span class="sg-percent">{point.percent_of_cublas:.1f}%</span></a></li>'
        for point in points
    )
    note = f"Speed in percent of cuBLAS, the upright line, at M = N = K = {size}: {record.made}"
    said = "; ".join(f"{point.kernel} {point.percent_of_cublas:.1f}%" for point in points)
    listed = f'<ol class="sg-climb" style="list-style: none; padding: 0">{rungs}</ol>'
    body = f'{listed}<p class="sg-note">{escape(note)}</p>'
    return Html(f"{note}: {said}.", body)


def strip(kernel: Kernel | str, before: Kernel | str | None = None) -> Html:
    """Draw the gain of a chapter: its kernel's share of cuBLAS at 4096, that of the kernel before, and the idea.

    Parameters
    ----------
    kernel : Kernel or str
        The chapter's.
    before : Kernel or str, optional
        The kernel that it starts from: unless given, the one before it in the catalogue that has the same types. ""
        stands for none.

    Raises
    ------
    ArgumentError
        There is no recording of one of them.
    """
    kernel = find(kernel)
    if before is None:
        ahead = [k.name for k in CATALOGUE if k.types == kernel.types and k.name < kernel.name]
        before = max(ahead, default="")
    old = find(before) if before else None
    start, end = _point(old).percent_of_cublas if old else 0.0, _point(kernel).percent_of_cublas
    most = max(100.0, start, end)
    came = f"From {start:.1f}% in {old.name} to" if old else f"{kernel.types.name}:"
    at = f"at M = N = K = {SIZE}"
    body = (
        f'<div class="sg-strip"><p>{came} <b>{end:.1f}%</b> of cuBLAS, {at}</p>'
        f"{_bar(start / most, end / most, 100 / most)}<p>{_idea(kernel.name)}</p></div>"
    )
    return Html(f"{kernel.name}: {kernel.idea}. {came} {end:.1f}% of cuBLAS, {at}.", body)


def _point(kernel: Kernel) -> Point:
    """Return a kernel's point at the strip's size: the ladder's, or that of the rungs beside it."""
    of = [point for point in timings.climb(SIZE).points if point.kernel == kernel.name]
    return of[0] if of else timings.recorded(kernel, SIZE, timings.OTHERS).points[0]


def _idea(kernel: str) -> str:
    idea = find(kernel).idea
    return escape(idea[0].upper() + idea[1:])


def _bar(start: float, end: float, goal: float) -> str:
    """Draw two speeds, pale up to the slower and in full from there to the faster, and a line at cuBLAS's."""
    low, high = sorted((start, end))
    parts = ((0, low, 0.35), (low, high, 1))
    drawn = "".join(
        f'<span style="position: absolute; inset: 0 auto 0 {100 * left:.1f}%; width: {100 * (right - left):.1f}%; '
        f'background: {BLUE}; opacity: {strength}"></span>'
        for left, right, strength in parts
        if right > left
    )
    line = f'<span style="position: absolute; inset: 0 auto 0 calc({100 * goal:.1f}% - 2px); border-left: 2px dashed">'
    style = "display: block; position: relative; height: 14px"
    return f'<span class="sg-bar" aria-hidden="true" style="{style}">{drawn}{line}</span></span>'
