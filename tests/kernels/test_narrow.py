"""The simulator gives the same bits and counts where the default integer has 32 bits, as in WebAssembly."""

import numpy as np
import pytest

from sgemm_tutorial import find, simulate

from ..examples import floats
from ..ptxsim.narrow import default_of_32_bits

SIZES = {
    "01": (33, 35, 20),
    "09": (130, 129, 20),
    "13": (40, 72, 300),
    "16": (130, 136, 40),
    "17": (130, 136, 40),
    "20": (256, 264, 136),
}
"""Rows, columns and depth for each kernel: edges and several blocks; 20 needs rows of multiples of 16 bytes."""


@pytest.mark.parametrize("name", SIZES)
def test_same_bits_and_counts(name):
    kernel, (M, N, K) = find(name), SIZES[name]
    A, B = (floats(*shape).astype(kernel.types.operand) for shape in ((M, K), (K, N)))
    C = floats(M, N).astype(kernel.types.result)
    wide, narrow = C.copy(), C.copy()
    there = simulate(kernel, A, B, wide, 1.5, 0.5, trace=[1])
    with default_of_32_bits():
        here = simulate(kernel, A, B, narrow, 1.5, 0.5, trace=[1])
    assert wide.tobytes() == narrow.tobytes() and wide.tobytes() != C.tobytes()
    assert here.lines == there.lines
    for one, other in zip(here.trace, there.trace, strict=True):
        assert np.array_equal(one.offsets, other.offsets) and np.array_equal(one.threads, other.threads)
