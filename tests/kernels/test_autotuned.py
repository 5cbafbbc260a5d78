"""Kernel 13, simulated: right for any shape, however the work is divided; for orders of its blocks see `test_stream_k`.

`families.autotuned` chooses for a problem. Here divisions are made by hand too, so that small problems have
all that large ones have: tiles that two blocks share, and three, and more than one block adds up at once.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

from lab import check, resources, suite
from sgemm_tutorial import ArgumentError, SimulationFault, find, operands, simulate, simulator
from sgemm_tutorial.families import autotuned
from tools import compiled

from ..examples import floats
from .test_spills import ARCHITECTURES

pytestmark = pytest.mark.slow

AUTOTUNED = find("13")
SMALL = AUTOTUNED.variant(BM=16, BN=32, BK=32, WM=16, WN=32, TM=4, TN=4, SLICES=4, STAGES=4, BLOCKS=5)
WIDE = SMALL.variant(BM=32, BN=32, BK=16, WM=32, WN=32, TM=8, SLICES=2)
COLUMN = AUTOTUNED.variant(**autotuned.named(list(autotuned.SETTINGS)[-2]))
ROW = AUTOTUNED.variant(**autotuned.named(list(autotuned.SETTINGS)[-1]))


def shared(kernel, shares, whole=0):
    """Return the kernel with its work divided so: `whole` tiles have blocks of their own, or all but the last fifty."""

    class Shared(autotuned.Autotuned):
        def divide(self, kernel, problem, place):
            (M, N, K), of = problem.shape, kernel.parameters
            tiles, steps = -(-M // of["BM"]) * -(-N // of["BN"]), max(-(-K // of["BK"]), 1)
            alone = max(min(whole, tiles), tiles - 50)
            return autotuned.division(of, problem.shape, alone, min(shares, (tiles - alone) * steps))

    return dataclasses.replace(kernel, family=Shared())


def arrived(ran):
    """Return the arrival counters as the kernel left them."""
    (found,) = (buffer.data.view(np.uint32) for buffer in ran.execution.memory.buffers if buffer.name == "arrived")
    return found


KERNELS = {
    "five shares": shared(SMALL, 5),
    "through registers": shared(SMALL.variant(STAGES=0), 3, whole=1),
    "two slices": shared(WIDE, 7),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_suite(kernel):
    """The kernel that chooses for itself passes before it is broken: see `test_mutants`."""
    result = suite(kernel, on_gpu=False)
    assert result.passed, result.failures()


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (COLUMN, (37, 1, 700)),
        (COLUMN, (4, 1, 512)),
        (COLUMN, (1, 1, 0)),
        (COLUMN, (16, 1, 3)),
        (ROW, (1, 41, 700)),
        (ROW, (1, 64, 512)),
        (ROW, (3, 5, 129)),
        (ROW, (1, 32, 0)),
    ],
    ids=lambda value: getattr(value, "expression", str(value)),
)
def test_vectors(kernel, shape):
    for shares, shift, (alpha, beta) in (
        (0, 0, (1.0, 0.0)),
        (0, 1, (-1.5, 0.5)),
        (4, 0, (0.5, 2.0)),
        (3, 1, (1.0, 0.0)),
    ):
        divided = shared(kernel, shares, whole=0 if shares else 99)
        result = check(divided, *shape, alpha, beta, on_gpu=False, shift=shift)
        assert result.passed, result


def test_tiles_of_one_column_are_for_one_column():
    with pytest.raises(ArgumentError, match=r"B: got 2 columns, needs 1 column, as BN is 1"):
        COLUMN(floats(8, 8), floats(8, 2))


def test_more_than_two_levels():
    """More than 16² parts of one sum."""
    M, N, K = 3, 4, 32 * 300
    kernel = shared(SMALL, 300)
    assert check(kernel, M, N, K, on_gpu=False).passed
    problem = operands.check(floats(M, K), floats(K, N), None, 1.0, 0.0)
    ran = simulator.run(kernel.resolve(problem), problem)
    assert not arrived(ran).any()


@pytest.mark.parametrize("shares", [0, 1, 2, 3, 5, 9, 20])
def test_beta_counts_once(shares):
    """Whole numbers have one right result, to the bit."""
    random = np.random.default_rng(shares)
    A, B, C = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((20, 170), (170, 40), (20, 40)))
    want = 2 * (A @ B) - 3 * C
    shared(SMALL, shares, whole=0 if shares else 99)(A, B, C, 2.0, -3.0)
    assert np.array_equal(C, want)


def test_nan_in_C_does_not_survive():
    A, B, C = floats(20, 170), floats(170, 40, seed=1), np.full((20, 40), np.nan, np.float32)
    assert np.isfinite(shared(SMALL, 9)(A, B, C)).all()


def test_what_nobody_brought_is_not_added():
    """Reading a part of the workspace that no block wrote is a fault."""
    one_more = shared(SMALL, 2).edited(("member < (takes ? members : 0)", "member <= members"))
    with pytest.raises(SimulationFault, match=r"uninitialised.* reads workspace at byte \d+, never written"):
        one_more(floats(16, 320), floats(320, 32))


def test_a_counter_that_is_left_shows():
    left = shared(SMALL, 2).edited(("if (isLast) *ticket = 0;", ""))
    with pytest.raises(SimulationFault, match=r"left behind: 13_autotuned: counters in `arrived` that are not zero"):
        left(floats(16, 320), floats(320, 32))


def test_the_multiprocessors_of_another_gpu():
    A, B = floats(70, 300), floats(300, 90, seed=1)
    exact = A.astype(np.float64) @ B
    for multiprocessors in (1, 7, 40):
        run = simulate("13", A, B, multiprocessors=multiprocessors)
        assert np.abs(run.C - exact).max() < 1e-4


def test_before_compute_capability_8():
    A, B = floats(70, 300), floats(300, 90, seed=1)
    run = simulate("13", A, B, architecture="sm_75", multiprocessors=40)
    assert run.kernel.parameters["STAGES"] == 0
    assert run.total.by_class["copy"] == 0
    assert np.abs(run.C - A.astype(np.float64) @ B).max() < 1e-4


def test_blocks_of_a_grid_that_K_decides():
    A, B = floats(16, 320), floats(320, 32)
    with pytest.raises(ArgumentError, match=r"blocks: got .*, needs blocks from 0 to 3"):
        simulate(shared(SMALL, 4), A, B, blocks=[4])


def test_sums_in_parts_are_more_accurate():
    """The more parts, the shorter are the sums, and the less is lost by rounding."""
    A, B = floats(16, 32 * 64), floats(32 * 64, 32, seed=1)
    exact = A.astype(np.float64) @ B
    errors = [np.sqrt(np.mean((shared(SMALL, shares)(A, B) - exact) ** 2)) for shares in (1, 4, 16)]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_spills(architecture):
    """No chosen setting spills, whether rows lie in fours of words or not."""
    kernels = list(compiled.settled(architecture))
    assert len(kernels) == 2 * len(autotuned.SETTINGS)
    for kernel in kernels:
        used = resources(kernel, architecture)
        assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0), kernel.expression


MANY = 70_000  # shares: the last one's number times the shared steps is past 2³²


@pytest.mark.parametrize(
    ("edits", "right"),
    [
        ((), True),
        ((("size_t shared, from, to;", "unsigned shared, from, to;"),), False),
        ((("size_t shared, from, to;", "int shared, from, to;"),), False),
    ],
)
def test_shares_of_more_than_two_to_the_32_over_their_number(edits, right):
    """The first step of a share is computed in 64 bits. Only the last tile's blocks run, each with one step."""
    kernel = AUTOTUNED.variant(**autotuned.named(autotuned.ONE_WARP)).edited(*edits).divided(0, MANY)
    steps = 5
    M, N, K = MANY // steps * 16, 32, 8 * steps
    A, B, C = np.zeros((M, K), np.float32), floats(K, N), np.zeros((M, N), np.float32)
    A[-16:] = floats(16, K, seed=1)
    with contextlib.nullcontext() if right else pytest.raises((SimulationFault, AssertionError)):
        simulate(kernel, A, B, C, blocks=range(MANY - steps, MANY))
        np.testing.assert_allclose(C[-16:], A[-16:].astype(float) @ B, rtol=1e-4, atol=1e-4)
