"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card, load
from ..model.ceilings import L2, READ
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import published
from ..records.timings import Point, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED

BASE = find("23_register_l1")
NAMES = (
    "registers and L1",
    "tiles in shared memory",
    "read C last",
    "tiles half as deep",
    "fetch 16 bytes",
    "read 16 bytes",
    "ask for shared memory that nobody uses",
    "inner loop written out",
    "allow 255 registers",
)
"""What the chapter calls each of `STEPS`."""

SLOTS, FMA, L1 = "issue slots used, %", "FMA pipes used, %", "L1 and shared memory used, %"
LONGEST = "waits for L2 or DRAM"
"""Metrics of `profiles`."""


def profiled(at: int) -> dict[str, int | float]:
    """Return the profile of one of `STEPS`; the first is the kernel itself."""
    return profiles.measured(STEPS[at] if at else BASE)


def timed() -> list[Point]:
    """Return the recorded times of the nine steps on the shown card; the kernel's own are of several processes."""
    points = {point.label: point for point in recorded(STEPS[1:], [profiles.SIZE], "steps").points}
    return [recorded(BASE, profiles.SIZE, "others").points[0], *(points[step.label] for step in STEPS[1:])]


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, blocks on an SM, instructions, speed and its gain."""
    points, rows = timed(), []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        changes = "".join(
            f": {of} {before.parameters[of]} → {now}"
            for of, now in step.parameters.items()
            if before.parameters[of] != now
        )
        gain = f"{points[at].tflops / points[at - 1].tflops - 1:+.0%}" if at else ""
        cells = kernel_occupancy(step, card()).blocks_per_sm, f"{profiled(at)['all'] / 1e9:.2f}"
        rows.append((f"{at} {NAMES[at]}{changes}", *cells, f"{points[at].tflops:.1f}", gain))
    return Table(
        ("step", "blocks on an SM", "instructions, billions", "TFLOP/s", "gain"),
        rows,
        f"M = N = K = {profiles.SIZE}, {recorded(STEPS[1:], [profiles.SIZE], 'steps').made}",
    )


def l2_rate() -> float:
    """Return the TB/s at which L2 was read, or copied where reads alone were not recorded."""
    rates = load().by_name
    return rates.get(READ, rates[L2]).tera_per_second


def predictions() -> dict[str, float]:
    """Return the milliseconds at 4096 that each part of an SM would take if it alone set the time of the base."""
    of, gpu = BASE.parameters, card()
    per_fma = (of["TM"] + of["TN"]) / (of["TM"] * of["TN"])  # wavefronts for each multiply-add of a warp
    cycle_ms = profiles.SIZE**3 / 32 / gpu.sms / (gpu.boost_mhz * 1e3)
    return {
        "multiply-adds": 32 / gpu.limits.fp32_lanes * cycle_ms,
        "L1, one wavefront per load": per_fma * cycle_ms,
        "issue slots, all instructions of the loop": len(hot_loop(sass(BASE))) / (of["TM"] * of["TN"]) / 4 * cycle_ms,
    }


def busy() -> Table:
    """Return for how much of the base's time each part should be busy by `predictions`, and was by the profiler."""
    profile = profiled(0)
    ms = profile["nanoseconds"] / 1e6
    rows = [
        (part, f"{said:.2f}", f"{said / ms:.0%}", f"{profile[metric]:.0f}%")
        for (part, said), metric in zip(predictions().items(), (FMA, L1, SLOTS), strict=True)
    ]
    return Table(
        ("part of the SM", "predicted, ms", f"of the profiler's {ms:.2f} ms", "busy, from counters"),
        rows,
        f"M = N = K = {profiles.SIZE}, {card().name}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, size, said, of = timed(), (profiles.SIZE,) * 3, predictions(), BASE.parameters
    base, shared, fastest = (points[at] for at in (0, 1, 7))
    profile, last, states = profiled(0), profiled(7), profiles.shares(profiled(0))
    assert max(states, key=states.get) == LONGEST and max((SLOTS, FMA, L1), key=profile.get) == SLOTS
    fma, l1, slots = (1e8 * each / profile["nanoseconds"] for each in said.values())
    opcodes = [instruction.opcode for instruction in hot_loop(sass(BASE))]
    loop, imads, sums = len(opcodes), sum(each.startswith("IMAD") for each in opcodes), of["TM"] * of["TN"]
    on_pipe = sums + of["TN"] + imads
    assert slots > l1 > fma and max(abs(l1 - profile[L1]), abs(slots - profile[SLOTS])) < 1
    assert abs(fma * on_pipe / sums - profile[FMA]) < 1 and last[SLOTS] < last[L1] < 70
    # Two counts sort the steps: blocks on an SM, and instructions.
    assert [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    more = [profiled(at)["all"] / profiled(at - 1)["all"] - 1 for at in range(1, 9)]
    gains = [new.tflops / old.tflops - 1 for old, new in pairwise(points)]
    assert max(more[at - 1] for at in (1, 4, 5)) < -0.09 and all(abs(more[at - 1]) < 0.05 for at in (2, 3, 6, 7, 8))
    assert min(gains[at - 1] for at in (3, 4, 5)) > 0.1 and all(abs(gains[at - 1]) < 0.05 for at in (1, 2, 6, 7))
    assert -0.3 < gains[7] < -0.23 and more[2] > 0 > more[7] and resources(STEPS[7]).registers == 128
    theirs = [new.of(old) - 1 for old, new in pairwise(r for r in published.load() if r.source == "lpha-z notes")]
    assert max(theirs) == theirs[0] > 4 * abs(gains[0]) and theirs[7] > 0 > gains[7]
    apart = sorted(median(process.own.ms) for process in base.processes) or [base.ms]
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert all(abs(fastest.tflops / ladder[at] - 1) < 0.03 for at in ("05", "06"))
    slow = recorded(STEPS_NOT_COUNTED[0], profiles.SIZE, "steps").points[0]
    assert slow.ms > 1.3 * shared.ms and 0.9 < base.tflops / ladder["04"] < 1
    ks = BASE.grid(*size[:2]) * profiles.SIZE  # of all blocks: sectors are counted for one block at one k
    asked, filled = (counters.measured(BASE, *size)[name] / ks for name in ("global_load_sectors", "l1_fill_sectors"))
    once = (of["BM"] + of["BN"]) / 8
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and filled < 0.8 * once < asked / 2
    assert once == 66 and 32 * filled * ks / l2_rate() / 1e9 < base.ms / 3
    return {
        "share": f"about {base.percent_of_cublas:.0f}%",
        "card": card().name,
        "mhz": f"{card().boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in zip(("fma", "l1", "slots"), said.values(), strict=True)},
        "base ms": f"{base.ms:.2f} ms",
        "missed": f"{base.ms / max(said.values()) - 1:.0%}",
        "l2 speed": f"{l2_rate():.1f} TB/s",
        "loop": str(loop),
        "others": str(loop - sums - of["TM"] - 2 * of["TN"]),
        "on pipe": str(on_pipe),
        "taken": f"{filled:.0f}",
        "saved": f"{1 - filled / asked:.0%}",
        **{
            f"{name} ms": f"{32 * each * ks / l2_rate() / 1e9:.2f} ms"
            for name, each in (("asked", asked), ("once", once), ("taken", filled))
        },
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        **{f"more {at}": f"{abs(more[at - 1]):.0%}" for at in (1, 3, 4, 5, 8)},
        **{f"gain {at}": f"{abs(gains[at - 1]):.0%}" for at in (3, 4, 5, 8)},
        "theirs": f"{theirs[0]:.0%}",
        "apart": f"{apart[0]:.2f} to {apart[-1]:.2f} ms",
        "registers many": str(resources(STEPS[8]).registers),
        "last waits": f"{profiles.shares(last)[LONGEST]:.0%}",
        "last L1": f"{last[L1]:.0f}%",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
