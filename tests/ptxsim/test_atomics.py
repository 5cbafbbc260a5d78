"""Atomic operations on global and shared memory, against the same in a loop."""

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


def test_those_of_a_cluster_are_refused():
    source = """__global__ void k(int* a) {
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(a[0]) : "r"(a[1]));
}"""
    message = refused(source, 1, 1, a=np.zeros(2, np.int32))
    assert "does not know: atom.shared::cluster.add.u32" in message and "distributed shared memory" in message


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


def test_in_that_of_another_block_they_are_refused():
    message = refused(OWN.replace("WHERE", OF_RANK), 4, 64, a=np.zeros(4, np.int32), rank=1)
    assert "atom.add.u32" in message and "no atomics on distributed shared memory" in message


def test_video_instructions_are_refused_with_what_to_do():
    form = "vabsdiff4.s32.s32.s32.sat %0, %1, %2, %0;"
    source = f'__global__ void k(int* a) {{ asm("{form}" : "+r"(a[0]) : "r"(a[1]), "r"(a[2])); }}'
    message = refused(source, 1, 1, a=np.zeros(3, np.int32))
    assert "does not know: vabsdiff4" in message and "take the bytes apart with shifts" in message
