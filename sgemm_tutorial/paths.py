"""Where the kernels and the recordings are: in the checkout, or within the package where a wheel has put them."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def _folder(installed: str, in_checkout: str) -> Path:
    inside = PACKAGE / installed
    return inside if inside.is_dir() else PACKAGE.parent / in_checkout


KERNELS = _folder("kernels", "kernels")
RESULTS = _folder("results", "book/results")
"""The folder of recordings, in which each card has one of its own."""


def own() -> Path:
    """Return the folder for what the reader has measured: ``~/.local/share/sgemm-tutorial``, or in $XDG_DATA_HOME."""
    named = os.environ.get("XDG_DATA_HOME")
    return Path(named or os.path.expanduser("~/.local/share")) / "sgemm-tutorial"  # there may be no home
