"""What the page on power and chance shows: two clocks, and which lasting runs slow down over the power limit."""

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..draw.chart import Chart, dye
from ..draw.figure import BLUE, INK, ORANGE, Figure
from ..experiments import clocks, sustained
from ..experiments.ceilings import card
from ..records import files

STEADY, LATER = (0.4, 0.8), (0.8, 1.4)
"""Seconds of a lasting run, before and after its first slow spell begins, if it has any."""
CLOCKS = (("13", "normal"), ("16", "normal"), ("16", "zeros"), ("20", "normal"), ("20", "zeros"), ("21", "normal"))
"""Kernels and inputs of which `clocks_table` has the clocks."""


def lower(name: str, inputs: str) -> float:
    """Return by what fraction the multiprocessors' own clock is below NVML's, in a lasting run of a kernel at 4096."""
    of = clocks.of(find(name), inputs=inputs)
    return 1 - of.own_mhz / of.nvml_mhz


def clocks_table() -> Table:
    """Return the multiprocessors' own clock beside NVML's for `CLOCKS`."""
    rows = []
    for name, inputs in CLOCKS:
        of = clocks.of(find(name), inputs=inputs)
        told = {"normal": "random"}.get(inputs, inputs)
        clock = f"{of.nvml_mhz:,}", f"{of.own_mhz:,}", f"{lower(name, inputs):.1%}"
        rows.append((of.kernel, told, of.watts, *clock))
    heads = ("kernel", "A and B", "watts", "NVML's MHz", "SMs' own MHz", "lower by")
    return Table(heads, rows, f"Two clocks in lasting runs, M = N = K = 4096, {card().name}")


def seconds(run: sustained.Sustained) -> np.ndarray:
    """Return when each sample of a lasting run ended: the whole run takes `sustained.SECONDS`."""
    ends = np.cumsum(run.samples.ms)
    return sustained.SECONDS * ends / ends[-1]


def parts(run: sustained.Sustained) -> tuple[np.ndarray, np.ndarray]:
    """Return which samples of a lasting run end while `STEADY`, and which `LATER`."""
    ends = seconds(run)
    steady, later = ((ends > begin) & (ends <= end) for begin, end in (STEADY, LATER))
    return steady, later


def slowing(run: sustained.Sustained) -> tuple[float, float]:
    """Return a lasting run's median watts while `STEADY`, and by what fraction its times are longer `LATER`.

    That is the worst median of five neighbouring samples, so that a single slow one doesn't count.
    """
    ms, (steady, later) = np.array(run.samples.ms), parts(run)
    worst = max(map(np.median, np.lib.stride_tricks.sliding_window_view(ms[later], 5)))
    return float(np.median(np.array(run.samples.watts)[steady])), float(worst / np.median(ms[steady]) - 1)


def rise(run: sustained.Sustained) -> float:
    """Return by what fraction the median of a lasting run's times is higher `LATER` than while `STEADY`."""
    ms, (steady, later) = np.array(run.samples.ms), parts(run)
    return float(np.median(ms[later]) / np.median(ms[steady]) - 1)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def lasting() -> dict[sustained.Sustained, tuple[float, float]]:
    """Return all lasting runs, each with its `slowing`."""
    return {run: slowing(run) for run in recording().points if run.protocol == "lasting"}


def slowed() -> Figure:
    """Draw for every lasting run how much it slows down after 0.8 s, against the power that it drew before."""
    runs, limit = lasting(), recording().provenance["power_limit_watts"]
    chart = Chart(
        "Which lasting runs slow down after 0.8 s",
        (300, 780),
        (0, 50),
        across="median of the sensor's watts, 0.4 to 0.8 s",
        up="% longer than then, at the worst, 0.8 to 1.4 s",
        notes=[f"Blue: tensor cores. Orange: FP32 units. Dashed: the limit, {limit} W.", card().name],
    )
    chart.ticks(range(300, 781, 60), range(0, 51, 10))
    chart.line([(limit, 0), (limit, 50)], INK, (6, 2), 1)
    for run, (watts, longer) in runs.items():
        colour = ORANGE if run.kernel in ("13_autotuned", "sgemm") else BLUE
        chart.axes.plot(watts, 100 * longer, "o", color=dye(colour), markersize=6, alpha=0.7, clip_on=False)
    return chart.finish(
        f"Points for {len(runs)} lasting runs. Only those that drew "
        f"{min(watts for watts, longer in runs.values() if longer > 0.04):.0f} W or more slow down by over 4%."
    )
