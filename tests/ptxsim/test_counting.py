"""The counters against brute force, and kernels counted by hand."""

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ptxsim.counting import Counts, by_warp, sectors, wavefronts

from ..examples import floats, steady
from .cuda import line_of, probe, simulate

# Brute force. A warp is a dict: the byte address of each lane that takes part.


def sectors_of(warp, width):
    return len({address // 32 for lane in warp for address in (warp[lane], warp[lane] + width - 1)})


def busiest_bank(addresses, width):
    """Return how many different words the bank with the most of them has to serve."""
    words = {address // 4 + i for address in addresses for i in range(max(width // 4, 1))}
    return max(Counter(word % 32 for word in words).values())


def wavefronts_of(warp, width, kind):
    """Return wavefronts and conflicts, by the rule in the docstring of `wavefronts`."""
    together = 128 // max(width, 4)
    if kind == "load" and width > 4:
        for step in (1, 2):
            both = [(lane, lane ^ step) for lane in warp if lane ^ step in warp]
            if all(warp[one] == warp[other] for one, other in both):
                together = 256 // width
    groups = {}
    for lane, address in warp.items():
        groups.setdefault(lane // together, []).append(address)
    total = sum(busiest_bank(addresses, width) for addresses in groups.values())
    return total, total - len(groups)


def table(warps, width=4):
    """Return the warps as `by_warp` arranges them."""
    slots = np.array([32 * i + lane for i, warp in enumerate(warps) for lane in sorted(warp)])
    return by_warp(slots, np.array([warp[lane] for warp in warps for lane in sorted(warp)]), len(warps))


@st.composite
def warps(draw, whole=False):
    """Draw a few warps' accesses: their width, and an address for some or all lanes, near or far from one another."""
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    spread = draw(st.sampled_from([1, 4, 31, 64, 1000]))
    stride = draw(st.sampled_from([0, 1, 2, 3, 32, 33]))
    repeat = draw(st.sampled_from([1, 1, 2, 4]))
    result = []
    for _ in range(draw(st.integers(1, 3))):
        lanes = range(32) if whole else sorted(draw(st.sets(st.integers(0, 31), min_size=1)))
        noise = draw(st.lists(st.integers(0, spread), min_size=32, max_size=32))
        result.append({lane: width * (noise[lane // repeat] + stride * (lane // repeat)) for lane in lanes})
    return width, result


@steady
@given(warps())
def test_sectors(case):
    width, some = case
    assert sectors(table(some)) == sum(sectors_of(warp, width) for warp in some)


@steady
@given(warps(), st.sampled_from(["load", "store"]))
def test_wavefronts(case, kind):
    width, some = case
    expected = [wavefronts_of(warp, width, kind) for warp in some]
    assert wavefronts(table(some), width, kind) == tuple(map(sum, zip(*expected, strict=True)))


@steady
@given(warps(whole=True), st.sampled_from(["load", "store"]))
def test_wavefronts_of_whole_warps(case, kind):
    width, some = case
    expected = [wavefronts_of(warp, width, kind) for warp in some]
    assert wavefronts(table(some), width, kind) == tuple(map(sum, zip(*expected, strict=True)))


@pytest.mark.parametrize(
    ("words", "expected"),
    [([0, 31], 1), ([0, 32], 2), ([1, 33, 65], 3), ([0, 33], 1), ([0, 32, 1, 33], 2), ([7, 7, 7], 1)],
)
def test_words_of_one_bank(words, expected):
    warp = {lane: 4 * word for lane, word in enumerate(words)}
    assert wavefronts(table([warp]), 4, "load") == wavefronts_of(warp, 4, "load") == (expected, expected - 1)


def test_warps_without_an_active_lane_do_not_count():
    slots = np.array([3, 5, 32 * 7, 32 * 7 + 31])
    rows = by_warp(slots, np.array([0, 64, 96, 96]), 9)
    assert rows.shape == (2, 32)
    assert sectors(rows) == 3
    assert by_warp(None, np.array([64]), 4).tolist() == [[64] * 32] * 4


# Counted by hand.


def test_instructions_of_a_kernel_counted_by_hand():
    """50 threads are two warps; 10 threads take the branch, all in the first."""
    kernel = probe(
        """
        float x = A[t];         // load
        if (t < 10)             // branch
            x = x * B[t] + x;   // in the branch
        C[t] = x;               // store""",
        threads=50,
    )
    run = simulate(kernel, floats(1, 50), floats(50, 50))
    total, load = run.total, run.lines[line_of(kernel, "// load")]
    inside, store = run.lines[line_of(kernel, "// in the branch")], run.lines[line_of(kernel, "// store")]
    assert (load.global_load_requests, load.global_load_sectors, load.global_load_bytes) == (2, 4 + 3, 200)
    assert (inside.global_load_requests, inside.global_load_sectors, inside.global_load_bytes) == (1, 2, 40)
    assert (inside.by_class["fma"], inside.flops) == (1, 2 * 10)
    assert (store.global_store_requests, store.global_store_sectors, store.global_store_bytes) == (2, 7, 200)
    assert total.flops == 20
    assert total.by_class["fma"] == 1
    assert total.by_class["global load"] == 3
    assert total.by_class["barrier"] == total.shared_load_requests == 0
    assert total.instructions == sum(total.by_class.values())
    assert run.total == sum(run.lines.values(), Counts())


def test_a_loop_counts_each_turn():
    """Thread t goes round t // 32 + 1 times: two warps once, two twice. K is 1, and its loop stays one."""
    kernel = probe(
        """
        float x = 0;
        #pragma unroll 1
        for (int i = 0; i <= int(t) / 64; ++i)
            x = x * A[i] + B[i];  // body
        C[t] = x;""",
        threads=128,
    )
    run = simulate(kernel, floats(1, 2), floats(2, 128))
    body = run.lines[line_of(kernel, "// body")]
    assert body.by_class["fma"] == 2 + 4
    assert body.flops == 2 * 32 * (2 + 4)
    assert body.global_load_requests == 2 * (2 + 4)
    assert body.global_load_sectors == 2 * (2 + 4)  # everyone reads the same word


def test_predicated_lanes_make_no_request():
    kernel = probe("if (t == 99) C[t] = A[t];\nC[t % 32] = 1;", threads=64)
    total = simulate(kernel, floats(1, 64), floats(64, 64)).total
    assert total.global_load_requests == 0
    assert (total.global_store_requests, total.global_store_sectors) == (2, 8)


def test_shared_memory_counted_by_hand():
    kernel = probe(
        """
        __shared__ float s[32 * 33];
        for (int i = t; i < 32 * 33; i += 32) s[i] = 0;
        __syncthreads();
        s[t] = A[t];             // a row
        s[32 + 32 * t] = 1;      // a column
        __syncthreads();
        C[t] = s[t / 2] + s[0];  // broadcasts
        C[t] += s[33 * t];       // a diagonal""",
    )
    run = simulate(kernel, floats(1, 32), floats(32, 32), np.zeros((1, 32), np.float32))
    marks = ("a row", "a column", "broadcasts", "a diagonal")
    lines = {mark: run.lines[line_of(kernel, "// " + mark)] for mark in marks}
    assert (lines["a row"].shared_store_wavefronts, lines["a row"].shared_store_conflicts) == (1, 0)
    assert (lines["a column"].shared_store_wavefronts, lines["a column"].shared_store_conflicts) == (32, 31)
    assert lines["broadcasts"].shared_load_requests == lines["broadcasts"].shared_load_wavefronts == 2
    assert lines["broadcasts"].shared_load_bytes == 2 * 32 * 4
    assert (lines["a diagonal"].shared_load_wavefronts, lines["a diagonal"].shared_load_conflicts) == (1, 0)
    assert run.total.by_class["barrier"] == 2


def test_sectors_of_a_warp_whose_second_lane_goes_back():
    rows = np.array([[0] * 32, [64, 32] + [64] * 30])
    assert sectors(rows) == 3
