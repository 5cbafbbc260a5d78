// Not a rung: adds the parts of sums that 22 has cut, in order of k, and writes C.
//
// A thread has four neighbouring sums of a tile. Where a sum has many parts, SLICES threads share them: each adds some
// that follow one another, and the first adds what all have.
//
// HIGH, BN: rows and columns of a tile of a cluster. steps, shared, clusters, group: as in 22.
#include "equal_shares.cuh"
#include "four.cuh"
#include "overlap.cuh"

template <typename T, int HIGH, int BN, int SLICES, int THREADS, int BITS>
__global__ void __launch_bounds__(THREADS)
add_parts(int M, int N, unsigned steps, float alpha, const float* workspace, float beta, Result<T, BITS>* C,
          unsigned shared, unsigned clusters, unsigned group)
{
    constexpr unsigned each = THREADS / SLICES, across = BN / 4, fours = HIGH * across, blocks = fours / each;  // of a tile
    static_assert(fours % each == 0, "every thread has four sums");
    const unsigned tile = blockIdx.x / blocks, slice = threadIdx.x / each;
    const unsigned i = blockIdx.x % blocks * each + threadIdx.x % each;
    const Spot at = spot(tile, (unsigned(M) + HIGH - 1) / HIGH, (unsigned(N) + BN - 1) / BN, group);
    const size_t row = at.down * size_t(HIGH) + i / across, col = at.across * size_t(BN) + i % across * 4;
    const Shares shares(steps, shared, clusters);
    const size_t head = size_t(tile) * steps;              // the tile's first step
    const unsigned begins = shares.owner(head), parts = shares.owner(head + steps - 1) - begins + 1;
    const float4* const of = reinterpret_cast<const float4*>(workspace) + shares.place(begins, tile) * fours + i;
    let_next_begin();
    wait_for_last();
    if (parts == 1 || alpha == 0.0f) return;               // 22 has written the tile

    float4 sum = {};
    #pragma unroll 8
    for (unsigned part = slice * parts / SLICES; part < (slice + 1) * parts / SLICES; ++part)
        if (row < M && col < N) sum += of[size_t(part) * fours];  // 22 leaves only sums that C has
    if constexpr (SLICES > 1) {
        __shared__ float4 sums[SLICES][each];
        sums[slice][threadIdx.x % each] = sum;
        __syncthreads();
        if (slice > 0) return;
        for (int other = 1; other < SLICES; ++other) sum += sums[other][threadIdx.x];
    }
    if (row < M && col < N) write(C + row * N + col, sum, N - col, aligned(C, N), alpha, beta);
}
