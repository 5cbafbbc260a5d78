"""Clusters on the simulator: blocks that fetch for each other, and every way to reach into another at a wrong time."""

import numpy as np
import pytest

import ptxsim
from ptxsim import ArgumentError, SimulationFault, UnsupportedInstruction
from ptxsim import machine as machines
from ptxsim.machine import Machine
from ptxsim.ptx import parse
from ptxsim.tensor_map import TensorMap

from .test_mbarriers import HELPERS
from .test_tma import COPY, numbered, swizzled

REMOTE = """
__device__ unsigned of(const void* p, unsigned rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(p)), "r"(rank));
    return there;
}
__device__ unsigned own() { unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); return rank; }
__device__ void arrive_at(unsigned long long* bar, unsigned rank)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(of(bar, rank)) : "memory");
}
__device__ void arrive_at(unsigned long long* bar, unsigned rank, unsigned count)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" :: "r"(of(bar, rank)), "r"(count) : "memory");
}
__device__ void await(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do
        asm volatile("{ .reg .pred %%done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%done, [%1], %2; "
                     "selp.u32 %0, 1, 0, %%done; }" : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    while (!done);
}
__device__ void copy_to(void* to, const TensorMap& map, int column, int row, unsigned long long* bar,
                        unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(at(to)), "l"(&map), "r"(column), "r"(row), "r"(at(bar)), "h"(blocks) : "memory");
}
__device__ unsigned load(const void* p, unsigned rank)
{
    unsigned value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(of(p, rank)) : "memory");
    return value;
}
__device__ void store(void* p, unsigned rank, unsigned value)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(of(p, rank)), "r"(value) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ void set_out() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void come() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ void meet() { set_out(); come(); }
"""

BEGIN = """
    __shared__ __align__(1024) unsigned short s[2][8][64];
    __shared__ unsigned long long full, empty;
    const unsigned t = threadIdx.x, rank = own();
    if (t == 0) { init(&full, 1); init(&empty, 2); fence_init(); }
    relaxed(); come();
"""


def run(body, blocks=2, cluster=2, threads=64, begin=BEGIN, only=None, trace=()):
    """Run a body that may use the helpers; return what it leaves in c, a row per block, and the machine."""
    text = f"""{HELPERS}{COPY}{REMOTE}
template <int BLOCKS>
__global__ void __cluster_dims__(BLOCKS, 1, 1) probe(const unsigned short* matrix, unsigned* all,
                                                     const __grid_constant__ TensorMap map)
{{
    unsigned* c = all + blockIdx.x * blockDim.x;{begin}{body}
}}
"""
    binary = ptxsim.compile(text, f"probe<{cluster}>")
    matrix, c = numbered(64, 64), np.zeros(blocks * threads, np.uint32)
    arguments = {"matrix": matrix, "all": c, "map": TensorMap(matrix, 8, 64)}
    machine = Machine(parse(binary.ptx, binary.entry, 0), "probe", threads, arguments, trace=trace)
    machine.run(blocks, only)
    return c.reshape(blocks, threads), machine


def fault(*arguments, **more):
    with pytest.raises(SimulationFault) as caught:
        run(*arguments, **more)
    return caught.value


NUMBERS = """
    unsigned n, id, ids, x, nx;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(ids));
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(nx));
    c[t] = ((((rank * 10 + n) * 10 + id) * 10 + ids) * 10 + x) * 10 + nx;
"""


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
@pytest.mark.parametrize("lanes", [64, 320, 1 << 15])
def test_numbers_of_blocks_and_clusters(monkeypatch, cluster, lanes):
    """However many blocks are simulated at once, they are whole clusters."""
    monkeypatch.setattr(machines, "LANES", lanes)
    got, _ = run(NUMBERS, blocks=8, cluster=cluster, begin="const unsigned t = threadIdx.x, rank = own();")
    clusters = 8 // cluster
    want = [[b % cluster, cluster, b // cluster, clusters, b % cluster, cluster] for b in range(8)]
    assert [f"{row[0]:06}" for row in got] == ["".join(map(str, digits)) for digits in want]


def test_a_block_runs_with_its_cluster():
    got, machine = run("c[t] = 1 + rank;", blocks=6, only=[3])
    assert got[:, 0].tolist() == [0, 0, 1, 2, 0, 0] and sum(machine.execution.threads_through[:1]) == 128


def test_half_a_cluster_is_no_grid():
    with pytest.raises(ArgumentError, match="blocks: got 3, needs a multiple of 2"):
        run("", blocks=3)


def test_too_large_a_cluster():
    with pytest.raises(ArgumentError, match="16 blocks per cluster, needs at most 8"):
        run("", blocks=16, cluster=16)


def test_a_cluster_of_two_dimensions():
    binary = run_source("__global__ void __cluster_dims__(1, 2, 1) probe() {}")
    with pytest.raises(UnsupportedInstruction, match="1 × 2 × 1"):
        parse(binary.ptx, binary.entry, 0)


def run_source(text):
    return ptxsim.compile(text)


def test_arrivals_from_other_blocks():
    """Each block's barrier waits for both blocks' threads; one arrival may stand for several."""
    begin = BEGIN.replace("init(&empty, 2)", "init(&empty, 68)")
    body = """
    if (t < 32) { arrive_at(&empty, 0); arrive_at(&empty, 1); }
    if (t == 40) { arrive_at(&empty, 0, 2); arrive_at(&empty, 1, 2); }
    await(&empty, 0);
    c[t] = 1 + t;
    meet();
"""
    got, machine = run(body, begin=begin, blocks=4)
    assert (got == 1 + np.arange(64)).all()
    total = machine.total
    assert total.by_class["cluster barrier"] == 4 * 2 * 4  # blocks, warps, two arrivals and two waits


SHARED_TILE = """
    if (rank == 1 && t == 0) copy_to(s[1], map, 0, 8 * blockIdx.x, &full, 3);   // before anybody expects its bytes
    meet();
    if (t == 0) arrive_expect(&full, 2048);
    if (rank == 0 && t == 0) copy_to(s[0], map, 0, 8 * blockIdx.x, &full, 3);
    await(&full, 0);
    unsigned sum = 0;
    for (int i = 0; i < 16; ++i) sum = sum * 3 + s[i / 8][i % 8][t];
    c[t] = sum;
    meet();
"""


def test_a_box_for_both_blocks():
    """Bytes that come before they are expected; L2 is read once for both blocks, whose memories both are written."""
    got, machine = run(SHARED_TILE, blocks=4)
    boxes = [swizzled(box).reshape(8, 64) for box in numbered(64, 64).reshape(8, 8, 64)]
    for block in range(4):
        want = np.zeros(64, np.uint32)
        for row in np.concatenate(boxes[block // 2 * 2 : block // 2 * 2 + 2]):
            want = want * 3 + row
        assert np.array_equal(got[block], want)
    copies = [of for of in machine.counts().values() if of.by_class["copy"]]
    assert sum(of.global_load_requests for of in copies) == 4
    assert sum(of.global_load_bytes for of in copies) == 4 * 1024
    assert sum(of.global_load_sectors for of in copies) == 4 * 32
    assert sum(of.shared_store_bytes for of in copies) == 8 * 1024


@pytest.mark.parametrize("mask", [1, 2])
def test_a_box_for_one_block(mask):
    """The mask alone says who gets it, not who asks."""
    body = f"""
    if (t == 0 && {mask} >> rank & 1) arrive_expect(&full, 1024);
    if (rank == 0 && t == 0) copy_to(s[0], map, 0, 8, &full, {mask});
    if ({mask} >> rank & 1) {{ await(&full, 0); c[t] = s[0][0][t]; }}
    meet();
"""
    got, _ = run(body)
    assert got[mask - 1].tolist() == numbered(64, 64)[8].tolist() and not got[2 - mask].any()


RING = """
    if (t < 32) {
        for (int i = 0; i < 6; ++i) {
            unsigned long long* bar = i % 2 ? &other : &full;
            if (t == 0) {
                if (i > 1) await(i % 2 ? &empty : &spare, i / 2 + 1 & 1);
                arrive_expect(bar, 1024);
                if (i % 2 == rank) copy_to(s[i % 2], map, 0, 8 * i, bar, 3);
            }
        }
    } else {
        unsigned sum = 0;
        for (int i = 0; i < 6; ++i) {
            await(i % 2 ? &other : &full, i / 2 % 2);
            for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];
            __syncwarp();
            if (t % 32 < 2) arrive_at(i % 2 ? &empty : &spare, t % 32);
        }
        c[t] = sum;
    }
    __syncwarp();
    meet();
"""
RING_BEGIN = BEGIN.replace("long full", "long full, other, spare").replace(
    "init(&full, 1);", "init(&full, 1); init(&other, 1); init(&spare, 2);"
)


def test_a_ring_for_both_blocks():
    """Each block fetches every second tile for both, when the readers of both have let its stage go."""
    got, _ = run(RING, begin=RING_BEGIN, blocks=4)
    tiles = [swizzled(tile).reshape(8, 64) for tile in numbered(64, 64)[:48].reshape(6, 8, 64)]
    want = sum(tile.sum(0, dtype=np.uint32) for tile in tiles)
    assert (got[:, 32:] == want[32:]).all()


WRONG = {
    "readers of one block not waited for": (
        "if (t % 32 < 2) arrive_at(i % 2 ? &empty : &spare, t % 32);",
        "if (t % 32 < 2) arrive(i % 2 ? &empty : &spare);",
        "race",
        "of block 1 of the cluster may still read",
    ),
    "nobody waited for": ("if (i > 1) await(i % 2 ? &empty : &spare, i / 2 + 1 & 1);", "", "barrier", "arrives"),
    "let go too early": (
        "for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];\n            __syncwarp();\n"
        "            if (t % 32 < 2) arrive_at(i % 2 ? &empty : &spare, t % 32);",
        "if (t % 32 < 2) arrive_at(i % 2 ? &empty : &spare, t % 32);\n"
        "for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];",
        "in flight",
        "s at byte",
    ),
    "a reader does not wait": ("await(i % 2 ? &other : &full, i / 2 % 2);", "", "in flight", "s at byte"),
    "one block gets nothing": ("bar, 3)", "bar, 1)", "deadlock", "1,024 bytes"),
    "only one block expects": (
        "arrive_expect(bar, 1024);",
        "if (rank) arrive_expect(bar, 1024);",
        "deadlock",
        "1 of 1 arrivals and somebody who expects 1,024 bytes that have come",
    ),
    "an arrival too few": (
        "if (t % 32 < 2) arrive_at",
        "if (t % 32 < rank + 1) arrive_at",
        "deadlock",
        "of block 1 wait",
    ),
    "a warp that does not arrive as one": ("__syncwarp();\n    meet();", "meet();", "divergence", "thread 0"),
    "leaving at once": ("    meet();\n", "", "gone", "without knowing that warp 1 of block"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_ring_gone_wrong(change):
    old, new, kind, words = change
    assert old in RING
    got = fault(RING.replace(old, new), begin=RING_BEGIN)
    assert got.kind == kind and words in str(got), got


INIT = "if (t == 0) { init(&full, 1); init(&empty, 2); fence_init(); }"
FAULTS = {
    "no barrier before the first arrival": (
        "if (t == 0) arrive_at(&empty, rank ^ 1);",
        ("relaxed(); come();", "__syncthreads();"),
        "gone",
        "block 1 of the cluster, which may not have begun",
    ),
    "no barrier behind an mbarrier": (
        "__shared__ unsigned long long late; if (t == 0) init(&late, 1); __syncthreads(); arrive_at(&late, rank ^ 1);",
        None,
        "race",
        "of block 1 of the cluster made an mbarrier",
    ),
    "no fence of the mbarriers": (
        "if (t == 0) arrive_at(&empty, rank ^ 1); meet();",
        ("fence_init();", ""),
        "race",
        "no fence and barrier of the cluster have shown",
    ),
    "no mbarrier there": (
        "if (t == 0) arrive_at(&empty, rank ^ 1);",
        ("if (t == 0) {", "if (t + rank == 0) {"),
        "uninitialised",
        "nothing has made one",
    ),
    "an arrival at a block that has left": (
        "if (rank) { meet(); arrive_at(&empty, 0); }",
        None,
        "gone",
        "reaches into block 0 of the cluster, which has left the kernel",
    ),
    "a copy to a block that has left": (
        "if (rank) { meet(); if (t == 0) copy_to(s, map, 0, 0, &full, 1); }",
        None,
        "gone",
        "reaches into block 0",
    ),
    "a block that leaves before a copy has come": (
        "if (rank && t == 0) copy_to(s, map, 0, 0, &full, 1);\nmeet();",
        None,
        "gone",
        "a copy is on its way",
    ),
    "a block not of the cluster": (
        "if (t == 0) arrive_at(&empty, 2);",
        None,
        "out of bounds",
        "block 2, from block 0 of 2",
    ),
    "a copy to a block not of the cluster": (
        "if (t == 0) copy_to(s, map, 0, 0, &full, 5);",
        None,
        "out of bounds",
        "block 2, from block 0 of 2",
    ),
    "a wait at another block's mbarrier": (
        "wait_there(of(&full, 1), 1);",
        None,
        "out of bounds",
        "block 1, from block 0",
    ),
    "two arrivals before a wait": ("set_out(); set_out(); come();", None, "barrier", "again without having waited"),
    "an arrival of half a warp": ("if (t < 48) meet();", None, "divergence", "comes to the cluster's barrier without"),
    "an arrival of a warp that has left in part": (
        "if (t >= 40) return; meet();",
        None,
        "divergence",
        "comes to the cluster's barrier without",
    ),
    "a wait of half a warp": (
        "set_out(); if (t < 48) come();",
        None,
        "divergence",
        "comes to the cluster's barrier without",
    ),
    "a wait without an arrival": ("come();", None, "barrier", "without having arrived"),
    "a block that does not come": (
        "if (rank) { if (t == 0) wait(&full, 0); } __syncwarp(); meet();",
        None,
        "deadlock",
        "waits at the cluster's barrier, as threads 1 to 63 do; thread 0 of block 1 waits for parity 0",
    ),
}
THERE = """
__device__ void wait_there(unsigned bar, unsigned parity)
{
    asm volatile("{ .reg .pred %%done; mbarrier.try_wait.parity.shared::cta.b64 %%done, [%0], %1; }"
                 :: "r"(bar), "r"(parity) : "memory");
}
"""


@pytest.mark.parametrize("of", FAULTS.values(), ids=FAULTS)
def test_faults(monkeypatch, of):
    body, change, kind, words = of
    assert change is None or change[0] in BEGIN
    monkeypatch.setitem(globals(), "REMOTE", REMOTE + THERE)
    got = fault(body, begin=BEGIN.replace(*change) if change else BEGIN)
    assert got.kind == kind and words in str(got), got


def test_who_has_left_has_arrived():
    """The other threads of the cluster meet without it."""
    body = """
    if (rank == 0 && t >= 32) return;
    meet();
    c[t] = 1;
"""
    got, _ = run(body)
    assert got.tolist() == [[1] * 32 + [0] * 32, [1] * 64]


WAITED = "if (t == 40) arrive(&full); if (t == 1) await(&full, {}); "


@pytest.mark.parametrize(
    ("parity", "words"), [(0, "nothing has brought them together"), (1, "without all of its warp")]
)
def test_a_warp_may_be_late_in_part(parity, words):
    """A lane waits that the others do not wait for: that the wait is over at once, as for parity 0, is luck."""
    got = fault(WAITED.format(parity) + "meet();")
    assert got.kind == "divergence" and words in str(got)


@pytest.mark.parametrize("what", ["__syncwarp();", "__syncthreads();", "__shfl_xor_sync(~0u, t, 1);"])
def test_what_brings_a_warp_together(what):
    got, _ = run(WAITED.format(0) + what + "meet(); c[t] = 1;")
    assert got.all()


def test_arrivals_that_are_not_aligned():
    """Then the lanes of a warp come one by one, as they like."""
    loose = 'asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");'
    got, _ = run(f"{WAITED.format(0)}{loose} c[t] = 1;")
    assert got.all()


def test_between_arrival_and_wait():
    """A thread goes on from where it arrives, and those that wait for it too."""
    body = """
    __shared__ unsigned word;
    if (t == 0) word = 5 + rank;
    set_out();
    if (rank == 1 && t == 0) arrive_at(&full, 0);
    if (rank == 0) await(&full, 0);
    come();
    c[t] = word;
    set_out();
    come();
"""
    got, _ = run(body)
    assert got.tolist() == [[5] * 64, [6] * 64]


def test_an_arrival_that_orders_nothing():
    body = "__shared__ unsigned word; if (t == 0) word = 5 + rank; relaxed(); come(); c[t] = word;"
    got = fault(body)
    assert got.kind == "race" and f"which thread 0 wrote in line {got.line} since the last barrier" in str(got)


FAR_BEGIN = """
    __shared__ unsigned words[64], others[64];
    const unsigned t = threadIdx.x, rank = own();
    words[t] = 100 * blockIdx.x + t;
    meet();
"""


def test_loads_and_stores_in_other_blocks():
    """A ring: each block reads its neighbour's words, and gives the other neighbour what it makes of them."""
    body = """
    const unsigned next = (rank + 1) % BLOCKS, last = (rank + BLOCKS - 1) % BLOCKS;
    unsigned there = load(&words[63 - t], next);
    store(&others[t], last, there);
    store(&others[t], last, load(&others[t], last) + 1000);
    meet();
    c[t] = others[t] + words[t];
    others[t] = 0;
"""
    got, machine = run(body, blocks=8, cluster=4, begin=FAR_BEGIN)
    for block in range(8):
        source = block // 4 * 4 + (block + 2) % 4
        t = np.arange(64)
        assert np.array_equal(got[block], 100 * source + 63 - t + 1000 + 100 * block + t)
    total = machine.total
    assert total.by_class["cluster load"] == 2 * 8 * 2 and total.by_class["cluster store"] == 2 * 8 * 2
    assert total.shared_load_requests == 2 * 8 * 2  # those at home, before the last store


FAR_FAULTS = {
    "two blocks write one word": ("store(&others[t], 0, rank);", "race", "writes others of block 0 of the cluster"),
    "two threads write one word": ("store(&others[0], rank ^ 1, t);", "race", "another thread wrote"),
    "a word its own block writes": (
        "if (rank) store(&words[t], 0, 1); else words[t] = 2;",
        "race",
        "words of block 0 of the cluster at byte 0",
    ),
    "a word its own block has written": (
        "words[t] = 2; if (rank) store(&words[t], 0, 1);",
        "race",
        "another thread wrote",
    ),
    "a word its own block has read": ("c[t] = words[t]; store(&words[t], rank ^ 1, 1);", "race", "another thread read"),
    "a barrier of one block alone": (
        "store(&others[t], rank ^ 1, 1); __syncthreads(); c[t] = others[t];",
        "race",
        "reads others of block 0 of the cluster at byte 0, which another thread wrote since the cluster met last",
    ),
    "several have read it": ("c[t] = load(&words[t / 2], rank ^ 1); words[t] = 1;", "race", "another thread read"),
    "a word that nobody wrote": ("c[t] = load(&others[t], rank ^ 1);", "uninitialised", "of block 1 of the cluster"),
    "past the end": ("c[t] = load(&words[192 + t], rank ^ 1); others[t] = 0;", "out of bounds", "at byte"),
    "a block that has left": ("if (rank) { meet(); c[t] = load(&words[t], 0); }", "gone", "which has left"),
    "a block that leaves": (
        "if (rank && t == 33) c[t] = load(&words[t], 0);",
        "gone",
        "warp 1 of block 1 of the cluster",
    ),
}


@pytest.mark.parametrize("of", FAR_FAULTS.values(), ids=FAR_FAULTS)
def test_far_faults(of):
    body, kind, words = of
    got = fault(body, begin=FAR_BEGIN)
    assert got.kind == kind and words in str(got), got


def test_a_block_that_may_not_have_begun():
    got = fault("store(&words[t], rank ^ 1, 1);", begin=FAR_BEGIN.replace("meet();", ""))
    assert got.kind == "gone" and "may not have begun" in str(got)


def test_a_copy_over_what_another_block_reads():
    """A barrier of its own block does not let another's thread copy there."""
    body = """
    for (int i = 0; i < 8; ++i) s[0][i][t] = i;
    __syncthreads();
    if (rank && t == 0) copy_to(s, map, 0, 0, &full, 1);
"""
    got = fault(body)
    assert got.kind == "race" and "a thread there has used since the cluster met last" in str(got)


def test_what_is_at_home():
    """To a block's own words its own barrier is enough; one access may go to both."""
    body = """
    others[t] = 7 * t;
    __syncthreads();
    c[t] = load(&others[63 - t], rank) + load(&words[t], t % BLOCKS);
    __syncthreads();
    store(&others[t], rank, 5);
    meet();
"""
    t = np.arange(64)
    for cluster in (1, 2):
        got, _ = run(body, cluster=cluster, begin=FAR_BEGIN)
        for block in range(2):
            source = t % 2 if cluster == 2 else block
            assert np.array_equal(got[block], 7 * (63 - t) + 100 * source + t)


def test_a_cluster_of_one():
    """Everything works that does not need another block."""
    body = SHARED_TILE.replace("rank == 1 &&", "").replace("full, 3)", "full, 1)")
    got, _ = run(body, cluster=1)
    assert got[0].any() and got[1].any()


def test_where_a_traced_block_writes():
    _, machine = run("c[t] = words[t];", begin=FAR_BEGIN, trace=[1])
    accesses = [access for access in machine.trace if access.space == "shared"]
    assert [access.kind for access in accesses] == ["store", "load"]
    for access in accesses:
        assert (access.array, access.block, access.offsets.tolist()) == ("words", 1, list(range(0, 256, 4)))


def test_relaxed_arrivals_at_mbarriers_are_refused():
    body = """asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(of(&full, 0)));"""
    with pytest.raises(UnsupportedInstruction, match="relaxed"):
        run(body)
