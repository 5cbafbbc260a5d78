"""Charts of numbers: recorded measurements, predictions beside counts, and how a time grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ..errors import ArgumentError
from ..records.timings import Point, Record
from .figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, PINK, SMALL, TITLE, WIDTH, Figure, Page, room

CUBLAS = "cuBLAS"
COLOURS = (BLUE, ORANGE, GREEN, PINK)
DASHES = ((), (6, 2), (2, 2))
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
    points = sorted((p for p in record.points if wanted == (p.M, p.N, p.K)), key=lambda p: p.kernel)
    if not points:
        sizes = sorted({(p.M, p.N, p.K) for p in record.points})
        raise ArgumentError("size", str(size), f"a recorded one: {', '.join(map(str, sizes)) or 'there is none'}")
    rows = [(p.kernel, p.ms, p.ms_p10, p.ms_p90, p.percent_of_cublas) for p in points]
    libraries = _libraries(points)
    for name, beside in libraries.items():
        rows.append(
            (
                name,
                *(
                    float(np.median([getattr(p, f"cublas_{what}") for p in beside]))
                    for what in ("ms", "ms_p10", "ms_p90")
                ),
                100.0,
            )
        )
    rates = [[_tflops(wanted, ms) for ms in row[1:4]] for row in rows]
    pitch, top = 32, 3 * LINE + 8
    left, right = MARGIN + 8 + max(room(row[0]) for row in rows), WIDTH - MARGIN - 168
    scale = (right - left) / max(rate for row in rates for rate in row)
    bottom = top + pitch * len(rows)
    sheet = Page(bottom + 2 * LINE + 10)
    sheet.text(MARGIN, LINE, f"Speed at {_shape(wanted)}", TITLE, weight="bold")
    sheet.text(WIDTH - MARGIN - 88, top - 12, "TFLOP/s", SMALL, "right")
    sheet.text(WIDTH - MARGIN, top - 12, "of cuBLAS", SMALL, "right")
    for i, ((name, *_, percent), (rate, best, worst)) in enumerate(zip(rows, rates, strict=True)):
        y = top + pitch * i
        colour = (INK, 0.45) if name in libraries else BLUE
        sheet.text(left - 8, y + 19, name, align="right")
        sheet.boxes([(left, y + 4, rate * scale, pitch - 12)], colour)
        _whisker(sheet, left + worst * scale, left + best * scale, y + pitch / 2 - 2)
        sheet.text(WIDTH - MARGIN - 88, y + 19, short(rate), align="right")
        sheet.text(WIDTH - MARGIN, y + 19, f"{percent:.1f}%", align="right")
    if len(libraries) == 1:
        goal = left + rates[-1][0] * scale
        sheet.lines([[(goal, top - 4), (goal, bottom)]], linewidth=1.5, dashes=DASHES[1])
    sheet.lines([[(left, top - 4), (left, bottom)]])
    sheet.text(MARGIN, bottom + LINE, "Bars: medians of device time. Whiskers: 10th to 90th percentile.", SMALL)
    sheet.text(MARGIN, bottom + 2 * LINE, record.made, SMALL)
    each = (
        f"{name} {short(rate)} TFLOP/s, {percent:.1f}% of cuBLAS"
        for (name, *_, percent), (rate, *_) in zip(rows, rates, strict=True)
    )
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
        rates = _percentages(point) if of_cublas else speeds_of(point)
        series.setdefault(_name(point, record), []).append((_extent(point), *rates))
    if of_cublas:
        libraries = {CUBLAS: [(size, 100.0, 100.0, 100.0) for size in (sizes[0], sizes[-1])]}
    else:
        libraries = {
            name: [
                (n, *np.median([speeds_of(p, "cublas_") for p in beside if n == _extent(p)], axis=0))
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
    sheet = Page(Plot.height)
    plot = Plot(sheet, series, (sizes[0], sizes[-1]), (0, most), log_x=not even)
    plot.title(f"{unit} by size, {size}")
    plot.x_ticks(_within(sizes[0], sizes[-1]) if even else _some(sizes))
    plot.y_ticks(ticks(0, most, 6, (1, 2, 5, 10)))
    ends = {}
    for i, (name, line) in enumerate(series.items()):
        dash = DASHES[list(libraries).index(name) if name in libraries else i // 4 % 3]
        colour = INK if name in libraries else COLOURS[i % 4]
        plot.band([(n, low, high) for n, _, low, high in line], colour)
        plot.line([(n, rate) for n, rate, *_ in line], colour, dash)
        ends[name] = (line[-1][1], colour)
    plot.labels(ends)
    plot.notes("Lines: medians of device time. Bands: 10th to 90th percentile.", record.made)
    each = (
        f"{name} from {short(line[0][1])} at {line[0][0]:g} to {short(line[-1][1])} at {line[-1][0]:g}"
        for name, line in series.items()
    )
    return sheet.finish(f"{unit} by size, {size}, on {record.made}: {'; '.join(each)}.")


def prediction(
    predicted: Mapping[str, Number], counted: Mapping[str, Number], names: tuple[str, str] = ("predicted", "counted")
) -> Figure:
    """Draw pairs of bars, what a formula says above what was counted, each pair to a scale of its own.

    Parameters
    ----------
    predicted, counted : mapping of str to number
        Quantities, not negative, by what they are, for example ``"global load sectors"``; the same in both.
    names : tuple of str
        What to call the two.

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
        for j, (value, who) in enumerate(zip(pair, names, strict=True)):
            width, at = longest * value / (max(pair) or 1), y + 32 + 19 * j
            if value and j == 0:
                sheet.boxes([(MARGIN, at, width, 14)], PALE, edgecolor=INK)
            elif value:
                sheet.boxes([(MARGIN, at, width, 14)], BLUE)
            sheet.text(MARGIN + width + 8, at + 12, f"{short(value)} {who}", SMALL)
        sentences.append(f"{name}: {short(pair[0])} {names[0]}, {short(pair[1])} {names[1]}, {verdict}")
    return sheet.finish("; ".join(sentences) + ".")


def scaling(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]] | Sequence[float], power: int = 3) -> Figure:
    """Draw time against size, both logarithmic, with the slope of a power for comparison.

    Parameters
    ----------
    sizes : sequence of int
        M = N = K, ascending, at least two.
    seconds : sequence of float, or mapping of str to sequence of float
        A time for each size, for one thing or for several by name.
    power : int
        The slope to compare with; 3 is time proportional to the number of operations.

    Raises
    ------
    ArgumentError
        There are fewer than two sizes, they don't ascend, or a time is missing or not positive.
    """
    series = dict(seconds) if isinstance(seconds, Mapping) else {"": seconds}
    if len(sizes) < 2 or sorted(set(sizes)) != list(sizes) or sizes[0] < 1:
        raise ArgumentError("sizes", str(list(sizes)), "at least two, positive and ascending")
    for name, times in series.items():
        if len(times) != len(sizes) or not all(time > 0 for time in times):
            raise ArgumentError("seconds", f"{name} {list(times)}".strip(), f"{len(sizes)} positive times")
    every = [time for times in series.values() for time in times]
    unit, symbol, factor = ("Microseconds", "µs", 1e6) if max(every) < 1e-3 else ("Seconds", "s", 1)
    series = {name: [factor * time for time in times] for name, times in series.items()}
    last = max(times[-1] for times in series.values())
    low, high = factor * min(every), factor * max(every)
    sheet = Page(Plot.height)
    plot = Plot(sheet, series, (sizes[0], sizes[-1]), (low / 1.2, high * 1.2), log_x=True, log_y=True)
    plot.title(f"{unit} by size, M = N = K")
    plot.x_ticks(_some(sizes))
    plot.y_ticks(_decades(low / 1.2, high * 1.2))
    start = max(sizes[0], sizes[-1] * (low / 1.2 / last) ** (1 / power))
    plot.line([(start, last * (start / sizes[-1]) ** power), (sizes[-1], last)], INK, DASHES[2])
    ends = {}
    for i, (name, times) in enumerate(series.items()):
        colour = COLOURS[i % 4]
        plot.line(list(zip(sizes, times, strict=True)), colour, DASHES[i // 4 % 3])
        ends[name] = (times[-1], colour)
    plot.labels(ends)
    plot.notes(f"Dotted: time proportional to the size to the power of {power}.")
    each = (
        f"{name or 'time'} from {short(times[0])} {symbol} at {sizes[0]} to {short(times[-1])} {symbol} at {sizes[-1]}"
        for name, times in series.items()
    )
    return sheet.finish(f"Time by size on logarithmic axes: {'; '.join(each)}. A dotted line shows power {power}.")


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
    sheet = Page(Plot.height)
    plot = Plot(sheet, [], (low, high), (least, most), log_x=True, log_y=True)
    plot.title(title)
    plot.x_ticks(_decades(low, high))
    plot.y_ticks(_decades(least, most))
    plot.line([(max(low, min(ridges)), peak), (high, peak)], INK)
    sheet.text(plot.right, plot.y(peak) - 8, f"{short(peak)} TFLOP/s", SMALL, "right")
    for i, rate in enumerate(rates.values()):
        start = max(low, least / rate)
        plot.line([(start, start * rate), (peak / rate, peak)], INK, DASHES[i % 3])
    groups: list[list[tuple[float, float, str]]] = []  # points whose labels would overlap share one
    for name, (intensity, speed) in sorted(points.items(), key=lambda item: item[1]):
        x, y = plot.x(intensity), plot.y(speed)
        sheet.boxes([(x - 4, y - 4, 8, 8)], BLUE)
        near = [
            group
            for group in groups
            if abs(y - group[0][1]) < LINE - 8 and x - group[-1][0] < 16 + room(", ".join(label for *_, label in group))
        ]
        (near[0] if near else groups.append([]) or groups[-1]).append((x, y, name))
    for group in groups:
        sheet.text(group[-1][0] + 8, group[0][1] + 5, ", ".join(sorted(name for *_, name in group)), SMALL)
    dashes = ("solid", "dashed", "dotted")
    slopes = (f"{dashes[i % 3]} {name}, {short(rate)} TB/s" for i, (name, rate) in enumerate(rates.items()))
    plot.notes("Across: FLOP per byte. Up: TFLOP/s. Both logarithmic.", f"Slopes: {'; '.join(slopes)}.")
    each = (
        f"{name} {short(intensity)} FLOP per byte, {short(speed)} TFLOP/s"
        for name, (intensity, speed) in points.items()
    )
    roofs = ", ".join(f"{name} at {short(rate)} TB/s" for name, rate in rates.items())
    return sheet.finish(f"{title}: {'; '.join(each)}. Roofs: {short(peak)} TFLOP/s, {roofs}.")


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
    across, up = zip(*(point for line in series.values() for point in line), strict=True)
    for name, log, values in (("x", log_x, across), ("y", log_y, up)):
        if log and min(values) <= 0:
            raise ArgumentError("series", f"{name} = {min(values)}", "positive values along a logarithmic axis")
    low, high = (min(up) / 1.3, max(up) * 1.3) if log_y else (0, max(up))
    sheet = Page(Plot.height)
    plot = Plot(sheet, series, (min(across), max(across)), (low, high), log_x, log_y)
    plot.title(title)
    plot.x_ticks(_some(sorted(set(across))) if log_x else _within(min(across), max(across)))
    plot.y_ticks(_decades(low, high) if log_y else _within(low, high))
    ends = {}
    for i, (name, line) in enumerate(series.items()):
        plot.line(line, COLOURS[i % 4], DASHES[i // 4 % 3])
        ends[name] = (line[-1][1], COLOURS[i % 4])
    plot.labels(ends)
    plot.notes(note)
    each = (
        f"{name} from {short(line[0][1])}{unit} at {line[0][0]:g} to {short(line[-1][1])}{unit} at {line[-1][0]:g}"
        for name, line in series.items()
    )
    return sheet.finish(f"{title}. {note} {'; '.join(each)}.")


def _within(low: float, high: float) -> list[float]:
    return ticks(low, high, 7, (1, 2, 4, 5, 10))


def ticks(low: float, high: float, most: int, steps: Sequence[int]) -> list[float]:
    """Return the values in a range that matplotlib would label: no more parts, and steps with one of these digits."""
    from matplotlib.ticker import MaxNLocator  # importing it takes a tenth of a second, and few pictures have axes

    return [value for value in MaxNLocator(most, steps=steps).tick_values(low, high) if low <= value <= high]


class Plot:
    """Axes with lines, room for labels on their right, and values along them in data's units."""

    left, top, bottom, height = 56, 52, 366, 452

    def __init__(
        self,
        sheet: Page,
        names: Iterable[str],
        x: tuple[float, float],
        y: tuple[float, float],
        log_x: bool = False,
        log_y: bool = False,
    ) -> None:
        self.sheet, self.right = sheet, sheet.width - MARGIN - 18 - max(map(room, names), default=0)
        self.x = _scale(*x, self.left, self.right, log_x)
        self.y = _scale(*y, self.bottom, self.top, log_y)

    def title(self, text: str) -> None:
        """Write the title."""
        self.sheet.text(MARGIN, LINE, text, TITLE, weight="bold")

    def notes(self, *lines: str) -> None:
        """Write up to two lines below."""
        for i, text in enumerate(lines):
            self.sheet.text(MARGIN, self.bottom + 52 + LINE * i, text, SMALL)

    def x_ticks(self, values: Iterable[float]) -> None:
        """Label values along the x axis and draw the axis."""
        for value in values:
            self.sheet.lines([[(self.x(value), self.bottom), (self.x(value), self.bottom + 5)]])
            self.sheet.text(self.x(value), self.bottom + 23, f"{value:g}", SMALL, "center")
        self.sheet.lines([[(self.left, self.bottom), (self.right, self.bottom)]])

    def y_ticks(self, values: Iterable[float]) -> None:
        """Label values along the y axis that lie in its range, with a faint line across."""
        for value in values:
            if self.top - 1 <= self.y(value) <= self.bottom + 1:
                self.sheet.lines([[(self.left, self.y(value)), (self.right, self.y(value))]], (INK, 0.18))
                self.sheet.text(self.left - 8, self.y(value) + 5, f"{value:g}", SMALL, "right")

    def line(self, points: Sequence[tuple[float, float]], colour: str, dash: Sequence[float] = ()) -> None:
        """Draw a line through points."""
        self.sheet.lines([[(self.x(x), self.y(y)) for x, y in points]], colour, linewidth=2.2, dashes=dash)

    def band(self, ranges: Sequence[tuple[float, float, float]], colour: str) -> None:
        """Shade between low and high, given as (x, low, high)."""
        there = [(self.x(x), self.y(low)) for x, low, _ in ranges]
        back = [(self.x(x), self.y(high)) for x, _, high in reversed(ranges)]
        self.sheet.shapes([there + back], (colour, 0.25))

    def labels(self, ends: Mapping[str, tuple[float, str]]) -> None:
        """Write the lines' names on their right, at their last value or as near as there is room."""
        apart, y = 18, math.inf
        places = {}
        for name, (value, _) in sorted(ends.items(), key=lambda item: item[1][0]):
            y = places[name] = min(self.y(value), y - apart)
        lift = max(0.0, self.top - y)
        for name, (value, colour) in ends.items():
            at = min(places[name] + lift, self.bottom)
            self.sheet.lines([[(self.right, self.y(value)), (self.right + 12, at)]], colour, linewidth=2.2)
            self.sheet.text(self.right + 16, at + 5, name)


def _scale(low: float, high: float, start: float, end: float, log: bool) -> Callable[[float], float]:
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


def speeds_of(point: Point, prefix: str = "") -> tuple[float, float, float]:
    """Return median, low and high TFLOP/s of the kernel, or with "cublas_" of cuBLAS."""
    return tuple(
        _tflops((point.M, point.N, point.K), getattr(point, f"{prefix}{name}")) for name in ("ms", "ms_p90", "ms_p10")
    )


def _percentages(point: Point) -> tuple[float, float, float]:
    """Return median, low and high speed as percentages of cuBLAS's median."""
    return tuple(100 * point.cublas_ms / ms for ms in (point.ms, point.ms_p90, point.ms_p10))


def _extent(point: Point) -> float:
    """Return the size of the square problem with as many multiplications."""
    return point.M if point.M == point.N == point.K else round(math.cbrt(point.M * point.N * point.K), 1)


def _name(point: Point, record: Record) -> str:
    """Return the kernel's name, with what distinguishes it if the record has it with several arguments."""
    if len({(p.label, *p.parameters.values()) for p in record.points if p.kernel == point.kernel}) == 1:
        return point.kernel
    number = point.kernel[:2] if point.kernel[:2].isdigit() else point.kernel
    return f"{number} {point.label or ','.join(map(str, point.parameters.values()))}"


def _tflops(size: tuple[int, int, int], ms: float) -> float:
    return 2 * math.prod(size) / ms / 1e9


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
