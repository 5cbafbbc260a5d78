"""WMMA on the simulator: what it loads, multiplies, stores, counts and refuses; its arithmetic against fractions."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from ptxsim import SimulationFault, UnsupportedInstruction, multiply_accumulate
from ptxsim.tensor import DEPTH as SIZE

from ..accumulation import accumulation_bound
from ..examples import steady
from .cuda import launch, line_of, probe, simulate
from .test_instructions import F16, F32

WMMA = "#include <mma.h>\nusing namespace nvcuda::wmma;"
FRAGMENTS = """
    const half* h = reinterpret_cast<const half*>(A);
    fragment<matrix_a, 16, 16, 16, half, row_major> x;
    fragment<matrix_b, 16, 16, 16, half, row_major> y;
    fragment<accumulator, 16, 16, 16, float> z;
"""


def run(kernel, halves=(), **more):
    """Run one block of a probe whose A begins with some halves, and whose C is 1 × 1024; return the run."""
    data = np.zeros(4096, np.float16)
    data[: len(halves)] = halves
    A = data.view(np.float32).reshape(1, -1)
    B = np.zeros((A.size, 1024), np.float32)
    return simulate(kernel, A, B, blocks=[0], **more)


def in_bf16(numbers):
    """Return small integers as BF16, which is the upper half of float32, in an array of halves."""
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.float16)


# Fragments: every layout, in both memories, with rows farther apart than they must be.


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("type_", ["half", "__nv_bfloat16"])
@pytest.mark.parametrize("layouts", ["row row row", "col row row", "row col row", "row row col", "col col col"])
def test_a_product_of_matrices_in_any_layout(layouts, type_, space):
    of_a, of_b, of_c = layouts.split()
    kernel = probe(
        f"""
        using T = {type_};
        __shared__ __align__(32) T sa[16 * 24], sb[16 * 40];
        __shared__ __align__(32) float sc[16 * 20];
        const half* h = reinterpret_cast<const half*>(A);
        const T* of = reinterpret_cast<const T*>(A);
        for (int i = t; i < 16 * 24; i += 32) sa[i] = of[i];
        for (int i = t; i < 16 * 40; i += 32) sb[i] = of[512 + i];
        for (int i = t; i < 16 * 20; i += 32) sc[i] = float(h[1200 + i]);
        for (int i = t; i < 16 * 20; i += 32) C[i] = float(h[1200 + i]);
        __syncthreads();
        fragment<matrix_a, 16, 16, 16, T, {of_a}_major> x;
        fragment<matrix_b, 16, 16, 16, T, {of_b}_major> y;
        fragment<accumulator, 16, 16, 16, float> z;
        load_matrix_sync(x, {"sa" if space == "shared" else "of"}, 24);
        load_matrix_sync(y, {"sb" if space == "shared" else "of + 512"}, 40);
        load_matrix_sync(z, {"sc" if space == "shared" else "C"}, 20, mem_{of_c}_major);
        mma_sync(z, x, y, z);
        store_matrix_sync({"sc" if space == "shared" else "C"}, z, 20, mem_{of_c}_major);
        __syncthreads();
        if ({int(space == "shared")}) for (int i = t; i < 16 * 20; i += 32) C[i] = sc[i];
    """,
        before=WMMA,
    )
    numbers = np.random.default_rng(3).integers(-8, 9, 2048)
    a, b = numbers[:384].reshape(16, 24)[:, :16], numbers[512 : 512 + 640].reshape(16, 40)[:, :16]
    memory = numbers[1200 : 1200 + 320].reshape(16, 20).copy()
    c = memory[:, :16].copy()
    product = (a.T if of_a == "col" else a) @ (b.T if of_b == "col" else b)
    memory[:, :16] = c + (product.T if of_c == "col" else product)
    halves = numbers.astype(np.float16)
    if type_ != "half":
        halves[:1152] = in_bf16(numbers[:1152])
    assert run(kernel, halves).C[0, :320].reshape(16, 20).tolist() == memory.tolist()


def test_warps_load_from_both_memories_at_once():
    """BF16 is loaded from a generic address: one warp's is shared, the other's global."""
    kernel = probe(
        """
        using T = __nv_bfloat16;
        __shared__ __align__(32) T s[256];
        const T* of = reinterpret_cast<const T*>(A);
        if (t < 32) for (int i = t; i < 256; i += 32) s[i] = of[i];
        __syncthreads();
        fragment<matrix_a, 16, 16, 16, T, row_major> x;
        fragment<matrix_b, 16, 16, 16, T, row_major> y;
        fragment<accumulator, 16, 16, 16, float> z;
        load_matrix_sync(x, t < 32 ? s : of + 256, 16);  // here
        load_matrix_sync(y, of + 512, 16);
        fill_fragment(z, 0.0f);
        mma_sync(z, x, y, z);
        store_matrix_sync(C + t / 32 * 256, z, 16, mem_row_major);
    """,
        threads=64,
        before=WMMA,
    )
    numbers = np.random.default_rng(3).integers(-8, 9, 768)
    done = run(kernel, in_bf16(numbers))
    a, b, c = numbers.reshape(3, 16, 16)
    assert done.C[0, :512].reshape(2, 16, 16).tolist() == [(a @ c).tolist(), (b @ c).tolist()]
    counts = done.lines[line_of(kernel, "// here")]
    assert (counts.shared_load_requests, counts.global_load_requests) == (4, 4)
    assert (counts.shared_load_bytes, counts.global_load_bytes, counts.by_class["generic load"]) == (512, 512, 2)


def test_an_element_of_a_fragment_is_the_same_in_all():
    """Accumulators agree on it, so that adding them element by element adds the matrices."""
    kernel = probe(
        FRAGMENTS
        + """
        fragment<accumulator, 16, 16, 16, float> w;
        load_matrix_sync(x, h, 16);
        load_matrix_sync(y, h + 256, 16);
        fill_fragment(w, 0.0f);
        mma_sync(w, x, y, w);
        store_matrix_sync(C, w, 16, mem_row_major);
        load_matrix_sync(z, C, 16, mem_row_major);
        for (int i = 0; i < z.num_elements; ++i) z.x[i] = 2.0f * z.x[i] + w.x[i];
        store_matrix_sync(C + 256, z, 16, mem_row_major);
    """,
        before=WMMA,
    )
    numbers = np.random.default_rng(4).integers(-8, 9, 512)
    C = run(kernel, numbers).C[0]
    product = numbers[:256].reshape(16, 16) @ numbers[256:].reshape(16, 16)
    assert np.array_equal(C[:256].reshape(16, 16), product)
    assert np.array_equal(C[256:512].reshape(16, 16), 3 * product)


def test_warps_and_blocks_have_their_own():
    kernel = probe(
        FRAGMENTS
        + """
        load_matrix_sync(x, h + 256 * (t / 32), 16);
        load_matrix_sync(y, h + 1024, 16);
        if (t / 32 != 1) {  // a whole warp leaves this out
            fill_fragment(z, float(0));
            mma_sync(z, x, y, z);
            store_matrix_sync(C + 256 * (t / 32), z, 16, mem_row_major);
        }
    """,
        threads=96,
        before=WMMA,
    )
    numbers = np.random.default_rng(5).integers(-8, 9, 1024)
    C = run(kernel, [*numbers, *np.eye(16).ravel()], C=np.full((1, 1024), 7, np.float32)).C[0]
    assert np.array_equal(C[:256], numbers[:256])
    assert (C[256:512] == 7).all()
    assert np.array_equal(C[512:768], numbers[512:768])


# Accumulators of FP16.


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("layouts", ["row row", "row col", "col row", "col col"])
@pytest.mark.parametrize("types", ["half half", "float half", "half float"])
def test_sums_in_fp16_in_any_layout(types, layouts, space):
    """D = AB + C of small integers, exact in FP16, with types and layouts of C and D that differ."""
    (of_d, of_c), (out, come) = types.split(), layouts.split()
    kernel = probe(
        f"""
        const half* h = reinterpret_cast<const half*>(A);
        __shared__ __align__(32) {of_c} sc[16 * 24];
        __shared__ __align__(32) {of_d} sd[16 * 40];
        {of_c}* c_ = {"sc" if space == "shared" else f"reinterpret_cast<{of_c}*>(C + 640)"};
        {of_d}* d_ = {"sd" if space == "shared" else f"reinterpret_cast<{of_d}*>(C)"};
        for (int i = t; i < 16 * 24; i += 32) c_[i] = {of_c}(float(h[512 + i]));
        for (int i = t; i < 16 * 40; i += 32) d_[i] = {of_d}(7);
        __syncthreads();
        fragment<matrix_a, 16, 16, 16, half, row_major> x;
        fragment<matrix_b, 16, 16, 16, half, row_major> y;
        fragment<accumulator, 16, 16, 16, {of_c}> u;
        fragment<accumulator, 16, 16, 16, {of_d}> v;
        load_matrix_sync(x, h, 16);
        load_matrix_sync(y, h + 256, 16);
        load_matrix_sync(u, {"sc" if space == "shared" else "c_"}, 24, mem_{come}_major);
        mma_sync(v, x, y, u);
        store_matrix_sync({"sd" if space == "shared" else "d_"}, v, 40, mem_{out}_major);
        __syncthreads();
        {of_d}* o = reinterpret_cast<{of_d}*>(C);
        if ({int(space == "shared")}) for (int i = t; i < 16 * 40; i += 32) o[i] = sd[i];
    """,
        before=WMMA,
    )
    numbers = np.random.default_rng(8).integers(-8, 9, 512 + 384)
    a, b, c = numbers[:256].reshape(16, 16), numbers[256:512].reshape(16, 16), numbers[512:].reshape(16, 24)[:, :16]
    d = a @ b + (c.T if come == "col" else c)
    want = np.full((16, 40), 7)
    want[:, :16] = d.T if out == "col" else d
    got = run(kernel, numbers).C[0].view(np.float16 if of_d == "half" else np.float32)[: 16 * 40]
    assert np.array_equal(got.reshape(16, 40), want)


HGEMM = """#include <mma.h>
using namespace nvcuda::wmma;
__global__ void hgemm(const half* A, const half* B, half* C, int N, int K) {
    fragment<accumulator, 16, 16, 16, half> sum;
    fill_fragment(sum, __float2half(0.0f));
    for (int k = 0; k < K; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> x;
        fragment<matrix_b, 16, 16, 16, half, row_major> y;
        load_matrix_sync(x, A + blockIdx.y * 16 * K + k, K);
        load_matrix_sync(y, B + k * N + blockIdx.x * 16, N);
        mma_sync(sum, x, y, sum);
    }
    store_matrix_sync(C + blockIdx.y * 16 * N + blockIdx.x * 16, sum, N, mem_row_major);
}
"""


@pytest.mark.parametrize("K", [16, 48, 256])
def test_hgemm_with_sums_in_fp16(K):
    """Within the bound that at least half precision in any order gives, and within that of one rounding for each 16."""
    random = np.random.default_rng(K)
    A, B = (random.standard_normal(shape).astype(np.float16) for shape in ((32, K), (K, 48)))
    C = np.full((32, 48), np.nan, np.float16)
    done = launch(HGEMM, (3, 2), 32, A=A, B=B, C=C, N=np.int32(48), K=np.int32(K))
    wide_A, wide_B = A.astype(np.float64), B.astype(np.float64)
    errors = np.abs(C - wide_A @ wide_B)
    promised, once = K * 2.0**-10, 2.0**-11 + 2.0**-20  # of truncated sums one by one; of one rounded to nearest
    assert (errors <= promised / (1 - promised) * (np.abs(wide_A) @ np.abs(wide_B))).all()
    so_far = np.cumsum((wide_A[:, :, None] * wide_B).reshape(32, -1, 16, 48).sum(axis=2), axis=1)
    roundings = once * (1 + K / 16 * once) * np.abs(so_far).sum(axis=1) + accumulation_bound(A, B)
    assert (errors <= roundings).all()
    assert (errors > 2.0**-13 * np.abs(C)).any(), "it does round to FP16"
    assert done.total.flops == 2 * 32 * 48 * K


def test_what_is_too_large_for_fp16_is_infinite_and_nan_is_the_gpus():
    numbers = np.zeros((3, 16, 16), np.float16)
    numbers[0, :, 0] = [256, 256, 256, 256, -256, 1, np.inf, np.nan] * 2
    numbers[1, 0] = [255.75, 255.875, 256, -np.inf, *[1] * 12]
    C = np.zeros((16, 16), np.float16)
    source = HGEMM.replace("B + k * N", "A + 256 + k * N")
    launch(source, 1, 32, A=numbers, B=numbers, C=C, N=np.int32(16), K=np.int32(16))
    assert C[0, :4].tolist() == [65472, 65504, np.inf, -np.inf]
    assert C[4, :4].tolist() == [-65472, -65504, -np.inf, np.inf]
    assert (C.view(np.uint16)[7] == 0x7FFF).all()


# Arithmetic. The model again, with fractions.


def floor_to(x, exponent):
    """Cut a Fraction off, towards zero, to a multiple of a power of two."""
    unit = Fraction(2) ** exponent
    return math.trunc(x / unit) * unit


def exponent_of(x, least):
    return max(math.frexp(float(x))[1] - 1, least)


def truncated(x):
    """Return a Fraction cut off to float32."""
    if x == 0:
        return x
    return floor_to(x, exponent_of(x, -126) - 23)


def sum_of_block(a, b, c, bits=25):
    """Return c plus the products, added as the model says, for finite numbers."""
    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent_of(x, -14) + exponent_of(y, -14))
        for x, y in zip(a, b, strict=True)
        if x and y
    ]
    terms += [(Fraction(float(c)), exponent_of(c, -126))] if c else []
    if not terms:
        return Fraction(0)
    top = max(exponent for _, exponent in terms)
    return truncated(sum(floor_to(value, top - bits) for value, _ in terms))


def elements(of, dtype):
    return of.bits().map(lambda bits: np.array([bits], f"u{dtype().itemsize}").view(dtype)[0])


halves, singles = elements(F16, np.float16), elements(F32, np.float32)
mild = st.one_of(st.floats(-4, 4, width=16), st.floats(-(2.0**-12), 2.0**-12, width=16)).map(np.float16)
vectors = st.one_of(st.lists(halves, min_size=SIZE, max_size=SIZE), st.lists(mild, min_size=SIZE, max_size=SIZE))


def dot(a, b, c):
    """Return one element of a product: a row of a times a column of b, plus c."""
    left, right = np.zeros((1, SIZE, SIZE), np.float16), np.zeros((1, SIZE, SIZE), np.float16)
    sums = np.zeros((1, SIZE, SIZE), np.float32)
    left[0, 3], right[0, :, 5], sums[0, 3, 5] = a, b, c
    with np.errstate(all="ignore"):
        return multiply_accumulate(left, right, sums)[0, 3, 5]


@steady
@given(vectors, vectors, st.one_of(singles, st.floats(-8, 8, width=32).map(np.float32)))
@example([np.float16(1)] * SIZE, [np.float16(1)] * SIZE, np.float32(2**25))
@example([np.float16(0)] * SIZE, [np.float16(1)] * SIZE, np.float32(2.0**-149))
@example([np.float16(0)] * SIZE, [np.float16(-1)] * SIZE, np.float32(-0.0))
@example([np.float16(65504)] * SIZE, [np.float16(65504)] * SIZE, np.float32(3.4028235e38))
def test_products_and_sums(a, b, c):
    got = dot(a, b, c)
    if np.isfinite([*a, *b, c]).all():
        exact = sum_of_block(a, b, c)
        assert got == exact
        assert got or not np.signbit(got)
    else:
        with np.errstate(all="ignore"):
            total = float(c) + sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
        assert got == total or (math.isnan(total) and got.view(np.uint32) == 0x7FFFFFFF)


def test_what_is_cut_off():
    """1 + 15 · 2⁻²⁵ keeps what 1 + 2⁻²⁶ loses; what is left over float32's bits is lost at the end, towards zero."""
    one, small = np.zeros(SIZE), np.zeros(SIZE)
    one[0], small[0] = 1, 1
    one[1:], small[1:] = 2.0**-13, 2.0**-12
    assert dot(one, small, 0) == 1 + 2.0**-23 + 2.0**-22  # 15 · 2⁻²⁵ without its last bits
    assert dot(-one, small, 0) == -1 - 2.0**-23 - 2.0**-22
    small[1:] = 2.0**-13
    assert dot(one, small, 0) == 1
    assert dot(-one, small, 2) == 1  # to the nearest it would be 1 - 2⁻²³


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("bits", [23, 25])
@pytest.mark.parametrize("scale", [1.0, 2.0**-12, 2.0**-20])
def test_the_bound_holds_for_other_hardware(block, bits, scale):
    """It holds for blocks of any size, with and without more bits, and for numbers that are subnormal in float16."""
    random, K = np.random.default_rng(6), 48
    worst = 0
    for _ in range(20):
        a = (random.standard_normal(K) * scale * 10.0 ** random.uniform(-2, 1, K)).astype(np.float16)
        b = random.standard_normal(K).astype(np.float16)
        if block % 2:
            a, b = abs(a), abs(b)
        bound = accumulation_bound(a[None], b[:, None])[0, 0]
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True))
        other, ours = Fraction(0), np.float32(0)
        for k in range(0, K, block):
            other = sum_of_block(a[k : k + block].tolist(), b[k : k + block].tolist(), float(other), bits)
        for k in range(0, K, SIZE):
            ours = dot(a[k : k + SIZE], b[k : k + SIZE], ours)
        errors = abs(other - exact), abs(Fraction(float(ours)) - exact), abs(other - Fraction(float(ours)))
        assert max(errors) <= bound
        worst = max(worst, float(max(errors) / Fraction(bound)))
        assert bound < np.abs(a.astype(float) * b.astype(float)).mean()  # a product left out would show
    if block == 1 and bits == 23 and scale == 1:
        assert worst > 0.02  # or the bound says nothing


def test_the_bound_takes_subnormal_factors_for_larger():
    """They are aligned as if they were 2⁻¹⁴ at least, and what is added to them is cut off there."""
    A, B = np.zeros((1, SIZE), np.float16), np.zeros((SIZE, 1), np.float16)
    A[0, :2], B[:2, 0] = (2.0**-24, 2047 * 2.0**-20), (1, 1025 * 2.0**-23)
    exact = 2.0**-24 + 2047 * 1025 * 2.0**-43
    error = abs(float(dot(A[0], B[:, 0], 0)) - exact)
    assert 3 * 2 * 2.0**-23 * exact < error <= accumulation_bound(A[:, :2], B[:2])[0, 0]


# What is counted, by the machine code's accesses.


def counted(statement, before=""):
    kernel = probe(
        FRAGMENTS
        + f"""
        __shared__ __align__(32) half sh[2048];
        __shared__ __align__(32) float sf[1024];
        for (int i = t; i < 2048; i += 32) sh[i] = h[i];
        for (int i = t; i < 1024; i += 32) sf[i] = C[i] = 0;
        __syncthreads();
        fill_fragment(x, half{{}});
        fill_fragment(y, half{{}});
        fill_fragment(z, 0.0f);
        fragment<accumulator, 16, 16, 16, half> w;
        fill_fragment(w, half{{}});
        {before}
        {statement}  // here
        store_matrix_sync(C, z, 16, mem_row_major);
        for (int i = 0; i < x.num_elements; ++i)
            c[i] = __half_as_ushort(x.x[i]) + __half_as_ushort(y.x[i]) + __half_as_ushort(w.x[i % 8]);
    """,
        before=WMMA,
    )
    return run(kernel).lines[line_of(kernel, "// here")]


@pytest.mark.parametrize(
    ("statement", "requests", "sectors", "size"),
    [
        ("load_matrix_sync(x, h, 16)", 4, 4 * 8, 512),  # 8 rows of 32 bytes, of which each request touches a half
        ("load_matrix_sync(x, h, 24)", 4, 4 * 8, 512),
        ("load_matrix_sync(y, h, 64)", 4, 4 * 8, 512),
        ("load_matrix_sync(z, C, 16, mem_row_major)", 4, 4 * 8, 1024),
        ("load_matrix_sync(z, C, 32, mem_col_major)", 8, 8 * 4, 1024),  # 4 columns, 8 neighbours of each
        ("load_matrix_sync(w, h, 16, mem_row_major)", 4, 4 * 8, 512),
        ("load_matrix_sync(w, h, 16, mem_col_major)", 4, 4 * 8, 512),
    ],
)
def test_loads_from_global_memory(statement, requests, sectors, size):
    counts = counted(statement + ";")
    assert (counts.global_load_requests, counts.global_load_sectors, counts.global_load_bytes) == (
        requests,
        sectors,
        size,
    )
    assert counts.by_class["global load"] == 1  # an instruction is one, whatever it takes


@pytest.mark.parametrize(
    ("statement", "requests", "wavefronts"),
    [
        ("load_matrix_sync(x, sh, 16)", 1, 8),  # eight rows of 16 bytes, 32 apart: each bank has two
        ("load_matrix_sync(x, sh, 24)", 1, 4),  # 48 apart: each bank has one
        ("load_matrix_sync(y, sh, 72)", 1, 4),
        ("load_matrix_sync(y, sh, 64)", 1, 32),  # 128 apart: all in the same banks
        ("load_matrix_sync(z, sf, 16, mem_row_major)", 4, 16),
        ("load_matrix_sync(z, sf, 20, mem_row_major)", 4, 16),
        ("load_matrix_sync(z, sf, 24, mem_row_major)", 4, 8),
        ("load_matrix_sync(w, sh, 16, mem_row_major)", 4, 8),  # eight rows of 16 bytes, 32 apart
        ("load_matrix_sync(w, sh, 24, mem_col_major)", 4, 4),
    ],
)
def test_loads_from_shared_memory(statement, requests, wavefronts):
    counts = counted(statement + ";")
    assert (counts.shared_load_requests, counts.shared_load_wavefronts) == (requests, wavefronts)
    assert counts.shared_load_bytes == (1024 if "z" in statement else 512)


def test_stores_and_products():
    to_global = counted("store_matrix_sync(C, z, 16, mem_row_major);")
    assert (to_global.global_store_requests, to_global.global_store_sectors) == (4, 32)
    to_shared = counted("store_matrix_sync(sf, z, 24, mem_row_major);")
    assert (to_shared.shared_store_requests, to_shared.shared_store_wavefronts) == (4, 8)
    to_global = counted("store_matrix_sync((half*)C, w, 16, mem_col_major);")
    assert (to_global.global_store_requests, to_global.global_store_sectors) == (4, 32)
    product = counted("mma_sync(w, x, y, w);")
    assert (product.by_class["tensor"], product.flops) == (1, 2 * 16**3)
    product = counted("mma_sync(z, x, y, z);")
    assert (product.by_class["tensor"], product.flops) == (1, 2 * 16**3)


def test_a_trace_has_every_access():
    kernel = probe(
        FRAGMENTS + "load_matrix_sync(x, h, 16);\nload_matrix_sync(y, h, 16);\n"
        "fill_fragment(z, 0.0f);\nmma_sync(z, x, y, z);\nstore_matrix_sync(C, z, 16, mem_row_major);",
        before=WMMA,
    )
    loads = [access for access in run(kernel, trace=[0]).trace if access.array == "A"]
    assert len(loads) == 8
    touched = np.sort(np.concatenate([access.offsets for access in loads[:4]]))
    assert touched.tolist() == list(range(0, 512, 4))


# Faults and refusals.

SHARED = """
    __shared__ __align__(32) half s[512];
    __shared__ __align__(32) float f[512];
    for (int i = t; i < 256; i += 32) s[i] = h[i];
"""
FAULTS = {
    "a pointer off 32 bytes": ("load_matrix_sync(x, h + 8, 16);  // here", "misaligned", 0, "not a multiple of 32"),
    "a stride off 16 bytes": ("load_matrix_sync(x, h, 20);  // here", "misaligned", 0, "a stride of 40 bytes"),
    "past the end": ("load_matrix_sync(x, h + 3856, 16);  // here", "out of bounds", 28, "A (8,192 bytes), 0 bytes"),
    "past the end of shared memory": (
        "__syncwarp(); load_matrix_sync(x, s + 272, 136);  // here",
        "out of bounds",
        2,
        "shared memory at byte 1088 of 1024",
    ),
    "never written": ("__syncwarp(); load_matrix_sync(x, s + 16, 16);  // here", "uninitialised", 15, "s at byte 512"),
    "C, never written": ("load_matrix_sync(z, C, 16, mem_row_major);  // here", "uninitialised", 0, "reads C at byte"),
    "too few lanes": ("if (t < 16) load_matrix_sync(x, h, 16);  // here", "divergence", 0, "without all of its warp"),
    "too few lanes multiply": ("if (t > 2) mma_sync(z, x, y, z);  // here", "divergence", 3, "without all of its"),
    "lanes that disagree": ("load_matrix_sync(x, h + (t == 5 ? 256 : 0), 16);  // here", "divergence", 5, "another"),
    "strides that disagree": ("load_matrix_sync(x, h, 16 + t / 31 * 8);  // here", "divergence", 31, "another"),
    "a load too early": ("load_matrix_sync(x, s, 16);  // here", "race", 0, "reads s at byte 0, which thread 0 wrote"),
    "a store too early": (
        "__syncwarp(); load_matrix_sync(x, s, 16); s[t] = h[0];  // here",
        "race",
        0,
        "writes s at byte 0, which warp 0 read",
    ),
    "a read too early": (
        "store_matrix_sync(f, z, 16, mem_row_major); C[t] = f[t];  // here",
        "race",
        0,
        "reads f at byte 0, which warp 0 wrote",
    ),
    "rows that overlap": ("store_matrix_sync(f, z, 12, mem_row_major);  // here", "race", 0, "48 bytes apart"),
}
END = (
    "\nfor (int i = 0; i < 16; ++i) z.x[i % 8] += float(x.x[i]) * float(y.x[i]);\n"
    "store_matrix_sync(C, z, 16, mem_row_major);"
)


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_faults(body):
    statement, kind, thread, words = body
    kernel = probe(
        FRAGMENTS + SHARED + "fill_fragment(x, half{}); fill_fragment(y, half{});\n"
        "fill_fragment(z, 0.0f);\n" + statement + END,
        before=WMMA,
    )
    with pytest.raises(SimulationFault) as caught:
        run(kernel)
    assert (caught.value.kind, caught.value.thread) == (kind, thread)
    assert caught.value.line == line_of(kernel, "// here")
    assert words in str(caught.value)


def test_a_warp_of_fewer_than_32_threads():
    body = "fill_fragment(z, 0.0f);\nstore_matrix_sync(C, z, 16, mem_row_major);"
    kernel = probe(FRAGMENTS + body, threads=48, before=WMMA)
    with pytest.raises(SimulationFault, match=r"divergence.*thread 32: does without all of its warp"):
        run(kernel)


def test_a_fragment_whose_copies_differ_is_refused():
    """Its registers hold each element twice; a program that changes one by its place does what nobody defines."""
    kernel = probe(
        FRAGMENTS
        + """
        load_matrix_sync(x, h, 16);
        load_matrix_sync(y, h, 16);
        fill_fragment(z, 0.0f);
        x.x[3] = y.x[5];
        mma_sync(z, x, y, z);  // here
        store_matrix_sync(C, z, 16, mem_row_major);""",
        before=WMMA,
    )
    run(kernel)  # nothing differs yet: all are 0
    with pytest.raises(UnsupportedInstruction, match=rf"line {line_of(kernel, '// here')}: the copies"):
        run(kernel, np.arange(512))
