"""Compares 07 and 08 in one tile, and draws tiles over banks, for chapter 08 and its page on bank conflicts."""

from collections.abc import Callable, Mapping

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import simulate
from sgemm_tutorial.table import Table

from ..draw import Figure
from ..draw.figure import MARGIN, PALE, WIDTH, Page
from ..draw.warp import lane_colour
from ..experiments import banks, counters
from ..experiments.ceilings import card
from ..experiments.profiles import BETWEEN
from ..measure import nsight
from ..model.resources import kernel_occupancy
from ..records.timings import recorded
from ..variants import find_variant
from . import account

PADDINGS = ("", "not swizzled", "padded by 4", "padded by 1")
"""The layouts of the tile of A in 08: swizzled as it is, or changed in one of these ways instead."""
BEFORE = find("07").variant(**find("08").parameters)
"""07 with the template arguments of 08."""
LEFT, TOP, HEIGHT, BANKS = 64, 58, 26, 32


def paddings(**of: int) -> dict[str, Kernel]:
    """Return 08 with these template arguments, with each of `PADDINGS`."""
    return {change: find_variant("08", change, **of) if change else find("08").variant(**of) for change in PADDINGS}


def one_at_a_time() -> Table:
    """Return the bank conflicts of 07 in 08's tile, with each of the two changes, and what they take at 4096."""
    A, B = matrices(128, 128, 512, on_gpu=False)
    steps = {
        "07": BEFORE,
        "columns and rows in groups of four": find_variant("08", "not swizzled", **find("08").parameters),
        "tile of A swizzled: 08": find("08"),
    }
    rows = []
    for change, kernel in steps.items():
        total = simulate(kernel, A, B).total
        (point,) = recorded(kernel, account.SIZE, "variants").points
        counted = total.shared_load_conflicts, total.shared_store_conflicts, total.global_store_sectors
        rows.append((change, *counted, f"{point.ms:.3f}"))
    return Table(
        ("each with those above it", "conflicts of loads", "of stores", "sectors of C", "ms"),
        rows,
        f"From 07 to 08 in one tile, {card().name}",
        "Conflicts and sectors written as simulated at 128 × 128 × 512, times as recorded at M = N = K = 4096.",
    )


def bank_map(title: str, place: Callable[[int, int], int], BK: int = 32) -> Figure:
    """Draw where elements of the tile of A lie over the banks, for every fourth k, a warp's first store in colour.

    Parameters
    ----------
    title : str
    place : callable
        Returns the word in which element (row of A, k) lies.
    BK : int
        The depth of the tile.
    """
    pitch = (WIDTH - MARGIN - LEFT) / BANKS
    sheet = Page(TOP + BK // 4 * HEIGHT + 6, title=f"{title}, over the banks")
    for bank in (0, 8, 16, 24, 31):
        sheet.text(LEFT + (bank + 0.5) * pitch, TOP - 8, str(bank), "center")
    for k in range(0, BK, 4):
        y = TOP + k // 4 * HEIGHT
        sheet.text(MARGIN, y + 18, f"k = {k}")
        for row in range(BANKS):
            bank = place(row, k) % BANKS
            stored = row < 128 // BK
            colour = lane_colour(row * BK // 4 + k // 4) if stored else PALE
            sheet.boxes([(LEFT + bank * pitch + 1, y + 2, pitch - 2, HEIGHT - 4)], colour)
            if row % 4 == 0 and not stored and bank <= BANKS - 4:
                sheet.text(LEFT + (bank + 2) * pitch, y + 18, f"{row}–{row + 3}", "center")
    used = {place(row, k) % BANKS for row in range(128 // BK) for k in range(0, BK, 4)}
    return sheet.finish(f"{title}: rows of A over banks; those stored together lie in {len(used)} banks.")


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them."""
    old, now = find("07"), find("08")
    larger, own = now.variant(BM=128, BN=128, BLOCKS=2), paddings(**now.parameters)
    tiles = {"07": BEFORE, "larger": larger, "places": now.variant(**old.parameters)}
    timed = {name: recorded(kernel, account.SIZE, "variants").points[0] for name, kernel in (own | tiles).items()}
    ms = {name: each.ms for name, each in timed.items()}
    (point,), (first,) = recorded(now, account.SIZE).points, recorded(old, account.SIZE).points
    pipeline, slots, multipliers = account.busy(now).values()
    registers = multipliers * banks.cycles(banks.LOOP, 2, now)
    assert pipeline < multipliers < slots < registers < 0.8 * point.ms
    assert ms["07"] > 1.1 * ms["not swizzled"] > 1.15 * ms[""]
    assert timed["padded by 4"].ms_p10 < timed[""].ms_p90 and timed[""].ms_p10 < timed["padded by 4"].ms_p90
    assert first.ms > 1.05 * ms["places"] > 1.1 * ms[""] and ms["07"] > first.ms
    lost = (now.parameters["TN"] / 4 - 1) / now.parameters["TM"] + (now.parameters["BK"] / 4 - 1) / now.parameters["BN"]
    fewer = account.milliseconds(account.SIZE**3 / WARP * lost)  # from the wavefronts lost per multiply-add of a warp
    new, wide = (nsight.counted(kernel, (account.SIZE,) * 3, "variant_profiles") for kernel in (now, larger))
    idle, less = (idle_ms(of, ms[name]) for of, name in ((new, ""), (wide, "larger")))
    filled = "issue slots used, %"
    assert ms[""] - ms["larger"] < 2 * (idle - less) and abs(wide[filled] - new[filled]) < 1
    counted = {name: counters.measured(kernel, *(account.SIZE,) * 3) for name, kernel in own.items()}
    assert counted[""]["shared_store_conflicts"] < 0.02 * counted["not swizzled"]["shared_store_conflicts"]
    assert counted[""]["shared_load_conflicts"] < 1e-4 * counted[""]["shared_load_wavefronts"]
    waits = {name: new[f"state: {name}"] for name in account.WAITS if name != "another warp was chosen"}
    assert sorted(waits, key=waits.get, reverse=True)[:2] == ["dispatch", "waits for L2 or DRAM"]
    assert all(
        (recorded(now, size).points[0].ms < recorded(old, size).points[0].ms) == (size >= 2048)
        for size in (128, 256, 512, 1024, 2048, 4096)
    )
    blocks, at_once = now.grid(account.SIZE, account.SIZE), kernel_occupancy(now, card()).blocks_per_sm * card().sms
    assert blocks % at_once
    return {
        "card": card().name,
        "places alone": f"{ms['places']:.2f} ms",
        "tile before": f"{ms['07']:.3f} ms",
        "swizzled": f"{ms['']:.3f} ms",
        "padded": f"{ms['padded by 4']:.3f} ms",
        "larger": f"{ms['larger']:.3f} ms",
        "padded conflicts": f"{counted['padded by 4']['shared_store_conflicts'] / 1e6:.0f}",
        "store conflicts before": f"{counted['not swizzled']['shared_store_conflicts'] / 1e6:.0f}",
        "fewer": f"{fewer:.2f} ms",
        "saved": f"{ms['07'] - ms['']:.2f} ms",
        "slots": f"{slots:.2f} ms",
        "registers": f"{registers:.2f} ms",
        "blocks": f"{blocks:,}",
        "at once": f"{at_once}",
        "idle": f"{idle:.2f} ms",
        "idle larger": f"{less:.2f} ms",
        "filled": f"{new[filled]:.0f}%",
        "between": f"{new[BETWEEN]:.2f}",
        "dispatch": f"{waits['dispatch']:.2f}",
        "memory": f"{waits['waits for L2 or DRAM']:.2f}",
        "shared memory": f"{waits['waits for shared memory']:.2f}",
    }


def idle_ms(of: Mapping[str, int | float], ms: float) -> float:
    """Return for how many of a kernel's milliseconds an SM has no work, on average, by the kernel's profile."""
    issued = of["all"] / card().sms / card().limits.warp_granularity
    return ms * (1 - issued / (of["issue slots used, %"] / 100) / of["SM cycles"])
