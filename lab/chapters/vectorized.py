"""What chapter 07 compares: the kernels from 06 to 07, one change at a time, and a tile of A transposed or not."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.predictions import predicted
from ..model.resources import kernel_occupancy, resources
from ..records import cards
from ..records.timings import recorded
from ..variants import find_variant
from . import account, resident

JUNSTAR92 = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
"""The tile of junstar92's vectorised kernel."""


def own() -> dict[str, int]:
    """Return the tile of 07."""
    return {name: find("07").parameters[name] for name in ("BM", "BN", "BK", "TM", "TN")}


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
    tile = own()
    return {
        "06": find("06"),
        "BK = 16 instead of 32": find("06").variant(**tile),
        "the loop over k unrolled completely": find_variant("06", "unrolled completely", **tile),
        "whole tiles without guards": find_variant("06", "unrolled completely, whole tiles apart", **tile),
        "four floats at once": find_variant("07", "A not transposed", **tile, BLOCKS=1),
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
        ("each with those above it", "registers", "blocks per SM", "instructions, millions", "ms"),
        rows,
        f"From 06 to 07, M = N = K = {account.SIZE}, {card().name}",
        "No kernel here spills.",
    )


def transposing(tile: dict[str, int], blocks: int) -> dict[str, Kernel]:
    """Return 06 and 07 with this tile, each with its tile of A as it lies in A and transposed."""
    return {
        "06": find("06").variant(**tile),
        "06, transposed": find_variant("06", "A transposed", **tile),
        "07, not transposed": find_variant("07", "A not transposed", **tile, BLOCKS=blocks),
        "07": find("07").variant(**tile, BLOCKS=blocks),
    }


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of the variants, not every card's recordings have all. A figure that needs one of those is a dash then.
    """
    old, now, made = find("06"), find("07"), list(steps().values())
    first, shallow, unrolled, whole, fours, third, transposed = map(milliseconds, made)
    busy, before, (shared, slots, _) = account.busy(now), account.busy(old), account.PARTS
    assert max(busy, key=busy.get) == shared and max(before, key=before.get) == slots
    assert abs(predicted(now, card())[1] / busy[shared] - 1) < 0.02
    flat, counts = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in made[-2:])
    more, conflicts = (counts[name] - flat[name] for name in ("l1_data_wavefronts", "shared_store_conflicts"))
    assert abs(more / conflicts - 1) < 0.02 and abs(flat["instructions"] / counts["instructions"] - 1) < 0.01
    swizzled = milliseconds(find("08").variant(**now.parameters))
    assert swizzled < 0.95 * third < 0.95 * transposed < 0.9 * first < 0.9 * shallow
    alone = [account.with_registers(kernel) or 0 for kernel in (old, now)]
    assert alone[0] > 1.1 * alone[1] or not any(alone)
    found = {
        "pipeline": f"{busy[shared]:.2f} ms",
        "slots": f"{busy[slots]:.2f} ms",
        "slots before": f"{before[slots]:.2f} ms",
        "shallow": f"{first:.2f} to {shallow:.2f} ms",
        "price": f"{transposed - third:.2f} ms",
        "more": f"{more / 1e6:.0f}",
        "less busy": f"{account.milliseconds(more):.2f} ms",
        "conflict free": f"{transposed - swizzled:.2f} ms",
        "swizzled": f"{swizzled:.2f} ms",
        "reads": f"{counts['shared_load_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "conflicts": f"{counts['shared_store_conflicts'] / counts['l1_data_wavefronts']:.0%}",
        "transposed here": f"{third:.2f} ms without transposing and {transposed:.2f} ms with it",
    }
    profiled = list(map(profile, made))
    two = milliseconds(now.variant(BLOCKS=1))  # as many as fit: two
    if not (fours and all(profiled) and two):
        names = ("whole", "fours", "guards", "fewer", "third", "third alone", "price of two", "deeper", "fetching")
        return found | dict.fromkeys((*names, "dispatch", "shallow fetch", "shallow barrier"), "–")
    last, alone = profiles.shares(profiled[-1]), [resident.milliseconds("07", blocks) for blocks in (2, 3)]
    guards, fewer = (profiled[i]["all"] - profiled[i + 1]["all"] for i in (2, 3))
    assert (
        whole < 0.92 * unrolled
        and fours < 0.92 * whole
        and third < 0.95 * fours
        and milliseconds(now.variant(BK=32)) > 1.05 * transposed
        and profiled[2]["state: waits for shared memory"] < profiled[0]["state: waits for shared memory"]
        and 0 < transposed - third < account.milliseconds(more) < third
        and profiled[-1]["state: dispatch"] < profiled[-2]["state: dispatch"]
        and abs(profiled[-2]["DRAM bytes"] / profiled[-3]["DRAM bytes"] - 1.5) < 0.02
        and alone[0] > 1.05 * alone[1]
        and max(abs(guards / profiled[2]["all"] - 0.1), abs(1 - whole / unrolled - 0.1)) < 0.01
        and 0.4 < fewer / guards < 0.6 < 0.85 < (whole - fours) / (unrolled - whole) < 1
        and two - fours > transposed - third
    )

    def cycles(state: str, *steps: int) -> str:
        return " to ".join(f"{profiled[step][f'state: {state}']:.2f}" for step in steps)

    return found | {
        "fetching": f"{last['waits for L2 or DRAM'] + last['barrier']:.0%}",
        "shallow fetch": cycles("waits for L2 or DRAM", 0, 2),
        "shallow barrier": cycles("barrier", 0, 2),
        "dispatch": cycles("dispatch", -2, -1),
        "whole": f"{unrolled - whole:.2f} ms",
        "fours": f"{whole - fours:.2f} ms",
        "guards": f"{guards / 1e6:.0f}",
        "fewer": f"{fewer / 1e6:.0f}",
        "third": f"{fours - third:.2f} ms",
        "third alone": f"{alone[0] - alone[1]:.2f} ms",
        "price of two": f"{two - fours:.2f} ms",
        "deeper": f"{milliseconds(now.variant(BK=32)):.2f} ms",
    }
