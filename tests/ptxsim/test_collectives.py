"""Shuffles, votes, matches and reductions of warps, with whole and partial masks, and cooperative groups."""

import numpy as np
import pytest

from .cuda import fault, launch, per_thread, refused

T = np.arange(64, dtype=np.int32)
LANE = T % 32


def segment(width):
    return T // width * width


SHUFFLES = {
    "__shfl_down_sync(~0u, x, 3)": np.where(LANE + 3 < 32, T + 3, T),
    "__shfl_up_sync(~0u, x, 5)": np.where(LANE >= 5, T - 5, T),
    "__shfl_down_sync(~0u, x, 2, 8)": np.where(T % 8 < 6, T + 2, T),
    "__shfl_up_sync(~0u, x, 1, 4)": np.where(T % 4 > 0, T - 1, T),
    "__shfl_xor_sync(~0u, x, 1, 16)": T ^ 1,
    "__shfl_xor_sync(~0u, x, 16, 16)": np.where(LANE >= 16, T ^ 16, T),
    "__shfl_sync(~0u, x, 11, 8)": segment(8) + 3,
}


@pytest.mark.parametrize("call", SHUFFLES)
def test_segments(call):
    given = np.random.default_rng(0).integers(0, 1000, 64).astype(np.int32)
    got = per_thread(f"int x = a[t]; o[t] = {call};", given, out=np.int32)
    assert np.array_equal(got, given[SHUFFLES[call]])


def test_shuffles_of_doubles():
    given = np.random.default_rng(0).standard_normal(64)
    got = per_thread("o[t] = __shfl_down_sync(~0u, a[t], 1);", given, out=np.float64)
    assert np.array_equal(got, given[np.where(LANE < 31, T + 1, T)])


def test_part_of_a_warp_shuffles():
    source = """__global__ void k(int* a) {
    int t = threadIdx.x, x = t;
    if (t < 16) x = __shfl_xor_sync(0xffff, t, 3);
    else if (t < 24) x = __shfl_down_sync(0xff0000, t, 4);
    if (t < 20 || t >= 24) a[t] = x;
}"""
    a = np.zeros(32, np.int32)
    launch(source, 1, 32, a=a)
    assert a[:16].tolist() == [t ^ 3 for t in range(16)]
    assert a[16:20].tolist() == [20, 21, 22, 23] and a[20:24].tolist() == [0] * 4
    assert a[24:].tolist() == [*range(24, 32)]


def test_lanes_that_have_left_need_not_come():
    source = """__global__ void k(int* a) {
    int t = threadIdx.x;
    if (t >= 20) return;
    int x = __shfl_sync(~0u, t, t ^ 4);
    if (t < 16) a[t] = x;
}"""
    a = np.zeros(24, np.int32)
    for block in (32, 24):  # the last warp need not have 32 threads either
        launch(source, 1, block, a=a)
        assert a.tolist() == [*(t ^ 4 for t in range(16)), *[0] * 8]


WRONG = {
    "if (t < 9) a[t] = __shfl_sync(~0u, t, 0); else a[t] = 2;": "that are not here: 0xfffffe00",
    "a[t] = __shfl_sync(0xffff, t, 0);": "is not in its own mask, 0xffff",
    "a[t] = __shfl_sync(t < 16 ? ~0u : 0xffff0000, t, 0);": "has another mask than a lane that it names",
}


@pytest.mark.parametrize("body", WRONG)
def test_masks_that_are_wrong(body):
    found = fault(f"__global__ void k(int* a) {{ int t = threadIdx.x; {body} }}", 1, 32, a=np.zeros(32, np.int32))
    assert found.kind == "shuffle" and WRONG[body] in str(found)


def bits(holds):
    return sum(1 << i for i, of in enumerate(holds) if of)


def test_votes():
    given = np.array([*range(32), *[7] * 32], np.int32)
    ballot = per_thread("o[t] = __ballot_sync(~0u, a[t] % 3 == 1);", given, out=np.uint32)
    assert ballot.tolist() == [bits(t % 3 == 1 for t in range(32))] * 32 + [2**32 - 1] * 32
    votes = per_thread(
        "o[t] = __any_sync(~0u, a[t] == 3) + 2 * __all_sync(~0u, a[t] == 7) + 4 * __all_sync(~0u, a[t] > -1);",
        given,
        out=np.int32,
    )
    assert votes.tolist() == [5] * 32 + [6] * 32
    part = "o[t] = -1; if (t % 2) o[t] = __ballot_sync(0xaaaaaaaa, t < 7) + __all_sync(0xaaaaaaaa, t % 2);"
    assert per_thread(part, given, out=np.int32)[:32].tolist() == [-1, 0b101010 + 1] * 16


def test_matches():
    given = np.random.default_rng(0).integers(0, 5, 64).astype(np.int64) << 33
    of_warp = given.reshape(2, 32).repeat(32, axis=0)
    any_ = per_thread("o[t] = __match_any_sync(~0u, a[t]);", given, out=np.uint32)
    assert any_.tolist() == [bits(row == x) for row, x in zip(of_warp, given, strict=True)]
    body = "int same; unsigned mask = __match_all_sync(~0u, t < 32 ? 1 : t, &same); o[t] = same ? mask : 7;"
    assert per_thread(body, given, out=np.uint32).tolist() == [2**32 - 1] * 32 + [7] * 32


REDUCTIONS = {
    "add": (np.add, "int"),
    "min": (np.minimum, "int"),
    "max": (np.maximum, "unsigned"),
    "and": (np.bitwise_and, "unsigned"),
    "or": (np.bitwise_or, "unsigned"),
    "xor": (np.bitwise_xor, "unsigned"),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    function, kind = REDUCTIONS[name]
    given = np.random.default_rng(0).integers(-(2**31), 2**31, 64).astype(np.int32)
    got = per_thread(f"o[t] = __reduce_{name}_sync(~0u, ({kind})a[t]);", given, out=np.int32)
    typed = given.view(np.uint32 if kind == "unsigned" else np.int32).reshape(2, 32)
    assert np.array_equal(got.view(typed.dtype), function.reduce(typed, axis=1, dtype=typed.dtype).repeat(32))
    part = f"if (t % 4 == 0) o[t] = __reduce_{name}_sync(0x11111111, ({kind})a[t]);"
    got = per_thread(part, given, out=np.int32).view(typed.dtype).reshape(2, 32)[:, ::4]
    assert np.array_equal(got, function.reduce(typed[:, ::4], axis=1, dtype=typed.dtype)[:, None].repeat(8, axis=1))


def test_active_lanes_and_special_registers():
    got = per_thread("o[t] = 0; if (t % 32 > 20 || t > 40) o[t] = __activemask();", T, out=np.uint32)
    assert got[31] == bits(t > 20 for t in range(32)) and got[63] == bits(t > 40 or t % 32 > 20 for t in range(32, 64))
    for name, mask in {
        "lt": lambda t: (1 << t) - 1,
        "le": lambda t: (2 << t) - 1,
        "eq": lambda t: 1 << t,
        "ge": lambda t: 2**32 - (1 << t),
        "gt": lambda t: 2**32 - (2 << t),
    }.items():
        got = per_thread(f'asm("mov.u32 %0, %%lanemask_{name};" : "=r"(o[t]));', T, out=np.uint32)
        assert got.tolist() == [mask(t % 32) for t in range(64)]


GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const int* a, int* sums, int* places, int* odd) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(block);
    int t = block.thread_rank(), sum = a[t];
    for (int i = tile.size() / 2; i > 0; i /= 2) sum += tile.shfl_xor(sum, i);
    sums[t] = sum + cg::reduce(warp, a[t], cg::plus<int>());
    tile.sync();
    places[t] = tile.meta_group_rank() * 100 + tile.thread_rank() + 1000 * tile.any(a[t] > 90);
    if (a[t] % 2) {
        auto active = cg::coalesced_threads();
        odd[t] = active.thread_rank() + 100 * active.size();
    }
    block.sync();
}"""


def test_cooperative_groups():
    a = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    sums, places, odd = np.zeros((3, 64), np.int32)
    launch(GROUPS, 1, 64, a=a, sums=sums, places=places, odd=odd)
    tiles, warps = a.reshape(8, 8), a.reshape(2, 32)
    assert np.array_equal(sums, tiles.sum(1).repeat(8) + warps.sum(1).repeat(32))
    assert np.array_equal(places, T // 8 * 100 + T % 8 + 1000 * (tiles > 90).any(1).repeat(8))
    for warp in range(2):
        who = np.flatnonzero(warps[warp] % 2)
        assert odd[32 * warp + who].tolist() == [i + 100 * len(who) for i in range(len(who))]


COALESCED = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* values, const int* ranks, const unsigned* sets, int* o) {
    int t = threadIdx.x, i = blockIdx.x * 32 + t, a = values[i];
    if (!(sets[blockIdx.x] >> t & 1)) return;
    auto g = cg::coalesced_threads();
    auto same = cg::labeled_partition(g, a & 1);
    int all[] = {cg::reduce(g, a, cg::plus<int>()), cg::inclusive_scan(g, a), g.shfl(a, ranks[i] % g.size()),
                 g.shfl_down(a, 3), g.shfl_up(a, 2), (int)g.match_any(a & 3), (int)g.ballot(a > 0),
                 (int)(100 * g.size() + g.thread_rank()), cg::reduce(same, a, cg::bit_xor<int>())};
    for (int k = 0; k < 9; ++k) o[9 * i + k] = all[k];
}"""


def test_any_lanes_as_a_group():
    """Its ranks are places among the lanes that are there, which the library finds by a mask's n-th bit."""
    random, blocks = np.random.default_rng(5), 20
    values, ranks = random.integers(-99, 99, (blocks, 32), np.int32), random.integers(0, 999, (blocks, 32), np.int32)
    sets = np.array([0xFFFFFFFF, 1, 1 << 31, *random.integers(1, 1 << 32, blocks - 3)], np.uint32)
    o = np.zeros((blocks, 32, 9), np.int32)
    launch(COALESCED, blocks, 32, values=values, ranks=ranks, sets=sets, o=o)
    for block, members in enumerate(sets.tolist()):
        lanes = [lane for lane in range(32) if members >> lane & 1]
        a = values[block, lanes]
        for rank, lane in enumerate(lanes):
            below, above = max(rank - 2, 0) if rank >= 2 else rank, rank + 3 if rank + 3 < len(a) else rank
            want = [a.sum(), a[: rank + 1].sum(), a[ranks[block, lane] % len(a)], a[above], a[below]]
            want += [sum(1 << i for i, of in enumerate(a) if of & 3 == a[rank] & 3)]
            want += [sum(1 << i for i, of in enumerate(a) if of > 0), 100 * len(a) + rank]
            want += [np.bitwise_xor.reduce(a[a & 1 == a[rank] & 1])]
            assert o[block, lane].tolist() == [(int(of) + 2**31) % 2**32 - 2**31 for of in want], (block, lane)


def test_other_blocks_of_a_cluster_by_generic_addresses():
    """Cooperative groups map them to such addresses. A prefetch to L2 counts once for each warp."""
    source = """
#include <cooperative_groups.h>
__global__ void __cluster_dims__(2, 1, 1) k(int* out) {
    __shared__ int words[32], others[32];
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank(), t = threadIdx.x;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(out));
    words[t] = 100 * rank + t;
    cluster.sync();
    int* theirs = cluster.map_shared_rank(words, rank ^ 1);
    cluster.map_shared_rank(others, rank ^ 1)[t] = theirs[31 - t];
    cluster.sync();
    out[32 * rank + t] = others[t];
}"""
    out = np.zeros((2, 32), np.int32)
    run = launch(source, 2, 32, out=out)
    assert np.array_equal(out, [100 * rank + 31 - T[:32] for rank in (0, 1)])
    assert run.total.by_class["prefetch"] == 2


def test_a_grid_does_not_meet():
    source = """#include <cooperative_groups.h>
__global__ void k(int* a) { a[0] = 1; cooperative_groups::this_grid().sync(); a[1] = 2; }"""
    said = refused(source, 1, 32, a=np.zeros(2, np.int32))
    assert said.endswith(
        "does not know: grid.sync(), as there are no launches for which a grid's blocks wait for each other"
    )


def test_an_elected_lane_without_its_number():
    body = 'asm volatile("{ .reg .pred p; elect.sync _|p, 0xfffffff0; selp.u32 %0, 1, 0, p; }" : "=r"(o[t]));'
    got = per_thread(f"if (t % 32 > 3) {body}", T, out=np.uint32)
    assert np.flatnonzero(got).tolist() == [4, 36]
