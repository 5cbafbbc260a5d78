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

BASE, NINE = find("23_register_l1"), find("09")
NAMES = {
    "registers and L1": "",
    "copy tiles of A and B, 32 deep, to shared memory": "unknown: waits for global loads fall, but a block fewer fits; "
    "at 4096, another recording of step 0 was faster",
    "multiply by α after the loop": "unknown",
    "tiles half as deep": "a fourth block fits; with three, it is slower (exercise 1)",
    "16 bytes by one access, from global memory to the tiles": "unknown; fewer instructions",
    "16 bytes by one access, from the tiles to registers": "unknown; fewer instructions",
    "15 KiB of shared memory that stay unused": "changes nothing here",
    "innermost loop written out": "unknown",
    "no limit of 128 registers for a thread, which takes 141": "mostly that the fourth block doesn't fit",
}
"""The chapter's names for `STEPS`, and why they gain or lose."""

TWO_EARLY, FOUR_EARLY, SHALLOW, HELD, ONE, TWO, A_ALONE, TWO_SHARED, _, WIDE, WIDE_FREE = STEPS_TESTED
HIS = {of.kernel: of.tflops for of in published.load() if of.source == "lpha-z notes"}
TRIED = (*STEPS, *STEPS_TESTED, *STEPS_NOT_COUNTED)
"""All kernels of the chapter, with its tile of C, in FP32."""
BEST = {
    "two k: 4-byte loads": TWO,
    "two k + tiles": TWO_SHARED,
    "wide: 16-byte loads": WIDE_FREE,
    "wide, held to 128 registers": WIDE,
    "wide + tiles": STEPS[7],
}
"""The kernels that the verdict compares, by the chapter's names: of each kind the fastest, at one size or at both."""

PARTS = L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
LONGEST, ACTIVE = "waits for L2 or DRAM", "SMs active, %"
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
H200, PROFILES, COUNTERS, OTHERS, CEILINGS, LADDER = (
    str(cards.folder("h200") / f"{name}.json")
    for name in ("steps", "profiles", "counters", "others", "ceilings", "ladder")
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


def best() -> Table:
    """Return the blocks on an SM, and speeds and shares of cuBLAS, of `BEST`, kernel 09 and cuBLAS."""
    return Table(
        ("kernel", "blocks on an SM", "TFLOP/s (% of cuBLAS), 3168 rows", "4096 rows"),
        [
            *(
                (name, blocks(of), *(f"{at.tflops:.1f} ({at.percent_of_cublas:.0f})" if at else "–" for at in points))
                for name, of, *points in (
                    *((name, of, timed(of), timed(of, SQUARE)) for name, of in BEST.items()),
                    ("kernel 09: 128 × 128 tiles of C", NINE, None, recorded(NINE, [SQUARE], LADDER).points[0]),
                )
            ),
            (
                "cuBLAS",
                "–",
                *(f"{100 * timed(BASE, of).tflops / timed(BASE, of).percent_of_cublas:.1f}" for of in (WHOLE, SQUARE)),
            ),
        ],
        load(H200).made,
    )


def steps() -> Table:
    """Return lpha-z's steps: the template argument that changes, speeds at two sizes, his own, and the reason."""
    rows = []
    for at, (before, step, name) in enumerate(zip((STEPS[0], *STEPS), STEPS, NAMES, strict=False)):
        new, old = step.parameters, before.parameters
        speeds = (
            f"{timed(step, size).tflops:.1f}" + (f" ({over(before, step, size)})" if at else "")
            for size in (WHOLE, SQUARE)
        )
        changes = "".join(f": {of} {old[of]} → {new[of]}" for of in new if new[of] != old[of])
        rows.append((f"{at} {name}{changes}", *speeds, f"{HIS[step.label]:.1f}", NAMES[name]))
    return Table(
        ("step", "TFLOP/s, 3168 rows (gain, in three processes)", "4096 rows", "lpha-z, unnamed GPU, 4096", "reason"),
        rows,
        load(H200).made,
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    sums, gpu, both = BASE.parameters["TM"] * BASE.parameters["TN"], card(), (WHOLE, SQUARE)
    base, *_, wide, wide_tiled = shown = [profile(of) for of in (BASE, TWO, TWO_SHARED, WIDE_FREE, STEPS[7])]
    waits = [profiles.shares(of)[LONGEST] for of in (*shown, profile(ONE), profile(STEPS[3]))]
    asked, filled = (counted(BASE, SQUARE, COUNTERS)[f"{of}_sectors"] for of in ("global_load", "l1_fill"))
    orders = [[each.opcode.partition(".")[0] for each in hot_loop(sass(of))] for of in (BASE, WIDE_FREE, STEPS[7], TWO)]
    loop, four_k, *_ = map(Counter, orders)
    warp_steps, of_whole = (M * N * K / 32 / sums for M, N, K in (SQUARE, WHOLE))
    least, least_wide = (of_whole / gpu.sms * cycles / (gpu.boost_mhz * 1e3) for cycles in (loop.total() / 4, 20))
    # The profiler counts IMAD among what the FMA pipes execute. IMAD.X adds an address's upper half. Half of the
    # sectors that loads ask for are B's.
    assert (
        (gpu.sms, gpu.boost_mhz) == (132, 1980)
        and [loop[of] for of in ("FFMA", "FMUL", "IMAD", "LDG")] == [64, 4, 20, 20]
        and base[L1] < base[PIPE] < base[SLOTS] < 70
        and abs(asked / warp_steps - 16 - 16) < 0.01
        and filled < asked / 2
        and all(of.parameters["C_LAST"] for of in BEST.values())
        and abs(warp_steps / gpu.sms * (64 + 4 + 20) / 4 / base["SM cycles"] - base[PIPE] / 100) < 0.01
        and sum(of.opcode.startswith("IMAD.X") for of in hot_loop(sass(BASE))) == 18
    )
    # A warp's 16-byte loads of four k ask for 16 · 1 + 4 · 16 sectors, and take four wavefronts each. All 20 start
    # before the first multiply-add; of two k, all 40 before the 33rd; of tiles in shared memory, eight. No part is busy
    # all the time. The loads of `WHOLE` as TB/s, if none hit L1: its waves are whole, so SMs work all the time.
    read, no_hits = (
        ceilings.load(CEILINGS).by_name[ceilings.READ].tera_per_second,
        32 * 20 * warp_steps * WHOLE[0] / SQUARE[0] / timed(WIDE_FREE).ms / 1e9,
    )
    assert (
        [four_k[of] for of in ("FFMA", "LDG", "IMAD")] == [256, 20, 16]
        and max(20, (256 + 16) / 16, four_k.total() / 16) == 20
        and all(abs(of[L1] / 100 * of["SM cycles"] * gpu.sms / warp_steps - 20) < 0.1 for of in (base, wide))
        and all(abs(of[PIPE] / of[SLOTS] - share) < 0.02 for of, share in ((base, 88 / 129), (wide, 272 / 315)))
        and [Counter(of[: of.index("FFMA")])[load] for of, load in zip(orders, ("LDG", "LDG", "LDS"), strict=False)]
        == [20, 20, 8]
        and [orders[3].count(of) for of in ("FFMA", "LDG")] == [128, 40]
        and orders[3][: -orders[3][::-1].index("LDG")].count("FFMA") == 32
        and 16 * "G" + 16 * "S"
        in "".join({"LDG": "G", "STS": "S"}.get(of.opcode.partition(".")[0], "") for of in sass(TWO_SHARED))
        and max(of[part] for of in (*shown, *map(profile, STEPS)) for part in PARTS) < 80
        and all(wide[of] < wide_tiled[of] < 66 for of in PARTS)
        and abs(wide[ACTIVE] / 100 - 2048 / 396 / 6) < 0.01
        and max(waits[1:3]) < 0.6 * min(waits[0], waits[5])
        and no_hits < 0.65 * read
    )
    # Blocks on an SM, registers and spills. With three blocks, 168 registers are the most that a thread may have.
    tested = (ONE, TWO, TWO_SHARED, A_ALONE, WIDE, WIDE_FREE, SHALLOW, HELD)
    assert (
        [*map(blocks, (*STEPS, *tested))] == [4, 3, 3, 4, 4, 4, 4, 4, 3, 4, 4, 4, 4, 4, 3, 3, 3]
        and not any(resources(of).spill_store_bytes for of in (*STEPS, *tested) if of != WIDE)
        and resources(WIDE_FREE).registers == 65_536 // (3 * 128) // 8 * 8
        and [resources(of).registers for of in (STEPS[7], STEPS[8])] == [128, 141]
    )
    # The verdict: the fastest kernels of 4-byte and of 16-byte loads, each without and with tiles, at both sizes.
    fastest = [
        min(
            (
                of
                for of in TRIED
                if [of.parameters["SHARED"], max(of.parameters[at] for at in ("FETCH", "READ"))] == kind
            ),
            key=lambda of: timed(of, size).ms,
        )
        for kind in ([0, 1], [1, 1], [0, 4], [1, 4])
        for size in both
    ]
    narrow, by_tiles, held, four = (
        [gain(*pair, size) for pair, size in zip(pairs, both, strict=True)]
        for pairs in (
            ((TWO, TWO_SHARED),) * 2,
            ((WIDE_FREE, STEPS[7]), (WIDE, STEPS[7])),
            ((WIDE_FREE, HELD),) * 2,
            ((WIDE_FREE, STEPS[7]),) * 2,
        )
    )
    # Of the 2,048 tiles, four blocks on each SM make 3.88 waves, as long as 4, three make 5.17, as long as 6. Another
    # recording of the base was quicker in two processes.
    waves, again = (2048 / 528 / 4) / (2048 / 396 / 6) - 1, recorded(BASE, [SQUARE], OTHERS).points[0].tflops
    assert (
        fastest == [TWO, TWO, TWO_SHARED, TWO_SHARED, WIDE_FREE, WIDE, STEPS[7], STEPS[7]]
        and -0.03 < narrow[0] < 0 < narrow[1] < 0.005
        and 0 < by_tiles[0] < 0.015 < 0.08 < by_tiles[1] < 0.09
        and all(-0.15 < of < -0.13 for of in held)
        and abs((1 + four[0]) * (1 + waves) - 1 - four[1]) < 0.01
        and 1.02 * timed(BASE, SQUARE).tflops < again
        and gain(BASE, FOUR_EARLY) < 0 < gain(BASE, TWO_EARLY) < gain(BASE, TWO)
        and gain(STEPS[7], HELD) < 3 * gain(HELD, STEPS[8]) < 0
        and gain(STEPS[2], SHALLOW) < -0.15
        and profiles.shares(profile(STEPS[1]))[LONGEST] < waits[0]
        and all(profile(of)["all"] < 0.91 * profile(before)["all"] for before, of in pairwise(STEPS[3:6]))
        and all(abs(gain(STEPS[5], STEPS[6], size)) < 0.003 for size in both)
    )
    return {
        "least": f"{least:.2f}",
        "missed": f"{timed(BASE).ms / least:.1f}",
        "wide missed": f"{timed(WIDE_FREE).ms / least_wide:.1f}",
        "base took": f"{timed(BASE).ms:.2f}",
        "base registers": f"{resources(BASE).registers}",
        "four k": f"{four_k.total()}",
        "wide took": f"{timed(WIDE_FREE).ms:.2f}",
        "asked": f"{asked / 1e6:,.0f}",
        "of B": f"{asked / 2e6:,.0f}",
        "filled": f"{filled / 1e6:.0f}",
        "wavefronts": f"{4 * wide[L1] / 100 * wide['SM cycles'] * gpu.sms / warp_steps:.0f}",
        "no hits": f"{no_hits:.1f}",
        "fastest read": f"{read:.1f}",
        **{
            name: f"{timed(of).tflops:.1f}"
            for name, of in {
                "two k": TWO,
                "four early": FOUR_EARLY,
                "wide": WIDE_FREE,
                **{f"step {at}": STEPS[at] for at in (3, 5, 7)},
            }.items()
        },
        "registers": f"{resources(WIDE_FREE).registers}",
        "spilled": f"{resources(WIDE).spill_store_bytes}",
        "by two k": f"{gain(BASE, TWO):.0%}",
        "by loads": f"{gain(BASE, WIDE_FREE):.0%}",
        **{f"4 bytes {on}": f"{of:+.1%}" for on, of in enumerate(narrow)},
        **{f"16 bytes {on}": f"{of:.0%}" for on, of in enumerate(by_tiles)},
        "held": f"{-held[0]:.0%}",
        **{f"four {on}": f"{of:.0%}" for on, of in enumerate(four)},
        "tiles": f"{gain(ONE, STEPS[3]):.0%}",
        **{
            f"{name} {on}": f"{of[key]:.0f}%"
            for name, key in {"active": ACTIVE, "slots": SLOTS, "pipes": PIPE, "L1": L1}.items()
            for on, of in enumerate(shown[1:], 1)
        },
        **{f"waits {on}": f"{of:.0%}" for on, of in enumerate(waits)},
        "without": f"{timed(WIDE, SQUARE).percent_of_cublas:.0f}%",
        "with": f"{timed(STEPS[7], SQUARE).percent_of_cublas:.0f}%",
        "whole 3": f"{gain(STEPS[2], STEPS[3]):.0%}",
    }
