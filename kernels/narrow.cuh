// wgmma for tiles of C of 32, 64 and 160 columns; the others are wgmma.cuh's. For sm_90a.
#pragma once
#include "wgmma.cuh"

// A thread holds half as many sums as there are columns.
template <typename T>
__device__ void multiply(float (&d)[16], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.%18.%18 "
                 "{" ten() "%10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 1;"
                 : sums16(0) : "l"(a), "l"(b), "C"(inPtx<T>));
}

template <typename T>
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.%34.%34 "
                 "{" ten() ten(1) ten(2) "%30, %31}, %32, %33, 1, 1, 1, 0, 1;"
                 : sums16(0), sums16(16) : "l"(a), "l"(b), "C"(inPtx<T>));
}

template <typename T>
__device__ void multiply(float (&d)[80], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32.%82.%82 "
                 "{" ten() ten(1) ten(2) ten(3) ten(4) ten(5) ten(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
                 "%80, %81, 1, 1, 1, 0, 1;"
                 : sums64, sums16(64) : "l"(a), "l"(b), "C"(inPtx<T>));
}
