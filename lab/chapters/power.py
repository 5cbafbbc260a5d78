"""What the page on power and chance shows: 20 and cuBLAS in turns, alone and in bursts, and what is chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, ORANGE, WIDTH, Figure
from ..experiments import clocks, sustained, two_gpus
from ..experiments.ceilings import card
from ..records import files
from . import copy_engine, persistent

KERNEL, SIZES, SIZE = find("20"), (8192, 4096), 8192
"""Of which the page asks whether it beats cuBLAS, at which M = N = K, and at which it looks closely."""
BOTH, AFTER_BEFORE = (KERNEL, cublas.gemm_ex), (KERNEL, find("19"))
"""20 beside cuBLAS, and beside the kernel before it."""
NAMES = {"burst": "in bursts", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
RUNS = [(inputs, protocol) for inputs in ("zeros", "normal") for protocol in NAMES]
"""Inputs and protocols."""
STEADY = (0.2, 0.7)
"""Seconds of a lasting run at `SIZE` between which its times are steady and NVML's sensors have followed."""


def both(size: int, inputs: str, protocol: str) -> np.ndarray:
    """Return milliseconds and NVML's MHz, of `KERNEL` and of cuBLAS.

    Of a lasting run they are means of the second half, else medians.
    """
    if protocol == "lasting":
        return np.array([persistent.lasting(who, size, inputs) for who in BOTH])
    ours = sustained.of(KERNEL, size, inputs, protocol)
    theirs = ours.cublas or sustained.of(cublas.gemm_ex, size, inputs, protocol).samples
    return np.array([(np.median(of.ms), np.median(of.sm_mhz)) for of in (ours.samples, theirs)])


def share(size: int, inputs: str, protocol: str) -> float:
    """Return the share of 20 in cuBLAS's speed in %."""
    return 100 * np.divide(*both(size, inputs, protocol)[::-1, 0])


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take at `SIZE` by inputs and protocol: time, clock, and energy."""
    rows = []
    for inputs, how in RUNS:
        energy = [sustained.of(who, SIZE, inputs).joules for who in BOTH if how == "lasting"]
        columns = zip((*both(SIZE, inputs, how).T, energy), (".3f", ",.0f", ".3f"), strict=True)
        cells = (" | ".join(format(each, form) for each in of) for of, form in columns)
        rows.append(
            (f"{'zeros' if inputs == 'zeros' else 'random'}, {NAMES[how]}", *cells, f"{share(SIZE, inputs, how):.1f}%")
        )
    return Table(
        ("A and B, timed", "ms", "NVML's MHz", "joules", "share of 20"),
        rows,
        f"Kernel 20 | cuBLAS in FP16, M = N = K = {SIZE}, {card().name}",
        "Of a launch. Alone: means of the second half; else medians. The energy is known of lasting runs only.",
    )


def course() -> Figure:
    """Draw milliseconds of a launch in the course of the lasting runs on random numbers, of 20 and of cuBLAS."""
    seconds = recording().settings["lasting_s"]
    names, title = ("20", "cuBLAS"), f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (1.4, 2.4), names, "seconds", "ms of a launch", size=(WIDTH, 300))
    chart.ticks(range(int(seconds) + 1), (1.4, 1.6, 1.8, 2, 2.2, 2.4))
    for name, who, colour in zip(names, BOTH, (BLUE, ORANGE), strict=True):
        line = seen(who)[:, :2].tolist()
        chart.line(line, colour, wide=1.2)
        chart.curve(name, line[-1:], colour)
    return chart.finish(
        f"{title}, ms of a launch. Both begin at 1.4 to 1.5, come to about 1.7 within a tenth of a second, and after "
        "0.7 seconds swing between 1.7 and 1.9, with single peaks above 2."
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms, NVML's MHz and its watts with each sample of a lasting run on random numbers."""
    samples = sustained.of(who, size).samples
    passed = recording().settings["lasting_s"] * np.cumsum(samples.ms) / np.sum(samples.ms)
    return np.stack((passed, samples.ms, samples.sm_mhz, samples.watts), axis=1)


def period(who: Kernel | cublas.Gemm, size: int) -> float:
    """Return the seconds after which the swings of a lasting run are most like those before."""
    passed, ms = seen(who, size)[:, :2].T
    even = np.interp(np.arange(1, passed[-1], 0.01), passed, ms)
    alike = np.correlate(even - even.mean(), even - even.mean(), "full")[even.size - 1 :]
    return (40 + np.argmax(alike[40:180])) / 100


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    found = {(size, *run): share(size, *run) for size in SIZES for run in RUNS}
    for size in SIZES:
        zeros_bursts, zeros_turns, zeros_alone, random_bursts, turns, alone = (found[size, *run] for run in RUNS)
        assert (
            abs(zeros_turns - zeros_alone) < 0.5 > abs(zeros_turns - turns)
            and min(zeros_alone, turns) > alone + 1.8
            and 100 < zeros_bursts < 100.5
            and max(random_bursts, alone) < 99.5
        )
    zeros, random = ([sustained.of(who, SIZE, inputs) for who in BOTH] for inputs in ("zeros", "normal"))
    times, zeros_times = (both(SIZE, inputs, "lasting")[:, 0] for inputs in ("normal", "zeros"))
    longer, energy, bursts = (
        times / zeros_times - 1,
        np.array([run.joules for run in random]),
        both(SIZE, *RUNS[3])[:, 0],
    )
    lines = [seen(who) for who in BOTH]
    steady, swings = (
        [line[(line[:, 0] > first) & (line[:, 0] < last)] for line in lines] for first, last in (STEADY, (STEADY[1], 9))
    )
    (_, flat, _, over), (_, theirs, _, theirs_over) = (np.median(line, axis=0) for line in steady)
    watts, late = np.concatenate(swings)[:, 3], [line[np.argmax(line[:, 2] < 0.9 * line[0, 2]), 0] for line in lines]
    periods = [period(who, size) for who in BOTH for size in SIZES]
    quiet, busy = (sustained.of(KERNEL, SIZE, inputs, "burst") for inputs in ("zeros", "normal"))
    assert (
        zeros[0].sm_mhz == zeros[1].sm_mhz < 0.9 * card().boost_mhz
        and 1.1 * zeros[1].watts < zeros[0].watts < 0.65 * limit
        and longer[0] > longer[1] + 0.05
        and (abs(1000 * energy / times / limit - 1) < 0.02).all()
        and energy[0] / energy[1] > 1.02
        and max(abs(line[0, 1] / burst - 1) for line, burst in zip(lines, bursts, strict=True)) < 0.005
        and energy[0] / energy[1] < zeros[0].joules / zeros[1].joules
        and flat < theirs
        and min(over, theirs_over) > 1.02 * limit > watts.mean() > 0.98 * limit
        and 0.9 < min(periods) < max(periods) < 1.05
        and min(*busy.samples.sm_mhz, *quiet.samples.sm_mhz, *(line[0, 2] for line in lines)) > 0.99 * card().boost_mhz
        and abs(busy.samples.ms[0] / busy.ms - 1) < 0.01
    )
    again, gains = persistent.shares([KERNEL], [SIZE])[0, 0], np.divide(*persistent.shares(AFTER_BEFORE, SIZES)) - 1
    noise, robust = ([copy_engine.chance(size, by_median) for size in SIZES] for by_median in (False, True))
    others = 100 * two_gpus.of(cublas.gemm_ex, SIZE).ms / two_gpus.of(KERNEL, SIZE).ms
    fp32, own = (
        [
            each.own_mhz / each.nvml_mhz
            for each in files.load("clocks", files.Recording[clocks.Clocks]).points
            if (each.kernel >= "14") == tensor
        ]
        for tensor in (False, True)
    )
    assert (
        (gains[1] > max(noise[1], robust[1])).all()
        and 0 < gains[0].min() < robust[0] < noise[0]
        and min(*again, found[SIZE, "normal", "in turns"]) / others - 1 > noise[0]
        and max(own) < 0.95 < 0.99 < min(fp32)
    )
    return {
        "card": card().name,
        "boost": f"{card().boost_mhz:,} MHz",
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']:g} s",
        "sample": f"{2 * both(SIZE, *RUNS[4])[0, 0]:.1f} ms",
        **{f"{' '.join(run)} {size}": f"{percent:.1f}%" for (size, *run), percent in found.items()},
        "zeros watts": " and ".join(f"{run.watts} W" for run in zeros),
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "longer": f"{longer[0]:.0%}",
        "their longer": f"{longer[1]:.0%}",
        "drawn": " and ".join(f"{of:.0f} W" for of in 1000 * energy / times),
        "energy": f"{energy[0] / energy[1] - 1:.1%}",
        "time": f"{times[0] / times[1] - 1:.1%}",
        "shows": " and ".join(f"{then:.2f}" for then in late[::-1]) + " s",
        "own": f"{min(own):.2f} to {max(own):.2f}",
        "own FP32": f"{min(fp32):.3f} to {max(fp32):.3f}",
        "cases": f"{len(own)}",
        "FP32 cases": f"{len(fp32)}",
        "at once": f"{busy.samples.ms[0] / quiet.ms - 1:.0%}",
        "burst clock": f"{quiet.sm_mhz:,} and {busy.sm_mhz:,} MHz",
        "steady": f"{flat:.3f} and {theirs:.3f} ms",
        "still ahead": f"{theirs / flat - 1:.1%}",
        "over": f"{over:.0f} and {theirs_over:.0f} W",
        "period": f"{min(periods):.2f} to {max(periods):.2f} s",
        "swings": f"{watts.min():.0f} and {watts.max():.0f} W",
        "start": " and ".join(f"{line[0, 1]:.3f}" for line in lines) + " ms",
        "again": persistent.both(again),
        "gains 4096": persistent.both(100 * gains[1], "+.1f"),
        "gains 8192": persistent.both(100 * gains[0], "+.1f"),
        "far": f"{np.min(copy_engine.moves(SIZE)):.1%}",
        "two gpus": f"{others:.1f}%",
    }
