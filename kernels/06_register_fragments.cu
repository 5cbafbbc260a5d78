// 06 · Register fragments: what a thread needs at one k is read into registers first.
//
// What changed: at each k the thread copies its TM elements of A and TN elements of B from shared
// memory into fragments, and then multiplies every one of the first with every one of the second.
// The compiler did as much by itself in 05. An array can live in registers only if all loops over it
// are unrolled; here, too, that is left to the compiler.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. TM, TN: rows and columns
// of C per thread.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM * BN / (TM * TN))
register_fragments(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    constexpr int threads = BM * BN / (TM * TN);
    constexpr int stepA = threads / BK;                    // rows of a tile that are fetched at once
    constexpr int stepB = threads / BN;
    static_assert(threads % BK == 0 && BM % stepA == 0, "the threads of a block fill the tile of A evenly");
    static_assert(threads % BN == 0 && BK % stepB == 0, "the threads of a block fill the tile of B evenly");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int tileRow = threadIdx.x / (BN / TN) * TM;      // this thread's first place in the tile of C
    const int tileCol = threadIdx.x % (BN / TN) * TN;
    const int rowA = threadIdx.x / BK, colA = threadIdx.x % BK;  // and in what is fetched at once
    const int rowB = threadIdx.x / BN, colB = threadIdx.x % BN;
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    const float* a = A + (row0 + rowA) * K + colA;         // where this thread starts to fetch
    const float* b = B + size_t(rowB) * N + col0 + colB;

    float acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BK, a += BK, b += size_t(BK) * N) {
        // Past the edges of A and B the tiles hold zeros, so that the sums need no guard.
        for (int i = 0; i < BM; i += stepA)
            As[rowA + i][colA] = row0 + rowA + i < M && k0 + colA < K ? a[size_t(i) * K] : 0.0f;
        for (int i = 0; i < BK; i += stepB)
            Bs[rowB + i][colB] = k0 + rowB + i < K && col0 + colB < N ? b[size_t(i) * N] : 0.0f;
        __syncthreads();                                   // the tiles are complete

        #pragma unroll 4                                   // so that four reads of a row of As merge
        for (int k = 0; k < BK; ++k) {
            float fragA[TM], fragB[TN];                    // all that this k needs of the tiles
            for (int m = 0; m < TM; ++m) fragA[m] = As[tileRow + m][k];
            for (int n = 0; n < TN; ++n) fragB[n] = Bs[k][tileCol + n];
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n)
                    acc[m][n] += fragA[m] * fragB[n];
        }
        __syncthreads();                                   // all threads have read them
    }

    for (int m = 0; m < TM; ++m)
        for (int n = 0; n < TN; ++n) {
            const size_t row = row0 + tileRow + m, col = col0 + tileCol + n;
            if (row >= M || col >= N) continue;
            float result = K > 0 ? alpha * acc[m][n] : 0.0f;
            if (beta != 0.0f) result += beta * C[row * N + col];   // BLAS: beta = 0 never reads C
            C[row * N + col] = result;
        }
}
