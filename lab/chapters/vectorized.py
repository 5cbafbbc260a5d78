"""What chapter 07 and its deeper page compare: 06 to 07, one change at a time, and a tile of A transposed or not."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy, resources
from ..model.sass import sass_mix
from ..records import cards
from ..records.timings import recorded
from ..variants import find_variant
from . import account, conflict_free

JUNSTAR92 = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
"""The tile of junstar92's vectorised kernel."""
OWN = {name: find("07").parameters[name] for name in JUNSTAR92}
"""The tile of 07."""
FEWER = {("padded by 4", 32): 4, ("padded by 4", 16): 2, ("padded by 4", 8): 1, ("", 32): 7} | {
    **{("", 16): 3, ("", 8): 1},
    **{("padded by 1", 32): 7, ("padded by 1", 16): 2, ("padded by 1", 8): 0},
}
"""How many conflicts fewer a store of 08 has than not swizzled, by what is done instead and by BK.

In the first four, nothing else changes; in the others, the number of instructions does.
"""


def milliseconds(kernel: Kernel) -> float | None:
    """Return the recorded time of a variant at 4096, or None if the shown card has none."""
    try:
        return recorded(kernel, account.SIZE, "variants").points[0].ms
    except ArgumentError:
        return None


def profile(kernel: Kernel) -> dict[str, int | float]:
    """Return the recorded profile of a variant at 4096, empty if the shown card has none."""
    made = "variant_profiles" in cards.recordings()
    return counted(kernel, (account.SIZE,) * 3, "variant_profiles") if made else {}


def steps() -> dict[str, Kernel]:
    """Return the kernels from 06 to 07, each with one change more than the one before it."""
    return {
        "06": find("06"),
        "BK = 16 instead of 32": find("06").variant(**OWN),
        "the loop over k unrolled completely": find_variant("06", "unrolled completely", **OWN),
        "whole tiles without guards": find_variant("06", "unrolled completely, whole tiles apart", **OWN),
        "four floats at once": find_variant("07", "A not transposed", **OWN, BLOCKS=1),
        "registers for a third block": find_variant("07", "A not transposed"),
        "the tile of A transposed: 07": find("07"),
    }


def times() -> Table:
    """Return what the compiler made of each kernel of `steps`, how many instructions it executes, and its time."""
    rows = []
    for name, kernel in steps().items():
        ms, counts, used = milliseconds(kernel), profile(kernel), resources(kernel)
        assert used.spill_store_bytes == used.spill_load_bytes == 0
        shown = f"{counts['all'] / 1e6:,.0f}" if counts else "–", f"{ms:.3f}" if ms else "–"
        rows.append((name, used.registers, kernel_occupancy(kernel, card()).blocks_per_sm, *shown))
    return Table(
        ("change, added to those above", "registers", "blocks per SM", "instructions, millions", "ms"),
        rows,
        f"From 06 to 07, M = N = K = {account.SIZE}, {card().name}",
        "No kernel here spills.",
    )


def pair(tile: dict[str, int], blocks: int) -> tuple[Kernel, Kernel]:
    """Return 07 with this tile, its tile of A as it lies in A, and transposed."""
    tile = tile | {"BLOCKS": blocks}
    return find_variant("07", "A not transposed", **tile), find("07").variant(**tile)


def turned() -> list[tuple[Kernel, Kernel, float]]:
    """Return 07 not transposed and transposed, and how many conflicts more each store of A has.

    The first two pairs have 07's own tile, the third is deeper, the last one has `JUNSTAR92`.
    """
    pairs = pair(OWN, 3), pair(OWN, 1), pair(OWN | {"BK": 32}, 3), pair(JUNSTAR92, 2)
    return [(flat, after, after.parameters["BK"] / 4 - 1) for flat, after in pairs]


def layouts() -> list[tuple[Kernel, Kernel, float]]:
    """Return 08 not swizzled and as `FEWER` has it, and by how many conflicts a store has more: a negative number."""
    made = {
        BK: conflict_free.paddings(BM=128 if BK == 8 else 64, BN=128, BK=BK, BLOCKS=2 if BK == 8 else 3)
        for _, BK in FEWER
    }
    return [(made[BK]["not swizzled"], made[BK][label], -fewer) for (label, BK), fewer in FEWER.items()]


def change(before: Kernel, after: Kernel, conflicts: float) -> tuple[float, float]:
    """Return how many ms longer the second kernel takes at 4096, and the price of so many conflicts more of a store.

    At a cycle each, they take 4 · conflicts / BN of the time that the multiply-adds take.
    """
    multiply_adds = account.milliseconds(account.SIZE**3 / card().limits.fp32_lanes)
    return milliseconds(after) - milliseconds(before), 4 * conflicts / after.parameters["BN"] * multiply_adds


def shape(kernel: Kernel) -> str:
    """Return the sides of a kernel's tiles."""
    return " × ".join(str(kernel.parameters[name]) for name in ("BM", "BN", "BK"))


def prices(pairs: list[tuple[Kernel, Kernel, float]], before: str) -> Table:
    """Return how a change of layout changes the time at 4096, the price of the conflicts it adds, and instructions."""
    rows = [
        (
            f"{shape(new)}, {kernel_occupancy(new, card()).blocks_per_sm}"
            + (f", {new.label or 'swizzled'}" if conflicts < 0 else ""),
            f"{milliseconds(old):.3f}",
            *(f"{ms:+.3f}" for ms in change(old, new, conflicts)),
            f"{conflicts:+g}",
            f"{profile(new)['all'] / profile(old)['all'] - 1:+.1%}",
        )
        for old, new, conflicts in pairs
    ]
    return Table(
        ("tile, blocks on an SM", before, "change", "price", "conflicts", "instructions"),
        rows,
        f"ms at M = N = K = {account.SIZE}, {card().name}",
        "Times: medians. Conflicts: change for each store of A. Instructions: change of all that are executed.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then.
    """
    made, now = list(steps().values()), find("07")
    first, shallow, unrolled, whole, fours, third, transposed = map(milliseconds, made)
    swizzled = milliseconds(find("08").variant(**now.parameters))
    counts = counters.measured(now, *(account.SIZE,) * 3)
    before, after = (profiles.measured(kernel)["all"] for kernel in (made[0], now))
    loop, busy = sass_mix(now)["loop"], account.busy(now)
    rest = [
        of["all"] - of["FFMA"] / WARP - of["LDS"] - of["LDG"] - of["STS"] for of in map(profiles.measured, made[::6])
    ]
    assert (
        rest[1] < rest[0] / 3
        and loop["LDG"] == 4 * loop["LDG.128"]
        and busy["shared memory and L1"] == max(busy.values())
        and abs(after / before - transposed / first) < 0.01
        and swizzled < 0.95 * third < 0.95 * transposed < 0.9 * first < 0.9 * shallow
    )
    found = {
        "saved": f"{1 - after / before:.0%}",
        "faster": f"{1 - transposed / first:.0%}",
        "others": f"{rest[0] / 1e6:,.0f}",
        "wide": f"{loop['LDG.128']}",
        "narrow": f"{loop['LDG']}",
        "busy": f"{busy['shared memory and L1']:.2f} ms",
        "depth": f"{shallow - first:.2f} ms",
        "flat": f"{third:.2f} ms",
        "turned": f"{transposed:.2f} ms",
        "swizzled": f"{swizzled:.2f} ms",
        "reads": f"{counts['shared_load_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "conflicts": f"{counts['shared_store_conflicts'] / counts['l1_data_wavefronts']:.0%}",
    }
    deep = find_variant("07", "A not transposed", BK=32), now.variant(BK=32)
    flat, turned = map(milliseconds, deep)
    profiled = list(map(profile, made))
    if not (fours and flat and turned and all(profiled)):
        names = ("ideas", "whole", "fours", "guards", "fewer", "third", "more")
        return found | dict.fromkeys((*names, "flat deep", "turned deep"), "–")
    guards, fewer, more = (
        profiled[2]["all"] - profiled[3]["all"],
        profiled[3]["all"] - profiled[4]["all"],
        profiled[5]["all"] - profiled[4]["all"],
    )
    assert (
        max(abs(guards / profiled[2]["all"] - 0.1), abs(1 - whole / unrolled - 0.1)) < 0.01
        and fewer < 0.5 * guards
        and 0.85 < (whole - fours) / (unrolled - whole) < 1
        and more > 0
        and third < 0.95 * fours
        and abs(unrolled / shallow - 1) < 0.005
        and third - flat < (shallow - first) / 4
        and sass_mix(deep[0])["loop"]["LDL"] > 0
        and swizzled < 0.97 * flat < 0.97 * third < transposed < 0.95 * turned
    )
    return found | {
        "ideas": f"{unrolled - fours:.2f} ms",
        "whole": f"{unrolled - whole:.2f} ms",
        "fours": f"{whole - fours:.2f} ms",
        "third": f"{fours - third:.2f} ms",
        "guards": f"{guards / 1e6:.0f}",
        "fewer": f"{fewer / 1e6:.0f}",
        "more": f"{more / 1e6:.0f}",
        "flat deep": f"{flat:.2f} ms",
        "turned deep": f"{turned:.2f} ms",
    }
