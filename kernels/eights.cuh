// The way of a warp's sums to a C of 16 bits whose rows begin at multiples of 16 bytes, if β is 0: four lanes that share
// rows trade, so that each writes eight neighbours at once, and nothing goes through shared memory.
#pragma once

// Swaps rows and columns among four neighbouring lanes: word j of lane i becomes word i of lane j. Lanes first trade with
// the one beside them, then with the one two further, what lies on the other side of the diagonal.
__device__ void trade(unsigned (&words)[4])
{
    #pragma unroll
    for (int far = 1; far < 4; far *= 2)
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (j & far) continue;
            const bool upper = threadIdx.x & far;          // this lane keeps word j + far, the other one word j
            const unsigned got = __shfl_xor_sync(~0u, upper ? words[j] : words[j + far], far);
            if (upper) words[j] = got;
            else words[j + far] = got;
        }
}

// Scales and writes a warp's sums, 16 rows of two for each that a lane has, to a place of C: those within so many rows
// and columns. In a row, a lane has two neighbours of every eight columns; the same eight rows below.
template <int SUMS, typename R>
__device__ void write_eights(const float (&sums)[SUMS], R* to, size_t N, int rows, int cols, float alpha)
{
    const int lane = threadIdx.x % 32, of = lane % 4;
    #pragma unroll
    for (int i = 0; i < SUMS; i += 16)                     // 32 columns
        #pragma unroll
        for (int half = 0; half < 2; ++half) {             // the upper eight rows and the lower
            __align__(16) R pairs[4][2] = {};              // of four times eight columns
            #pragma unroll
            for (int j = 0; j < 4 && i + 4 * j < SUMS; ++j)
                for (int side = 0; side < 2; ++side) pairs[j][side] = R(alpha * sums[i + 4 * j + 2 * half + side]);
            trade(reinterpret_cast<unsigned (&)[4]>(pairs));
            const int row = lane / 4 + 8 * half, col = 2 * i + 8 * of;
            if (row < rows && col < cols)
                __stcs(reinterpret_cast<uint4*>(to + row * N + col), *reinterpret_cast<const uint4*>(pairs));
        }
}
