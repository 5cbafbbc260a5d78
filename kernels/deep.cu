// Not a rung: 22's way for a small C with a long K. The blocks of a cluster share a tile of C: each multiplies a part of K.
//
// Their sums meet in shared memory, which all blocks of a cluster can read: each block adds a part of the tile. So there is
// no workspace, and no second launch, as after 22's shares.
//
// SPLIT: blocks of a cluster. One warp fetches, whatever the tile; the other parameters are 22's.
#include "four.cuh"
#include "overlap.cuh"
#include "sides.cuh"                                   // wgmma for tiles of any width

// Reads what another block of the cluster has where `here` is in this one.
__device__ float4 load_from(unsigned block, const float4* here)
{
    float4 four;
    asm volatile("{ .reg .b32 %%there; mapa.shared::cluster.u32 %%there, %4, %5; "
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%%there]; }"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w) : "r"(within(here)), "r"(block) : "memory");
    return four;
}

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS, int SPLIT, int BITS>
__global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS)
deep(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C,
     const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{
    constexpr int row = 64;                                // elements in 128 bytes, a row of a box
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr int workers = BM / WM * 32;                  // threads that multiply
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks are swizzled
    constexpr int across = BN / 4, pitch = across + 2;     // fours in a row of the tile; with two more, no bank conflicts
    static_assert(BK == row && WM == 16 && WN == BN && BM % 64 == 0, "four warps share 64 rows of C");
    static_assert(THREADS == workers + 32 && STAGES > 2, "one pair of tiles arrives while two are multiplied");
    static_assert(BM * pitch * sizeof(float4) <= STAGES * (tileA + tileB) * sizeof(T), "sums take the place of tiles");
    extern __shared__ __align__(1024) T memory[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(memory);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(memory + STAGES * tileA);
    float4 (&sums)[BM][pitch] = *reinterpret_cast<float4 (*)[BM][pitch]>(memory);
    Barrier* full = reinterpret_cast<Barrier*>(memory + STAGES * (tileA + tileB));  // wait for a stage's bytes
    Barrier* empty = full + STAGES;                        // and these until no warp reads the stage

    const unsigned rank = blockIdx.x % SPLIT, tile = blockIdx.x / SPLIT, tilesM = (unsigned(M) + BM - 1) / BM;
    const size_t row0 = tile % tilesM * size_t(BM), col0 = tile / tilesM * size_t(BN);
    const unsigned rows = min(unsigned(BM), (unsigned(M) + 7) / 8 * 8);  // of A that are fetched for a tile
    const unsigned warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned steps = (unsigned(K) + BK - 1) / BK;    // below 2²⁵: eight times as many fit into 32 bits
    const unsigned begin = steps * rank / SPLIT, end = steps * (rank + 1) / SPLIT;

    if (threadIdx.x == 0) {
        prefetch(mapA);
        prefetch(mapB);
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(workers / 32);
        }
    }
    for (int stage = 0; stage < STAGES; ++stage)           // what is not fetched is multiplied too, and not written
        for (int chunk = rows * BK / 8 + threadIdx.x; chunk < tileA / 8; chunk += THREADS)
            reinterpret_cast<uint4*>(As[stage])[chunk] = {};
    fence_proxy();                                         // the copy engine must see the barriers, and wgmma the zeros
    __syncthreads();
    wait_for_last();

    float acc[WN / 2] = {};
    if (warp == workers / 32) {
        if (lane == 0) {
            for (unsigned step = begin; step < end; ++step) {
                const unsigned turn = step - begin, stage = turn % STAGES;
                if (turn >= STAGES) empty[stage].wait((turn / STAGES - 1) % 2);
                full[stage].arrive_and_expect((rows * BK + tileB) * sizeof(T));
                copy_box(As[stage], mapA, row0, step * BK, full[stage]);
                #pragma unroll
                for (int n = 0; n < boxes * row; n += row)
                    copy_box(&Bs[stage][n * BK], mapB, step * BK, col0 + n, full[stage]);
            }
            let_next_begin();                              // all is asked for: its blocks will not crowd SMs for long
        }
    } else {
        for (unsigned turn = 0; turn < end - begin; ++turn) {
            const unsigned stage = turn % STAGES;
            full[stage].wait(turn / STAGES % 2);
            order_registers();
            const auto describedA = describe(&As[stage][warp / 4 * 64 * BK], 16, atom);
            const auto describedB = describe(Bs[stage], BK * row * sizeof(T), atom);
            #pragma unroll
            for (int k = 0; k < BK; k += 16)
                multiply<T, false>(acc, describedA + k * sizeof(T) / 16, describedB + k * row * sizeof(T) / 16);
            commit_products();
            wait_for_products<1>();                        // the tiles before are multiplied
            if (turn > 0 && lane == 0) empty[(turn - 1) % STAGES].arrive();
        }
        wait_for_products(acc);
    }
    __syncthreads();                                       // no warp reads tiles any more
    if (warp < workers / 32)
        #pragma unroll
        for (int i = 0; i < WN / 2; i += 2) {              // two neighbours of eight columns, and of the row eight below
            float4* const four = &sums[warp * WM + lane / 4 + i / 2 % 2 * 8][i / 4 * 2 + lane % 4 / 2];
            reinterpret_cast<float2*>(four)[lane % 2] = {acc[i], acc[i + 1]};
        }
    cluster_barrier();                                     // the sums of all blocks are there

    const unsigned fours = min(size_t(BM), M - row0) * across, columns = min(size_t(BN), N - col0);
    const unsigned first = rank * THREADS + threadIdx.x, stride = SPLIT * THREADS;
    for (unsigned i = first; i < fours; i += stride) {     // this block's part of the tile, four sums to a thread
        const unsigned m = i / across, n = i % across;
        if (n * 4 >= columns) continue;
        float4 of[SPLIT], sum = {};
        #pragma unroll
        for (int block = 0; block < SPLIT; ++block) of[block] = load_from(block, &sums[m][n]);
        #pragma unroll
        for (int block = 0; block < SPLIT; ++block) sum += of[block];  // in order of k
        write(C + (row0 + m) * N + col0 + n * 4, sum, columns - n * 4, aligned(C, N), alpha, beta);
    }
    cluster_barrier();                                     // no block ends while another reads its sums
}
