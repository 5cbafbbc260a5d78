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
)
"""The bands of the picture, from top to bottom, and the ticks of each: every value seen lies within them."""


def both(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return milliseconds of `KERNEL` and of cuBLAS: the recorded medians."""
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
    """Return the recorded medians of ms, MHz and W of each of `runs`: those of its second half."""
    return np.array([(run.ms, run.sm_mhz, run.watts) for run in runs(size, inputs)]).T


def early(size: int = SIZE, inputs: str = "normal") -> np.ndarray:
    """Return the medians of ms, MHz and W of each of `runs` in the seconds `EARLY`."""
    begin, end = EARLY
    return np.array(
        [np.median(run[(run[:, 0] > begin) & (run[:, 0] <= end), 1:], 0) for run in map(seen, runs(size, inputs))]
    ).T


def by_turns(size: int = SIZE, inputs: str = "normal") -> np.ndarray:
    """Return the medians of ms, MHz and W of both kernels' samples in turns."""
    of = sustained.of(KERNEL, size, inputs, "in turns")
    return np.median([dataclasses.astuple(each) for each in (of.samples, of.cublas)], axis=2).T


def shares(size: int, protocol: str, inputs: str = "normal") -> np.ndarray:
    """Return 20's shares of cuBLAS's speed in %: of each burst, in turns by pairs of samples, or by cuBLAS's runs."""
    if protocol == "burst":
        return bursts(size, inputs)
    if protocol == "in turns":
        of = sustained.of(KERNEL, size, inputs, protocol)
        return np.array([paired((of.samples.ms, of.cublas.ms))])
    ms = (early if protocol == "early" else settled)(size, inputs)[0]
    return 100 * ms[1:] / ms[0]


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
                *(", ".join(f"{of:.1f}" for of in shares(size, way, kind)) for way in WAYS.values()),
            )
            for size, (name, kind) in product(SIZES, INPUTS.items())
        ],
        f"20's share of cuBLAS's speed in %, FP16, {card().name}",
        "Two values: of two bursts; alone, by cuBLAS in the same recording and in a later one.",
    )


def clocks_table() -> Table:
    """Return ms, MHz and watts of 20 and of cuBLAS at `SIZE`, by inputs and way."""
    return Table(
        (f"M = N = K = {SIZE}", "ms", "MHz", "W"),
        [
            (
                f"{name}, {way}",
                *(
                    ", ".join(f"{each:{how}}" for each in of)
                    for of, how in zip(means(SIZE, kind), ("#.4g", ",.0f", ".0f"), strict=True)
                ),
            )
            for name, kind in INPUTS.items()
            for way, means in zip(tuple(WAYS)[1:], (by_turns, early, settled), strict=True)
        ],
        f"20, cuBLAS and, if there is a third value, cuBLAS in the later recording: medians, {card().name}",
        "MHz and W: by NVML.",
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


def course() -> Figure:
    """Draw the course of 20's and cuBLAS's runs alone in `BANDS`."""
    title, limit, seconds = (
        f"Alone on random numbers, M = N = K = {SIZE}",
        recording().provenance["power_limit_watts"],
        recording().settings["lasting_s"],
    )
    chart = Chart(title, (0, seconds), (-len(BANDS), 0), across="seconds", size=(WIDTH, 440), top=60)
    chart.ticks(range(int(seconds) + 1), ())
    places = [np.linspace(-1 - band, -0.25 - band, len(ticks)) for band, (_, ticks) in enumerate(BANDS)]
    chart.axes.yaxis.set_ticks(np.concatenate(places), [f"{tick:g}" for _, ticks in BANDS for tick in ticks])
    chart.line([(second, np.interp(limit, BANDS[2][1], places[2])) for second in (0, seconds)], INK, (4, 3), 1)
    for begin, end, way, align in COUNTED:
        chart.line([(begin, 0), (end, 0)], INK, wide=5)
        chart.write(chart.at(begin, 0)[0], chart.top - 8, way, align)
    for band, (of, colour) in product(range(len(BANDS)), zip(runs()[:2], (BLUE, ORANGE), strict=True)):
        chart.write(chart.left, chart.at(0, -0.15 - band)[1], BANDS[band][0] * (colour != ORANGE))  # once a band
        points = seen(of)[:, (0, 1 + band)].tolist()
        chart.line([(at, np.interp(of, BANDS[band][1], places[band])) for at, of in points], colour, wide=1.2)
    return chart.finish(
        f"{title}: ms of a launch, clock and watts. Within a quarter of a second, times rise from 1.4, "
        f"overshoot a little, and settle near 1.7 until 0.8 seconds. Meanwhile the power is above the limit, {limit}. "
        "Then clock and power fall far, and times rise above 2. Smaller swings follow, about one a second. "
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
        [*map(seen, runs()[:2])],
    )
    start, over = ([run[(run[:, 0] > a) & (run[:, 0] < b)] for run in both_seen] for a, b in ((0, 0.03), (0.25, 0.8)))
    still, alone, first, turns = settled(SIZE, "zeros"), settled(SIZE), early(), by_turns()
    ten = {
        size: [*shares(size, "in turns"), *(of for name in RECORDINGS for of in by_process(KERNEL, size, name))]
        for size in SIZES
    }
    leads, same = (
        np.array([np.concatenate(gains(size, of[size])) for size in SIZES])
        for of in (dict.fromkeys(SIZES, find("19")), AGAIN)
    )
    zeros, own = ({way: shares(SIZE, way, kind) for way in WAYS.values()} for kind in INPUTS.values())
    late, soon = own["in turns"] - own["lasting"], own["in turns"] - own["early"]  # points lost, by each cuBLAS
    lower = 1 - alone[1, 0] / alone[1, 1:]  # how much lower 20's clock is than cuBLAS's
    width = persistent.leads(KERNEL, persistent.STEPS[2], SIZE)  # by 224 columns instead of 256
    since = zeros["in turns"] - zeros["burst"]
    assert (
        98 < own["lasting"].min() <= own["lasting"].max() < 99.5
        and own["burst"].max() < 98.5
        and COUNTED[0][1] == round(settings["chunks"] * 2 * both(SIZE, "burst")[0] / 1000, 3)
        and [len(of) for of in ten.values()] == [10, 10]
        and min(ten[SIZE]) - 100 > 100 * abs(same[0]).max()
        and min(ten[4096]) < 100 < max(ten[4096])
        and np.ptp([*zeros["in turns"], *zeros["early"], *zeros["lasting"]]) < 0.25
        and 0 < 2 * soon.min() <= late.min()
        and since.min() > 2
        and all({*of[:, 2]} == {1965} and of[:, 1].max() < 1.47 for of in start)
        and all(limit < of[:, 3].min() and of[:, 2].max() < 1600 and of[:, 1].min() > 1.6 for of in over)
        and all(of[of[:, 0] > 0.8, 1].max() > 2 and of[of[:, 0] > 0.8, 3].min() < 0.8 * limit for of in both_seen)
        and 0.98 * limit < alone[2].min() <= alone[2].max() <= limit < min(first[2].min(), turns[2].min())
        and still[1, 0] == still[1, 1]
        and still[2].max() < 0.65 * limit
        and 100 * (1 - first[1, 0] / first[1, 1:].min()) > soon.max()
        and 0.6 * late.min() < 100 * lower.min() <= 100 * lower.max() < late.max()
        and all({*run.reasons[len(run.reasons) // 2 :]} == {4} for run in (*runs(), *runs(SIZE, "zeros")))
        and not any(sustained.of(KERNEL, size, protocol="in turns").reasons for size in SIZES)
        and persistent.chosen(8192) == 224 == AGAIN[8192].parameters["BN"]
        and persistent.chosen(4096) == 256 == AGAIN[4096].parameters["BN"] == find("19").parameters["BN"]
        and (leads.min(1) > 3 * abs(same).max(1)).all()
        and 0 < width.min() < abs(same[0]).max()
        and np.ptp(same[0]) < 0.01
    )
    return {
        "card": card().name,
        "cuBLAS": recording().provenance["cublas"],
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "reads": f"{settings['lasting_s'] / np.mean([np.count_nonzero(np.diff(of[:, 3])) for of in both_seen]):.1f} s",
        "burst ms": f"{round(settings['chunks'] * 2 * both(SIZE, 'burst')[0], -1):.0f} ms",
        **{way: f"{own[way][0] / 100:.2f}" for way in ("burst", "in turns")},
        "lasting": " and ".join(f"{of / 100:.2f}" for of in own["lasting"]),
        "alone first": f"{own['lasting'][0]:.1f}%",
        "alone again": f"{own['lasting'][1]:.1f}%",
        "burst lead": f"{100 * (100 / own['burst'].max() - 1):.1f}%",
        "alone lead": f"{span(100 * (100 / own['lasting'] - 1))}%",
        "bursts apart": f"{np.ptp(bursts(4096, 'zeros')):.1f}",
        "lead": f"{span(np.array(ten[SIZE]) - 100)}%",
        "least lead": f"{min(ten[SIZE]) - 100:.1f}%",
        "again 8192": f"{alone[0, 2] / alone[0, 1] - 1:.1%}",
        **{f"zeros {way}": f"{zeros[way][0] - 100:.1f}%" for way in ("in turns", "lasting")},
        "late": span(late, ".0f"),
        "soon": span(soon, ".0f"),
        "early": "{} to {} s".format(*EARLY),
        "early clocks": " and ".join(f"{of:,.0f}" for of in first[1, :2]),
        "early gap": f"{1 - first[1, 0] / first[1, 1]:.1%}",
        "since": span(since),
        "less clock": f"{span(100 * lower)}%",
        "watts": f"{span(alone[2], '.0f')} W",
        "turn watts": f"{turns[2].max():.0f} W",
        "zeros clock": f"{still[1, 0]:,.0f} MHz",
        "zeros watts": f"{still[2, 0]:.0f} and {still[2, 1]:.0f} W",
        "highest": f"{recording().provenance['sm_clock_max_mhz']:,} MHz",
        "width": f"{span(100 * width)}%",
        "spread": f"{100 * np.ptp(gains(SIZE, find('19'))[1]):.1f}",
        "ten 4096": f"{span(ten[4096])}%",
        **{f"lead {size}": f"{100 * of.min():.1f}%" for size, of in zip(SIZES, leads, strict=True)},
        **{f"same {size}": f"{100 * abs(of).max():.1f}%" for size, of in zip(SIZES, same, strict=True)},
    }
