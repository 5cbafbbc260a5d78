// 01 · Naive: one thread computes one element of C.
//
// Neighbouring threads take neighbouring ROWS of C. The 32 threads of a warp therefore read
// 32 rows of A at once, K floats apart: every load of A and every store to C touches 32
// separate sectors, if rows are at least eight floats long.
//
// BM, BN: rows and columns of C per block, one thread each.
template <int BM, int BN>
__global__ void __launch_bounds__(BM * BN)
naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const size_t row = size_t(blockIdx.x / tilesN) * BM + threadIdx.x % BM;
    const size_t col = size_t(blockIdx.x % tilesN) * BN + threadIdx.x / BM;
    if (row >= M || col >= N) return;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read

    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc += A[row * K + k] * B[size_t(k) * N + col];

    float result = K > 0 ? alpha * acc : 0.0f;
    if (beta != 0.0f) result += beta * C[row * N + col];   // BLAS: beta = 0 never reads C
    C[row * N + col] = result;
}
