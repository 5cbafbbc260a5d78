"""stmatrix and ldmatrix put each element where the simulator says, bit for bit."""

import cupy
import numpy as np
import pytest

from sgemm_tutorial import gpu

from ..ptxsim.test_mma import ldmatrix, stmatrix
from ..sources import probe, run_bits

pytestmark = pytest.mark.skipif(not gpu.available(), reason="needs a GPU")

WARPS = 4
THREADS = 32 * WARPS
ROWS = 64  # of 16 bytes, in the kilobyte that each warp has
COLUMNS = 4 * ROWS * WARPS + 4 * THREADS  # of C: words of shared memory, and then what each thread has loaded

BODY = """
    if (blockIdx.x) return;
    __shared__ __align__(16) unsigned s[1024];
    for (int i = t; i < 1024; i += 128) s[i] = 0xdeadbeef + i;
    __syncthreads();
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = a[4 * t + i];
    const unsigned at = unsigned(__cvta_generic_to_shared(s)) + t / 32 * 1024 + a[512 + t] * 16;
    STORE
    for (int i = 0; i < 4; ++i) r[i] = i;
    __syncwarp();
    LOAD
    __syncthreads();
    for (int i = t; i < 1024; i += 128) c[i] = s[i];
    for (int i = 0; i < 4; ++i) c[1024 + 4 * t + i] = r[i];
"""


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_and_ldmatrix_are_as_simulated(tmp_path, count, stored, loaded):
    if gpu.capability() < (9, 0):
        pytest.skip("stmatrix is for compute capability 9.0 and later")
    body = BODY.replace("STORE", stmatrix(count, stored, "at")).replace("LOAD", ldmatrix(count, loaded, "at"))
    kernel = probe(tmp_path, body, THREADS)
    random = np.random.default_rng(count)
    places = np.concatenate([random.permutation(ROWS)[:32] for _ in range(WARPS)])
    words = np.concatenate([random.integers(0, 1 << 32, 4 * THREADS, np.uint32), places.astype(np.uint32)])
    simulated, _ = run_bits(kernel, words, columns=COLUMNS)
    B = cupy.zeros((len(words), COLUMNS), np.float32)
    got = kernel(cupy.asarray(words.view(np.float32)[None]), B).get().view(np.uint32)[0]
    assert np.array_equal(got, simulated)
