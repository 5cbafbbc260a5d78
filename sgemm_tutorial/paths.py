"""Finds the kernels: in the checkout, or within the package where a wheel has put them."""

import os
from pathlib import Path


def folder(module: Path, installed: str, in_checkout: str) -> Path:
    """Return a folder of data: the one beside a package's module, or else the checkout's."""
    package = module.resolve().parent
    inside = package / installed
    return inside if inside.is_dir() else package.parent / in_checkout


def own() -> Path:
    """Return the folder for what the reader has measured: ``~/.local/share/sgemm-tutorial``, or in $XDG_DATA_HOME."""
    named = os.environ.get("XDG_DATA_HOME")
    return Path(named or os.path.expanduser("~/.local/share")) / "sgemm-tutorial"  # there may be no home


KERNELS = folder(Path(__file__), "kernels", "kernels")
