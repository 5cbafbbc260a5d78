// 12 · Autotuned: every multiprocessor gets an equal share of the work, whatever the shape.
//
// What changed: tiles that fill no whole round of the GPU are no longer computed by a block each.
// Their multiply steps are laid end to end and cut into equal shares, one per block, so that a block
// may begin in the middle of one tile's sum and end in the middle of the next one's. Partial sums
// travel through a workspace; whoever brings the last one adds them all, in the order of k. Nobody
// waits for anybody, and the same bits come out at every run. The loop is leaner too: what is left
// of K beyond whole steps comes first, so that no later step needs guards; rows and columns beyond
// the matrix repeat its last; fragments are read ahead of use; A stays as it lies in memory.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. SLICES: groups of warps that share the depth of the tiles and add
// up what they have. STAGES: pairs of tiles; 0 fetches through registers, for GPUs before 8.0.
// WORDSA, WORDSB: words of A and B that are copied at once. BLOCKS: blocks that one SM is to hold.
//
// The grid is `whole` blocks with a tile each, and `shares` blocks that share the remaining tiles.
// `workspace` holds BM × BN words for each share and each remaining tile, `arrived` a word, zero
// before and after. `group` rows of tiles are walked column by column, for what L2 can hold.

// Copies WORDS neighbours into shared memory, or as many zeros, by themselves.
template <int WORDS>
__device__ void copy(float* to, const float* from, bool exists)
{
    const unsigned address = __cvta_generic_to_shared(to);
    const int bytes = exists ? 4 * WORDS : 0;
    if constexpr (WORDS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(address), "l"(from), "n"(4 * WORDS), "r"(bytes));
}

// So many words that are read and written at once.
template <int WORDS>
struct __align__(4 * WORDS) Words {
    float word[WORDS];
};

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int SLICES, int STAGES, int WORDSA, int WORDSB,
          int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN) * SLICES, BLOCKS)
autotuned(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
          float* workspace, unsigned* arrived, unsigned whole, unsigned shares, unsigned group)
{
    constexpr int sliceThreads = BM * BN / (TM * TN), threads = sliceThreads * SLICES;
    constexpr int depth = BK / SLICES;                     // what a slice does of a step
    constexpr int buffers = STAGES ? STAGES : 2, ahead = buffers - 1;
    constexpr int stepA = threads / (BK / WORDSA);         // rows of a tile that are fetched at once
    constexpr int stepB = threads / (BN / WORDSB) > 0 ? threads / (BN / WORDSB) : 1;
    constexpr int acrossB = threads < BN / WORDSB ? threads * WORDSB : BN;  // columns that are fetched at once
    constexpr int copiesA = (BM + stepA - 1) / stepA;
    constexpr int copiesB = (BK + stepB - 1) / stepB * (BN / acrossB);
    static_assert(TN % 4 == 0 && depth % 4 == 0 && TM % SLICES == 0, "");
    static_assert(threads % (BK / WORDSA) == 0 && BN % acrossB == 0 && threads % (acrossB / WORDSB) == 0, "");
    constexpr int lanesM = WM / TM, lanesN = WN / TN;      // lanes down and across a warp's tile
    static_assert(lanesM * lanesN == 32 && BM % WM == 0 && BN % WN == 0, "");
    constexpr bool squares = lanesM % 2 == 0 && lanesN % 2 == 0;
    constexpr int rowsOut = TM / SLICES;                   // rows that a thread answers for in the end

    constexpr int pair = (BM + BN) * BK;                   // words in one tile of A and one of B
    extern __shared__ __align__(16) float tiles[];         // [buffers]: A as [BM][BK], its fours swizzled; B as [BK][BN]
    __shared__ bool isLast;
    auto swizzle = [](int row) { return row / (32 / BK > 0 ? 32 / BK : 1) % (BK / 4) % 8 * 4; };

    const int slice = threadIdx.x / sliceThreads, inSlice = threadIdx.x % sliceThreads;
    const int warp = inSlice / 32, lane = threadIdx.x % 32;
    const int laneM = squares ? lane / 2 % 2 + lane / (2 * lanesN) * 2 : lane / lanesN;
    const int laneN = squares ? lane % 2 + lane / 4 % (lanesN / 2 > 0 ? lanesN / 2 : 1) * 2 : lane % lanesN;
    const int tileRow = warp / (BN / WN) * WM + laneM;     // this thread's first row; the next are lanesM apart
    const int tileCol = warp % (BN / WN) * WN + laneN * 4;
    const int rowA = threadIdx.x / (BK / WORDSA), colA = threadIdx.x % (BK / WORDSA) * WORDSA;
    const int rowB = threadIdx.x / (acrossB / WORDSB), colB = threadIdx.x % (acrossB / WORDSB) * WORDSB;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned tilesM = (unsigned(M) + BM - 1) / BM, tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned steps = K > 0 ? (unsigned(K) + BK - 1) / BK : 1;

    // What this block has to do: multiply steps, counted through the tiles that are shared.
    const size_t shared = (size_t(tilesM) * tilesN - whole) * steps;
    if (shares > shared) shares = unsigned(shared);
    size_t from = 0, to = steps;
    const unsigned share = blockIdx.x - whole;
    if (blockIdx.x >= whole) {
        if (share >= shares) return;
        from = share * shared / shares;
        to = (share + 1) * shared / shares;
    }

    while (from < to) {
        unsigned tile = blockIdx.x, begin = 0, end = steps, index = 0;
        if (blockIdx.x >= whole) {
            index = unsigned(from / steps);
            tile = whole + index;
            begin = unsigned(from % steps);
            end = to - from < steps - begin ? begin + unsigned(to - from) : steps;
        }
        from += end - begin;
        const unsigned band = tile / (group * tilesN), inBand = tile % (group * tilesN);
        const unsigned high = tilesM - band * group < group ? tilesM - band * group : group;
        const size_t row0 = size_t(band * group + inBand % high) * BM, col0 = size_t(inBand / high) * BN;
        const int rows = int(M - row0), cols = int(N - col0);  // what is left of C from there

        // Copies are numbered through both tiles. Step 0 may begin before k = 0, where zeros stand.
        const int firstK = int(K - (long long)(steps - begin) * BK);
        const int lastA = rows > rowA ? (rows - 1 - rowA) / stepA : 0;  // the last copy within A's rows
        auto within = [&](int col) { return col < cols - WORDSB ? col : cols - WORDSB; };
        const float* a = A + (row0 + (rows > rowA ? rowA : rows - 1)) * K + firstK + colA;
        const float* b = B + (long long)(firstK + rowB) * N + (long long)col0 + (acrossB == BN ? within(colB) : 0);
        int readA = tileRow * BK + (slice * depth ^ swizzle(tileRow));
        int readB = BM * BK + slice * depth * BN + tileCol;
        int writeA = rowA * BK + (colA ^ swizzle(rowA));
        int writeB = BM * BK + rowB * BN + colB;

        constexpr bool evenA = copiesA * stepA == BM, evenB = copiesB / (BN / acrossB) * stepB == BK;
        Words<WORDSA> heldA[STAGES ? 1 : copiesA];
        Words<WORDSB> heldB[STAGES ? 1 : copiesB];
        auto toA = [&](int i) { return &tiles[(writeA ^ swizzle(i * stepA)) + i * stepA * BK]; };
        auto toB = [&](int i) {
            return &tiles[writeB + i / (BN / acrossB) * stepB * BN + i % (BN / acrossB) * acrossB];
        };
        auto fetch = [&](int copyNumber, int k) {
            if (copyNumber < copiesA) {
                const int i = copyNumber;
                if (!evenA && rowA + i * stepA >= BM) return;
                const float* from = a + size_t(i < lastA ? i : lastA) * stepA * K;
                const bool exists = k + colA >= 0;
                if constexpr (STAGES > 0) copy<WORDSA>(toA(i), from, exists);
                else heldA[i] = exists ? *reinterpret_cast<const Words<WORDSA>*>(from) : Words<WORDSA>{};
            } else {
                const int i = copyNumber - copiesA, row = i / (BN / acrossB) * stepB;
                if (!evenB && rowB + row >= BK) return;
                const float* from = b + size_t(row) * N + (acrossB == BN ? 0 : within(colB + i % (BN / acrossB) * acrossB));
                const bool exists = k + rowB + row >= 0;
                if constexpr (STAGES > 0) copy<WORDSB>(toB(i), from, exists);
                else heldB[i] = exists ? *reinterpret_cast<const Words<WORDSB>*>(from) : Words<WORDSB>{};
            }
        };
        auto keep = [&] {                                  // what was fetched through registers
            if constexpr (STAGES == 0) {
                for (int i = 0; i < copiesA; ++i)
                    if (evenA || rowA + i * stepA < BM) *reinterpret_cast<Words<WORDSA>*>(toA(i)) = heldA[i];
                for (int i = 0; i < copiesB; ++i)
                    if (evenB || rowB + i / (BN / acrossB) * stepB < BK)
                        *reinterpret_cast<Words<WORDSB>*>(toB(i)) = heldB[i];
            }
        };
        auto commit = [] { if constexpr (STAGES > 0) asm volatile("cp.async.commit_group;"); };
        auto wait = [] {
            if constexpr (STAGES > 0) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : "memory");
            __syncthreads();
        };

        for (int s = 0; s < ahead; ++s) {
            if (begin + s < end) {
                #pragma unroll
                for (int i = 0; i < copiesA + copiesB; ++i) fetch(i, firstK + s * BK);
                keep();
                a += BK;
                b += size_t(BK) * N;
            }
            writeA += pair;
            writeB += pair;
            commit();
        }
        wait();

        float acc[TM][TN] = {};
        float4 fragA[TM];                                  // four k at a time
        float fragB[2][TN];
        auto readFragA = [&](int m, int k) {
            fragA[m] = *reinterpret_cast<const float4*>(&tiles[(readA ^ k ^ swizzle(m * lanesM)) + m * lanesM * BK]);
        };
        auto readFragB = [&](int n, int k) {
            const float4 four = *reinterpret_cast<const float4*>(&tiles[readB + k * BN + n * lanesN]);
            fragB[k % 2][n + 0] = four.x;
            fragB[k % 2][n + 1] = four.y;
            fragB[k % 2][n + 2] = four.z;
            fragB[k % 2][n + 3] = four.w;
        };
        #pragma unroll
        for (int m = 0; m < TM; ++m) readFragA(m, 0);
        #pragma unroll
        for (int n = 0; n < TN; n += 4) readFragB(n, 0);

        int buffer = 0, hopped = -ahead * pair;
        #pragma unroll 1
        for (unsigned step = begin; step < end; ++step) {
            const bool more = step + ahead < end;
            #pragma unroll
            for (int k = 0; k < depth; ++k) {
                if (k < depth - 1 && more)                 // spread over all k but the last
                    #pragma unroll
                    for (int i = 0; i < copiesA + copiesB; ++i)
                        if (i * (depth - 1) / (copiesA + copiesB) == k) fetch(i, BK);
                if (k == depth - 1) {
                    if (STAGES == 0 && more) keep();
                    a += BK;
                    b += size_t(BK) * N;
                    commit();
                    wait();                                // complete for all; and nobody reads this pair any more
                    writeA += hopped;
                    writeB += hopped;
                    hopped = buffer == ahead ? -ahead * pair : pair;
                    buffer = buffer == ahead ? 0 : buffer + 1;
                    if (step + 1 == end) hopped = 0;
                    readA += hopped;
                    readB += hopped;
                }
                const int next = (k + 1) % depth;
                #pragma unroll
                for (int n = 0; n < TN; n += 4) readFragB(n, next);
                #pragma unroll
                for (int m = 0; m < TM; ++m) {
                    const float factor = k % 4 == 0 ? fragA[m].x : k % 4 == 1 ? fragA[m].y
                                       : k % 4 == 2 ? fragA[m].z : fragA[m].w;
                    #pragma unroll
                    for (int i = 0; i < TN; ++i) {
                        const int n = m % 2 ? TN - 1 - i : i;  // to and fro
                        acc[m][n] += factor * fragB[k % 2][n];
                    }
                    if (k % 4 == 3) readFragA(m, next);
                }
            }
        }

        // The slices add up: each thread is left with the sums of some of its rows.
        float sum[rowsOut][TN];
        if constexpr (SLICES == 1) {
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n) sum[m][n] = acc[m][n];
        } else {
            #pragma unroll
            for (int taker = 0; taker < SLICES; ++taker) {
                __syncthreads();
                auto place = [&](int giver, int m, int n) {
                    return reinterpret_cast<float4*>(tiles)
                           + ((giver * rowsOut + m) * (TN / 4) + n / 4) * sliceThreads + inSlice;
                };
                #pragma unroll
                for (int m = 0; m < rowsOut; ++m)
                    #pragma unroll
                    for (int n = 0; n < TN; n += 4) {
                        const float* four = &acc[taker * rowsOut + m][n];
                        *place(slice, m, n) = {four[0], four[1], four[2], four[3]};
                    }
                __syncthreads();
                if (slice == taker)
                    #pragma unroll
                    for (int m = 0; m < rowsOut; ++m)
                        #pragma unroll
                        for (int n = 0; n < TN; n += 4) {
                            float4 four = *place(0, m, n);
                            #pragma unroll
                            for (int giver = 1; giver < SLICES; ++giver) {
                                const float4 other = *place(giver, m, n);
                                four.x += other.x;
                                four.y += other.y;
                                four.z += other.z;
                                four.w += other.w;
                            }
                            sum[m][n + 0] = four.x;
                            sum[m][n + 1] = four.y;
                            sum[m][n + 2] = four.z;
                            sum[m][n + 3] = four.w;
                        }
            }
        }

        // Parts of a sum meet in the workspace, 16 at a time; the last to arrive adds them, in order.
        bool complete = true;
        if (begin > 0 || end < steps) {
            const size_t head = size_t(index) * steps;     // the first and last step of this tile
            const unsigned first = unsigned(((head + 1) * shares - 1) / shared);
            const unsigned parts = unsigned(((head + steps) * shares - 1) / shared) - first + 1;
            unsigned part = share - first;
            auto place = [&](unsigned part) {              // shares and tiles only ever grow: no two meet
                return reinterpret_cast<float4*>(workspace + size_t(first + part + index) * (BM * BN)) + threadIdx.x;
            };
            for (unsigned stride = 1, level = 0; stride < parts; stride *= 16, ++level) {
                const unsigned leader = part / (stride * 16) * (stride * 16);
                const unsigned left = (parts - leader + stride - 1) / stride, members = left < 16 ? left : 16;
                if (members > 1) {
                    float4* own = place(part);
                    #pragma unroll
                    for (int m = 0; m < rowsOut; ++m)
                        #pragma unroll
                        for (int n = 0; n < TN; n += 4)
                            own[(m * (TN / 4) + n / 4) * threads] = {sum[m][n], sum[m][n + 1], sum[m][n + 2], sum[m][n + 3]};
                    __threadfence();
                    __syncthreads();
                    if (threadIdx.x == 0) {
                        unsigned* ticket = arrived + first + leader + index + level;
                        isLast = atomicAdd(ticket, 1) == members - 1;
                        if (isLast) *ticket = 0;
                        __threadfence();
                    }
                    __syncthreads();
                    complete = isLast;
                    if (!complete) break;
                    #pragma unroll
                    for (int m = 0; m < rowsOut; ++m)
                        #pragma unroll
                        for (int n = 0; n < TN; ++n) sum[m][n] = 0.0f;
                    #pragma unroll 1
                    for (unsigned member = 0; member < members; ++member) {
                        const float4* one = place(leader + member * stride);
                        #pragma unroll
                        for (int m = 0; m < rowsOut; ++m)
                            #pragma unroll
                            for (int n = 0; n < TN; n += 4) {
                                const float4 four = one[(m * (TN / 4) + n / 4) * threads];
                                sum[m][n + 0] += four.x;
                                sum[m][n + 1] += four.y;
                                sum[m][n + 2] += four.z;
                                sum[m][n + 3] += four.w;
                            }
                    }
                }
                part = leader;
            }
        }

        if (complete) {
            const float scale = K > 0 ? alpha : 0.0f;
            const bool fours = N % 4 == 0 && size_t(C) % 16 == 0;
            #pragma unroll
            for (int m = 0; m < rowsOut; ++m)
                #pragma unroll
                for (int n = 0; n < TN; n += 4) {
                    const int row = tileRow + (slice * rowsOut + m) * lanesM, col = tileCol + n * lanesN;
                    const int left = cols - col;
                    if (row >= rows || left <= 0) continue;
                    float* c = C + (row0 + row) * N + col0 + col;
                    float four[4] = {scale * sum[m][n], scale * sum[m][n + 1], scale * sum[m][n + 2], scale * sum[m][n + 3]};
                    if (fours) {
                        if (beta != 0.0f) {                // BLAS: beta = 0 never reads C
                            const float4 old = *reinterpret_cast<const float4*>(c);
                            four[0] += beta * old.x;
                            four[1] += beta * old.y;
                            four[2] += beta * old.z;
                            four[3] += beta * old.w;
                        }
                        *reinterpret_cast<float4*>(c) = {four[0], four[1], four[2], four[3]};
                    } else {
                        for (int i = 0; i < 4; ++i)
                            if (i < left) c[i] = beta != 0.0f ? four[i] + beta * c[i] : four[i];
                    }
                }
        }
        __syncthreads();                                   // the buffers are free for the next tile
    }
}
