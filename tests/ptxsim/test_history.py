"""Races in global memory, fences and their scopes, and what only other orders of execution show."""

import numpy as np
import pytest

from .cuda import fault, launch

pytestmark = pytest.mark.slow


def arrays(**sizes):
    return {name: np.zeros(size, np.int32) for name, size in sizes.items()}


LAST = """__global__ void k(int* parts, int* count, int* sum) {
    __shared__ bool last;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    FENCE
    __syncthreads();
    if (threadIdx.x == 0) { BEFORE last = COUNT == gridDim.x - 1; AFTER }
    __syncthreads();
    if (last)
        for (int i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) atomicAdd(sum, parts[i]);
}"""
PLAIN = {"FENCE": "", "BEFORE": "", "AFTER": "", "COUNT": "atomicAdd(count, 1)"}
ACQUIRE = "__nv_atomic_fetch_add(count, 1, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE)"
RELEASE = "__nv_atomic_fetch_add(count, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE)"
ORDERED = {
    "fences of one thread": {"BEFORE": "__threadfence();", "AFTER": "__threadfence();"},
    "fences of all": {"FENCE": "__threadfence();", "AFTER": "__threadfence();"},
    "acquire and release": {"COUNT": ACQUIRE},
    "release and fence": {"COUNT": RELEASE, "AFTER": "__threadfence();"},
}
UNORDERED = {
    "no fence": {},
    "no fence before": {"AFTER": "__threadfence();"},
    "no fence after": {"BEFORE": "__threadfence();"},
    "fences for the block": {"BEFORE": "__threadfence_block();", "AFTER": "__threadfence();"},
    "acquired for the block": {"BEFORE": "__threadfence();", "AFTER": "__threadfence_block();"},
    "only released": {"COUNT": RELEASE},
    "ordered for the block": {"COUNT": ACQUIRE.replace("DEVICE", "BLOCK")},
    "counted for the block": {"BEFORE": "__threadfence();", "AFTER": "__threadfence();",
                              "COUNT": "atomicAdd_block(count, 1)"},
}  # fmt: skip


def the_last(words):
    source = LAST
    for name, text in (PLAIN | words).items():
        source = source.replace(name, text)
    return source


@pytest.mark.parametrize("words", ORDERED.values(), ids=ORDERED)
def test_the_last_block_may_read_what_is_ordered(words):
    given = arrays(parts=320, count=1, sum=1)
    assert not launch(the_last(words), 5, 64, **given, _orders=6).findings
    assert given["sum"][0] == 5 * 63 * 32


@pytest.mark.parametrize("words", UNORDERED.values(), ids=UNORDERED)
def test_the_last_block_may_not_read_what_is_not(words):
    given = arrays(parts=320, count=1, sum=1)
    launch(the_last(words), 5, 64, **given)  # the usual order has the right result
    assert given["sum"][0] == 5 * 63 * 32
    found = fault(the_last(words), 5, 64, **arrays(parts=320, count=1, sum=1), _orders=1)
    if words in (UNORDERED["ordered for the block"], UNORDERED["counted for the block"]):
        assert (found.kind, found.line) == ("race", 6)
        assert "count at byte 0" in str(found) and "in a scope that does not include both threads" in str(found)
        return
    assert found.kind == "race" and found.line == 9
    assert "reads parts at byte 4, which thread 1 of block 0 wrote in line 3, unordered: " in str(found)
    heard = words in (UNORDERED["no fence after"], UNORDERED["acquired for the block"], UNORDERED["only released"])
    assert ("no fence with both threads in its scope follows the read" in str(found)) == heard
    assert ("a release or fence before a signal and an acquire" in str(found)) != heard


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a[0] = t;", "writes a at byte 0 just when thread 95 of block 1 writes something else there in line 3"),
        ("if (b == 1) a[0] = 7; else if (b == 0) a[1] = a[0];", "which thread 95 of block 0 read in line 3"),
        ("a[b] = t / 32 + a[b];", "which thread 95 of block 0 read in line 3"),
        ("if (b == 0 && t < 32) { a[t ^ 1] = 7; a[t] = 8; }", "writes a at byte 0, which thread 1 of block 0 wrote"),
        ("if (t == 0 && b == 1) atomicAdd(a, 1); if (b == 0 && t == 0) a[0] = 4;", "block 1 wrote in line 3"),
        ("char* c = (char*)a; if (t == 32) c[b] = 1; if (t == 64) c[b] = 2;", "which thread 32 of block"),
    ],
)
def test_races_in_global_memory(body, message):
    source = f"""__global__ void k(volatile int* keep, int* a) {{
    int t = threadIdx.x, b = blockIdx.x;
    {body}
}}"""
    found = fault(source, 2, 96, **arrays(keep=1, a=64), _orders=1)
    assert found.kind == "race" and found.line == 3 and message in str(found)


@pytest.mark.parametrize(
    "body",
    [
        "a[b * 96 + t] = t; __syncthreads(); a[200 + b * 96 + t] = a[b * 96 + 95 - t];",
        "a[0] = 3;",  # all write the same
        "((char*)a)[b * 96 + t] = t;",
        "atomicAdd(a, t);",
        "if (t < 32) { a[b * 32 + t] = t; __syncwarp(); a[200 + b * 32 + t] = a[b * 32 + 31 - t]; }",
    ],
)
def test_no_races(body):
    source = f"__global__ void k(int* a) {{ int t = threadIdx.x, b = blockIdx.x; {body} }}"
    launch(source, 2, 96, **arrays(a=400), _orders=6)


@pytest.mark.parametrize("scope", ["block", "cluster", "device"])
def test_atomic_operations_meet_in_a_scope_with_both_threads(scope):
    """Two blocks of one cluster, or of two: those whose scope is too small for them race."""
    source = """__global__ void __cluster_dims__(2) k(int* one, int* other) {
    __nv_atomic_fetch_add(blockIdx.x < 2 ? one : other, 1, __NV_ATOMIC_RELAXED, SCOPE);
    if (blockIdx.x == LAST) __nv_atomic_fetch_add(one, 1, __NV_ATOMIC_RELAXED, SCOPE);
}""".replace("SCOPE", f"__NV_THREAD_SCOPE_{scope.upper()}")
    for last, enough in ((0, ("cluster", "device")), (2, ("device",))):
        text, given = source.replace("LAST", str(last)), arrays(one=1, other=1)
        if scope in enough:
            assert not launch(text, 4, 32, **given, _orders=2).findings and given["one"][0] == 96
        else:
            found = fault(text, 4, 32, **given, _orders=2)
            assert found.kind == "race" and "a scope that does not include both threads" in str(found)


def test_a_fault_that_another_order_shows():
    """The second warp reads what the first one may not have written yet: no barrier, but a wait that is too short."""
    source = """__global__ void k(int* flag, int* a) {
    int t = threadIdx.x;
    if (t == 0) atomicExch(flag, 4);
    if (t == 32) a[atomicAdd(flag, 0)] = 1;
    if (t == 32 && atomicAdd(flag, 0) == 0) a[1000] = 2;
}"""
    launch(source, 1, 64, **arrays(flag=1, a=8))
    found = fault(source, 1, 64, **arrays(flag=1, a=8), _orders=1)
    assert found.kind == "out of bounds" and found.line == 5 and "(found with the last warp first)" in str(found)


def test_results_that_depend_on_the_order_are_findings():
    source = "__global__ void k(int* n, int* a) { a[atomicAdd(n, 1)] = threadIdx.x; }"
    run = launch(source, 1, 64, **arrays(n=1, a=64), _orders=3)
    assert run.findings[0] == "a differs with the last warp first: element 0 is 32, not 0"
    source = "__global__ void k(float* a) { atomicAdd(a, 1.0f / (1 + threadIdx.x)); }"
    assert not launch(source, 1, 256, a=np.zeros(1, np.float32), _orders=6).findings


def test_shared_flags_need_fences():
    source = """__global__ void k(int* a) {
    __shared__ int flag, value;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = a[1];
        __threadfence_block();
        atomicExch(&flag, 1);
    }
    if (threadIdx.x == 32) {
        while (atomicAdd(&flag, 0) == 0) {}
        __threadfence_block();
        a[0] = value;
    }
}"""
    a = np.array([0, 42], np.int32)
    launch(source, 2, 64, a=a, _orders=6)
    assert a[0] == 42
    found = fault(source.replace("__threadfence_block();\n        a[", "a["), 1, 64, a=a)
    assert found.kind == "race" and "value at byte 0, which thread 0 wrote in line 6" in str(found)


def test_deadlocks_of_other_orders():
    """Two locks that two warps take in different orders."""
    source = """__global__ void k(int* a) {
    if (threadIdx.x % 32) return;
    int one = threadIdx.x / 32, other = 1 - one;
    while (atomicCAS(a + one, 0, 1)) {}
    if (FIRST) while (atomicCAS(a + other, 0, 1)) {}
    atomicExch(a + other, 0);
    atomicExch(a + one, 0);
}""".replace("FIRST", "true")
    assert fault(source, 1, 64, **arrays(a=2)).kind == "deadlock"


HANDED = """#include <cuda/atomic>
__global__ void k(const int* in, int* out) {
    __shared__ alignas(8) unsigned long long bar;
    __shared__ int s[32], word;
    __shared__ volatile int flag;
    const int lane = threadIdx.x % 32;
    const unsigned at = __cvta_generic_to_shared(&bar);
    cuda::atomic_ref<int, cuda::thread_scope_block> count(word);
    out[threadIdx.x] += 1;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at));
        word = flag = 0;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        s[lane] = in[lane];
        GIVE
    } else {
        TAKE
        out[lane] += s[31 - lane];
    }
}"""
MBARRIER = (
    'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");',
    """asm volatile("{\\n.reg .pred P;\\nL: mbarrier.try_wait.parity.shared.b64 P, [%0], 0;\\n@!P bra L;\\n}"
                 :: "r"(at) : "memory");""",
)
ATOMIC = "count.fetch_add(1, cuda::memory_order_release);", "while (count.load(cuda::memory_order_acquire) < 32);"
FLAG = (
    "__threadfence_block(); __syncwarp(); if (lane == 0) flag = 1;",
    "if (lane == 0) while (!flag); __syncwarp(); __threadfence_block();",
)


@pytest.mark.parametrize(("give", "take"), [MBARRIER, ATOMIC, FLAG], ids=["mbarrier", "atomic", "flag"])
def test_what_else_than_barriers_hands_on_shared_memory_without_other_orders(give, take):
    """Where the quick check finds a race, it runs again with all arrays as they were, and the history decides."""
    given, out = np.arange(32, dtype=np.int32), np.zeros(64, np.int32)
    given.flags.writeable = False
    source = HANDED.replace("GIVE", give)
    launch(source.replace("TAKE", take), 1, 64, **{"in": given, "out": out})
    assert out.tolist() == [32 - lane for lane in range(32)] + [1] * 32
    found = fault(source.replace("TAKE", "__syncwarp();"), 1, 64, **{"in": given, "out": out})
    assert found.kind == "race" and "reads s at byte" in str(found) and "in line 16" in str(found)


def test_stores_of_one_value_that_a_signal_orders_are_no_findings():
    source = """__global__ void k(volatile int* sent, int* out) {
    __shared__ int s;
    if (threadIdx.x == 0) { s = out[64]; SEND }
    if (threadIdx.x == 32) { while (!*sent); __threadfence_block(); s = out[64]; }
    __syncthreads();
    out[threadIdx.x] = s + 1;
}"""
    given = arrays(sent=1, out=65)
    assert launch(source.replace("SEND", "__threadfence_block(); *sent = 1;"), 1, 64, **given).findings == []
    assert given["out"].tolist() == [1] * 64 + [0]
    (note,) = launch(source.replace("SEND", "*sent = 1;"), 1, 64, **arrays(sent=1, out=65)).findings
    assert note.startswith("note: k, line 4, block 0, thread 32: writes s at byte 0, which thread 0 wrote in line 3")


SIGNAL = """__global__ void __cluster_dims__(2) k(int* flag, int* a) {
    if (blockIdx.x == 0) { a[0] = 7; SEND }
    if (blockIdx.x == TO) { int seen = 0; do { HEAR } while (!seen); TAKE a[1] = a[0]; }
}"""
ST, LD, FENCE = (
    'asm volatile("st.ORDER.SCOPE.global.s32 [%0], 1;" :: "l"(flag) : "memory");',
    'asm volatile("ld.ORDER.SCOPE.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");',
    'asm volatile("fence.acq_rel.SCOPE;" ::: "memory");',
)
BY_ORDER = {"SEND": ST.replace("ORDER", "release"), "HEAR": LD.replace("ORDER", "acquire"), "TAKE": ""}
ST, LD = (of.replace("ORDER", "relaxed").replace("SCOPE", "gpu") for of in (ST, LD))
BY_FENCE = {"SEND": FENCE + ST, "HEAR": LD, "TAKE": FENCE}


def signalled(words, to, sends="cluster", hears="cluster"):
    source = SIGNAL.replace("TO", str(to))
    for name, text in words.items():
        source = source.replace(name, text.replace("SCOPE", sends if name == "SEND" else hears))
    return source


@pytest.mark.parametrize("words", [BY_ORDER, BY_FENCE], ids=["release and acquire", "fences"])
@pytest.mark.parametrize(("sends", "hears"), [("cluster", "cluster"), ("gpu", "cluster"), ("cluster", "sys")])
def test_knowledge_for_the_cluster_stays_in_it(words, sends, hears):
    given = arrays(flag=1, a=2)
    assert not launch(signalled(words, 1, sends, hears), 4, 32, **given, _orders=2).findings
    assert given["a"].tolist() == [7, 7]
    found = fault(signalled(words, 2, sends, hears), 4, 32, **arrays(flag=1, a=2), _orders=2)
    assert found.kind == "race"
    if words is BY_FENCE:
        assert "reads a at byte 0, which thread 31 of block 0 wrote in line 2" in str(found)
    else:  # the signal itself is for the cluster only
        assert "flag at byte 0" in str(found) and "in a scope that does not include both threads" in str(found)


@pytest.mark.parametrize(("sends", "hears"), [("cta", "cluster"), ("cluster", "cta")])
@pytest.mark.parametrize("words", [BY_ORDER, BY_FENCE], ids=["release and acquire", "fences"])
def test_knowledge_for_the_block_is_not_for_the_cluster(words, sends, hears):
    assert fault(signalled(words, 1, sends, hears), 4, 32, **arrays(flag=1, a=2), _orders=2).kind == "race"
