// 09 · Warp tile: block, warp and thread each have a tile of C within that of the one above.
//
// What changed: lanes stand in squares of 2 × 2. Some GPUs (we counted on an H100 and an H200) serve a
// wide read in half as many wavefronts if every lane wants the same words as a certain neighbour. Each
// warp has a tile of its own, WM × WN, so squares fit however wide the block's tile is. A thread walks
// its tile to and fro: in source order, each multiply-add shares a factor with the one before.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. BLOCKS: blocks that one SM should hold, which limits the registers.
#include "edges.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN), BLOCKS)
warp_tile(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    constexpr int threads = BM * BN / (TM * TN);
    constexpr int stepA = threads / (BK / 4);              // rows of a tile that are fetched at once
    constexpr int stepB = threads / (BN / 4);
    static_assert(BK % 4 == 0 && TM % 4 == 0 && TN % 4 == 0, "rows and fragments come in fours");
    static_assert(threads % (BK / 4) == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % (BN / 4) == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    constexpr int lanesM = WM / TM, lanesN = WN / TN;      // lanes down and across a warp's tile
    static_assert(lanesM * lanesN == 32 && lanesM % 2 == 0 && lanesN % 2 == 0, "32 lanes share the tile of a warp");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    constexpr int nextM = lanesM * 4, nextN = lanesN * 4;  // from one group of four to a thread's next
    static_assert(128 % BK == 0 && BK <= 32 && nextM % 32 == 0, "the swizzle moves fours within 32 words, no group");
    __shared__ __align__(16) float As[BK][BM];             // transposed: its rows are columns of A
    __shared__ __align__(16) float Bs[BK][BN];
    auto swizzle = [](int k) { return k / 4 * (128 / BK) % 32; };  // what row k's places are XORed with

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int laneM = lane / 2 % 2 + lane / (2 * lanesN) * 2;  // its place among the lanes: by squares of 2 × 2
    const int laneN = lane % 2 + lane / 4 % (lanesN / 2) * 2;
    const int tileRow = warp / (BN / WN) * WM + laneM * 4;     // this thread's first place in the tile of C
    const int tileCol = warp % (BN / WN) * WN + laneN * 4;
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
                for (int i = 0; i < TN; ++i) {
                    const int n = m % 2 ? TN - 1 - i : i;  // to and fro
                    acc[m][n] += fragA[m] * fragB[n];
                }
        }
        __syncthreads();                                   // all threads have read them
    }

    finish<nextM, nextN>(acc, K > 0 ? alpha : 0.0f, beta, C, N, row0, col0, tileRow, tileCol, rows, cols, inside);
}
