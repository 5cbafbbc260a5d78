// 16 · mma: the tensor cores' own instruction, and tiles whose chunks of 16 bytes are swizzled.
//
// What changed: mma.sync multiplies 16 × 16 by 16 × 8, and the PTX ISA says which lane holds which element. So each
// warp loads its fragments itself, with ldmatrix, and a tile no longer has to be a plain matrix with padding, as in
// 15. Rows follow each other without gaps, and the chunks of a row, eight elements each, are swizzled: a chunk's place
// is its number XOR the row's. While a warp multiplies the fragments of one step, it loads those of the next; it waits
// for the next pair of tiles half a step before it needs them. At the end, lanes trade sums in pairs, so that each
// writes four neighbours. For compute capability 8.0 and later.
//
// T: type of the elements of A and B, half or __nv_bfloat16. BM, BN: rows and columns of C per block. BK: depth of
// the tiles. WM, WN: rows and columns of C per warp. STAGES: pairs of tiles in shared memory. BLOCKS: blocks that
// one SM should hold.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "edges.cuh"

// The place of a chunk in its tile, counted in chunks. The chunks of one column in eight rows lie in different banks.
template <int CHUNKS>
__device__ unsigned place(unsigned row, unsigned chunk)
{
    constexpr unsigned together = CHUNKS < 8 ? 8 / CHUNKS : 1;  // rows that share the 32 banks
    return row * CHUNKS + (chunk ^ row / together % (CHUNKS < 8 ? CHUNKS : 8));
}

// Starts to copy a chunk into shared memory, or eight zeros where the matrix has no such chunk.
template <typename T>
__device__ void copy8(T* to, const T* from, bool exists)
{
    const unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(exists ? 16 : 0));
}

// Copies eight neighbours one by one; `left` of them are inside the matrix, and the others become zeros.
template <typename T>
__device__ void gather8(T* to, const T* from, int left)
{
    #pragma unroll 4                                       // unrolled fully, it would take registers from the fragments
    for (int i = 0; i < 8; ++i) to[i] = i < left ? from[i] : T{};
}

// Loads 16 × 16 elements as four 8 × 8 matrices. Each lane gives the address of one row of one of them.
template <typename T>
__device__ void load_fragment(unsigned (&to)[4], const T* row)
{
    const unsigned address = __cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// The same, with each 8 × 8 matrix transposed.
template <typename T>
__device__ void load_transposed(unsigned (&to)[4], const T* row)
{
    const unsigned address = __cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// Adds the product of 16 × 16 and 16 × 8 to 16 × 8.
template <typename T>
__device__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ void multiply<__nv_bfloat16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (WM * WN) * 32, BLOCKS)
mma(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C)
{
    constexpr int threads = BM * BN / (WM * WN) * 32;
    constexpr int FM = WM / 16, FN = WN / 16;              // fragments down and across a warp's tile
    constexpr int chunksA = BK / 8, chunksB = BN / 8;      // of a row
    constexpr int stepA = threads / chunksA, stepB = threads / chunksB;  // rows of a tile that are fetched at once
    constexpr int copiesA = BM / stepA, copies = copiesA + BK / stepB;   // of chunks, by each thread
    constexpr int steps = BK / 16;                         // of the depth of a tile
    constexpr int turn = (steps - 1) * FM - FM / 2;        // rows of products before the wait for the next tiles
    static_assert(WM % 32 == 0 && WN % 16 == 0 && BK % 32 == 0, "fragments, rows of them, and steps come in pairs");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    static_assert(threads % chunksA == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % chunksB == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    static_assert(STAGES > 1, "a pair of tiles is fetched while another is multiplied");
    extern __shared__ __align__(128) T shared[];           // the launch has to ask for more than 48 KiB
    T (&As)[STAGES][BM * BK] = *reinterpret_cast<T (*)[STAGES][BM * BK]>(shared);
    T (&Bs)[STAGES][BK * BN] = *reinterpret_cast<T (*)[STAGES][BK * BN]>(shared + STAGES * BM * BK);

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned tileRow = warp / (BN / WN) * WM, tileCol = warp % (BN / WN) * WN;  // where this warp's tile begins
    const int rowA = threadIdx.x / chunksA, chunkA = threadIdx.x % chunksA;      // this thread's chunk among those
    const int rowB = threadIdx.x / chunksB, chunkB = threadIdx.x % chunksB;      // that are fetched at once
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    unsigned fragA[2][FM][4], fragB[2][FN][4];             // for this step and for the next
    float acc[FM][2 * FN][4] = {};
    // Lane 8i + j gives the address of row j of matrix i. Matrices 0 and 1 lie below each other, 2 and 3 to their
    // right. Sixteen rows further down, chunks have the same places in their rows.
    auto load = [&](int stage, int step) {
        const T* a = &As[stage][place<chunksA>(tileRow + lane % 16, step * 2 + lane / 16) * 8];
        for (int m = 0; m < FM; ++m) load_fragment(fragA[step % 2][m], a + m * 16 * BK);
        const T* b = &Bs[stage][step * 16 * BN];
        for (int n = 0; n < FN; ++n)
            load_transposed(fragB[step % 2][n], b + place<chunksB>(lane % 16, tileCol / 8 + n * 2 + lane / 16) * 8);
    };

    auto sum = [&](bool eights) {                          // whether each chunk is all inside its matrix or all outside
        const T* a = A + (row0 + rowA) * K + chunkA * 8;    // the first elements that this thread fetches next
        const T* b = B + size_t(rowB) * N + col0 + chunkB * 8;
        int depth = K;                                     // of the sum, from there on
        auto fetch = [&](int stage, int share, int shares) {
            auto copy = [&](T* to, const T* from, int left) {
                if (eights) copy8(to, from, left > 0);
                else gather8(to, from, left);
            };
            #pragma unroll
            for (int i = share * copies / shares; i < (share + 1) * copies / shares; ++i)
                if (i < copiesA) {
                    const int row = rowA + i * stepA;
                    copy(&As[stage][place<chunksA>(row, chunkA) * 8], a + size_t(i * stepA) * K,
                         row < rows ? depth - chunkA * 8 : 0);
                } else {
                    const int j = (i - copiesA) * stepB, row = rowB + j;
                    copy(&Bs[stage][place<chunksB>(row, chunkB) * 8], b + size_t(j) * N,
                         row < depth ? cols - chunkB * 8 : 0);
                }
            if (share + 1 < shares) return;
            asm volatile("cp.async.commit_group;");        // one group per pair of tiles, even if it is empty
            a += BK, b += size_t(BK) * N, depth -= BK;
        };

        int stage = 0, last = STAGES - 1;                  // the stage to load from, and the one to fetch into
        for (int s = 0; s < STAGES - 1; ++s) fetch(s, 0, 1);
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();                                   // the first tiles are complete for all
        load(0, 0);
        for (unsigned k0 = 0; k0 < K; k0 += BK) {
            #pragma unroll
            for (int step = 0; step < steps; ++step) {
                load(stage, (step + 1) % steps);
                #pragma unroll
                for (int m = 0; m < FM; ++m) {
                    const int row = step * FM + m;         // of products
                    if (row == turn) {                     // half a step before the next tiles are needed
                        stage = stage + 1 < STAGES ? stage + 1 : 0;
                        last = last + 1 < STAGES ? last + 1 : 0;
                        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                        __syncthreads();                   // for all threads: complete, and `last` is read no more
                    }
                    if (row < turn) fetch(last, row, turn);
                    for (int i = 0; i < 2 * FN; ++i) {
                        const int n = m % 2 ? 2 * FN - 1 - i : i;  // to and fro
                        const unsigned (&b)[4] = fragB[step % 2][n / 2];
                        multiply<T>(acc[m][n], fragA[step % 2][m], b[n % 2 * 2], b[n % 2 * 2 + 1]);
                    }
                }
            }
        }
    };
    if (aligned(A, K) && aligned(B, N)) sum(true);
    else sum(false);

    const float scale = K > 0 ? alpha : 0.0f;
    const bool fours = aligned(C, N);                      // whether four neighbours are all inside C, or all outside
    const bool odd = lane % 2;
    #pragma unroll
    for (int m = 0; m < FM; ++m) {
        struct Place { float* first; int inside; };        // four neighbours of C, and how many are inside
        auto place = [&](int four) -> Place {
            const int row = tileRow + m * 16 + lane / 4 + four % 2 * 8;
            const int col = tileCol + four / 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
            return {C + (row0 + row) * N + col0 + col, row < rows ? cols - col : 0};
        };
        float4 old[2 * FN] = {};                           // all reads come before the first write: a lane waits once
        if (beta != 0.0f)                                  // BLAS: beta = 0 never reads C
            #pragma unroll
            for (int four = 0; four < 2 * FN; ++four) {
                const auto [c, inside] = place(four);
                if (inside > 0) old[four] = load4(c, inside, fours);
            }
        #pragma unroll
        for (int four = 0; four < 2 * FN; ++four) {
            // Of 16 columns a lane holds two neighbours, and two more eight columns on. It gives one of the two pairs
            // to the lane beside it, and gets the neighbours of the other.
            const int n = four / 2 * 2, i = four % 2 * 2;  // even fours are of one row, odd ones of the row eight below
            float sums[4];
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float left = acc[m][n][i + j], right = acc[m][n + 1][i + j];
                const float got = __shfl_xor_sync(~0u, odd ? left : right, 1);
                sums[j] = odd ? got : left;
                sums[2 + j] = odd ? right : got;
            }
            const auto [c, inside] = place(four);
            if (inside <= 0) continue;
            float4 result = {scale * sums[0], scale * sums[1], scale * sums[2], scale * sums[3]};
            if (beta != 0.0f) {
                result.x += beta * old[four].x;
                result.y += beta * old[four].y;
                result.z += beta * old[four].z;
                result.w += beta * old[four].w;
            }
            store4(c, result, inside, fours);
        }
    }
}
