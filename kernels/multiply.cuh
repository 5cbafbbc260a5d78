// The loop over K.
#pragma once
#include "places.cuh"
#include "words.cuh"

template <int BM, int BN, int BK, int WM, int WN, int SLICES, int STAGES, int WORDS, int TM, int TN>
__device__ void multiply_tiles(float (&acc)[TM][TN], const float* A, const float* B, int N, int K, int firstK,
                               unsigned begin, unsigned end, char* tiles, Thread me, const Corner& corner, Places& places)
{
    constexpr int threads = BM / WM * (BN / WN) * 32 * SLICES, depth = BK / SLICES;
    const int slice = me.slice, warp = me.warp, lane = me.lane;
    const size_t row0 = corner.row0, col0 = corner.col0;
    const int rows = corner.rows, cols = corner.cols;
    int &tileRow = places.row, &tileCol = places.col;
    // A tile of A, turned, [BK][BM + 4], and one of B, [BK][BN].
    constexpr int buffers = STAGES ? STAGES : 3, ahead = buffers - 1;
    constexpr int pitchA = BM + 4, pair = 4 * BK * (pitchA + BN);  // bytes of both
    constexpr int acrossA = threads / BM > 8 ? threads / BM : 8;  // columns that are fetched at once
    constexpr int fetchers = WORDS == 4 ? threads : 32;  // of a row of B: word by word a warp has rows of its own
    constexpr int acrossB = fetchers * WORDS < BN ? fetchers * WORDS : BN;
    constexpr int stepA = threads / acrossA, stepB = threads / (acrossB / WORDS);  // and rows
    constexpr int downA = (BM + stepA - 1) / stepA, copiesA = downA * (BK / acrossA);
    constexpr int downB = (BK + stepB - 1) / stepB, copiesB = downB * (BN / acrossB);
    constexpr bool few = WORDS == 4 && copiesA + copiesB <= 6;
    constexpr bool evenA = BM % stepA == 0, evenB = BK % stepB == 0;
    static_assert(STAGES == 0 || STAGES > 2, "one to multiply, one complete, one under way");
    static_assert(TM % 4 == 0 && TN % 4 == 0 && depth % 2 == 0, "fragments come in fours, and in pairs");
    static_assert(BK % acrossA == 0 && threads % acrossA == 0, "");
    static_assert(BN % acrossB == 0 && threads % (acrossB / WORDS) == 0, "");
    constexpr int lanesM = WM / TM, lanesN = WN / TN;  // lanes down and across a warp's tile
    static_assert(lanesM * lanesN == 32 && BM % WM == 0 && BN % WN == 0, "32 lanes share the tile of a warp");
    constexpr bool squares = lanesM % 2 == 0 && lanesN % 2 == 0;
    constexpr int halfN = squares ? lanesN / 2 : 1;
    const int laneM = squares ? lane / 2 % 2 + lane / (2 * lanesN) * 2 : lane / lanesN;
    const int laneN = squares ? lane % 2 + lane / 4 % halfN * 2 : lane % lanesN;
    places.run = 4;                                        // neighbouring rows of a thread
    places.nextRow = lanesM * 4;
    places.nextCol = lanesN * 4;
    tileRow = warp / (BN / WN) * WM + laneM * 4;
    tileCol = warp % (BN / WN) * WN + laneN * 4;
    const int rowA = threadIdx.x / 8 % BM, colA = threadIdx.x % 8 + threadIdx.x / (8 * BM) * 8;
    const int rowB = threadIdx.x / (acrossB / WORDS), colB = threadIdx.x % (acrossB / WORDS) * WORDS;

    // Copies are numbered through both tiles.
    const int lastA = rows > rowA ? (rows - 1 - rowA) / stepA : 0;  // the last copy within A's rows
    unsigned offsetA[downA];                       // of each copy: BM × K is below 2³²
    #pragma unroll
    for (int i = 0; i < downA; ++i) offsetA[i] = unsigned(i < lastA ? i : lastA) * stepA * K;
    auto within = [&](int col) { return col < cols - WORDS ? col : cols - WORDS; };
    const float* a = A + (row0 + (rows > rowA ? rowA : rows - 1)) * K + firstK + colA;
    const float* b = B + (long long)(firstK + rowB) * N + (long long)col0 + (WORDS < 4 ? colB : acrossB == BN ? within(colB) : 0);
    int leftB = cols - colB;                       // columns of B from this thread's first on
    const unsigned base = __cvta_generic_to_shared(tiles);
    unsigned writeA = base + 4 * (colA * pitchA + rowA), writeB = base + 4 * (BK * pitchA + rowB * BN + colB);
    unsigned readA = base + 4 * (slice * depth * pitchA + tileRow);
    unsigned readB = base + 4 * (BK * pitchA + slice * depth * BN + tileCol);
    Words<1> heldA[STAGES ? 1 : copiesA];
    Words<WORDS> heldB[STAGES ? 1 : copiesB];
    auto toA = [&](int i) { return writeA + 4 * (i / downA * acrossA * pitchA + i % downA * stepA); };
    auto toB = [&](int i) { return writeB + 4 * (i % downB * stepB * BN + i / downB * acrossB); };
    auto fetch = [&](int i, int k, bool wanted) {
        if (i < copiesA) {
            if (!evenA && rowA + i % downA * stepA >= BM) return;
            const float* source = a + size_t(offsetA[i % downA]) + i / downA * acrossA;
            const bool exists = k + colA + i / downA * acrossA >= 0;
            if constexpr (STAGES > 0) copy<1>(toA(i), source, exists, wanted);
            else heldA[i] = load<1>(source, exists && wanted);
        } else {
            i -= copiesA;
            const int row = i % downB * stepB, col = i / downB * acrossB;
            if (!evenB && rowB + row >= BK) return;
            const float* source = b + size_t(row) * N + (WORDS < 4 ? col : acrossB == BN ? 0 : within(colB + col));
            const bool exists = k + rowB + row >= 0 && (WORDS == 4 || col < leftB);
            if constexpr (STAGES > 0) copy<WORDS>(toB(i), source, exists, wanted);
            else heldB[i] = load<WORDS>(source, exists && wanted);
        }
    };
    auto keep = [&] {                              // what was fetched through registers
        if constexpr (STAGES == 0) {
            for (int i = 0; i < copiesA; ++i)
                if (evenA || rowA + i % downA * stepA < BM) *reinterpret_cast<Words<1>*>(tiles + (toA(i) - base)) = heldA[i];
            for (int i = 0; i < copiesB; ++i)
                if (evenB || rowB + i % downB * stepB < BK)
                    *reinterpret_cast<Words<WORDS>*>(tiles + (toB(i) - base)) = heldB[i];
        }
    };
    auto commit = [] { if constexpr (STAGES > 0) asm volatile("cp.async.commit_group;"); };

    #pragma unroll 1
    for (int s = 0; s < ahead; ++s) {
        if (begin + s < end) {
            #pragma unroll
            for (int i = 0; i < copiesA + copiesB; ++i) fetch(i, firstK + s * BK, true);
            keep();
            a += BK;
            b += size_t(BK) * N;
        }
        commit();
        writeA += pair;
        writeB += pair;
    }
    if constexpr (STAGES > 0) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : "memory");
    __syncthreads();                               // the first pair is complete

    float fragA[2][TM], fragB[2][TN];              // of this k and of the next
    auto read = [](float* into, unsigned from) {   // volatile: not put off until they are needed
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

    int buffer = 0;                                // which pair is multiplied
    #pragma unroll 1
    for (unsigned step = begin; step < end; ++step) {
        const bool more = step + ahead < end;
        const int hopRead = buffer == ahead ? -ahead * pair : pair;
        const int hopWrite = buffer == (STAGES ? 0 : 1) ? -ahead * pair : pair;
        buffer = buffer == ahead ? 0 : buffer + 1;
        #pragma unroll
        for (int k = 0; k < depth; ++k) {
            if (k == depth - 1) {                  // the last fragments of this pair are there
                if constexpr (STAGES > 0) {
                    asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 2) : "memory");
                } else if (step > begin) {
                    if (step + ahead <= end) keep();  // fetched during the step before
                    writeA += hopWrite;
                    writeB += hopWrite;
                }
                __syncthreads();                   // the next pair is complete, and nobody reads this one any more
                asm("" : "+r"(leftB));             // or each copy's guard is kept, in a register we lack
                if (!few || more)                  // a few the compiler guards by itself, in the same way
                    #pragma unroll
                    for (int i = 0; i < copiesA + copiesB; ++i) fetch(i, BK, more);
                a += BK;
                b += size_t(BK) * N;
                if constexpr (STAGES > 0) {
                    commit();
                    writeA += hopWrite;
                    writeB += hopWrite;
                }
                const int hop = step + 1 < end ? hopRead : 0;
                readA += hop;
                readB += hop;
            }
            readBoth((k + 1) % depth);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                const int m = (i + 4) % TM;        // the rows that were read first come last
                #pragma unroll
                for (int j = 0; j < TN; ++j) {     // to and fro: from one to the next, a factor stays
                    const int n = i % 2 ? TN - 1 - j : j;
                    acc[m][n] += fragA[k % 2][m] * fragB[k % 2][n];
                }
            }
        }
    }
}
