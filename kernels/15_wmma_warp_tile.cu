// 15 · WMMA warp tile: a warp has FM × FN fragments of C, and so loads each of A and B for several products.
//
// What changed: WM / 16 fragments of A and WN / 16 of B make WM · WN / 256 products, where 14 had one
// of two. And a block's warps share what they read: tiles of A and B go to shared memory by cp.async,
// eight elements at a time, STAGES - 1 tiles ahead. The rows of a tile there have eight elements of
// padding, so that the 16 bytes each of eight rows that are read at once lie in different banks. For
// compute capability 8.0 and later.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. STAGES: pairs of tiles; with 0, fragments come straight from global memory where they
// can, as in 14. BLOCKS: blocks that one SM should hold.
#include <mma.h>
#include "edges.cuh"

// Starts to copy eight neighbours into shared memory, or as many zeros where the matrix has nothing to copy.
__device__ void copy8(half* to, const half* from, bool exists)
{
    const unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(exists ? 16 : 0));
}

// The same one by one, for eight neighbours of which `left` are inside the matrix.
__device__ void gather8(half* to, const half* from, int left)
{
    for (int i = 0; i < 8; ++i) to[i] = i < left ? from[i] : half{};
}

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (WM * WN) * 32, BLOCKS)
wmma_warp_tile(int M, int N, int K, float alpha, const half* A, const half* B, float beta, float* C)
{
    using namespace nvcuda::wmma;
    constexpr int warps = BM * BN / (WM * WN), threads = warps * 32;
    constexpr int FM = WM / 16, FN = WN / 16;              // fragments down and across a warp's tile
    constexpr int tiles = STAGES > 0 ? STAGES : 1;         // pairs of them
    constexpr int stepA = threads / (BK / 8);              // rows of a tile that are fetched at once
    constexpr int stepB = threads / (BN / 8);
    static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "fragments are of 16 × 16");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    static_assert(threads % (BK / 8) == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % (BN / 8) == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    extern __shared__ __align__(32) unsigned char shared[];  // the launch has to ask for more than 48 KiB
    half (&As)[tiles][BM][BK + 8] = *reinterpret_cast<half (*)[tiles][BM][BK + 8]>(shared);
    half (&Bs)[tiles][BK][BN + 8] = *reinterpret_cast<half (*)[tiles][BK][BN + 8]>(shared + sizeof(As));
    static_assert(sizeof(As) + sizeof(Bs) >= warps * 16 * 16 * sizeof(float), "at the end, each warp has a patch");

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tileRow = warp / (BN / WN) * WM, tileCol = warp % (BN / WN) * WN;  // this warp's place in the tile of C
    const int rowA = threadIdx.x / (BK / 8), colA = threadIdx.x % (BK / 8) * 8;  // this thread's place in the tile of A
    const int rowB = threadIdx.x / (BN / 8), colB = threadIdx.x % (BN / 8) * 8;  // and in that of B
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on
    // A fragment begins at a multiple of 32 bytes, and each of its rows at one of 16.
    const bool whole = rows >= BM && cols >= BN, eights = aligned<32>(A, K) && aligned<32>(B, N);

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    auto fetch = [&](unsigned k0, int stage) {
        const int depth = int(K - k0);                     // the rest of the sum
        const half* a = A + (row0 + rowA) * K + k0 + colA;
        const half* b = B + (size_t(k0) + rowB) * N + col0 + colB;
        if (k0 < K && eights) {                            // eight neighbours are all inside, or all outside
            for (int i = 0; i < BM; i += stepA)
                copy8(&As[stage][rowA + i][colA], a + size_t(i) * K, rowA + i < rows && colA < depth);
            for (int i = 0; i < BK; i += stepB)
                copy8(&Bs[stage][rowB + i][colB], b + size_t(i) * N, rowB + i < depth && colB < cols);
        } else if (k0 < K) {
            for (int i = 0; i < BM; i += stepA)
                gather8(&As[stage][rowA + i][colA], a + size_t(i) * K, rowA + i < rows ? depth - colA : 0);
            for (int i = 0; i < BK; i += stepB)
                gather8(&Bs[stage][rowB + i][colB], b + size_t(i) * N, rowB + i < depth ? cols - colB : 0);
        }
        asm volatile("cp.async.commit_group;");            // one group per tile, even if it is empty
    };

    fragment<accumulator, 16, 16, 16, float> acc[FM][FN];
    for (int m = 0; m < FM; ++m)
        for (int n = 0; n < FN; ++n) fill_fragment(acc[m][n], 0.0f);

    // From where the warp's rows of A and columns of B begin, and how far their rows are apart.
    auto multiply = [&](const half* a, unsigned strideA, const half* b, unsigned strideB) {
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> fragA[FM];
            fragment<matrix_b, 16, 16, 16, half, row_major> fragB[FN];
            for (int m = 0; m < FM; ++m) load_matrix_sync(fragA[m], a + size_t(m * 16) * strideA + k, strideA);
            for (int n = 0; n < FN; ++n) load_matrix_sync(fragB[n], b + size_t(k) * strideB + n * 16, strideB);
            for (int m = 0; m < FM; ++m)
                for (int i = 0; i < FN; ++i) {
                    const int n = m % 2 ? FN - 1 - i : i;  // to and fro
                    mma_sync(acc[m][n], fragA[m], fragB[n], acc[m][n]);
                }
        }
    };

    int stage = 0, last = tiles - 1;                       // the stage to multiply, and the one to fetch into
    for (int s = 0; s < tiles - 1; ++s) fetch(s * BK, s);
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        if (STAGES == 0 && whole && eights && K - k0 >= BK) {
            multiply(A + (row0 + tileRow) * K + k0, K, B + size_t(k0) * N + col0 + tileCol, N);
            continue;
        }
        if (tiles == 1) {
            __syncthreads();                               // all threads have read the last tiles
            fetch(k0, 0);
        }
        asm volatile("cp.async.wait_group %0;" :: "n"(tiles > 1 ? tiles - 2 : 0) : "memory");  // all but the newest
        __syncthreads();                                   // for all threads: complete, and `last` is read no more
        if (tiles > 1) fetch(k0 + (tiles - 1) * BK, last);
        multiply(&As[stage][tileRow][0], BK + 8, &Bs[stage][0][tileCol], BN + 8);
        stage = stage + 1 < tiles ? stage + 1 : 0;
        last = last + 1 < tiles ? last + 1 : 0;
    }

    const float scale = K > 0 ? alpha : 0.0f;
    const bool direct = whole && aligned<32>(C, N);
    if (!direct) __syncthreads();                          // all threads have read the tiles
    float* patch = reinterpret_cast<float*>(shared) + warp * 16 * 16;  // the warp's own
    #pragma unroll
    for (int m = 0; m < FM; ++m)
        #pragma unroll
        for (int n = 0; n < FN; ++n) {
            auto& sum = acc[m][n];
            const int row = tileRow + m * 16, col = tileCol + n * 16;
            float* c = C + (row0 + row) * N + col0 + col;
            for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= scale;  // whichever elements this lane has
            if (direct) {
                if (beta != 0.0f) {                        // BLAS: beta = 0 never reads C
                    fragment<accumulator, 16, 16, 16, float> old;
                    load_matrix_sync(old, c, N, mem_row_major);
                    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] += beta * old.x[i];
                }
                store_matrix_sync(c, sum, N, mem_row_major);
            } else {
                __syncwarp();                              // all lanes have read the last fragment
                store_matrix_sync(patch, sum, 16, mem_row_major);
                __syncwarp();
                for (int i = lane; i < 16 * 16; i += 32)
                    if (row + i / 16 < rows && col + i % 16 < cols) {
                        float* to = c + size_t(i / 16) * N + i % 16;
                        *to = beta != 0.0f ? patch[i] + beta * *to : patch[i];
                    }
            }
        }
}
