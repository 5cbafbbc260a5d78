// Shares of the work, and where the parts of a sum meet. 12's equal shares, with two changes: as many tiles
// as the host says stay in one block each, and a sum of many parts is added up sixteen at a time.
#pragma once

// Multiply steps of one tile of C: from `begin` to before `end`. `index` counts the shared tiles only.
struct Piece {
    unsigned tile, index, begin, end;
};

// The multiply steps of one block: of a whole tile, or of its share. The first `whole` blocks have a tile each. The
// steps of the remaining tiles, `shared` in all, are laid end to end and cut into equal shares, one for each block.
struct Share {
    unsigned whole, shares, steps;                         // `steps` of one tile
    bool sharing;                                          // whether this block has a share instead of a whole tile
    unsigned share;                                        // and which
    size_t shared, from, to;                               // its steps among the shared ones: what is left of them

    // The first step of a share, and the share that has a step: the largest whose first step is not after it.
    __device__ size_t first(unsigned share) const { return share * shared / shares; }
    __device__ unsigned owner(size_t step) const { return unsigned(((step + 1) * shares - 1) / shared); }

    // Finds this block's steps. Returns whether there are any.
    template <bool SHARING>
    __device__ bool find(unsigned tilesM, unsigned tilesN)
    {
        sharing = SHARING && blockIdx.x >= whole;
        share = blockIdx.x - whole;
        shared = 0;
        from = 0;
        to = steps;
        if (sharing) {
            shared = (size_t(tilesM) * tilesN - whole) * steps;
            if (shares > shared) shares = unsigned(shared);
            if (share >= shares) return false;
            from = first(share);
            to = first(share + 1);
        }
        return true;
    }

    // Takes the next tile's piece off the block's steps. Returns whether there was one.
    __device__ bool next(Piece& piece)
    {
        if (from >= to) return false;
        piece = {blockIdx.x, 0, 0, steps};
        if (sharing) {
            piece.index = unsigned(from / steps);
            piece.tile = whole + piece.index;
            piece.begin = unsigned(from - size_t(piece.index) * steps);
            piece.end = to - from < steps - piece.begin ? piece.begin + unsigned(to - from) : steps;
        }
        from += piece.end - piece.begin;
        return true;
    }
};

// Leaves this block's part of a tile's sum. Returns whether it is the last to come; then `sum` has become the whole sum.
//
// Up to sixteen neighbouring parts make a group. The last block of a group adds its parts in order of k, and goes on
// with the result as a part of a group of groups. So no block adds more than sixteen parts at a time, and the order of
// the additions never depends on which block comes last. The THREADS threads that `take` part have sums.
//
// The place of a part is the number of its share plus that of its tile. From one part to the next, one of these grows
// and the other doesn't fall, so no two are equal. A group's ticket is the place of its first part, plus the level.
template <int THREADS, int ROWS, int COLS>
__device__ bool meet(float (&sum)[ROWS][COLS], const Share& mine, const Piece& piece, float* workspace,
                     unsigned* arrived, bool takes)
{
    __shared__ int isLast;
    const size_t head = size_t(piece.index) * mine.steps;  // the first step of this tile
    const unsigned first = mine.owner(head), parts = mine.owner(head + mine.steps - 1) - first + 1;
    unsigned part = mine.share - first;
    auto place = [&](unsigned part) {
        return reinterpret_cast<float4*>(workspace + size_t(first + part + piece.index) * (THREADS * ROWS * COLS)) + threadIdx.x;
    };
    for (unsigned stride = 1, level = 0; stride < parts; stride *= 16, ++level) {
        const unsigned leader = part / (stride * 16) * (stride * 16);  // the first part of the group
        const unsigned left = (parts - leader + stride - 1) / stride, members = left < 16 ? left : 16;
        if (members > 1) {
            if (takes)
                #pragma unroll
                for (int m = 0; m < ROWS; ++m)
                    #pragma unroll
                    for (int n = 0; n < COLS; n += 4)
                        place(part)[(m * (COLS / 4) + n / 4) * THREADS] = {sum[m][n + 1], sum[m][n], sum[m][n + 3], sum[m][n + 2]};
            __syncthreads();
            if (threadIdx.x == 0) {
                // The barrier above puts all threads' stores before the ticket, and the one below puts their loads after.
                unsigned* ticket = arrived + first + leader + piece.index + level;
                isLast = __nv_atomic_fetch_add(ticket, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) == members - 1;
                if (isLast) *ticket = 0;                   // for the next launch
            }
            __syncthreads();
            if (!isLast) return false;
            #pragma unroll
            for (int m = 0; m < ROWS; ++m)
                #pragma unroll
                for (int n = 0; n < COLS; ++n) sum[m][n] = 0.0f;
            constexpr int atOnce = ROWS * COLS <= 32 ? 4 : 1;  // parts whose loads fit into registers together
            #pragma unroll atOnce
            for (unsigned member = 0; member < (takes ? members : 0); ++member) {
                const float4* theirs = place(leader + member * stride);
                #pragma unroll
                for (int m = 0; m < ROWS; ++m)
                    #pragma unroll
                    for (int n = 0; n < COLS; n += 4) {
                        const float4 four = theirs[(m * (COLS / 4) + n / 4) * THREADS];
                        sum[m][n + 1] += four.x;
                        sum[m][n + 0] += four.y;
                        sum[m][n + 3] += four.z;
                        sum[m][n + 2] += four.w;
                    }
            }
        }
        part = leader;
    }
    return true;
}
