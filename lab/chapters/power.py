"""What the page on power and chance shows: 20 and cuBLAS in bursts, in turns and alone, and what is chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, ORANGE, WIDTH, Figure
from ..experiments import clocks, sustained
from ..experiments.ceilings import card
from ..records import files
from . import copy_engine, persistent

KERNEL, SIZES, SIZE = find("20"), (8192, 4096), 8192
"""Of which the page asks whether it beats cuBLAS, at which M = N = K, and at which it looks closely."""
BOTH, AFTER_BEFORE = (KERNEL, cublas.gemm_ex), (KERNEL, find("19"))
"""20 beside cuBLAS, and beside the kernel before it."""
NAMES = {"burst": "burst", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
RUNS = [(inputs, protocol) for inputs in ("zeros", "normal") for protocol in NAMES]
"""Inputs and protocols: three on zeros, then three on random numbers."""
PARTS = ((2, 3), (3, 4))
"""Seconds of a lasting run: two swings of its second half."""


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
    """Return what 20 and cuBLAS take at `SIZE` by inputs and protocol, and the shares at all `SIZES`."""
    return Table(
        ("A and B, timed", "20, ms", "cuBLAS, ms", *(f"share at {size}" for size in SIZES)),
        [
            (
                f"{'zeros' if inputs == 'zeros' else 'random'}, {NAMES[how]}",
                *(f"{ms:.3f}" for ms in both(SIZE, inputs, how)[:, 0]),
                *(f"{share(size, inputs, how):.1f}%" for size in SIZES),
            )
            for inputs, how in RUNS
        ],
        f"A launch in FP16, M = N = K = {SIZE}, {card().name}",
        "Share: speed of 20 by cuBLAS's. Burst and in turns: medians. Alone: means of the second half.",
    )


def by_medians(size: int = SIZE) -> float:
    """Return the share of 20 in cuBLAS's speed in %, alone on random numbers, by medians of the second halves."""
    return 100 * sustained.cublas_ms(KERNEL, size) / sustained.of(KERNEL, size).ms


def energies(size: int, inputs: str) -> np.ndarray:
    """Return the joules of a launch alone, of `KERNEL` and of cuBLAS, by the card's counter."""
    return np.array([sustained.of(who, size, inputs).joules for who in BOTH])


def energy_table() -> Table:
    """Return what a launch at `SIZE` alone takes: energy, power, time."""
    rows = [
        (f"{name}, {who}", f"{joules:.3f}", f"{1000 * joules / ms:.0f}", f"{ms:.3f}")
        for inputs, name in (("zeros", "zeros"), ("normal", "random"))
        for who, joules, (ms, _) in zip(
            ("20", "cuBLAS"), energies(SIZE, inputs), both(SIZE, inputs, "lasting"), strict=True
        )
    ]
    return Table(
        ("alone", "joules", "joules by time, W", "ms"),
        rows,
        f"A launch, means of the second half, M = N = K = {SIZE}, {card().name}",
    )


def part(first: float, last: float, size: int = SIZE) -> np.ndarray:
    """Return mean milliseconds in a part of a lasting run on random numbers, of `KERNEL` and of cuBLAS."""
    runs = (seen(who, size) for who in BOTH)
    return np.array([run[(run[:, 0] > first) & (run[:, 0] <= last)].mean(axis=0)[1] for run in runs])


def repeats(size: int) -> np.ndarray:
    """Return the shares of 20 in cuBLAS's speed in % in turns, all five, the earliest first.

    Both recordings of `copy_engine.TWICE` time this code twice: as 20, and as its last step but for its width.
    """
    return np.append(persistent.shares((KERNEL, persistent.STEPS[2]), [size])[:, 0, ::-1].T, share(size, *RUNS[4]))


def course() -> Figure:
    """Draw milliseconds of a launch in the course of the lasting runs on random numbers, of 20 and of cuBLAS."""
    seconds = recording().settings["lasting_s"]
    names, title = ("20", "cuBLAS"), f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (1.4, 2.4), names, "seconds", "ms of a launch", size=(WIDTH, 300))
    chart.ticks(range(int(seconds) + 1), (1.4, 1.6, 1.8, 2, 2.2, 2.4))
    for name, who, colour in zip(names, BOTH, (BLUE, ORANGE), strict=True):
        line = seen(who).tolist()
        chart.line(line, colour, wide=1.2)
        chart.curve(name, line[-1:], colour)
    return chart.finish(
        f"{title}, ms of a launch. Both begin at 1.4 to 1.5, come to about 1.7 within a tenth of a second, and after "
        "0.7 seconds swing between 1.7 and 1.9, with single peaks above 2."
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds and ms of each sample of a lasting run on random numbers."""
    ms = sustained.of(who, size).samples.ms
    return np.stack((recording().settings["lasting_s"] * np.cumsum(ms) / np.sum(ms), ms), axis=1)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    found = {(size, *run): share(size, *run) for size in SIZES for run in RUNS}
    again = {size: repeats(size) for size in SIZES}
    read = np.array([[both(size, *run)[:, 1] for run in RUNS] for size in SIZES])
    zeros_burst, zeros_turns, zeros_alone, burst, turns, alone = (found[SIZE, *run] for run in RUNS)
    zeros, at_random, own, dearer = (
        *([sustained.of(who, SIZE, inputs) for who in BOTH] for inputs in ("zeros", "normal")),
        clocks.of(KERNEL, SIZE),
        {size: np.divide(*energies(size, "zeros")) - 1 for size in SIZES},
    )
    low, powers = (
        np.array([1000 * energies(size, run[0]) / both(size, *run)[:, 0] for size in SIZES]) for run in RUNS[2::3]
    )
    swings = [100 * np.divide(*part(*of)[::-1]) for of in PARTS]
    ends, bursts = [alone, by_medians(), *swings], [both(SIZE, *run)[0] for run in RUNS[::3]]
    more, added = (
        [100 * np.divide(*of) - 100 for of in (energies(4096, "normal"), both(4096, *RUNS[5])[:, 0])],
        {size: copy_engine.timed(KERNEL, size, "added").percent_of_cublas for size in SIZES},
    )
    assert (
        max(burst, *ends) < 99.5
        and (read[:, 2, 0] == read[:, 2, 1]).all()
        and bursts[1][0] / bursts[0][0] > 1.15
        and bursts[1][1] > 0.99 * bursts[0][1]
        and abs(zeros_burst - 100) < 0.5
        and min(turns, zeros_turns, zeros_alone) > 103
        and all(run.reasons.count(4) > 0.95 * len(run.reasons) for run in zeros + at_random)
        and all(set(run.samples.sm_mhz[len(run.reasons) // 2 :]) == {zeros[0].sm_mhz} for run in zeros)
        and low.max() < 0.75 * limit
        and own.nvml_mhz > 1.05 * own.own_mhz
        and max(added.values()) < 100
        and abs(powers[1, 0] - powers[1, 1]) < 0.002 * limit
        and min(more) > 1
        and min(dearer.values()) > 0.05
        and 0.98 * limit < powers.min() < powers.max() < 1.005 * limit
        and settings["warm_s"] == [0.25, 0.3]
    )
    gains, noise = np.divide(*persistent.shares(AFTER_BEFORE, SIZES)) - 1, [copy_engine.chance(size) for size in SIZES]
    for size, leads in zip(SIZES, (True, False), strict=True):
        recordings = [*again[size][:4].reshape(2, 2).mean(axis=1), again[size][4]]
        assert leads == (abs(np.mean(recordings) - 100) > 4.303 * np.std(recordings, ddof=1) / np.sqrt(3))
    assert (gains[1] > noise[1]).all() and 0 < gains[0].min() < gains[0].max() < noise[0]
    return {
        "card": card().name,
        "boost": f"{card().boost_mhz:,} MHz",
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']:g} s",
        "burst": f"about {settings['chunks'] * 2 * both(SIZE, *RUNS[3])[0, 0]:.0f} ms",
        "sample": f"{2 * both(SIZE, *RUNS[4])[0, 0]:.1f} ms",
        "alone": f"{min(ends):.1f}% to {max(ends):.1f}%",
        "by medians": f"{by_medians():.1f}%",
        "repeats": f"{again[SIZE].min():.1f}% to {again[SIZE].max():.1f}%",
        "burst clocks": " and ".join(f"{mhz:,.0f}" for _, mhz in bursts) + " MHz",
        "burst times": " and ".join(f"{ms:.3f}" for ms, _ in bursts) + " ms",
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "dearer zeros": f"{dearer[SIZE]:.0%}",
        "dearer 4096": f"{dearer[4096]:.0%}",
        "powers 4096": " and ".join(f"{watts:.0f}" for watts in powers[1]) + " W",
        "more 4096": "{:.1f}% more energy and {:.1f}% more time".format(*more),
        "zeros powers": f"{low[0].min() / limit:.0%} to {low[0].max() / limit:.0%}",
        "clock gap": f"{own.nvml_mhz / own.own_mhz - 1:.0%}",
        "returned": f"{turns / 100:.3f} and {alone / 100:.3f}",
        "gains 4096": persistent.both(100 * gains[1], "+.1f"),
        "gains 8192": persistent.both(100 * gains[0], "+.1f"),
        "noise": f"{noise[0]:.1%}",
        "noise 4096": f"{noise[1]:.1%}",
        **{f"added {size}": f"{share:.1f}%" for size, share in added.items()},
    }
