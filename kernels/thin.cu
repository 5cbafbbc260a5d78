// Not a rung: 22's way for products that are too thin or too small for tensor cores. A lane has a few rows of one column.
//
// A block has BM × BN elements of C, a warp WM × WN of them, with WN = BN up to 32: so many lanes have a column each, and
// the others of the warp the next k. SLICES warps share the sums of the same elements, too. The loads of `ahead` k are
// under way together. Rows may begin anywhere. BITS of an element of C: 32 for float, 16 for T.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "overlap.cuh"
#include "result.cuh"

template <typename T, int BM, int BN, int WM, int WN, int SLICES, int BITS>
__global__ void __launch_bounds__(32 * BM / WM * SLICES)
thin(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C)
{
    constexpr int deep = 32 / WN, ahead = 8;               // k of a warp at a time; times that its loads are ahead
    static_assert(WN == BN && 32 % WN == 0, "a lane has one column");
    __shared__ float sums[BM / WM][SLICES][WM][32];
    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned lane = threadIdx.x % 32, slice = threadIdx.x / 32 % SLICES, warp = threadIdx.x / 32 / SLICES;
    const size_t row = size_t(blockIdx.x / tilesN) * BM + warp * WM;
    const unsigned col = blockIdx.x % tilesN * BN + lane % WN;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const float scale = K > 0 ? alpha : 0.0f;              // without a product, alpha may be NaN
    let_next_begin();
    wait_for_last();

    float acc[WM] = {};
    const int stride = deep * SLICES;
    for (int first = slice * deep + lane / WN; first < K; first += stride * ahead) {
        T a[WM][ahead], b[ahead];
        #pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int k = first + i * stride;
            b[i] = k < K && col < N ? B[size_t(k) * N + col] : T(0.0f);
            #pragma unroll
            for (int m = 0; m < WM; ++m) a[m][i] = k < K && row + m < M ? A[(row + m) * K + k] : T(0.0f);
        }
        #pragma unroll
        for (int i = 0; i < ahead; ++i)
            #pragma unroll
            for (int m = 0; m < WM; ++m) acc[m] = fmaf(float(a[m][i]), float(b[i]), acc[m]);
    }
    #pragma unroll
    for (int m = 0; m < WM; ++m) sums[warp][slice][m][lane] = acc[m];
    __syncthreads();                                       // the sums of all k are there
    if (slice > 0 || lane >= WN || col >= N) return;
    #pragma unroll
    for (int m = 0; m < WM; ++m) {
        if (row + m >= M) break;
        float sum = 0.0f;
        for (int s = 0; s < SLICES; ++s)
            #pragma unroll
            for (int k = 0; k < deep; ++k) sum += sums[warp][s][m][k * WN + lane];
        Result<T, BITS>& to = C[(row + m) * N + col];
        to = Result<T, BITS>(beta != 0.0f ? fmaf(scale, sum, beta * float(to)) : scale * sum);
    }
}
