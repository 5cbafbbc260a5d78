"""The picture of a launch's division, read off the trace of a simulated run; and shares by group."""

import pytest

from lab import draw
from lab.draw.division import Piece
from sgemm_tutorial import ArgumentError, find, matrices, simulate

BODY = {"BM": 16, "BN": 32, "BK": 32, "WM": 16, "WN": 32, "TM": 4, "TN": 4, "SLICES": 4, "STAGES": 4, "BLOCKS": 5}
KERNEL = find("13").variant(**BODY)
SIZE = (48, 64, 160)  # 6 tiles of 5 steps


def traced(whole, shares):
    kernel = KERNEL.divided(whole, shares)
    return simulate(kernel, *matrices(*SIZE, on_gpu=False), trace=range(whole + shares))


def by_formula(whole, shares):
    """Return the kernel's own division: whole tiles, then equal shares of the steps of the others."""
    found = [(tile, tile, 0, 5) for tile in range(whole)]
    total = (6 - whole) * 5
    for share in range(shares):
        at, end = share * total // shares, (share + 1) * total // shares
        while at < end:
            stop = min(end, (at // 5 + 1) * 5)
            found.append((whole + share, whole + at // 5, at % 5, at % 5 + stop - at))
            at = stop
    return found


@pytest.mark.parametrize(("whole", "shares"), [(6, 0), (4, 4), (3, 2), (0, 4), (1, 25)])
def test_parts_are_what_the_kernel_says(whole, shares):
    found = draw.parts(traced(whole, shares))
    down = 3  # rows of tiles, which are walked column by column
    assert [(p.block, p.column * down + p.row, p.begin, p.end) for p in found] == by_formula(whole, shares)
    assert sum(part.writes for part in found) == 6, "each tile is written once"
    assert sum(part.end - part.begin for part in found) == 6 * 5


def test_parts_need_whole_steps_and_a_trace():
    with pytest.raises(ArgumentError, match="run: got K = 65, needs a multiple of BK, 32"):
        draw.parts(simulate(KERNEL, *matrices(16, 32, 65, on_gpu=False), trace=[0]))
    with pytest.raises(ArgumentError, match="without accesses"):
        draw.parts(simulate(KERNEL, *matrices(16, 32, 64, on_gpu=False)))


def test_the_picture_says_who_does_what():
    found = [
        Piece(0, 0, 0, 0, 4, True),
        Piece(1, 1, 0, 0, 3, False),
        Piece(2, 1, 0, 3, 4, True),
        Piece(3, 2, 0, 0, 4, True),
    ]
    figure = draw.division(found, 2, "Four blocks")
    assert (
        "SM 0: tile 0 steps 0 to 3, tile 2 steps 0 to 3; SM 1: tile 1 steps 0 to 2, tile 1 steps 3 to 3" in figure.alt
    )
    assert "8 steps, 75% of the SMs' time used" in figure.alt and "2: 0–3" in figure.body
    with pytest.raises(ArgumentError, match="at least one of each"):
        draw.division([], 2, "")
