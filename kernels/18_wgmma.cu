// 18 · wgmma: a copy engine brings tiles, and four warps multiply them straight from shared memory.
//
// What changed since 16: one thread asks the copy engine (TMA) for a box of a matrix. The box arrives swizzled, with
// zeros beyond the matrix's edges, and an mbarrier tells all threads when its bytes are there. No thread computes
// addresses and no fragment is loaded: wgmma takes both operands from shared memory, and runs on by itself until
// somebody waits for it. For sm_90a. Rows of A and B begin at multiples of 16 bytes, and neither matrix is empty.
//
// T: type of the elements of A and B, half or __nv_bfloat16. BM, BN: rows and columns of C per block. BK: depth of the
// tiles. WM, WN: rows and columns of C per warp. STAGES: pairs of tiles in shared memory.
#include "wgmma.cuh"
#include "wgmma_output.cuh"

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(BM / 64 * 128, 1)
wgmma(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C,
      const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{
    constexpr int row = 64;                                // elements in 128 bytes, a row of a box
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks are swizzled
    static_assert(BK == row && BM <= 256, "boxes have rows of 128 bytes, and 256 rows at most");
    static_assert(WM == 16 && WN == BN && BM % 64 == 0, "four warps share 64 rows of C");
    static_assert(STAGES > 2, "one pair of tiles arrives while two are multiplied");
    extern __shared__ __align__(1024) T shared[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(shared);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(shared + STAGES * tileA);
    Barrier* full = reinterpret_cast<Barrier*>(shared + STAGES * (tileA + tileB));  // each waits for a stage's bytes

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM, col0 = size_t(blockIdx.x % tilesN) * BN;
    const unsigned warp = threadIdx.x / 32;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const int tiles = (unsigned(K) + BK - 1) / BK;

    auto fetch = [&](int tile) {                           // by one thread
        const int stage = tile % STAGES;
        full[stage].arrive_and_expect((tileA + tileB) * sizeof(T));
        copy_box(As[stage], mapA, row0, tile * BK, full[stage]);
        #pragma unroll
        for (int n = 0; n < boxes * row; n += row)
            copy_box(&Bs[stage][n * BK], mapB, tile * BK, col0 + n, full[stage]);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1);
        fence_proxy();                                     // the copy engine must see the barriers
        for (int tile = 0; tile < STAGES - 1 && tile < tiles; ++tile) fetch(tile);
    }
    __syncthreads();                                       // and so must all threads

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
        wait_for_products<1>();                            // the tile before is multiplied, by this warp
        __syncthreads();                                   // and by all: its stage is free
        const int next = tile + STAGES - 1;
        if (threadIdx.x == 0 && next < tiles) fetch(next);
    }
    wait_for_products(acc);

    const Output output(M, N, K > 0 ? alpha : 0.0f, beta, C);
    output.write_all({row0, col0}, acc);
}
