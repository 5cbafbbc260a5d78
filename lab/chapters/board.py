"""What every chapter of the ladder shows of its rung: a scoreboard of three rows."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..records import profiles
from ..records.scoreboard import scoreboard
from ..records.timings import recorded

COLUMNS = ("rung", "predicted ms", "measured ms", "of cuBLAS", "busiest part")


def board(kernel: Kernel | str) -> Table:
    """Return the rows of a rung of the ladder and of the rung before it, and a row of cuBLAS.

    Raises
    ------
    ArgumentError
        As for `scoreboard`.
    """
    kernel = find(kernel)
    table = scoreboard(kernel)
    at = [table.columns.index(column) for column in COLUMNS]
    rows = [tuple(row[i] for i in at) for row in table.rows[-2:]]
    (point,) = recorded(kernel, profiles.SIZE).points
    return Table(COLUMNS, [*rows, ("cuBLAS", None, point.cublas_ms, "100%", None)], table.title, table.note)
