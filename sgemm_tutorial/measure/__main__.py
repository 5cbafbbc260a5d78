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

from ..catalogue import CATALOGUE, LADDER
from ..kernel import Kernel
from ..paths import RESULTS
from ..records.timings import Size
from ..tools import readme
from ..variants import FRAGMENTS, STEP_IN_FP64, STEPS, STEPS_NOT_COUNTED, VARIANTS
from . import accuracy, ceilings, launch_cost, nsight
from .bench import bench

SIZES = (128, *range(256, 4097, 128))
"""Square problems that every kernel is timed at: those of the sweep in ``published-results.csv``, and a smaller one."""

OTHER_SIZES = (256, 512, 1024, 2048, 4096)
"""Square problems that the kernels beside the ladder are timed at."""

PITCHES = (*((2048, 2048, K) for K in (2048, 2049, 2052, 2056, 2080)), (2048, 2049, 2048))
"""Problems whose rows start in other banks of the L1 cache, timed for the kernels without shared memory."""


def timed(plan: dict[str, tuple[Sequence[Kernel | str], Sequence[int | Size]]], folder: Path) -> None:
    """Time kernels at sizes, anew, in drafts beside the recordings; replace these once all is measured."""
    drafts = {name: folder / f"{name}.partial.json" for name in plan}
    for name, (kernels, sizes) in plan.items():
        if not bench(kernels, sizes, path=drafts[name]).complete:
            raise KeyboardInterrupt
    for name, draft in drafts.items():
        draft.replace(folder / f"{name}.json")


def main(folder: Path = RESULTS) -> None:
    """Record timings and ceilings, and counters where there is Nsight Compute."""
    timed(
        {
            "ladder": (LADDER, SIZES),
            "variants": (VARIANTS, (4096,)),
            "pitch": (("01", "02"), PITCHES),
            "others": (CATALOGUE[len(LADDER) :], OTHER_SIZES),
            "fragments": (FRAGMENTS, (4096,)),
            "steps": ((*STEPS, STEP_IN_FP64, *STEPS_NOT_COUNTED), (4096,)),
        },
        folder,
    )
    launch_cost.record(folder / "launch_cost.json")
    ceilings.record(folder / "ceilings.json")
    accuracy.record(folder / "accuracy.json")
    if folder == RESULTS:
        readme.main()
    if shutil.which("ncu"):
        nsight.record_counters(folder / "counters.json")
        nsight.record_profiles(folder / "profile.json")
    else:
        print("ncu is not on the PATH: counters.json and profile.json stay as they were", file=sys.stderr)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
