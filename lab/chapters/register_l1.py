"""Chapter 23: a kernel without shared memory, what makes it faster, lpha-z's steps, and the figures in sentences."""

from collections import Counter
from itertools import pairwise

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

TWO, TWO_TILED, WIDE, WIDE_FREE = (STEPS_TESTED[at] for at in (5, 7, 9, 10))
LADDER = {"base": BASE, "two k": TWO, "wide": WIDE, "tiled": TILED}
"""The chapter's kernels by its names, each with four blocks on an SM."""
CHANGES = ("–", "two k a pass, α after the loop", "16-byte loads, four k a pass", "tiles in shared memory")
"""What each of `LADDER` changes of the one before."""

PARTS = L1, PIPE, SLOTS = "L1 and shared memory used, %", "FMA pipes used, %", "issue slots used, %"
SQUARE, WHOLE = (profiles.SIZE,) * 3, (3168, 4096, 4096)
"""The second is a whole number of waves, with three blocks or with four on each of 132 SMs."""
STEP = 64 * 32
"""The multiply-adds of a warp step: one k, for the 64 sums of 32 threads."""
H200, PROFILES, COUNTERS, RUNGS = (
    str(cards.folder("h200") / f"{name}.json") for name in ("steps", "profiles", "counters", "ladder")
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
    """Return the recorded profile of a kernel at 4096, whatever its label, with `PARTS` as shares of all cycles.

    The profiler has them as shares of the cycles in which an SM has a block. The share of these follows from the
    instructions.
    """
    of = counted(_labelled(kernel, BASE), SQUARE, PROFILES)
    active = of["all"] / (4 * card().sms * of["SM cycles"]) / (of[SLOTS] / 100)
    return of | {part: active * of[part] for part in PARTS}


def gain(before: Kernel, after: Kernel, size: tuple[int, int, int] = SQUARE) -> float:
    """Return by how much a kernel is faster than another one, as a fraction."""
    return timed(after, size).tflops / timed(before, size).tflops - 1


def instructions(kernel: Kernel) -> float:
    """Return how many instructions a warp executes for each warp step, at 4096."""
    M, N, K = SQUARE
    return profile(kernel)["all"] / (M * N * K / STEP)


def ladder() -> Table:
    """Return what each kernel of `LADDER` changes, what it executes and how fast it is, and the same of kernel 09."""
    return Table(
        ("kernel", "its change", "instructions a warp step", "issue slots busy", "TFLOP/s", "% of cuBLAS"),
        [
            (
                *of,
                f"{instructions(kernel):.0f}",
                f"{profile(kernel)[SLOTS]:.0f}%",
                f"{timed(kernel).tflops:.1f}",
                f"{timed(kernel).percent_of_cublas:.0f}",
            )
            for *of, kernel in (
                *zip(LADDER, CHANGES, LADDER.values(), strict=True),
                ("kernel 09", "to compare: 128 × 128 tiles of C", NINE),
            )
        ],
        f"M = N = K = 4096, {load(H200).made}",
        "Medians of device time, kernel 09's from the ladder's recording; instructions and slots from Nsight Compute.",
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
    gpu, both = card(), (SQUARE, WHOLE)
    M, N, K = SQUARE
    warp_steps = M * N * K / STEP
    shown = base, two, *_ = [profile(of) for of in LADDER.values()]
    nine = profile(NINE)
    waits = [profiles.shares(of)["waits for L2 or DRAM"] for of in shown]
    asked, filled = (counted(BASE, SQUARE, COUNTERS)[f"{of}_sectors"] for of in ("global_load", "l1_fill"))
    orders = [[each.opcode.partition(".")[0] for each in hot_loop(sass(of))] for of in LADDER.values()]
    loop, two_k, four_k, from_tiles = map(Counter, orders)
    least = warp_steps / gpu.sms * loop.total() / 4 / (gpu.boost_mhz * 1e3)
    # The bound: of the base's loop, L1 takes 20 cycles, the FMA pipes 22, the issue slots most. The profiler counts
    # IMAD among what the FMA pipes execute. IMAD.X adds an address's upper half.
    assert (
        (gpu.sms, gpu.boost_mhz) == (132, 1980)
        and [loop[of] for of in ("FFMA", "FMUL", "IMAD", "LDG")] == [64, 4, 20, 20]
        and abs(base[L1] / 100 * base["SM cycles"] * gpu.sms / warp_steps - 20) < 0.1
        and abs(base[PIPE] / 100 * base["SM cycles"] * gpu.sms / warp_steps - 22) < 0.2
        and sum(of.opcode.startswith("IMAD.X") for of in hot_loop(sass(BASE))) == 18
        and filled < asked / 2
    )
    # What a pass of each loop has, and starts before its first multiply-add: all 40 loads of two k before the 33rd.
    assert (
        [two_k[of] for of in ("FFMA", "LDG")] == [128, 40]
        and orders[1][: -orders[1][::-1].index("LDG")].count("FFMA") == 32
        and [four_k[of] for of in ("FFMA", "LDG")] == [from_tiles[of] for of in ("FFMA", "LDS")] == [256, 20]
        and orders[3][: orders[3].index("FFMA")].count("LDS") == 8
    )
    # Registers, spills, and blocks on an SM. All multiply by α last but the base.
    used = {name: resources(of) for name, of in LADDER.items()}
    assert (
        [kernel_occupancy(of, gpu).blocks_per_sm for of in (*LADDER.values(), TWO_TILED, WIDE_FREE)] == [4] * 5 + [3]
        and [name for name, of in used.items() if of.spill_store_bytes] == ["wide"]
        and not resources(WIDE_FREE).spill_store_bytes
        and [of.parameters["C_LAST"] for of in LADDER.values()] == [0, 1, 1, 1]
    )
    # The verdict. Time follows from instructions and busy slots. With three blocks, wide is the slower one at 4096
    # alone, and as fast as tiled on whole waves.
    gains, fastest = [gain(*pair) for pair in pairwise(LADDER.values())], min(STEPS, key=lambda of: timed(of).ms)
    narrow = [gain(TWO, TWO_TILED, size) for size in both]
    useful = [64 / instructions(of) * profile(of)[SLOTS] for of in (TILED, NINE)]
    assert (
        all(58 < of[SLOTS] < 65 for of in shown)
        and 0.64 < instructions(WIDE) / instructions(BASE) < 0.68
        and 0.05 < gain(WIDE, TILED, WHOLE) < gains[2] < 0.07
        and -0.03 < narrow[1] < 0 < narrow[0] < 0.005
        and gain(WIDE, WIDE_FREE) < -0.03
        and abs(gain(TILED, WIDE_FREE, WHOLE)) < 0.01
        and fastest == STEPS[7]
        and two[SLOTS] - base[SLOTS] < 3
        and max(of[part] for of in shown for part in PARTS) < 75
        and nine[SLOTS] > 80
        and 1.5 < useful[1] / useful[0] < 1.6
    )
    return {
        "least": f"{least:.2f}",
        "missed": f"{timed(BASE).ms / least:.1f}",
        "base took": f"{timed(BASE).ms:.2f}",
        "asked": f"{asked / 1e6:,.0f}",
        "filled": f"{filled / 1e6:.0f}",
        "spilled": f"{used['wide'].spill_store_bytes}",
        **{f"{name} registers": f"{used[name].registers}" for name in ("base", "tiled")},
        **{f"by {name}": f"{of:.0%}" for name, of in zip((*LADDER,)[1:], gains, strict=True)},
        "both": f"{gain(BASE, WIDE):.0%}",
        "narrow": f"{narrow[0]:+.1%}",
        **{f"{name} %": f"{timed(LADDER[name]).percent_of_cublas:.0f}%" for name in ("wide", "tiled")},
        "nine %": f"{timed(NINE).percent_of_cublas:.0f}%",
        "fastest %": f"{timed(fastest).percent_of_cublas:.0f}%",
        "free": f"{timed(WIDE_FREE, WHOLE).tflops:.1f}",
        "tiled whole": f"{timed(TILED, WHOLE).tflops:.1f}",
        **{f"useful {on}": f"{of:.0f}%" for on, of in enumerate(useful)},
        "slots 0": f"{base[SLOTS]:.0f}%",
        "slots 1": f"{two[SLOTS]:.0f}%",
        "waits 0": f"{waits[0]:.0%}",
        "waits 1": f"{waits[1]:.0%}",
        "L1": f"{max(of[L1] for of in shown):.0f}%",
        "pipes": f"{max(of[PIPE] for of in shown):.0f}%",
    }
