// Layer normalisation, a block per row, with cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__device__ float block_sum(cg::thread_block block, float* scratch, float value) {
    auto warp = cg::tiled_partition<32>(block);
    value = cg::reduce(warp, value, cg::plus<float>());
    block.sync();  // the scratch of the sum before may still be read
    if (warp.thread_rank() == 0) scratch[warp.meta_group_rank()] = value;
    block.sync();
    float total = 0.0f;
    for (int i = 0; i < warp.meta_group_size(); ++i) total += scratch[i];
    return total;
}

__global__ void layer_norm(const float* x, const float* gain, const float* bias, float* y, int columns, float epsilon) {
    __shared__ float scratch[32];
    auto block = cg::this_thread_block();
    const float* in = x + blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[i];
    float mean = block_sum(block, scratch, sum) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (in[i] - mean) * (in[i] - mean);
    float scale = rsqrtf(block_sum(block, scratch, squares) / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = (in[i] - mean) * scale * gain[i] + bias[i];
}
