// Inclusive prefix sums in one pass: each block scans its part, then looks back at the sums of the blocks before it.
#define BLOCK 128

__global__ void scan(const int* in, int* out, volatile int* state, int* total, int n) {
    __shared__ int s[BLOCK];
    __shared__ int before;
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    s[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int d = 1; d < BLOCK; d *= 2) {
        int add = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += add;
        __syncthreads();
    }
    if (t == BLOCK - 1) {
        int sum = 0;
        if (blockIdx.x > 0) {
            while (state[blockIdx.x - 1] == 0) {}
            __threadfence();
            sum = total[blockIdx.x - 1];
        }
        before = sum;
        total[blockIdx.x] = sum + s[t];
        __threadfence();
        state[blockIdx.x] = 1;
    }
    __syncthreads();
    if (i < n) out[i] = before + s[t];
}
