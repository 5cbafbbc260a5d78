// Fetches tiles of A and B into shared memory: asynchronously, or through registers before compute capability 8.0.
#pragma once
#include "places.cuh"
#include "words.cuh"

// A thread's copies for a pair of tiles, numbered through both: first `copiesA` of A, a word each, then `copiesB` of B,
// WORDS words each. The tile of A is stored transposed, [BK][BM + 4], and that of B behind it, [BK][BN].
//
// Before k = 0 a copy reads nothing and writes zeros. What is computed from rows and columns beyond the matrix is never
// written to C, so copies there may read the last row or column once more. Those of A do, and those of B in a wide tile.
// In a narrow tile of B they would be many, all blocks would ask L2 for the same lines, and they read nothing instead:
// a thread whose columns don't exist counts all its rows as before k = 0, which costs the loop no instruction.
template <int BM, int BN, int BK, int THREADS, int STAGES, int WORDS>
struct Fetch {
    static constexpr int pitchA = BM + 4, pair = 4 * BK * (pitchA + BN);  // bytes of both tiles
    static constexpr int acrossA = THREADS / BM > 8 ? THREADS / BM : 8;  // columns that the block fetches at once
    static constexpr int fetchers = WORDS == 4 ? THREADS : 32;  // of a row of B: word by word, a warp has rows of its own
    static constexpr int acrossB = fetchers * WORDS < BN ? fetchers * WORDS : BN;
    static constexpr int stepA = THREADS / acrossA, stepB = THREADS / (acrossB / WORDS);  // and rows
    static constexpr int downA = (BM + stepA - 1) / stepA, copiesA = downA * (BK / acrossA);
    static constexpr int downB = (BK + stepB - 1) / stepB, copiesB = downB * (BN / acrossB);
    static constexpr bool wide = WORDS == 4 && BN >= 128;  // a warp's copies are of one row of B, or of fewer
    static constexpr bool evenA = BM % stepA == 0, evenB = BK % stepB == 0;  // whether all threads copy equally often
    static_assert(BK % acrossA == 0 && THREADS % acrossA == 0, "");
    static_assert(BN % acrossB == 0 && THREADS % (acrossB / WORDS) == 0, "");

    const int rowA, colA, rowB, colB;              // of this thread's first copies in their tiles
    const int N, cols, leftB;                      // columns of B, of the tile in it, and from this thread's first one on
    const int belowB;                              // rowB, or less than -k for every k where no column is left
    unsigned offsetA[downA];                       // from `a` to each copy's row: BM × K is below 2³²
    const float *a, *b;                            // what the first copies of the next pair read
    unsigned writeA, writeB;                       // where they go: shared addresses
    Words<1> heldA[STAGES ? 1 : copiesA];          // what is under way through registers
    Words<WORDS> heldB[STAGES ? 1 : copiesB];

    __device__ Fetch(const float* A, const float* B, int N, int K, int firstK, const Corner& corner, unsigned tiles)
        : rowA(threadIdx.x / 8 % BM), colA(threadIdx.x % 8 + threadIdx.x / (8 * BM) * 8),
          rowB(threadIdx.x / (acrossB / WORDS)), colB(threadIdx.x % (acrossB / WORDS) * WORDS), N(N), cols(corner.cols),
          leftB(cols - colB), belowB(WORDS < 4 || wide || leftB > 0 ? rowB : BK - 2147483647)
    {
        const int rows = corner.rows;
        const int lastA = rows > rowA ? (rows - 1 - rowA) / stepA : 0;  // the last copy within A's rows
        #pragma unroll
        for (int i = 0; i < downA; ++i) offsetA[i] = unsigned(i < lastA ? i : lastA) * stepA * K;
        a = A + (corner.row0 + (rows > rowA ? rowA : rows - 1)) * K + firstK + colA;
        b = B + (long long)(firstK + rowB) * N + (long long)corner.col0
            + (!wide ? colB : acrossB == BN ? within(colB) : 0);
        writeA = tiles + 4 * (colA * pitchA + rowA);
        writeB = tiles + 4 * (BK * pitchA + rowB * BN + colB);
    }

    // A column of B, or the last from which WORDS words exist.
    __device__ int within(int col) const { return col < cols - WORDS ? col : cols - WORDS; }

    // The shared addresses of copy `i` of A, and of B.
    __device__ unsigned toA(int i) const { return writeA + 4 * (i / downA * acrossA * pitchA + i % downA * stepA); }
    __device__ unsigned toB(int i) const { return writeB + 4 * (i % downB * stepB * BN + i / downB * acrossB); }

    // Starts copy `i` of a pair whose first column of A is `k`, if the pair is wanted.
    __device__ void start(int i, int k, bool wanted)
    {
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
            const float* source = b + size_t(row) * N + (!wide ? col : acrossB == BN ? 0 : within(colB + col));
            const bool exists = k + belowB + row >= 0 && (WORDS == 4 || col < leftB);
            if constexpr (STAGES > 0) copy<WORDS>(toB(i), source, exists, wanted);
            else heldB[i] = load<WORDS>(source, exists && wanted);
        }
    }

    // Stores what came through registers. `tiles` is the shared memory, at the address `base`.
    __device__ void keep(char* tiles, unsigned base) const
    {
        if constexpr (STAGES == 0) {
            for (int i = 0; i < copiesA; ++i)
                if (evenA || rowA + i % downA * stepA < BM) *reinterpret_cast<Words<1>*>(tiles + (toA(i) - base)) = heldA[i];
            for (int i = 0; i < copiesB; ++i)
                if (evenB || rowB + i % downB * stepB < BK)
                    *reinterpret_cast<Words<WORDS>*>(tiles + (toB(i) - base)) = heldB[i];
        }
    }

    // The next pair is BK further along K, and goes `hop` bytes further in shared memory.
    __device__ void advance()
    {
        a += BK;
        b += size_t(BK) * N;
    }
    __device__ void next_buffer(int hop)
    {
        writeA += hop;
        writeB += hop;
    }

    __device__ static void commit() { if constexpr (STAGES > 0) asm volatile("cp.async.commit_group;"); }
};
