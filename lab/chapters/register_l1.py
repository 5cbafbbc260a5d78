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
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_TESTED

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
"""What the chapter calls each of `STEPS`."""

SHALLOW, LAST_BUT_ONE, ONE, TWO, TWO_SHARED, WIDE_SHARED, WIDE, WIDE_FREE = STEPS_TESTED[2:]
PAIRS = {
    "one k": (ONE, STEPS[3]),
    "two k": (TWO, TWO_SHARED),
    "four k": (WIDE, STEPS[5]),
    "four k, three blocks": (WIDE_FREE, WIDE_SHARED),
}
"""Kernels without and with shared memory, with as many blocks on an SM, by how they read A and B."""

L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST = "waits for L2 or DRAM"
"""Metrics of `profiles`."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200 = str(cards.folder("h200") / "steps.json")
"""The recording that the chapter tells of, whatever card is shown: it alone has `WHOLE` and `STEPS_TESTED`."""
THEIRS = [result for result in published.load() if result.source == "lpha-z notes"]
"""lpha-z's own speeds of `STEPS`."""


def timed(kernel: Kernel, size: tuple[int, int, int] = WHOLE) -> Point:
    """Return the recorded time of a kernel."""
    return recorded(kernel, [size], H200).points[0]


def blocks(kernel: Kernel) -> int:
    """Return how many blocks of a kernel fit on an SM."""
    return kernel_occupancy(kernel, card()).blocks_per_sm


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = WHOLE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def per_product(kernel: Kernel) -> float:
    """Return how many instructions a kernel's innermost loop has for each multiply-add."""
    loop = Counter(each.opcode for each in hot_loop(sass(kernel)))
    return loop.total() / loop["FFMA"]


def copying(kernel: Kernel) -> float:
    """Return how many instructions a kernel executes outside its innermost loop for each multiply-add.

    They copy tiles. The profiler has counted them all for the step that copies alike.
    """
    like = STEPS[3 if kernel.parameters["FETCH"] == 1 else 5]
    return 32 * profiles.measured(like)["all"] / profiles.measured(like)["FFMA"] - per_product(like)


def pairs() -> Table:
    """Return `PAIRS`: blocks, spills, instructions and speeds, and the gains at two sizes."""
    rows = [
        (
            name,
            f"{blocks(alone)} → {blocks(shared)}",
            f"{resources(alone).spill_store_bytes} → {resources(shared).spill_store_bytes}",
            f"{per_product(alone):.2f} → {per_product(shared):.2f} + {copying(shared):.2f}",
            f"{timed(alone).tflops:.1f} → {timed(shared).tflops:.1f} ({gain(alone, shared):+.0%})",
            f"{gain(alone, shared, SQUARE):+.0%}",
        )
        for name, (alone, shared) in PAIRS.items()
    ]
    return Table(
        ("at once", "blocks on an SM", "bytes spilled", "instructions", "TFLOP/s, 3168 rows", "4096 rows"),
        rows,
        load(H200).made,
    )


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
        theirs = f"{THEIRS[at].tflops / THEIRS[at - 1].tflops - 1:+.0%}" if at else "–"
        rows.append((f"{at} {NAMES[at]}{changes}", blocks(step), *ours, theirs))
    return Table(
        ("step", "blocks on an SM", "TFLOP/s, 3168 rows", "4096 rows", "lpha-z's gain at 4096"), rows, load(H200).made
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu = BASE.parameters, card()
    profile, states = profiles.measured(BASE), profiles.shares(profiles.measured(BASE))
    loop = Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(BASE)))
    held, sums = resources(BASE).registers, of["TM"] * of["TN"]
    given = -(-held // 8) * 8  # a warp gets multiples of 256
    least = WHOLE[0] * WHOLE[1] * WHOLE[2] / 32 / sums / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    assert (gpu.sms, gpu.boost_mhz) == (132, 1980) and max(states, key=states.get) == LONGEST
    assert (loop["FFMA"], loop["FMUL"], loop["LDG"]) == (sums, of["TN"], of["TM"] + of["TN"])
    assert loop["IMAD"] + loop["IADD3"] + loop["LEA"] + loop["UIADD3"] > 0.9 * (loop.total() - sums - 24)
    pipe = (sums + loop["FMUL"] + loop["IMAD"]) / 4 * SQUARE[0] ** 3 / 32 / sums / gpu.sms / profile["SM cycles"]
    assert abs(100 * pipe - profile[PIPE]) < 0.5 and profile[L1] < profile[PIPE] < profile[SLOTS]
    assert 4 * given * BASE.threads <= 65_536 < 5 * given * BASE.threads
    filled = counters.measured(BASE, *SQUARE)["l1_fill_sectors"] / BASE.grid(*SQUARE[:2]) / profiles.SIZE
    assert filled < 64 + 2
    # Blocks on an SM, and speeds in whole waves.
    assert [blocks(step) for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3]
    assert [(blocks(alone), blocks(shared)) for alone, shared in PAIRS.values()] == [(4, 4)] * 3 + [(3, 3)]
    assert resources(STEPS[1]).shared_bytes == 66 * 1024 == 2 * resources(STEPS[3]).shared_bytes
    steps_whole, steps_square = ([gain(*pair, size) for pair in pairwise(STEPS)] for size in (WHOLE, SQUARE))
    assert min(steps_whole[3:5] + steps_square[3:5]) > 0.1 and abs(steps_whole[5]) < 0.005
    held_3, held_8 = gain(STEPS[2], SHALLOW), gain(LAST_BUT_ONE, STEPS[8])
    assert held_3 < -0.15 < 0 < steps_whole[2] and steps_whole[7] < -0.15 < -0.05 < held_8 < 0
    gains = {size: [gain(*pair, size) for pair in PAIRS.values()] for size in (WHOLE, SQUARE)}
    for one, two, _, three in gains.values():
        assert 0.19 < one < 0.21 and -0.03 < two < 0.005 and -0.15 < three < -0.13
    spilled = [resources(kernel).spill_store_bytes for pair in PAIRS.values() for kernel in pair]
    assert spilled[4] and not any(spilled[:4] + spilled[5:]) and blocks(WIDE_SHARED) < blocks(STEPS[5])
    assert [each.text for each in sass(WIDE_SHARED)] == [each.text for each in sass(STEPS[5])]
    fewer = [1 - (per_product(shared) + copying(shared)) / per_product(alone) for alone, shared in PAIRS.values()]
    first, last, best = map(timed, (STEPS[0], STEPS[7], WIDE_FREE))
    assert abs(fewer[0] - fewer[1]) < 0.02 and 0 < last.tflops / best.tflops - 1 < 0.01
    alone, with_all = (timed(kernel, SQUARE) for kernel in (WIDE, STEPS[7]))
    assert gain(WIDE, WIDE_FREE) > 0.05 and gain(WIDE, WIDE_FREE, SQUARE) < -0.03  # exercise 2
    tenth = recorded(LADDER[9], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points[0]
    assert all(  # the fastest, without shared memory and with it
        timed(kernel, size).ms >= (tiled if kernel.parameters["SHARED"] else plain).ms
        for size, plain, tiled in ((WHOLE, best, last), (SQUARE, alone, with_all))
        for kernel in (*STEPS, *STEPS_TESTED)
    )
    return {
        **{
            f"share {name}": f"{point.percent_of_cublas:.0f}%"
            for name, point in (("best at 4096", alone), ("7 at 4096", with_all), ("10", tenth))
        },
        "taken": f"{filled:.0f}",
        "missed": f"{first.ms / least - 1:.0%}",
        "by slots": f"{profile[SLOTS]:.0f}%",
        "by pipe": f"{profile[PIPE]:.1f}%",
        "by l1": f"{profile[L1]:.0f}%",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "waits": f"{states[LONGEST]:.0%}",
        "registers one": str(held),
        "registers given": str(given),
        "registers four": f"{4 * given * BASE.threads:,}",
        "registers wide": str(resources(WIDE_FREE).registers),
        "registers shared": str(resources(STEPS[5]).registers),
        "gain 1": f"{steps_whole[0]:.0%}",
        "fewer one": f"{fewer[0]:.0%}",
        "fewer two": f"{fewer[1]:.0%}",
        "pair one": f"{gains[WHOLE][0]:.0%}",
        "pair three": f"{-gains[WHOLE][3]:.0%}",
        "wide alone": f"{gain(ONE, WIDE_FREE):.0%}",
        "wide shared": f"{gain(STEPS[3], STEPS[5]):.0%}",
        "spilled": str(spilled[4]),
        "fourth": f"{gain(WIDE_SHARED, STEPS[5]):.0%}",
        "won 7": f"{with_all.tflops / alone.tflops - 1:.0%}",
        "speed best": f"{best.tflops:.1f}",
        "speed 7": f"{last.tflops:.1f}",
        "whole 3": f"{steps_whole[2]:.0%}",
        "held 3": f"{-held_3:.0%}",
        "whole 8": f"{-steps_whole[7]:.0%}",
    }
