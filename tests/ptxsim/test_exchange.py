"""Shuffles within a warp, atomic additions and fences: what they do, count, and refuse."""

import numpy as np
import pytest

from ptxsim import SimulationFault

from .cuda import line_of, probe, run_bits, simulate


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("__shfl_xor_sync(~0u, x, 5)", lambda t: t ^ 5),
        ("__shfl_xor_sync(~0u, x, 16)", lambda t: t ^ 16),
        ("__shfl_sync(~0u, x, 7)", lambda t: t // 32 * 32 + 7),
        ("__shfl_sync(~0u, x, t * 3 + 40)", lambda t: t // 32 * 32 + (t * 3 + 40) % 32),
    ],
)
def test_a_shuffle_brings_another_lanes_value(call, source):
    kernel = probe(f"const unsigned x = a[t % 32] + t;\nc[t] = {call};", threads=96)
    given = np.random.default_rng(0).integers(0, 2**31, 32)
    bits, run = run_bits(kernel, given)
    value = [int(given[t % 32]) + t for t in range(96)]
    assert bits.tolist() == [value[source(t)] for t in range(96)]
    assert run.total.by_class["shuffle"] == 3


def test_a_shuffle_in_one_warp_only():
    kernel = probe("unsigned x = t;\nif (t >= 32) x = __shfl_xor_sync(~0u, x, 1);\nc[t] = x;", threads=64)
    bits, run = run_bits(kernel)
    assert bits.tolist() == [*range(32), *(t ^ 1 for t in range(32, 64))]
    assert run.total.by_class["shuffle"] == 1


def test_a_shuffle_without_the_whole_warp_is_a_fault():
    """Nobody knows the value of a lane that is not there."""
    kernel = probe("unsigned x = a[0];\nif (t % 32 < 9 + a[1])\n x = __shfl_xor_sync(~0u, x, 1);  // here\nc[t] = x;")
    with pytest.raises(
        SimulationFault,
        match=r"shuffle.*thread 0: waits for lanes of its warp that are not here: 0xfffff800 of its mask",
    ) as caught:
        run_bits(kernel, (1, 2))
    assert caught.value.line == line_of(kernel, "// here")


def test_an_atomic_addition_finds_what_the_lanes_before_left():
    """One word for all lanes; one for each; and a word that two lanes in different warps have in common."""
    kernel = probe("c[t] = atomicAdd(const_cast<unsigned*>(a) + t * b[0] % b[1], t + 1);", threads=64)
    before = np.arange(100, 164, dtype=np.uint32)
    for step, words in ((0, 1), (1, 64), (1, 32)):
        A = np.zeros((1, 64), np.uint32)
        A[0] = before
        B = np.zeros((64, 64), np.uint32)
        B.ravel()[:2] = step, words
        C = simulate(kernel, A.view(np.float32), B.view(np.float32)).C.view(np.uint32)[0]
        words_now = before.copy()
        for t in range(64):
            assert C[t] == words_now[t * step % words]
            words_now[t * step % words] += t + 1
        assert np.array_equal(A[0], words_now)


def test_additions_wrap_and_are_counted():
    kernel = probe("c[t] = 0xfffffff0u;\nc[t] = atomicAdd(c + t, a[0]) + c[t];")
    bits, run = run_bits(kernel, (20,))
    assert bits.tolist() == [(0xFFFFFFF0 + 4) % 2**32] * 32
    assert run.total.by_class["atomic"] == 1
    assert run.total.global_store_requests == 2  # those of the stores


def test_additions_to_what_nothing_wrote_and_beyond():
    kernel = probe("atomicAdd(c + t, 1u);")
    with pytest.raises(SimulationFault, match=r"uninitialised.*reads C at byte 0, never written"):
        run_bits(kernel)


FENCED = "__threadfence(); before = atomicAdd(const_cast<unsigned*>(a), 1);"
ORDERED = "before = __nv_atomic_fetch_add(const_cast<unsigned*>(a), 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);"


@pytest.mark.parametrize("count, fences", [(FENCED, 40), (ORDERED, 0)], ids=["fence", "acquire and release"])
def test_the_last_to_arrive_sees_what_the_others_left(count, fences):
    """Blocks that leave a word each, and count themselves: one of them finds all of it there."""
    kernel = probe(
        f"""
        c[blockIdx.x * 32 + t] = t;
        __shared__ unsigned before;
        __syncthreads();
        if (t == 0) {{ {count} }}
        __syncthreads();
        if (before == gridDim.x - 1)
            for (unsigned i = 0; i < gridDim.x; ++i) c[i * 32 + t] += before * 100;""",
    )
    bits, run = run_bits(kernel, columns=32 * 40)
    assert bits.tolist() == [t + 3900 for t in range(32)] * 40
    assert run.total.by_class["fence"] == fences and run.total.by_class["atomic"] == 40
