"""Compares 20 and cuBLAS in bursts, in turns and alone, and tells differences from chance, for the page on power."""

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
from . import copy_engine, persistent

KERNEL, BEFORE, SIZES, SIZE = find("20"), find("19"), (8192, 4096), 8192
"""The kernel that the page looks at, the one before it, at which M = N = K, and at which closely."""
BOTH, TWICE = (KERNEL, cublas.gemm_ex), (KERNEL, persistent.STEPS[2])
"""20 and cuBLAS; 20 as the recordings time its code twice, as 20, and as its last step but for its width."""
NAMES = {"burst": "burst", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
RECORDINGS = copy_engine.TWICE[::-1]
"""Two recordings of one plan, the earlier one first."""
BANDS = (
    ("ms of a launch", (1.4, 1.6, 1.8, 2, 2.2, 2.4)),
    ("W, by NVML", (100, 400, 700, 1000)),
    ("MHz, by NVML", (900, 1200, 1500, 1800, 2100)),
)
"""What the picture shows of a run, from top to bottom, and the ticks of each: all that was seen is within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: medians, of a run alone the mean of its second half."""
    if protocol == "lasting":
        return np.array(
            [np.mean(of[len(of) // 2 :]) for of in (sustained.of(who, size, inputs).samples.ms for who in BOTH)]
        )
    of = size, inputs, protocol
    return np.array([sustained.of(KERNEL, *of).ms, sustained.cublas_ms(KERNEL, *of)])


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %: the ratio of the times of `both`."""
    return 100 * np.divide(*both(size, protocol, inputs)[::-1])


def turns(size: int) -> np.ndarray:
    """Return the least and the largest share in turns of 20's code in %: two in each recording, and `share`."""
    return np.quantile([*persistent.shares(TWICE, [size]).flat, share(size, "in turns")], (0, 1))


def drawn(size: int, inputs: str = "normal") -> np.ndarray:
    """Return MHz and watts of `KERNEL` and of cuBLAS alone: the median and the mean of the second half."""
    found = [sustained.of(who, size, inputs) for who in BOTH]
    return np.array([(of.sm_mhz, np.mean(of.samples.watts[len(of.samples.watts) // 2 :])) for of in found])


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take at `SIZE` by protocol, and the shares at all `SIZES`."""
    shares = {
        protocol: [
            "{:.1f} to {:.1f}%".format(*turns(size)) if protocol == "in turns" else f"{share(size, protocol):.1f}%"
            for size in SIZES
        ]
        for protocol in NAMES
    }
    return Table(
        ("timed", "20, ms", "cuBLAS, ms", *(f"share at {size}" for size in SIZES)),
        [(name, *(f"{ms:.3f}" for ms in both(SIZE, of)), *shares[of]) for of, name in NAMES.items()],
        f"A launch in FP16 on random numbers, M = N = K = {SIZE}, {card().name}",
        "Share: speed of 20 by cuBLAS's. In turns, five timings of the same code. One warmed up for 0.25 s, and the "
        "ms are its own; four for 0.05 to 0.1 s (at 4096, for 0.25 s or more). Alone, one timing.",
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms, watts and MHz of each sample of a run alone on random numbers."""
    of = sustained.of(who, size).samples
    return np.stack(
        (recording().settings["lasting_s"] * np.cumsum(of.ms) / np.sum(of.ms), of.ms, of.watts, of.sm_mhz), 1
    )


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


def recorded(size: int) -> np.ndarray:
    """Return the shares in cuBLAS's speed in %, by recording of `RECORDINGS`, and by the point in it."""
    return copy_engine.twice(size)[::-1]


def gains(size: int) -> np.ndarray:
    """Return by how many % 20 has a larger share than 19, by recording of `RECORDINGS`, and by timing of 20's code."""
    *own, before = persistent.shares((*TWICE, BEFORE), [size])[:, 0, ::-1]
    return 100 * (own / before - 1).T


def order(size: int) -> np.ndarray:
    """Return by how many % 20's code has a larger share in its first timing than in its second, by process."""
    shares = [
        [
            np.median(of.cublas.ms) / np.median(of.own.ms)
            for name in RECORDINGS
            for of in copy_engine.timed(who, size, name).processes
        ]
        for who in TWICE
    ]
    return 100 * (np.divide(*shares) - 1)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def parts(seconds: float) -> np.ndarray:
    """Return the shares of 20 alone at `SIZE` in %, by mean times, in each part of so many seconds."""
    ends, runs = np.arange(seconds, recording().settings["lasting_s"], seconds), [seen(who)[:, :2].T for who in BOTH]
    within = [(np.digitize(at, ends, right=True), ms) for at, ms in runs]
    return 100 * np.divide(*(np.bincount(part, ms) / np.bincount(part) for part, ms in within[::-1]))


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, runs = recording().provenance["power_limit_watts"], recording().settings, [seen(of) for of in BOTH]
    steady = np.array([np.median(run[(run[:, 0] > 0.25) & (run[:, 0] <= 0.8)], axis=0) for run in runs])
    bursts, zeros = (
        [sustained.of(who, SIZE, *of) for who in BOTH] for of in (("normal", "burst"), ("zeros", "lasting"))
    )
    (mhz, watts), still = drawn(SIZE).T, [drawn(size, "zeros").T for size in SIZES]
    on_zeros = np.array([[share(size, of, "zeros") for of in ("in turns", "lasting")] for size in SIZES])
    assert (
        max(share(size, "burst") for size in SIZES) < 98.5 < 101 < turns(SIZE)[0]
        and max(parts(1)) < 99.5
        and abs(np.diff(watts))[0] < 0.5
        and abs(watts[0] - limit) < 0.02 * limit
        and mhz[0] < mhz[1]
        and drawn(4096)[0, 0] < drawn(4096)[1, 0]
        and all(clock[0] == clock[1] and power[0] > 1.05 * power[1] for clock, power in still)
        and {clock for of in zeros for clock in of.samples.sm_mhz[len(of.samples.sm_mhz) // 2 :]} == {still[0][0][0]}
        and on_zeros.min() > 100
        and abs(np.diff(on_zeros)).max() < 0.5
        and {clock for of in bursts for clock in of.samples.sm_mhz} == {bursts[0].sm_mhz}
        and min(steady[:, 2]) > limit
        and steady[0, 1] < steady[1, 1]
        and all(np.count_nonzero(np.diff(run[:, 2])) == 10 * settings["lasting_s"] for run in runs)  # each 0.1 s
        and sorted(gains(SIZE).flat > 300 * np.median(abs(copy_engine.moves(SIZE)))) == [False, False, False, True]
        and gains(4096).min() > 300 * np.median(abs(copy_engine.moves(4096)))
        and gains(SIZE).max() < 100 * copy_engine.chance(SIZE)
        and gains(4096).min() > 100 * copy_engine.chance(4096)
        and (order(SIZE) > 0).sum() == 5
    )
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "boost": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "burst ms": f"about {settings['chunks'] * 2 * both(SIZE, 'burst')[0]:.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        "burst": f"{share(SIZE, 'burst'):.1f}%",
        "turns": "{:.1f}% to {:.1f}%".format(*turns(SIZE)),
        "alone": f"{share(SIZE, 'lasting'):.1f}%",
        "by second": f"{min(parts(1)):.1f} to {max(parts(1)):.1f}%",
        "tells": f"{min(parts(1)) // 1:.0f} to {max(parts(1)) // 1 + 1:.0f}%",
        "by quarter": f"{min(parts(0.25)[8:]):.1f} to {max(parts(0.25)[8:]):.1f}%",
        "rested": " and ".join(f"{run[0, 2]:.0f}" for run in runs) + " W",
        "peaks": " and ".join(f"{run[run[:, 0] < 0.2, 2].max():.0f}" for run in runs) + " W",
        "lead": f"{100 * (steady[1, 1] / steady[0, 1] - 1):.1f}%",
        "watts": f"{watts[0]:.0f} W",
        "clocks": "{:,.0f} MHz and cuBLAS at {:,.0f} MHz".format(*mhz),
        "turns watts": f"{sustained.of(KERNEL, SIZE, protocol='in turns').watts} W",
        "zeros clock": f"{still[0][0][0]:,.0f} MHz",
        "zeros more": f"{100 * np.divide(*still[0][1]) - 100:.0f}% more power",
        "zeros joules": "{:.3f} J against {:.3f} J".format(*(of.joules for of in zeros)),
        "zeros burst": f"{share(SIZE, 'burst', 'zeros'):.1f}%",
        "zeros turns": f"{on_zeros[0, 0]:.1f}%",
        "read": f"{bursts[0].sm_mhz:,} MHz",
        "largest": f"{100 * max(abs(copy_engine.moves(SIZE))):.1f}%",
        "chapter noise": " and ".join(f"{copy_engine.chance(size):.1%}" for size in SIZES),
        "ahead": "{:.1f}% to {:.1f}%".format(*np.sort(order(SIZE))[[1, -1]]),
    }
