"""A launch by hand computes what it should, is traced, and says what is wrong with it."""

import numpy as np
import pytest

from lab import launch
from sgemm_tutorial import ArgumentError, CompileError, SimulationFault

ADD = """
__global__ void add(int n, const float* x, const float* y, float* z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
"""


def arguments(n=1000):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    return {"n": np.int32(n), "x": x, "y": y, "z": np.full(n, np.nan, np.float32)}


def test_adds_and_traces():
    given = arguments()
    run = launch(ADD, "add", 4, 256, given, trace=[3])
    assert (given["z"] == given["x"] + given["y"]).all()
    (store,) = (access for access in run.trace if access.kind == "store")
    assert (store.array, store.block, len(store.threads)) == ("z", 3, 1000 - 3 * 256)
    assert (store.offsets == 4 * np.arange(768, 1000)).all()


def test_a_missing_guard_is_found():
    with pytest.raises(SimulationFault, match=r"out of bounds: add, line 5, block 3, thread 232"):
        launch(ADD.replace("if (i < n) ", ""), "add", 4, 256, arguments())


@pytest.mark.parametrize(("blocks", "threads", "name"), [(0, 256, "blocks"), (4, 0, "threads")])
def test_sizes_must_be_positive(blocks, threads, name):
    with pytest.raises(ArgumentError, match=f"^{name}: got 0, needs 1 or more"):
        launch(ADD, "add", blocks, threads, arguments())


def test_what_does_not_compile_says_where():
    with pytest.raises(CompileError, match=r"add\.cu"):
        launch(ADD.replace("z[i]", "w[i]"), "add", 4, 256, arguments())


def test_a_number_of_pythons_own_has_no_type():
    with pytest.raises(
        ArgumentError, match=r"n: got int 3, needs an array, or a scalar of the type declared: np\.int32\(3\)"
    ):
        launch('extern "C" __global__ void f(int n) {}', "f", 1, 32, {"n": 3})
