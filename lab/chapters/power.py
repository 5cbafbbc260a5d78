"""What the page on power and chance shows: 20 and cuBLAS in turns and alone, at which clocks, and chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart
from ..draw.figure import BLUE, ORANGE, WIDTH, Figure
from ..experiments import clocks, sustained, two_gpus
from ..experiments.ceilings import card
from ..records import files
from . import copy_engine, persistent

KERNEL, SIZE = find("20"), 8192
"""Of which the page asks whether it beats cuBLAS, and at which M = N = K."""
POWER_CAP = 4
"""The bit of ``nvmlClocksEventReasonSwPowerCap`` in `Sustained.reasons`."""
NAMES = {"normal": "random", "zeros": "zeros"}
EQUAL = [
    (size, *run)
    for size in (SIZE, 4096)
    for run in (("normal", "in turns"), ("zeros", "in turns"), ("zeros", "lasting"))
]
UNEQUAL = [(SIZE, "normal", "lasting"), (4096, "normal", "lasting")]
"""Sizes, inputs and protocols in which NVML tells one clock for 20 and for cuBLAS, and in which it tells two."""


def both(size: int, inputs: str, protocol: str) -> np.ndarray:
    """Return milliseconds, NVML's MHz, and the standard error of the first, of `KERNEL` and of cuBLAS.

    In turns, they are medians, without an error. Of a lasting run they are means of the second half, and the error is
    that of means of eight parts.
    """
    if protocol == "in turns":
        ours = sustained.of(KERNEL, size, inputs, protocol)
        return np.array([(np.median(of.ms), np.median(of.sm_mhz), 0) for of in (ours.samples, ours.cublas)])
    found = [persistent.lasting(who, size, inputs) for who in (KERNEL, cublas.gemm_ex)]
    return np.array([(ms, mhz, wrong) for ms, wrong, mhz in found])


def share(size: int, inputs: str, protocol: str) -> tuple[float, float]:
    """Return the share of 20 in cuBLAS's speed in %, and its standard error in points."""
    return tuple(100 * of for of in persistent.faster(*both(size, inputs, protocol)[:, [0, 2]]))


def clocks_table() -> Table:
    """Return what 20 and cuBLAS take at equal clocks, then at unequal ones: time, clock, and cycles by that clock."""
    rows = []
    for size, inputs, how in (*EQUAL, *UNEQUAL):
        (ms, mhz, _), (percent, wrong) = both(size, inputs, how).T, share(size, inputs, how)
        values = (
            " | ".join(format(each, form) for each in of)
            for of, form in ((ms, ".3f"), (mhz, ",.0f"), (ms * mhz, ",.0f"))
        )
        rows.append(
            (
                f"{size}, {NAMES[inputs]}, {how}",
                *values,
                f"{percent:.1f}%" + f" ± {wrong:.1f}" * (how == "lasting"),
            )
        )
    return Table(
        ("M = N = K, A and B, protocol", "ms: 20 | cuBLAS", "NVML's MHz", "thousands of cycles", "share of 20"),
        rows,
        f"Kernel 20 and cuBLAS in FP16, {card().name}",
        "In turns: medians. Lasting: means of the second half, the share with its standard error.",
    )


def course() -> Figure:
    """Draw milliseconds of a launch in the course of the lasting runs on random numbers, of 20 and of cuBLAS."""
    seconds = recording().settings["lasting_s"]
    names, title = ("20", "cuBLAS"), f"Lasting runs on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (1.4, 2.4), names, "seconds", "ms of a launch", size=(WIDTH, 300))
    chart.ticks(range(int(seconds) + 1), (1.4, 1.6, 1.8, 2, 2.2, 2.4))
    for name, who, colour in zip(names, (KERNEL, cublas.gemm_ex), (BLUE, ORANGE), strict=True):
        line = seen(who)[:, :2].tolist()
        chart.line(line, colour, wide=1.2)
        chart.curve(name, line[-1:], colour)
    return chart.finish(
        f"{title}, ms of a launch. Both begin at 1.4 to 1.5, come to about 1.7 within a tenth of a second, and after "
        "0.7 seconds swing between 1.7 and 1.9, with single peaks above 2."
    )


def seen(who: Kernel | cublas.Gemm) -> np.ndarray:
    """Return seconds, ms and NVML's MHz with each sample of a lasting run on random numbers."""
    samples = sustained.of(who, SIZE).samples
    passed = recording().settings["lasting_s"] * np.cumsum(samples.ms) / np.sum(samples.ms)
    return np.stack((passed, samples.ms, samples.sm_mhz), axis=1)


def capped(run: sustained.Sustained) -> tuple[int, int]:
    """Return in how many samples of a run NVML names a power cap as a reason for the clock, and how many there are."""
    return sum(bool(reasons & POWER_CAP) for reasons in run.reasons), len(run.reasons)


def repeats() -> dict[str, list[float]]:
    """Return the shares of 20 in turns in % at 4096 and at 8192, by recording: the first three alike, then others."""
    sizes = (4096, SIZE)
    return {
        "sustained": [share(size, "normal", "in turns")[0] for size in sizes],
        **{
            name: [copy_engine.timed(KERNEL, size, name).percent_of_cublas for size in sizes]
            for name in (*copy_engine.TWICE, "added")
        },
        "two_gpus": [100 * two_gpus.of(cublas.gemm_ex, size).ms / two_gpus.of(KERNEL, size).ms for size in sizes],
    }


def repeats_table() -> Table:
    """Return the like ones of `repeats`."""
    return Table(
        ("recording", "4096", "8192", "samples of each"),
        [
            (
                name,
                *(f"{percent:.1f}%" for percent in found),
                "33, three processes" if "hopper" in name else "15, one process",
            )
            for name, found in [*repeats().items()][:3]
        ],
        f"Share of cuBLAS's speed in turns, random numbers, β = 0, {card().name}",
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def twins() -> np.ndarray:
    """Return how far 20's share and that of the same code as a variant lie apart in a recording, and the noise."""
    pairs = {size: (KERNEL, persistent.WITH_AND_WITHOUT[persistent.chosen(size)][0]) for size in persistent.ALL}
    return np.array(
        [
            (abs(np.log(ours / theirs)), copy_engine.chance(size))
            for size, pair in pairs.items()
            for ours, theirs in persistent.shares(pair, [size])[:, 0].T
        ]
    )


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    small, large = np.array([*repeats().values()]).T
    alone, leads = {size: share(size, *how) for size, *how in UNEQUAL}, [share(*run)[0] - 100 for run in EQUAL]
    assert (
        large[:3].min() > 101
        and small[:3].min() < 100 < small[:3].max()
        and max(*small[3:], *large[3:]) < 100
        and 100 - alone[SIZE][0] < 1.5 * alone[SIZE][1]
        and 100 - alone[4096][0] > 2 * alone[4096][1]
    )
    equal, unequal = (np.array([both(*run) for run in runs]) for runs in (EQUAL, UNEQUAL))
    slower, fewer = (100 - 100 * of[:, 0] / of[:, 1] for of in (unequal[:, :, 1], unequal[:, :, 0] * unequal[:, :, 1]))
    assert min(leads) > 0 and (equal[:, 0, 1] == equal[:, 1, 1]).all() and (slower > fewer).all() and 0 < fewer[1] < 0.5
    runs, zeros = (
        [sustained.of(who, size, of) for size in sizes for who in (KERNEL, cublas.gemm_ex)]
        for of, sizes in (("normal", (SIZE, 4096)), ("zeros", (SIZE,)))
    )
    assert (
        all(abs(run.watts / limit - 1) < 0.015 for run in runs)
        and zeros[0].watts > 1.1 * zeros[1].watts
        and zeros[0].watts < 0.65 * limit
        and min(np.divide(*capped(run)) for run in zeros) > 0.95
    )
    turns, lines = both(*EQUAL[0])[:, 0], [seen(who) for who in (KERNEL, cublas.gemm_ex)]
    flat = [np.median(line[(line[:, 0] > 0.1) & (line[:, 0] < 0.7), 1]) for line in lines]
    late = [
        [line[np.argmax(off), 0] for off in (of[1] > 1.1 * of[1, 0], of[2] < 0.9 * of[2, 0])]
        for line in lines
        for of in [line.T]
    ]
    bursts = {
        (size, of): [sustained.of(who, size, of, "burst") for who in (KERNEL, cublas.gemm_ex)]
        for size, of in ((4096, "normal"), (SIZE, "normal"), (SIZE, "zeros"))
    }
    far, short = sorted(copy_engine.moves(SIZE).values()), bursts[SIZE, "zeros"]
    assert (
        all(np.ptp(run.samples.ms) < 0.01 * run.ms for (_, of), pair in bursts.items() for run in pair if of != "zeros")
        and short[0].cycles > short[1].cycles
        and flat[0] < flat[1]
        and abs(np.divide(*persistent.shares(persistent.HOPPER_WIDTHS[:1], [SIZE])[0, 0, ::-1]) - np.exp(far[0])) < 1e-9
    )
    told, pairs = files.load("clocks", files.Recording[clocks.Clocks]).points, twins()
    own = [each.own_mhz / each.nvml_mhz for each in told if each.kernel >= "14"]
    return {
        "card": card().name,
        "limit": f"{limit} W",
        "seconds": f"{settings['lasting_s']:g} s",
        "rest": f"{settings['rest']} s",
        "samples": f"{settings['samples']}",
        "turns 8192": f"{large[:3].min():.1f} to {large[:3].max():.1f}%",
        "turns 4096": f"{small[:3].min():.1f} to {small[:3].max():.1f}%",
        "others 4096": " and ".join(f"{of:.1f}%" for of in small[3:]),
        "others 8192": " and ".join(f"{of:.1f}%" for of in large[3:]),
        **{
            f"burst {size}": f"{100 * bursts[size, 'normal'][1].ms / bursts[size, 'normal'][0].ms:.1f}%"
            for size in alone
        },
        "burst clocks": " and ".join(f"{run.sm_mhz:,}" for run in short) + " MHz",
        "still ahead": f"{flat[1] / flat[0] - 1:.1%}",
        "far": f"{np.expm1(far[0]):+.1%}",
        "noise without": f"{copy_engine.STUDENT[len(far) - 2] * np.std(far[1:], ddof=1):.1%}",
        **{f"behind {size}": f"{100 - percent:.1f}%" for size, (percent, _) in alone.items()},
        **{f"alone {size}": f"{percent:.1f}%" for size, (percent, _) in alone.items()},
        **{f"error {size}": f"{wrong:.1f}" for size, (_, wrong) in alone.items()},
        "leads": f"{min(leads[:3]):.1f} to {max(leads[:3]):.1f}%",
        "small leads": f"{min(leads[3:]):.1f} to {max(leads[3:]):.1f}%",
        "slower": " and ".join(f"{of:.1f}%" for of in slower),
        "fewer": f"{fewer[0]:.1f}%",
        "zeros watts": " against ".join(f"{run.watts} W" for run in zeros),
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        **{f"flat {who}": f"{ms:.3f} ms" for who, ms in zip(("20", "cuBLAS"), flat, strict=True)},
        **{f"longer {who}": f"{by:.1%}" for who, by in zip(("20", "cuBLAS"), flat / turns - 1, strict=True)},
        "slows": f"{max(first for first, _ in late):.2f} s",
        "shows": " and ".join(f"{then:.2f}" for _, then in late[::-1]) + " s",
        "own": f"{min(own):.2f} to {max(own):.2f}",
        "cases": f"{len(own)}",
        "added": f"{large[3]:.1f}%",
        "two gpus": f"{large[4]:.1f}%",
        "count": f"{len(copy_engine.moves(4096))}",
        "noise 8192": f"{copy_engine.chance(SIZE):.1%}",
        "pairs": f"{len(pairs)}",
        "apart": f"{np.sqrt(np.mean(pairs[:, 0] ** 2)):.1%}",
        "beyond": {1: "One"}[np.count_nonzero(pairs[:, 0] > pairs[:, 1])],
    }
