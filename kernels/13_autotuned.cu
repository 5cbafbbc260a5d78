// 13 · Autotuned: every multiprocessor gets an equal share of the work, whatever the shape.
//
// What changed: tiles that fill no whole round of the GPU are no longer computed by a block each.
// Their multiply steps are laid end to end and cut into equal shares, one per block, so that a block
// may begin in the middle of one tile's sum and end in the middle of the next one's. Partial sums
// meet in a workspace; whoever brings the last one adds them all, in the order of k. Nobody waits
// for anybody, and the same bits come out at every run. The loop is leaner too: what is left of K
// beyond whole steps comes first, so that no later step needs guards; what lies beyond the matrix
// repeats its last row or column, or is zero; the barrier comes before the last fragments of a pair
// are used up; and the multiply-adds come in an order, with sums in registers, that seldom ask a
// register bank for two numbers at once.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. SLICES: groups of warps that share the depth of the tiles and add
// up what they have. STAGES: pairs of tiles; 0 fetches through registers, for GPUs before 8.0.
// WORDS: words of a row that are fetched at once. BLOCKS: blocks that one SM is to hold. SHARING:
// whether blocks may share tiles; where none does, what that takes is not even compiled. A tile of
// one row or column goes another way, for vectors: nothing is used twice there, and nothing goes
// through shared memory.
//
// The grid is `whole` blocks with a tile each, and `shares` blocks that share the remaining tiles.
// `workspace` holds BM × BN words for each share and each remaining tile, `arrived` a word, zero
// before and after. `group` rows of tiles are walked column by column, for what L2 can hold.

#include "places.cuh"
#include "multiply.cuh"
#include "output.cuh"
#include "shares.cuh"
#include "slices.cuh"
#include "vectors.cuh"
#include "words.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int SLICES, int STAGES,
          int WORDS, int BLOCKS, int SHARING>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32 * SLICES, BLOCKS)
autotuned(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
          float* workspace, unsigned* arrived, unsigned whole, unsigned shares, unsigned group)
{
    constexpr int sliceThreads = BM / WM * (BN / WN) * 32;  // threads of a slice
    constexpr int takers = TM % SLICES == 0 ? SLICES : 1;  // slices that are left with rows of the sum
    constexpr int rowsOut = TM / takers;
    constexpr int apart = sliceThreads * takers;
    extern __shared__ __align__(16) char tiles[];

    const int slice = threadIdx.x / sliceThreads, inSlice = threadIdx.x % sliceThreads;
    const Thread me{slice, inSlice, inSlice / 32, int(threadIdx.x % 32)};

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned tilesM = (unsigned(M) + BM - 1) / BM, tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned steps = K > 0 ? (unsigned(K) + BK - 1) / BK : 1;

    Share share{whole, shares, steps};
    if (!share.find<SHARING>(tilesM, tilesN)) return;
    Piece piece;
    while (share.next(piece)) {
        const unsigned tile = piece.tile, begin = piece.begin, end = piece.end;
        const unsigned band = tile / (group * tilesN), inBand = tile % (group * tilesN);
        const unsigned high = tilesM - band * group < group ? tilesM - band * group : group;
        Corner corner{size_t(band * group + inBand % high) * BM, size_t(inBand / high) * BN};
        corner.rows = int(M - corner.row0);
        corner.cols = int(N - corner.col0);
        const int firstK = int(K - (long long)(steps - begin) * BK);  // negative where step 0 begins with zeros

        constexpr bool vector = BM == 1 || BN == 1;
        Places places;
        float sum[rowsOut][TN];
        float acc[TM][TN] = {};
        if constexpr (BN == 1)
            matrix_times_vector<BK, WM, SLICES, WORDS>(acc, A, B, K, firstK, end - begin, me, corner, places);
        else if constexpr (BM == 1)
            vector_times_matrix<BK, WN, SLICES, WORDS>(acc, A, B, N, K, firstK, end - begin, me, corner, places);
        else
            multiply_tiles<BM, BN, BK, WM, WN, SLICES, STAGES, WORDS>(acc, A, B, N, K, firstK, begin, end, tiles, me, corner, places);

        if constexpr (SLICES == 1) {
            #pragma unroll
            for (int m = 0; m < TM; ++m)
                #pragma unroll
                for (int n = 0; n < TN; ++n) sum[m][n] = acc[m][n];
        } else {
            add_slices<SLICES, sliceThreads>(sum, acc, tiles, me);
        }

        bool complete = true;
        if (SHARING && (begin > 0 || end < steps))
            meet<apart>(sum, share, piece, workspace, arrived, me.slice < takers, complete);

        constexpr bool staged = WORDS < 4 && !vector;
        if constexpr (staged) __syncthreads();             // all warps have read their last fragments
        if (complete && me.slice < takers) {
            const float scale = K > 0 ? alpha : 0.0f;
            const bool inFours = (BN == 1 ? M : N) % 4 == 0 && size_t(C) % 16 == 0;
            if constexpr (staged) {
                write_staged<WM, WN, TM>(sum, tiles, C, N, corner, places, me.slice, me.lane, scale, beta);
                __syncthreads();
                continue;
            }
            write(sum, C, N, corner, places, me.slice, scale, beta, inFours);
        }
        __syncthreads();                                   // the buffers are free for the next tile
    }
}
