"""Compares 20 and cuBLAS in bursts, in turns and alone, and tells differences from chance, for the page on power."""

import dataclasses
from collections.abc import Sequence
from itertools import product

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, INK, ORANGE, WIDTH, Figure
from ..experiments import clocks, sustained
from ..experiments.ceilings import card
from ..records import files
from ..records.timings import load, paired
from ..variants import HOPPER_WIDTHS
from . import copy_engine, persistent

KERNEL, SIZES, SIZE = find("20"), (8192, 4096), 8192
"""The kernel that the page looks at, at which M = N = K, and at which closely."""
BOTH = (KERNEL, cublas.gemm_ex)
INPUTS = {"zeros": "zeros", "random": "normal"}
"""Kinds of A and B, as the page calls them."""
PLACES = {
    8192: {"20, first": KERNEL, "its code, sixth": HOPPER_WIDTHS[1], "19, tenth": find("19")},
    4096: {"20, first": KERNEL, "its code, fourth": persistent.STEPS[2], "19, tenth": find("19")},
}
"""By M = N = K: the kernels that the page compares, by their place in a process. 20 has 224 columns, or 256."""
BANDS = (
    ("ms of a launch (blue: 20, orange: cuBLAS)", (1.4, 1.9, 2.4)),
    ("MHz, by NVML", (800, 1200, 1600, 2000)),
    ("W, by NVML (dashed: the limit)", (100, 400, 700, 1000)),
    ("20's share of cuBLAS's speed in %, means of 0.25 s", (90, 94, 98, 102)),
)
"""The bands of the picture, from top to bottom, and the ticks of each: every value seen lies within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: medians, of a run alone the mean of its second half."""
    if protocol == "lasting":
        return settled(size, inputs)[0]
    return np.array(
        [sustained.of(KERNEL, size, inputs, protocol).ms, sustained.cublas_ms(KERNEL, size, inputs, protocol)]
    )


def settled(size: int, inputs: str = "normal") -> np.ndarray:
    """Return the mean ms, MHz and W of `KERNEL` and of cuBLAS in the second half of their runs alone."""
    runs = (dataclasses.astuple(sustained.of(who, size, inputs).samples) for who in BOTH)
    return np.array([[np.mean(of[len(of) // 2 :]) for of in each] for each in runs]).T


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %: in turns by pairs of samples, else the ratio of `both`."""
    if protocol == "in turns":
        of = sustained.of(KERNEL, size, inputs, protocol)
        return paired((of.samples.ms, of.cublas.ms))
    return 100 * np.divide(*both(size, protocol, inputs)[::-1])


def parts(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return the shares in % of the single bursts, or of the quarters of the second half of the runs alone."""
    middle, half, count = (np.mean, 1, 4) if protocol == "lasting" else (np.median, 0, sustained.BURSTS)
    runs = [np.array(sustained.of(who, size, inputs, protocol).samples.ms) for who in reversed(BOTH)]
    return 100 * np.divide(*([middle(of) for of in np.array_split(run[half * len(run) // 2 :], count)] for run in runs))


def processes(who: Kernel, size: int, name: str) -> list[float]:
    """Return a kernel's shares in cuBLAS's speed in %, one of each process of a recording."""
    return [paired((of.own.ms, of.cublas.ms)) for of in copy_engine.timed(who, size, name).processes]


def by_process(size: int) -> np.ndarray:
    """Return the shares in cuBLAS's speed in %: by row of `PLACES`, recording, and process."""
    return np.array([[processes(who, size, name) for name in copy_engine.TWICE] for who in PLACES[size].values()])


def span(of: np.ndarray | Sequence[float], how: str = ".1f") -> str:
    """Return the least and the largest of some values."""
    return f"{np.min(of):{how}} to {np.max(of):{how}}"


def turns(size: int) -> np.ndarray:
    """Return the shares in turns of 20's code in %, by process, and `share`."""
    return np.array([*by_process(size)[:2].flat, share(size, "in turns")])


def protocols_table() -> Table:
    """Return the shares of 20 in cuBLAS's speed by protocol, inputs and size."""
    return Table(
        ("inputs, M = N = K", "burst", "in turns", "alone"),
        [
            (
                f"{name}, {size}",
                ", ".join(f"{of:.1f}" for of in parts(size, "burst", inputs)),
                span(turns(size)) if inputs == "normal" else f"{share(size, 'in turns', inputs):.1f}",
                f"{share(size, 'lasting', inputs):.1f} ({span(parts(size, 'lasting', inputs))})",
            )
            for (name, inputs), size in product(INPUTS.items(), SIZES)
        ],
        f"20's share of cuBLAS's speed in %, FP16, {card().name}",
        "Burst: two, the first soon after another kernel's run alone. In turns on random numbers: the range of this "
        "recording's share and twelve of the last table, which have 11 samples and other warm-ups. Alone: one run, and "
        "the quarters of its second half.",
    )


def alone_table() -> Table:
    """Return MHz, cycles, watts and joules of a launch of 20 and of cuBLAS alone, by inputs and size."""
    return Table(
        ("inputs, M = N = K", "MHz", "million cycles", "W", "J"),
        [
            (
                f"{name}, {size}",
                *(
                    persistent.both(of, how, "")
                    for of, how in (
                        (clock, ",.1f"),
                        (ms * clock / 1000, ".3f"),
                        (watts, ".0f"),
                        ([sustained.of(who, size, inputs).joules for who in BOTH], ".4f"),
                    )
                ),
            )
            for (name, inputs), size in product(INPUTS.items(), SIZES)
            for ms, clock, watts in [settled(size, inputs)]
        ],
        f"20 and cuBLAS alone, means of each run's second half, {card().name}",
        "MHz and W: by NVML. Cycles: mean ms · mean MHz. J: energy of a launch, by the card's counter.",
    )


def processes_table() -> Table:
    """Return the shares of `by_process`."""
    return Table(
        ("M = N = K", "code, place", *(load(name).provenance["date"][:10] for name in copy_engine.TWICE)),
        [
            (str(size), name, *(", ".join(f"{of:.1f}" for of in each) for each in found))
            for size in SIZES
            for name, found in zip(PLACES[size], by_process(size), strict=True)
        ],
        f"Share of cuBLAS in turns, in %, by process, {card().name}",
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms, MHz and watts of each sample of a run alone on random numbers."""
    of = sustained.of(who, size).samples
    return np.stack((np.cumsum(of.ms) / np.sum(of.ms) * recording().settings["lasting_s"], *dataclasses.astuple(of)), 1)


def by_time() -> np.ndarray:
    """Return the middle of each quarter of a second of the runs alone, and 20's share of cuBLAS's speed in % in it."""
    ends = np.arange(0.25, recording().settings["lasting_s"] + 0.25, 0.25)
    ms = ([np.mean(of[np.ceil(4 * of[:, 0]) == 4 * end, 1]) for end in ends] for of in map(seen, reversed(BOTH)))
    return np.stack((ends - 0.125, 100 * np.divide(*ms)), 1)


def course() -> Figure:
    """Draw what was seen in the course of the runs alone of 20 and of cuBLAS, and 20's share, in four `BANDS`."""
    limit, seconds = recording().provenance["power_limit_watts"], recording().settings["lasting_s"]
    title = f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (-len(BANDS), 0), across="seconds", size=(WIDTH, 540), top=40)
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.25 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[2][1], places[2])) for second in (0, seconds)], INK, (4, 3), 1)
    lines = [
        (band, seen(of)[:, (0, 1 + band)], colour)
        for band in range(3)
        for of, colour in zip(BOTH, (BLUE, ORANGE), strict=True)
    ]
    for band, points, colour in [*lines, (3, by_time(), INK)]:
        chart.write(chart.left, chart.at(0, -0.15 - band)[1], BANDS[band][0] * (colour != ORANGE))  # once a band
        chart.line([(at, np.interp(of, BANDS[band][1], places[band])) for at, of in points.tolist()], colour, wide=1.2)
    return chart.finish(
        f"{title}: ms of a launch, clock, watts, and 20's share. Within a quarter of a second, times rise from 1.4, "
        f"overshoot a little, and settle near 1.7 until 0.8 seconds. Meanwhile the power is above the limit, {limit}. "
        "Then clock and power fall far, and times rise above 2. Smaller swings follow, about one a second. The share "
        "swings too, between 91 and 101%."
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, runs = recording().provenance["power_limit_watts"], recording().settings, [seen(of) for of in BOTH]
    start, over, after = (
        [run[(run[:, 0] > begin) & (run[:, 0] < end)] for run in runs]
        for begin, end in ((0, 0.03), (0.25, 0.8), (0.8, 4))
    )
    still, alone = (np.array([settled(size, inputs) for size in SIZES]) for inputs in INPUTS.values())
    equal, measured = (np.array([share(size, "lasting", inputs) for size in SIZES]) for inputs in INPUTS.values())
    clock, fewer = alone[:, 1, 0] / alone[:, 1, 1], 1 - np.prod(alone[:, :2], 1) / np.prod(still[:, :2], 1)
    leads, same = zip(*((of[:2] - of[2], of[0] - of[1]) for of in map(by_process, SIZES)), strict=True)
    overshoot, idle = (
        [watts for who in whose for watts in sustained.of(who, SIZE, protocol=protocol).samples.watts]
        for whose, protocol in ((BOTH[:1], "in turns"), (BOTH, "burst"))
    )
    counted = [clocks.of(find(f"{who}"), 4096, inputs) for who in range(14, 22) for inputs in INPUTS.values()]
    own = [of.own_mhz / of.nvml_mhz for of in (clocks.of(KERNEL, SIZE), *counted)]
    assert (
        max(share(size, "burst") for size in SIZES) < 98.5 < 100.9 < turns(SIZE).min()
        and share(SIZE, "lasting") < 99.5
        and all(
            limit < of[:, 3].min() and of[:, 1].min() > 1.1 * begin[:, 1].max()
            for of, begin in zip(over, start, strict=True)
        )
        and all(of[:, 3].min() < 0.8 * limit and of[:, 1].max() > 2 and of[:, 2].min() < 1250 for of in after)
        and min(overshoot) > limit
        and np.median(idle) < 0.2 * limit
        and clock.max() < 0.985
        and 0.98 * limit < alone[:, 2].min() <= alone[:, 2].max() < limit
        and all(
            ours > theirs
            for inputs, size in product(INPUTS.values(), SIZES)
            for ours, theirs in [(sustained.of(who, size, inputs).joules for who in BOTH)]
        )
        and (still[:, 1, 0] == still[:, 1, 1]).all()
        and still[:, 1].max() < 0.9 * card().boost_mhz
        and still[0, 2].max() < 0.65 * limit
        and (abs(measured - equal * clock) < (100 * (max(own) / min(own) - 1), np.ptp(parts(4096, "lasting")))).all()
        and abs(100 * np.subtract(*fewer[0]) - measured[0] + equal[0] * clock[0]) < 0.1
        and max(abs(turns(size) - of).max() for size, of in zip(SIZES, equal, strict=True)) < 1.5
        and share(SIZE, "burst", "zeros") < equal[0] - 3
        and both(SIZE, "burst", "zeros")[0] < 0.9 * both(SIZE, "lasting", "zeros")[0]
        and persistent.chosen(8192) == 224 == PLACES[8192]["its code, sixth"].parameters["BN"]
        and persistent.chosen(4096) == 256 == PLACES[4096]["its code, fourth"].parameters["BN"]
        and all(lead.min() > 3 * abs(of).max() for lead, of in zip(leads, same, strict=True))
        and {len(sustained.of(KERNEL, size, protocol="in turns").samples.ms) for size in SIZES} == {15}
    )
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "boost": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "reads": f"{settings['lasting_s'] / np.mean([np.count_nonzero(np.diff(run[:, 3])) for run in runs]):.1f} s",
        "start": f"{max(of[:, 1].max() for of in start):.2f} ms",
        "peak": f"{max(of[:, 1].max() for of in after):.1f} ms",
        "over": f"{span(np.concatenate(over)[:, 3], '.0f')} W",
        "by time": f"{span(by_time()[:, 1])}%",
        "burst ms": f"about {settings['chunks'] * 2 * both(SIZE, 'burst')[0]:.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        "turns watts": f"{span(overshoot, '.0f')} W",
        "idle": f"{np.median(idle):.0f} W",
        **{f"20 {way}": f"{both(SIZE, way)[0]:.2f} ms" for way in sustained.PROTOCOLS},
        "burst": f"{share(SIZE, 'burst'):.1f}%",
        "turns": f"{span(turns(SIZE))}%",
        "alone": f"{share(SIZE, 'lasting'):.1f}%",
        "medians": f"{100 * np.divide(*[sustained.of(who, SIZE).ms for who in BOTH[::-1]]):.1f}%",
        "parted": f"{np.ptp(parts(4096, 'burst', 'zeros')):.1f}",
        "own": f"{100 * min(own):.1f} to {100 * max(own):.1f}%",
        "error": f"{max(own) / min(own) - 1:.0%}",
        "zeros clock": f"{still[0, 1, 0]:,.0f} MHz",
        "zeros watts": f"{span(still[0, 2], '.0f')} W",
        "normal clock": f"{1 - clock[0]:.1%}",
        "zeros burst": f"{share(SIZE, 'burst', 'zeros'):.1f}%",
        "zeros ms": f"{both(SIZE, 'burst', 'zeros')[0]:.2f} ms instead of {both(SIZE, 'lasting', 'zeros')[0]:.2f}",
        **{
            f"product {size}": f"{of:.2f}% · {ours:,.1f} / {theirs:,.1f} = {of * ours / theirs:.1f}%"
            for size, of, (_, (ours, theirs), _) in zip(SIZES, equal, alone, strict=True)
        },
        "predicted": f"{equal[0] * (1 - clock[0]):.1f}",
        "drop": f"{equal[0] - measured[0]:.1f}",
        **{f"measured {size}": f"{of:.1f}%" for size, of in zip(SIZES, measured, strict=True)},
        **{f"equal {size}": f"{of:.1f}%" for size, of in zip(SIZES, equal, strict=True)},
        **{f"fewer {who}": f"{of:.1%}" for who, of in zip(("20", "cuBLAS"), fewer[0], strict=True)},
        **{f"lead {size}": span(of) for size, of in zip(SIZES, leads, strict=True)},
        **{f"same {size}": span(of).replace("-", "−") for size, of in zip(SIZES, same, strict=True)},
        "beside": span(np.subtract(*(processes(who, 4096, "others") for who in (KERNEL, find("19"))))),
        "deviations": f"{copy_engine.STUDENT[12]:.2f}",
        **{f"noise {size}": f"{copy_engine.chance(size):.1%}" for size in SIZES},
    }
