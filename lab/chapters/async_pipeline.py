"""Chapter 11: when groups of copies are under way, and what they bring."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, INK, ORANGE, PALE, TITLE, WIDTH, Figure, Page
from ..experiments import profiles
from ..experiments.ceilings import card
from ..measure.nsight import counted
from ..model.resources import resources
from ..records import cards
from ..records.timings import Point, recorded
from ..variants import find_variant
from .register_banks import dispatched, one_at_a_time, reads
from .warp_tile import LARGE, milliseconds

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")
SMALL_TILE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""Two blocks of 256 threads to an SM, which leaves 128 registers for a thread."""
PLACES = {
    "09": (LARGE, find("09").variant(**SMALL_TILE)),
    "10, fetch before the loop over k": (
        find_variant("10", "fetch before the loop"),
        find_variant("10", "fetch before the loop", **SMALL_TILE),
    ),
    "10, fetch at k = 0: as it is": (BUFFERED, BUFFERED.variant(**SMALL_TILE)),
    "11, fetch at k = 0": (
        find_variant("11", "fetch after k = 0"),
        find_variant("11", "fetch after k = 0", **SMALL_TILE, STAGES=2),
    ),
    "11, fetch at k = 1: as it is": (RUNG, RUNG.variant(**SMALL_TILE, STAGES=2)),
}
"""09 to 11 in the tile of 10 and 11 and in the small one, by the place where the next pair's fetch begins."""
SHALLOW = {**SMALL_TILE, "BK": 8}
AHEAD = {
    "11, 128 × 256 × 8, ms": [RUNG.variant(STAGES=stages) for stages in (2, 3)],
    "11, 128 × 128 × 8, two blocks, ms": [RUNG.variant(**SHALLOW, STAGES=stages) for stages in (2, 3, 4)],
    "15, on tensor cores, share of cuBLAS": [find("15").variant(STAGES=stages) for stages in (2, 3, 4)],
}
"""11 in two tiles, and 15, with two stages and with more."""
LEFT, FIRST, ROW = 128, 186, 28  # pixels: the bars, the first trip, and from one bar to the next


def timeline(stages: int, tiles: int) -> Figure:
    """Draw when each group of copies is under way, when it is waited for, and when its pair of tiles is multiplied."""
    pending = stages - 2
    trip, groups = (WIDTH - 8 - FIRST) / tiles, tiles + stages - 1
    sheet = Page(104 + groups * ROW)
    sheet.text(8, 22, f"STAGES = {stages}, {tiles} pairs of tiles", size=TITLE, weight="bold")
    for t in range(tiles):
        x = FIRST + t * trip
        sheet.text(x + 4, 48, f"wait {pending}")
        sheet.lines([[(x, 36), (x, 64 + groups * ROW)]], dashes=(3.7, 1.6))
    for g in range(groups):
        y, issued = 58 + g * ROW, g - stages + 1  # the trip that starts the copies
        start = FIRST + (issued + 0.15) * trip if issued >= 0 else LEFT + 24 * g
        ready = FIRST + g * trip
        sheet.text(8, y + 16, f"pair {g}, stage {g % stages}" if g < tiles else "empty group")
        sheet.boxes([(start, y, min(ready, WIDTH - 8) - start, 22)], ORANGE if g < tiles else PALE)
        if g < tiles:
            sheet.boxes([(FIRST + g * trip + 2, y, trip - 2, 22)], BLUE)
    legend = (8, ORANGE, "under way, or arrived"), (208, BLUE, "multiplied"), (328, PALE, "no copies in it")
    for x, fill, text in legend:
        sheet.boxes([(x, 76 + groups * ROW, 14, 14)], fill, edgecolor=INK, linewidth=0.5)
        sheet.text(x + 22, 88 + groups * ROW, text)
    return sheet.finish(
        f"{tiles} pairs of tiles in {stages} stages. Copies of a pair start {stages - 1} trips before it is "
        f"multiplied. Each trip begins with a wait for all groups but {pending}."
    )


def times() -> Table:
    """Return the recorded times of `PLACES`."""
    rows = [(name, *(f"{milliseconds(of):.3f}" for of in kernels)) for name, kernels in PLACES.items()]
    heads = ("ms", "128 × 256 × 8, one block on an SM", "128 × 128 × 16, two blocks")
    return Table(
        heads,
        rows,
        f"M = N = K = {profiles.SIZE}, {card().name}",
        "In the small tile, 11 has two stages: three would take "
        f"{3 * 4 * SMALL_TILE['BK'] * (SMALL_TILE['BM'] + 4 + SMALL_TILE['BN']):,} bytes, over 48 KiB ({48 * 1024:,}).",
    )


def _ahead() -> dict[str, list[Point]]:
    """Return the points at 4096 of all in `AHEAD`."""
    records = ("variants", "variants", "fragments")
    return {
        name: [recorded(kernel, [profiles.SIZE], record).points[0] for kernel in kernels]
        for (name, kernels), record in zip(AHEAD.items(), records, strict=True)
    }


def stages() -> Table:
    """Return the recorded times of 11 and shares of 15 with two, three and four stages."""
    rows = [
        (
            name,
            *(f"{each.ms:.3f}" if name.endswith("ms") else f"{each.percent_of_cublas:.1f}%" for each in points),
            *("–",) * (3 - len(points)),
        )
        for name, points in _ahead().items()
    ]
    note = (
        "–: four stages are more than 48 KiB. The small tile has BK = 8 here, so that four fit. "
        "15 ran at different clocks, so compare its shares of the cuBLAS beside it."
    )
    return Table(("", "2 stages", "3 stages", "4 stages"), rows, f"M = N = K = {profiles.SIZE}, {card().name}", note)


def _trip(kernel: Kernel, record: str) -> float:
    """Return the cycles of a trip round the main loop at 4096, where an SM has four blocks, or four pairs of them."""
    cycles = counted(kernel, (profiles.SIZE,) * 3, record)["SM cycles"]
    return cycles / (4 * profiles.SIZE // kernel.parameters["BK"])


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    (front, small_front), (ten, small_ten), (first, small_first), (own, small) = (
        map(milliseconds, kernels) for name, kernels in PLACES.items() if name != "09"
    )
    tall, wide = map(milliseconds, (RUNG.variant(WM=128, WN=32), find_variant("09", "any warp tile", WM=16, WN=128)))
    assert (
        1.02 * own < first < front
        and first < 1.03 * own < 1.03 * tall
        and wide < small_first < small < small_front < small_ten
    )
    races = [
        {
            before.M: after.ms / before.ms - 1
            for before, after in zip(
                *(recorded(of, None, cards.folder(name) / "ladder.json").points for of in (BUFFERED, RUNG)), strict=True
            )
        }
        for name in ("h200", "h100")
    ]
    slower = [race[profiles.SIZE] for race in races] + [
        recorded(RUNG, [profiles.SIZE], of).points[0].ms / recorded(BUFFERED, [profiles.SIZE], of).points[0].ms - 1
        for of in (cards.folder(name) / "variants.json" for name in ("h200", "h100"))
    ]
    assert min(slower) > 0.001 and max(slower) < 0.002
    large, shallow, tensor = _ahead().values()
    gains = [before.ms / after.ms - 1 for before, after in (large, shallow[:2], shallow[1:])]
    scatter = max(point.ms_p90 / point.ms_p10 - 1 for point in large)
    h100 = [
        recorded(of, [profiles.SIZE], cards.folder("h100") / "variants.json").points[0]
        for of in next(iter(AHEAD.values()))
    ]
    trips = {"10": _trip(BUFFERED, "variant_profiles"), "15": _trip(find("15"), "profiles")}
    assert (
        all(len(race) == 32 and (of < 0) == (size % 256 == 128) for race in races for size, of in race.items())
        and 0 < gains[2] < gains[0] < 1.5 * scatter < 0.005
        and gains[1] < 0.006
        and tensor[1].percent_of_cublas > 1.1 * tensor[0].percent_of_cublas
        and abs(tensor[2].percent_of_cublas / tensor[1].percent_of_cublas - 1) < 0.005
        and trips["15"] < 0.65 * trips["10"]
        and not any(resources(of[1]).spill_store_bytes for name, of in PLACES.items() if name.endswith("as it is"))
    )
    spent = {
        kernel: counted(kernel, (profiles.SIZE,) * 3, "variant_profiles")
        for kernel in (BUFFERED.variant(**SMALL_TILE), RUNG.variant(**SMALL_TILE, STAGES=2))
    }
    ten_small, eleven_small = (
        (of[profiles.DISPATCH], dispatched(of, one_at_a_time(reads(kernel)))) for kernel, of in spent.items()
    )
    before, after = spent.values()
    moved = {
        name: after[state] - before[state]
        for name, state in {
            "dispatch": profiles.DISPATCH,
            "ready": "state: another warp was chosen",
            "shared": profiles.SHARED,
            "barrier": profiles.BARRIER,
            "L2": profiles.L2,
            "in all": profiles.BETWEEN,
        }.items()
    }
    begun, again = (
        counted(RUNG, (profiles.SIZE,) * 3, record) for record in (cards.folder("h200") / "counters.json", "counters")
    )
    assert (
        again["copy_wavefronts"] == begun["copy_wavefronts"] == 2 * begun["copy_conflicts"]
        and 1.9 < ten_small[0] / eleven_small[0] < 2.1
        and all(0.4 < told / held < 0.6 for held, told in (ten_small, eleven_small))
        and [name for name, cycles in moved.items() if cycles < 0] == ["dispatch", "ready", "in all"]
    )
    return {
        "card": card().name,
        **{f"moved {name}": f"{cycles:+.2f}".replace("-", "−") for name, cycles in moved.items()},
        **{f"trip {rung}": f"{cycles:,.0f}" for rung, cycles in trips.items()},
        "scatter": f"{scatter:.1%}",
        "slower": f"{own / ten - 1:.1%}",
        "most": f"{max(of for race in races for of in race.values()):.1%}",
        "at 1920": f"{1 / (1 + races[0][1920]) - 1:.0%}",
        "against 10": f"{small_front / small_first - 1:.0%}",
        "wide": f"{wide:.2f} ms",
        "gain large": f"{gains[0]:.1%}",
        "gain tensor": f"{tensor[1].percent_of_cublas / tensor[0].percent_of_cublas:.2f}",
        "gain h100": f"{h100[0].ms / h100[1].ms - 1:.1%}",
        "tall": f"{tall / own - 1:.1%}",
        "share at 1024": f"{recorded(RUNG, [1024]).points[0].percent_of_cublas:.0f}%",
    }
