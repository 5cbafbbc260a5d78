"""Figures as compact inline SVG: one stored output for light pages, dark pages and phones.

A `Page` is drawn on in pixels; the `Figure` that it becomes is made of paths and texts and nothing else. Text stays
text. Text, axes and frames take the colour of the text around the figure (``currentColor``), and other colours are CSS
variables that the book's style sheet sets for its light and its dark theme. No element carries an id, so figures on
one page cannot interfere. Coordinates are rounded to 0.1 pixel, so the same data give the same bytes on every machine.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

WIDTH = 640
TITLE, BODY = 16, 14
"""Font sizes in pixels; pages of the book show figures in their own size."""
LINE = 23
"""Pixels from one line of text to the next."""
MARGIN = 8
"""Pixels round a figure."""

INK = "currentColor"
"""The colour of the text around the figure."""
GREY = "#7b7f86"
"""The colour that replaces `INK` in a file of its own: contrast of 4 to 1 on white and on GitHub's black."""

BLUE, ORANGE, GREEN, PINK = (
    f"var(--sg-{name}, {colour})"
    for name, colour in (("blue", "#0072b2"), ("orange", "#d55e00"), ("green", "#009e73"), ("pink", "#cc79a7"))
)
"""Told apart by colour-blind readers (Okabe and Ito 2008), at least 3 to 1 on white and on near-black.

Where no style sheet sets the variable, as in a file or in JupyterLab, its fallback is shown.
"""

PALE = (INK, 0.14)
"""The fill of parts that are shown for context only."""

BLACK, WHITE = "#000000", "#ffffff"

Colour = str | tuple[str, float]
"""A CSS colour, alone or with its opacity."""
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
        Path(path).write_text(fallback(svg.replace(INK, GREY)) + "\n", encoding="utf-8")

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
        self.text(MARGIN, LINE, title, size=TITLE, weight="bold")

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
        self._path(outlines, paint("fill", fill) + stroke)

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

    def diagram(self, boxes: Iterable[tuple[Any, ...]], arrows: Iterable[tuple[Any, ...]]) -> None:
        """Draw framed boxes with lines of text in them, and arrows between the boxes.

        Parameters
        ----------
        boxes : iterable of tuple
            A `Box`, its fill, and its lines, of which the first is bold.
        arrows : iterable of tuple
            Where an arrow starts and ends; for an arrow with a text also the text's x, its y and the text.
        """
        for (x, y, width, height), fill, *lines in boxes:
            self.boxes([(x, y, width, height)], fill, edgecolor=INK)
            for i, line in enumerate(lines):
                self.text(x + 10, y + 22 * (i + 1), line, weight="normal" if i else "bold")
        for start, end, *label in arrows:
            self.arrow(start, end)
            if label:
                self.text(*label)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        align: str = "left",
        size: float = BODY,
        weight: str = "normal",
        family: str = "",
        on: Colour | None = None,
    ) -> None:
        """Write one line of text with its baseline at y; `align` is "left", "center" or "right" of x.

        Text `on` a colour is black or white, whichever can be read there.
        """
        if text:
            colour = INK if on is None else readable(on)
            self._texts.append(written(x, y, text, size, align, weight == "bold", family, colour))

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


def fallback(text: str) -> str:
    """Return text with each CSS variable replaced by the colour that stands in where it is not set."""
    return re.sub(r"var\(--[a-z-]+, (#[0-9a-f]+)\)", r"\1", text)


def luminance(colour: str) -> float:
    """Return a colour's relative luminance, as WCAG 2.2 defines it."""
    parts = np.array([int(fallback(colour)[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def readable(ground: Colour) -> str:
    """Return the colour of text on a ground: black or white by luminance, so that contrast is at least 4.5 to 1.

    A named colour has a text colour of its own in each theme. Where a ground lets the page shine through, text keeps
    the page's colour.
    """
    if not isinstance(ground, str) or ground == INK:
        return INK
    text = BLACK if (luminance(ground) + 0.05) ** 2 > 1.05 * 0.05 else WHITE
    return ground.replace("--sg-", "--sg-on-").replace(fallback(ground), text)


def written(
    x: float,
    y: float,
    text: str,
    size: float = BODY,
    align: str = "left",
    bold: bool = False,
    family: str = "",
    colour: str = INK,
    turned: float = 0,
) -> str:
    """Return a text as an element of a figure, turned by so many degrees round the place where it is written."""
    weight = ' font-weight="700"' if bold else ""
    font = f' font-family="{family}"' if family else ""
    turn = f' transform="rotate({number(turned)} {number(x)} {number(y)})"' if turned else ""
    style = f'fill="{colour}"{weight} font-size="{size:g}px" text-anchor="{_ANCHORS[align]}"{font}{turn}'
    return f'<text {style} x="{number(x)}" y="{number(y)}">{escape(text)}</text>'


def anchored(anchor: str) -> str:
    """Return on which side of its place a text lies that SVG anchors so."""
    return {of: align for align, of in _ANCHORS.items()}[anchor]


def paint(what: str, colour: Colour) -> str:
    """Return the attributes for the colour of "fill" or "stroke"."""
    name, opacity = (colour, 1) if isinstance(colour, str) else colour
    return f' {what}="{name}"' + (f' {what}-opacity="{opacity:g}"' if opacity != 1 else "")


def number(value: float) -> str:
    """Round to 0.1, and before that away what differs from machine to machine."""
    return f"{round(float(f'{value:.6f}'), 1) + 0:g}"


def _through(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _stroke(colour: Colour, width: float) -> str:
    wide = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'{paint("stroke", colour)}{wide} stroke-linejoin="miter"'
