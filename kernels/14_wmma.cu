// 14 · WMMA: a warp multiplies 16 × 16 × 16 at once, on the tensor cores, through CUDA's own interface.
//
// What changed: A and B are FP16, or BF16, the sum and C are FP32, and no thread has an element of C any more.
// A fragment is a 16 × 16 matrix spread over the registers of a warp's 32 lanes, in an order that only
// the hardware knows: a warp loads two, multiplies, and stores one, all lanes together. It loads from
// global memory what lies whole in it, at multiples of 32 bytes. Any other 16 × 16 pass through shared
// memory of the warp's own, filled up with zeros.
//
// T: type of the elements of A and B, half or __nv_bfloat16. BM, BN: rows and columns of C per block. WM, WN:
// rows and columns of C per warp, 16 of each.
#include <mma.h>
#include "edges.cuh"

// Copies what exists of a 16 × 16 tile into shared memory, and zeros for the rest of it.
template <typename T>
__device__ void fill(T (&tile)[16][16], const T* from, size_t stride, int rows, int cols)
{
    __syncwarp();                                          // all lanes have read the last tile
    for (int i = threadIdx.x % 32; i < 16 * 16; i += 32) {
        const int row = i / 16, col = i % 16;
        tile[row][col] = row < rows && col < cols ? from[row * stride + col] : T{};
    }
    __syncwarp();                                          // the tile is complete
}

template <typename T, int BM, int BN, int WM, int WN>
__global__ void __launch_bounds__(BM * BN / (WM * WN) * 32)
wmma(int M, int N, int K, float alpha, const T* A, const T* B, float beta, float* C)
{
    using namespace nvcuda::wmma;
    static_assert(WM == 16 && WN == 16, "a warp has one fragment");
    static_assert(BM % WM == 0 && BN % WN == 0, "warps share the tile of a block");
    constexpr int warps = BM * BN / (WM * WN);
    __shared__ __align__(32) T As[warps][16][16], Bs[warps][16][16];
    __shared__ __align__(32) float Cs[warps][16][16];

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM + warp / (BN / WN) * WM;  // where this warp's tile begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN + warp % (BN / WN) * WN;
    if (row0 >= M || col0 >= N) return;                    // all lanes of the warp alike
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on
    // A fragment begins at a multiple of 32 bytes, and each of its rows at one of 16.
    const bool wholeA = rows >= 16 && aligned<32>(A, K), wholeB = cols >= 16 && aligned<32>(B, N);

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    const T* a = A + row0 * K;                             // where the warp's rows of A and columns of B begin
    const T* b = B + col0;

    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);
    for (unsigned k0 = 0; k0 < K; k0 += 16, a += 16, b += size_t(16) * N) {
        const int depth = int(K - k0);                     // the rest of the sum
        fragment<matrix_a, 16, 16, 16, T, row_major> fragA;
        fragment<matrix_b, 16, 16, 16, T, row_major> fragB;
        if (wholeA && depth >= 16) {
            load_matrix_sync(fragA, a, K);
        } else {
            fill(As[warp], a, K, rows, depth);
            load_matrix_sync(fragA, As[warp][0], 16);
        }
        if (wholeB && depth >= 16) {
            load_matrix_sync(fragB, b, N);
        } else {
            fill(Bs[warp], b, N, depth, cols);
            load_matrix_sync(fragB, Bs[warp][0], 16);
        }
        mma_sync(acc, fragA, fragB, acc);
    }

    const float scale = K > 0 ? alpha : 0.0f;
    for (int i = 0; i < acc.num_elements; ++i) acc.x[i] *= scale;  // whichever elements this lane has
    float* c = C + row0 * N + col0;
    if (rows >= 16 && cols >= 16 && aligned<32>(C, N)) {
        if (beta != 0.0f) {                                // BLAS: beta = 0 never reads C
            fragment<accumulator, 16, 16, 16, float> old;
            load_matrix_sync(old, c, N, mem_row_major);
            for (int i = 0; i < acc.num_elements; ++i) acc.x[i] += beta * old.x[i];
        }
        store_matrix_sync(c, acc, N, mem_row_major);
    } else {
        store_matrix_sync(Cs[warp][0], acc, 16, mem_row_major);
        __syncwarp();
        for (int i = lane; i < 16 * 16; i += 32) {
            const int row = i / 16, col = i % 16;
            if (row < rows && col < cols) {
                float* to = c + size_t(row) * N + col;
                *to = beta != 0.0f ? Cs[warp][row][col] + beta * *to : Cs[warp][row][col];
            }
        }
    }
}
