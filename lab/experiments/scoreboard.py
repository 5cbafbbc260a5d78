"""The climb so far, rung by rung: the chapter's prediction, the measured time, and the busiest part of the SM."""

from collections.abc import Mapping

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..model.predictions import WAVEFRONTS, predicted
from ..records.timings import climb
from . import anatomy, profiles
from .ceilings import card

PARTS = {
    "issue slots used, %": "issue slots",
    "FMA pipes used, %": "FP32 units",
    "tensor cores used, %": "tensor cores",
    "L1 and shared memory used, %": "L1 and shared",
}
"""Parts of an SM that may be busiest, by the profile's names and by ours."""


def scoreboard(last: Kernel | str = LADDER[-1]) -> Table:
    """Return a row for each rung up to this one, at the size at which rungs are compared, on the shown card.

    Predictions come from `model.predictions` and times from the recording. The busiest part of an SM comes from the
    profile, with the share of the time for which it was busy.

    Raises
    ------
    ArgumentError
        It is no rung of the ladder.
    """
    last, gpu, rows = find(last), card(), []
    names = [kernel.name for kernel in LADDER]
    if last.name not in names:
        raise ArgumentError("last", last.name, f"a rung of the ladder: {', '.join(names)}")
    for kernel in LADDER[: names.index(last.name) + 1]:
        point = next(iter(climb(profiles.SIZE).select([kernel]).points), None)
        if point is None:
            rows.append((kernel.name[:2], None, None, None, None, "not recorded yet", kernel.idea))
            continue
        chooses = kernel.family.chooses  # then it is profiled as it is launched at this size
        profile = anatomy.of(kernel, (profiles.SIZE,) * 3).main.counts if chooses else profiles.measured(kernel)
        rows.append(
            (
                kernel.name[:2],
                predicted(kernel, gpu)[1] if kernel.name in WAVEFRONTS else None,
                point.ms,
                f"{point.percent_of_cublas:.1f}%",
                f"{100 * point.tflops / gpu.fp32_tflops:.1f}%",
                _busiest(profile),
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


def _busiest(profile: Mapping[str, float]) -> str:
    """Return the busiest part of an SM, and its share of the time."""
    part = max(PARTS, key=profile.__getitem__)
    return f"{PARTS[part]} {profile[part]:.0f}%"
