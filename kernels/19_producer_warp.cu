// 19 · A producer: one warp does nothing but fetch, and no barrier makes all the others wait for each other.
//
// What changed: 18's threads meet at a barrier in every step, since the thread that fetches must know that all warps
// have read a stage. Here four more warps join the block, and one of their threads does all the fetching. A second
// mbarrier for each stage tells it when every warp is done with the tiles. Those four warps need few registers, and
// give the others to the warps that multiply.
//
// THREADS: per block, 128 more than multiply. The other parameters are 18's.
#include "wgmma.cuh"
#include "wgmma_output.cuh"

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
producer_warp(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C,
              const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{
    constexpr int row = 64;                                // elements in 128 bytes, a row of a box
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr int workers = BM / 64 * 128;                 // threads that multiply
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks are swizzled
    static_assert(BK == row && BM <= 256, "boxes have rows of 128 bytes, and 256 rows at most");
    static_assert(WM == 16 && WN == BN && BM % 64 == 0, "four warps share 64 rows of C");
    static_assert(THREADS == workers + 128, "four warps are there to fetch");
    static_assert(STAGES > 2, "one pair of tiles arrives while two are multiplied");
    extern __shared__ __align__(1024) T shared[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(shared);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(shared + STAGES * tileA);
    Barrier* full = reinterpret_cast<Barrier*>(shared + STAGES * (tileA + tileB));  // each waits for a stage's bytes
    Barrier* empty = full + STAGES;                        // and each of these until no warp reads the stage

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM, col0 = size_t(blockIdx.x % tilesN) * BN;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const int tiles = (unsigned(K) + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(workers / 32);
        }
        fence_proxy();                                     // the copy engine must see the barriers
    }
    __syncthreads();

    if (threadIdx.x >= workers) {
        give_registers<40>();
        if (threadIdx.x > workers) return;
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES;
            if (tile >= STAGES) empty[stage].wait((tile / STAGES - 1) % 2);
            full[stage].arrive_and_expect((tileA + tileB) * sizeof(T));
            copy_box(As[stage], mapA, row0, tile * BK, full[stage]);
            #pragma unroll
            for (int n = 0; n < boxes * row; n += row)
                copy_box(&Bs[stage][n * BK], mapB, tile * BK, col0 + n, full[stage]);
        }
        return;
    }
    take_registers<232>();

    float acc[WN / 2] = {};                                // 16 × WN sums of a warp, 32 lanes
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % STAGES;
        full[stage].wait(tile / STAGES % 2);
        order_registers();
        #pragma unroll
        for (int k = 0; k < BK; k += 16)                   // 16 columns of A; 16 rows of each box of B
            multiply<T>(acc, describe(&As[stage][warp / 4 * 64 * BK + k], 16, atom),
                        describe(&Bs[stage][k * row], BK * row * sizeof(T), atom));
        commit_products();
        wait_for_products<1>();                            // the tile before is multiplied
        if (tile > 0 && lane == 0) empty[(tile - 1) % STAGES].arrive();
    }
    wait_for_products(acc);

    const Output output(M, N, K > 0 ? alpha : 0.0f, beta, C);
    output.write_all({row0, col0}, acc);
}
