import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import (
    find_gpu,
    kernel_occupancy,
    limits_of,
    occupancy,
    resources,
)
from lab.boards import GPUS
from lab.experiments.occupancy import plan as occupancy_plan
from lab.records import cards, files
from lab.records.checks import Fit
from lab.records.files import Recording
from sgemm_tutorial import ArgumentError, catalogue
from sgemm_tutorial.hardware import KIB, LIMITS, WARP
from sgemm_tutorial.launch import Family

from ...together import for_each


def test_the_worked_example_of_the_shared_tile_on_an_rtx_3080():
    fit = occupancy(threads=1024, registers=37, shared_bytes=8 * KIB, gpu=find_gpu("RTX 3080"))
    assert fit.limits == {"threads": 1, "registers": 1, "shared memory": 11, "block slots": 16}
    assert (fit.blocks_per_sm, fit.warps, f"{fit.fraction:.0%}") == (1, 32, "67%")
    assert fit.limiter == "threads and registers"
    assert fit.table().rows[1] == ("registers", 40_960, 65_536, 1)  # 37 rounded up to 40 registers a thread
    assert fit.table().rows[2] == ("shared memory, bytes", 9 * KIB, 100 * KIB, 11)
    assert fit.table().note == "32 of 48 warps: 67%, limited by threads and registers"


@pytest.mark.parametrize(
    ("gpu", "threads", "registers", "shared", "blocks", "limiter"),
    [
        ("A100 SXM", 128, 32, 0, 16, "threads and registers"),
        ("A100 SXM", 32, 16, 0, 32, "block slots"),
        ("H100 SXM", 256, 254, 36 * KIB, 1, "registers"),  # cuBLAS's SGEMM at 4096
        ("H100 SXM", 128, 32, 0, 16, "threads and registers"),
        ("H100 SXM", 128, 32, 227 * KIB, 1, "shared memory"),
        ("T4", 256, 32, 16 * KIB, 4, "threads and shared memory"),  # nothing reserved before sm_80
        ("T4", 32, 32, 0, 16, "block slots"),
        ("GTX 1050", 64, 32, 48 * KIB, 2, "shared memory"),
        ("RTX 4090", 64, 16, 0, 24, "threads and block slots"),
        # 88 registers a thread, 2,816 a warp: 5 warps fit a quarter of the SM, so 20 in all and not 23.
        ("RTX 3080", 704, 88, 0, 0, "registers"),
        ("RTX 3080", 640, 88, 0, 1, "registers"),
        ("RTX 3080", 33, 16, 0, 16, "block slots"),  # 33 threads are 2 warps
        ("RTX 3080", 97, 16, 0, 12, "threads"),  # 4 warps
    ],
)
def test_blocks_per_sm(gpu, threads, registers, shared, blocks, limiter):
    fit = occupancy(threads, registers, shared, find_gpu(gpu))
    assert (fit.blocks_per_sm, fit.limiter) == (blocks, limiter)


@given(
    limits=st.sampled_from(list(LIMITS.values())),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 254),
    shared=st.integers(0, 48 * KIB - 1),
)
def test_what_is_resident_fits_and_one_block_more_would_not(limits, threads, registers, shared):
    fit = occupancy(threads, registers, shared, limits)
    for name in fit.limits:
        assert fit.blocks_per_sm * fit.needs[name] <= fit.has[name]
    more = {name for name in fit.limits if (fit.blocks_per_sm + 1) * fit.needs[name] > fit.has[name]}
    assert more or fit.limiter == "registers"  # registers come in quarters of the SM
    assert fit.needs["threads"] >= threads
    assert fit.needs["registers"] >= threads * registers
    assert fit.needs["shared memory"] >= shared
    assert 0 <= fit.fraction <= 1
    for greedier in ((threads, registers + 1, shared), (threads, registers, shared + 1)):
        assert occupancy(*greedier, limits).blocks_per_sm <= fit.blocks_per_sm


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 32, 0), "threads"),
        ((1025, 32, 0), "threads"),
        ((32, 0, 0), "registers"),
        ((32, 256, 0), "registers"),
        ((32, 32, -1), "shared_bytes"),
        ((32, 32, 100 * KIB), "shared_bytes"),
    ],
)
def test_more_than_a_block_may_have_is_refused(arguments, name):
    with pytest.raises(ArgumentError, match=f"^{name}: got .*, needs .* on sm_86"):
        occupancy(*arguments, find_gpu("RTX 3080"))


@for_each(kernel=catalogue.LADDER[:-1])
def test_a_kernel_is_compiled_for_the_gpu_it_is_asked_about(kernel):
    gpu = find_gpu("H100")
    used = resources(kernel, "sm_90")
    assert kernel_occupancy(kernel, gpu) == occupancy(kernel.threads, used.registers, used.shared_bytes, gpu)


def test_what_a_launch_adds_counts():
    tile = catalogue.find("03")
    more = dataclasses.replace(tile, family=Family(lambda of: 100 * KIB))
    static, gpu = resources(tile).shared_bytes, find_gpu("H100")
    assert resources(more).shared_bytes == static + 100 * KIB
    assert kernel_occupancy(more, gpu).needs["shared memory"] == static + 101 * KIB
    assert kernel_occupancy(tile, gpu).needs["shared memory"] == static + 1 * KIB
    with pytest.raises(ArgumentError) as refused:
        resources(more, "sm_86")
    assert str(refused.value) == (
        f"dynamic_shared: got {static + 100 * KIB:,} bytes of shared memory per block of "
        f"{tile.expression}, needs at most {99 * KIB:,} on sm_86"
    )


def test_a_kernel_too_new_for_the_gpu_is_refused():
    with pytest.raises(ArgumentError, match="sm_61"):
        kernel_occupancy(catalogue.find("11"), find_gpu("GTX 1050"))
    with pytest.raises(ArgumentError, match="install the CUDA 12 extra"):
        kernel_occupancy(catalogue.find("01"), find_gpu("GTX 1050"))


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("T4", 8.14), ("RTX 3080", 29.8), ("RTX A6000", 38.7), ("A100", 19.5), ("H100", 66.9), ("RTX 5090", 104.8)],
)
def test_peak_rates_are_those_of_the_data_sheets(name, tflops):
    assert find_gpu(name).fp32_tflops == pytest.approx(tflops, rel=0.005)


def test_limits_are_consistent():
    for limits in LIMITS.values():
        assert limits.max_threads_per_sm % WARP == 0
        assert limits.max_shared_per_block + limits.shared_reserved_per_block <= limits.shared_per_sm
    assert {gpu.architecture for gpu in GPUS} < set(LIMITS)
    assert limits_of("sm_90a") is LIMITS["sm_90"]


def test_gpus_are_found_and_the_nearest_is_suggested():
    assert find_gpu(" rtx 3080 ").sms == 68
    with pytest.raises(ArgumentError, match="did you mean 'RTX 3090'"):
        find_gpu("RTX3090")
    with pytest.raises(ArgumentError, match="one of GTX 1050, T4"):
        find_gpu("RTX")  # more than one
    with pytest.raises(ArgumentError, match="needs one of"):
        find_gpu("")
    with pytest.raises(ArgumentError, match=r"'sm_35'.*sm_61, sm_70, sm_75"):
        limits_of("sm_35")


def test_cuda_s_own_calculator_agrees():
    """Its answers, recorded on the shown card, agree for every kernel and variant; a missing one is an error."""
    points, gpu = files.load("occupancy", Recording[Fit]).points, find_gpu(cards.shown())
    kernels = [kernel for (kernel,) in occupancy_plan().items]
    said = [files.find(points, kernel, "occupancy")[0].blocks_per_sm for kernel in kernels]
    ours = [kernel_occupancy(kernel, gpu).blocks_per_sm for kernel in kernels]
    wrong = zip(kernels, ours, said, strict=True)
    assert not [f"{of.expression} {of.label}: {one}, CUDA {two}" for of, one, two in wrong if one != two]
    assert len(kernels) > 100


def test_an_architecture_by_name():
    assert kernel_occupancy("03", "sm_90") == kernel_occupancy("03", LIMITS["sm_90"])
    with pytest.raises(ArgumentError, match="architecture: got 'sm_1'"):
        kernel_occupancy("03", "sm_1")
