"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

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
NAMES = {
    0: "0 registers and L1",
    1: "1 tiles in shared memory",
    3: "3 tiles half as deep",
    4: "4 fetch 16 bytes",
    5: "5 read 16 bytes",
    7: "7 inner loop written out",
}
"""What the chapter calls those of `STEPS` that it shows, by their numbers."""

SLOTS, FMA, L1 = "issue slots used, %", "FMA pipes used, %", "L1 and shared memory used, %"
BETWEEN = "cycles between a warp's instructions"
"""Metrics of `profiles`."""


def profiled(at: int) -> dict[str, int | float]:
    """Return the profile of one of `STEPS`; the first is the kernel itself."""
    return profiles.measured(STEPS[at] if at else BASE)


def timed() -> list[Point]:
    """Return the recorded times of the nine steps on the shown card."""
    points = {point.label: point for point in recorded(STEPS, [profiles.SIZE], "steps").points}
    return [points[step.label] for step in STEPS]


def steps() -> Table:
    """Return the steps shown: which template arguments change, blocks on an SM, instructions, speed and gain."""
    points, rows, before = timed(), [], None
    for at, name in NAMES.items():
        step, speed = STEPS[at], points[at].tflops
        blocks, instructions = kernel_occupancy(step, card()).blocks_per_sm, profiled(at)["all"] / 1e9
        changes, gain = "", ""
        if before is not None:
            old = STEPS[before].parameters
            changes = ": " + ", ".join(
                f"{of} {old[of]} → {new}" for of, new in step.parameters.items() if old[of] != new
            )
            gain = f"{speed / points[before].tflops - 1:+.0%}"
        rows.append((name + changes, blocks, f"{instructions:.2f}", f"{speed:.1f}", gain))
        before = at
    made = f"M = N = K = 4096, {recorded(STEPS, [profiles.SIZE], 'steps').made}"
    return Table(
        ("step", "blocks on an SM", "instructions, billion", "TFLOP/s", "gain over the row before"), rows, made
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
    (base, *_), profile = timed(), profiled(0)
    metrics = {
        "multiply-adds": FMA,
        "L1, one wavefront per read": L1,
        "issue slots, all instructions of the loop": SLOTS,
    }
    rows = [
        (part, f"{ms:.2f}", f"{ms / base.ms:.0%}", f"{profile[metrics[part]]:.0f}%" if part in metrics else None)
        for part, ms in predictions().items()
    ]
    columns = ("part", "predicted, ms", f"of the {base.ms:.2f} ms measured", "busy, by the profiler")
    return Table(columns, rows, f"M = N = K = {profiles.SIZE}, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, size, said = timed(), (profiles.SIZE,) * 3, predictions()
    base, shared, fastest = (points[at] for at in (0, 1, 7))
    counts = [profiled(at) for at in range(len(STEPS))]
    profile, last, states = counts[0], counts[7], profiles.shares(counts[0])
    assert (
        max(states, key=states.get) == "waits for L2 or DRAM" and counts[1]["L2 sectors"] > 1.5 * profile["L2 sectors"]
    )
    assert max(said, key=said.get).startswith("issue slots") and max((SLOTS, FMA, L1), key=profile.get) == SLOTS
    predicted = [100 * of / base.ms for of in said.values()]
    assert abs(predicted[1] - profile[L1]) < 1 and abs(predicted[3] - profile[SLOTS]) < 1
    assert all(abs(points[at].ms / points[at - 1].ms - 1) < 0.05 for at in (1, 2, 6, 7)) and last[L1] < 70
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert 0.9 < base.tflops / ladder["04"] < 1 and fastest is min(points, key=lambda at: at.ms)
    assert all(abs(fastest.tflops / ladder[number] - 1) < 0.03 for number in ("05", "06"))
    fit = [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS]
    assert fit == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    loop, of = len(hot_loop(sass(BASE))), BASE.parameters
    warps, row = BASE.threads // 32, 8  # words in a sector
    blocks = BASE.grid(*size[:2])
    ks = blocks * profiles.SIZE  # of all blocks: sectors are counted for one block at one k
    counted = counters.measured(BASE, *size)
    asked, filled = (counted[name] / ks for name in ("global_load_sectors", "l1_fill_sectors"))
    once = (of["BM"] + of["BN"]) / row
    assert asked == warps * (of["TM"] + of["TN"] * 32 / row) and once < asked / 1.9 and filled < 0.8 * once
    (slow,) = recorded(STEPS_NOT_COUNTED[0], [profiles.SIZE], "steps").points
    (again,) = recorded(BASE, [profiles.SIZE], "others").points
    assert slow.ms > 1.3 * shared.ms and blocks == 2048
    assert abs(shared.ms / base.ms - 1) < 0.05 and abs(again.ms / base.ms - 1) < 0.03
    assert counts[1]["all"] < profile["all"]
    return {
        "from": f"{base.percent_of_cublas:.1f}%",
        "to": f"{fastest.percent_of_cublas:.1f}%",
        "card": card().name,
        "mhz": f"{card().boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in zip(("fma", "l1", "l2", "slots"), said.values(), strict=True)},
        "base ms": f"{base.ms:.2f} ms",
        "l2 bytes": f"{l2_bytes() / 1e9:.1f} GB",
        "l2 speed": f"{l2_rate():.1f} TB/s",
        "loop": str(loop),
        "others": str(loop - of["TM"] * of["TN"] - of["TM"] - 2 * of["TN"]),
        "asked": f"{asked:.0f}",
        "once": f"{once:.0f}",
        "taken": f"{filled:.0f}",
        "between": f"{once - filled:.0f}",
        "l2 taken": f"{counted['l2_sectors'] / ks:.0f}",
        "waits": f"{states['waits for L2 or DRAM']:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "tiles gain": f"{points[3].tflops / base.tflops - 1:.0%}",
        "base again": f"{again.ms:.2f} ms",
        "l2 tiles": f"{counts[1]['L2 sectors'] / ks:.0f}",
        "waits base": f"{profile['state: waits for L2 or DRAM']:.2f}",
        "waits tiles": f"{counts[1]['state: waits for L2 or DRAM']:.2f}",
        "L1 base": f"{profile[L1]:.0f}%",
        "L1 tiles": f"{counts[1][L1]:.0f}%",
        "rounds three": f"{blocks / card().sms / 3:.2f}",
        "rounds four": f"{blocks / card().sms / 4:.2f}",
        "change 2": f"{points[2].ms / points[1].ms - 1:+.1%}",
        "change 6": f"{points[6].ms / points[5].ms - 1:+.1%}",
        "fetches before": f"{counts[3]['LDG'] / 1e6:.0f}",
        "fetches after": f"{counts[4]['LDG'] / 1e6:.0f}",
        "reads before": f"{counts[4]['LDS'] / 1e6:.0f}",
        "reads after": f"{counts[5]['LDS'] / 1e6:.0f}",
        "registers many": str(resources(STEPS[8]).registers),
        "slower 8": f"{1 - points[8].tflops / fastest.tflops:.0%}",
        "last waits": f"{last['state: waits for L2 or DRAM']:.2f}",
        "last between": f"{last[BETWEEN]:.2f}",
        "last slots": f"{last[SLOTS]:.0f}%",
        "last L1": f"{last[L1]:.0f}%",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
