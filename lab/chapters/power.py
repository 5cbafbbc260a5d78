"""What the page on power and chance shows: 20 and cuBLAS in turns and alone, and what is chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, ORANGE, WIDTH, Figure
from ..experiments import sustained
from ..experiments.ceilings import card
from ..records import files
from . import copy_engine, persistent

KERNEL, SIZES, SIZE = find("20"), (8192, 4096), 8192
"""Of which the page asks whether it beats cuBLAS, at which M = N = K, and at which it looks closely."""
BOTH, AFTER_BEFORE = (KERNEL, cublas.gemm_ex), (KERNEL, find("19"))
"""20 beside cuBLAS, and beside the kernel before it."""
NAMES = {"in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
RUNS = [(inputs, protocol) for inputs in ("zeros", "normal") for protocol in NAMES]
"""Inputs and protocols."""
STEADY = (0.2, 0.7)
"""Seconds of a lasting run at `SIZE` between which its times are steady and NVML's clock has followed."""


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
    """Return what 20 and cuBLAS take at `SIZE` by inputs and protocol."""
    return Table(
        ("A and B, timed", "20, ms", "cuBLAS, ms", "speed of 20 by cuBLAS's"),
        [
            (
                f"{'zeros' if inputs == 'zeros' else 'random'}, {NAMES[how]}",
                *(f"{ms:.3f}" for ms in both(SIZE, inputs, how)[:, 0]),
                f"{share(SIZE, inputs, how):.1f}%",
            )
            for inputs, how in RUNS
        ],
        f"A launch in FP16, M = N = K = {SIZE}, {card().name}",
        "In turns: medians. Alone: means of the second half. By medians, the last share would be "
        f"{100 * sustained.cublas_ms(KERNEL, SIZE) / sustained.of(KERNEL, SIZE).ms:.1f}%.",
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


def noises(size: int) -> np.ndarray:
    """Return the noise of a gain and of a share of cuBLAS, then both by the median move, as the page reckons them."""
    moves = copy_engine.moves(size)
    robust = [1.4826 * np.median(abs(each)) for each in (moves - np.median(moves), moves / np.sqrt(2))]
    others = copy_engine.STUDENT[len(moves) - 1] * np.array([np.sqrt(np.mean(moves**2) / 2), *robust])
    return np.array([copy_engine.chance(size), *others])


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    found = {(size, *run): share(size, *run) for size in SIZES for run in RUNS}
    for size in SIZES:
        zeros_turns, zeros_alone, turns, alone = (found[size, *run] for run in RUNS)
        assert abs(zeros_turns - zeros_alone) < 0.5 > abs(zeros_turns - turns) and min(zeros_alone, turns) > alone + 1.8
        assert (
            abs(np.divide(*both(size, *RUNS[1])[:, 1]) - 1) < 0.005 < 0.015 < 1 - np.divide(*both(size, *RUNS[3])[:, 1])
        )
    zeros, random = ([sustained.of(who, SIZE, inputs) for who in BOTH] for inputs in ("zeros", "normal"))
    mixed, free, drawn = (
        sustained.of(KERNEL, SIZE, *RUNS[2]),
        sustained.of(find("16"), SIZE, "zeros"),
        [np.mean(run.samples.watts[len(run.samples.watts) // 2 :]) for run in random],
    )
    longer, theirs_longer = both(SIZE, "normal", "lasting")[:, 0] / both(SIZE, "zeros", "lasting")[:, 0] - 1
    lines, clocks = [seen(who) for who in BOTH], both(SIZE, "normal", "lasting")[:, 1]
    early, steady, swings = (
        [line[(line[:, 0] > first) & (line[:, 0] < last)] for line in lines]
        for first, last in ((0, STEADY[0]), STEADY, (STEADY[1], 9))
    )
    (flat, theirs), (start, theirs_start) = [np.median(line[:, 1]) for line in steady], [line[0, 1] for line in lines]
    watts = np.concatenate(swings)[:, 3]
    periods = [period(who, size) for who in BOTH for size in SIZES]
    burst, burst_zeros = (
        sustained.cublas_ms(KERNEL, SIZE, inputs, "burst") / sustained.of(KERNEL, SIZE, inputs, "burst").ms
        for inputs in ("normal", "zeros")
    )
    assert (
        zeros[0].sm_mhz < 0.9 * card().boost_mhz
        and zeros[1].watts < zeros[0].watts < 0.75 * limit
        and longer > theirs_longer + 0.05
        and max(abs(watts / limit - 1) for watts in drawn) < 0.015
        and all(run.reasons.count(4) > 0.95 * len(run.reasons) for run in zeros)
        and free.watts > zeros[0].watts
        and free.sm_mhz == card().boost_mhz
        and free.reasons.count(0) > 0.9 * len(free.reasons)
        and np.min(mixed.samples.watts + mixed.cublas.watts) > limit
        and 0.8 < found[SIZE, *RUNS[3]] - found[SIZE, *RUNS[1]] * clocks[0] / clocks[1] < 1.5
        and abs(np.mean(mixed.samples.watts + mixed.cublas.watts) / np.mean([line[:, 3].mean() for line in steady]) - 1)
        < 0.02
        and flat < theirs
        and start > theirs_start
        and burst < 0.99 < burst_zeros < found[SIZE, *RUNS[0]] / 100 - 0.02
        and clocks[0] < 0.97 * clocks[1]
        and np.less(*[line[:, 2].mean() for line in steady])
        and (both(SIZE, *RUNS[2])[:, 0] < 0.99 * np.array([flat, theirs])).all()
        and min(line[:, 3].mean() for line in steady) > limit
        and 0.9 < min(periods) < max(periods) < 1.05
    )
    shares, gains = persistent.shares([KERNEL], SIZES)[0], np.divide(*persistent.shares(AFTER_BEFORE, SIZES)) - 1
    noise, of_share, robust, robust_share = np.transpose([noises(size) for size in SIZES])
    assert (
        (gains[1] > noise[1]).all()
        and 0 < gains[0].min() < robust[0] < gains[0].max() < noise[0] > 1.5 * robust[0]
        and (gains[1] > robust[1]).all()
        and shares[0].min() / 100 - 1 < of_share[0] < shares[0].max() / 100 - 1
        and robust_share[0] < shares[0].min() / 100 - 1
        and (abs(shares[1] / 100 - 1) < min(of_share[1], robust_share[1])).all()
        and all(
            np.log(found[size, *RUNS[2]] / found[size, *RUNS[3]]) > by for size, by in zip(SIZES, of_share, strict=True)
        )
    )
    return {
        "card": card().name,
        "boost": f"{card().boost_mhz:,} MHz",
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']:g} s",
        "sample": f"{2 * both(SIZE, *RUNS[2])[0, 0]:.1f} ms",
        **{f"{' '.join(run)} {size}": f"{percent:.1f}%" for (size, *run), percent in found.items()},
        "burst": f"{burst:.1%}",
        "burst zeros": f"{burst_zeros:.1%}",
        "zeros 20": f"{zeros[0].watts} W",
        "zeros cublas": f"{zeros[1].watts} W",
        "longer": f"{longer:.0%}",
        "their longer": f"{theirs_longer:.0%}",
        "clock 20": f"{clocks[0]:,.0f} MHz",
        "clock cublas": f"{clocks[1]:,.0f} MHz",
        "drawn": " and ".join(f"{watts:.1f} W" for watts in drawn),
        "capped": " and ".join(f"{run.reasons.count(4)} of {len(run.reasons)}" for run in zeros),
        "free": f"{free.watts} W",
        "turns last": f"{2 * np.sum(mixed.samples.ms + mixed.cublas.ms) / 1e3:.1f} s",
        "turns watts": f"{np.mean(mixed.samples.watts + mixed.cublas.watts):.0f} W",
        "by clock": f"{found[SIZE, *RUNS[1]] * clocks[0] / clocks[1]:.1f}%",
        "peaks": " and ".join(f"{line[:, 3].max():.0f} W" for line in early),
        "steady watts": " and ".join(f"{line[:, 3].mean():.0f} W" for line in steady),
        "start": f"{start:.3f} and {theirs_start:.3f} ms",
        "steady": f"{flat:.3f} and {theirs:.3f} ms",
        "still ahead": f"{theirs / flat - 1:.1%}",
        "period": f"{min(periods):.2f} to {max(periods):.2f} s",
        "swings": f"{watts.min():.0f} and {watts.max():.0f} W",
        "again": persistent.both(shares[0]),
        "again 4096": persistent.both(shares[1]),
        "gains 4096": persistent.both(100 * gains[1], "+.1f"),
        "gains 8192": persistent.both(100 * gains[0], "+.1f"),
        "noise": f"{noise[0]:.1%}",
        "robust": f"{robust[0]:.1%}",
        "share noise": f"{of_share[0]:.1%}",
        "robust share": f"{robust_share[0]:.1%}",
        "far": f"{np.min(copy_engine.moves(SIZE)):.1%}",
    }
