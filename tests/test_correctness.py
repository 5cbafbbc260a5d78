"""The judge must pass what is right, however it was summed, and fail everything else."""

import dataclasses
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgemm_tutorial import LADDER, ArgumentError, DeviceError, check, find, gpu, matrices, suite
from sgemm_tutorial.correctness import cases, excess

U = 2.0**-24
LARGEST = float(np.finfo(np.float32).max)


class Imitation:
    """Stands for a kernel: the right answer in float32, then `spoil` does something to it."""

    name, parameters = "imitation", {"BM": 8, "BN": 8, "BK": 8}

    def __init__(self, spoil=None):
        self.spoil = spoil

    def __call__(self, A, B, C, alpha, beta):
        with np.errstate(all="ignore"):
            result = np.zeros_like(C)
            if alpha != 0 and A.shape[1]:
                result = np.float32(alpha) * (A @ B)
            if beta != 0:
                result = result + np.float32(beta) * C
        C[:] = result
        if self.spoil:
            self.spoil(A, B, C)


def change(array, value):
    if array.size:
        array.flat[array.size // 2] = value


SPOILERS = {
    "one element wrong": lambda A, B, C: change(C, C.flat[C.size // 2] + 0.01 if C.size else 0),
    "one element not written": lambda A, B, C: change(C, np.nan),
    "one element infinite": lambda A, B, C: change(C, np.inf),
    "A overwritten": lambda A, B, C: change(A, 7),
    "B overwritten": lambda A, B, C: change(B, 7),
    "a row shifted": lambda A, B, C: C.__setitem__(slice(1, None), C[:-1].copy()),
    "written before C": lambda A, B, C: C.base.__setitem__(4096 - 4096 % 128 - 1, 0),
    "written after C": lambda A, B, C: C.base.__setitem__(-1, 0),
}


def test_a_right_result_passes_every_case():
    result = suite(Imitation(), on_gpu=False)
    assert result.passed, result.table()
    assert len(result.results) == len(cases(Imitation())) > 40
    assert 0 < max(r.worst_ratio for r in result.results) < 1


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_spoiled_result_fails(spoiler):
    result = suite(Imitation(SPOILERS[spoiler]), on_gpu=False)
    assert not result.passed
    one = check(Imitation(SPOILERS[spoiler]), 37, 41, 43, -1.5, 0.75, on_gpu=False)
    assert not one.passed
    assert one.guards_intact == (spoiler.split()[-1] not in ("overwritten", "C"))


def wrong_blas(name):
    def kernel(A, B, C, alpha, beta):
        alpha, beta = np.float32(alpha), np.float32(beta)
        with np.errstate(all="ignore"):
            product = A @ B
            C[:] = {
                "reads C at beta = 0": alpha * np.nan_to_num(product) + beta * C,
                "reads A at alpha = 0": alpha * product + (beta * C if beta else 0),
                "swaps alpha and beta": beta * product + (alpha * C if alpha else 0),
                "ignores beta": alpha * product,
            }[name]

    kernel.name, kernel.parameters = name, Imitation.parameters
    return kernel


@pytest.mark.parametrize(
    ("name", "alpha", "beta"),
    [
        ("reads C at beta = 0", 1.0, 0.0),
        ("reads A at alpha = 0", 0.0, 2.0),
        ("swaps alpha and beta", -1.5, 0.75),
        ("ignores beta", -1.5, 0.75),
    ],
)
def test_wrong_blas_semantics_fail(name, alpha, beta):
    assert not check(wrong_blas(name), 37, 41, 43, alpha, beta, on_gpu=False).passed
    assert not suite(wrong_blas(name), on_gpu=False).passed


@pytest.mark.parametrize(("factor", "wrong"), [(0.9, 0), (1.1, 1)])
def test_check_counts_what_exceeds_the_bound(factor, wrong):
    def spoil(A, B, C):
        exact, size = (float(a.astype(np.float64) @ b) for a, b in ((A[3], B[:, 5]), (abs(A[3]), abs(B[:, 5]))))
        C[3, 5] = exact + factor * 45 * U / (1 - 45 * U) * size

    result = check(Imitation(spoil), 37, 41, 43, on_gpu=False)
    assert (result.wrong, result.worst_at) == (wrong, (3, 5))
    assert result.worst_ratio == pytest.approx(factor, rel=0.01)


def test_tf32_inputs_fail():
    def tf32(A, B, C, alpha, beta):
        short = [((m.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32) for m in (A, B)]
        C[:] = np.float32(alpha) * (short[0] @ short[1])

    assert not check(tf32, 64, 64, 64, on_gpu=False).passed


@pytest.mark.parametrize(("factor", "right"), [(0.99, True), (1.01, False)])
def test_the_bound_is_highams(factor, right):
    """With |A||B| = K and gamma(K+2) from the formula, an error just below passes, just above does not."""
    K, alpha, beta = 6, 2.0, 3.0
    A, B, C = np.ones((1, K), np.float32), np.ones((K, 1), np.float32), np.full((1, 1), -4, np.float32)
    bound = (K + 2) * U / (1 - (K + 2) * U) * (alpha * K + beta * 4)
    got = np.array([[alpha * K - beta * 4 + factor * bound]])
    assert (excess(got, A, B, C, alpha, beta) <= 1).all() == right


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-38, 1e18]))
def test_any_order_of_summation_passes(K, seed, scale):
    random = np.random.default_rng(seed)
    A = (random.standard_normal((3, K)) * scale).astype(np.float32)
    B = random.standard_normal((K, 4)).astype(np.float32)
    C = random.standard_normal((3, 4)).astype(np.float32)
    got = np.zeros((3, 4), np.float32)
    for k in random.permutation(K):
        got += A[:, k, None] * B[k]
    got = np.float32(0.3) * got + np.float32(-7) * C
    assert (excess(got, A, B, C, float(np.float32(0.3)), -7.0) <= 1).all()


@pytest.mark.parametrize(
    ("got", "a", "right"),
    [
        (np.inf, np.inf, True),
        (-np.inf, -np.inf, True),
        (np.nan, np.nan, True),
        (np.inf, -np.inf, False),
        (np.nan, np.inf, False),
        (np.inf, np.nan, False),
        (LARGEST, np.inf, False),
        (1.0, np.nan, False),
        (np.nan, 1.0, False),
        (np.inf, 1.0, False),
    ],
)
def test_non_finite_values_match_in_kind(got, a, right):
    A, B, got = (np.array([[x]], np.float32) for x in (a, 1.0, got))
    assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all() == right


def test_overflow_on_the_way_is_excused_but_a_finite_wrong_value_is_not():
    A, B = np.full((1, 2), 3e38, np.float32), np.array([[1], [1]], np.float32)
    for got, right in ((np.inf, True), (np.nan, True), (3e38, False)):
        got = np.array([[got]], np.float32)
        assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all() == right


def test_underflow_is_excused():
    A, B = np.full((1, 3), 1e-23, np.float32), np.full((3, 1), 1e-23, np.float32)
    got = np.zeros((1, 1), np.float32)
    assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all()
    assert not (excess(got + np.float32(1e-40), A, B, got, 1.0, 0.0) <= 1).all()


def test_matrices_are_normal_and_the_same_each_time():
    A, B = matrices(50, 60, 70, seed=3, on_gpu=False)
    again, _ = matrices(50, 60, 70, seed=3, on_gpu=False)
    other, _ = matrices(50, 60, 70, seed=4, on_gpu=False)
    assert (A.shape, B.shape, A.dtype, B.dtype) == ((50, 70), (70, 60), np.float32, np.float32)
    assert np.array_equal(A, again) and not np.array_equal(A, other)
    assert abs(A.mean()) < 0.1 and abs(A.std() - 1) < 0.1
    assert A[0, :2] == pytest.approx([2.41715, 0.14276257])


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_the_ladder_passes_its_suite(kernel):
    assert suite(kernel, on_gpu=False).passed


BROKEN = {
    "barrier gone": ("03_shared_tile", "__syncthreads();                                   // the tiles", "// the"),
    "index shifted": ("02_coalesced", "A[row * K + k]", "A[row * K + (k ? k - 1 : k)]"),
    "guard gone": ("01_naive", "if (row >= M || col >= N) return;", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_fails_with_a_reason(name, tmp_path):
    stem, old, new = BROKEN[name]
    kernel = dataclasses.replace(find(stem), folder=tmp_path)
    shutil.copy(find(stem).path, kernel.path)
    assert kernel.source.count(old) == 1
    kernel.path.write_text(kernel.source.replace(old, new), encoding="utf-8")
    result = suite(kernel, on_gpu=False)
    assert not result.passed
    failed = next(r for r in result.results if not r.passed)
    assert failed.wrong or failed.fault
    assert (failed.fault or "wrong values") in str(result.table())


def test_bad_arguments():
    kernel = find("01")
    with pytest.raises(ArgumentError, match="M: got -1"):
        check(kernel, -1, 2, 3)
    with pytest.raises(ArgumentError, match="K: got 16777214"):
        check(kernel, 1, 1, 2**24 - 2)
    if not gpu.available():
        with pytest.raises(DeviceError, match="no GPU"):
            matrices(1, 1, 1, on_gpu=True)
