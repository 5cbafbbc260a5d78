// The way of a warp's sums to a C of 16 bits whose rows begin at multiples of 16 bytes, if β is 0: four lanes trade, so
// that each writes eight neighbours of a row at once, and nothing goes through shared memory.
#pragma once

// Transposes a matrix of 8 × 8 elements of 16 bits, of which each lane of a warp has two neighbours in a row.
__device__ void transpose(unsigned& pair)
{
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(pair));
}

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

// Scales a warp's sums, as wgmma leaves them, and writes those within so many rows and columns of a place of C. Each four
// pairs of a lane belong to four matrices of 8 × 8: side by side or, of sums of Cᵀ, two side by side and two below.
template <bool TURNED, int SUMS, typename R>
__device__ void write_eights(const float (&sums)[SUMS], R* to, size_t N, int rows, int cols, float alpha)
{
    const int lane = threadIdx.x % 32, own = lane % 4;     // the matrix of which this lane writes a row
    #pragma unroll
    for (int i = 0; i < SUMS; i += 16)                     // 32 columns, or rows
        #pragma unroll
        for (int half = 0; half < 2; ++half) {             // the upper eight rows and the lower; or 16 rows and 16
            __align__(16) R pairs[4][2] = {};
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int at = i + (TURNED ? 8 * half + 2 * j : 2 * half + 4 * j);
                if (at < SUMS)
                    for (int side = 0; side < 2; ++side) pairs[j][side] = R(alpha * sums[at + side]);
            }
            auto& words = reinterpret_cast<unsigned (&)[4]>(pairs);
            if constexpr (TURNED)
                for (unsigned& word : words) transpose(word);
            trade(words);
            const int row = lane / 4 + (TURNED ? 2 * i + 16 * half + own / 2 * 8 : 8 * half);
            const int col = TURNED ? own % 2 * 8 : 2 * i + 8 * own;
            if (row < rows && col < cols)
                __stcs(reinterpret_cast<uint4*>(to + row * N + col), *reinterpret_cast<const uint4*>(pairs));
        }
}
