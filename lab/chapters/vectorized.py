"""What chapter 07 compares: its changes to 06 one at a time, and a transposed tile against one that is not."""

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


def times() -> Table:
    """Return 06 and 07 in 07's tile, with and without the tile of A transposed, and with registers for three blocks."""
    free, limited = (transposing(own(), blocks) for blocks in (1, 3))
    limited["06"] = find_variant("06", "three blocks", **own())
    rows = []
    for name, kernel in free.items():
        row = [name]
        for one in (kernel, limited[name]):
            fit = f"{resources(one).registers} registers, {kernel_occupancy(one, card()).blocks_per_sm} blocks"
            row += [fit, _two(milliseconds(one))] if len(row) == 1 or one != kernel else ["–", "–"]
        rows.append(row)
    heads = ("", "no limit of registers", "ms", "limit for three blocks", "ms")
    return Table(heads, rows, f"In the tile of 07, M = N = K = {account.SIZE}, {card().name}")


def _two(ms: float | None) -> str:
    return f"{ms:.2f}" if ms else "–"


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
    now, free, limited = find("07"), transposing(own(), 1), transposing(own(), 3)
    (point,) = recorded(now, account.SIZE).points
    busy, before = account.busy(now), account.busy(find("06"))
    shared, slots, _ = account.PARTS
    assert max(busy, key=busy.get) == shared and max(before, key=before.get) == slots
    assert abs(predicted(now, card())[1] / busy[shared] - 1) < 0.02
    ms = {(name, of is limited): milliseconds(kernel) for of in (free, limited) for name, kernel in of.items()}
    ms["06", True] = milliseconds(find_variant("06", "three blocks", **own()))
    flat, transposed = ms["07, not transposed", True], ms["07", True]
    slower = [((name, False), (name, True)) for name in ("06", "07, not transposed", "07")]
    slower += [(("06, transposed", False), ("06", True)), (("06", False), ("07", False))]
    slower += [(("07", limit), ("07, not transposed", limit)) for limit in (False, True)]
    assert all(ms[one] > ms[other] for one, other in slower if ms[one] and ms[other])
    unrolled = milliseconds(find_variant("06", "unrolled completely", **own()))
    bare = milliseconds(find_variant("07", "no guards"))
    without, counts = (counters.measured(of, *(account.SIZE,) * 3) for of in (limited["07, not transposed"], now))
    more = counts["l1_data_wavefronts"] - without["l1_data_wavefronts"]
    conflicts = counts["shared_store_conflicts"] - without["shared_store_conflicts"]
    assert abs(more / conflicts - 1) < 0.02 and abs(without["instructions"] / counts["instructions"] - 1) < 0.01
    waits = {number: profiles.states(find(number)) for number in ("06", "07")}
    longest = "waits for shared memory"
    assert longest == max(waits["07"], key=waits["07"].get)
    return {
        "pipeline": f"{busy[shared]:.2f} ms",
        "slots": f"{busy[slots]:.2f} ms",
        "slots before": f"{before[slots]:.2f} ms",
        "unrolled": f"{_two(unrolled)} ms",
        "unrolled before": f"{ms['06', False]:.2f} ms",
        "deeper": f"{milliseconds(find('06')):.2f} ms",
        "more": f"{more / 1e6:.0f}",
        "more ms": f"{account.milliseconds(more):.2f} ms",
        "price": f"{transposed - flat:.2f} ms",
        "bare": f"{_two(bare)} ms",
        "conflict free": f"{milliseconds(find('08').variant(**now.parameters)):.2f} ms",
        "busy": f"{busy[shared] / point.ms:.0%}",
        "busy flat": f"{account.milliseconds(without['l1_data_wavefronts']) / flat:.0%}",
        "waits": f"{waits['07'][longest]:.0%}",
        "waits before": f"{waits['06'][longest]:.0%}",
        "reads": f"{counts['shared_load_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "stores": f"{counts['shared_store_wavefronts'] / counts['l1_data_wavefronts']:.0%}",
        "conflicts": f"{counts['shared_store_conflicts'] / counts['shared_store_wavefronts']:.0%}",
    }
