"""A player: recorded speeds by size, for a choice of kernels and cards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sgemm_tutorial.errors import ArgumentError

from ..records.timings import Record
from .chart import Chart
from .charts import (
    CUBLAS,
    cublas_speeds,
    short,
    speeds_of,
    style,
    ticks,
)
from .figure import (
    INK,
    LINE,
    MARGIN,
    Figure,
    Page,
)
from .player import (
    WIDTH,
    Control,
    Layer,
    Pick,
    Player,
    looked_up,
)

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
    measured = [_measured(record, sizes) for record in records.values()]
    curves = [CUBLAS, *sorted({point.kernel for record in records.values() for point in record.points})]
    models = list(dict.fromkeys(model for model, _, _ in computed))
    most = max(
        *(best for lines, _ in measured for line in lines.values() for *_, best in line),
        *(rate for line in computed.values() for _, rate in line),
    )

    def chart(title: str = "", across: str = "", up: str = "", notes: Sequence[str] = ("",)) -> Chart:
        """Return axes for all that the player can show: each figure holds a part of it."""
        return Chart(
            title, (sizes[0], sizes[-1]), (0, most), (), across, up, notes, size=(WIDTH, HEIGHT), left=40, right=0
        )

    def bare() -> Chart:
        """Return the same axes unseen."""
        found = chart()
        found.axes.set_axis_off()
        return found

    axes = chart("Speed by size", "M = N = K", "TFLOP/s", ["Bands: 10–90%. Thin lines: computed."])
    axes.ticks(range(1024, sizes[-1] + 1, 1024), ticks(0, most, 6, (1, 2, 5, 10)))
    left = [
        Layer((), {(): axes.finish("TFLOP/s by size, M = N = K.")}),
        Layer((SIZE,), {(place,): _cursor(axes, n) for place, n in enumerate(sizes)}),
    ]
    right = [Layer((), {(): _head()})]
    for i, kernel in enumerate(curves):
        switch = FIRST + i
        drawn = {
            (c, 1): _curve(bare(), i, kernel, lines[kernel]) for c, (lines, _) in enumerate(measured) if kernel in lines
        }
        beside = {
            (models.index(model) + 1, cards.index(card), 1): _computed(bare(), i, line)
            for (model, card, of), line in computed.items()
            if of == kernel
        }
        left += [Layer((CARD, switch), drawn), Layer((MODEL, CARD, switch), beside)]
        right.append(Layer((switch,), {(1,): _row(i, kernel)}))
    texts = {
        (place, c): {"size": n} | {_place(i): said.get((kernel, n), "not recorded") for i, kernel in enumerate(curves)}
        for place, n in enumerate(sizes)
        for c, (_, said) in enumerate(measured)
    }
    places = [(round(axes.at(n, 0)[0], 1), place) for place, n in enumerate(sizes)]
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
        picks=[Pick(0, SIZE, "x", places)],
    )


def _measured(
    record: Record, sizes: Sequence[int]
) -> tuple[dict[str, list[tuple[float, ...]]], dict[tuple[str, int], str]]:
    """Return what was measured of each kernel and of cuBLAS, as numbers and in words.

    By name: sizes and TFLOP/s in the median, low and high. By name and size: the same in words, for a kernel with its
    share of cuBLAS in the same run.
    """
    lines, said = defaultdict(list), {}
    for n in sizes:
        beside = [point for point in record.points if n == point.M]
        rates = {CUBLAS: cublas_speeds(beside)} | {point.kernel: speeds_of(point) for point in beside}
        shares = {point.kernel: f", {point.percent_of_cublas:.1f}%" for point in beside}
        for kernel, (rate, low, high) in rates.items():
            lines[kernel].append((n, rate, low, high))
            said[kernel, n] = f"{short(rate)} ({short(low)}–{short(high)}){shares.get(kernel, '')}"
    return lines, said


def _cursor(chart: Chart, size: int) -> Figure:
    x, bottom = chart.at(size, 0)
    sheet = Page(HEIGHT, WIDTH)
    sheet.lines([[(x, chart.top), (x, bottom)]], (INK, 0.6))
    return sheet.finish("")


def _curve(chart: Chart, number: int, name: str, line: Sequence[tuple[float, ...]]) -> Figure:
    chart.curve("", line, *_style(number))
    (first, start, *_), (last, end, *_) = line[0], line[-1]
    return Figure(f"{name} from {short(start)} at {first:,} to {short(end)} at {last:,}.", WIDTH, HEIGHT, chart.body())


def _computed(chart: Chart, number: int, line: Line) -> Figure:
    chart.line(line, _style(number)[0], wide=1)
    return Figure("", WIDTH, HEIGHT, chart.body())


def _style(number: int) -> tuple[str, Sequence[float]]:
    """Return a curve's colour and dashes; the first is cuBLAS's."""
    return style(number - 1) if number else (INK, ())


def _place(number: int) -> str:
    """Return the name of the text for a curve's value at the chosen size."""
    return f"curve {chr(ord('a') + number)}"


def _head() -> Figure:
    sheet = Page(HEIGHT, WIDTH, "M = N = K = {size}")
    sheet.text(MARGIN, 2 * LINE, "TFLOP/s (10th to 90th percentile),")
    sheet.text(MARGIN, 3 * LINE - 4, "and percent of cuBLAS")
    return sheet.finish("At {size}, TFLOP/s, 10th to 90th percentile, and percent of cuBLAS:")


def _row(number: int, name: str) -> Figure:
    """Write a curve's colour, number and what was measured."""
    y = ROWS_AT + LINE * (number + 1)
    colour, dash = _style(number)
    sheet = Page(HEIGHT, WIDTH)
    sheet.lines([[(MARGIN, y - 5), (MARGIN + 26, y - 5)]], colour, linewidth=2.2, dashes=dash)
    sheet.text(MARGIN + 34, y, name if number == 0 else name[:2], weight="bold")
    sheet.text(MARGIN + 102, y, f"{{{_place(number)}}}")
    return sheet.finish(f"{name} {{{_place(number)}}};")
