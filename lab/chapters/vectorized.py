"""Compares 06 with 07, one change at a time, and a tile of A transposed or not, for chapter 07."""

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
from . import account

OWN = {name: find("07").parameters[name] for name in ("BM", "BN", "BK", "TM", "TN")}
"""The tile of 07."""


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
    """Return the kernels from 06 to 07, each with one change more than the one before it, and 07 without any guard."""
    return {
        "06": find("06"),
        "BK = 16, not 32; the loop over k fully unrolled": find_variant("06", "unrolled completely", **OWN),
        "whole tiles without guards": find_variant("06", "unrolled completely, whole tiles apart", **OWN),
        "four floats at once": find_variant("07", "A not transposed", **OWN, BLOCKS=1),
        "registers for a third block": find_variant("07", "A not transposed"),
        "the tile of A transposed: 07": find("07"),
        "no guards at all: wrong at edges": find_variant("07", "no guards"),
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
        "Times: medians of device time. Instructions: counted by Nsight Compute. No kernel here spills.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then.
    """
    made, now = list(steps().values()), find("07")
    first, unrolled, whole, fours, third, transposed, bare = map(milliseconds, made)
    swizzled = milliseconds(find("08").variant(**now.parameters))
    flat, counts, after = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (made[4], now, find("08")))
    old, new = map(profiles.measured, (made[0], now))
    loop, busy = sass_mix(now)["loop"], account.busy(now)
    rest = [of["all"] - of["FFMA"] / WARP - of["LDS"] - of["LDG"] - of["STS"] for of in (old, new)]
    added = counts["shared_store_conflicts"] - flat["shared_store_conflicts"]
    formula = account.SIZE**3 / WARP / OWN["BN"] * (OWN["BK"] / 4 - 1)  # each store of 32 words has so many
    loose = now.variant(BLOCKS=1)
    held = [kernel_occupancy(kernel, card()).blocks_per_sm for kernel in (made[3], loose, made[4], now)]
    waits = "waits for shared memory", "another warp was chosen", "waits for L2 or DRAM"
    spent = [new[f"state: {wait}"] for wait in waits]
    fewer_reads = 1 - after["shared_load_wavefronts"] / counts["shared_load_wavefronts"]
    assert (
        rest[1] < rest[0] / 3
        and loop["LDG"] == 4 * loop["LDG.128"]
        and busy["shared memory and L1"] == max(busy.values())
        and abs(new["all"] / old["all"] - transposed / first) < 0.01
        and swizzled < 0.95 * third < 0.95 * transposed < 0.9 * first
        and abs(added / formula - 1) < 0.005
        and flat["shared_store_conflicts"] < 0.03 * counts["shared_store_conflicts"]
        and held == [2, 2, 3, 3]
        and spent == sorted((ms for name, ms in new.items() if name.startswith("state")), reverse=True)[:2] + spent[2:]
        and abs(fewer_reads - 0.25) < 0.01
        and abs(bare / transposed - 1) < 0.005
    )
    found = {
        "saved": f"{1 - new['all'] / old['all']:.0%}",
        "faster": f"{1 - transposed / first:.0%}",
        "others": f"{rest[0] / 1e6:,.0f}",
        "wide": f"{loop['LDG.128']}",
        "narrow": f"{loop['LDG']}",
        "flat registers": f"{resources(made[3]).registers}",
        "turned registers": f"{resources(loose).registers}",
        "cost": f"{transposed - third:.2f} ms",
        "flat": f"{third:.2f} ms",
        "turned": f"{transposed:.2f} ms",
        "added": f"{added / 1e6:.1f}",
        "swizzled": f"{swizzled:.2f} ms",
        "apart": f"{third - swizzled:.2f} ms",
        "busy": f"{busy['shared memory and L1']:.2f} ms",
        "gap": f"{new[profiles.BETWEEN]:.2f}",
        **{wait: f"{cycles:.2f}" for wait, cycles in zip(waits, spent, strict=True)},
        "conflicts": f"{counts['shared_store_conflicts'] / counts['l1_data_wavefronts']:.0%}",
        "reads before": f"{counts['shared_load_wavefronts'] / 1e6:.0f}",
        "reads after": f"{after['shared_load_wavefronts'] / 1e6:.0f}",
    }
    deep = find_variant("07", "A not transposed", BK=32), now.variant(BK=32)
    flat_deep, turned_deep, turned_loose = map(milliseconds, (*deep, loose))
    profiled = list(map(profile, made))
    if not (fours and flat_deep and turned_deep and turned_loose and all(profiled)):
        names = "depth", "ideas", "whole", "fours", "third", "guards", "fewer", "more", "bare fewer"
        orders = "loose flat", "loose turned", "loose cost", "third turned", "flat deep", "turned deep"
        return found | dict.fromkeys((*names, *orders), "–")
    guards, fewer, more, bare_fewer = (
        profiled[before]["all"] - profiled[then]["all"] for before, then in ((1, 2), (2, 3), (4, 3), (5, 6))
    )
    assert (
        max(abs(guards / profiled[1]["all"] - 0.1), abs(1 - whole / unrolled - 0.1)) < 0.01
        and fewer < 0.5 * guards
        and 0.85 < (whole - fours) / (unrolled - whole) < 1
        and more > 0
        and third < 0.95 * fours
        and unrolled > 1.05 * first
        and abs(bare_fewer / profiled[5]["all"] - 0.04) < 0.005
        and turned_loose - fours > 2 * (transposed - third)
        and swizzled < 0.97 * flat_deep < 0.97 * third < transposed < 0.95 * turned_deep
        and sass_mix(deep[0])["loop"]["LDL"] > 0
    )
    return found | {
        "depth": f"{unrolled - first:.2f} ms",
        "ideas": f"{unrolled - fours:.2f} ms",
        "whole": f"{unrolled - whole:.2f} ms",
        "fours": f"{whole - fours:.2f} ms",
        "third": f"{fours - third:.2f} ms",
        "guards": f"{guards / 1e6:.0f}",
        "fewer": f"{fewer / 1e6:.0f}",
        "more": f"{more / 1e6:.0f}",
        "bare fewer": f"{bare_fewer / 1e6:.0f}",
        "loose flat": f"{fours:.2f} ms",
        "loose turned": f"{turned_loose:.2f} ms",
        "loose cost": f"{turned_loose - fours:.2f} ms",
        "third turned": f"{turned_loose - transposed:.2f} ms",
        "flat deep": f"{flat_deep:.2f} ms",
        "turned deep": f"{turned_deep:.2f} ms",
    }
