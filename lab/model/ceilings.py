"""Rates that no kernel can exceed on a GPU: of its arithmetic and of each level of its memory."""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Ceilings:
    """All ceilings of a GPU, by name, with their provenance."""

    provenance: dict[str, Any]
    by_name: dict[str, Ceiling]

    def __getitem__(self, name: str) -> Ceiling:
        return self.by_name[name]
