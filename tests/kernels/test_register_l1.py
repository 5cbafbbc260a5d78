"""Kernel 23 and its steps: right on the simulator, the same sums as other rungs, and what each step is for."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from lab import check, published, resources, sass, sass_mix, suite
from lab.correctness import Case, judged
from lab.experiments import sanitizer
from lab.variants import STEP_IN_FP64, STEPS, STEPS_TESTED
from sgemm_tutorial import ArgumentError, find, simulate
from sgemm_tutorial.compiler import PTX_ALONE
from tools.mutants import ROWS

from ..examples import floats
from ..together import for_each

pytestmark = pytest.mark.slow

BASE = find("23")
each_step = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.label.replace(" ", "-"))
ARCHITECTURES = ("sm_75", "sm_90", "sm_120")


def test_the_source_keeps_the_contract():
    assert re.match(r"// 23 · [^\n]+\.\n", BASE.source)
    listed = re.search(r"template <([^>]*)>\s*__global__", BASE.source)[1]
    assert re.findall(r"(?:int|typename) (\w+)", listed) == list(BASE.parameters)
    contract = (
        "register_l1(int M, int N, int K, T alpha, const T* __restrict__ A, const T* __restrict__ B, "
        "T beta, T* __restrict__ C)"
    )
    assert contract in re.sub(r"\s+", " ", BASE.source)
    assert BASE.threads == 128


def test_the_steps_are_those_of_the_source():
    listed = [result.kernel for result in published.load() if result.source == "lpha-z notes"]
    assert [step.label for step in STEPS] == listed
    assert STEPS[0].parameters == BASE.parameters


def test_each_step_changes_one_thing():
    for before, after in pairwise(STEPS):
        assert len(set(before.parameters.items()) ^ set(after.parameters.items())) == 2


def test_the_suite_passes():
    """The step with wide accesses everywhere passes its suite; the first step passes where all kernels are checked."""
    result = suite(STEPS[5].variant(**ROWS), on_gpu=False)
    assert result.passed, result.failures()


@each_step
def test_ragged_whole_and_unaligned(step):
    for M, N, K, more in ((19, 517, 35, {"special": True}), (16, 512, 64, {}), (16, 512, 32, {"shift": 1})):
        assert judged(step, Case(M, N, K, -1.5, 0.75, **more), on_gpu=False, architecture=PTX_ALONE)[0].passed


@pytest.mark.parametrize("kernel", STEPS_TESTED, ids=lambda kernel: kernel.expression.replace(" ", ""))
def test_their_partners_are_right(kernel):
    for shape in ((19, 517, 35), (13, 512, 16), (16, 510, 16), (16, 512, 18), (16, 512, 32)):
        assert check(kernel, *shape, -1.5, 0.75, on_gpu=False).passed


@pytest.mark.parametrize("shape", [(16, 512, 20), (16, 512, 18), (13, 512, 16), (16, 508, 16), (16, 510, 16)])
def test_wide_accesses_at_each_edge_alone(shape):
    assert check(STEPS[5], *shape, -1.5, 0.75, on_gpu=False).passed


def test_wide_accesses_to_matrices_of_which_one_is_unaligned():
    sanitizer.launched([STEPS[5]], np)  # a misaligned access is a fault


@each_step
def test_without_k_alpha_does_not_matter(step):
    C = floats(5, 7)
    assert np.array_equal(step(floats(5, 0), floats(0, 7), C.copy(), float("inf"), 0.5), C / 2)


def test_the_sums_are_those_of_07():
    A, B = floats(17, 40, seed=1), floats(40, 516, seed=2)
    sums = find("07")(A, B)
    for step in STEPS:
        assert np.array_equal(step(A, B), sums), step.label


def test_in_fp64():
    assert check(STEP_IN_FP64, 19, 517, 35, -1.5, 0.75, on_gpu=False).passed
    assert check(STEP_IN_FP64, 16, 512, 8, on_gpu=False).passed


TIGHT = [step.label for step in STEPS[5:8]]
"""Steps that the limit of 128 registers makes spill on sm_120, until the last step lifts it."""


@for_each(step=[*STEPS, STEP_IN_FP64], architecture=ARCHITECTURES)
def test_nothing_spills(step, architecture):
    if architecture == "sm_75" and step.dynamic_shared_bytes > 64 * 1024:
        with pytest.raises(ArgumentError, match=r"67,584 bytes of shared memory .*, needs at most 65,536 on sm_75"):
            resources(step, architecture)
        return
    used = resources(step, architecture)
    if architecture == "sm_120" and step.label in TIGHT:
        assert 0 < used.spill_store_bytes <= 128
    else:
        assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0)
    assert used.registers * step.threads * step.parameters["BLOCKS"] <= 65_536


# What each step is for


def test_the_base_reads_a_and_b_as_read_only_and_stages_nothing():
    ptx = STEPS[0].build().ptx
    loads = Counter(re.findall(r"ld\.global[.\w]*", ptx))
    assert loads["ld.global.nc.f32"] and ".shared" not in ptx
    assert loads["ld.global.f32"] == 64  # of C


def test_shared_memory_takes_the_place_of_l1():
    A, B = floats(16, 32), floats(32, 512)
    base, staged = (simulate(step, A, B).total for step in STEPS[:2])
    assert base.global_load_requests == 4 * 32 * (16 + 4)  # by warp and k: a thread's rows of A and columns of B
    assert staged.global_load_requests == 4 * 32 * (1 / 8 + 4)  # by warp, its share of the tiles
    assert staged.shared_load_requests == base.global_load_requests
    assert base.shared_load_requests == 0


def test_c_is_read_after_the_products_are_summed():
    A, B, C = floats(16, 32), floats(32, 512), floats(16, 512)
    for step, last in zip(STEPS[1:3], (False, True), strict=True):
        trace = simulate(step, A, B, C, 1.0, 1.0, trace=[0]).trace
        of_c = [i for i, access in enumerate(trace) if (access.array, access.kind) == ("C", "load")]
        products = [i for i, access in enumerate(trace) if (access.space, access.kind) == ("shared", "load")]
        assert (min(of_c) > max(products)) if last else (max(of_c) < min(products))


def test_what_a_block_takes_of_shared_memory():
    assert [step.dynamic_shared_bytes for step in STEPS] == [0, 67_584, 67_584, *[33_792] * 3, *[49_152] * 3]
    assert resources(STEPS[3]).shared_bytes == 33_792


def test_four_at_a_time():
    fetched, read = (Counter(instruction.opcode for instruction in sass(step)) for step in STEPS[4:6])
    assert not any(opcode.startswith("LDS.128") for opcode in fetched)
    assert any(opcode.startswith("LDG.E.128") for opcode in fetched)
    assert read["LDS.128"] and not read["LDS"]
    A, B = floats(16, 16), floats(16, 512)
    by_one, by_four = (simulate(step, A, B).total.shared_load_requests for step in STEPS[4:6])
    assert by_one == 4 * by_four


def test_no_loop_is_left_inside_the_one_over_tiles():
    looped, straight = (sass_mix(step)["loop"]["FFMA"] for step in STEPS[6:8])
    of = STEPS[7].parameters
    assert straight == of["TM"] * of["TN"] * of["BK"] == 4 * looped


def test_more_registers_are_wanted_than_the_limit_allows():
    limited, free = (resources(step).registers for step in STEPS[7:])
    assert limited == 128 < free
