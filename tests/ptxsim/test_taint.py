"""A value shuffled from a lane that takes no part may exist, and may be neither stored nor relied on."""

import numpy as np
import pytest

from .cuda import fault, launch

BEGIN = "int t = threadIdx.x;\n"
SUMS = "for (int d = {}; d; d /= 2)\n x += __shfl_down_sync({}, x, d);  // shuffle\n"
HALF = f"if (t >= 16) return;\nint x = t;\n{SUMS.format(8, '0xffff')}"
"""Sixteen lanes add up their numbers, so that the upper eight read lanes which take no part."""

PREDICATES = 'int y;\nasm("{{.reg .pred p, q; {} p, q, p; selp.s32 %0, 1, 2, p;}}" : "=r"(y) : "r"(x), "r"(t));\n'
GUARDED = (
    'asm volatile("{{.reg .pred p; setp.gt.s32 p, {}, 3; @p st.global.u32 [%0], {};}}" :: "l"(a + t), "r"(x), "r"(t));'
)


def kernel(body):
    return f"__global__ void k(int* a, int n) {{\n{BEGIN}{body}\n}}"


def lines(source, *marks):
    return [number for mark in marks for number, text in enumerate(source.splitlines(), 1) if mark in text]


def test_a_bounds_check_before_a_whole_warps_sum():
    """The last block has too few threads: of its warp, lanes from 8 on have left."""
    source = kernel(
        "int i = blockIdx.x * blockDim.x + t;\nif (i >= n) return;\nint x = a[i];\n"
        f"{SUMS.format(16, '~0u')}if (t % 32 == 0) a[i] = x;  // store"
    )
    a = np.ones(104, np.int32)
    launch(source, 3, 32, a=a, n=96)
    assert a[:96:32].tolist() == [32] * 3 and (a[1:32] == 1).all()
    found = fault(source, 4, 32, a=np.ones(104, np.int32), n=104)
    shuffle, store = lines(source, "// shuffle", "// store")
    assert (found.kind, found.line, found.block, found.thread) == ("shuffle", store, 3, 0)
    assert found.detail == (
        f"stores what depends on what line {shuffle} shuffled from lane 8, which takes no part in it: "
        "PTX leaves that value undefined"
    )


FINE = {
    "only the sum is stored": (f"{HALF}if (t == 0) a[0] = x;", [120]),
    "loaded anew": (f"{HALF}if (t == 0) a[0] = x;\nx = a[t + n];\na[t + 1] = x;", [120, *[7] * 16]),
    "selected": (
        "if (t < 8 || t >= 16) return;\nint x = t, y;\n"
        "for (int d = 1; d < 8; d *= 2) { y = __shfl_up_sync(0xff00, x, d); x = t - 8 >= d ? x + y : x; }\n"
        "a[t - 8] = x;",
        np.cumsum(np.arange(8, 16)).tolist(),
    ),
    "a condition that is false anyhow": (
        f"{HALF}{PREDICATES.format('setp.gt.s32 p, %1, 9; setp.lt.s32 q, %2, 1; and.pred')}a[t] = y;",
        [1, *[2] * 15],
    ),
    "a condition that is true anyhow": (
        f"{HALF}{PREDICATES.format('setp.lt.s32 p, %1, 9; setp.gt.s32 q, %2, 0; or.pred')}a[t] = y;",
        [2, *[1] * 15],
    ),
    "masked away": (
        f'{HALF}asm("and.b32 %0, %0, %1;" : "+r"(x) : "r"(t < 1 ? -1 : 0));\na[t + 1] = x;',
        [7, 120, *[0] * 15],
    ),
    "not done": (
        f'{HALF}int y = 5;\nasm("{{.reg .pred p; setp.lt.s32 p, %2, 1; @p add.s32 %0, %0, %1;}}"'
        ' : "+r"(y) : "r"(x), "r"(t));\na[t] = y;',
        [125, *[5] * 15],
    ),
    "its own copy": (
        f"{HALF}int y[2] = {{0, 0}}, *p = n > 9 ? y + n % 2 : a + 40;\n*p = x;\nif (t == 0) a[0] = y[n / 9];",
        [120],
    ),
}


@pytest.mark.parametrize("body, begins", FINE.values(), ids=FINE)
def test_what_nobody_uses_is_no_fault(body, begins):
    a = np.full(64, 7, np.int32)
    launch(kernel(body), 2, 32, a=a, n=17)
    assert a[: len(begins)].tolist() == begins


WRONG = {
    "stored": ("a[t] = x;", "stores"),
    "stored to shared memory": ("__shared__ int s[16];\ns[t] = x;\na[t] = s[0];", "stores"),
    "wide": ("((longlong2*)a)[t / 4] = {1, x};", "stores"),
    "added": ("atomicAdd(a, x);", "stores"),
    "exchanged": ("a[t] = atomicExch(a, x);", "stores"),
    "an address": ("a[t] = a[x & 31];", "uses as an address"),
    "an address to store to": ("a[x & 31] = 1;", "uses as an address"),
    "a branch": ("if (x > 3)\n#pragma unroll 1\nfor (int i = 0; i < n; i += 2) atomicAdd(a, i);", "branches on"),
    "a store or none": (GUARDED.format("%1", "%2"), "branches on"),
    "arithmetic": ("a[t] = __float_as_int(sqrtf(float(x)) * 3.f);", "stores"),
    "false by two": (
        f"{PREDICATES.format('setp.eq.s32 p, %1, -9; setp.eq.s32 q, %1, -8; and.pred')}a[t] = y;",
        "stores",
    ),
    "matched": ("int y;\n__match_all_sync(0xffff, x, &y);\na[t] = y;", "stores"),
    "selected by it": ("a[t] = x > 3 ? 5 : t;", "stores"),
    "done by it": (
        'int y = 5;\nasm("{.reg .pred p; setp.gt.s32 p, %1, 999; @p add.s32 %0, %0, 1;}" : "+r"(y) : "r"(x));\n'
        "a[t] = y;",
        "stores",
    ),
    "a wide number": ("((double*)a)[t] = __longlong_as_double((long long)x << 32 | t);", "stores"),
    "a sum of products": ("float y = x;\ny = fmaf(y, y, fmaf(y, 2.f, 1.f));\na[t] = __float_as_int(y);", "stores"),
    "handed on": ("x = __shfl_xor_sync(0xffff, x, 15);\nif (t == 3) a[t] = x;", "stores"),
    "asked for by it": ("x = __shfl_sync(0xffff, t, x & 7);\na[t] = x;", "stores"),
    "voted on": ("if (__any_sync(0xffff, x == 3)) a[t] = 1;", "branches on"),
    "counted": ("a[t] = __syncthreads_count(x == 3);", "brings to a barrier"),
    "in a reduction": ("a[t] = __reduce_add_sync(0xffff, x);", "stores"),
}


@pytest.mark.parametrize("uses, does", WRONG.values(), ids=WRONG)
def test_what_somebody_uses_is_a_fault(uses, does):
    source = kernel(f"{HALF}{uses}")
    found = fault(source, 2, 32, a=np.zeros(64, np.int32), n=17)
    assert found.kind == "shuffle" and found.detail.startswith(f"{does} what depends on what line "), found
    assert found.line > lines(source, "// shuffle")[0] and found.block == 0
    assert f"line {lines(source, '// shuffle')[0]} shuffled from lane 16" in found.detail


def test_lanes_that_are_not_there_or_not_named():
    source = kernel("int x = __shfl_down_sync(~0u, t, 1);\na[t] = x;")
    found = fault(source, 1, 40, a=np.zeros(64, np.int32), n=0)
    assert (found.kind, found.thread) == ("shuffle", 39) and "from lane 8, which takes no part" in found.detail
    source = kernel("unsigned mask = t < 4 ? 15 : 0xfffffff0;\nint x = __shfl_down_sync(mask, t, 1);\na[t] = x;")
    found = fault(source, 1, 32, a=np.zeros(64, np.int32), n=0)
    assert (found.kind, found.thread) == ("shuffle", 3) and "from lane 4, which takes no part" in found.detail


def test_some_lanes_store():
    found = fault(kernel(HALF + GUARDED.format("%2", "%1")), 1, 32, a=np.zeros(64, np.int32), n=0)
    assert (found.kind, found.thread) == ("shuffle", 4) and found.detail.startswith("stores")
