"""Chapter 11: when groups of copies are under way, and what they bring."""

from math import ceil

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import resources
from ..records.timings import recorded
from ..variants import find_variant
from . import account, register_banks
from .warp_tile import local_accesses

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
TENS_WARP = {"WM": 128, "WN": 32}
"""The tile of a warp in 10."""
SINGLE = find("09_warp_tile").variant(**SMALL_TILE)
"""09 with that tile."""
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
    """Return the recorded times of 10 and 11 with two tiles, of 09 with one, and two waits of a warp."""
    kernels = {
        "10": BUFFERED,
        f"10, {ALIKE}": find_variant("10", ALIKE),
        "11, three stages": RUNG.variant(**TENS_WARP),
        "09": SINGLE,
        "10 ": BUFFERED.variant(**SMALL_TILE),
        "11, two stages": RUNG.variant(**SMALL_TILE, STAGES=2),
    }
    record = recorded(list(kernels.values()), [profiles.SIZE], "variants")
    ms = [record.select([kernel]).points[0].ms for kernel in kernels.values()]
    found = [counted(kernel, (profiles.SIZE,) * 3, "variant_profiles") for kernel in kernels.values()]
    memory, dispatch = ([of[f"state: {wait}"] for of in found] for wait in ("waits for L2 or DRAM", "dispatch"))
    a, b, c, d, e, f = ms
    assert a < c < b < 1.02 * a and f < 0.98 * d < d < 0.98 * e
    assert max(memory[4:]) < 0.1 < memory[3] and dispatch[3] < dispatch[5] < 0.6 * dispatch[4]
    assert not any(map(local_accesses, kernels.values()))
    rows = [
        (" × ".join(str(kernel.parameters[side]) for side in ("BM", "BN", "BK")), name.strip(), *cycles, f"{taken:.3f}")
        for (name, kernel), taken, *cycles in zip(
            kernels.items(), ms, *([f"{each:.2f}" for each in of] for of in (memory, dispatch)), strict=True
        )
    ]
    heads = ("block's tile", "kernel", "waits for L2 or DRAM", "dispatch", "ms at 4096")
    return Table(heads, rows, f"Warp tiles of 128 × 32 in the large tile, 64 × 32 in the small: {record.made}")


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
        "small 09": SINGLE,
        "small 10": BUFFERED.variant(**SMALL_TILE),
        "small": RUNG.variant(**SMALL_TILE, STAGES=2),
        "small early": find_variant("11", "fetch after k = 0", **SMALL_TILE, STAGES=2),
        "tall": RUNG.variant(BM=256, BN=128),
        "tall 10": BUFFERED.variant(BM=256, BN=128),
    }
    points = {name: recorded(of, [profiles.SIZE], "variants").points[0] for name, of in kernels.items()}
    ms |= {name: point.ms for name, point in points.items()}
    assert abs(ms["10"] / ms["11"] - 1) < 0.01 and ms["11"] < ms["early"] and ms["small"] > ms["small early"]
    (three,) = recorded(RUNG, [profiles.SIZE], "variants").points
    assert ms["two"] > three.ms and points["two"].ms_p10 < three.ms_p90
    pairs = list(zip(recorded("10").points, recorded("11").points, strict=True))
    assert all((own.ms < ten.ms) == bool(own.M % 256) for ten, own in pairs)
    odd = [ten.ms / own.ms - 1 for ten, own in pairs if own.M % 256]
    clear = sum(own.ms_p90 < ten.ms_p10 for ten, own in pairs)
    assert clear > 0.8 * len(odd)
    capped, capped_own = (resources(find_variant(rung, "184 registers")) for rung in ("10", "11"))
    assert capped_own.spill_store_bytes == capped_own.spill_load_bytes == 0 < capped.spill_store_bytes
    of = [counted(kernels[f"small{name}"], (profiles.SIZE,) * 3, "variant_profiles") for name in (" 09", " 10", "")]
    cycles = [
        register_banks.one_at_a_time(register_banks.reads(kernels[f"small{name}"])) for name in (" 09", " 10", "")
    ]
    computed = list(map(register_banks.dispatched, of, cycles))
    assert all(0.45 < each / found["state: dispatch"] < 0.6 for each, found in zip(computed, of, strict=True)) and (
        computed[0] < computed[2] < computed[1] and ms["tall"] > 1.05 * ms["tall 10"]
    )
    blocks, busy = RUNG.grid(profiles.SIZE, profiles.SIZE), account.busy(RUNG)["issue slots"] / ms["11"]
    rounds = blocks / card().sms
    own, ten = map(profiles.measured, (RUNG, BUFFERED))
    assert abs(own["issue slots used, %"] / 100 * rounds / ceil(rounds) - busy) < 0.01
    return {
        "card": card().name,
        "odd most": f"{max(odd):.1%}",
        "odd clear": f"{clear} of {len(odd)}",
        "more": f"{(own['all'] - ten['all']) / (blocks * 8 * profiles.SIZE / RUNG.parameters['BK']):.0f}",
        "spilled": str(capped.spill_store_bytes),
        "filled": str(capped.spill_load_bytes),
        **{f"computed {name}": f"{each:.2f}" for name, each in zip(("09", "10", "11"), computed, strict=True)},
        "blocks": str(blocks),
        "sms": str(card().sms),
        "rounds": f"{rounds:.2f}",
        "of all": f"{busy:.0%}",
        "slots": f"{account.busy(BUFFERED)['issue slots']:.2f} ms",
        "floor": f"{account.busy(BUFFERED)['FP32 units']:.2f} ms",
        "ten": f"{ms['10']:.2f} ms",
        "copies": f"{ms['alike'] - ms['like 10']:.2f} ms",
        "against 09": f"{ms['small 09'] - ms['small']:.2f} ms",
        "small": f"{ms['small']:.3f} ms",
        "small early": f"{ms['small early']:.3f} ms",
        "two more": f"{ms['two'] / ms['11'] - 1:.1%}",
        "ms 11": f"{ms['11']:.3f} ms",
        "tall": f"{ms['tall']:.3f} ms",
        "tall 10": f"{ms['tall 10']:.3f} ms",
        "early": f"{ms['early']:.3f} ms",
        "share at 1024": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
