"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
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

SLOTS, L1 = "issue slots used, %", "L1 and shared memory used, %"
LONGEST = "waits for L2 or DRAM"
"""Metrics of `profiles`."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, H100 = (str(cards.folder(name) / "steps.json") for name in ("h200", "h100"))
"""Recordings, of which the first has `WHOLE` and `STEPS_TESTED`."""
THEIRS = [result for result in published.load() if result.source == "lpha-z notes"]
"""lpha-z's own speeds of `STEPS`."""


def profiled(at: int) -> dict[str, int | float]:
    """Return the profile of one of `STEPS`; the first is the kernel itself."""
    return profiles.measured(STEPS[at] if at else BASE)


def timed(size: tuple[int, int, int] = SQUARE, path: str = "steps") -> list[Point]:
    """Return the recorded times of the nine steps, all of one recording: none of a size that it doesn't have."""
    points = {point.label: point for point in load(path).select(STEPS, [size], "steps").points}
    return [points[step.label] for step in STEPS if points]


def gains(points: list[Point] | list[published.Result]) -> list[float]:
    """Return by how much each step is faster than the step before, as a fraction."""
    return [new.tflops / old.tflops - 1 for old, new in pairwise(points)]


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, two counts, and speeds with their gains."""
    columns = {}
    for at, points in (("at 4096", timed()), ("in whole waves", timed(WHOLE)), ("by lpha-z, at 4096", THEIRS)):
        gained = "", *(f" ({gain:+.0%})" for gain in gains(points))
        if points:
            columns[f"TFLOP/s {at}"] = [f"{each.tflops:.1f}{gain}" for each, gain in zip(points, gained, strict=True)]
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        cells = f"{profiled(at)['all'] / 1e9:.2f}", *(column[at] for column in columns.values())
        rows.append((f"{at} {NAMES[at]}{changes}", kernel_occupancy(step, card()).blocks_per_sm, *cells))
    return Table(
        ("step", "blocks on an SM", "instructions, billions", *columns),
        rows,
        f"Counts at 4096; {load('steps').made}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu, (base, shared), gained = BASE.parameters, card(), timed()[:2], gains(timed())
    profile, states, fits = profiled(0), profiles.shares(profiled(0)), kernel_occupancy(BASE, gpu)
    loops = [[each.opcode for each in hot_loop(sass(kernel))] for kernel in (BASE, *STEPS_TESTED[:2])]
    loop, two_loop, many_loop = (len(found) / ks for found, ks in zip(loops, (1, 2, 4), strict=True))
    sums, registers = of["TM"] * of["TN"], -(-resources(BASE).registers // 8) * 8  # a warp gets multiples of 256
    warp_step_ms = profiles.SIZE**3 / 32 / sums / gpu.sms / (gpu.boost_mhz * 1e3)  # of one that takes a cycle
    said = {"l1": (of["TM"] + of["TN"]) * warp_step_ms, "slots": loop / 4 * warp_step_ms}
    by_time = [round(1e8 * ms / profile["nanoseconds"]) for ms in said.values()]
    assert by_time == [round(profile[metric]) for metric in (L1, SLOTS)] and max(states, key=states.get) == LONGEST
    assert (loops[0].count("FFMA"), loops[0].count("FMUL")) == (sums, of["TN"]) and 2 * sums < loop < 2.05 * sums
    assert fits.limiter == "registers" and 4 * registers * BASE.threads <= 65_536 < 5 * registers * BASE.threads
    # What the steps change, and what they gain.
    assert [kernel_occupancy(step, gpu).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    more = [profiled(at)["all"] / profiled(at - 1)["all"] - 1 for at in range(1, 9)]
    assert more[0] < -0.14 and more[4] < 1.8 * more[3] < -0.15 and abs(more[7]) < 0.02
    assert gained[2] > 0.15 and gained[3] > gained[4] > 0.1 and max(abs(gained[at]) for at in (1, 5, 6)) < 0.04
    used = [profiled(at)[L1] for at in range(9)]
    assert abs(gained[0]) < 0.05 and -0.3 < gained[7] < -0.23 and used[4] > max(used[:4] + used[5:]) + 10
    # The H200's: whole waves, and the kernels that test what the steps are due to; then the H100's, and lpha-z's.
    there, whole, on_h100, theirs = map(gains, (timed(path=H200), timed(WHOLE, H200), timed(path=H100), THEIRS))
    before, after = timed(path=H100)[:2]
    noise = max(max(of.medians) / min(of.medians) - 1 for size in (SQUARE, WHOLE) for of in timed(size, H200))
    assert whole[0] > 2 * there[0] and whole[2] < there[2] / 2 and -0.2 < whole[7] < there[7] * 0.6
    assert all(abs(whole[at] - there[at]) < 0.02 for at in (1, 3, 4, 5, 6))
    assert max(abs(each[at]) for each in (whole, there) for at in (1, 5, 6)) < 0.025 and 0.015 < noise < 0.025
    assert max(there[1], whole[1], on_h100[1]) < -noise
    assert abs(after.ms / before.ms - 1) < 0.005 and theirs[0] > 0.2 and theirs[7] > 0 and theirs[1] > theirs[5] > 0.03
    (_, first, deep, four), (two_whole, _, three) = timed(WHOLE, H200)[:4], recorded(STEPS_TESTED, [WHOLE], H200).points
    one, two, many = (recorded(k, [SQUARE], H200).points[0] for k in (STEPS[0], *STEPS_TESTED[:2]))
    assert three.ms > deep.ms > four.ms and ["LDL.LU" in found for found in loops] == [False, False, True]
    assert abs(two_loop / loop * one.ms / two.ms - 1) < 0.01 and many.ms > 1.15 * many_loop / loop * one.ms
    assert two.tflops > 1.05 * timed(path=H200)[1].tflops and 0.97 < two_whole.tflops / first.tflops < 1
    ladder = recorded(LADDER[2:7], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points
    third, fourth, fifth, sixth, seventh = (rung.tflops for rung in ladder)
    slow = recorded(STEPS_NOT_COUNTED[0], profiles.SIZE, "steps").points[0]
    assert 2 * third < one.tflops < fourth < two.tflops < 1.05 * fourth and 1.9 < slow.ms / shared.ms < 2.1
    assert all(abs(timed(path=H200)[7].tflops / rung - 1) < 0.03 for rung in (fifth, sixth)) and sixth < seventh
    counts = [counters.measured(BASE, *SQUARE)[name] for name in ("global_load_sectors", "l1_fill_sectors")]
    asked, filled = (count / BASE.grid(*SQUARE[:2]) / profiles.SIZE for count in counts)  # of a block at one k
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and 34 < filled < 66
    return {
        "share": f"{two.percent_of_cublas:.0f}%",
        "mhz": f"{gpu.boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in said.items()},
        "base ms": f"{base.ms:.2f} ms",
        "missed": f"{base.ms / max(said.values()) - 1:.0%}",
        "loop": f"{loop:.0f}",
        "others": f"{loop - sums - of['TM'] - of['TN']:.0f}",
        "loop two": f"{two_loop:.0f}",
        "loop many": f"{many_loop}",
        "said two": f"{two_loop / loop * one.ms:.2f} ms",
        "said many": f"{many_loop / loop * one.ms:.2f} ms",
        "registers": str(resources(BASE).registers),
        "registers given": str(registers),
        "registers four": f"{4 * registers * BASE.threads:,}",
        "taken": f"{filled:.0f}",
        **{f"by {part}": f"{by}%" for part, by in zip(said, by_time, strict=True)},
        "saved": f"{1 - filled / asked:.0%}",
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "more 1": f"{abs(more[0]):.0%}",
        **{f"busy {at}": f"{profiled(at)[L1]:.0f}%" for at in (4, 5)},
        **{f"gain {at}": f"{abs(there[at - 1]):.0%}" for at in (1, 3, 8)},
        **{f"whole {at}": f"{abs(whole[at - 1]):.0%}" for at in (1, 3, 8)},
        **{f"theirs {at}": f"{abs(theirs[at - 1]):.0%}" for at in (1, 2, 6, 8)},
        "noise": f"{noise:.0%}",
        "loss 2": f"{-there[1]:.1%}",
        "loss 2 h100": f"{-on_h100[1]:.1%}",
        "h100": f"{before.ms:.2f} ms and {after.ms:.2f} ms",
        **{f"tflops {name}": f"{each.tflops:.1f}" for name, each in (("deep", deep), ("three", three), ("four", four))},
        **{f"whole {name}": f"{each.tflops:.1f}" for name, each in (("two", two_whole), ("first", first))},
        "shallow": f"{1 - deep.ms / three.ms:.0%}",
        "fourth": f"{three.ms / four.ms - 1:.0%}",
        **{f"ms {name}": f"{each.ms:.2f} ms" for name, each in (("one", one), ("two", two), ("many", many))},
        **{f"rung {rung.kernel[:2]}": f"{rung.tflops:.1f}" for rung in (*ladder[:3], ladder[4])},
        **{f"speed {at}": f"{timed(path=H200)[at].tflops:.1f}" for at in (0, 1, 7)},
        "speed two": f"{two.tflops:.1f}",
        "registers many": str(resources(STEPS[8]).registers),
        "slow": f"{slow.ms:.2f} ms",
        "quick": f"{shared.ms:.2f} ms",
    }
