// 03 · Shared tile: the block stages a tile of A and a tile of B in shared memory.
//
// What changed: the walk along K goes in steps of BK. At each step every thread fetches one element
// of A and one of B from global memory, and the whole block then reuses them from shared memory, BN
// times and BM times. Global traffic falls by the size of the tile; the same number of loads remains,
// but from a memory an order of magnitude nearer.
//
// BM, BN: rows and columns of C per block, one thread each. BK: the depth of a tile.
// BM = BN = BK, so that the same threads fill a tile of A, fill a tile of B, and own the tile of C.
template <int BM, int BN, int BK>
__global__ void __launch_bounds__(BM * BN)
shared_tile(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    static_assert(BM == BN && BN == BK, "one element of A and one of B per thread: the tile is a cube");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int tileRow = threadIdx.x / BN;                  // this thread's place in every tile
    const int tileCol = threadIdx.x % BN;
    const size_t row = size_t(blockIdx.x / tilesN) * BM + tileRow;
    const size_t col = size_t(blockIdx.x % tilesN) * BN + tileCol;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    float acc = 0.0f;
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        // Outside the matrices the tiles hold zeros, so the sum below needs no guard.
        const bool inA = row < M && tileCol < K - k0;
        const bool inB = col < N && tileRow < K - k0;
        const float a = inA ? A[row * K + k0 + tileCol] : 0.0f;
        const float b = inB ? B[size_t(k0 + tileRow) * N + col] : 0.0f;
        As[tileRow][tileCol] = a;
        Bs[tileRow][tileCol] = b;
        __syncthreads();                                   // the tiles are complete

        for (int k = 0; k < BK; ++k)
            acc += As[tileRow][k] * Bs[k][tileCol];
        __syncthreads();                                   // nobody reads them any more
    }

    if (row >= M || col >= N) return;
    float result = K > 0 ? alpha * acc : 0.0f;
    if (beta != 0.0f) result += beta * C[row * N + col];   // BLAS: beta = 0 never reads C
    C[row * N + col] = result;
}
