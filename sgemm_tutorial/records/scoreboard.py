"""The climb so far, rung by rung: what its chapter predicted, what was measured, and what was busiest."""

from __future__ import annotations

from ..catalogue import CHOOSING, LADDER, find
from ..errors import ArgumentError
from ..kernel import Kernel
from ..model.predictions import WAVEFRONTS, predicted
from ..table import Table
from . import anatomy, profiles
from .ceilings import card
from .timings import RACE, recorded

PARTS = {
    "issue slots used, %": "issue slots",
    "FMA pipes used, %": "FP32 units",
    "L1 and shared memory used, %": "L1 and shared",
}
"""What may be busiest, by the profile's names and by ours."""


def scoreboard(last: Kernel | str = LADDER[-1]) -> Table:
    """Return a row for each rung up to this one, at the size at which rungs are compared, on the shown card.

    Predictions are `model.predictions`', times are the recording's, and what limits is the part of an SM that the
    profile found busiest, with the share of the time that it was.

    Raises
    ------
    ArgumentError
        The rung is not of the ladder, or one is not in the recordings.
    """
    last, gpu, rows = find(last), card(), []
    rungs = (*LADDER, *CHOOSING)
    names = [kernel.name for kernel in rungs]
    if last.name not in names:
        raise ArgumentError("last", last.name, f"a rung of the ladder: {', '.join(names)}")
    for kernel in rungs[: names.index(last.name) + 1]:
        if kernel in CHOOSING:  # it has recordings of its own
            (point,) = recorded(kernel, profiles.SIZE, RACE).points
            profile = anatomy.of(kernel, (profiles.SIZE,) * 3).main.counts
        else:
            (point,) = recorded(kernel, profiles.SIZE).points
            profile = profiles.measured(kernel)
        busiest = max(PARTS, key=profile.get)
        rows.append(
            (
                kernel.name[:2],
                predicted(kernel, gpu)[1] if kernel.name in WAVEFRONTS else None,
                point.ms,
                f"{point.percent_of_cublas:.1f}%",
                f"{100 * point.tflops / gpu.fp32_tflops:.1f}%",
                f"{PARTS[busiest]} {profile[busiest]:.0f}%",
                kernel.idea,
            )
        )
    return Table(
        ("rung", "predicted ms", "measured ms", "of cuBLAS", "of peak", "busiest part", "idea"),
        rows,
        f"The climb so far: M = N = K = {profiles.SIZE}, {gpu.name}",
        "Predicted: the busiest part by the chapter's formula, and nothing else. Busiest: share of the time, by Nsight "
        "Compute.",
    )
