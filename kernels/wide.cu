// Not a rung: 22's way for one or two rows times a wide matrix B, which is read once, in words of eight columns.
//
// A block has BM rows and BN columns of C; each of its SLICES warps has other k. A lane has eight columns and eight k at
// a time, one after the other. Rows of A and B begin at multiples of 16 bytes, and M is BM. BITS of an element of C: 32
// for float, 16 for T.
#include "add_lanes.cuh"
#include "eight.cuh"
#include "overlap.cuh"
#include "result.cuh"

template <typename T, int BM, int BN, int WM, int WN, int SLICES, int BITS>
__global__ void __launch_bounds__(32 * SLICES)
wide(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C)
{
    constexpr unsigned across = BN / 8;                    // lanes side by side
    static_assert(BN % 8 == 0 && 32 % across == 0 && WM == BM && WN == BN, "lanes have eight columns");
    __shared__ float sums[SLICES][BM][BN];
    const unsigned lane = threadIdx.x % 32, slice = threadIdx.x / 32;
    const unsigned col = min(blockIdx.x * BN + lane % across * 8, unsigned(N) - 8);  // past the end the last, not used
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const float scale = K > 0 ? alpha : 0.0f;              // without a product, alpha may be NaN
    let_next_begin();
    wait_for_last();

    float acc[BM][8] = {};
    for (unsigned begin = slice * (32 / across); begin < unsigned(K) / 8; begin += SLICES * (32 / across)) {
        const unsigned mine = begin + lane / across, k = min(mine * 8, unsigned(K) - 8);
        Eight<T> a[BM], b[8];
        #pragma unroll
        for (int m = 0; m < BM; ++m) a[m] = load_eight(A + m * size_t(K) + k);
        #pragma unroll
        for (int i = 0; i < 8; ++i) b[i] = load_eight(B + (k + i) * size_t(N) + col);
        __syncwarp();                                      // or the compiler multiplies each before it loads the next
        if (mine < unsigned(K) / 8)
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int m = 0; m < BM; ++m)
                    #pragma unroll
                    for (int n = 0; n < 8; ++n) acc[m][n] = fmaf(float(a[m].of[i]), float(b[i].of[n]), acc[m][n]);
    }
    add_lanes<across>(acc);
    if (lane < across)
        #pragma unroll
        for (int m = 0; m < BM; ++m)
            #pragma unroll
            for (int n = 0; n < 8; ++n) sums[slice][m][lane * 8 + n] = acc[m][n];
    __syncthreads();                                       // the sums of all k are there
    for (unsigned i = threadIdx.x; i < BM * BN; i += 32 * SLICES) {
        const unsigned m = i / BN, n = blockIdx.x * BN + i % BN;
        if (n >= N) continue;
        float sum = 0.0f;
        for (int s = 0; s < SLICES; ++s) sum += sums[s][m][i % BN];
        Result<T, BITS>& to = C[m * size_t(N) + n];
        to = Result<T, BITS>(beta != 0.0f ? fmaf(scale, sum, beta * float(to)) : scale * sum);
    }
}
