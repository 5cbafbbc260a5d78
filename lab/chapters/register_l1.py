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
from ..variants import STEPS, STEPS_NOT_COUNTED, STEPS_TESTED

BASE = find("23_register_l1")
NAMES = (
    "registers and L1",
    "copy tiles of A and B to shared memory",
    "leave C and α until after the loop",
    "tiles half as deep, so that more blocks fit",
    "16 bytes by one access, from global memory to the tiles",
    "16 bytes by one access, from the tiles to registers",
    "15 KiB more of shared memory, which nobody uses",
    "innermost loop written out",
    "up to 255 registers for a thread",
)
"""What the chapter calls each of `STEPS`."""

SLOTS, L1 = "issue slots used, %", "L1 and shared memory used, %"
LONGEST = "waits for L2 or DRAM"
"""Metrics of `profiles`."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, H100 = (str(cards.folder(name) / "steps.json") for name in ("h200", "h100"))
"""Recordings, of which the first has `WHOLE` and `STEPS_TESTED`."""
HUNDRED = "sm_89"
"""An architecture with 100 KiB of shared memory on each SM, as 8.6 and 12.0 have."""
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
    """Return lpha-z's steps: the template argument that changes, blocks on two cards, and speeds with their gains."""
    columns = {}
    for at, points in (("at 4096", timed()), ("in whole waves", timed(WHOLE)), ("by lpha-z, at 4096", THEIRS)):
        gained = "", *(f" ({gain:+.0%})" for gain in gains(points))
        if points:
            columns[f"TFLOP/s {at}"] = [f"{each.tflops:.1f}{gain}" for each, gain in zip(points, gained, strict=True)]
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        cells = (
            *(kernel_occupancy(step, gpu).blocks_per_sm for gpu in (card(), HUNDRED)),
            *(c[at] for c in columns.values()),
        )
        rows.append((f"{at} {NAMES[at]}{changes}", *cells))
    return Table(("step", "blocks on an SM", "with 100 KiB", *columns), rows, load("steps").made)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu, base = BASE.parameters, card(), timed()[0]
    profile, states, fits = profiled(0), profiles.shares(profiled(0)), kernel_occupancy(BASE, gpu)
    loops = [[each.opcode for each in hot_loop(sass(kernel))] for kernel in (BASE, *STEPS_TESTED[:2])]
    loop, two_loop, many_loop = (len(found) / ks for found, ks in zip(loops, (1, 2, 4), strict=True))
    early = [sum(code.startswith("LDG") for code in found[: found.index("FFMA")]) for found in loops]
    sums, registers = of["TM"] * of["TN"], -(-resources(BASE).registers // 8) * 8  # a warp gets multiples of 256
    additions = sum(code.partition(".")[0] == "IADD3" or code == "IMAD.X" for code in loops[0])
    warp_step_ms = profiles.SIZE**3 / 32 / sums / gpu.sms / (gpu.boost_mhz * 1e3)  # of one that takes a cycle
    said = {"l1": (of["TM"] + of["TN"]) * warp_step_ms, "slots": loop / 4 * warp_step_ms}
    least = said["slots"] * 16 / (BASE.grid(*SQUARE[:2]) / gpu.sms)  # of an SM with 16 blocks
    by_time = [round(1e8 * ms / profile["nanoseconds"]) for ms in said.values()]
    assert by_time == [round(profile[metric]) for metric in (L1, SLOTS)] and max(states, key=states.get) == LONGEST
    assert (loops[0].count("FFMA"), loops[0].count("FMUL")) == (sums, of["TN"]) and 2 * sums < loop < 2.05 * sums
    assert fits.limiter == "registers" and 4 * registers * BASE.threads <= 65_536 < 5 * registers * BASE.threads
    assert early[2] < early[0] < early[1] and two_loop < 1.02 * many_loop < 0.95 * loop
    # Blocks on an SM, here and on the card that we take lpha-z's for; what limits the latter's is shared memory.
    assert [kernel_occupancy(step, gpu).blocks_per_sm for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    assert [kernel_occupancy(step, HUNDRED).blocks_per_sm for step in STEPS] == [4, 1, 1, 2, 2, 2, 2, 2, 2]
    assert kernel_occupancy(STEPS[8], HUNDRED).limiter == "shared memory"
    # The H200's: whole waves, and the kernels that test what the steps are due to; then the H100's, and lpha-z's.
    square, whole, on_h100, theirs = map(gains, (timed(path=H200), timed(WHOLE, H200), timed(path=H100), THEIRS))
    at, points = timed(path=H200), timed(WHOLE, H200)
    runs = at[0], recorded(BASE, profiles.SIZE, str(cards.folder("h200") / "others.json")).points[0]
    medians, firsts = runs[0].medians + runs[1].medians, [run.ms / at[1].ms - 1 for run in runs]
    shares = {"four": 2048 / 528 / 4, "three": 2048 / 396 / 6}
    waves = [each.tflops * share for each, share in zip(points, shares.values(), strict=False)]
    assert len(medians) == 6 and 0.015 < firsts[1] < firsts[0] < 0.05 < 0.13 < whole[0] < theirs[0] - 0.05
    assert abs(waves[0] / at[0].tflops - 1) < 0.005 < waves[1] / waves[0] - 1 < firsts[1]
    assert -0.2 < whole[7] < square[7] * 0.6 and -0.3 < square[7] < -0.23 and theirs[7] > 0
    assert max(map(abs, (square[5], whole[5], on_h100[5]))) < 0.005
    assert min(each[at] for each in (square, whole, on_h100, theirs) for at in (3, 4)) > 0.05
    two, many, three = (
        recorded(kernel, [size], H200).points[0]
        for kernel, size in zip(STEPS_TESTED, (SQUARE, SQUARE, WHOLE), strict=True)
    )
    (uncounted,) = recorded(STEPS_NOT_COUNTED[0], profiles.SIZE, H200).points
    deep, four = points[2:4]
    assert three.ms > deep.ms > four.ms and max(two.medians) < min(medians) < max(medians) < min(many.medians)
    (loads, waits), (fewer, waits_less) = ((profiled(at)["LDG"], profiled(at)[f"state: {LONGEST}"]) for at in (3, 4))
    assert 3.9 < loads / fewer < 4.1 and waits_less < waits
    ladder = recorded(LADDER[2:7], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points
    third, fourth, fifth, _, seventh = (rung.tflops for rung in ladder)
    assert 2 * third < two.tflops and fourth < two.tflops < 1.05 * fourth
    assert abs(at[7].tflops / fifth - 1) < 0.03 and at[7].tflops < seventh / 1.1
    asked, filled = (
        counters.measured(BASE, *SQUARE)[name] / BASE.grid(*SQUARE[:2]) / profiles.SIZE  # of a block at one k
        for name in ("global_load_sectors", "l1_fill_sectors")
    )
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and filled < 64
    shown = base.medians + recorded(BASE, profiles.SIZE, "others").points[0].medians
    return {
        "share": f"{two.percent_of_cublas:.0f}%",
        "share base": f"{at[0].percent_of_cublas:.1f}%",
        "mhz": f"{gpu.boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in said.items()},
        "ms blocks": f"{least:.2f} ms",
        "base ms": f"{span(shown)} ms",
        "missed": span([ms / least - 1 for ms in shown], ".0%"),
        "profiled": f"{profile['nanoseconds'] / 1e6:.2f} ms",
        "loop": f"{loop:.0f}",
        "others": f"{loop - sums - of['TM'] - of['TN']:.0f}",
        "additions": str(additions),
        "rest": f"{loop - sums - of['TM'] - 2 * of['TN'] - additions:.0f}",
        "loop two": f"{two_loop:.0f}",
        "loop many": f"{many_loop}",
        **{f"early {name}": str(count) for name, count in zip(("one", "two", "many"), early, strict=True)},
        "registers": str(resources(BASE).registers),
        "registers given": str(registers),
        "registers four": f"{4 * registers * BASE.threads:,}",
        "taken": f"{filled:.0f}",
        **{f"by {part}": f"{by}%" for part, by in zip(said, by_time, strict=True)},
        "saved": f"{1 - filled / asked:.0%}",
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "gain 1": f"{firsts[0]:.0%}",
        "gain other": f"{firsts[1]:.0%}",
        **{f"share {blocks}": f"{share:.0%}" for blocks, share in shares.items()},
        "gain waves": f"{waves[1] / waves[0] - 1:.0%}",
        **{f"gain {step}": f"{abs(square[step - 1]):.0%}" for step in (4, 5, 8)},
        **{f"whole {step}": f"{abs(whole[step - 1]):.0%}" for step in (1, 3, 8)},
        "theirs 8": f"{theirs[7]:.0%}",
        "same": f"{max(abs(square[5]), abs(whole[5])):.1%}",
        "noise": f"{max(medians) / min(medians) - 1:.0%}",
        **{f"tflops waves {step}": f"{waves[step]:.1f}" for step in (0, 1)},
        **{f"tflops {step}": f"{at[step].tflops:.1f}" for step in (0, 1)},
        "ms uncounted": f"{uncounted.ms:.1f} ms",
        "uncounted": f"{1 - at[0].ms / uncounted.ms:.0%}",
        **{f"tflops {name}": f"{each.tflops:.1f}" for name, each in (("deep", deep), ("three", three))},
        "shallow": f"{1 - deep.ms / three.ms:.0%}",
        **{f"loads {step}": f"{count / 1e6:.1f}" for step, count in ((3, loads), (4, fewer))},
        **{f"waits {step}": f"{cycles:.2f}" for step, cycles in ((3, waits), (4, waits_less))},
        "ms one": span(medians),
        **{f"ms {name}": span(each.medians) for name, each in (("two", two), ("many", many))},
        **{f"rung {rung.kernel[:2]}": f"{rung.tflops:.1f}" for rung in (*ladder[:3], ladder[4])},
        "speed 7": f"{at[7].tflops:.1f}",
        "speed two": f"{two.tflops:.1f}",
        "registers many": str(resources(STEPS[8]).registers),
    }
