// wgmma for tiles of C of 32, 64, 96 and 160 columns; the others are wgmma.cuh's. For sm_90a.
#pragma once
#include "wgmma.cuh"

#define names32 ten() ten(1) ten(2) "%30, %31"
#define names48 ten() ten(1) ten(2) ten(3) "%40, %41, %42, %43, %44, %45, %46, %47"
#define names80 ten() ten(1) ten(2) ten(3) ten(4) ten(5) ten(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define sums32 sums16(0), sums16(16)
#define sums48 sums32, sums16(32)
#define sums80 sums64, sums16(64)
multiply_of(32, 64, "%32", "%33", "%34")
multiply_of(48, 96, "%48", "%49", "%50")
multiply_of(80, 160, "%80", "%81", "%82")

// The macro doesn't write this one: sums16 has a parameter.
template <typename T>
__device__ void multiply(float (&d)[16], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.%18.%18 "
                 "{" ten() "%10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 1;"
                 : sums16(0) : "l"(a), "l"(b), "C"(inPtx<T>));
}
