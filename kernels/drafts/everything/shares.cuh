// Equal shares: what each cluster of blocks does of the multiply steps of all tiles of C, and where parts of a sum
// meet.
#pragma once

// Steps along K of one tile of C.
struct Piece
{
    unsigned tile, begin, end;
};

// The first `shared` tiles have their steps laid end to end and cut into shares of `per` steps, one to a cluster, which
// may begin in the middle of a tile's sum and end in the middle of another's. The other tiles are done whole, dealt out
// to the clusters in turn. Shares come first, so that a late cluster can catch up on whole tiles.
struct Work
{
    unsigned steps, shared, per, tiles, cluster, clusters;  // steps: of a tile
    unsigned from, to, whole;                              // what is left to do

    __device__ Work(unsigned steps, unsigned shared, unsigned per, unsigned tiles, unsigned cluster, unsigned clusters)
        : steps(steps), shared(shared), per(per), tiles(tiles), cluster(cluster), clusters(clusters),
          from(min(cluster * per, shared * steps)), to(min(from + per, shared * steps)), whole(shared + cluster) {}

    // Gives the next piece, if there is one left.
    __device__ bool next(Piece& piece)
    {
        if (from < to) {
            const unsigned tile = from / steps, begin = from - tile * steps, end = min(steps, begin + (to - from));
            from += end - begin;
            piece = {tile, begin, end};
            return true;
        }
        if (whole >= tiles) return false;
        piece = {whole, 0, steps};
        whole += clusters;
        return true;
    }

    __device__ bool is_part(const Piece& piece) const { return piece.end - piece.begin < steps; }
    // The share with which a tile's sum begins, and how many have a part of it.
    __device__ unsigned first(const Piece& piece) const { return piece.tile * steps / per; }
    __device__ unsigned parts(const Piece& piece) const 
    {
        return (piece.tile * steps + steps - 1) / per - first(piece) + 1;
    }
};

// Adds a warp's part of a sum to the others. Returns whether this warp arrived last: it then has the sum of all parts,
// added in the order of k whatever the order of arrival, so that every run gives the same bits. No warp waits.
// `place` is where a lane keeps the first four sums of part 0, `apart` how many fours lie from one part to the
// next.
template <int SUMS>
__device__ bool meet(float (&sum)[SUMS], float4* place, size_t apart, unsigned part, unsigned parts, unsigned* ticket)
{
    float4* own = place + part * apart;
    #pragma unroll
    for (int i = 0; i < SUMS; i += 4) __stcg(own + i * 8, {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]});
    __syncwarp();                                          // all lanes' stores come before the ticket
    unsigned before = 0;
    if (threadIdx.x % 32 == 0) {
        before = __nv_atomic_fetch_add(ticket, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);
        if (before == parts - 1) *ticket = 0;              // as it was found
    }
    if (__shfl_sync(~0u, before, 0) < parts - 1) return false;
    __syncwarp();
    // Part 0 plus part 1 is part 1 plus part 0, so a warp with one of them need not read it again.
    const bool ahead = part < 2;
    if (!ahead)
        #pragma unroll
        for (int i = 0; i < SUMS; ++i) sum[i] = -0.0f;     // adding to it changes nothing, not even a zero's sign
    constexpr int batch = SUMS > 160 ? 8 : SUMS > 128 ? 16 : SUMS % 32 ? SUMS % 16 ? 8 : 16 : 32;  // loaded together
    constexpr int together = SUMS <= 8 ? 4 : SUMS <= 16 ? 4 : SUMS <= 32 ? 2 : 1;  // of so many parts
    const unsigned others = ahead ? parts - 1 : parts;
    #pragma unroll 1
    for (unsigned i = 0; i < others; i += together)
        #pragma unroll
        for (int at = 0; at < SUMS; at += batch) {
            float4 got[together][batch / 4] = {};
            #pragma unroll
            for (int t = 0; t < together; ++t) {
                const unsigned which = !ahead ? i + t : i + t == 0 ? 1 - part : i + t + 1;
                #pragma unroll
                for (int j = 0; j < batch / 4; ++j)
                    if (i + t < others) got[t][j] = __ldcg(place + which * apart + at * 8 + j * 32);
            }
            #pragma unroll
            for (int t = 0; t < together; ++t)
                if (i + t < others)
                    #pragma unroll
                    for (int j = 0; j < batch / 4; ++j) {
                        float* to = sum + at + j * 4;
                        to[0] += got[t][j].x;
                        to[1] += got[t][j].y;
                        to[2] += got[t][j].z;
                        to[3] += got[t][j].w;
                    }
        }
    return true;
}

// Adds the sums of a cluster's blocks, a slice of the columns in each block. Every block writes to every `brought`,
// which is used once. A warp whose rows are beyond the matrix only arrives at the barrier.
template <int DEEP, int WARPS, int SUMS, int SLICE>
__device__ void add_in_cluster(const float (&sum)[SUMS], float (&slice)[SLICE], float4* brought, unsigned rank,
                               bool rows)
{
    static_assert(SLICE * DEEP == SUMS, "");
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    auto place = [&](unsigned from, int i) {
        return brought + ((from * WARPS + warp) * (SLICE / 4) + i / 4) * 32 + lane;
    };
    if (rows)
        #pragma unroll
        for (int i = 0; i < SUMS; i += 4)
            store_in(i / SLICE, place(rank, i % SLICE), {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]});
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (!rows) return;                                     // nothing was written for this warp
    #pragma unroll
    for (int i = 0; i < SLICE; i += 4) {
        float4 total = *place(0, i);
        #pragma unroll
        for (int from = 1; from < DEEP; ++from) {
            const float4 of = *place(from, i);
            total.x += of.x;
            total.y += of.y;
            total.z += of.z;
            total.w += of.w;
        }
        slice[i] = total.x;
        slice[i + 1] = total.y;
        slice[i + 2] = total.z;
        slice[i + 3] = total.w;
    }
}
