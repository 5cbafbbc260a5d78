"""22's way for a short K, whose threads fetch: that it is right wherever rows begin, and when it is chosen."""

import pytest

from lab import check
from sgemm_tutorial import operands, simulate
from sgemm_tutorial.families.any_shape import KERNEL, SHALLOW, SHALLOW_K, SHALLOW_SETTINGS, shallow_cost
from sgemm_tutorial.operands import IN_16_BITS

from .test_half_kernels import drawn
from .test_thin import GENERAL, H200, TYPES, each_type, taken

pytestmark = pytest.mark.slow

QUICKEST = (
    (63, 904, 32),
    (70, 1768, 40),
    (183, 572, 35),
    (3881, 144, 16),
    (4765, 234, 50),
    (11568, 22, 13),
    (7358, 408, 8),
    (5267, 565, 9),
)
"""A problem for each of `SHALLOW_SETTINGS` that it does the quickest by the model."""
SMALL = {"BM": 32, "BN": 32, "BK": 16, "WM": 16, "WN": 16}


# Whether it is right. Around the matrices, and in C where β = 0, there is NaN, and reading it is a fault.


@pytest.mark.parametrize("of", SHALLOW_SETTINGS, ids=lambda of: "{BM}x{BN}x{BK}".format_map(of))
def test_every_setting_is_right_wherever_rows_begin(of):
    BM, BN, BK = (of[name] for name in ("BM", "BN", "BK"))
    for M, N, K, scalars, shift in (
        (BM + 1, BN + 3, BK + 5, GENERAL, (1, 1, 1)),  # elements
        (BM - 1, 2 * BN - 6, 2 * BK + 6, (1.0, 0.0), (2, 0, 0)),  # and pairs of them, eights of them
        (BM, BN + 8, BK + 8, GENERAL, 0),
        (2 * BM, BN, BK, (1.0, 0.0), (0, 0, 1)),
        (1, 1, 1, GENERAL, 0),
        (3, BN + 1, 0, (2.0, -1.0), 0),
        (BM + 1, 5, 9, (0.0, 2.0), 0),
    ):
        result = check(SHALLOW.variant(**of), M, N, K, *scalars, on_gpu=False, shift=shift)
        assert result.passed, result


@each_type
def test_infinities_and_nan_in_the_matrices(T, bits):
    for scalars in ((1.0, 0.0), GENERAL, (0.0, 2.0)):
        for N in (40, 37):
            result = check(SHALLOW.variant(T=T, BITS=bits, **SMALL), 37, N, 40, *scalars, on_gpu=False, special=True)
            assert result.passed, result


@pytest.mark.parametrize("seed", [1, 2])
def test_warps_may_run_in_any_order(seed):
    """Barriers alone order the accesses to what they share."""
    assert check(SHALLOW.variant(**SMALL), 35, 37, 45, *GENERAL, on_gpu=False, races=True, seed=seed).passed


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), GENERAL])
def test_a_c_of_16_bits_is_the_one_of_32_rounded_once(alpha, beta):
    for T, types in TYPES.items():
        A, B, C = drawn(70, 44, 50, 1, IN_16_BITS[types])
        wanted = simulate(SHALLOW.variant(T=T), A, B, C.astype("float32"), alpha, beta).C.astype(C.dtype)
        assert simulate(SHALLOW.variant(T=T, BITS=16), A, B, C, alpha, beta).C.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("even<most>(matrix) ? most", "true ? most"),
        ("size_t(matrix) % sizeof(Some<T, EACH>) == 0", "true"),
        ("row + i * below < rows && col < cols", "row + i * below < rows"),
        ("row + i * below < rows && col < cols", "col < cols"),
        ("from += below * stride", "from += stride"),
        ("threadIdx.x / across + i * below", "threadIdx.x / across + i"),
        ("if (k0 > 0) __syncthreads();                       // the tiles before are multiplied", ""),
        ("__syncthreads();                                   // the tiles are complete", ""),
        ("if (K - k0 > BK) load(k0 + BK);", "if (K - k0 > BK) load(k0);"),
        ("__syncthreads();                                       // sums may go where the tiles were", ""),
        ("__syncthreads();                                       // the sums of all warps are there", ""),
        ("N * sizeof(*C) % 16 == 0", "true"),
        ("return row(i) < rows && col(i) < cols;", "return row(i) < rows;"),
        ("(first + i) / parts * below", "i / parts * below"),
        ("if (alpha == 0.0f) K = 0; ", ""),
        ("beta != 0.0f ? fmaf", "true ? fmaf"),
    ],
)
def test_a_bug_in_it_is_found(old, new):
    broken = SHALLOW.variant(BM=64, BN=128, BK=16, WM=32, WN=32).edited((old, new))
    scalars = (1.0, 0.0) if "beta" in old else (0.0, 1.0) if "alpha" in old else GENERAL
    cases = [((70, 72, 70), 0), ((70, 71, 69), (1, 1, 0)), ((70, 72, 72), 4)]
    results = [
        check(broken, *shape, *scalars, on_gpu=False, shift=shift, races=races)
        for shape, shift in cases
        for races in (False, True)
    ]
    assert not all(result.passed for result in results)


# When it is chosen.


@each_type
def test_it_takes_products_of_a_short_k(T, bits):
    kernel = KERNEL.variant(T=T, BITS=bits)
    for shape in ((1481, 3393, 16), (6970, 2889, 11), (301, 197, 62)):
        found = taken(shape, kernel, types=kernel.types)
        assert (found.name, found.parameters["T"], found.parameters["BITS"]) == ("shallow", T, bits)
        assert found.types == kernel.types
    for shape in ((4096, 4096, 256), (301, 197, 1024)):
        assert taken(shape, kernel, types=kernel.types).name != "shallow"
    for alone in (KERNEL.family.itself(KERNEL), KERNEL.edited(label="alone")):
        assert taken((1481, 3393, 16), alone).name == KERNEL.name


def test_the_model_knows_no_longer_k():
    for of in SHALLOW_SETTINGS:
        assert shallow_cost(of, (500, 500, SHALLOW_K), 32, 132) < shallow_cost(of, (500, 500, SHALLOW_K + 1), 32, 132)


def test_rows_of_c_that_begin_anywhere_take_longer():
    for of in SHALLOW_SETTINGS:
        for bits in (16, 32):
            assert shallow_cost(of, (4000, 4096, 16), bits, 132) < shallow_cost(of, (4000, 4095, 16), bits, 132)


def test_each_setting_is_the_quickest_somewhere():
    """Each setting does some product more quickly than any other kernel would."""
    for of, shape in zip(SHALLOW_SETTINGS, QUICKEST, strict=True):
        found = KERNEL.resolve(operands.imagined(*shape, KERNEL.types), H200).kernel
        assert found.name == "shallow"
        assert {name: found.parameters[name] for name in of} == of, shape
