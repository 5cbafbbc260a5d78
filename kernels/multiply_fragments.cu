// Not a rung: the ceiling of mma.sync. Each warp has CHAINS sums of 16 × 8, to which it adds products in turn, of
// 16 × 16 × 8 in FP16 or 16 × 8 × 8 in TF32, and nothing else.
template <int TF32, int CHAINS>
__global__ void multiply_fragments(int steps, unsigned a, unsigned b, float* out)
{
    float c[CHAINS][4] = {};
    for (int step = 0; step < steps; ++step)
        #pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) {
            float (&sum)[4] = c[chain];
            if constexpr (TF32)
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
                             "{%5, %5}, {%0, %1, %2, %3};"
                             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a), "r"(b));
            else
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
                             "{%5, %5}, {%0, %1, %2, %3};"
                             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a), "r"(b));
        }
    float total = 0.0f;
    for (int chain = 0; chain < CHAINS; ++chain) total += c[chain][0] + c[chain][3];
    if (total == -1.0f) *out = total;                      // never, but the compiler doesn't know
}
