// Four neighbouring sums of a row, on their way to C.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "result.cuh"

__device__ void operator+=(float4& sum, const float4& four)
{
    sum = {sum.x + four.x, sum.y + four.y, sum.z + four.z, sum.w + four.w};
}

template <typename R>
struct alignas(4 * sizeof(R)) Four
{
    R of[4];
};

// Whether every row of C begins where a Four may.
template <typename R>
__device__ bool aligned(const R* C, int N)
{
    return N % 4 == 0 && size_t(C) % sizeof(Four<R>) == 0;
}

// Scales the sums and writes those of so many columns that are left of the row. With beta = 0 BLAS never reads C.
template <typename R>
__device__ void write(R* to, float4 sum, unsigned columns, bool aligned, float alpha, float beta)
{
    const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
    auto scaled = [&](int j, R old) { return R(beta != 0.0f ? fmaf(alpha, sums[j], beta * float(old)) : alpha * sums[j]); };
    if (aligned) {
        Four<R> four;
        if (beta != 0.0f) four = *reinterpret_cast<const Four<R>*>(to);
        for (int j = 0; j < 4; ++j) four.of[j] = scaled(j, four.of[j]);
        *reinterpret_cast<Four<R>*>(to) = four;
    } else
        for (int j = 0; j < 4 && j < columns; ++j) to[j] = scaled(j, beta != 0.0f ? to[j] : R(0.0f));
}
