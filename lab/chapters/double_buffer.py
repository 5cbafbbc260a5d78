"""Chapter 10: the figures in its sentences."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel

from ..experiments import profiles
from ..experiments.ceilings import card
from ..experiments.profiles import BARRIER, BETWEEN, DISPATCH, L2
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from ..variants import find_variant
from .async_pipeline import SMALL_TILE
from .warp_tile import LARGE, milliseconds

RUNG, BEFORE = find("10_double_buffer"), LARGE
"""10, and 09 with its template arguments."""
BOTH = BEFORE, RUNG
EARLY = find_variant("10", "fetch before the loop")


def cycles_per_tile(kernel: Kernel) -> float:
    """Return the cycles that Nsight Compute counted at 4096, for each BK of K of each round of blocks."""
    size, gpu = profiles.SIZE, card()
    rounds = -(-kernel.grid(size, size) // (gpu.sms * kernel_occupancy(kernel, gpu).blocks_per_sm))
    cycles = counted(kernel, (size,) * 3, "variant_profiles")["SM cycles"]
    return cycles / (rounds * size / kernel.parameters["BK"])


def issued_per_tile(kernel: Kernel) -> float:
    """Return the cycles that an SM takes at least to issue what the profile counts for each such BK of a tile."""
    of, counts = kernel.parameters, counted(kernel, (profiles.SIZE,) * 3, "variant_profiles")
    return counts["all"] / counts["FFMA"] * of["BM"] * of["BN"] * of["BK"] / card().limits.warp_granularity


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    gpu, size = card(), profiles.SIZE
    (before, now), (least, issued) = (
        [round(of(kernel)) for kernel in BOTH] for of in (cycles_per_tile, issued_per_tile)
    )
    own, (point,) = recorded("09", [size]).points[0], recorded(RUNG, [size]).points
    gained, own_gained = milliseconds(BEFORE) - milliseconds(RUNG), own.ms - point.ms
    assert 0 < own_gained < 0.1 * gained and before > 1.6 * least > now > issued
    # Of the cycles between a warp's instructions, the two waits that the chapter is about are nearly all that goes.
    earlier, later = (counted(kernel, (size,) * 3, "variant_profiles") for kernel in BOTH)
    fewer = {name: earlier[name] - later[name] for name in (BETWEEN, L2, BARRIER)}
    assert 0.9 < (fewer[L2] + fewer[BARRIER]) / fewer[BETWEEN] < 1
    small = {rung: recorded(rung, [1024]).points[0] for rung in ("09", "10")}
    both = [kernel.variant(**SMALL_TILE) for kernel in (find("09"), RUNG)]
    losing, lost = zip(*((milliseconds(of), counted(of, (size,) * 3, "variant_profiles")) for of in both), strict=True)
    assert (
        losing[1] > 1.02 * losing[0]
        and small["10"].ms > 1.4 * small["09"].ms
        and lost[1][L2] < 0.1 * lost[0][L2]
        and lost[1][DISPATCH] > 2 * lost[0][DISPATCH]
    )
    others = BEFORE.variant(BK=32), EARLY, find_variant("10", EARLY.label, **SMALL_TILE)
    (deep, early, small_early), more = map(milliseconds, others), lost[1]["all"] / lost[0]["all"] - 1
    assert 1.05 * point.ms < deep < 0.8 * milliseconds(BEFORE) and early > 1.05 * point.ms
    assert small_early < 0.98 * losing[1] and 0 < more < losing[1] / losing[0] - 1
    pairs = list(zip(recorded("09").points, recorded("10").points, strict=True))
    wins = min(ten.M for nine, ten in pairs if ten.ms < nine.ms)
    return {
        "card": gpu.name,
        "before issued": f"{least:,}",
        "instructions": f"{issued_per_tile(BEFORE) * gpu.limits.warp_granularity:,.0f}",
        "issued": f"{issued:,}",
        "idle": f"{now - issued:,}",
        "fewer": f"{fewer[BETWEEN]:.2f}",
        "fewer memory": f"{fewer[L2]:.2f}",
        "fewer barrier": f"{fewer[BARRIER]:.2f}",
        "slower": f"{sum(ten.ms > nine.ms for nine, ten in pairs)} of {len(pairs)}",
        "sms": str(gpu.sms),
        "before": f"{milliseconds(BEFORE):.2f} ms",
        "now": f"{milliseconds(RUNG):.2f} ms",
        "before the loop": f"{early:.2f} ms",
        "deep 09": f"{deep:.2f} ms",
        "deep gained": f"{deep - point.ms:.2f} ms",
        "rounds": f"{RUNG.grid(size, size) / gpu.sms:.2f}",
        "wins from": f"{wins:,}",
        "more": f"{more:.1%}",
        "gained": f"{gained:.2f} ms",
        "own gained": f"{own_gained:.2f} ms",
        "cycles now": f"{now:,}",
        "cycles lost": f"{before - least:,}",
        "cycles back": f"{before - now:,}",  # as a reader subtracts what is printed
        "share back": f"{(before - now) / (before - least):.0%}",
        "small 09": f"{small['09'].percent_of_cublas:.0f}%",
        "small 10": f"{small['10'].percent_of_cublas:.0f}%",
        "losing 09": f"{losing[0]:.2f} ms",
        "losing 10": f"{losing[1]:.2f} ms",
        **{
            f"{name} {rung}": f"{of[state]:.2f}"
            for rung, of in zip(("09", "10"), lost, strict=True)
            for name, state in (("L2", L2), ("dispatch", DISPATCH))
        },
        "registers before": f"{resources(BEFORE).registers}",
        "registers now": f"{resources(RUNG).registers}",
    }
