"""Rates that no kernel can exceed on a GPU: of its arithmetic and of each level of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgemm_tutorial.table import Table, Tabular

ARITHMETIC, SHARED, L2, DRAM = "FP32", "shared memory", "L2", "DRAM"
READ, MMA_FP16, MMA_TF32 = "L2, read alone", "FP16 by mma", "TF32 by mma"
"""Ceilings that not all cards have been measured for."""


@dataclass(frozen=True)
class Ceiling:
    """One ceiling, measured.

    Attributes
    ----------
    name : str
        `ARITHMETIC`, `SHARED`, `L2`, `DRAM`, `READ`, `MMA_FP16` or `MMA_TF32`.
    unit : str
        "FLOP" or "byte".
    amount : int
        How many of them one launch does; copies count bytes read and bytes written.
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of a launch.
    """

    name: str
    unit: str
    amount: int
    ms: float
    ms_p10: float
    ms_p90: float

    @property
    def tera_per_second(self) -> float:
        """10¹² FLOP or bytes in a second."""
        return self.amount / self.ms / 1e9


@dataclass(frozen=True, repr=False)
class Ceilings(Tabular):
    """All ceilings of a GPU, by name, with their provenance."""

    provenance: dict[str, Any]
    by_name: dict[str, Ceiling]

    def __getitem__(self, name: str) -> Ceiling:
        return self.by_name[name]

    def table(self) -> Table:
        """Return a row for each."""
        rows = [
            (c.name, f"{c.tera_per_second:.3g} T{'FLOP' if c.unit == 'FLOP' else 'B'}/s", c.ms)
            for c in self.by_name.values()
        ]
        return Table(
            ("ceiling", "measured", "ms per launch"),
            rows,
            f"{self.provenance['gpu']}, {self.provenance['date'][:10]}",
            "Copies count bytes read and bytes written.",
        )
