"""Compares layouts of a tile, paddings by their counts, and stages by their times, for chapter 15."""

from itertools import pairwise
from statistics import median

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..accesses import request
from ..draw.player import Player
from ..draw.tile_layouts import TileAccess, TileLayout, bank_layouts
from ..experiments import counters
from ..experiments.ceilings import card
from ..records.timings import recorded
from ..variants import PADDED_TILES

PRODUCTS = 256**3  # of 16 × 16 × 16, at 4096


def padding_player(run: Run) -> Player:
    """Return the player of the loads from shared memory under several paddings.

    Parameters
    ----------
    run : Run
        Of 15, simulated with ``trace=[0]``.
    """
    of, text = run.kernel.parameters, run.kernel.source.splitlines()
    first = {name: next(n for n, line in enumerate(text, 1) if f"load_matrix_sync(frag{name}" in line) for name in "AB"}
    load_a, load_b = (request(run, first[name], array="shared") for name in "AB")
    lies, row_a, row_b = TileLayout(padding=16), 2 * of["BK"], 2 * of["BN"]  # in bytes
    accesses = [
        TileAccess("load of A", load_a, row_a, 16, lies),
        TileAccess("load of B", load_b, row_b, 16, lies, start=of["STAGES"] * of["BM"] * (row_a + lies.padding)),
    ]
    return bank_layouts("padding", accesses, [TileLayout(padding) for padding in (0, 8, 16, 32, 48, 64)])


def paddings() -> Table:
    """Return what the padding of 15's tiles changes: sectors, wavefronts of loads and of copies, and the time."""
    rows = []
    for kernel in PADDED_TILES:
        A, B = (2 * int(elements) for elements in (kernel.label or "padded by 8 and 8").split()[2::2])
        counted = counters.counted(kernel, (4096,) * 3, "sectors")
        timed = recorded(kernel, [4096], "tensor").points[0]
        both = [counted[f"{name}_wavefronts"] / PRODUCTS for name in ("shared_load", "copy")]
        sectors, clock = counted["l1_fill_sectors"] / PRODUCTS, median(timed.processes[0].own.sm_mhz)
        rows.append(
            (
                f"{A} and {B}",
                f"{sectors:.2f}",
                "{:.2f} + {:.2f} = {:.2f}".format(*both, sum(both)),
                f"{timed.ms:.3f}",
                clock,
            )
        )
    return Table(
        ("padding of A and B, bytes", "sectors", "wavefronts of loads and copies", "ms", "MHz, by NVML"),
        sorted(rows, key=lambda row: row[2].split()[-1]),
        f"15, for a product of 16 × 16 × 16 at 4096, all of one recording, {card().name}",
    )


def staged() -> dict[str, Kernel]:
    """Return 14 and 15 on the way to its default, by what is new in each."""
    of, block = find("15"), {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 64, "BLOCKS": 2}
    return {
        "14: one fragment of C a warp, from global memory": find("14"),
        "4 × 4 fragments a warp, from global memory": of.variant(**block, STAGES=0),
        "tiles in shared memory": of.variant(**block, STAGES=1),
        "copies one tile ahead (2 stages)": of.variant(**block, STAGES=2),
        "copies two tiles ahead (3 stages)": of.variant(**block, STAGES=3),
        "copies three tiles ahead (4 stages)": of.variant(**block, STAGES=4),
    }


def steps() -> Table:
    """Return the times of `staged` in turns with cuBLAS, all of one recording, and how the share grows."""
    points = [recorded(kernel, [4096], "fragments").points[0] for kernel in staged().values()]
    gains = [None, *(f"{now.percent_of_cublas / old.percent_of_cublas:.2f}" for old, now in pairwise(points))]
    rows = [
        (name, f"{point.ms:.3g}", f"{point.cublas_ms:.3f}", f"{point.percent_of_cublas:.1f}%", gain)
        for name, point, gain in zip(staged(), points, gains, strict=True)
    ]
    heads = ("what is new", "ms", "cuBLAS beside it, ms", "share of cuBLAS", "times the share before")
    return Table(heads, rows, f"At 4096, {card().name}")
