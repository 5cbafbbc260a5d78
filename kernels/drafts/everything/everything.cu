// Everything at once: equal shares of the work, as in 13, by TMA and wgmma, as in 20, for a product of any shape.
//
// Differences from 18: the blocks of a cluster share tiles of A as well as of B, because L2 is the limit. Where there
// are few tiles and K is long, the blocks of a cluster take a part of K each and add their sums through each other's
// shared memory. Tiles of C may also be cut along K into equal shares: their parts meet in a workspace, warp by warp,
// and whichever warp arrives last adds them in order. C is of FP32 or 16 bits and begins anywhere. With OVERLAP a grid
// begins while the one before it ends. For sm_90a. The rows of A and B begin at multiples of 16 bytes; pad.cu makes
// copies of matrices whose rows don't.
//
// T: type of the elements of A and B, half or __nv_bfloat16. NARROW: 1 where C is of T too, 0 where it is of float. BM,
// BN: rows and columns of C per block. STAGES: pairs of tiles in flight, 64 deep. DOWN, ACROSS: blocks of a cluster
// whose tiles of C lie one below the other and side by side. DEEP: blocks of a cluster that have the same tile of C.
// TURNS: 1 where two warpgroups take turns, each with a tile of C of its own, so that one multiplies while the other
// writes; else 0. TURNED: 1 where Cᵀ = BᵀAᵀ is multiplied, with columns of B in the place of rows of A; else 0.
// THREADS: per block. Either 32 more than multiply, one of which fetches, or 128 more, which also give their registers
// away. BLOCKS: how many blocks a multiprocessor is to hold.
//
// The first `shared` tiles are shared, `per` steps to a cluster. `together` rows of tiles are done together, column by
// column, to suit L2. `workspace` holds parts of sums. `arrived` holds a counter for each warp's part of a shared tile,
// zero before the launch and after it.
#include "fetch.cuh"
#include "hopper.cuh"
#include "output.cuh"
#include "shares.cuh"

template <typename T, int NARROW, int BM, int BN, int STAGES, int DOWN, int ACROSS, int DEEP, int TURNS, int TURNED,
          int THREADS, int BLOCKS>
__global__ void __cluster_dims__(DOWN * ACROSS * DEEP, 1, 1) __launch_bounds__(THREADS, BLOCKS)
everything(int M, int N, int K, float alpha, const T* A, const T* B, float beta, Result<T, NARROW>* C,
           const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB, float4* workspace,
           unsigned* arrived, unsigned shared, unsigned per, unsigned together)
{
    using TC = Result<T, NARROW>;
    constexpr int BK = 64, row = 64;                       // a row of a box: 128 bytes
    constexpr int boxes = (BN + row - 1) / row;            // of B, side by side
    constexpr int tileA = BM * BK, tileB = BK * boxes * row;  // elements
    constexpr int groups = THREADS / 128 - (THREADS % 128 == 0);  // warpgroups that multiply
    constexpr int workers = groups * 128;                  // and their threads
    constexpr int warps = TURNS ? 4 : groups * 4;          // that multiply one tile
    constexpr int span = TURNED ? BM : BN;                 // a warpgroup has `high` × 64 rows and `span` columns of C;
                                                           // if TURNED, rows and columns change places
    constexpr int high = BM * BN / span / 64 / (TURNS ? 1 : groups);
    using Patch = Part<TC, TURNED>;
    constexpr int cluster = DOWN * ACROSS * DEEP;
    constexpr unsigned atom = 8 * row * sizeof(T);         // bytes of eight rows, among which chunks change places
    static_assert(DEEP == 1 || DOWN * ACROSS * high == 1 && !TURNS, "a cluster shares tiles or sums");
    static_assert(BM * BN == span * high * 64 * (TURNS ? 1 : groups) && (!TURNED || DEEP == 1 && BM % 32 == 0), "");
    extern __shared__ __align__(1024) char memory[];
    T (&As)[STAGES][tileA] = *reinterpret_cast<T (*)[STAGES][tileA]>(memory);
    T (&Bs)[STAGES][tileB] = *reinterpret_cast<T (*)[STAGES][tileB]>(memory + sizeof(As));
    Barrier* full = reinterpret_cast<Barrier*>(memory + sizeof(As) + sizeof(Bs));  // the tiles of a stage have arrived
    Barrier* empty = full + STAGES;                        // the tiles of a stage are no longer read
    Barrier* turn = empty + STAGES;                        // one for each warpgroup, where they take turns
    float* corners = reinterpret_cast<float*>(turn + 2);   // through which each warp writes its sums
    float4* brought = reinterpret_cast<float4*>(corners + workers / 32 * Patch::floats);  // by the cluster's blocks

    const unsigned rank = blockIdx.x % cluster, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned down = rank % DOWN, across = rank / DOWN % ACROSS, deep = DEEP > 1 ? rank : 0;
    const unsigned tilesM = (unsigned(M) + DOWN * BM - 1) / (DOWN * BM);  // of clusters
    const unsigned tilesN = (unsigned(N) + ACROSS * BN - 1) / (ACROSS * BN);
    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    if (K == 0) shared = 0;
    unsigned steps = (unsigned(K) + BK - 1) / BK;
    if (DEEP > 1 && shared) steps = (steps + per - 1) / per * per;  // no share crosses into another tile
    Work work(steps, shared, per, tilesM * tilesN, blockIdx.x / cluster, gridDim.x / cluster);
    struct Corner { int row, col; };
    auto corner = [&](unsigned tile) -> Corner {           // where this block's tile of C begins
        const unsigned band = tile / (together * tilesN), inside = tile - band * together * tilesN;
        const unsigned height = min(tilesM - band * together, together), col = inside / height;
        return {int(((band * together + inside - col * height) * DOWN + down) * BM), int((col * ACROSS + across) * BN)};
    };
    unsigned step = 0, number = 0;                         // both go on counting from piece to piece
    const unsigned group = threadIdx.x / 128;
    auto next = [&](Piece& piece, bool& is_part, bool all) {  // the next piece of this block, or of this warpgroup
        if (!work.next(piece)) return false;
        if (TURNS && !all && number++ % groups != group) { // the other warpgroup's piece
            step += piece.end - piece.begin;
            if (!work.next(piece)) return false;
            ++number;
        }
        is_part = work.is_part(piece);
        const unsigned begin = piece.begin, length = piece.end - begin;
        piece.begin = begin + length * deep / DEEP;
        piece.end = begin + length * (deep + 1) / DEEP;
        return true;
    };

    if (threadIdx.x == 0) {
        if (K > 0) {                                       // else the maps describe nothing
            prefetch(mapA);
            prefetch(mapB);
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init((DOWN + ACROSS - 1) * warps);
        }
        for (int i = 0; i < 2; ++i) turn[i].init(4);
        fence_proxy();                                     // shows the barriers to the copy engine
    }
    if constexpr (cluster > 1) cluster_barrier();
    else __syncthreads();
    let_next_begin();

    Piece piece{};
    bool is_part = false;
    if (threadIdx.x >= workers) {
        if constexpr (THREADS == workers + 128) give_registers<groups == 2 ? 40 : 32>();
        if (threadIdx.x > workers) return;
        wait_for_last();
        const Fetcher<T, BM, BN, DOWN, ACROSS> fetcher{mapA, mapB, down, across};
        while (next(piece, is_part, true)) {
            const Corner here = corner(piece.tile);
            for (unsigned tile = piece.begin; tile < piece.end; ++tile, ++step) {
                const int stage = step % STAGES, k = tile * BK;
                if (step >= STAGES) empty[stage].wait((step / STAGES - 1) % 2);
                fetcher.fetch(As[stage], Bs[stage], here.row, here.col, k, full[stage]);
            }
        }
        // The block must not end before the others have released what it fetched: they say so in its shared memory.
        if constexpr (DOWN * ACROSS > 1)
            for (int stage = 0; stage < STAGES; ++stage, ++step)
                if (step >= STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);
        return;
    }
    if constexpr (THREADS == workers + 128) take_registers<groups == 2 ? 232 : 160>();
    const unsigned mate = lane < DOWN ? lane + across * DOWN : down + (across + lane - DOWN + 1) % ACROSS * DOWN;
    auto let_go = [&](unsigned step) {                     // tells those who fill the stage that this warp is done
        if constexpr (DOWN * ACROSS == 1) {
            if (lane == 0) empty[step % STAGES].arrive();
        } else {
            if (lane < DOWN + ACROSS - 1) empty[step % STAGES].arrive_in(mate);
        }
    };
    wait_for_last();

    const float scale = K > 0 ? alpha : 0.0f;
    const bool fours = N % 4 == 0 && size_t(C) % (4 * sizeof(TC)) == 0;
    constexpr int width = span / DEEP, patches = (width + 31) / 32;  // columns of C that this block writes
    constexpr int limit = groups == 1 ? BLOCKS == 1 ? 232 : 160 : groups == 2 ? THREADS == 384 ? 192 : 160 : 104;
    constexpr int room = (limit - high * span / 2 - 56) / 16;
    constexpr int early = room < 0 || TURNS ? 0 : room < patches ? room : patches;  // patches of C to read beforehand
    constexpr int held = early > 0 ? early : 1;            // patches that are read at once, and then written
    unsigned turns = 0;
    while (next(piece, is_part, false)) {
        const Corner here = corner(piece.tile);
        const int skip = (TURNS ? 0 : group * high * 64) + warp % 4 * 16;
        const int m0 = here.row + (TURNED ? 0 : skip), n0 = here.col + (TURNED ? skip : int(deep) * width);
        const bool outside = TURNED ? n0 >= N : m0 >= M;   // the warp's part lies outside C
        Output<TC, TURNED, high, width, held> output(C, M, N, m0, n0, fours, beta);
        if (early && output.whole && !is_part) output.read(0, 0);  // arrives while the products are made

        // A warpgroup begins when the other has seen all its tiles arrive. A barrier tells even rounds from odd ones
        // and no more, so a warpgroup that waits for a stage must know that the round before has arrived.
        if (TURNS && (group > 0 || turns > 0)) turn[group].wait((turns - 1 + group) % 2);
        ++turns;
        float acc[high][span / 2] = {};
        for (unsigned tile = piece.begin; tile < piece.end; ++tile, ++step) {
            const int stage = step % STAGES;
            full[stage].wait(step / STAGES % 2);
            order_registers();
            #pragma unroll
            for (int k = 0; k < BK; k += 16)               // 16 columns of A, 16 rows of each box of B
                #pragma unroll
                for (int h = 0; h < high; ++h) {
                    const int mine = ((TURNS ? 0 : group * high) + h) * 64 * BK;  // 64 rows of A, or one box of B
                    const auto a = describe(&As[stage][(TURNED ? 0 : mine) + k], 16, atom);
                    const auto b = describe(&Bs[stage][(TURNED ? mine : 0) + k * row], BK * row * sizeof(T), atom);
                    if constexpr (TURNED) multiply<T, 1, 0>(acc[h], b, a);
                    else multiply<T, 0, 1>(acc[h], a, b);
                }
            commit_products();
            wait_for_products<1>();                        // those of the tile before: its stage is free
            if (tile > piece.begin) let_go(step - 1);
        }
        if (TURNS && lane == 0) turn[1 - group].arrive();
        float (&sums)[high * span / 2] = *reinterpret_cast<float (*)[high * span / 2]>(acc);
        wait_for_products(sums);
        if (piece.end > piece.begin) let_go(step - 1);

        constexpr int left = high * width / 2;
        float slice[left];                                 // this block's columns, summed over the cluster
        if constexpr (DEEP > 1) {
            add_in_cluster<DEEP, warps>(sums, slice, brought, rank, !outside);
        } else {
            #pragma unroll
            for (int i = 0; i < left; ++i) slice[i] = sums[i];
        }
        if (is_part) {
            if (outside) continue;                         // nothing to bring
            const unsigned first = work.first(piece), own = rank * warps + warp % warps;
            constexpr size_t slot = left / 4 * 32;         // fours of a warp's part
            float4* place = workspace + (size_t(first + piece.tile) * (cluster * warps) + own) * slot + lane;
            unsigned* ticket = arrived + piece.tile * (cluster * warps) + own;
            if (!meet(slice, place, cluster * warps * slot, work.cluster - first, work.parts(piece), ticket)) continue;
        }
        output.write(slice, corners + warp * Patch::floats, scale, early && !is_part);
        __syncwarp();                                      // lanes part where C ends, and wgmma wants whole warps
    }
}
