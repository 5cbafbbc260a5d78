"""Chapter 11: when groups of copies are under way, and what they bring."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import resources
from ..records.timings import recorded
from ..variants import find_variant
from . import account
from .warp_tile import local_accesses

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
TENS_WARP = {"WM": 128, "WN": 32}
"""The tile of a warp in 10."""
DISPATCH = "state: dispatch"
WAITS = ("dispatch", "another warp was chosen", "waits for shared memory")
"""States of a warp, of which the page says how they change with the copies."""
ALIKE = "padded, fetch after k = 1"
"""A variant of 10 with all that 11 has, except the asynchronous copies."""
LEFT, FIRST, ROW = 128, 186, 28  # pixels: the bars, the first trip, and from one bar to the next


def timeline(stages: int, tiles: int) -> Figure:
    """Draw when each group of copies is under way, when it is waited for, and when its tile is multiplied."""
    pending = stages - 2
    trip, groups = (WIDTH - 8 - FIRST) / tiles, tiles + stages - 1
    sheet = Page(104 + groups * ROW)
    sheet.text(8, 22, f"STAGES = {stages}, {tiles} tiles", size=TITLE, weight="bold")
    for t in range(tiles):
        x = FIRST + t * trip
        sheet.text(x + 4, 48, f"wait {pending}")
        sheet.lines([[(x, 36), (x, 64 + groups * ROW)]], dashes=(3.7, 1.6))
    for g in range(groups):
        y, issued = 58 + g * ROW, g - stages + 1  # the trip that starts the copies
        start = FIRST + (issued + 0.15) * trip if issued >= 0 else LEFT + 24 * g
        ready = FIRST + g * trip
        sheet.text(8, y + 16, f"tile {g}, stage {g % stages}" if g < tiles else "empty group")
        sheet.boxes([(start, y, min(ready, WIDTH - 8) - start, 22)], ORANGE if g < tiles else PALE)
        if g < tiles:
            sheet.boxes([(FIRST + g * trip + 2, y, trip - 2, 22)], BLUE)
    legend = (8, ORANGE, "under way, or arrived"), (208, BLUE, "multiplied"), (328, PALE, "no copies in it")
    for x, fill, text in legend:
        sheet.boxes([(x, 76 + groups * ROW, 14, 14)], fill, edgecolor=INK, linewidth=0.5)
        sheet.text(x + 22, 88 + groups * ROW, text)
    return sheet.finish(
        f"{tiles} tiles in {stages} stages. Copies of a tile start {stages - 1} trips before it is multiplied. Each "
        f"trip begins with a wait for all groups but {pending}."
    )


def times() -> Table:
    """Return the recorded times of 10 and 11 with two tiles, and how long dispatch holds a warp back."""
    kernels = {
        "10": BUFFERED,
        f"10, {ALIKE}": find_variant("10", ALIKE),
        "11, three stages": RUNG.variant(**TENS_WARP),
        "10 ": BUFFERED.variant(**SMALL_TILE),
        f"10, {ALIKE} ": find_variant("10", ALIKE, **SMALL_TILE),
        "11, two stages": RUNG.variant(**SMALL_TILE, STAGES=2),
    }
    record = recorded(list(kernels.values()), [profiles.SIZE], "variants")
    ms = [record.select([kernel]).points[0].ms for kernel in kernels.values()]
    waits = [counted(kernel, (profiles.SIZE,) * 3, "variant_profiles") for kernel in kernels.values()]
    a, b, c, d, e, f = ms
    assert a < c < b < 1.02 * a and f < 0.95 * d < d < e
    assert waits[1][DISPATCH] == waits[2][DISPATCH]
    spills = list(map(local_accesses, kernels.values()))
    assert sum(spills) == spills[4] > 0
    rows = [
        (
            letter,
            " × ".join(str(kernel.parameters[side]) for side in ("BM", "BN", "BK")),
            name.strip(),
            f"{taken:.3f}",
            f"{of[DISPATCH]:.2f}",
        )
        for letter, (name, kernel), taken, of in zip("abcdef", kernels.items(), ms, waits, strict=True)
    ]
    heads = ("", "tile", "kernel", "ms at 4096", "dispatch, cycles")
    return Table(heads, rows, f"A warp's tile is 128 × 32 in a to c, 64 × 32 in d to f: {record.made}")


def beside_ten() -> Table:
    """Return what 10 and 11 are like at 4096, and what their profiles say."""
    columns = [
        (
            *(resources(kernel).registers, f"{of['all'] / 1e6:,.0f}", f"{of['issue slots used, %']:.0f}%"),
            f"{recorded(kernel, [profiles.SIZE]).points[0].ms:.3f}",
        )
        for kernel in (BUFFERED, RUNG)
        for of in (profiles.measured(kernel),)
    ]
    assert 1 < profiles.measured(RUNG)["all"] / profiles.measured(BUFFERED)["all"] < 1.01
    names = ("registers of a thread", "instructions, millions", "issue slots used", "ms")
    rows = list(zip(names, *columns, strict=True))
    return Table(("", "10", "11"), rows, f"M = N = K = {profiles.SIZE}, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    ms = {rung: recorded(rung, [profiles.SIZE]).points[0].ms for rung in ("10", "11")}
    kernels = {
        "two": RUNG.variant(STAGES=2),
        "early": find_variant("11", "fetch after k = 0"),
        "alike": find_variant("10", ALIKE),
        "like 10": RUNG.variant(**TENS_WARP),
        "small 10": BUFFERED.variant(**SMALL_TILE),
        "small alike": find_variant("10", ALIKE, **SMALL_TILE),
        "small": RUNG.variant(**SMALL_TILE, STAGES=2),
    }
    ms |= {name: recorded(of, [profiles.SIZE], "variants").points[0].ms for name, of in kernels.items()}
    assert abs(ms["10"] / ms["11"] - 1) < 0.01 and ms["11"] < ms["early"]
    ratios = {ten.M: ten.ms / own.ms - 1 for ten, own in zip(recorded("10").points, recorded("11").points, strict=True)}
    odd = [ratio for n, ratio in ratios.items() if n % 256]
    assert min(odd) > 0 > max(ratio for n, ratio in ratios.items() if n % 256 == 0)
    capped, capped_own = (resources(find_variant(rung, "184 registers")) for rung in ("10", "11"))
    assert capped_own.spill_store_bytes == capped_own.spill_load_bytes == 0 < capped.spill_store_bytes
    alike, small = (
        counted(kernels[name], (profiles.SIZE,) * 3, "variant_profiles") for name in ("small alike", "small")
    )
    less = {name: alike[f"state: {name}"] - small[f"state: {name}"] for name in WAITS}
    dispatch, ready, shared = less.values()
    assert min(dispatch, ready, -shared) > 0
    return {
        "card": card().name,
        "odd least": f"{min(odd):.1%}",
        "odd most": f"{max(odd):.1%}",
        "registers 11": str(resources(RUNG).registers),
        "spilled": str(capped.spill_store_bytes),
        "filled": str(capped.spill_load_bytes),
        "less dispatch": f"{dispatch:.2f}",
        "less ready": f"{ready:.2f}",
        "more shared": f"{-shared:.2f}",
        "slots": f"{account.busy(BUFFERED)['issue slots']:.2f} ms",
        "floor": f"{account.busy(BUFFERED)['FP32 units']:.2f} ms",
        "ten": f"{ms['10']:.2f} ms",
        "copies": f"{ms['alike'] - ms['like 10']:.2f} ms",
        "copies small": f"{ms['small alike'] - ms['small']:.2f} ms",
        "unspilled": f"{ms['small 10'] - ms['small']:.2f} ms",
        "two more": f"{ms['two'] / ms['11'] - 1:.1%}",
        "ms 11": f"{ms['11']:.3f} ms",
        "early": f"{ms['early']:.3f} ms",
        "share at 1024": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
