"""Kernel 22, simulated: its choice and division, its copies of rows, and what adds the parts of a tile's sum."""

import contextlib
import ctypes
import dataclasses
import re
import types
from collections import defaultdict

import cupy
import numpy as np
import pytest

from lab import check, limits_of, resources
from ptxsim import machine
from sgemm_tutorial import ArgumentError, DeviceError, SimulationFault, find, gpu, operands, simulate, simulator
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.families.any_shape import ADD, BK, KERNEL, PAD, PARAMETERS, SETTINGS, cost, setting, ways
from sgemm_tutorial.launch import SIMULATOR, Place, nothing
from sgemm_tutorial.operands import BF16, FP16

from .test_half_kernels import drawn, expected
from .test_stream_k import ORDERS, in_order

pytestmark = pytest.mark.slow

H200 = Place("sm_90", 132)
SMALL, PAIRED = (KERNEL.variant(**setting(64, 32, 3, *cluster)) for cluster in ((), (2,)))
ITSELF = KERNEL.family.itself(KERNEL)
"""22 where it hands nothing over."""
each_setting = pytest.mark.parametrize(
    "of", SETTINGS, ids=lambda of: "{BM}x{BN}, clusters of {CLUSTER}, {BLOCKS} on an SM".format_map(of)
)


def shapes():
    """Return some 200 shapes: small and large ones, flat and deep ones, with rows that begin anywhere or not."""
    rng = np.random.default_rng(22)
    found = [(1, 1, 1), (1, 4096, 4096), (4096, 1, 64), (64, 64, 2**17), (256, 256, 16384), (2049, 2048, 2048)]
    return [*found, (8192,) * 3] + [tuple(int(2**x) for x in rng.uniform(0, 14, 3)) for _ in range(200)]


def tiles_and_steps(of, shape):
    """Return the tiles of C that clusters have, and the multiply steps of one."""
    M, N, K = shape
    return -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"]), -(-K // BK)


# The order of tiles.


def strips(group, tiles_m, tiles_n, clusters):
    """Return how many rows and columns of tiles the first tiles of all clusters need, walked in groups of rows."""
    first, inside = np.divmod(np.arange(clusters), group * tiles_n)
    across, down = np.divmod(inside, np.minimum(tiles_m - first * group, group))
    return len({*(first * group + down)}) + len({*across})


@pytest.mark.parametrize("side", [4096, 8192, 16384])
def test_large_matrices_are_walked_in_squares(side):
    """All tiles at work then need fewer rows and columns than in the groups that suit small matrices."""
    division = (
        KERNEL.variant(**setting(128, 256, 4, 2))
        .divided(0, 66)
        .resolve(operands.imagined(*(side,) * 3, FP16), H200)
        .division
    )
    walked, tiles = division.counts["group"], (side // 256, side // 256)
    assert walked == any_shape.SQUARE // 256 != any_shape.GROUP // 256
    need = {group: strips(group, *tiles, 66) for group in range(1, tiles[0] + 1)}
    assert need[walked] == min(need.values()) < need[any_shape.GROUP // 256]


@pytest.mark.parametrize(
    ("shape", "rows"), [((2048,) * 3, "GROUP"), ((8192, 8192, 64), "GROUP"), ((3072, 3200, 3072), "SQUARE")]
)
def test_small_matrices_are_walked_in_narrow_groups(shape, rows):
    launch = KERNEL.variant(**setting(128, 256, 4, 1)).divided(0, 64).resolve(operands.imagined(*shape, FP16), H200)
    assert launch.division.counts["group"] == getattr(any_shape, rows) // 128


# What the compiler makes of it.


@each_setting
def test_every_setting_compiles_and_fits_an_sm(of):
    """Without spills, and without wgmma in series."""
    kernel = KERNEL.variant(**of)
    log = kernel.build("sm_90").log
    assert "serialized" not in log and "setmaxnreg" not in log
    taken, limits = resources(kernel, "sm_90"), limits_of("sm_90")
    if of is not SETTINGS[-1]:  # the catalogue's own, which `test_spills` looks at
        assert taken.spill_store_bytes == taken.spill_load_bytes == 0
    assert kernel.dynamic_shared_bytes + limits.shared_reserved_per_block <= limits.shared_per_sm
    assert taken.registers * kernel.threads <= limits.registers_per_sm


# The choice.


@each_setting
def test_every_way_adds_up(of):
    """Each can be launched, none is listed twice, and the quickest comes first."""
    values, sound = tuple(of.values()), KERNEL.variant(**of)
    for shape in shapes():
        tiles, steps = tiles_and_steps(of, shape)
        for multiprocessors in (132, 114, 7):
            found = ways(values, shape, Place("sm_90", multiprocessors))
            assert found == sorted(found) and len({way[1:] for way in found}) == len(found) > 0
            for us, shared, clusters in found:
                assert us == cost(of, shape, shared, clusters) > 0
                assert 0 <= shared <= tiles and 1 <= clusters <= (shared * steps or tiles)
                assert clusters * of["CLUSTER"] <= multiprocessors * of["BLOCKS"], "all are there at a time"
                kernel, problem = sound.divided(shared, clusters), operands.imagined(*shape, FP16)
                division = kernel.family.divide(kernel, problem, H200)  # `resolve` would read files 40,000 times
                assert division.blocks == clusters * of["CLUSTER"] and division.counts["shared"] == shared
                assert (division.workspace > 0) == (shared > 0) and not division.arrived
    assert kernel.resolve(problem, H200).division == division


def test_the_model_looks_at_shape_and_gpu_alone():
    """The same problem is done in the same way each time, by a kernel that has chosen before and by one that hasn't."""
    for shape in shapes()[:60]:
        problem = operands.imagined(*shape, FP16)
        first = KERNEL.resolve(problem, H200)
        ways.cache_clear()
        again = dataclasses.replace(KERNEL).resolve(problem, H200)
        assert first is not again and first.kernel == again.kernel and first.division == again.division


def test_each_setting_is_the_quickest_somewhere():
    squares = [(n, n, n) for n in range(64, 6145, 64)]
    rare = [
        (216, 7616, 616),
        (96, 392, 6952),
        (5864, 344, 72),
        (1416, 712, 72),
        (1984, 752, 3064),
        (264, 1928, 4008),
        (7640, 200, 152),
    ]
    of = [ITSELF.resolve(operands.imagined(*shape, FP16), H200).kernel for shape in (*shapes(), *squares, *rare)]
    chosen = {tuple(kernel.parameters[name] for name in PARAMETERS) for kernel in of}
    assert chosen == {tuple(one.values()) for one in SETTINGS}


def test_a_longer_sum_never_costs_less():
    for of in SETTINGS:
        for M, N in ((1, 4096), (300, 300), (4096, 4096)):
            tiles, _ = tiles_and_steps(of, (M, N, 64))
            clusters = min(tiles, 132 // of["CLUSTER"])
            times = [cost(of, (M, N, K), 0, clusters) for K in range(64, 4096, 64)]
            times = [us for us in times if us < np.inf]  # of turned tiles, short sums were not timed
            assert times == sorted(times) and all(us > any_shape.START for us in times)


def test_places_that_are_spread_share_nothing():
    """Every tile has a cluster of its own, so that a tile can be computed alone."""
    for shape in ((130, 72, 200), (1, 4096, 4096), (64, 64, 2**17), (4097, 4097, 4097)):
        launch = ITSELF.resolve(operands.imagined(*shape, FP16), KERNEL.family.spread(H200))
        tiles, _ = tiles_and_steps(launch.kernel.parameters, shape)
        assert launch.division.blocks == tiles * launch.kernel.parameters["CLUSTER"]
        assert not launch.division.counts["shared"] and not launch.division.workspace
    assert ways(tuple(setting(64, 32, 3).values()), (130, 72, 200), KERNEL.family.spread(H200)) == [(0.0, 0, 9)]


@pytest.mark.parametrize("division", [(10, 3), (-1, 3), (2, 0), (0, 10), (1, 5), (2, 9), (9, 37)], ids=str)
def test_a_division_that_does_not_add_up(division):
    """130 × 72 × 200 has nine tiles of four steps: more tiles are shared, or more clusters are there, than that has."""
    problem = operands.imagined(130, 72, 200, FP16)
    shared, clusters = division
    needs = "at most 9 shared tiles, and for each cluster a step of theirs, or a tile if none is shared"
    with pytest.raises(ArgumentError, match=f"division: got {shared} and {clusters}, needs {needs}"):
        SMALL.divided(*division).resolve(problem)
    assert SMALL.divided(9, 36).resolve(problem).blocks == 36


# Shares, and where parts meet.


def shares_of(tiles, steps, clusters, shared):
    """Return each cluster's share and pieces, (tile, begin, end), as `equal_shares.cuh` deals them out."""
    found, all_steps = [], shared * steps
    for cluster in range(clusters):
        share = cluster
        if shared and clusters % shared == 0:
            share = cluster % shared * (clusters // shared) + cluster // shared
        begin, end = (number * all_steps // clusters for number in (share, share + 1))
        pieces = []
        while begin < end:
            tile, first = divmod(begin, steps)
            last = min(steps, first + end - begin)
            pieces.append((tile, first, last))
            begin += last - first
        found.append((share, pieces + [(tile, 0, steps) for tile in range(shared + cluster, tiles, clusters)]))
    return found


def divisions():
    """Yield tiles, steps, clusters and shared tiles: every small division, and some of large problems."""
    for tiles in range(1, 7):
        for steps in range(1, 7):
            for shared in range(tiles + 1):
                for clusters in range(1, (shared * steps or tiles) + 1):
                    yield tiles, steps, clusters, shared
    for of in SETTINGS:
        for shape in shapes()[:40]:
            tiles, steps = tiles_and_steps(of, shape)
            if tiles < 2000:
                yield from ((tiles, steps, clusters, shared) for _, shared, clusters in ways(*_key(of, shape)))


def _key(of, shape):
    return tuple(of.values()), shape, H200


def test_shares_cover_every_step_and_no_two_parts_have_one_place():
    """Each place is inside the workspace, and a tile's parts are those of neighbouring shares, in order of k."""
    for tiles, steps, clusters, shared in divisions():
        done, places, of_tile = defaultdict(list), set(), defaultdict(list)
        dealt = shares_of(tiles, steps, clusters, shared)
        assert sorted(share for share, _ in dealt) == list(range(clusters))
        for share, pieces in sorted(dealt):
            for tile, begin, end in pieces:
                done[tile].append((begin, end))
                if end - begin < steps:
                    assert tile < shared and share + tile < clusters + shared
                    assert (share + tile) not in places
                    places.add(share + tile)
                    of_tile[tile].append(share)
        assert done.keys() == set(range(tiles))
        for parts in done.values():
            begins, ends = zip(*parts, strict=True)
            assert (begins[0], ends[-1]) == (0, steps) and begins[1:] == ends[:-1]
        for tile, owners in of_tile.items():
            first, last = (
                ((step + 1) * clusters - 1) // (shared * steps) for step in (tile * steps, (tile + 1) * steps - 1)
            )
            assert owners == list(range(first, last + 1)), "these are added"


@pytest.mark.parametrize(
    ("shape", "division"), [((128, 96, 640), (6, 11)), ((192, 64, 320), (2, 4)), ((64, 64, 1344), (2, 20))], ids=str
)
def test_the_kernel_deals_out_these_shares(shape, division):
    """It writes each part once, and each tile of C that is no sum of parts: so do the pieces above."""
    (M, N, K), (shared, clusters) = shape, division
    tiles, steps = tiles_and_steps(SMALL.parameters, shape)
    pieces = [piece for _, pieces in shares_of(tiles, steps, clusters, shared) for piece in pieces]
    assert sum(end - begin < steps for _, begin, end in pieces) > 2
    A, B, _ = drawn(M, N, K)
    problem = operands.check(A, B, None, 1.0, 0.0, FP16)
    total = simulator.run(SMALL.divided(*division).resolve(problem), problem).total
    assert total.global_store_bytes == 4 * len(pieces) * 64 * 32


DIVIDED = [
    (SMALL.divided(6, 30), (150, 40, 264)),
    (SMALL.divided(2, 14), (60, 40, 1056)),
    (SMALL.divided(2, 19), (60, 40, 1056)),
    (SMALL.divided(1, 66), (3, 9, 4170)),
    (SMALL.divided(9, 5), (130, 72, 200)),
    (SMALL.divided(2, 5), (130, 72, 201)),
    (PAIRED.divided(9, 7), (330, 72, 200)),
    (PAIRED.divided(2, 3), (64, 33, 200)),
]
DIVIDED_IDS = [f"{kernel.parameters['CLUSTER']}, {kernel.division}" for kernel, _ in DIVIDED]


@pytest.mark.parametrize(("kernel", "shape"), DIVIDED, ids=DIVIDED_IDS)
def test_the_same_bits_at_every_run_and_in_any_order(kernel, shape, monkeypatch):
    """Parts are added in order of k."""
    A, B, C = drawn(*shape)

    def once():
        problem = operands.check(A, B, C.copy(), 1.5, 0.5, FP16)
        simulator.run(kernel.resolve(problem), problem)
        return problem.C

    want = once()
    assert want.tobytes() == once().tobytes()
    size = kernel.parameters["CLUSTER"]
    for blocks, at_once in ORDERS.values():

        def clusters(numbers, blocks=blocks):
            return (blocks(numbers[::size] // size)[:, None] * size + np.arange(size)).ravel()

        monkeypatch.setattr(machine.Machine, "run", in_order(clusters, at_once * size))
        assert once().tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("work.place(work.share, piece.tile)", "work.place(work.share, 0)"),  # a share's two parts in one place
        ("share = cluster % shared * parts + cluster / shared", "share = cluster / shared"),
        ("{rank * BM + in.row, in.col}", "{in.row, in.col}"),
        ("high, BN, 1.0f, 0.0f, part", "high, BN, alpha, 0.0f, part"),  # scaled twice
    ],
)
def test_a_bug_in_the_parts_is_found(old, new):
    for kernel, shape in ((SMALL.divided(9, 5), (130, 72, 200)), (PAIRED.divided(2, 8), (250, 30, 600))):
        try:
            if not check(kernel.edited((old, new)), *shape, -1.5, 0.75, on_gpu=False).passed:
                return
        except SimulationFault:
            return
    pytest.fail("not found")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("((step + 1) * clusters - 1) / all", "(step * clusters) / all"),
        ("shares.place(begins, tile)", "shares.place(begins, 0)"),
        ("part < (slice + 1) * parts / SLICES", "part < slice * parts / SLICES + 1"),
        ("slice * parts / SLICES; part", "slice * (parts / SLICES); part"),
        ("if (parts == 1 || alpha", "if (alpha"),
        ("|| alpha == 0.0f", ""),
        ("if (row < M && col < N)", "if (row < M)"),
        ("if (row < M && col < N)", "if (col < N)"),
        ("if (slice > 0) return;", ""),
        ("int other = 1;", "int other = 2;"),
        ("j < 4 && j < columns", "j < 4"),
        ("__syncthreads();", ""),
    ],
)
def test_a_bug_in_what_adds_them_is_found(old, new, monkeypatch):
    monkeypatch.setattr(any_shape, "ADD", ADD.edited((old, new)))
    cases = [
        (SMALL.divided(9, 5), (130, 72, 200), (-1.5, 0.75)),
        (SMALL.divided(9, 5), (130, 71, 200), (1.0, 0.0)),
        (SMALL.divided(9, 5), (130, 72, 200), (0.0, 2.0)),
        (SMALL.divided(2, 5), (100, 30, 320), (1.0, 0.0)),  # one of the tiles is whole
        (SMALL.divided(2, 4), (60, 40, 320), (1.0, 0.0)),  # and here none
        (SMALL.divided(1, 19), (40, 30, 1280), (1.0, 0.0)),
    ]
    for kernel, shape, scalars in cases:
        try:
            if not check(kernel, *shape, *scalars, on_gpu=False).passed:
                return
        except SimulationFault:
            return
    pytest.fail("not found")


MANY = 66_000
"""Clusters: the last one's number times the shared steps is past 2³²."""


@pytest.mark.parametrize("narrow", ["", "unsigned all;", "int all;"])
def test_the_last_of_very_many_shares(narrow):
    """Its first step takes 64 bits: with 32 it would be another one, where A is zero."""
    kernel = SMALL.edited(("size_t all; ", narrow)) if narrow else SMALL
    A, B = np.zeros((1, 64 * MANY), np.float16), np.ones((64 * MANY, 8), np.float16)
    A[:, -64:] = 1
    problem = operands.check(A, B, None, 1.0, 0.0, FP16)
    with pytest.raises((SimulationFault, AssertionError)) if narrow else contextlib.nullcontext():
        ran = simulator.run(kernel.divided(1, MANY).resolve(problem), problem, blocks=[MANY - 1])
        (workspace,) = (one.data.view(np.float32) for one in ran.execution.memory.buffers if one.name == "workspace")
        (left,) = np.flatnonzero(workspace == 64)[None]
        assert len(left) == 8 and set((left // (64 * 32)).tolist()) == {MANY - 1}


@pytest.mark.parametrize("narrow", ["", "unsigned N,", "int N,"])
def test_a_row_of_16_bits_that_begins_past_32_bits(narrow):
    kernel = KERNEL.variant(**setting(80, 64, 3, 1, 80), BITS=16)
    kernel = kernel.edited(("R* to, size_t N,", f"R* to, {narrow}")) if narrow else kernel
    case = {"alpha": -1.5, "beta": 0.0, "on_gpu": False, "last_tile": True}
    assert check(kernel, 64, 2**26 + 2**23 + 40, 8, **case).passed == (not narrow)


def test_mbarriers_lie_behind_all_that_is_written():
    """The simulator keeps them apart from the words of shared memory; on a GPU they would be overwritten."""
    kernel = SMALL.divided(0, 4)
    run = simulate(kernel, *drawn(130, 72, 200)[:2], trace=[0])
    tiles, patches = 3 * (64 + 64) * 64 * 2, 4 * any_shape.PATCH_BYTES
    barriers = {event.offset for event in run.events if event.kind in ("arrive", "ask")}
    stores = [one for one in run.trace if (one.space, one.kind) == ("shared", "store") and one.width == 8]
    assert {place for one in stores for place in one.offsets.tolist() if place < tiles} == set()
    assert max(one.offsets.max() + one.width for one in stores) == tiles + patches - 8 * 4 == min(barriers) - 8 * 4
    assert max(barriers) + 8 == kernel.dynamic_shared_bytes


# Rows that begin anywhere.


@pytest.mark.parametrize("types", [FP16, BF16], ids=lambda types: types.name)
@pytest.mark.parametrize(
    ("shape", "shift", "names"),
    [
        ((5, 8, 16), 0, ""),
        ((5, 8, 16), 8, ""),  # 16 bytes
        ((5, 8, 17), 0, "A"),
        ((5, 9, 16), 0, "B"),
        ((5, 9, 17), 0, "AB"),
        ((3, 1, 1), 0, "AB"),
        ((70, 130, 301), 3, "AB"),
        ((5, 8, 16), 1, "AB"),
    ],
    ids=str,
)
def test_rows_are_copied_to_where_they_can_be_fetched(shape, shift, names, types):
    A, B, _ = drawn(*shape, shift, types)
    problem = operands.check(A, B, None, 1.0, 0.0, types)
    copied, copy = KERNEL.family.fetchable(problem)
    if not names:
        assert copied is problem and copy is nothing
        return
    copy()
    for name in "AB":
        matrix, got = getattr(problem, name), getattr(copied, name)
        if name not in names:
            assert got is matrix
            continue
        width = any_shape.pitch(matrix.shape[1])
        assert got.shape == (len(matrix), width) and got.dtype == matrix.dtype
        assert got[:, : matrix.shape[1]].tobytes() == np.ascontiguousarray(matrix).tobytes()
        assert not got[:, matrix.shape[1] :].astype(np.float32).any()
    assert copied.C is problem.C and copied.shape == problem.shape


def test_what_is_fetched_of_a_copy_s_row_lies_in_one_line():
    """A box has 64 elements of a row, 128 bytes, as has a line of L2."""
    for columns in range(1, 1000):
        pitch = any_shape.pitch(columns)
        assert columns <= pitch < columns + 64 and pitch % 8 == 0
        assert all(
            (begin * 2) // 128 == (begin * 2 + min(pitch, 64) * 2 - 1) // 128 for begin in range(0, 64 * pitch, pitch)
        )
        assert any_shape.lines(pitch) == 1 and any_shape.lines(columns) >= 1
    assert [any_shape.lines(columns) for columns in (64, 200, 208, 224, 256, 4097)] == pytest.approx(
        [1, *(1 + any_shape.STRADDLE * share for share in (1, 1 / 2, 1 / 4)), 1, 1]
    )


def test_nothing_is_copied_where_nothing_is_read():
    A, B, C = drawn(5, 9, 17)
    copied, copy = KERNEL.family.fetchable(operands.check(A, B, C, 0.0, 1.0, FP16))
    assert copy is nothing and copied.A.shape == (5, 32) and copied.B.shape == (17, 16)


@pytest.mark.parametrize("blocks", [1, 2, 30])
@pytest.mark.parametrize("rows", [(40, 13), (0, 13), (40, 0), (1, 1)], ids=str)
def test_pad(rows, blocks):
    """Few blocks make several rounds, and many have nothing left to do. A matrix of no rows is left alone."""
    arguments, want = {}, {}
    for name, height, width, chunks in (("A", rows[0], 301, 38), ("B", rows[1], 75, 16)):  # of B more than needed
        matrix = np.arange(1, 1 + max(height, 1) * width, dtype=np.uint16).reshape(-1, width)
        copy = np.full((max(height, 1), chunks * 8), 7, np.uint16)
        want[name] = np.pad(matrix, ((0, 0), (0, copy.shape[1] - width))) if height else copy.copy()
        arguments |= {name: matrix, f"copy{name}": copy}
        arguments |= {f"rows{name}": np.uint32(height), f"columns{name}": np.uint32(width)}
        arguments[f"chunks{name}"] = np.uint32(chunks)
    simulator.queue(PAD.instance, blocks, arguments)()
    for name, matrix in want.items():
        assert np.array_equal(arguments[f"copy{name}"], matrix), name


@pytest.mark.parametrize("shift", [0, 1])
def test_the_sums_are_those_of_the_tensor_cores(shift):
    """Whether or not rows are copied: zeros are what lies past the edge either way."""
    for shape in ((70, 40, 130), (33, 71, 201)):
        A, B, C = drawn(*shape, shift)
        run = simulate(KERNEL.variant(**setting(64, 64, 3)), A, B, C.copy(), 2.0, -1.0)
        assert np.array_equal(run.C, expected(A, B, C, 2.0, -1.0))


@pytest.mark.parametrize("kernel", [SMALL, PAIRED, PAD], ids=lambda kernel: kernel.expression)
def test_it_waits_for_the_launch_before_it_reads_or_writes_anything(kernel):
    """The simulator begins a grid when the one before has ended; a GPU needs the wait for that."""
    ptx = kernel.build("compute_90a" if kernel.exact else "compute_90").ptx
    code = ptx[ptx.index(".entry") :]
    wait = code.index("griddepcontrol.wait;")
    assert "griddepcontrol.launch_dependents;" in code
    first = re.search(r"(ld|st)\.global[^;]*\[%rd|cp\.async\.bulk\.tensor|atom\.", code)
    assert wait < first.start()


# C in 16 bits.


@pytest.mark.parametrize(
    "kernel", [SMALL.divided(2, 19), PAIRED.divided(2, 5)], ids=lambda kernel: f"{kernel.division}"
)
@pytest.mark.parametrize("T", ["half", "__nv_bfloat16"])
@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-1.5, 0.75)])
def test_a_c_of_16_bits_is_the_one_of_32_rounded_once(kernel, T, shift, alpha, beta):
    wide, narrow = kernel.variant(T=T), kernel.variant(T=T, BITS=16)
    A, B, C = drawn(60, 47 if shift else 40, 1056, shift, narrow.types)
    wanted = simulate(wide, A, B, C.astype(np.float32), alpha, beta).C.astype(C.dtype)
    got = simulate(narrow, A, B, C, alpha, beta).C
    assert got.dtype == narrow.types.operand and got.tobytes() == wanted.tobytes()


# The GPU's side of it, without a GPU.


class Loaded:
    """A function on the GPU."""

    ptr = 0xABC


class Driver:
    """Writes down what it is to launch, and says with which error."""

    def __init__(self, status=0):
        self.status, self.launched = status, []

    def cuLaunchKernelEx(self, config, function, places, _):
        config = config._obj
        attribute = config.attributes.contents
        sizes = [config.gridX, config.gridY, config.gridZ, config.blockX, config.blockY, config.blockZ, config.shared]
        self.launched.append(
            (sizes, config.stream, (attribute.id, attribute.value[0], config.count), function.value, places)
        )
        return self.status


@pytest.fixture
def driver(monkeypatch):
    driver, function = Driver(), Loaded()
    monkeypatch.setattr(gpu, "_driver", lambda: driver)
    monkeypatch.setattr(gpu, "load", lambda instance: function)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: types.SimpleNamespace(ptr=0x77))
    return driver


def test_a_launch_that_may_overlap(driver):
    """The attribute that lets it begin early; arguments as they lie in memory, one behind the other."""
    seen = []

    class Reader(Driver):
        def cuLaunchKernelEx(self, config, function, places, _):
            seen.extend(ctypes.cast(places[i], ctypes.POINTER(ctypes.c_uint32)).contents.value for i in range(3))
            return super().cuLaunchKernelEx(config, function, places, _)

    driver.__class__ = Reader
    gpu.queue(PAD.instance, 5, {"a": np.uint32(11), "b": np.uint64(2**32 + 22), "c": np.uint32(33)})()
    ((sizes, stream, attribute, function, _),) = driver.launched
    assert sizes == [5, 1, 1, 256, 1, 1, 0] and (stream, function) == (0x77, 0xABC)
    assert attribute == (6, 1, 1), "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert seen == [11, 22, 33]
    gpu.queue(PAD.instance, 6, {"a": np.uint32(44), "b": np.uint64(2**32 + 55), "c": np.uint32(66)})()
    assert seen[3:] == [44, 55, 66] and driver.launched[1][0][0] == 6, "memory for arguments is used again"


def test_a_launch_that_the_driver_refuses(driver):
    driver.status = 1
    with pytest.raises(DeviceError, match="the driver does not launch: error 1"):
        gpu.queue(PAD.instance, 5, {"a": np.uint32(11)})()


@pytest.mark.skipif(gpu.available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    A, B, _ = drawn(5, 9, 17)
    problem = operands.check(A, B, None, 1.0, 0.0, FP16)
    with pytest.raises(DeviceError, match="no GPU"):
        gpu.queue(PAD.instance, 1, {})
    with pytest.raises(DeviceError, match="no GPU"):
        gpu.launcher(KERNEL.resolve(problem), problem)
    assert find("22") is KERNEL and simulate(KERNEL, A, B, multiprocessors=SIMULATOR.multiprocessors).C.shape == (5, 9)
