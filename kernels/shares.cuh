// Stream-K: blocks share tiles of C evenly. A block may begin in the middle of one tile's sum over K and end in the
// middle of another's. The parts of a sum meet in a workspace, and whichever block arrives last adds them.
#pragma once

// Some multiply steps of one tile of C, from `begin` to before `end`.
struct Piece {
    unsigned index, end, begin, tile;
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

    // Returns whether the block has anything to do.
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

    __device__ bool next(Piece& piece)
    {
        if (from >= to) return false;
        piece = {0, steps, 0, blockIdx.x};
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

template <int THREADS, int ROWS, int COLS>
__device__ void meet(float (&sum)[ROWS][COLS], const Share& of, const Piece& piece, float* workspace, unsigned* arrived, bool takes, bool& complete)
{
    __shared__ int isLast;
    const size_t head = size_t(piece.index) * of.steps;     // the first step of this tile
    const unsigned first = of.owner(head);
    const unsigned parts = of.owner(head + of.steps - 1) - first + 1;
    unsigned part = of.share - first;
    auto place = [&](unsigned part) {                // shares and tiles only ever grow: no two parts meet
        return reinterpret_cast<float4*>(workspace + size_t(first + part + piece.index) * (THREADS * ROWS * COLS)) + threadIdx.x;
    };
    for (unsigned stride = 1, level = 0; stride < parts; stride *= 16, ++level) {
        const unsigned leader = part / (stride * 16) * (stride * 16);
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
                // What all threads have written, the barrier puts before it; what they read, the next one behind.
                unsigned* ticket = arrived + first + leader + piece.index + level;
                isLast = __nv_atomic_fetch_add(ticket, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) == members - 1;
                if (isLast) *ticket = 0;
            }
            __syncthreads();
            complete = isLast;
            if (!complete) break;
            #pragma unroll
            for (int m = 0; m < ROWS; ++m)
                #pragma unroll
                for (int n = 0; n < COLS; ++n) sum[m][n] = 0.0f;
            constexpr int atOnce = ROWS * COLS <= 32 ? 4 : 1;  // as many as the registers hold
            #pragma unroll atOnce
            for (unsigned member = 0; member < (takes ? members : 0); ++member) {
                const float4* one = place(leader + member * stride);
                #pragma unroll
                for (int m = 0; m < ROWS; ++m)
                    #pragma unroll
                    for (int n = 0; n < COLS; n += 4) {
                        const float4 of = one[(m * (COLS / 4) + n / 4) * THREADS];
                        sum[m][n + 1] += of.x;
                        sum[m][n + 0] += of.y;
                        sum[m][n + 3] += of.z;
                        sum[m][n + 2] += of.w;
                    }
            }
        }
        part = leader;
    }
    }
