"""Barriers of warps, and which accesses they keep apart: by hand, and against every pair of accesses."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from ptxsim import SimulationFault
from ptxsim.machine import Machine
from ptxsim.memory import SharedMemory, Violation
from ptxsim.ptx import parse

from ..examples import steady
from .cuda import line_of, probe, run_bits

EXCHANGE = "__shared__ unsigned s[64];\ns[t] = a[t % 32];\n{}\nc[t] = s[{}];  // here"


def test_a_warp_shares_after_its_barrier():
    kernel = probe(EXCHANGE.format("__syncwarp();", "t ^ 31"), threads=64)
    bits, run = run_bits(kernel, range(32))
    assert bits.tolist() == [i ^ 31 for i in range(32)] * 2
    assert run.total.by_class["warp barrier"] == 2
    assert run.total.by_class["barrier"] == 0


@pytest.mark.parametrize(
    ("barrier", "read", "thread", "other"),
    [
        ("", "t ^ 31", 0, 31),
        ("__syncwarp();", "t ^ 32", 0, 32),
        ("__syncwarp();", "(t + 1) % 64", 31, 32),
        ("if (t < 32) __syncwarp();", "t ^ 1", 32, 33),
    ],
)
def test_what_no_barrier_keeps_apart_is_a_race(barrier, read, thread, other):
    kernel = probe(EXCHANGE.format(barrier, read), threads=64)
    with pytest.raises(SimulationFault, match=rf"race.*thread {thread}: reads .* which thread {other} wrote") as caught:
        run_bits(kernel, range(32))
    assert caught.value.line == line_of(kernel, "// here")


@pytest.mark.parametrize(
    ("read", "barrier", "writer", "words"),
    [
        ("t / 32", "", 3, "warp 0 read"),
        ("t / 32", "", 35, "warp 0 read"),
        ("t / 64", "", 3, "several threads read"),
        ("t / 32 ", "__syncwarp();", 35, "warp 0 read"),
        ("t / 64", "__syncwarp();", 3, "several threads read"),
    ],
)
def test_writes_to_what_others_read(read, barrier, writer, words):
    kernel = probe(
        f"""
        __shared__ unsigned s[64];
        s[t] = a[0];
        __syncthreads();
        const unsigned x = s[{read}];
        {barrier}
        if (t == {writer}) s[0] = 1;  // here
        c[t] = x + s[63 - t % 2];
        __syncwarp();""",
        threads=64,
    )
    with pytest.raises(SimulationFault, match=f"race.*thread {writer}: writes s at byte 0, which {words}") as caught:
        run_bits(kernel)
    assert caught.value.line == line_of(kernel, "// here")


def test_a_write_after_the_barrier_of_the_warp_that_read():
    kernel = probe(
        """
        __shared__ unsigned s[64];
        s[t] = a[t % 32];
        __syncwarp();
        const unsigned x = s[t / 32 * 32 + 5];
        __syncwarp();
        s[t ^ 5] = 3;
        c[t] = x;""",
        threads=64,
    )
    assert run_bits(kernel, range(10, 42))[0].tolist() == [15] * 64


def test_lanes_wait_at_the_barrier_for_those_that_come_later():
    program = parse(
        """.visible .entry f(.param .u64 f_param_0)
        {
            .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
            .shared .align 4 .b8 s[256];
            ld.param.u64 %rd1, [f_param_0];
            mov.u32 %r1, %tid.x;
            shl.b32 %r2, %r1, 2;
            st.shared.u32 [%r2], %r1;
            setp.lt.u32 %p1, %r1, 40;
            and.b32 %r3, %r1, 3;
            setp.eq.s32 %p2, %r3, 0;
            @%p2 bra $late;
        $meet:
            bar.warp.sync -1;
            xor.b32 %r4, %r2, 4;
            ld.shared.u32 %r5, [%r4];
            mul.wide.u32 %rd2, %r1, 4;
            add.s64 %rd3, %rd1, %rd2;
            st.global.u32 [%rd3], %r5;
            ret;
        $late:
            add.s32 %r1, %r1, 100;
            st.shared.u32 [%r2], %r1;
            sub.s32 %r1, %r1, 100;
            bra.uni $meet;
        }""",
        "f",
    )
    out = np.zeros(48, np.uint32)  # the second warp has 16 lanes
    machine = Machine(program, "f", 48, {"out": out})
    machine.run(1)
    assert out.tolist() == [i + 100 * (i % 4 == 0) for i in (t ^ 1 for t in range(48))]


@pytest.mark.parametrize("elsewhere", ["return;", "__syncthreads();"], ids=["has left", "waits elsewhere"])
def test_a_barrier_that_not_all_lanes_reach(elsewhere):
    """Lanes that have left the kernel need not come; others that the mask names must."""
    kernel = probe(f"if (t == 40) {elsewhere}\nelse if (t > 31) __syncwarp();  // here\nc[t] = t;", threads=64)
    if elsewhere == "return;":
        bits, _ = run_bits(kernel)
        assert np.delete(bits, 40).tolist() == [t for t in range(64) if t != 40]
        return
    with pytest.raises(SimulationFault, match=r"barrier.*thread 32: waits .* thread 40 of its warp") as caught:
        run_bits(kernel)
    assert caught.value.line == line_of(kernel, "// here")


# Stamps against pairs, for threads of the first and the last of 32 warps and two places in memory.

THREADS = (0, 1, 2, 992, 993)
threads = st.lists(st.sampled_from(THREADS), min_size=1, max_size=3, unique=True).map(sorted)
steps = st.one_of(
    st.tuples(st.just("load"), threads, st.lists(st.integers(0, 1), min_size=3, max_size=3)),
    st.tuples(
        st.sampled_from(["store 1", "store 2"]),
        st.sampled_from(THREADS).map(lambda thread: [thread]),
        st.tuples(st.integers(0, 1)),
    ),
    st.tuples(st.just("warp"), st.sampled_from([0, 31]), st.none()),
    st.tuples(st.just("block"), st.none(), st.none()),
)


class Pairs:
    """Races by definition: every access is held against all before it. A store of the value there meets no store."""

    def __init__(self):
        self.time, self.warp_time, self.accesses, self.values = 0, [0] * 32, [], ["", ""]

    def races(self, kind, thread, place):
        warp, same = thread // 32, kind == self.values[place]
        if kind != "load":
            self.values[place] = kind
        mine = (kind, thread, place, self.time, self.warp_time[warp])
        found = any(
            place == where
            and (kind != "load" or what != "load")
            and not (same and what != "load")
            and thread != who
            and self.time == when
            and not (warp == who // 32 and self.warp_time[warp] != warp_when)
            for what, who, where, when, warp_when in self.accesses
        )
        self.accesses.append(mine)
        return found


@steady
@given(st.lists(steps, max_size=14))
@example([("load", [0, 992], [1, 1, 0]), ("warp", 31, None), ("store 1", [993], (1,))])
@example([("load", [0], [0, 0, 0]), ("load", [992], [0, 0, 0]), ("load", [992], [0, 0, 0]), ("store 1", [992], (0,))])
@example([("store 1", [0], (0,)), ("store 1", [1], (0,)), ("warp", 0, None), ("load", [0], [0, 0, 0])])
@example([("store 1", [0], (0,)), ("store 1", [992], (0,)), ("warp", 31, None), ("load", [993], [0, 0, 0])])
@example([("store 1", [992], (0,)), ("store 1", [0], (0,)), ("store 1", [992], (0,)), ("load", [992], [0, 0, 0])])
def test_races_are_those_of_pairs(program):
    memory, pairs = SharedMemory([], 8, 1, 4, warpwise=True), Pairs()
    memory.store(np.array([0, 4], np.uint64), np.zeros(2, int), np.array([0, 0]), [np.zeros(2, np.uint32)])
    memory.interval += 1
    for kind, who, places in program:
        if kind == "block":
            memory.interval += 1
            pairs.time += 1
        elif kind == "warp":
            memory.warp_interval[who] += 1
            pairs.warp_time[who] += 1
        else:
            expected = sum(pairs.races(kind, thread, place) for thread, place in zip(who, places, strict=False)) > 0
            addresses = 4 * np.array(places[: len(who)], np.uint64)
            block, thread = np.zeros(len(who), int), np.array(who)
            try:
                if kind == "load":
                    memory.load(addresses, block, thread, np.dtype(np.uint32), 1)
                else:
                    memory.store(addresses, block, thread, [np.full(1, kind[-1], np.uint32)])
                raced = False
            except Violation as violation:
                assert violation.kind == "race"
                raced = True
            assert raced == expected
            if raced:
                return
