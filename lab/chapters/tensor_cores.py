"""Tabulates the board that the chapters about tensor cores share."""

from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import profiles, sustained
from ..experiments.ceilings import card
from ..records.timings import OTHERS, recorded

PARTS = {
    "issue slots used, %": "issue slots",
    "FMA pipes used, %": "FP32 units",
    "tensor cores used, %": "tensor cores",
    "L1 and shared memory used, %": "L1 and shared",
}
"""Parts of an SM that may be busiest, by the profile's names and by ours."""


def board(before: Kernel, kernel: Kernel) -> Table:
    """Return three rows at the size at which rungs are compared: the rung before, this one, and its cuBLAS.

    Parameters
    ----------
    before, kernel : Kernel
        Each is compared with the routine of cuBLAS that takes its types, timed in the same run.
    """
    rows, profiled = [], []
    for rung in (before, kernel):
        (point,) = recorded(rung, profiles.SIZE, "ladder" if rung in LADDER else OTHERS).points
        profile = profiles.measured(rung)
        profiled.append(f"{profile['nanoseconds'] / 1e6:.3g}")
        part = max(PARTS, key=profile.__getitem__)
        ms, share = sustained.lasted(rung) or (None, None)
        beside, busiest = f"{point.percent_of_cublas:.1f}%", f"{PARTS[part]} {profile[part]:.0f}%"
        rows.append((f"{rung.name} ({rung.types.name})", ms, ms and f"{share:.1%}", point.ms, beside, busiest))
    rows.append((f"cuBLAS ({kernel.types.name})", ms and ms * share, ms and "100%", point.cublas_ms, "100%", None))
    return Table(
        ("", "lasting, ms", "of cuBLAS", "in turns, ms", "of cuBLAS", "busiest part of an SM"),
        rows,
        f"M = N = K = {profiles.SIZE}, {card().name}",
        f"Lasting: alone for {sustained.SECONDS:.0f} s. In turns: beside the routine of cuBLAS that takes the same "
        "types, for milliseconds. Busiest: by Nsight Compute, in "
        f"launches that took {' and '.join(profiled)} ms; L2 and DRAM, which all SMs share, are not among the parts.",
    )
