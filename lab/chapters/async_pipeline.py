"""Chapter 11: when groups of copies are under way, and what they bring."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..model.resources import resources
from ..records.timings import recorded

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
LEFT, FIRST, ROW = 128, 186, 28  # pixels: the bars, the first trip, and from one bar to the next


def timeline(stages: int, tiles: int, pending: int | None = None) -> Figure:
    """Draw when each group of copies is under way, when it is waited for, and when its tile is multiplied.

    Parameters
    ----------
    stages, tiles : int
    pending : int, optional
        Groups that a wait leaves under way; two less than there are stages unless given.
    """
    pending = stages - 2 if pending is None else pending
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
        ready = FIRST + max(g - (stages - 2 - pending), 0) * trip
        sheet.text(8, y + 16, f"tile {g}, stage {g % stages}" if g < tiles else "empty group")
        sheet.boxes([(start, y, min(ready, WIDTH - 8) - start, 22)], ORANGE if g < tiles else PALE)
        if g < tiles:
            sheet.boxes([(FIRST + g * trip + 2, y, trip - 2, 22)], BLUE)
    for x, fill, text in ((8, ORANGE, "under way"), (128, BLUE, "multiplied"), (248, PALE, "no copies in it")):
        sheet.boxes([(x, 76 + groups * ROW, 14, 14)], fill, edgecolor=INK, linewidth=0.5)
        sheet.text(x + 22, 88 + groups * ROW, text)
    return sheet.finish(
        f"{tiles} tiles in {stages} stages. Copies of a tile start {stages - 1} trips before it is multiplied. Each "
        f"trip begins with a wait for all groups but {pending}."
    )


def times() -> Table:
    """Return the recorded times of 09, 10 and 11 with one tile, and of 10 and 11 with their own."""
    kernels = {
        "128 × 128 × 16": [
            find("09").variant(**SMALL_TILE),
            BUFFERED.variant(**SMALL_TILE),
            RUNG.variant(**SMALL_TILE, STAGES=2),
        ],
        "128 × 256 × 8": [BUFFERED, RUNG.variant(STAGES=2), RUNG],
    }
    ms, rows = [], []
    record = recorded([kernel for group in kernels.values() for kernel in group], [profiles.SIZE], "variants")
    for tile, group in kernels.items():
        for kernel in group:
            (point,) = record.select([kernel]).points
            used = resources(kernel)
            assert not used.spill_store_bytes
            ms.append(point.ms)
            rows.append((tile, kernel.name[:2], kernel.parameters.get("STAGES"), used.registers, point.ms))
    nine, ten, eleven, *large = ms
    assert eleven < 0.98 * nine and nine < 0.98 * ten and max(large) < 1.01 * min(large)
    return Table(("tile", "rung", "STAGES", "registers", "ms at 4096"), rows, f"Recorded on {record.made}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points = {rung: recorded(rung, [profiles.SIZE]).points[0] for rung in ("10", "11")}
    before, after = profiles.measured(BUFFERED), profiles.measured(RUNG)
    busy = {part: after[f"{part} used, %"] for part in ("issue slots", "FMA pipes", "L1 and shared memory")}
    assert list(busy) == sorted(busy, key=busy.get, reverse=True)
    assert all(abs(after[f"{part} used, %"] - before[f"{part} used, %"]) < 5 for part in busy)
    assert abs(points["11"].ms / points["10"].ms - 1) < 0.01
    other = recorded(RUNG.variant(WM=128, WN=32), [profiles.SIZE], "variants").points[0]
    assert abs(other.ms / points["11"].ms - 1) < 0.01
    saved = (
        BUFFERED.parameters["BM"] * BUFFERED.parameters["BK"] + BUFFERED.parameters["BK"] * BUFFERED.parameters["BN"]
    )
    used, saved = [resources(kernel).registers for kernel in (BUFFERED, RUNG)], saved // BUFFERED.threads
    assert saved == 12 and used[1] > used[0] - saved
    assert 1 < after["all"] / before["all"] < 1.01
    assert before["LDG"] + before["STS"] - after["LDGSTS"] == after["LDS"] - before["LDS"]
    return {
        "card": card().name,
        "registers 10": str(used[0]),
        "registers 11": str(used[1]),
        "registers predicted": str(used[0] - saved),
        "instructions": f"{after['all'] / 1e6:,.1f} million",
        "instructions before": f"{before['all'] / 1e6:,.1f} million",
        "ten": f"{points['10'].ms:.2f} ms",
        "now": f"{points['11'].ms:.2f} ms",
        "other warps": f"{other.ms:.2f} ms",
        "slots": f"{busy['issue slots']:.0f}%",
        "pipes": f"{busy['FMA pipes']:.0f}%",
        "l1": f"{busy['L1 and shared memory']:.0f}%",
        "l1 before": f"{before['L1 and shared memory used, %']:.0f}%",
        "small": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
