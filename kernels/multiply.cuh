// The loop over K: multiplies tiles of A and B while the next ones come.
//
// It differs from 12's in four ideas, besides a thread's tile and the number of buffers. What K has beyond whole steps
// comes first, before k = 0, so that no later step needs a guard. The barrier comes before the last fragments of a pair
// are used up, so that multiply-adds cover the first reads behind it. Fragments are read one k ahead. And a sum's
// register is odd where its factor from B has an even one, so that a multiply-add seldom needs two numbers from one bank.
#pragma once
#include "fetch.cuh"

// Adds to `acc` this thread's part of steps `begin` to before `end` of a tile of C. Step 0 begins at firstK, which is
// negative where BK doesn't divide K.
template <int BM, int BN, int BK, int WM, int WN, int SLICES, int STAGES, int WORDS, int TM, int TN>
__device__ void multiply_tiles(float (&acc)[TM][TN], const float* A, const float* B, int N, int K, int firstK,
                               unsigned begin, unsigned end, char* tiles, Thread me, const Corner& corner, Places& places)
{
    constexpr int threads = BM / WM * (BN / WN) * 32 * SLICES, depth = BK / SLICES;  // a slice's part of a step
    constexpr int buffers = STAGES ? STAGES : 3, ahead = buffers - 1;
    static_assert(STAGES == 0 || STAGES > 2, "one to multiply, one complete, one under way");
    static_assert(TM % 4 == 0 && TN % 4 == 0 && depth % 2 == 0, "fragments come in fours, and in pairs");
    constexpr int lanesM = WM / TM, lanesN = WN / TN;      // lanes down and across a warp's tile
    static_assert(lanesM * lanesN == 32 && BM % WM == 0 && BN % WN == 0, "32 lanes share the tile of a warp");
    constexpr bool squares = lanesM % 2 == 0 && lanesN % 2 == 0;
    constexpr int halfN = squares ? lanesN / 2 : 1;
    const int laneM = squares ? me.lane / 2 % 2 + me.lane / (2 * lanesN) * 2 : me.lane / lanesN;
    const int laneN = squares ? me.lane % 2 + me.lane / 4 % halfN * 2 : me.lane % lanesN;
    places.run = 4;                                        // neighbouring rows of a thread
    places.nextRow = lanesM * 4;
    places.nextCol = lanesN * 4;
    places.row = me.warp / (BN / WN) * WM + laneM * 4;
    places.col = me.warp % (BN / WN) * WN + laneN * 4;

    using Tiles = Fetch<BM, BN, BK, threads, STAGES, WORDS>;
    constexpr int pitchA = Tiles::pitchA, pair = Tiles::pair, copies = Tiles::copiesA + Tiles::copiesB;
    constexpr bool few = WORDS == 4 && copies <= 6;
    const unsigned base = __cvta_generic_to_shared(tiles);
    Tiles fetch(A, B, N, K, firstK, corner, base);
    unsigned readA = base + 4 * (me.slice * depth * pitchA + places.row);
    unsigned readB = base + 4 * (BK * pitchA + me.slice * depth * BN + places.col);

    #pragma unroll 1
    for (int s = 0; s < ahead; ++s) {
        if (begin + s < end) {
            #pragma unroll
            for (int i = 0; i < copies; ++i) fetch.start(i, firstK + s * BK, true);
            fetch.keep(tiles, base);
            fetch.advance();
        }
        fetch.commit();
        fetch.next_buffer(pair);
    }
    if constexpr (STAGES > 0) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : "memory");
    __syncthreads();                                       // the first pair is complete

    float fragA[2][TM], fragB[2][TN];                      // of this k and of the next
    auto read = [](float* into, unsigned from) {           // volatile: not put off until they are needed
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(into[0]), "=f"(into[1]), "=f"(into[2]), "=f"(into[3]) : "r"(from));
    };
    auto readBoth = [&](int k) {
        #pragma unroll
        for (int n = 0; n < TN; n += 4) read(&fragB[k % 2][n], readB + 4 * (k * BN + n * lanesN));
        #pragma unroll
        for (int m = 0; m < TM; m += 4) read(&fragA[k % 2][m], readA + 4 * (k * pitchA + m * lanesM));
    };
    readBoth(0);

    int buffer = 0;                                        // which pair is multiplied
    #pragma unroll 1
    for (unsigned step = begin; step < end; ++step) {
        const bool more = step + ahead < end;
        const int hopRead = buffer == ahead ? -ahead * pair : pair;
        const int hopWrite = buffer == (STAGES ? 0 : 1) ? -ahead * pair : pair;
        buffer = buffer == ahead ? 0 : buffer + 1;
        #pragma unroll
        for (int k = 0; k < depth; ++k) {
            if (k == depth - 1) {                          // the last fragments of this pair are in registers
                if constexpr (STAGES > 0) {
                    asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 2) : "memory");
                } else if (step > begin) {
                    if (step + ahead <= end) fetch.keep(tiles, base);  // fetched during the step before
                    fetch.next_buffer(hopWrite);
                }
                __syncthreads();                           // the next pair is complete, and nobody reads this one any more
                asm("" : "+r"(fetch.leftB));               // claims to change it: no copy's `exists` is kept
                if (!few || more)                          // few copies: a branch; many: `more` turns each off
                    #pragma unroll
                    for (int i = 0; i < copies; ++i) fetch.start(i, BK, more);
                fetch.advance();
                if constexpr (STAGES > 0) {
                    fetch.commit();
                    fetch.next_buffer(hopWrite);
                }
                const int hop = step + 1 < end ? hopRead : 0;
                readA += hop;
                readB += hop;
            }
            readBoth((k + 1) % depth);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                const int m = (i + 4) % TM;                // the rows that were read first come last
                #pragma unroll
                for (int j = 0; j < TN; ++j) {             // to and fro: from one to the next, a factor stays
                    const int n = i % 2 ? TN - 1 - j : j;
                    acc[m][n] += fragA[k % 2][m] * fragB[k % 2][n];
                }
            }
        }
    }
}
