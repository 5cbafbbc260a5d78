// Sums an array: each thread strides over the grid, warps shuffle, one warp finishes, and blocks add to one word.
__global__ void reduction(const float* in, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int offset = warpSize / 2; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffff, sum, offset);
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / warpSize ? partial[lane] : 0.0f;
        for (int offset = warpSize / 2; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffff, sum, offset);
        if (lane == 0) atomicAdd(out, sum);
    }
}
