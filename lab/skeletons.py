"""Skeletons of the rungs: a kernel's own file, in which lines that are the reader's to write say TODO instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.own import with_defaults


@dataclass(frozen=True)
class Gap:
    """Lines of a kernel's file that a skeleton leaves out.

    Attributes
    ----------
    first, last : str
        Text of the first of them and of the last: the next lines that hold it, after the gap before.
    put : str
        What stands there instead, indented like the first line. It compiles and is wrong.
    """

    first: str
    last: str
    put: str


GAPS: dict[str, tuple[Gap, ...]] = {
    "01_naive": (
        Gap(
            "const size_t row =",
            "const size_t col =",
            "// TODO: one element of C for each thread, neighbouring threads on neighbouring rows\n"
            "const size_t row = 0, col = 0;",
        ),
        Gap("for (int k = 0;", "acc +=", "// TODO: add up the products of row `row` of A and column `col` of B"),
    ),
    "02_coalesced": (
        Gap(
            "const size_t row =",
            "const size_t col =",
            "// TODO: one element of C for each thread, neighbouring threads on neighbouring columns\n"
            "const size_t row = 0, col = 0;",
        ),
    ),
    "03_shared_tile": (
        Gap(
            "// Past the edges",
            "// nobody reads them any more",
            "// TODO: fetch this thread's share of both tiles, and zeros past depthA and depthB\n"
            "// TODO: wait until the tiles are complete\n"
            "// TODO: add up the products of row tileRow of As and column tileCol of Bs\n"
            "// TODO: wait until nobody reads the tiles any more",
        ),
    ),
    "04_thread_tile_1d": (
        Gap(
            "const int tileRow =",
            "const int tileRow =",
            "const int tileRow = 0;  // TODO: the first of this thread's TM rows of the tile of C",
        ),
        Gap(
            "const float fragB =",
            "acc[m] +=",
            "// TODO: read one element of Bs, and multiply it with TM of As",
        ),
        Gap("const size_t row =", "const size_t row =", "const size_t row = row0;  // TODO: the row of acc[m]"),
    ),
    "05_thread_tile_2d": (
        Gap(
            "const int tileRow =",
            "const int tileCol =",
            "const int tileRow = 0, tileCol = 0;  // TODO: where this thread's TM × TN elements begin in the tile",
        ),
        Gap("#pragma unroll 4", "acc[m][n] +=", "// TODO: for each k of the tiles, TM · TN multiply-adds"),
        Gap(
            "const size_t row =",
            "const size_t row =",
            "const size_t row = row0, col = col0;  // TODO: the place of acc[m][n] in C",
        ),
    ),
    "06_register_fragments": (
        Gap(
            "for (int m = 0; m < TM; ++m) fragA[m]",
            "acc[m][n] +=",
            "// TODO: read the fragments, then multiply each element of one with each of the other",
        ),
    ),
    "07_vectorized": (
        Gap(
            "for (int i = 0; i < BM; i += stepA) {",
            "load4(b +",
            "// TODO: four elements of A at once with load4, one below the other in As; `depth` and `rows` are left\n"
            "// TODO: four elements of B at once, which stay side by side in Bs; `depth` and `cols` are left",
        ),
        Gap(
            "float fragA[TM], fragB[TN];",
            "fragB[n] =",
            "float fragA[TM] = {}, fragB[TN] = {};  // TODO: read them; As is transposed",
        ),
    ),
    "08_conflict_free": (
        Gap(
            "auto swizzle =",
            "auto swizzle =",
            "auto swizzle = [](int k) { return 0; };  // TODO: what row k's places are XORed with",
        ),
        Gap(
            "const int tileRow =",
            "const int tileCol =",
            "const int tileRow = 0, tileCol = 0;  // TODO: its first group of four, beside its neighbours' first",
        ),
        Gap("As[colA + 0]", "As[colA + 3]", "// TODO: write the four to rows colA to colA + 3 of As, swizzled"),
        Gap(
            "float fragA[TM], fragB[TN];",
            "fragB[n] =",
            "float fragA[TM] = {}, fragB[TN] = {};  // TODO: read them, group by group; As is swizzled",
        ),
    ),
    "09_warp_tile": (
        Gap(
            "const int laneM =",
            "const int tileCol =",
            "// TODO: this lane's place among lanesM × lanesN, in squares of 2 × 2\n"
            "// TODO: this thread's first group of four in the tile of C, by warp and lane\n"
            "const int tileRow = 0, tileCol = 0;",
        ),
        Gap(
            "float fragA[TM], fragB[TN];",
            "fragB[n] =",
            "float fragA[TM] = {}, fragB[TN] = {};  // TODO: read them, group by group; As is swizzled",
        ),
    ),
    "10_double_buffer": (
        Gap(
            "for (int i = 0; i < BM / stepA; ++i) {",
            "&Bs[stage]",
            "// TODO: write nextA and nextB to pair `stage` of the tiles; As is transposed and swizzled",
        ),
        Gap("if (K > 0) {", "}", "// TODO: the first pair of tiles, if there is one"),
        Gap("__syncthreads();", "__syncthreads();", "// TODO: wait; what for?"),
        Gap(
            "if (k == 0 && more)",
            "if (k == 0 && more)",
            "// TODO: at one k, start to fetch the next pair if there is more",
        ),
        Gap(
            "stage = 1 - stage;",
            "if (more) store",
            "// TODO: go on to the other pair, and store there what was fetched",
        ),
    ),
    "11_async_pipeline": (
        Gap(
            "for (int i = 0; i < BM; i += stepA)",
            "rowB + i < depth && colB + n < cols);",
            "// TODO: start copies of this thread's elements: of A word by word, transposed, of B 16 bytes at once\n"
            "// TODO: where not all are there, word by word with zeros for what is missing",
        ),
        Gap("#pragma unroll", "++s) fetch(", "// TODO: start to fetch the first STAGES - 1 pairs of tiles"),
        Gap("cp.async.wait_group", "__syncthreads();", "// TODO: wait until the oldest pair is there, for all threads"),
        Gap("if (k == 1) fetch", "if (k == 1) fetch", "// TODO: at one k, start to fetch one more pair, into `last`"),
        Gap("stage = stage + 1", "last = last + 1", "// TODO: the pair to multiply next, and that to fetch into next"),
    ),
    "12_autotuned": (
        Gap(
            "from = share * shared / shares;",
            "to = (share + 1)",
            "// TODO: of the `shared` steps, the first of this share's, and the one after its last",
        ),
        Gap(
            "index = unsigned(from / steps);",
            "end = to - from < steps - begin",
            "tile = whole;  // TODO: the tile that step `from` is in; `index` counts the shared ones alone\n"
            "// TODO: the first step of that tile that is this share's, and the one after its last",
        ),
        Gap(
            "isLast = __nv_atomic_fetch_add",
            "if (isLast) *ticket = 0;",
            "isLast = 0;  // TODO: tell the others; is this the last? The ticket is left as it was found",
        ),
        Gap(
            "const float4* one =",
            "}",
            "// TODO: add this member's part, whose neighbours have changed places: {1, 0, 3, 2}",
        ),
    ),
    "13_register_l1": (
        Gap(
            "const int col = tileCol + n * next;",
            "fragB[n] =",
            "fragB[n] = T(0);  // TODO: `scale` times the thread's n-th element of this row of B, if it is there",
        ),
        Gap("const T fragA = whole", "acc[m][n] +=", "// TODO: one element of A, if it is there, for TN multiply-adds"),
    ),
    "14_wmma": (
        Gap(
            "if (wholeA && depth >= 16) {",
            "mma_sync(",
            "// TODO: load fragA, straight from A where it lies whole there, or else through As[warp]; see fill\n"
            "// TODO: load fragB likewise\n"
            "// TODO: multiply, and add to acc",
        ),
    ),
    "15_wmma_warp_tile": (
        Gap(
            "for (int i = 0; i < BM; i += stepA)",
            "rowB + i < depth && colB < cols);",
            "// TODO: start copies of eight elements at once, with copy8, to As[stage] and Bs[stage]",
        ),
        Gap(
            "load_matrix_sync(fragA[m]",
            "}",
            "// TODO: load FM fragments of A and FN of B, and add the product of each pair to acc",
        ),
        Gap(
            "cp.async.wait_group",
            "__syncthreads();",
            "// TODO: wait until the oldest tiles are there, for all threads; one pair of tiles is the oldest too",
        ),
        Gap(
            "if (tiles > 1) fetch",
            "if (tiles > 1) fetch",
            "// TODO: where there are several, start to fetch into `last`",
        ),
    ),
    "16_mma": (
        Gap(
            "return row * CHUNKS +",
            "return row * CHUNKS +",
            "return row * CHUNKS + chunk;  // TODO: let eight chunks of a column lie in different banks",
        ),
        Gap(
            "const T* a = &As[stage]",
            "b + place<chunksB>(",
            "for (auto& fragment : fragA[step % 2]) for (unsigned& two : fragment) two = 0;  // TODO: load FM of A\n"
            "for (auto& fragment : fragB[step % 2]) for (unsigned& two : fragment) two = 0;  // TODO: load FN of B",
        ),
        Gap(
            "const int row = rowA + i * stepA;",
            "row < rows ?",
            "// TODO: copy this thread's i-th chunk of A, of which there may be less; that of B below shows how",
        ),
        Gap(
            "const int n = m % 2",
            "multiply<T>(acc[m][n]",
            "// TODO: add the product of fragment m of A and a half of one of B to acc[m][n]",
        ),
    ),
    "17_tf32x3": (
        Gap(
            "big = (number",
            "small = __float_as_uint(",
            "big = number, small = 0;  // TODO: the nearest TF32, and what that leaves out",
        ),
        Gap(
            "add(smallA, bigB);",
            "add(bigA, bigB);",
            "// TODO: add the products of parts that matter, the least first",
        ),
        Gap(
            "acc[m][n][i] += part[m][n][i];",
            "acc[m][n][i] += part[m][n][i];",
            "{}  // TODO: add what tensor cores have added up to acc[m][n]",
        ),
    ),
    "17_tf32x3_hopper": (
        Gap(
            "const float big = __uint_as_float(",
            "return __uint_as_float(",
            "return number;  // TODO: what cutting it off to TF32 leaves out, rounded so that cutting off does it",
        ),
        Gap(
            "fence_proxy();                         //",
            "if (lane == 0) ready[stage].arrive();",
            "if (lane == 0) ready[stage].arrive();  // TODO: when are the small parts there, and for whom?",
        ),
        Gap(
            "multiply(part, small[k], describe(",
            "multiply(part, big[k], describe(&smallAs",
            "multiply(part, small[k], describe(&As[stage][k * 8], 16, atom), k > 0);  // TODO: the other one",
        ),
        Gap(
            "for (int i = 0; i < BM / 2; ++i) acc[i] += part[i];",
            "for (int i = 0; i < BM / 2; ++i) acc[i] += part[i];",
            "for (int i = 0; i < BM / 2; ++i) {}  // TODO: add what tensor cores have added up to acc[i]",
        ),
    ),
    "18_hopper_wgmma": (
        Gap(
            "full[stage].arrive_and_expect(",
            "(1 << CLUSTER) - 1);",
            "// TODO: say how many bytes are to come, and start to copy a tile of A and the boxes of a tile of B",
        ),
        Gap(
            "full[stage].wait(step",
            "order_registers();",
            "// TODO: wait for the tiles, and order what was done to registers",
        ),
        Gap(
            "multiply<T>(acc, describe(&As",
            "describe(&Bs[stage][k * row]",
            "// TODO: from column k of A on, and row k of each box of B, and how far apart atoms lie\n"
            "multiply<T>(acc, describe(As[stage], 16, atom), describe(Bs[stage], 16, atom));",
        ),
        Gap(
            "if (tile > 0) let_go(step - 1);",
            "if (tile > 0) let_go(step - 1);",
            "// TODO: let go of the stage that nobody reads any more",
        ),
        Gap(
            "const float got =",
            "sums[2 + j] =",
            "// TODO: give one of the pairs to the lane beside, and get the other's neighbours from it\n"
            "sums[j] = left, sums[2 + j] = right;",
        ),
    ),
}
"""What is the reader's in each rung."""


def skeleton(kernel: Kernel | str, gaps: Sequence[Gap] | None = None) -> str:
    """Return the source of a rung, whose parameters are defaults now, with gaps for the reader to fill.

    Where the launch always adds as much shared memory, there is a parameter SHARED_BYTES, so that a file says so too.

    Parameters
    ----------
    kernel : Kernel or str
    gaps : sequence of Gap, optional
        Others than the rung's own; none for its solution.

    Raises
    ------
    ArgumentError
        There is no skeleton of the kernel, its file cannot be read, or has no lines such as a gap names.
    """
    kernel = find(kernel)
    if kernel.name not in GAPS:
        raise ArgumentError("rung", kernel.name, f"one with a skeleton: {', '.join(GAPS)}")
    fixed = kernel.dynamic_shared_bytes and not kernel.family.chooses
    shared = {"SHARED_BYTES": kernel.dynamic_shared_bytes} if fixed else {}
    lines, at = with_defaults(kernel.source, kernel.parameters | shared).splitlines(), 0
    for gap in GAPS[kernel.name] if gaps is None else gaps:
        first = _holding(lines, gap.first, at, kernel)
        last = _holding(lines, gap.last, first, kernel)
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        put = [indent + line for line in gap.put.splitlines()]
        lines[first : last + 1] = put
        at = first + len(put)
    return "\n".join(lines) + "\n"


def _holding(lines: Sequence[str], text: str, start: int, kernel: Kernel) -> int:
    """Return the index of the next line that holds a text."""
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    raise ArgumentError("rung", f"{kernel.path.name} without a line {text!r}", "the file as it was, for its skeleton")
