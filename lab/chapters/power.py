"""What the page on power and chance shows: 20 and cuBLAS by three protocols, two clocks, the power limit, chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.chart import Chart, dye
from ..draw.figure import BLUE, INK, ORANGE, Figure
from ..experiments import clocks, profiles, sustained, two_gpus
from ..experiments.ceilings import card
from ..records import files
from ..variants import HOPPER_STEPS
from . import copy_engine

STEADY, LATER = (0.4, 0.8), (0.8, 1.4)
"""Seconds of a lasting run, before and after its first slow spell begins, if it has any."""
CLOCKS = (("13", "normal"), ("16", "normal"), ("16", "zeros"), ("20", "normal"), ("20", "zeros"), ("21", "normal"))
"""Kernels and inputs of which `clocks_table` has the clocks."""

KERNEL, SIZE = find("20"), 8192
"""Of which the page asks whether it beats cuBLAS, and at which M = N = K."""
COMPARED = tuple(map(find, ("20", "16", "21", "13")))
"""Kernels whose shares in turns are predicted from lasting runs on zeros."""
NAMES = {"normal": "random", "zeros": "zeros"}
RUNS = [(inputs, how) for inputs in ("normal", "zeros") for how in ("in turns", "lasting", "burst")]


def both(inputs: str, protocol: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return milliseconds and NVML's MHz of `KERNEL` at `SIZE`, and of cuBLAS."""
    ours = sustained.of(KERNEL, SIZE, inputs, protocol)
    if protocol == "in turns":
        return (ours.ms, ours.sm_mhz), (np.median(ours.cublas.ms), np.median(ours.cublas.sm_mhz))
    theirs = sustained.of(cublas.gemm_ex, SIZE, inputs, protocol)
    return (ours.ms, ours.sm_mhz), (theirs.ms, theirs.sm_mhz)


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take by each protocol, on random numbers and on zeros."""
    rows = []
    for inputs, how in RUNS:
        pair = both(inputs, how)
        told = [f"{ms:.4f} ms" + f" at {mhz:,.0f} MHz" * (how != "burst") for ms, mhz in pair]
        rows.append((f"{NAMES[inputs]}, {how}", *told, f"{pair[1][0] / pair[0][0]:.1%}"))
    return Table(
        ("A and B, protocol", "20", "cuBLAS", "share of 20"),
        rows,
        f"M = N = K = {SIZE}, {card().name}",
        "Medians. MHz by NVML, which is too slow for the clock of a burst. In turns it can't tell the two apart.",
    )


def by_cycles(kernel: Kernel, size: int = SIZE) -> float:
    """Return a kernel's share of cuBLAS's speed by milliseconds times NVML's MHz, in lasting runs on zeros."""
    theirs = sustained.of(sustained.ROUTINES[kernel.types.name], size, "zeros")
    return theirs.cycles / sustained.of(kernel, size, "zeros").cycles


def in_turns(kernel: Kernel, size: int = SIZE) -> float:
    """Return a kernel's share of cuBLAS's speed in turns on random numbers."""
    theirs = sustained.cublas_ms(kernel, size, "normal", "in turns")
    return theirs / sustained.of(kernel, size, "normal", "in turns").ms


def predictions_table() -> Table:
    """Return the shares in turns of `COMPARED`, as predicted by NVML cycles and as measured."""
    return Table(
        ("kernel", "predicted by NVML cycles", "measured in turns"),
        [(each.name, f"{by_cycles(each):.1%}", f"{in_turns(each):.1%}") for each in COMPARED],
        f"Share of cuBLAS's speed at {SIZE}, {card().name}",
    )


def repeats() -> dict[str, list[float]]:
    """Return the shares of 20 in turns in % at 4096 and at 8192, by recording: the first three alike, then others."""
    sizes = (4096, SIZE)
    timed = copy_engine.timed
    alike = {"sustained": [100 * in_turns(KERNEL, size) for size in sizes]}
    alike |= {
        name: [timed(KERNEL, size, name).percent_of_cublas for size in sizes] for name in (*copy_engine.TWICE, "added")
    }
    return alike | {
        "two_gpus": [100 * two_gpus.of(cublas.gemm_ex, size).ms / two_gpus.of(KERNEL, size).ms for size in sizes]
    }


def repeats_table() -> Table:
    """Return `repeats`, and the conditions of each."""
    under = {"added": "β = 1, so they read C as well", "two_gpus": "alternates with products on two GPUs as well"}
    return Table(
        ("recording", "4096", "8192", "conditions"),
        [
            (name, *(f"{share:.1f}%" for share in shares), under.get(name, "with cuBLAS alone, β = 0"))
            for name, shares in repeats().items()
        ],
        f"Share of cuBLAS's speed in turns, {card().name}",
    )


def lower(name: str, inputs: str) -> float:
    """Return by what fraction the multiprocessors' own clock is below NVML's, in a lasting run of a kernel at 4096."""
    of = clocks.of(find(name), inputs=inputs)
    return 1 - of.own_mhz / of.nvml_mhz


def clocks_table() -> Table:
    """Return the multiprocessors' own clock beside NVML's for `CLOCKS`."""
    rows = []
    for name, inputs in CLOCKS:
        of = clocks.of(find(name), inputs=inputs)
        clock = f"{of.nvml_mhz:,}", f"{of.own_mhz:,}", f"{lower(name, inputs):.1%}"
        rows.append((of.kernel, NAMES[inputs], of.watts, *clock))
    heads = ("kernel", "A and B", "watts", "NVML's MHz", "SMs' own MHz", "lower by")
    return Table(heads, rows, f"Two clocks in lasting runs, M = N = K = 4096, {card().name}")


def seconds(run: sustained.Sustained) -> np.ndarray:
    """Return when each sample of a lasting run ended: the whole run takes `sustained.SECONDS`."""
    ends = np.cumsum(run.samples.ms)
    return sustained.SECONDS * ends / ends[-1]


def parts(run: sustained.Sustained) -> tuple[np.ndarray, np.ndarray]:
    """Return which samples of a lasting run end while `STEADY`, and which `LATER`."""
    ends = seconds(run)
    steady, later = ((ends > begin) & (ends <= end) for begin, end in (STEADY, LATER))
    return steady, later


def slowing(run: sustained.Sustained) -> tuple[float, float]:
    """Return a lasting run's median watts while `STEADY`, and by what fraction its times are longer `LATER`.

    That is the worst median of five neighbouring samples, so that a single slow one doesn't count.
    """
    ms, (steady, later) = np.array(run.samples.ms), parts(run)
    worst = max(map(np.median, np.lib.stride_tricks.sliding_window_view(ms[later], 5)))
    return float(np.median(np.array(run.samples.watts)[steady])), float(worst / np.median(ms[steady]) - 1)


def rise(run: sustained.Sustained) -> float:
    """Return by what fraction the median of a lasting run's times is higher `LATER` than while `STEADY`."""
    ms, (steady, later) = np.array(run.samples.ms), parts(run)
    return float(np.median(ms[later]) / np.median(ms[steady]) - 1)


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def lasting() -> dict[sustained.Sustained, tuple[float, float]]:
    """Return all lasting runs, each with its `slowing`."""
    return {run: slowing(run) for run in recording().points if run.protocol == "lasting"}


def slowed() -> Figure:
    """Draw for every lasting run how much it slows down after 0.8 s, against the power that it drew before."""
    runs, limit = lasting(), recording().provenance["power_limit_watts"]
    chart = Chart(
        "Which lasting runs slow down after 0.8 s",
        (300, 780),
        (0, 50),
        across="median of the sensor's watts, 0.4 to 0.8 s",
        up="% longer than then, at the worst, 0.8 to 1.4 s",
        notes=[f"Blue: tensor cores. Orange: FP32 units. Dashed: the limit, {limit} W.", card().name],
    )
    chart.ticks(range(300, 781, 60), range(0, 51, 10))
    chart.line([(limit, 0), (limit, 50)], INK, (6, 2), 1)
    for run, (watts, longer) in runs.items():
        colour = ORANGE if run.kernel in ("13_autotuned", "sgemm") else BLUE
        chart.axes.plot(watts, 100 * longer, "o", color=dye(colour), markersize=6, alpha=0.7, clip_on=False)
    return chart.finish(
        f"Points for {len(runs)} lasting runs. Only those that drew "
        f"{min(watts for watts, longer in runs.values() if longer > 0.04):.0f} W or more slow down by over 4%."
    )


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    slowings = lasting().values()
    over, under = ([longer for watts, longer in slowings if (watts > limit) == above] for above in (True, False))
    runs = {run: both(*run) for run in RUNS}
    shares = {run: theirs[0] / ours[0] for run, (ours, theirs) in runs.items()}
    first = {name: sustained.of(KERNEL, SIZE, inputs).samples for inputs, name in NAMES.items()}
    zeros = {name: sustained.of(each, SIZE, "zeros") for name, each in (("20", KERNEL), ("cuBLAS", cublas.gemm_ex))}
    (ms, clock), (_, their_clock) = runs["normal", "lasting"]
    turns = sustained.of(KERNEL, SIZE, "normal", "in turns")
    watts = (*turns.samples.watts, *turns.cublas.watts)
    misses = [abs(by_cycles(each, size) / in_turns(each, size) - 1) for each in COMPARED for size in (4096, SIZE)]
    lowers = [lower(*each) for each in CLOCKS[1:]]
    leads = [at_8192 - 100 for _, at_8192 in list(repeats().values())[:3]]
    (plain,) = (step for step in HOPPER_STEPS if step.label == "persistent")
    before, after = (copy_engine.timed(plain, 4096, name).percent_of_cublas for name in copy_engine.TWICE)
    long, long_cublas = sustained.of(KERNEL), sustained.of(cublas.gemm_ex)
    of = {how: f"{shares['normal', how]:.1%}" for _, how in RUNS[:3]}
    of |= {f"zeros {name}": f"{run.watts:.0f} W" for name, run in zeros.items()}
    of |= {f"first {name}": f"{samples.ms[0]:.2f} ms" for name, samples in first.items()}
    of |= {f"then {name}": f"{np.median(samples.ms[15:50]):.2f} ms" for name, samples in first.items()}
    of |= {f"rise {run.kernel}": f"{rise(run):.1%}" for run in map(sustained.of, (KERNEL, cublas.gemm_ex), 2 * [SIZE])}
    of |= {
        f"beside {each.name[:2]}": f"{sustained.cublas_ms(each, SIZE, 'normal', 'in turns'):.1f} ms"
        for each in COMPARED[2:]
    }
    return of | {
        "card": card().name,
        "limit": f"{limit}",
        "top": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']}",
        "seconds": f"{settings['lasting_s']:g}",
        "chunks": f"{settings['chunks']}",
        "bursts": {2: "twice"}[settings["bursts"]],
        "warm": f"{max(settings['warm_s']):g}",
        "sampled": f"{settings['seconds']:g}",
        "slowest": f"{2 * SIZE**3 / ms / 1e9:.0f}",
        "fastest": f"{2 * SIZE**3 / runs['zeros', 'burst'][0][0] / 1e9:.0f}",
        "worst": f"{max(misses):.1%}",
        "zeros clock": f"{zeros['20'].sm_mhz:,} MHz",
        "by cycles": f"{by_cycles(KERNEL):.1%}",
        "clock 20": f"{clock:,.0f} MHz",
        "clock cublas": f"{their_clock:,.0f} MHz",
        "lasting expected": f"{by_cycles(KERNEL):.1%} · {clock:,.0f} / {their_clock:,.0f} = "
        f"{by_cycles(KERNEL) * clock / their_clock:.1%}",
        "zeros burst": f"{shares['zeros', 'burst']:.1%}",
        "most zeros": f"{-(-max(first['zeros'].watts) // 10) * 10}",
        "peak": f"{max(first['random'].watts)} W",
        "turns watts": f"{min(watts):.0f} to {max(watts):.0f} W",
        "over": f"{len(over)}",
        "under": f"{len(under)}",
        "least slow": f"{min(over):.1%}",
        "most slow": f"{max(under):.1%}",
        "least lead": f"{min(leads):.1f}",
        "most lead": f"{max(leads):.1f} points",
        "lasting 4096": f"{long_cublas.ms / long.ms:.1%}",
        "count": f"{len(copy_engine.moves(4096))}",
        "moved from": f"{before:.1f}%",
        "moved to": f"{after:.1f}%",
        "moved by": f"{after / before - 1:+.1%}",
        "noise 8192": f"{copy_engine.chance(SIZE):.1%}",
        "least lower": f"{min(lowers):.1%}",
        "most lower": f"{max(lowers):.1%}",
        "by nvml": f"{long.cycles:,.0f}",
        "by nsight": f"{profiles.measured(KERNEL)['SM cycles']:,}",
        "by own": f"{long.ms * 1e3 * clocks.of(KERNEL).own_mhz:,.0f}",
    }
