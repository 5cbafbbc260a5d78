// 12 · Stream-K: every block gets an equal share of the multiply steps, whatever the number of tiles.
//
// What changed: a block no longer has a tile of C. The multiply steps of all tiles, each BK deep, are laid end to end
// and cut into equal shares, one per block, so that a share may begin in the middle of one tile's sum and end in the
// middle of another's. Such blocks leave their parts of a sum in a workspace. Whichever brings the last part adds them
// all, in order of k, so that every run gives the same bits. No block waits for another.
//
// `shares` is the number of blocks. `workspace` has room for two parts per share, each of BM × BN words; `arrived` is a
// word for each tile, zero before and after.
//
// BM, BN: rows and columns of C per tile. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. STAGES: pairs of tiles. BLOCKS: blocks that one SM should hold.
#include "edges.cuh"
#include "parts.cuh"

// Starts to copy BYTES bytes into shared memory, or as many zeros where the matrix has nothing to copy.
template <int BYTES>
__device__ void copy(float* to, const float* from, bool exists)
{
    const unsigned address = __cvta_generic_to_shared(to);
    const int bytes = exists ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(address), "l"(from), "n"(BYTES), "r"(bytes));
}

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN), BLOCKS)
stream_k(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
         float* workspace, unsigned* arrived, unsigned shares)
{
    constexpr int threads = BM * BN / (TM * TN);
    constexpr int stepA = threads / BK;                    // rows of a tile that are fetched at once
    constexpr int stepB = threads / (BN / 4);
    static_assert(STAGES >= 2, "one to multiply, one under way");
    static_assert(TM % 4 == 0 && TN % 4 == 0, "rows and fragments come in fours");
    static_assert(threads % BK == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % (BN / 4) == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    constexpr int lanesM = WM / TM, lanesN = WN / TN;      // lanes down and across a warp's tile
    static_assert(lanesM * lanesN == 32 && lanesM % 2 == 0 && lanesN % 2 == 0, "32 lanes share the tile of a warp");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    constexpr int nextM = lanesM * 4, nextN = lanesN * 4;  // from one group of four to a thread's next
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];  // transposed: its rows are columns of A
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int laneM = lane / 2 % 2 + lane / (2 * lanesN) * 2;  // its place among the lanes: by squares of 2 × 2
    const int laneN = lane % 2 + lane / 4 % (lanesN / 2) * 2;
    const int tileRow = warp / (BN / WN) * WM + laneM * 4;     // this thread's first place in the tile of C
    const int tileCol = warp % (BN / WN) * WN + laneN * 4;
    const int rowA = threadIdx.x / BK, colA = threadIdx.x % BK;  // and in what is fetched at once
    const int rowB = threadIdx.x / (BN / 4), colB = threadIdx.x % (BN / 4) * 4;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    const unsigned tilesM = (unsigned(M) + BM - 1) / BM, tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned steps = K > 0 ? (unsigned(K) + BK - 1) / BK : 1;  // of one tile
    const size_t total = size_t(tilesM) * tilesN * steps;
    auto firstOf = [&](unsigned share) { return share * total / shares; };  // its first step
    auto ownerOf = [&](size_t step) { return unsigned(((step + 1) * shares - 1) / total); };  // whose step it is

    size_t end;                                            // of one tile's steps; the next tile begins there
    for (size_t step = firstOf(blockIdx.x), to = firstOf(blockIdx.x + 1); step < to; step = end) {
        const unsigned tile = unsigned(step / steps);
        const size_t head = size_t(tile) * steps;          // the tile's first step
        end = to < head + steps ? to : head + steps;       // the share ends in this tile, or goes on after it
        const unsigned firstK = unsigned(step - head) * BK;  // this share adds up products from here on, to lastK
        const unsigned lastK = end < head + steps ? unsigned(end - head) * BK : K;  // the last step may be short

        const size_t row0 = size_t(tile / tilesN) * BM;    // where the tile of C begins
        const size_t col0 = size_t(tile % tilesN) * BN;
        const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on
        const bool inside = rows >= BM && cols >= BN && aligned(B, N) && aligned(C, N);
        const float* a = A + (row0 + rowA) * K + firstK + colA;  // where this thread starts to fetch
        const float* b = B + size_t(firstK + rowB) * N + col0 + colB;

        auto fetch = [&](unsigned k0, int stage) {
            const int depth = int(lastK - k0);             // the rest of this part of the sum
            auto start = [&](bool whole) {
                for (int i = 0; i < BM; i += stepA)
                    copy<4>(&As[stage][colA][rowA + i], a + size_t(i) * K, whole || (rowA + i < rows && colA < depth));
                for (int i = 0; i < BK; i += stepB)
                    if (whole)
                        copy<16>(&Bs[stage][rowB + i][colB], b + size_t(i) * N, true);
                    else
                        for (int n = 0; n < 4; ++n)
                            copy<4>(&Bs[stage][rowB + i][colB + n], b + size_t(i) * N + n,
                                    rowB + i < depth && colB + n < cols);
            };
            if (inside && depth >= BK) start(true);        // all known to be there: no guards are compiled
            else if (k0 < lastK) start(false);
            asm volatile("cp.async.commit_group;");        // one group per tile, even if it is empty
            a += BK;
            b += size_t(BK) * N;
        };

        float acc[TM][TN] = {};
        int stage = 0, last = STAGES - 1;                  // the stage to multiply, and the one to fetch into
        #pragma unroll
        for (int s = 0; s < STAGES - 1; ++s) fetch(firstK + s * BK, s);
        for (unsigned k0 = firstK; k0 < lastK; k0 += BK) {
            asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");  // all groups but the newest
            __syncthreads();                               // for all threads: complete, and `last` is read no more

            #pragma unroll
            for (int k = 0; k < BK; ++k) {
                float fragA[TM], fragB[TN];                // all that this k needs of the tiles
                for (int m = 0; m < TM; ++m) fragA[m] = As[stage][k][tileRow + m / 4 * nextM + m % 4];
                for (int n = 0; n < TN; ++n) fragB[n] = Bs[stage][k][tileCol + n / 4 * nextN + n % 4];
                if (k == 1) fetch(k0 + (STAGES - 1) * BK, last);  // once the first fragments are there
                for (int m = 0; m < TM; ++m)
                    for (int i = 0; i < TN; ++i) {
                        const int n = m % 2 ? TN - 1 - i : i;  // to and fro
                        acc[m][n] += fragA[m] * fragB[n];
                    }
            }
            stage = stage + 1 < STAGES ? stage + 1 : 0;
            last = last + 1 < STAGES ? last + 1 : 0;
        }
        __syncthreads();                                   // for all threads: the stages are free for the next tile

        if (end - step < steps) {                          // other blocks have the rest of this tile's sum
            const unsigned first = ownerOf(head), others = ownerOf(head + steps - 1) - first;  // parts but one
            const Parts<threads, TM, TN> parts{workspace, arrived + tile, first, others};
            if (!parts.meet(acc, blockIdx.x)) continue;
        }

        finish<nextM, nextN>(acc, K > 0 ? alpha : 0.0f, beta, C, N, row0, col0, tileRow, tileCol, rows, cols, inside);
    }
}
