// Not a rung: 22's way for a short K. Threads fetch, so rows may begin anywhere, and nothing is copied before.
//
// A block has one tile of C, and many blocks share an SM: while some wait for elements of A and B, others can multiply or
// write. A block asks for the next tiles before it multiplies, as 10 does, and multiplies with WMMA, as 15 does. All sums
// meet in shared memory, where A and B were, so that a warp writes a whole row of the tile. BITS of an element of C: 32
// for float, 16 for T; the other parameters are 15's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include "overlap.cuh"
#include "result.cuh"

// Neighbours that one instruction moves.
template <typename T, int EACH>
struct alignas(EACH * sizeof(T)) Some
{
    T of[EACH];
};

// A tile on its way to shared memory, where its rows get eight elements of padding. All of a thread's elements are asked
// for before the first is stored. Zeros replace those that don't exist.
template <typename T, int ROWS, int COLS, int THREADS>
struct Tile
{
    static constexpr int held = ROWS * COLS / THREADS, most = held < 8 ? held : 8;  // elements of a thread; of one load
    static_assert(ROWS * COLS % THREADS == 0 && held % most == 0 && THREADS % COLS == 0, "all threads have as many");

    const size_t stride;                                   // elements of a row of the matrix
    const int each;                                        // neighbours that one load brings, as far as rows are aligned
    T got[held];

    __device__ Tile(const T* matrix, int columns) : stride(columns), each(even<most>(matrix) ? most : even<2>(matrix) ? 2 : 1)
    {
    }

    template <int EACH>
    __device__ bool even(const T* matrix) const
    {
        return stride % EACH == 0 && size_t(matrix) % sizeof(Some<T, EACH>) == 0;
    }

    template <int EACH>
    __device__ void load(const T* from, int rows, int cols)
    {
        constexpr int across = COLS / EACH, below = THREADS / across;  // threads to a row, and rows at a time
        const int row = threadIdx.x / across, col = threadIdx.x % across * EACH;
        from += row * stride + col;
        #pragma unroll
        for (int i = 0; i < held / EACH; ++i, from += below * stride) {
            Some<T, EACH> some = {};
            if (row + i * below < rows && col < cols) some = *reinterpret_cast<const Some<T, EACH>*>(from);
            #pragma unroll
            for (int j = 0; j < EACH; ++j) got[i * EACH + j] = some.of[j];
        }
    }

    template <int EACH>
    __device__ void store(T (&to)[ROWS][COLS + 8]) const
    {
        constexpr int across = COLS / EACH, below = THREADS / across;
        #pragma unroll
        for (int i = 0; i < held / EACH; ++i) {
            Some<T, EACH> some;
            #pragma unroll
            for (int j = 0; j < EACH; ++j) some.of[j] = got[i * EACH + j];
            T* const place = &to[threadIdx.x / across + i * below][threadIdx.x % across * EACH];
            *reinterpret_cast<Some<T, EACH>*>(place) = some;
        }
    }

    // Asks for the tile that begins there, of which so many rows and columns exist.
    __device__ void load_from(const T* from, int rows, int cols)
    {
        if (each == most) load<most>(from, rows, cols);
        else if (each == 2) load<2>(from, rows, cols);
        else load<1>(from, rows, cols);
    }

    __device__ void store_to(T (&to)[ROWS][COLS + 8]) const
    {
        if (each == most) store<most>(to);
        else if (each == 2) store<2>(to);
        else store<1>(to);
    }
};

// Scales a tile's sums and writes those within C, an element or 16 bytes of neighbours at a time to a lane. A warp writes
// all of a row before the next one. Old values are asked for before the first is awaited; with beta = 0 BLAS reads none.
template <typename Neighbours, int THREADS, typename R, int BM, int PITCH>
__device__ void write(R* to, size_t N, const float (&sums)[BM][PITCH], int rows, int cols, float alpha, float beta)
{
    constexpr int each = sizeof(Neighbours) / sizeof(R), across = (PITCH - 8) / each;  // neighbours together, and such to a row
    constexpr int lanes = across < 32 ? across : 32, parts = across / lanes, below = THREADS / lanes;
    constexpr int passes = BM / below * parts, together = passes < 8 ? passes : 8;
    static_assert(THREADS % lanes == 0 && BM % below == 0 && passes % together == 0, "all threads have as many");
    for (int first = 0; first < passes; first += together) {
        __align__(16) R old[together][each], put[each];
        auto row = [&](int i) { return int(threadIdx.x / lanes) + (first + i) / parts * below; };
        auto col = [&](int i) { return int(threadIdx.x % lanes + (first + i) % parts * lanes) * each; };
        auto exists = [&](int i) { return row(i) < rows && col(i) < cols; };
        auto place = [&](int i) { return reinterpret_cast<Neighbours*>(to + row(i) * N + col(i)); };
        if (beta != 0.0f)
            #pragma unroll
            for (int i = 0; i < together; ++i)
                if (exists(i)) *reinterpret_cast<Neighbours*>(old[i]) = *place(i);
        #pragma unroll
        for (int i = 0; i < together; ++i) {
            if (!exists(i)) continue;
            #pragma unroll
            for (int j = 0; j < each; ++j) {
                const float sum = sums[row(i)][col(i) + j];
                put[j] = R(beta != 0.0f ? fmaf(alpha, sum, beta * float(old[i][j])) : alpha * sum);
            }
            *place(i) = *reinterpret_cast<const Neighbours*>(put);
        }
    }
}

template <typename T, int BM, int BN, int BK, int WM, int WN, int BITS>
__global__ void __launch_bounds__(BM * BN / (WM * WN) * 32)
shallow(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C)
{
    using namespace nvcuda::wmma;
    constexpr int warps = BM * BN / (WM * WN), threads = warps * 32;
    constexpr int FM = WM / 16, FN = WN / 16;              // fragments down and across a warp's tile
    using TileA = T[BM][BK + 8];
    using TileB = T[BK][BN + 8];
    using Sums = float[BM][BN + 8];
    constexpr int bytes = sizeof(TileA) + sizeof(TileB);
    __shared__ __align__(32) unsigned char shared[bytes > sizeof(Sums) ? bytes : sizeof(Sums)];
    TileA& As = *reinterpret_cast<TileA*>(shared);
    TileB& Bs = *reinterpret_cast<TileB*>(shared + sizeof(TileA));
    Sums& sums = *reinterpret_cast<Sums*>(shared);

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned warp = threadIdx.x / 32;
    const unsigned tileRow = warp / (BN / WN) * WM, tileCol = warp % (BN / WN) * WN;  // where this warp's tile begins
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM, col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(min(size_t(BM), M - row0)), cols = int(min(size_t(BN), N - col0));  // of C in this tile
    Tile<T, BM, BK, threads> nextA(A, K);
    Tile<T, BK, BN, threads> nextB(B, N);
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    wait_for_last();

    auto load = [&](unsigned k) {
        nextA.load_from(A + row0 * nextA.stride + k, rows, int(K - k));
        nextB.load_from(B + k * nextB.stride + col0, int(K - k), cols);
    };
    fragment<accumulator, 16, 16, 16, float> acc[FM][FN];
    for (auto& row : acc)
        for (auto& sum : row) fill_fragment(sum, 0.0f);
    if (K > 0) load(0);
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        if (k0 > 0) __syncthreads();                       // the tiles before are multiplied
        nextA.store_to(As);
        nextB.store_to(Bs);
        __syncthreads();                                   // the tiles are complete
        if (K - k0 > BK) load(k0 + BK);
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            fragment<matrix_a, 16, 16, 16, T, row_major> a[FM];
            fragment<matrix_b, 16, 16, 16, T, row_major> b[FN];
            for (int m = 0; m < FM; ++m) load_matrix_sync(a[m], &As[tileRow + m * 16][k], BK + 8);
            for (int n = 0; n < FN; ++n) load_matrix_sync(b[n], &Bs[k][tileCol + n * 16], BN + 8);
            for (int m = 0; m < FM; ++m)
                for (int n = 0; n < FN; ++n) mma_sync(acc[m][n], a[m], b[n], acc[m][n]);
        }
    }
    let_next_begin();                                      // earlier, its blocks would wait here and crowd some SMs
    __syncthreads();                                       // sums may go where the tiles were
    for (int m = 0; m < FM; ++m)
        for (int n = 0; n < FN; ++n)
            store_matrix_sync(&sums[tileRow + m * 16][tileCol + n * 16], acc[m][n], BN + 8, mem_row_major);
    __syncthreads();                                       // the sums of all warps are there

    Result<T, BITS>* const to = C + row0 * N + col0;
    const bool aligned = N * sizeof(*C) % 16 == 0 && size_t(C) % 16 == 0;  // whether every row of C begins at 16 bytes
    if (aligned) write<uint4, threads>(to, N, sums, rows, cols, alpha, beta);
    else write<Result<T, BITS>, threads>(to, N, sums, rows, cols, alpha, beta);
}
