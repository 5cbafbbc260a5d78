"""Chapter 23: lpha-z's steps on our cards, and the figures in its sentences."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

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

L1, FMA, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
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
    points = {point.label: point for point in load(path).select(STEPS, [size]).points}
    return [points[step.label] for step in STEPS if points]


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
    return Table(("step", "blocks on an SM", "if 100 KiB", *columns), rows, load("steps").made)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu = BASE.parameters, card()
    profile, states = profiled(0), profiles.shares(profiled(0))
    loops = [[each.opcode for each in hot_loop(sass(kernel))] for kernel in (BASE, *STEPS_TESTED[:2])]
    loop, two_loop, many_loop = (len(found) / ks for found, ks in zip(loops, (1, 2, 4), strict=True))
    held = [resources(kernel).registers for kernel in (BASE, *STEPS_TESTED[:2])]
    sums, registers = of["TM"] * of["TN"], -(-held[0] // 8) * 8  # a warp gets multiples of 256
    warp_step_ms = profiles.SIZE**3 / 32 / sums / gpu.sms / (gpu.boost_mhz * 1e3)  # of one that takes a cycle
    fma = sum(code.partition(".")[0] in ("FFMA", "FMUL", "IMAD") for code in loops[0])
    said = {
        part: count * warp_step_ms
        for part, count in (("l1", of["TM"] + of["TN"]), ("fma", fma / 4), ("slots", loop / 4))
    }
    least = said["slots"] * 16 / (BASE.grid(*SQUARE[:2]) / gpu.sms)  # of an SM with 16 blocks
    busy = {part: profile[metric] for part, metric in zip(said, (L1, FMA, SLOTS), strict=True)}
    assert all(abs(1e8 * said[part] / profile["nanoseconds"] - busy[part]) < 0.5 for part in said)
    assert max(states, key=states.get) == LONGEST and 2 * sums < loop < 2.05 * sums
    assert (loops[0].count("FFMA"), loops[0].count("FMUL")) == (sums, of["TN"])
    assert sum(code.partition(".")[0] == "IADD3" or code == "IMAD.X" for code in loops[0]) > 0.8 * (
        loop - sums - of["TM"] - 2 * of["TN"]
    )
    assert 4 * registers * BASE.threads <= 65_536 < 5 * registers * BASE.threads
    assert two_loop < 1.02 * many_loop < 0.95 * loop
    # Blocks on an SM, here and on the card that we take lpha-z's for; what limits the latter's is shared memory.
    blocks = [kernel_occupancy(step, gpu).blocks_per_sm for step in (*STEPS, *STEPS_TESTED[:2])]
    assert (
        blocks == [4, 3, 3, 4, 4, 4, 4, 4, 3, 4, 4] and kernel_occupancy(STEPS[8], HUNDRED).limiter == "shared memory"
    )
    assert [kernel_occupancy(step, HUNDRED).blocks_per_sm for step in STEPS] == [4, 1, 1, 2, 2, 2, 2, 2, 2]
    # The H200's: whole waves, and the kernels that test what the steps are due to; then the H100's, and lpha-z's.
    square, whole, on_h100, theirs = map(gains, (timed(path=H200), timed(WHOLE, H200), timed(path=H100), THEIRS))
    at, points = timed(path=H200), timed(WHOLE, H200)
    again, *ladder = (
        recorded(kernel, profiles.SIZE, str(cards.folder("h200") / file)).points[0]
        for kernel, file in ((BASE, "others.json"), *((LADDER[rung], "ladder.json") for rung in (2, 3, 4, 6)))
    )
    medians = sorted(at[0].medians + again.medians)
    two_states = {"fast": median(medians[:2]), "slow": median(medians[2:])}
    firsts = [ms / at[1].ms - 1 for ms in two_states.values()]
    assert len(medians) == 6 and max(medians[1] / medians[0], medians[5] / medians[2]) < 1.002
    shares = {"four": 2048 / 528 / 4, "three": 2048 / 396 / 6}
    waves = [each.tflops * share for each, share in zip(points, shares.values(), strict=False)]
    assert abs(on_h100[0]) < 0.005 < 0.015 < firsts[0] < firsts[1] < 0.05 < 0.13 < whole[0] < theirs[0] - 0.05
    assert abs(waves[0] / at[0].tflops - 1) < 0.005 < waves[1] / waves[0] - 1 < firsts[0]
    assert -0.2 < whole[7] < square[7] * 0.6 and -0.3 < square[7] < -0.23 and theirs[7] > 0
    assert max(map(abs, (square[5], whole[5], on_h100[5]))) < 0.005 < 0.04 < theirs[5]
    assert min(each[at] for each in (square, whole, on_h100, theirs) for at in (3, 4)) > 0.05
    two, many, two_whole, three, uncounted = (
        recorded(kernel, [size], H200).points[0]
        for kernel, size in (
            *((STEPS_TESTED[0], SQUARE), (STEPS_TESTED[1], SQUARE), (STEPS_TESTED[0], WHOLE)),
            *((STEPS_TESTED[2], WHOLE), (STEPS_NOT_COUNTED[0], SQUARE)),
        )
    )
    assert (
        max(two.medians) < medians[0] < medians[5] < min(many.medians)
        and three.ms > points[2].ms > points[3].ms
        and 1.95 < uncounted.ms / at[1].ms < 2.05
    )
    copies, wide_copies, wide_reads = map(profiled, (3, 4, 5))
    assert copies["LDG"] == copies["STS"] and wide_copies["LDG"] == wide_copies["STS"] < 0.26 * copies["LDG"]
    assert wide_copies["LDS"] == 4 * wide_reads["LDS"]
    wide, later = points[5].tflops / points[3].tflops, points[7].tflops / points[1].tflops
    assert points[0].tflops < 0.9 * two_whole.tflops < 0.9 * points[1].tflops and wide - 1 > 0.8 * (later - 1)
    asked, filled = (
        counters.measured(BASE, *SQUARE)[name] / BASE.grid(*SQUARE[:2]) / profiles.SIZE  # of a block at one k
        for name in ("global_load_sectors", "l1_fill_sectors")
    )
    assert asked == BASE.threads / 32 * (of["TM"] + of["TN"] * 4) == 128 and 0.4 < (66 - filled) / (66 - 34) < 0.6
    return {
        "share": f"{two.percent_of_cublas:.0f}%",
        "share base": f"{at[0].percent_of_cublas:.1f}%",
        "mhz": f"{gpu.boost_mhz / 1e3} GHz",
        **{f"ms {part}": f"{ms:.2f} ms" for part, ms in said.items()},
        "ms blocks": f"{least:.2f} ms",
        **{f"ms {name}": f"{ms:.2f}" for name, ms in two_states.items()},
        **{f"missed {name}": f"{ms / least - 1:.0%}" for name, ms in two_states.items()},
        "profiled": f"{profile['nanoseconds'] / 1e6:.2f} ms",
        "loop": f"{loop:.0f}",
        "others": f"{loop - sums - of['TM'] - 2 * of['TN']:.0f}",
        "integer": str(fma - sums - of["TN"]),
        "cycles fma": f"{fma / 4:g}",
        "cycles slots": f"{loop / 4:g}",
        "loop two": f"{two_loop:.0f}",
        "loop many": f"{many_loop}",
        **{f"registers {name}": str(count) for name, count in zip(("one", "two", "many"), held, strict=True)},
        "registers given": str(registers),
        "registers four": f"{4 * registers * BASE.threads:,}",
        "taken": f"{filled:.0f}",
        **{f"by {part}": f"{by:.0f}%" for part, by in busy.items()},
        "saved": f"{1 - filled / asked:.0%}",
        "waits": f"{states[LONGEST]:.0%}",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        **{f"gain {name}": f"{gain:.0%}" for name, gain in zip(two_states, firsts, strict=True)},
        "gain h100": f"{abs(on_h100[0]):.0%}",
        **{f"share {blocks}": f"{share:.0%}" for blocks, share in shares.items()},
        "gain waves": f"{waves[1] / waves[0] - 1:.0%}",
        "gain 8": f"{abs(square[7]):.0%}",
        **{f"whole {step}": f"{abs(whole[step - 1]):.0%}" for step in (1, 3, 4, 5, 8)},
        "costs one": f"{1 - points[0].tflops / points[1].tflops:.0%}",
        "costs two": f"{1 - two_whole.tflops / points[1].tflops:.0%}",
        "whole later": f"{later - 1:.0%}",
        **{f"theirs {step}": f"{theirs[step - 1]:.0%}" for step in (1, 6, 8)},
        "same": f"{max(abs(square[5]), abs(whole[5])):.1%}",
        **{f"tflops waves {step}": f"{waves[step]:.1f}" for step in (0, 1)},
        **{f"tflops {step}": f"{at[step].tflops:.1f}" for step in (0, 1)},
        "ms uncounted": f"{uncounted.ms:.1f} ms",
        "shallow": f"{1 - points[2].ms / three.ms:.0%}",
        **{
            f"ms {name}": f"{min(each.medians):.2f} to {max(each.medians):.2f}"
            for name, each in (("two", two), ("many", many))
        },
        **{f"rung {rung.kernel[:2]}": f"{rung.tflops:.1f}" for rung in ladder},
        "speed 7": f"{at[7].tflops:.1f}",
        "speed two": f"{two.tflops:.1f}",
        "registers 8": str(resources(STEPS[8]).registers),
    }
