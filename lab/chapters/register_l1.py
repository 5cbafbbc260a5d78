"""Chapter 23: shared memory against L1 in fair pairs, lpha-z's steps, and the figures in its sentences."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
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
    "copy tiles of A and B to shared memory",
    "leave C and α until after the loop",
    "tiles half as deep",
    "16 bytes by one access, from global memory to the tiles",
    "16 bytes by one access, from the tiles to registers",
    "15 KiB more of shared memory, which nobody uses",
    "innermost loop written out",
    "up to 255 registers for a thread",
)
"""The chapter's names for `STEPS`."""

TWO_AT_FIRST, FOUR_NARROW, SHALLOW, _, ONE, TWO, TWO_SHARED, HELD, WIDE, WIDE_FREE = STEPS_TESTED
PAIRS = {"one k": (ONE, STEPS[3]), "two k": (TWO, TWO_SHARED), "four k, 16-byte loads": (WIDE, STEPS[5])}
"""Kernels without and with shared memory, with four blocks on an SM, by how they read A and B."""

L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST = "waits for L2 or DRAM"
"""Metrics of `profiles`."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, H100 = (str(cards.folder(name) / "steps.json") for name in ("h200", "h100"))
"""The first is what the chapter tells of, whatever card is shown: it alone has `WHOLE` and `STEPS_TESTED`."""


def timed(kernel: Kernel, size: tuple[int, int, int] = WHOLE, recording: str = H200) -> Point:
    """Return the recorded time of a kernel."""
    return recorded(kernel, [size], recording).points[0]


def blocks(kernel: Kernel) -> int:
    """Return how many blocks of a kernel fit on an SM."""
    return kernel_occupancy(kernel, card()).blocks_per_sm


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = WHOLE, recording: str = H200) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size, recording).tflops / timed(before, size, recording).tflops - 1


def pairs() -> Table:
    """Return `PAIRS`: spills, speeds, and the gains at two sizes."""
    rows = [
        (
            name,
            f"{resources(alone).spill_store_bytes} → {resources(shared).spill_store_bytes}",
            f"{timed(alone).tflops:.1f} → {timed(shared).tflops:.1f} ({gain(alone, shared):+.0%})",
            f"{gain(alone, shared, SQUARE):+.0%}",
        )
        for name, (alone, shared) in PAIRS.items()
    ]
    return Table(("at once", "bytes spilled", "TFLOP/s, 3168 rows", "4096 rows"), rows, load(H200).made)


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, blocks, and speeds at two sizes with their gains."""
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        ours = (
            f"{timed(step, size).tflops:.1f}" + (f" ({gain(before, step, size):+.0%})" if at else "")
            for size in (WHOLE, SQUARE)
        )
        rows.append((f"{at} {NAMES[at]}{changes}", blocks(step), *ours))
    return Table(("step", "blocks on an SM", "TFLOP/s, 3168 rows", "4096 rows"), rows, load(H200).made)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu = BASE.parameters, card()
    profile, tiled = profiles.measured(BASE), profiles.measured(STEPS[3])
    states, loop = profiles.shares(profile), Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(BASE)))
    moves = sum(each.opcode.startswith("IMAD.MOV") for each in hot_loop(sass(BASE)))
    sums = of["TM"] * of["TN"]
    least = WHOLE[0] * WHOLE[1] * WHOLE[2] / 32 / sums / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    assert (gpu.sms, gpu.boost_mhz) == (132, 1980) and max(states, key=states.get) == LONGEST
    assert (loop["FFMA"], loop["FMUL"], loop["LDG"]) == (sums, of["TN"], of["TM"] + of["TN"]) and moves == 2
    assert loop["IMAD"] - moves + loop["IADD3"] + loop["LEA"] + loop["UIADD3"] > 0.9 * (loop.total() - sums - 24)
    pipe = (sums + loop["FMUL"] + loop["IMAD"]) / 4 * SQUARE[0] ** 3 / 32 / sums / gpu.sms / profile["SM cycles"]
    assert abs(100 * pipe - profile[PIPE]) < 0.5 and profile[L1] < profile[PIPE] < profile[SLOTS]
    filled = counters.measured(BASE, *SQUARE)["l1_fill_sectors"] / BASE.grid(*SQUARE[:2]) / profiles.SIZE
    assert filled < 64 + 2
    # Tiles halve the waits for loads, and fill few more issue slots.
    less, sooner = (1 - tiled[name] / profile[name] for name in ("all", "SM cycles"))
    waits = f"state: {LONGEST}"
    assert tiled[waits] < 0.55 * profile[waits] and 0 < tiled[SLOTS] - profile[SLOTS] < 3
    assert 0.8 * sooner < less < sooner
    at_once = "".join({"LDG": "l", "STS": "s"}.get(each.opcode.partition(".")[0], "") for each in sass(STEPS[3]))
    assert "l" * 16 + "s" * 16 in at_once  # four rows of B
    # Blocks on an SM, and speeds in whole waves.
    assert [blocks(step) for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    assert {blocks(kernel) for pair in PAIRS.values() for kernel in pair} == {4} and blocks(WIDE_FREE) == 3
    assert resources(STEPS[1]).shared_bytes == 66 * 1024 == 2 * resources(STEPS[3]).shared_bytes
    steps_whole, steps_square = ([gain(*pair, size) for pair in pairwise(STEPS)] for size in (WHOLE, SQUARE))
    assert abs(gain(*STEPS[:2], SQUARE, H100)) < 0.005
    held_3 = gain(STEPS[2], SHALLOW)
    assert held_3 < -0.15 < 0 < steps_whole[2] and resources(SHALLOW).shared_bytes == resources(STEPS[2]).shared_bytes
    ones, twos, wides = ([gain(*pair, size) for size in (WHOLE, SQUARE)] for pair in PAIRS.values())
    later = [gain(*pair) for pair in ((STEPS[0], ONE), (TWO_AT_FIRST, TWO))]
    assert min(ones) > 0.19 and max(map(abs, twos)) < 0.03 < max(wides) < later[1] < 0.1 and later[0] < 0
    assert blocks(HELD) == 3 and HELD.parameters["EXTRA"] == 33 * 1024 and timed(HELD).tflops < timed(WIDE_FREE).tflops
    spilled = [resources(kernel).spill_store_bytes for pair in PAIRS.values() for kernel in pair]
    assert spilled[4] and not any(spilled[:4] + spilled[5:]) and not resources(WIDE_FREE).spill_store_bytes
    last, best, spread = timed(STEPS[7]), timed(WIDE_FREE), 0.0
    assert best.ms_p10 < last.ms_p90 and last.ms < best.ms
    alone, with_all = (timed(kernel, SQUARE) for kernel in (WIDE, STEPS[7]))
    assert gain(WIDE, WIDE_FREE) > 0.05 and gain(WIDE, WIDE_FREE, SQUARE) < -0.03  # exercise 2
    tenth = recorded(LADDER[9], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points[0]
    for size, plain, shared in ((WHOLE, best, last), (SQUARE, alone, with_all)):
        for point in (timed(kernel, size) for kernel in (*STEPS, *STEPS_TESTED)):
            assert point.ms >= (shared if point.parameters["SHARED"] else plain).ms  # the fastest of each kind
            spread = max(spread, point.ms_p90 / point.ms - 1, 1 - point.ms_p10 / point.ms)
    return {
        **{
            f"share {name}": f"{point.percent_of_cublas:.0f}%"
            for name, point in (
                ("base", timed(STEPS[0], SQUARE)),
                ("best at 4096", alone),
                ("7 at 4096", with_all),
                ("10", tenth),
            )
        },
        "taken": f"{filled:.0f}",
        "missed": f"{timed(STEPS[0]).ms / least - 1:.0%}",
        "by slots": f"{profile[SLOTS]:.0f}%",
        "by pipe": f"{profile[PIPE]:.1f}%",
        "by l1": f"{profile[L1]:.0f}%",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "idle tiled": f"{100 - tiled[SLOTS]:.0f}%",
        "waits": f"{states[LONGEST]:.0%}",
        **{
            f"{name} {when}": f"{counts[metric]:.2f}"
            for name, metric in (("loads", waits), ("between", profiles.BETWEEN))
            for when, counts in (("base", profile), ("tiled", tiled))
        },
        "less": f"{less:.0%}",
        "sooner": f"{sooner:.0%}",
        "gain 1": f"{steps_whole[0]:.0%}",
        "gain 1 at 4096": f"{steps_square[0]:.0%}",
        "spread": f"{spread:.0%}",
        "later one": f"{-later[0]:.0%}",
        "later two": f"{later[1]:.0%}",
        "wide alone": f"{gain(ONE, WIDE):.0%}",
        "wide copies": f"{steps_whole[3]:.0%}",
        "wide reads": f"{steps_whole[4]:.0%}",
        "narrow": f"{-gain(STEPS[0], FOUR_NARROW):.0%}",
        "narrow spills": str(resources(FOUR_NARROW).spill_store_bytes),
        "spilled": str(spilled[4]),
        "won 7": f"{with_all.tflops / alone.tflops - 1:.0%}",
        "speed held": f"{timed(HELD).tflops:.1f}",
        "counted": f"{timed(STEPS[1]).ms:.2f} ms",
        "not counted": f"{timed(STEPS_NOT_COUNTED[0]).ms:.2f} ms",
        "speed best": f"{best.tflops:.1f}",
        "speed 7": f"{last.tflops:.1f}",
        "whole 3": f"{steps_whole[2]:.0%}",
    }
