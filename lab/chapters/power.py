"""What the page on power and chance draws from `sustained`: the course of lasting runs, and which of them slow down."""

from __future__ import annotations

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find

from ..draw.chart import Chart, dye
from ..draw.figure import BLUE, INK, ORANGE, Figure
from ..experiments import sustained
from ..experiments.ceilings import card
from ..records import files

STEADY, LATER = (0.4, 0.8), (0.8, 1.4)
"""Seconds of a lasting run, before and after its first slow spell begins, if it has any."""


def seconds(run: sustained.Sustained) -> np.ndarray:
    """Return when each sample of a lasting run ended: the whole run takes `sustained.SECONDS`."""
    ends = np.cumsum(run.samples.ms)
    return sustained.SECONDS * ends / ends[-1]


def slowing(run: sustained.Sustained) -> tuple[float, float]:
    """Return a lasting run's median watts while `STEADY`, and by what fraction its times are longer `LATER`.

    That is the worst median of five neighbouring samples, so that a single slow one doesn't count.
    """
    ms, ends = np.array(run.samples.ms), seconds(run)
    steady, later = ((ends > begin) & (ends <= end) for begin, end in (STEADY, LATER))
    worst = max(map(np.median, np.lib.stride_tricks.sliding_window_view(ms[later], 5)))
    return float(np.median(np.array(run.samples.watts)[steady])), float(worst / np.median(ms[steady]) - 1)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def lasting() -> dict[sustained.Sustained, tuple[float, float]]:
    """Return all lasting runs, each with its `slowing`."""
    return {run: slowing(run) for run in recording().points if run.protocol == "lasting"}


def slowed() -> Figure:
    """Draw for every lasting run how much it slows down after 0.8 s, against the power that it drew before."""
    runs, limit = lasting(), recording().provenance["power_limit_watts"]
    notes = [f"Blue: tensor cores. Orange: FP32 units. Dashed: the limit, {limit} W.", card().name]
    across, up = "median of the sensor's watts, 0.4 to 0.8 s", "% longer at the worst, 0.8 to 1.4 s"
    chart = Chart("Which lasting runs slow down after 0.8 s", (300, 780), (0, 50), (), across, up, notes)
    chart.ticks(range(300, 781, 60), range(0, 51, 10))
    chart.line([(limit, 0), (limit, 50)], INK, (6, 2), 1)
    for run, (watts, longer) in runs.items():
        colour = ORANGE if run.types == "FP32" and run.kernel[:2] not in ("17", "21") else BLUE
        chart.axes.plot(watts, 100 * longer, "o", color=dye(colour), markersize=6, alpha=0.7, clip_on=False)
    least = min(watts for watts, longer in runs.values() if longer > 0.04)
    return chart.finish(f"Points for {len(runs)} lasting runs. Only those that drew {least:.0f} W or more slow down.")


def course() -> Figure:
    """Draw the time of a launch of 20 and of cuBLAS at 8192 in the course of their lasting runs on normal numbers."""
    rivals = {"20": (find("20"), BLUE), "cuBLAS": (cublas.gemm_ex, ORANGE)}
    title = "Milliseconds of a launch in a lasting run, M = N = K = 8192"
    chart = Chart(title, (0, sustained.SECONDS), (1.4, 2.4), rivals, "seconds since the run began", "ms", [card().name])
    chart.ticks(range(5), np.arange(1.4, 2.5, 0.2).round(1))
    for name, (who, colour) in rivals.items():
        run = sustained.of(who, 8192)
        chart.curve(name, list(zip(seconds(run), run.samples.ms, strict=True)), colour)
    return chart.finish("Both are slow for a while about once a second, less each time: first after 0.8 to 1 s.")
