// A matrix in compressed rows times a dense one: a warp per row, a lane per column.
__global__ void sparse_times_dense(const int* starts, const int* columns, const float* values, const float* B, float* C,
                                   int rows, int N) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    int begin = starts[row], end = starts[row + 1];
    for (int n = lane; n < N; n += 32) {
        float sum = 0.0f;
        for (int i = begin; i < end; ++i) sum += values[i] * B[columns[i] * N + n];
        C[row * N + n] = sum;
    }
}
