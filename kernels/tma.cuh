// Hopper's asynchronous copies: mbarriers, on which threads wait for bytes, and the copy engine (TMA). For sm_90a.
#pragma once

// The driver's description of a matrix and of the box that one copy takes of it.
struct alignas(64) TensorMap
{
    char bytes[128];
};

// An address as instructions for shared memory want it: 32 bits.
__device__ unsigned within(const void* shared)
{
    return __cvta_generic_to_shared(shared);
}

// A barrier in shared memory that counts arrivals and bytes. A phase ends when all of both are there; the next begins.
struct Barrier
{
    unsigned long long word;

    __device__ void init(unsigned arrivals)
    {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(within(this)), "r"(arrivals));
    }

    // Arrives, and adds to the bytes that this phase waits for.
    __device__ void arrive_and_expect(unsigned bytes)
    {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(within(this)), "r"(bytes) : "memory");
    }

    __device__ void arrive()
    {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(within(this)) : "memory");
    }

    // Arrives at the same barrier of another block of the cluster.
    __device__ void arrive_in(unsigned block)
    {
        asm volatile("{ .reg .b32 %%there; mapa.shared::cluster.u32 %%there, %0, %1; "
                     "mbarrier.arrive.shared::cluster.b64 _, [%%there]; }"
                     :: "r"(within(this)), "r"(block) : "memory");
    }

    // Waits until the phase of this parity is over: 0 for the first phase, 1 for the second, 0 again for the third.
    __device__ void wait(unsigned parity)
    {
        unsigned over;
        do
            asm volatile("{ .reg .pred %%over; mbarrier.try_wait.parity.shared::cta.b64 %%over, [%1], %2; "
                         "selp.u32 %0, 1, 0, %%over; }" : "=r"(over) : "r"(within(this)), "r"(parity) : "memory");
        while (!over);
    }
};

// Makes this thread's stores to shared memory, mbarriers included, visible to the copy engine and to wgmma.
__device__ void fence_proxy()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Fetches a description before the first copy needs it.
__device__ void prefetch(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Starts to copy the box that begins at a row and a column. Its bytes are counted by the barrier as they arrive.
__device__ void copy_box(void* to, const TensorMap& map, int row, int column, Barrier& barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(within(to)), "l"(&map), "r"(column), "r"(row), "r"(within(&barrier)) : "memory");
}

// The same copy into several blocks of the cluster: those whose bit of the mask is set. It lands at the same place in
// each, and each block's own barrier counts the bytes.
__device__ void copy_box(void* to, const TensorMap& map, int row, int column, Barrier& barrier, unsigned short mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(within(to)), "l"(&map), "r"(column), "r"(row), "r"(within(&barrier)), "h"(mask) : "memory");
}

// Waits for all threads of the cluster. Every block then sees the others' mbarriers initialised.
__device__ void cluster_barrier()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncwarp();                                          // the instructions below are for whole warps
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
