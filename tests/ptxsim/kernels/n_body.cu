// Gravity of all bodies on each, tile by tile; a body is x, y, z and its mass.
__device__ float3 pull(float4 of, float4 on, float3 sum) {
    float3 r = make_float3(of.x - on.x, of.y - on.y, of.z - on.z);
    float inverse = rsqrtf(r.x * r.x + r.y * r.y + r.z * r.z + 1e-2f), s = of.w * inverse * inverse * inverse;
    return make_float3(sum.x + r.x * s, sum.y + r.y * s, sum.z + r.z * s);
}

__global__ void n_body(const float4* bodies, float3* pulls, int n) {
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = bodies[i];
    float3 sum = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; ++j) sum = pull(tile[j], me, sum);
        __syncthreads();
    }
    pulls[i] = sum;
}
