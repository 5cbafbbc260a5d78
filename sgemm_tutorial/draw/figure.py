"""Figures as compact inline SVG: one stored output for light pages, dark pages and phones.

matplotlib draws on a page measured in pixels; `Figure` holds what is left of its SVG after everything is
removed that a web page doesn't need. Text stays text, and text, axes and frames take the colour of the text
around the figure (``currentColor``). No element carries an id, so figures on one page cannot interfere.
Coordinates are rounded to 0.1 pixel, and nothing depends on the reader's matplotlib settings, so the same data
give the same bytes on every machine.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D

WIDTH = 640
TITLE, BODY, SMALL = 18, 16, 14
"""Font sizes in pixels of a figure 640 wide."""
LINE = 23
"""Pixels from one line of text to the next."""
MARGIN = 8
"""Pixels round a figure."""

INK = "#010203"
"""Stands for the colour of the text around the figure."""
GREY = "#7b7f86"
"""What `INK` becomes in a file of its own: contrast of 4 to 1 on white and on GitHub's black."""

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Told apart by colour-blind readers (Okabe and Ito 2008), at least 3 to 1 on white and on near-black."""

PALE = (INK, 0.14)
"""Fills what is there but not in question."""

Box = tuple[float, float, float, float]
"""A rectangle in pixels: left, top, width and height."""

_SVG = "{http://www.w3.org/2000/svg}"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sgemm-tutorial",
    "path.simplify": False,
    "font.family": "DejaVu Sans",
    "text.parse_math": False,
    "text.usetex": False,
}


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

    def save(self, path: str | Path, ink: str = GREY) -> None:
        """Write a stand-alone SVG file.

        Parameters
        ----------
        path : str or Path
        ink : str
            Colour of text and axes, as a file cannot know the page it is shown on.
        """
        svg = self._svg('xmlns="http://www.w3.org/2000/svg" font-family="system-ui,Helvetica,Arial,sans-serif"')
        Path(path).write_text(svg.replace("currentColor", ink) + "\n", encoding="utf-8")

    def _svg(self, attributes: str) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return (
            f'<svg {attributes} role="img" aria-label={quoteattr(self.alt)} {size} stroke-linejoin="round">'
            f"{self.body}</svg>"
        )


class Page:
    """A blank figure to draw on, x to the right and y downwards in pixels. Made by `page`, or within `settings`."""

    def __init__(self, height: float, width: int) -> None:
        self.height, self.width = round(height), width
        self._drawing = Drawing((width / 72, self.height / 72), dpi=72, frameon=False)
        self._pixels = Affine2D().scale(1, -1).translate(0, self.height)  # without axes, which cost more than drawing

    def boxes(self, boxes: Iterable[Box], fill: str = "none", **style: Any) -> None:
        """Draw rectangles (left, top, width, height) as one path; `style` is matplotlib's, no border by default."""
        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
        self.shapes(corners, fill, **style)

    def shapes(self, shapes: Iterable[Iterable[tuple[float, float]]], fill: str = "none", **style: Any) -> None:
        """Draw polygons, each a list of points, as one path."""
        outlines = [Outline([*points, points[0]], closed=True) for points in map(list, shapes)]
        self._add(outlines, facecolor=fill, **({"linewidth": int("edgecolor" in style)} | style))

    def lines(self, lines: Iterable[Iterable[tuple[float, float]]], colour: str = INK, **style: Any) -> None:
        """Draw open lines, each a list of points, as one path, 1 pixel wide by default."""
        outlines = [Outline(list(points)) for points in lines]
        self._add(outlines, facecolor="none", edgecolor=colour, **({"linewidth": 1} | style))

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
        """Draw a straight arrow."""
        (x, y), (u, v) = start, end
        dx, dy = np.array([u - x, v - y]) / np.hypot(u - x, v - y)
        self.lines([[start, (u - 6 * dx, v - 6 * dy)]], colour, linewidth=1.5)
        self.shapes(
            [[end, (u - 9 * dx - 4 * dy, v - 9 * dy + 4 * dx), (u - 9 * dx + 4 * dy, v - 9 * dy - 4 * dx)]], colour
        )

    def text(
        self, x: float, y: float, text: str, size: float = BODY, align: str = "left", colour: str = INK, **style: Any
    ) -> None:
        """Write one line of text with its baseline at y; `align` is "left", "center" or "right" of x."""
        self._drawing.text(
            x,
            y,
            text,
            transform=self._pixels,
            fontsize=size,
            ha=align,
            va="baseline",
            color=colour,
            rotation_mode="anchor",
            clip_on=False,
            **style,
        )

    def finish(self, alt: str) -> Figure:
        """Return the figure.

        Parameters
        ----------
        alt : str
            What the figure shows, in words.
        """
        file = io.StringIO()
        self._drawing.savefig(file, format="svg", metadata={"Date": None})
        return Figure(alt, self.width, self.height, _compact(file.getvalue()))

    def _add(self, outlines: list[Outline], **style: Any) -> None:
        if outlines:
            shape = PathPatch(Outline.make_compound_path(*outlines), transform=self._pixels, clip_on=False, **style)
            self._drawing.add_artist(shape)


def room(text: str, size: float = BODY) -> float:
    """Return pixels enough for a text, whatever the page's font."""
    return 0.62 * size * len(text)


@contextmanager
def settings() -> Iterator[None]:
    """Draw with our settings and not the reader's."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@contextmanager
def page(height: float, width: int = WIDTH) -> Iterator[Page]:
    """Give a blank page, drawn with our settings."""
    with settings():
        yield Page(height, width)


def _compact(svg: str) -> str:
    """Return the paths and texts of matplotlib's SVG, without groups, ids, metadata and style sheet."""
    kept = []
    for element in ElementTree.fromstring(svg).iter():
        tag = element.tag.removeprefix(_SVG)
        if tag not in ("path", "text"):
            continue
        style = dict(part.split(": ", 1) for part in element.attrib.pop("style", "").split("; ") if part)
        attributes = {"fill": "currentColor"} if tag == "text" else {}
        attributes |= {name: value for name, value in style.items() if name != "font-family"}
        if "monospace" in style.get("font-family", ""):
            attributes["font-family"] = "monospace"
        for name in ("d", "x", "y", "transform"):
            if name in element.attrib:
                attributes[name] = _rounded(element.attrib[name])
        if attributes.get("transform", "").startswith(("rotate(0 ", "rotate(-0 ")):
            del attributes["transform"]
        if "d" in attributes:
            attributes["d"] = re.sub(r"\s*([MLHVQCZz])\s*", r"\1", attributes["d"]).strip()
        clean = ElementTree.Element(tag, attributes)
        clean.text = element.text
        kept.append(ElementTree.tostring(clean, "unicode").replace(INK, "currentColor").replace(" />", "/>"))
    return "".join(kept)


def _rounded(text: str) -> str:
    """Round the decimal numbers in a text to 0.1."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number[0]), 1) + 0:g}", text)
