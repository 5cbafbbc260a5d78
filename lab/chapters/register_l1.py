"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_TESTED

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


def span(values: Sequence[float], form: str = ".2f") -> str:
    """Return the least and the greatest of some values."""
    return f"{min(values):{form}} to {max(values):{form}}"


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
    of, gpu, base, gained = BASE.parameters, card(), timed()[0], gains(timed())
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
    assert more[0] < -0.14 and more[4] < 1.8 * more[3] < -0.15 and gained[2] > 0.15 and -0.3 < gained[7] < -0.23
    # The H200's: whole waves, and the kernels that test what the steps are due to; then the H100's, and lpha-z's.
    there, whole, on_h100, theirs = map(gains, (timed(path=H200), timed(WHOLE, H200), timed(path=H100), THEIRS))
    runs = timed(path=H200)[0], recorded(BASE, profiles.SIZE, str(cards.folder("h200") / "others.json")).points[0]
    medians, firsts = runs[0].medians + runs[1].medians, [run.ms / timed(path=H200)[1].ms - 1 for run in runs]
    assert len(medians) == 6 and 0.015 < firsts[1] < firsts[0] < 0.05 < 0.13 < whole[0] < theirs[0] - 0.05
    assert whole[2] < there[2] / 2 and -0.2 < whole[7] < there[7] * 0.6 and abs(on_h100[0]) < 0.005 < theirs[7]
    assert max(map(abs, (there[5], whole[5], on_h100[5]))) < 0.005
    assert round(there[1], 2) == round(whole[1], 2) < 0 and on_h100[1] < 0
    assert all(
        max(new.medians) < min(old.medians)
        for of in (timed(size, H200) for size in (SQUARE, WHOLE))
        for old, new in (of[6:8], of[2:0:-1])
    )
    assert min(each[at] for each in (there, whole, on_h100, theirs) for at in (3, 4)) > 0.05 > theirs[5] > 0.03
    (deep, four), (before, after) = timed(WHOLE, H200)[2:4], timed(path=H100)[:2]
    two, many, three = (
        recorded(kernel, [size], H200).points[0]
        for kernel, size in zip(STEPS_TESTED, (SQUARE, SQUARE, WHOLE), strict=True)
    )
    assert three.ms > deep.ms > four.ms and ["LDL.LU" in found and "STL" in found for found in loops] == [0, 0, 1]
    said_two, said_many = ([each / loop * ms for ms in medians] for each in (two_loop, many_loop))
    assert 1 < min(two.medians) / max(said_two) < 1.01 and 1.19 < min(many.medians) / max(said_many) < 1.21
    ladder = recorded(LADDER[2:7], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points
    third, fourth, fifth, _, seventh = (rung.tflops for rung in ladder)
    assert 2 * third < two.tflops and fourth < two.tflops < 1.05 * fourth
    assert abs(timed(path=H200)[7].tflops / fifth - 1) < 0.03 and timed(path=H200)[7].tflops < seventh / 1.1
    asked, filled = (
        counters.measured(BASE, *SQUARE)[name] / BASE.grid(*SQUARE[:2]) / profiles.SIZE  # of a block at one k
        for name in ("global_load_sectors", "l1_fill_sectors")
    )
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and filled < 64
    shown = base.medians + recorded(BASE, profiles.SIZE, "others").points[0].medians
    return {
        "share": f"{two.percent_of_cublas:.0f}%",
        "mhz": f"{gpu.boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in said.items()},
        "ms blocks": f"{said['slots'] * 16 / (BASE.grid(*SQUARE[:2]) / gpu.sms):.2f} ms",
        "base ms": f"{span(shown)} ms",
        "missed": span([ms / max(said.values()) - 1 for ms in shown], ".0%"),
        "profiled": f"{profile['nanoseconds'] / 1e6:.2f} ms",
        "loop": f"{loop:.0f}",
        "others": f"{loop - sums - of['TM'] - of['TN']:.0f}",
        "loop two": f"{two_loop:.0f}",
        "loop many": f"{many_loop}",
        "said two": span(said_two),
        "said many": span(said_many),
        "registers": str(resources(BASE).registers),
        "registers given": str(registers),
        "registers four": f"{4 * registers * BASE.threads:,}",
        "taken": f"{filled:.0f}",
        **{f"by {part}": f"{by}%" for part, by in zip(said, by_time, strict=True)},
        "saved": f"{1 - filled / asked:.0%}",
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        **{f"more {at}": f"{abs(more[at - 1]):.0%}" for at in (1, 4, 5)},
        "gain 1": f"{firsts[0]:.0%}",
        "gain other": f"{firsts[1]:.0%}",
        **{f"gain {at}": f"{abs(there[at - 1]):.0%}" for at in (3, 8)},
        "gain 7": span([there[6], whole[6], on_h100[6]], ".1%"),
        **{f"whole {at}": f"{abs(whole[at - 1]):.0%}" for at in (1, 2, 3, 8)},
        "h100 2": f"{-on_h100[1]:.0%}",
        **{f"theirs {at}": f"{abs(theirs[at - 1]):.0%}" for at in (1, 2, 6, 8)},
        "noise": f"{max(medians) / min(medians) - 1:.0%}",
        "h100": f"{before.ms:.2f} ms and {after.ms:.2f} ms",
        **{f"tflops {name}": f"{each.tflops:.1f}" for name, each in (("deep", deep), ("three", three), ("four", four))},
        "shallow": f"{1 - deep.ms / three.ms:.0%}",
        "fourth": f"{three.ms / four.ms - 1:.0%}",
        "ms one": span(medians),
        **{f"ms {name}": span(each.medians) for name, each in (("two", two), ("many", many))},
        **{f"rung {rung.kernel[:2]}": f"{rung.tflops:.1f}" for rung in (*ladder[:3], ladder[4])},
        "speed 7": f"{timed(path=H200)[7].tflops:.1f}",
        "speed two": f"{two.tflops:.1f}",
        "registers many": str(resources(STEPS[8]).registers),
    }
