"""Every kernel, simulated, against NumPy in float64: any shape, any α and β, infinities and NaNs in any place.

An element is right if |C − C_ref| ≤ γ(K+2) · (|α||A||B| + |β||C|), γ(n) = n·u / (1 − n·u), u = 2⁻²⁴ (N. J. Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, §3.5), or if neither it nor the reference is
finite and both are of one kind. Finite values are small enough that float32 does not overflow on the way, so that
what is not finite comes from what was not finite before, whatever the order of the sum.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from sgemm_tutorial import LADDER, simulate
from tools.mutants import instances

from ..examples import steady

pytestmark = pytest.mark.slow

KERNELS = [instances(kernel)[0] for kernel in LADDER[:-1]]
every = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)

UNIT_ROUNDOFF, TINY = 2.0**-24, 2.0**-150
SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**-149, -(2.0**-140), 1000.0)

sizes = st.one_of(st.sampled_from([0, 1, 2, 3, 31, 32, 33, 37, 61, 63, 64, 65, 67, 70]), st.integers(0, 70))
depths = st.one_of(st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 37, 70]), st.integers(0, 40))
scalars = st.one_of(
    st.sampled_from([1.0, 0.0, -1.0, -0.0, 0.5, np.inf, -np.inf, np.nan]),
    st.floats(-1000, 1000, width=32, allow_subnormal=False),
)
finite_scalars = scalars.filter(np.isfinite)


@st.composite
def shapes(draw):
    """Draw M, N and K: mixed, or a row, a column, or a dot product."""
    M, N, K = draw(sizes), draw(sizes), draw(depths)
    return draw(st.sampled_from([(M, N, K), (M, N, K), (1, N, K), (M, 1, K), (1, 1, K), (M, N, 1)]))


@st.composite
def matrices(draw, shape, special):
    """Draw a matrix of standard-normal numbers, some replaced by special ones."""
    matrix = np.random.default_rng(draw(st.integers(0, 1000))).standard_normal(shape, np.float32)
    if special and matrix.size:
        places = draw(st.lists(st.integers(0, matrix.size - 1), max_size=4))
        for place in places:
            matrix.flat[place] = draw(st.sampled_from(SPECIAL))
    return matrix


@st.composite
def problems(draw, special=False, alphas=scalars, betas=scalars):
    M, N, K = draw(shapes())
    A, B, C = (draw(matrices(shape, special)) for shape in ((M, K), (K, N), (M, N)))
    return A, B, C, draw(alphas), draw(betas)


def judge(got, A, B, C, alpha, beta):
    """Return where the result is right."""
    K = A.shape[1] if alpha != 0 else 0
    reference, size = np.zeros(got.shape), np.zeros(got.shape)
    slack = (K + 2) * UNIT_ROUNDOFF / (1 - (K + 2) * UNIT_ROUNDOFF)
    undecided = np.zeros(got.shape, bool)
    with np.errstate(all="ignore"):
        if K:
            product = A.astype(np.float64) @ B
            terms = np.abs(A.astype(np.float64)) @ np.abs(B)
            reference, size = alpha * product, abs(alpha) * terms + TINY / slack * 2 * K * abs(alpha)
            if np.isinf(alpha):  # times ∞, rounding decides where the product is zero to within its error
                undecided = (terms > 0) & (np.abs(product) <= slack * terms + TINY * K)
        if beta != 0:
            reference, size = reference + beta * C.astype(np.float64), size + np.abs(beta * C.astype(np.float64))
        close = np.abs(got - reference) <= slack * size + 2 * TINY
        alike = (got == reference) | (np.isnan(got) & np.isnan(reference))
    return np.where(np.isfinite(reference), close, alike) | undecided


def check(kernel, A, B, C, alpha, beta):
    alpha, beta = float(np.float32(alpha)), float(np.float32(beta))
    before = A.copy(), B.copy()
    got = kernel(A, B, C.copy(), alpha, beta)
    assert all(x.tobytes() == y.tobytes() for x, y in zip((A, B), before, strict=True))
    right = judge(got, A, B, C, alpha, beta)
    assert right.all(), f"{np.count_nonzero(~right)} wrong, the first at {np.argwhere(~right)[0]}"


@every
@settings(steady, max_examples=40)
@given(problems(alphas=finite_scalars, betas=finite_scalars))
def test_finite_numbers(kernel, problem):
    check(kernel, *problem)


@every
@settings(steady, max_examples=40)
@given(problems(special=True))
@example((np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), np.ones((2, 3), np.float32), np.nan, 1.0))
@example((np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), np.ones((2, 3), np.float32), np.inf, 0.0))
@example((np.ones((2, 4), np.float32), np.ones((4, 3), np.float32), np.ones((2, 3), np.float32), np.nan, 0.0))
@example((np.ones((2, 4), np.float32), np.ones((4, 3), np.float32), np.zeros((2, 3), np.float32), 0.0, np.inf))
def test_infinities_and_nans(kernel, problem):
    check(kernel, *problem)


def poison(*shape):
    return np.full(shape, np.nan, np.float32)


@every
@settings(steady, max_examples=20)
@given(problems(alphas=finite_scalars, betas=st.sampled_from([0.0, -0.0])))
def test_beta_zero_does_not_read_c(kernel, problem):
    A, B, C, alpha, beta = problem
    got = simulate(kernel, A, B, None, alpha, beta).C  # where a read of C, which is NaN, is a fault
    assert judge(got, A, B, C, alpha, beta).all()
    assert np.isfinite(got).all()


@every
@settings(steady, max_examples=20)
@given(shapes(), scalars, st.sampled_from([0.0, -0.0]))
def test_alpha_zero_does_not_read_a_and_b(kernel, shape, beta, alpha):
    M, N, K = shape
    C = np.random.default_rng(0).standard_normal((M, N), np.float32)
    run = simulate(kernel, poison(M, K), poison(K, N), C.copy(), alpha, beta)
    assert judge(run.C, poison(M, K), poison(K, N), C, alpha, float(np.float32(beta))).all()
    assert run.total.global_load_bytes == (C.nbytes if beta != 0 else 0)
    assert run.total.shared_load_requests == run.total.by_class["copy"] == 0
    barriers = kernel.grid(M, N) * kernel.threads // 32 if kernel.name == "12_stream_k" else 0  # it ends each tile so
    assert run.total.by_class["barrier"] == barriers


@every
@settings(steady, max_examples=20)
@given(sizes, sizes, scalars, scalars)
def test_no_depth_gives_beta_c(kernel, M, N, alpha, beta):
    """With K = 0 there is nothing to multiply, and α plays no part, be it NaN."""
    C = np.random.default_rng(0).standard_normal((M, N), np.float32)
    run = simulate(kernel, np.empty((M, 0), np.float32), np.empty((0, N), np.float32), C.copy(), alpha, beta)
    with np.errstate(all="ignore"):
        expected = np.float32(beta) * C if beta != 0 else np.zeros_like(C)
    assert np.array_equal(run.C, expected, equal_nan=True)
    assert run.total.global_load_bytes == (C.nbytes if beta != 0 else 0)


def promised(kernel, beta):
    """Return β, or 0 for kernels whose bits depend on more than the order of the sum if it is not.

    α·acc + β·C is a multiplication and an FMA. Where a kernel has a fast path and a guarded one, and does four at once,
    the compiler may choose another of the two products for the FMA on each.
    """
    return beta if kernel.name < "07" else 0.0


@every
@settings(steady, max_examples=15)
@given(problems(special=True, alphas=finite_scalars, betas=finite_scalars))
def test_a_transposed_problem_gives_the_transposed_result(kernel, problem):
    """(αAB + βC)ᵀ = αBᵀAᵀ + βCᵀ, bit for bit: every kernel sums along K in one order, and products commute."""
    A, B, C, alpha, beta = problem
    beta = promised(kernel, beta)
    here = kernel(A, B, C.copy(), alpha, beta)
    there = kernel(*(np.ascontiguousarray(x.T) for x in (B, A, C)), alpha, beta)
    assert np.array_equal(here, there.T, equal_nan=True)


@settings(steady, max_examples=15)
@given(problems())
def test_all_kernels_agree_bit_for_bit_with_the_first(problem):
    """True as long as a kernel adds the products in order of k, one FMA each; a rung that does not must say so here.

    12 does on a single SM, whose share is all tiles; where blocks share a tile, it adds their parts of the sum.
    """
    A, B, C, alpha, beta = problem
    first = {kept: KERNELS[0](A, B, C.copy(), alpha, kept).tobytes() for kept in {beta, 0.0}}
    for kernel in KERNELS[1:]:
        kept = promised(kernel, beta)
        got = simulate(kernel, A, B, C.copy(), alpha, kept, multiprocessors=1).C
        assert got.tobytes() == first[kept], kernel.name
