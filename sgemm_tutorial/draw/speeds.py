"""A player: recorded speeds by size, of the kernels and the card that its reader chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ArgumentError
from ..records.timings import Point, Record
from .charts import CUBLAS, Plot, cublas_speeds, short, speeds_of, style, ticks
from .figure import INK, LINE, MARGIN, SMALL, Figure, Page
from .player import WIDTH, Control, Layer, Pick, Player, looked_up

HEIGHT = 432
ROWS_AT = 3 * LINE + 8  # pixels from the top
SIZE, CARD, MODEL, FIRST = range(4)
"""The controls; from the last on, a switch for each curve."""

Line = Sequence[tuple[float, float]]
"""Sizes, and TFLOP/s."""


def speeds(
    name: str,
    records: Mapping[str, Record],
    computed: Mapping[tuple[str, str, str], Line],
    chosen: Sequence[str],
    size: int,
) -> Player:
    """Draw speed against size, and write down what was measured at one of the sizes.

    Parameters
    ----------
    name : str
        Of the player.
    records : mapping of str to Record
        By card: kernels once per size, M = N = K, of the same sizes on all cards.
    computed : mapping of (str, str, str) to sequence of (float, float)
        By what computes them, card and kernel: sizes and TFLOP/s, to draw beside what was measured.
    chosen : sequence of str
        The kernels that are shown at first.
    size : int
        The size at first.

    Raises
    ------
    ArgumentError
        The cards' sizes differ, or `size` is none of them.
    """
    cards, by_card = list(records), [sorted({point.M for point in record.points}) for record in records.values()]
    sizes = by_card[0]
    if any(found != sizes for found in by_card):
        raise ArgumentError("records", f"sizes {by_card}", "the same sizes on all cards")
    if size not in sizes:
        raise ArgumentError("size", str(size), f"one of {', '.join(map(str, sizes))}")
    points = {(c, point.kernel, point.M): point for c, record in enumerate(records.values()) for point in record.points}
    curves = [CUBLAS, *sorted({kernel for _, kernel, _ in points})]
    measured = {(c, kernel): _measured(points, c, kernel, sizes) for c in range(len(cards)) for kernel in curves}
    models = list(dict.fromkeys(model for model, _, _ in computed))
    most = max(
        *(best for line in measured.values() for *_, best in line),
        *(rate for line in computed.values() for _, rate in line),
    )
    chart = _Chart(sizes, most)
    left = [
        Layer((), {(): chart.axes()}),
        Layer((SIZE,), {(place,): chart.cursor(n) for place, n in enumerate(sizes)}),
    ]
    right = [Layer((), {(): _head()})]
    for i, kernel in enumerate(curves):
        switch = FIRST + i
        lines = {(c, 1): chart.curve(i, kernel, line) for (c, of), line in measured.items() if of == kernel and line}
        beside = {
            (models.index(model) + 1, cards.index(card), 1): chart.computed(i, line)
            for (model, card, of), line in computed.items()
            if of == kernel
        }
        left += [Layer((CARD, switch), lines), Layer((MODEL, CARD, switch), beside)]
        right.append(Layer((switch,), {(1,): _row(i, kernel)}))
    texts = {
        (place, c): {"size": n} | {_place(i): _said(points, c, kernel, n) for i, kernel in enumerate(curves)}
        for place, n in enumerate(sizes)
        for c in range(len(cards))
    }
    return Player(
        name,
        "Speed by size, and what was measured at one of the sizes",
        [
            Control("Size", [f"{n:,}" for n in sizes], "step", sizes.index(size)),
            Control("Card", cards),
            Control("Compute too", ("nothing", *models)),
            *(Control(kernel, ("off", "on"), "switch", int(kernel in (CUBLAS, *chosen))) for kernel in curves),
        ],
        [left, right],
        looked_up(((SIZE, CARD), texts)),
        picks=[Pick(0, SIZE, "x", chart.places)],
    )


def _measured(
    points: Mapping[tuple[int, str, int], Point], card: int, kernel: str, sizes: Sequence[int]
) -> list[tuple[float, ...]]:
    """Return sizes and TFLOP/s as recorded, in the median, at the 90th and at the 10th percentile of time."""
    if kernel == CUBLAS:
        return [(n, *_cublas(points, card, n)) for n in sizes]
    return [(n, *speeds_of(points[card, kernel, n])) for n in sizes if (card, kernel, n) in points]


def _cublas(points: Mapping[tuple[int, str, int], Point], card: int, size: int) -> list[float]:
    """Return what cuBLAS reached beside the kernels, in the median of these measurements."""
    return cublas_speeds([point for (c, _, n), point in points.items() if (c, n) == (card, size)])


def _said(points: Mapping[tuple[int, str, int], Point], card: int, kernel: str, size: int) -> str:
    """Say what was measured at a size: TFLOP/s, their spread, and the share of cuBLAS in the same run."""
    if kernel == CUBLAS:
        rate, low, high = _cublas(points, card, size)
        return f"{short(rate)} ({short(low)}–{short(high)})"
    if (card, kernel, size) not in points:
        return "not recorded"
    point = points[card, kernel, size]
    rate, low, high = speeds_of(point)
    return f"{short(rate)} ({short(low)}–{short(high)}), {point.percent_of_cublas:.1f}%"


@dataclass(frozen=True)
class _Chart:
    """Axes for all that the player can show: each figure holds a part of it.

    Attributes
    ----------
    sizes : sequence of int
    most : float
        The highest TFLOP/s.
    """

    sizes: Sequence[int]
    most: float

    def axes(self) -> Figure:
        plot = self._plot("TFLOP/s by size")
        plot.ticks(range(1024, self.sizes[-1] + 1, 1024), ticks(0, self.most, 6, (1, 2, 5, 10)))
        return plot.finish("TFLOP/s by size, M = N = K.", "Bands: 10–90%. Thin lines: computed.")

    def cursor(self, size: int) -> Figure:
        plot = self._plot()
        plot.sheet.lines([[(plot.x(size), plot.top), (plot.x(size), plot.bottom)]], (INK, 0.6))
        return plot.sheet.finish("")

    def curve(self, number: int, name: str, line: Sequence[tuple[float, ...]]) -> Figure:
        plot = self._plot()
        plot.curve("", line, *_style(number))
        (first, start, *_), (last, end, *_) = line[0], line[-1]
        return plot.sheet.finish(f"{name} from {short(start)} at {first:,} to {short(end)} at {last:,}.")

    def computed(self, number: int, line: Line) -> Figure:
        plot = self._plot()
        plot.sheet.lines([[(plot.x(n), plot.y(rate)) for n, rate in line]], _style(number)[0])
        return plot.sheet.finish("")

    @property
    def places(self) -> list[tuple[float, int]]:
        """Where the sizes are, from left to right, and which."""
        plot = self._plot()
        return [(round(plot.x(size), 1), i) for i, size in enumerate(self.sizes)]

    def _plot(self, title: str = "") -> Plot:
        x, y = (self.sizes[0], self.sizes[-1]), (0, self.most)
        return Plot(title, (), x, y, width=WIDTH, height=HEIGHT)


def _style(number: int) -> tuple[str, Sequence[float]]:
    """Return a curve's colour and dashes; the first is cuBLAS's."""
    return style(number - 1) if number else (INK, ())


def _place(number: int) -> str:
    """Return the name of the text that says what a curve has at the size."""
    return f"curve {chr(ord('a') + number)}"


def _head() -> Figure:
    sheet = Page(HEIGHT, WIDTH, "M = N = K = {size}")
    sheet.text(MARGIN, 2 * LINE, "TFLOP/s (10th to 90th percentile),", SMALL)
    sheet.text(MARGIN, 3 * LINE - 4, "and percent of cuBLAS", SMALL)
    return sheet.finish("At {size}, TFLOP/s, 10th to 90th percentile, and percent of cuBLAS:")


def _row(number: int, name: str) -> Figure:
    """Write a curve's colour, number and what was measured."""
    y = ROWS_AT + LINE * (number + 1)
    colour, dash = _style(number)
    sheet = Page(HEIGHT, WIDTH)
    sheet.lines([[(MARGIN, y - 5), (MARGIN + 26, y - 5)]], colour, linewidth=2.2, dashes=dash)
    sheet.text(MARGIN + 34, y, name if number == 0 else name[:2], SMALL, weight="bold")
    sheet.text(MARGIN + 102, y, f"{{{_place(number)}}}", SMALL)
    return sheet.finish(f"{name} {{{_place(number)}}};")
