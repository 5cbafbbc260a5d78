"""Chapter 23: a kernel without shared memory, what makes it faster, lpha-z's steps, and the figures in sentences."""

from collections import Counter

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import ceilings, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.ceilings import READ
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_TESTED

BASE, NINE, TILED = find("23_register_l1"), find("09"), STEPS[5]
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

UNROLLED, UNROLLED_FOUR, _, THREE_FULL, LATE, TWO, A_TILED, TWO_TILED, THREE, WIDE, WIDE_FREE = STEPS_TESTED
PAIRS = {
    "one k, 4 bytes a load (base with late α)": (LATE, STEPS[3]),
    "two k, 4 bytes a load (two k)": (TWO, TWO_TILED),
    "four k, 16 bytes a load (wide → tiled)": (WIDE, TILED),
    "the same, three blocks on an SM": (WIDE_FREE, THREE),
}
"""Kernels without and with tiles, by what a thread loads in a pass, with four blocks on an SM unless said."""

L1, SLOTS = "L1 and shared memory used, %", "issue slots used, %"
WAITS = "waits for L2 or DRAM"
BOTH = SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
STEP = 64 * 32
"""The multiply-adds of a warp step: one k, for the 64 sums of 32 threads."""
H200, PROFILES, COUNTERS, RUNGS, CEILINGS = (
    str(cards.folder("h200") / f"{name}.json") for name in ("steps", "profiles", "counters", "ladder", "ceilings")
)
"""The chapter's card, whichever is shown: `WHOLE` and `STEPS_TESTED` are recorded on this one alone."""


def _labelled(kernel: Kernel, *others: Kernel) -> Kernel:
    """Return a kernel as recordings label it: as one of these others does, or else as the chapter's variants do."""
    known, code = (*others, *STEPS, *STEPS_TESTED), (kernel.parameters, kernel.edits)
    return next((of for of in known if (of.parameters, of.edits) == code), kernel)


def timed(kernel: Kernel, size: tuple[int, int, int] = SQUARE) -> Point:
    """Return the recorded time of a kernel, whatever its label."""
    return recorded(_labelled(kernel), [size], RUNGS if kernel == NINE else H200).points[0]


def profile(kernel: Kernel) -> dict[str, int | float]:
    """Return the recorded profile of a kernel at 4096, whatever its label."""
    return counted(_labelled(kernel, BASE), SQUARE, PROFILES)


def waits(kernel: Kernel, state: str = WAITS) -> float:
    """Return the share of its cycles that a warp spends in a state, at 4096."""
    return profiles.shares(profile(kernel))[state]


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = SQUARE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def cycles(kernel: Kernel) -> tuple[float, float, float]:
    """Return how many cycles of an SM a warp step takes at 4096: of L1 and shared memory, of issue slots, and all.

    The profiler has shares of the cycles in which an SM has a block, and how many these are follows from the
    instructions and the share of the issue slots.
    """
    of, warp_steps = profile(kernel), SQUARE[0] ** 3 / STEP
    issue = of["all"] / warp_steps / 4
    return issue * of[L1] / of[SLOTS], issue, of["SM cycles"] * card().sms / warp_steps


def pairs() -> Table:
    """Return the speed of each of `PAIRS` without and with tiles, and what tiles are worth, at both sizes."""
    return Table(
        ("a pass of the loop", *(of for M, *_ in BOTH for of in (f"M = {M}: TFLOP/s", f"M = {M}: tiles bring"))),
        [
            (
                name,
                *(
                    of
                    for size in BOTH
                    for of in (
                        " → ".join(f"{timed(kernel, size).tflops:.1f}" for kernel in pair),
                        f"{gain(*pair, size):+.0%}".replace("-", "−"),
                    )
                ),
            )
            for name, pair in PAIRS.items()
        ],
        f"Without tiles → with tiles, 16 k deep; N = K = 4096, {load(H200).made}",
        "Four blocks on an SM unless said. Medians of device time.",
    )


def bounds() -> Table:
    """Return what a warp step of each of `PAIRS` and of kernel 09 takes of an SM's parts and of L2."""
    return Table(
        ("a pass of the loop", "L1 and shared memory", "issue slots", "all cycles", "L2 sectors, million"),
        [
            (
                name,
                *(" → ".join(f"{of:.1f}" for of in part) for part in zip(*map(cycles, of), strict=True)),
                " → ".join(f"{profile(kernel)['L2 sectors'] / 1e6:.0f}" for kernel in of),
            )
            for name, of in (PAIRS | {"to compare: kernel 09": (NINE,)}).items()
        ],
        f"Cycles of an SM for a warp step, without tiles → with tiles; M = N = K = 4096, {load(H200).made}",
        "From Nsight Compute's profiles: wavefronts, instructions / 4, and the cycles that the launch took.",
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
        f"Step 7, held to three blocks on an SM by unused shared memory: {timed(THREE_FULL).tflops:.1f} TFLOP/s.",
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
        and [round(of, 1) for of in cycles(BASE)[:2]] == [20.0, 32.3]
        and sum(of.opcode.startswith("IMAD.X") for of in hot_loop(sass(BASE))) == 18
        and asked == 32 * warp_steps
        and filled < asked / 2
    )
    # What a pass of each loop has, blocks on an SM, and spills: of the pairs, wide alone spills.
    assert (
        [two_k[of] for of in ("FFMA", "LDG")] == [128, 40]
        and [four_k[of] for of in ("FFMA", "LDG")] == [from_tiles[of] for of in ("FFMA", "LDS")] == [256, 20]
        and [[kernel_occupancy(of, gpu).blocks_per_sm for of in pair] for pair in PAIRS.values()]
        == [[4] * 2] * 3 + [[3] * 2]
        and [resources(of).spill_store_bytes > 0 for pair in PAIRS.values() for of in pair]
        == [*[False] * 4, True, *[False] * 3]
    )
    # The bound again: with 16 bytes a load, 20 loads for four k take L1 four wavefronts each, and spills add 6 cycles.
    wide, free, nine = map(cycles, (WIDE, WIDE_FREE, NINE))
    busiest = {of: max(cycles(of)[:2]) / cycles(of)[2] for pair in PAIRS.values() for of in pair}
    read = counted(NINE, SQUARE, COUNTERS)
    assert (
        abs(free[0] - 20) < 0.05
        and 5.5 < wide[0] - free[0] < 6.5
        and all(max(cycles(of)[:2]) == cycles(of)[1] for of in (LATE, TWO, TWO_TILED))
        and all(max(cycles(of)[:2]) == cycles(of)[0] for of in (STEPS[3], WIDE, TILED, WIDE_FREE, THREE))
        and nine[0] < 0.51 * min(cycles(of)[0] for of in busiest)
        and abs(read["shared_load_requests"] / warp_steps - 4) < 0.01
        and abs(read["shared_load_wavefronts"] / read["shared_load_requests"] - 2) < 0.01
    )
    # The verdict.
    worth = [gain(*pair, size) for pair in PAIRS.values() for size in BOTH]
    sectors, rate = profile(WIDE)["L2 sectors"], profile(WIDE)["L2 sectors"] * 32 / profile(WIDE)["nanoseconds"] / 1e3
    fastest = [max(STEPS, key=lambda of, at=size: timed(of, at).tflops) for size in BOTH]
    assert (
        worth[0] == max(worth)
        and worth[1] > 0.19
        and all(abs(of) < 0.025 for of in worth[2:4])
        and all(0.05 < of < 0.07 for of in worth[4:6])
        and worth[6] == min(worth)
        and worth[7] < -0.14
        and fastest == [STEPS[7]] * 2
        and timed(WIDE_FREE, WHOLE).tflops < timed(fastest[1], WHOLE).tflops
        and abs(gain(TILED, WIDE_FREE, WHOLE)) < 0.01
        and all(gain(LATE, A_TILED, of) < -0.08 for of in BOTH)
        and gain(WIDE, WIDE_FREE) < 0 < gain(WIDE, WIDE_FREE, WHOLE)
        and waits(UNROLLED) < waits(BASE) < waits(UNROLLED_FOUR)
    )
    return {
        "worst": f"{-min(worth):.0%}",
        "best": f"{max(worth):.0%}",
        "some": f"{worth[4]:.0%}",
        "by three": f"{-gain(TILED, THREE, WHOLE):.0%}",
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
                "unrolled four": (BASE, UNROLLED_FOUR),
                "wide": (TWO, WIDE),
                "both": (BASE, WIDE),
                "A": (LATE, A_TILED),
            }.items()
        },
        **{
            f"waits {name}": f"{waits(of):.0%}"
            for name, of in {
                "unrolled": UNROLLED,
                "unrolled four": UNROLLED_FOUR,
                "A": A_TILED,
                "tiled one k": STEPS[3],
            }.items()
        },
        **{f"fastest {size[0]}": f"{timed(STEPS[7], size).percent_of_cublas:.0f}%" for size in BOTH},
        "nine %": f"{timed(NINE).percent_of_cublas:.0f}%",
        "times": f"{sectors / profile(TILED)['L2 sectors']:.1f}",
        "rate": f"{rate:.1f}",
        "of L2": f"{rate / ceilings.load(CEILINGS)[READ].tera_per_second:.0%}",
        "emptiest": f"{min(busiest.values()):.0%}",
        "fullest": f"{max(busiest.values()):.0%}",
        "nine busy": f"{max(nine[:2]) / nine[2]:.0%}",
    }
