// Not a rung: 22's way for a tall matrix A, which is read once, times one, two or four columns, all of them B.
//
// A block has BM rows of C and its BN columns; a warp has WM rows, and SLICES warps share the sums of the same. A lane
// has eight neighbouring k at a time. Rows of A and B itself begin at multiples of 16 bytes, K is a multiple of eight, and
// N is BN. BITS of an element of C: 32 for float, 16 for T.
#include "add_lanes.cuh"
#include "eight.cuh"
#include "overlap.cuh"
#include "result.cuh"

template <typename T, int BM, int BN, int WM, int WN, int SLICES, int BITS>
__global__ void __launch_bounds__(32 * BM / WM * SLICES)
tall(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C)
{
    static_assert(WN == BN, "a warp has all columns");
    __shared__ float sums[SLICES][BM][BN];
    const unsigned lane = threadIdx.x % 32, slice = threadIdx.x / 32 % SLICES, warp = threadIdx.x / 32 / SLICES;
    const size_t row = size_t(blockIdx.x) * BM + warp * WM;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const float scale = K > 0 ? alpha : 0.0f;              // without a product, alpha may be NaN
    let_next_begin();
    wait_for_last();

    float acc[WM][BN] = {};
    #pragma unroll 2
    for (unsigned k = (slice * 32 + lane) * 8; k < unsigned(K); k += SLICES * 256) {
        Eight<T> a[WM], b[BN];                             // b: eight rows of B, one after the other
        #pragma unroll
        for (int m = 0; m < WM; ++m)                       // rows past the end repeat the last one, and are not written
            a[m] = load_eight(A + min(row + m, size_t(M) - 1) * K + k);
        #pragma unroll
        for (int n = 0; n < BN; ++n) b[n] = load_eight(B + size_t(k) * BN + n * 8);
        #pragma unroll
        for (int i = 0; i < 8; ++i)
            #pragma unroll
            for (int n = 0; n < BN; ++n)
                #pragma unroll
                for (int m = 0; m < WM; ++m)
                    acc[m][n] = fmaf(float(a[m].of[i]), float(b[(i * BN + n) / 8].of[(i * BN + n) % 8]), acc[m][n]);
    }
    add_lanes<1>(acc);
    if (lane == 0)
        #pragma unroll
        for (int m = 0; m < WM; ++m)
            #pragma unroll
            for (int n = 0; n < BN; ++n) sums[slice][warp * WM + m][n] = acc[m][n];
    __syncthreads();                                       // the sums of all k are there
    for (unsigned i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const size_t m = size_t(blockIdx.x) * BM + i / BN;
        if (m >= M) break;
        float sum = 0.0f;
        for (int s = 0; s < SLICES; ++s) sum += sums[s][i / BN][i % BN];
        Result<T, BITS>& to = C[m * BN + i % BN];
        to = Result<T, BITS>(beta != 0.0f ? fmaf(scale, sum, beta * float(to)) : scale * sum);
    }
}
