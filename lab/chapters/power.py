"""What the page on power and chance shows: 20 and cuBLAS by three protocols, their energy and clocks, and chance."""

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
Means = tuple[float, float, float]
NAMES = {"normal": "random", "zeros": "zeros"}
RUNS = [(inputs, how) for inputs in ("normal", "zeros") for how in ("in turns", "lasting", "burst")]


def both(inputs: str, protocol: str) -> tuple[Means, Means]:
    """Return medians of milliseconds, NVML's MHz and watts of `KERNEL` at `SIZE`, and those of cuBLAS."""
    ours = sustained.of(KERNEL, SIZE, inputs, protocol)
    if protocol == "in turns":
        beside = (ours.cublas.ms, ours.cublas.sm_mhz, ours.cublas.watts)
        return (ours.ms, ours.sm_mhz, ours.watts), tuple(map(np.median, beside))
    theirs = sustained.of(cublas.gemm_ex, SIZE, inputs, protocol)
    return (ours.ms, ours.sm_mhz, ours.watts), (theirs.ms, theirs.sm_mhz, theirs.watts)


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take by each protocol, on random numbers and on zeros, and what NVML tells then."""
    rows = []
    for inputs, how in RUNS:
        pair = both(inputs, how)
        ms, mhz, watts = (
            f"{ours:{form}} | {theirs:{form}}" for ours, theirs, form in zip(*pair, (".3f", ",.0f", ".0f"), strict=True)
        )
        rows.append(
            (f"{NAMES[inputs]}, {how}", ms, f"{pair[1][0] / pair[0][0]:.1%}", mhz, "late" if how == "burst" else watts)
        )
    return Table(
        ("A and B, protocol", "ms: 20 | cuBLAS", "share of 20", "NVML's MHz", "NVML's watts"),
        rows,
        f"M = N = K = {SIZE}, {card().name}",
        "Medians of 20 | of cuBLAS; in lasting runs, of the second half. Late: the sensor shows what was before.",
    )


def course() -> Figure:
    """Draw milliseconds of a launch in the course of the lasting runs on random numbers, of 20 and of cuBLAS."""
    seconds = recording().settings["lasting_s"]
    names, title = ("20", "cuBLAS"), f"Lasting runs on random numbers, M = N = K = {SIZE}"
    chart = Chart(title, (0, seconds), (1.4, 2.4), names, "seconds", "ms of a launch", size=(WIDTH, 300))
    chart.ticks(range(int(seconds) + 1), (1.4, 1.6, 1.8, 2, 2.2, 2.4))
    for name, who, colour in zip(names, (KERNEL, cublas.gemm_ex), (BLUE, ORANGE), strict=True):
        ms = np.array(sustained.of(who, SIZE).samples.ms)
        line = np.stack((seconds * np.cumsum(ms) / ms.sum(), ms), axis=1).tolist()
        chart.line(line, colour, wide=1.2)
        chart.curve(name, line[-1:], colour)
    return chart.finish(
        f"{title}, ms of a launch. Both begin at 1.4 to 1.5, come to about 1.7 within a tenth of a second, and after "
        "0.7 seconds swing between 1.7 and 1.9, with single peaks above 2."
    )


def capped(run: sustained.Sustained) -> tuple[int, int]:
    """Return in how many samples of a run NVML names a power cap as a reason for the clock, and how many there are."""
    return sum(bool(reasons & POWER_CAP) for reasons in run.reasons), len(run.reasons)


def repeats() -> dict[str, list[float]]:
    """Return the shares of 20 in turns in % at 4096 and at 8192, by recording: the first three alike, then others."""
    sizes, how = (4096, SIZE), ("normal", "in turns")
    return {
        "sustained": [
            100 * sustained.cublas_ms(KERNEL, size, *how) / sustained.of(KERNEL, size, *how).ms for size in sizes
        ],
        **{
            name: [copy_engine.timed(KERNEL, size, name).percent_of_cublas for size in sizes]
            for name in (*copy_engine.TWICE, "added")
        },
        "two_gpus": [100 * two_gpus.of(cublas.gemm_ex, size).ms / two_gpus.of(KERNEL, size).ms for size in sizes],
    }


def repeats_table() -> Table:
    """Return `repeats`, and the conditions of each."""
    under = {"added": "the same with β = 1, so C is read", "two_gpus": "alternates with products on two GPUs, too"}
    return Table(
        ("recording", "4096", "8192", "conditions"),
        [
            (name, *(f"{share:.1f}%" for share in shares), under.get(name, "alternates with cuBLAS, β = 0"))
            for name, shares in repeats().items()
        ],
        f"Share of cuBLAS's speed in turns, {card().name}",
    )


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def settled(who: Kernel | cublas.Gemm) -> tuple[float, float]:
    """Return mean ms in the second half of a lasting run on random numbers, and its error, from means of 8 parts."""
    ms = np.array(sustained.of(who, SIZE).samples.ms)
    parts = [part.mean() for part in np.array_split(ms[len(ms) // 2 :], 8)]
    return float(np.mean(parts)), float(np.std(parts, ddof=1) / np.sqrt(8))


def plateau(who: Kernel | cublas.Gemm) -> tuple[float, float]:
    """Return medians of ms and of watts from 0.1 to 0.7 s of a lasting run on random numbers."""
    seen = sustained.of(who, SIZE).samples
    seconds = recording().settings["lasting_s"] * np.cumsum(seen.ms) / np.sum(seen.ms)
    at = (seconds > 0.1) & (seconds < 0.7)
    return float(np.median(np.array(seen.ms)[at])), float(np.median(np.array(seen.watts)[at]))


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
    runs = {run: both(*run) for run in RUNS}
    shares = {run: theirs[0] / ours[0] for run, (ours, theirs) in runs.items()}
    bursts = [runs[inputs, "burst"][0] for inputs in NAMES]
    assert abs(bursts[0][1] / bursts[1][1] - 1) < 0.01 and bursts[0][0] / bursts[1][0] > 1.15
    lasting, zeros = ([sustained.of(who, SIZE, of) for who in (KERNEL, cublas.gemm_ex)] for of in NAMES)
    assert (
        all(abs(run.joules / run.ms * 1e3 / limit - 1) < 0.015 for run in lasting)
        and zeros[0].sm_mhz == zeros[1].sm_mhz
        and zeros[0].ms < zeros[1].ms
        and zeros[0].watts < limit - 200
    )
    means, flat = ([of(who) for who in (KERNEL, cublas.gemm_ex)] for of in (settled, plateau))
    mean = means[1][0] / means[0][0]
    error = mean * np.hypot(*(wrong / ms for ms, wrong in means))
    spent = [ms * watts for ms, watts in flat]
    assert 0.5 * error < 1 - mean < 2 * error and flat[0][0] < flat[1][0] and spent[0] > 1.01 * spent[1]
    in_bursts = [capped(sustained.of(who, SIZE, "zeros", "burst")) for who in (KERNEL, cublas.gemm_ex)]
    assert in_bursts == [(0, 16), (16, 16)]
    all_of, own, pairs = [share for _, share in repeats().values()], clocks.of(KERNEL, SIZE), twins()
    assert min(all_of[:3]) > 101 and max(all_of[3:]) < 100 and 1 - own.own_mhz / own.nvml_mhz > 0.09
    assert len(set(sustained.of(KERNEL, SIZE, "normal", "in turns").samples.sm_mhz)) == 3
    return {
        **{how: f"{shares['normal', how]:.1%}" for _, how in RUNS[:3]},
        "range": ", ".join(f"{share:.1f}" for share in sorted(all_of, reverse=True)),
        "card": card().name,
        "limit": f"{limit} W",
        "rest": f"{settings['rest']}",
        "seconds": f"{settings['lasting_s']:g}",
        "chunks": f"{settings['chunks']}",
        "bursts": {2: "twice"}[settings["bursts"]],
        "samples": f"{settings['samples']}",
        "slowest": f"{2 * SIZE**3 / lasting[0].ms / 1e9:.0f}",
        "fastest": f"{2 * SIZE**3 / bursts[1][0] / 1e9:.0f}",
        "flat ms": " against ".join(f"{ms:.3f}" for ms, _ in flat),
        "flat watts": " against ".join(f"{watts:.0f} W" for _, watts in flat),
        "flat faster": f"{flat[1][0] / flat[0][0] - 1:.1%}",
        "flat joules": f"{spent[0] / spent[1] - 1:.1%}",
        "mean": f"{mean:.1%}",
        "error": f"{100 * error:.1f}",
        "joules": " against ".join(f"{run.joules:.3f} J" for run in lasting),
        "counter watts": " and ".join(f"{run.joules / run.ms * 1e3:.0f}" for run in lasting),
        "told watts": " and ".join(f"{run.watts}" for run in lasting),
        "zeros watts": " against ".join(f"{run.watts} W" for run in zeros),
        "zeros more": f"{zeros[0].joules / zeros[1].joules - 1:.0%}",
        "zeros faster": f"{zeros[1].ms / zeros[0].ms - 1:.1%}",
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "burst longer": f"{bursts[0][0] / bursts[1][0] - 1:.0%}",
        "burst clocks": " and ".join(f"{run[1]:,} MHz" for run in bursts),
        "own 20": f"{own.own_mhz:,} MHz",
        "told 20": f"{own.nvml_mhz:,} MHz",
        "lasting 4096": f"{sustained.of(cublas.gemm_ex).ms / sustained.of(KERNEL).ms:.1%}",
        "count": f"{len(copy_engine.moves(4096))}",
        "noise 8192": f"{copy_engine.chance(SIZE):.1%}",
        "pairs": f"{len(pairs)}",
        "apart": f"{np.sqrt(np.mean(pairs[:, 0] ** 2)):.1%}",
        "beyond": {1: "One"}[np.count_nonzero(pairs[:, 0] > pairs[:, 1])],
    }
