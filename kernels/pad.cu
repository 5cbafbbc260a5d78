// Copies matrices of 16-bit elements so that their rows begin at multiples of 16 bytes, as the copy engine wants it.
//
// A thread makes a chunk of eight elements of a copy at a time; those past the end of a row of the matrix are zeros. Rows
// of more than 32 elements get as many chunks as fill whole lines of L2. A matrix of no rows is left alone.
#include "overlap.cuh"

__device__ void copy_eight(const unsigned short* from, unsigned short* to, unsigned cols, unsigned chunks, size_t index)
{
    const size_t row = index / chunks;
    const unsigned col = unsigned(index - row * chunks) * 8;
    const unsigned short* const place = from + row * cols + col;
    __align__(16) unsigned short made[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) made[i] = col + i < cols ? place[i] : 0;
    *reinterpret_cast<uint4*>(to + index * 8) = *reinterpret_cast<const uint4*>(made);
}

template <int THREADS>
__global__ void __launch_bounds__(THREADS)
pad(const unsigned short* A, unsigned short* copyA, unsigned rowsA, unsigned colsA, unsigned chunksA,
    const unsigned short* B, unsigned short* copyB, unsigned rowsB, unsigned colsB, unsigned chunksB)
{
    wait_for_last();
    let_next_begin();                                      // earlier, 22's blocks would crowd some SMs
    const size_t ofA = size_t(rowsA) * chunksA, all = ofA + size_t(rowsB) * chunksB;
    for (size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x; i < all; i += size_t(gridDim.x) * THREADS)
        if (i < ofA) copy_eight(A, copyA, colsA, chunksA, i);
        else copy_eight(B, copyB, colsB, chunksB, i - ofA);
}
