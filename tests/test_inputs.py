"""Random matrices: the same on any machine, and refused where they cannot be made."""

import numpy as np
import pytest

from sgemm_tutorial import ArgumentError, DeviceError, gpu, matrices


def test_matrices_are_normal_and_the_same_each_time():
    A, B = matrices(50, 60, 70, seed=3, on_gpu=False)
    again, _ = matrices(50, 60, 70, seed=3, on_gpu=False)
    other, _ = matrices(50, 60, 70, seed=4, on_gpu=False)
    assert (A.shape, B.shape, A.dtype, B.dtype) == ((50, 70), (70, 60), np.float32, np.float32)
    assert np.array_equal(A, again) and not np.array_equal(A, other)
    assert abs(A.mean()) < 0.1 and abs(A.std() - 1) < 0.1
    assert A[0, :2] == pytest.approx([2.41715, 0.14276257])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: matrices(-1, 2, 3), "M: got -1, needs 0 or more"),
        (lambda: matrices(1, 2, "3"), "K: got str '3', needs a whole number, 0 or more"),
        (lambda: matrices(1, 2, 3, seed=-5), "seed: got -5, needs 0 or more"),
        (
            lambda: matrices(1, 2, 3, types="FP16"),
            "types: got 'FP16', needs Types: one of operands.FP32, FP64, FP16 and BF16",
        ),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(ArgumentError, match=f"^{text}"):
        call()


def test_what_this_machine_lacks():
    if not gpu.available():
        with pytest.raises(DeviceError, match="no GPU"):
            matrices(1, 1, 1, on_gpu=True)
