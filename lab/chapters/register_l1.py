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

SECTOR = 32
"""Bytes in a sector."""
SLOTS, FMA, L1 = "issue slots used, %", "FMA pipes used, %", "L1 and shared memory used, %"
LONGEST = "waits for L2 or DRAM"
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
    """Return lpha-z's steps: the template argument that changes, blocks on an SM, our speed and gain, lpha-z's gain."""
    points, theirs = timed(), [result for result in published.load() if result.source == "lpha-z notes"]
    assert all(new.of(old) <= theirs[1].of(theirs[0]) for old, new in pairwise(theirs))
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
        f"M = N = K = 4096, {recorded(STEPS, [profiles.SIZE], 'steps').made}",
        "lpha-z's card is a consumer GPU that the article doesn't name. Nor does it explain step 6.",
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
    from_l2 = 100 * SECTOR * profile["L2 sectors"] / l2_rate() / 1e9 / base.ms
    rows = [
        (part, f"{ms:.2f}", f"{ms / base.ms:.0%}", f"{profile[metrics[part]] if part in metrics else from_l2:.0f}%")
        for part, ms in predictions().items()
    ]
    columns = ("part", "predicted, ms", f"of the {base.ms:.2f} ms measured", "busy, by the profiler")
    note = "L2: the sectors that the profiler counts, at the speed measured for reads."
    return Table(columns, rows, f"M = N = K = {profiles.SIZE}, {card().name}", note)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, size, said = timed(), (profiles.SIZE,) * 3, predictions()
    base, shared, fastest = (points[at] for at in (0, 1, 7))
    profile, last, states = profiled(0), profiled(7), profiles.shares(profiled(0))
    assert max(states, key=states.get) == LONGEST and max((SLOTS, FMA, L1), key=profile.get) == SLOTS
    predicted = [100 * of / base.ms for of in said.values()]
    assert max(predicted) == predicted[3] and 0.7 < points[8].tflops / points[7].tflops < 0.77
    assert abs(predicted[1] - profile[L1]) < 1 and abs(predicted[3] - profile[SLOTS]) < 1
    assert all(abs(points[at].ms / points[at - 1].ms - 1) < 0.05 for at in (1, 2, 6, 7)) and last[L1] < 70
    ladder = {rung.kernel[:2]: rung.tflops for rung in recorded(LADDER[:7], profiles.SIZE).points}
    assert 0.9 < base.tflops / ladder["04"] < 1 and fastest is min(points, key=lambda at: at.ms)
    assert all(abs(fastest.tflops / ladder[number] - 1) < 0.03 for number in ("05", "06"))
    assert [kernel_occupancy(step, card()).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    loop, of = len(hot_loop(sass(BASE))), BASE.parameters
    blocks = BASE.grid(*size[:2])
    ks = blocks * profiles.SIZE  # of all blocks: sectors are counted for one block at one k
    counted = counters.measured(BASE, *size)
    asked, filled = (counted[name] / ks for name in ("global_load_sectors", "l1_fill_sectors"))
    once = l2_bytes() / ks / SECTOR
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) and once < asked / 1.9 and filled < 0.8 * once
    slow, again = recorded(STEPS_NOT_COUNTED[0], 4096, "steps").points[0], recorded(BASE, 4096, "others").points[0]
    processes = [median(process.own.ms) for process in again.processes] or [again.ms]
    assert slow.ms > 1.3 * shared.ms and blocks == 2048 and abs(shared.ms / min(processes) - 1) < 0.02
    assert abs(base.percent_of_cublas - again.percent_of_cublas) < 1.1
    unsaved, passed = (SECTOR * sectors / l2_rate() / 1e9 for sectors in (asked * ks, profile["L2 sectors"]))
    return {
        "from": f"about {again.percent_of_cublas:.0f}%",
        "to": f"{fastest.percent_of_cublas:.0f}%",
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
        "l2 taken": f"{profile['L2 sectors'] / ks:.0f}",
        "l2 read ms": f"{passed:.2f} ms",
        "unsaved ms": f"{unsaved:.2f} ms",
        "waits": f"{states[LONGEST]:.0%}",
        "base between": f"{profile[BETWEEN]:.2f}",
        "cycles of k": f"{loop * profile[BETWEEN]:.0f}",
        "issued of k": str(4 * loop),
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "quickest again": f"{min(processes):.2f} ms",
        "slowest again": f"{max(processes):.2f} ms",
        "rounds three": f"{blocks / card().sms / 18:.0%}",
        "rounds four": f"{blocks / card().sms / 16:.0%}",
        "registers many": str(resources(STEPS[8]).registers),
        "last waits": f"{last[f'state: {LONGEST}']:.2f}",
        "last ready": f"{last['state: another warp was chosen']:.2f}",
        "last between": f"{last[BETWEEN]:.2f}",
        "last L1": f"{last[L1]:.0f}%",
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
