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
from ..records.timings import paired
from ..variants import HOPPER_WIDTHS
from . import copy_engine, persistent

KERNEL = find("20")
SIZES = (8192, 4096)
"""M = N = K at which the page compares `KERNEL` and cuBLAS."""
SIZE = 8192
"""M = N = K at which it looks closely."""
BOTH = (KERNEL, cublas.gemm_ex)
INPUTS = {"zeros": "zeros", "random": "normal"}
"""Kinds of A and B, as the page calls them."""
AGAIN = {8192: HOPPER_WIDTHS[1], 4096: persistent.STEPS[2]}
"""20's code by M = N = K, as the variant whose tile is as wide as the one that 20 chooses: 224 columns, or 256."""
RECORDINGS = (*copy_engine.TWICE, "order")
"""Recordings that time 19 and 20: two time 20 first, then `AGAIN`, then 19; the last one 19, then 20."""
COUNTED = ((0, 0.023, "burst", "left"), (2, 4, "alone", "left"))
"""The seconds between which samples of a kernel by itself count, the way's name, and the label's place."""
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
    return np.array(
        [
            [np.mean(of[len(of) // 2 :]) for of in dataclasses.astuple(sustained.of(who, size, inputs).samples)]
            for who in BOTH
        ]
    ).T


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %: in turns by pairs of samples, else the ratio of `both`."""
    if protocol == "in turns":
        of = sustained.of(KERNEL, size, inputs, protocol)
        return paired((of.samples.ms, of.cublas.ms))
    return 100 * np.divide(*both(size, protocol, inputs)[::-1])


def in_bursts(who: Kernel | cublas.Gemm, size: int, inputs: str = "normal") -> list[float]:
    """Return the ms of each single burst."""
    return [
        np.median(of) for of in np.array_split(sustained.of(who, size, inputs, "burst").samples.ms, sustained.BURSTS)
    ]


def bursts(size: int, inputs: str = "normal") -> np.ndarray:
    """Return the shares in % of the single bursts."""
    return 100 * np.divide(*(in_bursts(who, size, inputs) for who in reversed(BOTH)))


def by_process(who: Kernel, size: int, name: str) -> list[float]:
    """Return a kernel's shares in cuBLAS's speed in %, one of each process of a recording."""
    return [paired((of.own.ms, of.cublas.ms)) for of in copy_engine.timed(who, size, name).processes]


def gains(size: int, other: Kernel) -> list[np.ndarray]:
    """Return by what fraction `KERNEL` leads another kernel in each process of each recording that has both."""
    return [
        np.divide(*(by_process(who, size, name) for who in (KERNEL, other))) - 1
        for name in RECORDINGS[: 2 if other is AGAIN[size] else 3]
    ]


def span(of: np.ndarray | Sequence[float], how: str = ".1f") -> str:
    """Return the least and the largest of some values."""
    return f"{np.min(of):{how}} to {np.max(of):{how}}"


def protocols_table() -> Table:
    """Return the shares of 20 in cuBLAS's speed by protocol, inputs and size."""
    return Table(
        ("inputs, M = N = K", "burst (twice)", "in turns (once)", "alone (once)"),
        [
            (
                f"{name}, {size}",
                ", ".join(f"{of:.1f}" for of in bursts(size, inputs)),
                *(f"{share(size, way, inputs):.1f}" for way in ("in turns", "lasting")),
            )
            for (name, inputs), size in product(INPUTS.items(), SIZES)
        ],
        f"20's share of cuBLAS's speed in %, FP16, {card().name}",
    )


def alone_table() -> Table:
    """Return ms, MHz, cycles and watts of a launch of 20 and of cuBLAS alone, by inputs and size."""
    return Table(
        ("inputs, M = N = K", "ms", "MHz", "million NVML cycles", "W"),
        [
            (
                f"{name}, {size}",
                *(
                    persistent.both(of, how, "")
                    for of, how in ((ms, "#.4g"), (clock, ",.0f"), (ms * clock / 1000, "#.4g"), (watts, ".0f"))
                ),
            )
            for (name, inputs), size in product(INPUTS.items(), SIZES)
            for ms, clock, watts in [settled(size, inputs)]
        ],
        f"20 and cuBLAS alone, means of each run's second half, {card().name}",
        "MHz and W: by NVML. NVML cycles: mean ms · mean MHz.",
    )


def gains_table() -> Table:
    """Return by how much 20 leads 19, and its own code timed later, in each process of `RECORDINGS`."""
    return Table(
        ("M = N = K", "20 against", *(f"recording {i + 1}" for i in range(len(RECORDINGS)))),
        [
            (
                str(size),
                name,
                *[*(", ".join(f"{100 * of:+.1f}" for of in each) for each in gains(size, other)), "not timed"][:3],
            )
            for size in SIZES
            for name, other in (("19", find("19")), ("the same code", AGAIN[size]))
        ],
        f"By how many % 20's share of cuBLAS's speed in turns is larger, in each process, {card().name}",
        f"Recordings 1 and 2 are chapter 20's, {' and '.join(copy_engine.TWICE)}.",
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
    """Draw the course of 20's and cuBLAS's runs alone, and 20's share, in four `BANDS`."""
    title, limit, seconds = (
        f"Alone on random numbers, M = N = K = {SIZE}",
        recording().provenance["power_limit_watts"],
        recording().settings["lasting_s"],
    )
    chart = Chart(title, (0, seconds), (-len(BANDS), 0), across="seconds", size=(WIDTH, 560), top=60)
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.25 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[2][1], places[2])) for second in (0, seconds)], INK, (4, 3), 1)
    for begin, end, way, align in COUNTED:
        chart.line([(begin, 0), (end, 0)], INK, wide=5)
        chart.write(chart.at(begin, 0)[0], chart.top - 8, way, align)
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
        "swings too, between 91 and 101%. Bars mark when samples count: up to 0.023 s in a burst, from 2 s on alone."
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, runs = recording().provenance["power_limit_watts"], recording().settings, [seen(of) for of in BOTH]
    start, rise, over, after = (
        [run[(run[:, 0] > begin) & (run[:, 0] < end)] for run in runs]
        for begin, end in ((0, 0.03), (0.03, 0.25), (0.25, 0.8), (0.8, 4))
    )
    still, alone = (np.array([settled(size, inputs) for size in SIZES]) for inputs in INPUTS.values())
    factors = [  # by inputs and size: by NVML cycles, and by clocks
        [(theirs_ms * theirs / (ms * clock), clock / theirs) for (ms, theirs_ms), (clock, theirs), _ in of]
        for of in (still, alone)
    ]
    nine = {size: [of for name in RECORDINGS for of in by_process(KERNEL, size, name)] for size in SIZES}
    own, among = (
        [of.own_mhz / of.nvml_mhz for of in counted]
        for counted in (
            [clocks.of(KERNEL, size) for size in SIZES],
            [clocks.of(find(f"{who}"), 4096, of) for who, of in product(range(14, 22), INPUTS.values())],
        )
    )
    off = [[mine / of for of in (max(among), min(among))] for mine in own]
    leads, same = (
        np.array([np.concatenate(gains(size, of[size])) for size in SIZES])
        for of in (dict.fromkeys(SIZES, find("19")), AGAIN)
    )
    turns = {size: [share(size, "in turns"), *nine[size]] for size in SIZES}
    watts = sustained.of(KERNEL, SIZE, protocol="in turns").samples.watts
    same_burst = max(np.ptp(np.log(in_bursts(who, SIZE))) for who in BOTH)
    assert (
        98.5 < share(SIZE, "lasting") < 99.5
        and (bursts(SIZE) < 98.5).all()
        and min(100 / bursts(SIZE) - 1) > 5 * same_burst
        and COUNTED[0][1] == round(settings["chunks"] * 2 * both(SIZE, "burst")[0] / 1000, 3)
        and 102 < min(turns[SIZE]) <= max(turns[SIZE]) < 104
        and min(turns[SIZE]) - 100 > 100 * abs(np.concatenate(gains(SIZE, AGAIN[SIZE])[:2])).max()
        and min(turns[4096]) < 100 < max(turns[4096])
        and len(nine[SIZE]) == 9
        and min(watts) > limit
        and np.argmin(by_time()[:, 1]) == 3
        and 0.09 < 15 * sum(both(SIZE, "in turns")) / 1000 * 2 < 0.11
        and all(
            {*first[:, 2]} == {1965} and first[:, 1].max() < 1.47 and then[:, 3].max() > 1.1 * limit
            for first, then in zip(start, rise, strict=True)
        )
        and all(limit < of[:, 3].min() and of[:, 2].max() < 1600 and of[:, 1].min() > 1.6 for of in over)
        and all(of[:, 3].min() < 0.8 * limit and of[:, 1].max() > 2 and of[:, 2].min() < 1250 for of in after)
        and 0.98 * limit < alone[:, 2].min() <= alone[:, 2].max() < limit
        and (alone[:, 1, 0] < alone[:, 1, 1]).all()
        and (still[:, 1, 0] == still[:, 1, 1]).all()
        and (still[:, 2, 0] > 1.07 * still[:, 2, 1]).all()
        and still[0, 2].max() < 0.65 * limit
        and [
            [min(cycles / of for of in by) > 1, max(clock * of for of in by) < 1]
            for (cycles, clock), by in zip(factors[1], off, strict=True)
        ]
        == [[True, True], [False, True]]
        and {*sustained.of(KERNEL, SIZE, "zeros").reasons} == {4}
        and persistent.chosen(8192) == 224 == AGAIN[8192].parameters["BN"]
        and persistent.chosen(4096) == 256 == AGAIN[4096].parameters["BN"]
        and (leads.min(1) > 3 * abs(same).max(1)).all()
        and np.std(np.sort(copy_engine.moves(SIZE))[1:]) < 0.5 * np.std(copy_engine.moves(SIZE))
        and {len(sustained.of(KERNEL, size, protocol="in turns").samples.ms) for size in SIZES} == {15}
        and {len(of.own.ms) for name in RECORDINGS for of in copy_engine.timed(KERNEL, SIZE, name).processes} == {11}
    )
    return {
        "card": card().name,
        "cuBLAS": recording().provenance["cublas"],
        "limit": f"{limit} W",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "reads": f"{settings['lasting_s'] / np.mean([np.count_nonzero(np.diff(run[:, 3])) for run in runs]):.1f} s",
        "start": f"{max(of[:, 1].max() for of in start):.2f} ms",
        **{f"most {who}": f"{of[:, 3].max():.0f} W" for who, of in zip(("20", "cuBLAS"), rise, strict=True)},
        **{f"peak {who}": f"{of[:, 1].max():.1f} ms" for who, of in zip(("20", "cuBLAS"), after, strict=True)},
        "over": f"{span(np.concatenate(over)[:, 3], '.0f')} W",
        "dip": f"{by_time()[3, 1]:.1f}%",
        **{
            f"slow {who}": f"{np.count_nonzero((np.ceil(4 * of[:, 0]) == 4) & (of[:, 1] > 2))} samples above 2 ms"
            for who, of in zip(("20", "cuBLAS"), runs, strict=True)
        },
        "from": f"{span([100 * np.divide(*(of[of[:, 0] > at, 1].mean() for of in runs[::-1])) for at in (1, 2, 3)])}%",
        "burst ms": f"{round(settings['chunks'] * 2 * both(SIZE, 'burst')[0], -1):.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        **{f"20 {way}": f"{both(SIZE, way)[0]:.2f} ms" for way in ("burst", "lasting")},
        **{way: f"{share(SIZE, way):.1f}%" for way in ("in turns", "lasting")},
        "bursts": " and ".join(f"{of:.1f}%" for of in bursts(SIZE)),
        "burst lead": f"{100 * (100 / bursts(SIZE).max() - 1):.1f}%",
        "same burst": f"{same_burst:.1%}",
        "turns": f"{span(turns[SIZE])}%",
        "lead": f"{span(np.array(turns[SIZE]) - 100)}%",
        "alone lead": f"{100 * (100 / share(SIZE, 'lasting') - 1):.1f}%",
        "least": f"{min(turns[SIZE]) - 100:.1f}%",
        "turns watts": f"{span(watts, '.0f')} W",
        **{f"nine {size}": f"{span(nine[size])}%" for size in SIZES},
        "fall 20": f"{100 * (1 - np.prod(alone[0, :2, 0]) / np.prod(still[0, :2, 0])):.1f}%",
        "cycles": f"{100 * factors[1][0][0]:.1f}%",
        "joules": span(
            [
                np.divide(*(sustained.of(who, size, inputs).joules for inputs in ("normal", "zeros")))
                for who, size in product(BOTH, SIZES)
            ]
        ),
        "own": f"{100 * min(among):.1f} to {100 * max(among):.1f}%",
        **{f"own {size}": f"{100 * of:.1f}%" for size, of in zip(SIZES, own, strict=True)},
        **{
            f"off {size}": f"{100 * (low - 1):.1f} to {100 * (high - 1):+.1f}%".replace("-", "−")
            for size, (low, high) in zip(SIZES, off, strict=True)
        },
        "zeros clock": f"{still[0, 1, 0]:,.0f} MHz",
        **{f"zeros {who}": f"{of:.0f} W" for who, of in zip(("20", "cuBLAS"), still[0, 2], strict=True)},
        **{
            f"{name} {size}": f"{100 * ours:.1f}% · {100 * clock:.1f}% = {100 * ours * clock:.1f}%"
            for name, of in zip(INPUTS, factors, strict=True)
            for size, (ours, clock) in zip(SIZES, of, strict=True)
        },
        **{f"lead {size}": f"{span(100 * of)}%" for size, of in zip(SIZES, leads, strict=True)},
        **{f"same {size}": f"{100 * abs(of).max():.1f}%" for size, of in zip(SIZES, same, strict=True)},
    }
