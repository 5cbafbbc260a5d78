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
from ..experiments import sustained
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
EARLY = (0.25, 0.4)
"""The seconds of a run alone at which `KERNEL` and cuBLAS in turns are sampled, after a warm-up."""
STEADY = ((0.25, 0.8), (1.4, 1.7), (2.4, 2.65))
"""Seconds of the runs alone at `SIZE` in which clocks hardly move."""
WAYS = {
    "burst": "burst",
    "in turns": "in turns",
    "alone, {} to {} s".format(*EARLY): "early",
    "alone, 2 to 4 s": "lasting",
}
"""The page's names of ways to time both, and this module's."""
BANDS = (
    ("ms of a launch (blue: 20, orange: cuBLAS)", (1.4, 1.9, 2.4)),
    ("MHz, by NVML", (800, 1200, 1600, 2000)),
    ("W, by NVML (dashed: the limit)", (100, 400, 700, 1000)),
    ("20's share of cuBLAS's speed in %, means of 0.25 s", (90, 94, 98, 102)),
)
"""The bands of the picture, from top to bottom, and the ticks of each: every value seen lies within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: medians, of a run alone the mean of a part."""
    if part := {"lasting": settled, "early": early}.get(protocol):
        return part(size, inputs)[0, :2]
    return np.array(
        [sustained.of(KERNEL, size, inputs, protocol).ms, sustained.cublas_ms(KERNEL, size, inputs, protocol)]
    )


def runs(size: int = SIZE, inputs: str = "normal") -> list[sustained.Sustained]:
    """Return the runs alone of `KERNEL` and cuBLAS and, on random numbers, cuBLAS's of ``lasting``."""
    return [
        *(sustained.of(who, size, inputs) for who in BOTH),
        *([sustained.of(cublas.gemm_ex, size, recording="lasting")] if inputs == "normal" else []),
    ]


def settled(size: int, inputs: str = "normal") -> np.ndarray:
    """Return the mean ms, MHz, W and J of each of `runs` in its second half."""
    return np.array(
        [
            [*(np.mean(of[len(of) // 2 :]) for of in dataclasses.astuple(run.samples)), run.joules]
            for run in runs(size, inputs)
        ]
    ).T


def early(size: int = SIZE, inputs: str = "normal", part: tuple[float, float] = EARLY) -> np.ndarray:
    """Return mean ms, MHz and W of each of `runs` in a part of it."""
    return np.array(
        [run[(run[:, 0] > part[0]) & (run[:, 0] <= part[1]), 1:].mean(0) for run in map(seen, runs(size, inputs))]
    ).T


def by_turns(size: int = SIZE, inputs: str = "normal") -> np.ndarray:
    """Return the mean ms, MHz and W of both kernels' samples in turns."""
    of = sustained.of(KERNEL, size, inputs, "in turns")
    return np.mean([dataclasses.astuple(each) for each in (of.samples, of.cublas)], axis=2).T


def share(size: int, protocol: str, inputs: str = "normal") -> float:
    """Return the share of 20 in cuBLAS's speed in %: in turns by pairs of samples, else the ratio of `both`."""
    if protocol == "in turns":
        of = sustained.of(KERNEL, size, inputs, protocol)
        return paired((of.samples.ms, of.cublas.ms))
    return 100 * np.divide(*both(size, protocol, inputs)[::-1])


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


def protocols_table() -> Table:
    """Return 20's shares of cuBLAS's speed by size, inputs and way."""
    return Table(
        ("M = N = K, inputs", *WAYS),
        [
            (
                f"{size}, {name}",
                *(
                    ", ".join(
                        f"{of:.1f}" for of in (bursts(size, kind) if way == "burst" else [share(size, way, kind)])
                    )
                    for way in WAYS.values()
                ),
            )
            for size, (name, kind) in product(SIZES, INPUTS.items())
        ],
        f"20's share of cuBLAS's speed in %, FP16, {card().name}",
    )


def clocks_table() -> Table:
    """Return ms, MHz and watts, by NVML and by the counter, of 20 and of cuBLAS, by size, inputs and way."""
    return Table(
        ("M = N = K, inputs, way", "ms", "MHz", "million cycles", "W", "W by energy"),
        [
            (
                name,
                *(
                    ", ".join(f"{each:{how}}" for each in of)
                    for of, how in zip(
                        [*means[:2], means[0] * means[1] / 1000, means[2], *1000 * means[3:] / means[0]],
                        ("#.4g", ",.0f", "#.3g", ".0f", ".0f"),
                        strict=False,
                    )
                ),
                *[None] * (4 - len(means)),
            )
            for name, means in (
                *(
                    (f"{size}, {name}, alone", settled(size, kind))
                    for size, (name, kind) in product(SIZES, INPUTS.items())
                ),
                (f"{SIZE}, random, alone, {EARLY[0]} to {EARLY[1]} s", early()),
                (f"{SIZE}, random, in turns", by_turns()),
            )
        ],
        f"20, cuBLAS and, if there is a third value, cuBLAS in the later recording: means of a launch, {card().name}",
        "MHz and W: by NVML. Cycles: ms · MHz. W by energy: joules of a launch, by the card's counter, divided by its "
        "time. Alone: from 2 s on, unless told.",
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
    """Return seconds, ms, MHz and watts of each sample of a run alone."""
    return np.stack(
        (
            np.cumsum(run.samples.ms) / np.sum(run.samples.ms) * recording().settings["lasting_s"],
            *dataclasses.astuple(run.samples),
        ),
        1,
    )


def by_time() -> np.ndarray:
    """Return the middle of each quarter of a second of the runs alone, and 20's share of cuBLAS's speed in % in it."""
    ends = np.arange(0.25, recording().settings["lasting_s"] + 0.25, 0.25)
    ms = ([np.mean(of[np.ceil(4 * of[:, 0]) == 4 * end, 1]) for end in ends] for of in map(seen, runs()[1::-1]))
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
        for of, colour in zip(runs()[:2], (BLUE, ORANGE), strict=True)
    ]
    for band, points, colour in [*lines, (3, by_time(), INK)]:
        chart.write(chart.left, chart.at(0, -0.15 - band)[1], BANDS[band][0] * (colour != ORANGE))  # once a band
        chart.line([(at, np.interp(of, BANDS[band][1], places[band])) for at, of in points.tolist()], colour, wide=1.2)
    return chart.finish(
        f"{title}: ms of a launch, clock, watts, and 20's share. Within a quarter of a second, times rise from 1.4, "
        f"overshoot a little, and settle near 1.7 until 0.8 seconds. Meanwhile the power is above the limit, {limit}. "
        "Then clock and power fall far, and times rise above 2. Smaller swings follow, about one a second. The share "
        "swings too. Bars mark when samples count: up to 0.023 s in a burst, from 2 s on alone."
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings, both_seen = (
        recording().provenance["power_limit_watts"],
        recording().settings,
        [*map(seen, runs()[:2])],
    )
    start, over, swings = (
        [run[(run[:, 0] > begin) & (run[:, 0] < end)] for run in both_seen]
        for begin, end in ((0, 0.03), (0.25, 0.8), (1.7, 4))
    )
    still, alone, small_still, small, first, turns = (
        *(settled(size, of) for size, of in product(SIZES, INPUTS.values())),
        early(),
        by_turns(),
    )
    ten = {
        size: [share(size, "in turns"), *(of for name in RECORDINGS for of in by_process(KERNEL, size, name))]
        for size in SIZES
    }
    leads, same = (
        np.array([np.concatenate(gains(size, of[size])) for size in SIZES])
        for of in (dict.fromkeys(SIZES, find("19")), AGAIN)
    )
    zeros, own, small_zeros, small_own = (
        {way: share(size, way, kind) for way in ("in turns", "early", "lasting")}
        for size, kind in product(SIZES, INPUTS.values())
    )
    cycles, lower, energy, flat, width, since, in_turns, caps, read = (
        [of[0, 0] * of[1, 0] for of in (still, alone, first, turns)],  # of 20's same code
        1 - alone[1, 0] / alone[1, 1:],  # how much lower 20's clock is than cuBLAS's
        1000 * alone[3] / alone[0],  # watts by the counter
        [  # 20's leads while the clocks hardly move
            100 * ms[who] / ms[0] - 100 for ms in (early(part=part)[0] for part in STEADY) for who in (1, 2)
        ],
        persistent.leads(KERNEL, persistent.STEPS[2], SIZE),  # by 224 columns instead of 256
        {of: share(SIZE, "in turns", of) - bursts(SIZE, of) for of in INPUTS.values()},  # the bursts, points gained
        [sustained.of(KERNEL, size, protocol="in turns") for size in SIZES],
        [sustained.of(who, SIZE, "zeros").reasons for who in BOTH],
        [  # the clock last read in turns, in each process
            sustained.of(KERNEL, SIZE, protocol="in turns").samples.sm_mhz[-1],
            *(of.own.sm_mhz[-1] for name in RECORDINGS for of in copy_engine.timed(KERNEL, SIZE, name).processes),
        ],
    )
    assert (
        98.5 < own["lasting"] < 99.5
        and 100 < 100 * alone[0, 2] / alone[0, 0] < 100.5
        and 99.5 < 100 * small[0, 2] / small[0, 0] < 100
        and (bursts(SIZE) < 98.5).all()
        and COUNTED[0][1] == round(settings["chunks"] * 2 * both(SIZE, "burst")[0] / 1000, 3)
        and [len(of) for of in (*ten.values(), read)] == [10, 10, 10]
        and min(ten[SIZE]) - 100 > 100 * abs(same[0]).max()
        and min(ten[4096]) < 100 < max(ten[4096])
        and abs(zeros["in turns"] - zeros["early"]) < 0.15 > abs(zeros["in turns"] - zeros["lasting"])
        and own["in turns"] > own["early"] + 2.5 > own["lasting"] + 3.5
        and np.ptp([*small_zeros.values()]) < 0.4 < 2 < np.ptp([*small_own.values()])
        and since["zeros"].min() > 0.5 * since["normal"].max()
        and all({*of[:, 2]} == {1965} and of[:, 1].max() < 1.47 for of in start)
        and all(limit < of[:, 3].min() and of[:, 2].max() < 1600 and of[:, 1].min() > 1.6 for of in over)
        and all(of[of[:, 0] > 0.8, 1].max() > 2 and of[of[:, 0] > 0.8, 3].min() < 0.8 * limit for of in both_seen)
        and all(of[:, 1].max() > 1.8 and of[:, 3].min() < 0.95 * limit for of in swings)
        and 0.5 < min(flat) < max(flat) < 2
        and own["in turns"] - own["early"] > (own["in turns"] - own["lasting"]) / 2
        and own["in turns"] - 100 * first[0, 2] / first[0, 0] > (own["in turns"] - 100 * alone[0, 2] / alone[0, 0]) / 2
        and 0.98 * limit < min(alone[2].min(), small[2].min()) <= max(alone[2].max(), small[2].max()) < limit
        and abs(alone[2, 0] / alone[2, 1] - 1) < 0.001
        and alone[3, 0] > alone[3, 1:].max()
        and swings[0][:, 2].min() < 0.95 * swings[1][:, 2].min()
        and max(runs()[1].ms, runs()[2].ms) < runs()[0].ms
        and still[1, 0] == still[1, 1]
        and small_still[1, 0] == small_still[1, 1]
        and still[0, 0] < 0.97 * still[0, 1]
        and max(still[2].max(), small_still[2].max()) < 0.65 * limit
        and first[2].min() > limit < turns[2].min()
        and all({*run.reasons} == {4} for run in runs()[:2])
        and not any(of.reasons for of in in_turns)
        and abs(np.divide(*turns[1]) - 1) < 0.003
        and lower.min() > max(cycles) / min(cycles) - 1
        and {*caps[0]} == {4}
        and persistent.chosen(8192) == 224 == AGAIN[8192].parameters["BN"]
        and persistent.chosen(4096) == 256 == AGAIN[4096].parameters["BN"] == find("19").parameters["BN"]
        and (leads.min(1) > 3 * abs(same).max(1)).all()
        and width.min() > 0
        and np.ptp(same[0]) < 0.01
        and {len(of.samples.ms) for of in in_turns} == {15}
        and {len(of.own.ms) for name in RECORDINGS for of in copy_engine.timed(KERNEL, SIZE, name).processes} == {11}
    )
    return {
        "card": card().name,
        "cuBLAS": recording().provenance["cublas"],
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "reads": f"{settings['lasting_s'] / np.mean([np.count_nonzero(np.diff(of[:, 3])) for of in both_seen]):.1f} s",
        "burst ms": f"{round(settings['chunks'] * 2 * both(SIZE, 'burst')[0], -1):.0f} ms",
        **{way: f"{share(SIZE, way) / 100:.2f}" for way in ("burst", "in turns", "lasting")},
        "lasting again": f"{alone[0, 2] / alone[0, 0]:.2f}",
        "burst lead": f"{100 * (100 / bursts(SIZE).max() - 1):.1f}%",
        "bursts apart": f"{np.ptp(bursts(4096, 'zeros')):.1f}",
        "lead": f"{span(np.array(ten[SIZE]) - 100)}%",
        "least lead": f"{min(ten[SIZE]) - 100:.1f}%",
        "alone lead": f"{100 * (100 / own['lasting'] - 1):.1f}%",
        "again 8192": f"{alone[0, 2] / alone[0, 1] - 1:.1%}",
        "again lead": f"{alone[0, 2] / alone[0, 0] - 1:.1%}",
        **{f"zeros {way}": f"{of - 100:.1f}%" for way, of in zeros.items() if way != "early"},
        "apart": f"{round(own['in turns'], 1) - round(own['lasting'], 1):.1f}",
        "apart early": f"{round(own['in turns'], 1) - round(own['early'], 1):.1f}",
        "early again": f"{own['in turns'] - 100 * first[0, 2] / first[0, 0]:.1f}",
        "early": "{} to {} s".format(*EARLY),
        "steady": ", ".join("{} to {}".format(*part) for part in STEADY) + " s",
        "flat": f"{span(flat)}%",
        **{f"deep {who}": f"{of[:, 2].min():,.0f} MHz" for who, of in zip(("20", "cuBLAS"), swings, strict=True)},
        "read": f"{min(read):,.0f} to {max(read):,.0f}",
        "early clocks": " and ".join(f"{of:,.0f}" for of in first[1, :2]),
        **{f"{name} since": f"{span(since[kind])}" for name, kind in INPUTS.items()},
        "cycles differ": f"{max(cycles) / min(cycles) - 1:.0%}",
        "burst added": " and ".join(
            f"{of:.0%}" for of in np.divide(*(both(SIZE, "burst", of) for of in ("normal", "zeros"))) - 1
        ),
        "alone added": " and ".join(f"{of:.0%}" for of in alone[0, :2] / still[0] - 1),
        "less clock": f"{span(100 * lower, '.0f')}%",
        "apart again": f"{own['in turns'] - 100 * alone[0, 2] / alone[0, 0]:.1f}",
        "below": f"{1 - np.min([alone[2], small[2]]) / limit:.1%}",
        "watts": f"{alone[2, 0]:.0f} W",
        "by energy": f"{energy[0]:.0f} and {energy[1]:.0f} W",
        "more joules": f"{span(100 * (alone[3, 0] / alone[3, 1:] - 1))}%",
        "joules again": f"{abs(alone[3, 2] / alone[3, 1] - 1):.1%}",
        "turn watts": f"{turns[2].max():.0f} W",
        "early gap": f"{1 - first[1, 0] / first[1, 1]:.0%}",
        "by medians": " and ".join(f"{100 * of.ms / runs()[0].ms:.1f}%" for of in runs()[1:]),
        "zeros clock": f"{still[1, 0]:,.0f} MHz",
        "zeros watts": f"{still[2, 0]:.0f} and {still[2, 1]:.0f} W",
        "caps": " and ".join(f"{of.count(4)} of {len(of)}" for of in caps),
        "highest": f"{recording().provenance['sm_clock_max_mhz']:,} MHz",
        "width": f"{span(100 * width)}%",
        "spread": f"{100 * np.ptp(gains(SIZE, find('19'))[1]):.1f}",
        "ten 4096": f"{span(ten[4096])}%",
        **{f"lead {size}": f"{100 * of.min():.1f}%" for size, of in zip(SIZES, leads, strict=True)},
        **{f"same {size}": f"{100 * abs(of).max():.1f}%" for size, of in zip(SIZES, same, strict=True)},
    }
