"""Mutants that do nothing wrong, though their PTX is another: each with the argument why."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find

WHOLE_GROUPS = """\
It is asked only where rows begin at multiples of 16 bytes. What is left of a row is then a multiple of four floats, or
of eight halfs, as a tile's width is, and cannot be one short of it."""

NO_SUCH_REGISTER = """\
The array is in registers, and the round too many is about an element that it doesn't have. The compiler drops it; the
instructions are the same, in another order."""

SAME_SUMS = """\
The columns of a row are walked in another order, but each product is still added to its own sum. It matters only to
what can be reused of the registers read before, which the simulator doesn't know; chapter 09 counts it in SASS."""

SAME_COPY = """\
Sixteen bytes are copied by cp.async.ca instead of cp.async.cg: through L1 and not past it. That may cost time, but the
simulator has no caches."""

SAME_WORDS = """\
The same words are read; only whether L1 keeps them is another. That may cost time, but the simulator has no caches."""

NOTHING_AHEAD = """\
There is one pair of tiles whatever STAGES says, or all copies are waited for: right, as with STAGES = 1, but nothing is
fetched while something is multiplied. That costs time, which the simulator doesn't know."""

FIRST_INSIDE = """\
It is asked only where the first of the four is inside the matrix."""

ONE_REGISTER_MORE = """\
The array is in registers, and one more of them is declared than anything asks for."""

NOTHING_TO_DO = """\
Where there are more blocks than steps to share, some get none, whether their number is put right or not."""

LONGER_LOTS = """\
The same loads and the same sums in the same order; only how many loads are under way together is another. That may cost
time, which the simulator doesn't know."""

OTHER_FETCHERS = """\
The same words are fetched, as many neighbours by each warp, but by other threads. Which rows a warp has may cost time,
which the simulator doesn't know."""

GUARDED_TWICE = """\
A copy that is not wanted does nothing by itself, with a branch round it or without. The branch may cost time, which the
simulator doesn't know."""

ALWAYS_INSIDE = """\
The guard is kept, and always passed, where it could be left out. No tile of A has fewer rows than come at once."""

TOWARDS_ZERO = """\
`rowA` is less than stepA, and there is always a row. What is divided is thus greater than -stepA, and 0 comes out where
it is negative, as the division cuts off."""

NEVER_WRITTEN = """\
What is multiplied beyond the last column is never written to C: the neighbours that are copied there are as good as
zeros."""

NOTHING_HELD = """\
What would be stored was never loaded, and the compiler leaves out such stores."""

NOTHING_UNDER_WAY = """\
It is about copies that come by themselves, of which there are none where tiles go through registers."""

UNROLLED = """\
The same additions in the same order, so many to a round of the loop. Only time hangs on it."""

EITHER_WAY = """\
At the boundary both sides of the choice are the same number."""

ALONE = """\
What it adds is a level at which there is one part alone, and nothing is done there."""

ONE_ROW = """\
A thread's sums are in one row there, the first, and that is there anyway."""

NEVER_SET = """\
The first offset is 0, and that is what the compiler takes for a register that was never set."""

NEXT_ROW = """\
What follows the last element of a row is the first of the next, and gets what it gets anyway; after the last row there
is no register, and the compiler drops it."""

ORDERED_ANYWAY = """\
The registers are ordered all the same. Which of them the compiler is told of keeps it from moving their arithmetic to
behind that, which it has not done; and past the last there is none."""

NOT_MOVED = """\
No instruction comes of it. It keeps the compiler from moving what is done to these registers past it, which it has not
done without: the machine code is the same."""

SAME_SIXTEEN = """\
A descriptor counts in 16 bytes, and leaves out the four that this adds."""

CLUSTER_OF_ONE = """\
In a cluster of one block, what is for all of its blocks is for this one."""

NOTHING_LEFT_TO_DO = """\
Who meets at one barrier more has nothing left to do, and threads that have ended are not waited for there."""

OTHERS_STAY = """\
A block is there until its last thread ends, and those that multiply still meet the other blocks'. Threads that have
ended are not waited for at a cluster's barrier."""

NEW_BARRIER = """\
A wait for parity 1 of a new mbarrier is over at once."""

FOUR_AT_LEAST = """\
K is 0 there only where α is, too. Nor is it 1: rows of A begin at multiples of 16 bytes."""

RELEASED_ANYWAY = """\
The cluster's barrier, right behind it, releases what its threads have done before, the making of mbarriers too."""

OTHER_REGISTERS = """\
How many registers a thread may have makes no difference to what it computes, only to how much the compiler spills."""

EVEN = """\
Columns come in fours, as rows begin at multiples of 16 bytes, and a lane's first one is even: it is not the last."""

MET_ALREADY = """\
The lanes of a warp that have parted before wait for nothing on their way, and have met again. The machine code is the
same but for an instruction that does nothing, and the order of a few."""

MEET_HERE = """\
Lanes that have parted where C ends meet again before wgmma wants them all, as the compiler places its code today."""

DUE_ONCE = """\
Each part of the late sums is due with one pair of tiles, and so is written once, whether or not all are said to be
done."""

NONE_OF_THEM = """\
One time more, with none of a lane's places, when all has been written."""

NOTHING_READ = """\
Where beta is 0 nothing of C was read, and zeros stand for it: what beta times them adds is nothing."""

READ_IN_VAIN = """\
It reads four neighbours more, which C has if they are read, and nobody uses them."""

REFILLED_LATER = """\
The stage that is read last is filled again only behind a barrier of the next tile of C; those read before it are behind
one already."""

NOBODY_WAITS = """\
Where there are no products no stage is filled, and nobody waits for one."""

LATER_GONE = """\
In a cluster of one block, the thread that fetches ends a little later, once all has been read that it fetched."""

SOONER_OR_LATER = """\
The same sums are written to the same places, only sooner or later. That may cost time, which the simulator doesn't
know."""

BELOW = """\
What no tile's sums are in is said to begin below the last row, where nothing is written."""

BROUGHT_NEAR = """\
It brings near what is fetched soon. That may save time, which the simulator doesn't know."""

EQUIVALENT: dict[tuple[str, str], str] = {
    (find(rung).name, key): why
    for why, rungs, key in (
        (
            WHOLE_GROUPS,
            "07 08 09 10",
            "guard off by one: const bool inside = rows >= BM && cols >= -1 + BN && aligned(A, K) && aligned(B, N) "
            "&& aligned(C, N);",
        ),
        (
            WHOLE_GROUPS,
            "11",
            "guard off by one: const bool inside = rows >= BM && cols >= -1 + BN && aligned(B, N) && aligned(C, N);",
        ),
        (WHOLE_GROUPS, "07 08 09", "guard off by one: if (inside && depth >= -1 + BK) fetch(true);"),
        (WHOLE_GROUPS, "10", "guard off by one: if (inside && depth >= -1 + BK) load(true);"),
        (
            WHOLE_GROUPS,
            "14",
            "guard off by one: const bool wholeA = rows >= 16 && aligned<32>(A, K), wholeB = cols >= -1 + 16 && "
            "aligned<32>(B, N);",
        ),
        (WHOLE_GROUPS, "14", "guard off by one: if (wholeA && depth >= -1 + 16) {"),
        (WHOLE_GROUPS, "14", "guard off by one: if (rows >= 16 && cols >= -1 + 16 && aligned<32>(C, N)) {"),
        (
            WHOLE_GROUPS,
            "15",
            "guard off by one: const bool whole = rows >= BM && cols >= -1 + BN, eights = aligned<32>(A, K) && "
            "aligned<32>(B, N);",
        ),
        (
            WHOLE_GROUPS,
            "15",
            "guard off by one: copy8(&Bs[stage][rowB + i][colB], b + size_t(i) * N, rowB + i < depth && "
            "colB < -1 + cols);",
        ),
        (
            WHOLE_GROUPS,
            "15",
            "guard off by one: copy8(&As[stage][rowA + i][colA], a + size_t(i) * K, rowA + i < rows && "
            "colA < -1 + depth);",
        ),
        (WHOLE_GROUPS, "15", "guard off by one: if (STAGES == 0 && whole && eights && K - k0 >= -1 + BK) {"),
        (WHOLE_GROUPS, "16", "guard off by one: if (eights) copy8(to, from, left > 1 + 0);"),
        (WHOLE_GROUPS, "17", "guard off by one: if (fours) copy4(to, from, left > 1 + 0);"),
        (NO_SUCH_REGISTER, "13", "boundary moved: for (int g = 0; g <= groups; ++g)"),
        (SAME_SUMS, "09 10 11", "quotient for remainder: const int n = m / 2 ? TN - 1 - i : i;"),
        (SAME_SUMS, "12", "quotient for remainder: const int n = i / 2 ? TN - 1 - j : j;"),
        (SAME_SUMS, "15", "quotient for remainder: const int n = m / 2 ? FN - 1 - i : i;"),
        (SAME_SUMS, "16", "quotient for remainder: const int n = m / 2 ? 2 * FN - 1 - i : i;"),
        (FIRST_INSIDE, "17", "condition decided: if (true) to[0] = four.x;"),
        (FIRST_INSIDE, "17", "boundary moved: if (left >= 0) to[0] = four.x;"),
        (SAME_COPY, "11", "condition decided: if constexpr (false)"),
        (NOTHING_AHEAD, "15", "condition decided: constexpr int tiles = false ? STAGES : 1;"),
        (
            NOTHING_AHEAD,
            "15",
            'condition decided: asm volatile("cp.async.wait_group %0;" :: "n"(false ? tiles - 2 : 0) : "memory");',
        ),
        (ONE_REGISTER_MORE, "12", "index shifted by one: Words<WORDS> heldB[(STAGES ? 1 : copiesB) + 1];"),
        (SAME_COPY, "12", "condition decided: if constexpr (false) #2"),
        *(
            (
                SAME_WORDS,
                "12",
                f"condition decided: const auto of = {wide} ? stream<WORDS>(a[i] + mine, exists) : "
                "load<WORDS>(a[i] + mine, exists);",
            )
            for wide in ("true", "false")
        ),
        (NOTHING_TO_DO, "12", "condition decided: if (false) shares = unsigned(shared);"),
        (NOTHING_TO_DO, "12", "boundary moved: if (shares >= shared) shares = unsigned(shared);"),
        *(
            (LONGER_LOTS, "12", f"condition decided: constexpr int lot = {lot} ? 4 : 8;")
            for lot in ("true || WORDS < 4", "false || WORDS < 4", "BN == 1 || true", "BN == 1 || false")
        ),
        (OTHER_FETCHERS, "12", "condition decided: constexpr int fetchers = true ? threads : 32;"),
        (OTHER_FETCHERS, "12", "condition decided: constexpr int fetchers = false ? threads : 32;"),
        *(
            (GUARDED_TWICE, "12", f"condition decided: constexpr bool few = {few};")
            for few in (
                "true && copiesA + copiesB <= 6",
                "false && copiesA + copiesB <= 6",
                "WORDS == 4 && true",
                "WORDS == 4 && false",
            )
        ),
        (ALWAYS_INSIDE, "12", "condition decided: constexpr bool evenA = false, evenB = BK % stepB == 0;"),
        (ALWAYS_INSIDE, "12", "condition decided: constexpr bool evenA = BM % stepA == 0, evenB = false;"),
        (TOWARDS_ZERO, "12", "condition decided: const int lastA = true ? (rows - 1 - rowA) / stepA : 0;"),
        (
            NEVER_WRITTEN,
            "12",
            "condition decided: const bool exists = k + rowB + row >= 0 && (false || col < leftB);",
        ),
        (NOTHING_HELD, "12", "condition decided: if constexpr (true) { #3"),
        (
            NOTHING_UNDER_WAY,
            "12",
            'condition decided: auto commit = [] { if constexpr (true) asm volatile("cp.async.commit_group;"); };',
        ),
        (
            NOTHING_UNDER_WAY,
            "12",
            'condition decided: if constexpr (true) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : '
            '"memory");',
        ),
        (UNROLLED, "12", "condition decided: constexpr int atOnce = false ? 4 : 1;"),
        (
            EITHER_WAY,
            "12",
            "boundary moved: end = to - from <= steps - begin ? begin + unsigned(to - from) : steps;",
        ),
        (LONGER_LOTS, "12", "boundary moved: constexpr int lot = BN == 1 || WORDS <= 4 ? 4 : 8;"),
        (EITHER_WAY, "12", "boundary moved: const float* b = B + col0 + (col <= most ? col : most);"),
        (
            NO_SUCH_REGISTER,
            "12",
            "boundary moved: for (int i = 0; i <= 4; ++i) acc[0][i] = __shfl_sync(~0u, one, lane % across * 4 + i);",
        ),
        (GUARDED_TWICE, "12", "boundary moved: constexpr bool few = WORDS == 4 && copiesA + copiesB < 6;"),
        (TOWARDS_ZERO, "12", "boundary moved: const int lastA = rows >= rowA ? (rows - 1 - rowA) / stepA : 0;"),
        (
            EITHER_WAY,
            "12",
            "boundary moved: auto within = [&](int col) { return col <= cols - WORDS ? col : cols - WORDS; };",
        ),
        (
            NOTHING_UNDER_WAY,
            "12",
            'boundary moved: auto commit = [] { if constexpr (STAGES >= 0) asm volatile("cp.async.commit_group;"); };',
        ),
        (
            NOTHING_UNDER_WAY,
            "12",
            'boundary moved: if constexpr (STAGES >= 0) asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 1) : '
            '"memory");',
        ),
        (NEXT_ROW, "12", "boundary moved: for (int n = 0; n <= TN; ++n) sum[m][n] = acc[m][n];"),
        (NEXT_ROW, "12", "boundary moved: for (int n = 0; n <= TN; n += 4) { #2"),
        (
            ALONE,
            "12",
            "boundary moved: for (unsigned stride = 1, level = 0; stride <= parts; stride *= 16, ++level) {",
        ),
        (UNROLLED, "12", "boundary moved: constexpr int atOnce = rowsOut * TN < 32 ? 4 : 1;"),
        (EITHER_WAY, "12", "guard off by one: const unsigned steps = K > 1 + 0 ? (unsigned(K) + BK - 1) / BK : 1;"),
        (NOTHING_TO_DO, "12", "guard off by one: if (shares > 1 + shared) shares = unsigned(shared);"),
        (
            EITHER_WAY,
            "12",
            "guard off by one: for (int i = 0; i < 4; ++i) a[i] = A + (row0 + (warp * 4 + i < -1 + rows ? warp * 4 + i "
            ": rows - 1)) * K;",
        ),
        (EITHER_WAY, "12", "guard off by one: const int lastA = rows > 1 + rowA ? (rows - 1 - rowA) / stepA : 0;"),
        (
            EITHER_WAY,
            "12",
            "guard off by one: const float* a = A + (row0 + (rows > 1 + rowA ? rowA : rows - 1)) * K + firstK + colA;",
        ),
        (
            WHOLE_GROUPS,
            "12",
            "guard off by one: auto within = [&](int col) { return col < -1 + cols - WORDS ? col : cols - WORDS; };",
        ),
        (NOTHING_TO_DO, "12", "statement dropped: no if (shares > shared) shares = unsigned(shared);"),
        (ONE_ROW, "12", "statement dropped: no rows = 1;"),
        (
            ALWAYS_INSIDE,
            "12",
            "quotient for remainder: constexpr bool evenA = BM / stepA == 0, evenB = BK % stepB == 0;",
        ),
        (
            NEVER_SET,
            "12",
            "loop changed: for (int i = 0 + 1; i < downA; ++i) offsetA[i] = unsigned(i < lastA ? i : lastA) * stepA "
            "* K;",
        ),
        (ORDERED_ANYWAY, "17_tf32x3_hopper", "index shifted by one: order_registers(big[(k) + 1], small[k]);"),
        (ORDERED_ANYWAY, "17_tf32x3_hopper", "index shifted by one: order_registers(big[k], small[(k) + 1]);"),
        *(
            (ORDERED_ANYWAY, "17_tf32x3_hopper", f"{rule}: for (int i = 0; i {loop}")
            for rule, loop in (
                (
                    "index shifted by one",
                    '< 4; ++i) asm volatile("" : "+r"(a[(i) + 1]), "+r"(b[i]) :: "memory");',
                ),
                (
                    "index shifted by one",
                    '< 4; ++i) asm volatile("" : "+r"(a[i]), "+r"(b[(i) + 1]) :: "memory");',
                ),
                ("boundary moved", '<= 4; ++i) asm volatile("" : "+r"(a[i]), "+r"(b[i]) :: "memory");'),
            )
        ),
        *(
            (NOT_MOVED, "17_tf32x3_hopper", f'{head} asm volatile("" : "+r"(a[i]), "+r"(b[i]) :: "memory");')
            for head in (
                "loop changed: for (int i = 0 + 1; i < 4; ++i)",
                "loop changed: for (int i = 0; i + 1 < 4; ++i)",
                "loop changed: for (int i = 0; i < 4; i += 1 + 1)",
            )
        ),
        (NOT_MOVED, "17_tf32x3_hopper", "copy or wait removed: for (int i = 0; i < 4; ++i) ;"),
        *(
            (NOT_MOVED, "17_tf32x3_hopper 18_hopper_wgmma", f'{head} asm volatile("" : "+f"(d[i]) :: "memory");')
            for head in (
                "boundary moved: for (int i = 0; i <= SUMS; ++i)",
                "loop changed: for (int i = 0 + 1; i < SUMS; ++i)",
                "loop changed: for (int i = 0; i + 1 < SUMS; ++i)",
                "loop changed: for (int i = 0; i < SUMS; i += 1 + 1)",
            )
        ),
        (
            NOT_MOVED,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "copy or wait removed: for (int i = 0; i < SUMS; ++i) ;",
        ),
        (
            SAME_SIXTEEN,
            "17_tf32x3_hopper",
            "index shifted by one: multiply(part, small[k], describe(&As[stage][(k * 8) + 1], 16, atom), k > 0);",
        ),
        (
            SAME_SIXTEEN,
            "17_tf32x3_hopper",
            "index shifted by one: multiply(part, big[k], describe(&smallAs[stage][(k * 8) + 1], 16, atom));",
        ),
        (
            SAME_SIXTEEN,
            "17_tf32x3_hopper",
            "index shifted by one: for (int k = 0; k < BK / 8; ++k) multiply(part, big[k], "
            "describe(&As[stage][(k * 8) + 1], 16, atom));",
        ),
        (
            CLUSTER_OF_ONE,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "condition decided: if constexpr (true) cluster_barrier();",
        ),
        (
            CLUSTER_OF_ONE,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "boundary moved: if constexpr (CLUSTER >= 1) cluster_barrier();",
        ),
        (CLUSTER_OF_ONE, "17_tf32x3_hopper 18_hopper_wgmma", "condition decided: if constexpr (false)"),
        (CLUSTER_OF_ONE, "17_tf32x3_hopper 18_hopper_wgmma", "condition decided: if constexpr (false) {"),
        (NOTHING_LEFT_TO_DO, "17_tf32x3_hopper", "condition decided: if constexpr (true) cluster_barrier(); #2"),
        (NOTHING_LEFT_TO_DO, "17_tf32x3_hopper", "boundary moved: if constexpr (CLUSTER >= 1) cluster_barrier(); #2"),
        (NOTHING_LEFT_TO_DO, "17_tf32x3_hopper", "condition decided: if constexpr (true) cluster_barrier(); #3"),
        (NOTHING_LEFT_TO_DO, "17_tf32x3_hopper", "boundary moved: if constexpr (CLUSTER >= 1) cluster_barrier(); #3"),
        (OTHERS_STAY, "17_tf32x3_hopper", "condition decided: if constexpr (false) cluster_barrier(); #2"),
        (OTHERS_STAY, "17_tf32x3_hopper", "guard off by one: if constexpr (CLUSTER > 1 + 1) cluster_barrier(); #2"),
        (NEW_BARRIER, "17_tf32x3_hopper", "condition decided: if (true) empty[stage].wait((step / STAGES - 1) % 2);"),
        (
            NEW_BARRIER,
            "17_tf32x3_hopper",
            "guard off by one: if (step >= -1 + STAGES) empty[stage].wait((step / STAGES - 1) % 2);",
        ),
        (
            FOUR_AT_LEAST,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "condition decided: const float scale = true ? alpha : 0.0f;",
        ),
        (
            FOUR_AT_LEAST,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "boundary moved: const float scale = K >= 0 ? alpha : 0.0f;",
        ),
        (
            FOUR_AT_LEAST,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "guard off by one: const float scale = K > 1 + 0 ? alpha : 0.0f;",
        ),
        (EVEN, "17_tf32x3_hopper", "guard off by one: if (int(tileCol) >= -1 + cols) continue;"),
        (
            RELEASED_ANYWAY,
            "17_tf32x3_hopper 18_hopper_wgmma",
            'copy or wait removed: no asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
        ),
        (
            OTHER_REGISTERS,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "copy or wait removed: __device__ void give_registers() { ; }",
        ),
        (
            OTHER_REGISTERS,
            "17_tf32x3_hopper 18_hopper_wgmma",
            "copy or wait removed: __device__ void take_registers() { ; }",
        ),
        (MEET_HERE, "18_hopper_wgmma", "barrier removed: no __syncwarp();"),
        (MET_ALREADY, "18_hopper_wgmma", "barrier removed: no __syncwarp(); #3"),
        (
            NOT_MOVED,
            "18_hopper_wgmma",
            'index shifted by one: for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(d[(i) + 1]) :: "memory");',
        ),
        (LATER_GONE, "18_hopper_wgmma", "condition decided: if constexpr (true) #2"),
        (LATER_GONE, "18_hopper_wgmma", "boundary moved: if constexpr (CLUSTER >= 1)"),
        (REFILLED_LATER, "18_hopper_wgmma", "barrier removed: if constexpr (!specialised) ;"),
        (
            SAME_SIXTEEN,
            "18_hopper_wgmma",
            "index shifted by one: multiply<T>(acc, describe(&As[stage][(warp / 4 * 64 * BK + k) + 1], 16, atom),",
        ),
        (
            SAME_SIXTEEN,
            "18_hopper_wgmma",
            "index shifted by one: describe(&Bs[stage][(k * row) + 1], BK * row * sizeof(T), atom));",
        ),
        (
            NEW_BARRIER,
            "18_hopper_wgmma",
            "condition decided: if (true) empty[step % STAGES].wait((step / STAGES - 1) % 2);",
        ),
        (
            NEW_BARRIER,
            "18_hopper_wgmma",
            "guard off by one: if (step >= -1 + STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);",
        ),
        (NOBODY_WAITS, "18_hopper_wgmma", "condition decided: else if (true) let_go(step - 1);"),
        (NOBODY_WAITS, "18_hopper_wgmma", "boundary moved: else if (tiles >= 0) let_go(step - 1);"),
        *(
            (SOONER_OR_LATER, "18_hopper_wgmma", key)
            for key in (
                "condition decided: if (true) write_late(first, min(first + few, fours));",
                "quotient for remainder: auto due = [](int first) { return 1 + (first - half) % few; };",
            )
        ),
        *(
            (DUE_ONCE, "18_hopper_wgmma", key)
            for key in (
                "condition decided: if (false) before.row = M;",
                "statement dropped: no if (end == fours) before.row = M;",
            )
        ),
        *(
            (BELOW, "18_hopper_wgmma", key)
            for key in (
                "condition decided: if (PERSISTENT && true)",
                "condition decided: if (PERSISTENT && true) #2",
                "condition decided: if (true) write_late(half, fours);",
                "boundary moved: if (PERSISTENT && before.row <= M)",
                "boundary moved: if (PERSISTENT && before.row <= M) #2",
                "boundary moved: if (before.row <= M) write_late(half, fours);",
            )
        ),
        *(
            (NONE_OF_THEM, "18_hopper_wgmma", key)
            for key in (
                "boundary moved: for (int first = half; first <= fours; first += few)",
                "boundary moved: for (int first = half; first <= fours; first += few) #2",
            )
        ),
        *(
            (READ_IN_VAIN, "18_hopper_wgmma", f"boundary moved: for (int four = {loop}")
            for loop in (
                "first; four <= end; ++four) read(before, four, old[four - half]);",
                "0; four <= half; ++four) read(here, four, old[four]);",
            )
        ),
        (NOTHING_READ, "16 17", "condition decided: if (true) { #3"),
        (
            BROUGHT_NEAR,
            "18_hopper_wgmma",
            'copy or wait removed: no asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");',
        ),
    )
    for rung in rungs.split()
}
"""By the kernel's name and the mutant's key."""
