"""Chapter 23: kernels without shared memory against kernels with it, lpha-z's steps, and the figures in sentences."""

from collections import Counter
from itertools import pairwise

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import ceilings, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy, resources
from ..model.sass import hot_loop, sass
from ..records import cards, published
from ..records.timings import Point, load, recorded
from ..variants import STEPS, STEPS_NOT_COUNTED, STEPS_TESTED

BASE = find("23_register_l1")
NAMES = (
    "registers and L1",
    "copy tiles of A and B, 32 deep, to shared memory",
    "multiply by α after the loop",
    "tiles half as deep",
    "16 bytes by one access, from global memory to the tiles",
    "16 bytes by one access, from the tiles to registers",
    "15 KiB of shared memory that stay unused",
    "innermost loop written out",
    "no limit of 128 registers for a thread, which takes 141",
)
"""The chapter's names for `STEPS`."""

TWO_EARLY, FOUR_EARLY, SHALLOW, HELD, ONE, TWO, A_ALONE, TWO_SHARED, WIDE_SHARED, WIDE, WIDE_FREE = STEPS_TESTED
HIS = {of.kernel: of.tflops for of in published.load() if of.source == "lpha-z notes"}
TRIED = (*STEPS, *STEPS_TESTED, *STEPS_NOT_COUNTED)
"""All kernels of the chapter, with its tile of C, in FP32."""
FOUR = {"base, α last": ONE, "base + tiles": STEPS[3], "wide": WIDE_FREE, "wide + tiles": STEPS[5]}
"""The kernels that the verdict compares, by the chapter's names for them. All multiply by α last."""

PARTS = L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST, ACTIVE = "waits for L2 or DRAM", "SMs active, %"
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, PROFILES, COUNTERS, OTHERS, CEILINGS = (
    str(cards.folder("h200") / f"{name}.json") for name in ("steps", "profiles", "counters", "others", "ceilings")
)
"""The chapter's card, whichever is shown: `WHOLE` and `STEPS_TESTED` are recorded on this one alone."""


def timed(kernel: Kernel, size: tuple[int, int, int] = WHOLE) -> Point:
    """Return the recorded time of a kernel, whatever its label."""
    alike = [of for of in TRIED if (of.parameters, of.edits) == (kernel.parameters, kernel.edits)]
    return recorded(alike or kernel, [size], H200).points[0]


def profile(kernel: Kernel) -> dict[str, int | float]:
    """Return the recorded profile of a kernel at 4096, whatever its label, with `PARTS` as shares of all cycles.

    The profiler has them as shares of the cycles in which an SM has a block. `ACTIVE`, their share, follows from
    the instructions.
    """
    alike = next(of for of in (BASE, *TRIED) if (of.parameters, of.edits) == (kernel.parameters, kernel.edits))
    of = counted(alike, SQUARE, PROFILES)
    active = of["all"] / (4 * card().sms * of["SM cycles"]) / (of[SLOTS] / 100)
    return of | {ACTIVE: 100 * active} | {part: active * of[part] for part in PARTS}


def blocks(kernel: Kernel) -> int:
    """Return how many blocks of a kernel fit on an SM."""
    return kernel_occupancy(kernel, card()).blocks_per_sm


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = WHOLE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def over(before: Kernel, after: Kernel, size: tuple[int, int, int] = WHOLE) -> str:
    """Return the least and the greatest gain that the times of single processes give."""
    (least, *_, most), (fastest, *_, slowest) = (sorted(timed(of, size).medians) for of in (before, after))
    return f"{least / slowest - 1:+.1%} to {most / fastest - 1:+.1%}"


def four_kernels() -> Table:
    """Return the blocks on an SM, and speeds and shares of cuBLAS at two sizes, of `FOUR`."""
    return Table(
        ("kernel", "blocks on an SM", "TFLOP/s (% of cuBLAS), 3168 rows", "4096 rows"),
        [
            (
                name,
                blocks(of),
                *(f"{at.tflops:.1f} ({at.percent_of_cublas:.0f})" for at in (timed(of), timed(of, SQUARE))),
            )
            for name, of in FOUR.items()
        ],
        load(H200).made,
    )


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, blocks, speeds at two sizes, and his own speeds."""
    rows = []
    for at, (before, step) in enumerate(pairwise((STEPS[0], *STEPS))):
        new, old = step.parameters, before.parameters
        speeds = (
            f"{timed(step, size).tflops:.1f}" + (f" ({over(before, step, size)})" if at else "")
            for size in (WHOLE, SQUARE)
        )
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        rows.append((f"{at} {NAMES[at]}{changes}", blocks(step), *speeds, f"{HIS[step.label]:.1f}"))
    return Table(("step", "blocks on an SM", "TFLOP/s, 3168 rows", "4096 rows", "lpha-z, 4096"), rows, load(H200).made)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    sums, gpu, both = BASE.parameters["TM"] * BASE.parameters["TN"], card(), (WHOLE, SQUARE)
    base, late, tiled, wide, wide_tiled = shown = [profile(of) for of in (BASE, *FOUR.values())]
    asked, filled = (counted(BASE, SQUARE, COUNTERS)[f"{of}_sectors"] for of in ("global_load", "l1_fill"))
    orders = [
        [each.opcode.partition(".")[0] for each in hot_loop(sass(of))] for of in (BASE, WIDE_FREE, A_ALONE, STEPS[5])
    ]
    loop, four_k, *_ = map(Counter, orders)
    warp_steps = SQUARE[0] ** 3 / (32 * sums)
    least = WHOLE[0] * WHOLE[1] * WHOLE[2] / 32 / sums / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    # The profiler counts IMAD among what the FMA pipes execute. IMAD.X adds an address's upper half.
    assert (
        (gpu.sms, gpu.boost_mhz) == (132, 1980)
        and all(max(of, key=of.get) == LONGEST for of in map(profiles.shares, shown))
        and [loop[of] for of in ("FFMA", "FMUL", "IMAD", "LDG")] == [64, 4, 20, 20]
        and base[L1] < base[PIPE] < base[SLOTS] < 70
        and filled < asked / 2
        and all(of.parameters["C_LAST"] for of in (*FOUR.values(), A_ALONE))
        and abs(warp_steps / gpu.sms * (64 + 4 + 20) / 4 / base["SM cycles"] - base[PIPE] / 100) < 0.01
        and sum(of.opcode.startswith("IMAD.X") for of in hot_loop(sass(BASE))) == 18
    )
    # A warp's 16-byte loads of four k ask for 16 · 1 + 4 · 16 sectors, and take four wavefronts each. All 20 start
    # before the first multiply-add; of B alone, four of 4 bytes; of tiles in shared memory, eight. No part is busy all
    # the time: with wide loads or with tiles, L1 and shared memory is busiest.
    # The loads of `WHOLE` as TB/s, if none hit L1: its waves are whole, so SMs work all the time.
    read, no_hits = (
        ceilings.load(CEILINGS).by_name[ceilings.READ].tera_per_second,
        32 * 20 * warp_steps * WHOLE[0] / SQUARE[0] / timed(WIDE_FREE).ms / 1e9,
    )
    assert (
        [four_k[of] for of in ("FFMA", "LDG", "IMAD")] == [256, 20, 16]
        and all(abs(of[L1] / 100 * of["SM cycles"] * gpu.sms / warp_steps - 20) < 0.1 for of in (base, wide))
        and all(abs(of[PIPE] / of[SLOTS] - share) < 0.02 for of, share in ((base, 88 / 129), (wide, 272 / 315)))
        and [Counter(of[: of.index("FFMA")])["LDG"] for of in orders] == [20, 20, 4, 0]
        and Counter(orders[3][: orders[3].index("FFMA")])["LDS"] == 8
        and 16 * "G" + 16 * "S"
        in "".join({"LDG": "G", "STS": "S"}.get(of.opcode.partition(".")[0], "") for of in sass(STEPS[3]))
        and all(max(PARTS, key=of.get) == SLOTS for of in (base, profile(TWO)))
        and all(max(PARTS, key=of.get) == L1 for of in (wide, *map(profile, STEPS[1:])))
        and max(of[part] for of in (*shown, *map(profile, STEPS)) for part in PARTS) < 80
        and all(wide[of] < wide_tiled[of] < 63 for of in PARTS)
        and abs(wide[ACTIVE] / 100 - 2048 / 396 / 6) < 0.01 > abs(wide_tiled[ACTIVE] / 100 - 2048 / 528 / 4)
        and profiles.shares(tiled)[LONGEST] < 0.6 * profiles.shares(late)[LONGEST]
        and no_hits < 0.65 * read
    )
    # Blocks on an SM, registers and spills. With three blocks, 168 registers are the most that a thread may have.
    tested = (ONE, TWO, TWO_SHARED, A_ALONE, WIDE, WIDE_FREE, SHALLOW, WIDE_SHARED, HELD)
    assert (
        [*map(blocks, (*STEPS, *tested))] == [4, 3, 3, 4, 4, 4, 4, 4, 3, 4, 4, 4, 4, 4, 3, 3, 3, 3]
        and not any(resources(of).spill_store_bytes for of in (*STEPS, *tested) if of != WIDE)
        and resources(WIDE_FREE).registers == 65_536 // (3 * 128) // 8 * 8
        and [resources(of).registers for of in (STEPS[8], WIDE_SHARED)] == [141, 118]
    )
    # The verdict: with as many blocks, tiles lose if neither kernel spills; with a fourth block, they draw level.
    fastest = [
        min((of for of in TRIED if of.parameters["SHARED"] == on), key=lambda of: timed(of, size).ms)
        for size in both
        for on in (0, 1)
    ]
    three, four, four_each = (
        [gain(*pair, size) for size in both]
        for pair in ((WIDE_FREE, WIDE_SHARED), (WIDE_FREE, STEPS[5]), (WIDE, STEPS[5]))
    )
    best = [timed(free, size).ms / timed(STEPS[7], size).ms - 1 for free, size in zip(fastest[::2], both, strict=True)]
    # Of the 2,048 tiles, four blocks on each SM make 3.88 waves, as long as 4, three make 5.17, as long as 6. Another
    # recording of the base was quicker in two processes.
    waves, again = (2048 / 528 / 4) / (2048 / 396 / 6) - 1, sorted(recorded(BASE, [SQUARE], OTHERS).points[0].medians)
    assert (
        all(-0.16 < of < -0.13 for of in three)
        and fastest == [WIDE_FREE, STEPS[7], WIDE, STEPS[7]]
        and 0 < best[0] < 0.02 < 0.05 < best[1] < 0.1
        and again[1] < 6.61 < 6.79 < min(again[2], *timed(BASE, SQUARE).medians)
        and -0.01 < four[0] < 0 < four_each[0] < four_each[1] < 0.07 < four[1]
        and abs((1 + four[0]) * (1 + waves) - 1 - four[1]) < 0.01
        and -0.1 < gain(ONE, A_ALONE, SQUARE) < -0.08
        and profile(TWO_SHARED)["LDS"] < 0.61 * profile(STEPS[3])["LDS"]
        and -0.03 < gain(TWO, TWO_SHARED) < 0 < gain(TWO, TWO_SHARED, SQUARE) < 0.01
        and gain(BASE, FOUR_EARLY) < gain(BASE, ONE) < 0 < gain(BASE, TWO_EARLY) < gain(BASE, TWO)
        and gain(STEPS[7], HELD) < 3 * gain(HELD, STEPS[8]) < 0
        and gain(STEPS[2], SHALLOW) < -0.15 < 0.05 < gain(WIDE, WIDE_FREE)
        and gain(WIDE, WIDE_FREE, SQUARE) < -0.03
    )
    return {
        "least": f"{least:.2f}",
        "missed": f"{timed(BASE).ms / least - 1:.0%}",
        "four k": f"{four_k.total()}",
        "wide took": f"{timed(WIDE_FREE).ms:.2f}",
        "asked": f"{asked / 1e6:,.0f}",
        "filled": f"{filled / 1e6:.0f}",
        "wavefronts": f"{4 * wide[L1] / 100 * wide['SM cycles'] * gpu.sms / warp_steps:.0f}",
        "no hits": f"{no_hits:.1f}",
        "fastest read": f"{read:.1f}",
        **{
            name: f"{timed(of).tflops:.1f}"
            for name, of in {
                "two early": TWO_EARLY,
                "two k": TWO,
                "four early": FOUR_EARLY,
                "wide": WIDE_FREE,
                "wide, four": WIDE,
                "A alone": A_ALONE,
                "two tiled": TWO_SHARED,
            }.items()
        },
        "registers": f"{resources(WIDE_FREE).registers}",
        "of step 5": f"{resources(STEPS[5]).registers}",
        "spilled": f"{resources(WIDE).spill_store_bytes}",
        "by loads": f"{gain(BASE, WIDE_FREE):.0%}",
        "quick": f"{2e-9 * SQUARE[0] ** 3 / again[1]:.1f}",
        "lost": f"{-three[0]:.0%}",
        "fourth 0": over(WIDE_FREE, STEPS[5]),
        "fourth 1": f"{four[1]:.0%}",
        **{f"over {on}": f"{of:.0%}" for on, of in enumerate(best)},
        "α last": f"{-gain(BASE, ONE):.0%}",
        "A alone lost": f"{-gain(ONE, A_ALONE):.0%}",
        "tiles": f"{gain(ONE, STEPS[3]):.0%}",
        "spilling at 4096": f"{timed(WIDE, SQUARE).tflops:.1f}",
        **{
            f"{name} {on}": f"{of[key]:.0f}%"
            for name, key in {"active": ACTIVE, "slots": SLOTS, "pipes": PIPE, "L1": L1}.items()
            for on, of in enumerate(shown)
        },
        **{f"waits {on}": f"{profiles.shares(of)[LONGEST]:.0%}" for on, of in enumerate(shown)},
        "ladder": f"{recorded(find('09'), [SQUARE], 'ladder').points[0].percent_of_cublas:.0f}%",
        **{f"{of} square": f"{timed(FOUR[of], SQUARE).percent_of_cublas:.0f}%" for of in ("wide", "wide + tiles")},
        "whole 3": f"{gain(STEPS[2], STEPS[3]):.0%}",
    }
