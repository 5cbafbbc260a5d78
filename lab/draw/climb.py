"""The ladder as a page shows it: every rung as a bar that leads to its chapter.

It is HTML, so that it is as wide as the page and its text is the page's own.
"""

from dataclasses import dataclass
from html import escape

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError

from ..records.timings import Record
from .figure import BLUE


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
        f"{_bar(point.percent_of_cublas / most, 100 / most)}"
        f'<span class="sg-percent">{point.percent_of_cublas:.1f}%</span></a></li>'
        for point in points
    )
    note = f"Speed in percent of cuBLAS, the dashed line, at M = N = K = {size}: {record.provenance['gpu']}"
    said = "; ".join(f"{point.kernel} {point.percent_of_cublas:.1f}%" for point in points)
    listed = f'<ol class="sg-climb" style="list-style: none; padding: 0">{rungs}</ol>'
    return Html(f"{note}: {said}.", f'{listed}<p class="sg-note">{escape(note)}</p>')


def _idea(kernel: str) -> str:
    idea = find(kernel).idea
    return escape(idea[0].upper() + idea[1:])


def _bar(length: float, goal: float) -> str:
    """Draw a speed, and a line at cuBLAS's."""
    line = f'<span style="position: absolute; inset: 0 auto 0 calc({100 * goal:.1f}% - 2px); border-left: 2px dashed">'
    style = "display: block; position: relative; height: 14px"
    return (
        f'<span class="sg-bar" aria-hidden="true" style="{style}"><span style="position: absolute; '
        f'inset: 0 auto 0 0.0%; width: {100 * length:.1f}%; background: {BLUE}; opacity: 1"></span>{line}</span></span>'
    )
