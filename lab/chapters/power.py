"""Compares 20 and cuBLAS in bursts, in turns and alone, and tells differences from chance, for the page on power."""

from itertools import product

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
from ..records.timings import Samples
from . import copy_engine, persistent

KERNEL, SIZES, SIZE = find("20"), (8192, 4096), 8192
"""The kernel that the page looks at, at which M = N = K, and at which closely."""
BOTH = (KERNEL, cublas.gemm_ex)
NAMES = {"burst": "burst", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
RECORDINGS = copy_engine.TWICE[::-1]
"""Two recordings of one plan, the earlier one first."""
PLACES = {"20, timed first": KERNEL, "20's code, timed fourth": persistent.STEPS[2], "19, timed tenth": find("19")}
"""The runs of these recordings that the page compares, by their place in a process."""
BANDS = (
    ("ms of a launch", (1.4, 1.6, 1.8, 2, 2.2, 2.4)),
    ("W, by NVML", (100, 400, 700, 1000)),
)
"""The bands of the picture, from top to bottom, and the ticks of each: every value seen lies within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: medians, of a run alone the mean of its second half."""
    if protocol == "lasting":
        return np.array(
            [np.mean(of[len(of) // 2 :]) for of in (sustained.of(who, size, inputs).samples.ms for who in BOTH)]
        )
    of = size, inputs, protocol
    return np.array([sustained.of(KERNEL, *of).ms, sustained.cublas_ms(KERNEL, *of)])


def paired(own: Samples, theirs: Samples) -> float:
    """Return the share in cuBLAS's speed in %: the median of the ratios of two samples taken one after the other."""
    return 100 * float(np.median(np.divide(theirs.ms, own.ms)))


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %: in turns by pairs of samples, else the ratio of `both`."""
    if protocol == "in turns":
        of = sustained.of(KERNEL, size, inputs, protocol)
        return paired(of.samples, of.cublas)
    return 100 * np.divide(*both(size, protocol, inputs)[::-1])


def by_process(size: int) -> np.ndarray:
    """Return the shares in cuBLAS's speed in %, by pairs of samples: by row of `PLACES`, recording, and process."""
    return np.array(
        [
            [[paired(of.own, of.cublas) for of in copy_engine.timed(who, size, name).processes] for name in RECORDINGS]
            for who in PLACES.values()
        ]
    )


def turns(size: int) -> np.ndarray:
    """Return the least and the largest share in turns of 20's code in %, of a process or of `share`."""
    return np.quantile([*by_process(size)[:2].flat, share(size, "in turns")], (0, 1))


def drawn(size: int, inputs: str = "normal") -> np.ndarray:
    """Return MHz and watts of `KERNEL` and of cuBLAS alone: the median and the mean of the second half."""
    found = [sustained.of(who, size, inputs) for who in BOTH]
    return np.array([(of.sm_mhz, np.mean(of.samples.watts[len(of.samples.watts) // 2 :])) for of in found])


def protocols_table() -> Table:
    """Return the shares of 20 in cuBLAS's speed by protocol, inputs and size."""
    columns = list(product(("zeros", "normal"), SIZES))
    shares = {
        of: [
            "{:.1f} to {:.1f}%".format(*turns(size))
            if (of, inputs) == ("in turns", "normal")
            else f"{share(size, of, inputs):.1f}%"
            for inputs, size in columns
        ]
        for of in NAMES
    }
    return Table(
        ("timed", *(f"{inputs}, {size}" for inputs, size in columns)),
        [(name, *shares[of]) for of, name in NAMES.items()],
        f"20's share of cuBLAS's speed by inputs and M = N = K, FP16, {card().name}",
        "normal, in turns: 13 shares, two from each of six processes (last section) and one from a seventh. "
        "All others: one process.",
    )


def alone_table() -> Table:
    """Return MHz and watts of 20 and of cuBLAS alone, and energy and time of a launch, by inputs and size."""
    rows = [
        (f"{inputs}, {size}", *("{:,.0f} and {:,.0f}".format(*of) for of in drawn(size, inputs).T), *texts)
        for inputs, size in product(("zeros", "normal"), SIZES)
        for needs in [([sustained.of(who, size, inputs).joules for who in BOTH], both(size, "lasting", inputs))]
        for texts in [[f"{own:.4g}, {theirs:.4g}: {own / theirs - 1:+.1%}" for own, theirs in needs]]
    ]
    return Table(
        ("inputs, M = N = K", "MHz", "W", "J of a launch", "ms of a launch"),
        rows,
        f"Alone: 20, cuBLAS, and by how much 20 has more; {card().name}",
        "Second half of each run: median MHz (in steps of 15), mean W and ms; J by the card's energy counter.",
    )


def processes_table() -> Table:
    """Return the shares of `by_process`."""
    return Table(
        ("M = N = K", "code", "first recording, %", "second, %", "mean ± standard deviation"),
        [
            (str(size), name, *(", ".join(f"{of:.1f}" for of in each) for each in found), spread)
            for size in SIZES
            for name, found in zip(PLACES, by_process(size), strict=True)
            for spread in [f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}"]
        ],
        f"Share of cuBLAS in turns by process, {card().name}",
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms and watts of each sample of a run alone on random numbers."""
    of = sustained.of(who, size).samples
    return np.stack((recording().settings["lasting_s"] * np.cumsum(of.ms) / np.sum(of.ms), of.ms, of.watts), 1)


def course() -> Figure:
    """Draw ms of a launch and watts in the course of the runs alone, of 20 and of cuBLAS, in two `BANDS`."""
    limit, seconds = recording().provenance["power_limit_watts"], recording().settings["lasting_s"]
    title = f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (-2, 0), ("20", "cuBLAS"), "seconds", size=(WIDTH, 400))
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
        f"{title}: ms of a launch, and watts. Within a quarter of a second, times rise from 1.4 to about 1.7, and stay "
        f"there until 0.8 seconds. Meanwhile the power is above the limit, a dashed line at {limit}. Then power falls "
        "far, and times rise above 2. Smaller swings follow, about one a second."
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, runs = recording().provenance["power_limit_watts"], recording().settings, [seen(of) for of in BOTH]
    found = {size: np.round(by_process(size), 1) for size in SIZES}  # as the table shows them
    zeros = {way: share(SIZE, way, "zeros") for way in NAMES}
    leads = {  # in points, of one process: by the places of the two, and by size
        (ahead, behind, size): of[ahead - 1] - of[behind - 1]
        for (ahead, behind), (size, of) in product(((1, 3), (2, 3), (1, 2)), found.items())
    }
    energy, longer, clock = (
        np.array([np.divide(*of) - 1 for of in each])
        for each in (
            [[sustained.of(who, size).joules for who in BOTH] for size in SIZES],
            [both(size, "lasting") for size in SIZES],
            [drawn(size)[:, 0] for size in SIZES],
        )
    )
    still, alone = ([drawn(size, inputs).T for size in SIZES] for inputs in ("zeros", "normal"))
    joules = sustained.of(KERNEL, SIZE).joules
    counted = [1e3 * sustained.of(who, SIZE).joules / ms for who, ms in zip(BOTH, both(SIZE, "lasting"), strict=True)]
    reasons = {
        bits
        for who, size in product(BOTH, SIZES)
        for of in [sustained.of(who, size, "zeros").reasons]
        for bits in of[len(of) // 2 :]
    }
    assert (
        max(share(size, "burst") for size in SIZES) < 98.5 < 100.9 < turns(SIZE)[0]
        and share(SIZE, "lasting") < 99.5
        and abs(joules / limit * 1e3 - both(SIZE, "lasting")[0]) < 0.005
        and all(abs(np.diff(watts)).max() < 0.5 and abs(watts - limit).max() < 0.02 * limit for _, watts in alone)
        and max(clock) < -0.03
        and not np.any(np.array([*still, *alone])[:, 0] % 15)
        and all(mhz[0] == mhz[1] and power[0] > 1.05 * power[1] for mhz, power in still)
        and min(longer) > 0.009
        and min(energy) > 0.015
        and abs(energy - longer)[1] < 0.002
        and max(zeros["in turns"], zeros["lasting"], found[SIZE][0].max()) < 103.6
        and min(zeros["in turns"], zeros["lasting"], found[SIZE][0].max()) > 103.3 > 101 > zeros["burst"]
        and found[SIZE][1].max() < 103
        and reasons == {4}
        and max(power.max() for _, power in still) < 0.65 * limit
        and round(100 * (counted[0] / counted[1] - 1), 1) == round(100 * (energy - longer)[0], 1)
        and all(
            run[3, 2] < limit / 2 < limit < np.median(run[(run[:, 0] > 0.25) & (run[:, 0] < 0.8), 2]) for run in runs
        )
        and min(of.min() for (_, behind, _), of in leads.items() if behind == 3) > 0
        and leads[1, 2, SIZE].min() > 0 > leads[2, 3, SIZE].max() - leads[1, 2, SIZE].max()
        and leads[2, 3, 4096].min() > 9 * abs(leads[1, 2, 4096]).max()
    )
    off = [
        ms * limit / sustained.of(who, size).joules / 1e3 - 1
        for size in SIZES
        for who, ms in zip(BOTH, both(size, "lasting"), strict=True)
        if (who, size) != (KERNEL, SIZE)
    ]
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "boost": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "burst ms": f"about {settings['chunks'] * 2 * both(SIZE, 'burst')[0]:.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        **{f"20 {way}": f"{both(SIZE, way)[0]:.2f} ms" for way in NAMES},
        "burst": f"{share(SIZE, 'burst'):.1f}%",
        "turns": "{:.1f}% to {:.1f}%".format(*turns(SIZE)),
        "alone": f"{share(SIZE, 'lasting'):.1f}%",
        "worked": f"{joules:.3f} J / {limit} W = {joules / limit * 1e3:.3f} ms",
        "took": f"{both(SIZE, 'lasting')[0]:.3f} ms",
        "off": f"{min(off):.1%} to {max(off):.1%}",
        **{
            f"product {size}": f"{cycles:.1f}% · {own:,.0f} / {theirs:,.0f} = {cycles * own / theirs:.1f}%"
            for size in SIZES
            for cycles, (own, theirs) in [(share(size, "lasting", "zeros"), drawn(size)[:, 0])]
        },
        "alone 4096": f"{share(4096, 'lasting'):.1f}%",
        **{f"energy {size}": f"{of:.1%}" for size, of in zip(SIZES, energy, strict=True)},
        **{f"longer {size}": f"{of:.1%}" for size, of in zip(SIZES, longer, strict=True)},
        **{f"lower {size}": f"{-of:.1%}" for size, of in zip(SIZES, clock, strict=True)},
        "fewer": f"{1 - np.divide(*both(SIZE, 'lasting', 'zeros')):.1%}",
        "counted": "{:.0f} W for 20 and {:.0f} W for cuBLAS".format(*counted),
        "nvml": f"{alone[0][1].mean():.0f} W",
        **{f"zeros {way}": f"{of:.1f}%" for way, of in zeros.items()},
        **{
            name: "{:.1f} to {:.1f}%".format(*np.quantile(found[SIZE][row], (0, 1)))
            for row, name in ((0, "first"), (1, "fourth"))
        },
        **{
            "{} {} {}".format(*of): "{:.1f} to {:.1f}".format(*np.quantile(points, (0, 1)))
            for of, points in leads.items()
        },
        "deviation": f"{np.std(copy_engine.moves(4096), ddof=1):.2%}",
        "noise": f"{copy_engine.chance(4096):.1%}",
    }
