"""What chapter 07 compares: 07 with one change undone at a time, and a transposed tile against one that is not."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.predictions import predicted
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from ..variants import find_variant
from . import account

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


def undone() -> dict[str, Kernel]:
    """Return 07 as it is, and with one of its changes undone each time."""
    labels = ("loads of one float", "always guarded", "A not transposed")
    others = {"BK = 32": find("07").variant(BK=32), "no limit of registers": find("07").variant(BLOCKS=1)}
    return {"07": find("07")} | {label: find_variant("07", label) for label in labels} | others


def times() -> Table:
    """Return the registers, the blocks on an SM and the time of each kernel of `undone`."""
    rows = []
    for name, kernel in undone().items():
        ms = milliseconds(kernel)
        blocks = kernel_occupancy(kernel, card()).blocks_per_sm
        rows.append((name, resources(kernel).registers, blocks, f"{ms:.3f}" if ms else "–"))
    heads = ("07 with one change undone", "registers", "blocks per SM", "ms")
    return Table(heads, rows, f"M = N = K = {account.SIZE}, {card().name}")


def transposing(tile: dict[str, int], blocks: int) -> dict[str, Kernel]:
    """Return 06 and 07 with this tile, each with its tile of A as it lies in A and transposed."""
    return {
        "06": find("06").variant(**tile),
        "06, transposed": find_variant("06", "A transposed", **tile),
        "07, not transposed": find_variant("07", "A not transposed", **tile, BLOCKS=blocks),
        "07": find("07").variant(**tile, BLOCKS=blocks),
    }


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them."""
    now, ms = find("07"), {name: milliseconds(kernel) for name, kernel in undone().items()}
    (point,) = recorded(now, account.SIZE).points
    busy, before = account.busy(now), account.busy(find("06"))
    shared, slots, _ = account.PARTS
    assert max(busy, key=busy.get) == shared and max(before, key=before.get) == slots
    assert abs(predicted(now, card())[1] / busy[shared] - 1) < 0.02
    flat = ms["A not transposed"]
    assert all(flat < ms["07"] < 0.95 * other for name, other in ms.items() if other and other not in (flat, ms["07"]))
    bare = milliseconds(find_variant("07", "no guards"))
    assert abs(bare / ms["07"] - 1) < 0.005
    sizes = (account.SIZE,) * 3
    without, counts = (counters.measured(of, *sizes) for of in (find_variant("07", "A not transposed"), now))
    more = counts["l1_data_wavefronts"] - without["l1_data_wavefronts"]
    conflicts = counts["shared_store_conflicts"] - without["shared_store_conflicts"]
    assert abs(more / conflicts - 1) < 0.02 and abs(without["instructions"] / counts["instructions"] - 1) < 0.01
    waits = {number: profiles.states(find(number)) for number in ("06", "07")}
    longest, turn = sorted(waits["07"], key=waits["07"].get)[:-3:-1]
    assert (longest, turn) == ("waits for shared memory", "another warp was chosen")
    assert 1.8 * waits["06"][longest] < waits["07"][longest]
    return {
        "pipeline": f"{busy[shared]:.2f} ms",
        "slots": f"{busy[slots]:.2f} ms",
        "slots before": f"{before[slots]:.2f} ms",
        "wide": f"{(ms['loads of one float'] or float('nan')) / ms['07'] - 1:.0%}",
        "shallow": f"{milliseconds(find('06').variant(**own())):.2f} ms",
        "deeper": f"{milliseconds(find('06')):.2f} ms",
        "more": f"{more / 1e6:.0f}",
        "more ms": f"{account.milliseconds(more):.2f} ms",
        "price": f"{ms['07'] - flat:.2f} ms",
        "bare": f"{bare:.3f} ms",
        "conflict free": f"{milliseconds(find('08').variant(**now.parameters)):.2f} ms",
        "busy": f"{busy[shared] / point.ms:.0%}",
        "busy flat": f"{account.milliseconds(without['l1_data_wavefronts']) / flat:.0%}",
        "waits": f"{waits['07'][longest]:.0%}",
        "turn": f"{waits['07'][turn]:.0%}",
        "waits before": f"{waits['06'][longest]:.0%}",
        "active": f"{profiles.measured(now)['L1 and shared memory used, %']:.0f}%",
        "reads": f"{counts['shared_load_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "stores": f"{counts['shared_store_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "conflicts": f"{counts['shared_store_conflicts'] / counts['shared_store_wavefronts']:.0%}",
    }
