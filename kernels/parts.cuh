// Parts of a sum that several blocks bring: they meet in a workspace, and whichever block comes last adds them.
#pragma once

// The parts of a block of one tile's sum, and where they are.
//
// A share of the multiply steps can have two tiles that are incomplete: its first, which another share has begun, and
// its last. So the workspace has room for two parts per share, and a tile's first part is the second of its share.
template <int THREADS, int TM, int TN>
struct Parts {
    float* workspace;
    unsigned* arrived;                                     // how many of the tile's parts are there: zero at first
    unsigned first, others;                                // the share with the first part, and how many follow it

    // Where this thread's sums of a share's part are: in fours, so that neighbouring threads have neighbouring fours.
    __device__ float4* place(unsigned share) const
    {
        const size_t part = 2 * size_t(share) + (share == first);  // the number of a place, of which a share has two
        return reinterpret_cast<float4*>(workspace) + part * (THREADS * TM * TN / 4) + threadIdx.x;
    }

    // Leaves a share's part. Returns whether it is the last to come; then `acc` has become the whole sum, which was
    // added in order of k.
    __device__ bool meet(float (&acc)[TM][TN], unsigned share) const
    {
        __shared__ bool isLast;
        float4* const mine = place(share);
        for (int m = 0; m < TM; ++m)
            for (int n = 0; n < TN; n += 4)
                mine[(m * TN + n) / 4 * THREADS] = {acc[m][n], acc[m][n + 1], acc[m][n + 2], acc[m][n + 3]};
        __syncthreads();                                   // a part is counted once all threads have left theirs,
        if (threadIdx.x == 0) {                            // and parts are read once all are counted
            const unsigned before =
                __nv_atomic_fetch_add(arrived, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);
            isLast = before == others;
            if (isLast) *arrived = 0;                      // for the next launch
        }
        __syncthreads();
        if (!isLast) return false;
        for (int m = 0; m < TM; ++m)
            for (int n = 0; n < TN; ++n) acc[m][n] = 0.0f;
        for (unsigned part = first; part <= first + others; ++part) {  // of all shares that have a part
            const float4* const theirs = place(part);      // this block's own among them
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; n += 4) {
                    const float4 four = theirs[(m * TN + n) / 4 * THREADS];
                    acc[m][n] += four.x;
                    acc[m][n + 1] += four.y;
                    acc[m][n + 2] += four.z;
                    acc[m][n + 3] += four.w;
                }
        }
        return true;
    }
};
