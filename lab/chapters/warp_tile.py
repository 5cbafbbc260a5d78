"""Chapter 09: where the lanes of a warp stand, and what each of its changes brings."""

from __future__ import annotations

from collections.abc import Mapping

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..accesses import owners, request
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PINK, WIDTH, Figure, Page
from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.predictions import ARITHMETIC, cycles
from ..model.resources import resources
from ..model.sass import hot_loop, sass
from ..records.timings import recorded
from ..variants import find_variant

RUNG = find("09_warp_tile")
STRIPS = find("08_conflict_free").variant(BM=128, BN=128, BK=32, TM=8, TN=8, BLOCKS=2)
"""08 with 09's block tile, so that like is compared with like."""
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


def model_ms(wavefronts: float) -> float:
    """Return the milliseconds at 4096 if a warp keeps its SM busy for so many cycles at each k of a thread's 8 × 8."""
    of = RUNG.parameters
    return profiles.SIZE**3 / WARP / (of["TM"] * of["TN"]) * wavefronts / card().sms / (card().boost_mhz * 1e3)


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


def changes(every: bool = False) -> Table:
    """Return the times of 08 with this tile and of 09 with one change or both; `every`: and with neither."""
    kernels = {
        ("08 with this tile", "strips", "one way"): STRIPS,
        ("09", "rows", "one way"): NEITHER,
        ("09", "rows", "to and fro"): IN_ROWS,
        ("09", "squares", "one way"): ONE_WAY,
        ("09 as it is", "squares", "to and fro"): RUNG,
    }
    record = recorded(list(kernels.values()), [profiles.SIZE], "variants")
    rows = []
    for words, kernel in kernels.items():
        for point in record.select([kernel]).points:  # not every card's recordings have all
            if kernel is not NEITHER or every:
                rows.append((*words, point.ms, resources(kernel).spill_store_bytes))
    return Table(
        ("kernel", "lanes", "order", "ms at 4096", "bytes spilled"),
        rows,
        f"Tile of 128 × 128 × 32, two blocks per SM: {record.made}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    strips, rows, one_way, now = map(milliseconds, (STRIPS, IN_ROWS, ONE_WAY, RUNG))
    profile = profiles.measured(RUNG)
    own = recorded("08", [profiles.SIZE]).points[0].ms
    instructions = profile["all"] / 4 / card().sms / (card().boost_mhz * 1e3)
    shallow, large = milliseconds(RUNG.variant(BK=8)), milliseconds(LARGE)
    tall = milliseconds(RUNG.variant(WM=128, WN=16))
    floor = model_ms(RUNG.parameters["TM"] * RUNG.parameters["TN"] * cycles(RUNG, card())[ARITHMETIC])
    assert own > strips > rows > one_way > now > instructions > floor
    assert abs(tall / now - 1) < 0.01 and large > 1.1 * shallow
    assert local_accesses(STRIPS) == local_accesses(IN_ROWS) == 0
    states = {name: profile[f"state: {name}"] for name in profiles.STALLS}
    between = "cycles between a warp's instructions"
    waits = "waits for shared memory", "dispatch", "barrier", "waits for L2 or DRAM"
    ordered = sorted(set(states) - {"issued", "another warp was chosen"}, key=states.get, reverse=True)
    assert set(waits) == set(ordered[:4])
    listed = sum(states[name] for name in ("issued", "another warp was chosen", *waits))
    times = {rung: {point.size: point for point in recorded(rung).points} for rung in ("08", "09")}
    slower = [size[0] for size, point in times["09"].items() if point.ms > times["08"][size].ms]
    assert {size[0] for size in times["09"] if size[0] <= 1024} <= set(slower)
    small = {rung: f"{of[1024, 1024, 1024].percent_of_cublas:.1f}%" for rung, of in times.items()}
    return {
        "own 08": f"{own:.2f} ms",
        "strips": f"{strips:.2f} ms",
        "now": f"{now:.2f} ms",
        "floor": f"{floor:.2f} ms",
        "slots": f"{instructions:.2f} ms",
        "whole": f"{1 - now / strips:.0%}",
        "squares after": f"{rows - now:.2f} ms",
        "squares first": f"{strips - one_way:.2f} ms",
        "fro after": f"{one_way - now:.2f} ms",
        "fro first": f"{strips - rows:.2f} ms",
        "tall": f"{tall:.2f} ms",
        "registers large": str(resources(LARGE).registers),
        "large": f"{large:.2f} ms",
        "shallow": f"{shallow:.2f} ms",
        "card": card().name,
        "slower": f"{len(slower)} of {len(times['09'])}",
        **{f"small {rung}": share for rung, share in small.items()},
        "chosen": f"{states['another warp was chosen']:.2f}",
        "wait rest": f"{profile[between] - listed:.2f}",
        **{f"wait {i}": f"{states[name]:.2f}" for i, name in enumerate(waits)},
        "between": f"{profile[between]:.2f}",
        "of time": f"{instructions / now:.0%}",
        "used": f"{profile['issue slots used, %']:.0f}%",
    }
