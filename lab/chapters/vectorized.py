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
PROFILES = "variant_profiles"


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
        counts, used, ms = profile(kernel), resources(kernel), milliseconds(kernel)
        assert used.spill_store_bytes == used.spill_load_bytes == 0
        issued = (
            (f"{counts['all'] / 1e6:,.0f}", f"{account.issuing(counts['all']) / ms:.0%}") if counts else (None,) * 2
        )
        rows.append((name, kernel_occupancy(kernel, card()).blocks_per_sm, *issued, ms))
    return Table(
        ("change, added to those above", "blocks per SM", "instructions, millions", "issue slots filled", "ms"),
        rows,
        f"From 06 to 07, M = N = K = {account.SIZE}, {card().name}",
        "Times: medians of device time; the text's differences are of unrounded ones. Instructions: counted by Nsight "
        "Compute. Slots: the time to issue these at the boost clock, as a share of ms. No kernel in this table spills.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then.
    """
    made, now = list(steps().values()), find("07")
    first, shallow, unrolled, whole, fours, third, transposed = map(milliseconds, made)
    flat, counts, after = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (made[5], now, find("08")))
    busy, old = account.busy(now), account.busy("06")
    then, here = (recorded(kernel, (2048, 2304)).points for kernel in ("06", now))
    added = counts["shared_store_conflicts"] - flat["shared_store_conflicts"]
    assert (
        busy["shared memory and L1"] == max(*busy.values(), account.with_registers(now) or 0)
        and old["issue slots"] == max(*old.values(), account.with_registers(made[0]) or 0)
        and old["shared memory and L1"] < busy["shared memory and L1"]
        and f"{old['issue slots'] / first:.0%}" == f"{busy['issue slots'] / transposed:.0%}"
        and here[1].ms < then[1].ms * here[0].ms / then[0].ms
        and here[1].percent_of_cublas > here[0].percent_of_cublas
        and here[1].cublas_ms > 1.2 * here[0].cublas_ms * (2304 / 2048) ** 3
        and third < transposed < 0.9 * first
        and abs(added / (counts["shared_store_wavefronts"] - flat["shared_store_wavefronts"]) - 1) < 0.005
        and [kernel_occupancy(kernel, card()).blocks_per_sm for kernel in made] == [2, 2, 2, 2, 2, 3, 3]
        and flat["shared_load_requests"] == counts["shared_load_requests"]
        and {sass_mix(kernel)["loop"]["LDS.128"] for kernel in made[5:]} == {(8 + 4) * OWN["BK"] / 4}
        and after["shared_store_conflicts"] < 0.02 * counts["shared_store_conflicts"]
    )
    found = {
        "shallow": f"{shallow - first:.2f} ms",
        "cost": f"{transposed - third:.2f} ms",
        "turned": f"{transposed:.2f} ms",
        "added": f"{added / 1e6:.0f}",
        "busy": f"{busy['shared memory and L1']:.2f}",
        "share": f"{busy['shared memory and L1'] / transposed:.0%}",
        "share 06": f"{old['shared memory and L1'] / first:.0%}",
        "slots": f"{busy['issue slots'] / transposed:.0%}",
        **{f"of 06 at {new.N}": f"{new.ms / old.ms:.2f}" for old, new in zip(then, here, strict=True)},
        "at 2304": f"{here[1].percent_of_cublas:.1f}%",
        **{f"cublas at {point.N}": f"{2e-9 * point.N**3 / point.cublas_ms:.0f}" for point in here},
    }
    profiled, deeper, two = list(map(profile, made)), milliseconds(now.variant(BK=32)), now.variant(BLOCKS=1)
    if not (fours and deeper and all(profiled)):
        return found | dict.fromkeys(
            (
                *("both", "whole", "fours", "third", "third after", "cost of two", "square"),
                *("bare ms", "deeper", "more", "less", "rolled", "flat and deep", "spilt"),
            ),
            "–",
        )
    issued, used, states = (
        [of["all"] for of in profiled],
        [account.issuing(of["all"]) / milliseconds(kernel) for of, kernel in zip(profiled, made, strict=True)],
        [f"state: {name}" for name in profiles.STALLS],
    )
    bare, flat_deep = (
        find_variant("07", "no guards"),
        find_variant("07", "A not transposed", **OWN | {"BK": 32}, BLOCKS=3),
    )
    square = find_variant("07", "A not transposed", BM=128, BN=128, BK=8, TM=8, TN=8, BLOCKS=2)
    turned = now.variant(**square.parameters)
    assert (
        issued[2] < issued[0] < issued[1]
        and abs(issued[3] / issued[2] - 0.9) < 0.005
        and issued[4] < issued[3]
        and abs(issued[6] / issued[5] - 1) < 0.005
        and used[1] < used[0] - 0.025
        and abs(used[3] - used[2]) < 0.01
        and used[2] + 0.015 < used[1]
        and used[3] + 0.02 < used[4] < used[5] - 0.05
        and abs(1 - whole / unrolled - 0.1) < 0.01
        and third < 0.95 * fours
        and unrolled > shallow - 0.05 > first
        and abs(unrolled / shallow - 1) < 0.01
        and abs(milliseconds(bare) / transposed - 1) < 0.002
        and abs(profile(two)["all"] / issued[4] - 1) < 0.005
        and max(states, key=lambda state: profiled[6][state] - profiled[0][state]) == profiles.SHARED
        and {state for state in states if profiled[6][state] > 0.05 * profiled[6][profiles.BETWEEN]}
        <= {f"state: {name}" for name in (*account.WAITS, "queue to shared memory full", "issued")}
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
        "bare ms": f"{milliseconds(bare):.2f} ms",
        "deeper": f"{deeper - transposed:.2f} ms",
        "square": f"{milliseconds(square) - milliseconds(turned):.2f} ms",
    }
