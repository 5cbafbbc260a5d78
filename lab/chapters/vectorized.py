"""What chapter 07 compares: its changes to 06 one at a time, and a transposed tile against one that is not."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import simulate
from sgemm_tutorial.table import Table

from ..experiments import counters
from ..experiments.ceilings import card
from ..model.predictions import predicted
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from ..variants import find_variant
from . import account

JUNSTAR92 = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
"""The tile of junstar92's vectorised kernel."""


LIMITS = {"no limit, two blocks": 1, "registers for three blocks": 3}
"""The values of BLOCKS that are timed, by what they lead to."""


def own() -> dict[str, int]:
    """Return the tile of 07."""
    return {name: find("07").parameters[name] for name in ("BM", "BN", "BK", "TM", "TN")}


def steps() -> dict[str, Kernel]:
    """Return the kernels from 06 to 07, in 07's tile, each with one change more, by that change."""
    return {
        "06": find("06").variant(**own()),
        "loop over k unrolled completely": find_variant("06", "unrolled completely", **own()),
        "float4 for A, B and C, and no guards inside": find_variant("07", "A not transposed", **own(), BLOCKS=1),
        "registers for three blocks": find_variant("07", "A not transposed", **own(), BLOCKS=3),
        "tile of A transposed: 07": find("07"),
    }


def milliseconds(kernel: Kernel) -> float | None:
    """Return the recorded time of a variant at 4096, or None if the shown card has none."""
    try:
        return recorded(kernel, account.SIZE, "variants").points[0].ms
    except ArgumentError:
        return None


def _three(ms: float | None) -> str:
    return f"{ms:.3f}" if ms else "–"


def _less(one: float | None, other: float | None) -> str:
    return f"{one - other:.2f} ms" if one and other else "–"


def pair(transposed: bool, blocks: int) -> float | None:
    """Return the time of 07 with this tile of A, and with registers for so many blocks; 1 sets no limit."""
    of = {**own(), "BLOCKS": blocks}
    return milliseconds(find("07").variant(**of) if transposed else find_variant("07", "A not transposed", **of))


def order() -> Table:
    """Return 07 with and without its last two changes."""
    rows = [(name, *(_three(pair(after, blocks)) for after in (False, True))) for name, blocks in LIMITS.items()]
    return Table(("ms", "tile of A not transposed", "transposed"), rows)


def one_at_a_time() -> Table:
    """Return what the compiler, the simulator and the clock say of each of `steps`."""
    A, B = matrices(128, 64, 256, on_gpu=False)
    rows = []
    for change, kernel in steps().items():
        total = simulate(kernel, A, B).total
        rows.append(
            (
                change,
                resources(kernel).registers,
                kernel_occupancy(kernel, card()).blocks_per_sm,
                f"{total.shared_store_wavefronts / total.by_class['fma']:.3f}",
                _three(milliseconds(kernel)),
            )
        )
    return Table(
        ("each with those above it", "registers", "blocks per SM", "store wavefronts", "ms"),
        rows,
        f"From 06 to 07 in one tile, M = N = K = {account.SIZE}, {card().name}",
        "Wavefronts of stores to shared memory per multiply-add of a warp.",
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
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them."""
    before, now, of = find("06"), find("07"), steps()
    (point,) = recorded(now, account.SIZE).points
    (pipeline, slots, _), (pipeline_before, slots_before, _) = (
        account.busy(kernel).values() for kernel in (now, before)
    )
    assert abs(predicted(now, card())[1] / pipeline - 1) < 0.02
    assert pipeline > slots and pipeline > pipeline_before and slots < slots_before and pipeline > 0.75 * point.ms
    six, unrolled, wide, three, transposed = map(milliseconds, of.values())
    assert three < 0.8 * six and 1 < transposed / three < 1.1
    if unrolled and wide:  # else the card has no recordings without a limit
        assert pair(True, 1) - pair(False, 1) > transposed - three
        assert pair(True, 1) - pair(True, 3) > pair(False, 1) - pair(False, 3)
        assert abs(unrolled / six - 1) < 0.02 and wide / unrolled < three / wide < 0.97
    assert [resources(of[name]).registers for name in list(of)[-2:]] == [80, 77]
    unlimited = [*of.values()][2], now.variant(BLOCKS=1)
    assert [resources(kernel).registers for kernel in unlimited] == [118, 107]
    guarded, bare = milliseconds(find("08")), milliseconds(find_variant("08", "no guards"))
    assert abs(milliseconds(find_variant("07", "no guards")) / transposed - 1) < 0.005 and 1.02 < guarded / bare < 1.03
    conflict_free = milliseconds(find("08").variant(**now.parameters))
    assert conflict_free < 0.97 * three
    flat, last = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (of["registers for three blocks"], now))
    assert abs(flat["instructions"] / last["instructions"] - 1) < 0.01
    more = last["l1_data_wavefronts"] - flat["l1_data_wavefronts"]
    conflicts = last["shared_store_conflicts"] - flat["shared_store_conflicts"]
    assert abs(more / conflicts - 1) < 0.02
    A, B = matrices(256, 256, 256, on_gpu=False)
    filling, fills = {}, ("As[rowA", "As[colA", "Bs[rowB", "load4(")
    for kernel in (of["06"], now):
        run, source = simulate(kernel, A, B), kernel.source.splitlines()
        lines = [line for line in run.lines if any(text in source[line - 1] for text in fills)]
        filling[kernel.name] = sum(run.lines[line].instructions for line in lines) / run.total.by_class["fma"]
    return {
        "filling before": f"{filling[before.name]:.2f}",
        "filling": f"{filling[now.name]:.2f}",
        "pipeline": f"{pipeline:.2f} ms",
        "pipeline before": f"{pipeline_before:.2f} ms",
        "slots": f"{slots:.2f} ms",
        "slots before": f"{slots_before:.2f} ms",
        "pipeline share": f"{pipeline / point.ms:.0%}",
        "price": f"{transposed - three:.2f} ms",
        "more": f"{more / 1e6:.0f}",
        "price for two": _less(pair(True, 1), pair(False, 1)),
        "third before": _less(pair(False, 1), pair(False, 3)),
        "third after": _less(pair(True, 1), pair(True, 3)),
        "conflict free": f"{conflict_free:.3f} ms",
        "reads": f"{last['shared_load_wavefronts'] / last['l1_data_wavefronts']:.0%}",
        "stores": f"{last['shared_store_wavefronts'] / last['l1_data_wavefronts']:.0%}",
        "conflicts": f"{last['shared_store_conflicts'] / last['shared_store_wavefronts']:.0%}",
    }
