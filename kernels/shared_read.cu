// Not a rung: the ceiling of shared memory. Each lane reads 16 bytes at a time, side by side, without a conflict.
template <int THREADS>
__global__ void shared_read(int steps, float* out)
{
    __shared__ float4 tile[2 * THREADS];
    tile[threadIdx.x] = tile[threadIdx.x + THREADS] = {0.0f, 1.0f, 2.0f, 3.0f};
    __syncthreads();
    float4 sum = {};
    #pragma unroll 16
    for (int step = 0; step < steps; ++step) {
        const float4 four = tile[threadIdx.x + (step & 31)];  // another word each time, so that it is read each time
        sum.x += four.x, sum.y += four.y, sum.z += four.z, sum.w += four.w;
    }
    if (sum.x + sum.y + sum.z + sum.w == -1.0f) out[0] = sum.x;  // never, but the compiler doesn't know
}
