// The way of a warp's sums to a C whose rows may begin anywhere: through shared memory, 16 rows and 32 columns at a time.
#pragma once
#include "result.cuh"

// Where a tile of C begins.
struct Corner
{
    size_t row, col;
};

struct Patch
{
    static constexpr int high = 16, wide = 32, pitch = 40;  // with 40 floats to a row there are no bank conflicts
    static constexpr int floats = high * pitch;

    float* const shared;                                   // this warp's

    __device__ explicit Patch(float* shared) : shared(shared) {}

    // Stores 16 sums: those of 16 rows and 32 columns. Of every eight columns a lane has two neighbours, and two more
    // eight rows below.
    __device__ void put(const float* sums) const
    {
        const unsigned lane = threadIdx.x % 32;
        __syncwarp();                                      // what was here before has been read
        #pragma unroll
        for (int i = 0; i < 16; i += 2) {
            float* const to = shared + (lane / 4 + i % 4 * 4) * pitch + i / 4 * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(to) = {sums[i], sums[i + 1]};
        }
        __syncwarp();
    }

    // Reads, scales and writes what lies within C, an element or 16 bytes of neighbours at a time to a lane. All old values
    // are asked for before the first one is awaited. With beta = 0 BLAS never reads C.
    template <typename Neighbours, typename R>
    __device__ void pass(R* C, int N, int rows, int cols, float alpha, float beta) const
    {
        constexpr int each = sizeof(Neighbours) / sizeof(R);
        constexpr int lanes = wide / each, below = 32 / lanes;  // lanes to a row, and rows at a time
        const int row = threadIdx.x % 32 / lanes, col = threadIdx.x % lanes * each;
        __align__(16) R old[high / below][each];
        if (beta != 0.0f && col < cols)
            #pragma unroll
            for (int i = 0; i < high / below; ++i)
                if (row + i * below < rows)
                    *reinterpret_cast<Neighbours*>(old[i]) =
                        *reinterpret_cast<const Neighbours*>(C + size_t(row + i * below) * N + col);
        if (col < cols)
            #pragma unroll
            for (int i = 0; i < high / below; ++i) {
                if (row + i * below >= rows) break;
                const float* const sums = shared + (row + i * below) * pitch + col;
                __align__(16) R put[each];
                #pragma unroll
                for (int j = 0; j < each; ++j)
                    put[j] = beta != 0.0f ? R(fmaf(alpha, sums[j], beta * float(old[i][j]))) : R(alpha * sums[j]);
                __stcs(reinterpret_cast<Neighbours*>(C + size_t(row + i * below) * N + col),
                       *reinterpret_cast<const Neighbours*>(put));  // soon leaves L2, which A and B need
            }
    }

    // Writes the sums of 16 rows that begin at a corner.
    template <int SUMS, typename R>
    __device__ void write(const float (&acc)[SUMS], Corner from, int M, int N, float alpha, float beta, R* C) const
    {
        const int rows = int(M - from.row), cols = int(N - from.col);
        const bool aligned = N * sizeof(R) % 16 == 0 && size_t(C) % 16 == 0;  // whether every row begins at 16 bytes
        R* const to = C + from.row * N + from.col;
        #pragma unroll
        for (int n = 0; n < SUMS * 2; n += wide) {
            put(acc + n / 2);
            if (aligned) pass<uint4>(to + n, N, rows, cols - n, alpha, beta);
            else pass<R>(to + n, N, rows, cols - n, alpha, beta);
        }
    }
};
