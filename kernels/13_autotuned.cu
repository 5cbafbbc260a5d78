// 13 · Autotuned: every multiprocessor gets an equal share of the work, whatever the shape.
//
// What changed: tiles that fill no whole round of the GPU are no longer computed by a block each.
// Their multiply steps are laid end to end and cut into equal shares, one per block, so that a block
// may begin in the middle of one tile's sum and end in the middle of the next one's. Partial sums
// meet in a workspace; whoever brings the last one adds them all, in the order of k. Nobody waits
// for anybody, and the same bits come out at every run. The loop is leaner too: what is left of K
// beyond whole steps comes first, so that no later step needs guards; what lies beyond the matrix
// repeats its last row or column, or is zero; the barrier comes before the last fragments of a pair
// are used up; and the multiply-adds come in an order, with sums in registers, that seldom ask a
// register bank for two numbers at once.
//
// BM, BN: rows and columns of C per block. BK: the depth of the tiles. WM, WN: rows and columns of
// C per warp. TM, TN: per thread. SLICES: groups of warps that share the depth of the tiles and add
// up what they have. STAGES: pairs of tiles; 0 fetches through registers, for GPUs before 8.0.
// WORDS: words of a row that are fetched at once. BLOCKS: blocks that one SM is to hold. SHARING:
// whether blocks may share tiles; where none does, what that takes is not even compiled. A tile of
// one row or column goes another way, for vectors: nothing is used twice there, and nothing goes
// through shared memory.
//
// The grid is `whole` blocks with a tile each, and `shares` blocks that share the remaining tiles.
// `workspace` holds BM × BN words for each share and each remaining tile, `arrived` a word, zero
// before and after. `group` rows of tiles are walked column by column, for what L2 can hold.

// So many words that are read and written at once.
template <int WORDS>
struct __align__(4 * WORDS) Words {
    float word[WORDS];
};

// Reads neighbours, or zeros where there is nothing to read.
template <int WORDS>
__device__ Words<WORDS> load(const float* from, bool exists)
{
    return exists ? *reinterpret_cast<const Words<WORDS>*>(from) : Words<WORDS>{};
}

// Reads neighbours that nobody reads again, or zeros: L1 need not keep them. L2 is to fetch 128 bytes at once from
// memory, as the warps that want the others are about to come.
template <int WORDS>
__device__ Words<WORDS> stream(const float* from, bool exists)
{
    Words<WORDS> found{};
    float (&word)[WORDS] = found.word;
    if constexpr (WORDS == 4)
        asm("{\n.reg .pred %%exists;\nsetp.ne.s32 %%exists, %5, 0;\n"
            "@%%exists ld.global.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
            : "+f"(word[0]), "+f"(word[1]), "+f"(word[2]), "+f"(word[3]) : "l"(from), "r"(int(exists)));
    else
        asm("{\n.reg .pred %%exists;\nsetp.ne.s32 %%exists, %2, 0;\n"
            "@%%exists ld.global.L1::no_allocate.L2::128B.f32 %0, [%1];\n}"
            : "+f"(word[0]) : "l"(from), "r"(int(exists)));
    return found;
}

// Copies neighbours into shared memory, or as many zeros, by themselves. Nothing at all, if not wanted: the
// instruction is there all the same, as a branch round it would keep the barrier from hiding behind multiply-adds.
template <int WORDS>
__device__ void copy(unsigned to, const float* from, bool exists, bool wanted)
{
    const int bytes = exists ? 4 * WORDS : 0;
    if constexpr (WORDS == 4)
        asm volatile("{\n.reg .pred %%wanted;\nsetp.ne.s32 %%wanted, %3, 0;\n@%%wanted cp.async.cg.shared.global [%0], [%1], 16, %2;\n}"
                     :: "r"(to), "l"(from), "r"(bytes), "r"(int(wanted)));
    else
        asm volatile("{\n.reg .pred %%wanted;\nsetp.ne.s32 %%wanted, %4, 0;\n@%%wanted cp.async.ca.shared.global [%0], [%1], %2, %3;\n}"
                     :: "r"(to), "l"(from), "n"(4 * WORDS), "r"(bytes), "r"(int(wanted)));
}

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int SLICES, int STAGES,
          int WORDS, int BLOCKS, int SHARING>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32 * SLICES, BLOCKS)
autotuned(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C,
          float* workspace, unsigned* arrived, unsigned whole, unsigned shares, unsigned group)
{
    constexpr int sliceThreads = BM / WM * (BN / WN) * 32, threads = sliceThreads * SLICES;
    constexpr int depth = BK / SLICES;                     // what a slice does of a step
    constexpr int takers = TM % SLICES == 0 ? SLICES : 1;  // slices that are left with rows of the sum
    constexpr int rowsOut = TM / takers;
    constexpr int apart = sliceThreads * takers, slot = apart * rowsOut * TN;  // words of a part in the workspace: BM × BN
    extern __shared__ __align__(16) char tiles[];
    __shared__ int isLast;

    const int slice = threadIdx.x / sliceThreads, inSlice = threadIdx.x % sliceThreads;
    const int warp = inSlice / 32, lane = threadIdx.x % 32;

    if (alpha == 0.0f) K = 0;                              // BLAS: A and B are not even read
    const unsigned tilesM = (unsigned(M) + BM - 1) / BM, tilesN = (unsigned(N) + BN - 1) / BN;
    const unsigned steps = K > 0 ? (unsigned(K) + BK - 1) / BK : 1;

    // What this block has to do: multiply steps, counted through the tiles that are shared.
    const bool sharing = SHARING && blockIdx.x >= whole;
    const unsigned share = blockIdx.x - whole;
    size_t shared = 0, from = 0, to = steps;
    if (sharing) {
        shared = (size_t(tilesM) * tilesN - whole) * steps;
        if (shares > shared) shares = unsigned(shared);
        if (share >= shares) return;
        from = share * shared / shares;
        to = (share + 1) * shared / shares;
    }

    while (from < to) {
        unsigned tile = blockIdx.x, begin = 0, end = steps, index = 0;
        if (sharing) {
            index = unsigned(from / steps);
            tile = whole + index;
            begin = unsigned(from - size_t(index) * steps);
            end = to - from < steps - begin ? begin + unsigned(to - from) : steps;
        }
        from += end - begin;
        const unsigned band = tile / (group * tilesN), inBand = tile % (group * tilesN);
        const unsigned high = tilesM - band * group < group ? tilesM - band * group : group;
        const size_t row0 = size_t(band * group + inBand % high) * BM, col0 = size_t(inBand / high) * BN;
        int rows = int(M - row0), cols = int(N - col0);    // what is left of C from there
        const int firstK = int(K - (long long)(steps - begin) * BK);  // negative where step 0 begins with zeros

        int tileRow = 0, tileCol = 0, nextRow = 1, nextCol = 4, runRows = 1;  // where this thread's sums belong
        float sum[rowsOut][TN];
        float acc[TM][TN] = {};
        // Vectors: steps come in lots, whose loads are under way together. The first lot may begin too early.
        constexpr int lot = BN == 1 || WORDS < 4 ? 4 : 8;
        const int leastK = firstK > 0 ? firstK : 0, lastK = firstK + int(end - begin) * BK;
        const int lotK = lastK - int(end - begin + lot - 1) / lot * lot * BK;
        if constexpr (BN == 1) {
            // A warp has four rows of A, each lane a part of every one. C is a column, as good as a row.
            static_assert(TM == 1 && TN == 4 && WM == 4 && BK == 128 * SLICES, "");
            const float* a[4];
            for (int i = 0; i < 4; ++i) a[i] = A + (row0 + (warp * 4 + i < rows ? warp * 4 + i : rows - 1)) * K;
            auto multiply = [&](int k, bool guarded) {
                #pragma unroll
                for (int w = 0; w < 4; w += WORDS) {
                    const int mine = k + slice * 128 + (WORDS == 4 ? lane * 4 : lane + w * 32);
                    const bool exists = !guarded || mine >= leastK;
                    const auto b = load<WORDS>(B + mine, exists);
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        // Words one by one begin anywhere, and lanes' neighbours want the same sectors: L1 is to keep those.
                        const auto of = WORDS == 4 ? stream<WORDS>(a[i] + mine, exists) : load<WORDS>(a[i] + mine, exists);
                        #pragma unroll
                        for (int j = 0; j < WORDS; ++j) acc[0][i] += of.word[j] * b.word[j];
                    }
                }
            };
            #pragma unroll
            for (int i = 0; i < lot; ++i) multiply(lotK + i * BK, true);
            for (int k = lotK + lot * BK; k < lastK; k += lot * BK)
                #pragma unroll
                for (int i = 0; i < lot; ++i) multiply(k + i * BK, false);
            #pragma unroll
            for (int far = 16; far > 0; far /= 2)
                #pragma unroll
                for (int i = 0; i < 4; ++i) acc[0][i] += __shfl_xor_sync(~0u, acc[0][i], far);
            tileCol = warp * 4;
            cols = lane == 0 ? rows : 0;                   // the others have the same
            rows = 1;
        } else if constexpr (BM == 1) {
            // A warp has WN columns of B, four to a lane, and so many rows at a time.
            constexpr int across = WN / 4, down = 32 / across;
            static_assert(TM == 1 && TN == 4 && BK == down * SLICES && WORDS != 2, "");
            tileCol = warp * WN + lane % across * 4;
            const int col = WORDS == 4 ? tileCol : warp * WN + lane % WN, most = cols - (WORDS == 4 ? 4 : 1);
            const float* b = B + col0 + (col < most ? col : most);  // what lies beyond the last column is never written
            auto multiply = [&](int k, bool guarded) {
                // Unaligned, a lane has one column and four rows, and of A what one of these is multiplied by.
                const int row = k + slice * down + (WORDS == 4 ? lane / across : lane / WN * 4);
                const int own = row + (WORDS == 4 ? 0 : lane % 4);
                const float a = load<1>(A + row0 * K + own, !guarded || own >= leastK).word[0];
                #pragma unroll
                for (int i = 0; i < 4 / WORDS; ++i) {
                    const auto of = stream<WORDS>(b + (long long)(row + i) * N, !guarded || row + i >= leastK);
                    const float factor = WORDS == 4 ? a : __shfl_sync(~0u, a, lane / WN * WN + i);
                    #pragma unroll
                    for (int j = 0; j < WORDS; ++j) acc[0][j] += factor * of.word[j];
                }
            };
            #pragma unroll
            for (int i = 0; i < lot; ++i) multiply(lotK + i * BK, true);
            for (int k = lotK + lot * BK; k < lastK; k += lot * BK)
                #pragma unroll
                for (int i = 0; i < lot; ++i) multiply(k + i * BK, false);
            #pragma unroll
            for (int far = 16; far >= WN / WORDS; far /= 2)
                #pragma unroll
                for (int i = 0; i < WORDS; ++i) acc[0][i] += __shfl_xor_sync(~0u, acc[0][i], far);
            if constexpr (WORDS == 1) {
                const float one = acc[0][0];
                #pragma unroll
                for (int i = 0; i < 4; ++i) acc[0][i] = __shfl_sync(~0u, one, lane % across * 4 + i);
            }
            if (lane >= across) cols = 0;                  // the others have the same
        } else {
            // A tile of A, turned, [BK][BM + 4], and one of B, [BK][BN].
            constexpr int buffers = STAGES ? STAGES : 3, ahead = buffers - 1;
            constexpr int pitchA = BM + 4, pair = 4 * BK * (pitchA + BN);  // bytes of both
            constexpr int acrossA = threads / BM > 8 ? threads / BM : 8;  // columns that are fetched at once
            constexpr int fetchers = WORDS == 4 ? threads : 32;  // of a row of B: word by word a warp has rows of its own
            constexpr int acrossB = fetchers * WORDS < BN ? fetchers * WORDS : BN;
            constexpr int stepA = threads / acrossA, stepB = threads / (acrossB / WORDS);  // and rows
            constexpr int downA = (BM + stepA - 1) / stepA, copiesA = downA * (BK / acrossA);
            constexpr int downB = (BK + stepB - 1) / stepB, copiesB = downB * (BN / acrossB);
            constexpr bool few = WORDS == 4 && copiesA + copiesB <= 6;
            constexpr bool evenA = BM % stepA == 0, evenB = BK % stepB == 0;
            static_assert(STAGES == 0 || STAGES > 2, "one to multiply, one complete, one under way");
            static_assert(TM % 4 == 0 && TN % 4 == 0 && depth % 2 == 0, "fragments come in fours, and in pairs");
            static_assert(BK % acrossA == 0 && threads % acrossA == 0, "");
            static_assert(BN % acrossB == 0 && threads % (acrossB / WORDS) == 0, "");
            constexpr int lanesM = WM / TM, lanesN = WN / TN;  // lanes down and across a warp's tile
            static_assert(lanesM * lanesN == 32 && BM % WM == 0 && BN % WN == 0, "32 lanes share the tile of a warp");
            constexpr bool squares = lanesM % 2 == 0 && lanesN % 2 == 0;
            constexpr int halfN = squares ? lanesN / 2 : 1;
            const int laneM = squares ? lane / 2 % 2 + lane / (2 * lanesN) * 2 : lane / lanesN;
            const int laneN = squares ? lane % 2 + lane / 4 % halfN * 2 : lane % lanesN;
            runRows = 4;                                   // neighbouring rows of a thread
            nextRow = lanesM * 4;
            nextCol = lanesN * 4;
            tileRow = warp / (BN / WN) * WM + laneM * 4;
            tileCol = warp % (BN / WN) * WN + laneN * 4;
            const int rowA = threadIdx.x / 8 % BM, colA = threadIdx.x % 8 + threadIdx.x / (8 * BM) * 8;
            const int rowB = threadIdx.x / (acrossB / WORDS), colB = threadIdx.x % (acrossB / WORDS) * WORDS;

            // Copies are numbered through both tiles.
            const int lastA = rows > rowA ? (rows - 1 - rowA) / stepA : 0;  // the last copy within A's rows
            unsigned offsetA[downA];                       // of each copy: BM × K is below 2³²
            #pragma unroll
            for (int i = 0; i < downA; ++i) offsetA[i] = unsigned(i < lastA ? i : lastA) * stepA * K;
            auto within = [&](int col) { return col < cols - WORDS ? col : cols - WORDS; };
            const float* a = A + (row0 + (rows > rowA ? rowA : rows - 1)) * K + firstK + colA;
            const float* b = B + (long long)(firstK + rowB) * N + (long long)col0 + (WORDS < 4 ? colB : acrossB == BN ? within(colB) : 0);
            int leftB = cols - colB;                       // columns of B from this thread's first on
            const unsigned base = __cvta_generic_to_shared(tiles);
            unsigned writeA = base + 4 * (colA * pitchA + rowA), writeB = base + 4 * (BK * pitchA + rowB * BN + colB);
            unsigned readA = base + 4 * (slice * depth * pitchA + tileRow);
            unsigned readB = base + 4 * (BK * pitchA + slice * depth * BN + tileCol);
            Words<1> heldA[STAGES ? 1 : copiesA];
            Words<WORDS> heldB[STAGES ? 1 : copiesB];
            auto toA = [&](int i) { return writeA + 4 * (i / downA * acrossA * pitchA + i % downA * stepA); };
            auto toB = [&](int i) { return writeB + 4 * (i % downB * stepB * BN + i / downB * acrossB); };
            auto fetch = [&](int i, int k, bool wanted) {
                if (i < copiesA) {
                    if (!evenA && rowA + i % downA * stepA >= BM) return;
                    const float* source = a + size_t(offsetA[i % downA]) + i / downA * acrossA;
                    const bool exists = k + colA + i / downA * acrossA >= 0;
                    if constexpr (STAGES > 0) copy<1>(toA(i), source, exists, wanted);
                    else heldA[i] = load<1>(source, exists && wanted);
                } else {
                    i -= copiesA;
                    const int row = i % downB * stepB, col = i / downB * acrossB;
                    if (!evenB && rowB + row >= BK) return;
                    const float* source = b + size_t(row) * N + (WORDS < 4 ? col : acrossB == BN ? 0 : within(colB + col));
                    const bool exists = k + rowB + row >= 0 && (WORDS == 4 || col < leftB);
                    if constexpr (STAGES > 0) copy<WORDS>(toB(i), source, exists, wanted);
                    else heldB[i] = load<WORDS>(source, exists && wanted);
                }
            };
            auto keep = [&] {                              // what was fetched through registers
                if constexpr (STAGES == 0) {
                    for (int i = 0; i < copiesA; ++i)
                        if (evenA || rowA + i % downA * stepA < BM) *reinterpret_cast<Words<1>*>(tiles + (toA(i) - base)) = heldA[i];
                    for (int i = 0; i < copiesB; ++i)
                        if (evenB || rowB + i % downB * stepB < BK)
                            *reinterpret_cast<Words<WORDS>*>(tiles + (toB(i) - base)) = heldB[i];
                }
            };
            auto commit = [] { if constexpr (STAGES > 0) asm volatile("cp.async.commit_group;"); };

            #pragma unroll 1
            for (int s = 0; s < ahead; ++s) {
                if (begin + s < end) {
                    #pragma unroll
                    for (int i = 0; i < copiesA + copiesB; ++i) fetch(i, firstK + s * BK, true);
                    keep();
                    a += BK;
                    b += size_t(BK) * N;
                }
                commit();
                writeA += pair;
                writeB += pair;
            }
            if constexpr (STAGES > 0) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : "memory");
            __syncthreads();                               // the first pair is complete

            float fragA[2][TM], fragB[2][TN];              // of this k and of the next
            auto read = [](float* into, unsigned from) {   // volatile: not put off until they are needed
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(into[0]), "=f"(into[1]), "=f"(into[2]), "=f"(into[3]) : "r"(from));
            };
            auto readBoth = [&](int k) {
                #pragma unroll
                for (int n = 0; n < TN; n += 4) read(&fragB[k % 2][n], readB + 4 * (k * BN + n * lanesN));
                #pragma unroll
                for (int m = 0; m < TM; m += 4) read(&fragA[k % 2][m], readA + 4 * (k * pitchA + m * lanesM));
            };
            readBoth(0);

            int buffer = 0;                                // which pair is multiplied
            #pragma unroll 1
            for (unsigned step = begin; step < end; ++step) {
                const bool more = step + ahead < end;
                const int hopRead = buffer == ahead ? -ahead * pair : pair;
                const int hopWrite = buffer == (STAGES ? 0 : 1) ? -ahead * pair : pair;
                buffer = buffer == ahead ? 0 : buffer + 1;
                #pragma unroll
                for (int k = 0; k < depth; ++k) {
                    if (k == depth - 1) {                  // the last fragments of this pair are there
                        if constexpr (STAGES > 0) {
                            asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 2) : "memory");
                        } else if (step > begin) {
                            if (step + ahead <= end) keep();  // fetched during the step before
                            writeA += hopWrite;
                            writeB += hopWrite;
                        }
                        __syncthreads();                   // the next pair is complete, and nobody reads this one any more
                        asm("" : "+r"(leftB));             // or each copy's guard is kept, in a register we lack
                        if (!few || more)                  // a few the compiler guards by itself, in the same way
                            #pragma unroll
                            for (int i = 0; i < copiesA + copiesB; ++i) fetch(i, BK, more);
                        a += BK;
                        b += size_t(BK) * N;
                        if constexpr (STAGES > 0) {
                            commit();
                            writeA += hopWrite;
                            writeB += hopWrite;
                        }
                        const int hop = step + 1 < end ? hopRead : 0;
                        readA += hop;
                        readB += hop;
                    }
                    readBoth((k + 1) % depth);
                    #pragma unroll
                    for (int i = 0; i < TM; ++i) {
                        const int m = (i + 4) % TM;        // the rows that were read first come last
                        #pragma unroll
                        for (int j = 0; j < TN; ++j) {     // to and fro: from one to the next, a factor stays
                            const int n = i % 2 ? TN - 1 - j : j;
                            acc[m][n] += fragA[k % 2][m] * fragB[k % 2][n];
                        }
                    }
                }
            }
        }

        // Neighbours change places on their way out of the registers. That is for the multiply-adds:
        // what is written as four lies in four registers in a row, and so the sum of an even column
        // gets an odd register, while the factor from B has an even one: they seldom share a bank.
        if constexpr (SLICES == 1) {
            #pragma unroll
            for (int m = 0; m < TM; ++m)
                #pragma unroll
                for (int n = 0; n < TN; ++n) sum[m][n] = acc[m][n];
        } else {
            // The slices add up: each thread of a taker is left with the sums of some of its rows.
            auto place = [&](int giver, int m, int n) {
                return reinterpret_cast<float4*>(tiles) + ((giver * rowsOut + m) * (TN / 4) + n / 4) * sliceThreads + inSlice;
            };
            #pragma unroll
            for (int taker = 0; taker < takers; ++taker) {
                __syncthreads();
                #pragma unroll
                for (int m = 0; m < rowsOut; ++m)
                    #pragma unroll
                    for (int n = 0; n < TN; n += 4) {
                        const float* of = &acc[taker * rowsOut + m][n];
                        *place(slice, m, n) = {of[1], of[0], of[3], of[2]};
                    }
                __syncthreads();
                if (slice == taker)
                    #pragma unroll
                    for (int m = 0; m < rowsOut; ++m)
                        #pragma unroll
                        for (int n = 0; n < TN; n += 4) {
                            float4 total = *place(0, m, n);
                            #pragma unroll
                            for (int giver = 1; giver < SLICES; ++giver) {
                                const float4 of = *place(giver, m, n);
                                total.x += of.x;
                                total.y += of.y;
                                total.z += of.z;
                                total.w += of.w;
                            }
                            sum[m][n + 1] = total.x;
                            sum[m][n + 0] = total.y;
                            sum[m][n + 3] = total.z;
                            sum[m][n + 2] = total.w;
                        }
            }
        }

        // Parts of a sum meet in the workspace, 16 at a time; the last to arrive adds them, in order.
        bool complete = true;
        if (SHARING && (begin > 0 || end < steps)) {
            const size_t head = size_t(index) * steps;     // the first step of this tile
            const unsigned first = unsigned(((head + 1) * shares - 1) / shared);  // and who has it
            const unsigned parts = unsigned(((head + steps) * shares - 1) / shared) - first + 1;
            unsigned part = share - first;
            auto place = [&](unsigned of) {                // shares and tiles only ever grow: no two parts meet
                return reinterpret_cast<float4*>(workspace + size_t(first + of + index) * slot) + threadIdx.x;
            };
            for (unsigned stride = 1, level = 0; stride < parts; stride *= 16, ++level) {
                const unsigned leader = part / (stride * 16) * (stride * 16);
                const unsigned left = (parts - leader + stride - 1) / stride, members = left < 16 ? left : 16;
                if (members > 1) {
                    if (slice < takers)
                        #pragma unroll
                        for (int m = 0; m < rowsOut; ++m)
                            #pragma unroll
                            for (int n = 0; n < TN; n += 4)
                                place(part)[(m * (TN / 4) + n / 4) * apart] = {sum[m][n + 1], sum[m][n], sum[m][n + 3], sum[m][n + 2]};
                    __syncthreads();
                    if (threadIdx.x == 0) {
                        // What all threads have written, the barrier puts before it; what they read, the next one behind.
                        unsigned* ticket = arrived + first + leader + index + level;
                        isLast = __nv_atomic_fetch_add(ticket, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) == members - 1;
                        if (isLast) *ticket = 0;
                    }
                    __syncthreads();
                    complete = isLast;
                    if (!complete) break;
                    #pragma unroll
                    for (int m = 0; m < rowsOut; ++m)
                        #pragma unroll
                        for (int n = 0; n < TN; ++n) sum[m][n] = 0.0f;
                    constexpr int atOnce = rowsOut * TN <= 32 ? 4 : 1;  // as many as the registers hold
                    #pragma unroll atOnce
                    for (unsigned member = 0; member < (slice < takers ? members : 0); ++member) {
                        const float4* one = place(leader + member * stride);
                        #pragma unroll
                        for (int m = 0; m < rowsOut; ++m)
                            #pragma unroll
                            for (int n = 0; n < TN; n += 4) {
                                const float4 of = one[(m * (TN / 4) + n / 4) * apart];
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

        constexpr bool staged = WORDS < 4 && BM > 1 && BN > 1;
        if constexpr (staged) __syncthreads();             // nobody reads tiles any more
        if (complete && slice < takers) {
            const float scale = K > 0 ? alpha : 0.0f;
            const bool inFours = (BN == 1 ? M : N) % 4 == 0 && size_t(C) % 16 == 0;
            float* const c0 = C + row0 * N + col0;
            if constexpr (staged) {
                // Rows of C begin anywhere: by way of shared memory, so that a warp writes neighbours.
                constexpr int high = WM / TM, pitch = WN + 4;
                static_assert(threads / 32 * high * pitch <= (STAGES ? STAGES : 3) * BK * (BM + 4 + BN), "");
                float* const rowsOfC = reinterpret_cast<float*>(tiles) + threadIdx.x / 32 * high * pitch;
                const int inWarp = tileRow % WM / 4, warpRow = tileRow / WM * WM, warpCol = tileCol / WN * WN;
                #pragma unroll
                for (int m = 0; m < rowsOut; ++m) {
                    const int mine = slice * rowsOut + m;
                    #pragma unroll
                    for (int n = 0; n < TN; n += 4)
                        *reinterpret_cast<float4*>(rowsOfC + inWarp * pitch + tileCol % WN + n / 4 * nextCol) =
                            {sum[m][n + 1], sum[m][n], sum[m][n + 3], sum[m][n + 2]};
                    __syncwarp();
                    #pragma unroll 4
                    for (int i = lane; i < high * WN; i += 32) {
                        const int row = warpRow + i / WN * 4 + mine / runRows * nextRow + mine % runRows, col = warpCol + i % WN;
                        if (row >= rows || col >= cols) continue;
                        float* c = c0 + size_t(row) * N + col;
                        const float of = scale * rowsOfC[i / WN * pitch + (i % WN ^ 1)];
                        *c = beta != 0.0f ? of + beta * *c : of;   // BLAS: beta = 0 never reads C
                    }
                    __syncwarp();
                }
                __syncthreads();
                continue;
            }
            #pragma unroll
            for (int m = 0; m < rowsOut; ++m)
                #pragma unroll
                for (int n = 0; n < TN; n += 4) {
                    const int mine = slice * rowsOut + m;
                    const int row = tileRow + mine / runRows * nextRow + mine % runRows, col = tileCol + n / 4 * nextCol;
                    const int left = cols - col;
                    if (row >= rows || left <= 0) continue;
                    float* c = c0 + size_t(row) * N + col;
                    float of[4] = {scale * sum[m][n], scale * sum[m][n + 1], scale * sum[m][n + 2], scale * sum[m][n + 3]};
                    if (inFours) {
                        if (beta != 0.0f) {                // BLAS: beta = 0 never reads C
                            const float4 old = *reinterpret_cast<const float4*>(c);
                            of[0] += beta * old.x;
                            of[1] += beta * old.y;
                            of[2] += beta * old.z;
                            of[3] += beta * old.w;
                        }
                        *reinterpret_cast<float4*>(c) = {of[0], of[1], of[2], of[3]};
                    } else {
                        for (int i = 0; i < 4; ++i)
                            if (i < left) c[i] = beta != 0.0f ? of[i] + beta * c[i] : of[i];
                    }
                }
        }
        __syncthreads();                                   // the buffers are free for the next tile
    }
}
