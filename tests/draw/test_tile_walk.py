"""What a player shows a thread, a warp and a block fetch, read and write is what their accesses do in the trace."""

import itertools
import re

import numpy as np
import pytest

import sgemm_tutorial as sg
from sgemm_tutorial import ArgumentError, choice
from sgemm_tutorial.draw.figure import BLUE, GREEN, ORANGE
from sgemm_tutorial.draw.staged import staged
from sgemm_tutorial.draw.tile_walk import BLOCKS, LARGEST, READ, THREAD, WARPS

AHEAD = {"10": 1, "11": 2, "12": 2}
"""By how many steps tiles are fetched ahead. 12 does so by three, when it has read all that it needs of a step's."""
RUNGS = ("03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "12 in slices")
STEPS = 5


def kernel_of(rung):
    kernel = sg.find(rung[:2])
    if rung == "12":
        kernel = choice.divided(kernel.variant(**kernel.parameters), 4, 0)
    elif rung == "12 in slices":
        slices = {"BM": 32, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "SLICES": 4}
        kernel = choice.divided(kernel.variant(**slices, STAGES=4, BLOCKS=2), 4, 0)
    return kernel.variant(BK=64) if rung == "03" else kernel


def walked(rung):
    """Return the run of a rung, and the player."""
    kernel = kernel_of(rung)
    M, N, K = (n * kernel.parameters[name] for n, name in ((2, "BM"), (2, "BN"), (STEPS, "BK")))
    run = sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False), trace=range(4))
    return run, sg.draw.tile_walk("tiles", run)


@pytest.fixture(scope="module", params=RUNGS)
def walk(request):
    """One rung's after the other: traces are large."""
    return request.param, *walked(request.param)


def painted(figure, colour, strength, corner):
    """Return the elements that a picture paints, given the pixels of the corner of the matrix that is meant."""
    found = set()
    for path in re.findall(rf'<path fill="{colour}" fill-opacity="{strength:g}" transform[^>]*>', figure.body):
        (x, y), *moves = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", path)
        if (float(x), float(y)) == corner:
            right, down = (sum(int(move[axis]) for move in moves) for axis in (0, 1))
            for area in re.findall(r"M(-?\d+) (-?\d+)h(\d+)v(\d+)", path):
                column, row, width, height = map(int, area)
                rows, columns = (
                    range(first, first + n) for first, n in ((row + down, height), (column + right, width))
                )
                found |= set(itertools.product(rows, columns))
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


def accessed(run, block, threads, space, kind, array, columns):
    """Return rows and columns of the elements in question, access by access."""
    for access in run.trace:
        if (access.block, access.space, access.kind, access.array) == (block, space, kind, array):
            mine = np.isin(access.threads, threads)
            elements = access.offsets[mine][:, None] // 4 + np.arange(access.width // 4)
            yield set(zip(*(part.ravel().tolist() for part in np.divmod(elements, columns)), strict=True))


def units(kernel):
    """Yield whose share to look at: of whom, warp, lane and the threads meant."""
    for warp, lane in ((0, 0), (kernel.threads // 32 - 1, 31), (kernel.threads // 64, 13)):
        yield THREAD, warp, lane, [32 * warp + lane]
        yield WARPS, warp, lane, range(32 * warp, 32 * warp + 32)
    yield BLOCKS, 1, 3, range(kernel.threads)


def test_what_is_painted_was_accessed(walk):
    rung, run, player = walk
    of, N, K = run.kernel.parameters, run.C.shape[1], run.K
    BM, BN, BK = of["BM"], of["BN"], of["BK"]
    slices = of.get("SLICES", 1)
    for block in (0, 3):
        for who, warp, lane, threads in units(run.kernel):
            written = set().union(*accessed(run, block, threads, "global", "store", "C", N))
            rows, columns = {row for row, _ in written}, {column for _, column in written}
            origin = min(rows) // BM * BM, min(columns) // BN * BN
            fetched = {
                "A": list(accessed(run, block, threads, "global", "load", "A", K)),
                "B": list(accessed(run, block, threads, "global", "load", "B", N)),
            }
            for step in range(STEPS):
                left, right = player.shown([who, block, warp, lane, step])
                at, near = corners(left), corners(right)
                ks = set(range(step * BK, (step + 1) * BK))
                tiles = [step + AHEAD.get(rung[:2], 0)] if step else range(1 + AHEAD.get(rung[:2], 0))
                depth = {k for tile in tiles for k in range(tile * BK, (tile + 1) * BK)}
                painted_C = painted(left, GREEN, 1, at["C"])
                assert painted_C == written, (who, block, step)
                assert {(r + origin[0], c + origin[1]) for r, c in painted(right, GREEN, 1, near["C"])} == written
                fetches = {"A": {(r, k) for some in fetched["A"] for r, k in some if k in depth}}
                fetches["B"] = {(k, c) for some in fetched["B"] for k, c in some if k in depth}
                assert painted(left, BLUE, 1, at["A"]) == fetches["A"], (who, block, step)
                assert painted(left, ORANGE, 1, at["B"]) == fetches["B"], (who, block, step)
                inside = (
                    {(r - origin[0], k % BK) for r, k in fetches["A"]},
                    {(k % BK, c - origin[1]) for k, c in fetches["B"]},
                )
                assert (painted(right, BLUE, 1, near["A"]), painted(right, ORANGE, 1, near["B"])) == inside
                of_A, of_B = painted(left, BLUE, READ, at["A"]), painted(left, ORANGE, READ, at["B"])
                if slices == 1:  # each element that is computed needs its row and column, and nothing else
                    assert of_A == {(r, k) for r in rows for k in ks} and of_B == {(k, c) for k in ks for c in columns}
                elif who == BLOCKS:
                    assert {k for _, k in of_A} == {k for k, _ in of_B} == ks
                else:  # a slice has a part of the depth, and the sums of elements that another one writes
                    parts = {k for _, k in of_A}
                    assert parts == {k for k, _ in of_B} < ks and len(parts) == BK // slices
                    assert rows <= {r for r, _ in of_A} and columns <= {c for _, c in of_B}
                k0 = step * BK
                inside = {(r - origin[0], k - k0) for r, k in of_A}, {(k - k0, c - origin[1]) for k, c in of_B}
                assert (painted(right, BLUE, READ, near["A"]), painted(right, ORANGE, READ, near["B"])) == inside


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
    for who, warp, lane, threads in units(run.kernel):
        expected = {"fetched": [0, 0], "read": 0}
        for access in run.trace:
            if access.block == 2:
                words = int(np.isin(access.threads, threads).sum()) * access.width // 4
                if access.space == "global" and access.array in ("A", "B"):
                    expected["fetched"]["AB".index(access.array)] += words
                elif (access.space, access.kind) == ("shared", "load"):
                    expected["read"] += words
        found = [tuple(map(said, player.shown([who, 2, warp, lane, step]))) for step in range(STEPS)]
        left, right = found[-1]
        assert left["fetched"] == expected["fetched"]
        assert sum(left["read"]) == expected["read"] if sums == 1 else sum(left["read"]) < expected["read"]
        assert [sum(numbers) for numbers in zip(*(of["fetches"] for _, of in found), strict=True)] == left["fetched"]
        reads = [[n * times for n, times in zip(of["reads"], of["times each"], strict=True)] for _, of in found]
        assert [sum(numbers) for numbers in zip(*reads, strict=True)] == left["read"]
        assert right["writes at last"] == [
            len(set().union(*accessed(run, 2, threads, "global", "store", "C", run.C.shape[1])))
        ]


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
            assert spot in painted(figure, GREEN, 1, corners(figure)["C"]), (state, spot)
            assert area.box[:2] == corners(figure)["C"]


def test_legible(walk):
    *_, player = walk
    for state in ([0, 0, 0, 0, 0], [1, 3, 1, 31, STEPS - 1], [2, 1, 0, 0, 2]):
        for figure in player.shown(state):
            sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', figure.body)]
            assert min(sizes) >= 11 and figure.width == 312 and "{" not in figure.body + figure.alt
    assert len(player._repr_html_()) < 200_000


def test_in_words():
    _, player = walked("05")
    left, right = player.shown([THREAD, 1, 2, 5, 3])
    assert left.alt.endswith(
        "Thread 69 of block 1, step 4 of 5: up to here it has fetched 64 elements of A and 32 of B, and read A "
        "1,024 times and B 512 times from shared memory."
    )
    assert right.alt.endswith(
        "Thread 69: warp 2, lane 5. It reads k = 96 to 127: 256 elements of A, each 1 ×, and 128 of B, each 1 ×. It "
        "fetches k = 96 to 127: 16 of A and 8 of B. In the end it writes 32 of C."
    )
    _, right = walked("11")[1].shown([BLOCKS, 1, 2, 5, 4])
    assert "It fetches nothing: 0 of A and 0 of B." in right.alt and "each 32 ×" in right.alt


def of_two(kernel, M=64, N=64, K=64, trace=range(4)):
    return sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False, types=kernel.types), trace=trace)


SMALL = sg.find("03").variant(BK=32)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: of_two(sg.find("02")), "02_coalesced, needs a kernel that stages tiles"),
        (lambda: of_two(SMALL, K=40), "M, N, K = 64, 64, 40, needs multiples"),
        (lambda: of_two(SMALL, trace=[0]), "a trace of 1 blocks, needs all of 4"),
        (lambda: of_two(sg.find("15").variant(BM=32, BN=32, WM=32, WN=32, STAGES=1)), "elements of float16"),
        (lambda: of_two(sg.find("13").variant(BM=16, BN=64, TN=4, BK=32, BLOCKS=1)), "stages tiles of A and B"),
        (
            lambda: of_two(SMALL.edited(("threadIdx.x % BN;", "(threadIdx.x ^ blockIdx.x) % BN;"))),
            "does something else",
        ),
        (
            lambda: of_two(SMALL.edited(("C[row * N + col] = result", "C[row * N + (col + 1) % N] = result"))),
            "goes beyond",
        ),
        (
            lambda: of_two(SMALL.edited(("? a[i]", "? (k0 ? a : A + row * K + (tileCol ^ 1))[i]"))),
            "steps that fetch other",
        ),
        (lambda: of_two(SMALL.edited(("int k = 0; k < BK", "int k = k0 == 0; k < BK"))), "steps that read other"),
        (lambda: of_two(SMALL.edited(("k < BK; ++k)", "k < BK - (threadIdx.x == 0); ++k)"))), "threads with unequal"),
        (lambda: of_two(SMALL, K=LARGEST + 24), "sizes below 1,000"),
    ],
)
def test_runs_that_it_cannot_show(wrong, words):
    with pytest.raises(ArgumentError, match=words):
        sg.draw.tile_walk("tiles", wrong())


def test_whom_it_shows_first():
    for i, who in enumerate(("thread", "warp", "block")):
        player = sg.draw.tile_walk("tiles", of_two(SMALL), who)
        assert player.controls[0].start == i and player.controls[0].values[i] == f"a {who}"
    with pytest.raises(ArgumentError, match="who: got 'grid', needs one of 'thread', 'warp', 'block'"):
        sg.draw.tile_walk("tiles", of_two(SMALL), "grid")


def test_tiles_are_told_apart_in_each_block():
    run, _ = walked("12")
    assert sorted(staged(run).origins) == [(0, 0), (0, 256), (128, 0), (128, 256)]
