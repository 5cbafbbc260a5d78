// Not a rung: what it costs to read registers. Nothing but multiply-adds, into whose machine code
// `measure.banks` writes which registers they read. None of them waits for another's result,
// whatever is written there.
template <int LENGTH, int CHAINS, int THREADS>
__global__ void __launch_bounds__(THREADS) register_banks(int steps, float x, long long* cycles, float* out)
{
    float acc[CHAINS];
    for (int chain = 0; chain < CHAINS; ++chain) acc[chain] = x * chain;
    __syncthreads();
    const long long begin = clock64();
    #pragma unroll 1
    for (int step = 0; step < steps; ++step)
        #pragma unroll
        for (int i = 0; i < LENGTH; ++i) acc[i % CHAINS] += acc[i % CHAINS] * acc[i % CHAINS];
    __syncthreads();
    const long long end = clock64();
    float sum = 0.0f;
    for (int chain = 0; chain < CHAINS; ++chain) sum += acc[chain];
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
    if (sum == -1.0f) out[0] = sum;  // never, but the compiler must not leave the sums out
}
