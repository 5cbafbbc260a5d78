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
NAMES = {"burst": "burst", "in turns": "in turns", "lasting": "alone"}
"""Protocols, as the page calls them."""
PLACES = {
    8192: {"20, first": KERNEL, "its code, sixth": HOPPER_WIDTHS[1], "19, tenth": find("19")},
    4096: {"20, first": KERNEL, "its code, fourth": persistent.STEPS[2], "19, tenth": find("19")},
}
"""By M = N = K: the kernels that the page compares, by their place in a process. 20 has 224 columns, or 256."""
BANDS = (
    ("ms of a launch (blue: 20, orange: cuBLAS)", (1.4, 1.6, 1.8, 2, 2.2, 2.4)),
    ("W, by NVML", (100, 400, 700, 1000)),
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
    runs = [np.array(sustained.of(who, size, inputs, protocol).samples.ms) for who in BOTH]
    ours, theirs = ([middle(part) for part in np.array_split(of[half * len(of) // 2 :], count)] for of in runs)
    return 100 * np.divide(theirs, ours)


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
                f"{inputs}, {size}",
                ", ".join(f"{of:.1f}" for of in parts(size, "burst", inputs)),
                span(turns(size)) if inputs == "normal" else f"{share(size, 'in turns', inputs):.1f}",
                f"{share(size, 'lasting', inputs):.1f} ({span(parts(size, 'lasting', inputs))})",
            )
            for inputs, size in product(("zeros", "normal"), SIZES)
        ],
        f"20's share of cuBLAS's speed in %, FP16, {card().name}",
        "Burst: two, the first soon after another kernel's run alone. In turns on normal, that is random, "
        "numbers: the range of 13. Alone: one run, and the quarters of its second half.",
    )


def alone_table() -> Table:
    """Return MHz, watts and joules of a launch of 20 and of cuBLAS alone, by inputs and size."""
    return Table(
        ("inputs, M = N = K", "MHz, 20", "MHz, cuBLAS", "W, 20", "W, cuBLAS", "J, 20", "J, cuBLAS"),
        [
            (
                f"{inputs}, {size}",
                *(f"{of:,.1f}" for of in settled(size, inputs)[1]),
                *watts,
                *(f"{sustained.of(who, size, inputs).joules:.4f}" for who in BOTH),
            )
            for inputs, size in product(("zeros", "normal"), SIZES)
            for watts in [(f"{of:.0f}" for of in settled(size, inputs)[2])]
        ],
        f"Alone, means of each run's second half, by NVML, {card().name}",
        "J: energy of a launch, by the card's counter.",
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
        "Of each size, the first two rows, and one share of a seventh process, are the 13 shares in turns above. These "
        "rows have 11 samples of each kernel, and other warm-ups.",
    )


def seen(who: Kernel | cublas.Gemm, size: int = SIZE) -> np.ndarray:
    """Return seconds, ms and watts of each sample of a run alone on random numbers."""
    of = sustained.of(who, size).samples
    return np.stack((recording().settings["lasting_s"] * np.cumsum(of.ms) / np.sum(of.ms), of.ms, of.watts), 1)


def course() -> Figure:
    """Draw ms of a launch and watts in the course of the runs alone, of 20 and of cuBLAS, in two `BANDS`."""
    limit, seconds = recording().provenance["power_limit_watts"], recording().settings["lasting_s"]
    title = f"Alone on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (-2, 0), across="seconds", size=(WIDTH, 400))
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.2 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[1][1], places[1])) for second in (0, seconds)], INK, (4, 3), 1)
    for band, (name, ticks) in enumerate(BANDS):
        chart.write(chart.left, chart.at(0, -0.12 - band)[1], name)
        for of, colour in zip(BOTH, (BLUE, ORANGE), strict=True):
            line = [(run[0], np.interp(run[1 + band], ticks, places[band])) for run in seen(of).tolist()]
            chart.line(line, colour, wide=1.2)
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
    start, over, after = (
        [run[(run[:, 0] > begin) & (run[:, 0] < end)] for run in runs]
        for begin, end in ((0, 0.03), (0.25, 0.8), (0.8, 4))
    )
    still, alone = ({size: settled(size, inputs) for size in SIZES} for inputs in ("zeros", "normal"))
    equal, clock, found = (
        {size: of(size) for size in SIZES}
        for of in (
            lambda size: share(size, "lasting", "zeros"),
            lambda size: float(np.divide(*alone[size][1])),
            lambda size: np.round(by_process(size), 1),  # as the table shows them
        )
    )
    leads = {  # in points, of one process: by the places of the two, and by size
        (ahead, behind, size): of[ahead] - of[behind]
        for (ahead, behind), (size, of) in product(((0, 2), (1, 2), (0, 1)), found.items())
    }
    overshoot, idle = (
        [watts for who in whose for watts in sustained.of(who, SIZE, protocol=protocol).samples.watts]
        for whose, protocol in ((BOTH[:1], "in turns"), (BOTH, "burst"))
    )
    counted = {size: clocks.of(KERNEL, size) for size in SIZES}
    moves, beside = copy_engine.moves(SIZE), [processes(who, 4096, "others") for who in (KERNEL, find("19"))]
    others = np.delete(moves, np.argmax(abs(moves - np.mean(moves))))
    assert (
        max(share(size, "burst") for size in SIZES) < 98.5 < 100.9 < turns(SIZE).min()
        and share(SIZE, "lasting") < 99.5
        and all(
            limit < of[:, 2].min() and of[:, 1].min() > 1.1 * begin[:, 1].max()
            for of, begin in zip(over, start, strict=True)
        )
        and all(of[:, 2].min() < 0.8 * limit and of[:, 1].max() > 2 for of in after)
        and min(overshoot) > limit
        and np.median(idle) < 0.2 * limit
        and max(clock.values()) < 0.985
        and all(0.98 * limit < watts.min() <= watts.max() < limit for _, _, watts in alone.values())
        and all(
            ours > theirs
            for inputs, size in product(("zeros", "normal"), SIZES)
            for ours, theirs in [(sustained.of(who, size, inputs).joules for who in BOTH)]
        )
        and all(mhz[0] == mhz[1] < 0.9 * card().boost_mhz for _, mhz, _ in still.values())
        and all(1.05 * watts[1] < watts[0] < 0.65 * limit for _, _, watts in still.values())
        and all(
            set(of.reasons[len(of.reasons) // 2 :]) == {4}  # the software power cap
            for of in (sustained.of(who, size, "zeros") for who, size in product(BOTH, SIZES))
        )
        and all(abs(equal[size] * clock[size] - share(size, "lasting")) < 1.5 for size in SIZES)
        and max(abs(turns(size) - equal[size]).max() for size in SIZES) < 1.5
        and share(SIZE, "burst", "zeros") < equal[SIZE] - 3
        and both(SIZE, "burst", "zeros")[0] < 0.9 * both(SIZE, "lasting", "zeros")[0]
        and persistent.chosen(8192) == 224 == PLACES[8192]["its code, sixth"].parameters["BN"]
        and persistent.chosen(4096) == 256 == PLACES[4096]["its code, fourth"].parameters["BN"]
        and all(leads[row, 2, size].min() > 3 * abs(leads[0, 1, size]).max() for row in (0, 1) for size in SIZES)
        and np.subtract(*beside).min() > 2.5
        and all(1.09 < of.nvml_mhz / of.own_mhz < 1.11 for of in counted.values())
        and abs(clocks.of(find("13"), SIZE).nvml_mhz / clocks.of(find("13"), SIZE).own_mhz - 1) < 0.005
        and (np.divide(*persistent.shares((KERNEL, find("19")), [SIZE])[:, 0]) > 1 + copy_engine.chance(SIZE)).all()
        and {len(sustained.of(KERNEL, size, protocol="in turns").samples.ms) for size in SIZES} == {15}
    )
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "boost": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']:g} s",
        "seconds": f"{settings['lasting_s']:g} s",
        "reads": f"{settings['lasting_s'] / np.mean([np.count_nonzero(np.diff(run[:, 2])) for run in runs]):.1f} s",
        "start": f"{max(of[:, 1].max() for of in start):.2f} ms",
        "peak": f"{max(of[:, 1].max() for of in after):.1f} ms",
        "over": f"{span(np.concatenate(over)[:, 2], '.0f')} W",
        "burst ms": f"about {settings['chunks'] * 2 * both(SIZE, 'burst')[0]:.0f} ms",
        "sample": f"{2 * both(SIZE, 'in turns')[0]:.1f} ms",
        "turns watts": f"{span(overshoot, '.0f')} W",
        "idle": f"{np.median(idle):.0f} W",
        **{f"20 {way}": f"{both(SIZE, way)[0]:.2f} ms" for way in NAMES},
        "burst": f"{share(SIZE, 'burst'):.1f}%",
        "turns": f"{span(turns(SIZE))}%",
        "alone": f"{share(SIZE, 'lasting'):.1f}%",
        "parted": f"{np.ptp(parts(4096, 'burst', 'zeros')):.1f}",
        "zeros clock": f"{still[SIZE][1][0]:,.0f} MHz",
        "normal clock": f"{1 - clock[SIZE]:.1%}",
        "zeros burst": f"{share(SIZE, 'burst', 'zeros'):.1f}%",
        "zeros ms": f"{both(SIZE, 'burst', 'zeros')[0]:.2f} ms instead of {both(SIZE, 'lasting', 'zeros')[0]:.2f}",
        **{
            f"product {size}": f"{equal[size]:.2f}% · {own:,.1f} / {theirs:,.1f} = {equal[size] * own / theirs:.1f}%"
            for size in SIZES
            for own, theirs in [alone[size][1]]
        },
        **{f"off {size}": f"{abs(equal[size] * clock[size] - share(size, 'lasting')):.1f}" for size in SIZES},
        **{f"measured {size}": f"{share(size, 'lasting'):.1f}%" for size in SIZES},
        **{f"equal {size}": f"{equal[size]:.1f}%" for size in SIZES},
        **{"{} {} {}".format(*of): span(points).replace("-", "−") for of, points in leads.items()},
        "lead": persistent.change(KERNEL, find("19"), SIZE).replace(",", " and"),
        "beside": span(np.subtract(*np.round(beside, 1))),
        **{f"own {size}": f"{of.own_mhz:,} MHz instead of {of.nvml_mhz:,}" for size, of in counted.items()},
        **{
            f"energy {size}": f"{100 * np.divide(*[sustained.of(who, size).joules for who in BOTH][::-1]):.1f}%"
            for size in SIZES
        },
        "drop": f"{equal[SIZE] - share(SIZE, 'lasting'):.1f}",
        "high": f"{max(run[:, 2].max() for run in runs):.0f} W",
        "without": f"{copy_engine.STUDENT[11] * np.std(others, ddof=1):.1%}",
        "one": f"{np.max(np.square(moves - np.mean(moves))) / np.var(moves) / len(moves):.0%}",
    }
