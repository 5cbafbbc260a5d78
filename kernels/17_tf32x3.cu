// 17 · TF32×3: FP32 in and out, on tensor cores that keep eleven bits of each number.
//
// What changed: each number is split into a big part, the nearest TF32, and a small part, the remainder. Three products
// of parts replace one product of numbers; the fourth, small times small, is too small to matter. Tensor cores also add
// inexactly: they cut off where FP32 rounds. So they add up the products of one pair of tiles only, and FP32
// instructions add these sums to the accumulators. A result that is not finite is computed again without the split,
// since an infinity can't be split. For compute capability 8.0 and later.
//
// BM, BN: rows and columns of C per block. BK: depth of the tiles. WM, WN: rows and columns of C per warp. STAGES:
// pairs of tiles in shared memory. BLOCKS: blocks that one SM should hold.
#include "edges.cuh"

// The place of a chunk of four floats, in chunks. The chunks of one column in eight rows lie in different banks.
template <int CHUNKS>
__device__ unsigned place(unsigned row, unsigned chunk)
{
    return row * CHUNKS + (chunk ^ row % 8);
}

// Starts to copy a chunk into shared memory, or four zeros where the matrix has no such chunk.
__device__ void copy4(float* to, const float* from, bool exists)
{
    const unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(exists ? 16 : 0));
}

// Loads 16 × 8 floats as four matrices of eight rows of 16 bytes. Each lane gives the address of one row.
__device__ void load_fragment(unsigned (&to)[4], const float* row)
{
    const unsigned address = __cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// Adds the product of 16 × 8 and 8 × 8 to 16 × 8. Bits beyond TF32's are cut off, as measured; PTX leaves it open.
__device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Splits a number in two: the nearest TF32, and the remainder, which is exact in FP32. TF32 holds all bits of the
// remainder but the last at most, so cutting it off is as good as rounding it.
__device__ void split(unsigned number, unsigned& big, unsigned& small)
{
    big = (number + (1u << 12)) & ~0u << 13;               // rounds: adds half of the last bit that stays, and cuts off
    small = __float_as_uint(__uint_as_float(number) - __uint_as_float(big));
}

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (WM * WN) * 32, BLOCKS)
tf32x3(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    constexpr int threads = BM * BN / (WM * WN) * 32;
    constexpr int FM = WM / 16, FN = WN / 8;               // fragments down and across a warp's tile
    constexpr int chunksA = BK / 4, chunksB = BN / 4;      // of a row
    constexpr int stepA = threads / chunksA, stepB = threads / chunksB;  // rows of a tile that are fetched at once
    constexpr int copiesA = BM / stepA, copies = copiesA + BK / stepB;   // of chunks, by each thread
    constexpr int steps = BK / 8;                          // of the depth of a tile
    static_assert(WM % 32 == 0 && WN % 32 == 0, "two fragments of A and four of B come at once");
    static_assert(BK % 32 == 0, "eight chunks of a row of A lie in different banks");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    static_assert(threads % chunksA == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % chunksB == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    static_assert(STAGES > 1, "a pair of tiles is fetched while another is multiplied");
    extern __shared__ __align__(128) float shared[];       // the launch has to ask for more than 48 KiB
    float (&As)[STAGES][BM * BK] = *reinterpret_cast<float (*)[STAGES][BM * BK]>(shared);
    float (&Bs)[STAGES][BK * BN] = *reinterpret_cast<float (*)[STAGES][BK * BN]>(shared + STAGES * BM * BK);

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned group = lane / 4, member = lane % 4;    // of this lane, as the PTX ISA numbers fragments
    const unsigned tileRow = warp / (BN / WN) * WM, tileCol = warp % (BN / WN) * WN;  // where this warp's tile begins
    const int rowA = threadIdx.x / chunksA, chunkA = threadIdx.x % chunksA;      // this thread's chunk among those
    const int rowB = threadIdx.x / chunksB, chunkB = threadIdx.x % chunksB;      // that are fetched at once
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    // A lane reads four neighbours of a row of B, one for each of four fragments. So each fragment has every fourth
    // column: of 32 columns, column n of fragment f is 4 (n / 2 + n % 2 * 4) + f.
    unsigned rawA[2][FM][4];                               // for this step and for the next
    uint4 rawB[2][FN / 4][2];
    auto load = [&](int stage, int step) {
        const float* a = &As[stage][place<chunksA>(tileRow + lane % 16, step * 2 + lane / 16) * 4];
        for (int m = 0; m < FM; ++m) load_fragment(rawA[step % 2][m], a + m * 16 * BK);
        for (int n = 0; n < FN / 4; ++n)
            for (int i = 0; i < 2; ++i) {
                const unsigned row = step * 8 + member + i * 4, chunk = tileCol / 4 + n * 8 + group / 2 + group % 2 * 4;
                rawB[step % 2][n][i] = *reinterpret_cast<uint4*>(&Bs[stage][place<chunksB>(row, chunk) * 4]);
            }
    };

    float acc[FM][FN][4] = {};
    auto sum = [&](bool fours) {                           // whether each chunk is all inside its matrix or all outside
        const float* a = A + (row0 + rowA) * K + chunkA * 4;   // the first elements that this thread fetches next
        const float* b = B + size_t(rowB) * N + col0 + chunkB * 4;
        int depth = K;                                     // of the sum, from there on
        auto fetch = [&](int stage, int share, int shares) {
            auto copy = [&](float* to, const float* from, int left) {
                if (fours) copy4(to, from, left > 0);
                else store4(to, load4(from, left, false), 4, true);
            };
            #pragma unroll
            for (int i = share * copies / shares; i < (share + 1) * copies / shares; ++i)
                if (i < copiesA) {
                    const int row = rowA + i * stepA;
                    copy(&As[stage][place<chunksA>(row, chunkA) * 4], a + size_t(i * stepA) * K,
                         row < rows ? depth - chunkA * 4 : 0);
                } else {
                    const int j = (i - copiesA) * stepB, row = rowB + j;
                    copy(&Bs[stage][place<chunksB>(row, chunkB) * 4], b + size_t(j) * N,
                         row < depth ? cols - chunkB * 4 : 0);
                }
            if (share + 1 < shares) return;
            asm volatile("cp.async.commit_group;");        // one group per pair of tiles, even if it is empty
            a += BK, b += size_t(BK) * N, depth -= BK;
        };

        int stage = 0, last = STAGES - 1;                  // the stage to multiply, and the one to fetch into
        for (int s = 0; s < STAGES - 1; ++s) fetch(s, 0, 1);
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();                                   // the first tiles are complete for all
        load(0, 0);
        for (unsigned k0 = 0; k0 < K; k0 += BK) {
            float part[FM][FN][4] = {};                    // the sums that tensor cores add up
            #pragma unroll
            for (int step = 0; step < steps; ++step) {
                if (step + 1 == steps) {                   // the next fragments are of the next tiles
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    last = last + 1 < STAGES ? last + 1 : 0;
                    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                    __syncthreads();                       // for all threads: complete, and `last` is read no more
                }
                load(stage, (step + 1) % steps);
                unsigned bigB[FN][2], smallB[FN][2];
                for (int n = 0; n < FN; n += 4)
                    for (int i = 0; i < 2; ++i) {
                        const uint4 four = rawB[step % 2][n / 4][i];
                        split(four.x, bigB[n][i], smallB[n][i]);
                        split(four.y, bigB[n + 1][i], smallB[n + 1][i]);
                        split(four.z, bigB[n + 2][i], smallB[n + 2][i]);
                        split(four.w, bigB[n + 3][i], smallB[n + 3][i]);
                    }
                #pragma unroll
                for (int m = 0; m < FM; m += 2) {          // two rows: seven other products between two for one sum
                    unsigned bigA[2][4], smallA[2][4];
                    for (int i = 0; i < 8; ++i)
                        split(rawA[step % 2][m + i / 4][i % 4], bigA[i / 4][i % 4], smallA[i / 4][i % 4]);
                    if (step + 1 < steps) fetch(last, (step * FM + m) / 2, (steps - 1) * FM / 2);
                    auto add = [&](const unsigned (&a)[2][4], const unsigned (&b)[FN][2]) {
                        for (int i = 0; i < 2 * FN; ++i) multiply(part[m + i / FN][i % FN], a[i / FN], b[i % FN]);
                    };
                    add(smallA, bigB);                     // the small products first
                    add(bigA, smallB);
                    add(bigA, bigB);
                }
            }
            for (int m = 0; m < FM; ++m)
                for (int n = 0; n < FN; ++n)
                    for (int i = 0; i < 4; ++i) acc[m][n][i] += part[m][n][i];
        }
    };
    if (aligned(A, K) && aligned(B, N)) sum(true);
    else sum(false);

    const float scale = K > 0 ? alpha : 0.0f;
    const bool whole = aligned(C, N);                      // whether four neighbours are all inside C, or all outside
    #pragma unroll
    for (int m = 0; m < FM; ++m) {
        struct Place { int row, col; };                    // of four neighbours, one from each of four fragments
        auto place = [&](int four) -> Place {
            return {int(tileRow + m * 16 + group + four % 4 / 2 * 8),
                    int(tileCol + four / 4 * 32 + member * 4 + four % 2 * 16)};
        };
        float4 old[FN] = {};                               // all reads come before the first write: a lane waits once
        if (beta != 0.0f)                                  // BLAS: beta = 0 never reads C
            #pragma unroll
            for (int four = 0; four < FN; ++four) {
                const auto [row, col] = place(four);
                if (row < rows && col < cols) old[four] = load4(C + (row0 + row) * N + col0 + col, cols - col, whole);
            }
        #pragma unroll
        for (int four = 0; four < FN; ++four) {
            const auto [row, col] = place(four);
            if (row >= rows || col >= cols) continue;
            const int n = four / 4 * 4, i = four % 4;
            float sums[4] = {acc[m][n][i], acc[m][n + 1][i], acc[m][n + 2][i], acc[m][n + 3][i]};
            for (int j = 0; j < 4; ++j) {
                if (isfinite(sums[j]) || col + j >= cols) continue;
                sums[j] = 0.0f;                            // not finite: again, without the split
                #pragma unroll 1
                for (unsigned k = 0; k < K; ++k)
                    sums[j] += A[(row0 + row) * K + k] * B[size_t(k) * N + col0 + col + j];
            }
            float4 result = {scale * sums[0], scale * sums[1], scale * sums[2], scale * sums[3]};
            if (beta != 0.0f) {
                result.x += beta * old[four].x;
                result.y += beta * old[four].y;
                result.z += beta * old[four].z;
                result.w += beta * old[four].w;
            }
            store4(C + (row0 + row) * N + col0 + col, result, cols - col, whole);
        }
    }
}
