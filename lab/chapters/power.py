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
from ..variants import HOPPER_STEPS, HOPPER_WIDTHS
from . import copy_engine

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
        share = pair[1][0] / pair[0][0]
        rows.append((f"{NAMES[inputs]}, {how}", ms, f"{share:.1%}", mhz, "late" if how == "burst" else watts))
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


def in_turns(kernel: Kernel, size: int = SIZE) -> float:
    """Return a kernel's share of cuBLAS's speed in turns on random numbers."""
    theirs = sustained.cublas_ms(kernel, size, "normal", "in turns")
    return theirs / sustained.of(kernel, size, "normal", "in turns").ms


def capped(run: sustained.Sustained) -> tuple[int, int]:
    """Return in how many samples of a run NVML names a power cap as a reason for the clock, and how many there are."""
    return sum(bool(reasons & POWER_CAP) for reasons in run.reasons), len(run.reasons)


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
    under = {"added": "the same with β = 1, so C is read", "two_gpus": "alternates with products on two GPUs, too"}
    return Table(
        ("recording", "4096", "8192", "conditions"),
        [
            (name, *(f"{share:.1f}%" for share in shares), under.get(name, "alternates with cuBLAS, β = 0"))
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


def recording() -> files.Recording[sustained.Sustained]:
    """Return all that was recorded on the shown card, with its power limit in the provenance."""
    return files.load("sustained", files.Recording[sustained.Sustained])


def lead_noise(size: int = SIZE) -> float:
    """Return by what fraction a share of a recording may be off by chance, at M = N = K = `size`.

    A move is the difference of two such errors, what all shares of a recording have in common among them.
    """
    moved = np.array(list(copy_engine.moves(size).values()))
    return float(copy_engine.STUDENT[len(moved)] * np.sqrt(np.mean(moved**2) / 2))


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    limit, settings = recording().provenance["power_limit_watts"], recording().settings
    runs = {run: both(*run) for run in RUNS}
    shares = {run: theirs[0] / ours[0] for run, (ours, theirs) in runs.items()}
    shared = [RUNS[0], *RUNS[3:5]]  # both kernels have one clock
    alike, bursts = [shares[run] for run in shared], [runs[inputs, "burst"][0] for inputs in NAMES]
    assert max(alike) - min(alike) < 0.002 and all(runs[run][0][1] == runs[run][1][1] for run in shared)
    assert abs(bursts[0][1] / bursts[1][1] - 1) < 0.01 and bursts[0][0] / bursts[1][0] > 1.15
    lasting, zeros = ([sustained.of(who, SIZE, of) for who in (KERNEL, cublas.gemm_ex)] for of in NAMES)
    cycles = [run.ms * run.sm_mhz for run in lasting]
    assert all(abs(run.joules / run.ms * 1e3 / limit - 1) < 0.015 for run in lasting) and cycles[0] < cycles[1]
    lowers = [1 - by_nvml(of) for of in on_tensor_cores()]
    assert min(lowers) > 0.08 and runs[RUNS[0]][0][2] > limit > zeros[0].watts + 200 > zeros[1].watts + 200
    noise, leads = 100 * lead_noise(), [at_8192 - 100 for _, at_8192 in list(repeats().values())[:3]]
    assert min(leads) > 0 and sum(lead > noise for lead in leads) == 2 and np.mean(leads) > noise / np.sqrt(3)
    before, after = (copy_engine.timed(HOPPER_STEPS[0], 4096, name).percent_of_cublas for name in copy_engine.TWICE)
    own = clocks.of(KERNEL)
    return {
        **{how: f"{shares['normal', how]:.1%}" for _, how in RUNS[:3]},
        **{
            f"twins {name}": " and ".join(
                f"{copy_engine.timed(each, SIZE, name).percent_of_cublas:.1f}%" for each in (KERNEL, HOPPER_WIDTHS[1])
            )
            for name in copy_engine.TWICE
        },
        "twins 3072": " and ".join(
            f"{copy_engine.timed(each, 3072, 'hopper_again').percent_of_cublas:.1f}%"
            for each in (KERNEL, HOPPER_WIDTHS[3])
        ),
        "card": card().name,
        "limit": f"{limit} W",
        "rest": f"{settings['rest']}",
        "seconds": f"{settings['lasting_s']:g}",
        "chunks": f"{settings['chunks']}",
        "bursts": {2: "twice"}[settings["bursts"]],
        "samples": f"{settings['samples']}",
        "slowest": f"{2 * SIZE**3 / lasting[0].ms / 1e9:.0f}",
        "fastest": f"{2 * SIZE**3 / bursts[1][0] / 1e9:.0f}",
        "alike": f"{min(alike):.1%} to {max(alike):.1%}",
        "turns more": f"{shares[RUNS[0]] - 1:.1%}",
        "joules": " against ".join(f"{run.joules:.3f} J" for run in lasting),
        "joules more": f"{lasting[0].joules / lasting[1].joules - 1:.1%}",
        "by joules": f"{lasting[1].joules / lasting[0].joules:.1%}",
        "product 20": f"{lasting[0].ms:.3f} ms · {lasting[0].sm_mhz:,} MHz",
        "product cublas": f"{lasting[1].ms:.3f} ms · {lasting[1].sm_mhz:,} MHz",
        "more cycles": f"{cycles[1] / cycles[0] - 1:.1%}",
        "lower clock": f"{1 - lasting[0].sm_mhz / lasting[1].sm_mhz:.1%}",
        "turns watts": f"{runs['normal', 'in turns'][0][2]:.0f} W",
        "zeros watts": " and ".join(f"{run.watts} W" for run in zeros),
        "zeros clock": f"{zeros[0].sm_mhz:,} MHz",
        "zeros capped": "{} of {}".format(*capped(zeros[0])),
        "zeros burst": f"{shares['zeros', 'burst']:.1%}",
        "burst ms": " and ".join(f"{run[0]:.3f} ms" for run in bursts),
        "burst clocks": " and ".join(f"{run[1]:,} MHz" for run in bursts),
        "burst watts": f"{bursts[0][2]} W",
        "burst jump": f"{max(sustained.of(cublas.gemm_ex, SIZE, 'normal', 'burst').samples.watts):.0f} W",
        "burst longer": f"{bursts[0][0] / bursts[1][0] - 1:.0%}",
        "own 20": f"{own.own_mhz:,} MHz",
        "told 20": f"{own.nvml_mhz:,} MHz",
        "least lower": f"{100 * min(lowers):.0f}",
        "most lower": f"{max(lowers):.0%}",
        "leads": ", ".join(f"{lead:.1f}" for lead in leads),
        "lead noise": f"{noise:.1f}%",
        "mean lead": f"{np.mean(leads):.1f}%",
        "mean noise": f"{noise / np.sqrt(3):.1f}%",
        "lasting 4096": f"{sustained.of(cublas.gemm_ex).ms / sustained.of(KERNEL).ms:.1%}",
        "count": f"{len(copy_engine.moves(4096))}",
        "moved from": f"{before:.1f}%",
        "moved to": f"{after:.1f}%",
        "moved by": f"{after / before - 1:+.1%}",
        "noise 8192": f"{copy_engine.chance(SIZE):.1%}",
        "noise 3072": f"{copy_engine.chance(3072):.1%}",
        "without": f"{copy_engine.chance(SIZE, far=1):.1%}",
    }
