// 03 · Shared tile: the block stages a tile of A and a tile of B in shared memory.
//
// What changed: the walk along K goes in steps of BK. At each step the block fetches BM rows
// and BN columns, BK deep, from global memory once; every element is then read from shared
// memory, an element of A by BN threads, an element of B by BM.
//
// BM, BN: rows and columns of C per block, one thread each. BK: the depth of the tiles.
template <int BM, int BN, int BK>
__global__ void __launch_bounds__(BM * BN)
shared_tile(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    static_assert(BK % BM == 0 && BK % BN == 0, "the threads of a block fill both tiles evenly");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int tileRow = threadIdx.x / BN;                  // this thread's place in the tile of C
    const int tileCol = threadIdx.x % BN;
    const size_t row = size_t(blockIdx.x / tilesN) * BM + tileRow;
    const size_t col = size_t(blockIdx.x % tilesN) * BN + tileCol;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    const unsigned depthA = row < M ? K : 0;               // elements in this thread's row of A
    const unsigned depthB = col < N ? K : 0;               // and in its column of B

    const float* a = A + row * K + tileCol;                // where this thread starts to fetch
    const float* b = B + size_t(tileRow) * N + col;

    float acc = 0.0f;
    for (unsigned k0 = 0; k0 < K; k0 += BK, a += BK, b += size_t(BK) * N) {
        // Past the edges of A and B the tiles hold zeros, so that the sum needs no guard.
        for (int i = 0; i < BK; i += BN)
            As[tileRow][tileCol + i] = k0 + tileCol + i < depthA ? a[i] : 0.0f;
        for (int i = 0; i < BK; i += BM)
            Bs[tileRow + i][tileCol] = k0 + tileRow + i < depthB ? b[size_t(i) * N] : 0.0f;
        __syncthreads();                                   // the tiles are complete

        for (int k = 0; k < BK; ++k)
            acc += As[tileRow][k] * Bs[k][tileCol];
        __syncthreads();                                   // all threads have read them
    }

    if (row >= M || col >= N) return;
    float result = K > 0 ? alpha * acc : 0.0f;
    if (beta != 0.0f) result += beta * C[row * N + col];   // BLAS: beta = 0 never reads C
    C[row * N + col] = result;
}
