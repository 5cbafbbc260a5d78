"""Kernel 13 on a GPU: right, the same bits at every run, on every stream and on the simulator."""

import cupy
import numpy as np
import pytest

from lab import suite
from sgemm_tutorial import find, gpu, operands, simulate

from ..examples import floats

pytestmark = pytest.mark.skipif(not gpu.available(), reason="needs a GPU")

AUTOTUNED = find("13")
OLD = AUTOTUNED.variant(BM=64, BN=128, WM=32, TM=8, TN=8, STAGES=0, BLOCKS=2)
SHAPES = [(300, 300, 300), (64, 64, 4096), (33, 65, 1001), (1, 500, 300), (500, 1, 301), (16, 700, 512), (700, 16, 512)]


@pytest.fixture
def deep():
    """A function that makes operands of a product whose work many blocks share, from a seed."""

    def make(seed, M=96, N=160, K=20_000):
        A, B = (cupy.asarray(floats(*shape, seed=seed + of)) for of, shape in enumerate(((M, K), (K, N))))
        return operands.check(A, B, cupy.empty((M, N), np.float32), 1.0, 0.0)

    return make


@pytest.mark.parametrize("kernel", [AUTOTUNED, OLD], ids=["as it chooses", "through registers"])
def test_the_suite(kernel):
    assert suite(kernel, on_gpu=True).passed


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_bits_as_simulated(shape):
    M, N, K = shape
    where = gpu.place()
    A, B, C = floats(M, K), floats(K, N, seed=1), floats(M, N, seed=2)
    given = tuple(map(cupy.asarray, (A, B, C)))
    taken = AUTOTUNED.resolve(operands.check(*given, 1.5, -0.5), where).kernel  # what was tuned, maybe
    got = AUTOTUNED(*given, 1.5, -0.5)
    want = simulate(taken, A, B, C, 1.5, -0.5, architecture=where.architecture, multiprocessors=where.multiprocessors).C
    assert got.get().tobytes() == want.tobytes()


def test_the_same_bits_at_every_run(deep):
    problem, where = deep(0), gpu.place()
    assert AUTOTUNED.resolve(problem, where).kernel.resolve(problem, where).division.counts["shares"] > 0
    launch = AUTOTUNED.launcher(problem)
    launch()
    first = problem.C.copy()
    for _ in range(200):
        problem.C.fill(np.nan)
        launch()
        assert (first == problem.C).all()


def test_streams_do_not_get_in_each_others_way(deep):
    """Several of them launch at once, again and again, and each comes out as if it were alone."""
    problems = [deep(seed) for seed in range(0, 40, 10)]
    launches = [AUTOTUNED.launcher(problem) for problem in problems]
    alone = []
    for problem, launch in zip(problems, launches, strict=True):
        launch()
        alone.append(problem.C.copy())
        problem.C.fill(np.nan)
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in problems]
    for _ in range(100):
        for stream, launch in zip(streams, launches, strict=True):
            with stream:
                launch()
    cupy.cuda.Device().synchronize()
    for problem, want in zip(problems, alone, strict=True):
        assert (want == problem.C).all()


def test_the_counters_of_arrivals_are_left_zero(deep):
    problem = deep(0)
    AUTOTUNED.launcher(problem)()
    where = gpu.place()
    _, arrived = gpu._scratch(AUTOTUNED.resolve(problem, where).kernel.resolve(problem, where).division, 0)
    assert arrived.size
    assert not arrived.any()
