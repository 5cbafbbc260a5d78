"""WMMA of every type and shape: products in any layout, elements of fragments, arithmetic, accesses and refusals."""

import numpy as np
import pytest

import ptxsim
from ptxsim import fma64, multiply_accumulate

from .cuda import fault, launch, refused

HEAD = "#include <mma.h>\nusing namespace nvcuda::wmma;\n"
WIDE = ["16, 16, 16", "32, 8, 16", "8, 32, 16"]
CASES = {
    ("signed char", "int"): WIDE,
    ("unsigned char", "int"): WIDE,
    ("half", "float"): WIDE[1:],
    ("half", "half"): WIDE[1:],
    ("__nv_bfloat16", "float"): WIDE[1:],
    ("precision::tf32", "float"): ["16, 16, 8"],
    ("double", "double"): ["8, 8, 4"],
}
CASES = [(of, sums, shape) for (of, sums), shapes in CASES.items() for shape in shapes]
NAMES = {"precision::tf32": "float"}
TYPES = {"signed char": np.int8, "unsigned char": np.uint8, "half": np.float16, "int": np.int32}
TYPES |= {"float": np.float32, "precision::tf32": np.float32, "double": np.float64}
ONE = """__global__ void product(const T* A, const T* B, const S* C, S* D) {
    constexpr int LD_A = LA ? 48 : 32, LD_B = 48, LD_C = LC ? 40 : 32;
    __shared__ __align__(32) T sa[32 * 48], sb[32 * 48];
    __shared__ __align__(32) S sc[32 * 40], sd[32 * 40];
    for (int i = threadIdx.x; i < 32 * 48; i += 32) { sa[i] = A[i]; sb[i] = B[i]; }
    for (int i = threadIdx.x; i < 32 * 40; i += 32) { sc[i] = C[i]; sd[i] = D[i]; }
    __syncthreads();
    fragment<matrix_a, SHAPE, OF, OF_A> a;
    fragment<matrix_b, SHAPE, OF, OF_B> b;
    fragment<accumulator, SHAPE, S> c;
    load_matrix_sync(a, SHARED ? sa : A, LD_A);
    load_matrix_sync(b, SHARED ? sb : B, LD_B);
    load_matrix_sync(c, SHARED ? sc : C, LD_C, OF_C);
    mma_sync(c, a, b, c);
    store_matrix_sync(SHARED ? sd : D, c, LD_C, OF_D);
    __syncthreads();
    if (SHARED) for (int i = threadIdx.x; i < 32 * 40; i += 32) D[i] = sd[i];
}
"""


def stored(numbers, of):
    """Return numbers as that type has them in memory; BF16 is the upper half of float32."""
    if of == "__nv_bfloat16":
        return (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(numbers).astype(TYPES[of])


def matrix(memory, rows, columns, pitch, layout):
    """Return the matrix at the beginning of memory."""
    high, wide = (rows, columns) if layout == "row" else (columns, rows)
    found = np.lib.stride_tricks.as_strided(memory, (high, wide), (pitch * memory.itemsize, memory.itemsize))
    return found if layout == "row" else found.T


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("layouts", ["row row row row", "row col row col", "col row col row", "col col col col"])
@pytest.mark.parametrize(("of", "sums", "shape"), CASES)
def test_a_product_in_any_layout(of, sums, shape, layouts, space):
    """D = AB + C, of small integers, and exact; what lies between the rows of D stays."""
    (M, N, K), (of_a, of_b, of_c, of_d) = map(int, shape.split(",")), layouts.split()
    words = {"SHAPE": shape, "OF_A": f"{of_a}_major", "OF_B": f"{of_b}_major", "OF_C": f"mem_{of_c}_major"}
    words |= {"OF_D": f"mem_{of_d}_major", "SHARED": str(int(space == "shared")), "LA": "1", "LC": "1"}
    source = HEAD + f"using OF = {of}; using T = {NAMES.get(of, of)}; using S = {sums};\n" + ONE
    for name, text in words.items():
        source = source.replace(name, text)
    random = np.random.default_rng(len(of) + M)
    least = 0 if of.startswith("unsigned") else -8
    A, B = (random.integers(least, 9, 32 * 48) for _ in range(2))
    C, before = (random.integers(-8, 9, 32 * 40) for _ in range(2))
    D = stored(before, sums)
    launch(source, 1, 32, A=stored(A, of), B=stored(B, of), C=stored(C, sums), D=D)
    want = before.copy()
    a, b = matrix(A, M, K, 48, of_a), matrix(B, K, N, 48, of_b)
    matrix(want, M, N, 40, of_d)[...] = a @ b + matrix(C, M, N, 40, of_c)
    assert np.array_equal(D, want)


TILED = """template <typename OF, typename T, typename S, int M, int N, int K>
__global__ void gemm(int rows, int columns, int depth, S alpha, S beta, const T* A, const T* B, S* C) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) T a[2 * M][K + 16 / sizeof(T)], b[K][2 * N + 16 / sizeof(T)];
    fragment<accumulator, M, N, K, S> sum, c;
    fill_fragment(sum, S(0));
    int warp = threadIdx.x / 32, row = blockIdx.y * 2 * M, column = blockIdx.x * 2 * N;
    for (int k = 0; k < depth; k += K) {
        for (int i = threadIdx.x; i < 2 * M * K; i += blockDim.x)
            a[i / K][i % K] = A[(row + i / K) * depth + k + i % K];
        for (int i = threadIdx.x; i < 2 * N * K; i += blockDim.x)
            b[i / (2 * N)][i % (2 * N)] = B[(k + i / (2 * N)) * columns + column + i % (2 * N)];
        __syncthreads();
        fragment<matrix_a, M, N, K, OF, row_major> x;
        fragment<matrix_b, M, N, K, OF, row_major> y;
        load_matrix_sync(x, &a[warp / 2 * M][0], K + 16 / sizeof(T));
        load_matrix_sync(y, &b[0][warp % 2 * N], 2 * N + 16 / sizeof(T));
        CONVERT
        mma_sync(sum, x, y, sum);
        __syncthreads();
    }
    S* to = C + (row + warp / 2 * M) * columns + column + warp % 2 * N;
    load_matrix_sync(c, to, columns, mem_row_major);
    for (int i = 0; i < c.num_elements; ++i) c.x[i] = alpha * sum.x[i] + beta * c.x[i];
    store_matrix_sync(to, c, columns, mem_row_major);
}
"""
CONVERT = """for (int i = 0; i < x.num_elements; ++i) x.x[i] = __float_to_tf32(x.x[i]);
        for (int i = 0; i < y.num_elements; ++i) y.x[i] = __float_to_tf32(y.x[i]);"""
INSTANCES = {
    "signed char": "signed char, signed char, int, 16, 16, 16",
    "unsigned char": "unsigned char, unsigned char, int, 16, 16, 16",
    "tf32": "precision::tf32, float, float, 16, 16, 8",
    "double": "double, double, double, 8, 8, 4",
}
BUGS = {
    "a wrong layout": ("y;\n", "y_; fragment<matrix_b, M, N, K, OF, col_major> y;\n"),
    "too short a stride": ("x, &a[warp / 2 * M][0], K + ", "x, &a[warp / 2 * M][0], K + 0 * "),
    "no scale": ("alpha * sum.x[i]", "sum.x[i]"),
    "the other warp's tile": ("warp / 2 * M][0]", "warp % 2 * M][0]"),
}


def gemm(which, source=TILED, numbers=None):
    """Run the product on 3 × 2 blocks, and return alpha, beta, A, B, and C before and after."""
    instance = INSTANCES[which]
    of, sums = (TYPES[instance.split(", ")[place]] for place in (1, 2))
    M, N, K = (int(size) * factor for size, factor in zip(instance.split(", ")[3:], (4, 6, 5), strict=True))
    random = np.random.default_rng(9)
    least, beyond = (0, 256) if of == np.uint8 else (-128, 128)
    numbers = numbers or (lambda shape: random.integers(least, beyond, shape))
    A, B, C = numbers((M, K)).astype(of), numbers((K, N)).astype(of), numbers((M, N)).astype(sums)
    before, alpha, beta = C.copy(), sums(3), sums(-2)
    source = HEAD + source.replace("CONVERT", CONVERT if which == "tf32" else "")
    sizes = dict(zip(("rows", "columns", "depth"), map(np.int32, (M, N, K)), strict=True))
    launch(source, (3, 2), 128, f"gemm<{instance}>", **sizes, alpha=alpha, beta=beta, A=A, B=B, C=C)
    return alpha, beta, A, B, before, C


@pytest.mark.parametrize("which", INSTANCES)
def test_a_product_of_whole_numbers_is_exact(which):
    """The sums are scaled element by element, so that accumulators that were loaded and multiplied must agree."""
    alpha, beta, A, B, before, C = gemm(which)
    want = int(alpha) * (A.astype(np.int64) @ B.astype(np.int64)) + int(beta) * before.astype(np.int64)
    assert np.array_equal(C, want)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
@pytest.mark.parametrize("which", INSTANCES)
def test_a_mistake_shows(which, bug):
    """In the result, or as a fault, where what the kernel loads was never written or is beyond its memory."""
    assert TILED.count(bug[0]) == 1
    try:
        alpha, beta, A, B, before, C = gemm(which, TILED.replace(*bug))
    except ptxsim.SimulationFault as found:
        assert found.kind in ("uninitialised", "out of bounds")
        return
    want = int(alpha) * (A.astype(np.int64) @ B.astype(np.int64)) + int(beta) * before.astype(np.int64)
    assert not np.array_equal(C, want)


@pytest.mark.parametrize("which", INSTANCES)
def test_a_missing_barrier_is_a_race(which):
    at = TILED.index("__syncthreads();")
    with pytest.raises(ptxsim.SimulationFault, match=r"race: .* reads [ab] at byte"):
        gemm(which, TILED[:at] + TILED[at:].replace("__syncthreads();", "", 1))


def test_tf32_is_multiplied_as_by_mma():
    """Rounded factors, eight products at a time, added as tensor cores do; what TF32 lacks is cut off unrounded."""
    random = np.random.default_rng(2)
    alpha, beta, A, B, before, C = gemm("tf32", numbers=lambda shape: random.standard_normal(shape))
    a, b = (((of.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32) for of in (A, B))
    sums = np.zeros_like(C)
    for k in range(0, A.shape[1], 8):
        sums = multiply_accumulate(a[None, :, k : k + 8], b[None, k : k + 8], sums[None])[0]
    assert np.array_equal(C, ptxsim.fma32(np.full_like(C, alpha), sums, beta * before))
    cut = [(of.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for of in (A, B)]
    given = [np.ascontiguousarray(of) for of in (A[:16, :8], B[:8, :16])]
    D, zero = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    source = """__global__ void k(const float* A, const float* B, float* D) {
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b;
    fragment<accumulator, 16, 16, 8, float> d;
    load_matrix_sync(a, A, 8);
    load_matrix_sync(b, B, 16);
    fill_fragment(d, 0.0f);
    mma_sync(d, a, b, d);
    store_matrix_sync(D, d, 16, mem_row_major);
}"""
    launch(HEAD + source, 1, 32, A=given[0], B=given[1], D=D)
    assert np.array_equal(D, multiply_accumulate(cut[0][None, :16, :8], cut[1][None, :8, :16], zero[None])[0])


def test_doubles_are_multiplied_and_added_one_by_one():
    """Each product is added with one rounding, in the order of K; so the error is that of a chain of FMAs."""
    random = np.random.default_rng(3)
    _, _, A, B, _, C = gemm(
        "double",
        TILED.replace("alpha * sum.x[i] + beta * c.x[i]", "sum.x[i]"),
        lambda shape: random.standard_normal(shape) * 10.0 ** random.integers(-8, 9, shape),
    )

    def chain(order):
        total = np.zeros_like(C)
        for k in order:
            total = fma64(A[:, k : k + 1], B[k : k + 1], total)
        return total

    order = range(A.shape[1])
    assert np.array_equal(C, chain(order)) and not np.array_equal(C, chain(order[::-1]))


def test_sums_of_integers_wrap_or_are_limited():
    numbers = np.full((16, 16), -128, np.int8)
    C = np.full((16, 16), 2**31 - 1, np.int32)
    source = """__global__ void k(const signed char* A, int* C) {
    fragment<matrix_a, 16, 16, 16, signed char, row_major> a;
    fragment<matrix_b, 16, 16, 16, signed char, col_major> b;
    fragment<accumulator, 16, 16, 16, int> c;
    load_matrix_sync(a, A, 16);
    load_matrix_sync(b, A, 16);
    load_matrix_sync(c, C, 16, mem_row_major);
    mma_sync(c, a, b, c);
    store_matrix_sync(C, c, 16, mem_row_major);
}"""
    launch(HEAD + source, 1, 32, A=numbers, C=C)
    assert (C == 2**31 - 1 + 16 * 128**2 - 2**32).all()
    C[:8], C[8:] = 2**31 - 1, -(2**31)
    launch(HEAD + source.replace("b, c);", "b, c, true);"), 1, 32, A=numbers, C=C)
    assert (C[:8] == 2**31 - 1).all() and (C[8:] == 16 * 128**2 - 2**31).all()


@pytest.mark.parametrize(("of", "sums", "shape"), CASES)
def test_each_lane_changes_its_own_elements(of, sums, shape):
    """A factor's elements are those that load has brought: an A without its negative ones, times one."""
    M, N, K = map(int, shape.split(","))
    source = f"""using OF = {of}; using T = {NAMES.get(of, of)}; using S = {sums};
__global__ void k(const T* A, const T* B, S* D) {{
    fragment<matrix_a, {shape}, OF, row_major> a;
    fragment<matrix_b, {shape}, OF, col_major> b;
    fragment<accumulator, {shape}, S> d;
    load_matrix_sync(a, A, {K});
    load_matrix_sync(b, B, {K});
    fill_fragment(d, S(0));
    for (int i = 0; i < a.num_elements; ++i) a.x[i] = a.x[i] < T(3) ? T(0) : a.x[i];
    for (int i = 0; i < b.num_elements; ++i) b.x[i] = b.x[i] + T(1);
    mma_sync(d, a, b, d);
    store_matrix_sync(D, d, {N}, mem_row_major);
}}"""
    random = np.random.default_rng(1)
    A, B = random.integers(0, 7, (M, K)), random.integers(0, 7, (N, K))
    D = stored(np.zeros((M, N)), sums)
    launch(HEAD + source, 1, 32, A=stored(A, of), B=stored(B, of), D=D)
    assert np.array_equal(D, np.where(A < 3, 0, A) @ (B + 1).T)


@pytest.mark.parametrize("of", ["half", "signed char"])
def test_pointers_of_no_known_space(of):
    """One warp's matrices are in shared memory, the other's in global memory, for loads and a store."""
    source = f"""using T = {of}; using S = {"float" if of == "half" else "int"};
__global__ void k(const T* A, S* D) {{
    __shared__ __align__(32) T s[256];
    __shared__ __align__(32) S d[256];
    for (int i = threadIdx.x; i < 256; i += 64) s[i] = A[256 + i];
    __syncthreads();
    bool first = threadIdx.x < 32;
    fragment<matrix_a, 16, 16, 16, T, row_major> a;
    fragment<matrix_b, 16, 16, 16, T, row_major> b;
    fragment<accumulator, 16, 16, 16, S> c;
    load_matrix_sync(a, first ? A : s, 16);
    load_matrix_sync(b, first ? s : A, 16);
    fill_fragment(c, S(0));
    mma_sync(c, a, b, c);
    store_matrix_sync(first ? D : d, c, 16, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 64) D[256 + i] = d[i];
}}"""
    A, D = np.random.default_rng(5).integers(-9, 9, (2, 16, 16)), stored(np.zeros((2, 16, 16)), "int")
    D = D.view(np.float32) if of == "half" else D
    launch(HEAD + source, 1, 64, A=stored(A, of), D=D)
    assert np.array_equal(D, [A[0] @ A[1], A[1] @ A[0]])


# Accesses, as the machine code has them.

PROBE = """__global__ void k(const T* A, int* o, int pitch) {
    __shared__ __align__(32) T s[2048];
    for (int i = threadIdx.x; i < 2048; i += 32) s[i] = A[i];
    __syncthreads();
    FRAGMENT f;
    load_matrix_sync(f, SHARED ? s : A, pitch);  // here
    for (int i = 0; i < f.num_elements; ++i) ((T*)o)[i * 32 + threadIdx.x] = f.x[i];
}"""


@pytest.mark.parametrize(
    ("fragment", "space", "pitch", "requests", "other"),
    [  # `other`: sectors of global memory, wavefronts of shared memory
        ("matrix_a, 16, 16, 16, signed char, row_major", "global", 16, 2, 8),
        ("matrix_a, 16, 16, 16, signed char, row_major", "shared", 16, 1, 2),
        ("matrix_b, 16, 16, 16, signed char, col_major", "shared", 128, 1, 16),
        ("matrix_b, 16, 16, 16, signed char, row_major", "shared", 16, 8, 16),
        ("matrix_a, 16, 16, 16, unsigned char, col_major", "global", 32, 8, 8 * 4),
        ("matrix_a, 32, 8, 16, unsigned char, row_major", "shared", 16, 2, 4),
        ("matrix_b, 32, 8, 16, unsigned char, col_major", "shared", 16, 1, 1),
        ("matrix_a, 32, 8, 16, half, row_major", "shared", 24, 2, 8),
        ("matrix_b, 32, 8, 16, half, row_major", "shared", 8, 1, 2),
        ("matrix_a, 8, 32, 16, half, row_major", "shared", 24, 1, 2),
        ("matrix_b, 8, 32, 16, half, col_major", "global", 16, 8, 8 * 8),
        ("matrix_a, 16, 16, 8, precision::tf32, row_major", "shared", 8, 4, 4 * 2),
        ("matrix_a, 16, 16, 8, precision::tf32, row_major", "shared", 12, 4, 4),
        ("matrix_b, 16, 16, 8, precision::tf32, row_major", "global", 16, 4, 4 * 4),
        ("matrix_a, 8, 8, 4, double, row_major", "global", 4, 1, 8),
        ("matrix_b, 8, 8, 4, double, row_major", "shared", 8, 1, 4),
        ("accumulator, 16, 16, 16, int", "global", 16, 4, 4 * 8),
        ("accumulator, 8, 8, 4, double", "shared", 8, 1, 4),
    ],
)
def test_loads(fragment, space, pitch, requests, other):
    of, (M, N, K) = fragment.split(", ")[4], map(int, fragment.split(", ")[1:4])
    source = HEAD + f"using T = {NAMES.get(of, of)};\n" + PROBE.replace("FRAGMENT", f"fragment<{fragment}>")
    if fragment.startswith("acc"):
        source = source.replace("pitch);", "pitch, mem_row_major);")
    line = source[: source.index("// here")].count("\n") + 1
    A, o = stored(np.zeros(2048), of), np.zeros(256, np.int32)
    run = launch(source.replace("SHARED", str(int(space == "shared"))), 1, 32, A=A, o=o, pitch=np.int32(pitch))
    counts, elements = run.lines[line], {"matrix_a": M * K, "matrix_b": N * K}.get(fragment.split(",")[0], M * N)
    if space == "global":
        found = counts.global_load_requests, counts.global_load_sectors, counts.global_load_bytes
    else:
        found = counts.shared_load_requests, counts.shared_load_wavefronts, counts.shared_load_bytes
    assert found == (requests, other, elements * A.itemsize)


def test_products_are_counted_by_their_shapes():
    for of, sums, shape in CASES:
        source = f"""using T = {NAMES.get(of, of)}; using S = {sums};
__global__ void k(int* o) {{
    fragment<matrix_a, {shape}, {of}, row_major> a;
    fragment<matrix_b, {shape}, {of}, row_major> b;
    fragment<accumulator, {shape}, S> c;
    fill_fragment(a, T(1)); fill_fragment(b, T(1)); fill_fragment(c, S(1));
    mma_sync(c, a, b, c);
    o[threadIdx.x] = int(float(c.x[0]));
}}"""
        o, (M, N, K) = np.zeros(64, np.int32), map(int, shape.split(","))
        total = launch(HEAD + source, 1, 64, o=o).total
        assert (total.by_class["tensor"], total.flops) == (2, 2 * 2 * M * N * K) and (o == K + 1).all()


def test_mma_of_doubles():
    """PTX gives its layout: lane 4i + j has row i of A, column j; of B the reverse; of C columns 2j and 2j + 1."""
    source = """__global__ void k(const double* A, const double* B, double* C) {
    int t = threadIdx.x, i = t / 4, j = t % 4;
    double* c = C + 8 * i + 2 * j;
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1]) : "d"(A[4 * i + j]), "d"(B[8 * j + i]));
}"""
    A, B, C = (np.random.default_rng(4).integers(-99, 99, shape).astype(float) for shape in ((8, 4), (4, 8), (8, 8)))
    want = A @ B + C
    launch(source, 1, 32, A=A, B=B, C=C)
    assert np.array_equal(C, want)


def test_a_matrix_of_bytes_begins_at_a_multiple_of_16():
    """Half of what WMMA asks of other types: products in steps of 16 along K need no more."""
    source = HEAD + "using T = signed char;\n" + PROBE.replace("SHARED ? s : A", "A + pitch")
    source = source.replace("FRAGMENT", "fragment<matrix_a, 16, 16, 16, T, row_major>").replace("pitch)", "48)")
    source = source.replace("int 48)", "int pitch)")
    A, o = np.arange(2048).astype(np.int8), np.zeros(64, np.int32)
    launch(source, 1, 32, A=A, o=o, pitch=np.int32(16))
    rows = A[16 : 16 + 16 * 48].reshape(16, 48)[:, :16]
    assert np.array_equal(np.sort(o.view(np.int8)), np.sort(rows.ravel()))
    found = fault(source, 1, 32, A=A, o=o, pitch=np.int32(24))
    assert found.kind == "misaligned" and "not a multiple of 16" in str(found)


@pytest.mark.parametrize(
    "fragment",
    [
        "matrix_a, 8, 8, 32, experimental::precision::s4, row_major",
        "matrix_a, 8, 8, 128, experimental::precision::b1, row_major",
    ],
)
def test_what_is_not_known_is_refused(fragment):
    source = f"__global__ void k(int* A) {{ fragment<{fragment}> f; load_matrix_sync(f, A, 32); A[0] = f.x[0]; }}"
    assert "wmma.load.a" in refused(HEAD + source, 1, 32, A=np.zeros(99, np.int32))
