// Attention without its matrix of scores: a thread per query, keys and values tile by tile. D numbers per head.
#include <math.h>

template <int D, int TILE>
__global__ void flash_attention(const float* Q, const float* K, const float* V, float* O, int N, float scale) {
    __shared__ float k[TILE][D], v[TILE][D];
    int head = blockIdx.y * N * D, row = blockIdx.x * TILE + threadIdx.x;
    float q[D], sums[D] = {}, most = -INFINITY, total = 0.0f;
    for (int d = 0; d < D; ++d) q[d] = Q[head + row * D + d];
    for (int start = 0; start < N; start += TILE) {
        for (int d = 0; d < D; ++d) {
            k[threadIdx.x][d] = K[head + (start + threadIdx.x) * D + d];
            v[threadIdx.x][d] = V[head + (start + threadIdx.x) * D + d];
        }
        __syncthreads();
        float score[TILE], larger = most;
        for (int j = 0; j < TILE; ++j) {
            score[j] = 0.0f;
            for (int d = 0; d < D; ++d) score[j] += q[d] * k[j][d];
            larger = fmaxf(larger, score[j] *= scale);
        }
        float shrink = __expf(most - larger);
        total *= shrink;
        for (int d = 0; d < D; ++d) sums[d] *= shrink;
        for (int j = 0; j < TILE; ++j) {
            float weight = __expf(score[j] - larger);
            total += weight;
            for (int d = 0; d < D; ++d) sums[d] += weight * v[j][d];
        }
        most = larger;
        __syncthreads();
    }
    for (int d = 0; d < D; ++d) O[head + row * D + d] = sums[d] / total;
}
