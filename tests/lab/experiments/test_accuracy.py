"""Errors against float64 are what they are said to be, and the recording is what the simulator computes."""

import dataclasses
import math

import numpy as np
import pytest

import sgemm_tutorial as sg
from lab.experiments import accuracy
from lab.experiments.accuracy import error, measure, plan
from lab.records import files
from lab.variants import IN_BF16
from sgemm_tutorial import ArgumentError, cublas
from sgemm_tutorial.operands import BF16, FP16

from ...accumulation import accumulation_bound
from ...together import for_each
from ..records.test_timings import PROVENANCE

RECORD = accuracy.load()
KERNELS = (sg.find("11"), sg.find("14"), sg.find("15"), IN_BF16[0])


class Multiply:
    """NumPy's product, with an error put in."""

    name, types = "multiply", sg.find("14").types

    def __init__(self, change=lambda C: C):
        self.change = change

    def __call__(self, A, B):
        return self.change(A.astype(np.float64) @ B.astype(np.float64)).astype(np.float32)


def test_rounding_of_the_inputs_is_told_from_the_arithmetic():
    found = error(Multiply(), 64, side=32)
    assert found.arithmetic < 2**-24
    assert 2**-14 < found.total < 2**-10


def test_an_error_is_relative_to_what_was_added_up():
    A, B = (np.abs(matrix.astype(np.float16).astype(np.float64)) for matrix in sg.matrices(32, 32, 64, on_gpu=False))
    off = error(Multiply(lambda C: C + 0.001 * (A @ B)), 64, side=32)
    assert off.arithmetic == pytest.approx(0.001, rel=1e-3)


def test_what_overflows_is_lost():
    def half(C):
        C[:16] = np.inf
        return C

    found = error(Multiply(half), 16, side=32)
    assert found.lost == 0.5
    assert found.arithmetic < 2**-24
    assert error(Multiply(), 16, exponent=20, side=32).lost == 1
    assert math.isnan(error(Multiply(), 16, exponent=20, side=32).total)


def test_the_plan_is_recorded_of_kernels_and_of_cublas():
    assert [point.key for point in RECORD] == list(plan().keys())
    assert {point.kernel for point in RECORD} > {cublas.sgemm.name, cublas.gemm_ex.name}


def test_where_nothing_is_left_there_is_no_error_in_the_file_and_nan_in_python(monkeypatch, tmp_path):
    monkeypatch.setattr("lab.experiments.accuracy.error", lambda *what, on_gpu: error(*what, side=32))
    points = list(measure([(Multiply(), 16, 20), (Multiply(), 16, 0)]))
    assert [point.total is None for point in points] == [True, False]
    path = tmp_path / "accuracy.json"
    points = [dataclasses.replace(point, **files.fields(kernel)) for kernel in KERNELS[:3] for point in points]
    files.write(path, files.Recording(dict(PROVENANCE), {}, True, points))
    assert [math.isnan(point.total) for point in accuracy.load(path)] == 3 * [True, False]
    files.write(path, files.Recording(dict(PROVENANCE), {}, True, [dataclasses.replace(p, digest="") for p in points]))
    with pytest.raises(ArgumentError, match="recorded of other code"):
        accuracy.load(path)


@for_each(kernel=KERNELS, of=[(16, 0), (256, 0), (256, -20), (256, 14)])
def test_the_gpu_had_the_simulators_errors(kernel, of):
    K, exponent = of
    (recorded,) = [point for point in RECORD if point.key == (files.identity(kernel), K, exponent)]
    here = error(kernel, K, exponent)
    for what in ("total", "arithmetic", "lost"):  # NumPy's float64 product may differ in its last bits
        assert getattr(here, what) == pytest.approx(getattr(recorded, what), rel=1e-9)


@for_each(K=accuracy.DEPTHS, types=[FP16, BF16])
def test_tensor_cores_keep_the_documented_bound(K, types):
    """cuBLAS's too, whose order of additions is another."""
    A, B = (matrix.astype(types.operand) for matrix in sg.matrices(32, 32, K, on_gpu=False))
    size = np.abs(A.astype(np.float64)) @ np.abs(B.astype(np.float64))
    bound = float((accumulation_bound(A, B) / size).max())
    at = (types.name, K, 0)
    found = {point.kernel: point.arithmetic for point in RECORD if (point.types, point.K, point.exponent) == at}
    assert found.keys() >= {"14_wmma", cublas.gemm_ex.name}
    assert all(0 < error < bound for error in found.values())


def test_a_malformed_recording_is_named(tmp_path):
    path = tmp_path / "accuracy.json"
    path.write_text('{"points": [{"kernel": "x"}]}', encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"accuracy\.json"):
        accuracy.load(path)
