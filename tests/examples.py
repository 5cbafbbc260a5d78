"""Examples to test with: random matrices, and the settings of property tests."""

import numpy as np
from hypothesis import settings

steady = settings(derandomize=True, deadline=None, database=None)
"""Hypothesis's settings: the same examples every time, however slow the machine."""


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard-normal float32."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)
