"""Chapter 11: when groups of copies are under way, and what they bring."""

from __future__ import annotations

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import sgemm
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import anatomy, profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import resources
from ..records import files
from ..records.checks import Sanitized
from ..records.files import Recording
from ..records.timings import recorded
from . import account

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
WAITS = ("waits for L2 or DRAM", "waits for shared memory", "barrier", "dispatch")
SLOTS = "issue slots used, %"
CUBLAS_HAS = "tilesize256x128x8_stage3"
"""In the name of cuBLAS's kernel at 4096, whose rows are columns of our C: its tile is 128 × 256 of that."""
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
    legend = (8, ORANGE, "under way, or arrived"), (208, BLUE, "multiplied"), (328, PALE, "no copies in it")
    for x, fill, text in legend:
        sheet.boxes([(x, 76 + groups * ROW, 14, 14)], fill, edgecolor=INK, linewidth=0.5)
        sheet.text(x + 22, 88 + groups * ROW, text)
    return sheet.finish(
        f"{tiles} tiles in {stages} stages. Copies of a tile start {stages - 1} trips before it is multiplied. Each "
        f"trip begins with a wait for all groups but {pending}."
    )


def times() -> Table:
    """Return the recorded times of 09, 10 and 11 with their own tiles and with a smaller one, and with other stages."""
    shallow = SMALL_TILE | {"BK": 8}
    kernels = [
        find("09"),
        *(find("09").variant(**SMALL_TILE), BUFFERED.variant(**SMALL_TILE), RUNG.variant(**SMALL_TILE, STAGES=2)),
        *(RUNG.variant(**shallow, STAGES=stages) for stages in (2, 3, 4)),
        *(BUFFERED, RUNG.variant(STAGES=2), RUNG),
    ]
    record = recorded(kernels, [profiles.SIZE], "variants")
    ms, rows = [record.select([kernel]).points[0].ms for kernel in kernels], []
    for kernel, taken in zip(kernels, ms, strict=True):
        of = kernel.parameters
        assert not resources(kernel).spill_store_bytes
        tile = f"{of['BM']} × {of['BN']} × {of['BK']}"
        rows.append((tile, kernel.name[:2], of.get("STAGES"), f"{taken:.3f}"))
    own, nine, ten, eleven, *others = ms
    assert eleven < 0.98 * nine and nine < 0.98 * ten and abs(eleven / own - 1) < 0.01
    assert all(max(group) < 1.01 * min(group) for group in (others[:3], others[3:]))
    return Table(("tile", "kernel", "stages", "ms at 4096"), rows, f"Recorded on {record.made}")


def waits() -> Table:
    """Return for what a warp of 09, 10 and 11 waits with the smaller tile, in cycles for each of its instructions."""
    nine, ten = (kernel.variant(**SMALL_TILE) for kernel in (find("09"), BUFFERED))
    rows = []
    for kernel in (nine, ten, RUNG.variant(**SMALL_TILE, STAGES=2)):
        of = counted(kernel, (profiles.SIZE,) * 3, "variant_profiles")
        rows.append((kernel.name[:2], *(f"{of[f'state: {name}']:.2f}" for name in WAITS)))
    memory, shared, barrier, dispatch = zip(*([float(cell) for cell in row[1:]] for row in rows), strict=True)
    assert max(memory[1:]) < 0.2 * memory[0] and dispatch[1] > 1.9 * max(dispatch[0], dispatch[2])
    assert shared[2] > 5 * shared[1] and barrier[2] > 1.5 * barrier[1]
    return Table(("kernel", "L2 or DRAM", "shared memory", "barrier", "dispatch"), rows, "Cycles for each instruction")


def beside_cublas() -> Table:
    """Return what 10, 11 and the kernel of cuBLAS's SGEMM are like at 4096, and what their profiles say."""
    theirs, columns = anatomy.of(sgemm, (profiles.SIZE,) * 3).main, []
    assert CUBLAS_HAS in theirs.name and theirs.block[0] == RUNG.threads
    ladder = {kernel: recorded(kernel, [profiles.SIZE]).points[0] for kernel in (BUFFERED, RUNG)}
    for kernel, stages in ((BUFFERED, 2), (RUNG, 3), (None, 3)):
        of = profiles.measured(kernel) if kernel else theirs.counts
        used = resources(kernel).registers if kernel else of["registers"]
        warps = RUNG.grid(profiles.SIZE, profiles.SIZE) * RUNG.threads // WARP
        copies = round(of["LDGSTS"] / warps / (profiles.SIZE // RUNG.parameters["BK"]))
        ms = ladder[kernel].ms if kernel else ladder[RUNG].cublas_ms
        shares = (f"{of[part]:.0f}%" for part in (SLOTS, "L1 and shared memory used, %"))
        columns.append(("128 × 256 × 8", stages, used, copies, f"{of['all'] / 1e6:,.0f}", *shares, f"{ms:.3f}"))
    assert columns[-1][3] * RUNG.threads == 8 * (128 + 256)  # a copy for each word
    names = ("tile", "stages", "registers of a thread", "copies of a thread for each tile", "instructions, millions")
    rows = zip((*names, "issue slots used", "L1 and shared memory busy", "ms"), *columns, strict=True)
    return Table(("", "10", "11", "cuBLAS"), list(rows), f"M = N = K = {profiles.SIZE}, {card().name}")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    points = {rung: recorded(rung, [profiles.SIZE]).points[0] for rung in ("09", "10", "11")}
    before, after = profiles.measured(BUFFERED), profiles.measured(RUNG)
    assert max(of["all"] for of in (before, after)) / 4 > profiles.SIZE**3 / card().limits.fp32_lanes
    assert abs(points["11"].ms / points["10"].ms - 1) < 0.01
    other = recorded(RUNG.variant(WM=128, WN=32), [profiles.SIZE], "variants").points[0]
    assert abs(other.ms / points["11"].ms - 1) < 0.01
    fetched = BUFFERED.parameters["BK"] * (BUFFERED.parameters["BM"] + BUFFERED.parameters["BN"])
    used, saved = [resources(kernel).registers for kernel in (BUFFERED, RUNG)], fetched // BUFFERED.threads
    assert saved == 12 and used[1] > used[0] - saved
    assert before["LDG"] + before["STS"] - after["LDGSTS"] == after["LDS"] - before["LDS"]
    two, three = (recorded(find("15").variant(STAGES=n), [profiles.SIZE], "fragments").points[0].ms for n in (2, 3))
    assert 1.15 < two / three < 1.25
    checked = files.load("sanitizer", Recording[Sanitized]).points
    (memcheck,) = (point for point in checked if point.tool == "memcheck" and point.kernel == RUNG.name)
    assert not memcheck.errors
    return {
        "card": card().name,
        "registers 10": str(used[0]),
        "registers 11": str(used[1]),
        "registers predicted": str(used[0] - saved),
        "slots": f"{account.milliseconds(before['all'] / 4):.2f} ms",
        "floor": f"{account.milliseconds(profiles.SIZE**3 / card().limits.fp32_lanes):.2f} ms",
        "nine": f"{points['09'].ms:.2f} ms",
        "ten": f"{points['10'].ms:.2f} ms",
        "other warps": f"{other.ms:.2f} ms",
        "now": f"{points['11'].ms:.2f} ms",
        "15 two": f"{two:.3f} ms",
        "15 three": f"{three:.3f} ms",
        "sanitized": str(memcheck.launches),
        "small": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
