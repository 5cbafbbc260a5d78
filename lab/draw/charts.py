"""Charts of numbers: recorded measurements, predictions beside counts, and how a time grows."""

import math
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sgemm_tutorial.errors import ArgumentError

from ..records.timings import Point, Record
from .chart import COLOURS, DASHES, Chart, dye
from .figure import BLUE, INK, LINE, MARGIN, ORANGE, WIDTH, Figure, room

CUBLAS = "cuBLAS"
TIMES = ("ms", "ms_p90", "ms_p10")
"""Names of the times whose speeds are the median, the low and the high one."""
PITCH = 32
"""Pixels from one bar to the next."""
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
    left, right = MARGIN + 8 + max(room(name) for name, *_ in rows), 168
    notes = ["Bars: medians of device time. Whiskers: 10th to 90th percentile.", record.made]
    most = max(high for *_, high, _ in rows)
    chart = _bars(f"Speed at {_shape(wanted)}", len(rows), (0, most), left, right, notes)
    chart.write(WIDTH - MARGIN - 88, chart.top - 14, "TFLOP/s", "right")
    chart.write(WIDTH - MARGIN, chart.top - 14, "of cuBLAS", "right")
    for i, (name, rate, low, high, percent) in enumerate(rows):
        y = chart.at(0, i)[1] + 5
        library = name in libraries
        chart.axes.barh(i, rate, 0.65, color=dye(INK if library else BLUE), alpha=0.45 if library else None)
        chart.axes.plot([low, high], [i, i], "|-", color=dye(INK), linewidth=1.2, markersize=8, clip_on=False)
        chart.write(left - 8, y, name, "right")
        chart.write(WIDTH - MARGIN - 88, y, short(rate), "right")
        chart.write(WIDTH - MARGIN, y, f"{percent:.1f}%", "right")
    if len(libraries) == 1:
        chart.line([(rows[-1][1], -0.5), (rows[-1][1], len(rows) - 0.5)], INK, DASHES[1], wide=1.5)
    each = (f"{name} {short(rate)} TFLOP/s, {percent:.1f}% of cuBLAS" for name, rate, *_, percent in rows)
    return chart.finish(f"Bars, speed at {_shape(wanted)} on {record.made}: {'; '.join(each)}.")


def _bars(title: str, count: int, x: tuple[float, float], left: float, right: float, notes: Sequence[str]) -> Chart:
    """Return a chart for horizontal bars from the top down, with an upright axis on their left and none below."""
    size = WIDTH, 3 * LINE + PITCH * count + LINE * len(notes) + MARGIN
    chart = Chart(title, x, (count - 0.5, -0.5), size=size, left=left, right=right, below=12, notes=notes)
    chart.ticks((), ())
    chart.axes.spines["bottom"].set_visible(False)
    chart.axes.spines["left"].set_visible(True)
    return chart


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
        shares = [point.percent_of_cublas * point.ms / getattr(point, name) for name in TIMES]
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
    chart = Chart(
        f"{unit} by size",
        (sizes[0], sizes[-1]),
        (0, most),
        series,
        size,
        unit,
        ["Bands: 10–90% of the times measured.", record.made],
        log="" if even else "x",
    )
    chart.ticks(_within(sizes[0], sizes[-1]) if even else _some(sizes), ticks(0, most, 6, (1, 2, 5, 10)))
    for i, (name, line) in enumerate(series.items()):
        chart.curve(name, line, *((INK, DASHES[list(libraries).index(name)]) if name in libraries else style(i)))
    return chart.finish(f"{unit} by size, {size}, on {record.made}: {_in_words(series)}.")


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
    note = "Dotted: time proportional to the size to the power of 3."
    chart, low = _axes(f"{unit} by size", series, 1.2, "xy", "M = N = K", unit.lower(), [note])
    last = max(line[-1][1] for line in series.values())
    start = max(sizes[0], sizes[-1] * (low / last) ** (1 / 3))
    chart.line([(start, last * (start / sizes[-1]) ** 3), (sizes[-1], last)], INK, DASHES[2])
    for i, (name, line) in enumerate(series.items()):
        chart.curve(name, line, *style(i))
    return chart.finish(
        f"Time by size on logarithmic axes: {_in_words(series, f' {symbol}')}. A dotted line shows power 3."
    )


def roofline(
    points: Mapping[str, tuple[float, float]],
    peak: float,
    rates: Mapping[str, float],
    title: str = "Roofline",
    measured: Collection[str] = (),
    ways: bool = False,
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
    measured : collection of str
        The levels whose rate is no limit by design but was measured: their slopes are dashed.
    ways : bool
        Whether arrows show how the first point could become faster: up to the lowest slope, or along it.

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
    above = most * (most / least) ** 0.3  # names of slopes go on beyond the roof
    roof = f"{short(peak)} TFLOP/s"
    chart = Chart(
        title, (low, high), (least, above), [roof], "FLOP per byte", "TFLOP/s", ["Both axes are logarithmic."], "xy"
    )
    chart.ticks(_decades(low, high), _decades(least, most))
    chart.curve(roof, [(max(low, min(ridges)), peak), (high, peak)], INK)
    for name, rate in rates.items():
        start = max(low, least / rate)
        chart.line([(start, start * rate), (peak / rate, peak)], INK, DASHES[name in measured])
        (x, y), (u, v) = chart.at(start, start * rate), chart.at(peak / rate, peak)
        steep = math.atan2(y - v, u - x)
        chart.write(
            u + 8 * math.cos(steep) + 5 * math.sin(steep),
            v - 8 * math.sin(steep) + 5 * math.cos(steep),
            f"{name}, {short(rate)} TB/s",
            rotation=math.degrees(steep),
            rotation_mode="anchor",
        )
    if ways:
        x, y = intensities[0], speeds[0]
        for way, end in {"up": (x, 0.75 * min(rates.values()) * x), "to the right": (4 * x, 4 * y)}.items():
            chart.axes.annotate("", end, (x, y), arrowprops={"arrowstyle": "-|>", "color": dye(ORANGE)})
            chart.write(chart.at(*end)[0] + 8, chart.at(*end)[1] + 5, way)
    groups: list[list[tuple[float, float, str]]] = []  # points whose labels would overlap share one
    for name, (intensity, speed) in sorted(points.items(), key=lambda item: item[1]):
        x, y = chart.at(intensity, speed)
        chart.axes.plot(intensity, speed, "s", color=dye(BLUE), markersize=8, markeredgewidth=0)
        near = [
            group
            for group in groups
            if abs(y - group[0][1]) < LINE - 8 and x - group[-1][0] < 16 + room(", ".join(label for *_, label in group))
        ]
        (near[0] if near else groups.append([]) or groups[-1]).append((x, y, name))
    for group in groups:
        chart.write(group[-1][0] + 8, group[0][1] + 5, ", ".join(sorted(name for *_, name in group)))
    each = (
        f"{name} {short(intensity)} FLOP per byte, {short(speed)} TFLOP/s"
        for name, (intensity, speed) in points.items()
    )
    roofs = ", ".join(f"{name} at {short(rate)} TB/s" for name, rate in rates.items())
    return chart.finish(f"{title}: {'; '.join(each)}. Roofs: {short(peak)} TFLOP/s, {roofs}.")


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
    title : str
        What is drawn.
    series : mapping of str to sequence of (float, float)
        By name, points in ascending order of x.
    note : str
        Sentences that begin with "Across:" and "Up:" are the titles of the axes, the others stand below the chart.
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
    across, up, rest = _titled(note)
    chart, _ = _axes(title, series, 1.3, "x" * log_x + "y" * log_y, across, up, [rest] if rest else [])
    for i, (name, line) in enumerate(series.items()):
        chart.curve(name, line, *style(i))
    return chart.finish(f"{title}. {note} {_in_words(series, unit)}.")


def _titled(note: str) -> tuple[str, str, str]:
    """Return the titles of both axes that a note has, and the rest of it."""
    found = {}
    for which, key in (("Across", "across"), ("Along the axis", "across"), ("Up", "up")):
        if sentence := re.search(rf"\b{which}: (.*?)\.(?= [A-Z]|$)", note):
            found[key] = sentence[1]
            note = note.replace(sentence[0], "")
    return found.get("across", ""), found.get("up", ""), " ".join(note.split())


def _axes(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    beyond: float,
    log: str,
    across: str,
    up: str,
    notes: Sequence[str] = (),
) -> tuple[Chart, float]:
    """Return axes for all points, a logarithmic y so many times beyond them either way, and where y begins."""
    x, y = zip(*(point for line in series.values() for point in line), strict=True)
    for name, values in (("x", x), ("y", y)):
        if name in log and min(values) <= 0:
            raise ArgumentError("series", f"{name} = {min(values)}", "positive values along a logarithmic axis")
    low, high = (min(y) / beyond, max(y) * beyond) if "y" in log else (0, max(y))
    chart = Chart(title, (min(x), max(x)), (low, high), series, across, up, notes, log)
    chart.ticks(
        _some(sorted(set(x))) if "x" in log else _within(min(x), max(x)),
        _decades(low, high) if "y" in log else _within(low, high),
    )
    return chart, low


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
