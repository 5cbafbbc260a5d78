"""Kernels 18 to 20, simulated: their sums are 16's to the bit for any shape, and they need every wait and fence."""

import dataclasses
import math

import numpy as np
import pytest

from lab import resources
from lab.records import shapes
from sgemm_tutorial import ArgumentError, SimulationFault, compiler, find, gpu, matrices, operands, simulate
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.families.hopper import RESIDENT, WIDTHS, addressable, resident
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import FP16

from .test_half_kernels import drawn, expected, sums

pytestmark = pytest.mark.slow

H200 = Place("sm_90", 132)
NOWHERE = H200._replace(device=98), H200._replace(device=99)
"""GPUs that are not there, for which a test says what the driver says: launches there are remembered."""
HOPPER = find("20")
PLAIN, FETCHING = find("18"), find("19")
ALONE = HOPPER.variant(GROUP=1, CLUSTER=1)
CLUSTERS = HOPPER.variant(GROUP=2, CLUSTER=2)
NARROW = {"BN": 128, "WN": 128}
TILES = [{"BN": width.BN, "WN": width.BN, "STAGES": 3, "CLUSTER": width.CLUSTER} for width in WIDTHS]
SHAPES = [(128, 256, 64), (1, 8, 8), (129, 264, 200), (72, 128, 640)]


@pytest.mark.parametrize(
    "kernel", [PLAIN, FETCHING, *(HOPPER.variant(**tile) for tile in TILES)], ids=lambda k: k.expression
)
def test_what_the_compiler_makes_of_it(kernel):
    """It compiles for one architecture, spills nothing, and neither wgmma nor setmaxnreg goes wrong.

    First, for its PTX is made then too.
    """
    binary = kernel.build("sm_90")
    assert binary.architecture == "sm_90a" and "serialized" not in binary.log and "setmaxnreg" not in binary.log
    taken = resources(kernel, "sm_90")
    assert taken.spill_store_bytes == taken.spill_load_bytes == 0
    columns = -(-kernel.parameters["BN"] // 64) * 64
    stages = kernel.parameters["STAGES"]
    assert taken.shared_bytes == stages * ((128 + columns) * 128 + 8 * kernel.family.barriers)
    with pytest.raises(ArgumentError, match=f"sm_90 for {kernel.name}"):
        kernel.build("sm_100")


def rounded_once(A, B, C, alpha, beta):
    """Return what becomes of the sums that 16 has if α and β are applied with one rounding: in float64 with none."""
    return (alpha * sums(A, B).astype(np.float64) + beta * C).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_that_the_copy_engine_can_fetch(shape):
    """Past the edges come zeros; β = 0 does not read C, and what lies together of C is written together."""
    A, B, C = drawn(*shape)
    for alpha, beta, kernels in ((1.0, 0.0, (HOPPER, FETCHING)), (-1.5, 0.5, (HOPPER, PLAIN.variant(STAGES=3)))):
        want = rounded_once(A, B, C, alpha, beta)
        for kernel in kernels:
            run = simulate(kernel, A, B, None if beta == 0 else C.copy(), alpha, beta)
            assert run.kernel.name == kernel.name and np.array_equal(run.C, want)
            assert kernel is HOPPER or run.kernel == kernel


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: str(tile["BN"]))
def test_tiles_of_every_width(tile):
    A, B, C = drawn(140, 296, 136)
    run = simulate(HOPPER.variant(**tile), A, B, C.copy(), -1.5, 0.5)
    assert np.array_equal(run.C, rounded_once(A, B, C, -1.5, 0.5))


@pytest.mark.parametrize("K", [64, 200])
@pytest.mark.parametrize("kernel", [ALONE, CLUSTERS], ids=lambda kernel: kernel.expression)
def test_blocks_that_do_several_tiles(kernel, K):
    """Each goes on where its stages and parities are; a group at the end may lack rows.

    Half of the sums of a tile are written while the next one's products are under way, or before them where one step is
    all there is of them.
    """
    A, B, C = drawn(392, 136, K)
    want = expected(A, B, C, 2.0, -1.0)
    narrow = kernel.variant(**NARROW)
    for group, multiprocessors in ((1, 2), (3, 3)):
        group *= kernel.parameters["CLUSTER"]
        run = simulate(narrow.variant(GROUP=group), A, B, C.copy(), 2.0, -1.0, multiprocessors=multiprocessors)
        assert np.array_equal(run.C, want)


@pytest.mark.parametrize("M", [1, 128, 129, 300, 600])
def test_clusters_that_reach_past_the_last_row(M):
    """A block without a row fetches its part of B for the other all the same; tiles may be odd in number."""
    A, B, C = drawn(M, 136, 72)
    want = expected(A, B, C, 2.0, -1.0)
    for multiprocessors in (5, 20):  # several tiles for a cluster, and one
        run = simulate(CLUSTERS.variant(**NARROW), A, B, C.copy(), 2.0, -1.0, multiprocessors=multiprocessors)
        assert np.array_equal(run.C, want)


def test_the_sums_are_those_of_the_tensor_cores():
    A, B, C = drawn(130, 264, 136)
    assert np.array_equal(simulate(HOPPER, A, B).C, expected(A, B, C, 1.0, 0.0))


@pytest.mark.parametrize("kernel", [PLAIN, FETCHING, CLUSTERS], ids=lambda k: k.expression)
def test_nothing_is_read_where_alpha_is_zero(kernel):
    A, B, C = drawn(270, 264, 136)
    A[:], B[:] = np.nan, np.nan
    assert np.array_equal(simulate(kernel, A, B, C.copy(), 0.0, 2.0, multiprocessors=2).C, 2 * C)
    assert not simulate(kernel, A, B, alpha=0.0, multiprocessors=2).C.any()


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_where_c_begins(shift):
    """Off a multiple of 16 bytes its elements are written one by one; A and B are fetched as ever."""
    A, B, C = drawn(130, 136, 72)
    memory = np.full(C.size + 8, np.nan, np.float32)
    shifted = memory[shift : shift + C.size].reshape(C.shape)
    for beta in (0.0, 0.5):
        shifted[:] = C if beta else np.nan
        run = simulate(HOPPER, A, B, shifted, 2.0, beta)
        assert run.kernel.name == HOPPER.name and np.array_equal(shifted, expected(A, B, C, 2.0, beta))
        assert run.total.global_store_requests == (1 if shift % 4 == 0 else 4) * stores(C)
        assert np.isnan(memory[:shift]).all() and np.isnan(memory[shift + C.size :]).all()


def stores(C):
    """Return the requests that write C by sixteen bytes: eight rows by 16 columns each, less at the edges."""
    M, N = C.shape
    return -(-M // 8) * -(-N // 16)


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
    assert run.kernel.name == HOPPER.name and np.array_equal(run.C, expected(A, B, C, 1.0, 0.0))


@pytest.mark.parametrize(
    ("size", "multiprocessors", "width"),
    [
        ((2048, 2048, 64), 132, 256),  # 128 tiles, one for each
        ((2560, 2560, 64), 132, 224),  # 200 would be two rounds; 240 are two as well, and narrower
        ((3072, 3072, 64), 132, 192),
        ((4096, 4096, 64), 132, 256),
        ((5120, 5120, 64), 132, 224),  # 800 would be 6.06 rounds, and so seven
        ((8192, 8192, 64), 132, 224),
        ((128, 256, 64), 132, 128),  # two blocks are quicker than one
        ((2048, 2048, 64), 114, 192),
    ],
    ids=str,
)
def test_a_width_that_leaves_few_multiprocessors_idle(size, multiprocessors, width):
    problem = operands.imagined(*size, FP16)
    kernel = HOPPER.resolve(problem, Place("sm_90", multiprocessors)).kernel
    chosen = next(of for of in WIDTHS if width == of.BN)
    of = kernel.parameters
    assert (of["BN"], of["WN"], of["STAGES"], of["CLUSTER"]) == (width, width, chosen.STAGES, chosen.CLUSTER)
    assert all(of[name] == value for name, value in HOPPER.parameters.items() if name not in (*chosen._fields, "WN"))
    assert kernel.resolve(problem, Place("sm_90", 1)).kernel is kernel
    assert all(one.resolve(problem, Place("sm_90", 132)).kernel is one for one in (PLAIN, FETCHING, ALONE))
    blocks = kernel.resolve(problem, Place("sm_90", multiprocessors)).division.blocks
    assert blocks <= multiprocessors and blocks % chosen.CLUSTER == 0


def test_clusters_at_a_time():
    """The simulator has as many as an H200's driver says, where clusters of four leave SMs over, or in proportion."""
    most, fewer, few = (Place("sm_90", of) for of in (132, 114, 7))
    assert [resident(cluster, most) for cluster in (1, 2, 3, 4, 5, 6, 8)] == [132, 66, 39, 30, 26, 17, 15]
    assert [resident(cluster, fewer) for cluster in (1, 2, 4)] == [114, 57, 25] and resident(8, few) == 0
    problem = operands.imagined(4096, 4096, 64, FP16)
    for cluster in (1, 2, 4):
        kernel = HOPPER.variant(CLUSTER=cluster)
        assert kernel.resolve(problem).division.blocks == cluster * resident(cluster, most)
        other = dataclasses.replace(any_shape.KERNEL, settled=True).variant(CLUSTER=cluster)
        assert other.resolve(problem).division.blocks == cluster * resident(cluster, most)


def test_on_a_gpu_its_driver_says_how_many_clusters_fit(monkeypatch):
    """Every choice and division that counts on clusters asks it."""
    monkeypatch.setattr(gpu, "resident_clusters", lambda cluster, device: {2: 40, 4: 0}.get(cluster))
    problem, on_gpu = operands.imagined(4096, 4096, 64, FP16), NOWHERE[0]
    assert HOPPER.variant(CLUSTER=2).resolve(problem, on_gpu).division.blocks == 80
    assert HOPPER.variant(CLUSTER=1).resolve(problem, on_gpu).division.blocks == 132
    assert HOPPER.resolve(problem).kernel.parameters["CLUSTER"] == 2, "66 fit there"
    assert HOPPER.resolve(problem, on_gpu).kernel.parameters["CLUSTER"] == 1
    settled = dataclasses.replace(any_shape.KERNEL, settled=True)
    assert settled.variant(CLUSTER=2).resolve(problem, on_gpu).division.blocks == 80
    of, shape = any_shape.deep_setting(64, 64, 12, 4), (256, 256, 4096)
    assert any_shape.deep_cost(of, shape, on_gpu) == math.inf > any_shape.deep_cost(of, shape, H200)


def test_on_an_h200_the_choice_is_what_the_simulator_says(monkeypatch):
    """Recordings are of the choice that is made now, as the driver says there what the simulator assumes."""
    asked = []
    monkeypatch.setattr(gpu, "resident_clusters", lambda cluster, device: asked.append(cluster) or RESIDENT[cluster])
    for kernel in (HOPPER, any_shape.KERNEL, find("21")):
        for shape in (*shapes.SQUARES, *shapes.SHAPES):
            problem = operands.imagined(*shape, kernel.types)
            here, there = (kernel.resolve(problem, place) for place in (H200, NOWHERE[1]))
            assert (here.kernel, here.division) == (there.kernel, there.division)
    assert {2, 4} < set(asked)


def test_the_driver_is_asked_about_blocks_that_share_no_multiprocessor():
    assert compiler.build(gpu.ALONE, "sm_90").entry
    assert 2 * gpu.ALONE.dynamic_shared_bytes > limits_of("sm_90").shared_per_sm


def test_a_gpu_on_which_no_cluster_fits():
    problem = operands.imagined(4096, 4096, 64, FP16)
    assert HOPPER.resolve(problem, Place("sm_90", 1)).kernel.parameters["CLUSTER"] == 1


def test_what_is_counted():
    """Each block fetches its tiles once, and no thread reads them; in a cluster each fetches half of B."""
    A, B, _ = drawn(256, 512, 256)
    blocks, tiles = 4, 4
    for kernel, of_B in ((FETCHING, 256), (CLUSTERS, 128)):
        total = simulate(kernel, A, B).total
        assert total.global_load_bytes == blocks * tiles * (128 + of_B) * 64 * 2
        assert total.global_load_requests == blocks * tiles * 5
        assert total.global_load_sectors == total.global_load_bytes // 32
        assert total.flops == 2 * 256 * 512 * 256 + 256 * 512  # and α times each sum
        assert not total.shared_load_requests and total.by_class["tensor"] == blocks * tiles * 4 * 8
        assert (
            total.by_class["prefetch"] == (2 * blocks if kernel is CLUSTERS else 0)
            and total.global_store_requests == 256 * 512 // 128
        )


def test_what_a_trace_has_of_copy_engine_and_products():
    wide = HOPPER.variant(CLUSTER=1)
    of = wide.parameters
    run = simulate(wide, *matrices(of["BM"], of["BN"], 2 * of["BK"], on_gpu=False, types=wide.types), trace=[0])
    boxes = [e.offset for e in run.events if e.kind == "copy"]
    a, b = 2 * of["BM"] * of["BK"], 2 * of["BK"] * of["BN"]
    parts = np.arange(0, b, 2 * 64 * of["BK"])
    assert boxes == [place for stage in (0, 1) for place in (stage * a, *(of["STAGES"] * a + stage * b + parts))]
    assert [e.offset for e in run.events if e.kind == "multiply"] == [
        stage * a + 2 * k for stage in (0, 1) for k in range(0, of["BK"], 16)
    ]
    assert [e.pending for e in run.events if e.kind == "wait for products"] == [1, 1, 0]
    assert len([e for e in run.events if e.kind == "commit products"]) == 2


WAIT = "full[stage].wait(tile / STAGES % 2);"
LET_GO = "if (tile > 0 && lane == 0) empty[(tile - 1) % STAGES].arrive();"
BROKEN = {
    "no fence of the mbarriers": ("fence_proxy();  ", "", "proxy"),
    "no barrier behind them": (
        "    __syncthreads();                                       // and so must",
        "// ",
        "race",
    ),
    "no wait for tiles": (WAIT, "", "in flight"),
    "a parity that does not change": (WAIT, "full[stage].wait(0);", "in flight"),
    "a wrong parity": (WAIT, "full[stage].wait(tile / STAGES % 2 ^ 1);", "in flight"),
    "too few bytes": ("(tileA + tileB) * sizeof(T)", "tileB * sizeof(T)", "in flight"),
    "too many bytes": ("(tileA + tileB) * sizeof(T)", "(tileA + 2 * tileB) * sizeof(T)", "deadlock"),
    "registers not ordered": ("        order_registers();\n", "", "in flight"),
    "groups that never end": ("        commit_products();\n", "", "race"),
    "no wait for products": ("    wait_for_products(acc);\n", "", "in flight"),
    "no wait for those before": ("        wait_for_products<1>(); ", "", "race"),
    "no barrier before the next": (
        "        __syncthreads();                                   // and by",
        "// ",
        "race",
    ),
}
BROKEN_IN_TWO = {
    "no wait for readers": ("if (tile >= STAGES) empty[stage].wait((tile / STAGES - 1) % 2);", "", "barrier"),
    "a wrong parity for them": ("(tile / STAGES - 1) % 2", "tile / STAGES % 2", "barrier"),
    "stages let go too early": (LET_GO, "if (lane == 0) empty[stage].arrive();", "race"),
    "stages that nobody lets go": (LET_GO, "", "deadlock"),
    "too few let go": ("lane == 0) empty", "threadIdx.x == 0) empty", "deadlock"),
    "more arrivals than are awaited": ("init(workers / 32)", "init(1)", "deadlock"),
    "no wait for products": ("        wait_for_products<1>(); ", "", "race"),
    "no wait for tiles": (WAIT, "", "in flight"),
}
BROKEN_IN_CLUSTERS = {
    "no barrier at the beginning": ("(CLUSTER > 1) cluster_barrier();\n    else", "(CLUSTER == 1)", "race"),
    "no wait at the end": ("++stage, ++step) wait_for_room();", "++stage, ++step);", "gone"),
    "too short a wait at the end": (
        "int stage = 0; stage < STAGES; ++stage, ++step)",
        "int stage = 0; stage < STAGES - 1; ++stage, ++step)",
        "gone",
    ),
    "arrivals in its own block alone": ("arrive_in(lane)", "arrive_in(rank)", "race"),
    "arrivals of one block": ("empty[stage].init(CLUSTER * ", "empty[stage].init(1 * ", "deadlock"),
    "a part for one block": ("(1 << CLUSTER) - 1", "1 << rank", "deadlock"),
    "a part in another's place": ("n * BK + rank * part * row", "n * BK", "in flight"),
    "addresses whose rank is left in": ("(within(matrix) & 0x3ffff)", "within(matrix)", "in flight"),
}
BREAKS = (
    *((PLAIN.variant(**NARROW), 512, change, name) for name, change in BROKEN.items()),
    *((FETCHING.variant(**NARROW), 768, change, name) for name, change in BROKEN_IN_TWO.items()),
    *((CLUSTERS.variant(**NARROW), 768, change, name) for name, change in BROKEN_IN_CLUSTERS.items()),
)


@pytest.mark.parametrize(("kernel", "K", "change"), [b[:3] for b in BREAKS], ids=[b[3] for b in BREAKS])
def test_whatever_is_left_out_is_noticed(kernel, K, change):
    old, new, kind = change
    A, B, _ = drawn(128, 128, K)
    with pytest.raises(SimulationFault) as caught:
        simulate(kernel.edited((old, new)), A, B)
    assert caught.value.kind == kind, caught.value
