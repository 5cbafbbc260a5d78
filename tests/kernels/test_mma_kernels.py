"""Kernels 16 and 17, simulated: right for any shape, 16 to the bit as 15, and 17 as exact as FP32."""

import numpy as np
import pytest

from lab import check, find_variant, resources
from lab.correctness import excess
from ptxsim.fma import fma32
from sgemm_tutorial import find, simulate
from sgemm_tutorial.operands import FP32, SPLIT

from .test_half_kernels import SHAPES, drawn, expected, product, sums
from .test_spills import ARCHITECTURES

MMA = find("16").variant(BM=64, BN=128, BK=32, WM=32, WN=64, STAGES=3)
DEEP = MMA.variant(BM=64, BN=64, BK=64, WM=32, WN=32, STAGES=2)
SPLITTING = find("17").variant(BM=64, BN=64, BK=32, WM=32, WN=32, STAGES=3)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", [MMA, DEEP], ids=lambda kernel: kernel.expression)
def test_any_shape_of_halves(kernel, shape):
    for alpha, beta in ((1.0, 0.0), (-1.5, 0.5)):
        A, B, C = drawn(*shape)
        one_way, other_way = either_way(A, B, C, alpha, beta)
        product(kernel, A, B, C, alpha, beta, {"C"} if beta == 0 else ())
        assert ((one_way == C) | (other_way == C)).all()


def either_way(A, B, C, alpha, beta):
    """Return both right results: α times the sum is rounded first, or β times C."""
    scaled = [np.full(C.size, factor, np.float32) for factor in (alpha, beta)]
    other = fma32(scaled[0], sums(A, B).ravel(), scaled[1] * C.ravel()).reshape(C.shape)
    return expected(A, B, C, alpha, beta), other


@pytest.mark.parametrize("shift", [1, 2, 8])
def test_halves_that_are_not_aligned(shift):
    A, B, C = drawn(70, 66, 136, shift)
    want = expected(A, B, C, 2.0, -1.0)
    product(MMA, A, B, C, 2.0, -1.0)
    assert np.array_equal(C, want)


def floats(M, N, K, positive=False):
    random = np.random.default_rng(M + N + K)
    draw = random.random if positive else random.standard_normal
    return draw((M, K), np.float32), draw((K, N), np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_of_floats(shape):
    for scalars in ((1.0, 0.0), (-1.5, 0.5)):
        result = check(SPLITTING, *shape, *scalars, on_gpu=False)
        assert result.passed, result


@pytest.mark.parametrize("positive", [False, True])
def test_sums_are_as_exact_as_in_fp32(positive, share_runs):
    """Mean and largest error are at most those of a chain of FP32 multiply-adds; one accumulator's and TF32's not."""
    A, B = floats(64, 64, 512, positive)
    exact, size = A.astype(np.float64) @ B.astype(np.float64), np.abs(A).astype(np.float64) @ np.abs(B)

    def errors(kernel):
        off = (kernel(A, B) - exact) / size
        return np.abs(off).max(), np.sqrt((off**2).mean())

    in_fp32, ours = errors(find("02")), errors(SPLITTING)
    assert ours[0] < in_fp32[0] and ours[1] < in_fp32[1]
    assert errors(SPLITTING.edited(*find_variant("17", "one accumulator").edits))[1] > 5 * ours[1]
    assert errors(SPLITTING.edited(*find_variant("17", "big parts alone").edits))[1] > 10 * ours[1]


def test_a_product_may_lose_what_fp32_keeps_and_no_more():
    """The bound is wider than FP32's for the sake of single products, and no wider than the split needs."""
    A, B = floats(256, 256, 1, positive=True)
    C = SPLITTING(A + 1, B + 1)
    arguments = (C, A + 1, B + 1, C, 1.0, 0.0)
    assert excess(*arguments, FP32).max() > 1
    assert 0.3 < excess(*arguments, SPLIT).max() < 1


@pytest.mark.parametrize("kernel", [MMA, DEEP, SPLITTING, find("16"), find("17")], ids=lambda k: k.expression)
def test_nothing_conflicts_and_every_product_counts(kernel):
    of, (M, N, K) = kernel.parameters, (256, 256, 64)
    dtype = kernel.types.operand
    A, B = (X.astype(dtype) for X in floats(M, N, K))
    total = simulate(kernel, A, B).total
    depth, parts = (16, 1) if dtype == np.float16 else (8, 3)
    assert total.by_class["tensor"] == parts * M * N * K // (16 * 8 * depth)
    assert total.global_load_bytes == dtype.itemsize * M * N * K * (1 / of["BM"] + 1 / of["BN"])
    assert total.global_load_sectors == total.global_load_bytes // 32
    assert (total.shared_load_conflicts, total.shared_store_conflicts) == (0, 0)


@pytest.mark.parametrize("kernel", [DEEP, SPLITTING, find("16").variant(BM=128, BN=256, BK=64, STAGES=3)])
def test_other_tiles_do_not_spill(kernel):
    assert ARCHITECTURES["sm_90"] > kernel.least_capability
    used = resources(kernel, "sm_90")
    assert (used.stack_bytes, used.spill_store_bytes) == (0, 0)
