// The way of a warp's sums from wgmma's registers to C. A warp has 16 rows of C. A lane holds two neighbours of every
// eight columns, of one row and of the row eight below. Lanes trade in pairs, so that each can write four neighbours.
#pragma once

// Takes four neighbouring sums of C, number `four` of this lane's. Of 16 columns a lane holds two, and two more eight
// columns on: it gives one of the two pairs to the lane beside it, and gets the neighbours of the other.
template <int SUMS>
__device__ void trade(const float (&acc)[SUMS], int four, float (&sums)[4])
{
    const bool odd = threadIdx.x % 2;
    const int own = four / 2 * 8 + four % 2 * 2;           // even fours: of one row; odd ones: of the row eight below
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        const float left = acc[own + j], right = acc[own + 4 + j];
        const float got = __shfl_xor_sync(~0u, odd ? left : right, 1);
        sums[j] = odd ? got : left;
        sums[2 + j] = odd ? right : got;
    }
}

// Where a tile of C begins.
struct Corner
{
    size_t row, col;
};

struct Output
{
    int M, N;
    float alpha, beta;
    float* const& C;                                       // a copy of the pointer would cost more instructions
    bool aligned;                                          // whether every four neighbours begin at 16 bytes

    __device__ Output(int M, int N, float alpha, float beta, float* const& C)
        : M(M), N(N), alpha(alpha), beta(beta), C(C), aligned(size_t(C) % 16 == 0) {}  // N is a multiple of eight

    // The place in C of four neighbours, or null if it is outside.
    __device__ float* place(Corner from, int four) const
    {
        const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const size_t m = from.row + warp * 16 + lane / 4 + four % 2 * 8;
        const size_t n = from.col + four / 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
        return m < M && n < N ? C + m * N + n : nullptr;
    }

    // Reads C's old values, where they count: with beta = 0 BLAS never reads C.
    __device__ void read(Corner from, int four, float (&old)[4]) const
    {
        const float* c = place(from, four);
        if (beta == 0.0f || c == nullptr) return;
        if (aligned) *reinterpret_cast<float4*>(old) = *reinterpret_cast<const float4*>(c);
        else for (int j = 0; j < 4; ++j) old[j] = c[j];
    }

    __device__ void write(Corner from, int four, const float (&sums)[4], const float (&old)[4]) const
    {
        float* c = place(from, four);
        if (c == nullptr) return;
        float put[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) put[j] = beta != 0.0f ? fmaf(alpha, sums[j], beta * old[j]) : alpha * sums[j];
        if (aligned) *reinterpret_cast<float4*>(c) = {put[0], put[1], put[2], put[3]};
        else for (int j = 0; j < 4; ++j) c[j] = put[j];
    }

    // Writes all sums, half of them at a time: all old values of a half are asked for before the first one is awaited,
    // and registers hold no more of them.
    template <int SUMS>
    __device__ void write_all(Corner from, const float (&acc)[SUMS]) const
    {
        constexpr int fours = SUMS / 4, half = fours / 2;
        #pragma unroll
        for (int first = 0; first < fours; first += half) {
            float old[half][4] = {};
            #pragma unroll
            for (int i = 0; i < half; ++i) read(from, first + i, old[i]);
            __syncwarp();                                  // lanes part where C ends; the trade needs all of them
            #pragma unroll
            for (int i = 0; i < half; ++i) {
                float sums[4];
                trade(acc, first + i, sums);
                write(from, first + i, sums, old[i]);
            }
        }
    }
};
