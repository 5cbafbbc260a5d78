"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED, STEPS_TESTED

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
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200 = str(cards.folder("h200") / "steps.json")
"""The recording that has `WHOLE` and `STEPS_TESTED`."""


def profiled(at: int) -> dict[str, int | float]:
    """Return the profile of one of `STEPS`; the first is the kernel itself."""
    return profiles.measured(STEPS[at] if at else BASE)


def timed(size: tuple[int, int, int] = SQUARE, path: str = "steps") -> list[Point]:
    """Return the recorded times of the nine steps, all of one recording: none of a size that it doesn't have."""
    points = {point.label: point for point in load(path).select(STEPS, [size], "steps").points}
    return [points[step.label] for step in STEPS if points]


def gains(points: list[Point]) -> list[float]:
    """Return by how much each step is faster than the step before, as a fraction."""
    return [new.tflops / old.tflops - 1 for old, new in pairwise(points)]


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, three counts, and speed with its gain."""
    columns = {}
    for at, points in (("at 4096", timed()), ("in whole waves", timed(WHOLE))):
        gained = "", *(f" ({gain:+.0%})" for gain in gains(points))
        if points:
            columns[f"TFLOP/s {at}"] = [f"{each.tflops:.1f}{gain}" for each, gain in zip(points, gained, strict=True)]
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old, counts = step.parameters, before.parameters, profiled(at)
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        cells = f"{counts['all'] / 1e9:.2f}", f"{counts[L1]:.0f}%", *(column[at] for column in columns.values())
        rows.append((f"{at} {NAMES[at]}{changes}", kernel_occupancy(step, card()).blocks_per_sm, *cells))
    return Table(
        ("step", "blocks on an SM", "instructions, billions", "L1 and shared memory busy", *columns),
        rows,
        f"Counts at 4096; {load('steps').made}",
    )


def predictions() -> dict[str, float]:
    """Return the milliseconds at 4096 that each part of an SM would take if it alone set the time of the base."""
    of, gpu, loop = BASE.parameters, card(), [instruction.opcode for instruction in hot_loop(sass(BASE))]
    sums, on_pipe = of["TM"] * of["TN"], sum(opcode.startswith(("FFMA", "FMUL", "IMAD")) for opcode in loop)
    assert (loop.count("FFMA"), loop.count("FMUL"), on_pipe) == (sums, of["TN"], 88)
    warp_step_ms = profiles.SIZE**3 / 32 / sums / gpu.sms / (gpu.boost_mhz * 1e3)  # of one that takes a cycle
    return {
        "FP32 units": on_pipe * 32 / gpu.limits.fp32_lanes * warp_step_ms,
        "L1, one wavefront per load": (of["TM"] + of["TN"]) * warp_step_ms,
        "issue slots": len(loop) / 4 * warp_step_ms,
    }


def busy() -> Table:
    """Return for how much of the base's time each part should be busy by `predictions`, and was by the profiler."""
    profile, said = profiled(0), predictions()
    ms = profile["nanoseconds"] / 1e6
    rows = [
        (part, f"{said[part]:.2f}", f"{said[part] / ms:.0%}", f"{profile[metric]:.0f}%")
        for part, metric in zip(said, (FMA, L1, SLOTS), strict=True)
    ]
    return Table(
        ("part of the SM", "predicted, ms", f"of the profiler's {ms:.2f} ms", "busy, from counters"),
        rows,
        f"M = N = K = {profiles.SIZE}, {card().name}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, said, of = timed(), predictions(), BASE.parameters
    base, shared, fastest = (points[at] for at in (0, 1, 7))
    profile, last, states = profiled(0), profiled(7), profiles.shares(profiled(0))
    assert max(states, key=states.get) == LONGEST and said["issue slots"] == max(said.values())
    parts = zip(said.values(), (FMA, L1, SLOTS), strict=True)
    assert all(abs(1e8 * ms / profile["nanoseconds"] - profile[metric]) < 1 for ms, metric in parts)
    loop, registers = len(hot_loop(sass(BASE))), resources(BASE).registers * BASE.threads
    assert 4 * registers <= 65_536 < 5 * registers and max(last[SLOTS], last[FMA], last[L1]) < 70
    # What the steps change, and what they gain.
    assert [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    more = [profiled(at)["all"] / profiled(at - 1)["all"] - 1 for at in range(1, 9)]
    gained, whole = gains(points), gains(timed(WHOLE, H200))
    assert more[0] < -0.14 and more[4] < 1.8 * more[3] < -0.15 and abs(more[7]) < 0.02
    assert gained[2] > 0.15 and gained[3] > gained[4] > 0.1 and max(abs(gained[at]) for at in (1, 5, 6)) < 0.04
    assert abs(gained[0]) < 0.05 and -0.3 < gained[7] < -0.23 and profiled(4)[L1] > profiled(5)[L1] + 10
    # The H200's: whole waves, and the kernels that test what the steps are due to.
    there = gains(timed(path=H200))
    assert whole[0] > 2 * there[0] and whole[2] < there[2] / 2 and -0.2 < whole[7] < there[7] * 0.6
    assert all(abs(whole[at] - there[at]) < 0.02 for at in (1, 3, 4, 5, 6))
    (deep, four), (three,) = timed(WHOLE, H200)[2:4], recorded(STEPS_TESTED[2], [WHOLE], H200).points
    one, two, many = (recorded(k, [SQUARE], H200).points[0].ms for k in (STEPS[0], *STEPS_TESTED[:2]))
    spills = [any(each.opcode.startswith("LDL") for each in hot_loop(sass(kernel))) for kernel in STEPS_TESTED[:2]]
    assert two < one < many and three.ms > deep.ms > four.ms and spills == [False, True]
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert all(abs(fastest.tflops / ladder[at] - 1) < 0.03 for at in ("05", "06"))
    slow = recorded(STEPS_NOT_COUNTED[0], profiles.SIZE, "steps").points[0]
    assert slow.ms > 1.3 * shared.ms and 0.9 < base.tflops / ladder["04"] < 1
    ks, counts = BASE.grid(*SQUARE[:2]) * profiles.SIZE, counters.measured(BASE, *SQUARE)  # of all blocks
    asked, filled, own = (counts[name] / ks for name in ("global_load_sectors", "l1_fill_sectors", "l2_sectors"))
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and own < 34 < filled < 66
    return {
        "share": f"about {round(base.percent_of_cublas, -1):.0f}%",
        "card": card().name,
        "mhz": f"{card().boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in zip(("fma", "l1", "slots"), said.values(), strict=True)},
        "base ms": f"{base.ms:.2f} ms",
        "missed": f"{base.ms / max(said.values()) - 1:.0%}",
        "loop": str(loop),
        "others": str(loop - 88 - of["TM"] - of["TN"]),
        "registers": str(resources(BASE).registers),
        "registers four": f"{4 * registers:,}",
        "taken": f"{filled:.0f}",
        "own": f"{own:.0f}",
        "saved": f"{1 - filled / asked:.0%}",
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        **{f"more {at}": f"{abs(more[at - 1]):.0%}" for at in (1, 4, 5)},
        **{f"gain {at}": f"{abs(there[at - 1]):.0%}" for at in (1, 3, 4, 5, 8)},
        **{f"whole {at}": f"{abs(whole[at - 1]):.0%}" for at in (1, 3, 8)},
        **{f"tflops {name}": f"{each.tflops:.1f}" for name, each in (("deep", deep), ("three", three), ("four", four))},
        "shallow": f"{1 - deep.ms / three.ms:.0%}",
        "fourth": f"{three.ms / four.ms - 1:.0%}",
        **{f"ms {name}": f"{each:.2f} ms" for name, each in (("one", one), ("two", two), ("many", many))},
        "two ks": f"{one / two - 1:.0%}",
        "many ks": f"{1 - one / many:.0%}",
        "registers many": str(resources(STEPS[8]).registers),
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
