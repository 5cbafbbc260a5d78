// 22 · Any shape: 20's clusters of blocks that stay, with 12's equal shares, in tiles of many sizes, either way round.
//
// What changed: tiles of C that don't fill the GPU once more are cut along K into equal shares, one for each cluster,
// as are all tiles where there are only a few. The parts of a tile's sum go to a workspace, and a second launch adds
// them (add_parts.cu). Sums go to C through shared memory, as its rows may begin anywhere, or in 16 bits from registers
// where they can (eights.cuh); none are written late. Two warpgroups may take turns instead: each has a tile, and
// writes it while the other multiplies. A side of wgmma's product is 64, and the other any multiple of 16: a tile may
// be turned, so that the 64 are columns of C. Uniform registers describe wgmma's operands. Launches overlap.
//
// WM, WN: what a warp has of a tile: 16 × BN, 32 × BN where warpgroups take turns, BM × 16 where the tile is turned.
// CLUSTER: as in 20. BLOCKS: on an SM at a time. BITS: of an element of C, 32 for float, 16 for T. The other parameters are
// 19's; where one warpgroup multiplies, one warp fetches. The first `shared` of a cluster's tiles are cut into shares.
// `rows` of A are fetched for a tile: fewer than BM where A has fewer. A group of `group` rows of tiles is walked column by
// column, to suit L2.
#include "equal_shares.cuh"
#include "overlap.cuh"
#include "patch.cuh"
#include "sides.cuh"                                   // wgmma for tiles of any width, and turned

template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, int THREADS, int CLUSTER, int BLOCKS, int BITS>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, BLOCKS)
any_shape(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, BITS>* C,
          const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB,
          float* workspace, unsigned shared, unsigned rows, unsigned group)
{
    constexpr int row = 64;                                // elements in 128 bytes, a row of a box
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr bool turned = WN == 16;                      // wgmma computes Cᵀ = BᵀAᵀ
    constexpr int side = turned ? BN : BM;                 // of a tile, which warps share
    constexpr bool many = side > 64;                       // warps: then those that fetch give registers away
    constexpr int workers = THREADS - (many ? 128 : 32);   // threads that multiply
    constexpr int strips = turned ? 1 : WM / 16;           // a warp's rows or columns by 16
    constexpr int team = side / strips / 16;               // warps that share a tile
    constexpr int teams = workers / 32 / team;             // that take turns
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks are swizzled
    static_assert(BK == row && (turned ? WM == BM : WN == BN) && team % 4 == 0, "four warps share 64 rows or columns");
    static_assert(strips == 1 ? teams == 1 : teams == 2 && team == 4, "a warpgroup that takes turns has a whole tile");
    constexpr int kept = side > 128 ? 32 : 40;             // registers of a thread that fetches; the others share the rest
    constexpr int taken = (65536 / BLOCKS / THREADS / 8 * 8 * THREADS - 128 * kept) / workers / 8 * 8;
    static_assert(STAGES > 2, "one pair of tiles arrives while two are multiplied");
    extern __shared__ __align__(1024) T memory[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(memory);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(memory + STAGES * tileA);
    float* patches = reinterpret_cast<float*>(memory + STAGES * (tileA + tileB));  // each warp's, on the way to C
    Barrier* full = reinterpret_cast<Barrier*>(patches + workers / 32 * Patch<turned>::floats);  // wait for bytes
    Barrier* empty = full + STAGES;                        // these until no warp reads the stage
    Barrier* turns = empty + STAGES;                       // and these until the other team needs no more tiles

    constexpr unsigned high = CLUSTER * BM;                // rows of C of a cluster
    const unsigned tilesM = (unsigned(M) + high - 1) / high, tilesN = (unsigned(N) + BN - 1) / BN;  // of such tiles
    const unsigned rank = blockIdx.x % CLUSTER, cluster = blockIdx.x / CLUSTER;
    const unsigned warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    Work work((unsigned(K) + BK - 1) / BK, K > 0 ? shared : 0, tilesM * tilesN, cluster, gridDim.x / CLUSTER);
    auto corner = [&](unsigned tile) -> Corner {           // where this block's part of a cluster's tile begins
        const Spot at = spot(tile, tilesM, tilesN, group);
        return {at.down * size_t(high) + rank * BM, at.across * size_t(BN)};
    };

    if (threadIdx.x == 0) {
        prefetch(mapA);
        prefetch(mapB);
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * team);
        }
        for (int i = 0; i < 2 * (teams - 1); ++i) turns[i].init(team);
    }
    for (int stage = 0; stage < STAGES; ++stage)           // what is not fetched is multiplied too, and not written
        for (int chunk = rows * BK / 8 + threadIdx.x; chunk < tileA / 8; chunk += THREADS)
            reinterpret_cast<uint4*>(As[stage])[chunk] = {};
    fence_proxy();                                         // the copy engine must see the barriers, and wgmma the zeros
    if constexpr (CLUSTER > 1) cluster_barrier();
    else __syncthreads();
    wait_for_last();

    Piece piece;
    unsigned step = 0;                                     // pairs of tiles so far, for all pieces
    if (warp >= workers / 32) {
        if constexpr (many) give_registers<kept>();
        if (threadIdx.x > workers) return;
        constexpr int part = BK / CLUSTER;                 // rows of B that this block fetches, for all of its cluster
        auto wait_for_room = [&] {
            if (step >= STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);
        };
        while (work.next(piece)) {
            const Corner here = corner(piece.tile);
            for (unsigned tile = piece.begin; tile < piece.end; ++tile, ++step) {
                wait_for_room();
                const int stage = step % STAGES;
                full[stage].arrive_and_expect((rows * BK + tileB) * sizeof(T));
                copy_box(As[stage], mapA, here.row, tile * BK, full[stage]);
                #pragma unroll
                for (int n = 0; n < boxes * row; n += row)
                    if constexpr (CLUSTER == 1)
                        copy_box(&Bs[stage][n * BK], mapB, tile * BK, here.col + n, full[stage]);
                    else
                        copy_box(&Bs[stage][n * BK + rank * part * row], mapB, tile * BK + rank * part, here.col + n,
                                 full[stage], (1 << CLUSTER) - 1);
            }
        }
        let_next_begin();                                  // all is asked for: its blocks will not crowd SMs for long
        // Other blocks still arrive at this block's barriers: it may not end before the last of them has.
        if constexpr (CLUSTER > 1)
            for (int stage = 0; stage < STAGES; ++stage, ++step) wait_for_room();
        return;
    }

    if constexpr (many) take_registers<taken>();
    auto let_go = [&](unsigned step) {                     // tells all who fill this stage that this warp has read it
        if constexpr (CLUSTER == 1) {
            if (lane == 0) empty[step % STAGES].arrive();
        } else {
            if (lane < CLUSTER) empty[step % STAGES].arrive_in(lane);
        }
    };
    const unsigned mine = warp / team, member = warp % team;
    unsigned turn = 0;                                     // of either team
    while (work.next(piece)) {
        if (teams > 1) {
            if (turn++ % 2 != mine) {
                step += piece.end - piece.begin;
                continue;
            }
            if (turn > 1) turns[mine].wait((turn / 2 - 1) % 2);
        }
        float acc[strips][(turned ? WM : WN) / 2] = {};
        for (unsigned tile = piece.begin; tile < piece.end; ++tile, ++step) {
            const int stage = step % STAGES;
            full[stage].wait(step / STAGES % 2);
            order_registers();
            // wgmma takes descriptions from uniform registers, which all lanes share. The compiler computes them there if
            // it can tell that no lane differs, which is what the shuffle is for. From 16 of K to the next is an addition.
            const unsigned quad = member / 4;              // four warps, which multiply together
            const auto describedA = describe(&As[stage][turned ? 0 : quad * 64 * BK], 16, atom);
            const auto describedB = describe(&Bs[stage][turned ? quad * row * BK : 0], BK * row * sizeof(T), atom);
            #pragma unroll
            for (int k = 0; k < BK; k += 16) {             // 16 columns of A; 16 rows of each box of B
                const auto nextA = describedA + k * sizeof(T) / 16, nextB = describedB + k * row * sizeof(T) / 16;
                #pragma unroll
                for (int s = 0; s < strips; ++s)
                    if constexpr (turned) multiply<T, true>(acc[s], nextB, nextA);
                    else multiply<T, false>(acc[s], nextA + s * 64 * BK * sizeof(T) / 16, nextB);
            }
            commit_products();
            wait_for_products<1>();                        // the tiles before are multiplied
            if (tile > piece.begin) let_go(step - 1);
        }
        if (teams > 1 && lane == 0) turns[1 - mine].arrive();
        #pragma unroll
        for (int s = 0; s < strips; ++s) wait_for_products(acc[s]);
        if (K > 0) let_go(step - 1);
        #pragma unroll
        for (int s = 0; s < strips; ++s) {
            const unsigned before = s * 64 + member * 16;  // rows of the tile before these, or columns
            const Corner in = {turned ? 0 : before, turned ? before : 0};
            Corner here = corner(piece.tile);
            here.row += in.row;
            here.col += in.col;
            if (turned ? here.col >= N : here.row >= M) continue;  // all of these are past the end of C
            const Patch<turned> patch(patches + warp * Patch<turned>::floats);
            if (work.is_part(piece)) {                     // of a sum that the next launch adds up
                float* const part = workspace + work.place(work.share, piece.tile) * (high * BN);
                patch.write(acc[s], {rank * BM + in.row, in.col}, high, BN, 1.0f, 0.0f, part);
            } else patch.write(acc[s], here, M, N, alpha, beta, C);
            __syncwarp();                                  // lanes part where C ends, and wgmma wants whole warps
        }
    }
}
