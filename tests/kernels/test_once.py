"""22's ways for vectors and pairs of them, whose matrix is read once: that they are right, and when they are chosen."""

import numpy as np
import pytest

from lab import check
from sgemm_tutorial import operands, simulate
from sgemm_tutorial.families.any_shape import KERNEL, TALL, WIDE
from sgemm_tutorial.operands import FP16, IN_16_BITS

from .test_half_kernels import drawn
from .test_thin import GENERAL, TYPES, each_type, taken

pytestmark = pytest.mark.slow


def wide(BM, BN, slices, **more):
    return WIDE.variant(BM=BM, BN=BN, WM=BM, WN=BN, SLICES=slices, **more)


def tall(BM, N, WM, slices, **more):
    return TALL.variant(BM=BM, BN=N, WM=WM, WN=N, SLICES=slices, **more)


# Whether they are right. Around the matrices, and in C where β = 0, there is NaN, and reading it is a fault.


@each_type
@pytest.mark.parametrize("slices", [1, 3, 8])
def test_a_few_rows_times_a_wide_matrix(T, bits, slices):
    for BM in (1, 2):
        for BN in (16, 32, 64):
            kernel, depth = wide(BM, BN, slices, T=T, BITS=bits), 2048 // BN * slices
            for N, K, scalars in (
                (2 * BN + 8, 2 * depth + 8, GENERAL),
                (BN, depth, (1.0, 0.0)),
                (BN - 8, 8, GENERAL),
                (8, depth + 8, (0.0, 2.0)),
                (BN, 0, (np.nan, 2.0)),
            ):
                result = check(kernel, BM, N, K, *scalars, on_gpu=False, shift=(0, 0, 1))
                assert result.passed, result


@each_type
@pytest.mark.parametrize(("BM", "WM", "slices"), [(4, 4, 1), (4, 4, 5), (8, 4, 2), (6, 2, 1)])
def test_a_tall_matrix_times_a_few_columns(T, bits, BM, WM, slices):
    for N in (1, 2, 4):
        kernel, depth = tall(BM, N, WM, slices, T=T, BITS=bits), 256 * slices
        for M, K, scalars in (
            (2 * BM + 1, 2 * depth + 8, GENERAL),
            (BM, depth, (1.0, 0.0)),
            (1, depth - 8, GENERAL),
            (BM + 1, 8, (0.0, 2.0)),
            (BM, 0, (np.nan, 2.0)),
        ):
            result = check(kernel, M, N, K, *scalars, on_gpu=False, shift=(0, 0, 3))
            assert result.passed, result


@each_type
def test_infinities_and_nan_in_the_matrices(T, bits):
    for kernel, shape in (
        (wide(2, 16, 2, T=T, BITS=bits), (2, 40, 312)),
        (tall(4, 2, 4, 2, T=T, BITS=bits), (9, 2, 520)),
    ):
        for scalars in ((1.0, 0.0), GENERAL, (0.0, 2.0)):
            assert check(kernel, *shape, *scalars, on_gpu=False, special=True).passed


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), GENERAL])
def test_a_c_of_16_bits_is_the_one_of_32_rounded_once(alpha, beta):
    for T, types in TYPES.items():
        for make, of, shape in ((wide, (1, 32, 4), (1, 72, 520)), (tall, (8, 4, 4, 2), (13, 4, 520))):
            A, B, C = (of.copy() for of in drawn(*shape, 1, IN_16_BITS[types]))
            wanted = simulate(make(*of, T=T), A, B, C.astype(np.float32), alpha, beta).C.astype(C.dtype)
            assert simulate(make(*of, T=T, BITS=16), A, B, C, alpha, beta).C.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("kernel", "shape", "old", "new"),
    [
        (wide(2, 16, 2), (2, 24, 520), old, new)
        for old, new in (
            ("min(blockIdx.x * BN + lane % across * 8, unsigned(N) - 8)", "(blockIdx.x * BN + lane % across * 8)"),
            ("min(mine * 8, unsigned(K) - 8)", "(mine * 8)"),
            ("if (mine < unsigned(K) / 8)", ""),
            ("begin += SLICES * (32 / across)", "begin += 32 / across"),
            ("far >= STRIDE", "far > STRIDE"),
            ("(k + i) * size_t(N)", "k * size_t(N)"),
            ("if (n >= N) continue;", ""),
            ("s < SLICES", "s < 1"),
            ("if (alpha == 0.0f) K = 0;", ""),
            ("beta != 0.0f ? fmaf", "true ? fmaf"),
            ("__syncthreads();", ""),
        )
    ]
    + [
        (tall(8, 2, 4, 2), (13, 2, 1032), old, new)
        for old, new in (
            ("min(row + m, size_t(M) - 1)", "(row + m)"),
            ("k += SLICES * 256", "k += 256"),
            ("(i * BN + n) % 8", "n"),
            ("+ n * 8", ""),
            ("far >= STRIDE", "far > STRIDE"),
            ("if (m >= M) break;", ""),
            ("s < SLICES", "s < 1"),
            ("if (alpha == 0.0f) K = 0;", ""),
            ("beta != 0.0f ? fmaf", "true ? fmaf"),
            ("__syncthreads();", ""),
        )
    ],
)
def test_a_bug_in_them_is_found(kernel, shape, old, new):
    scalars = (1.0, 0.0) if "beta" in old else (0.0, 1.0) if "alpha" in old else GENERAL
    assert not check(kernel.edited((old, new)), *shape, *scalars, on_gpu=False).passed


# When they are chosen.


@each_type
@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((1, 4096, 4096), "wide"),
        ((2, 4096, 4096), "wide"),
        ((3, 4096, 4096), "deep"),
        ((1, 256, 65536), "22_any_shape"),
        ((1, 4097, 4097), "thin"),
        ((4096, 1, 4096), "tall"),
        ((4096, 4, 4096), "tall"),
        ((4096, 3, 4096), "22_any_shape"),
        ((4096, 1, 4097), "thin"),
        ((128, 128, 16384), "22_any_shape"),
        ((64, 4096, 4096), "deep"),
        ((139, 229, 3877), "deep"),
        ((4096, 4096, 4096), "22_any_shape"),
        ((512, 512, 512), "22_any_shape"),
        ((1024, 1024, 64), "22_any_shape"),
    ],
)
def test_each_takes_what_it_does_most_quickly(T, bits, shape, name):
    kernel = KERNEL.variant(T=T, BITS=bits)
    found = taken(shape, kernel, types=kernel.types)
    assert (found.name, found.parameters["T"], found.parameters["BITS"]) == (name, T, bits)


@pytest.mark.parametrize("shape", [(1, 2056, 1024), (1030, 2, 1024)])
@pytest.mark.parametrize("which", [0, 1])
def test_operands_that_begin_between_16_bytes_are_for_others(shape, which):
    A, B, _ = (of.copy() for of in drawn(*shape))
    shifted = [A, B]
    shifted[which] = np.concatenate([shifted[which].ravel()[:1], shifted[which].ravel()])[1:].reshape(
        shifted[which].shape
    )
    assert taken(shape).name in ("wide", "tall")
    for operand in (shifted, [A, B]):
        problem = operands.check(*operand, None, 1.0, 0.0, FP16)
        aligned = all(begins % 16 == 0 for begins in problem.alignment[:2])
        assert (KERNEL.resolve(problem).kernel.name in ("wide", "tall")) == aligned
    assert not all(array.ctypes.data % 16 == 0 for array in shifted)
