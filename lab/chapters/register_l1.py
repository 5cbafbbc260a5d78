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
"""What the chapter calls each of `STEPS`."""

FOUR, SHALLOW, LAST_BUT_ONE, ONE, TWO, TWO_SHARED, _, WIDE, WIDE_FREE = STEPS_TESTED[1:]
PAIRS = {
    "one k": (ONE, STEPS[3]),
    "two k": (TWO, TWO_SHARED),
    "four k, 16 bytes": (WIDE, STEPS[5]),
    "four k, 16 bytes, no spills": (WIDE_FREE, STEPS[5]),
}
"""Kernels without and with shared memory, by how they read A and B; the last pair has other blocks on an SM."""
CONTROLS = (
    (f"3 {NAMES[3]}", STEPS[2], SHALLOW),
    (f"3 {NAMES[3]}", STEPS[2], STEPS[3]),
    (f"8 {NAMES[8]}", LAST_BUT_ONE, STEPS[8]),
    (f"8 {NAMES[8]}", STEPS[7], STEPS[8]),
)
"""The steps that change how many blocks fit, each with as many and as it is: the kernels before and after it."""

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


def pairs() -> Table:
    """Return `PAIRS`: their blocks and instructions, and their speeds at two sizes with the gains."""
    rows = [
        (
            name,
            f"{blocks(alone)} → {blocks(shared)}",
            f"{per_product(alone):.2f} → {per_product(shared):.2f}",
            *(
                f"{timed(alone, size).tflops:.1f} → {timed(shared, size).tflops:.1f} ({gain(alone, shared, size):+.0%})"
                for size in (WHOLE, SQUARE)
            ),
        )
        for name, (alone, shared) in PAIRS.items()
    ]
    return Table(
        ("at once", "blocks on an SM", "instructions", "TFLOP/s, 3168 rows", "4096 rows"), rows, load(H200).made
    )


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, registers, blocks, and speeds with their gains."""
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        gained = f" ({gain(before, step):+.0%})" if at else ""
        theirs = f"{THEIRS[at].tflops / THEIRS[at - 1].tflops - 1:+.0%}" if at else "–"
        speed = f"{timed(step).tflops:.1f}{gained}"
        rows.append((f"{at} {NAMES[at]}{changes}", resources(step).registers, blocks(step), speed, theirs))
    return Table(("step", "registers", "blocks on an SM", "TFLOP/s", "lpha-z's gain at 4096"), rows, load(H200).made)


def controls() -> Table:
    """Return what two steps gain with as many blocks on an SM as before, and as they are."""
    rows = [(name, f"{blocks(old)} → {blocks(new)}", f"{gain(old, new):+.0%}") for name, old, new in CONTROLS]
    return Table(("step", "blocks on an SM", "gain"), rows, load(H200).made)


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
    assert [(blocks(alone), blocks(shared)) for alone, shared in PAIRS.values()] == [(4, 4)] * 3 + [(3, 4)]
    assert resources(STEPS[1]).shared_bytes == 66 * 1024 == 2 * resources(STEPS[3]).shared_bytes
    whole = [gain(old, new) for old, new in pairwise(STEPS)]
    little = max(abs(whole[at - 1]) for at in (6, 7))
    assert little < -whole[1] < 0.03 < min(whole[at - 1] for at in (1, 3, 4, 5))
    held_3, _, held_8, _ = (gain(old, new) for _, old, new in CONTROLS)
    assert held_3 < -0.15 and whole[7] < -0.15 < -0.05 < held_8 < 0 < THEIRS[8].tflops - THEIRS[7].tflops
    (one, two, *_), (one_4096, two_4096, *_) = ([gain(*pair, at) for pair in PAIRS.values()] for at in (WHOLE, SQUARE))
    first, last, best = map(timed, (STEPS[0], STEPS[7], WIDE_FREE))
    spilled = [resources(kernel).spill_store_bytes for kernel in (ONE, TWO, WIDE_FREE, WIDE, FOUR)]
    assert 0.19 < one < one_4096 < 0.21 and -0.03 < two < 0 < two_4096 < 0.005
    assert not any(spilled[:3]) and all(spilled[3:]) and timed(FOUR).ms > first.ms
    assert 0 < last.tflops / best.tflops - 1 < 0.01
    alone, with_all = (timed(kernel, SQUARE) for kernel in (WIDE, STEPS[7]))
    assert gain(WIDE, WIDE_FREE) > 0.05 and gain(WIDE, WIDE_FREE, SQUARE) < -0.03  # exercise 1
    tenth = recorded(LADDER[9], profiles.SIZE, str(cards.folder("h200") / "ladder.json")).points[0]
    assert all(  # the fastest, without shared memory and with it
        timed(kernel, size).ms >= (tiled if kernel.parameters["SHARED"] else plain).ms
        for size, plain, tiled in ((WHOLE, best, last), (SQUARE, alone, with_all))
        for kernel in (*STEPS, *STEPS_TESTED)
    )
    return {
        **{
            f"share {name}": f"{point.percent_of_cublas:.0f}%"
            for name, point in (
                ("base", first),
                ("best", best),
                ("base at 4096", timed(STEPS[0], SQUARE)),
                ("best at 4096", alone),
                ("7 at 4096", with_all),
                ("10", tenth),
            )
        },
        "taken": f"{filled:.0f}",
        "least": f"{least:.2f} ms",
        "missed": f"{first.ms / least - 1:.0%}",
        "by slots": f"{profile[SLOTS]:.0f}%",
        "by pipe": f"{profile[PIPE]:.1f}%",
        "by l1": f"{profile[L1]:.0f}%",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "waits": f"{states[LONGEST]:.0%}",
        "registers one": str(held),
        "registers given": str(given),
        "registers four": f"{4 * given * BASE.threads:,}",
        "pair one": f"{one:.0%}",
        "spilled": str(spilled[3]),
        "ms four": f"{timed(FOUR).ms:.2f} ms",
        "apart": f"{last.tflops / best.tflops - 1:.0%}",
        "won 7": f"{with_all.tflops / alone.tflops - 1:.0%}",
        **{f"loop {name}": f"{per_product(of):.2f}" for name, of in (("one", ONE), ("two", TWO), ("wide", WIDE_FREE))},
        **{
            f"speed {name}": f"{point.tflops:.1f}"
            for name, point in (("best", best), ("7", last), ("8", timed(STEPS[8])))
        },
        "little": f"{little:.0%}",
        "loss 2": f"{abs(whole[1]):.0%}",
        "whole 8": f"{abs(whole[7]):.0%}",
        "held 3": f"{abs(held_3):.0%}",
        "held 8": f"{abs(held_8):.0%}",
        "registers 8": str(resources(STEPS[8]).registers),
        "ms 1": f"{timed(STEPS[1]).ms:.2f}",
        "ms uncounted": f"{timed(STEPS_NOT_COUNTED[0]).ms:.2f} ms",
    }
