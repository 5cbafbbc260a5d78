"""Picks the few of what is recorded that the suite looks at again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def sample(keys: Iterable[str], size: int, seed: str) -> list[str]:
    """Return so many of the keys: the same ones for the same seed, so that all come up in time as it changes."""
    return sorted(keys, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:size]
