"""Computes chapter 16's predictions, its table of variants, and the figures in its sentences."""

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import ceilings, clocks, counters, profiles, sustained
from ..experiments.ceilings import card
from ..model.ceilings import MMA_FP16, READ
from ..records.timings import OTHERS, Point, recorded
from ..variants import find_variant
from .wmma_warp_tile import PRODUCTS

TILES, MMA = find("15"), find("16")
COMPARED = (2048, 3072)
"""The sizes at which the variants are compared: the clock stays near its top there."""


def parts(BM: int, BN: int) -> dict[str, float]:
    """Return the milliseconds at 4096 of the tensor cores and of L2, each alone, for blocks with tiles of this size."""
    ceiling, copied = ceilings.load(), (BM + BN) * 16 * 2 / (BM * BN / 256)
    return {
        "tensor cores, by mma.sync alone": 2 * 4096**3 / ceiling[MMA_FP16].tera_per_second / 1e9,
        "L2, by reads alone": copied * PRODUCTS / ceiling[READ].tera_per_second / 1e9,
    }


def predicted() -> Table:
    """Return `parts` for 15's tile and for 16's."""
    small, large = (parts(of.parameters["BM"], of.parameters["BN"]) for of in (TILES, MMA))
    assert [max(of, key=of.get).split(",")[0] for of in (small, large)] == ["L2", "tensor cores"]
    rows = [(part, f"{small[part]:.3f} ms", f"{large[part]:.3f} ms") for part in small]
    return Table(("alone, at 4096", "tile of 128 × 128", "tile of 128 × 256"), rows, f"Predicted, {card().name}")


def variants() -> dict[str, Kernel]:
    """Return the kernels that chapter 16 compares, by what it calls them."""
    return {
        "15": TILES,
        "16 with 15's tile": MMA.variant(BM=128, BN=128, STAGES=4, BLOCKS=2),
        "16": MMA,
        "16, three stages": MMA.variant(STAGES=3),
        "16, padded as 15": find_variant("16_mma", "padded"),
        "16, not swizzled": find_variant("16_mma", "not swizzled"),
    }


def per_product(kernel: Kernel, what: str) -> float:
    """Return Nsight Compute's counts of a kernel at 4096, for each product of 16 × 16 × 16."""
    return counters.counted(kernel, (4096,) * 3, "sectors")[what] / PRODUCTS


def timed() -> dict[str, dict[int, Point]]:
    """Return the times of `variants` in turns with cuBLAS, by size."""
    return {
        name: {point.M: point for point in recorded(kernel, recording=OTHERS if kernel == TILES else "tensor").points}
        for name, kernel in variants().items()
    }


def compared() -> Table:
    """Return wavefronts and times of `variants`."""
    points = timed()
    rows = [
        (
            name,
            f"{per_product(kernel, 'shared_load_wavefronts'):.1f}",
            *(f"{points[name][size].ms:.4f}" if size in points[name] else "–" for size in COMPARED),
        )
        for name, kernel in variants().items()
    ]
    heads = ("", "wavefronts of loads per product", *(f"ms at {size}" for size in COMPARED))
    return Table(heads, rows, f"In turns, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points, padded = timed(), variants()["16, padded as 15"]
    over = {name: [points[name][size].ms / points["16"][size].ms for size in COMPARED] for name in list(points)[1:]}
    least = min(min(run.own.sm_mhz) for name in over for size in COMPARED for run in points[name][size].processes)
    same, deeper = points["16 with 15's tile"], recorded(MMA.variant(BK=64), [4096], "tensor").points[0]
    larger = [1 - points["16"][size].ms / same[size].ms for size in (*COMPARED, 4096)]
    small_mhz, large_mhz = (each[4096].processes[0].own.sm_mhz for each in (same, points["16"]))
    limits = [max(parts(of.parameters["BM"], of.parameters["BN"]).values()) for of in (TILES, MMA)]
    ones, rival_ones = (sustained.of(of, inputs="ones").ms for of in (MMA, cublas.gemm_ex))
    small = {of: {point.M: point for point in recorded(of, recording=OTHERS).points} for of in ("15", "16")}
    (lasting_before, share_before), (lasting, share) = map(sustained.lasted, (TILES, MMA))
    before, profile, turns = profiles.measured(TILES), profiles.measured(MMA), small["16"][4096]
    at, slower = [clocks.of(MMA, inputs=of) for of in ("normal", "zeros")], share * lasting / turns.cublas_ms - 1
    assert least >= 0.98 * card().boost_mhz == 0.98 * at[1].nvml_mhz and card().sms == 132
    assert max(small_mhz) < min(large_mhz) and deeper.ms_p90 < points["16"][4096].ms_p10 and lasting < 1.05 * turns.ms
    assert abs(per_product(padded, "l1_fill_sectors") - 4.5) < 0.01 and larger[1] < 0 < larger[0] < 0.1
    assert 1 - limits[1] / limits[0] > 0.1 and rival_ones < limits[1] < ones and min(over["16, three stages"]) > 1
    assert all(small["15"][size].ms < small["16"][size].ms for size in (256, 512, 1024)) and MMA.grid(1024, 1024) == 32
    return {
        "before_share": f"{share_before:.1%}",
        "share": f"{share:.1%}",
        "card": card().name,
        "before": f"{lasting_before:.3f} ms",
        "took": f"{lasting:.3f} ms",
        "seconds": f"{sustained.SECONDS:.0f}",
        "ones": f"{ones:.3f} ms",
        "cublas_ones": f"{rival_ones:.3f} ms",
        "mma_alone": f"{limits[1]:.3f} ms",
        "at_1024": f"{small['16'][1024].ms:.4f} ms",
        "before_1024": f"{small['15'][1024].ms:.4f} ms",
        "first": f"{1 - same[2048].ms / points['15'][2048].ms:.0%}",
        "least_mhz": f"{least:,} MHz",
        "own_mhz": f"{at[1].own_mhz:,} MHz",
        "nvml_mhz": f"{at[1].nvml_mhz:,}",
        "profiled_mhz": f"{1e3 * profile['SM cycles'] / profile['nanoseconds']:,.0f} MHz",
        "lasting_mhz": f"{at[0].own_mhz:,}",
        "cublas_slower": f"{slower:.0%}",
        "slower": f"{lasting / turns.ms - 1:.0%}",
        "turns_share": f"{turns.percent_of_cublas:.1f}%",
        "three": "{:.1%} and {:.1%}".format(*(ratio - 1 for ratio in over["16, three stages"])),
        "deeper": f"{1 - deeper.ms / points['16'][4096].ms:.1%}",
        "swizzled": "{:.1f} and {:.1f}".format(*over["16, not swizzled"]),
        "padded": "{:.2f} and {:.2f}".format(*over["16, padded as 15"]),
        "expected": f"{1 - limits[1] / limits[0]:.0%}",
        "padded_pipe": f"{per_product(padded, 'l1_data_wavefronts'):.2f}",
        "larger_4096": f"{larger[2]:.0%}",
        "larger_2048": f"{larger[0]:.0%}",
        "larger_3072": f"{-larger[1]:.0%}",
        "busy": f"{profile['tensor cores used, %']:.0f}%",
        "before_busy": f"{before['tensor cores used, %']:.0f}%",
    }
