// Sorts as many numbers as a block has threads, in place.
__global__ void bitonic_sort(int* data) {
    extern __shared__ int s[];
    unsigned int t = threadIdx.x;
    s[t] = data[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned int size = 2; size <= blockDim.x; size *= 2)
        for (unsigned int step = size / 2; step > 0; step /= 2) {
            unsigned int partner = t ^ step;
            if (partner > t) {
                bool up = (t & size) == 0;
                if ((s[t] > s[partner]) == up) {
                    int swap = s[t];
                    s[t] = s[partner];
                    s[partner] = swap;
                }
            }
            __syncthreads();
        }
    data[blockIdx.x * blockDim.x + t] = s[t];
}
