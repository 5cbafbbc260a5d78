// Products with a vector, of one row or one column, in which every element of the matrix is used once.
//
// Only sums go through shared memory. A lane reads WORDS neighbours at once: eight where rows begin at multiples of 16
// bytes, else one. Loads of several steps are in flight together. The order of additions is fixed, so every run gives
// the same bits. T and NARROW: as in everything.cu. THREADS: per block.
#include "hopper.cuh"
#include "rows.cuh"

template <typename T, int WORDS>
struct alignas(WORDS * sizeof(T)) Words
{
    T of[WORDS];
};

// C of one column: a block has ROWS rows, and THREADS / 32 / ROWS warps share the sum of each.
template <typename T, int NARROW, int WORDS, int ROWS, int THREADS>
__global__ void __launch_bounds__(THREADS)
column(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, NARROW>* C)
{
    constexpr int sharing = THREADS / 32 / ROWS, ahead = WORDS == 8 ? 4 : 8;  // warps per row; steps in flight
    __shared__ float parts[THREADS / 32];
    if (K == 0) alpha = 0.0f;                              // BLAS: α counts for nothing then, even if it is NaN
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    let_next_begin();
    wait_for_last();
    const size_t m = size_t(blockIdx.x) * ROWS + warp / sharing;
    float sum = 0.0f;
    if (m < M && alpha != 0.0f) {
        const T* a = A + m * K;
        constexpr int stride = sharing * 32 * WORDS;
        for (int k0 = (warp % sharing * 32 + lane) * WORDS; k0 < K; k0 += stride * ahead) {
            Words<T, WORDS> x[ahead], y[ahead];
            #pragma unroll
            for (int i = 0; i < ahead; ++i)
                if (k0 + i * stride < K) {
                    x[i] = *reinterpret_cast<const Words<T, WORDS>*>(a + k0 + i * stride);
                    y[i] = *reinterpret_cast<const Words<T, WORDS>*>(B + k0 + i * stride);
                }
            #pragma unroll
            for (int i = 0; i < ahead; ++i)
                if (k0 + i * stride < K)
                    #pragma unroll
                    for (int j = 0; j < WORDS; ++j) sum = fmaf(number(x[i].of[j]), number(y[i].of[j]), sum);
        }
    }
    #pragma unroll
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    if (threadIdx.x >= ROWS || size_t(blockIdx.x) * ROWS + threadIdx.x >= M) return;
    sum = 0.0f;
    for (int i = 0; i < sharing; ++i) sum += parts[threadIdx.x * sharing + i];
    Result<T, NARROW>* c = C + size_t(blockIdx.x) * ROWS + threadIdx.x;
    put(c, beta != 0.0f ? fmaf(alpha, sum, beta * number(*c)) : alpha * sum);
}

// C of one row: a cluster of DEEP blocks has 256 columns. Its warps deal the rows of B out among themselves, and each
// block adds up the cluster's sums for a part of the columns.
template <typename T, int NARROW, int WORDS, int DEEP, int THREADS>
__global__ void __cluster_dims__(DEEP, 1, 1) __launch_bounds__(THREADS)
row(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, NARROW>* C)
{
    constexpr int warps = THREADS / 32, columns = 256, ahead = 8, part = columns / DEEP;
    __shared__ float sums[warps][columns];
    __shared__ __align__(16) float brought[DEEP][part];
    if (K == 0) alpha = 0.0f;                              // BLAS: α counts for nothing then, even if it is NaN
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned rank = blockIdx.x % DEEP;
    const size_t n0 = size_t(blockIdx.x / DEEP) * columns;
    cluster_barrier();                                     // all are there
    let_next_begin();
    wait_for_last();
    float acc[8] = {};
    if (alpha != 0.0f)
        for (int k0 = rank * warps + warp; k0 < K; k0 += DEEP * warps * ahead) {
            Words<T, WORDS> y[ahead][8 / WORDS] = {};
            T x[ahead] = {};
            #pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const int k = k0 + i * DEEP * warps;
                if (k < K) x[i] = A[k];
                #pragma unroll
                for (int j = 0; j < 8; j += WORDS) {       // neighbours, or columns 32 apart
                    const size_t n = n0 + (WORDS == 8 ? lane * 8 : lane + j * 32);
                    if (k < K && n < N)
                        y[i][j / WORDS] = *reinterpret_cast<const Words<T, WORDS>*>(B + size_t(k) * N + n);
                }
            }
            #pragma unroll
            for (int i = 0; i < ahead; ++i)
                if (k0 + i * DEEP * warps < K)             // a zero of ours would make of an infinity what it is not
                    #pragma unroll
                    for (int j = 0; j < 8; ++j)
                        acc[j] = fmaf(number(x[i]), number(y[i][j / WORDS].of[j % WORDS]), acc[j]);
        }
    #pragma unroll
    for (int j = 0; j < 8; ++j) sums[warp][WORDS == 8 ? lane * 8 + j : lane + j * 32] = acc[j];
    __syncthreads();
    if (threadIdx.x < columns / 4) {                       // four columns of this block, for whoever has them
        float four[4] = {};
        #pragma unroll
        for (int w = 0; w < warps; ++w)
            #pragma unroll
            for (int j = 0; j < 4; ++j) four[j] += sums[w][threadIdx.x * 4 + j];
        store_in(threadIdx.x * 4 / part, reinterpret_cast<float4*>(&brought[rank][threadIdx.x * 4 % part]),
                 {four[0], four[1], four[2], four[3]});
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    const size_t n = n0 + rank * part + threadIdx.x;
    if (threadIdx.x >= part || n >= N) return;
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < DEEP; ++i) sum += brought[i][threadIdx.x];
    put(C + n, beta != 0.0f ? fmaf(alpha, sum, beta * number(C[n])) : alpha * sum);
}
