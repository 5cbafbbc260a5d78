// Functions around Hopper's own instructions: mbarriers, the copy engine (TMA), wgmma, and grids that begin while the
// one before them ends. For sm_90a. Much of it is also in ../../wgmma.cuh.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The driver's description of a matrix and of the box that one copy takes.
struct alignas(64) TensorMap
{
    char bytes[128];
};

// The address within shared memory.
__device__ unsigned within(const void* shared)
{
    return __cvta_generic_to_shared(shared);
}

// A barrier that counts arrivals and bytes. A phase ends when all are there, and the next begins.
struct Barrier
{
    unsigned long long word;

    __device__ void init(unsigned arrivals)
    {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(within(this)), "r"(arrivals));
    }

    // Says that so many bytes are to come in this phase.
    __device__ void arrive_and_expect(unsigned bytes)
    {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(within(this)), "r"(bytes) : "memory");
    }

    __device__ void arrive()
    {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(within(this)) : "memory");
    }

    // The same at this place in another block of the cluster.
    __device__ void arrive_in(unsigned block)
    {
        asm volatile("{ .reg .b32 %%there; mapa.shared::cluster.u32 %%there, %0, %1; "
                     "mbarrier.arrive.shared::cluster.b64 _, [%%there]; }"
                     :: "r"(within(this)), "r"(block) : "memory");
    }

    // Waits for the end of the phase of that parity, 0 for the first.
    __device__ void wait(unsigned parity)
    {
        unsigned over;
        do
            asm volatile("{ .reg .pred %%over; mbarrier.try_wait.parity.shared::cta.b64 %%over, [%1], %2; "
                         "selp.u32 %0, 1, 0, %%over; }" : "=r"(over) : "r"(within(this)), "r"(parity) : "memory");
        while (!over);
    }
};

// Shows what this thread has stored in shared memory, mbarriers too, to the copy engine and to wgmma.
__device__ void fence_proxy()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

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

// Fetches the description of a matrix before it is needed.
__device__ void prefetch(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Starts to copy a box, swizzled, of which the first element is at that row and column; the barrier is told its bytes.
__device__ void copy_box(void* to, const TensorMap& map, int row, int column, Barrier& barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(within(to)), "l"(&map), "r"(column), "r"(row), "r"(within(&barrier)) : "memory");
}

// The same into several blocks of the cluster at once, a bit of the mask each: to this place in each of them, and each
// one's barrier is told.
__device__ void copy_box(void* to, const TensorMap& map, int row, int column, Barrier& barrier, unsigned short mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(within(to)), "l"(&map), "r"(column), "r"(row), "r"(within(&barrier)), "h"(mask) : "memory");
}

// Waits for all threads of the cluster; what they have done to barriers is seen by all.
__device__ void cluster_barrier()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncwarp();                                          // a warp arrives as one
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes four numbers to this place in another block of the cluster.
__device__ void store_in(unsigned block, float4* place, float4 four)
{
    asm volatile("{ .reg .b32 %%there; mapa.shared::cluster.u32 %%there, %0, %1; "
                 "st.shared::cluster.v4.f32 [%%there], {%2, %3, %4, %5}; }"
                 :: "r"(within(place)), "r"(block), "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w) : "memory");
}

// Says where a matrix lies in shared memory, in atoms of eight rows of 128 bytes whose chunks are swizzled. `stride`
// bytes lie between atoms along the rows' direction, `leading` between those side by side. An address has 18 bits
// there: those above say whose shared memory of the cluster it is.
__device__ unsigned long long describe(const void* matrix, unsigned leading, unsigned stride)
{
    return (unsigned long long)((within(matrix) & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16
         | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}

// Changes how many registers each thread of this warpgroup may have: fewer, or more that others have given away.
template <int COUNT>
__device__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT)); }
template <int COUNT>
__device__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT)); }

// Orders what was done to registers before what wgmma does to them.
__device__ void order_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of multiplications.
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups but the last few.
template <int PENDING>
__device__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// Waits for all groups; what uses the sums stays behind it.
template <int SUMS>
__device__ void wait_for_products(float (&d)[SUMS])
{
    wait_for_products<0>();
    #pragma unroll
    for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

// What instructions call the type of their operands.
template <typename T>
constexpr char inPtx[] = "f16";
template <>
constexpr char inPtx<__nv_bfloat16>[] = "bf16";

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
