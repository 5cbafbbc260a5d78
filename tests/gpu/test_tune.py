"""The search on a GPU: every way that it tries is right, and what it finds is what 13 runs."""

import dataclasses

import cupy
import numpy as np
import pytest

from lab.correctness import excess
from lab.experiments import tune as module
from lab.experiments.tune import Search
from lab.measure import cublaslt, sweep
from lab.records.provenance import provenance
from sgemm_tutorial import find, gpu, operands, tuned
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.inputs import matrices

from ..examples import floats

pytestmark = pytest.mark.skipif(not gpu.available(), reason="needs a GPU")

SHAPES = [
    (256, 256, 256),
    (640, 512, 4096),
    (100, 50, 3001),
    (1, 4096, 4096),
    (4096, 1, 4096),
    (16, 4096, 1024),
    (33, 1, 7),
]


def problem(M, N, K, alpha=1.5, beta=0.5):
    A, B, C = (cupy.asarray(floats(*shape, seed=i)) for i, shape in enumerate(((M, K), (K, N), (M, N))))
    return operands.check(A, B, C, alpha, beta)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_cublaslt_offers_is_right(shape):
    of = problem(*shape)
    before, seen = of.C.copy(), set()
    for candidate in cublaslt.candidates(of):
        of.C[...] = before
        candidate.launch()
        assert bool((excess(of.C, of.A, of.B, before, 1.5, 0.5) <= 1).all()), candidate.text
        seen.add(candidate.text)
    assert seen or 1 in shape[:2], "it may have nothing for vectors"


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("types", [operands.FP16, operands.IN_16_BITS[operands.FP16]], ids=lambda types: types.name)
@pytest.mark.parametrize("shape", [(65, 71, 45), (100, 72, 203), (33, 203, 64), (64, 64, 64)], ids=str)
def test_what_cublaslt_offers_for_a_padded_product_is_right(shape, types, beta):
    M, N, K = shape
    A, B = (cupy.asarray(each) for each in matrices(M, N, K, on_gpu=False, types=types))
    before = cupy.asarray(floats(M, N).astype(types.result))
    of = operands.check(A, B, before.copy() if beta else cupy.full_like(before, np.nan), 1.5, beta, types)
    texts = []
    for candidate in cublaslt.candidates(of):
        of.C[...] = before if beta else np.nan
        candidate.launch()
        texts.append(candidate.text)
        if types.result.itemsize == 2 and "split K 1" not in texts[-1].split(", "):
            continue  # it may add its parts in 16 bits, which our bound doesn't allow
        assert bool((excess(of.C, A, B, before, 1.5, beta, types) <= 1).all()), texts[-1]
    assert any(text.endswith("padded") for text in texts) == (N % 8 + K % 8 > 0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_found_is_what_12_runs(shape, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    every = list(autotuned.SETTINGS)
    place = gpu.place()
    entered = module.taking_part([shape], place.architecture, place.multiprocessors, progress=False, among=every)
    search = Search(entered.kernels, every, place)
    plan = dataclasses.replace(module.plan([shape]), measure=lambda missing: (search.tune(size) for _, size in missing))
    monkeypatch.setattr(module, "plan", lambda *_: plan)
    recording = module.tune([shape], progress=False)
    (found,) = recording.points
    assert recording.complete and found.ms <= found.expected_ms
    assert tuned.path(provenance()["gpu"]).parent == tmp_path / "sgemm-tutorial"
    of = problem(*shape)
    kernel = find("13").resolve(of, gpu.place()).kernel
    counts = kernel.resolve(of, gpu.place()).division.counts
    assert tuple(kernel.parameters.values()) == found.best.setting
    assert (counts["whole"], counts["shares"]) == (found.best.whole, found.best.shares)
    before = of.C.copy()
    find("13")(of.A, of.B, of.C, 1.5, 0.5)
    assert np.all(cupy.asnumpy(excess(of.C, of.A, of.B, before, 1.5, 0.5)) <= 1)


def test_a_gpu_has_a_name():
    assert gpu.place().name in cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()


def test_values_of_a_rung_are_tried_and_timed(tmp_path):
    found = sweep.field("05", {"BM": [64, 128, 4096], "TM": [4, 8]}, gpu.architecture(), False)
    assert len(found.kernels) == 4 and found.obstacles[4096, 4].startswith("16,384 threads")
    path = tmp_path / "tune.json"
    record = sweep.sweep(found, [(512, 512, 512)], path=path, progress=False)
    assert record.complete and sweep.sweep(found, [(512, 512, 512)], path=path, progress=False) == record
    ranking = sweep.ranked(record, found)
    assert {setting for setting, _ in ranking} == set(found.kernels)
    assert [point.ms for _, point in ranking] == sorted(point.ms for point in record.points)
