// The edges of a matrix: four neighbours are read or written at once where all of them exist, else one by one.
//
// `whole` promises that all four are inside the matrix and begin at a multiple of 16 bytes. Where it is a constant, the
// compiler drops the other branch.
#pragma once

// Reads four neighbours of a row. `left` of them are inside the matrix; zeros replace the others.
__device__ float4 load4(const float* from, int left, bool whole)
{
    if (whole) return *reinterpret_cast<const float4*>(from);
    return {left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f};
}

// Writes the neighbours that are inside the matrix: `left` of four.
__device__ void store4(float* to, float4 four, int left, bool whole)
{
    if (whole) {
        *reinterpret_cast<float4*>(to) = four;
    } else {
        if (left > 0) to[0] = four.x;
        if (left > 1) to[1] = four.y;
        if (left > 2) to[2] = four.z;
        if (left > 3) to[3] = four.w;
    }
}

// Whether every row of a matrix begins at a multiple of 16 bytes, and the first at one of FIRST bytes.
template <int FIRST = 16, typename T>
__device__ bool aligned(const T* matrix, int columns)
{
    return columns * sizeof(T) % 16 == 0 && size_t(matrix) % FIRST == 0;
}

// Writes a thread's sums: C ← scale · acc + βC. The tile of C begins at row0, col0; C has `rows` rows and
// `cols` columns from there on. The thread's pieces of 4 × 4 begin at tileRow, tileCol and repeat every nextM rows and
// nextN columns. `inside` says that the whole tile is inside C, and aligned.
template <int nextM, int nextN, int TM, int TN>
__device__ void finish(const float (&acc)[TM][TN], float scale, float beta, float* C, int N, size_t row0, size_t col0,
                       int tileRow, int tileCol, int rows, int cols, bool inside)
{
    auto write = [&](bool whole) {
        #pragma unroll
        for (int m = 0; m < TM; ++m)
            #pragma unroll
            for (int n = 0; n < TN; n += 4) {
                const int row = tileRow + m / 4 * nextM + m % 4, col = tileCol + n / 4 * nextN;
                if (row >= rows) continue;
                float* c = C + (row0 + row) * N + col0 + col;
                const float* sum = &acc[m][n];
                float4 result = {scale * sum[0], scale * sum[1], scale * sum[2], scale * sum[3]};
                if (beta != 0.0f) {                        // BLAS: beta = 0 never reads C
                    const float4 old = load4(c, cols - col, whole);
                    result.x += beta * old.x;
                    result.y += beta * old.y;
                    result.z += beta * old.z;
                    result.w += beta * old.w;
                }
                store4(c, result, cols - col, whole);
            }
    };
    if (inside) write(true);
    else write(false);
}
