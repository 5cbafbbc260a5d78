"""The kernels with other template arguments, or with another line here and there, that chapters compare.

Timed at 4096, like the rungs themselves, but for those in `UNTIMED`; those in `COUNTED` are also counted with Nsight
Compute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.families import hopper
from sgemm_tutorial.hardware import KIB
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Family

_ROWS = ("BM", "BN", "BK", "TM", "TN", "BLOCKS")
_WARPS = ("BM", "BN", "BK", "WM", "WN", "TM", "TN", "BLOCKS")
_STAGES = ("BM", "BN", "BK", "WM", "WN", "TM", "TN", "STAGES", "BLOCKS")


def _with(kernel: str, names: tuple[str, ...], *instances: tuple[int, ...]) -> list[Kernel]:
    """Return one variant of a kernel per tuple of template arguments."""
    return [find(kernel).variant(**dict(zip(names, values, strict=True))) for values in instances]


UNGUARDED = (
    ("        if (inside && depth >= BK) fetch(true); ", "        fetch(true);"),
    ("        else fetch(false);\n", ""),
    ("rows, cols, inside);", "rows, cols, true);"),
)
"""Takes the guards out of 07 and 08, which is right only where every tile is whole."""

TRANSPOSED = (
    ("float As[BM][BK];", "float As[BK][BM];"),
    ("As[rowA + i][colA] =", "As[colA][rowA + i] ="),
    ("As[tileRow + m][k]", "As[k][tileRow + m]"),
)
"""Transposes the tile of A in 06, and changes nothing else."""

UNROLLED = (("#pragma unroll 4  ", "#pragma unroll  "),)
"""Unrolls the loop over k of 06 completely."""

THREE_BLOCKS = (("__launch_bounds__(BM * BN / (TM * TN)", "__launch_bounds__(BM * BN / (TM * TN), 3"),)
"""Has the compiler keep 06 to registers of which an SM holds three blocks."""

NOT_TRANSPOSED = (
    ("As[BK][BM]; ", "As[BM][BK]; "),
    *((f"As[colA + {i}][rowA + i]", f"As[rowA + i][colA + {i}]") for i in range(4)),
    ("As[k][tileRow + m]", "As[tileRow + m][k]"),
)
"""Leaves the tile of A in 07 as it lies in A."""

UNSWIZZLED = (("return k / 4 * (128 / BK) % 32;", "return 0;"),)
"""Takes the swizzle out of 08 and later rungs."""

PADDED = (*UNSWIZZLED, ("As[BK][BM];", "As[BK][BM + 4];"))
"""Pads the rows of the tile of A in 08 with four words, instead of swizzling them."""

PADDED_BY_ONE = (*UNSWIZZLED, ("As[BK][BM];", "As[BK][BM + 1];"))
"""Pads them with one word, so that they no longer begin at multiples of 16 bytes."""

ROW_BY_ROW = (
    ("lane / 2 % 2 + lane / (2 * lanesN) * 2", "lane / lanesN"),
    ("lane % 2 + lane / 4 % (lanesN / 2) * 2", "lane % lanesN"),
)
"""Puts the lanes of 09 in rows instead of squares of 2 × 2."""

ONE_WAY = (("m % 2 ? TN - 1 - i : i", "i"),)
"""Lets the threads of 09 and later rungs walk every row of their tile from left to right."""

ROWS_APART = (
    (
        "rowA = threadIdx.x / (BK / 8),",
        "rowA8 = threadIdx.x / (BK / 8), rowA = rowA8 / 8 * 8 + rowA8 % 2 * 4 + rowA8 % 8 / 2,",
    ),
)
"""Lets eight neighbouring lanes copy two rows of A in 15 that are four apart, and so in different banks at BK = 32."""

VARIANTS: tuple[Kernel, ...] = (
    *_with("01", ("BM", "BN"), (32, 8), (32, 32), (128, 2), (16, 16)),
    *_with("02", ("BM", "BN"), (8, 32), (32, 32), (2, 128), (16, 16), (32, 8)),
    *_with("03", ("BM", "BN", "BK"), (32, 32, 32), (32, 32, 64), (32, 32, 128), (16, 16, 16), (8, 8, 8)),
    *_with(
        "04",
        ("BM", "BN", "BK", "TM"),
        (64, 64, 8, 8),
        (64, 64, 4, 16),
        (64, 64, 32, 4),
        (64, 64, 32, 8),
        (64, 64, 32, 16),
    ),
    *_with(
        "05",
        ("BM", "BN", "BK", "TM", "TN"),
        (64, 64, 8, 8, 8),
        (128, 128, 8, 8, 8),
        (64, 64, 32, 4, 4),
        (128, 128, 32, 8, 8),
        (128, 64, 32, 8, 4),
    ),
    *_with("06", ("BM", "BN", "BK", "TM", "TN"), (128, 64, 32, 8, 4), (128, 64, 16, 8, 4), (128, 128, 8, 8, 8)),
    *(
        kernel.edited(*TRANSPOSED, label="A transposed")
        for kernel in _with("06", ("BM", "BN", "BK", "TM", "TN"), (128, 64, 16, 8, 4), (128, 128, 8, 8, 8))
    ),
    *(
        kernel.edited(*change, label=label)
        for kernel in _with("06", ("BM", "BN", "BK", "TM", "TN"), (128, 64, 16, 8, 4))
        for change, label in ((UNROLLED, "unrolled completely"), (THREE_BLOCKS, "three blocks"))
    ),
    *_with("07", _ROWS, (128, 64, 16, 8, 4, 3), (128, 64, 16, 8, 4, 1), (128, 128, 8, 8, 8, 2), (64, 128, 32, 8, 8, 3)),
    *(
        kernel.edited(*NOT_TRANSPOSED, label="A not transposed")
        for kernel in _with("07", _ROWS, (128, 64, 16, 8, 4, 3), (128, 64, 16, 8, 4, 1), (128, 128, 8, 8, 8, 2))
    ),
    find("07").edited(*UNGUARDED, label="no guards"),
    find("08").edited(*UNGUARDED, label="no guards"),
    *_with(
        "08",
        _ROWS,
        (128, 64, 16, 8, 4, 3),
        (64, 128, 32, 8, 8, 3),
        (64, 128, 16, 8, 8, 3),
        (128, 128, 8, 8, 8, 2),
        (128, 128, 32, 8, 8, 2),
    ),
    *(
        kernel.edited(*change, label=label)
        for kernel in _with("08", _ROWS, (64, 128, 32, 8, 8, 3), (64, 128, 16, 8, 8, 3), (128, 128, 8, 8, 8, 2))
        for change, label in ((UNSWIZZLED, "not swizzled"), (PADDED, "padded by 4"), (PADDED_BY_ONE, "padded by 1"))
    ),
    *_with(
        "09",
        _WARPS,
        (128, 128, 32, 64, 32, 8, 8, 2),
        (128, 128, 32, 128, 16, 8, 8, 2),
        (128, 128, 16, 64, 32, 8, 8, 2),
        (128, 128, 8, 64, 32, 8, 8, 2),
        (128, 256, 8, 128, 32, 16, 8, 1),
    ),
    find("09").edited(*ROW_BY_ROW, label="lanes in rows"),
    find("09").edited(*ONE_WAY, label="one way"),
    find("09").edited(*ROW_BY_ROW, *ONE_WAY, label="lanes in rows, one way"),
    *_with(
        "10",
        _WARPS,
        (128, 256, 8, 128, 32, 16, 8, 1),
        (256, 128, 8, 128, 32, 16, 8, 1),
        (128, 256, 16, 128, 32, 16, 8, 1),
        (128, 128, 16, 64, 32, 8, 8, 2),
    ),
    find("10").edited(*ONE_WAY, label="one way"),
    *_with(
        "11",
        _STAGES,
        (128, 256, 8, 64, 64, 16, 8, 3, 1),
        (128, 256, 8, 64, 64, 16, 8, 2, 1),
        (128, 256, 8, 128, 32, 16, 8, 3, 1),
        (256, 128, 8, 64, 64, 16, 8, 3, 1),
        (128, 128, 16, 64, 32, 8, 8, 2, 2),
        (128, 128, 8, 64, 32, 8, 8, 2, 2),
        (128, 128, 8, 64, 32, 8, 8, 3, 2),
        (128, 128, 8, 64, 32, 8, 8, 4, 2),
    ),
    find("11").edited(*ONE_WAY, label="one way"),
)
"""All of them; each rung's own parameters too, for they are timed again beside the others."""

_STEPS: tuple[tuple[str, dict[str, int]], ...] = (
    ("base: rely on the L1 cache", {}),
    ("use shared memory", {"SHARED": 1}),
    ("read C last", {"C_LAST": 1}),
    ("SharedMemBlockK 32 -> 16", {"BK": 16}),
    ("float4 for global memory -> shared memory", {"FETCH": 4}),
    ("float4 for shared memory -> registers", {"READ": 4}),
    ("over-allocate shared memory", {"EXTRA": 15 * KIB}),
    ("remove the innermost i3 loop", {"UNROLL": 4}),
    ("compile with many registers", {"BLOCKS": 2}),
)


def _steps() -> Iterator[Kernel]:
    """Yield 13 after each of its steps, labelled with the step's name."""
    kernel = find("13")
    for label, change in _STEPS:
        kernel = dataclasses.replace(kernel.variant(**change), label=label)
        yield kernel


STEPS: tuple[Kernel, ...] = tuple(_steps())
"""The nine steps of 13, each with all those before it, labelled as in ``published-results.csv``.

With its `EXTRA` 15 KiB a block has 48 KiB of shared memory, and at four `UNROLL` passes of four k no innermost loop is
left. The limit of 128 registers that comes with four `BLOCKS` per SM goes with the last step.
"""

NOT_COUNTED = (
    (
        "for (int i = 0; i < BN; i += threads * FETCH) {  // as many passes for all: they can be unrolled\n"
        "                        const int col = threadIdx.x * FETCH + i;",
        "for (int col = threadIdx.x * FETCH; col < BN; col += threads * FETCH) {",
    ),
)
"""Lets the loop in which 13 fetches a row of B begin at a place of each thread's own, so that the compiler cannot tell
how many passes there are."""

STEPS_NOT_COUNTED: tuple[Kernel, ...] = tuple(
    step.edited(*NOT_COUNTED, label=f"{step.label}, passes not counted") for step in STEPS[1:]
)
"""The steps of 13 with tiles in shared memory, with that loop."""

STEP_IN_FP64 = dataclasses.replace(find("13").variant(T="double", BLOCKS=2), label="base in FP64")
"""The first step as its source first had it, a DGEMM; a double takes two registers."""

FRAGMENTS: tuple[Kernel, ...] = (
    *_with("14", ("BM", "BN"), (16, 16), (32, 32), (64, 64)),
    *_with(
        "15",
        ("BM", "BN", "BK", "WM", "WN", "STAGES", "BLOCKS"),
        (64, 64, 32, 32, 32, 0, 2),
        (64, 64, 16, 64, 64, 0, 1),
        (128, 128, 32, 64, 64, 0, 2),
        (128, 128, 32, 64, 64, 1, 2),
        (128, 128, 32, 64, 64, 2, 2),
        (128, 128, 32, 64, 64, 3, 2),
        (128, 128, 32, 64, 64, 4, 2),
        (128, 128, 32, 64, 32, 3, 2),
        (128, 128, 32, 32, 32, 3, 1),
        (128, 128, 64, 64, 64, 3, 2),
        (128, 256, 64, 64, 64, 3, 1),
    ),
    find("15").edited(*ROWS_APART, label="rows four apart"),
)
"""The kernels for tensor cores with other blocks, fragments per warp and stages; (64, 64, 16, 64, 64, 0) has the 4 × 4
fragments per warp, without shared memory, of source S5."""

ONE_ACCUMULATOR = (
    ("            float part[FM][FN][4] = {};                    // what tensor cores add up\n", ""),
    ("multiply(part[m", "multiply(acc[m"),
    (
        "            for (int m = 0; m < FM; ++m)\n"
        "                for (int n = 0; n < FN; ++n)\n"
        "                    for (int i = 0; i < 4; ++i) acc[m][n][i] += part[m][n][i];\n",
        "",
    ),
)
"""Lets tensor cores add up all of a sum in 17."""

ONE_ACCUMULATOR_ON_HOPPER = (
    ("            float part[BM / 2];                            // what tensor cores add up\n", ""),
    ("multiply(part, ", "multiply(acc, "),
    (", k > 0);", ");"),
    ("wait_for_products(part);", "wait_for_products(acc);"),
    (
        "            #pragma unroll\n            for (int i = 0; i < BM / 2; ++i) acc[i] += part[i];\n",
        "",
    ),
)
"""The same in 17's version for Hopper."""

COLUMNS_IN_ORDER = (("chunk = warp % 2 * 2 + group / 4 + group / 2 % 2 * 4;", "chunk = warp % 2 * 4 + group / 2;"),)
"""Gives each warp of 17's version for Hopper 16 columns side by side, whose lanes meet in banks."""

BIG_PARTS_ALONE = (
    ("                    add(smallA, bigB);                     // the small products first\n", ""),
    ("                    add(bigA, smallB);\n", ""),
)
"""Leaves out of 17 the products with small parts, so that it is TF32 as it comes."""


def padded(a: int, b: int) -> Kernel:
    """Return 15 with so many elements of padding to a row of its tiles of A and B."""
    kernel = find("15").edited(("BK + 8", f"BK + {a}"), ("BN + 8", f"BN + {b}"), label=f"padded by {a} and {b}")
    element = kernel.types.operand.itemsize

    def tiles(of: Mapping[str, Any]) -> int:
        return of["STAGES"] * (of["BM"] * (of["BK"] + a) + of["BK"] * (of["BN"] + b)) * element

    return dataclasses.replace(kernel, family=Family(tiles))


PADDED_TILES: tuple[Kernel, ...] = (find("15"), *(padded(*by) for by in ((8, 16), (16, 8), (16, 16), (24, 24))))
"""15 as it is, with eight elements of padding to each row, and with other paddings."""

_HOPPER_STEPS: tuple[tuple[str, dict[str, int]], ...] = (
    ("plain", {"THREADS": 256, "PERSISTENT": 0, "GROUP": 1, "CLUSTER": 1}),
    ("a fetcher", {"THREADS": 384}),
    ("persistent", {"PERSISTENT": 1}),
    ("in groups", {"GROUP": 12}),
    ("in clusters", {"CLUSTER": 2}),
)

IN_PAIRS = (
    ("lane % 2 * 8 + lane % 4 / 2 * 4;", "lane % 4 * 2;"),
    ("__shfl_xor_sync(~0u, odd ? left : right, 1)", "odd ? left : right"),
    (
        "if (aligned) *reinterpret_cast<float4*>(old) = *reinterpret_cast<const float4*>(c);\n"
        "        else for (int j = 0; j < 4; ++j) old[j] = c[j];",
        "for (int j = 0; j < 4; ++j)\n"
        "            if (j < 2 || tile.col + four / 2 * 16 + 8 < N) old[j] = c[j + j / 2 * 6];",
    ),
    (
        "if (aligned) *reinterpret_cast<float4*>(c) = {put[0], put[1], put[2], put[3]};\n"
        "        else for (int j = 0; j < 4; ++j) c[j] = put[j];",
        "for (int j = 0; j < 4; j += 2)\n            if (j < 2 || tile.col + four / 2 * 16 + 8 < N) {\n"
        "                if (aligned) *reinterpret_cast<float2*>(c + j * 4) = {put[j], put[j + 1]};\n"
        "                else for (int i = 0; i < 2; ++i) c[j * 4 + i] = put[j + i];\n            }",
    ),
)
"""Lets the lanes of 18 write two neighbours at a time, as they have them."""

AT_ONCE = (("        before = here;\n", "        before = here;\n        write_late(half, fours);\n"),)
"""Lets 18 write all sums of a tile before the next one's products begin."""


def _hopper_steps() -> Iterator[Kernel]:
    """Yield 18 after each of its steps, labelled with the step's name."""
    kernel = find("18")
    for label, change in _HOPPER_STEPS:
        kernel = dataclasses.replace(kernel.variant(**change), label=label)
        yield kernel


HOPPER_STEPS: tuple[Kernel, ...] = tuple(_hopper_steps())
"""The steps of 18 with its widest tile, each with all those before it."""

HOPPER_WIDTHS: tuple[Kernel, ...] = tuple(
    find("18").variant(BN=of.BN, WN=of.BN, STAGES=of.STAGES, CLUSTER=cluster)
    for of in hopper.WIDTHS[1:3]
    for cluster in (1, 2)
)
"""18 with narrower tiles, with and without clusters."""

HOPPER: tuple[Kernel, ...] = (
    find("18"),
    *HOPPER_STEPS,
    *HOPPER_WIDTHS,
    find("18").variant(STAGES=3),
    find("18").variant().edited(*IN_PAIRS, label="in pairs"),
    find("18").variant().edited(*AT_ONCE, label="all at once"),
)
"""18 as it chooses for itself, and all that its chapter compares with it."""

TENSOR: tuple[Kernel, ...] = (
    *PADDED_TILES,
    *_with(
        "16",
        ("BM", "BN", "BK", "STAGES", "BLOCKS"),
        (128, 256, 32, 4, 1),
        (128, 256, 32, 3, 1),
        (128, 256, 32, 6, 1),
        (256, 128, 32, 4, 1),
        (128, 256, 64, 3, 1),
        (128, 256, 64, 4, 1),
        (128, 128, 32, 4, 2),
    ),
    *_with("17", ("BK", "STAGES"), (32, 3), (32, 4), (64, 2)),
    *(kernel.edited(*ONE_ACCUMULATOR, label="one accumulator") for kernel in _with("17", ("STAGES",), (3,), (4,))),
    find("17_tf32x3_hopper"),
    *_with("17_tf32x3_hopper", ("STAGES", "CLUSTER"), (3, 1), (4, 2)),
    find("17_tf32x3_hopper").edited(*ONE_ACCUMULATOR_ON_HOPPER, label="one accumulator"),
    find("17_tf32x3_hopper").edited(*COLUMNS_IN_ORDER, label="columns in order"),
)
"""The kernels with ``mma.sync`` and ``wgmma`` with other tiles, and 15 with other paddings."""

IN_BF16: tuple[Kernel, ...] = tuple(find(rung).variant(T="__nv_bfloat16") for rung in ("14", "16", "18"))
"""The kernels that take BF16 as well, with it."""

FOUR_BY_FOUR = find("16").edited(
    ("if (beta != 0.0f)                                  // BLAS: beta = 0 never reads C\n", "if (false)\n"),
    ("if (beta != 0.0f) {\n", "if (beta != 0.0f) {\n                old[four] = load4(c, inside, fours);\n"),
    label="four by four",
)
"""16 as it would be if a lane waited for four places of C, and wrote them, before it asked for the next."""

EVERY: tuple[Kernel, ...] = (*VARIANTS, *STEPS, STEP_IN_FP64, *FRAGMENTS, *TENSOR, *HOPPER, *IN_BF16)
"""All that chapters time and compare, but for `STEPS_NOT_COUNTED`."""

COUNTED: tuple[Kernel, ...] = (
    *(
        kernel
        for kernel in VARIANTS
        if kernel.name in ("07_vectorized", "08_conflict_free", "09_warp_tile")
        and kernel.label != "no guards"
        and (kernel.label or kernel.parameters["BK"] == 8)
    ),
    find("15").variant(BK=64),
    FRAGMENTS[-1],
)
"""Those whose bank conflicts chapters explain, and whose copies."""


def find_variant(rung: str, label: str, **parameters: int) -> Kernel:
    """Return the rung's variant whose source is changed as `label` says, for example ``("08", "padded by 4")``.

    Parameters
    ----------
    rung : str
        As for `find`.
    label : str
    **parameters : int
        Template arguments; those of the rung itself unless given.

    Raises
    ------
    ArgumentError
        There is none.
    """
    kernel = find(rung).variant(**parameters)
    every = (*VARIANTS, *FRAGMENTS, *TENSOR)
    for variant in every:
        if (variant.name, variant.label, variant.parameters) == (kernel.name, label, kernel.parameters):
            return variant
    labels = {variant.label for variant in every if variant.name == kernel.name and variant.label}
    raise ArgumentError("label", f"{label!r} of {kernel.expression}", f"one of {', '.join(sorted(labels)) or 'none'}")


_BOUNDS = "__launch_bounds__(BM * BN / (TM * TN)"
_TILE = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
_WARP_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}


def _unrolled(kernel: Kernel, *often: int) -> Iterator[Kernel]:
    """Yield 05 or 06 with the loop over k unrolled so often."""
    for times in often:
        label = f"{kernel.label} unroll {times}".strip()
        yield kernel.edited(("#pragma unroll 4  ", f"#pragma unroll {times}  "), label=label)


def _capped(kernel: Kernel, *most: int) -> Iterator[Kernel]:
    """Yield 10 or 11 with at most so many registers per thread."""
    for cap in most:
        yield kernel.edited((f"{_BOUNDS}, BLOCKS)", f"__maxnreg__({cap})"), label=f"{cap} registers")


UNTIMED: tuple[Kernel, ...] = (
    *_unrolled(find("05"), 1, 2, 8, 32),
    find("05").variant(TM=4, TN=8),
    *_unrolled(find("06"), 1),
    *_unrolled(find("06").variant(**_TILE), 1, 2),
    *_unrolled(find_variant("06", "A transposed", **_TILE), 1, 2),
    *_with("06", ("BM", "BN", "TM", "TN"), (64, 64, 4, 4), (128, 128, 8, 8)),
    *(
        find(rung).edited(("__shared__ float", "__shared__ volatile float"), label="volatile tiles")
        for rung in ("05", "06")
    ),
    *(find("06").edited((_BOUNDS, f"{_BOUNDS}, {blocks}"), label=f"{blocks} blocks") for blocks in (2, 3, 4)),
    *(
        kernel.variant(BLOCKS=blocks)
        for of in ({}, _TILE | {"BLOCKS": 2})
        for kernel in (find("07").variant(**of), find_variant("07", "A not transposed", **of))
        for blocks in (1, 2, 3, 4)
    ),
    find("10").variant(BLOCKS=2),
    *_capped(find("10"), 200, 184),
    *_capped(find("10").variant(**_WARP_TILE), 136, 128, 120),
    *_capped(find("11"), 200, 184),
    *_capped(find("11").variant(**_WARP_TILE, STAGES=2), 136, 128, 120),
    *(find("12").variant(BM=128, BN=128, WM=64, WN=64, TM=16, TN=8, BLOCKS=blocks) for blocks in (2, 4)),
    STEPS[1].variant(BK=8),
    find("15").variant(WM=128, WN=64, BLOCKS=1),
    find("16").variant(BM=256, BN=256, STAGES=3),
    find("17").edited(
        (
            "big = (number + (1u << 12)) & ~0u << 13;",
            'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(big) : "f"(__uint_as_float(number)));',
        ),
        label="with cvt",
    ),
)
"""What chapters ask the compiler about besides, and no GPU."""
