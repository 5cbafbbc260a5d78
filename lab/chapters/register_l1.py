"""Chapter 23: shared memory against L1 in fair pairs, lpha-z's steps, and the figures in its sentences."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted, made
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED, STEPS_TESTED

BASE = find("23_register_l1")
NAMES = (
    "registers and L1",
    "copy tiles of A and B to shared memory",
    "multiply by α after the loop",
    "tiles half as deep",
    "16 bytes by one access, from global memory to the tiles",
    "16 bytes by one access, from the tiles to registers",
    "15 KiB more of shared memory, which nobody uses",
    "innermost loop written out",
    "no limit of 128 registers for a thread, which takes 141",
)
"""The chapter's names for `STEPS`."""

ALPHA_TWO, ALPHA_FOUR, SHALLOW, SEVEN_HELD, ONE, TWO, ONLY_A, TWO_SHARED, WIDE_SHARED, WIDE, WIDE_FREE = STEPS_TESTED
PLAIN = STEPS_NOT_COUNTED[2]
"""Step 3 with a copy loop whose passes the compiler doesn't count, so that a thread copies four elements at a time."""
PAIRS = {
    "A and B in tiles": (ONE, STEPS[3]),
    "A alone in a tile, B loaded as without tiles": (ONE, ONLY_A),
    "plain copies: A and B in tiles, the copy loop edited": (ONE, PLAIN),
    "two k a pass: UNROLL = 2 on both sides": (TWO, TWO_SHARED),
    "16 bytes an access: READ = 4 on both sides, FETCH = 4 with tiles, three blocks": (WIDE_FREE, WIDE_SHARED),
    "best with best: as above, but with tiles UNROLL = 4, EXTRA = 15360, four blocks": (WIDE_FREE, STEPS[7]),
}
"""Two kernels each, without shared memory and with it, by what they have beyond BK = 16 and α after the loop."""
PROFILED = (ONE, ONLY_A, STEPS[3], TWO)

L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST = "waits for L2 or DRAM"
ADDED = ("waits for shared memory", "queue to shared memory full", "barrier")
"""Metrics and states of `profiles`; a warp is in the last three only if there are tiles."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, LADDERS, PROFILES, COUNTERS = (
    str(cards.folder("h200") / f"{name}.json") for name in ("steps", "ladder", "profiles", "counters")
)
"""What the chapter tells of, whatever card is shown: `WHOLE` and `STEPS_TESTED` are recorded on this one alone."""


def timed(kernel: Kernel, size: tuple[int, int, int] = WHOLE) -> Point:
    """Return the recorded time of a kernel, whatever its label."""
    alike = [
        of for of in (*STEPS, *STEPS_TESTED, PLAIN) if (of.parameters, of.edits) == (kernel.parameters, kernel.edits)
    ]
    return recorded(alike or kernel, [size], H200).points[0]


def blocks(kernel: Kernel) -> int:
    """Return how many blocks of a kernel fit on an SM."""
    return kernel_occupancy(kernel, card()).blocks_per_sm


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = WHOLE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def pairs() -> Table:
    """Return the speeds of `PAIRS`, what shared memory gains, and the range of this over processes."""
    rows = []
    for name, pair in PAIRS.items():
        (least, *_, most), (fastest, *_, slowest) = (sorted(timed(kernel).medians) for kernel in pair)
        over = f"{least / slowest - 1:+.1%} to {most / fastest - 1:+.1%}"
        rows.append((name, *(f"{timed(kernel).tflops:.1f}" for kernel in pair), f"{gain(*pair):+.0%}", over))
    columns = ("pair", "without", "with", "gain", "over three processes")
    return Table(columns, rows, f"{load(H200).made}: TFLOP/s, 3168 rows, C_LAST = 1, BK = 16")


def spent(kernel: Kernel) -> tuple[float, ...]:
    """Return a profiled kernel's milliseconds: all, waiting for loads, waiting for tiles, and the others."""
    of = counted(kernel, SQUARE, PROFILES)
    ms, shares = of["nanoseconds"] / 1e6, profiles.shares(of)
    loads, tiles = ms * shares[LONGEST], ms * sum(shares[state] for state in ADDED)
    return ms, loads, tiles, ms - loads - tiles


def profile() -> Table:
    """Return instructions and waits of four kernels by the profiler: no tiles, of A alone, of A and B, and two k."""
    parts = zip(*map(spent, PROFILED), strict=True)
    names = ("milliseconds", "waiting for loads from global memory", "waiting for tiles", "everything else")
    rows = [(name, *map("{:.2f}".format, part)) for name, part in zip(names, parts, strict=True)]
    counts = (round(counted(kernel, SQUARE, PROFILES)["all"] / 1e6) for kernel in PROFILED)
    columns = ("at 4096", "no tiles", "A alone", "A and B", "no tiles, two k")
    return Table(columns, [*rows, ("instructions of all warps, millions", *counts)], "", f"{made(PROFILES)}.")


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, blocks, speeds at two sizes, and lpha-z's gains."""
    rows, theirs = [], {of.kernel: of.tflops for of in published.load() if of.source == "lpha-z notes"}
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        ours = (
            f"{timed(step, size).tflops:.1f}" + (f" ({gain(before, step, size):+.0%})" if at else "")
            for size in (WHOLE, SQUARE)
        )
        gained = f"{theirs[step.label] / theirs[before.label] - 1:+.0%}" if at else None
        rows.append((f"{at} {NAMES[at]}{changes}", blocks(step), *ours, gained))
    columns = ("step", "blocks on an SM", "TFLOP/s, 3168 rows", "4096 rows", "lpha-z's gain")
    return Table(columns, rows, load(H200).made)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    sums, gpu, both = BASE.parameters["TM"] * BASE.parameters["TN"], card(), (WHOLE, SQUARE)
    profile, counts = (counted(BASE, SQUARE, recording) for recording in (PROFILES, COUNTERS))
    states, loop = profiles.shares(profile), Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(BASE)))
    least = WHOLE[0] * WHOLE[1] * WHOLE[2] / 32 / sums / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    assert (gpu.sms, gpu.boost_mhz) == (132, 1980) and max(states, key=states.get) == LONGEST
    assert (loop["FFMA"], loop["FMUL"], loop["LDG"]) == (64, 4, 20) and 0.9 < (loop["IADD3"] + 2) / loop["IMAD"] < 1
    pipe = (sums + loop["FMUL"] + loop["IMAD"]) / 4 * SQUARE[0] ** 3 / 32 / sums / gpu.sms / profile["SM cycles"]
    assert abs(100 * pipe - profile[PIPE]) < 0.5 and profile[L1] < profile[PIPE] < profile[SLOTS] < 70
    filled = counts["l1_fill_sectors"] / BASE.grid(*SQUARE[:2]) / SQUARE[2]
    # Tiles save more waits for loads than time; A alone adds waits; two k save as many as tiles.
    none, only_a, tiled, two = map(spent, PROFILED)
    assert (
        none[1] - tiled[1] > 1.5 * (none[0] - tiled[0]) > 0
        and only_a[1] > none[1] + 1
        and two[1] < tiled[1]
        and two[2] == 0
        and filled < 64 + 2
    )
    fair = [Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(of))) for of in (ONE, STEPS[3])]
    # Loads before the first is used: 16 to copy four rows of B, or four; with A alone four; without tiles 20, with two
    # k a pass 26, and with four, which spill, 13.
    codes = (sass(STEPS[3]), sass(PLAIN), *(hot_loop(sass(of)) for of in (ONLY_A, ONE, TWO, ALPHA_FOUR)))
    orders = [
        "".join({"LDG": "l", "STS": "s", "FFMA": "f"}.get(each.opcode.partition(".")[0], "") for each in code)
        for code in codes
    ]
    assert "l" * 16 + "s" * 16 in orders[0] and "llllssss" in orders[1] and "l" * 5 not in orders[1]
    assert [len(order.partition("f")[0]) for order in orders[2:]] == [4, 20, 26, 13] and not fair[1]["FMUL"]
    # Blocks on an SM, registers and spills.
    assert [blocks(step) for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3] and resources(STEPS[8]).registers == 141
    assert {*map(blocks, (ONE, TWO, TWO_SHARED, ONLY_A, PLAIN, WIDE))} == {4} and {
        *map(blocks, (WIDE_FREE, WIDE_SHARED, SEVEN_HELD, SHALLOW))
    } == {3}
    assert not any(resources(of).spill_store_bytes for of in (*STEPS, *(of for pair in PAIRS.values() for of in pair)))
    # Speeds, in whole waves unless the size is given.
    slow, *quick = recorded(BASE, [SQUARE], str(cards.folder("h200") / "others.json")).points[0].medians
    gains, points = [[gain(*pair, size) for size in both] for pair in pairwise(STEPS)], [timed(BASE, of) for of in both]
    ladder = recorded(LADDER[9], SQUARE[0], LADDERS).points[0].percent_of_cublas
    shared = [gain(*pair) for pair in PAIRS.values()]
    assert max(shared) == shared[0] and min(shared) == shared[2] and 0 < shared[-1] < slow / max(quick) - 1
    assert [at for at, each in enumerate(gains, 1) if max(map(abs, each)) < 0.03] == [2, 6, 7]
    assert (
        ladder > 95
        and gain(STEPS[2], SHALLOW) < -0.15 < 0.05 < gain(WIDE, WIDE_FREE)
        and gain(WIDE, WIDE_FREE, SQUARE) < -0.03
    )
    ranked = [sorted((*STEPS, *STEPS_TESTED), key=lambda of: timed(of, size).ms) for size in both]
    fastest = [next(of for of in order if of.parameters["SHARED"] == on) for order in ranked for on in (0, 1)]
    assert fastest == [WIDE_FREE, STEPS[7], WIDE, STEPS[7]] and TWO is next(
        of for of in ranked[1] if not of.parameters["SHARED"] and not of.edits
    )
    h100 = [recorded(of, [SQUARE], str(cards.folder("h100") / "steps.json")).points[0].tflops for of in STEPS[:2]]
    assert abs(h100[1] / h100[0] - 1) < 0.005 and points[0].percent_of_cublas > points[1].percent_of_cublas + 4
    return {
        "taken": f"{filled:.0f}",
        "least": f"{least:.2f}",
        "missed": f"{points[0].ms / least - 1:.0%}",
        "by slots": f"{profile[SLOTS]:.0f}%",
        "by pipe": f"{profile[PIPE]:.1f}%",
        "by l1": f"{profile[L1]:.0f}%",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "waits": f"{states[LONGEST]:.0%}",
        "saved": f"{none[0] - tiled[0]:.2f}",
        "waits saved": f"{none[1] - tiled[1]:.2f}",
        "gain 1": f"{gains[0][0]:.0%}",
        "gain 1 at 4096": f"{gains[0][1]:.0%}",
        "apart": f"{slow / max(quick) - 1:.1%}",
        "pair one": f"{shared[0]:.0%}",
        "best": f"{shared[-1]:.0%}",
        "best three": f"{-shared[-2]:.0%}",
        "best pair at 4096": f"{gain(WIDE_FREE, STEPS[7], SQUARE):.0%}",
        "base": f"{points[0].tflops:.1f}",
        "α last": f"{timed(ONE).tflops:.1f}",
        **{
            f"{name} {on}": f"{of:.0f}"
            for name, each in {
                "integers": [of["IMAD"] + of["IADD3"] + of["VIADD"] for of in fair],
                "registers": [resources(of).registers for of in (ONE, STEPS[3])],
                "sectors": [counted(of, SQUARE, PROFILES)["L2 sectors"] / 1e6 for of in (ONE, STEPS[3])],
            }.items()
            for on, of in enumerate(each)
        },
        "four k": f"{timed(ALPHA_FOUR).tflops:.1f}",
        "four k waits": f"{profiles.shares(counted(ALPHA_FOUR, SQUARE, PROFILES))[LONGEST]:.0%}",
        "two at 4096": f"{timed(TWO, SQUARE).percent_of_cublas:.0f}%",
        **{f"step {on} held": f"{timed(of).tflops:.1f}" for on, of in ((7, SEVEN_HELD), (8, STEPS[8]))},
        "ladder": f"{ladder:.0f}%",
        "as is": f"{points[1].percent_of_cublas:.0f}%",
        "best at 4096": f"{gain(WIDE, STEPS[7], SQUARE):.0%}",
        **{f"square {on}": f"{timed(of, SQUARE).percent_of_cublas:.0f}%" for on, of in enumerate((WIDE, STEPS[7]))},
        "loss 8": f"{-gains[7][0]:.0%}",
        "whole 3": f"{gains[2][0]:.0%}",
    }
