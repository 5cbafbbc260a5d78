"""Kernel 18, simulated: right for any shape to the bit as 16, and every wait, fence and byte of it is needed."""

import numpy as np
import pytest

from sgemm_tutorial import ArgumentError, SimulationFault, find, operands, resources, simulate
from sgemm_tutorial.hopper import addressable
from sgemm_tutorial.operands import FP16

from .test_half_kernels import drawn, expected

HOPPER = find("18")
SHAPES = [(128, 256, 64), (1, 8, 8), (129, 264, 200), (72, 128, 640)]


def chosen(*arrays):
    return HOPPER.chosen(operands.check(*arrays, None, 1.0, 0.0, FP16), "sm_90", 132)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_that_the_copy_engine_can_fetch(shape):
    """Past the edges come zeros; β = 0 does not read C, and pairs of C are written where they lie together."""
    for alpha, beta in ((1.0, 0.0), (-1.5, 0.5)):
        A, B, C = drawn(*shape)
        assert chosen(A, B) is HOPPER
        want = simulate("16", A, B, C.copy(), alpha, beta).C
        for stages, threads in ((3, 256), (4, 384)):
            kernel = HOPPER.variant(STAGES=stages, THREADS=threads)
            got = simulate(kernel, A, B, None if beta == 0 else C.copy(), alpha, beta)
            assert got.kernel == kernel and np.array_equal(got.C, want)


@pytest.mark.parametrize("K", [64, 200])
def test_blocks_that_do_several_tiles(K):
    """Each goes on where its stages and parities are; a group at the end may lack rows."""
    A, B, C = drawn(392, 264, K)
    want = expected(A, B, C, 2.0, -1.0)
    for threads, group in ((256, 1), (256, 3), (384, 1), (384, 3)):
        kernel = HOPPER.variant(THREADS=threads, PERSISTENT=1, GROUP=group)
        assert np.array_equal(simulate(kernel, A, B, C.copy(), 2.0, -1.0, multiprocessors=3).C, want)


def test_the_sums_are_those_of_the_tensor_cores():
    A, B, C = drawn(130, 264, 136)
    assert np.array_equal(simulate(HOPPER, A, B).C, expected(A, B, C, 1.0, 0.0))


def test_nothing_is_read_where_alpha_is_zero():
    A, B, C = drawn(130, 264, 136)
    A[:], B[:] = np.nan, np.nan
    assert np.array_equal(simulate(HOPPER, A, B, C.copy(), 0.0, 2.0).C, 2 * C)
    assert not simulate(HOPPER, A, B, alpha=0.0).C.any()


@pytest.mark.parametrize(
    "shape, shift",
    [((64, 70, 64), 0), ((64, 72, 63), 0), ((64, 64, 64), 4), ((0, 64, 64), 0), ((64, 64, 0), 0)],
    ids=str,
)
def test_shapes_that_it_cannot_are_for_16(shape, shift):
    A, B, C = drawn(*shape, shift)
    run = simulate(HOPPER, A, B)
    assert run.kernel == find("16") and not addressable(operands.check(A, B, None, 1.0, 0.0, FP16))
    assert not C.size or np.array_equal(run.C, expected(A, B, C, 1.0, 0.0))


def test_a_shift_of_16_bytes_is_none_to_it():
    A, B, C = drawn(130, 264, 136, 8)
    run = simulate(HOPPER, A, B)
    assert run.kernel == HOPPER and np.array_equal(run.C, expected(A, B, C, 1.0, 0.0))


def test_what_is_counted():
    """Each block fetches its tiles once, and no thread reads them."""
    A, B, _ = drawn(256, 512, 256)
    total = simulate(HOPPER, A, B).total
    blocks, tiles = 4, 4
    assert total.global_load_bytes == blocks * tiles * (128 + 256) * 64 * 2
    assert (
        total.global_load_requests == blocks * tiles * 5 and total.global_load_sectors == total.global_load_bytes // 32
    )
    assert total.flops == 2 * 256 * 512 * 256 + 256 * 512  # and α times each sum
    assert not total.shared_load_requests and total.by_class["tensor"] == blocks * tiles * 4 * 8


BROKEN = {
    "no fence of the mbarriers": ("fence_proxy();  ", "", "proxy"),
    "no barrier behind them": ("    __syncthreads();\n\n    auto fetch", "\n    auto fetch", "race"),
    "no wait for tiles": ("full[stage].wait(step / STAGES % 2);", "", "in flight"),
    "a parity that does not change": ("full[stage].wait(step / STAGES % 2);", "full[stage].wait(0);", "in flight"),
    "a wrong parity": ("wait(step / STAGES % 2)", "wait(step / STAGES % 2 ^ 1)", "in flight"),
    "too few bytes": ("(tileA + tileB) * sizeof(half)", "tileB * sizeof(half)", "in flight"),
    "too many bytes": ("(tileA + tileB) * sizeof(half)", "(tileA + 2 * tileB) * sizeof(half)", "deadlock"),
    "registers not ordered": ("            order_registers();\n", "", "in flight"),
    "groups that never end": ("            commit_products();\n", "", "race"),
    "no wait for products": ("        wait_for_products(acc);\n", "", "in flight"),
    "no wait for those before": ("        wait_for_products<1>(); ", "", "race"),
    "no barrier before the next": ("                __syncthreads();  ", "", "race"),
}
SPECIALISED = HOPPER.variant(THREADS=384)
BROKEN_IN_TWO = {
    "no wait for readers": ("if (step >= STAGES) empty[step % STAGES].wait((step / STAGES - 1) % 2);", "", "barrier"),
    "a wrong parity for them": ("(step / STAGES - 1) % 2", "step / STAGES % 2", "barrier"),
    "stages let go too early": (
        "if (lane == 0 && tile > 0) empty[(step - 1) % STAGES]",
        "if (lane == 0) empty[step % STAGES]",
        "race",
    ),
    "stages that nobody lets go": ("if (lane == 0 && tile > 0)", "if (lane == 0 && tile > 9)", "deadlock"),
    "too few let go": ("if (lane == 0 && tile > 0)", "if (threadIdx.x == 0 && tile > 0)", "deadlock"),
    "more arrivals than are awaited": ("empty[stage].init(workers / 32)", "empty[stage].init(1)", "deadlock"),
    "no wait for products": ("        wait_for_products<1>(); ", "", "race"),
    "no wait for tiles": ("full[stage].wait(step / STAGES % 2);", "", "in flight"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_whatever_is_left_out_is_noticed(change):
    old, new, kind = change
    A, B, _ = drawn(128, 256, 512)
    with pytest.raises(SimulationFault) as caught:
        simulate(HOPPER.edited((old, new)), A, B)
    assert caught.value.kind == kind, caught.value


@pytest.mark.parametrize("change", BROKEN_IN_TWO.values(), ids=BROKEN_IN_TWO)
def test_whatever_fetchers_and_workers_leave_out_is_noticed(change):
    old, new, kind = change
    A, B, _ = drawn(128, 256, 768)
    with pytest.raises(SimulationFault) as caught:
        simulate(SPECIALISED.edited((old, new)), A, B)
    assert caught.value.kind == kind, caught.value


@pytest.mark.parametrize("kernel", [HOPPER, SPECIALISED], ids=lambda kernel: kernel.expression)
def test_what_the_compiler_makes_of_it(kernel):
    """It compiles for one architecture, spills nothing, and neither wgmma nor setmaxnreg goes wrong."""
    binary = kernel.build("sm_90")
    assert binary.architecture == "sm_90a" and "serialized" not in binary.log and "setmaxnreg" not in binary.log
    taken = resources(kernel, "sm_90")
    assert taken.spill_store_bytes == taken.spill_load_bytes == 0
    assert taken.shared_bytes == 4 * (48 << 10) + 64
    with pytest.raises(ArgumentError, match="sm_90 for 18_hopper_wgmma"):
        kernel.build("sm_100")
