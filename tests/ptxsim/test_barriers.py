"""Barriers: those that vote, named ones, those of parts of warps, and words of memory that threads wait for."""

import numpy as np
import pytest

from .cuda import fault, launch


def test_votes_at_a_barrier():
    source = """__global__ void k(int* a) {
    int t = threadIdx.x, x = a[blockIdx.x];
    a[4 + blockIdx.x * blockDim.x + t] = __syncthreads_count(t < x) + 1000 * __syncthreads_and(t < x)
        + 2000 * __syncthreads_or(t == x);
}"""
    a = np.zeros(4 + 3 * 40, np.int32)
    a[:3] = 0, 17, 40
    run = launch(source, 3, 40, a=a)
    assert a[4:].reshape(3, 40)[:, 0].tolist() == [2000, 2017, 1040] and len(set(a[4:].tolist())) == 3
    assert run.total.by_class["barrier"] == 3 * 3 * 2


HANDOVER = """__global__ void k(int* a) {
    __shared__ int tile[32];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int i = 0; i < 3; ++i) {
        if (warp == 0) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            tile[lane] = i * 100 + lane;
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        } else if (warp == 1) {
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
            a[i * 32 + lane] = tile[31 - lane];
        }
    }
}"""


def test_named_barriers_hand_a_tile_over():
    a = np.zeros(96, np.int32)
    launch(HANDOVER, 2, 96, a=a, _orders=6)
    assert a.tolist() == [i * 100 + 31 - lane for i in range(3) for lane in range(32)]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('asm volatile("bar.sync 2, 64;" ::: "memory");', "", "race"),
        ('asm volatile("bar.arrive 1, 64;" ::: "memory");', "", "barrier"),
        ('tile[lane] = i * 100 + lane;\n            asm volatile("bar.arrive 2, 64;" ::: "memory");',
         'asm volatile("bar.arrive 2, 64;" ::: "memory");\n            tile[lane] = i * 100 + lane;', "race"),
        ("bar.arrive 2, 64", "bar.arrive 2, 96", "barrier"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_named_barriers(old, new, kind):
    assert old in HANDOVER
    found = fault(HANDOVER.replace(old, new), 1, 96, a=np.zeros(96, np.int32))
    assert found.kind == kind
    if kind == "barrier":
        assert "barrier 1, to which 32 of 64 threads have come" in str(found) or "which others need otherwise" in str(
            found
        )


def test_part_of_a_warp_meets():
    source = """__global__ void k(int* a) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t;
    if (t < 8) { SYNC(0xff); a[t] = s[7 - t]; }
    else { SYNC(0xffffff00); a[t] = s[39 - t]; }
}"""
    a = np.zeros(32, np.int32)
    launch(source.replace("SYNC", "__syncwarp"), 1, 32, a=a)
    assert a.tolist() == [*range(7, -1, -1), *range(31, 7, -1)]
    assert fault(source.replace("SYNC", ""), 1, 32, a=a).kind == "race"
    found = fault(source.replace("SYNC(0xff)", "__syncwarp(0x1ff)").replace("SYNC", "__syncwarp"), 1, 32, a=a)
    assert found.kind == "barrier"


LOCK = """__global__ void k(int* a) {
    for (int done = 0; !done;)
        if (atomicCAS(a, 0, 1) == 0) {
            __threadfence();
            a[1] += threadIdx.x;
            __threadfence();
            atomicExch(a, 0);
            done = 1;
        }
}"""


def test_a_lock():
    a = np.zeros(2, np.int32)
    launch(LOCK, 3, 40, a=a, _orders=5)
    assert a.tolist() == [0, 3 * 40 * 39 // 2]


def test_a_flag_that_a_later_block_sets():
    """Blocks wait for the one before them, the first for the last."""
    source = """__global__ void k(volatile int* flags, int* a) {
    int b = blockIdx.x, before = (b + gridDim.x - 1) % gridDim.x;
    if (b == 3) { a[b] = 1; __threadfence(); flags[b] = 1; }
    else {
        while (flags[before] == 0) {}
        __threadfence();
        a[b] = a[before] + 1;
        __threadfence();
        flags[b] = 1;
    }
}"""
    for orders in (0, 6):
        flags, a = np.zeros(8, np.int32), np.zeros(8, np.int32)
        launch(source, 8, 1, flags=flags, a=a, _orders=orders)
        assert a.tolist() == [6, 7, 8, 1, 2, 3, 4, 5]
    found = fault(source.replace("if (b == 3)", "if (b == 9)"), 8, 1, flags=np.zeros(8, np.int32), a=a)
    assert found.kind == "deadlock" and found.line in (4, 5)
    assert "for memory to change, which no thread does" in str(found)
