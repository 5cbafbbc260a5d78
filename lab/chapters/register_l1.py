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
from ..variants import STEP_IN_FP64, STEPS, STEPS_NOT_COUNTED

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


def working(at: int) -> float:
    """Return in how many cycles of one of `STEPS` an SM has a warp, by the instructions and the slots that they use."""
    return 25 * profiled(at)["all"] / card().sms / profiled(at)[SLOTS]


def timed() -> list[Point]:
    """Return the recorded times of the nine steps on the shown card; the kernel's own are of several processes."""
    points = {point.label: point for point in recorded(STEPS[1:], [profiles.SIZE], "steps").points}
    return [recorded(BASE, profiles.SIZE, "others").points[0], *(points[step.label] for step in STEPS[1:])]


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, blocks on an SM, our speed and gain, lpha-z's gain."""
    points, theirs = timed(), [result for result in published.load() if result.source == "lpha-z notes"]
    assert all(new.of(old) <= theirs[1].of(theirs[0]) for old, new in pairwise(theirs))
    apart = [median(process.own.ms) for process in points[0].processes] or [points[0].ms]
    first = recorded(STEPS[0], profiles.SIZE, "steps").points[0].ms / points[1].ms - 1
    changed = first, *(points[at].ms / points[at - 1].ms - 1 for at in (1, 2, 6, 7))
    assert abs(first) < 0.05 and (len(apart) == 1 or max(apart) / min(apart) - 1 > 0.7 * max(map(abs, changed)))
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        changes = "".join(
            f": {of} {before.parameters[of]} → {now}"
            for of, now in step.parameters.items()
            if before.parameters[of] != now
        )
        gains = [f"{of[at].tflops / of[at - 1].tflops - 1:+.0%}" if at else "" for of in (points, theirs)]
        cells = kernel_occupancy(step, card()).blocks_per_sm, f"{points[at].tflops:.1f}", *gains
        rows.append((f"{at} {NAMES[at]}{changes}", *cells))
    return Table(
        ("step", "blocks on an SM", "TFLOP/s", "gain", "lpha-z's gain"),
        rows,
        f"M = N = K = {profiles.SIZE}, {recorded(STEPS[1:], [profiles.SIZE], 'steps').made}",
        f"Row 0 took {', '.join(f'{ms:.2f}' for ms in sorted(apart))} ms, by process; against that of the steps, step "
        f"1's gain is {first:+.0%}. lpha-z's card is a consumer GPU that the article doesn't name. Nor does it explain "
        "step 6, which leaves L1 and other blocks less room.",
    )


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


def busy() -> Table:
    """Return for how much of the base's time each part should be busy by `predictions`, and was by the profiler."""
    profile, metrics = profiled(0), (FMA, L1, None, SLOTS)
    ms = profile["nanoseconds"] / 1e6
    into, read = (
        f"{32 * counters.measured(BASE, *(profiles.SIZE,) * 3)[name] / l2_rate() / 1e9 / ms:.0%}"
        for name in ("l1_fill_sectors", "l2_sectors")
    )
    rows = [
        (part, f"{said:.2f}", f"{said / ms:.0%}", f"{profile[metric]:.0f}%" if metric else f"{read} to {into}")
        for (part, said), metric in zip(predictions().items(), metrics, strict=True)
    ]
    return Table(
        ("part", "predicted, ms", f"of the profiler's {ms:.2f} ms", "busy, from counters"),
        rows,
        f"M = N = K = {profiles.SIZE}, {card().name}",
        "L2: the sectors that L2 counts as read, and those that come into L1, at the speed measured for reads.",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, size, said = timed(), (profiles.SIZE,) * 3, predictions()
    base, shared, fastest = (points[at] for at in (0, 1, 7))
    profile, last, states = profiled(0), profiled(7), profiles.shares(profiled(0))
    assert max(states, key=states.get) == LONGEST and max((SLOTS, FMA, L1), key=profile.get) == SLOTS
    fma, l1, l2, slots = (1e8 * of / profile["nanoseconds"] for of in said.values())
    opcodes, of = [instruction.opcode for instruction in hot_loop(sass(BASE))], BASE.parameters
    loop, imads, sums = len(opcodes), sum(each.startswith("IMAD") for each in opcodes), of["TM"] * of["TN"]
    on_pipe = sums + of["TN"] + imads
    assert slots > max(fma, l1, l2) and max(abs(l1 - profile[L1]), abs(slots - profile[SLOTS])) < 1
    assert abs(fma * on_pipe / sums - profile[FMA]) < 1 and 0.7 < points[8].tflops / points[7].tflops < 0.77
    assert all(abs(points[at].ms / points[at - 1].ms - 1) < 0.05 for at in (1, 2, 6, 7)) and last[SLOTS] < last[L1] < 70
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert 0.9 < base.tflops / ladder["04"] < 1 and max(points[at].ms for at in (5, 6)) < 1.03 * fastest.ms
    assert [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    cycles = {at: profiled(at)["SM cycles"] for at in (2, 3, 7, 8)}
    assert 1 - working(3) / working(2) > 0.6 * (1 - cycles[3] / cycles[2]) and profiled(8)["all"] < last["all"]
    slow = recorded(STEPS_NOT_COUNTED[0], profiles.SIZE, "steps").points[0]
    assert slow.ms > 1.3 * shared.ms and all(abs(fastest.tflops / ladder[at] - 1) < 0.03 for at in ("05", "06"))
    ks = BASE.grid(*size[:2]) * profiles.SIZE  # of all blocks: sectors are counted for one block at one k
    counted = counters.measured(BASE, *size)
    asked, filled = (counted[name] / ks for name in ("global_load_sectors", "l1_fill_sectors"))
    once = l2_bytes() / ks / 32
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) and once < asked / 1.9 and filled < 0.8 * once
    return {
        "share": f"about {base.percent_of_cublas:.0f}%",
        "card": card().name,
        "mhz": f"{card().boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in zip(("fma", "l1", "l2", "slots"), said.values(), strict=True)},
        "base ms": f"{base.ms:.2f} ms",
        "missed": f"{base.ms / max(said.values()) - 1:.0%}",
        "l2 bytes": f"{l2_bytes() / 1e9:.1f} GB",
        "l2 speed": f"{l2_rate():.1f} TB/s",
        "loop": str(loop),
        "others": str(loop - sums - of["TM"] - 2 * of["TN"]),
        "on pipe": str(on_pipe),
        "asked": f"{asked:.0f}",
        "once": f"{once:.0f}",
        "taken": f"{filled:.0f}",
        "between": f"{once - filled:.0f}",
        **{
            f"{name} ms": f"{32 * sectors * ks / l2_rate() / 1e9:.2f} ms"
            for name, sectors in (("asked", asked), ("taken", filled))
        },
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        **{f"idle {at}": f"{1 - working(at) / each:.1%}" for at, each in cycles.items()},
        "work 3": f"{1 - working(3) / working(2):.0%}",
        "work 8": f"{working(8) / working(7) - 1:.0%}",
        "registers many": str(resources(STEPS[8]).registers),
        "last waits": f"{profiles.shares(last)[LONGEST]:.0%}",
        "last ready": f"{profiles.shares(last)['another warp was chosen']:.0%}",
        "last L1": f"{last[L1]:.0f}%",
        "fp64": f"{recorded(STEP_IN_FP64, profiles.SIZE, 'steps').points[0].percent_of_cublas:.0f}%",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
