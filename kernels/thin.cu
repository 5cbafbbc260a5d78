// Not a rung: 22's way for products too thin or too small for tensor cores. A lane has a few rows of one column.
//
// A block has BM × BN elements of C, a warp WM × WN of them, with WN = BN up to 32: so many lanes have a column each,
// and the others of the warp the next k. SLICES warps share the sums of the same elements, too. The loads of `ahead` k
// are under way together: none has a guard, or the compiler would multiply before it loads the rest. Rows may begin
// anywhere. BITS of an element of C: 32 for float, 16 for T.
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
    wait_for_last();

    float acc[WM] = {};
    constexpr int stride = deep * SLICES, round = stride * ahead;
    const unsigned depth = K;                              // the loop may end past 2³¹
    const unsigned begin = slice * deep + lane / WN;       // this lane's first k
    const T* fromA[WM];                                    // rows past the end repeat the last one, and are not written
    #pragma unroll
    for (int m = 0; m < WM; ++m) fromA[m] = A + min(row + m, size_t(M) - 1) * K + begin;
    const T* fromB = B + size_t(begin) * N + min(col, unsigned(N) - 1);
    for (unsigned k = slice * deep; k < depth; k += round) {
        const int last = int(K - k) - 1 - int(lane / WN);  // from this lane's k to its last; negative if it has none
        T a[WM][ahead], b[ahead];
        auto load = [&](bool whole) {
            #pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const int at = whole ? i * stride : min(i * stride, last);  // past the end the last k again, but zero
                const bool exists = whole || i * stride <= last;
                const T there = fromB[ptrdiff_t(at) * N];
                b[i] = exists ? there : T(0.0f);
                #pragma unroll
                for (int m = 0; m < WM; ++m) {
                    const T there = fromA[m][at];
                    a[m][i] = exists ? there : T(0.0f);
                }
            }
        };
        if (depth - k >= round) load(true);
        else load(false);
        #pragma unroll
        for (int i = 0; i < ahead; ++i)
            #pragma unroll
            for (int m = 0; m < WM; ++m) acc[m] = fmaf(float(a[m][i]), float(b[i]), acc[m]);
        #pragma unroll
        for (int m = 0; m < WM; ++m) fromA[m] += round;
        fromB += size_t(round) * N;
    }
    let_next_begin();                                      // earlier, its blocks would wait here and crowd some SMs
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
