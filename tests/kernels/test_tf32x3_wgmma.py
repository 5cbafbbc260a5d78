"""Kernel 21, 17's products by wgmma, simulated: right for any shape, exact as FP32, no wait or fence too many."""

import dataclasses

import numpy as np
import pytest

from lab import check, correctness, find_variant, resources
from ptxsim.tensor import multiply_accumulate
from sgemm_tutorial import ArgumentError, SimulationFault, find, kernel_from, operands, simulate, simulator
from sgemm_tutorial.families.hopper import in_parts
from sgemm_tutorial.launch import SIMULATOR, Place
from sgemm_tutorial.operands import SPLIT

from .test_mma_kernels import floats

pytestmark = pytest.mark.slow

SPLITTING = find("21_tf32x3_wgmma")
ITSELF = SPLITTING.variant()
"""21 where it hands nothing over to 13."""
H200 = Place("sm_90", 132)
PAIRED = SPLITTING.variant(CLUSTER=2)
NARROW = SPLITTING.variant(BN=64, THREADS=256, STAGES=2)


def changes(label):
    """The edits of a variant that its chapter compares."""
    return find_variant("21_tf32x3_wgmma", label).edits


@pytest.mark.parametrize("kernel", [SPLITTING, PAIRED], ids=lambda kernel: kernel.expression)
def test_what_the_compiler_makes_of_it(kernel):
    """It compiles for one architecture, spills nothing, and neither wgmma nor setmaxnreg goes wrong.

    First, for its PTX is made then too.
    """
    binary = kernel.build("sm_90")
    assert binary.architecture == "sm_90a" and "serialized" not in binary.log and "setmaxnreg" not in binary.log
    taken = resources(kernel, "sm_90")
    assert taken.stack_bytes == taken.spill_store_bytes == taken.spill_load_bytes == 0
    assert taken.shared_bytes == 4 * (48 << 10) + 96
    with pytest.raises(ArgumentError, match="sm_90 for 21_tf32x3_wgmma"):
        kernel.build("sm_100")


def chosen(problem, architecture="sm_90"):
    return ITSELF.resolve(problem, Place(architecture, 132)).kernel


@pytest.mark.parametrize("shape", [(1, 4, 4), (129, 132, 100), (72, 260, 160)], ids=str)
def test_any_shape_in_clusters(shape):
    """Past the edges come zeros, β = 0 does not read C, and nothing beyond C is written.

    Without clusters the suite tells.
    """
    for scalars in ((1.0, 0.0), (-1.5, 0.5)):
        result = check(PAIRED, *shape, *scalars, on_gpu=False)
        assert result.passed, result


def test_blocks_that_do_several_tiles():
    """Each goes on where its stages and parities are, and what a tile is does not depend on whose it is."""
    A, B = floats(392, 132, 72)
    alone = simulate(SPLITTING, A, B).C
    for kernel in (SPLITTING, NARROW, NARROW.variant(GROUP=1), NARROW.variant(CLUSTER=2)):
        assert np.array_equal(simulate(kernel, A, B, multiprocessors=3).C, alone), kernel.expression


def test_sums_as_the_tensor_cores_make_them():
    """In each 32 of the depth small products come first, of A cut off and B rounded; FP32 adds up these sums."""
    A, B = floats(20, 24, 72)

    def cut(x, up=0):
        return (x.view(np.uint32) + np.uint32(up) & np.uint32(0xFFFFE000)).view(np.float32)

    bigA, bigB = cut(A), cut(B, 1 << 12)
    smallA, smallB = cut(A - bigA, 1 << 12), cut(B - bigB)
    want = np.zeros((20, 24), np.float32)
    for start in range(0, 72, 32):
        steps, part = range(start, min(start + 32, 72), 8), np.zeros((1, 20, 24), np.float32)
        pairs = [(left, right, k) for k in steps for left, right in ((bigA, smallB), (smallA, bigB))]
        for left, right, k in (*pairs, *((bigA, bigB, k) for k in steps)):
            part = multiply_accumulate(left[None, :, k : k + 8], right[None, k : k + 8], part)
        want += part[0]
    assert np.array_equal(simulate(SPLITTING, A, B).C, want)


@pytest.mark.parametrize("positive", [False, True])
def test_sums_are_as_exact_as_in_fp32(positive, share_runs):
    """Mean and largest error are no more than those of a chain of FP32 multiply-adds, and of 17."""
    A, B = floats(64, 64, 512, positive)
    exact, size = A.astype(np.float64) @ B.astype(np.float64), np.abs(A).astype(np.float64) @ np.abs(B)

    def errors(kernel):
        off = (simulate(kernel, A, B).C - exact) / size
        return np.abs(off).max(), np.sqrt((off**2).mean())

    ours = errors(NARROW)
    for other in (find("02"), find("17")):
        worst, mean = errors(other)
        assert ours[0] < worst and ours[1] < mean
    of_small_parts = "multiply(part, big[k], describe(&smallAs[stage][k * 8], 16, atom));"
    assert errors(NARROW.edited((of_small_parts, "")))[1] > 10 * ours[1]  # without A's small parts it is TF32
    assert errors(NARROW.edited(*changes("one accumulator")))[1] > 5 * ours[1]


def test_what_is_not_finite():
    """An infinity has no parts, and what overflows in the split need not overflow at all."""
    A, B = floats(130, 132, 36)
    A[3, 5], A[40, 6], B[7, 20], B[8, 90] = np.inf, np.nan, -np.inf, np.float32(3.4e38)
    A[:, 8] = 1e-3
    with np.errstate(invalid="ignore", over="ignore"):
        want, C = A @ B, np.ones((130, 132), np.float32)
        simulate(SPLITTING, A, B, C, 1.0, 2.0)
        assert np.array_equal(np.isnan(C), np.isnan(want)) and np.array_equal(np.isinf(C), np.isinf(want))
        finite = np.isfinite(want)
        assert np.allclose(C[finite], want[finite] + 2, rtol=1e-5, atol=1e-4) and finite[:, 90].any()


def test_nothing_is_read_where_alpha_is_zero():
    A, B = floats(130, 132, 36)
    A[:], B[:] = np.nan, np.nan
    C = np.arange(130 * 132, dtype=np.float32).reshape(130, 132)
    assert np.array_equal(simulate(SPLITTING, A, B, C.copy(), 0.0, 2.0).C, 2 * C)
    assert not simulate(SPLITTING, A, B, alpha=0.0).C.any()


@pytest.mark.parametrize("shape", [(64, 66, 64), (64, 64, 63), (0, 64, 64), (64, 64, 0)], ids=str)
def test_shapes_that_it_cannot_are_for_17(shape):
    A, B = floats(*shape)
    assert chosen(operands.check(A, B, None, 1.0, 0.0, SPLIT)) is find("17")


def test_who_else_is_for_17():
    """17 takes operands that begin elsewhere than 21 needs, and every problem on other GPUs."""
    A, B = floats(64, 64, 64)
    problem = operands.check(A, B, None, 1.0, 0.0, SPLIT)
    assert chosen(problem) is chosen(problem, "compute_90") is ITSELF
    assert chosen(problem, "sm_80") is chosen(problem, "sm_100") is find("17")
    for which in range(3):
        arrays = [A, B, np.ones((64, 64), np.float32)]
        past = np.zeros(64 * 64 + 1, np.float32)[1:].reshape(64, 64)
        past[:] = arrays[which]
        arrays[which] = past
        assert chosen(operands.check(*arrays, 1.0, 1.0, SPLIT)) is find("17")


SMALL = [(1, 4096, 4096), (256, 256, 16384), (64, 4096, 4096), (16, 16, 16), (2048, 2049, 2048)]
"""Problems with fewer tiles than the GPU has SMs, and one with ragged rows, which 17 does slowly."""
LARGE = {(2048, 2048, 2048): "21", (4096, 11008, 4096): "21", (1024, 1024, 1024): "21", (4095, 4095, 4095): "17"}


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small_and_thin_problems_are_for_13(shape):
    """13's own launch does them, on the GPU and simulated."""
    for place in (H200, SIMULATOR):
        launch = SPLITTING.resolve(operands.imagined(*shape, SPLIT), place)
        own = find("13").resolve(operands.imagined(*shape), place)
        assert launch.kernel.name == "13_autotuned"
        assert (launch.kernel, launch.division, launch.instance) == (own.kernel, own.division, own.instance)


@pytest.mark.parametrize(("shape", "number"), LARGE.items(), ids=str)
def test_large_ones_stay(shape, number):
    kernel = SPLITTING.resolve(operands.imagined(*shape, SPLIT), H200).kernel
    assert kernel is (SPLITTING if number == "21" else find("17"))


def test_a_kernel_that_is_settled_or_changed_or_a_copy_hands_nothing_over(tmp_path):
    copy = tmp_path / "mine.cu"
    copy.write_text(SPLITTING.source)
    own = dataclasses.replace(kernel_from(copy, **SPLITTING.parameters), settled=False)
    edited = SPLITTING.edited(*changes("one accumulator"))
    for kernel in (ITSELF, NARROW, SPLITTING.divided(0, 1), edited, own):
        for shape in SMALL[:-1]:
            assert kernel.resolve(operands.imagined(*shape, SPLIT), H200).kernel is kernel
        assert kernel.resolve(operands.imagined(*SMALL[-1], SPLIT), H200).kernel is find("17")


def test_13_takes_nothing_elsewhere():
    """On other GPUs there is no model to compare it with, and where nothing is multiplied nothing takes time."""
    assert SPLITTING.resolve(operands.imagined(16, 16, 16, SPLIT), Place("sm_80", 108)).kernel is find("17")
    for shape in ((0, 64, 64), (64, 0, 64), (64, 64, 0)):
        assert SPLITTING.resolve(operands.imagined(*shape, SPLIT), H200).kernel is find("17")


def test_the_choice_is_made_again_when_13s_table_changes():
    for place in (H200, Place("sm_90", 132, 0, "NVIDIA H200")):
        assert SPLITTING.family.tables(place) == find("13").family.tables(place)


@pytest.mark.parametrize(
    ("shape", "us", "number"),
    [
        ((256, 256, 256), 13.06, "21"),
        ((2048, 2048, 2048), 137.4, "21"),
        ((1, 4096, 4096), 132.4, "21"),
        ((65536, 128, 128), 31.8, "21"),
        ((2048, 11008, 4096), 1480, "21"),
        ((4095, 4095, 4095), 2243, "17"),
        ((2048, 2049, 2048), 437.7, "17"),
    ],
    ids=str,
)
def test_the_model_expects_what_an_h200_took(shape, us, number):
    problem = operands.imagined(*shape, SPLIT)
    kernel = ITSELF.resolve(problem, H200).kernel
    assert kernel.name[:2] == number and in_parts(kernel, problem, 132) == pytest.approx(us, rel=0.06)


@pytest.mark.parametrize(("multiprocessors", "taker"), [(1, ITSELF), (132, find("13"))], ids=["21", "13"])
def test_a_problem_is_right_whichever_takes_it(multiprocessors, taker):
    """21 is the quicker on one SM, 13 on as many as a call simulates."""
    A, B = floats(128, 128, 64)
    C = np.full((128, 128), np.nan, np.float32)
    problem = operands.check(A, B, C, 1.0, 0.0, SPLIT)
    launch = SPLITTING.resolve(problem, Place(SIMULATOR.architecture, multiprocessors))
    assert launch.kernel.name == taker.name
    simulator.run(launch, problem)
    assert (correctness.excess(C, A, B, C, 1.0, 0.0, SPLIT) <= 1).all()
    assert np.array_equal(C, taker(A, B)) and np.array_equal(C, SPLITTING(A, B)) == (multiprocessors > 1)


def test_checks_and_counts_are_of_21_itself():
    case = correctness.Case(64, 64, 64, -1.5, 0.75)
    result, counts = correctness.judged(SPLITTING, case, on_gpu=False)
    A, B = floats(64, 64, 64)
    run = simulate(SPLITTING, A, B)
    assert result.passed and counts.by_class["tensor"] == run.total.by_class["tensor"] > 0 == run.total.by_class["fma"]
    assert run.kernel == ITSELF and not np.array_equal(run.C, SPLITTING(A, B))


@pytest.mark.parametrize("kernel", [SPLITTING, PAIRED], ids=lambda kernel: kernel.expression)
def test_what_is_counted(kernel):
    """Each block fetches its tiles, of B its share; nothing conflicts; and every product counts."""
    M, N, K = 256, 256, 64
    A, B = floats(M, N, K)
    total, cluster = simulate(kernel, A, B).total, kernel.parameters["CLUSTER"]
    assert total.global_load_bytes == 4 * M * N * K * (1 / 128 + 1 / 128 / cluster)
    assert total.global_load_sectors == total.global_load_bytes // 32
    assert total.global_store_bytes == 4 * M * N and total.global_store_sectors == M * N // 8
    assert total.by_class["tensor"] == 3 * M * N * K // (16 * 128 * 8)
    assert (total.shared_load_conflicts, total.shared_store_conflicts) == (0, 0)


def test_columns_in_order_conflict():
    """The same sums from twice the wavefronts that bring B to registers."""
    A, B = floats(128, 128, 64)
    ours, others = (simulate(kernel, A, B) for kernel in (SPLITTING, SPLITTING.edited(*changes("columns in order"))))
    assert np.array_equal(ours.C, others.C)
    assert others.total.shared_load_conflicts == B.nbytes // 128


BROKEN = {
    "no fence of the mbarriers": ("        fence_proxy();                                     //", "//", "proxy"),
    "no barrier behind them": ("else __syncthreads();", "", "race"),
    "no wait for readers": ("if (step >= STAGES) empty[stage].wait((step / STAGES - 1) % 2);", "", "barrier"),
    "a wrong parity for them": ("(step / STAGES - 1) % 2", "step / STAGES % 2", "barrier"),
    "too few bytes": ("(tileA + tileB) * sizeof(float)", "tileA * sizeof(float)", "in flight"),
    "too many bytes": ("(tileA + tileB) * sizeof(float)", "(tileA + 2 * tileB) * sizeof(float)", "deadlock"),
    "parts of what has not come": ("full[stage].wait(step / STAGES % 2);", "", "in flight"),
    "parts not shown to wgmma": ("fence_proxy();                         //", "//", "proxy"),
    "parts that a warp tells of too early": ("                    __syncwarp();\n", "", "race"),
    "parts that nobody tells of": ("if (lane == 0) ready[stage].arrive();", "", "deadlock"),
    "two warps' parts for all": ("ready[stage].init(3)", "ready[stage].init(2)", "race"),
    "no wait for the first parts": ("ready[step % STAGES].wait(step / STAGES % 2);", "", "in flight"),
    "no wait for the next": ("ready[(step + 1) % STAGES].wait((step + 1) / STAGES % 2);", "", "in flight"),
    "registers not ordered": ("order_registers(big[k], small[k]);", "", "in flight"),
    "groups that never end": ("            commit_products();\n", "", "race"),
    "no wait for products": ("            wait_for_products(part);\n", "", "race"),
    "stages let go too early": ("            wait_for_products(part);\n", "EARLY", "race"),
    "stages that nobody lets go": ("if (lane == 0) empty[stage].arrive();", "", "deadlock"),
    "too few let go": ("empty[stage].init(CLUSTER * workers / 32)", "empty[stage].init(9)", "deadlock"),
    "more let go than are awaited": ("empty[stage].init(CLUSTER * workers / 32)", "empty[stage].init(1)", "deadlock"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_whatever_is_left_out_is_noticed(change):
    old, new, kind = change
    changes = [(old, new)]
    if new == "EARLY":
        let_go = "                if (lane == 0) empty[stage].arrive();\n"
        changes = [(let_go, ""), (old, let_go + old)]
    A, B = floats(128, 64, 192)  # each stage three times
    with pytest.raises(SimulationFault) as caught:
        simulate(NARROW.edited(*changes), A, B)
    assert caught.value.kind == kind, caught.value
