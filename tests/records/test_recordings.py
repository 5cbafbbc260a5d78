"""The simulator against what an H100 did: results bit for bit, counters to the last request and sector."""

import dataclasses
import functools
import json

import numpy as np
import pytest

import sgemm_tutorial as sg
from sgemm_tutorial.measure.checksums import digest
from sgemm_tutorial.records import timings
from sgemm_tutorial.variants import COUNTED, FRAGMENTS, STEP_IN_FP64, STEPS, STEPS_NOT_COUNTED, VARIANTS
from tests import checksums

RESULTS = json.loads(checksums.RECORD.read_text(encoding="utf-8"))
COUNTERS = json.loads((RESULTS / "counters.json").read_text(encoding="utf-8"))
EQUAL = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors")


def key(kernel):
    return kernel.name, kernel.label, tuple(kernel.parameters.items())


def of(point):
    """Return the same of a recorded point."""
    return point["kernel"], point.get("label", ""), tuple(point["parameters"].items())


KERNELS = {
    key(kernel): kernel for kernel in (*VARIANTS, *STEPS, STEP_IN_FP64, *STEPS_NOT_COUNTED, *FRAGMENTS, *sg.CATALOGUE)
}
TIMED = {
    "ladder": sg.LADDER,
    "variants": VARIANTS,
    "others": sg.CATALOGUE[len(sg.LADDER) :],
    "steps": (*STEPS, STEP_IN_FP64, *STEPS_NOT_COUNTED),
    "fragments": FRAGMENTS,
}


def test_every_kernel_and_case_is_recorded():
    cases = range(len(checksums.CASES))
    recorded = [(point["kernel"], point["parameters"], point["case"]) for point in RESULTS["points"]]
    assert recorded == [(kernel.name, kernel.parameters, case) for kernel in checksums.KERNELS for case in cases]
    assert {of(point) for point in COUNTERS["points"]} == {key(kernel) for kernel in (*sg.CATALOGUE, *COUNTED)}


@pytest.mark.filterwarnings("ignore:overflow encountered")  # a case's scale may be past FP16's range
@pytest.mark.parametrize(
    "place", range(len(RESULTS["points"])), ids=lambda place: "{kernel}-{case}".format(**RESULTS["points"][place])
)
def test_results_are_bit_identical(place):
    """Of tensor cores too, whose additions are documented by measurement alone; see `simulator.tensor`."""
    kernel, point = checksums.KERNELS[place // len(checksums.CASES)], RESULTS["points"][place]
    assert checksums.digest(kernel, checksums.CASES[point["case"]]) == point["sha256"]


@pytest.mark.parametrize("name", [*TIMED, "pitch"])
def test_timings_are_of_the_kernels_as_they_are(name):
    """A kernel whose code changes must be timed again: ``python -m sgemm_tutorial.record``."""
    points = timings.load(name).points
    timed = {(point.kernel, point.label, tuple(point.parameters.items())): point.source for point in points}
    assert timed.items() <= {name: digest(kernel) for name, kernel in KERNELS.items()}.items()
    assert all(point.types == KERNELS[of(dataclasses.asdict(point))].types.name for point in points)
    if name != "pitch":
        assert timed.keys() == {key(kernel) for kernel in TIMED[name]}


@functools.cache
def simulated(which, M, N, K):
    A, B = sg.matrices(M, N, K, on_gpu=False, types=KERNELS[which].types)
    return sg.simulate(KERNELS[which], A, B).total


SMALL = [point for point in COUNTERS["points"] if point["M"] < 1000]


@pytest.fixture(params=SMALL, ids=lambda point: "-".join(map(str, (*of(point)[:2], point["M"], point["K"]))))
def counted(request):
    """Return a recorded point, and what the simulator counts."""
    point = request.param
    return point, simulated(of(point), point["M"], point["N"], point["K"])


def copies_rows(measured):
    """Whether the kernel copied rows of tiles asynchronously, 16 bytes per lane, several rows to a request."""
    return measured["copy_instructions"] and KERNELS[of(measured)].types.name == "FP16"


@pytest.mark.parametrize("counter", EQUAL)
def test_counters_agree_exactly(counted, counter):
    """But of 15's asynchronous copies the hardware counts some sectors twice, for a reason not known: chapter 15."""
    measured, total = counted
    if counter == "global_load_sectors" and copies_rows(measured):
        assert total.global_load_sectors < measured[counter] < measured["copy_sectors"] <= 2 * total.global_load_sectors
    else:
        assert getattr(total, counter) == measured[counter]


def test_as_many_stores_to_shared_memory_and_asynchronous_copies(counted):
    measured, total = counted
    assert total.shared_store_requests == measured["shared_store_requests"] + measured["copy_instructions"]
    assert total.by_class["copy"] == measured["copy_instructions"]
    assert measured["copy_sectors"] <= total.global_load_sectors or copies_rows(measured)


def test_multiply_adds_agree(counted):
    """And a multiplication by α per element of C; from 07 on, also of some that hang over the edge of C.

    13 multiplies by α what it reads of B instead. On tensor cores FFMA adds nothing up.
    """
    measured, total = counted
    M, N = measured["M"], measured["N"]
    by_alpha = total.flops - 2 * measured["fma_thread_instructions"]
    if measured["kernel"] == "13_register_l1":
        assert 0 < by_alpha <= 32 * total.by_class["float"]
        return
    if KERNELS[of(measured)].types.name == "FP16":
        assert measured["fma_thread_instructions"] == 0
        by_alpha -= 2 * 16**3 * total.by_class["tensor"]
        assert M * N <= by_alpha == 32 * total.by_class["float"]
        return
    padded = M * -(-N // measured["parameters"]["BN"]) * measured["parameters"]["BN"]
    assert by_alpha == M * N or (measured["kernel"] >= "07" and M * N < by_alpha <= padded)


def extra_wavefronts(measured, total):
    """Return how many wavefronts of shared stores were measured beyond the simulated ones."""
    if measured["copy_instructions"]:
        return measured["copy_wavefronts"] - total.shared_store_wavefronts
    return measured["shared_store_wavefronts"] - total.shared_store_wavefronts


def test_shared_stores_take_the_simulated_wavefronts(counted):
    """And a few more: lines from L2 are written into the same banks meanwhile (chapter 03), and an asynchronous copy
    may conflict in L1, where it is read (chapter 11)."""
    measured, total = counted
    extra = extra_wavefronts(measured, total)
    if measured["copy_instructions"]:
        assert 0 < extra <= measured["copy_sectors"]
    else:
        assert 0 <= extra <= 0.1 * total.shared_store_wavefronts
        assert total.shared_store_conflicts <= measured["shared_store_conflicts"]


def test_shared_stores_take_hardly_more_wavefronts_on_average():
    shares = []
    for measured in SMALL:
        total = simulated(of(measured), *(measured[size] for size in "MNK"))
        if measured["shared_store_requests"]:
            shares.append(extra_wavefronts(measured, total) / total.shared_store_wavefronts)
    assert len(shares) > 50
    assert np.mean(shares) < 0.02
    assert np.median(shares) < 0.005


def test_shared_loads_agree_unless_the_compiler_merged_them(counted):
    """Where ptxas makes one wide load of several, the machine code shows it, and fewer wavefronts are measured."""
    measured, total = counted
    kernel = KERNELS[of(measured)]
    written = kernel.build().ptx.count("ld.shared.")
    made = sum(instruction.opcode.startswith("LDS") for instruction in sg.sass(kernel))
    if kernel.types.name == "FP16":  # fragments come by LDSM, which the hardware counts among wavefronts only
        assert measured["shared_load_requests"] < total.shared_load_requests or not total.shared_load_requests
        assert (
            0
            <= measured["shared_load_wavefronts"] - total.shared_load_wavefronts
            <= 0.05 * (total.shared_load_wavefronts)
        )  # a few more, as with stores: lines from L2 are written meanwhile
    elif measured["copy_instructions"]:  # before copies ptxas puts loads that no thread executes: chapter 11
        assert measured["shared_load_requests"] > total.shared_load_requests
        assert measured["shared_load_wavefronts"] == total.shared_load_wavefronts
    elif made < written:
        assert measured["shared_load_requests"] < total.shared_load_requests
        assert measured["shared_load_wavefronts"] < total.shared_load_wavefronts
    else:
        assert measured["shared_load_requests"] == total.shared_load_requests
        assert measured["shared_load_wavefronts"] == total.shared_load_wavefronts
        assert measured["shared_load_conflicts"] == total.shared_load_conflicts
