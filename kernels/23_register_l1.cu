// 23 · Registers and L1: no shared memory; what neighbouring threads share, the L1 cache hands them.
//
// Another road. A block of few threads has a flat tile of C, and each thread all its rows in TN columns,
// so that an element of B, once in a register, serves BM rows. At any time all threads want the same
// element of A, and neighbours neighbouring elements of B, which warps and blocks after them want again:
// that is left to L1. A and B are const and __restrict__: nobody writes to them meanwhile, the compiler
// is told, so that it may load them as constant data. The sums begin with βC and add αAB to it, α
// multiplied in beforehand, as the reference BLAS does.
//
// From there the parameters lead, step by step, to tiles in shared memory, wide accesses and
// straight-line code. At the edges, and where rows do not begin at multiples of 16 bytes, elements go
// one by one.
//
// T: type of the elements, float or double. BM, BN: rows and columns of C per block. BK: the depth of
// the tiles, if there are any. TM, TN: rows and columns of C per thread. SHARED: 1 for tiles of A and B
// in shared memory. C_LAST: 1 to read C when the products are summed, 0 to begin with it. FETCH:
// elements per access when tiles are fetched; READ: when they are read, and at C. UNROLL: passes of the
// innermost loop that are written out one after the other. EXTRA: bytes of shared memory that a launch
// adds and nobody uses. BLOCKS: blocks that one SM should hold, which limits the registers of a thread.

// Neighbours in memory that one access, or two of 16 bytes, move.
template <typename T, int COUNT>
struct alignas(COUNT == 1 ? sizeof(T) : 16) Group {
    T at[COUNT];
};

// Reads a group of a row, of which `left` elements are inside the matrix; zeros replace the others.
// `whole` promises that all are, and that the group is aligned.
template <int COUNT, typename T>
__device__ Group<T, COUNT> load(const T* from, int left, bool whole)
{
    if (whole) return *reinterpret_cast<const Group<T, COUNT>*>(from);
    Group<T, COUNT> group;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) group.at[i] = i < left ? from[i] : T(0);
    return group;
}

// Writes those of a group that are inside the matrix.
template <int COUNT, typename T>
__device__ void store(T* to, Group<T, COUNT> group, int left, bool whole)
{
    if (whole) {
        *reinterpret_cast<Group<T, COUNT>*>(to) = group;
    } else {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (i < left) to[i] = group.at[i];
    }
}

// Whether every row of a matrix begins where a group of COUNT may.
template <int COUNT, typename T>
__device__ bool aligned(const T* matrix, int columns)
{
    return columns % COUNT == 0 && size_t(matrix) % alignof(Group<T, COUNT>) == 0;
}

template <typename T, int BM, int BN, int BK, int TM, int TN, int SHARED, int C_LAST, int FETCH, int READ, int UNROLL,
          int EXTRA, int BLOCKS>
__global__ void __launch_bounds__(BM * BN / (TM * TN), BLOCKS)
register_l1(int M, int N, int K, T alpha, const T* __restrict__ A, const T* __restrict__ B, T beta, T* __restrict__ C)
{
    constexpr int threads = BM * BN / (TM * TN);
    constexpr int groups = TN / READ;                      // of a thread's columns
    constexpr int next = threads * READ;                   // columns from one group to the next
    constexpr int WIDE = FETCH > READ ? FETCH : READ;
    static_assert(TM == BM, "a thread has all rows of the tile");
    static_assert(TN % READ == 0 && BK % WIDE == 0 && BN % FETCH == 0, "rows come in whole groups");
    static_assert(SHARED || WIDE == 1, "groups are for tiles in shared memory");

    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;   // tiles of C per row of tiles
    const int tileCol = threadIdx.x * READ;                // this thread's first column in the tile of C
    const size_t row0 = size_t(blockIdx.x / tilesN) * BM;  // where the tile of C begins
    const size_t col0 = size_t(blockIdx.x % tilesN) * BN;
    const int rows = int(M - row0), cols = int(N - col0);  // rows and columns of C from there on
    const bool inside = rows >= BM && cols >= BN && aligned<WIDE>(A, K) && aligned<WIDE>(B, N) && aligned<WIDE>(C, N);

    if (alpha == T(0)) K = 0;                              // BLAS: A and B are not even read

    T acc[TM][TN] = {};
    if (!C_LAST && beta != T(0)) {                         // BLAS: beta = 0 never reads C
        #pragma unroll
        for (int m = 0; m < TM; ++m)
            #pragma unroll
            for (int n = 0; n < TN; ++n) {
                const int col = tileCol + n / READ * next + n % READ;
                if (m < rows && col < cols) acc[m][n] = beta * C[(row0 + m) * N + col0 + col];
            }
    }
    const T scale = C_LAST ? T(1) : alpha;                 // the sums that begin with βC add αAB: A or B gets the α

    if constexpr (!SHARED) {
        auto multiply = [&](bool whole) {
            const T* a = A + row0 * K;                     // where this block's rows and columns begin
            const T* b = B + col0;
            #pragma unroll UNROLL
            for (unsigned k = 0; k < K; ++k, ++a, b += N) {
                T fragB[TN];
                #pragma unroll
                for (int n = 0; n < TN; ++n) {
                    const int col = tileCol + n * next;
                    fragB[n] = whole || col < cols ? scale * b[col] : T(0);
                }
                #pragma unroll
                for (int m = 0; m < TM; ++m) {
                    const T fragA = whole || m < rows ? a[size_t(m) * K] : T(0);
                    #pragma unroll
                    for (int n = 0; n < TN; ++n)
                        acc[m][n] += fragA * fragB[n];
                }
            }
        };
        if (inside) multiply(true);                        // all known to be there: no guards are compiled
        else multiply(false);
    } else {
        extern __shared__ __align__(16) unsigned char tiles[];
        constexpr int stepA = threads / (BK / FETCH);      // rows of A that are fetched at once
        const int rowA = threadIdx.x / (BK / FETCH), colA = threadIdx.x % (BK / FETCH) * FETCH;
        T (&As)[BM][BK] = *reinterpret_cast<T (*)[BM][BK]>(tiles);
        T (&Bs)[BK][BN] = *reinterpret_cast<T (*)[BK][BN]>(tiles + sizeof(As));

        for (unsigned k0 = 0; k0 < K; k0 += BK) {
            // Past the edges of A and B the tiles hold zeros, so that the sums need no guard.
            const int depth = int(K - k0);                 // the rest of the sum
            auto fetch = [&](bool whole) {
                for (int row = rowA; row < BM; row += stepA) {
                    const T* a = A + (row0 + row) * K + k0 + colA;
                    auto group = load<FETCH>(a, row < rows ? depth - colA : 0, whole);
                    #pragma unroll
                    for (int i = 0; i < FETCH; ++i) group.at[i] *= scale;
                    store<FETCH>(&As[row][colA], group, FETCH, true);
                }
                #pragma unroll 4
                for (int row = 0; row < BK; ++row)
                    #pragma unroll
                    for (int i = 0; i < BN; i += threads * FETCH) {  // as many passes for all: they can be unrolled
                        const int col = threadIdx.x * FETCH + i;
                        const T* b = B + size_t(k0 + row) * N + col0 + col;
                        const auto group = load<FETCH>(b, row < depth ? cols - col : 0, whole);
                        store<FETCH>(&Bs[row][col], group, FETCH, true);
                    }
            };
            if (inside && depth >= BK) fetch(true);
            else fetch(false);
            __syncthreads();                               // the tiles are complete

            #pragma unroll UNROLL
            for (int k = 0; k < BK; k += READ) {
                Group<T, READ> fragB[READ][groups];        // of READ rows of B
                #pragma unroll
                for (int i = 0; i < READ; ++i)
                    #pragma unroll
                    for (int g = 0; g < groups; ++g)
                        fragB[i][g] = load<READ>(&Bs[k + i][tileCol + g * next], READ, true);
                #pragma unroll
                for (int m = 0; m < TM; ++m) {
                    const Group<T, READ> fragA = load<READ>(&As[m][k], READ, true);
                    #pragma unroll
                    for (int i = 0; i < READ; ++i)
                        #pragma unroll
                        for (int n = 0; n < TN; ++n)
                            acc[m][n] += fragA.at[i] * fragB[i][n / READ].at[n % READ];
                }
            }
            __syncthreads();                               // all threads have read them
        }
    }

    const T factor = !C_LAST ? T(1) : K > 0 ? alpha : T(0);
    auto finish = [&](bool whole) {
        #pragma unroll
        for (int m = 0; m < TM; ++m)
            #pragma unroll
            for (int g = 0; g < groups; ++g) {
                const int col = tileCol + g * next;
                if (m >= rows) continue;
                T* c = C + (row0 + m) * N + col0 + col;
                Group<T, READ> result;
                #pragma unroll
                for (int i = 0; i < READ; ++i) result.at[i] = factor * acc[m][g * READ + i];
                if (C_LAST && beta != T(0)) {              // BLAS: beta = 0 never reads C
                    const Group<T, READ> old = load<READ>(c, cols - col, whole);
                    #pragma unroll
                    for (int i = 0; i < READ; ++i) result.at[i] += beta * old.at[i];
                }
                store<READ>(c, result, cols - col, whole);
            }
    };
    if (inside) finish(true);
    else finish(false);
}
