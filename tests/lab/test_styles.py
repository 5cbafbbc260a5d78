"""Matrix products as people write them run as they are, and what is wrong with one is said."""

import re
import time

import msgspec
import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.__main__ import main
from lab.diagnosis import diagnosis
from lab.draw import access_map
from lab.guessing import guessed, kernel_from
from lab.skeletons import skeleton
from ptxsim import CompileError, UnsupportedInstruction
from sgemm_tutorial import ArgumentError, find

pytestmark = pytest.mark.slow

ROW_AND_COLUMN = """
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
"""
SUM = """
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
"""
PLAIN = f"""\
#include <cuda_runtime.h>
#include <algorithm>
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{{{ROW_AND_COLUMN}{SUM}    C[row * N + col] = sum;
}}
int main() {{ float* p; cudaMalloc(&p, 4); return 0; }}
"""
BLAS_LIKE = f"""\
// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)
__global__ void product(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{{{ROW_AND_COLUMN}{SUM}    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}}
"""
SQUARE = """\
#define TILE 16
__global__ void product(float* M, float* N, float* P, int Width)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int p = 0; p < Width / TILE; ++p) {
        a[threadIdx.y][threadIdx.x] = M[row * Width + p * TILE + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = N[(p * TILE + threadIdx.y) * Width + col];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    P[row * Width + col] = sum;
}
"""
BY_HOST = """\
#include <cublas_v2.h>
#include <vector>
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
template <const int BM, const int BN, const int BK>
__global__ void __launch_bounds__(BM * BN) tiled(int M, int N, int K, float alpha, const float* A, const float* B,
                                                 float beta, float* C)
{
    __shared__ float a[BM * BK], b[BK * BN];
    const uint row = threadIdx.x / BN, col = threadIdx.x % BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum = 0;
    for (uint at = 0; at < K; at += BK) {
        a[row * BK + col] = A[row * K + at + col];
        b[row * BN + col] = B[(at + row) * N + col];
        __syncthreads();
        for (uint k = 0; k < BK; ++k) sum += a[row * BK + k] * b[k * BN + col];
        __syncthreads();
    }
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
void run(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C)
{
    const uint BM = 16, BN = 16;
    dim3 grid(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    dim3 block(BM * BN);
    tiled<BM, BN, 16><<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
}
"""
BY_COLUMNS = """\
template <typename real>
__global__ void gemm(size_t m, const unsigned n, int k, real alpha, const real* a, int lda, const real* b, int ldb,
                     real beta, real* c, int ldc)
{
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    if (i >= m || j >= n) return;
    real sum = 0;
    for (int p = 0; p < k; ++p) sum += a[i + p * lda] * b[p + j * ldb];
    c[i + j * ldc] = alpha * sum + beta * c[i + j * ldc];
}
"""
BY_WARP = """\
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{
    int at = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
    if (at >= M * N) return;
    float sum = 0;
    for (int k = lane; k < K; k += warpSize) sum += A[at / N * K + k] * B[k * N + at % N];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
    if (lane == 0) C[at] = sum;
}
"""
DYNAMIC = """\
// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), shared = 2 * 16 * 16 * sizeof(float),
//         multiples = 16, arguments = K N M B A C
__global__ void product(int depth, int n, int m, const float* right, const float* left, float* out)
{
    extern __shared__ float tiles[];
    float *a = tiles, *b = tiles + 256;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, at = threadIdx.y * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < depth; k += 16) {
        a[at] = left[row * depth + k + threadIdx.x], b[at] = right[(k + threadIdx.y) * n + col];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum = fmaf(a[threadIdx.y * 16 + i], b[i * 16 + threadIdx.x], sum);
        __syncthreads();
    }
    out[row * n + col] = sum;
}
"""
IN_HALF = (
    PLAIN.replace("#include <algorithm>", "#include <cuda_fp16.h>")
    .replace("const float*", "const __half*")
    .replace("A[row * K + k] * B[k * N + col]", "__half2float(A[row * K + k]) * __half2float(B[k * N + col])")
)
INNER_N = """\
__global__ void product(const float* A, const float* B, float* C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= k) return;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += A[row * n + i] * B[i * k + col];
    C[row * k + col] = sum;
}
"""
"""A kernel whose A has n columns and whose C has k."""
BY_TYPE = """\
#include <type_traits>
template <typename T, int SIDE = 16>
__global__ void product(const T* A, const T* B, T* C, size_t m, size_t n, size_t k, T a, T b, int side)
{
    static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value, "");
    const size_t row{blockIdx.y * side + threadIdx.y}, col{blockIdx.x * side + threadIdx.x};
    if (row >= m || col >= n) return;
    T sum{0};
    for (size_t i{0U}; i < k; ++i) sum += A[row * k + i] * B[i * n + col];
    C[row * n + col] = a * sum + b * C[row * n + col];
}
__global__ void zero(float* data) { data[threadIdx.x] = 0; }
template <typename T>
void run(size_t m, size_t n, size_t k, T const* alpha, T const* A, T const* B, T const* beta, T* C, cudaStream_t stream)
{
    const int TILE = 16;
    dim3 const block_dim{16U, 16U, 1U};
    dim3 const grid_dim{(static_cast<unsigned int>(n) + block_dim.x - 1U) / block_dim.x,
                        unsigned((m + block_dim.y - 1U) / block_dim.y), 1U};
    product<T, 16><<<grid_dim, block_dim, 0U, stream>>>(A, B, C, m, n, k, *alpha, *beta, TILE);
}
"""
"""Host code with members of a dim3, its template's type, a number passed, and a kernel that nothing launches."""
BY_MEMBERS = (
    PLAIN.partition("int main")[0]
    + """\
void run(int M, int N, int K)
{
    for (int i = 0; i < 10; ++i) {
        dim3 grid, block;
        block.x = 32;
        block.y = 4;
        grid.x = (N + block.x - 1) / block.x;
        grid.y = (M + block.y - 1) / block.y;
        product<<<grid, block>>>(A, B, C, M, N, K);
    }
}
"""
)
BY_WHAT_CANNOT_BE_READ = (
    PLAIN.partition("int main")[0]
    + """\
void run(const Shape& a, const Shape& b, int side)
{
    dim3 block(side, side);
    dim3 grid(b.columns / block.x, a.rows / block.y);
    product<<<grid, block>>>(A, B, C, a.rows, b.columns, a.columns);
}
"""
)
COARSE = """\
#define SIDE 16
#define COARSE 4
__global__ void product(const float* A, const float* B, float* C, int n)
{
    __shared__ float a[SIDE][SIDE], b[SIDE][SIDE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * SIDE + y, col = blockIdx.x * SIDE * COARSE + x;
    float sum[COARSE] = {};
    for (int at = 0; at < n; at += SIDE) {
        a[y][x] = A[row * n + at + x];
        for (int part = 0; part < COARSE; ++part) {
            b[y][x] = B[(at + y) * n + col + part * SIDE];
            __syncthreads();
            for (int k = 0; k < SIDE; ++k) sum[part] += a[y][k] * b[k][x];
            __syncthreads();
        }
    }
    for (int part = 0; part < COARSE; ++part) C[row * n + col + part * SIDE] = sum[part];
}
"""
"""A thread has elements that lie apart, in several tiles."""
BY_GROUPS = PLAIN.replace("blockIdx.y", "block.group_index().y").replace("threadIdx.y", "block.thread_index().y")
BY_GROUPS = BY_GROUPS.replace("#include <algorithm>", "#include <cooperative_groups.h>").replace(
    "    int row", "    auto block = cooperative_groups::this_thread_block();\n    int row"
)
BY_MACROS = "#define TX threadIdx.x\n#define TY threadIdx.y\n#define BY blockIdx.y\n" + PLAIN.replace(
    "threadIdx.x", "TX"
).replace("threadIdx.y", "TY").replace("blockIdx.y", "BY")
GUARDED = "template <bool GUARD = true>\n" + PLAIN.partition("__global__")[1] + PLAIN.partition("__global__")[2]
GUARDED = GUARDED.replace("if (row >= M || col >= N)", "if (GUARD && (row >= M || col >= N))")
ROW_EACH = """\
__global__ void rows(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int col = 0; row < M && col < N; ++col) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""
LAMBDAS = """\
template <typename T, int SIDE = 16>
__global__ void product(T const* A, T const* B, T* C, std::size_t M, std::size_t N, std::size_t K)
{
    auto const row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
    auto sum_over = [&](auto count, auto&& term) {
        T sum{};
        for (decltype(count) k = 0; k < count; ++k) sum += term(k);
        return sum;
    };
    if (row < M && col < N) C[row * N + col] = sum_over(K, [&](auto k) { return A[row * K + k] * B[k * N + col]; });
}
"""
BATCH = PLAIN.replace(
    "int K)\n{", "int K)\n{\n    A += blockIdx.z * M * K, B += blockIdx.z * K * N, C += blockIdx.z * M * N;"
)
ROW_OF_BLOCKS = PLAIN.replace("blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.y").replace("blockDim.x", "256")
GUIDES = """\
typedef struct {
    int width;
    int height;
    int stride;
    float* elements;
} Matrix;
__global__ void product(const Matrix, const Matrix,
                        Matrix);
__device__ float get(const Matrix A, int row, int col) { return A.elements[row * A.stride + col]; }
__device__ Matrix part(Matrix A, int row, int col)
{
    Matrix of;
    of.width = of.height = TILE;
    of.stride = A.stride;
    of.elements = &A.elements[A.stride * TILE * row + TILE * col];
    return of;
}
__global__ void product(const Matrix A, const Matrix B,
                        Matrix C)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int row = threadIdx.y, col = threadIdx.x;
    float sum = 0;
    for (int m = 0; m < A.width / TILE; ++m) {
        a[row][col] = get(part(A, blockIdx.y, m), row, col), b[row][col] = get(part(B, m, blockIdx.x), row, col);
        __syncthreads();
        for (int e = 0; e < TILE; ++e) sum += a[row][e] * b[e][col];
        __syncthreads();
    }
    part(C, blockIdx.y, blockIdx.x).elements[row * C.stride + col] = sum;
}
void run(const Matrix A, const Matrix B, Matrix C)
{
    Matrix d_A = A, d_B = B, d_C = C;
    cudaMalloc(&d_A.elements, A.width * A.height * sizeof(float));
    dim3 block(TILE, TILE), grid(B.width / block.x, A.height / block.y);
    product<<<grid, block>>>(d_A, d_B, d_C);
}
"""
GUIDES = "#define TILE 16\n" + GUIDES
COURSE = """\
#define TILE_WIDTH 16
__global__ void product(float* A, float* B, float* C, int numARows, int numAColumns, int numBRows, int numBColumns,
                        int numCRows, int numCColumns)
{
    int row = blockIdx.y * TILE_WIDTH + threadIdx.y, col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (row >= numCRows || col >= numCColumns) return;
    float sum = 0;
    for (int k = 0; k < numBRows; ++k) sum += A[row * numAColumns + k] * B[k * numBColumns + col];
    C[row * numCColumns + col] = sum;
}
int main()
{
    dim3 grid((numCColumns - 1) / TILE_WIDTH + 1, (numCRows - 1) / TILE_WIDTH + 1, 1), block(TILE_WIDTH, TILE_WIDTH, 1);
    product<<<grid, block>>>(a, b, c, numARows, numAColumns, numBRows, numBColumns, numCRows, numCColumns);
}
"""
"""A kernel whose matrices each have their rows and columns."""
IN_NAMESPACE = """\
#define RESTRICT __restrict__
#define real float
namespace outer {
constexpr unsigned int kTile{16U};
namespace inner {
template <unsigned SIDE>
__global__ void product(const real* RESTRICT A, const real* RESTRICT B, real* RESTRICT C, int M, int N, int K)
{
    int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
    if (row >= M || col >= N) return;
    real sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
}
}
void run(const real* A, const real* B, real* C, int M, int N, int K)
{
    size_t const side{outer::kTile};
    dim3 grid((N + outer::kTile - 1) / outer::kTile, (M + side - 1) / side);
    outer::inner::product<side><<<grid, dim3(side, side)>>>(A, B, C, M, N, K);
}
"""
"""A source with macros for a type and a qualifier, and constants in braces and in namespaces."""
THREAD_TILES = """\
#define BLOCK_SIZE_M 64 // rows
#define BLOCK_SIZE_N 64 /* columns */
#define THREAD_SIZE_M 4
#define THREAD_SIZE_N 4
#define THREADS (BLOCK_SIZE_M / THREAD_SIZE_M * BLOCK_SIZE_N / THREAD_SIZE_N)
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int of_row = BLOCK_SIZE_N / THREAD_SIZE_N, t = threadIdx.x % THREADS;
    const int row = blockIdx.y * BLOCK_SIZE_M + t / of_row * THREAD_SIZE_M;
    const int col = blockIdx.x * BLOCK_SIZE_N + t % of_row * THREAD_SIZE_N;
    for (int r = row; r < min(M, row + THREAD_SIZE_M); ++r)
        for (int c = col; c < min(N, col + THREAD_SIZE_N); ++c) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += A[r * K + k] * B[k * N + c];
            C[r * N + c] = sum;
        }
}
"""
BY_COLUMNS_TN = BY_COLUMNS.replace("a[i + p * lda]", "a[p + i * lda]")
HGEMM = """\
#include <mma.h>
using namespace nvcuda;
#define WMMA 16
__global__ void hgemm(const half* A, const half* B, half* C, int M, int N, int K)
{
    int row = blockIdx.y * WMMA, col = blockIdx.x * WMMA;
    wmma::fragment<wmma::accumulator, WMMA, WMMA, WMMA, half> sum;
    wmma::fill_fragment(sum, __float2half(0.0f));
    for (int k = 0; k < K; k += WMMA) {
        wmma::fragment<wmma::matrix_a, WMMA, WMMA, WMMA, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, WMMA, WMMA, WMMA, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(C + row * N + col, sum, N, wmma::mem_row_major);
}
void run(half* A, half* B, half* C, int M, int N, int K)
{
    hgemm<<<dim3(N / WMMA, M / WMMA), 32>>>(A, B, C, M, N, K);
}
"""
STYLES = {
    "plain": (PLAIN, "block = (16, 16), arguments = A B C M N K"),
    "like BLAS, with its launch": (BLAS_LIKE, "arguments = M N K alpha A B beta C"),
    "of square matrices, in the tile's name": (SQUARE, "block = (TILE, TILE), arguments = A B C N, sizes = square"),
    "with host code that launches it": (BY_HOST, "grid = (CEIL_DIV(N, BN), CEIL_DIV(M, BM)), block = (BM * BN)"),
    "by columns, with leading dimensions": (BY_COLUMNS, "beta C ldc, layout = column-major"),
    "a warp for each element": (BY_WARP, "grid = cdiv(M * N * 32, "),
    "with dynamic shared memory and strange names": (DYNAMIC, "arguments = K N M B A C, shared = 2 * 16"),
    "in half": (IN_HALF, "block = (16, 16), arguments = A B C M N K"),
    "in half, C too": (
        IN_HALF.replace("float* C", "__half* C").replace("= sum;", "= __float2half(sum);"),
        "block = (16, 16), arguments = A B C M N K",
    ),
    "in double": (PLAIN.replace("float", "double"), "arguments = A B C M N K"),
    "with 64-bit sizes": (PLAIN.replace("int M, int N, int K", "size_t M, const unsigned N, long long K"), "A B C M"),
    "behind a byte order mark": ("\ufeff" + PLAIN, "arguments = A B C M N K"),
    "with the inner size called n": (INNER_N, "block = (16, 16), arguments = A B C M K N"),
    "over a type, with dimensions of a block in the grid": (BY_TYPE, "arguments = A B C M N K alpha beta 16"),
    "with host code that sets the members of a dim3": (BY_MEMBERS, "block = ((32), (4), 1), arguments = A B C M N K"),
    "with host code that cannot be read": (BY_WHAT_CANNOT_BE_READ, "block = (16, 16), arguments = A B C M N K"),
    "with several tiles for a thread": (COARSE, "grid = (cdiv(N, SIDE * COARSE), cdiv(M, SIDE))"),
    "by cooperative groups": (BY_GROUPS, "block = (16, 16), arguments = A B C M N K"),
    "with macros for the indices": (BY_MACROS, "block = (16, 16), arguments = A B C M N K"),
    "with a parameter that is no size": (GUARDED, "block = (16, 16), arguments = A B C M N K"),
    "with generic lambdas": (LAMBDAS, "grid = (cdiv(N, SIDE), cdiv(M, SIDE)), block = (SIDE, SIDE)"),
    "of a batch": (BATCH, "grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)"),
    "with blocks of 256 threads along a row": (ROW_OF_BLOCKS, "grid = (cdiv(N, 256), M), block = 256"),
    "with blocks of 256 threads along a column": (
        ROW_OF_BLOCKS.replace("row = blockIdx.y, col", "col = blockIdx.y, row"),
        "grid = (cdiv(M, 256), N), block = 256",
    ),
    "with __restrict__ and const in any order": (
        PLAIN.replace("const float* A", "float const *__restrict__ A")
        .replace("const float* B", "const float * __restrict__ const B")
        .replace("float* C, int M, int N", "float *__restrict C, const int M, int const N"),
        "block = (16, 16), arguments = A B C M N K",
    ),
    "with a struct for each matrix, as in NVIDIA's guide": (GUIDES, "block = (TILE, TILE), arguments = A B C M N K"),
    "with rows and columns of each matrix": (
        COURSE,
        "block = (TILE_WIDTH, TILE_WIDTH, 1), arguments = A B C M K K N M N",
    ),
    "with constants in braces and namespaces": (IN_NAMESPACE, "block = dim3(side, side), arguments = A B C M N K"),
    "with sizes of blocks and of threads": (THREAD_TILES, "block = THREADS, arguments = A B C M N K"),
    "with sizes of blocks and of threads, in other words": (
        THREAD_TILES.replace("BLOCK_SIZE", "OF_ALL").replace("THREAD_SIZE", "OF_ONE"),
        "block = THREADS, arguments = A B C M N K",
    ),
    "by columns, with rows of A": (BY_COLUMNS_TN, "beta C ldc, layout = column-major, transposed = A"),
    "rows along x": (
        PLAIN.replace(
            "blockIdx.y * blockDim.y + threadIdx.y, col", "blockIdx.x * blockDim.x + threadIdx.x, col"
        ).replace("col = blockIdx.x * blockDim.x + threadIdx.x", "col = blockIdx.y * blockDim.y + threadIdx.y"),
        "grid = (cdiv(M, 16), cdiv(N, 16))",
    ),
}


@pytest.mark.parametrize("number", ["12", "13", "18", "19", "20", "21", "22"])
def test_a_copy_of_the_books_kernel_is_launched_as_that(number, tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(skeleton(find(number), ()))
    kernel, said, _ = guessed(path)
    assert said == "" and type(kernel.family) is type(find(number).family)


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.cu"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module", params=STYLES)
def product(request, tmp_path_factory):
    """A product in one of the styles, what its launch says, and the kernel that is guessed of it, which takes long."""
    text, said = STYLES[request.param]
    path = tmp_path_factory.mktemp("style") / "mine.cu"
    path.write_text(text, encoding="utf-8")
    kernel, *_ = guessed(path)
    return text, said, kernel


def test_a_product_in_any_usual_style_is_checked_as_it_is(write, product):
    text, said, kernel = product
    assert said in str(kernel.family.rule)
    whole = {"multiples = 16"} if text in (SQUARE, BY_HOST, GUIDES) else {"multiples = 64"} if text == COARSE else {""}
    kernel, *_ = guessed(write(text), *whole) if "" not in whole else (kernel, "")
    suite = lab.suite(kernel, on_gpu=False)
    assert suite.passed, str(suite.failures())
    assert len(suite.results) >= 5 and {result.K > 1 for result in suite.results} >= {True}


def test_sums_in_fp16_on_tensor_cores(write, capsys):
    """They are judged as such, by their own bound: all cases pass, and a product too few is still found."""
    path = write(HGEMM)
    assert main(["check", str(path), "--launch", "multiples = 16"]) == 0
    assert "passed" in capsys.readouterr().out
    for text in (HGEMM.replace("k < K;", "k < K - 16;"), HGEMM.replace("B + k * N", "B + (k ? k : 16 % K) * N")):
        assert text != HGEMM
        suite = lab.suite(guessed(write(text), "multiples = 16")[0], on_gpu=False)
        assert max(result.worst_ratio for result in suite.results if not result.passed) > 2
    in_float = HGEMM.replace("WMMA, half> sum", "WMMA, float> sum").replace("__float2half(0.0f)", "0.0f")
    in_float = in_float.replace("half* C", "float* C")
    types = [guessed(write(text), "multiples = 16")[0].types for text in (HGEMM, in_float)]
    assert [of.roundoff for of in types] == [2.0**-13, 2.0**-23]
    plain, said = STYLES["in half, C too"]
    by_macro = '#define HMMA(D) asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %0}, ..." : "+r"(D))\n'
    of_group = '#define GMMA(D) asm("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 ..." : "+r"(D))\n'
    texts = ("", by_macro, f"// {by_macro}", of_group, of_group.replace(".f16", ".f32", 1))
    types = [kernel_from(write(text + plain), said).types for text in texts]
    assert [of.roundoff for of in types] == [2.0**-23, 2.0**-13, 2.0**-23, 2.0**-13, 2.0**-23]


SHORT = IN_HALF.replace(
    "__half2float(A[row * K + k]) * __half2float(B[k * N + col])",
    "__half2float(__hmul(A[row * K + k], B[k * N + col]))",
)
BY_16 = "grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)"
SHORTLY = {
    "by its name": SHORT,
    "by the sign": SHORT.replace("__hmul(A[row * K + k], B[k * N + col])", "A[row * K + k] * B[k * N + col]"),
    "of variables": SHORT.replace("float sum = 0;", "float sum = 0;\n    __half a, b;").replace(
        "sum += __half2float(__hmul(A[row * K + k], B[k * N + col]))",
        "a = A[row * K + k], b = B[k * N + col], sum += float(a * b)",
    ),
    "C too": SHORT.replace("float* C", "__half* C").replace("= sum;", "= __float2half(sum);"),
    "bfloat16": SHORT.replace("__half2float", "__bfloat162float")
    .replace("__half", "__nv_bfloat16")
    .replace("fp16", "bf16"),
    "of a template": SHORT.replace("__global__", "template <typename T = __half>\n__global__")
    .replace("const __half*", "const T*")
    .replace("__half2float(__hmul(A[row * K + k], B[k * N + col]))", "float(A[row * K + k] * B[k * N + col])"),
}


@pytest.mark.parametrize("style", SHORTLY)
def test_products_in_16_bits_have_a_bound_of_their_own(write, style, capsys):
    """They pass, and not with room to spare; what is a few times their rounding off, or lacks a term, does not."""
    text, of = SHORTLY[style], {"T": "half"} if style == "of a template" else {}
    off = text.replace("sum;", "sum * 0.9f;").replace("(sum)", "(sum * 0.9f)")
    texts = (text, off, text.replace("k < K;", "k < K - 1;"))
    kernels = [guessed(write(one, f"{number}.cu"), BY_16, **of)[0] for number, one in enumerate(texts)]
    sizes = ((1, 1, 1), (17, 18, 19), (5, 3, 500))
    worst = [[lab.check(of, *size, on_gpu=False).worst_ratio for size in sizes] for of in kernels]
    assert all(0.03 < ratio <= 1 for ratio in worst[0]) and min(worst[1] + worst[2]) > 2, worst
    assert (
        main(
            ["check", str(write(text)), "--launch", BY_16, "--sizes", "17", *(f"--set={k}={v}" for k, v in of.items())]
        )
        == 0
    )
    assert "rounds each product to 16 bits before it is added" in capsys.readouterr().out


def test_factors_that_are_widened_first_keep_the_narrow_bound(write):
    """A cast of one is enough, as is a macro's name that looks like a product."""
    plain = IN_HALF
    factors = "__half2float(A[row * K + k]) * __half2float(B[k * N + col])"
    by_cast = plain.replace(factors, "(float)A[row * K + k] * (float)B[k * N + col]")
    by_name = plain.replace(factors, "float(A[row * K + k]) * float(B[k * N + col])")
    for text in (plain, by_cast, by_name):
        kernel = guessed(write(text), BY_16)[0]
        assert kernel.types.roundoff == 2.0**-23 and lab.check(kernel, 17, 18, 19, on_gpu=False).passed


def test_sums_in_half_that_are_stored_as_floats(write):
    """Their bound is that of the sums, whatever the type of C."""
    text = IN_HALF.replace("float sum", "__half sum")
    text = text.replace(
        "sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col])",
        "sum = __hfma(A[row * K + k], B[k * N + col], sum)",
    )
    kernel = guessed(write(text), BY_16)[0]
    assert kernel.types.roundoff == 2.0**-11 and kernel.types.result == np.float32
    assert lab.check(kernel, 17, 18, 300, on_gpu=False).passed
    assert not lab.check(guessed(write(text.replace("k < K;", "k < K - 1;")), BY_16)[0], 17, 18, 9, on_gpu=False).passed


STRIDED = """\
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < M * N; at += gridDim.x * blockDim.x) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[at / N * K + k] * B[k * N + at % N];
        C[at] = sum;
    }
}
"""
BY_ROWS = STRIDED.replace(
    "int at = blockIdx.x * blockDim.x + threadIdx.x; at < M * N; at += gridDim.x * blockDim.x) {",
    "int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y)\n"
    "    for (int x = blockIdx.x * blockDim.x + threadIdx.x, at; x < N; x += gridDim.x * blockDim.x) {\n"
    "        at = row * N + x;",
)


@pytest.mark.parametrize(
    ("text", "launch"),
    [
        (STRIDED, "grid = cdiv(M * N, 256), block = 256"),
        (
            STRIDED.replace("__global__ void", "__global__ void __launch_bounds__(128)"),
            "grid = cdiv(M * N, 128), block = 128",
        ),
        (
            STRIDED.replace("    for", "    int step = blockDim.x * gridDim.x;\n    for", 1).replace(
                "gridDim.x * blockDim.x)", "step)"
            ),
            "grid = cdiv(M * N, 256), block = 256",
        ),
        (BY_ROWS, BY_16),
    ],
    ids=["one dimension", "of a bound", "a variable for the step", "two dimensions"],
)
def test_a_loop_by_the_size_of_the_grid_gets_a_thread_for_each_element(write, text, launch):
    """Any grid is right, the smallest too; what is taken is said, and that another would do."""
    kernel, guess, told = guessed(write(text))
    assert guess.startswith(f"// launch: {launch}, ") and len(told) == 1 and "any grid should do" in told[0]
    assert lab.check(kernel, 33, 17, 9, on_gpu=False).passed
    plain = guessed(
        write(text.replace("at += gridDim.x * blockDim.x", "at += 1 << 20").replace("at += step", "at += 1 << 20"))
    )
    assert text == BY_ROWS or not plain[2]


def test_what_a_launch_says_can_be_written_into_the_file(write, product):
    """The guess, as a comment before the kernel, is what gets the kernel launched the same way without guessing."""
    text, _, kernel = product
    bare = re.sub(r"(?m)^\ufeff|^// *launch:[^\n]*\n(?://[^\n]*\n)*", "", text)
    bare = (
        bare if text in (BY_TYPE, BY_MEMBERS, IN_NAMESPACE) else bare.replace("<<<", "")
    )  # its launch names what the host code declares
    if "template <const int BM" in bare:
        bare = bare.replace("const int BM, const int BN, const int BK", "int BM = 16, int BN = 16, int BK = 16")
    again = kernel_from(write(f"// launch: {kernel.family.rule}\n{bare}", "again.cu"))
    A, B = sg.matrices(64, 64, 64, on_gpu=False, types=kernel.types)
    assert str(again.family.rule) == str(kernel.family.rule)
    got = kernel(A, B)
    assert np.array_equal(again(A, B), got) and np.abs(got - A.astype(float) @ B).max() < 2e-2


def test_the_launch_given_by_the_caller_comes_before_the_files(write):
    path = write(BLAS_LIKE)
    kernel = kernel_from(path, "block = (8, 8), grid = (cdiv(N, 8), cdiv(M, 8))")
    assert kernel.threads == 64 and kernel.family.tile({}) == (8, 8)
    A, B = sg.matrices(20, 30, 40, on_gpu=False)
    assert np.array_equal(kernel(A, B), kernel_from(path)(A, B))


def test_sizes_go_by_the_kernels_names_and_by_those_of_the_host(write):
    """Both names count: in the given launch, and in host code that calls them otherwise."""
    said = "grid = (cdiv(m, 16), cdiv(n, 16)), block = (16, 16), layout = column-major"
    A, B = sg.matrices(20, 30, 40, on_gpu=False)
    assert np.allclose(kernel_from(write(BY_COLUMNS), said)(A, B), A @ B, atol=1e-4)
    hosted = BY_HOST.replace("void run(int M, int N, int K,", "void run(int rows_, int cols_, int depth,")
    hosted = hosted.replace("CEIL_DIV(N, BN), CEIL_DIV(M, BM)", "CEIL_DIV(cols_, BN), CEIL_DIV(rows_, BM)")
    hosted = hosted.replace(">>>(M, N, K,", ">>>(rows_, cols_, depth,")
    A, B = sg.matrices(32, 48, 16, on_gpu=False)
    assert np.allclose(kernel_from(write(hosted))(A, B), A @ B, atol=1e-4)


def test_one_of_several_kernels(write):
    path = write(BLAS_LIKE + PLAIN.replace("product", "other"))
    assert kernel_from(path).function == "product"  # the only one whose launch is said
    assert guessed(path, "kernel = other")[0].function == "other"
    both = "// launch: kernel = other\n" + PLAIN + PLAIN.replace("product", "other")
    for text in (both, both.replace("other\n", "other, block = (8, 8)\n", 1)):
        kernel, *_ = guessed(write(text, "named.cu"))  # above another one
        assert kernel.function == "other" and kernel.threads == (64 if "(8" in text else 256)
    helped = "__global__ void zero(float* C, int n) { C[threadIdx.x] = n; }\n" + PLAIN.replace("other", "product")
    assert kernel_from(write(helped, "helped.cu")).function == "product"  # the only one with three matrices
    with pytest.raises(ArgumentError, match=r"got 2 __global__ functions \(product, other\), needs one, or the name"):
        kernel_from(write(PLAIN + PLAIN.replace("product", "other"), "both.cu"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("block = (16, 16)", "block = (16, W)", "W: got no whole number, needs numbers, arithmetic, and the names"),
        ("block = (16, 16)", "blocks = (16, 16)", "mine.cu: got blocks = (16, 16), needs KEY = VALUE"),
        (
            "int K, float alpha",
            "int K, int strange, float alpha",
            "mine.cu: got int strange, whose meaning is not plain",
        ),
        ("block = (16, 16)", "block = (16, 16), arguments = A B C", "arguments: got A B C, needs 8 with A, B and C"),
        ("block = (16, 16)", "block = (16, 16), layout = tiled", "layout: got tiled, needs row-major or column-major"),
        ("float* C)", "char* C)", "mine.cu: got A of float, B of float and C of char, needs all of float"),
        ("block = (16, 16)", "block = (64, 64)", "got 4,096 threads per block"),
    ],
)
def test_a_launch_that_cannot_be_read(write, old, new, message):
    assert old in BLAS_LIKE
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kernel_from(write(BLAS_LIKE.replace(old, new))).instance  # noqa: B018


def test_dynamic_shared_memory_whose_bytes_nobody_says(write):
    silent = DYNAMIC.replace("shared = 2 * 16 * 16 * sizeof(float),", "sizes = any,")
    with pytest.raises(ArgumentError, match="a template parameter of that name, or // launch: shared = bytes"):
        lab.check(kernel_from(write(silent)), 32, 32, 32, on_gpu=False)


def test_what_a_kernel_does_not_take_is_refused(write):
    A, B = sg.matrices(32, 16, 32, on_gpu=False)
    with pytest.raises(ArgumentError, match="alpha: got 2, needs 1: the kernel takes no alpha"):
        guessed(write(PLAIN))[0](A, B, alpha=2.0)
    square = guessed(write(SQUARE), "multiples = 16")[0]
    with pytest.raises(ArgumentError, match="N: got 16, needs"):
        square(A, B)
    with pytest.raises(ArgumentError, match="M: got 40, needs a multiple of 16"):
        square(*sg.matrices(40, 40, 40, on_gpu=False))


MISTAKES = {
    "The result is AB + βC: α is not used.": ("alpha * sum", "sum"),
    "The result is αAB: β is not used.": ("beta * C[row * N + col]", "0"),
    "The result is αAB + C: what C held is added whatever β is.": ("beta * C", "C"),
    "The sign of the result is wrong.": (
        "= alpha * sum + beta * C[row * N + col]",
        "= -(alpha * sum + beta * C[row * N + col])",
    ),
    "The result is α ABᵀ + βC: B is read column by column.": ("B[k * N + col]", "B[col * K + k]"),
    "The result is α AᵀB + βC: A is read column by column.": ("A[row * K + k]", "A[k * M + row]"),
    "The result is right, but C lies column by column": ("C[row * N + col]", "C[col * M + row]"),
    "The sums stop at k =": ("k < K;", "k < K / 8 * 8;"),
    "The sums begin at k = 1:": ("k = 0;", "k = 1;"),
    "The sums lack the terms k = 3, 7, 11, ... of 20": ("k < K; ++k)", "k < K; k += 1 + (k % 4 == 2))"),
    "The terms of the sums are not added once each: k = 0.": ("float sum = 0;", "float sum = A[row * K] * B[col];"),
    "The result is α(AB + βC): α multiplies C, too.": ("alpha * sum + beta", "alpha * sum + alpha * beta"),
    "The result is βAB + αC: α and β are exchanged.": ("alpha * sum + beta", "beta * sum + alpha"),
    "as a ReLU makes it": (
        "= alpha * sum + beta * C[row * N + col]",
        "= fmaxf(alpha * sum + beta * C[row * N + col], 0)",
    ),
    "The result is right, but for its fractions": (
        "= alpha * sum + beta * C[row * N + col]",
        "= int(alpha * sum + beta * C[row * N + col])",
    ),
    "Each element is a whole number": (
        "= alpha * sum + beta * C[row * N + col]",
        "= roundf(alpha * sum) + roundf(beta * C[row * N + col])",
    ),
    "The result is nearly right": ("alpha * sum", "1.0005f * alpha * sum"),
    "All is right but for row 0: an index of rows begins at 1.": ("if (row >= M", "if (row == 0 || row >= M"),
    "All is right but for rows 0 to 1: an index of rows begins at 2.": ("if (row >= M", "if (row <= 1 || row >= M"),
    "Rows of C begin 35 elements apart, not 36: its leading dimension is N - 1": (
        "    C[row * N + col] = alpha * sum + beta * C[row * N + col]",
        "    C[row * (N - 1) + col] = alpha * sum + beta * C[row * N + col]",
    ),
    "add to the launch: transposed = A B": (
        "A[row * K + k] * B[k * N + col]",
        "A[k * M + row] * B[col * K + k]",
    ),
    "an index of rows is off by one": ("    C[row * N + col] = alpha", "    if (++row < M) C[row * N + col] = alpha"),
    "With another launch it is right": ("(cdiv(N, 16), cdiv(M, 16))", "(cdiv(M, 16), cdiv(N, 16))"),
    "Only every 16th row is right": ("(16, 16)\n", "(16, 1)\n"),
    "the grid has too few blocks": ("cdiv(M, 16)", "M / 16"),
    "All is right but for row 69, the last: a bound of rows is too small by one": ("row >= M", "row >= M - 1"),
    "block = (16, 4)": ("(cdiv(N, 16), cdiv(M, 16)), block = (16, 16)", "(cdiv(N, 16), cdiv(M, 4)), block = (4, 16)"),
    "With M = N = K it is right": ("B[k * N + col]", "B[k * M + col]"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_usual_mistakes_are_named(write, said):
    old, new = MISTAKES[said]
    text = BLAS_LIKE.replace("blockDim.x", "16").replace("blockDim.y", "4" if "(16, 4)" in said else "16")
    assert old in text
    kernel = kernel_from(write(text.replace(old, new)))
    result = lab.check(kernel, 70, 36, 20, -1.5, 0.75, on_gpu=False)
    assert not result.passed and said in "\n".join(diagnosis(kernel, result))


TILED = """\
// launch: grid = (cdiv(N, TILE), cdiv(M, TILE)), block = (TILE, TILE)
#define TILE 16
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int y = threadIdx.y, x = threadIdx.x, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0;
    for (int t = 0; t < K; t += TILE) {
        a[y][x] = row < M && t + x < K ? A[row * K + t + x] : 0;
        b[y][x] = t + y < K && col < N ? B[(t + y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        __syncthreads();\n        for", "        for", "a __syncthreads() is missing"),
        ("x];\n        __syncthreads();\n", "x];\n", "a __syncthreads() is missing"),
        ("float sum = 0", "float sum", "A variable is read before it has a value"),
        ("block = (TILE, TILE)", "block = (8, 8)", "No thread wrote that element of a tile"),
        (": 0;\n        b", ": a[y][x];\n        b", "No thread wrote that element of a tile"),
        ("(TILE, TILE)\n", "(TILE, TILE), rules = BLAS\n", "Where α = 0 or K = 0, A and B are not to be read"),
        ("] = sum", "] = sum + 0 * C[0]", "Where β = 0, C is not to be read"),
    ],
)
def test_faults_are_explained(write, old, new, said):
    assert TILED.count(old) == 1
    text = TILED.replace(old, new)
    scalars = {"alpha": 0.0} if "α" in said else {}
    if scalars:
        text = text.replace("int K)", "int K, float alpha)").replace("= sum", "= alpha * sum")
    if "C is" in said:
        text = text.replace("block = (TILE, TILE)", "block = (TILE, TILE), rules = BLAS")
    kernel = kernel_from(write(text))
    failed = lab.check(kernel, 24, 24, 24, **scalars, on_gpu=False)
    assert failed.fault and diagnosis(kernel, failed)[1].startswith(("Between", said.split(" is missing")[0]))
    assert said in diagnosis(kernel, failed)[1]


def test_no_product_of_exchanged_matrices_where_sizes_differ(write):
    """With α = β = 1, a kernel that adds 2 C has αAB + βC, and C once more."""
    kernel = kernel_from(write(BLAS_LIKE.replace("beta * C", "2 * beta * C")))
    said = diagnosis(kernel, lab.check(kernel, 37, 41, 19, 1.0, 1.0, on_gpu=False))
    assert len(said) == 2 and said[1].startswith("C[")


def test_what_is_added_to_c_is_told(write):
    for text, told in (
        (PLAIN.replace("] = sum", "] += sum"), 1),
        (PLAIN.replace("C[row * N + col] = sum", "atomicAdd(C + row * N + col, sum)"), 1),
        (PLAIN, 0),
        (BLAS_LIKE.replace("] = alpha * sum + beta * C[row * N + col]", "] += alpha * sum"), 0),
    ):
        assert sum("It adds to what C holds" in line for line in guessed(write(text))[2]) == told


def test_sizes_that_capitals_deceive_about(write):
    """Where host code calls the columns K, its grid and its constants do, too."""
    text = PLAIN.partition("int main")[0].replace("col >= N", "col >= K").replace("k < K", "k < N")
    text = text.replace("row * K + k", "row * N + k").replace("* N + col", "* K + col")
    text += "void run(int M, int N, int K) { const int across = (K + 15) / 16; "
    path = write(text + "product<<<dim3(across, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K); }")
    kernel = kernel_from(path)
    said = diagnosis(kernel, lab.check(kernel, 33, 17, 9, on_gpu=False))
    assert said[-1].endswith("arguments = A B C M K N")
    for launch in (said[-1].removeprefix("// launch: "), "arguments = A B C M K N"):
        assert lab.suite(kernel_from(path, launch), on_gpu=False).passed


def test_a_launch_by_which_the_mistake_shows_is_printed(write):
    """Also a race; and a kernel that is only less exact is not refused."""
    bare = TILED.partition("\n")[2]
    launch = "needs // launch: grid = (cdiv(N, TILE), cdiv(M, TILE)), block = (TILE, TILE), arguments = A B C M N K"
    for old, new, hint in (
        ("= sum;", "= -sum;", "The sign of the result is wrong"),
        ("x];\n        __syncthreads();\n", "x];\n", "race: mine, line"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(launch)) as raised:
            guessed(write(bare.replace(old, new)))
        assert f". With that below: {hint}" in str(raised.value)
    kernel, rule, told = guessed(write(bare.replace("= sum;", "= 1.0005f * sum;")))
    assert rule.startswith("// launch: grid = (cdiv(N, TILE)") and "nearly right" in told[0] and kernel.threads == 256


def test_a_template_argument_that_only_callers_know(write):
    path = write(
        "template <int SIDE>\n"
        + hosted("", "dim3(cdiv(N, SIDE), cdiv(M, SIDE))", "dim3(SIDE, SIDE)").replace("product<<<", "product<SIDE><<<")
    )
    with pytest.raises(ArgumentError, match="SIDE: got no value, needs one, given"):
        guessed(path)
    kernel, *_ = guessed(path, SIDE=8)
    assert kernel.threads == 64 and lab.check(kernel, 20, 30, 40, on_gpu=False).passed


@pytest.mark.parametrize(
    ("old", "new", "case", "said"),
    [
        ("alpha * sum", "1.0005f * alpha * sum", {"alpha": -1.5, "beta": 0.75}, r"is [-.\d]+ and should be [-.\d]+"),
        ("float sum = 0", "if (K == 0) return;\n    float sum = 0", {"K": 0, "beta": 2.0}, "is .+ and should be .+"),
        ("if (row >= M", "if (col == 2 || row >= M", {}, r"was never written and should be [-.\d]+"),
    ],
)
def test_every_wrong_verdict_says_what_came_and_what_was_expected(write, old, new, case, said):
    text = BLAS_LIKE.replace("beta * C[row * N + col]", "(beta == 0 ? 0 : beta * C[row * N + col])")
    text, case = text.replace("(16, 16)\n", "(16, 16), rules = BLAS\n"), {"M": 20, "N": 36, "K": 20} | case
    assert old in text and lab.check(kernel_from(write(text)), **case, on_gpu=False)
    kernel = kernel_from(write(text.replace(old, new), "wrong.cu"))
    result = lab.check(kernel, **case, on_gpu=False)
    shown = "C[{}, {}] ".format(*result.worst_at)
    assert result.wrong and re.fullmatch(re.escape(shown) + said + r"\.", result.example)
    assert len({*re.findall(r" (?:is|be) (.+?)(?: and|\.$)", result.example)}) == 2 - result.example.count("never")
    assert diagnosis(kernel, result)[1] == result.example == result.table().note.splitlines()[-1]


def test_the_mistake_is_looked_for_where_it_can_be_told(write, capsys):
    """The first case that fails has three rows and K = 1, where much looks alike."""
    launch = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = "
    for text, said in (
        (launch + "(16, 16)\n" + PLAIN.replace("C[row * N + col]", "C[col * M + row]"), "C lies column by column"),
        (launch + "256\n" + PLAIN.replace("blockDim.x", "16").replace("blockDim.y", "16"), "Only every 16th row"),
    ):
        assert main(["check", str(write(text)), "--simulate"]) == 1
        assert said in capsys.readouterr().out
    kernel = kernel_from(write(text))
    assert "Row 0 is right and no other: the grid" in diagnosis(kernel, lab.check(kernel, 9, 5, 4, on_gpu=False))[-2]


def test_a_kernel_for_which_no_launch_is_right_is_told_why(write):
    with pytest.raises(
        ArgumentError, match=r"none that was tried .* With that below: The result is 0 where it should be"
    ):
        guessed(write(PLAIN.replace("= sum;", "= fmaxf(sum, 0);")))


def test_sizes_that_a_kernel_does_not_claim_are_suggested(write):
    kernel = kernel_from(write(BY_HOST))
    result = lab.check(kernel, 17, 17, 17, on_gpu=False)
    assert not result.passed
    said = diagnosis(kernel, result)
    assert said[0].startswith("The case M = 17, N = 17, K = 17, α = 1, β = 0: out of bounds")
    assert "whole tiles (M = 32, N = 64, K = 32)" in said[1] and said[2].endswith("multiples = (16, 16, 16)")
    assert lab.suite(kernel_from(write(BY_HOST), said[2].removeprefix("// launch: ")), on_gpu=False).passed


def test_the_command_says_what_it_guessed(write, capsys):
    assert main(["check", str(write(PLAIN)), "--simulate"]) == 0
    said = capsys.readouterr()
    assert "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)" in said.out and "passed" in said.out
    assert main(["check", str(write(PLAIN)), "--simulate", "--json"]) == 0
    said = capsys.readouterr()
    assert "// launch: grid" in said.err and msgspec.json.decode(said.out)["passed"]
    wrong = write(BLAS_LIKE.replace("alpha * sum", "sum"), "wrong.cu")
    assert main(["check", str(wrong), "--simulate"]) == 1
    said = capsys.readouterr().out
    assert "The result is AB + βC: α is not used." in said and re.search(r"C\[\d+, \d+\] is .* and should be", said)
    assert main(["trace", str(write(PLAIN)), "--size", "32"]) == 0
    assert "sum += A[row * K + k]" in capsys.readouterr().out


def test_a_picture_of_what_a_warp_touches(write):
    """The sectors are those of the accesses, in any style."""
    run = sg.simulate(kernel_from(write(PLAIN)), *sg.matrices(64, 64, 64, on_gpu=False), trace=[0])
    assert "A load, line 9: 32 lanes touch 2 different elements in 2 sectors" in repr(access_map(run))


FLAT = """\
template <const int SIDE>
__global__ void flat(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const int row = blockIdx.x * SIDE + threadIdx.x / SIDE, col = blockIdx.y * SIDE + threadIdx.x % SIDE;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""


def test_a_block_that_no_gpu_has_is_named_where_no_launch_is_found(write, monkeypatch):
    monkeypatch.setattr("lab.guessing.MOST_TRIALS", 2)
    with pytest.raises(ArgumentError, match=r"not SIDE \* SIDE, which has more than 1,024 threads\), needs"):
        guessed(write(FLAT.replace("SIDE>", "SIDE = 64>")))


def test_a_launch_with_too_few_blocks_is_not_what_is_found(write):
    """A flat block of 32 × 32 threads: in a small product, one row of blocks of 1,024 rows would be enough too."""
    kernel, rule, _ = guessed(write(FLAT), SIDE=32)
    assert "cdiv(M, SIDE)" in rule and lab.check(kernel, 70, 200, 20, on_gpu=False).passed


def test_what_no_launch_would_mend_is_said(write):
    with pytest.raises(CompileError, match='identifier "itn" is undefined'):
        guessed(write(PLAIN.replace("int row", "itn row")))
    with pytest.raises(UnsupportedInstruction, match="clock64"):
        guessed(write(PLAIN.replace("C[row * N + col] = sum", "C[row * N + col] = sum + clock64()")))


def test_the_launch_found_does_not_hang_on_the_sizes_tried(write):
    """Where N = 2 M, a grid of N / 32 blocks of 16 rows would be enough."""
    kernel, rule, _ = guessed(write(ROW_EACH))
    assert "N" not in str(rule).partition("block")[0] and lab.check(kernel, 200, 10, 20, on_gpu=False).passed


def test_sizes_that_are_exchanged_are_suggested(write):
    """The host code decides the launch, and the names deceive."""
    hosted = INNER_N + "void run(int m, int n, int k) { product<<<dim3((k + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>"
    path = write(hosted + "(A, B, C, m, n, k); }")
    said = diagnosis(kernel_from(path), lab.check(kernel_from(path), 33, 17, 9, on_gpu=False))
    assert said[-1].endswith("arguments = A B C M K N")
    assert lab.suite(kernel_from(path, said[-1].removeprefix("// launch: ")), on_gpu=False).passed
    assert lab.suite(kernel_from(path, "arguments = A B C M K N"), on_gpu=False).passed


def test_tiles_that_the_kernel_names_itself(write):
    inside = SQUARE.replace("#define TILE 16", "").replace("{\n", "{\n    const int TILE = 8;\n", 1)
    _, rule, _ = guessed(write(inside))
    assert "block = (TILE, TILE)" in rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "float* A, float* C, int N",
            "arguments (float* A, float* C, int N), needs pointers to A, B and C of a matrix product, and its sizes",
        ),
        ("float* A, float* B, float* C", "needs pointers to A, B and C of a matrix product, and its sizes"),
        (
            "float (*A)[64], float (*B)[64], float (*C)[64], int N",
            "A of float*, B of float* and C of float*, needs all of",
        ),
        (
            "float* A, float* B, float* C, int batch, int M, int N, int K",
            "int batch, whose meaning is not plain, needs // launch: arguments = A B C ? M N K, with a number",
        ),
    ],
)
def test_arguments_that_are_not_those_of_a_product(write, text, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        guessed(write(f"__global__ void k({text}) {{ }}"))


SKIPS = BLAS_LIKE.replace("++k) sum +=", "++k) if (A[row * K + k] != 0) sum +=")


@pytest.mark.parametrize(
    ("change", "came", "right", "factors"),
    [
        (
            BLAS_LIKE.replace("alpha * sum", "fminf(3e38f, alpha * sum)"),
            r"3e\+38",
            "(?:nan|inf)",
            r"is \S+ and B\[.*\] is \S+",
        ),
        (SKIPS, r"-?[\d.]+", "nan", r"is -?0 and B\[\d+, \d+\] is -?(nan|inf)"),
        (
            BLAS_LIKE.replace("A[row * K + k]", "fminf(A[row * K + k], 9)"),
            r"-?[\d.]+",
            "-?inf",
            r"is inf and B\[.*\] is -?[\d.]+",
        ),
        (BLAS_LIKE.replace("+= A[row * K + k]", "+= 2 * A[row * K + k]"), r"\S+", r"[-+.\de]+", ""),
    ],
    ids=["the sum is cut off", "zeros are skipped", "infinity is cut off", "all is wrong"],
)
def test_special_values_are_named_where_a_result_has_one_of_them_for_its_right_value(
    write, change, came, right, factors
):
    """The first product that makes it so, of A's row and B's column."""
    assert change != BLAS_LIKE
    result = lab.check(kernel_from(write(change)), 15, 15, 9, special=True, on_gpu=False)
    said = result.example
    why = rf": A\[(\d+), (\d+)\] {factors}" if factors else ""
    found = re.fullmatch(rf"C\[(\d+), (\d+)\] is {came} and should be {right}{why}\.", said)
    assert found, said
    assert not factors or (found[1] == found[3] and f"B[{found[4]}, {found[2]}]" in said)
    assert result.table().note.splitlines()[-1] == said


BY_MMA = """\
#include <cuda_fp16.h>
__global__ void product(const half* A, const half* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) half a[16][16], b[16][8];
    int lane = threadIdx.x, row = blockIdx.y * 16, col = blockIdx.x * 8;
    float d[4] = {};
    for (int k = 0; k < K; k += 16) {
        for (int i = lane; i < 256; i += 32)
            a[i / 16][i % 16] = row + i / 16 < M && k + i % 16 < K ? A[(row + i / 16) * K + k + i % 16] : half(0);
        for (int i = lane; i < 128; i += 32)
            b[i / 8][i % 8] = k + i / 8 < K && col + i % 8 < N ? B[(k + i / 8) * N + col + i % 8] : half(0);
        __syncwarp();
        unsigned f[4], g[2], left = __cvta_generic_to_shared(&a[lane % 16][lane / 16 * 8]);
        unsigned right = __cvta_generic_to_shared(b[lane % 16]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(left));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(g[0]), "=r"(g[1]) : "r"(right));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(g[0]), "r"(g[1]));
        __syncwarp();
    }
    for (int i = 0; i < 4; ++i) {
        int r = row + lane / 4 + i / 2 * 8, c = col + lane % 4 * 2 + i % 2;
        if (r < M && c < N) C[r * N + c] = d[i];
    }
}
"""
MEET = "for (__mbarrier_token_t token = __mbarrier_arrive(&bar); !__mbarrier_test_wait(&bar, token);) {}"
BY_BARRIERS = TILED.replace("__syncthreads();", MEET).replace(
    "#define", "#include <cuda_awbarrier_primitives.h>\n#define"
)
BY_BARRIERS = BY_BARRIERS.replace(
    "    float sum",
    "    __shared__ __mbarrier_t bar;\n    if (x + y == 0) __mbarrier_init(&bar, TILE * TILE);\n"
    "    __syncthreads();\n    float sum",
)


def test_a_warps_tile_whose_sides_only_the_indices_of_blocks_tell(write):
    kernel, guess, _ = guessed(write(BY_MMA))
    assert guess.startswith("// launch: grid = (cdiv(N, 8), cdiv(M, 16)), block = 32, ")
    assert lab.check(kernel, 33, 17, 40, on_gpu=False).passed


def test_indices_that_a_variable_holds(write):
    """One of CUDA C++'s own, and those of cooperative groups."""
    held = PLAIN.replace("blockIdx.", "g.").replace("threadIdx.", "t.")
    groups = "cooperative_groups::thread_block block = cooperative_groups::this_thread_block();"
    for text in (
        held.replace("    int row", "    const uint3 t = threadIdx, g = blockIdx;\n    int row"),
        "#include <cooperative_groups.h>\n"
        + held.replace(
            "    int row", f"    {groups}\n    dim3 t = block.thread_index(), g = block.group_index();\n    int row"
        ),
    ):
        kernel, guess, _ = guessed(write(text))
        assert f"{BY_16}, " in guess and lab.check(kernel, 33, 17, 9, on_gpu=False).passed


def test_a_product_whose_threads_meet_at_an_mbarrier(write):
    """The mbarrier orders their accesses; without one of the waits they race."""
    early = BY_BARRIERS.replace("!__mbarrier_test_wait(&bar, token);", "false;", 1)
    right, racing = (lab.check(guessed(write(text))[0], 20, 30, 40, on_gpu=False) for text in (BY_BARRIERS, early))
    assert right.passed and racing.fault.startswith("race")


def test_sizes_that_only_the_host_calls_by_usual_names(write):
    """Also the bytes of a template's element in the size of shared memory."""
    text = """
template <typename T, int TS>
__global__ void product(const T* left, const T* right, T* out, size_t high, size_t wide, size_t deep)
{
    extern __shared__ char raw[];
    T *a = (T*)raw, *b = a + TS * TS;
    size_t row = blockIdx.x * TS + threadIdx.x / TS, col = blockIdx.y * TS + threadIdx.x % TS;
    T sum = 0;
    for (size_t k = 0; k < deep; k += TS) {
        a[threadIdx.x] = row < high && k + threadIdx.x % TS < deep ? left[row * deep + k + threadIdx.x % TS] : T(0);
        b[threadIdx.x] = col < wide && k + threadIdx.x / TS < deep ? right[(k + threadIdx.x / TS) * wide + col] : T(0);
        __syncthreads();
        for (int i = 0; i < TS; ++i) sum += a[threadIdx.x / TS * TS + i] * b[i * TS + threadIdx.x % TS];
        __syncthreads();
    }
    if (row < high && col < wide) out[row * wide + col] = sum;
}
template <typename T> void run(const T* a, const T* b, T* c, size_t M, size_t N, size_t K)
{
    constexpr int TS = 16;
    product<T, TS><<<dim3((M + TS - 1) / TS, (N + TS - 1) / TS), TS * TS, 2 * TS * TS * sizeof(T)>>>(a, b, c, M, N, K);
}
"""
    kernel, _, told = guessed(write(text))
    assert "arguments = A B C M N K, shared = 2 * TS * TS * sizeof(T)" in told[0]
    assert lab.check(kernel, 33, 17, 40, on_gpu=False).passed
    with pytest.raises(ArgumentError, match="size_t high, whose meaning is not plain"):
        guessed(write(text.replace("c, M, N, K)", "c, x, y, z)")))


def test_indices_of_32_bits(write, capsys):
    """Rules of BLAS ask for sizes beyond; a kernel without template parameters has them tested, too."""
    strict = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), rules = BLAS\n" + PLAIN
    assert main(["check", str(write(strict)), "--simulate"]) == 1
    said = capsys.readouterr().out
    assert "last tile" in said and "an index of 32 bits overflows: compute it as a size_t" in said
    wide = strict.replace("int row", "size_t row").replace("int k = 0", "size_t k = 0")
    assert main(["check", str(write(wide)), "--simulate"]) == 0


def test_small_numbers_that_atomics_take_for_zeros(write):
    atomic = PLAIN.replace("C[row * N + col] = sum", "atomicAdd(&C[row * N + col], sum)")
    kernel = kernel_from(write("// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)\n" + atomic))
    (failed,) = lab.suite(kernel, on_gpu=False).failures().results
    assert "atomicAdd takes numbers below 1.2e-38 for zeros" in diagnosis(kernel, failed)[-1]


def test_launches_in_the_kernels_own_names_are_tried_first(write):
    """There are more launches to try than there is time for; and a block that is said decides the grids."""
    assert guessed(write(FLAT), SIDE=8)[1].startswith("// launch: grid = (cdiv(M, SIDE), cdiv(N, SIDE)), block = SIDE")
    assert "grid = (cdiv(N, 8), cdiv(M, 8))" in guessed(write(PLAIN), "block = (8,8)")[1]


def test_a_kernel_that_never_ends_is_stopped_soon(write, capsys):
    """It is stopped in a case of its suite, the last that runs, and while its launch is sought; more can be allowed."""
    endless = PLAIN.replace("    if (row >= M", "    while (true) { C[0] = 1; }\n    if (row >= M")
    launch = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)\n"
    line = (launch + endless).partition("while")[0].count("\n") + 1
    started = time.perf_counter()
    assert main(["check", str(write(launch + endless)), "--simulate"]) == 1
    said = capsys.readouterr().out
    assert (
        f"endless, line {line}" in said and f"in the loop of line {line}" in said and "No case after it was run" in said
    )
    with pytest.raises(ArgumentError, match=f"got endless: mine, line {line - 1}, .* needs a loop that ends"):
        guessed(write(endless))
    assert time.perf_counter() - started < 60  # seconds; it takes 3
    assert main(["check", str(write(launch + endless)), "--simulate", "--budget", "1000"]) == 1
    assert "more than 1,000 instructions" in capsys.readouterr().out


def test_few_threads_with_much_to_do_are_not_an_endless_kernel(write, monkeypatch):
    """A loop over the grid is right with any launch; with one of few threads each takes long."""
    text = (
        PLAIN.partition("{\n")[0]
        + """{
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < M * N; at += gridDim.x * blockDim.x) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[at / N * K + k] * B[k * N + at % N];
        C[at] = sum;
    }
}
"""
    )
    monkeypatch.setattr("lab.guessing.ENDLESS", 1 << 14)
    host = "int main() { int sms = 0; ask(&sms); long M = 100, N = 200, K = 300;"
    kernel, rule, _ = guessed(write(f"{text}{host} product<<<sms, 256>>>(A, B, C, M, N, K); }}"))
    assert lab.check(kernel, 20, 30, 40, on_gpu=False).passed and not re.search("block = [MNK]|, K[)]", rule)


def test_a_warp_for_each_element_by_the_contract_is_told_how_it_is_launched(write, capsys):
    text = """template <int BM = 1, int BN = 1>
__global__ void product(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    size_t at = blockIdx.x;
    float sum = 0;
    for (int k = threadIdx.x; k < K; k += 32) sum += A[at / N * K + k] * B[k * N + at % N];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
    if (threadIdx.x == 0) C[at] = alpha * sum + (beta != 0 ? beta * C[at] : 0);
}
"""
    assert main(["check", str(write(text)), "--simulate"]) == 1
    line = re.search(r"// launch: (grid = M \* N, block = 32),", capsys.readouterr().out)
    assert lab.suite(kernel_from(write(text), line[1]), on_gpu=False).passed


def test_trace_of_a_kernel_that_reads_c(write, capsys):
    text = FLAT.replace("<const int SIDE>", "<int BM = 8, int BN = 8>").replace("SIDE", "8")
    text = text.replace("blockIdx.x *", "blockIdx.x / ((N + 7) / 8) *").replace(
        "blockIdx.y *", "blockIdx.x % ((N + 7) / 8) *"
    )
    assert main(["trace", str(write(text)), "--size", "16"]) == 2
    assert "reads C at byte 0, never written" in capsys.readouterr().err
    assert main(["trace", str(write(text)), "--size", "16", "--alpha", "2", "--beta", "0.5"]) == 0
    assert "alpha * sum + beta * C" in capsys.readouterr().out


HOST = PLAIN.partition("int main")[0] + "void run(const float* A, const float* B, float* C, int M, int N, int K) {{\n"
LAUNCHED = "{}product<<<{}, {}>>>(A, B, C, M, N, K);\n}}\n"


def hosted(before, grid, block="dim3(16, 16)"):
    return HOST.replace("{{", "{") + LAUNCHED.format(before, grid, block)


@pytest.mark.parametrize(
    ("before", "grid", "taken"),
    [
        ("", "dim3(ceil(N / 16), std::ceil(M / 16))", "grid = dim3((N / 16), (M / 16))"),
        ("", "dim3(ceil((float)(N / 16)), M / 16)", "grid = dim3(((float)(N / 16)), M / 16)"),
        ("", "dim3(-(-N / 16), -(-M / 16))", "grid = dim3(((N) / (16)), ((M) / (16)))"),
        ("", "dim3(ceil(N / 16.0), ceil((float)M / 16))", "grid = dim3(ceil(N / 16.0), ceil((float)M / 16))"),
        ("const int t = 16;\n", "dim3((N + t - 1) / t, (M + t - 1) / t)", "grid = dim3((N + t - 1) / t"),
        ("int t = 16;\n{ int t = 8; use(t); }\n", "dim3(cdiv(N, t), cdiv(M, t))", "grid = dim3(cdiv(N, t)"),
        ("dim3 g;\ng = dim3(cdiv(N, 16), cdiv(M, 16));\n", "g", "grid = (cdiv(N, 16), cdiv(M, 16))"),
        ("#if 0\nproduct<<<1, 1>>>(A, B, C, M, N, K);\n#else\n", "dim3(cdiv(N, 16), cdiv(M, 16))", "grid = dim3(cdiv"),
        ("#if 1\n#elif 1\nproduct<<<1, 1>>>(A, B, C, M, N, K);\n#endif\n", "dim3(N, M)", "grid = dim3(N, M)"),
        ("// product<<<1, 1>>>(A, B, C, M, N, K);\n", "dim3(cdiv(N, 16), cdiv(M, 16))", "grid = dim3(cdiv"),
    ],
)
def test_a_launch_in_host_code_means_what_it_does_in_c(write, before, grid, taken):
    kernel, guess, told = guessed(write(hosted(before, grid).replace("#else\n", "#endif\n")))
    assert not guess and len(told) == 1
    assert re.match(r"The launch in line \d+ of mine.cu is taken: ", told[0]) and taken in told[0]
    rounded_down = "(N / 16)" in taken or "(16)" in taken
    grid = (1, 2) if rounded_down else (20, 40) if "dim3(N, M)" in taken else (2, 3)
    assert kernel.family.grid({}, 40, 20, 1) == grid


@pytest.mark.parametrize(
    ("before", "grid", "block"),
    [
        ("int x = N / 8; x++;\n", "dim3(x, cdiv(M, 16))", "dim3(16, 16)"),
        ("int x = 1; if (N > 16) x = cdiv(N, 16);\n", "dim3(x, cdiv(M, 16))", "dim3(16, 16)"),
        ("int t = 8;\nwhile (t < 16) t *= 2;\n", "dim3(cdiv(N, 16), cdiv(M, 16))", "dim3(t, t)"),
        ('int t = 0; scanf("%d", &t);\n', "dim3(cdiv(N, 16), cdiv(M, 16))", "dim3(t, t)"),
        ("int t = 0; std::cin >> t;\n", "dim3(cdiv(N, 16), cdiv(M, 16))", "dim3(t, t)"),
        ("dim3 g(1, 1); if (N > 16) { g.x = cdiv(N, 16); }\n", "g", "dim3(16, 16)"),
        ("", "dim3(cdiv(N, 16), 1 - -M / 16)", "dim3(16, 16)"),
    ],
)
def test_what_host_code_changes_is_not_known(write, before, grid, block):
    """Then the launch is found by trial, and this is told."""
    _, guess, told = guessed(write(hosted(before, grid, block)))
    assert "grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)" in guess
    assert len(told) == 1 and re.match(r"The launch in line \d+ of mine.cu cannot be read: ", told[0])


def test_a_grid_that_rounds_down_to_nothing_is_named(write):
    kernel = kernel_from(write(hosted("", "dim3(ceil(N / 16), ceil(M / 16))")))
    said = diagnosis(kernel, lab.check(kernel, 20, 20, 20, on_gpu=False))
    assert "has no blocks, and a GPU refuses such a launch" in said[2]
    assert said[4].endswith("multiples = (16, 16, 1)")


def test_arguments_that_host_code_passes_in_another_order(write, capsys):
    text = hosted("", "dim3(cdiv(N, 16), cdiv(M, 16))")
    for passed, told in (
        ("A, B, C, N, M, K", "passes N, M, K for M, N, K"),
        ("B, A, C, M, N, K", "B, A, C for A, B, C"),
    ):
        path = write(text.replace("(A, B, C, M, N, K);", f"({passed});"))
        assert told in guessed(path)[2][1]
    assert len(guessed(write(text))[2]) == 1
    two = text.replace("product<<<", "product<<<dim3(1, 1), 1>>>(A, B, C, M, N, K);\nproduct<<<")
    assert main(["check", str(write(two)), "--sizes", "1", "--simulate"]) == 0
    assert "The launch in line 13 of mine.cu, one of 2, is taken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}// launch: grid = (cdiv(N, 8), cdiv(M, 8)), block = (8, 8)\n", ""),
        ("/* Launch: grid = (cdiv(N, 8), cdiv(M, 8)),\n * block = (8, 8) */\n{}", ""),
        ("// lauch: grid = (cdiv(N, 8), cdiv(M, 8)), block = (8, 8)\n{}", "The comment in line 1 is not read"),
        ("{}// launch: as you like\n", ""),
        ("{}// launch: block = (8, 8)\n", ""),
    ],
)
def test_where_a_comment_says_a_launch(write, text, told):
    kernel, guess, lines = guessed(write(text.format(PLAIN.partition("int main")[0])))
    assert bool(guess) == ("lauch" in text or "grid" not in text)
    assert kernel.threads == (64 if "launch: block" in text or not guess else 256)
    assert [line.startswith(told) for line in lines] == [True] * bool(told)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("multiples = (0, 1, 1)", "multiples: got (0, 1, 1), needs numbers of at least 1"),
        ("shared = -5", "shared: got -5, needs a number of bytes, 0 or more"),
        ("transposed = C", "transposed: got C, needs A or B or A B"),
    ],
)
def test_launches_that_make_no_sense(write, launch, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        guessed(write(BLAS_LIKE), launch)


def test_numbers_that_make_no_sense_are_refused_at_once(write, capsys):
    for budget in ("0", "-1"):
        assert main(["check", str(write(PLAIN)), "--budget", budget]) == 2
        assert "needs a number of instructions, at least 1" in capsys.readouterr().err
    for text in (FLAT, FLAT.replace("int SIDE", "int BM, int BN").replace("SIDE", "BM")):
        name = "SIDE" if text == FLAT else "BM"
        assert main(["check", str(write(text)), "--set", f"{name}=1000000000000"]) == 2
        assert f"{name}: got 1,000,000,000,000, needs at most 2,147,483,647" in capsys.readouterr().err


def test_no_sums_without_terms_where_multiples_are_claimed(write):
    path = write(BY_HOST)
    some, strict = (kernel_from(path, f"multiples = (16, 16, 16){rules}") for rules in ("", ", rules = BLAS"))
    depths = [{case["K"] for case in lab.correctness.cases(kernel, on_gpu=False)} for kernel in (some, strict)]
    assert 0 not in depths[0] and 0 in depths[1]


def test_multiples_are_not_advised_where_they_do_not_help(write):
    """The race is there whatever the sizes."""
    racing = BLAS_LIKE.replace("float sum = 0;", "C[row * N + (col + 1) % N] *= beta;\n    float sum = 0;")
    racing = racing.replace("beta * C[row * N + col]", "C[row * N + col]").replace("k < K", "k < K / 16 * 16")
    kernel = kernel_from(write(racing))
    result = lab.check(kernel, 17, 20, 8, 1.5, 0.5, on_gpu=False, races=True)
    assert result.fault.startswith("race")
    assert "whole tiles" not in "\n".join(diagnosis(kernel, result))


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("typedef double real;", "real"),
        ("using real = __nv_bfloat16;", "real"),
        ("#include <cuda_fp16.h>\nusing real = __half;", "real"),
    ],
)
def test_elements_under_other_names(write, declared, kind):
    text = PLAIN.replace("#include <algorithm>", f"#include <cuda_bf16.h>\n{declared}").replace("float* ", f"{kind}* ")
    text = text.replace("A[row * K + k] * B[k * N + col]", "(float)A[row * K + k] * (float)B[k * N + col]")
    text = text.replace("float sum", "double sum" if "double" in declared else "float sum").replace(
        "(float)", "(double)" if "double" in declared else "(float)"
    )
    kernel, *_ = guessed(write(text))
    assert lab.check(kernel, 20, 30, 40, on_gpu=False).passed and kernel.types != sg.operands.FP32


def test_sizes_and_templates_under_other_names(write):
    wide = PLAIN.replace("int M, int N, int K", "std::uint32_t M, std::int64_t N, uint32_t K")
    kernel, *_ = guessed(write(wide.replace("#include <algorithm>", "#include <cstdint>")))
    assert lab.check(kernel, 20, 30, 40, on_gpu=False).passed
    assert kernel.family.rule.types[3:] == ("unsigned", "long long", "unsigned")
    named = "typedef float number;\ntemplate <class Real>\n" + hosted("", "dim3(cdiv(N, 16), cdiv(M, 16))")
    named = named.replace("float*", "Real*").replace("product<<<", "product<number><<<").replace("#include", "// ")
    kernel, *_ = guessed(write(named))
    assert kernel.parameters == {"T": "float"} and lab.check(kernel, 20, 30, 40, on_gpu=False).passed


@pytest.mark.parametrize("kind", ["int", "unsigned"])
def test_a_number_may_be_called_T(write, kind):
    square = SQUARE.replace("#define TILE 16\n", f"template <{kind} T = 16>\n").replace("TILE", "T")
    launched = square + "void run() { product<8><<<dim3(2, 2), dim3(8, 8)>>>(); }"
    said = "grid = (cdiv(N, T), cdiv(M, T)), block = (T, T), arguments = A B C N"
    for text, launch, side in ((square, "", 16), (launched, said, 8)):
        path = write(text)
        kernel, *_ = guessed(path, launch)
        assert kernel.parameters == {"T": side} and lab.check(kernel, 32, 32, 32, on_gpu=False).passed
        assert guessed(path, launch, T=4)[0].parameters == {"T": 4}
    beside = square.replace("template <", "template <typename E, ")
    with pytest.raises(ArgumentError, match=r"got a number T beside a typename, which --set calls T, needs another"):
        guessed(write(beside))


@pytest.mark.parametrize(
    ("which", "old", "new"),
    [
        ("B", "B[k * N + col]", "B[col * K + k]"),
        ("A", "A[row * K + k]", "A[k * M + row]"),
        ("A B", "A[row * K + k] * B[k * N + col]", "A[k * M + row] * B[col * K + k]"),
    ],
)
def test_products_of_transposed_matrices(write, which, old, new):
    """They are found, and that is told; such a launch can be said, too."""
    path = write(PLAIN.replace(old, new))
    _, rule, told = guessed(path)
    assert rule.endswith(f"transposed = {which}") and told == (
        f"It reads {which} column by column, as if it lay transposed: check that this is meant.",
    )
    assert lab.suite(kernel_from(path, rule.removeprefix("// launch: ")), on_gpu=False).passed
    leading = PLAIN.replace(old, new).replace("k * M", "k * lda").replace("col * K", "col * ldb")
    path = write(leading.replace("int K)", "int K, int lda, int ldb)"))
    said = f"grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), transposed = {which}"
    assert lab.check(kernel_from(path, said), 20, 30, 40, on_gpu=False).passed


@pytest.mark.parametrize(
    ("sizes", "roles"),
    [
        ("int N, int M, int K", "N M K"),
        ("int n, int m, int p", "n m p"),
        ("int p, int n, int m", "p n m"),
    ],
)
def test_rows_and_columns_under_exchanged_names(write, sizes, roles):
    rows, inner, columns = ("N", "K", "M") if "N" in sizes else ("n", "m", "p")
    text = PLAIN.replace("int M, int N, int K", sizes).replace("row >= M", f"row >= {rows}")
    text = text.replace("col >= N", f"col >= {columns}").replace("k < K", f"k < {inner}")
    text = text.replace("* K + k", f"* {inner} + k").replace("* N + col", f"* {columns} + col")
    kernel, rule, _ = guessed(write(text))
    place = dict(zip(roles.split(), rule.partition("arguments = A B C ")[2].split(), strict=True))
    assert (place[rows], place[columns], place[inner]) == ("M", "N", "K")
    assert lab.check(kernel, 20, 30, 40, on_gpu=False).passed


def test_the_case_that_is_explained_is_a_long_one(write, capsys):
    """With K = 1, a last tile that is left out is all there is; and a race of blocks is named beside what it leaves."""
    launch = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)\n"
    assert main(["check", str(write(launch + PLAIN.replace("k < K", "k < K / 16 * 16"))), "--simulate"]) == 1
    assert "The sums stop at k = 16 of" in capsys.readouterr().out
    split = PLAIN.replace("int k = 0; k < K", "int k = blockIdx.z * K / 4; k < (blockIdx.z + 1) * K / 4")
    launch = launch.replace("M, 16)),", "M, 16), 4),")
    assert main(["check", str(write(launch + split.replace("] = sum", "] += sum"))), "--simulate"]) == 1
    said = capsys.readouterr().out
    assert "The sums begin at k = " in said and "Another case has a race: mine, line" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "float* A, float* B, float* C, Sizes of",
            "got Sizes of, no number, which cannot be checked as it is, needs a",
        ),
        ("float* A, float* B, float* C, int3 of", "got int3 of, no number, which cannot be checked as it is, needs a"),
        ("float* A, float* B, float* C", "if these are constants, make a copy of the kernel that takes int M"),
        (
            "Sizes A, Sizes B, Sizes C",
            "needs a copy of the kernel that takes pointers and numbers as arguments of their",
        ),
        (
            "int* A, int* B, int* C, int M, int N, int K",
            "got A of int, B of int and C of int, needs all of float, double",
        ),
        (
            "float* x, float* w, float* bias, float* y, int M, int N, int K",
            "got pointers x, w, bias, y, which cannot be checked as it is, needs A, B and C: a copy",
        ),
    ],
)
def test_kernels_that_cannot_be_checked_as_they_are(write, arguments, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        guessed(write(f"struct Sizes {{ int of[3]; }};\n__global__ void k({arguments}) {{ }}"))


@pytest.mark.parametrize(
    ("members", "arguments", "types"),
    [
        ("double *data; size_t rows, cols;", "of C, of A, of B", "double"),
        ("size_t n_cols, n_rows; float* data;", "of m, of n, of out", "float"),
    ],
)
def test_structs_of_matrices_under_other_names(write, members, arguments, types):
    names = re.findall(r"of (\w+)", arguments)
    A, B, C = sorted(names) if "C" in names else names
    rows, cols = ("n_rows", "n_cols") if "n_rows" in members else ("rows", "cols")
    text = f"""struct of {{ {members} }};
__global__ void product({arguments}) {{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= {C}.{rows} || col >= {C}.{cols}) return;
    {types} sum = 0;
    for (int k = 0; k < {A}.{cols}; ++k) sum += {A}.data[row * {A}.{cols} + k] * {B}.data[k * {B}.{cols} + col];
    {C}.data[row * {C}.{cols} + col] = sum + 0 * {B}.{rows};
}}"""
    kernel, *_ = guessed(write(text))
    assert kernel.types.operand == {"float": np.float32, "double": np.float64}[types] and lab.check(
        kernel, 20, 30, 40, on_gpu=False
    )
    for other in (members.replace("rows", "count"), members + "float* more;"):
        with pytest.raises(
            ArgumentError, match=r"got of \w, no number, which cannot be checked as it is, needs a copy"
        ):
            guessed(write(text.replace(members, other)))


def test_lines_stay_where_they_are_where_structs_are_unpacked(write):
    run = sg.simulate(guessed(write(GUIDES))[0], *sg.matrices(32, 32, 32, on_gpu=False))
    waits = [number for number, line in enumerate(GUIDES.splitlines(), 1) if "__syncthreads" in line]
    assert [line for line, counts in sorted(run.lines.items()) if counts.by_class["barrier"]] == waits


def test_sizes_in_a_template_are_not_taken_for_tiles(write):
    text = PLAIN.replace("__global__", "template <int N = 64>\n__global__").replace(
        "int M, int N, int K", "int M, int K"
    )
    with pytest.raises(
        ArgumentError, match="got int N = 64 in its template, which cannot be checked as it is, needs a copy"
    ):
        guessed(write("// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)\n" + text))


def test_a_macro_is_told_from_a_template_parameter(write):
    with pytest.raises(ArgumentError, match=r"TILE: .* needs one of none: it is a constant there, so change the file"):
        guessed(write(SQUARE), TILE=8)


def test_ptx_is_for_ptxsim(write):
    with pytest.raises(ArgumentError, match="python -m ptxsim runs PTX"):
        guessed(write(".version 8.0", "mine.ptx"))
    assert main(["check", str(write(".version 8.0", "mine.ptx"))]) == 2


def test_sizes_that_host_code_copies_to_constants_are_told_of(write, capsys):
    text = "__constant__ int M, N, unused, K = 9;\n" + PLAIN.replace("int M, int N, int K", "int K")
    text = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), arguments = A B C K\n" + text
    assert main(["check", str(write(text)), "--simulate", "--sizes", "20"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "M, N: 0 here" in said and "The result is nothing but zeros" in said


def test_an_endless_kernel_is_told_after_its_first_case(write, capsys):
    """Even where that one takes longer than other processes take to start."""
    endless = PLAIN.replace("    if (row >= M", "    while (true) { C[0] = 1; }\n    if (row >= M")
    launch = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab.side_by_side.SOON", 0.0)
        assert main(["check", str(write(launch + endless)), "--simulate"]) == 1
    assert "mine: cases that fail, 1 of 1" in capsys.readouterr().out


def test_a_header_ends_where_its_line_does(write):
    """Prose beneath it is no part of it; another key is, and what follows a comma."""
    for more in ("// with C = A times B, as usual\n", "// the first try\n"):
        kernel, guess, _ = guessed(write(f"// launch: rules = BLAS\n{more}{PLAIN}"))
        assert guess.endswith("rules = BLAS") and kernel.family.rule.strict
    kernel, guess, _ = guessed(
        write(f"// launch: grid = (cdiv(N, 8), cdiv(M,\n//  8))\n// block = (8, 8)\n// so\n{PLAIN}")
    )
    assert (kernel.threads, guess) == (64, "")


def test_a_kernel_of_the_contract_may_say_its_rules(write):
    source = find("05").source
    given = {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8}
    kernel, guess, told = guessed(write(f"// launch: rules = BLAS\n{source}"), **given)
    assert (guess, told) == ("", ()) and kernel.parameters == guessed(write(source), **given)[0].parameters


def test_an_infinite_alpha_where_there_is_nothing_to_multiply(write, capsys):
    """Where K = 0 BLAS leaves βC, whatever α is; a kernel that multiplies its sum of 0 is told so."""
    text = BLAS_LIKE.replace("block = (16, 16)", "block = (16, 16), rules = BLAS")
    text = text.replace("int row", "size_t row").replace("int k = 0; k < K;", "size_t k = 0; alpha != 0 && k < K;")
    old = "(beta == 0 ? 0 : beta * C[row * N + col])"
    for product, code in (("alpha * sum", 1), ("(alpha == 0 || K == 0 ? 0 : alpha * sum)", 0)):
        right = text.replace("alpha * sum + beta * C[row * N + col]", f"{product} + {old}")
        assert main(["check", str(write(right))]) == code
        assert ("C is to be βC whatever α is" in capsys.readouterr().out) == bool(code)


def test_alpha_and_beta_by_pointer(write):
    """The kernel takes them as cuBLAS does where its pointers are the device's, with `+=` too."""
    text = BLAS_LIKE.replace("float alpha", "const float* alpha").replace("float beta", "float *beta")
    text = text.replace("alpha * sum + beta * C", "*alpha * sum + *beta * C")
    assert lab.suite(kernel_from(write(text)), on_gpu=False).passed
    wrong = text.replace("*alpha * sum", "alpha[0] * alpha[0] * sum")
    assert not lab.suite(kernel_from(write(wrong)), on_gpu=False).passed
    generic = text.replace("float", "T").replace("__global__", "template <typename T>\n__global__")
    assert lab.check(kernel_from(write(generic), T="double"), 20, 30, 40, -1.5, 0.75, on_gpu=False)


OF_SIZES = f"""\
struct Sizes {{ int M, N, K; }};
__global__ void product(const float* A, const float* B,
                        float* C, const Sizes of)
{{{ROW_AND_COLUMN}
    if (row >= of.M || col >= of.N) return;
    float sum = 0;
    for (int k = 0; k < of.K; ++k) sum += A[row * of.K + k] * B[k * of.N + col];
    C[row * of.N + col] = sum;
}}
"""
OF_ALL = """\
struct Arguments {
    const float *A, *B;
    float* C;
    unsigned M, N, K;
    int lda, ldb, ldc;
    float alpha, beta;
};
__device__ float sum_of(const Arguments& of, int row, int col)
{
    float sum = 0;
    for (int k = 0; k < of.K; ++k) sum += of.A[row * of.lda + k] * of.B[k * of.ldb + col];
    return sum;
}
__global__ void product(const __grid_constant__ Arguments of)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= of.M || col >= of.N) return;
    of.C[row * of.ldc + col] = of.alpha * sum_of(of, row, col) + of.beta * of.C[row * of.ldc + col];
}
"""


@pytest.mark.parametrize("text", [OF_SIZES, OF_ALL], ids=["sizes", "all arguments"])
def test_a_struct_of_sizes_or_of_all_arguments(write, text):
    kernel, guess, _ = guessed(write(text))
    assert "(cdiv(N, 16), cdiv(M, 16))" in guess and lab.suite(kernel, on_gpu=False).passed


HALF2 = """\
#include <cuda_fp16.h>
__global__ void product(const half* A, const half2* B, half2* C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N / 2) return;
    half2 sum = __float2half2_rn(0.0f);
    for (int k = 0; k < K; ++k) sum = __hfma2(__half2half2(A[row * K + k]), B[k * (N / 2) + col], sum);
    C[row * (N / 2) + col] = sum;
}
"""


def test_pairs_of_halves_and_sums_of_them(write):
    """Pointers to vectors are pointers to elements; a sum in float16 has its own bound, and cases as long as that."""
    said = "grid = (cdiv(N, 32), cdiv(M, 16)), block = (16, 16), multiples = (1, 2, 1)"
    kernel = guessed(write(HALF2), "multiples = (1, 2, 1)")[0]
    assert kernel.types.roundoff == 2.0**-11 and kernel.family.rule.grid == "(cdiv(N, 32), cdiv(M, 16))"
    assert lab.suite(kernel, on_gpu=False).passed
    short = guessed(write(HALF2.replace("k < K", "k < K - K / 8")), said)[0]
    assert not lab.suite(short, on_gpu=False).passed
    wide = HALF2.replace("half2 sum = __float2half2_rn(0.0f)", "float2 sum = {}")
    wide = wide.replace("= sum", "= __float22half2_rn(sum)")
    wide = re.sub(r"sum = __hfma2.*", "add(sum, __half2float(A[row * K + k]), B[k * (N / 2) + col]);", wide)
    adds = (
        "__device__ void add(float2& to, float a, half2 b) { to.x += a * __low2float(b), to.y += a * __high2float(b); }"
    )
    kernel = guessed(write(wide.replace("__global__", f"{adds}\n__global__")), said)[0]
    assert kernel.types.roundoff == 2.0**-23 and lab.suite(kernel, on_gpu=False).passed


def test_launches_that_the_sources_numbers_tell(write):
    """Blocks of 32 × 8, counted in those numbers; tiles whose threads have no name."""
    by_numbers = PLAIN.replace("blockIdx.y * blockDim.y", "blockIdx.y * 8").replace(
        "blockIdx.x * blockDim.x", "blockIdx.x * 32"
    )
    assert "grid = (cdiv(N, 32), cdiv(M, 8)), block = (32, 8)" in guessed(write(by_numbers))[1]
    turned = by_numbers.replace(
        "int row = blockIdx.y * 8 + threadIdx.y, col", "int col = blockIdx.y * 8 + threadIdx.y, row"
    )
    assert turned != by_numbers
    _, guess, told = guessed(write(turned.replace("B[k * N + col]", "B[col * K + k]")))
    assert guess.endswith("transposed = B") and "block = (32, 8)" in guess and "as if it lay transposed" in told[0]


def test_one_of_several_launches(write):
    """The one that turns the fewest flags on is of the plain product."""
    text = PLAIN.partition("int main")[0].replace("__global__", "template <bool TURNED>\n__global__")
    text = text.replace("B[k * N + col]", "(TURNED ? B[col * K + k] : B[k * N + col])")
    way = "product<{}><<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);"
    run = f"void run(float* A, float* B, float* C, int M, int N, int K, bool t)\n{{ if (t) {way.format('true')}\n"
    kernel, _, told = guessed(write(f"{text}{run}else {way.format('false')} }}"))
    assert ", one of 2," in told[0] and kernel.parameters == {"TURNED": 0} and lab.suite(kernel, on_gpu=False).passed
