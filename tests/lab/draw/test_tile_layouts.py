"""A tile laid out in a player's ways: where words lie and what accesses take is what kernels with such tiles trace."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.accesses import Request, requests
from lab.draw import TileAccess, TileLayout, bank_layouts
from lab.draw.tile_layouts import LEFT, PITCH
from ptxsim.memory import Violation
from sgemm_tutorial import ArgumentError, Kernel, SimulationFault
from sgemm_tutorial.launch import Family
from sgemm_tutorial.simulation import Run

from ...together import for_each

pytestmark = pytest.mark.slow

FLOATS = 4 * sg.find("08").parameters["BM"]  # bytes of a row
PLAIN, CHUNKS = TileLayout(), "(CHUNKS < 8 ? CHUNKS : 8)"


@cache
def traced(kernel: Kernel) -> Run:
    tiles = kernel.parameters
    shape = tiles["BM"], tiles["BN"], tiles["BK"]
    return sg.simulate(kernel, *sg.matrices(*shape, on_gpu=False, types=kernel.types), trace=[0])


def strips(padding: int = 0, order: str = "0") -> Kernel:
    """Return 08 with so many words behind each row of its tile of A, and places XORed with this."""
    apart = [
        (f"As[colA + {i}][(rowA + i) ^ swizzle(colA)]", f"As[colA + {i}][(rowA + i) ^ swizzle(colA + {i})]")
        for i in range(4)
    ]
    return sg.find("08").edited(*apart, ("k / 4 * (128 / BK) % 32", order), ("As[BK][BM];", f"As[BK][BM + {padding}];"))


def padded(by: int) -> Kernel:
    """Return 15 with so many elements of padding to a row of its tiles of A and B."""
    kernel = sg.find("15").edited(("BK + 8", f"BK + {by}"), ("BN + 8", f"BN + {by}"))

    def tiles(of):
        return 2 * of["STAGES"] * (of["BM"] * (of["BK"] + by) + of["BK"] * (of["BN"] + by))

    return replace(kernel, family=Family(tiles))


def of_fragments(kernel: Kernel, a: TileLayout, b: TileLayout) -> list[TileAccess]:
    """Return the first load and the first copy of each tile of 15 or 16, whose tiles lie so."""
    tiles, run = kernel.parameters, traced(kernel)
    rows = 2 * tiles["BK"], 2 * tiles["BN"]
    starts = 0, tiles["STAGES"] * tiles["BM"] * (rows[0] + a.padding)
    found = []
    for kind in ("load", "store"):
        mine = [r for r in requests(run) if (r.space, r.kind) == ("shared", kind)]
        for length, start, layout, end in zip(rows, starts, (a, b), (starts[1], np.inf), strict=True):
            r = next(r for r in mine if start <= r.offsets[0] < end)
            found.append(TileAccess(kind, r, length, 16, layout, start))
    return found


@pytest.mark.parametrize(
    ("layout", "kernel", "widest"),
    [
        (PLAIN, lab.find_variant("08", "not swizzled"), 16),
        (TileLayout(4), strips(1), 4),
        (TileLayout(8), strips(2), 8),
        (TileLayout(16), strips(4), 16),
        (TileLayout(32), strips(8), 16),
        (TileLayout(chunk=16), strips(order="k * 4 % 32"), 16),
        (TileLayout(chunk=16, rows=4), sg.find("08"), 16),
    ],
    ids=str,
)
def test_tile_of_08(layout, kernel, widest):
    """The transposing store, and the read of row k = 1, which comes in pieces where the row is not aligned."""
    given, run = traced(lab.find_variant("08", "not swizzled")), traced(kernel)
    store, read = lab.request(given, kind="store", array="As"), lab.request(given, array="As", step=2)
    assert (read.offsets // FLOATS == 1).all()
    accesses = [TileAccess("store", store, FLOATS, 32)]
    accesses += [TileAccess("read", replace(read, width=width), FLOATS, 32) for width in (4, 8, 16)]
    player = bank_layouts("layouts", accesses, [PLAIN, layout])
    expected: list[Request | None] = [lab.request(run, kind="store", array="As")]
    row = [
        r
        for r in requests(run)
        if (r.array, r.kind) == ("As", "load") and (layout.held(r.offsets, FLOATS)[0] == 1).all()
    ]
    assert {r.width for r in row} == {widest}
    expected += [replace(row[0], width=width) if width <= widest else None for width in (4, 8, 16)]
    for i, (access, real) in enumerate(zip(accesses, expected, strict=True)):
        where, taken = player.shown([1, i])
        if real is None:
            with pytest.raises(Violation, match="misaligned"):
                access.laid_out(layout)
            assert "misaligned" in taken.body and "misaligned" in taken.alt and "wavefronts." not in taken.alt
            continue
        found = access.laid_out(layout)
        assert (found.offsets == real.offsets).all() and (found.lanes == real.lanes).all()
        assert f">{real.cost}<" in taken.body and real.cost in taken.alt
        assert (f"{real.conflicts} lost to conflicts" if real.conflicts else "no conflict") in taken.body
        assert f"{len(np.unique(real.words))} word" in where.alt


@pytest.mark.parametrize("padding", [0, 16, 32, 48])
def test_tiles_of_15(padding):
    given = of_fragments(sg.find("15"), TileLayout(16), TileLayout(16))
    layout = TileLayout(padding)
    real = of_fragments(padded(padding // 2), layout, layout)
    compare(given, real, [layout] * 4)


def test_15_refuses_rows_that_are_not_aligned():
    layout = TileLayout(8)
    with pytest.raises(SimulationFault, match="misaligned"):
        traced(padded(4))
    for access in of_fragments(sg.find("15"), TileLayout(16), TileLayout(16)):
        with pytest.raises(Violation, match="misaligned"):
            access.laid_out(layout)


@pytest.mark.parametrize(
    ("order", "a", "b"),
    [
        ("", PLAIN, PLAIN),
        (f" ^ row % {CHUNKS}", TileLayout(chunk=16), TileLayout(chunk=16)),
        (f" ^ row / 2 % {CHUNKS}", TileLayout(chunk=16, rows=2), TileLayout(chunk=16, rows=2)),
        (f" ^ row / 4 % {CHUNKS}", TileLayout(chunk=16, rows=4), TileLayout(chunk=16, rows=4)),
        (f" ^ row / together % {CHUNKS}", TileLayout(chunk=16, rows=2), TileLayout(chunk=16)),
    ],
)
def test_tiles_of_16(order, a, b):
    mma = sg.find("16")
    given = of_fragments(mma, TileLayout(chunk=16, rows=2), TileLayout(chunk=16))
    real = of_fragments(mma.edited((f" ^ row / together % {CHUNKS}", order)), a, b)
    compare(given, real, [a, b, a, b])
    if "together" in order:
        assert [access.request.conflicts for access in real] == [0] * 4


def compare(given: list[TileAccess], real: list[TileAccess], layouts: list[TileLayout]) -> None:
    """Hold what a player shows of accesses as given against those of a kernel whose tiles lie so."""
    player = bank_layouts("layouts", given, layouts)
    for i, (access, other) in enumerate(zip(given, real, strict=True)):
        found = access.laid_out(layouts[i])
        assert (found.offsets == other.request.offsets - other.start).all()
        where, taken = player.shown([i, i])
        assert f">{other.request.cost}<" in taken.body and other.request.cost in taken.alt
        lost = other.request.conflicts
        assert (f"{lost} lost to conflicts" if lost else "no conflict") in taken.body
        banks = len(np.unique(other.request.words % 32))
        assert f"{len(np.unique(other.request.words))} words in {banks} banks" in where.alt


@for_each(
    layout=[PLAIN, TileLayout(12), *(TileLayout(chunk=c, rows=n) for c in (4, 16) for n in (1, 2))],
    length=[64, 128, 256, 640],
)
def test_each_byte_has_a_place_of_its_own(layout, length):
    rows, columns = np.divmod(np.arange(40 * length), length)
    places = layout.place(rows, columns, length)
    assert len(np.unique(places)) == len(places) and (places // (length + layout.padding) == rows).all()
    back = layout.held(places, length)
    assert (back[0] == rows).all() and (back[1] == columns).all()


def access(offsets, width=4, length=128, rows=32, space="shared", **tile) -> TileAccess:
    """Return an access by all lanes at these places of a tile."""
    lanes = np.arange(32)
    return TileAccess(
        "read", Request("a", 1, space, "load", "s", 0, 0, lanes, np.asarray(offsets), width, 4), length, rows, **tile
    )


def test_words_are_coloured_where_they_lie():
    """A column of rows of 128 bytes: in one bank, and with a word of padding in all of them."""
    column = access(np.arange(32) * 128)
    player = bank_layouts("layouts", [column], [PLAIN, TileLayout(4)])
    for state, banks in (((0, 0), [0] * 32), ((1, 0), list(range(32)))):
        where, taken = player.shown(state)
        lefts = [
            round((float(x) - LEFT) / PITCH)
            for x in re.findall(r'<path fill="[#v][^"]*"[^>]* d="M([\d.]+)', where.body)
        ]
        assert lefts == banks and ("32 wavefronts" in taken.body) == (state == (0, 0))


def test_what_is_wanted_at_once_must_lie_together():
    wide = access(np.arange(32) * 16, 16)
    _, taken = bank_layouts("layouts", [wide], [TileLayout(chunk=8)]).shown((0, 0))
    assert "in pieces" in taken.body and "a lane's 16 bytes lie in 2 places" in taken.alt.replace("&#x27;", "'")


def test_refusals():
    with pytest.raises(ArgumentError, match=r"accesses: got .*, needs accesses to shared memory"):
        bank_layouts("layouts", [access(np.arange(32) * 4, space="global")], [PLAIN])
    with pytest.raises(ArgumentError, match="accesses: got rows of 96 bytes"):
        bank_layouts("layouts", [access(np.arange(32) * 4, length=96)], [TileLayout(chunk=16)])
