"""What the page on power and chance shows: 20 and cuBLAS in turns and alone, at which clocks, and chance."""

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
POWER_CAP = 4
"""The bit of ``nvmlClocksEventReasonSwPowerCap`` in `Sustained.reasons`."""
RUNS = [(inputs, protocol) for inputs in ("zeros", "normal") for protocol in ("in turns", "lasting")]
"""Inputs and protocols."""
STEADY = (0.2, 0.7)
"""Seconds of a lasting run at `SIZE` between which its times are steady and NVML's sensors have followed."""


def both(size: int, inputs: str, protocol: str) -> np.ndarray:
    """Return milliseconds, NVML's MHz, and the standard error of the first, of `KERNEL` and of cuBLAS.

    In turns, they are medians, without an error. Of a lasting run they are means of the second half, and the error is
    that of means of eight parts.
    """
    if protocol == "in turns":
        ours = sustained.of(KERNEL, size, inputs, protocol)
        return np.array([(np.median(of.ms), np.median(of.sm_mhz), 0) for of in (ours.samples, ours.cublas)])
    found = [persistent.lasting(who, size, inputs) for who in BOTH]
    return np.array([(ms, mhz, wrong) for ms, wrong, mhz in found])


def share(size: int, inputs: str, protocol: str) -> tuple[float, float]:
    """Return the share of 20 in cuBLAS's speed in %, and its standard error in points."""
    return tuple(100 * of for of in persistent.faster(*both(size, inputs, protocol)[:, [0, 2]]))


def clocks_table() -> Table:
    """Return what 20 and cuBLAS take at `SIZE` by inputs and protocol: time, clock, and cycles by that clock."""
    rows = []
    for inputs, how in RUNS:
        (ms, mhz, _), (percent, wrong) = both(SIZE, inputs, how).T, share(SIZE, inputs, how)
        values = (
            " | ".join(format(each, form) for each in of)
            for of, form in ((ms, ".3f"), (mhz, ",.0f"), (ms * mhz, ",.0f"))
        )
        rows.append(
            (
                f"{'zeros' if inputs == 'zeros' else 'random'}, {'in turns' if how == 'in turns' else 'alone'}",
                *values,
                f"{percent:.1f}%" + f" ± {wrong:.1f}" * (how == "lasting"),
            )
        )
    return Table(
        ("A and B, measured", "ms", "NVML's MHz", "thousands of cycles", "share of 20"),
        rows,
        f"Kernel 20 | cuBLAS in FP16, M = N = K = {SIZE}, {card().name}",
        "Cycles: ms times MHz. Alone: means of the second half, and the share's standard error in points.",
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


def seen(who: Kernel | cublas.Gemm) -> np.ndarray:
    """Return seconds, ms, NVML's MHz and its watts with each sample of a lasting run on random numbers."""
    samples = sustained.of(who, SIZE).samples
    passed = recording().settings["lasting_s"] * np.cumsum(samples.ms) / np.sum(samples.ms)
    return np.stack((passed, samples.ms, samples.sm_mhz, samples.watts), axis=1)


def capped(run: sustained.Sustained) -> tuple[int, int]:
    """Return in how many samples of a run NVML names a power cap as a reason for the clock, and how many there are."""
    return sum(bool(reasons & POWER_CAP) for reasons in run.reasons), len(run.reasons)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def twins() -> np.ndarray:
    """Return how far 20's share and that of the same code as a variant lie apart in a recording, and the noise."""
    pairs = {size: (KERNEL, persistent.WITH_AND_WITHOUT[persistent.chosen(size)][0]) for size in persistent.ALL}
    return np.array(
        [
            (abs(np.log(ours / theirs)), copy_engine.chance(size))
            for size, pair in pairs.items()
            for ours, theirs in persistent.shares(pair, [size])[:, 0].T
        ]
    )


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    found = {(size, *run): share(size, *run) for size in SIZES for run in RUNS}
    for size in SIZES:
        zeros_turns, zeros_alone, turns, alone = (found[size, *run] for run in RUNS)
        assert abs(zeros_turns[0] - zeros_alone[0]) < 0.5 and turns[0] > 100 > alone[0] and turns[0] - alone[0] > 2
        assert (100 - alone[0] < 1.5 * alone[1]) if size == SIZE else (100 - alone[0] > 2 * alone[1])
    ms, mhz, _ = both(SIZE, *RUNS[3]).T
    slower, fewer = (round(1 - of[0] / of[1], 3) for of in (mhz, ms * mhz))
    zeros, turns = [sustained.of(who, SIZE, "zeros") for who in BOTH], sustained.of(KERNEL, SIZE, *RUNS[2])
    assert slower > fewer > 0 and round((1 - fewer) / (1 - slower), 3) == round(ms[0] / ms[1], 3)
    assert (
        zeros[0].sm_mhz == zeros[1].sm_mhz < 0.9 * card().boost_mhz
        and 1.1 * zeros[1].watts < zeros[0].watts < 0.65 * limit
        and min(np.divide(*capped(run)) for run in zeros) > 0.95
    )
    lines = [seen(who) for who in BOTH]
    steady, swings = (
        [line[(line[:, 0] > first) & (line[:, 0] < last)] for line in lines] for first, last in (STEADY, (STEADY[1], 9))
    )
    (_, flat, _, over), (_, theirs, _, theirs_over) = (np.median(line, axis=0) for line in steady)
    watts, late = (
        np.concatenate(swings)[:, 3],
        [
            [line[np.argmax(off), 0] for off in (line[:, 1] > 1.1 * line[0, 1], line[:, 2] < 0.9 * line[0, 2])]
            for line in lines
        ],
    )
    assert flat < theirs and min(over, theirs_over, turns.watts) > 1.02 * limit > watts.mean() > 0.98 * limit
    bursts = [sustained.of(who, SIZE, "normal", "burst") for who in BOTH]
    again, gains = persistent.shares([KERNEL], [SIZE])[0, 0], np.divide(*persistent.shares(AFTER_BEFORE, SIZES)) - 1
    noise, far = [copy_engine.chance(size) for size in SIZES], min(copy_engine.moves(SIZE).values())
    others, pairs = 100 * two_gpus.of(cublas.gemm_ex, SIZE).ms / two_gpus.of(KERNEL, SIZE).ms, twins()
    own = [
        each.own_mhz / each.nvml_mhz
        for each in files.load("clocks", files.Recording[clocks.Clocks]).points
        if each.kernel >= "14"
    ]
    assert (
        bursts[0].ms > 1.01 * bursts[1].ms
        and min(run.sm_mhz for run in bursts) > 0.99 * card().boost_mhz
        and steady[0][:, 2].max() < steady[1][:, 2].min()
        and (gains[1] > noise[1]).all()
        and 0 < gains[0].min() < gains[0].max() < noise[0]
        and min(*again, found[SIZE, *RUNS[2]][0]) / others - 1 > noise[0]
    )
    return {
        "card": card().name,
        "boost": f"{card().boost_mhz:,} MHz",
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "sample": f"{2 * turns.ms:.1f} ms",
        **{
            f"{run} {size}": f"{percent:.1f}%" + f" ± {wrong:.1f}" * bool(wrong > 0.05)
            for (size, *names), (percent, wrong) in found.items()
            for run in [" ".join(names)]
        },
        "alone": f"{found[SIZE, *RUNS[3]][0]:.1f}%",
        "zeros watts": " and ".join(f"{run.watts} W" for run in zeros),
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "slower": f"{slower:.1%}",
        "fewer": f"{fewer:.1%}",
        "longer": f"{1 - fewer:.3f} / {1 - slower:.3f} = {ms[0] / ms[1]:.3f}",
        "slows": f"{max(first for first, _ in late):.2f} s",
        "shows": " and ".join(f"{then:.2f}" for _, then in late[::-1]) + " s",
        "own": f"{min(own):.2f} to {max(own):.2f}",
        "cases": f"{len(own)}",
        "steady": f"{flat:.3f} and {theirs:.3f} ms",
        "still ahead": f"{theirs / flat - 1:.1%}",
        "over": f"{over:.0f} and {theirs_over:.0f} W",
        "turns watts": f"{turns.watts} W",
        "swings": f"{watts.min():.0f} and {watts.max():.0f} W",
        "mean": f"{watts.mean():.0f} W",
        "again": persistent.both(again),
        "gains 4096": persistent.both(100 * gains[1], "+.1f"),
        "gains 8192": persistent.both(100 * gains[0], "+.1f"),
        "noise 4096": f"{noise[1]:.1%}",
        "noise 8192": f"{noise[0]:.1%}",
        "far": f"{far:.1%}",
        "pairs": f"{len(pairs)}",
        "beyond": {1: "One"}[np.count_nonzero(pairs[:, 0] > pairs[:, 1])],
        "bursts": f"{bursts[1].ms / bursts[0].ms:.1%}",
        "two gpus": f"{others:.1f}%",
    }
