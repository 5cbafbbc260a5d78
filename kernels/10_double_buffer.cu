// 10 · Double buffer: the next tiles are fetched while these are multiplied.
//
// What changed: there are two of each tile. While the block works through one pair, the elements of
// the next travel from global memory to registers; at the end they are written to the other pair.
// Nobody writes what somebody may still read, so that one barrier per tile is enough.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. BLOCKS: blocks that one SM should hold, which limits the registers.
#include "edges.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN), BLOCKS)
double_buffer(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
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
    __shared__ __align__(16) float As[2][BK][BM];          // transposed: its rows are columns of A
    __shared__ __align__(16) float Bs[2][BK][BN];
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

    float4 nextA[BM / stepA], nextB[BK / stepB];           // what this thread has fetched of the next tiles
    auto fetch = [&](unsigned k0) {
        const int depth = int(K - k0);                     // the rest of the sum
        auto load = [&](bool whole) {
            for (int i = 0; i < BM / stepA; ++i)
                nextA[i] = load4(a + size_t(i * stepA) * K, rowA + i * stepA < rows ? depth - colA : 0, whole);
            for (int i = 0; i < BK / stepB; ++i)
                nextB[i] = load4(b + size_t(i * stepB) * N, rowB + i * stepB < depth ? cols - colB : 0, whole);
        };
        if (inside && depth >= BK) load(true);             // all known to be there: no guards are compiled
        else load(false);
        a += BK;
        b += size_t(BK) * N;
    };
    auto store = [&](int stage) {
        for (int i = 0; i < BM / stepA; ++i) {
            As[stage][colA + 0][(rowA + i * stepA) ^ swizzle(colA)] = nextA[i].x;
            As[stage][colA + 1][(rowA + i * stepA) ^ swizzle(colA)] = nextA[i].y;
            As[stage][colA + 2][(rowA + i * stepA) ^ swizzle(colA)] = nextA[i].z;
            As[stage][colA + 3][(rowA + i * stepA) ^ swizzle(colA)] = nextA[i].w;
        }
        for (int i = 0; i < BK / stepB; ++i)
            *reinterpret_cast<float4*>(&Bs[stage][rowB + i * stepB][colB]) = nextB[i];
    };

    float acc[TM][TN] = {};
    int stage = 0;                                         // the pair of tiles that is multiplied
    if (K > 0) {
        fetch(0);
        store(0);
    }
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        __syncthreads();                                   // this pair is complete, and nobody reads the other

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragA[TM], fragB[TN];                    // all that this k needs of the tiles
            for (int m = 0; m < TM; ++m) fragA[m] = As[stage][k][(tileRow ^ swizzle(k)) + m / 4 * nextM + m % 4];
            for (int n = 0; n < TN; ++n) fragB[n] = Bs[stage][k][tileCol + n / 4 * nextN + n % 4];
            if (k == 0 && more) fetch(k0 + BK);            // once the first fragments are on their way
            for (int m = 0; m < TM; ++m)
                for (int i = 0; i < TN; ++i) {
                    const int n = m % 2 ? TN - 1 - i : i;  // to and fro
                    acc[m][n] += fragA[m] * fragB[n];
                }
        }
        stage = 1 - stage;
        if (more) store(stage);
    }

    finish<nextM, nextN>(acc, K > 0 ? alpha : 0.0f, beta, C, N, row0, col0, tileRow, tileCol, rows, cols, inside);
}
