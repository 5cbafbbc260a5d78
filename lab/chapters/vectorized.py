"""Compares 06 with 07, one change at a time, and a tile of A transposed or not, for chapter 07."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
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
USED, PROFILES, TILES = "issue slots used, %", "variant_profiles", account.SIZE**2 // (OWN["BM"] * OWN["BN"])


def milliseconds(kernel: Kernel) -> float | None:
    """Return the recorded time of a variant at 4096, or None if the shown card has none."""
    try:
        return recorded(kernel, account.SIZE, "variants").points[0].ms
    except ArgumentError:
        return None


def profile(kernel: Kernel) -> dict[str, int | float]:
    """Return the recorded profile of a variant at 4096, empty if the shown card has none."""
    return counted(kernel, (account.SIZE,) * 3, PROFILES) if PROFILES in cards.recordings() else {}


def steps() -> dict[str, Kernel]:
    """Return the kernels from 06 to 07, each with one change more than the one before it."""
    return {
        "06": find("06"),
        "BK = 16, not 32": find("06").variant(BK=16),
        "the loop over k fully unrolled": find_variant("06", "unrolled completely", **OWN),
        "whole tiles without guards": find_variant("06", "unrolled completely, whole tiles apart", **OWN),
        "four floats at once": find_variant("07", "A not transposed", **OWN, BLOCKS=1),
        "registers for a third block": find_variant("07", "A not transposed"),
        "the tile of A transposed: 07": find("07"),
    }


def times() -> Table:
    """Return blocks, instructions, how full issue slots are, and time of each kernel of `steps`."""
    rows = []
    for name, kernel in steps().items():
        counts, used = profile(kernel), resources(kernel)
        assert used.spill_store_bytes == used.spill_load_bytes == 0
        shown = (f"{counts['all'] / 1e6:,.0f}", f"{counts[USED]:.0f}%") if counts else (None, None)
        rows.append((name, kernel_occupancy(kernel, card()).blocks_per_sm, *shown, milliseconds(kernel)))
    return Table(
        ("change, added to those above", "blocks per SM", "instructions, millions", "issue slots filled", "ms"),
        rows,
        f"From 06 to 07, M = N = K = {account.SIZE}, {card().name}",
        "Times: medians of device time; the text's differences are of unrounded ones. Instructions and slots: counted "
        "by Nsight Compute; slots: of the cycles in which their scheduler has a warp. No kernel in this table spills.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then.
    """
    made, now = list(steps().values()), find("07")
    first, shallow, unrolled, whole, fours, third, transposed = map(milliseconds, made)
    flat, counts, after = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (made[5], now, find("08")))
    busy, old, places = account.busy(now), account.busy("06"), 3 * card().sms
    then, here = (recorded(kernel, (2048, 2304)).points for kernel in ("06", now))
    added = counts["shared_store_conflicts"] - flat["shared_store_conflicts"]
    assert (
        busy["shared memory and L1"] == max(*busy.values(), account.with_registers(now) or 0)
        and old["issue slots"] == max(*old.values(), account.with_registers(made[0]) or 0)
        and old["shared memory and L1"] < busy["shared memory and L1"]
        and f"{old['issue slots'] / first:.0%}" == f"{busy['issue slots'] / transposed:.0%}"
        and TILES // places == 5
        and third < transposed < 0.9 * first
        and abs(added / (counts["shared_store_wavefronts"] - flat["shared_store_wavefronts"]) - 1) < 0.005
        and [kernel_occupancy(kernel, card()).blocks_per_sm for kernel in made] == [2, 2, 2, 2, 2, 3, 3]
        and flat["shared_load_requests"] == counts["shared_load_requests"]
        and {sass_mix(kernel)["loop"]["LDS.128"] for kernel in made[5:]} == {(8 + 4) * OWN["BK"] / 4}
        and after["shared_store_conflicts"] < 0.02 * counts["shared_store_conflicts"]
    )
    found = {
        "flatter": f"{shallow:.2f} ms",
        "shallow": f"{shallow - first:.2f} ms",
        "cost": f"{transposed - third:.2f} ms",
        "turned": f"{transposed:.2f} ms",
        "added": f"{added / 1e6:.0f}",
        "busy": f"{busy['shared memory and L1']:.2f}",
        "share": f"{busy['shared memory and L1'] / transposed:.0%}",
        "share 06": f"{old['shared memory and L1'] / first:.0%}",
        "slots": f"{busy['issue slots'] / transposed:.0%}",
        "rounds of two": f"{TILES / places * 3 / 2:.1f}",
        "rounds": f"{TILES / places:.1f}",
        "last": f"{TILES % places}",
        **{f"of 06 at {new.N}": f"{new.ms / old.ms:.2f}" for old, new in zip(then, here, strict=True)},
        **{f"at {point.N}": f"{point.percent_of_cublas:.1f}%" for point in here},
    }
    profiled, deeper, two = list(map(profile, made)), milliseconds(now.variant(BK=32)), now.variant(BLOCKS=1)
    if not (fours and deeper and all(profiled)):
        return found | dict.fromkeys(
            (
                *("both", "whole", "fours", "third", "third after", "cost of two", "square"),
                *("fewer", "bare ms", "deeper", "more", "less", "rolled", "flat and deep", "spilt"),
                *("shared", "shared, bare"),
            ),
            "–",
        )
    issued, used = ([of[name] for of in profiled] for name in ("all", USED))
    bare, flat_deep = (
        find_variant("07", "no guards"),
        find_variant("07", "A not transposed", **OWN | {"BK": 32}, BLOCKS=3),
    )
    square = find_variant("07", "A not transposed", BM=128, BN=128, BK=8, TM=8, TN=8, BLOCKS=2)
    turned, unguarded = now.variant(**square.parameters), profile(bare)
    assert (
        issued[2] < issued[0] < issued[1]
        and abs(issued[3] / issued[2] - 0.9) < 0.005
        and issued[4] < issued[3]
        and abs(issued[6] / issued[5] - 1) < 0.005
        and used[1] < used[0] - 3
        and abs(used[3] - used[2]) < 0.5
        and used[2] + 2 < used[1]
        and used[3] + 2 < used[4] < used[5] - 5
        and abs(1 - whole / unrolled - 0.1) < 0.01
        and third < 0.95 * fours
        and unrolled > shallow - 0.05 > first
        and abs(unrolled / shallow - 1) < 0.01
        and abs(milliseconds(bare) / transposed - 1) < 0.002
        and abs(profile(two)["all"] / issued[4] - 1) < 0.005
        and profiled[6][profiles.SHARED] > 2 * unguarded[profiles.SHARED]
        and profiled[6][profiles.L2] < unguarded[profiles.L2]
        and [resources(kernel.variant(BLOCKS=1)).registers for kernel in (square, turned)] == [167, 130]
        and [resources(kernel).registers for kernel in (square, turned)] == [128, 128]
        and milliseconds(flat_deep) < third
        and third < fours < whole < unrolled
        and transposed < 0.95 * deeper
        and milliseconds(square) > milliseconds(turned)
    )
    return found | {
        "both": f"{unrolled - fours:.2f}",
        "whole": f"{unrolled - whole:.2f} ms",
        "fours": f"{whole - fours:.2f} ms",
        "third": f"{fours - third:.2f} ms",
        "more": f"{issued[1] / issued[0] - 1:.0%}",
        "less": f"{1 - issued[4] / issued[3]:.0%}",
        "rolled": f"{1 - issued[2] / issued[1]:.0%}",
        "third after": f"{milliseconds(two) - transposed:.2f} ms",
        "cost of two": f"{milliseconds(two) - fours:.2f} ms",
        "flat and deep": f"{milliseconds(flat_deep):.2f} ms",
        "spilt": f"{resources(flat_deep).spill_store_bytes}",
        "fewer": f"{account.per_multiply_add(issued[6] - unguarded['all']) * 8 * 4 * OWN['BK']:.0f}",
        "shared": f"{profiled[6][profiles.SHARED]:.2f}",
        "shared, bare": f"{unguarded[profiles.SHARED]:.2f}",
        "bare ms": f"{milliseconds(bare):.2f} ms",
        "deeper": f"{deeper - transposed:.2f} ms",
        "square": f"{milliseconds(square) - milliseconds(turned):.2f} ms",
    }
