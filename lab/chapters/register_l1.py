"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card, load
from ..model.ceilings import L2, READ
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records.timings import Point, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED

BASE = find("23_register_l1")
NAMES = (
    "0 registers and L1",
    "1 tiles in shared memory",
    "2 C is read last",
    "3 tiles half as deep",
    "4 fetch 16 bytes",
    "5 read 16 bytes",
    "6 15 KiB that nobody uses",
    "7 inner loop written out",
    "8 up to 255 registers",
)
"""What the chapter calls `STEPS`, by their numbers."""

SLOTS, L1 = "issue slots used, %", "L1 and shared memory used, %"
BETWEEN = "cycles between a warp's instructions"
"""Metrics of `profiles`."""


def profiled(at: int) -> dict[str, int | float]:
    """Return the profile of one of `STEPS`; the first is the kernel itself."""
    return profiles.measured(STEPS[at] if at else BASE)


def timed() -> list[Point]:
    """Return the recorded times of the nine steps on the shown card."""
    points = {point.label: point for point in recorded(STEPS, [profiles.SIZE], "steps").points}
    return [points[step.label] for step in STEPS]


def gains(speeds: Sequence[float]) -> list[float]:
    """Return by what fraction each step is faster than the one before."""
    return [after / before - 1 for before, after in pairwise(speeds)]


def steps() -> Table:
    """Return the steps: the template argument that changes, blocks on an SM, the speed, and the gain."""
    speeds = [point.tflops for point in timed()]
    blocks = [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS]
    rows = [(NAMES[0], "", blocks[0], f"{speeds[0]:.2f}", "")]
    for at, gain in enumerate(gains(speeds), 1):
        old, new = STEPS[at - 1].parameters, STEPS[at].parameters
        (change,) = (f"{name} {old[name]} → {value}" for name, value in new.items() if old[name] != value)
        rows.append((NAMES[at], change, blocks[at], f"{speeds[at]:.2f}", f"{gain:+.1%}"))
    made = f"M = N = K = 4096, {recorded(STEPS, [profiles.SIZE], 'steps').made}"
    columns = ("step", "template argument", "blocks on an SM", "TFLOP/s", "gain over the row before")
    return Table(columns, rows, made)


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
    points, size, said = timed(), (profiles.SIZE,) * 3, predictions()
    base, shared, unrolled = (points[at] for at in (0, 1, 7))
    counts = [profiled(at) for at in range(len(STEPS))]
    profile, last, states = counts[0], counts[7], profiles.shares(counts[0])
    assert (
        max(states, key=states.get) == "waits for L2 or DRAM"
        and max((SLOTS, "FMA pipes used, %", L1), key=profile.get) == SLOTS
        and max(said, key=said.get).startswith("issue slots")
        and 1.4 < base.ms / max(said.values()) < 2
    )
    steps_gain = gains([of.tflops for of in points])
    assert max(map(abs, (*steps_gain[:2], *steps_gain[5:7]))) < 0.05 and last[L1] < 70
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert (
        ladder["03"] < base.tflops
        and 0.9 < base.tflops / ladder["04"] < 1
        and unrolled is min(points, key=lambda at: at.ms)
        and all(abs(unrolled.tflops / ladder[number] - 1) < 0.03 for number in ("05", "06"))
    )
    fit = [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS]
    blocks = BASE.grid(*size[:2])
    rounds = {each: -(-blocks // (each * card().sms)) for each in (3, 4)}
    longest = rounds[3] / rounds[4]
    longer = {2: points[2].ms / points[3].ms, 8: points[8].ms / points[7].ms}
    assert [fit[at] for at in (0, 1, 2, 3, 7, 8)] == [4, 3, 3, 4, 4, 3]
    assert all(1 < of < longest for of in longer.values())
    ks = blocks * profiles.SIZE  # of all blocks: sectors are counted for one block at one k
    filled, asked = counters.measured(BASE, *size)["l1_fill_sectors"] / ks, 128
    (slow,) = recorded(STEPS_NOT_COUNTED[0], [profiles.SIZE], "steps").points
    assert filled < asked / 2 and profile["L2 sectors"] / ks < 20 and slow.ms > 1.3 * shared.ms
    loop, of = len(hot_loop(sass(BASE))), BASE.parameters
    return {
        "from": f"{base.percent_of_cublas:.1f}%",
        "to": f"{unrolled.percent_of_cublas:.1f}%",
        "card": card().name,
        "mhz": f"{card().boost_mhz / 1e3} GHz",
        "base ms": f"{base.ms:.2f} ms",
        "over": f"{base.ms / max(said.values()):.1f}",
        "l2 bytes": f"{l2_bytes() / 1e9:.1f} GB",
        "l2 speed": f"{l2_rate():.1f} TB/s",
        "loop": str(loop),
        "others": str(loop - of["TM"] * of["TN"] - of["TM"] - 2 * of["TN"]),
        "asked": str(asked),
        "taken": f"{filled:.0f}",
        "l2 taken": f"{profile['L2 sectors'] / ks:.0f}",
        "waits": f"{states['waits for L2 or DRAM']:.0%}",
        "busiest": f"{profile[SLOTS]:.0f}%",
        "gain 1": f"{steps_gain[0]:+.0%}",
        "tiles gain": f"{points[3].tflops / base.tflops - 1:.0%}",
        "blocks": f"{blocks:,}",
        "rounds 4": str(rounds[4]),
        "rounds 3": str(rounds[3]),
        "at most": f"{longest - 1:.0%}",
        "step 2": f"{longer[2] - 1:.0%}",
        "step 8": f"{longer[8] - 1:.0%}",
        "fetches before": f"{counts[3]['LDG'] / 1e6:.0f}",
        "fetches after": f"{counts[4]['LDG'] / 1e6:.0f}",
        "reads before": f"{counts[4]['LDS'] / 1e6:.0f}",
        "reads after": f"{counts[5]['LDS'] / 1e6:.0f}",
        "registers many": str(resources(STEPS[8]).registers),
        "last waits": f"{last['state: waits for L2 or DRAM']:.2f}",
        "last between": f"{last[BETWEEN]:.2f}",
        "last slots": f"{last[SLOTS]:.0f}%",
        "last L1": f"{last[L1]:.0f}%",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
