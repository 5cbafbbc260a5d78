"""Figures as compact inline SVG: one stored output for light pages, dark pages and phones.

A `Page` is drawn on in pixels; the `Figure` that it becomes is made of paths and texts and nothing else. Text stays
text, and text, axes and frames take the colour of the text around the figure (``currentColor``). No element carries
an id, so figures on one page cannot interfere. Coordinates are rounded to 0.1 pixel, so the same data give the same
bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

WIDTH = 640
TITLE, BODY, SMALL = 18, 16, 14
"""Font sizes in pixels of a figure 640 wide."""
LINE = 23
"""Pixels from one line of text to the next."""
MARGIN = 8
"""Pixels round a figure."""

INK = "currentColor"
"""The colour of the text around the figure."""
GREY = "#7b7f86"
"""What `INK` becomes in a file of its own: contrast of 4 to 1 on white and on GitHub's black."""

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Told apart by colour-blind readers (Okabe and Ito 2008), at least 3 to 1 on white and on near-black."""

PALE = (INK, 0.14)
"""Fills what is there but not in question."""

Colour = str | tuple[str, float]
"""As of a web page, alone or with its opacity."""
Point = tuple[float, float]
"""Pixels from the left and from the top."""
Box = tuple[float, float, float, float]
"""A rectangle in pixels: left, top, width and height."""

_ANCHORS = {"left": "start", "center": "middle", "right": "end"}


@dataclass(frozen=True)
class Figure:
    """A finished figure. Notebooks show it; `save` writes a file for a README.

    Attributes
    ----------
    alt : str
        What a screen reader says in its place.
    width, height : int
        In pixels.
    body : str
        The SVG elements.
    """

    alt: str
    width: int
    height: int
    body: str

    def __repr__(self) -> str:
        return f"<Figure: {self.alt}>"

    def _repr_html_(self) -> str:
        return self._svg('class="sg-figure"')

    def save(self, path: str | Path) -> None:
        """Write a stand-alone SVG file, with text and axes in grey, as a file cannot know the page it is shown on."""
        svg = self._svg('xmlns="http://www.w3.org/2000/svg" font-family="system-ui,Helvetica,Arial,sans-serif"')
        Path(path).write_text(svg.replace(INK, GREY) + "\n", encoding="utf-8")

    def _svg(self, attributes: str) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return (
            f'<svg {attributes} role="img" aria-label={quoteattr(self.alt)} {size} stroke-linejoin="round">'
            f"{self.body}</svg>"
        )


class Page:
    """A blank figure to draw on, x to the right and y downwards in pixels. Texts lie above all that is drawn.

    A title, if there is one, stands on its first line.
    """

    def __init__(self, height: float, width: int = WIDTH, title: str = "") -> None:
        self.height, self.width = round(height), width
        self._paths: list[str] = []
        self._texts: list[str] = []
        self.text(MARGIN, LINE, title, TITLE, weight="bold")

    def boxes(
        self, boxes: Iterable[Box], fill: Colour = "none", edgecolor: Colour | None = None, linewidth: float = 1
    ) -> None:
        """Draw rectangles (left, top, width, height) as one path, without a border if that has no colour."""
        corners = ([(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes)
        self.shapes(corners, fill, edgecolor, linewidth)

    def shapes(
        self,
        shapes: Iterable[Iterable[Point]],
        fill: Colour = "none",
        edgecolor: Colour | None = None,
        linewidth: float = 1,
    ) -> None:
        """Draw polygons, each a list of points, as one path, without a border if that has no colour."""
        stroke = _stroke(edgecolor, linewidth) if edgecolor else ""
        again = fill == "none"  # a line alone is drawn all the way back to its first point
        outlines = (_through(points + points[:again]) + "z" for points in map(list, shapes))
        self._path(outlines, _paint("fill", fill) + stroke)

    def lines(
        self,
        lines: Iterable[Iterable[Point]],
        colour: Colour = INK,
        linewidth: float = 1,
        dashes: Iterable[float] = (),
    ) -> None:
        """Draw open lines, each a list of points, as one path; of `dashes`, long as the line is wide, or in one go."""
        pattern = ",".join(f"{length * linewidth:g}" for length in dashes)
        dashed = f' stroke-dasharray="{pattern}" stroke-dashoffset="0"' if pattern else ""
        self._path(map(_through, lines), ' fill="none"' + dashed + _stroke(colour, linewidth))

    def arrow(self, start: Point, end: Point) -> None:
        """Draw a straight arrow."""
        (x, y), (u, v) = start, end
        dx, dy = np.array([u - x, v - y]) / np.hypot(u - x, v - y)
        self.lines([[start, (u - 6 * dx, v - 6 * dy)]], linewidth=1.5)
        self.shapes(
            [[end, (u - 9 * dx - 4 * dy, v - 9 * dy + 4 * dx), (u - 9 * dx + 4 * dy, v - 9 * dy - 4 * dx)]], INK
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = BODY,
        align: str = "left",
        weight: str = "normal",
        family: str = "",
    ) -> None:
        """Write one line of text with its baseline at y; `align` is "left", "center" or "right" of x."""
        bold = ' font-weight="700"' if weight == "bold" else ""
        font = f' font-family="{family}"' if family else ""
        style = f'fill="{INK}"{bold} font-size="{size:g}px" text-anchor="{_ANCHORS[align]}"{font}'
        if text:
            self._texts.append(f'<text {style} x="{_number(x)}" y="{_number(y)}">{escape(text)}</text>')

    def finish(self, alt: str) -> Figure:
        """Return the figure.

        Parameters
        ----------
        alt : str
            What the figure shows, in words.
        """
        return Figure(alt, self.width, self.height, "".join(self._paths + self._texts))

    def _path(self, outlines: Iterable[str], style: str) -> None:
        if d := "".join(outlines):
            self._paths.append(f'<path{style} d="{d}"/>')


def room(text: str, size: float = BODY) -> float:
    """Return pixels enough for a text, whatever the page's font."""
    return 0.62 * size * len(text)


def _through(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _paint(what: str, colour: Colour) -> str:
    """Return the attributes for the colour of "fill" or "stroke"."""
    name, opacity = (colour, 1) if isinstance(colour, str) else colour
    return f' {what}="{name}"' + (f' {what}-opacity="{opacity:g}"' if opacity != 1 else "")


def _stroke(colour: Colour, width: float) -> str:
    wide = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'{_paint("stroke", colour)}{wide} stroke-linejoin="miter"'


def _number(value: float) -> str:
    """Round to 0.1, and before that away what differs from machine to machine."""
    return f"{round(float(f'{value:.6f}'), 1) + 0:g}"
