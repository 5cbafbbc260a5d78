"""What the page on power and chance shows: 20 and cuBLAS by three protocols, two clocks, power caps, chance."""

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import clocks, profiles, sustained, two_gpus
from ..experiments.ceilings import card
from ..records import files
from ..variants import HOPPER_STEPS, HOPPER_WIDTHS
from . import copy_engine

CLOCKS = (("13", "normal"), ("16", "normal"), ("16", "zeros"), ("20", "normal"), ("20", "zeros"), ("21", "normal"))
"""Kernels and inputs of which `clocks_table` has the clocks."""

KERNEL, SIZE = find("20"), 8192
"""Of which the page asks whether it beats cuBLAS, and at which M = N = K."""
LIMITED = tuple((who, inputs) for inputs in ("normal", "zeros") for who in (KERNEL, cublas.gemm_ex, find("16")))
"""Kernels and inputs of which `reasons_table` has what NVML says of the clock."""
POWER_CAP = 4
"""The bit of ``nvmlClocksEventReasonSwPowerCap`` in `Sustained.reasons`."""
NAMES = {"normal": "random", "zeros": "zeros"}
RUNS = [(inputs, how) for inputs in ("normal", "zeros") for how in ("in turns", "lasting", "burst")]


def both(inputs: str, protocol: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return milliseconds and NVML's MHz of `KERNEL` at `SIZE`, and of cuBLAS."""
    ours = sustained.of(KERNEL, SIZE, inputs, protocol)
    if protocol == "in turns":
        return (ours.ms, ours.sm_mhz), (np.median(ours.cublas.ms), np.median(ours.cublas.sm_mhz))
    theirs = sustained.of(cublas.gemm_ex, SIZE, inputs, protocol)
    return (ours.ms, ours.sm_mhz), (theirs.ms, theirs.sm_mhz)


def spread(who: Kernel | cublas.Gemm, inputs: str) -> str:
    """Return the 10th and the 90th percentile of milliseconds in the second half of a lasting run at `SIZE`."""
    ms = sustained.of(who, SIZE, inputs).samples.ms
    return "{:.3f}–{:.3f}".format(*np.percentile(ms[len(ms) // 2 :], (10, 90)))


def protocols_table() -> Table:
    """Return what 20 and cuBLAS take by each protocol, on random numbers and on zeros."""
    rows = []
    for inputs, how in RUNS:
        pair = both(inputs, how)
        told = [f"{ms:.3f} ms" for ms, _ in pair]
        if how == "lasting":
            told = [f"{ms}, {spread(who, inputs)}" for ms, who in zip(told, (KERNEL, cublas.gemm_ex), strict=True)]
        rows.append((f"{NAMES[inputs]}, {how}", *told, f"{pair[1][0] / pair[0][0]:.1%}"))
    return Table(
        ("A and B, protocol", "20", "cuBLAS", "share of 20"),
        rows,
        f"M = N = K = {SIZE}, {card().name}",
        "Medians. In lasting runs also from the 10th to the 90th percentile of the second half.",
    )


def in_turns(kernel: Kernel, size: int = SIZE) -> float:
    """Return a kernel's share of cuBLAS's speed in turns on random numbers."""
    theirs = sustained.cublas_ms(kernel, size, "normal", "in turns")
    return theirs / sustained.of(kernel, size, "normal", "in turns").ms


def capped(run: sustained.Sustained) -> tuple[int, int]:
    """Return in how many samples of a run NVML names a power cap as a reason for the clock, and how many there are."""
    return sum(bool(reasons & POWER_CAP) for reasons in run.reasons), len(run.reasons)


def reasons_table() -> Table:
    """Return the power and the clock of the lasting runs of `LIMITED`, and in how many samples NVML names a cap."""
    rows = []
    for who, inputs in LIMITED:
        run = sustained.of(who, SIZE, inputs)
        name = "cuBLAS" if who is cublas.gemm_ex else run.kernel
        rows.append((name, NAMES[inputs], run.watts, f"{run.sm_mhz:,}", "{} of {}".format(*capped(run))))
    return Table(
        ("kernel", "A and B", "watts", "NVML's MHz", "samples with a power cap"),
        rows,
        f"Lasting runs, M = N = K = {SIZE}, {card().name}",
        "Watts and MHz: medians of the second half.",
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


def by_nvml(of: clocks.Clocks) -> float:
    """Return the multiprocessors' own clock in a lasting run as a fraction of NVML's."""
    return of.own_mhz / of.nvml_mhz


def on_tensor_cores() -> list[clocks.Clocks]:
    """Return the recorded clocks of all kernels that use tensor cores."""
    points = files.load("clocks", files.Recording[clocks.Clocks]).points
    return [of for of in points if of.kernel >= "14"]


def clocks_table() -> Table:
    """Return the multiprocessors' own clock beside NVML's for `CLOCKS`."""
    rows = []
    for name, inputs in CLOCKS:
        of = clocks.of(find(name), inputs=inputs)
        clock = f"{of.nvml_mhz:,}", f"{of.own_mhz:,}", f"{by_nvml(of):.1%}"
        rows.append((of.kernel, NAMES[inputs], of.watts, *clock))
    heads = ("kernel", "A and B", "watts", "NVML's MHz", "SMs' own MHz", "own / NVML's")
    return Table(heads, rows, f"Two clocks in runs of {clocks.SECONDS} s, M = N = K = 4096, {card().name}")


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    runs = {run: both(*run) for run in RUNS}
    shares = {run: theirs[0] / ours[0] for run, (ours, theirs) in runs.items()}
    alike = [shares[run] for run in (("normal", "in turns"), ("zeros", "in turns"), ("zeros", "lasting"))]
    zeros = {name: sustained.of(each, SIZE, "zeros") for name, each in (("20", KERNEL), ("cuBLAS", cublas.gemm_ex))}
    (ms, clock), (_, their_clock) = runs["normal", "lasting"]
    told = [sustained.of(who, SIZE, inputs, "burst").sm_mhz for inputs in NAMES for who in (KERNEL, cublas.gemm_ex)]
    lowers = [1 - by_nvml(of) for of in on_tensor_cores()]
    leads = [at_8192 - 100 for _, at_8192 in list(repeats().values())[:3]]
    (plain,) = (step for step in HOPPER_STEPS if step.label == "persistent")
    before, after = (copy_engine.timed(plain, 4096, name).percent_of_cublas for name in copy_engine.TWICE)
    long, long_cublas = sustained.of(KERNEL), sustained.of(cublas.gemm_ex)
    of = {how: f"{shares['normal', how]:.1%}" for _, how in RUNS[:3]}
    of |= {f"zeros {name}": f"{run.watts:.0f} W" for name, run in zeros.items()}
    of |= {
        f"twins {name}": " and ".join(
            f"{copy_engine.timed(each, SIZE, name).percent_of_cublas:.1f}%" for each in (KERNEL, HOPPER_WIDTHS[1])
        )
        for name in copy_engine.TWICE
    }
    apart = [two_gpus.of(who, SIZE).ms for who in (KERNEL, cublas.gemm_ex)]
    watts = [sustained.of(who, SIZE, inputs, "burst").watts for inputs in NAMES for who in (KERNEL, cublas.gemm_ex)]
    over = sum(lead > 100 * copy_engine.chance(SIZE) for lead in leads)
    return of | {
        "card": card().name,
        "limit": f"{limit}",
        "top": f"{card().boost_mhz:,} MHz",
        "rest": f"{settings['rest']}",
        "seconds": f"{settings['lasting_s']:g}",
        "chunks": f"{settings['chunks']}",
        "bursts": {2: "twice"}[settings["bursts"]],
        "slowest": f"{2 * SIZE**3 / ms / 1e9:.0f}",
        "fastest": f"{2 * SIZE**3 / runs['zeros', 'burst'][0][0] / 1e9:.0f}",
        "zeros clock": f"{zeros['20'].sm_mhz:,} MHz",
        "clock 20": f"{clock:,.0f} MHz",
        "clock cublas": f"{their_clock:,.0f} MHz",
        "zeros burst": f"{shares['zeros', 'burst']:.1%}",
        "alike": f"{min(alike):.1%} to {max(alike):.1%}",
        "least told": f"{min(told):,} MHz",
        "burst watts": f"{max(watts)} W",
        "two gpus": "{:.3f} ms of 20 and {:.3f} ms of cuBLAS".format(*apart),
        "leads over noise": {1: "one", 2: "two", 3: "three"}[over],
        "least lead": f"{min(leads):.1f}",
        "most lead": f"{max(leads):.1f} points",
        "lasting 4096": f"{long_cublas.ms / long.ms:.1%}",
        "count": f"{len(copy_engine.moves(4096))}",
        "t": f"{copy_engine.STUDENT[len(copy_engine.moves(4096)) - 1]}",
        "spread of moves": f"{np.std(list(copy_engine.moves(4096).values()), ddof=1):.2%}",
        "moved from": f"{before:.1f}%",
        "moved to": f"{after:.1f}%",
        "moved by": f"{after / before - 1:+.1%}",
        "noise 8192": f"{copy_engine.chance(SIZE):.1%}",
        "without": f"{copy_engine.chance(SIZE, far=1):.1%}",
        "least lower": f"{min(lowers):.1%}",
        "most lower": f"{max(lowers):.1%}",
        "by nvml": f"{long.cycles:,.0f}",
        "by nsight": f"{profiles.measured(KERNEL)['SM cycles']:,}",
    }
