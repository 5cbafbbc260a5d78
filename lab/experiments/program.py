"""Launches items of a recording's plan: the program that Nsight Compute and compute-sanitizer run.

``python -m lab.experiments.program anatomy 3 4`` launches the fourth and the fifth item of the plan of ``anatomy``.
"""

import sys

from ..measure import nsight
from . import anatomy, sanitizer, wavefronts
from .recordings import RECORDINGS

LAUNCH = {"anatomy": anatomy.launch, "sanitizer": sanitizer.launch, "wavefronts": wavefronts.launch}
"""The functions that launch the items of a recording, where that is not `nsight.launch`."""


def main(name: str, *places: str) -> None:
    """Launch the items at these places of a plan, or all of them if no place is given."""
    items = RECORDINGS[name]().items
    LAUNCH.get(name, nsight.launch)([items[int(place)] for place in places] or items)


if __name__ == "__main__":
    main(*sys.argv[1:])
