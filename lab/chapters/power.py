"""What the page on power and chance shows: 20 and cuBLAS in bursts, in turns and alone, and what is chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, INK, ORANGE, WIDTH, Figure
from ..experiments import sustained
from ..experiments.ceilings import card
from ..records import files
from ..records.timings import Process, load
from . import copy_engine, persistent

KERNEL, BEFORE, SIZES, SIZE = find("20"), find("19"), (8192, 4096), 8192
"""The kernel that the page looks at, the one before it, at which M = N = K, and at which closely."""
BOTH, TWICE = (KERNEL, cublas.gemm_ex), (KERNEL, persistent.STEPS[2])
"""20 and cuBLAS; 20 as the recordings time its code twice, as 20, and as its last step but for its width."""
NAMES = {"burst": "burst", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
DAYS = copy_engine.TWICE[::-1]
"""Two recordings of one plan, the earlier one first."""
PARTS = ((0.25, 0.5), (0.5, 0.8), (0.8, 1), (1, 2), (2, 3), (3, 4))
"""Seconds of a run alone: as samples in turns are taken, until the clock falls, as it falls, and after that."""
BANDS = (
    ("ms of a launch", (1.4, 1.6, 1.8, 2, 2.2, 2.4)),
    ("W, by NVML", (100, 400, 700, 1000)),
    ("MHz, by NVML", (900, 1200, 1500, 1800, 2100)),
)
"""What the picture shows of a run, from top to bottom, and the ticks of each: all that was seen is within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: of a run alone means of the second half, else medians."""
    return np.array(
        [persistent.lasting(who, size, inputs)[0] for who in BOTH]
        if protocol == "lasting"
        else [sustained.of(KERNEL, size, inputs, protocol).ms, sustained.cublas_ms(KERNEL, size, inputs, protocol)]
    )


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %, in turns by `paired`."""
    found, ms = sustained.of(KERNEL, size, inputs, protocol), both(size, protocol, inputs)
    return paired(Process(found.samples, found.cublas)) if found.cublas else 100 * np.divide(*ms[::-1])


def paired(*processes: Process) -> float:
    """Return a share in cuBLAS's speed in %: the median of each sample's, beside cuBLAS's of the same turn."""
    return 100 * np.median(np.concatenate([np.divide(of.cublas.ms, of.own.ms) for of in processes]))


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take at `SIZE` by protocol, and the shares at all `SIZES`."""
    return Table(
        ("timed", "20, ms", "cuBLAS, ms", *(f"share at {size}" for size in SIZES)),
        [
            (
                name,
                *(f"{ms:.3f}" for ms in both(SIZE, protocol)),
                *(f"{share(size, protocol):.1f}%" for size in SIZES),
            )
            for protocol, name in NAMES.items()
        ],
        f"A launch in FP16 on random numbers, M = N = K = {SIZE}, {card().name}",
        "Share: speed of 20 by cuBLAS's.",
    )


def energy(size: int) -> np.ndarray:
    """Return what a launch alone takes of `KERNEL` and of cuBLAS: joules by the card's counter, mean watts, and ms."""
    joules, ms = np.array([sustained.of(who, size).joules for who in BOTH]), both(size, "lasting")
    return np.stack((joules, 1000 * joules / ms, ms), axis=1)


def energy_table() -> Table:
    """Return what a launch alone takes: energy, power, time."""
    return Table(
        ("M = N = K, alone", "joules", "joules by time, W", "ms"),
        [
            (f"{size}, {name}", f"{joules:.4f}", f"{watts:.0f}", f"{ms:.4f}")
            for size in SIZES
            for name, (joules, watts, ms) in zip(("20", "cuBLAS"), energy(size), strict=True)
        ],
        f"A launch on random numbers, means of the second half, {card().name}",
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms, watts and MHz of each sample of a run alone on random numbers."""
    of = sustained.of(who, size).samples
    return np.stack(
        (recording().settings["lasting_s"] * np.cumsum(of.ms) / np.sum(of.ms), of.ms, of.watts, of.sm_mhz), 1
    )


def part(first: float, last: float, size: int = SIZE) -> np.ndarray:
    """Return mean ms, watts and MHz in a part of a run alone, of `KERNEL` and of cuBLAS."""
    runs = (seen(who, size) for who in BOTH)
    return np.array([run[(run[:, 0] > first) & (run[:, 0] <= last), 1:].mean(axis=0) for run in runs])


def course() -> Figure:
    """Draw ms of a launch, watts and MHz in the course of the runs alone, of 20 and of cuBLAS, in three `BANDS`."""
    limit, seconds = recording().provenance["power_limit_watts"], recording().settings["lasting_s"]
    title = f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (-3, 0), ("20", "cuBLAS"), "seconds", size=(WIDTH, 560))
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.2 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[1][1], places[1])) for second in (0, seconds)], INK, (4, 3), 1)
    for band, (name, ticks) in enumerate(BANDS):
        chart.write(chart.left, chart.at(0, -0.12 - band)[1], name)
        for who, of, colour in zip(("20", "cuBLAS"), BOTH, (BLUE, ORANGE), strict=True):
            line = [(run[0], np.interp(run[1 + band], ticks, places[band])) for run in seen(of).tolist()]
            chart.line(line, colour, wide=1.2)
            chart.curve(who, line[-1:], colour)
    return chart.finish(
        f"{title}: ms of a launch, watts and MHz. Within a quarter of a second, times rise from 1.4 to about 1.7, the "
        "clock falls to about 1,400 MHz for 20 and 1,460 for cuBLAS, and the power to 710 to 750 watts, above the "
        f"limit, a dashed line at {limit}. After 0.8 seconds, the clock falls far, and power with it, while times rise "
        "above 2. Smaller swings follow, about one a second."
    )


def days(size: int) -> np.ndarray:
    """Return the shares in cuBLAS's speed in %, `paired`, by recording of `DAYS`, and by the point in it."""
    found = [{of.key: paired(*of.processes) for of in load(day).points if size == of.M} for day in DAYS]
    return np.array([[of[key] for key in found[0]] for of in found])


def timed(size: int, *kernels: Kernel) -> np.ndarray:
    """Return kernels' shares in cuBLAS's speed in %, `paired`, by recording of `DAYS`, and by kernel."""
    return np.array([[paired(*copy_engine.timed(of, size, day).processes) for of in kernels] for day in DAYS])


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, runs = recording().provenance["power_limit_watts"], recording().settings, [seen(of) for of in BOTH]
    (burst, turns, alone), steady = (
        [share(SIZE, of) for of in NAMES],
        np.array([(share(size, "lasting", "zeros"), share(size, "in turns")) for size in SIZES]),
    )
    zeros, clocks = zip(
        *((sustained.of(of, SIZE, "zeros").samples, persistent.lasting(of, SIZE)[1]) for of in BOTH), strict=True
    )
    parts, lowest = (
        [100 * np.divide(*part(*of)[::-1, 0]) for of in PARTS],
        np.array([run[(run[:, 0] > 0.8) & (run[:, 0] < 1.2)].min(axis=0) for run in runs]),
    )
    more, less = (100 * np.divide(*energy(size)) - 100 for size in SIZES)
    moves = [100 * np.divide(*days(size)[::-1]) for size in SIZES]
    noise, chance = [abs(of - np.median(of)).max() for of in moves], [copy_engine.chance(size) for size in SIZES]
    again, gains = [*timed(SIZE, *TWICE).flat, turns], [timed(of, *TWICE) / timed(of, BEFORE) - 1 for of in SIZES]
    assert (
        burst < 99 < 103 < turns
        and alone < 99.5
        and min(parts[:2]) > 100.5
        and parts[2] < 90
        and max(parts[3:]) < 99.5
        and clocks[0] < 0.96 * clocks[1]
        and all(np.count_nonzero(np.diff(run[:, 2])) == 10 * settings["lasting_s"] for run in runs)  # each 0.1 s
        and all(
            set(of.sm_mhz[len(of.ms) // 2 :]) == {zeros[0].sm_mhz[-1]} and max(of.watts) < 0.65 * limit for of in zeros
        )
        and len({mhz for of in BOTH for mhz in sustained.of(of, 4096, "zeros").samples.sm_mhz[-180:]}) == 1
        and [round(float(np.ptp(part(*of)[:, 1].round()))) for of in PARTS[:2]] == [14, 15]
        and round(float(np.ptp(energy(SIZE)[:, 1]))) == 9
        and all(abs(np.diff(part(*of)[:, 1])) < 1 for of in PARTS[4:])
        and abs(np.diff(steady)).max() < 0.2
        and abs(less[0] - less[2]) < 0.2
        and min(more[0], less[0]) > 1
        and 0 < gains[0].min() < gains[0].max() < noise[0] / 100
        and gains[1].min() > noise[1] / 100
        and min(again) > 101
        and ((chance < np.divide(*persistent.shares((KERNEL, BEFORE), SIZES)).T - 1) == (False, True)).all()
    )
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "boost": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "burst ms": f"about {settings['chunks'] * 2 * both(SIZE, 'burst')[0]:.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        "burst": f"{burst:.1f}%",
        "turns": f"{turns:.1f}%",
        "alone": f"{alone:.1f}%",
        "joules": f"{more[0]:.1f}%",
        "more": f"{more[0]:.1f}% more energy and {more[2]:.1f}% more time",
        "more 4096": f"{less[0]:.1f}% more energy and {less[2]:.1f}% more time",
        "rested": " and ".join(f"{run[0, 2]:.0f}" for run in runs) + " W",
        "low": " and ".join(f"{mhz:,.0f}" for mhz in lowest[:, 3]) + " MHz",
        "low watts": " and ".join(f"{watts:.0f}" for watts in lowest[:, 2]) + " W",
        "clocks": f"{clocks[0]:,.0f} MHz against {clocks[1]:,.0f}",
        "division": "{:.4f} J / {:.0f} W = {:.4f} ms".format(*energy(4096)[0]),
        "amiss": f"{200 / len(runs[0]):.1f}%",
        "without": f"{np.sort(abs(moves[0] - np.median(moves[0])))[-2]:.1f}%",
        "day 1": persistent.both(100 * gains[0][0]),
        "batch": f"{1000 * settings['lasting_s'] / len(runs[0]):.0f} ms",
        "zeros": f"{steady[0, 0]:.1f}%",
        "zeros 4096": f"{steady[1, 0]:.1f}% and {steady[1, 1]:.1f}%",
        "zeros clock": f"{zeros[0].sm_mhz[-1]:,} MHz",
        "zeros watts": f"{max(max(of.watts) for of in zeros)} W",
        "early": f"{parts[0]:.1f}%",
        "points": f"{turns - alone:.1f}",
        "by time": f"{parts[0] - alone:.1f}",
        "by turns": f"{turns - parts[0]:.1f}",
        "repeats": f"{min(again):.1f}% to {max(again):.1f}%",
        "noises": persistent.both(100 * np.array(chance)),
    }
