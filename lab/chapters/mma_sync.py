"""What chapter 16 shows and predicts: layouts of its tiles for the player, and the parts of a product's cost."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..accesses import request
from ..draw.player import Player
from ..draw.tile_layouts import TileAccess, TileLayout, bank_layouts
from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import MMA_FP16, READ
from .wmma_warp_tile import PRODUCTS


def swizzle_player(run: Run) -> Player:
    """Return the player of the loads from shared memory under paddings and swizzles.

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
    ]
    padded = [TileLayout(padding) for padding in (0, 16, 32)]
    swizzled = [TileLayout(chunk=chunk, rows=rows) for chunk, rows in ((16, 1), (16, 2), (16, 4), (8, 1))]
    return bank_layouts("swizzle", accesses, padded + swizzled)


def parts(BM: int, BN: int, WM: int, WN: int, **_: object) -> dict[str, float]:
    """Return the milliseconds that each part of the GPU needs at 4096: shared memory at the highest clock."""
    ceiling, down, across = ceilings.load(), WM // 16, WN // 16
    copied, wavefronts = (BM + BN) * 16 * 2 / (BM * BN / 256), PRODUCTS / card().sms / card().boost_mhz / 1e3
    return {
        "tensor cores, by mma.sync alone": 2 * 4096**3 / ceiling[MMA_FP16].tera_per_second / 1e9,
        "L2, by reads alone": copied * PRODUCTS / ceiling[READ].tera_per_second / 1e9,
        "shared memory, loading fragments": 4 * (down + across) / (down * across) * wavefronts,
        "shared memory, filling tiles": copied / 128 * wavefronts,
    }


def predicted() -> Table:
    """Return `parts` for 15's tile and for 16's."""
    small, large = (parts(**find(name).parameters) for name in ("15", "16"))
    assert [max(of, key=of.get).split(",")[0] for of in (small, large)] == ["L2", "tensor cores"]
    rows = [(part, f"{small[part]:.3f} ms", f"{large[part]:.3f} ms") for part in small]
    return Table(("alone, at 4096", "tile of 128 × 128", "tile of 128 × 256"), rows, f"Predicted, {card().name}")
