"""Atomic operations on global and shared memory, against the same in a loop."""

import re

import numpy as np
import pytest

from .cuda import fault, launch, refused

RANDOM = np.random.default_rng(0)
N, WORDS = 128, 5

CHANGES = {
    "atomicAdd": lambda old, x: old + x,
    "atomicSub": lambda old, x: old - x,
    "atomicMin": min,
    "atomicMax": max,
    "atomicAnd": lambda old, x: old & x,
    "atomicOr": lambda old, x: old | x,
    "atomicXor": lambda old, x: old ^ x,
    "atomicExch": lambda old, x: x,
    "atomicInc": lambda old, x: 0 if old >= x else old + 1,
    "atomicDec": lambda old, x: x if old == 0 or old > x else old - 1,
}
CASES = [
    *((f"atomic{of}", "unsigned") for of in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "Inc", "Dec")),
    *((f"atomic{of}", "int") for of in ("Add", "Min", "Max", "Exch")),
    *((f"atomic{of}", "unsigned long long") for of in ("Add", "Min", "Max", "And", "Exch")),
    *((f"atomic{of}", "float") for of in ("Add", "Exch")),
    ("atomicMax", "long long"),
    ("atomicAdd", "double"),
]
DTYPES = {"unsigned": np.uint32, "int": np.int32, "unsigned long long": np.uint64, "long long": np.int64}
DTYPES |= {"float": np.float32, "double": np.float64}

SOURCE = """__global__ void k(T* words, const T* x, T* found, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    GLOBAL
}"""
SHARED = """__shared__ T here[8];
    if (threadIdx.x < n) here[threadIdx.x] = words[threadIdx.x];
    __syncthreads();
    found[t] = NAME(here + t % n, x[t]);
    __syncthreads();
    if (threadIdx.x < n) words[threadIdx.x] = here[threadIdx.x];"""


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_one_after_the_other(name, kind, space):
    body = SHARED if space == "shared" else "found[t] = NAME(words + t % n, x[t]);"
    source = SOURCE.replace("GLOBAL", body).replace("NAME", name).replace("T*", f"{kind}*").replace(" T ", f" {kind} ")
    dtype = np.dtype(DTYPES[kind])
    if dtype.kind == "f":
        words, x = RANDOM.standard_normal(WORDS).astype(dtype), RANDOM.standard_normal(N).astype(dtype)
    else:
        words, x = (RANDOM.integers(0, 50, n).astype(dtype) for n in (WORDS, N))
    found, expected = np.zeros(N, dtype), words.copy()
    blocks = 1 if space == "shared" else 2
    launch(source, blocks, N // blocks, words=words, x=x, found=found, n=np.int32(WORDS))
    with np.errstate(all="ignore"):
        for t in range(N):
            assert found[t] == expected[t % WORDS]
            expected[t % WORDS] = CHANGES[name](expected[t % WORDS], x[t])
    assert np.array_equal(words, expected)


def test_without_the_old_value():
    source = """__global__ void k(float* a, int* b, unsigned short* h) {
    __shared__ int s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(a + threadIdx.x % 2, 0.5f);
    atomicAdd(s, 3);
    atomicMax(b, threadIdx.x);
    atomicAdd_block(b + 1, 1);
    __syncthreads();
    b[2] = s[0];
    atomicCAS(h + threadIdx.x % 2, (unsigned short)(threadIdx.x % 2), (unsigned short)7);
}"""
    a, b, h = np.zeros(2, np.float32), np.zeros(3, np.int32), np.array([0, 1, 2, 3], np.uint16)
    run = launch(source, 1, 64, a=a, b=b, h=h)
    assert a.tolist() == [16, 16] and b.tolist() == [63, 64, 192] and h.tolist() == [7, 7, 2, 3]
    assert run.total.by_class["atomic"] == 2 * 5


def test_generic_addresses():
    source = """__device__ __noinline__ int count(int* of) { return atomicAdd(of, 1); }
__global__ void k(int* a) {
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    count(threadIdx.x % 4 ? a : &s);
    __syncthreads();
    if (threadIdx.x == 0) a[1] = s;
}"""
    a = np.zeros(2, np.int32)
    launch(source, 2, 32, a=a)
    assert a.tolist() == [48, 8]


def test_subnormals_count_in_shared_memory_only():
    """PTX: additions of floats to global memory flush subnormal numbers."""
    source = """__global__ void k(float* a, float x) {
    __shared__ float s;
    s = 0;
    atomicAdd(&s, x);
    atomicAdd(a + 1, x);
    a[0] = s;
}"""
    a = np.zeros(2, np.float32)
    launch(source, 1, 1, a=a, x=np.float32(1e-40))
    assert a.tolist() == [np.float32(1e-40), 0]


def test_halves():
    source = """#include <cuda_fp16.h>
__global__ void k(half2* a, half* b) { atomicAdd(a, __floats2half2_rn(1, 0.5f)); atomicAdd(b, __float2half(0.25f)); }"""
    a, b = np.zeros(2, np.float16), np.zeros(1, np.float16)
    launch(source, 1, 32, a=a, b=b)
    assert a.tolist() == [32, 16] and b.tolist() == [8]


def test_what_is_wrong():
    source = "__global__ void k(int* a, int n) { atomicAdd(a + n, 1); }"
    for n, kind in ((4, "out of bounds"), (0, "uninitialised")):
        assert fault(source, 1, 1, a=np.zeros(4, np.int32), n=np.int32(n), _fresh=["a"]).kind == kind
    source = "__global__ void k(int* a) { atomicAdd((int*)((char*)a + 2), 1); }"
    assert fault(source, 1, 1, a=np.zeros(4, np.int32)).kind == "misaligned"
    source = "__global__ void k(int* a) { __shared__ int s; atomicAdd(&s, 1); a[0] = s; }"
    assert fault(source, 1, 1, a=np.zeros(4, np.int32)).kind == "uninitialised"


@pytest.mark.parametrize(
    ("first", "second"),
    [("atomicAdd(&s, 1)", "a[1] = s"), ("s = 3", "atomicAdd(&s, 1)"), ("atomicAdd(&s, 1)", "s = 4")],
)
def test_atomics_in_shared_memory_race_with_other_accesses(first, second):
    source = f"""__global__ void k(int* a) {{
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    if (threadIdx.x < 32 && threadIdx.x % a[0] == 0) {first};
    if (threadIdx.x == 64) {second};
    BARRIER
    if (threadIdx.x == 33) a[2] = s;
}}"""
    a = np.full(3, 32, np.int32)
    found = fault(source.replace("BARRIER", "__syncthreads();"), 1, 96, a=a)
    assert found.kind == "race" and "in line" in str(found)
    fixed = source.replace("if (threadIdx.x == 64)", "__syncthreads();\nif (threadIdx.x == 64)")
    launch(fixed.replace("BARRIER", "__syncthreads();"), 1, 96, a=a)


OWN = """#include <cooperative_groups.h>
__global__ void __cluster_dims__(2) k(int* a, int rank) {
    __shared__ int s;
    auto cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0) s = blockIdx.x;
    cluster.sync();
    atomicAdd(WHERE, 1);
    cluster.sync();
    if (threadIdx.x == 0) a[blockIdx.x] = s;
}"""
OF_RANK = "cluster.map_shared_rank(&s, rank < 0 ? cluster.block_rank() : rank)"


@pytest.mark.parametrize("where", ["&s", OF_RANK])
def test_in_the_own_shared_memory_of_each_block_of_a_cluster(where):
    a = np.zeros(4, np.int32)
    launch(OWN.replace("WHERE", where), 4, 64, a=a, rank=-1)
    assert a.tolist() == [64, 65, 66, 67]


def test_in_that_of_another_block_of_a_cluster():
    a = np.zeros(4, np.int32)
    launch(OWN.replace("WHERE", OF_RANK), 4, 64, a=a, rank=1)
    assert a.tolist() == [0, 1 + 128, 2, 3 + 128]


def test_in_shared_memory_of_a_cluster_by_its_address_there():
    add = """int x; unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(&s)));
    asm volatile("atom.relaxed.cluster.shared::cluster.max.s32 %0, [%1], %2;" : "=r"(x) : "r"(there), "r"(rank + t))"""
    source = OWN.replace("atomicAdd(WHERE, 1)", add.replace("rank + t", "rank + 100 * blockIdx.x + threadIdx.x"))
    a = np.zeros(4, np.int32)
    launch(source, 4, 64, a=a, rank=-300)
    assert a.tolist() == [0, 1, 2, 63]


MIXED = """if (FIRST) s += 1;
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(&s, 1), 1);
    atomicAdd(&s, 1);
    BETWEEN
    if (blockIdx.x == rank && threadIdx.x == 32) *cluster.map_shared_rank(&s, 1) += 5"""


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("cluster.sync();\n    atomicAdd(c", "atomicAdd(c"),
        ("s += 1;\n    cluster.sync();", "*cluster.map_shared_rank(&s, 1) = 1;"),
        ("BETWEEN", ""),
        ("atomicAdd(c", "if (blockIdx.x == 0) atomicAdd_block(c"),
        ("atomicAdd(&s", "atomicAdd_block(&s"),
        ("atomicAdd(c", "atomicAdd_block(&s, 0);\n    atomicAdd(c"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_only_a_barrier_of_the_cluster_orders_them_and_other_accesses(rank, text, other):
    """Those of both blocks to one word may meet, unless their scope is the block."""
    source = OWN.replace("atomicAdd(WHERE, 1)", MIXED).replace("FIRST", "threadIdx.x == 0 && blockIdx.x == 1 - rank")
    a = np.zeros(2, np.int32)
    launch(source.replace("BETWEEN", "cluster.sync();"), 2, 64, a=a, rank=rank)
    assert a.tolist() == [64 + rank, 1 + 128 + 64 + 5 + (1 - rank)]
    wrong = source.replace(text, other).replace("BETWEEN", "cluster.sync();")
    found = fault(wrong, 2, 64, a=a, rank=rank)
    assert found.kind == "race" and re.search("(reads|writes) s( of block 1 of the cluster)? at byte 0", str(found))


@pytest.mark.parametrize("where", ["s", "cluster.map_shared_rank(s, 0)"])
def test_beside_the_copy_engine(where):
    """A tile that the copy engine brings is added up in shared memory, here or in the cluster's first block."""
    source = """#include <cooperative_groups.h>
__global__ void __cluster_dims__(2) k(int* out, const int* in) {
    __shared__ __align__(16) int s[1], tile[64];
    __shared__ unsigned long long bar;
    auto cluster = cooperative_groups::this_cluster();
    unsigned b = __cvta_generic_to_shared(&bar), to = __cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        s[0] = 0;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    cluster.sync();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(b));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(to), "l"(in + 64 * blockIdx.x), "r"(b) : "memory");
    }
    asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;}" :: "r"(b));
    atomicAdd(WHERE, tile[threadIdx.x]);
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}"""
    out, numbers = np.zeros(2, np.int32), np.arange(128, dtype=np.int32)
    launch(source.replace("WHERE", where), 2, 64, out=out, **{"in": numbers})
    sums = numbers.reshape(2, 64).sum(axis=1)
    assert out.tolist() == (sums.tolist() if where == "s" else [sums.sum(), 0])


TILES = """__global__ void k(int* out, const int* in) {
    __shared__ __align__(16) int tile[32], s[32], count;
    __shared__ unsigned long long stored, copied;
    unsigned mine = __cvta_generic_to_shared(&stored), its = __cvta_generic_to_shared(&copied);
    unsigned to = __cvta_generic_to_shared(tile);
    const int t = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        count = 0;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(mine));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(its));
        asm volatile("fence.proxy.async.shared::cta;");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(its));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     :: "r"(to), "l"(in), "r"(its) : "memory");
    }
    if (threadIdx.x < 32) {
        s[t] = t;
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(mine) : "memory");
    } else {
        WAIT
        atomicAdd(&count, 1);
        out[t] = s[31 - t];
        asm volatile("{.reg .pred p; I: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra I;}" :: "r"(its));
        out[t] += 100 * tile[t];
    }
}"""
WAIT = (
    'asm volatile("{.reg .pred p; M: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra M;}" :: "r"(mine));'
)


def test_what_mbarriers_ordered_before_the_first_of_them_stays_in_order():
    out, numbers = np.zeros(32, np.int32), np.arange(32, dtype=np.int32)
    launch(TILES.replace("WAIT", WAIT), 1, 64, out=out, **{"in": numbers})
    assert np.array_equal(out, 31 - numbers + 100 * numbers)
    found = fault(TILES.replace("WAIT", ""), 1, 64, out=out, **{"in": numbers})
    assert found.kind in ("race", "uninitialised") and "s at byte" in str(found)


@pytest.mark.parametrize(("vector", "of"), [("float2", 2), ("float4", 4)])
@pytest.mark.parametrize("old", ["", "f[threadIdx.x] = "])
def test_vectors(old, vector, of):
    """Each element changes on its own, here in the order of the threads."""
    source = f"""__global__ void k({vector}* a, {vector}* f, const {vector}* x) {{
    {old}atomicAdd(a + threadIdx.x % 2, x[threadIdx.x]);
}}"""
    a, found, x = np.ones(2 * of, np.float32), np.zeros((32, of), np.float32), np.arange(32 * of, dtype=np.float32)
    launch(source, 1, 32, a=a, f=found, x=x)
    sums = np.cumsum(x.reshape(-1, 2 * of), axis=0, dtype=np.float32) + 1
    assert np.array_equal(a, sums[-1])
    if old:
        assert np.array_equal(found.reshape(-1, 2 * of)[1:], sums[:-1])
    one = np.ones(4 * of, np.float32)[1 : 1 + 2 * of]
    assert fault(source, 1, 32, a=one, f=found, x=x).kind == "misaligned"
    assert fault(source, 1, 32, a=a[:of].copy(), f=found, x=x).kind == "out of bounds"


def test_vectors_of_halves():
    add = 'asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %1, %1, %2};" :: "l"(a), "r"(a[8]), "r"(a[9]))'
    a = np.array([1, 2, 3, 4, 5, 6, 7, 8, *[0] * 8, 0.5, 2, 1, 0.25], np.float16)
    launch(f"__global__ void k(unsigned* a) {{ {add}; }}", 1, 4, a=a)
    assert a[:8].tolist() == [3, 10, 5, 12, 7, 14, 11, 9]


def test_video_instructions_are_refused_with_what_to_do():
    form = "vabsdiff4.s32.s32.s32.sat %0, %1, %2, %0;"
    source = f'__global__ void k(int* a) {{ asm("{form}" : "+r"(a[0]) : "r"(a[1]), "r"(a[2])); }}'
    message = refused(source, 1, 1, a=np.zeros(3, np.int32))
    assert "does not know: vabsdiff4" in message and "take the bytes apart with shifts" in message
