// What the draft needs beyond ../../wgmma.cuh: grids that begin before the last one ends, stores into another block's
// shared memory, and wgmma for more widths, with K contiguous or not in either operand. For sm_90a.
#pragma once
#include "wgmma.cuh"

// With OVERLAP, and if it is launched with programmatic stream serialization, a grid may begin while the one before it
// in the stream still runs.
#ifndef OVERLAP
#define OVERLAP 0
#endif

// Lets the next grid begin once all blocks of this one have come here.
__device__ void let_next_begin()
{
    if (OVERLAP) asm volatile("griddepcontrol.launch_dependents;");
}

// Waits until the grid before has ended and its results can be read.
__device__ void wait_for_last()
{
    if (OVERLAP) asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Writes four numbers to this place in another block of the cluster.
__device__ void store_in(unsigned block, float4* place, float4 four)
{
    asm volatile("{ .reg .b32 %%there; mapa.shared::cluster.u32 %%there, %0, %1; "
                 "st.shared::cluster.v4.f32 [%%there], {%2, %3, %4, %5}; }"
                 :: "r"(within(place)), "r"(block), "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w) : "memory");
}

// Starts to add the product of 64 × 16 and 16 × COLUMNS to the sums that four warps share. K is contiguous in either
// operand unless it is TURNed. A thread has half as many sums as there are columns, and each number of sums needs a
// list of them, hence macros.
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define TWO(t) "%" #t "0, %" #t "1"
#define FOUR(t) TWO(t) ", %" #t "2, %" #t "3"
#define SIX(t) FOUR(t) ", %" #t "4, %" #t "5"
#define EIGHT(t) SIX(t) ", %" #t "6, %" #t "7"
#define FIFTY TEN() ", " TEN(1) ", " TEN(2) ", " TEN(3) ", " TEN(4)
#define SUMS8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
                 "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS16(i) SUMS8(i), SUMS8(i + 8)
#define SUMS32(i) SUMS16(i), SUMS16(i + 16)
#define SUMS64(i) SUMS32(i), SUMS32(i + 32)
#define MULTIPLY(COUNT, COLUMNS, A, B, TYPE, TA, TB, PLACES, ...)                                                      \
    template <typename T, int TURN_A, int TURN_B>                                                                   \
    __device__ void multiply(float (&d)[COUNT], unsigned long long a, unsigned long long b)                         \
    {                                                                                                               \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32.%" #TYPE ".%" #TYPE                      \
                     " {" PLACES "}, %" #A ", %" #B ", 1, 1, 1, %" #TA ", %" #TB ";"                                \
                     : __VA_ARGS__ : "l"(a), "l"(b), "C"(inPtx<T>), "n"(TURN_A), "n"(TURN_B));                      \
    }
MULTIPLY(16, 32, 16, 17, 18, 19, 20, TEN() ", " SIX(1), SUMS16(0))
MULTIPLY(32, 64, 32, 33, 34, 35, 36, TEN() ", " TEN(1) ", " TEN(2) ", " TWO(3), SUMS32(0))
MULTIPLY(48, 96, 48, 49, 50, 51, 52, TEN() ", " TEN(1) ", " TEN(2) ", " TEN(3) ", " EIGHT(4), SUMS32(0), SUMS16(32))
MULTIPLY(64, 128, 64, 65, 66, 67, 68, FIFTY ", " TEN(5) ", " FOUR(6), SUMS64(0))
MULTIPLY(80, 160, 80, 81, 82, 83, 84, FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7), SUMS64(0), SUMS16(64))
MULTIPLY(72, 144, 72, 73, 74, 75, 76, FIFTY ", " TEN(5) ", " TEN(6) ", " TWO(7), SUMS64(0), SUMS8(64))
MULTIPLY(88, 176, 88, 89, 90, 91, 92, FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7) ", " EIGHT(8),
         SUMS64(0), SUMS16(64), SUMS8(80))
MULTIPLY(96, 192, 96, 97, 98, 99, 100, FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7) ", " TEN(8) ", " SIX(9),
         SUMS64(0), SUMS32(64))
MULTIPLY(104, 208, 104, 105, 106, 107, 108,
         FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7) ", " TEN(8) ", " TEN(9) ", " FOUR(10),
         SUMS64(0), SUMS32(64), SUMS8(96))
MULTIPLY(112, 224, 112, 113, 114, 115, 116,
         FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7) ", " TEN(8) ", " TEN(9) ", " TEN(10) ", " TWO(11),
         SUMS64(0), SUMS32(64), SUMS16(96))
MULTIPLY(128, 256, 128, 129, 130, 131, 132,
         FIFTY ", " TEN(5) ", " TEN(6) ", " TEN(7) ", " TEN(8) ", " TEN(9) ", " TEN(10) ", " TEN(11) ", " EIGHT(12),
         SUMS64(0), SUMS64(64))
