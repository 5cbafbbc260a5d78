// Convolves an image with a filter in constant memory; a block loads its tile with a halo.
#define RADIUS 2
#define TILE 16

__constant__ float weights[2 * RADIUS + 1][2 * RADIUS + 1];

__global__ void convolution(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE + 2 * RADIUS][TILE + 2 * RADIUS];
    int left = blockIdx.x * TILE - RADIUS, top = blockIdx.y * TILE - RADIUS;
    for (int r = threadIdx.y; r < TILE + 2 * RADIUS; r += TILE)
        for (int c = threadIdx.x; c < TILE + 2 * RADIUS; c += TILE) {
            int x = left + c, y = top + r;
            tile[r][c] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0.0f;
        }
    __syncthreads();
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int r = 0; r <= 2 * RADIUS; ++r)
        for (int c = 0; c <= 2 * RADIUS; ++c) sum += weights[r][c] * tile[threadIdx.y + r][threadIdx.x + c];
    out[y * width + x] = sum;
}
