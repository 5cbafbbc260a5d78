"""Charts of numbers: recorded measurements, predictions beside counts, and how a time grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from sgemm_tutorial.errors import ArgumentError

from ..records.timings import Point, Record
from .figure import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    PINK,
    SMALL,
    WIDTH,
    Figure,
    Page,
    room,
)

CUBLAS = "cuBLAS"
COLOURS = (BLUE, ORANGE, GREEN, PINK)
DASHES = ((), (6, 2), (2, 2))
TIMES = ("ms", "ms_p90", "ms_p10")
"""Of median, low and high speed."""
Number = int | float


def ladder(record: Record, size: int | tuple[int, int, int] = 4096) -> Figure:
    """Draw each kernel's speed at one size as a bar beside cuBLAS's, of the same types.

    Parameters
    ----------
    record : Record
        Measurements with provenance, as `timings.load` returns.
    size : int, or tuple of M, N and K
        Which of the recorded sizes; an int is M = N = K.

    Raises
    ------
    ArgumentError
        The record has no point of that size.
    """
    wanted = (size, size, size) if isinstance(size, int) else tuple(size)
    points = sorted((p for p in record.points if p.size == wanted), key=lambda p: p.kernel)
    if not points:
        sizes = sorted({p.size for p in record.points})
        raise ArgumentError("size", str(size), f"a recorded one: {', '.join(map(str, sizes)) or 'there is none'}")
    libraries = _libraries(points)
    rows = [(p.kernel, *speeds_of(p), p.percent_of_cublas) for p in points]
    rows += [(name, *cublas_speeds(beside), 100.0) for name, beside in libraries.items()]
    pitch, top = 32, 3 * LINE + 8
    left, right = MARGIN + 8 + max(room(name) for name, *_ in rows), WIDTH - MARGIN - 168
    x = scale(0, max(high for *_, high, _ in rows), left, right)
    bottom = top + pitch * len(rows)
    sheet = Page(bottom + 2 * LINE + 10, title=f"Speed at {_shape(wanted)}")
    sheet.text(WIDTH - MARGIN - 88, top - 12, "TFLOP/s", SMALL, "right")
    sheet.text(WIDTH - MARGIN, top - 12, "of cuBLAS", SMALL, "right")
    for i, (name, rate, low, high, percent) in enumerate(rows):
        y = top + pitch * i
        colour = (INK, 0.45) if name in libraries else BLUE
        sheet.text(left - 8, y + 19, name, align="right")
        sheet.boxes([(left, y + 4, x(rate) - left, pitch - 12)], colour)
        _whisker(sheet, x(low), x(high), y + pitch / 2 - 2)
        sheet.text(WIDTH - MARGIN - 88, y + 19, short(rate), align="right")
        sheet.text(WIDTH - MARGIN, y + 19, f"{percent:.1f}%", align="right")
    if len(libraries) == 1:
        goal = x(rows[-1][1])
        sheet.lines([[(goal, top - 4), (goal, bottom)]], linewidth=1.5, dashes=DASHES[1])
    sheet.lines([[(left, top - 4), (left, bottom)]])
    sheet.text(MARGIN, bottom + LINE, "Bars: medians of device time. Whiskers: 10th to 90th percentile.", SMALL)
    sheet.text(MARGIN, bottom + 2 * LINE, record.made, SMALL)
    each = (f"{name} {short(rate)} TFLOP/s, {percent:.1f}% of cuBLAS" for name, rate, *_, percent in rows)
    return sheet.finish(f"Bars, speed at {_shape(wanted)} on {record.made}: {'; '.join(each)}.")


def by_size(record: Record, of_cublas: bool = False) -> Figure:
    """Draw each kernel's and cuBLAS's speed against the size of the problem; sizes with equal steps on a linear axis.

    Parameters
    ----------
    record : Record
        Measurements with provenance, as `timings.load` returns. The size of a problem that is not square is the cube
        root of M·N·K, the size of a square one with as much to do.
    of_cublas : bool
        Draw speeds as percentages of cuBLAS's, measured in the same run, instead of TFLOP/s.

    Raises
    ------
    ArgumentError
        The record holds fewer than two sizes.
    """
    sizes = sorted({_extent(p) for p in record.points})
    if len(sizes) < 2:
        raise ArgumentError("record", f"{len(sizes)} sizes", "two or more, to draw a line")
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for point in sorted(record.points, key=lambda p: (p.kernel, _extent(p))):
        shares = [100 * point.cublas_ms / getattr(point, name) for name in TIMES]
        rates = shares if of_cublas else speeds_of(point)
        series.setdefault(_name(point, record), []).append((_extent(point), *rates))
    if of_cublas:
        libraries = {CUBLAS: [(size, 100.0, 100.0, 100.0) for size in (sizes[0], sizes[-1])]}
    else:
        libraries = {
            name: [
                (n, *cublas_speeds([p for p in beside if n == _extent(p)]))
                for n in sorted({_extent(p) for p in beside})
            ]
            for name, beside in _libraries(record.points).items()
        }
    series |= libraries
    unit = "% of cuBLAS" if of_cublas else "TFLOP/s"
    square = all(p.M == p.N == p.K for p in record.points)
    size = "M = N = K" if square else "the cube root of M·N·K"
    most = max(best for line in series.values() for *_, best in line)
    even = len(sizes) > 2 and len(set(np.diff(sizes))) == 1
    plot = Plot(f"{unit} by size, {size}", series, (sizes[0], sizes[-1]), (0, most), log_x=not even)
    plot.ticks(_within(sizes[0], sizes[-1]) if even else _some(sizes), ticks(0, most, 6, (1, 2, 5, 10)))
    for i, (name, line) in enumerate(series.items()):
        colour, dash = (INK, DASHES[list(libraries).index(name)]) if name in libraries else style(i)
        plot.curve(name, line, colour, dash)
    return plot.finish(
        f"{unit} by size, {size}, on {record.made}: {_in_words(series)}.",
        "Lines: medians of device time. Bands: 10th to 90th percentile.",
        record.made,
    )


def prediction(predicted: Mapping[str, Number], counted: Mapping[str, Number]) -> Figure:
    """Draw pairs of bars, what a formula says above what was counted, each pair to a scale of its own.

    Parameters
    ----------
    predicted, counted : mapping of str to number
        Quantities, not negative, by what they are, for example ``"global load sectors"``; the same in both.

    Raises
    ------
    ArgumentError
        They don't hold the same quantities, there is none, or one is negative.
    """
    if predicted.keys() != counted.keys() or not predicted:
        needs = f"what predicted has: {', '.join(predicted)}" if predicted else "something to draw, in predicted too"
        raise ArgumentError("counted", ", ".join(counted) or "nothing", needs)
    for argument, values in (("predicted", predicted), ("counted", counted)):
        for name, value in values.items():
            if not value >= 0:
                raise ArgumentError(f"{argument}[{name!r}]", str(value), "a number that is not negative")
    pitch, longest = 76, 400
    sentences = []
    sheet = Page(pitch * len(predicted) + 4)
    for i, name in enumerate(predicted):
        y, pair = i * pitch, (predicted[name], counted[name])
        verdict = _compare(*pair)
        sheet.text(MARGIN, y + LINE, name, weight="bold")
        sheet.text(WIDTH - MARGIN, y + LINE, verdict, align="right")
        bars = ((pair[0], "predicted", PALE, INK), (pair[1], "counted", BLUE, None))
        for j, (value, who, fill, edge) in enumerate(bars):
            width, at = longest * value / (max(pair) or 1), y + 32 + 19 * j
            if value:
                sheet.boxes([(MARGIN, at, width, 14)], fill, edgecolor=edge)
            sheet.text(MARGIN + width + 8, at + 12, f"{short(value)} {who}", SMALL)
        sentences.append(f"{name}: {short(pair[0])} predicted, {short(pair[1])} counted, {verdict}")
    return sheet.finish("; ".join(sentences) + ".")


def scaling(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> Figure:
    """Draw time against size, both logarithmic, with the slope of time proportional to operations for comparison.

    Parameters
    ----------
    sizes : sequence of int
        M = N = K, ascending, at least two.
    seconds : mapping of str to sequence of float
        By name, a time for each size.

    Raises
    ------
    ArgumentError
        There are fewer than two sizes, they don't ascend, or a time is missing or not positive.
    """
    if len(sizes) < 2 or sorted(set(sizes)) != list(sizes) or sizes[0] < 1:
        raise ArgumentError("sizes", str(list(sizes)), "at least two, positive and ascending")
    for name, times in seconds.items():
        if len(times) != len(sizes) or not all(time > 0 for time in times):
            raise ArgumentError("seconds", f"{name} {list(times)}", f"{len(sizes)} positive times")
    every = [time for times in seconds.values() for time in times]
    unit, symbol, factor = ("Microseconds", "µs", 1e6) if max(every) < 1e-3 else ("Seconds", "s", 1)
    series = {
        name: [(n, factor * time) for n, time in zip(sizes, times, strict=True)] for name, times in seconds.items()
    }
    plot, low = _axes(f"{unit} by size, M = N = K", series, 1.2, log_x=True, log_y=True)
    last = max(line[-1][1] for line in series.values())
    start = max(sizes[0], sizes[-1] * (low / last) ** (1 / 3))
    plot.line([(start, last * (start / sizes[-1]) ** 3), (sizes[-1], last)], INK, DASHES[2])
    for i, (name, line) in enumerate(series.items()):
        plot.curve(name, line, *style(i))
    return plot.finish(
        f"Time by size on logarithmic axes: {_in_words(series, f' {symbol}')}. A dotted line shows power 3.",
        "Dotted: time proportional to the size to the power of 3.",
    )


def roofline(
    points: Mapping[str, tuple[float, float]], peak: float, rates: Mapping[str, float], title: str = "Roofline"
) -> Figure:
    """Draw speeds against arithmetic intensity, under the roofs that memory and arithmetic put over them.

    Parameters
    ----------
    points : mapping of str to (float, float)
        By a short name: FLOP per byte, and TFLOP/s.
    peak : float
        TFLOP/s that the arithmetic allows.
    rates : mapping of str to float
        By name, TB/s of one or more levels of memory: each is a slope, and what lies above one moves its bytes at
        another level.
    title : str

    Raises
    ------
    ArgumentError
        There is no point or no slope, or a value is not positive.
    """
    if not points or not rates:
        raise ArgumentError("points, rates", f"{len(points)} points, {len(rates)} slopes", "at least one of each")
    for name, values in (*points.items(), ("peak", (peak,)), *((name, (rate,)) for name, rate in rates.items())):
        if not all(0 < value < math.inf for value in values):
            raise ArgumentError(name, str(values), "positive numbers")
    intensities, speeds = zip(*points.values(), strict=True)
    ridges = [peak / rate for rate in rates.values()]
    low, high = min(intensities) / 2, max(*intensities, *ridges) * 8  # room for labels on the right
    least, most = min(speeds) / 2, peak * 2
    plot = Plot(title, (), (low, high), (least, most), log_x=True, log_y=True)
    plot.ticks(_decades(low, high), _decades(least, most))
    plot.line([(max(low, min(ridges)), peak), (high, peak)], INK)
    plot.sheet.text(plot.right, plot.y(peak) - 8, f"{short(peak)} TFLOP/s", SMALL, "right")
    for i, rate in enumerate(rates.values()):
        start = max(low, least / rate)
        plot.line([(start, start * rate), (peak / rate, peak)], INK, DASHES[i % 3])
    groups: list[list[tuple[float, float, str]]] = []  # points whose labels would overlap share one
    for name, (intensity, speed) in sorted(points.items(), key=lambda item: item[1]):
        x, y = plot.x(intensity), plot.y(speed)
        plot.sheet.boxes([(x - 4, y - 4, 8, 8)], BLUE)
        near = [
            group
            for group in groups
            if abs(y - group[0][1]) < LINE - 8 and x - group[-1][0] < 16 + room(", ".join(label for *_, label in group))
        ]
        (near[0] if near else groups.append([]) or groups[-1]).append((x, y, name))
    for group in groups:
        plot.sheet.text(group[-1][0] + 8, group[0][1] + 5, ", ".join(sorted(name for *_, name in group)), SMALL)
    dashes = ("solid", "dashed", "dotted")
    slopes = (f"{dashes[i % 3]} {name}, {short(rate)} TB/s" for i, (name, rate) in enumerate(rates.items()))
    each = (
        f"{name} {short(intensity)} FLOP per byte, {short(speed)} TFLOP/s"
        for name, (intensity, speed) in points.items()
    )
    roofs = ", ".join(f"{name} at {short(rate)} TB/s" for name, rate in rates.items())
    return plot.finish(
        f"{title}: {'; '.join(each)}. Roofs: {short(peak)} TFLOP/s, {roofs}.",
        "Across: FLOP per byte. Up: TFLOP/s. Both logarithmic.",
        f"Slopes: {'; '.join(slopes)}.",
    )


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    note: str,
    unit: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Draw a line through the points of each of a few series, from zero up unless logarithmic.

    Parameters
    ----------
    title, note : str
        What is drawn; what is along the axes.
    series : mapping of str to sequence of (float, float)
        By name, points in ascending order of x.
    unit : str
        Follows the values of y in words.
    log_x, log_y : bool
        Which axes are logarithmic.

    Raises
    ------
    ArgumentError
        There is no series, one has no point, or a value along a logarithmic axis is not positive.
    """
    if not series or not all(series.values()):
        raise ArgumentError("series", str(dict(series)), "one or more, each with points")
    plot, _ = _axes(title, series, 1.3, log_x, log_y)
    for i, (name, line) in enumerate(series.items()):
        plot.curve(name, line, *style(i))
    return plot.finish(f"{title}. {note} {_in_words(series, unit)}.", note)


def _axes(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], beyond: float, log_x: bool, log_y: bool
) -> tuple[Plot, float]:
    """Return axes for all points, a logarithmic y so many times beyond them either way, and where y begins."""
    across, up = zip(*(point for line in series.values() for point in line), strict=True)
    for name, log, values in (("x", log_x, across), ("y", log_y, up)):
        if log and min(values) <= 0:
            raise ArgumentError("series", f"{name} = {min(values)}", "positive values along a logarithmic axis")
    low, high = (min(up) / beyond, max(up) * beyond) if log_y else (0, max(up))
    plot = Plot(title, series, (min(across), max(across)), (low, high), log_x, log_y)
    plot.ticks(
        _some(sorted(set(across))) if log_x else _within(min(across), max(across)),
        _decades(low, high) if log_y else _within(low, high),
    )
    return plot, low


def _in_words(series: Mapping[str, Sequence[tuple[float, ...]]], unit: str = "") -> str:
    """Say where each line begins and ends."""
    return "; ".join(
        f"{name} from {short(line[0][1])}{unit} at {line[0][0]:g} to {short(line[-1][1])}{unit} at {line[-1][0]:g}"
        for name, line in series.items()
    )


def style(number: int) -> tuple[str, Sequence[float]]:
    """Return colour and dashes of a picture's first line, its second and so on."""
    return COLOURS[number % 4], DASHES[number // 4 % 3]


def _within(low: float, high: float) -> list[float]:
    return ticks(low, high, 7, (1, 2, 4, 5, 10))


def ticks(low: float, high: float, most: int, steps: Sequence[int]) -> list[float]:
    """Return the values in a range that matplotlib would label: no more parts, and steps with one of these digits."""
    from matplotlib.ticker import MaxNLocator  # importing it takes a tenth of a second, and few pictures have axes

    return [value for value in MaxNLocator(most, steps=steps).tick_values(low, high) if low <= value <= high]


class Plot:
    """Axes under a title, with lines, room for their names on the right, and values in data's units."""

    left, top, bottom = 56, 52, 366

    def __init__(
        self,
        title: str,
        names: Iterable[str],
        x: tuple[float, float],
        y: tuple[float, float],
        log_x: bool = False,
        log_y: bool = False,
        width: int = WIDTH,
        height: int = 452,
    ) -> None:
        self.sheet, self.right = Page(height, width, title), width - MARGIN - 18 - max(map(room, names), default=0)
        self.x = scale(*x, self.left, self.right, log_x)
        self.y = scale(*y, self.bottom, self.top, log_y)
        self._ends: dict[str, tuple[float, str]] = {}

    def ticks(self, across: Iterable[float], up: Iterable[float]) -> None:
        """Label values along the x axis, and along the y axis with a faint line across."""
        for value in across:
            self.sheet.lines([[(self.x(value), self.bottom), (self.x(value), self.bottom + 5)]])
            self.sheet.text(self.x(value), self.bottom + 23, f"{value:g}", SMALL, "center")
        self.sheet.lines([[(self.left, self.bottom), (self.right, self.bottom)]])
        for value in up:
            self.sheet.lines([[(self.left, self.y(value)), (self.right, self.y(value))]], (INK, 0.18))
            self.sheet.text(self.left - 8, self.y(value) + 5, f"{value:g}", SMALL, "right")

    def line(self, points: Iterable[tuple[float, ...]], colour: str, dash: Sequence[float] = ()) -> None:
        """Draw a line through points."""
        self.sheet.lines([[(self.x(x), self.y(y)) for x, y, *_ in points]], colour, linewidth=2.2, dashes=dash)

    def curve(self, name: str, points: Sequence[tuple[float, ...]], colour: str, dash: Sequence[float]) -> None:
        """Draw a line to be named, over a band between low and high where points are (x, y, low, high)."""
        if len(points[0]) > 2:
            there = [(self.x(x), self.y(low)) for x, _, low, _ in points]
            back = [(self.x(x), self.y(high)) for x, *_, high in reversed(points)]
            self.sheet.shapes([there + back], (colour, 0.25))
        self.line(points, colour, dash)
        self._ends[name] = points[-1][1], colour

    def finish(self, alt: str, *notes: str) -> Figure:
        """Write the curves' names on their right, at the last value or as near as there is room, and notes below."""
        apart, y = 18, math.inf
        places = {}
        for name, (value, _) in sorted(self._ends.items(), key=lambda item: item[1][0]):
            y = places[name] = min(self.y(value), y - apart)
        lift = max(0.0, self.top - y)
        for name, (value, colour) in self._ends.items():
            at = min(places[name] + lift, self.bottom)
            self.sheet.lines([[(self.right, self.y(value)), (self.right + 12, at)]], colour, linewidth=2.2)
            self.sheet.text(self.right + 16, at + 5, name)
        for i, text in enumerate(notes):
            self.sheet.text(MARGIN, self.bottom + 52 + LINE * i, text, SMALL)
        return self.sheet.finish(alt)


def scale(low: float, high: float, start: float, end: float, log: bool = False) -> Callable[[float], float]:
    """Return the function from values to pixels."""
    f = math.log if log else float
    span = f(high) - f(low)
    return lambda value: start + (end - start) * ((f(value) - f(low)) / span if span else 0.5)


def _some(sizes: Sequence[int]) -> list[int]:
    """Return the sizes to label: all if they are few, else the powers of two among them, and the ends."""
    if len(sizes) <= 7:
        return list(sizes)
    return sorted({sizes[0], sizes[-1]} | {n for n in sizes if n & (n - 1) == 0})


def _decades(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, or the powers alone where the range is wide."""
    steps = (1,) if high / low > 1000 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for e in exponents for s in steps if low <= (value := s * 10.0**e) <= high]


def _whisker(sheet: Page, start: float, end: float, y: float) -> None:
    sheet.lines([[(start, y), (end, y)], [(start, y - 4), (start, y + 4)], [(end, y - 4), (end, y + 4)]], linewidth=1.2)


def _libraries(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Return cuBLAS's names, one for each of the points' types, and the points that it was measured beside."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.types, []).append(point)
    return {CUBLAS if len(found) == 1 else f"{CUBLAS}, {types}": beside for types, beside in found.items()}


def speeds_of(point: Point) -> list[float]:
    """Return median, low and high TFLOP/s."""
    return [2 * math.prod(point.size) / getattr(point, name) / 1e9 for name in TIMES]


def cublas_speeds(beside: Sequence[Point]) -> list[float]:
    """Return the same of cuBLAS beside kernels at one size, in the median of these measurements."""
    times = np.median([[getattr(point, f"cublas_{name}") for name in TIMES] for point in beside], axis=0)
    return [2 * math.prod(beside[0].size) / ms / 1e9 for ms in times.tolist()]


def _extent(point: Point) -> float:
    """Return the size of the square problem with as many multiplications."""
    return point.M if point.M == point.N == point.K else round(math.cbrt(point.M * point.N * point.K), 1)


def _name(point: Point, record: Record) -> str:
    """Return the kernel's name, with what distinguishes it if the record has it with several arguments."""
    if len({(p.label, *p.parameters.values()) for p in record.points if p.kernel == point.kernel}) == 1:
        return point.kernel
    number = point.kernel[:2] if point.kernel[:2].isdigit() else point.kernel
    return f"{number} {point.label or ','.join(map(str, point.parameters.values()))}"


def _shape(size: tuple[int, int, int]) -> str:
    return f"M = N = K = {size[0]}" if len(set(size)) == 1 else "M, N, K = {}, {}, {}".format(*size)


def short(value: Number) -> str:
    """Return an integer with its thousands apart, another number to three digits."""
    if isinstance(value, int | np.integer) or 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def _compare(predicted: Number, counted: Number) -> str:
    """Say how far the count is from the prediction."""
    if predicted == counted:
        return "exact"
    if predicted == 0 or counted >= 2 * predicted:
        return "not predicted" if predicted == 0 else f"{counted / predicted:.3g} times as much"
    return f"{100 * (counted / predicted - 1):+.1f}%".replace("-", "−")
