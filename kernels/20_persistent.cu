// 20 · Persistent blocks: each does one tile of C after the other, and clusters of blocks share their tiles of B.
//
// What changed: there are as many blocks as multiprocessors. While a block writes one tile of C, its producer fetches
// the tiles of the next, and half of the sums are written only when the next products are under way. Tiles of C are
// taken in groups of rows, so that blocks which run at the same time share A and B in L2. The blocks of a cluster, one
// below the other, need the same tiles of B: each fetches a part for all of them.
//
// GROUP: rows of tiles of C in a group, which is walked column by column. CLUSTER: blocks of a cluster. The other
// parameters are 19's.
#include "wgmma.cuh"
#include "wgmma_output.cuh"

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS, int GROUP, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
persistent(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C,
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
    static_assert(GROUP % CLUSTER == 0, "a group has whole clusters");
    extern __shared__ __align__(1024) T shared[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(shared);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(shared + STAGES * tileA);
    Barrier* full = reinterpret_cast<Barrier*>(shared + STAGES * (tileA + tileB));  // each waits for a stage's bytes
    Barrier* empty = full + STAGES;                        // and each of these until no warp reads the stage

    constexpr unsigned high = CLUSTER * BM;                // rows of C of a cluster
    const unsigned tilesM = (unsigned(M) + high - 1) / high, tilesN = (unsigned(N) + BN - 1) / BN;  // of such tiles
    const unsigned rank = blockIdx.x % CLUSTER, cluster = blockIdx.x / CLUSTER;
    const size_t all = size_t(tilesM) * tilesN;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const int tiles = (unsigned(K) + BK - 1) / BK;
    const size_t stride = gridDim.x / CLUSTER;             // from one tile of C of this cluster to the next
    auto corner = [&](size_t number) -> Corner {           // where a tile of C begins
        constexpr unsigned together = GROUP / CLUSTER;
        const unsigned first = number / (size_t(together) * tilesN) * together;  // row of tiles of its group
        const size_t inside = number % (size_t(together) * tilesN);
        const unsigned height = min(tilesM - first, together);
        return {(first + inside % height) * high + rank * BM, inside / height * BN};
    };

    if (threadIdx.x == 0) {
        prefetch(mapA);                                    // so that the first copy needn't wait for its map
        prefetch(mapB);
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * workers / 32);
        }
        fence_proxy();                                     // the copy engine must see the barriers
    }
    if constexpr (CLUSTER > 1) cluster_barrier();
    else __syncthreads();

    unsigned step = 0;                                     // pairs of tiles so far, for all tiles of C
    if (threadIdx.x >= workers) {
        give_registers<40>();
        if (threadIdx.x > workers) return;
        constexpr int part = BK / CLUSTER;                 // rows of B that this block fetches, for all of its cluster
        auto wait_for_room = [&] {
            if (step >= STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);
        };
        for (size_t number = cluster; number < all; number += stride) {
            const Corner here = corner(number);
            for (int tile = 0; tile < tiles; ++tile, ++step) {
                wait_for_room();
                const int stage = int(step) % STAGES;
                full[stage].arrive_and_expect((tileA + tileB) * sizeof(T));
                copy_box(As[stage], mapA, here.row, tile * BK, full[stage]);
                #pragma unroll
                for (int n = 0; n < boxes * row; n += row)
                    if constexpr (CLUSTER == 1)
                        copy_box(&Bs[stage][n * BK], mapB, tile * BK, here.col + n, full[stage]);
                    else
                        copy_box(&Bs[stage][n * BK + rank * part * row], mapB, tile * BK + rank * part, here.col + n,
                                 full[stage], (1 << CLUSTER) - 1);
            }
        }
        // Other blocks still arrive at this block's barriers: it may not end before the last of them has.
        if constexpr (CLUSTER > 1)
            for (int stage = 0; stage < STAGES; ++stage, ++step) wait_for_room();
        return;
    }
    take_registers<232>();

    auto let_go = [&](int step) {                          // tells all who fill this stage that this warp has read it
        if constexpr (CLUSTER == 1) {
            if (lane == 0) empty[step % STAGES].arrive();
        } else {
            if (lane < CLUSTER) empty[step % STAGES].arrive_in(lane);
        }
    };
    const Output output(M, N, K > 0 ? alpha : 0.0f, beta, C);
    // Half of the sums are written late, with the next tile's products: a few with each pair of tiles. All old values
    // of those few are asked for before the first is awaited; registers hold no more.
    constexpr int fours = WN / 8, half = fours / 2, few = 4;
    float late[half][4] = {};
    Corner before = {size_t(M), 0};                        // of the tile that these sums are of; there is none yet
    auto write_late = [&](int first, int end) {
        float old[half][4] = {};
        #pragma unroll
        for (int four = first; four < end; ++four) output.read(before, four, old[four - half]);
        #pragma unroll
        for (int four = first; four < end; ++four) output.write(before, four, late[four - half], old[four - half]);
        if (end == fours) before.row = M;
        __syncwarp();                                      // lanes part where C ends, and wgmma wants whole warps
    };
    auto due = [](int first) { return 1 + (first - half) / few; };  // with which pair of tiles it is written
    for (size_t number = cluster; number < all; number += stride) {
        const Corner here = corner(number);
        float acc[WN / 2] = {};
        for (int tile = 0; tile < tiles; ++tile, ++step) {
            const int stage = step % STAGES;
            full[stage].wait(step / STAGES % 2);
            order_registers();
            #pragma unroll
            for (int k = 0; k < BK; k += 16)               // 16 columns of A; 16 rows of each box of B
                multiply<T>(acc, describe(&As[stage][warp / 4 * 64 * BK + k], 16, atom),
                            describe(&Bs[stage][k * row], BK * row * sizeof(T), atom));
            commit_products();
            if (before.row < M)
                #pragma unroll
                for (int first = half; first < fours; first += few)
                    if (tile == due(first)) write_late(first, min(first + few, fours));
            wait_for_products<1>();                        // the tiles before are multiplied
            if (tile > 0) let_go(step - 1);
        }
        if (before.row < M)                                // there were too few tiles
            #pragma unroll
            for (int first = half; first < fours; first += few)
                if (tiles <= due(first)) write_late(first, min(first + few, fours));
        float old[half][4] = {};                           // arrives while the last products are under way
        #pragma unroll
        for (int four = 0; four < half; ++four) output.read(here, four, old[four]);
        __syncwarp();
        wait_for_products(acc);
        if (tiles > 0) let_go(step - 1);
        #pragma unroll
        for (int four = 0; four < fours; ++four) {
            float sums[4];
            trade(acc, four, sums);
            if (four < half) output.write(here, four, sums, old[four]);
            else
                #pragma unroll
                for (int j = 0; j < 4; ++j) late[four - half][j] = sums[j];
        }
        before = here;
    }
    if (before.row < M) write_late(half, fours);
}
