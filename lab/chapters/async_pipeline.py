"""Chapter 11: when groups of copies are under way, and what they bring."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import sgemm
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import anatomy, profiles
from ..experiments.ceilings import card
from ..model.resources import resources
from ..records.timings import recorded
from ..variants import find_variant
from . import account
from .warp_tile import local_accesses

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
CUBLAS_HAS = "tilesize256x128x8_stage3"
"""In the name of cuBLAS's kernel at 4096, whose rows are columns of our C: its tile is 128 × 256 of that."""
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
    """Return the recorded times of 09, 10 and 11 with two tiles, a letter for each, and what sets 11 apart."""
    kernels = {
        "10": BUFFERED,
        "11, three stages": RUNG,
        "11, two stages": RUNG.variant(STAGES=2),
        "09": find("09").variant(**SMALL_TILE),
        "10 ": BUFFERED.variant(**SMALL_TILE),
        f"10, {ALIKE}": find_variant("10", ALIKE, **SMALL_TILE),
        "11, two stages ": RUNG.variant(**SMALL_TILE, STAGES=2),
    }
    record = recorded(list(kernels.values()), [profiles.SIZE], "variants")
    points = [record.select([kernel]).points[0] for kernel in kernels.values()]
    a, b, c, d, e, f, g = (point.ms for point in points)
    assert g < 0.98 * d < 0.96 * e < 0.95 * f and a < b < c < 1.01 * a
    spills = list(map(local_accesses, kernels.values()))
    assert sum(spills) == spills[5] > 0
    rows = [
        (
            letter,
            " × ".join(str(kernel.parameters[side]) for side in ("BM", "BN", "BK")),
            name.strip(),
            f"{point.ms:.3f}",
            f"{point.ms_p10:.3f}–{point.ms_p90:.3f}",
        )
        for letter, (name, kernel), point in zip("abcdefg", kernels.items(), points, strict=True)
    ]
    return Table(("", "tile", "kernel", "ms at 4096", "10–90%"), rows, f"Recorded on {record.made}")


def beside_cublas() -> Table:
    """Return what 10, 11 and the kernel of cuBLAS's SGEMM are like at 4096, and what their profiles say."""
    theirs = anatomy.of(sgemm, (profiles.SIZE,) * 3).main
    (ten,), (eleven,) = (recorded(kernel, [profiles.SIZE]).points for kernel in (BUFFERED, RUNG))
    columns = [
        (
            *(stages, registers, f"{of['all'] / 1e6:,.0f}"),
            *(f"{of[part]:.0f}%" for part in ("issue slots used, %", "L1 and shared memory used, %")),
            f"{ms:.3f}",
        )
        for stages, registers, of, ms in (
            (2, resources(BUFFERED).registers, profiles.measured(BUFFERED), ten.ms),
            (3, resources(RUNG).registers, profiles.measured(RUNG), eleven.ms),
            (3, theirs.counts["registers"], theirs.counts, eleven.cublas_ms),
        )
    ]
    assert 1 < profiles.measured(RUNG)["all"] / profiles.measured(BUFFERED)["all"] < 1.01
    assert CUBLAS_HAS in theirs.name and theirs.block[0] == RUNG.threads
    names = ("stages", "registers of a thread", "instructions, millions")
    rows = list(zip((*names, "issue slots used", "L1 and shared memory busy", "ms"), *columns, strict=True))
    return Table(("", "10", "11", "cuBLAS"), rows, f"M = N = K = {profiles.SIZE}, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    ms = {rung: recorded(rung, [profiles.SIZE]).points[0].ms for rung in ("10", "11")}
    kernels = {
        "two": RUNG.variant(STAGES=2),
        "small nine": find("09").variant(**SMALL_TILE),
        "small ten": BUFFERED.variant(**SMALL_TILE),
        "small alike": find_variant("10", ALIKE, **SMALL_TILE),
        "small": RUNG.variant(**SMALL_TILE, STAGES=2),
    }
    ms |= {name: recorded(of, [profiles.SIZE], "variants").points[0].ms for name, of in kernels.items()}
    assert abs(ms["10"] / ms["11"] - 1) < 0.01
    fetched = BUFFERED.parameters["BK"] * (BUFFERED.parameters["BM"] + BUFFERED.parameters["BN"])
    used, saved = [resources(kernel).registers for kernel in (BUFFERED, RUNG)], fetched // BUFFERED.threads
    assert saved == 12 and used[1] > used[0] - saved
    return {
        "card": card().name,
        "registers 10": str(used[0]),
        "registers 11": str(used[1]),
        "registers predicted": str(used[0] - saved),
        "slots": f"{account.busy(BUFFERED)['issue slots']:.2f} ms",
        "floor": f"{account.busy(BUFFERED)['FP32 units']:.2f} ms",
        "ten": f"{ms['10']:.2f} ms",
        "copies small": f"{ms['small alike'] - ms['small']:.2f} ms",
        "small gain": f"{ms['small nine'] - ms['small']:.2f} ms",
        "alike most": f"{ms['two'] / ms['11'] - 1:.1%}",
        "small apart": f"{ms['small ten'] - ms['small']:.2f} ms",
        "share at 1024": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
