// Fetches tiles of A and B by the copy engine. The blocks of a cluster that share a tile fetch a part of it each.
#pragma once
#include "hopper.cuh"

template <typename T, int BM, int BN, int DOWN, int ACROSS>
struct Fetcher
{
    static constexpr int BK = 64, row = 64;                // a row of a box: 128 bytes
    static constexpr int boxes = (BN + row - 1) / row;     // of B, side by side
    static constexpr int partA = BM / ACROSS;              // rows of A that this block fetches for all beside it
    static constexpr bool whole = boxes % DOWN == 0;       // whether it fetches whole boxes of B, or rows of each
    static constexpr int partB = whole ? BK : BK / DOWN, count = whole ? boxes / DOWN : boxes;

    const TensorMap &mapA, &mapB;
    unsigned down, across;                                 // where this block is in its cluster

    // Fetches the tiles at row m of A, column n of B and depth k; each block's barrier counts the bytes.
    __device__ void fetch(T* A, T* B, int m, int n, int k, Barrier& full) const
    {
        unsigned short toA = 0, toB = ((1 << DOWN) - 1) << across * DOWN;  // a bit for each block that gets it
        for (int i = 0; i < ACROSS; ++i) toA |= 1 << (down + i * DOWN);
        full.arrive_and_expect((BM * BK + BK * boxes * row) * sizeof(T));
        if constexpr (ACROSS == 1) copy_box(A, mapA, m, k, full);
        else copy_box(A + across * partA * row, mapA, m + across * partA, k, full, toA);
        #pragma unroll
        for (int i = 0; i < count; ++i) {
            const int box = whole ? down * count + i : i, skip = whole ? 0 : down * partB;
            T* to = B + (box * BK + skip) * row;
            if constexpr (DOWN == 1) copy_box(to, mapB, k, n + box * row, full);
            else copy_box(to, mapB, k + skip, n + box * row, full, toB);
        }
    }
};
