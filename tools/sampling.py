"""Picks the sample of recorded results that the suite checks again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def sample(keys: Iterable[str], size: int, seed: str) -> list[str]:
    """Return so many of the keys: the same ones for the same seed, and in time all of them as it changes."""
    return sorted(keys, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:size]
