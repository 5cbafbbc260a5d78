"""What every chapter of the ladder says of itself: the strip at its head, and a board of three rows."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..records.profiles import SIZE
from ..records.scoreboard import scoreboard
from ..records.timings import recorded


def strip(before: Kernel | str, rung: Kernel | str) -> dict[str, str]:
    """Return the shares of cuBLAS that a chapter starts from and arrives at, by their names for glue."""
    points = (recorded(find(kernel), [SIZE]).points[0] for kernel in (before, rung))
    return {name: f"{point.percent_of_cublas:.0f}%" for name, point in zip(("from", "to"), points, strict=True)}


def board(rung: Kernel | str) -> Table:
    """Return the rung before this one, this one, and the cuBLAS that was timed in turns with it."""
    full, record = scoreboard(rung), recorded(find(rung), [SIZE])
    rows = [row[:4] + row[5:6] for row in full.rows[-2:]]
    rows.append(("cuBLAS", None, record.points[0].cublas_ms, "100%", None))
    return Table(
        ("rung", "predicted ms", "measured ms", "of cuBLAS", "busiest part"),
        rows,
        f"M = N = K = {SIZE} on {record.made}",
        "Predicted: the busiest part by the chapter's formula alone, a lower bound. Busiest: by Nsight Compute, as a "
        "share of the cycles in which an SM had work.",
    )
