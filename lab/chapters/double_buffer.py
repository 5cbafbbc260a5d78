"""Chapter 10: the figures in its sentences."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from .async_pipeline import SMALL_TILE
from .warp_tile import LARGE, milliseconds

RUNG, BEFORE = find("10_double_buffer"), LARGE
"""10, and 09 with its template arguments."""
BOTH = BEFORE, RUNG
BETWEEN, MEMORY = "cycles between a warp's instructions", "state: waits for L2 or DRAM"
BARRIER = "state: barrier"


def cycles_per_tile(kernel: Kernel) -> float:
    """Return the recorded cycles at 4096 that the busiest SM takes for each BK of K of each round of blocks."""
    size, gpu = profiles.SIZE, card()
    rounds = -(-kernel.grid(size, size) // (gpu.sms * kernel_occupancy(kernel, gpu).blocks_per_sm))
    return milliseconds(kernel) * gpu.boost_mhz * 1e3 / (rounds * size / kernel.parameters["BK"])


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu, size = RUNG.parameters, card(), profiles.SIZE
    least = of["BM"] * of["BN"] * of["BK"] / gpu.limits.fp32_lanes
    before, now = cycles_per_tile(BEFORE), cycles_per_tile(RUNG)
    own, (point,) = recorded("09", [size]).points[0], recorded(RUNG, [size]).points
    gained, own_gained = milliseconds(BEFORE) - milliseconds(RUNG), own.ms - point.ms
    profile = profiles.measured(RUNG)
    ffmas = profile["FFMA"] // WARP
    issued = profile["all"] / ffmas * of["BM"] * of["BN"] * of["BK"] / WARP / 4
    assert 0 < own_gained < 0.1 * gained and before > 1.7 * least > now > issued > least
    # Of the cycles between a warp's instructions, the two waits that the chapter is about are nearly all that goes.
    earlier, later = (counted(kernel, (size,) * 3, "variant_profiles") for kernel in (BEFORE, RUNG))
    fewer = {name: earlier[name] - later[name] for name in (BETWEEN, MEMORY, BARRIER)}
    conflicts = {kernel: counters.measured(kernel, size, size, size)["shared_store_conflicts"] for kernel in BOTH}
    conflicting = conflicts[BEFORE] / gpu.sms / gpu.boost_mhz / 1e3  # milliseconds, one wavefront a cycle
    assert 0.9 < (fewer[MEMORY] + fewer[BARRIER]) / fewer[BETWEEN] < 1 and conflicting < 0.01 * gained
    small = {rung: recorded(rung, [1024]).points[0] for rung in ("09", "10")}
    loser = [kernel.variant(**SMALL_TILE) for kernel in (find("09"), RUNG)]
    losing = list(map(milliseconds, loser))
    dispatched = [counted(kernel, (size,) * 3, "variant_profiles")["state: dispatch"] for kernel in loser]
    assert (
        losing[1] > 1.02 * losing[0]
        and dispatched[1] > 2 * dispatched[0]
        and conflicts[RUNG] < 0.01 * conflicts[BEFORE]
        and small["10"].ms > 1.4 * small["09"].ms
    )
    pairs = list(zip(recorded("09").points, recorded("10").points, strict=True))
    return {
        "card": gpu.name,
        "instructions": f"{profile['all']:,}",
        "ffmas": f"{ffmas:,}",
        "least issued": f"{issued:,.0f}",
        "bound": f"{-(-RUNG.grid(size, size) // gpu.sms) * size / of['BK'] * issued / gpu.boost_mhz / 1e3:.2f} ms",
        "still lost": f"{now - least:,.0f}",
        "issue lost": f"{issued - least:,.0f}",
        "idle": f"{round(now) - round(issued):,}",
        "fewer": f"{fewer[BETWEEN]:.2f}",
        "fewer memory": f"{fewer[MEMORY]:.2f}",
        "fewer barrier": f"{fewer[BARRIER]:.2f}",
        "conflicts before": f"{conflicts[BEFORE]:,}",
        "conflicting": f"{conflicting:.3f} ms",
        "slower": f"{sum(ten.ms > nine.ms for nine, ten in pairs)} of {len(pairs)}",
        "sms": str(gpu.sms),
        "before": f"{milliseconds(BEFORE):.2f} ms",
        "now": f"{milliseconds(RUNG):.2f} ms",
        "gained": f"{gained:.2f} ms",
        "own gained": f"{own_gained:.2f} ms",
        "cycles now": f"{now:,.0f}",
        "cycles lost": f"{before - least:,.0f}",
        "cycles back": f"{round(before) - round(now):,}",  # as a reader subtracts what is printed
        "share back": f"{(before - now) / (before - least):.0%}",
        "small 09": f"{small['09'].percent_of_cublas:.0f}%",
        "small 10": f"{small['10'].percent_of_cublas:.0f}%",
        "losing 09": f"{losing[0]:.2f} ms",
        "losing 10": f"{losing[1]:.2f} ms",
        "dispatch 09": f"{dispatched[0]:.2f}",
        "dispatch 10": f"{dispatched[1]:.2f}",
        "registers before": f"{resources(BEFORE).registers}",
        "registers now": f"{resources(RUNG).registers}",
    }
