// Copies matrices whose rows begin anywhere so that each row begins at a multiple of 16 bytes, as the copy engine wants
// it.
//
// A thread makes eight elements at a time. It reads words of two elements; where a row begins in the middle of a word,
// five words make four. The last eight elements of a row are filled up with zeros.
#include "hopper.cuh"

// A matrix of 16-bit elements and its copy; `chunks` of eight make a row of it.
struct Copied
{
    const unsigned short* from;
    unsigned short* to;
    unsigned rows, cols, chunks;
};

__device__ void copy_chunk(const Copied& matrix, size_t index)
{
    const unsigned row = index / matrix.chunks, col = (index - size_t(row) * matrix.chunks) * 8;
    const unsigned short* from = matrix.from + size_t(row) * matrix.cols + col;
    uint4 made;
    unsigned* word = reinterpret_cast<unsigned*>(&made);
    const bool inside = col + 8 < matrix.cols && (row > 0 || col > 0);  // so are the elements before and behind
    if (inside && size_t(from) % 4 == 0) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = reinterpret_cast<const unsigned*>(from)[i];
    } else if (inside) {
        unsigned had[5];
        #pragma unroll
        for (int i = 0; i < 5; ++i) had[i] = reinterpret_cast<const unsigned*>(from - 1)[i];
        #pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = __funnelshift_r(had[i], had[i + 1], 16);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned one = col + i < matrix.cols ? from[i] : 0;
            word[i / 2] = i % 2 ? word[i / 2] | one << 16 : one;
        }
    }
    reinterpret_cast<uint4*>(matrix.to)[index] = made;
}

// Copies A, B or both: a matrix with 0 rows is left alone.
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
pad(const unsigned short* A, unsigned short* toA, unsigned rowsA, unsigned colsA, unsigned chunksA,
    const unsigned short* B, unsigned short* toB, unsigned rowsB, unsigned colsB, unsigned chunksB)
{
    let_next_begin();
    wait_for_last();
    const Copied copyA{A, toA, rowsA, colsA, chunksA}, copyB{B, toB, rowsB, colsB, chunksB};
    const size_t sizeA = size_t(rowsA) * chunksA, size = sizeA + size_t(rowsB) * chunksB;
    const size_t threads = size_t(gridDim.x) * THREADS;
    #pragma unroll 4
    for (size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x; i < size; i += threads)
        if (i < sizeA) copy_chunk(copyA, i);
        else copy_chunk(copyB, i - sizeA);
}
