// Hopper's wgmma: a warpgroup, four warps, multiplies tiles where they lie in shared memory. For sm_90a.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "tma.cuh"

// Describes a matrix in shared memory: where it begins, in atoms of eight rows of 128 bytes whose chunks are swizzled.
// `stride` is the distance in bytes from an atom to the next one down, `leading` to the one beside it. Bits 18 and
// above of an address name a block of the cluster; the descriptor has no room for them.
__device__ unsigned long long describe(const void* matrix, unsigned leading, unsigned stride)
{
    return (unsigned long long)((within(matrix) & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16
         | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}

// Changes how many registers each thread of this warpgroup may use. One warpgroup gives some away, others take them.
template <int COUNT>
__device__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT)); }
template <int COUNT>
__device__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT)); }

// Orders this thread's earlier accesses to registers before wgmma's.
__device__ void order_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of multiplications.
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING groups are unfinished.
template <int PENDING>
__device__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// Waits for all groups. The compiler may not move uses of the sums to before the wait.
template <int SUMS>
__device__ void wait_for_products(float (&d)[SUMS])
{
    wait_for_products<0>();
    #pragma unroll
    for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

// PTX's name for the type of the operands.
template <typename T>
constexpr char inPtx[] = "f16";
template <>
constexpr char inPtx<__nv_bfloat16>[] = "bf16";

// An instruction names each of its registers, up to 128 of them, and so does the asm statement round it. These macros
// write the two lists: "%0, %1, …" ten at a time (ten(7) is %70 to %79), and "+f"(d[0]), "+f"(d[1]), … four at a time.
#define ten(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define names64 ten() ten(1) ten(2) ten(3) ten(4) ten(5) "%60, %61, %62, %63"
#define names96 ten() ten(1) ten(2) ten(3) ten(4) ten(5) ten(6) ten(7) ten(8) "%90, %91, %92, %93, %94, %95"
#define names112 ten() ten(1) ten(2) ten(3) ten(4) ten(5) ten(6) ten(7) ten(8) ten(9) ten(10) "%110, %111"
#define names128 ten() ten(1) ten(2) ten(3) ten(4) ten(5) ten(6) ten(7) ten(8) ten(9) ten(10) ten(11) \
    "%120, %121, %122, %123, %124, %125, %126, %127"
#define sums4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define sums16(i) sums4(i), sums4(i + 4), sums4(i + 8), sums4(i + 12)
#define sums64 sums16(0), sums16(16), sums16(32), sums16(48)
#define sums96 sums64, sums16(64), sums16(80)
#define sums112 sums96, sums16(96)
#define sums128 sums112, sums16(112)

// Starts to add a product to the sums that a warpgroup shares: of 64 × 16 elements of A and 16 × COLUMNS of B, both
// described, B's rows contiguous. Each thread holds half as many sums as there are columns.
#define multiply_of(SUMS, COLUMNS, A, B, TYPE)                                                                         \
    template <typename T>                                                                                              \
    __device__ void multiply(float (&d)[SUMS], unsigned long long a, unsigned long long b)                             \
    {                                                                                                                  \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE                             \
                     " {" names##SUMS "}, " A ", " B ", 1, 1, 1, 0, 1;"                                                \
                     : sums##SUMS : "l"(a), "l"(b), "C"(inPtx<T>));                                                    \
    }
multiply_of(64, 128, "%64", "%65", "%66")
multiply_of(96, 192, "%96", "%97", "%98")
multiply_of(112, 224, "%112", "%113", "%114")
multiply_of(128, 256, "%128", "%129", "%130")

// Orders earlier accesses to registers, to these operands too, before wgmma's.
__device__ void order_registers(unsigned (&a)[4], unsigned (&b)[4])
{
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[i]), "+r"(b[i]) :: "memory");
    order_registers();
}

// Starts to add a product of TF32: of 64 × 8 elements in registers and 8 × 128 in shared memory, whose columns are
// contiguous. Unless `add`, the product takes the place of the sums. Both operands have FP32's format; tensor cores use
// the bits of TF32 and, as measured, cut off the others. The PTX ISA leaves that open.
__device__ void multiply(float (&d)[64], const unsigned (&a)[4], unsigned long long b, bool add = true)
{
    asm volatile("{ .reg .pred %%add; setp.ne.b32 %%add, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" names64 "}, "
                 "{%64, %65, %66, %67}, %68, %%add, 1, 1; }"
                 : sums64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}
