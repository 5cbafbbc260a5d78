// Eight neighbouring elements of 16 bits, which are loaded together.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
struct alignas(16) Eight
{
    T of[8];
};

// Loads eight elements that begin at a multiple of 16 bytes.
template <typename T>
__device__ Eight<T> load_eight(const T* from) { return *reinterpret_cast<const Eight<T>*>(from); }
