// Matrix times column vector, and row vector times matrix. Each element of the matrix is used only once, so sharing it
// through shared memory gains nothing: every lane loads straight into registers what it multiplies.
#pragma once
#include "places.cuh"
#include "words.cuh"

// The steps of a piece in lots of COUNT steps, whose loads are in flight together. Where COUNT doesn't divide the number
// of steps, the first lot begins too early, and where BK doesn't divide K, even at a negative k.
template <int BK, int COUNT>
struct Lots {
    int least, last, first;                                // k: the least to be multiplied, and where lots end and begin

    __device__ Lots(int firstK, unsigned steps)
    {
        least = firstK > 0 ? firstK : 0;
        last = firstK + int(steps) * BK;
        first = last - int(steps + COUNT - 1) / COUNT * COUNT * BK;
    }

    // Calls multiply(k, guarded) for each step. Only if it is `guarded` may it reach elements before `least`.
    template <typename Multiply>
    __device__ void each(Multiply multiply) const
    {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) multiply(first + i * BK, true);
        for (int k = first + COUNT * BK; k < last; k += COUNT * BK)
            #pragma unroll
            for (int i = 0; i < COUNT; ++i) multiply(k + i * BK, false);
    }
};

// Multiplies rows of A by the vector B. A warp has four rows, and each lane has a part of every row. The four sums are
// a column of C, which lies in memory like a row.
template <int BK, int WM, int SLICES, int WORDS>
__device__ void matrix_times_vector(float (&acc)[1][4], const float* A, const float* B, int K, int firstK,
                                    unsigned steps, Thread me, Corner& corner, Places& places)
{
    static_assert(WM == 4 && BK == 128 * SLICES, "");
    const Lots<BK, 4> lots(firstK, steps);
    const int first = me.warp * 4;
    const float* a[4];
    for (int i = 0; i < 4; ++i)
        a[i] = A + (corner.row0 + (first + i < corner.rows ? first + i : corner.rows - 1)) * K;
    lots.each([&](int k, bool guarded) {
        #pragma unroll
        for (int w = 0; w < 4; w += WORDS) {
            const int mine = k + me.slice * 128 + (WORDS == 4 ? me.lane * 4 : me.lane + w * 32);
            const bool exists = !guarded || mine >= lots.least;
            const auto b = load<WORDS>(B + mine, exists);
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                // Single words begin anywhere, and several loads want the same sector: L1 is to keep it for them.
                const auto of = WORDS == 4 ? stream<WORDS>(a[i] + mine, exists) : load<WORDS>(a[i] + mine, exists);
                #pragma unroll
                for (int j = 0; j < WORDS; ++j) acc[0][i] += of.word[j] * b.word[j];
            }
        }
    });
    #pragma unroll
    for (int far = 16; far > 0; far /= 2)
        #pragma unroll
        for (int i = 0; i < 4; ++i) acc[0][i] += __shfl_xor_sync(~0u, acc[0][i], far);
    places.col = first;
    corner.cols = me.lane == 0 ? corner.rows : 0;          // all lanes have the same sums: one of them writes
    corner.rows = 1;
}

// Multiplies rows of A by columns of B. A warp has WN columns, four to a lane, and as many rows of B at a time as the
// lanes reach.
template <int BK, int WN, int SLICES, int WORDS>
__device__ void vector_times_matrix(float (&acc)[1][4], const float* A, const float* B, int N, int K, int firstK,
                                    unsigned steps, Thread me, Corner& corner, Places& places)
{
    constexpr int across = WN / 4, down = 32 / across;     // lanes side by side, and rows of B at once
    static_assert(BK == down * SLICES && WORDS != 2, "");
    const Lots<BK, WORDS < 4 ? 4 : 8> lots(firstK, steps);
    places.col = me.warp * WN + me.lane % across * 4;
    const int col = WORDS == 4 ? places.col : me.warp * WN + me.lane % WN, most = corner.cols - (WORDS == 4 ? 4 : 1);
    const float* b = B + corner.col0 + (col < most ? col : most);  // beyond the last column: never written to C
    lots.each([&](int k, bool guarded) {
        // Where B is read by single words, a lane has one column and four rows. Of A it loads the factor of one of
        // these rows, and gets the others from its neighbours.
        const int row = k + me.slice * down + (WORDS == 4 ? me.lane / across : me.lane / WN * 4);
        const int own = row + (WORDS == 4 ? 0 : me.lane % 4);
        const float a = load<1>(A + corner.row0 * K + own, !guarded || own >= lots.least).word[0];
        #pragma unroll
        for (int i = 0; i < 4 / WORDS; ++i) {
            const auto of = stream<WORDS>(b + (long long)(row + i) * N, !guarded || row + i >= lots.least);
            const float factor = WORDS == 4 ? a : __shfl_sync(~0u, a, me.lane / WN * WN + i);
            #pragma unroll
            for (int j = 0; j < WORDS; ++j) acc[0][j] += factor * of.word[j];
        }
    });
    #pragma unroll
    for (int far = 16; far >= WN / WORDS; far /= 2)
        #pragma unroll
        for (int i = 0; i < WORDS; ++i) acc[0][i] += __shfl_xor_sync(~0u, acc[0][i], far);
    if constexpr (WORDS == 1) {                            // now each lane gets four neighbours to write
        const float one = acc[0][0];
        #pragma unroll
        for (int i = 0; i < 4; ++i) acc[0][i] = __shfl_sync(~0u, one, me.lane % across * 4 + i);
    }
    if (me.lane >= across) corner.cols = 0;                // these lanes have the same sums: the others write
}
