// Equal shares of multiply steps for clusters of blocks that stay. The parts of a tile's sum are added by `add_parts.cu`.
#pragma once

// Multiply steps of one tile of C: from `begin` to before `end`.
struct Piece
{
    unsigned tile, begin, end;
};

// Where a tile of C lies: so many tiles down and across. A group of `group` rows of tiles is walked column by column.
struct Spot
{
    unsigned down, across;
};

__device__ Spot spot(unsigned tile, unsigned tilesM, unsigned tilesN, unsigned group)
{
    const unsigned first = tile / (group * tilesN) * group, inside = tile % (group * tilesN);
    const unsigned height = min(tilesM - first, group);
    return {first + inside % height, inside / height};
}

// Shares of the steps of `shared` tiles, laid end to end: one share for each cluster.
struct Shares
{
    unsigned steps, clusters;                              // steps: of one tile
    size_t all;                                            // steps of the shared tiles

    __device__ Shares(unsigned steps, unsigned shared, unsigned clusters)
        : steps(steps), clusters(clusters), all(size_t(shared) * steps) {}

    // The first step of a share, and the share that has a step: the largest whose first step is not after it.
    __device__ size_t first(unsigned share) const { return share * all / clusters; }
    __device__ unsigned owner(size_t step) const { return unsigned(((step + 1) * clusters - 1) / all); }

    // The place of a part in the workspace: from one part to the next, the share or the tile grows and the other doesn't
    // fall, so no two are equal. Parts of one tile lie one behind the other.
    __device__ static size_t place(unsigned share, unsigned tile) { return size_t(share) + tile; }
};

// The pieces of one cluster. A share may begin in the middle of a tile's sum and end in the middle of another's. Tiles that
// are not shared are dealt out whole. Shares come first, so that a cluster which is late with its own catches up later.
struct Work : Shares
{
    unsigned tiles, share, whole;                          // whole: the next tile that the cluster does alone
    size_t from = 0, to = 0;                               // what is left of its share

    __device__ Work(unsigned steps, unsigned shared, unsigned tiles, unsigned cluster, unsigned clusters)
        : Shares(steps, shared, clusters), tiles(tiles), share(cluster), whole(shared + cluster)
    {
        if (shared == 0) return;                           // no time for divisions of 64 bits in a small product
        // Where all tiles have as many parts, neighbouring clusters get the same steps of neighbouring tiles, not
        // neighbouring steps of one: so they read the same rows of A or B at the same time.
        const unsigned parts = clusters / shared;
        if (parts * shared == clusters) share = cluster % shared * parts + cluster / shared;
        from = first(share);
        to = first(share + 1);
    }

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
};
