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
from . import account, resident

OWN = {name: find("07").parameters[name] for name in ("BM", "BN", "BK", "TM", "TN")}
"""The tile of 07."""
USED, CHOSEN = "issue slots used, %", "state: another warp was chosen"


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
        "BK = 16, not 32": find("06").variant(BK=16),
        "the loop over k fully unrolled": find_variant("06", "unrolled completely", **OWN),
        "whole tiles without guards": find_variant("06", "unrolled completely, whole tiles apart", **OWN),
        "four floats at once": find_variant("07", "A not transposed", **OWN, BLOCKS=1),
        "registers for a third block": find_variant("07", "A not transposed"),
        "the tile of A transposed: 07": find("07"),
    }


def times() -> Table:
    """Return registers, blocks, instructions and time of each kernel of `steps`."""
    rows = []
    for name, kernel in steps().items():
        ms, counts, used = milliseconds(kernel), profile(kernel), resources(kernel)
        assert used.spill_store_bytes == used.spill_load_bytes == 0
        shown = f"{counts['all'] / 1e6:,.0f}" if counts else "–", f"{ms:.2f}" if ms else "–"
        rows.append((name, used.registers, kernel_occupancy(kernel, card()).blocks_per_sm, *shown))
    return Table(
        ("change, added to those above", "registers", "blocks per SM", "instructions, millions", "ms"),
        rows,
        f"From 06 to 07, M = N = K = {account.SIZE}, {card().name}",
        "Times: medians of device time; the text's differences are of unrounded ones. Instructions: counted by Nsight "
        "Compute. No kernel in this table spills.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then. Times with a
    cold L2 are the H200's, and two are the H100's.
    """
    made, now = list(steps().values()), find("07")
    first, shallow, unrolled, whole, fours, third, transposed = map(milliseconds, made)
    flat, counts, after = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (made[5], now, find("08")))
    old, new = map(profiles.measured, (made[0], now))
    busy, mix = account.busy(now), sass_mix(made[0])["loop"]
    loop = (sum(mix.values()) - mix["FFMA"] - mix["LDS.128"]) * OWN["BK"] / 4  # the others of 06, for 16 of its k
    rest = [of["all"] - of["FFMA"] / WARP - of["LDS"] - of["LDG"] - of["STS"] for of in (old, new)]
    added = counts["shared_store_conflicts"] - flat["shared_store_conflicts"]
    pairs = account.SIZE**3 / WARP / (OWN["BK"] * OWN["TM"] * OWN["TN"])  # so often a warp helps to fill two tiles
    cold, h100 = (
        [point.ms for point in recorded(["06", "07"], sizes, cards.folder(name) / file).points]
        for name, file, sizes in (("h200", "cold.json", [512, 1024]), ("h100", "ladder.json", [account.SIZE]))
    )
    assert (
        rest[1] < rest[0] / 3
        and busy["shared memory and L1"] == max(*busy.values(), account.with_registers(now) or 0)
        and third < transposed < 0.9 * first
        and abs(added / (8 * (OWN["BK"] / 4 - 1) * pairs) - 1) < 0.005  # of eight stores of A for each pair of tiles
        and [kernel_occupancy(kernel, card()).blocks_per_sm for kernel in made] == [2, 2, 2, 2, 2, 3, 3]
        and sorted((name for name in new if name.startswith("state: ")), key=new.get)[-2:] == [CHOSEN, profiles.SHARED]
        and flat["shared_load_requests"] == counts["shared_load_requests"]
        and {sass_mix(kernel)["loop"]["LDS.128"] for kernel in made[5:]} == {(8 + 4) * OWN["BK"] / 4}
        and cold[1] > cold[0]
        and cold[3] > cold[2]
        and busy["issue slots"] < busy["shared memory and L1"] < 0.85 * transposed
        and abs(after["shared_load_wavefronts"] / counts["shared_load_wavefronts"] - 0.75) < 0.01
        and after["shared_store_conflicts"] < 0.02 * counts["shared_store_conflicts"]
    )
    found = {
        "others": f"{rest[0] / 1e6:,.0f}",
        "old": f"{rest[0] / pairs:.0f}",
        "inner": f"{loop:.0f}",
        "outer": f"{rest[0] / pairs - loop:.0f}",
        "each": f"{(rest[0] / pairs - loop) / 12:.0f}",
        "new": f"{rest[1] / pairs:.0f}",
        "prepared": f"{unrolled:.2f} ms" if unrolled else "–",
        "shallow": f"{shallow - first:.2f} ms",
        "cost": f"{transposed - third:.2f} ms",
        "turned": f"{transposed:.2f} ms",
        "added": f"{added / 1e6:.0f}",
        "wavefronts": f"{counts['l1_data_wavefronts'] / 1e6:.0f}",
        "busy": f"{busy['shared memory and L1']:.2f}",
        "share": f"{busy['shared memory and L1'] / transposed:.0%}",
        "slots": f"{busy['issue slots']:.2f} ms",
        "between": f"{new[profiles.BETWEEN]:.2f}",
        "data": f"{new[profiles.SHARED]:.2f}",
        "chosen": f"{new[CHOSEN]:.2f}",
        "cold": f"{max(cold[1] / cold[0], cold[3] / cold[2]) - 1:.1%}",
        "h100 before": f"{h100[0]:.2f} ms",
        "h100": f"{h100[1]:.2f} ms",
    }
    flat_deep, turned_deep = map(milliseconds, (find_variant("07", "A not transposed", BK=32), now.variant(BK=32)))
    profiled = list(map(profile, made))
    if not (fours and flat_deep and turned_deep and all(profiled)):
        return found | dict.fromkeys(
            (
                *("both", "whole", "fours", "third", "third turned", "room", "square"),
                *("bare each", "bare ms", "flat deep", "deeper"),
            ),
            "–",
        )
    guards, fewer = (profiled[before]["all"] - profiled[before + 1]["all"] for before in (2, 3))
    *held, two = (*(resident.milliseconds("07", blocks) for blocks in (2, 3)), milliseconds(now.variant(BLOCKS=1)))
    bare, square = (
        find_variant("07", "no guards"),
        find_variant("07", "A not transposed", BM=128, BN=128, BK=8, TM=8, TN=8, BLOCKS=2),
    )
    assert (
        max(abs(guards / profiled[2]["all"] - 0.1), abs(1 - whole / unrolled - 0.1)) < 0.01
        and fewer < 0.5 * guards
        and 0.85 < (whole - fours) / (unrolled - whole) < 1
        and third < 0.95 * fours
        and unrolled > shallow - 0.05 > first
        and shallow > 1.05 * first
        and abs(unrolled / shallow - 1) < 0.01
        and two > held[0] > held[1] > transposed
        and 0.6 < (held[0] - held[1]) / (two - transposed) < 0.7
        and abs((new["all"] - profile(bare)["all"]) / rest[1] - 2 / 3) < 0.03
        and abs(milliseconds(bare) / transposed - 1) < 0.002
        and third < fours < whole < unrolled
        and flat_deep < third < transposed < 0.95 * turned_deep
        and third < fours < two > transposed
        and milliseconds(square) > milliseconds(now.variant(**square.parameters))
        and sass_mix(find_variant("07", "A not transposed", BK=32))["loop"]["LDL"] > 0
    )
    return found | {
        "both": f"{unrolled - fours:.2f}",
        "whole": f"{unrolled - whole:.2f} ms",
        "fours": f"{whole - fours:.2f} ms",
        "third": f"{fours - third:.2f} ms",
        "third turned": f"{two - transposed:.2f} ms",
        "room": f"{held[0] / held[1] - 1:.0%}",
        "bare each": f"{(new['all'] - profile(bare)['all']) / pairs:.0f}",
        "bare ms": f"{milliseconds(bare):.2f} ms",
        "flat deep": f"{flat_deep:.2f} ms",
        "deeper": f"{turned_deep - transposed:.2f} ms",
        "square": f"{milliseconds(square) - milliseconds(now.variant(**square.parameters)):.2f} ms",
    }
