"""The counters against brute force, kernels counted by hand, the chapters' formulas, and an H100's wavefronts."""

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from lab.experiments import counters
from ptxsim.counting import Counts, by_warp, sectors, wavefronts
from sgemm_tutorial import LADDER, find, matrices, simulate

from ..sources import floats, line_of, probe, steady

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


def test_the_rules_hold_for_everything_the_hardware_counted():
    """Shared-memory patterns of all widths, some with lanes missing: wavefronts and bank conflicts, to the last one."""
    points = counters.patterns()
    assert {(p.kind, p.width) for p in points} == {(kind, width) for kind in ("load", "store") for width in (4, 8, 16)}
    for point in points:
        warp = {lane: point.width * element for lane, element in enumerate(point.elements) if element >= 0}
        measured = (point.wavefronts, point.conflicts)
        assert wavefronts(table([warp]), point.width, point.kind) == measured, point
        assert wavefronts_of(warp, point.width, point.kind) == measured, point


# Counted by hand.


def test_instructions_of_a_kernel_counted_by_hand(tmp_path):
    """50 threads are two warps; 10 threads take the branch, all in the first."""
    kernel = probe(
        tmp_path,
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


def test_a_loop_counts_each_turn(tmp_path):
    """Thread t goes round t // 32 + 1 times: two warps once, two twice. K is 1, and its loop stays one."""
    kernel = probe(
        tmp_path,
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


def test_predicated_lanes_make_no_request(tmp_path):
    kernel = probe(tmp_path, "if (t == 99) C[t] = A[t];\nC[t % 32] = 1;", threads=64)
    total = simulate(kernel, floats(1, 64), floats(64, 64)).total
    assert total.global_load_requests == 0
    assert (total.global_store_requests, total.global_store_sectors) == (2, 8)


def test_shared_memory_counted_by_hand(tmp_path):
    kernel = probe(
        tmp_path,
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


# The formulas of the chapters. Sizes are multiples of the tiles; "per output" counts divide by M·N.

WHOLE = [(32, 32, 32), (64, 96, 32), (128, 64, 96)]


def whole(kernel, shape):
    M, N, K = shape
    total = simulate(kernel, floats(M, K), floats(K, N)).total
    assert total.by_class["fma"] == M * N * K // 32
    assert total.flops == 2 * M * N * K + M * N  # one multiplication by α per output
    assert total.global_store_requests == M * N // 32
    assert total.global_store_bytes == 4 * M * N
    return total


@pytest.mark.parametrize(("name", "a", "b", "c"), [("01", 32, 1, 32), ("02", 1, 4, 4)])
@pytest.mark.parametrize("shape", WHOLE)
def test_formulas_of_one_thread_per_output(name, a, b, c, shape):
    """A warp's loads of A and B and its store to C touch a, b and c sectors; 2K loads per output."""
    (M, N, K), total = shape, whole(find(name), shape)
    assert total.global_load_bytes == 2 * K * M * N * 4
    assert total.global_load_requests == 2 * K * M * N // 32
    assert total.global_load_sectors == (a + b) * K * M * N // 32
    assert total.global_store_sectors == c * M * N // 32
    assert total.shared_load_requests == total.shared_store_requests == total.by_class["barrier"] == 0


@pytest.mark.parametrize("BK", [32, 96])
@pytest.mark.parametrize("shape", [(32, 32, 96), (64, 96, 96), (128, 64, 192)])
def test_formulas_of_the_shared_tile(shape, BK):
    """Per output K/16 loads from global memory and 2K from shared memory, without a conflict, however deep the tile."""
    (M, N, K), total = shape, whole(find("03").variant(BM=32, BN=32, BK=BK), shape)
    assert total.global_load_bytes == K // 16 * M * N * 4
    assert total.global_load_requests == K // 16 * M * N // 32
    assert total.global_load_sectors == 4 * total.global_load_requests
    assert total.global_store_sectors == 4 * total.global_store_requests
    assert total.shared_load_requests == total.shared_load_wavefronts == 2 * K * M * N // 32
    assert total.shared_load_bytes == 2 * K * M * N * 4
    assert total.shared_store_requests == total.shared_store_wavefronts == K // 16 * M * N // 32
    assert total.shared_load_conflicts == total.shared_store_conflicts == 0
    assert total.by_class["barrier"] == 2 * K // BK * M * N // 32


@pytest.mark.parametrize("kernel", LADDER[:-1], ids=lambda kernel: kernel.name)
def test_what_beta_and_alpha_cost(kernel):
    A, B, C = floats(64, 40), floats(40, 96), floats(64, 96)
    plain = simulate(kernel, A, B, C.copy()).total
    added = simulate(kernel, A, B, C.copy(), 1.0, 2.0).total
    assert added.global_load_bytes == plain.global_load_bytes + C.nbytes
    per_element = (added.flops - plain.flops) / C.size
    fours = LADDER.index(kernel) >= 6  # from 07 on, of a tile that hangs over the edge, some that no one stores
    padded = -(-96 // kernel.parameters["BN"]) * kernel.parameters["BN"]
    assert 2 <= per_element <= 3 * padded / 96 if fours else per_element == 2
    scaled = simulate(kernel, A, B, C.copy(), 0.0, 2.0).total
    assert scaled.global_load_bytes == C.nbytes
    assert scaled.shared_load_requests == 0
    assert simulate(kernel, A, B, C.copy(), 0.0, 0.0).total.global_load_requests == 0


# Ragged sizes: which element each lane wants, worked out from the chapters' mapping of threads to elements.


def place(kernel, block, thread, N):
    of = kernel.parameters
    tiles = -(-N // of["BN"])
    by_columns = kernel.name == "01_naive"
    at = (thread % of["BM"], thread // of["BM"]) if by_columns else divmod(thread, of["BN"])
    return block // tiles * of["BM"] + at[0], block % tiles * of["BN"] + at[1]


def ragged(kernel, M, N, K):
    """Return requests and sectors of loads and of stores, by brute force."""
    counts = Counter()

    def request(kind, elements):
        if elements:
            counts[f"{kind}_requests"] += 1
            counts[f"{kind}_sectors"] += len({element // 8 for element in elements})

    for block in range(kernel.grid(M, N)):
        for warp in range(kernel.threads // 32):
            lanes = [place(kernel, block, thread, N) for thread in range(32 * warp, 32 * warp + 32)]
            inside = [(row, col) for row, col in lanes if row < M and col < N]
            request("store", [row * N + col for row, col in inside])
            if "BK" not in kernel.parameters:
                for k in range(K):
                    request("load", [row * K + k for row, _ in inside])
                    request("load", [k * N + col for _, col in inside])
                continue
            for k0 in range(0, K, 32):
                request("load", [row * K + k0 + i for i, (row, _) in enumerate(lanes) if row < M and k0 + i < K])
                request("load", [(k0 + warp) * N + col for _, col in lanes if col < N and k0 + warp < K])
    return dict(counts)


@pytest.mark.parametrize("name", ["01", "02", "03"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 41, 13), (7, 70, 35), (70, 3, 33)])
def test_ragged_sizes(name, shape):
    (M, N, K), kernel = shape, find(name)
    if name == "03":
        kernel = kernel.variant(BM=32, BN=32)
    total = simulate(kernel, floats(M, K), floats(K, N)).total
    names = [f"{kind}_{what}" for kind in ("load", "store") for what in ("requests", "sectors")]
    assert {what: getattr(total, f"global_{what}") for what in names} == ragged(kernel, M, N, K)


@pytest.mark.parametrize("kernel", LADDER[:-1], ids=lambda kernel: kernel.name)
def test_simulated_instructions_grow_with_the_work(kernel):
    """Twice K is twice the steps, and twice M and N are four times the blocks."""
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    step = max(32, kernel.parameters.get("BK", 0))  # as many tiles as there are stages, or more

    def executed(M, N, K):
        return simulate(kernel, *matrices(M, N, K, on_gpu=False)).total.instructions

    start, *further = (executed(BM, BN, K) for K in (step, 2 * step, 3 * step))
    assert further[1] - further[0] == further[0] - start > 0
    assert executed(2 * BM, 2 * BN, step) == 4 * start
