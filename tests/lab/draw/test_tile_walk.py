"""A player's fetches, reads and writes of a thread, a warp and a block are those in the trace."""

import re
from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.draw.figure import BLUE, GREEN, ORANGE
from lab.draw.tile_walk import BLOCKS, LARGEST, READ, THREAD, WARPS
from lab.staged import staged
from sgemm_tutorial import ArgumentError

pytestmark = pytest.mark.slow

AHEAD = {"10": 1, "11": 2, "13": 2}
"""Steps by which tiles are fetched ahead. 13 does so by three, when it has read all that it needs of a step's."""
RUNGS = ("03", "04", "05", "06", "07", "08", "09", "10", "11", "13", "13 in slices")
STEPS = 5


def kernel_of(rung):
    kernel = sg.find(rung[:2])
    if rung == "13":
        kernel = kernel.variant(**kernel.parameters).divided(4, 0)
    elif rung == "13 in slices":
        slices = {"BM": 32, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "SLICES": 4}
        kernel = kernel.variant(**slices, STAGES=4, BLOCKS=2).divided(4, 0)
    return kernel.variant(BK=64) if rung == "03" else kernel


@pytest.fixture(scope="module", params=RUNGS)
def walk(request):
    """The run of one rung and its player, one's after the other: traces are large."""
    kernel = kernel_of(request.param)
    M, N, K = (n * kernel.parameters[name] for n, name in ((2, "BM"), (2, "BN"), (STEPS, "BK")))
    run = sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False), trace=range(4))
    return request.param, run, lab.draw.tile_walk("tiles", run)


def painted(figure, colour, strength, corner, shape):
    """Return which elements a picture paints, given the pixels of the corner of the matrix that is meant."""
    found = np.zeros(shape, bool)
    for path in re.findall(
        rf'<path fill="{re.escape(colour)}" fill-opacity="{strength:g}"[^>]* transform[^>]*>', figure.body
    ):
        (x, y), *moves = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", path)
        if (float(x), float(y)) == corner:
            right, down = (sum(int(move[axis]) for move in moves) for axis in (0, 1))
            for area in re.findall(r"M(-?\d+) (-?\d+)h(\d+)v(\d+)", path):
                column, row, width, height = map(int, area)
                top, left = row + down, column + right
                assert 0 <= top <= top + height <= shape[0] and 0 <= left <= left + width <= shape[1]
                found[top : top + height, left : left + width] = True
    return found


def corners(figure):
    """Return where A, B and C begin, which are drawn with frames: A to the left of C, B above."""
    frames = [
        (float(x), float(y))
        for d in re.findall(r'<path fill="none"[^>]* d="((?:M[^z"]*[zZ]){3})"', figure.body)
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)", d)
    ]
    assert len(frames) == 3
    return dict(zip("ABC", frames, strict=True))


def traced(run, block):
    """Return a block's accesses by space, kind and array."""
    found = defaultdict(list)
    for access in run.trace:
        if access.block == block:
            found[access.space, access.kind, access.array].append(access)
    return found


def touched(accesses, threads, shape):
    """Return which elements of a matrix some threads access."""
    found = np.zeros(shape, bool)
    for access in accesses:
        mine = np.isin(access.threads, threads)
        found.ravel()[access.offsets[mine][:, None] // 4 + np.arange(access.width // 4)] = True
    return found


def units(kernel):
    """Yield whose share to look at: of whom, warp, lane and the threads meant."""
    for warp, lane in ((0, 0), (kernel.threads // 32 - 1, 31), (kernel.threads // 64, 13)):
        yield THREAD, warp, lane, [32 * warp + lane]
        yield WARPS, warp, lane, range(32 * warp, 32 * warp + 32)
    yield BLOCKS, 1, 3, range(kernel.threads)


def test_what_is_painted_was_accessed(walk):
    """This holds for each unit in blocks 1 and 2: one has another row than block 0, and one another column."""
    rung, run, player = walk
    of, (M, N), K = run.kernel.parameters, run.C.shape, run.K
    BM, BN, BK = of["BM"], of["BN"], of["BK"]
    ahead, slices = AHEAD.get(rung[:2], 0), of.get("SLICES", 1)
    by_block = {block: traced(run, block) for block in (1, 2)}
    for i, (who, warp, lane, threads) in enumerate(units(run.kernel)):
        block = 1 + i % 2
        trace = by_block[block]
        written = touched(trace["global", "store", "C"], threads, (M, N))
        fetched_A = touched(trace["global", "load", "A"], threads, (M, K))
        fetched_B = touched(trace["global", "load", "B"], threads, (K, N))
        rows, columns = written.any(axis=1), written.any(axis=0)
        top, left = rows.argmax() // BM * BM, columns.argmax() // BN * BN
        high, wide = slice(top, top + BM), slice(left, left + BN)
        for step in range(STEPS):
            whole, tiles = player.shown([who, block, warp, lane, step])
            at, near = corners(whole), corners(tiles)
            ks, where = slice(step * BK, step * BK + BK), (who, block, step)
            assert np.array_equal(painted(whole, GREEN, 1, at["C"], (M, N)), written), where
            assert np.array_equal(painted(tiles, GREEN, 1, near["C"], (BM, BN)), written[high, wide]), where
            assert written[high, wide].sum() == written.sum()
            depth = slice((step + ahead) * BK if step else 0, (step + ahead + 1) * BK)
            now_A, now_B = np.zeros((M, K), bool), np.zeros((K, N), bool)
            now_A[:, depth], now_B[depth] = fetched_A[:, depth], fetched_B[depth]
            assert np.array_equal(painted(whole, BLUE, 1, at["A"], (M, K)), now_A), where
            assert np.array_equal(painted(whole, ORANGE, 1, at["B"], (K, N)), now_B), where
            inside_A, inside_B = (
                now_A[high].reshape(BM, STEPS, BK).any(axis=1),
                now_B[:, wide].reshape(STEPS, BK, BN).any(axis=0),
            )
            assert np.array_equal(painted(tiles, BLUE, 1, near["A"], (BM, BK)), inside_A), where
            assert np.array_equal(painted(tiles, ORANGE, 1, near["B"], (BK, BN)), inside_B), where
            of_A, of_B = painted(whole, BLUE, READ, at["A"], (M, K)), painted(whole, ORANGE, READ, at["B"], (K, N))
            assert np.array_equal(painted(tiles, BLUE, READ, near["A"], (BM, BK)), of_A[high, ks])
            assert np.array_equal(painted(tiles, ORANGE, READ, near["B"], (BK, BN)), of_B[ks, wide])
            assert of_A[high, ks].sum() == of_A.sum() and of_B[ks, wide].sum() == of_B.sum()
            parts, others = of_A[:, ks].any(axis=0), of_B[ks].any(axis=1)
            assert np.array_equal(parts, others) and parts.sum() == (BK if who == BLOCKS else BK // slices)
            if slices == 1:  # each element that is computed needs its row and column, and nothing else
                assert np.array_equal(of_A[:, ks].all(axis=1), rows) and np.array_equal(of_A.any(axis=1), rows)
                assert np.array_equal(of_B[ks].all(axis=0), columns) and np.array_equal(of_B.any(axis=0), columns)
            elif who != BLOCKS:  # a slice has a part of the depth, and the sums of elements that another one writes
                assert (rows <= of_A.any(axis=1)).all() and (columns <= of_B.any(axis=0)).all()


def said(figure):
    """Return the numbers of a picture's table, row by row."""
    texts = re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', figure.body)
    rows = {}
    for _, y, text in texts:
        rows.setdefault(float(y), []).append(text)
    return {
        row[0]: [float(number.replace(",", "")) for number in row[1:]]
        for row in rows.values()
        if row[1:] and "of" not in row[1]
    }


def test_totals_are_the_trace_s(walk):
    rung, run, player = walk
    sums = 2 if "slices" in rung else 1  # slices read sums too, which were never fetched
    fetched, read = {m: np.zeros(run.kernel.threads, int) for m in "AB"}, np.zeros(run.kernel.threads, int)
    accesses = traced(run, 2)
    for (space, kind, array), of_kind in accesses.items():
        for access in of_kind:
            if space == "global" and array in fetched:
                fetched[array][access.threads] += access.width // 4
            elif (space, kind) == ("shared", "load"):
                read[access.threads] += access.width // 4
    for who, warp, lane, threads in units(run.kernel):
        expected = read[threads].sum()
        found = [tuple(map(said, player.shown([who, 2, warp, lane, step]))) for step in range(STEPS)]
        left, right = found[-1]
        assert left["fetched"] == [fetched[m][threads].sum() for m in "AB"]
        assert sum(left["read"]) == expected if sums == 1 else sum(left["read"]) < expected
        assert [sum(numbers) for numbers in zip(*(of["fetches"] for _, of in found), strict=True)] == left["fetched"]
        reads = [[n * times for n, times in zip(of["reads"], of["times each"], strict=True)] for _, of in found]
        assert [sum(numbers) for numbers in zip(*reads, strict=True)] == left["read"]
        writes = touched(accesses["global", "store", "C"], threads, run.C.shape)
        assert right["writes at last"] == [writes.sum()]


def test_a_pointer_picks_who_computes_what_it_points_at(walk):
    _, run, player = walk
    for area, block in zip(player.areas, (None, 1), strict=True):
        rows, columns = len(area.cells), len(area.cells[0])
        for row, column in ((0, 0), (rows - 1, columns // 2), (rows // 2, columns - 1)):
            state = [THREAD if block else BLOCKS, block or 0, 0, 0, 0]
            number = area.cells[row][column]
            for control in reversed(area.controls):
                number, state[control] = divmod(number, len(player.controls[control].values))
            figure = player.shown(state)[area.panel]
            height, width = (run.kernel.parameters[name] * (2 if block is None else 1) for name in ("BM", "BN"))
            spot = (int((row + 0.5) * height / rows), int((column + 0.5) * width / columns))
            assert painted(figure, GREEN, 1, corners(figure)["C"], (height, width))[spot], (state, spot)
            assert area.box[:2] == corners(figure)["C"]


def test_legible(walk):
    *_, player = walk
    for state in ([0, 0, 0, 0, 0], [1, 3, 1, 31, STEPS - 1], [2, 1, 0, 0, 2]):
        for figure in player.shown(state):
            sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', figure.body)]
            assert min(sizes) >= 11 and figure.width == 312 and "{" not in figure.body + figure.alt
    assert len(player._repr_html_()) < 200_000


@pytest.mark.parametrize("walk", ["05"], indirect=True)
def test_in_words(walk):
    *_, player = walk
    left, right = player.shown([THREAD, 1, 2, 5, 3])
    assert left.alt.endswith(
        "Thread 69 of block 1, step 4 of 5: up to here it has fetched 64 elements of A and 32 of B, and read A "
        "1,024 times and B 512 times from shared memory."
    )
    assert right.alt.endswith(
        "Thread 69: warp 2, lane 5. It reads k = 96 to 127: 256 elements of A, each 1 ×, and 128 of B, each 1 ×. It "
        "fetches k = 96 to 127: 16 of A and 8 of B. In the end it writes 32 of C."
    )


@pytest.mark.parametrize("walk", ["11"], indirect=True)
def test_in_words_of_a_last_step(walk):
    _, right = walk[-1].shown([BLOCKS, 1, 2, 5, 4])
    assert "It fetches nothing: 0 of A and 0 of B." in right.alt and "each 32 ×" in right.alt


@cache
def of_two(kernel, M=64, N=64, K=64, trace=range(4)):
    return sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False, types=kernel.types), trace=trace)


BODY = sg.find("03").variant(BK=32)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: of_two(sg.find("02")), "02_coalesced, needs a kernel that stages tiles"),
        (lambda: of_two(BODY, K=40), "M, N, K = 64, 64, 40, needs multiples"),
        (lambda: of_two(BODY, trace=range(1)), "a trace of 1 blocks, needs all of 4"),
        (lambda: of_two(sg.find("15").variant(BM=32, BN=32, WM=32, WN=32, STAGES=1)), "elements of float16"),
        (lambda: of_two(sg.find("23").variant(BM=16, BN=64, TN=4, BK=32, BLOCKS=1)), "stages tiles of A and B"),
        (
            lambda: of_two(BODY.edited(("threadIdx.x % BN;", "(threadIdx.x ^ blockIdx.x) % BN;"))),
            "does something else",
        ),
        (
            lambda: of_two(BODY.edited(("C[row * N + col] = result", "C[row * N + (col + 1) % N] = result"))),
            "goes beyond",
        ),
        (
            lambda: of_two(BODY.edited(("? a[i]", "? (k0 ? a : A + row * K + (tileCol ^ 1))[i]"))),
            "steps that fetch other",
        ),
        (lambda: of_two(BODY.edited(("int k = 0; k < BK", "int k = k0 == 0; k < BK"))), "steps that read other"),
        (lambda: of_two(BODY.edited(("k < BK; ++k)", "k < BK - (threadIdx.x == 0); ++k)"))), "threads with unequal"),
        (lambda: replace(of_two(BODY), K=LARGEST), "sizes below 1,000"),
    ],
)
def test_runs_that_it_cannot_show(wrong, words):
    with pytest.raises(ArgumentError, match=words):
        lab.draw.tile_walk("tiles", wrong())


def test_whom_it_shows_first():
    for i, who in enumerate(("thread", "warp", "block")):
        player = lab.draw.tile_walk("tiles", of_two(BODY), who)
        assert player.controls[0].start == i and player.controls[0].values[i] == f"a {who}"
    with pytest.raises(ArgumentError, match="who: got 'grid', needs one of 'thread', 'warp', 'block'"):
        lab.draw.tile_walk("tiles", of_two(BODY), "grid")


@pytest.mark.parametrize("walk", ["13 in slices"], indirect=True)
def test_a_warp_of_a_slice_reads_its_part_of_a_steps_depth(walk):
    """A quarter of 32, two warps each; a block reads all of them."""
    _, _, player = walk
    for who, warp, k in ((WARPS, 2, "40 to 47"), (WARPS, 7, "56 to 63"), (BLOCKS, 2, "32 to 63")):
        assert f"reads k = {k}:" in player.shown([who, 0, warp, 0, 1])[1].alt


@pytest.mark.parametrize("walk", ["13"], indirect=True)
def test_tiles_are_told_apart_in_each_block(walk):
    assert sorted(staged(walk[1]).origins) == [(0, 0), (0, 256), (128, 0), (128, 256)]


def test_to_scale_an_element_is_as_wide_as_high():
    run = sg.simulate("03", *sg.matrices(64, 64, 256, on_gpu=False), trace=range(4))
    for to_scale in (True, False):
        for figure in lab.draw.tile_walk("tiles", run, to_scale=to_scale).shown([2, 0, 0, 0, 0]):
            scales = {tuple(map(float, each)) for each in re.findall(r"scale\(([\d.]+) ([\d.]+)\)", figure.body)}
            assert len(scales) == (1 if to_scale else 3)  # of A, B and C
            assert all(across == pytest.approx(down, rel=1e-3) for across, down in scales) == to_scale
