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
PARTS = ((0.2, 0.7), (2, 3), (3, 4))
"""Seconds of a lasting run: while its times are steady, and two swings of its second half."""


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
        f"In turns: medians. Alone: means of the second half. By medians, the last share is {by_medians():.1f}%.",
    )


def by_medians(size: int = SIZE) -> float:
    """Return the share of 20 in cuBLAS's speed in %, alone on random numbers, by medians of the second halves."""
    return 100 * sustained.cublas_ms(KERNEL, size) / sustained.of(KERNEL, size).ms


def energies(size: int, inputs: str) -> np.ndarray:
    """Return the joules of a launch alone, of `KERNEL` and of cuBLAS, by the card's counter."""
    return np.array([sustained.of(who, size, inputs).joules for who in BOTH])


def energy_table() -> Table:
    """Return what a launch at `SIZE` alone takes: clock, energy, power, time."""
    rows = [
        (f"{name}, {who}", f"{mhz:,.0f}", f"{joules:.3f}", f"{1000 * joules / ms:.0f}", f"{ms:.3f}")
        for inputs, name in (("zeros", "zeros"), ("normal", "random"))
        for who, joules, (ms, mhz) in zip(
            ("20", "cuBLAS"), energies(SIZE, inputs), both(SIZE, inputs, "lasting"), strict=True
        )
    ]
    return Table(
        ("alone", "MHz by NVML", "joules", "joules by time, W", "ms"),
        rows,
        f"A launch, means of the second half, M = N = K = {SIZE}, {card().name}",
    )


def part(first: float, last: float, size: int = SIZE) -> np.ndarray:
    """Return mean milliseconds and NVML's mean watts in a part of a lasting run, of `KERNEL` and of cuBLAS."""
    runs = (seen(who, size) for who in BOTH)
    return np.array([run[(run[:, 0] > first) & (run[:, 0] <= last)].mean(axis=0)[[1, 3]] for run in runs])


def repeats(size: int) -> np.ndarray:
    """Return the shares of 20 in cuBLAS's speed in % in turns, all five, the earliest first.

    Both recordings of `copy_engine.TWICE` time this code twice: as 20, and as its last step but for its width.
    """
    return np.append(persistent.shares((KERNEL, persistent.STEPS[2]), [size])[:, 0, ::-1].T, share(size, *RUNS[2]))


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


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    found = {(size, *run): share(size, *run) for size in SIZES for run in RUNS}
    again = {size: repeats(size) for size in SIZES}
    for size in SIZES:
        zeros_turns, zeros_alone, turns, alone = (found[size, *run] for run in RUNS)
        by_clock = [np.divide(*both(size, inputs, "lasting")[:, 1]) for inputs in ("zeros", "normal")]
        assert (
            abs(zeros_turns - zeros_alone) < 0.5 > abs(zeros_turns - turns)
            and min(zeros_alone, turns) > alone + 1.8
            and abs(alone - by_medians(size)) < 0.7 < 1 < again[size].min() - alone
            and by_clock[0] == 1 > by_clock[1] + 0.01
        )
    zeros, mixed, free = (
        [sustained.of(who, SIZE, "zeros") for who in BOTH],
        sustained.of(KERNEL, SIZE, *RUNS[2]),
        sustained.of(find("16"), SIZE, "zeros"),
    )
    dearer = {
        (size, inputs): np.divide(*energies(size, inputs)) - 1 for size in SIZES for inputs in ("zeros", "normal")
    }
    powers = np.ravel([1000 * energies(size, "normal") / both(size, *RUNS[3])[:, 0] for size in SIZES])
    (steady, *swings), turns_watts = [part(*of) for of in PARTS], np.mean(mixed.samples.watts + mixed.cublas.watts)
    assert (
        zeros[1].watts < zeros[0].watts < 0.75 * limit
        and all(set(run.samples.sm_mhz[len(run.reasons) // 2 :]) == {zeros[0].sm_mhz} for run in zeros)
        and zeros[0].sm_mhz < 0.9 * card().boost_mhz == 0.9 * free.sm_mhz
        and all(run.reasons.count(4) > 0.95 * len(run.reasons) for run in zeros)
        and free.watts > zeros[0].watts
        and free.reasons.count(0) > 0.9 * len(free.reasons)
        and min(dearer.values()) > 0.005
        and dearer[SIZE, "zeros"] > dearer[SIZE, "normal"]
        and 0.98 * limit < powers.min() < powers.max() < 1.005 * limit
        and steady[0, 0] < steady[1, 0]
        and all(ms > theirs for (ms, _), (theirs, _) in swings)
        and (both(SIZE, *RUNS[2])[:, 0] < steady[:, 0]).all()
        and min(steady[:, 1].min(), turns_watts) > 1.03 * limit > 1.03 * np.max([one[:, 1] for one in swings])
        and abs(swings[0][0, 1] - swings[0][1, 1]) < 0.01 * limit
        and settings["warm_s"] == [0.25, 0.3]
        and PARTS[0][0] < settings["warm_s"][0]
    )
    gains = np.divide(*persistent.shares(AFTER_BEFORE, SIZES)) - 1
    noise, by_repeats = np.transpose(
        [(copy_engine.chance(size), 2.776 * np.sqrt(2) * np.std(np.log(again[size]), ddof=1)) for size in SIZES]
    )
    assert (
        (gains[1] > max(noise[1], by_repeats[1])).all()
        and 0 < gains[0].min() < gains[0].max() < min(noise[0], by_repeats[0])
        and again[SIZE].min() > 101.5
        and again[4096].min() < 100 < again[4096].max()
    )
    return {
        "card": card().name,
        "boost": f"{card().boost_mhz:,} MHz",
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']:g} s",
        "sample": f"{2 * both(SIZE, *RUNS[2])[0, 0]:.1f} ms",
        "alone": f"{found[SIZE, *RUNS[3]]:.1f}%",
        **{" ".join(run): f"{found[4096, *run]:.1f}%" for run in RUNS},
        "repeats": f"{again[SIZE].min():.1f}% to {again[SIZE].max():.1f}%",
        "zeros 20": f"{zeros[0].watts} W",
        "zeros cublas": f"{zeros[1].watts} W",
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "free": f"{free.watts} W",
        "dearer zeros": f"{dearer[SIZE, 'zeros']:.0%}",
        **{f"dearer {size}": f"{dearer[size, 'normal']:.1%}" for size in SIZES},
        **{f"slower {size}": f"{100 / found[size, *RUNS[3]] - 1:.1%}" for size in SIZES},
        "powers": f"{powers.min():.0f} to {powers.max():.0f} W",
        "steady": f"{steady[1, 0] / steady[0, 0] - 1:.1%}",
        "turns lead": f"{found[SIZE, *RUNS[2]] / 100 - 1:.1%}",
        "turns watts": f"{turns_watts:.0f} W",
        "gains 4096": persistent.both(100 * gains[1], "+.1f"),
        "gains 8192": persistent.both(100 * gains[0], "+.1f"),
        "noise": f"{noise[0]:.1%}",
        "noise 4096": f"{noise[1]:.1%}",
        "by repeats": f"{by_repeats[0]:.1%}",
        "by repeats 4096": f"{by_repeats[1]:.1%}",
        "far": f"{-np.min(copy_engine.moves(SIZE)):.1%}",
        **{f"added {size}": f"{copy_engine.timed(KERNEL, size, 'added').percent_of_cublas:.1f}%" for size in SIZES},
    }
