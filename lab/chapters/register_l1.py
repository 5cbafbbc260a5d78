"""Chapter 23: a kernel without shared memory, what makes it faster, lpha-z's steps, and the figures in sentences."""

from collections import Counter

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED, STEPS_TESTED

BASE, NINE, TILED, TILED_BEST = find("23_register_l1"), find("09"), STEPS[5], STEPS[7]
NAMES = (
    "base",
    "copy tiles of A and B, 32 deep, to shared memory",
    "multiply by α after the loop",
    "tiles half as deep",
    "16 bytes by one access, from global memory to the tiles",
    "16 bytes by one access, from the tiles to registers; this is tiled",
    "15 KiB of shared memory that stay unused",
    "innermost loop written out",
    "no limit of 128 registers for a thread, so three blocks on an SM",
)
"""The chapter's names for `STEPS`."""

UNROLLED, _, _, _, LATE, TWO, _, _, THREE, WIDE, WIDE_FREE = STEPS_TESTED
WITHOUT = {"base": BASE, "two k": TWO, "wide": WIDE, "wide, three blocks on an SM": WIDE_FREE}
WITH = {"tiled": TILED, "tiled, its loop over k written out": TILED_BEST}
PAIRS = {"counted": (LATE, STEPS[3]), "not counted": (LATE, STEPS_NOT_COUNTED[2]), "three": (WIDE_FREE, THREE)}
"""Kernels without tiles and with tiles 16 deep. The compiler can count the passes that copy B in the first, third."""

L1, SLOTS = "L1 and shared memory used, %", "issue slots used, %"
BOTH = SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
STEP = 64 * 32
"""The multiply-adds of a warp step: one k, for the 64 sums of 32 threads."""
H200, PROFILES, COUNTERS, RUNGS = (
    str(cards.folder("h200") / f"{name}.json") for name in ("steps", "profiles", "counters", "ladder")
)
"""The chapter's card, whichever is shown: `WHOLE` and `STEPS_TESTED` are recorded on this one alone."""


def _labelled(kernel: Kernel, *others: Kernel) -> Kernel:
    """Return a kernel as recordings label it: as one of these others does, or else as the chapter's variants do."""
    known, code = (*others, *STEPS, *STEPS_TESTED, *STEPS_NOT_COUNTED), (kernel.parameters, kernel.edits)
    return next((of for of in known if (of.parameters, of.edits) == code), kernel)


def timed(kernel: Kernel, size: tuple[int, int, int] = SQUARE) -> Point:
    """Return the recorded time of a kernel, whatever its label."""
    return recorded(_labelled(kernel), [size], RUNGS if kernel == NINE else H200).points[0]


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = SQUARE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def cycles(kernel: Kernel) -> tuple[float, float]:
    """Return how many cycles of an SM a warp step takes at 4096: of L1 and shared memory, and of issue slots.

    The profiler has shares of the cycles in which an SM has a block, and how many these are follows from the
    instructions and the share of the issue slots.
    """
    of = counted(_labelled(kernel, BASE), SQUARE, PROFILES)
    issue = of["all"] / (SQUARE[0] ** 3 / STEP) / 4
    return issue * of[L1] / of[SLOTS], issue


def speeds() -> Table:
    """Return the speed of the chapter's kernels without tiles and with them, and of 09, at both sizes."""
    rows = [
        (name, tiles, *(f"{timed(kernel, size).tflops:.1f}" for size in BOTH))
        for tiles, kernels in {"no": WITHOUT, "yes": WITH}.items()
        for name, kernel in kernels.items()
    ]
    return Table(
        ("kernel", "shared memory", *(f"M = {M}: TFLOP/s" for M, *_ in BOTH)),
        [*rows, ("kernel 09", "yes", f"{timed(NINE).tflops:.1f}", "–")],
        f"N = K = 4096, {load(H200).made}",
        "Four blocks on an SM unless said, but two of 09, which isn't recorded at 3168. Medians of device time.",
    )


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, the speed, and his own."""
    his = {of.kernel: of.tflops for of in published.load() if of.source == "lpha-z notes"}
    rows = []
    for at, (before, step, name) in enumerate(zip((STEPS[0], *STEPS), STEPS, NAMES, strict=False)):
        new, old = step.parameters, before.parameters
        changes = ", ".join(f"{of} {old[of]} → {new[of]}" for of in new if new[of] != old[of]) or "–"
        rows.append((f"{at} {name}", changes, f"{timed(step).tflops:.1f}", f"{his[step.label]:.1f}"))
    return Table(
        ("step", "argument", "TFLOP/s, H200", "TFLOP/s, lpha-z, GPU not named"),
        rows,
        f"M = N = K = 4096, {load(H200).made}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    gpu, warp_steps = card(), SQUARE[0] ** 3 / STEP
    asked, filled = (counted(BASE, SQUARE, COUNTERS)[f"{of}_sectors"] for of in ("global_load", "l1_fill"))
    loop, two_k, four_k, from_tiles = (
        Counter(each.opcode.partition(".")[0] for each in hot_loop(sass(of))) for of in (BASE, TWO, WIDE, TILED)
    )
    least = warp_steps / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    # The bound: of the base's loop, L1 takes 20 cycles, the issue slots most. Half of the sectors are of B, and no
    # block asks twice for one of these.
    assert (
        (gpu.sms, gpu.boost_mhz) == (132, 1980)
        and [loop[of] for of in ("FFMA", "FMUL", "IMAD", "LDG")] == [64, 4, 20, 20]
        and [round(of, 1) for of in cycles(BASE)] == [20.0, 32.3]
        and sum(of.opcode.startswith("IMAD.X") for of in hot_loop(sass(BASE))) == 18
        and asked == 32 * warp_steps
        and filled < asked / 2
    )
    # What a pass of each loop has, and blocks on an SM. Wide alone spills. Else its loads take four wavefronts each.
    assert (
        [two_k[of] for of in ("FFMA", "LDG")] == [128, 40]
        and [four_k[of] for of in ("FFMA", "LDG")] == [from_tiles[of] for of in ("FFMA", "LDS")] == [256, 20]
        and [[kernel_occupancy(of, gpu).blocks_per_sm for of in pair] for pair in PAIRS.values()]
        == [[4] * 2, [4] * 2, [3] * 2]
        and [kernel_occupancy(of, gpu).blocks_per_sm for of in (*WITHOUT.values(), *WITH.values(), NINE)]
        == [4, 4, 4, 3, 4, 4, 2]
        and {
            of
            for pair in (WITHOUT.values(), WITH.values(), *PAIRS.values())
            for of in pair
            if resources(of).spill_store_bytes
        }
        == {WIDE}
        and abs(cycles(WIDE_FREE)[0] - 20) < 0.05
    )
    # The answer: the best without tiles and with, at both sizes, among all that are recorded.
    known = (*STEPS, *STEPS_TESTED, *STEPS_NOT_COUNTED)
    without, tiles = (
        [
            max((of for of in known if of.parameters["SHARED"] == shared), key=lambda of: timed(of, at).tflops)
            for at in BOTH
        ]
        for shared in (0, 1)
    )
    bring = [gain(*pair, size) for *pair, size in zip(without, tiles, BOTH, strict=True)]
    pairs, h100 = {name: gain(*of) for name, of in PAIRS.items()}, str(cards.folder("h100") / "steps.json")
    on_h100 = recorded(STEPS[1], [SQUARE], h100).points[0].tflops / recorded(STEPS[0], [SQUARE], h100).points[0].tflops
    assert (
        (without, tiles) == ([WIDE, WIDE_FREE], [TILED_BEST] * 2)
        and all(0 < of < 0.1 for of in bring)
        and bring[1] < 0.015
        and pairs["counted"] > 0 > max(pairs["not counted"], pairs["three"])
        and gain(BASE, LATE) < 0 < gain(BASE, UNROLLED) < gain(BASE, TWO)
        and abs(on_h100 - 1) < 0.005
    )
    return {
        "without": f"{timed(WIDE).tflops:.1f}",
        "with": f"{timed(TILED_BEST).tflops:.1f}",
        "nine": f"{timed(NINE).tflops:.1f}",
        **{f"bring {size[0]}": f"{of:.0%}" for size, of in zip(BOTH, bring, strict=True)},
        "by nine": f"{gain(TILED_BEST, NINE):.0%}",
        **{f"pair {name}": f"{abs(of):.0%}" for name, of in pairs.items()},
        "by first": f"{gain(STEPS[0], STEPS[1]):.0%}",
        "least": f"{least:.2f}",
        "missed": f"{timed(BASE).ms / least:.1f}",
        "base took": f"{timed(BASE).ms:.2f}",
        "asked": f"{asked / 1e6:,.0f}",
        "asked of B": f"{asked / 2e6:.0f}",
        "filled": f"{filled / 1e6:.0f}",
        "base registers": f"{resources(BASE).registers}",
        **{
            f"by {name}": f"{abs(gain(*of)):.0%}"
            for name, of in {
                "late": (BASE, LATE),
                "unrolled": (BASE, UNROLLED),
                "two k": (BASE, TWO),
                "wide": (TWO, WIDE),
                "both": (BASE, WIDE),
            }.items()
        },
    }
