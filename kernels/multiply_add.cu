// Not a rung: the ceiling of arithmetic. Nothing but multiply-adds, in chains that don't wait for each other.
template <int CHAINS>
__global__ void multiply_add(int steps, float a, float b, float* out)
{
    float acc[CHAINS];
    for (int chain = 0; chain < CHAINS; ++chain) acc[chain] = b * chain;
    #pragma unroll 16
    for (int step = 0; step < steps; ++step)
        for (int chain = 0; chain < CHAINS; ++chain) acc[chain] = a * acc[chain] + b;
    float sum = 0.0f;
    for (int chain = 0; chain < CHAINS; ++chain) sum += acc[chain];
    if (sum == b) out[0] = sum;  // hardly ever, but the compiler must not leave the sums out
}
