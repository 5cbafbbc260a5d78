// 21 · TF32×3 by wgmma: 17's three products of parts, on tiles that the copy engine brings.
//
// What changed since 17: wgmma takes TF32 from shared memory only where the elements of one sum lie side by side. They
// do in A, and not in B. So this kernel computes the transpose of C: its B operand is A's tile in shared memory, its A
// operand is B's tile, through registers, where each number is split. Tensor cores cut A's tile off to its big parts by
// themselves; three warps write the small parts beside it while others multiply. For sm_90a. Rows of A and B begin at
// multiples of 16 bytes, those of C at multiples of 8, and no matrix is empty.
//
// BM, BN: rows and columns of C per block. BK: depth of the tiles. WM, WN: rows and columns of C per warp. STAGES:
// tiles of A, of its small parts, and of B. THREADS: per block, 128 more than multiply: one warp of these fetches,
// three split. GROUP, CLUSTER: as in 20.
#include "wgmma.cuh"

// Splits a number in two: the nearest TF32, and the remainder, which is exact in FP32.
__device__ void split(float number, unsigned& big, unsigned& small)
{
    big = (__float_as_uint(number) + (1u << 12)) & ~0u << 13;  // adds half of the last bit kept, and cuts off
    small = __float_as_uint(number - __uint_as_float(big));
}

// The remainder of a number that is cut off to TF32. It is cut off too, so half of its last bit is added first.
__device__ float left_out(float number)
{
    const float big = __uint_as_float(__float_as_uint(number) & ~0u << 13);
    return __uint_as_float(__float_as_uint(number - big) + (1u << 12));
}

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS, int GROUP, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
tf32x3_wgmma(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
              const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{
    constexpr int row = 32;                                // floats in 128 bytes, a row of a box
    constexpr int tileA = BM * BK, tileB = BK * BN;        // floats
    constexpr int workers = BN / 64 * 128;                 // threads that multiply
    constexpr unsigned atom = 8 * row * sizeof(float);     // bytes of eight rows, among which chunks are swizzled
    static_assert(BK == row && BN % 64 == 0 && BM <= 256, "boxes have rows of 128 bytes, 256 at most");
    static_assert(WM == BM && WN == 16, "four warps share 64 columns of C");
    static_assert(THREADS == workers + 128, "a warp fetches, three split");
    extern __shared__ __align__(1024) float shared[];
    float (&As)[STAGES][tileA] = *reinterpret_cast<float (*)[STAGES][tileA]>(shared);
    float (&smallAs)[STAGES][tileA] = *reinterpret_cast<float (*)[STAGES][tileA]>(shared + STAGES * tileA);
    float (&Bs)[STAGES][tileB] = *reinterpret_cast<float (*)[STAGES][tileB]>(shared + 2 * STAGES * tileA);
    Barrier* full = reinterpret_cast<Barrier*>(shared + STAGES * (2 * tileA + tileB));  // wait for a stage's bytes
    Barrier* ready = full + STAGES;                        // these for the small parts of A
    Barrier* empty = ready + STAGES;                       // and these until no warp reads the stage

    constexpr unsigned high = CLUSTER * BM;                // rows of C of a cluster
    const unsigned tilesM = (unsigned(M) + high - 1) / high, tilesN = (unsigned(N) + BN - 1) / BN;  // of such tiles
    const unsigned rank = blockIdx.x % CLUSTER, cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    const size_t all = size_t(tilesM) * tilesN;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned tiles = (unsigned(K) + BK - 1) / BK;

    struct Corner { size_t row, col; };
    auto corner = [&](size_t number) -> Corner {           // where a tile of C begins
        const unsigned first = number / (size_t(GROUP) * tilesN) * GROUP;        // row of tiles of its group
        const size_t inside = number % (size_t(GROUP) * tilesN);
        const unsigned height = min(tilesM - first, GROUP);
        return {(first + inside % height) * high + rank * BM, inside / height * BN};
    };

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            ready[stage].init(3);
            empty[stage].init(CLUSTER * workers / 32);
        }
        fence_proxy();                                     // the copy engine must see the barriers
    }
    if constexpr (CLUSTER > 1) cluster_barrier();
    else __syncthreads();

    unsigned step = 0;                                     // pairs of tiles so far, for all tiles of C
    if (threadIdx.x >= workers) {
        give_registers<40>();
        constexpr int part = BK / CLUSTER;                 // rows of B that this block fetches, for all of its cluster
        if (threadIdx.x == workers)
            for (size_t number = cluster; number < all; number += clusters) {
                const auto [row0, col0] = corner(number);
                for (unsigned tile = 0; tile < tiles; ++tile, ++step) {
                    const int stage = step % STAGES;
                    if (step >= STAGES) empty[stage].wait((step / STAGES - 1) % 2);
                    full[stage].arrive_and_expect((tileA + tileB) * sizeof(float));
                    copy_box(As[stage], mapA, row0, tile * BK, full[stage]);
                    #pragma unroll
                    for (int n = 0; n < BN; n += row)
                        if constexpr (CLUSTER == 1)
                            copy_box(&Bs[stage][n * BK], mapB, tile * BK, col0 + n, full[stage]);
                        else
                            copy_box(&Bs[stage][n * BK + rank * part * row], mapB, tile * BK + rank * part, col0 + n,
                                     full[stage], (1 << CLUSTER) - 1);
                }
            }
        if (warp > workers / 32)
            for (size_t number = cluster; number < all; number += clusters)
                for (unsigned tile = 0; tile < tiles; ++tile, ++step) {
                    const int stage = step % STAGES;
                    full[stage].wait(step / STAGES % 2);
                    const float4* from = reinterpret_cast<const float4*>(As[stage]);
                    float4* to = reinterpret_cast<float4*>(smallAs[stage]);
                    #pragma unroll 4
                    for (int chunk = threadIdx.x - workers - 32; chunk < tileA / 4; chunk += 96) {
                        const float4 four = from[chunk];
                        to[chunk] = {left_out(four.x), left_out(four.y), left_out(four.z), left_out(four.w)};
                    }
                    fence_proxy();                         // wgmma must see these stores
                    __syncwarp();
                    if (lane == 0) ready[stage].arrive();
                }
        if constexpr (CLUSTER > 1) cluster_barrier();      // other blocks still arrive at this block's barriers
        return;
    }
    take_registers<232>();

    // A lane reads two neighbours of a row of B, which are eight rows apart in its fragment. Of 32 columns a warp takes
    // four chunks of four: each half of the warp takes two that are four chunks apart. With the swizzle of their rows,
    // 16 lanes then read from different banks.
    const unsigned group = lane / 4, member = lane % 4;    // of this lane, as the PTX ISA numbers fragments
    const unsigned box = warp / 2 * row, chunk = warp % 2 * 2 + group / 4 + group / 2 % 2 * 4;  // of the box's eight
    const unsigned tileCol = box + chunk * 4 + group % 2 * 2;  // of the first of this lane's two columns of C
    float2 raw[BK / 4];                                    // this lane's of a tile of B: two pairs for each eight rows
    auto load = [&](int stage) {
        #pragma unroll
        for (int i = 0; i < BK / 4; ++i) {
            const unsigned k = i * 4 + member;
            raw[i] = *reinterpret_cast<float2*>(&Bs[stage][box * BK + k * row + (chunk ^ k % 8) * 4 + group % 2 * 2]);
        }
    };

    const float scale = K > 0 ? alpha : 0.0f;
    for (size_t number = cluster; number < all; number += clusters) {
        __syncwarp();                                      // lanes parted at C's edge, and where sums were not finite
        const Corner here = corner(number);
        const size_t row0 = here.row, col0 = here.col;
        const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on

        float acc[BM / 2] = {};
        if (tiles > 0) {
            ready[step % STAGES].wait(step / STAGES % 2);
            load(step % STAGES);
        }
        for (unsigned tile = 0; tile < tiles; ++tile, ++step) {
            const int stage = step % STAGES;
            float part[BM / 2];                            // the sums that tensor cores add up
            unsigned big[BK / 8][4], small[BK / 8][4];
            #pragma unroll
            for (int k = 0; k < BK / 8; ++k) {             // the small products first, while the sums are small
                split(raw[2 * k].x, big[k][0], small[k][0]);
                split(raw[2 * k].y, big[k][1], small[k][1]);
                split(raw[2 * k + 1].x, big[k][2], small[k][2]);
                split(raw[2 * k + 1].y, big[k][3], small[k][3]);
                order_registers(big[k], small[k]);
                multiply(part, small[k], describe(&As[stage][k * 8], 16, atom), k > 0);  // small · big
                multiply(part, big[k], describe(&smallAs[stage][k * 8], 16, atom));  // big · small
            }
            #pragma unroll
            for (int k = 0; k < BK / 8; ++k) multiply(part, big[k], describe(&As[stage][k * 8], 16, atom));  // both big
            commit_products();
            if (tile + 1 < tiles) {                        // the next tiles, while these are multiplied
                ready[(step + 1) % STAGES].wait((step + 1) / STAGES % 2);
                load((step + 1) % STAGES);
            }
            wait_for_products(part);
            if constexpr (CLUSTER == 1) {                  // this warp has read the stage
                if (lane == 0) empty[stage].arrive();
            } else {
                if (lane < CLUSTER) empty[stage].arrive_in(lane);
            }
            #pragma unroll
            for (int i = 0; i < BM / 2; ++i) acc[i] += part[i];
        }

        // A lane's sums: of each eight rows of C, two neighbouring rows of one column, then of the next column.
        auto sum_row = [&](int i) { return i / 4 * 8 + int(member) * 2 + i % 2; };
        unsigned long long odd = 0;                        // bit i is set where sum i is not finite
        #pragma unroll
        for (int i = 0; i < BM / 2; ++i) odd |= (unsigned long long)!isfinite(acc[i]) << i;
        #pragma unroll 1
        for (int which = 0; odd; ++which, odd >>= 1) {
            if (odd % 2 == 0) continue;
            const int m = sum_row(which), n = tileCol + which / 2 % 2;
            float sum = 0.0f;                              // again, without the split: an infinity can't be split
            if (m < rows && n < cols)
                for (unsigned k = 0; k < K; ++k) sum += A[(row0 + m) * K + k] * B[size_t(k) * N + col0 + n];
            #pragma unroll
            for (int i = 0; i < BM / 2; ++i)
                if (i == which) acc[i] = sum;
        }
        if (int(tileCol) >= cols) continue;                // and so is its neighbour
        auto place = [&](int i) { return reinterpret_cast<float2*>(C + (row0 + sum_row(i)) * N + col0 + tileCol); };
        float2 old[BM / 2] = {};                           // all reads come before the first write: a lane waits once
        #pragma unroll
        for (int i = 0; i < BM / 2; i += i % 2 ? 3 : 1)
            if (beta != 0.0f && sum_row(i) < rows) old[i] = *place(i);  // BLAS: beta = 0 never reads C
        #pragma unroll
        for (int i = 0; i < BM / 2; i += i % 2 ? 3 : 1) {
            if (sum_row(i) >= rows) continue;
            const float2 sums = {scale * acc[i], scale * acc[i + 2]};
            *place(i) = beta == 0.0f ? sums : float2{sums.x + beta * old[i].x, sums.y + beta * old[i].y};
        }
    }
    if constexpr (CLUSTER > 1) cluster_barrier();
}
