"""What chapter 16 shows and predicts: layouts of its tiles for the player, and the parts of a product's cost."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..accesses import request
from ..draw.player import Player
from ..draw.tile_layouts import TileAccess, TileLayout, bank_layouts
from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import MMA_FP16, READ


def swizzle_player(run: Run) -> Player:
    """Return the player of three accesses to shared memory under paddings and swizzles.

    Parameters
    ----------
    run : Run
        Of 16, simulated with ``trace=[0]``.
    """
    of = run.kernel.parameters
    lines = sorted({access.line for access in run.trace if (access.space, access.kind) == ("shared", "load")})
    load_a, load_b = (request(run, line, array="shared") for line in lines)
    row_a, row_b = 2 * of["BK"], 2 * of["BN"]  # in bytes
    lies_a, lies_b = (TileLayout(chunk=16, rows=max(128 // row, 1)) for row in (row_a, row_b))
    accesses = [
        TileAccess("load of A", load_a, row_a, 16, lies_a),
        TileAccess("load of B", load_b, row_b, 16, lies_b, start=of["STAGES"] * of["BM"] * row_a),
        TileAccess("copy of A", request(run, kind="store", array="shared"), row_a, 16, lies_a),
    ]
    padded = [TileLayout(padding) for padding in (0, 16, 32)]
    swizzled = [TileLayout(chunk=chunk, rows=rows) for chunk, rows in ((16, 1), (16, 2), (16, 4), (8, 1))]
    return bank_layouts("swizzle", accesses, padded + swizzled)


def parts(BM: int, BN: int, WM: int, WN: int, **_: object) -> dict[str, float]:
    """Return the cycles that each part of an SM needs for a product of 16 × 16 × 16, at the highest clock."""
    ceiling, cycles = ceilings.load(), card().sms * card().boost_mhz * 1e6
    down, across = WM // 16, WN // 16
    copied = (BM + BN) * 16 * 2 / (BM * BN / 256)  # bytes
    return {
        "tensor cores, by mma.sync alone": 2 * 16**3 * cycles / ceiling[MMA_FP16].tera_per_second / 1e12,
        "L2, by reads alone": copied * cycles / ceiling[READ].tera_per_second / 1e12,
        "shared memory, loading fragments": 4 * (down + across) / (down * across),
        "shared memory, filling tiles": copied / 128,
    }


def predicted() -> Table:
    """Return `parts` for 15's tile and for 16's."""
    small, large = (parts(**find(name).parameters) for name in ("15", "16"))
    assert max(small, key=small.get) == "L2, by reads alone"
    assert max(large, key=large.get) == "tensor cores, by mma.sync alone"
    rows = [(part, f"{small[part]:.1f}", f"{large[part]:.1f}") for part in small]
    return Table(
        ("cycles per product", "tile of 128 × 128", "tile of 128 × 256"),
        rows,
        f"Predicted, {card().name}, cycles of {card().boost_mhz:,} MHz",
    )
