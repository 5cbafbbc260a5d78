"""Chapter 09: where the lanes of a warp stand, and what each of its changes brings."""

from collections.abc import Mapping

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..accesses import owners, request
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PINK, WIDTH, Figure, Page
from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..measure import nsight
from ..model.sass import hot_loop, sass
from ..records import cards
from ..records.timings import recorded
from ..variants import find_variant
from . import account, register_banks

RUNG = find("09_warp_tile")
STRIPS = find("08_conflict_free").variant(BM=128, BN=128, BK=32, TM=8, TN=8, BLOCKS=2)
"""08 with 09's block tile, so that like is compared with like."""
STRIPS_TO_AND_FRO = find_variant("08", "to and fro", **STRIPS.parameters)
IN_ROWS, ONE_WAY = find_variant("09", "lanes in rows"), find_variant("09", "one way")
NEITHER = find_variant("09", "lanes in rows, one way")
LARGE = RUNG.variant(BM=128, BN=256, BK=8, WM=128, WN=32, TM=16, TN=8, BLOCKS=1)
"""09 with the tile of 10."""
WAVEFRONTS = ((BLUE, 0.4), (ORANGE, 0.4), (GREEN, 0.4), (PINK, 0.45))
CELL, TOP = 46, 3 * LINE  # pixels


def lanes(runs: Mapping[str, Run], array: str = "Bs") -> Figure:
    """Draw where the lanes of warp 0 stand in their tile of C, coloured by the wavefront that serves their first read.

    Parameters
    ----------
    runs : mapping of str to Run
        Simulated with ``trace=[0]``, by the words above each picture.
    array : str
        The tile that is read.
    """
    height, said, drawn = 0, [], []
    for title, run in runs.items():
        of, read = run.kernel.parameters, request(run, array=array)
        down, across = of["WM"] // of["TM"], of["WN"] // of["TN"]
        grid = owners(run.kernel)[: 4 * down : 4, : 4 * across : 4] % WARP
        together = WARP // read.wavefronts  # lanes that a wavefront serves, where nothing conflicts
        assert not read.conflicts
        height = max(height, down)
        cost = f"{read.cost}, {together} lanes each"
        drawn.append((title, grid, together, cost))
        said.append(f"{title}: {', '.join(' '.join(map(str, row)) for row in grid)}; {cost}")
    sheet = Page(TOP + height * CELL + LINE + MARGIN, title=f"The lanes of a warp, and a read of {array}")
    for number, (title, grid, together, cost) in enumerate(drawn):
        left = MARGIN + number * WIDTH / len(drawn)
        sheet.text(left, TOP - 12, title)
        for i, row in enumerate(grid):
            for j, lane in enumerate(row.tolist()):
                box = (left + j * CELL, TOP + i * CELL, CELL, CELL)
                sheet.boxes([box], WAVEFRONTS[lane // together], INK)
                sheet.text(box[0] + CELL / 2, box[1] + CELL / 2 + 5, str(lane), "center")
        sheet.text(left, TOP + height * CELL + LINE, cost)
    return sheet.finish("; ".join(said) + ".")


def counted(kernel: Kernel) -> float:
    """Return the wavefronts of L1 and shared memory that Nsight Compute counted for each k of a warp."""
    every = counters.measured(kernel, profiles.SIZE, profiles.SIZE, profiles.SIZE)["l1_data_wavefronts"]
    return every / (profiles.SIZE**3 / WARP / (RUNG.parameters["TM"] * RUNG.parameters["TN"]))


def milliseconds(kernel: Kernel) -> float:
    """Return the recorded time at 4096."""
    return recorded(kernel, [profiles.SIZE], "variants").points[0].ms


def local_accesses(kernel: Kernel) -> int:
    """Return how many instructions of the main loop go to local memory, where spilled registers lie."""
    return sum(x.opcode.startswith(("LDL", "STL")) for x in hot_loop(sass(kernel)))


def changes(spilling: bool = True) -> Table:
    """Return what reading takes, the spills and the time: lanes in strips, rows or squares, in both orders.

    Without `spilling`, the kernels that spill in their main loop are left out, and the column of spills too.
    """
    kernels = {
        ("strips (08)", "one way"): STRIPS,
        ("strips (08)", "to and fro"): STRIPS_TO_AND_FRO,
        ("rows", "one way"): NEITHER,
        ("rows", "to and fro"): IN_ROWS,
        ("squares", "one way"): ONE_WAY,
        ("squares", "to and fro"): RUNG,
    }
    record = recorded(list(kernels.values()), [profiles.SIZE], "variants")
    (A, B), rows = matrices(128, 128, 32, on_gpu=False), []
    for words, kernel in kernels.items():
        wavefronts = simulate(kernel, A, B).total.shared_load_wavefronts / (32 * RUNG.threads // WARP)
        for point in record.select([kernel]).points:  # not every card's recordings have all
            spills = local_accesses(kernel)
            if spilling or not spills:
                rows.append((*words, f"{wavefronts:g}", *[spills][:spilling], f"{point.ms:.3f}"))
    return Table(
        ("lanes", "order", "wavefronts to read, per k", *["spills in the loop"][:spilling], "ms at 4096"),
        rows,
        f"Tile of 128 × 128 × 32, two blocks per SM: {record.made}",
    )


def kept(kernel: Kernel) -> float:
    """Return the share of the main loop's multiply-adds that keep a register of the one before."""
    reads = register_banks.reads(kernel)
    return sum(len(read) < 3 for read in reads) / len(reads)


def waits() -> Table:
    """Return how a warp spends its cycles: lanes in rows and in squares, and squares one way."""
    return account.waits({"rows, to and fro": IN_ROWS, "squares, to and fro": RUNG, "squares, one way": ONE_WAY})


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    kernels = STRIPS, STRIPS_TO_AND_FRO, NEITHER, IN_ROWS, ONE_WAY, RUNG
    strips, turned, neither, rows, one_way, now = map(milliseconds, kernels)
    own = recorded("08", [profiles.SIZE]).points[0].ms
    of, aligned, single = (
        nsight.counted(kernel, (profiles.SIZE,) * 3, "variant_profiles") for kernel in (RUNG, IN_ROWS, ONE_WAY)
    )
    assert own > neither > strips > turned > 1.01 * rows > 1.01 * one_way > 1.01 * now
    assert [bool(local_accesses(kernel)) for kernel in kernels] == [False, True, True, False, False, False]
    shared, between = "waits for shared memory", "cycles between a warp's instructions"
    assert all((of[f"state: {wait}"] > aligned[f"state: {wait}"]) == (wait == shared) for wait in account.WAITS) and (
        single[f"state: {shared}"] < 0.5 * of[f"state: {shared}"] and of["all"] < aligned["all"]
    )
    less = {wait: f"{aligned[f'state: {wait}'] - of[f'state: {wait}']:.2f}" for wait in account.WAITS}
    fetching = of["state: waits for L2 or DRAM"] + of["state: barrier"]
    pairs = list(zip(recorded("08").points, recorded("09").points, strict=True))
    slower = [nine.M for eight, nine in pairs if nine.ms > eight.ms]
    large = [n for n in slower if n > 1024]
    assert slower[: -len(large)] == [nine.M for _, nine in pairs if nine.M <= 1024]
    alone = [account.with_registers(kernel) or 0 for kernel in (RUNG, ONE_WAY, find("08"))]
    slots, h100 = account.busy(RUNG)["issue slots"], cards.folder("h100") / "variants.json"
    assert alone[0] < slots < alone[1] < alone[2] and alone[1] - slots < one_way - now
    turned_h100, now_h100 = (recorded(kernel, [profiles.SIZE], h100).points[0].ms for kernel in (ONE_WAY, RUNG))
    assert turned_h100 > 1.01 * now_h100
    return {
        "own 08": f"{own:.2f} ms",
        "now": f"{now:.2f} ms",
        "floor": f"{account.busy(RUNG)['FP32 units']:.2f} ms",
        "slots": f"{slots:.2f} ms",
        "instructions": f"{of['all'] / (profiles.SIZE**3 / WARP / 64):.1f}",
        "squares after": f"{rows - now:.2f} ms",
        "tile": f"{own - strips:.2f} ms",
        "squares of strips": f"{turned - now:.2f} to {strips - one_way:.2f} ms",
        "more in rows": f"{(aligned['all'] - of['all']) / (RUNG.grid(profiles.SIZE, profiles.SIZE) * 8 * 128):.0f}",
        **{f"alone{name}": f"{ms:.2f} ms" for name, ms in zip(("", " one way", " 08"), alone, strict=True)},
        "fro after": f"{one_way - now:.2f} ms",
        "kept": f"{kept(RUNG):.0%}",
        "kept one way": f"{kept(ONE_WAY):.0%}",
        "order model": f"{alone[1] - slots:.2f} ms",
        "fro h100": f"{turned_h100 - now_h100:.2f} ms",
        "strips fro": f"{turned:.2f} ms",
        "rows one way": f"{neither:.2f} ms",
        "sooner": f"{aligned[between] - of[between]:.2f}",
        "shared rows": f"{aligned[f'state: {shared}']:.2f}",
        "shared squares": f"{of[f'state: {shared}']:.2f}",
        "less barrier": less["barrier"],
        "shared one way": f"{single[f'state: {shared}']:.2f}",
        "less dispatch": less["dispatch"],
        "blocks": str(RUNG.grid(1024, 1024)),
        "blocks 08": str(find("08").grid(1024, 1024)),
        "sms": str(card().sms),
        "fetching": f"{fetching:.2f}",
        "between": f"{of[between]:.2f}",
        "slower": f"{len(slower)} of {len(pairs)}",
        "slower large": str(len(large)),
        "slower 1024": next(f"{nine.ms / eight.ms - 1:.1%}" for eight, nine in pairs if nine.M == 1024),
        "card": card().name,
    }
