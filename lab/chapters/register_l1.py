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
    "no limit of 128 registers for a thread, which takes 141",
)
"""The chapter's names for `STEPS`."""

ALPHA_TWO, ALPHA_FOUR, SHALLOW, SEVEN_HELD, ONE, TWO, ONLY_A, TWO_SHARED, WIDE_SHARED, WIDE, WIDE_FREE = STEPS_TESTED
PLAIN = STEPS_NOT_COUNTED[2]
"""Step 3 with a copy loop that the compiler cannot unroll, so that a thread copies one element at a time."""
KINDS = {
    "without": (ALPHA_FOUR, ONE, BASE, ALPHA_TWO, TWO, WIDE, WIDE_FREE),
    "with": (PLAIN, STEPS[3], TWO_SHARED, WIDE_SHARED, STEPS[5], STEPS[7]),
}
"""Kernels without shared memory and with it, the fastest last."""

L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST = "waits for L2 or DRAM"
ADDED = ("waits for shared memory", "queue to shared memory full", "barrier")
"""Metrics and states of `profiles`; a warp is in the last three only if there are tiles."""
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, LADDERS = (str(cards.folder("h200") / name) for name in ("steps.json", "ladder.json"))
"""What the chapter tells of, whatever card is shown: the first alone has `WHOLE` and `STEPS_TESTED`."""


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


def kinds() -> Table:
    """Return blocks, spills and speeds of `KINDS`, with the parameters that differ from `BASE`'s."""
    rows = []
    for kind, kernels in KINDS.items():
        for kernel in kernels:
            changes = [f"{name} {of}" for name, of in kernel.parameters.items() if BASE.parameters[name] != of]
            name = ", ".join(each for each in changes if each != "SHARED 1") + ", plain copies" * (kernel is PLAIN)
            both = (f"{timed(kernel, size).tflops:.1f}" for size in (WHOLE, SQUARE))
            rows.append((kind, name or "as it is", blocks(kernel), resources(kernel).spill_store_bytes, *both))
    columns = ("shared memory", "parameters", "blocks on an SM", "bytes spilled", "3168 rows", "4096 rows")
    return Table(columns, rows, f"{load(H200).made}: TFLOP/s")


def profile() -> Table:
    """Return waits and work of steps 0 and 3 by the profiler."""
    both = [dict(profiles.measured(kernel)) for kernel in (BASE, STEPS[3])]
    for of in both:
        of["rest"] = of[profiles.BETWEEN] - sum(of[f"state: {state}"] for state in (LONGEST, *ADDED))
    rows = [
        (name, *(form(sum(of[metric] for metric in metrics)) for of in both))
        for name, form, *metrics in (
            ("cycles from one instruction of a warp to its next", "{:.2f}".format, profiles.BETWEEN),
            ("of these, it waits for loads from global memory", "{:.2f}".format, f"state: {LONGEST}"),
            ("and for shared memory, its queue or a barrier", "{:.2f}".format, *(f"state: {state}" for state in ADDED)),
            ("and everything else", "{:.2f}".format, "rest"),
            ("instructions of all warps, millions", lambda count: round(count / 1e6), "all"),
            ("sectors at L2, millions", lambda count: round(count / 1e6), "L2 sectors"),
            ("L1 and shared memory busy", "{:.0f}%".format, L1),
            ("milliseconds", lambda count: f"{count / 1e6:.2f}", "nanoseconds"),
        )
    ]
    return Table(("at 4096", "without shared memory", "with"), rows, "", f"{profiles.made('profiles')}.")


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
    profile, tiled, counts = profiles.measured(BASE), profiles.measured(STEPS[3]), counters.measured(BASE, *SQUARE)
    states, loop = profiles.shares(profile), Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(BASE)))
    least = WHOLE[0] * WHOLE[1] * WHOLE[2] / 32 / sums / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    assert (gpu.sms, gpu.boost_mhz) == (132, 1980) and max(states, key=states.get) == LONGEST
    addresses = loop["IMAD"] + loop["IADD3"] + loop["LEA"] + loop["UIADD3"]
    assert (loop["FFMA"], loop["FMUL"], loop["LDG"]) == (64, 4, 20) and addresses > 0.9 * (loop.total() - 88)
    pipe = (sums + loop["FMUL"] + loop["IMAD"]) / 4 * SQUARE[0] ** 3 / 32 / sums / gpu.sms / profile["SM cycles"]
    assert abs(100 * pipe - profile[PIPE]) < 0.5 and profile[L1] < profile[PIPE] < profile[SLOTS] < 70
    filled, read = (counts[of] / BASE.grid(*SQUARE[:2]) / SQUARE[2] for of in ("l1_fill_sectors", "l2_sectors"))
    # Tiles halve the waits for loads, bring fewer waits of their own, and save instructions but no sectors of L2.
    less, sooner, more = (1 - tiled[name] / profile[name] for name in ("all", "SM cycles", "L2 sectors"))
    waits, added = f"state: {LONGEST}", [f"state: {state}" for state in ADDED]
    assert tiled[waits] < 0.55 * profile[waits] and profile[L1] < tiled[L1] and more < 0 < 0.8 * sooner < less < sooner
    assert sum(profile[name] for name in added) == 0 < sum(tiled[name] for name in added) < tiled[waits]
    assert (
        0 < tiled[SLOTS] - profile[SLOTS] < 3 and tiled["LDS"] == profile["LDG"] and len(hot_loop(sass(STEPS[3]))) == 90
    )
    at_once = "".join({"LDG": "l", "STS": "s"}.get(each.opcode.partition(".")[0], "") for each in sass(STEPS[3]))
    assert "l" * 16 + "s" * 16 in at_once and read < filled < 64 + 2  # four rows of B
    # Blocks on an SM, registers and spills.
    assert [blocks(step) for step in STEPS] == [4, 3, 3, 4, 4, 4, 4, 4, 3] and resources(STEPS[8]).registers == 141
    assert [blocks(kernel) for kernel in (ONE, TWO, TWO_SHARED, WIDE, WIDE_FREE, SEVEN_HELD)] == [4, 4, 4, 4, 3, 3]
    assert not any(
        resources(kernel).spill_store_bytes for kernel in (*STEPS, ONE, TWO, TWO_SHARED, WIDE_FREE, WIDE_SHARED)
    )
    assert resources(SHALLOW).shared_bytes == 66 * 1024 == resources(STEPS[2]).shared_bytes
    # Speeds, in whole waves unless the size is given, and what of them is noise.
    noise, points = 0.03, [timed(kernel, size) for kernel in (*STEPS, *STEPS_TESTED) for size in both]
    medians = recorded(BASE, [SQUARE], str(cards.folder("h200") / "others.json")).points[0].medians
    h100 = [of.ms for of in recorded(STEPS[:2], [SQUARE], str(cards.folder("h100") / "steps.json")).points]
    multiplied = loop["FMUL"] * SQUARE[0] ** 3 / 32 / sums / (profile["all"] - tiled["all"])
    gains = [[gain(*pair, size) for size in both] for pair in pairwise(STEPS)]
    assert recorded(LADDER[9], SQUARE[0], LADDERS).points[0].ms < 0.7 * timed(STEPS[7], SQUARE).ms  # the road ends
    assert gain(ONE, STEPS[3]) > 0.19 and gain(ONE, PLAIN) < -0.28 and abs(gain(TWO, TWO_SHARED)) < noise
    assert all(timed(one).ms > timed(two).ms for of in KINDS.values() for one, two in pairwise(of))
    assert [at for at, each in enumerate(gains, 1) if max(map(abs, each)) < noise] == [2, 6, 7]
    assert 0.99 < max(medians) / min(medians) - noise < 1.001 and abs(h100[1] / h100[0] - 1) < 0.005
    assert gain(WIDE_FREE, WIDE_SHARED) < -0.13 and blocks(WIDE_SHARED) == 3
    assert gain(STEPS[2], SHALLOW) < -0.15 < 0.05 < gain(WIDE, WIDE_FREE) and gain(WIDE, WIDE_FREE, SQUARE) < -0.03
    fastest = (WIDE_FREE, STEPS[7])  # without shared memory and with it
    for point in points:
        assert max(point.ms_p90 / point.ms, 2 - point.ms_p10 / point.ms) < 1.005 + noise
        assert point.size == SQUARE or point.ms >= timed(fastest[point.parameters["SHARED"]]).ms
    return {
        "taken": f"{filled:.0f}",
        "read": f"{read:.0f}",
        "missed": f"{timed(STEPS[0]).ms / least - 1:.0%}",
        "by slots": f"{profile[SLOTS]:.0f}%",
        "by pipe": f"{profile[PIPE]:.1f}%",
        "by l1": f"{profile[L1]:.0f}%",
        "idle": f"{100 - profile[SLOTS]:.0f}%",
        "waits": f"{states[LONGEST]:.0%}",
        "more": f"{-more:.0%}",
        "gain 1": f"{gains[0][0]:.0%}",
        "gain 1 at 4096": f"{gains[0][1]:.0%}",
        "noise": f"{noise:.0%}",
        "apart": f"{max(medians) / min(medians) - 1:.1%}",
        "alpha": f"{multiplied:.0%}",
        "pair four": f"{-gain(WIDE_FREE, WIDE_SHARED):.0%}",
        "ladder": f"{recorded(LADDER[9], SQUARE[0], LADDERS).points[0].percent_of_cublas:.0f}%",
        "pair one": f"{gain(ONE, STEPS[3]):.0%}",
        "pair plain": f"{-gain(ONE, PLAIN):.0%}",
        "as is": f"{timed(BASE, SQUARE).percent_of_cublas:.0f}%",
        "product": f"{profile['all'] / tiled['all']:.3f} · {profile[profiles.BETWEEN] / tiled[profiles.BETWEEN]:.3f}",
        "best": f"{gain(WIDE_FREE, STEPS[7]):.0%}",
        "best at 4096": f"{gain(WIDE, STEPS[7], SQUARE):.0%}",
        **{f"square {on}": f"{timed(of, SQUARE).percent_of_cublas:.0f}%" for on, of in enumerate((WIDE, STEPS[7]))},
        "loss 8": f"{-gains[7][0]:.0%}",
        "whole 3": f"{gains[2][0]:.0%}",
    }
