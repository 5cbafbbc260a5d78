"""Counts of the ladder's kernels equal the chapters' formulas, and brute force at ragged sizes."""

from collections import Counter

import pytest

from sgemm_tutorial import LADDER, find, matrices, simulate

from ..examples import floats

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
