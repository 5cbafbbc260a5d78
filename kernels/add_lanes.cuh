// Adds up sums that lanes of a warp have, each of other k.
#pragma once

// Adds up the sums of those lanes whose numbers differ by a multiple of STRIDE. All get the result.
template <int STRIDE, int ROWS, int COLS>
__device__ void add_lanes(float (&acc)[ROWS][COLS])
{
    #pragma unroll
    for (int far = 16; far >= STRIDE; far /= 2)
        #pragma unroll
        for (int m = 0; m < ROWS; ++m)
            #pragma unroll
            for (int n = 0; n < COLS; ++n) acc[m][n] += __shfl_xor_sync(~0u, acc[m][n], far);
}
