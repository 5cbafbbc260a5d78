"""Returns the figures that every chapter of the ladder quotes in its prose, of its rung and of the rung before it."""

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import shown

from ..experiments import profiles
from ..experiments.ceilings import card
from ..records.timings import climb, recorded


def figures(kernel: Kernel | str) -> dict[str, str]:
    """Return the figures of a chapter's rung at the size at which rungs are compared, to be glued.

    Times in milliseconds: "ms", "cublas" and, by the data sheet's peak, "arithmetic"; "share" of cuBLAS's speed; from
    the profile, "issue", "fma" and "l1", the shares of time that schedulers, multipliers, and L1 with shared memory are
    busy, and "gap", the cycles from one instruction of a warp to its next. Of the rung before, "ms before" and "share
    before": of the last that is recorded.

    Raises
    ------
    ArgumentError
        As for `recorded`.
    """
    kernel, size = find(kernel), profiles.SIZE
    (point,), profile = recorded(kernel, size).points, profiles.measured(kernel)
    found = {
        "ms": shown(point.ms),
        "share": f"{point.percent_of_cublas:.1f}%",
        "cublas": shown(point.cublas_ms),
        "arithmetic": shown(2 * size**3 / card().fp32_tflops / 1e9),
        "issue": f"{profile['issue slots used, %']:.0f}%",
        "fma": f"{profile['FMA pipes used, %']:.0f}%",
        "l1": f"{profile['L1 and shared memory used, %']:.0f}%",
        "gap": format(profile[profiles.BETWEEN], ".0f"),
    }
    if earlier := climb(size).select(LADDER[: LADDER.index(kernel)]).points:
        found |= {"ms before": shown(earlier[-1].ms), "share before": f"{earlier[-1].percent_of_cublas:.1f}%"}
    return found
