// Equal shares of multiply steps for clusters of blocks that stay, and where the parts of a tile's sum meet, warp by warp.
#pragma once

// Multiply steps of one tile of C: from `begin` to before `end`.
struct Piece
{
    unsigned tile, begin, end;
};

// The steps of one cluster. Those of the first `shared` tiles are laid end to end and cut into equal shares, one for each
// cluster: a share may begin in the middle of a tile's sum and end in the middle of another's. The other tiles are dealt
// out whole. Shares come first, so that a cluster which is late with its own catches up on whole tiles.
struct Work
{
    unsigned steps, tiles, cluster, clusters;              // steps: of one tile
    size_t all;                                            // steps of the shared tiles
    size_t from, to;                                       // what is left of this cluster's share
    unsigned whole;                                        // the next tile that it does whole

    __device__ Work(unsigned steps, unsigned shared, unsigned tiles, unsigned cluster, unsigned clusters)
        : steps(steps), tiles(tiles), cluster(cluster), clusters(clusters), all(size_t(shared) * steps), from(0), to(0),
          whole(shared + cluster)
    {
        if (shared == 0) return;                           // no time for divisions of 64 bits in a small product
        from = first(cluster);
        to = first(cluster + 1);
    }

    // The first step of a share, and the share that has a step: the largest whose first step is not after it.
    __device__ size_t first(unsigned share) const { return share * all / clusters; }
    __device__ unsigned owner(size_t step) const { return unsigned(((step + 1) * clusters - 1) / all); }

    // Gives the cluster's next piece. Returns whether there is one.
    __device__ bool next(Piece& piece)
    {
        if (from < to) {
            piece.tile = unsigned(from / steps);
            piece.begin = unsigned(from - size_t(piece.tile) * steps);
            piece.end = unsigned(min(size_t(steps), piece.begin + (to - from)));
            from += piece.end - piece.begin;
            return true;
        }
        if (whole >= tiles) return false;
        piece = {whole, 0, steps};
        whole += clusters;
        return true;
    }

    __device__ bool is_part(const Piece& piece) const { return piece.end - piece.begin < steps; }

    // Leaves this warp's part of a tile's sum, of so many `warps` of the cluster. Returns whether it is the last to come;
    // then `sum` has become the whole sum. No warp waits for another. SPARE registers hold parts that are on their way.
    //
    // Up to eight neighbouring parts make a group. The last warp of a group adds its parts in order of k, and goes on
    // with the result as a part of a group of groups. So no warp adds many parts, and the order of the additions never
    // depends on which warp comes last.
    //
    // The place of a part is the number of its share plus that of its tile. From one part to the next, one of these
    // grows and the other doesn't fall, so no two are equal. A group's ticket is at the place of its first part, plus
    // the level.
    template <int SPARE, int SUMS>
    __device__ bool meet(float (&sum)[SUMS], const Piece& piece, unsigned warps, unsigned warp, float* workspace,
                         unsigned* arrived) const
    {
        constexpr unsigned together = 8;
        constexpr int atOnce = SPARE > SUMS ? SPARE / SUMS : 1;
        const unsigned lane = threadIdx.x % 32;
        const size_t head = size_t(piece.tile) * steps;    // the tile's first step
        const unsigned begins = owner(head), parts = owner(head + steps - 1) - begins + 1;
        unsigned part = cluster - begins;
        auto number = [&](unsigned part) { return (size_t(begins + part) + piece.tile) * warps + warp; };
        auto place = [&](unsigned part) {                  // of fours of sums; neighbouring lanes have neighbours
            return reinterpret_cast<float4*>(workspace) + number(part) * (SUMS * 8) + lane;
        };
        for (unsigned stride = 1, level = 0; stride < parts; stride *= together, ++level) {
            const unsigned leader = part / (stride * together) * (stride * together);  // the first part of the group
            const unsigned members = min((parts - leader + stride - 1) / stride, together);
            if (members > 1) {
                float4* const mine = place(part);
                #pragma unroll
                for (int i = 0; i < SUMS; i += 4) mine[i * 8] = {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]};
                __syncwarp();                              // a part is counted once all lanes have left theirs,
                unsigned before = 0;                       // and parts are read once all are counted
                if (lane == 0) {
                    unsigned* const ticket = arrived + number(leader + level);
                    before = __nv_atomic_fetch_add(ticket, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);
                    if (before == members - 1) *ticket = 0;  // for the next launch
                }
                before = __shfl_sync(~0u, before, 0);
                if (before < members - 1) return false;
                __syncwarp();
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) sum[i] = 0.0f;
                const float4* theirs = place(leader);      // this warp's own among them
                #pragma unroll atOnce
                for (unsigned left = members; left > 0; --left, theirs += size_t(stride) * warps * (SUMS * 8)) {
                    #pragma unroll
                    for (int i = 0; i < SUMS; i += 4) {
                        const float4 four = theirs[i * 8];
                        sum[i] += four.x;
                        sum[i + 1] += four.y;
                        sum[i + 2] += four.z;
                        sum[i + 3] += four.w;
                    }
                }
            }
            part = leader;
        }
        return true;
    }
};
