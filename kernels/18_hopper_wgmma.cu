// 18 · Hopper's wgmma: a copy engine brings whole tiles, and four warps multiply them straight from shared memory.
//
// What changed: one thread asks the copy engine (TMA) for a box of a matrix, which comes swizzled and with zeros where
// the matrix has ended, and an mbarrier tells all threads when its bytes are there. No thread computes addresses, no
// fragment is loaded: wgmma takes both operands from shared memory and goes on by itself until it is waited for. While
// one tile's products are summed up, the next one's begin, and further tiles are on their way. For sm_90a; the rows of
// A and B begin at multiples of 16 bytes, and neither is empty.
//
// T: type of the elements of A and B, half or __nv_bfloat16. BM, BN: rows and columns of C per block. BK: the depth of
// the tiles. WM, WN: rows and columns of C per warp. STAGES: pairs of tiles. THREADS: per block; where there are 128
// more than multiply, one of those does all the fetching, gives its warpgroup's registers to the others, and knows by a
// second mbarrier per stage when it may fetch.
// PERSISTENT: 1 where there are as many blocks as multiprocessors and each does one tile of C after the other, so that
// the next one's tiles are fetched while this one is written; else 0. GROUP: rows of tiles of C that are done together,
// column by column, so that blocks which run at the same time share more of A and B in L2. CLUSTER: blocks, one below the
// other, that share their tiles of B: each fetches a part for all of them.
#include "wgmma.cuh"

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS, int PERSISTENT, int GROUP,
          int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
hopper_wgmma(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C,
             const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{
    constexpr int row = 64;                                // elements in 128 bytes, a row of a box
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr int workers = BM / 64 * 128;                 // threads that multiply
    constexpr bool specialised = THREADS > workers;        // whether others fetch
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks change places
    static_assert(BK == row && BM <= 256, "boxes have rows of 128 bytes, 256 at most");
    static_assert(WM == 16 && WN == BN && BM % 64 == 0, "four warps share 64 rows of C");
    static_assert(THREADS == workers + specialised * 128, "four warps or none are left to fetch");
    static_assert(STAGES > 2, "a pair of tiles comes while two are multiplied");
    static_assert(CLUSTER == 1 || specialised, "who fetches for others waits for them");
    static_assert(GROUP % CLUSTER == 0, "a group has whole clusters");
    extern __shared__ __align__(1024) T shared[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(shared);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(shared + STAGES * tileA);
    Barrier* full = reinterpret_cast<Barrier*>(shared + STAGES * (tileA + tileB));  // the tiles of a stage are there
    Barrier* empty = full + STAGES;                        // and nobody reads them any more

    constexpr unsigned high = CLUSTER * BM;                // rows of C of a cluster
    const unsigned tilesM = (unsigned(M) + high - 1) / high, tilesN = (unsigned(N) + BN - 1) / BN;  // of such tiles
    const unsigned rank = blockIdx.x % CLUSTER, cluster = blockIdx.x / CLUSTER;
    const size_t all = size_t(tilesM) * tilesN;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const int tiles = (unsigned(K) + BK - 1) / BK;

    const size_t stride = PERSISTENT ? gridDim.x / CLUSTER : all;  // from one tile of C of this cluster to the next
    struct Corner { size_t row, col; };
    auto corner = [&](size_t number) -> Corner {           // where a tile of C begins
        constexpr unsigned together = GROUP / CLUSTER;
        const unsigned first = number / (size_t(together) * tilesN) * together;  // row of tiles of its group
        const size_t inside = number % (size_t(together) * tilesN);
        const unsigned height = min(tilesM - first, together);
        return {(first + inside % height) * high + rank * BM, inside / height * BN};
    };

    if (threadIdx.x == 0) {
        prefetch(mapA);
        prefetch(mapB);
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * workers / 32);
        }
        fence_proxy();                                     // the copy engine is to know of them
    }
    if constexpr (CLUSTER > 1) cluster_barrier();
    else __syncthreads();

    constexpr int part = BK / CLUSTER;                     // rows of B that this block fetches, for all of its cluster
    auto fetch = [&](int step, int tile, Corner of) {      // by one thread; `step` counts for all tiles of C
        const int stage = step % STAGES;
        full[stage].arrive_and_expect((tileA + tileB) * sizeof(T));
        copy_box(As[stage], mapA, of.row, tile * BK, full[stage]);
        #pragma unroll
        for (int n = 0; n < boxes * row; n += row)
            if constexpr (CLUSTER == 1)
                copy_box(&Bs[stage][n * BK], mapB, tile * BK, of.col + n, full[stage]);
            else
                copy_box(&Bs[stage][n * BK + rank * part * row], mapB, tile * BK + rank * part, of.col + n, full[stage],
                         (1 << CLUSTER) - 1);
    };
    auto let_go = [&](int step) {                          // as far as this warp is concerned, by all who fill the stage
        if constexpr (CLUSTER == 1) {
            if (lane == 0) empty[step % STAGES].arrive();
        } else {
            if (lane < CLUSTER) empty[step % STAGES].arrive_in(lane);
        }
    };
    unsigned step = 0;                                     // the first pair of tiles for this tile of C
    if constexpr (specialised) {
        if (threadIdx.x >= workers) {
            give_registers<40>();
            if (threadIdx.x > workers) return;
            auto wait_for_room = [&] {
                if (step >= STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);
            };
            for (size_t number = cluster; number < all; number += stride) {
                const Corner here = corner(number);
                for (int tile = 0; tile < tiles; ++tile, ++step) {
                    wait_for_room();
                    fetch(step, tile, here);
                }
            }
            // The block is not to end before others have let go of what it fetched: they say so in its shared memory.
            if constexpr (CLUSTER > 1)
                for (int stage = 0; stage < STAGES; ++stage, ++step) wait_for_room();
            return;
        }
        take_registers<232>();
    }

    const float scale = K > 0 ? alpha : 0.0f;
    const bool aligned = size_t(C) % 16 == 0;              // its rows are, if their first is: N is a multiple of eight
    auto place = [&](Corner tile, int four) -> float* {    // of four neighbours, if C has them
        const size_t m = tile.row + warp * WM + lane / 4 + four % 2 * 8;
        const size_t n = tile.col + four / 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
        return m < M && n < N ? C + m * N + n : nullptr;
    };
    auto read = [&](Corner tile, int four, float (&old)[4]) {
        const float* c = place(tile, four);
        if (beta == 0.0f || c == nullptr) return;          // BLAS: beta = 0 never reads C
        if (aligned) *reinterpret_cast<float4*>(old) = *reinterpret_cast<const float4*>(c);
        else for (int j = 0; j < 4; ++j) old[j] = c[j];
    };
    auto write = [&](Corner tile, int four, const float (&sums)[4], const float (&old)[4]) {
        float* c = place(tile, four);
        if (c == nullptr) return;
        float put[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) put[j] = beta != 0.0f ? fmaf(scale, sums[j], beta * old[j]) : scale * sums[j];
        if (aligned) *reinterpret_cast<float4*>(c) = {put[0], put[1], put[2], put[3]};
        else for (int j = 0; j < 4; ++j) c[j] = put[j];
    };

    // Half of the sums are written while the next tile's products are under way. All of a few are read before any is
    // written, so that a lane waits for C once and not four times; for more there are no registers.
    constexpr int fours = WN / 8, half = fours / 2, few = 4;
    float late[half][4] = {};
    Corner before = {size_t(M), 0};                        // whose they are; there are none yet
    auto write_late = [&](int first, int end) {
        float old[half][4] = {};
        #pragma unroll
        for (int four = first; four < end; ++four) read(before, four, old[four - half]);
        #pragma unroll
        for (int four = first; four < end; ++four) write(before, four, late[four - half], old[four - half]);
        if (end == fours) before.row = M;
        __syncwarp();                                      // lanes part where C ends, and wgmma wants whole warps
    };
    auto due = [](int first) { return 1 + (first - half) / few; };  // with which of the next one's pairs of tiles
    for (size_t number = cluster; number < all; number += stride) {
        const Corner here = corner(number);
        if (!specialised && threadIdx.x == 0)
            for (int tile = 0; tile < STAGES - 1 && tile < tiles; ++tile) fetch(step + tile, tile, here);

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
            if (PERSISTENT && before.row < M)
                #pragma unroll
                for (int first = half; first < fours; first += few)
                    if (tile == due(first)) write_late(first, min(first + few, fours));
            wait_for_products<1>();                        // those of the tile before, whose stage is free
            if constexpr (specialised) {
                if (tile > 0) let_go(step - 1);
            } else {
                __syncthreads();                           // for all
                const int next = tile + STAGES - 1;
                if (threadIdx.x == 0 && next < tiles) fetch(step + STAGES - 1, next, here);
            }
        }
        if (PERSISTENT && before.row < M)                  // there were too few tiles
            #pragma unroll
            for (int first = half; first < fours; first += few)
                if (tiles <= due(first)) write_late(first, min(first + few, fours));
        float old[half][4] = {};                           // comes while the last products are under way
        #pragma unroll
        for (int four = 0; four < half; ++four) read(here, four, old[four]);
        __syncwarp();
        wait_for_products(acc);
        if constexpr (!specialised) __syncthreads();       // the stages are free for the next tile of C
        else if (tiles > 0) let_go(step - 1);

        // Of 16 columns a lane has two neighbours, and two more eight columns on. It gives one pair away and gets from
        // the lane beside it what makes four neighbours of the other.
        const bool odd = lane % 2;
        #pragma unroll
        for (int four = 0; four < fours; ++four) {
            const int own = four / 2 * 8 + four % 2 * 2;   // of a row, and then of the one eight rows below
            float sums[4];
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float left = acc[own + j], right = acc[own + 4 + j];
                const float got = __shfl_xor_sync(~0u, odd ? left : right, 1);
                sums[j] = odd ? got : left;
                sums[2 + j] = odd ? right : got;
            }
            if (four < half) write(here, four, sums, old[four]);
            else
                #pragma unroll
                for (int j = 0; j < 4; ++j) late[four - half][j] = sums[j];
        }
        before = here;
    }
    if (before.row < M) write_late(half, fours);
}
