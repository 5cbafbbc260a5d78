"""A launch that is cut off leaves parts of sums in `workspace`, and 12 and 13 leave counts in `arrived`.

Parts can't matter: no launch reads a part that it has not written. Counts would. So the simulator gives each launch
counters of its own. On a GPU they end with the context, as `tests/gpu` shows, and no array that a faulty launch had is
handed out again.
"""

import functools
from types import SimpleNamespace

import cupy
import numpy as np
import pytest

from sgemm_tutorial import DeviceError, SimulationFault, gpu, operands, simulator

from .test_any_shape import SMALL as ANY_SHAPE
from .test_autotuned import SMALL as AUTOTUNED
from .test_autotuned import shared
from .test_half_kernels import drawn
from .test_stream_k import SMALL as STREAM_K
from .test_stream_k import among

CASES = {
    "12": (among(STREAM_K, 7), (64, 192, 40)),
    "13": (shared(AUTOTUNED, 31), (33, 65, 97)),
    "22": (ANY_SHAPE.divided(1, 3), (60, 30, 330)),
}
each_case = pytest.mark.parametrize(("kernel", "shape"), CASES.values(), ids=CASES)
LAUNCH_FAILURE = 719  # cudaErrorLaunchFailure, as after a trap
counting = pytest.mark.parametrize(("kernel", "shape"), list(CASES.values())[:2], ids=list(CASES)[:2])


def bits(kernel, shape, **more):
    """Run a launch, and return the bits of C."""
    operand, result = kernel.types.operand, kernel.types.result
    A, B, C = (of.astype(dtype) for of, dtype in zip(drawn(*shape), (operand, operand, result), strict=True))
    problem = operands.check(A, B, C, 1.5, 0.5, kernel.types)
    simulator.run(kernel.resolve(problem), problem, **more)
    return C.tobytes()


def held(arrays, monkeypatch):
    """Have launches given these arrays by name, and return those that they were given."""
    given, last = simulator.given, {}

    def instead(launch, problem):
        last.update(given(launch, problem) | arrays)
        return last.copy()

    monkeypatch.setattr(simulator, "given", instead)
    return last


@functools.cache
def left_by_a_launch_cut_off(kernel, shape, name):
    """Return an array as a launch leaves it that is cut off after something was written there, and before its end."""
    with pytest.MonkeyPatch.context() as patch:
        last = held({}, patch)
        for budget in range(2400, 0, -100):
            try:
                bits(kernel, shape, budget=budget)
            except SimulationFault:
                if np.nan_to_num(last[name]).any():
                    return last[name].copy()
    raise AssertionError(f"never cut off with anything in {name}")


@each_case
def test_the_next_launch_gives_the_same_bits(kernel, shape):
    want = bits(kernel, shape)
    left_by_a_launch_cut_off(kernel, shape, "arrived" if "arrived" in kernel.family.scratch else "workspace")
    assert bits(kernel, shape) == want


@each_case
def test_parts_that_are_left_do_not_matter(kernel, shape, monkeypatch):
    want, left = bits(kernel, shape), left_by_a_launch_cut_off(kernel, shape, "workspace")
    for workspace in (left, np.full_like(left, np.inf)):
        held({"workspace": workspace}, monkeypatch)
        assert bits(kernel, shape) == want


@counting
def test_counts_that_are_left_would(kernel, shape, monkeypatch):
    """The simulator notices too."""
    held({"arrived": left_by_a_launch_cut_off(kernel, shape, "arrived").copy()}, monkeypatch)
    with pytest.raises(SimulationFault, match=r"uninitialised: .* reads workspace"):  # as not all parts are there yet
        bits(kernel, shape)


def handed_out_by_the_gpu(monkeypatch):
    """Have launches given the scratch arrays that `gpu` hands out, NumPy's in CuPy's place; return them by name."""
    monkeypatch.setattr(cupy, "empty", lambda size, dtype: np.full(size, np.nan, dtype))
    monkeypatch.setattr(cupy, "zeros", np.zeros)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: SimpleNamespace(ptr=0))
    monkeypatch.setattr(gpu, "_held", SimpleNamespace())
    given, last = simulator.given, {}

    def instead(launch, problem):
        last.update(zip(("workspace", "arrived"), gpu._scratch(launch.division, 0), strict=True))
        return given(launch, problem) | last

    monkeypatch.setattr(simulator, "given", instead)
    return last


@counting
def test_a_gpu_hands_out_the_same_scratch_at_every_launch(kernel, shape, monkeypatch):
    last = handed_out_by_the_gpu(monkeypatch)
    want, first = bits(kernel, shape), dict(last)
    assert bits(kernel, shape) == want and all(last[name] is first[name] for name in first)


@counting
def test_after_a_fault_a_gpu_hands_out_other_scratch(kernel, shape, monkeypatch):
    """A launch is cut off with counts in its scratch. Its fault is what the next call of any kernel reports."""
    left = left_by_a_launch_cut_off(kernel, shape, "arrived")
    last = handed_out_by_the_gpu(monkeypatch)
    want = bits(kernel, shape)
    last["arrived"][:] = left
    with pytest.raises(SimulationFault):  # as long as it were handed out
        bits(kernel, shape)
    last["arrived"][:] = left
    with pytest.raises(DeviceError, match="the GPU failed"), gpu.reported(kernel.name):
        raise cupy.cuda.runtime.CUDARuntimeError(LAUNCH_FAILURE)
    assert bits(kernel, shape) == want
