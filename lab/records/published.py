"""Results that others have published for their kernels, on their GPUs: ``book/results/published-results.csv``.

The figures are copied as they stand in the sources, contradictions and all. Boehm's code was run on an H100
for this book. The assignment of their kernels to our rungs is our reading of their code or description.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sgemm_tutorial.errors import ArgumentError

from ..paths import RESULTS
from . import cards
from .timings import Record, recorded

FILE = RESULTS / "published-results.csv"
SIZE = 4096
CUBLAS = "cuBLAS"

BOEHM = {
    "1: Naive": "01",
    "2: GMEM Coalescing": "02",
    "3: SMEM Caching": "03",
    "4: 1D Blocktiling": "04",
    "5: 2D Blocktiling": "05",
    "6: Vectorized Mem Access": "07",
    "10: Warptiling": "09",
}
RUNGS = {
    "junstar92": {
        "Naive SGEMM": "02",
        "SMEM SGEMM": "03",
        "1D BlockTile SGEMM": "04",
        "2D BlockTile SGEMM": "05",
        "Vectorize SGEMM": "07",
        "Warptiling SGEMM": "09",
    },
    "optimization-procedure": {
        "Naive": "02",
        "Tiling": "03",
        "1D thread-tiling": "04",
        "2D thread-tiling": "05",
        "Vectorized Mem Access": "07",
    },
    "vantaa89": {"Naive": "01", "Block Tiling": "03", "Thread Tiling": "04", "2D Thread Tiling": "05"},
    "siboehm": BOEHM,
    "siboehm code, measured on H100": BOEHM,
}
"""The names of each source's kernels, and the numbers of the rungs that do the same."""
NAMES = {
    "optimization-procedure": "T4 article",
    "siboehm": "Boehm",
    "siboehm code, measured on H100": "Boehm's code",
}
"""The book's name for a source, where that isn't its name in the file."""


@dataclass(frozen=True)
class Result:
    """One published figure.

    Attributes
    ----------
    source, gpu : str
        The publisher and the GPU.
    table : str
        "ladder", one size, or "sweep", many.
    kernel : str
        The source's name for it.
    size : int
        M = N = K.
    ms : float or None
        Milliseconds, where the source gives them.
    gflops : float or None
        The rate in the source's own "GFLOP/s", which need not be 10⁹ FLOP per second.
    """

    source: str
    gpu: str
    table: str
    kernel: str
    size: int
    ms: float | None
    gflops: float | None

    @property
    def tflops(self) -> float:
        """The rate in 10¹² operations per second: from the time, or the source's own where it gives no time."""
        return 2e-9 * self.size**3 / self.ms if self.ms is not None else self.gflops / 1e3

    @property
    def rung(self) -> str | None:
        """Number of the rung that does the same, if there is one."""
        return RUNGS.get(self.source, {}).get(self.kernel)

    @property
    def label(self) -> str:
        """Card and source, such as "RTX 3080, junstar92"."""
        return f"{card_name(self.gpu)}, {NAMES.get(self.source, self.source)}"

    def of(self, other: "Result") -> float:
        """Speed as a fraction of another's of the same source."""
        return self.tflops / other.tflops


@cache
def load(path: Path = FILE) -> tuple[Result, ...]:
    """Return all figures, in the file's order. The file is read once.

    Raises
    ------
    ArgumentError
        The file is missing or malformed.
    """

    def number(text: str) -> float | None:
        return float(text) if text else None

    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(
                Result(
                    row["source"],
                    row["gpu"],
                    row["table"],
                    row["kernel"],
                    int(row["size_mnk"]),
                    number(row["time_ms"]),
                    number(row["gflops"]),
                )
                for row in csv.DictReader(file)
            )
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ArgumentError("path", f"{path} ({error!r})", "a table of published results") from None


def shares(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """Return percentages of cuBLAS on the same card at `SIZE`, by card and source, and by number of the rung.

    A source without a figure of cuBLAS is left out.
    """
    ladders = [result for result in results if result.table == "ladder" and result.size == SIZE]
    reference = {result.label: result for result in ladders if result.kernel == CUBLAS}
    found: dict[str, dict[str, float]] = {}
    for result in ladders:
        if result.rung and result.label in reference:
            found.setdefault(result.label, {})[result.rung] = 100 * result.of(reference[result.label])
    return found


def own() -> list[Record]:
    """Return the ladder at `SIZE` on every card that is recorded, the one that the book shows first."""
    order = sorted(cards.recorded(), key=lambda card: (card != cards.shown(), card))
    return [recorded(sizes=[SIZE], recording=cards.folder(card) / "ladder.json") for card in order]


def card_name(gpu: str) -> str:
    """Return what the book calls a GPU: "H100" for "NVIDIA H100 80GB HBM3"."""
    return cards.slug(gpu).replace("-", " ").upper()
