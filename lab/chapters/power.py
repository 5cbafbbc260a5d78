"""Compares times and energies of 20 and cuBLAS, and tells differences from chance, for the page on power."""

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
AGAIN = {8192: HOPPER_WIDTHS[1], 4096: persistent.STEPS[2]}
"""20's code by M = N = K, as the variant whose tile is as wide as the one that 20 chooses: 224 columns, or 256."""
RECORDINGS = (*copy_engine.TWICE, "order")
"""Recordings that time 19 and 20: two time 20 first, then `AGAIN`, then 19; the last one 19, then 20."""
COUNTED = ((0, 0.023, "burst", "left"), (2, 4, "alone", "left"))
"""The seconds between which samples of a kernel by itself count, the way's name, and the label's place."""
BANDS = (
    ("ms of a launch (blue: 20, orange: cuBLAS)", (1.4, 1.9, 2.4)),
    ("W, by NVML (dashed: the limit)", (100, 400, 700, 1000)),
)
"""The bands of the picture, from top to bottom, and the ticks of each: every value seen lies within them."""


def runs(size: int = SIZE, inputs: str = "normal") -> list[sustained.Sustained]:
    """Return the runs alone of `KERNEL` and cuBLAS, in one session."""
    return [sustained.of(who, size, inputs) for who in BOTH]


def half(run: sustained.Sustained) -> slice:
    """Return which samples of a run alone count."""
    return slice(len(run.samples.ms) // 2, None)


def spent(size: int = SIZE, inputs: str = "normal") -> np.ndarray:
    """Return ms, mean watts and joules of a product, of each of `runs`, in its second half."""
    return np.array(
        [
            (of.ms, np.average(of.samples.watts[half(of)], weights=of.samples.ms[half(of)]), of.joules)
            for of in runs(size, inputs)
        ]
    ).T


def shares(size: int = SIZE, inputs: str = "normal") -> np.ndarray:
    """Return cuBLAS's ms and joules of a product, each in % of 20's, alone."""
    ms, _, joules = spent(size, inputs)
    return np.array([100 * theirs / own for own, theirs in (ms, joules)])


def in_turns(size: int, inputs: str = "normal") -> float:
    """Return 20's share of cuBLAS's speed in turns in %, by pairs of samples, in the recording of the runs alone."""
    of = sustained.of(KERNEL, size, inputs, "in turns")
    return paired((of.samples.ms, of.cublas.ms))


def bursts(size: int, inputs: str = "normal") -> np.ndarray:
    """Return the shares in % of the single bursts: ratios of their medians."""
    runs = [np.split(np.array(sustained.of(who, size, inputs, "burst").samples.ms), sustained.BURSTS) for who in BOTH]
    return 100 * np.divide(*(np.median(run, axis=1) for run in reversed(runs)))


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


def spent_table() -> Table:
    """Return what runs alone spend, and 20's shares by time and by energy: at the limit, and on zeros below it."""
    rows = []
    for name, size, inputs in (*(("random", size, "normal") for size in SIZES), ("zeros", SIZE, "zeros")):
        spans = (
            ", ".join(f"{each:{how}}" for each in pair)
            for how, pair in zip(("#.4g", ".0f", ".4g"), spent(size, inputs), strict=True)
        )
        rows.append((f"{name}, {size}", *spans, *(f"{share:.1f}" for share in shares(size, inputs))))
    return Table(
        ("A and B, M = N = K", "ms", "W", "joules", "20's share by ms, %", "by joules, %"),
        rows,
        f"A product of 20, then one of cuBLAS: alone, the second half of {recording().settings['lasting_s']:g} s",
        "Shares: cuBLAS's ms / 20's, and cuBLAS's joules / 20's. W: means, by NVML.",
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
            for name, other in (("19", find("19")), ("its copy", AGAIN[size]))
        ],
        f"By how many % 20's share of cuBLAS's speed in turns is larger, in each process, {card().name}",
        f"Recordings 1 and 2 are chapter 20's, {' and '.join(copy_engine.TWICE)}.",
    )


def seen(run: sustained.Sustained) -> np.ndarray:
    """Return seconds, ms and watts of each sample of a run alone."""
    at = np.cumsum(run.samples.ms) / np.sum(run.samples.ms) * recording().settings["lasting_s"]
    return np.stack((at, run.samples.ms, run.samples.watts), 1)


def course() -> Figure:
    """Draw the course of 20's and cuBLAS's runs alone in `BANDS`."""
    title, limit, seconds = (
        f"Alone on random numbers, M = N = K = {SIZE}",
        recording().provenance["power_limit_watts"],
        recording().settings["lasting_s"],
    )
    chart = Chart(title, (0, seconds), (-len(BANDS), 0), across="seconds", size=(WIDTH, 310), top=60)
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.25 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[1][1], places[1])) for second in (0, seconds)], INK, (4, 3), 1)
    for begin, end, way, align in COUNTED:
        chart.line([(begin, 0), (end, 0)], INK, wide=5)
        chart.write(chart.at(begin, 0)[0], chart.top - 8, way, align)
    for band, (of, colour) in product(range(len(BANDS)), zip(runs(), (BLUE, ORANGE), strict=True)):
        chart.write(chart.left, chart.at(0, -0.15 - band)[1], BANDS[band][0] * (colour != ORANGE))  # once a band
        points = seen(of)[:, (0, 1 + band)].tolist()
        chart.line([(at, np.interp(of, BANDS[band][1], places[band])) for at, of in points], colour, wide=1.2)
    return chart.finish(
        f"{title}: ms of a launch, and watts. Within a quarter of a second, times rise from 1.4, "
        f"overshoot a little, and settle near 1.7 until 0.8 seconds. Meanwhile the power is above the limit, {limit}. "
        "Then power falls far, and times rise above 2. Smaller swings follow, about one a second. "
        "Bars mark when samples count: up to 0.023 s in a burst, from 2 s on alone."
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, both_seen = (
        recording().provenance["power_limit_watts"],
        recording().settings,
        [*map(seen, runs())],
    )
    over = [run[(run[:, 0] > 0.25) & (run[:, 0] < 0.8)] for run in both_seen]
    (ms, watts, joules), still, alone = spent(), spent(SIZE, "zeros"), shares()
    by_counter, at_limit = 1000 * joules / ms, np.concatenate([spent(size)[1] for size in SIZES])
    again = sustained.of(cublas.gemm_ex, SIZE, recording="lasting").ms / ms[1] - 1
    brief = [sustained.of(who, SIZE, "normal", "burst") for who in BOTH]
    mhz = [np.average(of.samples.sm_mhz[half(of)], weights=of.samples.ms[half(of)]) for of in runs()]
    zeros_mhz = {each for of in runs(SIZE, "zeros") for each in of.samples.sm_mhz[half(of)]}
    own_mhz = clocks.of(KERNEL, SIZE)
    ten = {
        size: [in_turns(size), *(of for name in RECORDINGS for of in by_process(KERNEL, size, name))] for size in SIZES
    }
    by_turns, by_order = (
        sustained.of(KERNEL, SIZE, protocol="in turns"),
        [  # 20's leads over cuBLAS by the pairs that begin with 20, and by those that begin with cuBLAS
            paired((of.own.ms[first::2], of.cublas.ms[first::2])) - 100
            for name in RECORDINGS
            for of in copy_engine.timed(KERNEL, SIZE, name).processes
            for first in (0, 1)
        ],
    )
    by_order += [paired((by_turns.samples.ms[first::2], by_turns.cublas.ms[first::2])) - 100 for first in (0, 1)]
    leads, same = (
        100 * np.array([np.concatenate(gains(size, of[size])) for size in SIZES])
        for of in (dict.fromkeys(SIZES, find("19")), AGAIN)
    )
    assert (
        alone[0] < 99.5
        and bursts(SIZE, "normal").max() < 98.5
        and COUNTED[0][1] == round(settings["chunks"] * 2 * brief[0].ms / 1000, 3)
        and [len(of) for of in ten.values()] == [10, 10]
        and abs(same[0]).max() < min(by_order)
        and f"{min(by_order):.1f}" == f"{min(ten[SIZE]) - 100:.1f}"
        and min(ten[4096]) < 100 < max(ten[4096])
        and 0.985 * limit < at_limit.min() <= at_limit.max() < limit
        and np.ptp(at_limit) < 2
        and abs(shares(4096)[1] - shares(4096)[0]) < 0.1
        and np.ptp(watts) < 1 < 0.008 * limit < np.ptp(by_counter)
        and still[1].max() < 0.65 * limit
        and 1.9 < min(joules / still[2]) <= max(joules / still[2]) < 2.3
        and len(zeros_mhz) == 1
        and all({*run.reasons[half(run)]} == {4} for run in runs(SIZE, "zeros"))
        and 0.03 < 1 - ms[0] * mhz[0] / ms[1] / mhz[1] < 0.06
        and own_mhz.own_mhz < 0.92 * own_mhz.nvml_mhz
        and all(of[:, 1].max() < 1.5 for of in (run[run[:, 0] < 0.03] for run in both_seen))
        and all(limit < of[:, 2].min() and of[:, 1].min() > 1.6 for of in over)
        and all(of[of[:, 0] > 0.8, 1].max() > 2 and of[of[:, 0] > 0.8, 2].min() < 0.8 * limit for of in both_seen)
        and len(by_order) == 20
        and again > 0
        and persistent.chosen(8192) == 224 == AGAIN[8192].parameters["BN"]
        and persistent.chosen(4096) == 256 == AGAIN[4096].parameters["BN"]
        and find("19").parameters["BN"] == 256
        and (leads.min(1) > 3 * abs(same).max(1)).all()
        and (np.ptp(leads, axis=1) > np.ptp(same, axis=1)).all()
    )
    return {
        "card": card().name,
        "cuBLAS": recording().provenance["cublas"],
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']:g} s",
        "burst ms": f"{round(settings['chunks'] * 2 * brief[0].ms, -1):.0f} ms",
        "burst": ", ".join(f"{of:.1f}" for of in bursts(SIZE, "normal")),
        "in turns": span(ten[SIZE]),
        "alone": f"{alone[0]:.1f}",
        "lead": f"{span(np.array(ten[SIZE]) - 100)}%",
        "least lead": f"{min(ten[SIZE]) - 100:.1f}%",
        "loses alone": f"{100 - alone[0]:.1f}%",
        "loses in bursts": f"{100 - bursts(SIZE, 'normal').max():.1f}%",
        "again": f"{again:.1%}",
        "watts": f"{watts[0]:.0f} W",
        "joules": f"{joules[0]:.3f} J",
        "rate": f"{watts[0] / joules[0]:.0f}",
        "by rate": f"{1000 * round(joules[0], 3) / round(watts[0]):.3f} ms",
        "ms": f"{ms[0]:.3f} ms",
        "off": f"{joules[0] * 1000 / watts[0] / ms[0] - 1:.0%}",
        "all watts": f"{span(at_limit, '.0f')} W",
        "apart": f"{abs(alone[1] - alone[0]):.1f}",
        "by counter": " and ".join(f"{of:.0f} W" for of in by_counter),
        "by NVML": " and ".join(f"{of:.0f} W" for of in watts),
        "zeros MHz": f"{max(zeros_mhz):,} MHz",
        "highest": f"{recording().provenance['sm_clock_max_mhz']:,}",
        "MHz": f"{mhz[0]:,.0f} MHz",
        "MHz cuBLAS": f"{mhz[1]:,.0f}",
        "fewer cycles": f"{1 - ms[0] * mhz[0] / ms[1] / mhz[1]:.1%}",
        "own MHz": f"{own_mhz.own_mhz:,.0f} MHz",
        "NVML MHz": f"{own_mhz.nvml_mhz:,.0f}",
        "ten 4096": f"{span(ten[4096])}%",
        "lead over 19": f"{span(leads[0])}%",
        "same": f"{abs(same[0]).max():.1f}%",
    }
