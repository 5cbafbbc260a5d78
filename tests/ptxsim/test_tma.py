"""Copies by the copy engine on the simulator: boxes swizzled and filled up, and every way to touch them too early."""

import numpy as np
import pytest

import ptxsim
from ptxsim import ArgumentError, SimulationFault
from ptxsim.machine import Machine
from ptxsim.ptx import parse
from ptxsim.tensor_map import TensorMap

from ..together import for_each
from .test_mbarriers import HELPERS

COPY = """
struct alignas(64) TensorMap { char bytes[128]; };
__device__ void copy(void* to, const TensorMap& map, int column, int row, unsigned long long* bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "  // copy
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(at(to)), "l"(&map), "r"(column), "r"(row), "r"(at(bar)) : "memory");
}
__device__ void copy_bytes(void* to, const void* from, unsigned bytes, unsigned long long* bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""

BEGIN = """
    __shared__ __align__(1024) unsigned short s[2][8][64];
    __shared__ unsigned long long full, empty;
    const unsigned t = threadIdx.x;
    if (t == 0) { init(&full, 1); init(&empty, 32); fence(); }
    __syncthreads();
"""


def run(body, matrix, row=0, column=0, threads=64, begin=BEGIN, box=8, written=True):
    """Run a body that may copy boxes of 8 × 64 of a matrix of halves; return what it leaves in c, and the machine."""
    text = f"""{HELPERS}{COPY}
__global__ void probe(const unsigned short* matrix, int row, int column, unsigned short* c,
                      const __grid_constant__ TensorMap map)
{{{begin}{body}
}}
"""
    binary = ptxsim.compile(text)
    c = np.zeros(2048, np.uint16)
    arguments = {
        "matrix": matrix,
        "row": np.int32(row),
        "column": np.int32(column),
        "c": c,
        "map": TensorMap(matrix, box, 64),
    }
    machine = Machine(parse(binary.ptx, binary.entry, 0), "probe", threads, arguments, () if written else ("matrix",))
    machine.run(1)
    return c, machine


def fault(*arguments, **more):
    with pytest.raises(SimulationFault) as caught:
        run(*arguments, **more)
    return caught.value


ONE = """
    if (t == 0) { arrive_expect(&full, 1024); copy(s, map, column, row, &full); }
    wait(&full, 0);
    for (int i = t; i < 512; i += 64) c[i] = s[0][i / 64][i % 64];
"""


def numbered(rows, columns):
    return np.arange(rows * columns, dtype=np.uint16).reshape(rows, columns) + 1


def swizzled(box):
    """Eight rows of eight chunks: in row r, chunk c lies in the place of chunk c ^ r."""
    chunks = box.reshape(8, 8, 8)
    return np.stack([chunks[r, [c ^ r for c in range(8)]] for r in range(8)]).reshape(-1)


@for_each(row=[-9, -3, 0, 5, 17, 20], column=[-64, -5, 0, 8, 100, 200])
def test_a_box_anywhere(row, column):
    """Inside, across each edge and outside: zeros stand for what is not there, and all of its bytes are counted."""
    matrix = numbered(20, 136)
    padded = np.zeros((20 + 64, 136 + 512), np.uint16)
    padded[32:52, 256:392] = matrix
    got, machine = run(ONE, matrix, row, column)
    box = padded[32 + row : 40 + row, 256 + column : 320 + column]
    assert np.array_equal(got[:512], swizzled(box))
    (counts,) = [of for of in machine.counts().values() if of.by_class["copy"]]
    assert counts.global_load_bytes == 2 * np.count_nonzero(box)
    assert (counts.global_load_requests, counts.shared_store_bytes) == (1, 1024)
    spans = [np.flatnonzero(line) + column + 136 * (row + i) for i, line in enumerate(box)]
    assert counts.global_load_sectors == sum(len(set((span * 2 // 32).tolist())) for span in spans)


def test_a_map_that_is_brought_near():
    """Bringing it near changes nothing but the count."""
    matrix, near = numbered(20, 136), 'asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");\n'
    for body, prefetches in ((ONE, 0), (f"    if (t == 0) {near}{ONE}", 1)):
        got, machine = run(body, matrix)
        assert np.array_equal(got[:512], swizzled(matrix[:8, :64]))
        assert sum(counts.by_class["prefetch"] for counts in machine.counts().values()) == prefetches


def test_rows_of_bytes():
    """Without a map, bytes come as they lie."""
    body = ONE.replace("copy(s, map, column, row, &full)", "copy_bytes(s, matrix + 8, 1024, &full)")
    matrix = numbered(20, 136)
    assert np.array_equal(run(body, matrix)[0][:512], matrix.reshape(-1)[8:520])


RING = """
    if (t < 32) {
        for (int i = 0; i < 5; ++i) {
            if (i > 1) wait(i % 2 ? &empty : &spare, i / 2 + 1 & 1);
            if (t == 0) {
                unsigned long long* bar = i % 2 ? &other : &full;
                arrive_expect(bar, 1024);
                copy(s[i % 2], map, 0, 8 * i, bar);
            }
        }
    } else {
        unsigned sum = 0;
        for (int i = 0; i < 5; ++i) {
            wait(i % 2 ? &other : &full, i / 2 % 2);
            for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];
            arrive(i % 2 ? &empty : &spare);
        }
        c[t] = sum;
    }
"""
RING_BEGIN = BEGIN.replace("long full", "long full, other, spare").replace(
    "init(&full, 1);", "init(&full, 1); init(&other, 1); init(&spare, 32);"
)


def test_a_ring_of_two_tiles():
    """A warp fetches while another adds up: each tells the other by mbarriers alone."""
    matrix = numbered(40, 64)
    got, _ = run(RING, matrix, begin=RING_BEGIN)
    tiles = [swizzled(tile).reshape(8, 64) for tile in matrix.reshape(5, 8, 64)]
    assert np.array_equal(got[32:64], sum(tile.sum(0, dtype=np.uint16) for tile in tiles)[32:])


WRONG = {
    "the fetcher does not wait for readers": (
        "if (i > 1) wait(i % 2 ? &empty : &spare, i / 2 + 1 & 1);",
        "",
        "barrier",
    ),
    "a reader does not wait": ("wait(i % 2 ? &other : &full, i / 2 % 2);", "", "in flight"),
    "a reader lets go too early": (
        "for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];\n            arrive(i % 2 ? &empty : &spare);",
        "arrive(i % 2 ? &empty : &spare);\n            for (int j = 0; j < 8; ++j) sum += s[i % 2][j][t];",
        "race",
    ),
    "too few bytes expected": ("arrive_expect(bar, 1024)", "arrive_expect(bar, 512)", "deadlock"),
    "too many bytes expected": ("arrive_expect(bar, 1024)", "arrive_expect(bar, 2048)", "deadlock"),
    "a wrong parity": ("wait(i % 2 ? &other : &full, i / 2 % 2)", "wait(i % 2 ? &other : &full, 1)", "in flight"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_ring_gone_wrong(change):
    old, new, kind = change
    assert old in RING
    got = fault(RING.replace(old, new), numbered(40, 64), begin=RING_BEGIN)
    assert got.kind == kind, got


FAULTS = {
    "one thread waits for all": ("wait(&full, 0);", "if (t == 0) wait(&full, 0);", "in flight", "waited"),
    "two copies to one place": (
        "copy(s,",
        "copy(s, map, 0, 0, &full); copy(s,",
        "in flight",
        "copies to s at byte 0, whose",
    ),
    "a store before the copy": (
        "if (t == 0)",
        "s[0][0][t] = 1; if (t == 0)",
        "race",
        "copies to s at byte 2, which thread 1 wrote in line",
    ),
    "a tile off 128 bytes": ("copy(s,", "copy(&s[0][0][8],", "misaligned", "not a multiple of 128"),
    "past the end": ("copy(s,", "copy(&s[1][4],", "out of bounds", "to shared memory at byte 1536"),
    "not a map": ("copy(s, map", "copy(s, *(&map + 1)", "out of bounds", "where none is"),
    "not an mbarrier": ("row, &full", "row, (unsigned long long*)s", "uninitialised", "made one"),
}


@pytest.mark.parametrize("change", FAULTS.values(), ids=FAULTS)
def test_faults(change):
    old, new, kind, words = change
    got = fault(ONE.replace(old, new, 1), numbered(20, 136))
    assert got.kind == kind and words in str(got), got


def test_the_engine_is_to_know_of_the_mbarrier():
    got = fault(ONE, numbered(20, 136), begin=BEGIN.replace("fence();", ""))
    assert got.kind == "proxy" and "no fence" in str(got)


def test_one_thread_waits_and_a_barrier_tells_the_others():
    body = ONE.replace("wait(&full, 0);", "if (t == 40) wait(&full, 0);\n    __syncthreads();")
    assert np.array_equal(run(body, numbered(20, 136))[0][:512], swizzled(numbered(20, 136)[:8, :64]))


def test_a_matrix_that_holds_nothing_yet():
    assert fault(ONE, numbered(20, 136), written=False).kind == "uninitialised"


MAPS = {
    "rows of 15 halves": (np.zeros((4, 15), np.float16), 8, 64, "array"),
    "an empty matrix": (np.zeros((0, 16), np.float16), 8, 64, "array"),
    "a box too high": (np.zeros((4, 16), np.float16), 257, 64, "rows"),
    "a box too wide": (np.zeros((4, 16), np.float16), 8, 128, "columns"),
}


@pytest.mark.parametrize("of", MAPS.values(), ids=MAPS)
def test_maps_that_there_cannot_be(of):
    array, rows, columns, argument = of
    with pytest.raises(ArgumentError) as caught:
        TensorMap(array, rows, columns)
    assert caught.value.argument == argument
