"""Makes the recordings in ``book/results`` that the book is built from, on this machine's GPU.

``python -m sgemm_tutorial.record [FOLDER]``, interrupted, continues where it was: what is measured stands in
``*.partial.json`` until all timings are there. ``make live`` then shows the new figures in the notebooks; the README
gets them at once.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from . import launch_cost, nsight, readme, records
from .bench import bench
from .catalogue import LADDER, Kernel, find
from .records import Size

SIZES = (128, 256, 512, 1024, 2048, 4096)
"""Square problems that every kernel is timed at."""

PITCHES = (*((2048, 2048, K) for K in (2048, 2049, 2052, 2056, 2080)), (2048, 2049, 2048))
"""Problems whose rows start in other banks of the L1 cache, timed for the kernels without shared memory."""


def variants() -> list[Kernel]:
    """Return the kernels with other template arguments that chapters compare, timed at 4096."""
    return [
        *(find("01").variant(BM=BM, BN=BN) for BM, BN in ((32, 8), (32, 32), (128, 2), (16, 16))),
        *(find("02").variant(BM=BM, BN=BN) for BM, BN in ((8, 32), (32, 32), (2, 128), (16, 16), (32, 8))),
        *(find("03").variant(BM=B, BN=B, BK=BK) for B, BK in ((32, 32), (32, 64), (32, 128), (16, 16), (8, 8))),
        *(find("04").variant(BM=64, BN=64, BK=BK, TM=TM) for BK, TM in ((8, 8), (4, 16), (32, 4), (32, 8), (32, 16))),
        *(find("05").variant(BM=BM, BN=BN, BK=BK, TM=TM, TN=TN) for BM, BN, BK, TM, TN in (
            (64, 64, 8, 8, 8), (128, 128, 8, 8, 8), (64, 64, 32, 4, 4), (128, 128, 32, 8, 8), (128, 64, 32, 8, 4))),
    ]


def timed(plan: dict[str, tuple[Sequence[Kernel | str], Sequence[int | Size]]], folder: Path) -> None:
    """Time kernels at sizes, anew, in drafts beside the recordings; replace these once all is measured."""
    drafts = {name: folder / f"{name}.partial.json" for name in plan}
    for name, (kernels, sizes) in plan.items():
        if not bench(kernels, sizes, path=drafts[name]).complete:
            raise KeyboardInterrupt
    for name, draft in drafts.items():
        draft.replace(folder / f"{name}.json")


def main(folder: Path = records.RESULTS) -> None:
    """Record timings, and counters where there is Nsight Compute."""
    timed({"ladder": (LADDER, SIZES), "variants": (variants(), (4096,)), "pitch": (("01", "02"), PITCHES)}, folder)
    launch_cost.record(folder / "launch_cost.json")
    if folder == records.RESULTS:
        readme.main()
    if shutil.which("ncu"):
        nsight.record(folder / "counters.json")
    else:
        print("ncu is not on the PATH: counters.json stays as it was", file=sys.stderr)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
