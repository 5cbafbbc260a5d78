"""The simulator against what an H100 did: results bit for bit, counters to the last request and sector."""

import functools
import json

import pytest

import sgemm_tutorial as sg
from sgemm_tutorial import records
from sgemm_tutorial.bench import digest
from tests import checksums

RESULTS = json.loads(checksums.RECORD.read_text(encoding="utf-8"))
COUNTERS = json.loads((records.RESULTS / "counters.json").read_text(encoding="utf-8"))
EQUAL = (
    "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
    "shared_store_requests",
)  # fmt: skip


def kernel_of(point):
    return sg.find(point["kernel"]).variant(**point["parameters"])


def test_every_kernel_and_case_is_recorded():
    recorded = {(point["kernel"], point["case"]) for point in RESULTS["points"]}
    assert recorded == {(kernel.name, case) for kernel in sg.LADDER for case in range(len(checksums.CASES))}
    assert {point["kernel"] for point in COUNTERS["points"]} == {kernel.name for kernel in sg.LADDER}


@pytest.mark.parametrize("point", RESULTS["points"], ids=lambda point: f"{point['kernel']}-{point['case']}")
def test_results_are_bit_identical(point):
    assert checksums.digest(kernel_of(point), checksums.CASES[point["case"]]) == point["sha256"]


@pytest.mark.parametrize("name", ["ladder", "variants", "pitch"])
def test_timings_are_of_the_kernels_as_they_are(name):
    """A kernel whose code changes must be timed again: ``python -m sgemm_tutorial.record``."""
    points = records.load(name).points
    assert all(point.source == digest(sg.find(point.kernel)) for point in points)
    if name == "ladder":
        assert {point.kernel for point in points} == {kernel.name for kernel in sg.LADDER}
        assert all(point.parameters == sg.find(point.kernel).parameters for point in points)


@functools.cache
def simulated(name, M, N, K):
    A, B = sg.matrices(M, N, K, on_gpu=False)
    return sg.simulate(sg.find(name), A, B).total


SMALL = [point for point in COUNTERS["points"] if point["M"] < 1000]


@pytest.fixture(params=SMALL, ids=lambda point: f"{point['kernel']}-{point['M']}-{point['K']}")
def counted(request):
    """Return a recorded point, and what the simulator counts."""
    point = request.param
    assert sg.find(point["kernel"]).parameters == point["parameters"], "recorded with other parameters"
    return point, simulated(point["kernel"], point["M"], point["N"], point["K"])


@pytest.mark.parametrize("counter", EQUAL)
def test_counters_agree_exactly(counted, counter):
    measured, total = counted
    assert getattr(total, counter) == measured[counter]


def test_multiply_adds_agree(counted):
    measured, total = counted
    assert total.flops == 2 * measured["fma_thread_instructions"] + measured["M"] * measured["N"]  # and one by α each


def test_shared_stores_take_the_simulated_wavefronts(counted):
    """And a few per cent more at most, in which the hardware writes lines from L2 into the same banks: chapter 03."""
    measured, total = counted
    extra = measured["shared_store_wavefronts"] - total.shared_store_wavefronts
    assert 0 <= extra <= 0.06 * total.shared_store_wavefronts
    assert total.shared_store_conflicts <= measured["shared_store_conflicts"]


def test_shared_loads_agree_unless_the_compiler_merged_them(counted):
    """Where ptxas makes one wide load of several, the machine code shows it, and fewer wavefronts are measured."""
    measured, total = counted
    sass = sg.sass_mix(sg.find(measured["kernel"]))["kernel"]
    if any(name.startswith("LDS.") for name in sass):
        assert measured["shared_load_requests"] < total.shared_load_requests
        assert measured["shared_load_wavefronts"] < total.shared_load_wavefronts
    else:
        assert measured["shared_load_requests"] == total.shared_load_requests
        assert measured["shared_load_wavefronts"] == total.shared_load_wavefronts
        assert measured["shared_load_conflicts"] == total.shared_load_conflicts
