// The way of a warp's sums to a C whose rows may begin anywhere: through shared memory, 16 rows and 32 columns at a time,
// or, of sums of Cᵀ, 32 rows and 16 columns.
#pragma once
#include "eights.cuh"
#include "result.cuh"

// Where a tile of C begins.
struct Corner
{
    size_t row, col;
};

template <bool TURNED>
struct Patch
{
    static constexpr int high = TURNED ? 32 : 16, wide = 512 / high;
    static constexpr int pitch = TURNED ? 20 : 40;         // with so many floats to a row there are no bank conflicts
    static constexpr int floats = high * pitch;

    float* const shared;                                   // this warp's

    __device__ explicit Patch(float* shared) : shared(shared) {}

    // Stores 16 sums, or `count` if that is less: those of 16 rows and 32 columns. Of every eight columns a lane has two
    // neighbours, and two more eight rows below. Rows of Cᵀ are columns of C.
    __device__ void put(const float* sums, int count) const
    {
        const unsigned lane = threadIdx.x % 32, down = lane / 4, across = lane % 4 * 2;
        float* const to = shared + (TURNED ? across * pitch + down : down * pitch + across);
        __syncwarp();                                      // what was here before has been read
        #pragma unroll
        for (int i = 0; i < 16; i += 2) {
            if (i >= count) break;
            const int below = i % 4 * 4, beside = i / 4 * 8;
            if constexpr (TURNED)
                for (int j = 0; j < 2; ++j) to[(beside + j) * pitch + below] = sums[i + j];
            else *reinterpret_cast<float2*>(to + below * pitch + beside) = {sums[i], sums[i + 1]};
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

    // Writes the sums of 16 rows that begin at a corner, or of 16 columns.
    template <int SUMS, typename R>
    __device__ void write(const float (&acc)[SUMS], Corner from, int M, int N, float alpha, float beta, R* C) const
    {
        const bool aligned = N * sizeof(R) % 16 == 0 && size_t(C) % 16 == 0;  // whether every row begins at 16 bytes
        int rows = int(M - from.row), cols = int(N - from.col);
        if constexpr (SUMS % 16 > 0) (TURNED ? rows : cols) = min(TURNED ? rows : cols, 2 * SUMS);
        R* const to = C + from.row * N + from.col;
        if constexpr (sizeof(R) == 2)
            if (aligned && beta == 0.0f) return write_eights<TURNED>(acc, to, N, rows, cols, alpha);
        #pragma unroll
        for (int i = 0; i < SUMS; i += 16) {
            const int down = TURNED ? 2 * i : 0, right = TURNED ? 0 : 2 * i;
            put(acc + i, SUMS - i);
            if (aligned) pass<uint4>(to + size_t(down) * N + right, N, rows - down, cols - right, alpha, beta);
            else pass<R>(to + size_t(down) * N + right, N, rows - down, cols - right, alpha, beta);
        }
    }
};
