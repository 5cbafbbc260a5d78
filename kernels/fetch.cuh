// Fetches tiles of A and B into shared memory: asynchronously, or through registers before compute capability 8.0.
#pragma once
#include "places.cuh"
#include "words.cuh"

// Which elements of a pair of tiles a thread copies. The tile of A is stored transposed, [BK][BM + 4]; that of B follows
// it, [BK][BN]. The copies are numbered through both tiles: a thread has `copiesA` of A, a word each, and `copiesB` of B.
template <int BM, int BN, int BK, int THREADS, int STAGES, int WORDS>
struct Fetch {
    static constexpr int pitchA = BM + 4, pair = 4 * BK * (pitchA + BN);  // bytes of both tiles
    static constexpr int acrossA = THREADS / BM > 8 ? THREADS / BM : 8;  // columns that are fetched at once
    static constexpr int fetchers = WORDS == 4 ? THREADS : 32;  // of a row of B: word by word, a warp has rows of its own
    static constexpr int acrossB = fetchers * WORDS < BN ? fetchers * WORDS : BN;
    static constexpr int stepA = THREADS / acrossA, stepB = THREADS / (acrossB / WORDS);  // and rows
    static constexpr int downA = (BM + stepA - 1) / stepA, copiesA = downA * (BK / acrossA);
    static constexpr int downB = (BK + stepB - 1) / stepB, copiesB = downB * (BN / acrossB);
    static constexpr bool evenA = BM % stepA == 0, evenB = BK % stepB == 0;  // whether all threads copy equally often
    static_assert(BK % acrossA == 0 && THREADS % acrossA == 0, "");
    static_assert(BN % acrossB == 0 && THREADS % (acrossB / WORDS) == 0, "");
};
