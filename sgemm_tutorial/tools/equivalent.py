"""Mutants that do nothing wrong, though their PTX is another: each with the argument why."""

from __future__ import annotations

from ..catalogue import find

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

NOTHING_AHEAD = """\
There is one pair of tiles whatever STAGES says, or all copies are waited for: right, as with STAGES = 1, but nothing is
fetched while something is multiplied. That costs time, which the simulator doesn't know."""

FIRST_INSIDE = """\
It is asked only where the first of the four is inside the matrix."""

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
    )
    for rung in rungs.split()
}
"""By the kernel's name and the mutant's key."""
