// 08 · Conflict free: lanes that are served together never want different words of the same bank.
//
// What changed: where things lie. A thread's columns come in groups of four, with the groups of its
// neighbours between them, so that lanes side by side read words side by side; its rows likewise.
// Row k of the tile of A is swizzled, its fours in another order for every four k, so that the lanes
// that hold different k of one row of A write to different banks.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. TM, TN: rows and columns
// of C per thread. BLOCKS: blocks that one SM should hold, which limits the registers of a thread.
#include "edges.cuh"

template <int BM, int BN, int BK, int TM, int TN, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN), BLOCKS)
conflict_free(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    constexpr int threads = BM * BN / (TM * TN);
    constexpr int stepA = threads / (BK / 4);              // rows of a tile that are fetched at once
    constexpr int stepB = threads / (BN / 4);
    static_assert(BK % 4 == 0 && TM % 4 == 0 && TN % 4 == 0, "rows and fragments come in fours");
    static_assert(threads % (BK / 4) == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % (BN / 4) == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    constexpr int nextM = BM / TM * 4, nextN = BN / TN * 4;  // from one group of four to a thread's next
    static_assert(128 % BK == 0 && BK <= 32 && nextM % 32 == 0, "the swizzle moves fours within 32 words, no group");
    __shared__ __align__(16) float As[BK][BM];             // transposed: its rows are columns of A
    __shared__ __align__(16) float Bs[BK][BN];
    auto swizzle = [](int k) { return k / 4 * (128 / BK) % 32; };  // what row k's places are XORed with

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int tileRow = threadIdx.x / (BN / TN) * 4;       // this thread's first place in the tile of C
    const int tileCol = threadIdx.x % (BN / TN) * 4;
    const int rowA = threadIdx.x / (BK / 4), colA = threadIdx.x % (BK / 4) * 4;  // and in what is fetched at once
    const int rowB = threadIdx.x / (BN / 4), colB = threadIdx.x % (BN / 4) * 4;
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on
    const bool inside = rows >= BM && cols >= BN && aligned(A, K) && aligned(B, N) && aligned(C, N);

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    const float* a = A + (row0 + rowA) * K + colA;         // where this thread starts to fetch
    const float* b = B + size_t(rowB) * N + col0 + colB;

    float acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BK, a += BK, b += size_t(BK) * N) {
        const int depth = int(K - k0);                     // the rest of the sum
        auto fetch = [&](bool whole) {
            for (int i = 0; i < BM; i += stepA) {
                const float4 four = load4(a + size_t(i) * K, rowA + i < rows ? depth - colA : 0, whole);
                As[colA + 0][(rowA + i) ^ swizzle(colA)] = four.x;
                As[colA + 1][(rowA + i) ^ swizzle(colA)] = four.y;
                As[colA + 2][(rowA + i) ^ swizzle(colA)] = four.z;
                As[colA + 3][(rowA + i) ^ swizzle(colA)] = four.w;
            }
            for (int i = 0; i < BK; i += stepB)
                *reinterpret_cast<float4*>(&Bs[rowB + i][colB]) =
                    load4(b + size_t(i) * N, rowB + i < depth ? cols - colB : 0, whole);
        };
        if (inside && depth >= BK) fetch(true);            // all known to be there: no guards are compiled
        else fetch(false);
        __syncthreads();                                   // the tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragA[TM], fragB[TN];                    // all that this k needs of the tiles
            for (int m = 0; m < TM; ++m) fragA[m] = As[k][(tileRow ^ swizzle(k)) + m / 4 * nextM + m % 4];
            for (int n = 0; n < TN; ++n) fragB[n] = Bs[k][tileCol + n / 4 * nextN + n % 4];
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n)
                    acc[m][n] += fragA[m] * fragB[n];
        }
        __syncthreads();                                   // all threads have read them
    }

    finish<nextM, nextN>(acc, K > 0 ? alpha : 0.0f, beta, C, N, row0, col0, tileRow, tileCol, rows, cols, inside);
}
