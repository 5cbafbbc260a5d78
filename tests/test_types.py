"""Kernels of other types than float32: what their arguments must be, how they are judged, what cuBLAS is told."""

import ctypes
import dataclasses
from fractions import Fraction
from types import SimpleNamespace

import cupy
import ml_dtypes
import numpy as np
import pytest

from lab import check, suite
from lab.correctness import excess
from sgemm_tutorial import ArgumentError, Kernel, cublas, find, gpu, matrices, operands
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import BF16, FP16, FP32, FP64, IN_16_BITS, SPLIT, sized

SHORT = tuple(IN_16_BITS.values())
each = pytest.mark.parametrize("types", [FP32, FP64, FP16, BF16, *SHORT], ids=lambda types: types.name)
others = pytest.mark.parametrize("types", [FP64, FP16, BF16, *SHORT], ids=lambda types: types.name)
short = pytest.mark.parametrize("types", SHORT, ids=lambda types: types.name)


def drawn(M, N, K, types, seed=0):
    random = np.random.default_rng(seed)
    A, B, C = (random.standard_normal(shape) for shape in ((M, K), (K, N), (M, N)))
    return A.astype(types.operand), B.astype(types.operand), C.astype(types.result)


# Arguments


@each
def test_what_a_kernel_takes(types):
    A, B, C = drawn(3, 5, 4, types)
    problem = operands.check(A, B, C, 0.1, 1e39, types)
    scalar = np.dtype(np.float64 if types is FP64 else np.float32)
    assert problem.alpha == scalar.type(0.1) and problem.alpha.dtype == problem.beta.dtype == types.scalar == scalar
    assert np.isinf(problem.beta) == (types is not FP64)
    assert operands.check(A, B, None, 1, 0, types).C.dtype == types.result


@pytest.mark.parametrize(
    ("types", "wrong", "dtype", "text"),
    [
        (FP64, 0, np.float32, "A: got dtype <f4, needs float64: A.astype(np.float64)"),
        (FP64, 2, np.float32, "C: got dtype <f4, needs float64: C.astype(np.float64)"),
        (FP16, 1, np.float32, "B: got dtype <f4, needs float16: B.astype(np.float16)"),
        (FP16, 2, np.float16, "C: got dtype <f2, needs float32: C.astype(np.float32)"),
        (FP16, 0, BF16.operand, "A: got dtype bfloat16, needs float16: A.astype(np.float16)"),
        (BF16, 1, np.float32, "B: got dtype <f4, needs bfloat16: B.astype(ml_dtypes.bfloat16)"),
        (SHORT[0], 2, np.float32, "C: got dtype <f4, needs float16: C.astype(np.float16)"),
        (SHORT[1], 2, np.float16, "C: got dtype <f2, needs bfloat16: C.astype(ml_dtypes.bfloat16)"),
    ],
)
def test_other_types_are_refused(types, wrong, dtype, text):
    kernel = dataclasses.replace(find("01"), types=types)
    matrices = list(drawn(3, 5, 4, types))
    matrices[wrong] = matrices[wrong].astype(dtype)
    with pytest.raises(ArgumentError) as refused:
        kernel(*matrices)
    assert str(refused.value) == text


def test_memory_must_be_aligned_to_the_type():
    memory = np.zeros(4 * 8 + 4, np.uint8)[4:].view(np.float64).reshape(2, 2)
    with pytest.raises(ArgumentError, match="A: got memory not at a multiple of 8 bytes"):
        operands.check(memory, memory, None, 1, 0, FP64)


def test_a_template_over_the_type_takes_its_types_from_it():
    kernel = Kernel("99_made_up", "", {"T": "float", "BM": 8, "BN": 32})
    double = kernel.variant(T="double")
    assert (kernel.types, double.types, double.expression) == (FP32, FP64, "made_up<double, 8, 32>")
    assert double.variant(BM=16).types == FP64
    for other in ("int", "half"):
        with pytest.raises(ArgumentError, match=f"T: got '{other}', needs float or double"):
            kernel.variant(T=other)


def test_a_template_whose_sums_are_wider_takes_only_such_types():
    kernel = Kernel("99_made_up", "", {"T": "half", "BM": 8, "BN": 32}, types=FP16)
    brain = kernel.variant(T="__nv_bfloat16")
    assert (brain.types, brain.expression) == (BF16, "made_up<__nv_bfloat16, 8, 32>")
    assert (kernel.least_capability, brain.least_capability) == ((6, 0), (8, 0))
    with pytest.raises(ArgumentError, match="T: got 'float', needs half or __nv_bfloat16"):
        brain.variant(T="float")


@pytest.mark.parametrize("types", [FP16, BF16], ids=lambda types: types.name)
def test_a_c_of_16_bits_has_as_type(types):
    narrow = sized(types, 16)
    assert (narrow.operand, narrow.result, narrow.scalar) == (types.operand, types.operand, np.float32)
    assert narrow == sized(narrow, 16) and types == sized(types, 32) == sized(narrow, 32)
    assert narrow.name == f"{types.name} to {types.name}" and narrow.least_capability == types.least_capability


@pytest.mark.parametrize(
    ("types", "bits", "needs"),
    [
        (FP16, 8, "16 or 32"),
        (SHORT[1], 0, "16 or 32"),
        (FP16, "16", "16 or 32"),
        (FP32, 16, "32, as A is FP32"),
        (FP64, 16, "32, as A is FP64"),
        (SPLIT, 16, "32, as A is FP32"),
    ],
)
def test_a_c_of_other_bits_is_refused(types, bits, needs):
    with pytest.raises(ArgumentError) as refused:
        sized(types, bits)
    assert str(refused.value) == f"BITS: got {bits}, needs {needs}"


def test_variants_of_other_bits():
    """They leave the choice to the kernel; types follow T and BITS, in whatever order these are given."""
    kernel = find("22")
    narrow = kernel.variant(BITS=16)
    assert narrow.types == IN_16_BITS[FP16] and narrow.parameters["BITS"] == 16 and not narrow.settled
    brain = IN_16_BITS[BF16]
    for found in (narrow.variant(T="__nv_bfloat16"), kernel.variant(T="__nv_bfloat16").variant(BITS=16)):
        assert found.types == brain and not found.settled
    assert kernel.variant(T="__nv_bfloat16", BITS=16).variant(T="half", BITS=32).types == FP16
    assert narrow.variant(BM=64).types == narrow.types and narrow.variant(BM=64).settled
    with pytest.raises(ArgumentError, match="BITS: got 8, needs 16 or 32"):
        kernel.variant(BITS=8)
    with pytest.raises(ArgumentError, match="T: got 'float', needs half or __nv_bfloat16"):
        narrow.variant(T="float")
    with pytest.raises(ArgumentError, match="BITS: got a parameter unknown to 20_persistent"):
        find("20").variant(BITS=16)


# Judging


class Imitation:
    """Stands for a kernel: the right answer, summed backwards in `arithmetic`, and what `spoil` does to it."""

    name, parameters = "imitation", {"BM": 8, "BN": 8, "BK": 8}

    def __init__(self, types, arithmetic=None, spoil=None):
        self.types, self.arithmetic, self.spoil = types, arithmetic or types.scalar, spoil

    def __call__(self, A, B, C, alpha, beta):
        of, to = self.arithmetic.type, self.arithmetic
        with np.errstate(all="ignore"):
            result = np.zeros(C.shape, to)
            if alpha != 0 and A.shape[1]:
                result = of(alpha) * (A.astype(to)[:, ::-1] @ B.astype(to)[::-1])
            if beta != 0:
                result = result + of(beta) * C.astype(to)
            C[:] = result
        if self.spoil:
            self.spoil(A, B, C)


@others
def test_a_right_result_passes_every_case(types):
    result = suite(Imitation(types), on_gpu=False)
    assert result.passed, result.failures()
    assert 0 < max(one.worst_ratio for one in result.results) < 1


@pytest.mark.parametrize(("types", "arithmetic"), [(FP64, np.float32), (FP16, np.float16)])
def test_sums_in_a_lower_precision_fail(types, arithmetic):
    assert not check(Imitation(types, np.dtype(arithmetic)), 37, 41, 43, on_gpu=False).passed


SPOILERS = {
    "one element wrong": lambda A, B, C: C.__setitem__((3, 5), 1.05 * C[3, 5] + 0.01),
    "one element not written": lambda A, B, C: C.__setitem__((3, 5), np.nan),
    "A overwritten": lambda A, B, C: A.__setitem__((3, 5), 7),
    "before A": lambda A, B, C: A.base.__setitem__(0, 0),
    "after C": lambda A, B, C: C.base.__setitem__(-1, 0),
    "a guard's NaN made another": lambda A, B, C: C.base.__setitem__(-1, np.nan),
}


@others
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_spoiled_result_fails(types, spoiler):
    assert not check(Imitation(types, spoil=SPOILERS[spoiler]), 37, 41, 43, -1.5, 0.75, on_gpu=False).passed


@others
def test_guards_are_nan_and_matrices_begin_where_they_are_told(types):
    def look(A, B, C):
        assert all(np.isnan(matrix.base[[0, -1]]).all() for matrix in (A, B, C))
        offsets = {(matrix.ctypes.data - matrix.base.ctypes.data) % 512 for matrix in (A, B)}
        assert offsets == {3 * types.operand.itemsize}

    assert check(Imitation(types, spoil=look), 9, 10, 11, on_gpu=False, shift=3).passed


@pytest.mark.parametrize(("types", "u"), [(FP32, 2.0**-24), (FP64, 2.0**-52), (FP16, 2.0**-23), (BF16, 2.0**-23)])
@pytest.mark.parametrize(("factor", "right"), [(0.99, True), (1.01, False)])
def test_the_bound_is_highams(types, u, factor, right):
    K, alpha, beta = 6, 2.0, 3.0
    A, B = np.ones((1, K), types.operand), np.ones((K, 1), types.operand)
    C = np.full((1, 1), -4, types.result)
    bound = (K + 2) * u / (1 - (K + 2) * u) * (alpha * K + beta * 4)
    got = np.array([[alpha * K - beta * 4 + factor * bound]])  # about 0
    assert (excess(got, A, B, C, alpha, beta) <= 1).all() == right


def test_the_exact_result_is_right_though_the_reference_is_only_float64():
    A, B, _ = drawn(3, 3, 300, FP64)
    exact = [[float(sum(map(lambda a, b: Fraction(a) * Fraction(b), row, column))) for column in B.T] for row in A]
    assert (excess(np.array(exact), A, B, None, 1.0, 0.0) <= 0.5).all()


@pytest.mark.parametrize(("got", "right"), [(0.0, True), (1.0, True), (2.0, True), (100.0, False)])
def test_what_cancels_may_differ_from_the_reference(got, right):
    A, B = np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))
    assert (excess(np.array([[got]]), A, B, None, 1.0, 0.0) <= 1).all() == right


def test_float64_below_its_normal_range():
    A, B = np.full((1, 3), 1e-163), np.full((3, 1), 1e-163)
    for got, right in ((0.0, True), (1e-322, False)):
        assert (excess(np.array([[got]]), A, B, None, 1.0, 0.0) <= 1).all() == right


def test_sums_that_are_cut_off_instead_of_rounded_are_right_from_float16_only():
    """Tensor cores do so: many addends just below the last bit of the first one all vanish."""
    A, B = np.full((1, 65), 1.984375 * 2.0**-12), np.full((65, 1), 2.0**-12)
    A[0, 0] = B[0, 0] = 1.0
    got = np.ones((1, 1), np.float32)
    for types, right in ((FP16, True), (BF16, True), (FP32, False)):
        ratio = excess(got, A.astype(types.operand), B.astype(types.operand), None, 1.0, 0.0)
        assert (ratio <= 1).all() == right


@each
def test_matrices_of_each_type(types):
    A, B = matrices(50, 60, 70, seed=3, on_gpu=False, types=types)
    assert (A.shape, B.shape, A.dtype, B.dtype) == ((50, 70), (70, 60), types.operand, types.operand)
    assert abs(A.astype(float).mean()) < 0.1 and abs(A.astype(float).std() - 1) < 0.1
    if types is FP16:
        assert np.array_equal(A, matrices(50, 60, 70, seed=3, on_gpu=False)[0].astype(np.float16))
    if types is FP64:
        assert (A.astype(np.float32) != A).mean() > 0.99  # all 53 bits are used


@pytest.mark.parametrize(
    ("types", "limit"), [(FP32, 2**24 - 2), (FP16, 2**23 - 2), (BF16, 2**23 - 2), (FP64, 2**52 - 2)]
)
def test_k_past_the_bound(types, limit):
    with pytest.raises(ArgumentError, match=f"K: got {limit}, needs less than {limit}, where the error bound"):
        check(Imitation(types), 1, 1, limit)


def ratio(got, terms, types, C=0.0, beta=0.0):
    """Return the error of a single result over its bound, of a sum of so many terms, or of βC besides."""
    A, B = np.array([terms], types.operand), np.ones((len(terms), 1), types.operand)
    got, C = (np.array([[one]], types.result) for one in (got, C))
    return excess(got, A, B, C, 1.0, beta, types)[0, 0]


@short
@pytest.mark.parametrize("place", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_rounding_to_16_bits_is_right_and_two_units_are_not(types, place, sign):
    """Both neighbours of a sum halfway between them are right; the next are a unit and a half off, and wrong."""
    unit = float(ml_dtypes.finfo(types.result).eps)
    low = 1 + int(place / unit) * unit
    terms = [sign * low, sign * unit / 2]
    for units, right in ((0, True), (1, True), (-1, False), (2, False)):
        assert (ratio(sign * (low + units * unit), terms, types) <= 1) == right


@short
def test_a_sum_rounded_to_16_bits_is_right_and_two_units_more_or_less_are_not(types):
    """Numbers are positive: where they cancel, the sum may be off by more."""
    A, B, C = (np.abs(matrix) for matrix in drawn(30, 40, 50, types))
    for beta in (0.0, 0.75):
        reference = 1.5 * (A.astype(np.float64) @ B.astype(np.float64)) + beta * C.astype(np.float64)
        got = reference.astype(types.result)
        assert (excess(got, A, B, C, 1.5, beta, types) <= 1).all()
        for by in (2, -2):
            off = (got.view(np.int16) + np.int16(by)).view(types.result)
            assert not (excess(off, A, B, C, 1.5, beta, types) <= 1).any()


@short
def test_subnormal_results_of_16_bits(types):
    least = float(ml_dtypes.finfo(types.result).smallest_subnormal)
    for terms, got, right in (
        ([3 * least, 0.0], 3, True),
        ([3 * least, 0.0], 4, False),
        ([3 * least, 0.0], 2, False),
        ([least], 0, False),
    ):
        assert (ratio(got * least, terms, types) <= 1) == right
    A, B = (np.array([[value]], types.operand) for value in (least, 0.5))  # halfway to 0
    for got, right in ((0.0, True), (least, True), (2 * least, False), (-least, False)):
        got = np.array([[got]], types.result)
        assert (excess(got, A, B, got, 1.0, 0.0, types)[0, 0] <= 1) == right


def test_a_result_of_16_bits_is_infinite_only_where_the_sum_is_too_large_for_it():
    """Though A and B, and what cancels in the sum, may be large."""
    types, inf = IN_16_BITS[FP16], np.inf
    for got, terms, right in (
        (inf, [60000, 6000], True),
        (65504, [60000, 6000], False),
        (-inf, [60000, 6000], False),
        (np.nan, [60000, 6000], False),
        (-inf, [-60000, -6000], True),
        (inf, [60000, 5000], False),
        (64992, [60000, 5000], True),
        (inf, [60000, 60000, -60000, -60000], False),
        (0.0, [60000, 60000, -60000, -60000], True),
        (inf, [inf, 1], True),
        (-inf, [inf, 1], False),
        (np.nan, [inf, -inf], True),
        (inf, [inf, -inf], False),
    ):
        assert (ratio(got, terms, types) <= 1) == right, (got, terms)
    assert ratio(inf, [60000], types, C=60000, beta=0.5) == 0 < 1 < ratio(inf, [60000], types, C=60000, beta=-0.5)


def test_a_result_of_bfloat16_is_infinite_where_the_sum_is_too_large():
    types = IN_16_BITS[BF16]
    large = 2.0**127
    for got, terms, right in ((np.inf, [large, large], True), (np.inf, [large, 2.0**126], False)):
        assert (ratio(got, terms, types) <= 1) == right


# cuBLAS


class FakeCublas:
    """Multiplies column-major matrices in memory, as cuBLAS's documentation says of ?gemm and GemmEx."""

    CUBLAS_OP_N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT, CUBLASError = 0, 68, -1, RuntimeError

    def __init__(self, types):
        self.called, self.types = [], types

    @staticmethod
    def _gemm(sizes, scalar, alpha, a, lda, b, ldb, beta, c, ldc, operand, result):
        def matrix(address, rows, columns, ld, dtype):
            memory = np.ctypeslib.as_array((ctypes.c_uint8 * (ld * columns * dtype.itemsize)).from_address(address))
            return memory.view(dtype).reshape(columns, ld)[:, :rows].T

        handle, trans_a, trans_b, m, n, k = sizes
        assert (handle, trans_a, trans_b) == ("handle", 0, 0)
        alpha, beta = (matrix(address, 1, 1, 1, scalar)[0, 0] for address in (alpha, beta))
        A, B, C = matrix(a, m, k, lda, operand), matrix(b, k, n, ldb, operand), matrix(c, m, n, ldc, result)
        C[:] = alpha * (A.astype(scalar) @ B.astype(scalar)) + beta * C.astype(scalar)

    def sgemm(self, *call):
        self.called.append("sgemm")
        self._gemm(call[:6], FP32.result, *call[6:], FP32.operand, FP32.result)

    def dgemm(self, *call):
        self.called.append("dgemm")
        self._gemm(call[:6], FP64.result, *call[6:], FP64.operand, FP64.result)

    def gemmEx(self, *call):
        alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm = call[6:]
        runtime = cupy.cuda.runtime
        operand = {runtime.CUDA_R_16F: FP16.operand, runtime.CUDA_R_16BF: BF16.operand}[a_type]
        result = operand if c_type == a_type else {runtime.CUDA_R_32F: FP32.result}[c_type]
        assert (b_type, compute, algorithm) == (a_type, 68, -1)
        assert (operand, result) == (self.types.operand, self.types.result)
        self.called.append("gemmEx")
        self._gemm(call[:6], FP32.result, alpha, a, lda, b, ldb, beta, c, ldc, operand, result)


SHORT_ROUTINES = [cublas.Gemm("gemmEx", types) for types in SHORT]


@pytest.mark.parametrize(
    "routine", [cublas.sgemm, cublas.dgemm, cublas.gemm_ex, cublas.gemm_ex_bf16, *SHORT_ROUTINES], ids=str
)
def test_cublas_is_asked_for_the_same_types(routine, monkeypatch):
    library, types = FakeCublas(routine.types), routine.types
    monkeypatch.setattr(cublas, "_library", lambda: library)
    monkeypatch.setattr(cublas, "_handle", lambda: "handle")
    A, B, C = drawn(3, 5, 4, types)
    held = [SimpleNamespace(data=SimpleNamespace(ptr=matrix.ctypes.data), shape=matrix.shape) for matrix in (A, B, C)]
    scalars = types.scalar.type(-1.5), types.scalar.type(0.75)
    before = C.copy()
    cublas.launch(operands.Problem(3, 5, 4, scalars[0], *held[:2], scalars[1], held[2], False, True, types))()
    assert library.called == [routine.name]
    assert (excess(C, A, B, before, -1.5, 0.75, types) <= 1).all()


# Launching


def test_a_launch_asks_for_shared_memory(monkeypatch):
    """CuPy is told of it: leave for it once, and its size at each launch."""
    told = []

    class Function:
        ptr = 1234

        def __call__(self, *call):
            told.append(call)

    module = SimpleNamespace(load=lambda cubin: None, get_function=lambda name: Function())
    monkeypatch.setattr(cupy.cuda.function, "Module", lambda: module)
    monkeypatch.setattr(cupy.cuda.driver, "funcSetAttribute", lambda *call: told.append(call))
    monkeypatch.setattr(cupy.cuda, "Device", lambda: SimpleNamespace(id=99))
    monkeypatch.setattr(gpu, "capability", lambda: (9, 0))
    kernel = find("23").variant(SHARED=1)
    monkeypatch.setattr(gpu, "place", lambda: Place("sm_90", 132, 0))
    kernel.launcher(operands.imagined(17, 513, 3))()
    leave = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (*_, (grid, block, values, shared)) = told
    assert told[0] == (1234, leave, 67_584)
    assert (grid, block, values[:3], shared) == ((4,), (128,), (17, 513, 3), 67_584)
