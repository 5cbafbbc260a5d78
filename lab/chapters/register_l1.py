"""Chapter 22: lpha-z's nine steps, theirs and ours, and the figures in its sentences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card, load
from ..model.ceilings import L2, READ
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import published
from ..records.timings import Point, recorded
from ..variants import STEP_IN_FP64, STEPS, STEPS_NOT_COUNTED

BASE = find("22_register_l1")
FP64_PER_CYCLE = 64
"""Multiply-adds in FP64 that an SM of compute capability 9.0 makes in a cycle, tensor cores aside."""
WORDS = (
    "base: registers and L1",
    "shared memory",
    "read C last",
    "BK 32 → 16",
    "float4, global → shared",
    "float4, shared → registers",
    "more shared memory than needed",
    "innermost loop removed",
    "many registers",
)
"""The steps, in the order of `STEPS`."""


def at_once(kernel: Kernel) -> int:
    """Return how many blocks an SM of the shown card holds."""
    return kernel_occupancy(kernel, card()).blocks_per_sm


def timed() -> list[Point]:
    """Return the recorded times of the nine steps."""
    points = {point.label: point for point in recorded(STEPS, [profiles.SIZE], "steps").points}
    return [points[step.label] for step in STEPS]


def steps() -> Table:
    """Return the nine steps: the template argument of each, lpha-z's speed, ours, and the blocks on an SM."""
    theirs = {result.kernel: result.gflops / 1e3 for result in published.load() if result.source == "lpha-z notes"}
    assert list(theirs) == [step.label for step in STEPS]
    changes = ["–"]
    for before, after in pairwise(STEPS):
        ((name, value),) = ((n, v) for n, v in after.parameters.items() if before.parameters[n] != v)
        changes.append(f"{name} {before.parameters[name]} → {value}")
    rows = [
        (words, change, theirs[step.label], point.tflops, at_once(step))
        for words, change, step, point in zip(WORDS, changes, STEPS, timed(), strict=True)
    ]
    made = recorded(STEPS, [profiles.SIZE], "steps").made
    columns = ("step", "template argument", "lpha-z, TFLOP/s", "ours, TFLOP/s", "blocks per SM")
    return Table(columns, rows, f"M = N = K = 4096: a consumer GPU that is not named there, and {made}")


def l2_bytes() -> float:
    """Return the bytes that the base's blocks need of A and B at 4096, if no block uses what another has fetched."""
    of = BASE.parameters
    return 4 * (of["BM"] + of["BN"]) * profiles.SIZE * BASE.grid(profiles.SIZE, profiles.SIZE)


def l2_rate() -> float:
    """Return the TB/s at which L2 was read, or copied where reads alone were not recorded."""
    rates = load().by_name
    return rates.get(READ, rates[L2]).tera_per_second


def predictions() -> dict[str, float]:
    """Return the milliseconds at 4096 that each part would take if it alone set the time of the base."""
    of, gpu = BASE.parameters, card()
    per_fma = (of["TM"] + of["TN"]) / (of["TM"] * of["TN"])  # wavefronts for each multiply-add of a warp
    cycle_ms = profiles.SIZE**3 / 32 / gpu.sms / (gpu.boost_mhz * 1e3)
    return {
        "multiply-adds": 32 / gpu.limits.fp32_lanes * cycle_ms,
        "L1, one wavefront per read": per_fma * cycle_ms,
        "L2, if every block fetches all it needs": l2_bytes() / l2_rate() / 1e9,
        "issue slots, all instructions of the loop": len(hot_loop(sass(BASE))) / (of["TM"] * of["TN"]) / 4 * cycle_ms,
    }


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, size = timed(), (profiles.SIZE,) * 3
    base, shared, c_last, bk16, fetch4, read4, extra, unrolled, many = points
    again = recorded(BASE, [profiles.SIZE], "others").points[0]
    profile, large = profiles.measured(BASE), counters.measured(BASE, *size)
    states = profiles.shares(profile)
    assert max(states, key=states.get) == "waits for L2 or DRAM"
    parts = ("issue slots", "FMA pipes", "L1 and shared memory")
    busiest = max(profile[f"{part} used, %"] for part in parts)
    assert busiest == profile["issue slots used, %"] < 85
    said = predictions()
    assert max(said, key=said.get).startswith("issue slots") and 1.4 < base.ms / max(said.values()) < 2
    assert 1.9 < max(said.values()) / said["multiply-adds"] < 2.1
    assert abs(profile["all"] * 32 * 64 / profiles.SIZE**3 / len(hot_loop(sass(BASE))) - 1) < 0.01
    top = max(points, key=lambda point: point.tflops)
    assert top is unrolled and top.tflops > 1.4 * base.tflops
    assert all(after.ms < 0.95 * before.ms for before, after in ((c_last, bk16), (bk16, fetch4), (fetch4, read4)))
    unresolved = ((base, shared), (shared, c_last), (read4, extra), (extra, unrolled))
    assert all(abs(after.ms / before.ms - 1) < 0.05 for before, after in unresolved) and many.ms > 1.1 * unrolled.ms
    processes = [float(np.median(process.own.ms)) for process in again.processes]
    apart = max(processes) / min(processes) - 1 if processes else 0
    assert apart < 0.05
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert ladder["03"] < base.tflops < ladder["04"] < 0.8 * top.tflops < top.tflops < 0.9 * ladder["07"]
    assert all(abs(top.tflops / ladder[number] - 1) < 0.03 for number in ("05", "06"))
    assert [at_once(step) for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    ks = BASE.grid(*size[:2]) * profiles.SIZE  # of all blocks
    assert 2 * profile["L2 sectors"] < large["l1_fill_sectors"] < ks * BASE.parameters["BN"] / 8
    slots, l1 = (profile[f"{part} used, %"] / 100 * profile["nanoseconds"] / 1e6 for part in (parts[0], parts[2]))
    assert abs(slots / said["issue slots, all instructions of the loop"] - 1) < 0.05
    assert abs(l1 / said["L1, one wavefront per read"] - 1) < 0.05
    (fp64,) = recorded(STEP_IN_FP64, [profiles.SIZE], "steps").points
    cublas = 2e-9 * profiles.SIZE**3 / fp64.cublas_ms
    units = card().sms * FP64_PER_CYCLE * 2 * card().boost_mhz / 1e6
    assert cublas > 1.5 * units
    (slow,) = recorded(STEPS_NOT_COUNTED[0], [profiles.SIZE], "steps").points
    assert slow.ms > 1.3 * shared.ms and slow.ms > base.ms
    return {
        "from": f"{base.percent_of_cublas:.1f}%",
        "to": f"{top.percent_of_cublas:.1f}%",
        "base ms": f"{base.ms:.2f} ms",
        "slots time": f"{slots:.2f} ms",
        "L1 time": f"{l1:.2f} ms",
        "processes apart": f"{apart:.1%}" if processes else "an amount that this card's recordings don't have",
        "over": f"{base.ms / max(said.values()):.1f}",
        "l2 bytes": f"{l2_bytes() / 1e9:.1f} GB",
        "l2 speed": f"{l2_rate():.1f} TB/s",
        "loop": str(len(hot_loop(sass(BASE)))),
        "taken": f"{large['l1_fill_sectors'] / ks:.0f}",
        "l2 taken": f"{profile['L2 sectors'] / ks:.0f}",
        "waits": f"{states['waits for L2 or DRAM']:.0%}",
        "busiest": f"{busiest:.0f}%",
        "without": f"{read4.ms:.2f} ms",
        "with": f"{extra.ms:.2f} ms",
        "lost": f"{1 - many.tflops / unrolled.tflops:.0%}",
        "registers many": str(resources(STEPS[8]).registers),
        "fp64": f"{fp64.tflops:.1f} TFLOP/s",
        "fp64 cublas": f"{cublas:.1f} TFLOP/s",
        "fp64 units": f"{units:.1f} TFLOP/s",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
