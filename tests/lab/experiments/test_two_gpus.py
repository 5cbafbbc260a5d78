"""Recordings of products on two GPUs."""

from pathlib import Path

import pytest

from lab import several
from lab.experiments import two_gpus
from lab.experiments.two_gpus import READS_OF
from sgemm_tutorial import ArgumentError, cublas, find

from ...together import for_each

KERNELS = [find("13"), find("20"), cublas.sgemm, cublas.gemm_ex]
SIZES = (2048, 4096, 8192, 16384)
WAYS = [way for way in several.WAYS if way != "grid"]  # on two GPUs it is *ahead*


@for_each(kernel=KERNELS, size=SIZES)
def test_one_gpu_and_every_way_of_two(kernel, size):
    one, *two = (two_gpus.of(kernel, size, gpus, way) for gpus, way in [(1, "held"), *((2, way) for way in WAYS)])
    assert two_gpus.of(kernel, size) == one and [point.way for point in two] == WAYS
    for point in (one, *two):
        assert (point.kernel, point.size, point.alone) == (kernel.name, (size, size, size), False)
        assert point.gpus == 1 + (point is not one)
        assert 0 < point.ms_p10 <= point.ms <= point.ms_p90
        assert point.tflops == pytest.approx(2 * size**3 / (point.ms / 1e3) / 1e12)
    held = two[0]
    assert one.ms < 2.05 * held.ms, "two GPUs have twice the multiprocessors of one, and no more"
    assert all(held.ms < 1.03 * point.ms for point in two), "that nothing need come can but help"


def problems(plan):
    return [(size[0], gpus, way, alone) for _, size, gpus, way, alone in plan.items]


@pytest.mark.parametrize(("there", "numbers"), [(0, [2]), (1, [2]), (2, [2]), (3, [2]), (6, [2, 4]), (8, [2, 4, 8])])
def test_the_plan_is_for_the_gpus_that_there_are(monkeypatch, there, numbers):
    """Points of two GPUs stay in it, and one GPU is measured at every size."""
    of_two = two_gpus.plan().keys()
    monkeypatch.setattr(several, "count", lambda: there)
    plan = two_gpus.plan()
    assert of_two.keys() <= plan.keys().keys() and len(plan.items) == len(plan.keys())
    assert sorted({gpus for _, gpus, *_ in problems(plan)}) == [1, *numbers]
    sizes = [size for size, gpus, way, alone in problems(plan) if (gpus, way, alone) == (numbers[-1], "columns", False)]
    assert sizes.count(32768) == 4 * (numbers != [2]) and sizes.count(16384) == 4
    assert {size for size, *_ in problems(plan)} == {size for size, gpus, *_ in problems(plan) if gpus == 1}
    assert {gpus for _, gpus, way, _ in problems(plan) if way == "grid"} == set(numbers) - {2}


def test_without_a_recording_the_plan_is_for_two(monkeypatch):
    monkeypatch.setattr(two_gpus.files, "path_of", lambda name: Path("nowhere.json"))
    monkeypatch.setattr(several, "count", lambda: 0)
    assert two_gpus.numbers() == [2]


@pytest.mark.parametrize("gemm", KERNELS[2:], ids=lambda gemm: gemm.name)
def test_panels_that_come_alone(gemm):
    """Not faster than NVLink's 450 GB/s, and not slower than when something is multiplied besides."""
    for way in ("gathered", "ahead"):
        points = [two_gpus.of(gemm, size, 2, way, alone=True) for size in SIZES]
        for point in points:
            assert point.alone and point.way == way
            panel = point.K * point.N * gemm.types.operand.itemsize / 2
            assert panel / (point.ms / 1e3) < 450e9
            assert point.ms < two_gpus.of(gemm, point.M, 2, way).ms
        assert [point.ms for point in points] == sorted(point.ms for point in points)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((find("11"), 4096), "11_async_pipeline<.*not in the recording two_gpus"),
        ((cublas.dgemm, 4096), "dgemm<.*not in the recording two_gpus"),
        (
            (find("13"), 1000),
            "size, gpus, way, alone: got 1000×1000×1000, 1, held, False, needs what was recorded of 13",
        ),
        ((find("13"), 4096, 3), "4096×4096×4096, 3, held, False"),
        ((find("13"), 4096, 2, "by post"), "by post"),
        ((cublas.sgemm, 4096, 2, "held", True), "4096×4096×4096, 2, held, True"),
    ],
)
def test_what_is_not_recorded(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        two_gpus.of(*arguments)


def test_other_code():
    with pytest.raises(ArgumentError, match=r"13_autotuned<.*recorded of other code"):
        two_gpus.of(find("13").edited(("if (!isLast) return false;", "")), 4096)


def test_reading_through_the_link():
    for size in READS_OF:
        near, far = (two_gpus.reach(size, there) for there in (False, True))
        assert far.rate < 450e9 < near.rate and 0 < far.ms_p10 <= far.ms <= far.ms_p90
    with pytest.raises(ArgumentError, match="bytes, far: got 1000, True, needs what was recorded of read: "):
        two_gpus.reach(1000, far=True)
