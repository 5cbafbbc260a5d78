"""Charts by Matplotlib in the book's style, as the paths and texts of a `Figure`.

Matplotlib draws with colours that stand for ours. Its SVG is then flattened: a path or a text each with its own
attributes, no style sheet, no ids and no clipping, so that charts cannot interfere on one page. The colours become
those of `figure`, which follow the page's theme.
"""

import io
import math
import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from .figure import (
    BLUE,
    BODY,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PINK,
    TITLE,
    WIDTH,
    Figure,
    anchored,
    fallback,
    number,
    paint,
    room,
    written,
)

COLOURS = (BLUE, ORANGE, GREEN, PINK)
DASHES = ((), (6, 2), (2, 2))
HEIGHT = 440
LEFT, TOP, BELOW = 60, 66, 62
"""Pixels round the axes: on their left, above them, and below them without notes."""
APART = 18
"""Pixels from the name of one line to the next at least."""
THICK = 2.2
"""The width of a line that shows data, in pixels."""

_INK = "#010203"
_OURS = {_INK: INK} | {fallback(colour): colour for colour in COLOURS}
STYLE = {
    "svg.fonttype": "none",
    "font.size": BODY,
    "path.simplify": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.left": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.xmargin": 0,
    "axes.ymargin": 0,
    "grid.alpha": 0.18,
    "grid.linewidth": 1,
    "xtick.major.size": 5,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "grid.color", "xtick.color"), _INK
    ),
    "ytick.color": _INK,
}
"""Matplotlib's settings for every chart."""


class Chart:
    """One pair of axes on a figure whose coordinates are pixels, under a title and with titles of their own.

    Attributes
    ----------
    axes : matplotlib.axes.Axes
        To draw on, in colours that `dye` returns.
    """

    def __init__(
        self,
        title: str = "",
        x: tuple[float, float] = (0, 1),
        y: tuple[float, float] = (0, 1),
        names: Iterable[str] = (),
        across: str = "",
        up: str = "",
        notes: Sequence[str] = (),
        log: str = "",
        size: tuple[float, float] | None = None,
        left: float = LEFT,
        right: float = 18,
        top: float = TOP,
        below: float = BELOW,
    ) -> None:
        from matplotlib import rc_context  # importing it takes a third of a second, and few pictures are charts
        from matplotlib.figure import Figure as Sheet

        names = list(names)
        tallest = top + below + LINE * len(notes) + APART * len(names)
        self.width, self.height = map(round, size or (WIDTH, max(HEIGHT, tallest)))
        self.left, self.top, self.bottom = left, top, self.height - below - LINE * len(notes)
        self.right = self.width - MARGIN - right - max(map(room, names), default=0)
        self._ends: dict[str, tuple[float, float, str]] = {}
        with rc_context(STYLE):
            self._sheet = Sheet((self.width / 72, self.height / 72), dpi=72)
            self.axes = self._sheet.add_axes(
                (left / self.width, 1 - self.bottom / self.height, (self.right - left) / self.width,
                 (self.bottom - top) / self.height),
                xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear", xlim=x, ylim=y,
            )  # fmt: skip
        self.write(MARGIN, LINE, title, size=TITLE, weight="bold")
        self.write(MARGIN, top - 14, up)
        self.write(self.right, self.bottom + 2 * LINE - 4, across, "right")
        for i, note in enumerate(notes, 1):
            self.write(MARGIN, self.bottom + below + i * LINE - MARGIN, note)

    def write(self, x: float, y: float, text: str, align: str = "left", size: float = BODY, **style: object) -> None:
        """Write text with its baseline at a place in pixels from the figure's left and top."""
        if text:
            at = x / self.width, 1 - y / self.height
            self._sheet.text(*at, text, size=size, ha=align, va="baseline", color=_INK, parse_math=False, **style)

    def ticks(self, across: Sequence[float], up: Sequence[float]) -> None:
        """Label these values along the axes, and no others."""
        for axis, values in ((self.axes.xaxis, across), (self.axes.yaxis, up)):
            axis.set_ticks(values, [f"{value:g}" for value in values], parse_math=False)
            axis.set_ticks((), minor=True)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the data is, in pixels from the left and from the top."""
        right, up = self.axes.transData.transform((x, y)).tolist()
        return right, self.height - up

    def line(
        self, points: Iterable[Sequence[float]], colour: str, dash: Sequence[float] = (), wide: float = THICK
    ) -> None:
        """Draw a line through points, of which x and y come first."""
        x, y, *_ = zip(*points, strict=True)
        self.axes.plot(x, y, color=dye(colour), dashes=dash or (None, None), linewidth=wide, clip_on=False)

    def curve(self, name: str, points: Sequence[Sequence[float]], colour: str, dash: Sequence[float] = ()) -> None:
        """Draw a line to be named, over a band between low and high where points are (x, y, low, high)."""
        if len(points[0]) > 2:
            x, _, low, high = zip(*points, strict=True)
            self.axes.fill_between(x, low, high, color=dye(colour), alpha=0.25, linewidth=0)
        self.line(points, colour, dash)
        self._ends[name] = (*points[-1][:2], colour)

    def finish(self, alt: str) -> Figure:
        """Join the curves' names to their ends, as near as there is room on the right, and return the figure."""
        y, places = math.inf, {}
        for name, (*end, _) in sorted(self._ends.items(), key=lambda item: item[1][1]):
            y = places[name] = min(self.at(*end)[1], y - APART)
        lift = max(0.0, self.top - y)
        for name, (*end, colour) in self._ends.items():
            self.axes.annotate(
                name, end, (self.right + 14, self.height - min(places[name] + lift, self.bottom)),
                textcoords="figure pixels", va="center_baseline", size=BODY, color=_INK,
                annotation_clip=False, parse_math=False,
                arrowprops={"arrowstyle": "-", "color": dye(colour), "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
            )  # fmt: skip
        return Figure(alt, self.width, self.height, self.body())

    def body(self) -> str:
        """Return the drawing as the elements of a figure: paths first, then texts."""
        from matplotlib import rc_context

        file = io.BytesIO()
        with rc_context(STYLE):
            self._sheet.savefig(file, format="svg", metadata={"Date": None})
        return flattened(file.getvalue())


def dye(colour: str) -> str:
    """Return the colour that stands for one of ours while Matplotlib draws."""
    return _INK if colour == INK else fallback(colour)


def flattened(svg: bytes) -> str:
    """Return a Matplotlib figure's paths, and then its texts, in the book's colours and each with its own attributes.

    Parameters
    ----------
    svg : bytes
        What Matplotlib wrote with the font type "none".
    """
    root = ElementTree.fromstring(svg)
    named = {element.get("id"): element for element in root.iter() if element.get("id")}
    paths, texts = [], []
    for element in root.iter():
        tag, style = element.tag.rpartition("}")[2], _style(element)
        if tag == "text":
            size = float(style["font-size"].removesuffix("px"))
            turned = float(re.match(r"rotate\((\S+)", element.get("transform", "rotate(0 "))[1])
            place = float(element.get("x")), float(element.get("y"))
            bold = style.get("font-weight") == "700"
            texts.append(written(*place, element.text or "", size, anchored(style["text-anchor"]), bold, turned=turned))
        elif tag == "use":
            shape = named[element.get("{http://www.w3.org/1999/xlink}href")[1:]]
            paths.append(_path(shape.get("d"), _style(shape) | style, float(element.get("x")), float(element.get("y"))))
        elif tag == "path" and not element.get("id"):
            paths.append(_path(element.get("d"), style))
    return "".join(filter(None, paths + texts))


def _style(element: ElementTree.Element) -> dict[str, str]:
    return dict(part.split(": ", 1) for part in element.get("style", "").split("; ") if part)


def _path(outline: str, style: dict[str, str], x: float = 0, y: float = 0) -> str:
    """Return a path, moved, with its colours as attributes; nothing if it would not be seen."""
    marks = []
    for what in ("fill", "stroke"):
        if (colour := style.get(what, "none")) != "none":
            opacity = float(style.get(f"{what}-opacity", 1)) * float(style.get("opacity", 1))
            marks.append(paint(what, (_OURS.get(colour, colour), opacity)))
        elif what == "fill":
            marks.append(' fill="none"')
    if len(marks) == 1 and "none" in marks[0]:
        return ""
    if "stroke" in style and (wide := float(style.get("stroke-width", 1))) != 1:
        marks.append(f' stroke-width="{wide:g}"')
    if dashes := style.get("stroke-dasharray"):
        marks.append(f' stroke-dasharray="{dashes}"')
    turns = [x, y]

    def moved(found: re.Match[str]) -> str:
        turns.reverse()
        return number(float(found[0]) + turns[1])

    d = re.sub(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", moved, " ".join(outline.split()))
    return f'<path{"".join(marks)} d="{re.sub(r" ?([A-Za-z]) ?", lambda letter: letter[1], d)}"/>'
