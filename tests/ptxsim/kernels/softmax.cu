// Softmax of each row, a warp per row, in one pass for the maximum and the sum.
#include <math.h>

__global__ void softmax(const float* x, float* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * columns;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < columns; i += 32) {
        float larger = fmaxf(most, in[i]);
        sum = sum * expf(most - larger) + expf(in[i] - larger);
        most = larger;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffff, most, offset), theirs = __shfl_xor_sync(0xffffffff, sum, offset);
        float larger = fmaxf(most, other);
        sum = sum * expf(most - larger) + theirs * expf(other - larger);
        most = larger;
    }
    for (int i = lane; i < columns; i += 32) y[row * columns + i] = expf(in[i] - most) / sum;
}
