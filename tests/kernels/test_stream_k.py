"""Kernel 12, simulated: right for any shape and number of shares.

12 and 13 give the same bits in any order of their blocks.
"""

import dataclasses
import math

import numpy as np
import pytest

from lab import check
from ptxsim import machine
from ptxsim.batch import Batch
from ptxsim.machine import extents
from ptxsim.scheduler import Scheduler
from sgemm_tutorial import SimulationFault, find, kernel_from, operands, simulator
from sgemm_tutorial.launch import SIMULATOR

from ..examples import floats
from .test_autotuned import SMALL as AUTOTUNED
from .test_autotuned import arrived, shared

pytestmark = pytest.mark.slow

BARRIER = f"{'__syncthreads();':51}"
STREAM_K = find("12")
SMALL = STREAM_K.variant(BM=32, BN=64, BK=8, WM=32, WN=32, TM=8, TN=4, STAGES=3)


def among(kernel, shares):
    """Return the kernel for a GPU that holds so many of its blocks."""

    class Shared(type(kernel.family)):
        def divide(self, kernel, problem, place):
            return super().divide(kernel, problem, place._replace(multiprocessors=shares))

    return dataclasses.replace(kernel, family=Shared())


@pytest.mark.parametrize(
    ("shape", "shares"),
    [
        ((32, 64, 64), 1),  # a tile, a share
        ((64, 128, 64), 4),  # a tile for each
        ((64, 128, 64), 2),  # two
        ((32, 64, 64), 8),  # a step for each
        ((32, 64, 64), 99),  # fewer steps than blocks
        ((64, 192, 40), 7),  # shares begin anywhere in a tile
        ((64, 192, 40), 4),  # and have more than a tile
        ((33, 129, 43), 11),  # edges, and a step that is not full
        ((31, 3, 7), 5),
        ((1, 1, 1), 3),
        ((5, 9, 0), 3),
        ((0, 9, 5), 3),
        ((9, 0, 5), 3),
    ],
    ids=str,
)
def test_any_shape_and_number_of_shares(shape, shares):
    for shift, alpha, beta in ((0, 1.0, 0.0), (1, -1.5, 0.5), (0, 0.0, 2.0)):
        result = check(among(SMALL, shares), *shape, alpha, beta, on_gpu=False, shift=shift)
        assert result.passed, result


def in_order(blocks, at_once):
    """Return a `Machine.run` that runs the grid's blocks in that order, `blocks` being a function of their numbers."""

    def run(self, grid, only=None, progress=False):
        shape = extents("grid", grid)
        todo = blocks(np.arange(math.prod(shape)))
        with np.errstate(all="ignore"):
            for start in range(0, len(todo), at_once):
                Scheduler(Batch(self.execution, todo[start : start + at_once], shape)).run()

    return run


ORDERS = {
    "one after the other": (lambda blocks: blocks, 1),
    "backwards": (lambda blocks: blocks[::-1], 1),
    "backwards, seven together": (lambda blocks: blocks[::-1], 7),
    "shuffled": (np.random.default_rng(0).permutation, 1),
    "shuffled, five together": (np.random.default_rng(1).permutation, 5),
}


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (among(SMALL, 8), (32, 64, 64)),
        (among(SMALL, 7), (64, 192, 40)),
        (among(SMALL, 11), (33, 129, 43)),
        (shared(AUTOTUNED, 2), (16, 32, 320)),
        (shared(AUTOTUNED, 3), (16, 32, 330)),
        (shared(AUTOTUNED, 23), (40, 70, 300)),
        (shared(AUTOTUNED, 31), (33, 65, 97)),
        (shared(AUTOTUNED, 40), (16, 32, 1280)),  # three groups of parts
        (shared(AUTOTUNED, 35), (20, 32, 1300)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_same_bits_in_any_order(kernel, shape, monkeypatch):
    """This holds for 12 and 13. Every counter of arrivals is zero again, as the next launch must find it."""
    M, N, K = shape
    A, B, C = floats(M, K), floats(K, N, seed=1), floats(M, N, seed=2)
    want = kernel(A, B, C.copy(), 1.5, 0.5)
    for blocks, at_once in ORDERS.values():
        monkeypatch.setattr(machine.Machine, "run", in_order(blocks, at_once))
        problem = operands.check(A, B, C.copy(), 1.5, 0.5)
        ran = simulator.run(kernel.resolve(problem), problem)
        assert problem.C.tobytes() == want.tobytes()
        assert arrived(ran).size and not arrived(ran).any()


@pytest.mark.parametrize(
    ("shares", "old", "new"),
    [
        (7, "isLast = before == others;", "isLast = before == others - 1;"),  # one part too early
        (7, "if (isLast) *arrived = 0;", ""),
        (7, "(share == first)", "0"),  # a share's two parts in one place
        (3, f"{BARRIER}// for all threads: the stages are free", "//"),  # a whole tile and then another
    ],
)
def test_a_bug_in_the_meeting_is_found(shares, old, new):
    try:
        result = check(among(SMALL.edited((old, new)), shares), 64, 192, 40, on_gpu=False)
    except SimulationFault:
        return
    assert not result.passed


def test_shares_are_equal():
    """Shares differ by a step at most. Where tiles are as many as blocks, or a multiple, the workspace has no part."""
    for shape, blocks in (((1024,) * 3, 132), ((2048,) * 3, 132), ((4096,) * 3, 132), ((100, 10, 10), 2)):
        problem = operands.check(*(np.empty(of, np.float32) for of in (shape[::2], shape[:0:-1])), None, 1.0, 0.0)
        found = STREAM_K.resolve(problem).division
        assert found.blocks == blocks
        assert found.counts == {"shares": blocks}
        assert found.workspace == 2 * blocks * 128 * 256
    problem = operands.check(np.zeros((512, 9), np.float32), np.zeros((9, 256 * 33), np.float32), None, 1.0, 0.0)
    whole = STREAM_K.resolve(problem)
    assert (whole.division.blocks, whole.division.workspace) == (132, 0)


def test_the_last_tile_alone():
    """The shares that have some of it compute it, or one block where the number of SMs is not known."""
    problem = operands.check(floats(64, 40), floats(40, 192), None, 1.0, 0.0)
    for shares, last in ((8, 2), (6, 1), (30, 5), (4, 1)):
        assert among(SMALL, shares).resolve(problem).division.last == last
    spread = SMALL.family.spread(SIMULATOR)
    assert SMALL.resolve(problem, spread).division.blocks == 6
    assert check(SMALL, 2**16, 2**15 + 33, 4, on_gpu=False, last_tile=True).passed


def test_a_copy_is_launched_like_it(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(STREAM_K.source, encoding="utf-8")
    mine = kernel_from(path, **SMALL.parameters)
    assert mine.family is STREAM_K.family and mine.least_capability == (8, 0)
    assert check(mine, 64, 192, 40, on_gpu=False).passed
