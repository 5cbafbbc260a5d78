"""Mutants that do nothing wrong, though their PTX is another: each with the argument why."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str], str] = {}
"""By the kernel's name and the mutant's key."""
