"""What chapter 16 predicts: the times of the tensor cores and of L2, each alone."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..experiments import ceilings
from ..experiments.ceilings import card
from ..model.ceilings import MMA_FP16, READ
from .wmma_warp_tile import PRODUCTS


def parts(BM: int, BN: int) -> dict[str, float]:
    """Return the milliseconds at 4096 of the tensor cores and of L2, each alone, for blocks with tiles of this size."""
    ceiling, copied = ceilings.load(), (BM + BN) * 16 * 2 / (BM * BN / 256)
    return {
        "tensor cores, by mma.sync alone": 2 * 4096**3 / ceiling[MMA_FP16].tera_per_second / 1e9,
        "L2, by reads alone": copied * PRODUCTS / ceiling[READ].tera_per_second / 1e9,
    }


def predicted() -> Table:
    """Return `parts` for 15's tile and for 16's."""
    small, large = (parts(of.parameters["BM"], of.parameters["BN"]) for of in map(find, ("15", "16")))
    assert [max(of, key=of.get).split(",")[0] for of in (small, large)] == ["L2", "tensor cores"]
    rows = [(part, f"{small[part]:.3f} ms", f"{large[part]:.3f} ms") for part in small]
    return Table(("alone, at 4096", "tile of 128 × 128", "tile of 128 × 256"), rows, f"Predicted, {card().name}")
