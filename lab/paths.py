"""The folder of the recordings: in the checkout, or within the package if it was installed from a wheel."""

from pathlib import Path

from sgemm_tutorial.paths import folder

RESULTS = folder(Path(__file__), "results", "book/results")
"""The folder of recordings, in which each card has one of its own."""
ROOT = RESULTS.parent.parent
"""The checkout, where there is one."""
