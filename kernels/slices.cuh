// Slices: groups of warps that have the same tile of C and divide the depth of every step. At the end their sums are
// added up through shared memory.
#pragma once
#include "places.cuh"

// Adds up the sums of all slices. The rows of a thread's sums are divided among `takers` slices: each thread of a taker
// is left with ROWS rows of the total. A single slice just hands its sums on.
//
// Four neighbouring sums at a time pass through here, and later through the workspace. Such a 16-byte store needs four
// consecutive registers, so its order decides which registers the sums have in the loop before. With {1, 0, 3, 2} an
// even column's sum has an odd register, and its factor from B an even one. Even and odd registers are in different
// banks, so a multiply-add seldom reads two numbers from one bank.
template <int SLICES, int THREADS, int ROWS, int TM, int TN>
__device__ void add_slices(float (&sum)[ROWS][TN], const float (&acc)[TM][TN], char* memory, Thread me)
{
    if constexpr (SLICES == 1) {
        #pragma unroll
        for (int m = 0; m < TM; ++m)
            #pragma unroll
            for (int n = 0; n < TN; ++n) sum[m][n] = acc[m][n];
        return;
    }
    auto place = [&](int giver, int m, int n) {
        return reinterpret_cast<float4*>(memory) + ((giver * ROWS + m) * (TN / 4) + n / 4) * THREADS + me.number;
    };
    #pragma unroll
    for (int taker = 0; taker < TM / ROWS; ++taker) {
        __syncthreads();                               // nobody reads what was here before any more
        #pragma unroll
        for (int m = 0; m < ROWS; ++m)
            #pragma unroll
            for (int n = 0; n < TN; n += 4) {
                const float* of = &acc[taker * ROWS + m][n];
                *place(me.slice, m, n) = {of[1], of[0], of[3], of[2]};
            }
        __syncthreads();
        if (me.slice == taker)
            #pragma unroll
            for (int m = 0; m < ROWS; ++m)
                #pragma unroll
                for (int n = 0; n < TN; n += 4) {
                    float4 total = *place(0, m, n);
                    #pragma unroll
                    for (int giver = 1; giver < SLICES; ++giver) {
                        const float4 of = *place(giver, m, n);
                        total.x += of.x;
                        total.y += of.y;
                        total.z += of.z;
                        total.w += of.w;
                    }
                    sum[m][n + 1] = total.x;
                    sum[m][n + 0] = total.y;
                    sum[m][n + 3] = total.z;
                    sum[m][n + 2] = total.w;
                }
    }
}
