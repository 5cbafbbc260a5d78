// Writes a thread's sums to C: C ← scale · sum + βC.
#pragma once
#include "places.cuh"

// Writes four neighbours at once where rows of C begin at multiples of 16 bytes, or else one by one. The first of these
// rows of sums is row `first` of the thread.
template <int ROWS, int TN>
__device__ void write(const float (&sum)[ROWS][TN], float* C, int N, const Corner& corner, const Places& places,
                      int slice, float scale, float beta, bool inFours)
{
    float* const c0 = C + corner.row0 * N + corner.col0;
    #pragma unroll
    for (int m = 0; m < ROWS; ++m)
        #pragma unroll
        for (int n = 0; n < TN; n += 4) {
            const int mine = slice * ROWS + m;
            const int row = places.row + mine / places.run * places.nextRow + mine % places.run;
            const int col = places.col + n / 4 * places.nextCol;
            const int left = corner.cols - col;
            if (row >= corner.rows || left <= 0) continue;
            float* c = c0 + size_t(row) * N + col;
            float of[4] = {scale * sum[m][n], scale * sum[m][n + 1], scale * sum[m][n + 2], scale * sum[m][n + 3]};
            if (inFours) {
                if (beta != 0.0f) {                        // BLAS: beta = 0 never reads C
                    const float4 old = *reinterpret_cast<const float4*>(c);
                    of[0] += beta * old.x;
                    of[1] += beta * old.y;
                    of[2] += beta * old.z;
                    of[3] += beta * old.w;
                }
                *reinterpret_cast<float4*>(c) = {of[0], of[1], of[2], of[3]};
            } else {
                for (int i = 0; i < 4; ++i)
                    if (i < left) c[i] = beta != 0.0f ? of[i] + beta * c[i] : of[i];
            }
        }
}

// Writes where rows of C begin anywhere. A lane's four neighbours would be four narrow stores, and each would reach few
// lanes' neighbours; so a warp first gathers a row of every lane in shared memory, and then writes whole rows of its
// tile, a word per lane.
template <int WM, int WN, int TM, int ROWS, int TN>
__device__ void write_staged(const float (&sum)[ROWS][TN], char* memory, float* C, int N, const Corner& corner,
                             const Places& places, int slice, int lane, float scale, float beta)
{
    constexpr int high = WM / TM, pitch = WN + 4;          // rows that are gathered, and words from one to the next
    float* const c0 = C + corner.row0 * N + corner.col0;
    float* const rowsOfC = reinterpret_cast<float*>(memory) + threadIdx.x / 32 * high * pitch;
    const int inWarp = places.row % WM / 4, warpRow = places.row / WM * WM, warpCol = places.col / WN * WN;
    #pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        const int mine = slice * ROWS + m;
        #pragma unroll
        for (int n = 0; n < TN; n += 4)
            *reinterpret_cast<float4*>(rowsOfC + inWarp * pitch + places.col % WN + n / 4 * places.nextCol) =
                {sum[m][n + 1], sum[m][n], sum[m][n + 3], sum[m][n + 2]};
        __syncwarp();
        #pragma unroll 4
        for (int i = lane; i < high * WN; i += 32) {
            const int row = warpRow + i / WN * 4 + mine / places.run * places.nextRow + mine % places.run, col = warpCol + i % WN;
            if (row >= corner.rows || col >= corner.cols) continue;
            float* c = c0 + size_t(row) * N + col;
            const float of = scale * rowsOfC[i / WN * pitch + (i % WN ^ 1)];  // ^ 1: pairs lie swapped
            *c = beta != 0.0f ? of + beta * *c : of;       // BLAS: beta = 0 never reads C
        }
        __syncwarp();
    }
}
