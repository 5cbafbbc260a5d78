// Writes a warp's sums to C, in FP32 or in 16 bits: 16 rows and 32 columns at a time, through shared memory, so that
// whole lines are written wherever C's rows begin.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The type of C's elements.
template <typename T, int NARROW>
struct ResultOf
{
    using type = float;
};
template <typename T>
struct ResultOf<T, 1>
{
    using type = T;
};
template <typename T, int NARROW>
using Result = typename ResultOf<T, NARROW>::type;

__device__ float number(float of) { return of; }
__device__ float number(half of) { return __half2float(of); }
__device__ float number(__nv_bfloat16 of) { return __uint_as_float(unsigned(__bfloat16_as_ushort(of)) << 16); }
__device__ void put(float* to, float what) { *to = what; }
__device__ void put(half* to, float what) { *to = __float2half_rn(what); }
__device__ void put(__nv_bfloat16* to, float what) { *to = __float2bfloat16_rn(what); }

template <typename T>
struct alignas(4 * sizeof(T)) Four
{
    T of[4];
};

// A patch of C that a warp writes at once: 16 rows and 32 columns, or 32 rows and 16 columns where the sums are those
// of Cᵀ (TURNED). The sums pass through shared memory. After that a lane has four neighbours in each of four rows.
template <typename T, bool TURNED>
struct Part
{
    static constexpr int high = TURNED ? 32 : 16, wide = TURNED ? 16 : 32;
    static constexpr int pitch = TURNED ? 20 : 40;         // of a row in shared memory, without bank conflicts
    static constexpr int floats = high * pitch;

    T* at[4];                                              // where this lane's fours begin, the same for many patches

    __device__ static int row(int i) { return threadIdx.x % 32 / (wide / 4) + i * (128 / wide); }
    __device__ static int col() { return threadIdx.x % 32 % (wide / 4) * 4; }

    __device__ Part(T* C, int width)
    {
        #pragma unroll
        for (int i = 0; i < 4; ++i) at[i] = C + size_t(row(i)) * width + col();
    }

    // Reads what C had, `skip` elements further on, of a part that lies in it with all its COLS columns.
    template <int COLS>
    __device__ void read(float (&old)[16], size_t skip) const
    {
        if (COLS < wide && col() >= COLS) return;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Four<T> found = *reinterpret_cast<const Four<T>*>(at[i] + skip);
            #pragma unroll
            for (int j = 0; j < 4; ++j) old[i * 4 + j] = number(found.of[j]);
        }
    }

    // Stores COUNT sums in shared memory, times `scale`. Of each 16 × 8 sums (of Cᵀ, if turned) a lane has two
    // neighbours, and two more eight rows below.
    template <int COUNT>
    __device__ static void stage(const float* sum, float* shared, float scale)
    {
        const int lane = threadIdx.x % 32;
        __syncwarp();                                      // what was here before has been read
        #pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float x = scale * sum[i + half * 2], y = scale * sum[i + half * 2 + 1];
                const int along = i * 2 + lane % 4 * 2, other = lane / 4 + half * 8;
                if constexpr (TURNED) {
                    shared[along * pitch + other] = x;
                    shared[(along + 1) * pitch + other] = y;
                } else {
                    *reinterpret_cast<float2*>(shared + other * pitch + along) = {x, y};
                }
            }
        __syncwarp();
    }

    // Writes scale · sums + beta · old to a part that lies in C with all its COLS columns.
    template <int COUNT, int COLS>
    __device__ void write(const float* sum, float* shared, size_t skip, float scale, float beta,
                          const float (&old)[16]) const
    {
        stage<COUNT>(sum, shared, scale);
        if (COLS < wide && col() >= COLS) return;
        float4 four[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = *reinterpret_cast<const float4*>(shared + row(i) * pitch + col());
        if (beta != 0.0f)
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                four[i].x = fmaf(beta, old[i * 4], four[i].x);
                four[i].y = fmaf(beta, old[i * 4 + 1], four[i].y);
                four[i].z = fmaf(beta, old[i * 4 + 2], four[i].z);
                four[i].w = fmaf(beta, old[i * 4 + 3], four[i].w);
            }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            Four<T> made;
            put(made.of, four[i].x);
            put(made.of + 1, four[i].y);
            put(made.of + 2, four[i].z);
            put(made.of + 3, four[i].w);
            *reinterpret_cast<Four<T>*>(at[i] + skip) = made;
        }
    }

    // The same for a patch that C's edge cuts, or whose rows begin anywhere: one element per lane, row by row.
    template <int COUNT>
    __device__ static void write_edge(const float* sum, float* shared, T* C, int width, int rows, int cols, float scale,
                                      float beta)
    {
        stage<COUNT>(sum, shared, scale);
        const int first = threadIdx.x % 32 / wide, n = threadIdx.x % 32 % wide;
        float got[16] = {}, had[16] = {};
        auto exists = [&](int i) { return first + i * (32 / wide) < rows && n < cols; };
        auto place = [&](int i) { return C + size_t(first + i * (32 / wide)) * width + n; };
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            if (beta != 0.0f && exists(i)) had[i] = number(*place(i));  // BLAS: beta = 0 never reads C
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            if (exists(i)) got[i] = shared[(first + i * (32 / wide)) * pitch + n];
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            if (exists(i)) put(place(i), beta != 0.0f ? fmaf(beta, had[i], got[i]) : got[i]);
    }
};
