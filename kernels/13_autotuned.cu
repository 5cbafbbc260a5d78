// 13 · Autotuned: twenty-two settings of one kernel, and a model that chooses among them for each shape.
//
// What changed: the best tile depends on the shape, so the kernel has more parameters than 12, and takes every shape by
// a setting that suits it. What each parameter stands for has a file of its own: the loop (multiply.cuh, fetch.cuh),
// groups of warps that divide the depth of a step (slices.cuh), words of a row that begin anywhere (words.cuh,
// output.cuh), vectors (vectors.cuh). A tile may stay in one block, or share blocks with others as in 12: the host
// decides how many stay whole, none or some or all (shares.cuh).
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. SLICES: groups of warps that share the depth of the tiles and add
// up what they have. STAGES: pairs of tiles; 0 fetches through registers, for GPUs before 8.0.
// WORDS: words of a row that are fetched at once. BLOCKS: blocks that one SM should hold. SHARING:
// whether blocks may share tiles; where none does, the code for it is not compiled.
//
// The grid is `whole` blocks with a tile each, and `shares` blocks that share the remaining tiles.
// `workspace` holds BM × BN words for each share and each remaining tile, `arrived` a word, zero
// before and after. `group` rows of tiles are walked column by column, so that L2 holds what they read.

#include "places.cuh"
#include "multiply.cuh"
#include "output.cuh"
#include "shares.cuh"
#include "slices.cuh"
#include "vectors.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int SLICES, int STAGES,
          int WORDS, int BLOCKS, int SHARING>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32 * SLICES, BLOCKS)
autotuned(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
          float* workspace, unsigned* arrived, unsigned whole, unsigned shares, unsigned group)
{
    constexpr bool vector = BM == 1 || BN == 1, staged = WORDS < 4 && !vector;
    constexpr int sliceThreads = BM / WM * (BN / WN) * 32;  // threads of a slice
    constexpr int takers = TM % SLICES == 0 ? SLICES : 1;  // slices that add up rows: all, or the first
    constexpr int rowsOut = TM / takers;
    extern __shared__ __align__(16) char tiles[];

    const int slice = threadIdx.x / sliceThreads, inSlice = threadIdx.x % sliceThreads;
    const Thread me{slice, inSlice, inSlice / 32, int(threadIdx.x % 32)};
    const bool takes = me.slice < takers;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned tilesM = (unsigned(M) + BM - 1) / BM, tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned steps = K > 0 ? (unsigned(K) + BK - 1) / BK : 1;

    Share share{whole, shares, steps};
    if (!share.find<SHARING>(tilesM, tilesN)) return;
    for (Piece piece; share.next(piece);) {
        const unsigned begin = piece.begin, end = piece.end;
        const unsigned band = piece.tile / (group * tilesN), inBand = piece.tile % (group * tilesN);
        const unsigned high = tilesM - band * group < group ? tilesM - band * group : group;
        Corner corner{size_t(band * group + inBand % high) * BM, size_t(inBand / high) * BN};
        corner.rows = int(M - corner.row0);
        corner.cols = int(N - corner.col0);
        const int firstK = int(K - (long long)(steps - begin) * BK);  // negative where step 0 begins with zeros

        Places places;
        float acc[TM][TN] = {}, sum[rowsOut][TN];
        if constexpr (BN == 1)
            matrix_times_vector<BK, WM, SLICES, WORDS>(acc, A, B, K, firstK, end - begin, me, corner, places);
        else if constexpr (BM == 1)
            vector_times_matrix<BK, WN, SLICES, WORDS>(acc, A, B, N, K, firstK, end - begin, me, corner, places);
        else
            multiply_tiles<BM, BN, BK, WM, WN, SLICES, STAGES, WORDS>(acc, A, B, N, K, firstK, begin, end, tiles, me, corner, places);

        add_slices<SLICES, sliceThreads>(sum, acc, tiles, me);

        bool complete = true;
        if (SHARING && (begin > 0 || end < steps))
            complete = meet<sliceThreads * takers>(sum, share, piece, workspace, arrived, takes);

        // The compiler would compute what follows before the loop over K, and keep it in registers that the loop lacks.
        if constexpr (STAGES > 0) asm volatile("" : "+r"(N));
        const float scale = K > 0 ? alpha : 0.0f;
        if constexpr (staged) __syncthreads();             // all warps have read their last fragments
        if (complete && takes) {
            if constexpr (staged)
                write_staged<WM, WN, TM>(sum, tiles, C, N, corner, places, me.slice, me.lane, scale, beta);
            else
                write(sum, C, N, corner, places, me.slice, scale, beta, (BN == 1 ? M : N) % 4 == 0 && size_t(C) % 16 == 0);
        }
        if (!SHARING) break;                               // one tile, and no loop for the compiler
        __syncthreads();                                   // the buffers are free for the next tile
    }
}
