"""Computes the pictures, predictions, tables and figures of chapter 20 and its deeper page."""

from collections.abc import Sequence

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import hopper
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PALE, WIDTH, Figure, Page
from ..experiments import sustained
from ..experiments.ceilings import card, place
from ..measure.nsight import counted
from ..records import files
from ..records.timings import paired
from ..variants import HOPPER_STEPS, HOPPER_WIDTHS, find_variant
from .copy_engine import PRODUCT, SIZES, TWICE, timed

EIGHTEEN, NINETEEN, KERNEL = (find(name) for name in ("18_wgmma", "19_producer_warp", "20_persistent"))
TILE = KERNEL.parameters
STEPS = (*HOPPER_STEPS, KERNEL)
ALL = (2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192)
"""The sizes of `copy_engine.TWICE`, smallest first."""
AT_ONCE = find_variant("20", "all at once")
WITH_AND_WITHOUT = {256: STEPS[2:0:-1], 224: HOPPER_WIDTHS[1::-1], 192: HOPPER_WIDTHS[:1:-1]}
"""20 with clusters and without, by the columns of its tile."""


def shares(kernels: Sequence[Kernel], sizes: Sequence[int] = SIZES) -> np.ndarray:
    """Return the shares of cuBLAS in % by kernel, by size, and by recording of `copy_engine.TWICE`."""
    return np.array([[[timed(each, size, of).percent_of_cublas for of in TWICE] for size in sizes] for each in kernels])


def leads(kernel: Kernel, base: Kernel, size: int, recordings: Sequence[str] = TWICE) -> np.ndarray:
    """Return by what fraction a kernel's share is above another's, in each process of the recordings."""
    found = (
        [paired((of.own.ms, of.cublas.ms)) for name in recordings for of in timed(who, size, name).processes]
        for who in (kernel, base)
    )
    return np.divide(*found) - 1


def copies(size: int) -> float:
    """Return the largest difference, in a process, between 20's share and that of a variant which is equal code."""
    return abs(leads(KERNEL, WITH_AND_WITHOUT[chosen(size)][0], size)).max()


def nearly(found: np.ndarray, size: int) -> bool:
    """Tell whether the smallest of the gains, or losses, exceeds what `copies` returns."""
    return bool(max(found.min(), -found.max()) > copies(size))


def span(found: np.ndarray, size: int = 0) -> str:
    """Return the smallest and the largest change as a text; told the size, with the mark that `nearly` gives."""
    return f"{100 * found.min():+.1f} to {found.max():+.1%}" + " ✓" * (size > 0 and nearly(found, size))


def corner(number: int, rank: int, size: int, group: int = TILE["GROUP"], cluster: int = TILE["CLUSTER"]) -> tuple:
    """Return where tile `number` of a cluster begins for its block of that rank, as `corner` in the kernel does."""
    high, together = cluster * TILE["BM"], group // cluster
    down, across = -(-size // high), -(-size // TILE["BN"])
    first = number // (together * across) * together
    inside, height = number % (together * across), min(down - first, together)
    return (first + inside % height) * high + rank * TILE["BM"], inside // height * TILE["BN"]


def rounds(size: int, width: int = TILE["BN"]) -> float:
    """Return how many tiles of C there are for each pair of SMs. A fraction is a last round with SMs to spare."""
    return -(-size // (2 * TILE["BM"])) * -(-size // width) / (card().sms // 2)


def gap(late: bool = False, writing: int = 8, copy: int = 2) -> Figure:
    """Draw an SM's work between two tiles of C: in 19 and in a block that stays, or in one that also writes `late`.

    Lengths are in pairs' products, and free: nothing tells how long an SM writes.

    The copy of a pair begins when the pair that had its stage before has been multiplied.
    """
    stages, first, end, wide, half = TILE["STAGES"], -5, 16, 24, writing // 2
    panels = (  # a title, a pause, when the next tile's first copies begin, and what is written when
        ("19: the block ends, another one begins", writing + copy, [writing] * stages, [(0, writing)]),
        ("The block stays", writing, range(1 - stages, 1), [(0, writing)]),
        (
            "20: the block stays, and writes half of its tile late",
            half,
            range(1 - stages, 1),
            [(0, half), *((half + 1 + i, 0.7 * half / 4) for i in range(4))],
        ),
    )[2 * late : 2 + late]
    sheet = Page(len(panels) * (5 * LINE + 8) + LINE - 2)
    for panel, (title, pause, begins, writes) in enumerate(panels):
        top = panel * (5 * LINE + 8)
        sheet.text(MARGIN, top + LINE, title, weight="bold")
        for i, name in enumerate(("copies", "products", "writes C")):
            sheet.text(82, top + (1.4 + i) * LINE + 15 + 3 * (i == 0), name, "right")
        for pair in range(first, end + stages):
            at, dark = pair + pause * (pair >= 0), 0.4 if pair >= 0 else 1
            copied = begins[pair] if 0 <= pair < stages else at + 1 - stages
            for start, stop, y, tall, colour in (
                (max(copied, first), min(copied + copy, end), top + 1.4 * LINE + 6 * (pair % stages), 5, ORANGE),
                (at, min(at + 1, end), top + 2.6 * LINE, 18, BLUE),
            ):
                sheet.boxes(
                    [(92 + (start - first) * wide, y, (stop - start) * wide, tall)] * (start < stop),
                    (colour, dark),
                    INK,
                )
        sheet.boxes([(92 + (at - first) * wide, top + 3.6 * LINE, long * wide, 18) for at, long in writes], GREEN, INK)
        sheet.text(92 + (pause / 2 - first) * wide, top + 2.6 * LINE + 14, "no products", "center")
    sheet.text(
        MARGIN, sheet.height - 8, "Not to scale. Dark: this tile of C. Pale: the next. Copies: a line for each stage."
    )
    return sheet.finish(
        "Copies, products and writes of an SM round the end of a tile of C, not to scale. "
        + (
            "No product runs while half of the tile is written. The other half is written in four parts beside the "
            "next tile's products."
            if late
            else "In 19 no product runs while the tile is written and the next block waits for its first copies. In a "
            "block that stays no product runs while the tile is written, and meanwhile the next tile's first copies "
            "arrive."
        )
    )


def numbers(cluster: int = 18, size: int = 4096, wide: int = 39, tall: int = 30) -> Figure:
    """Draw the double tiles of C with their numbers, and what the two blocks of a cluster compute of them."""
    high, half = 2 * TILE["BM"], tall / 2 - 1
    corners = [corner(number, 0, size) for number in range(size**2 // (high * TILE["BN"]))]
    places = [(MARGIN + column // TILE["BN"] * wide, row // high * tall + 2) for row, column in corners]
    mine, begins = places[cluster :: card().sms // 2], [y - 1 for x, y in places[:: TILE["GROUP"] // 2] if x == MARGIN]
    sheet = Page(size // high * tall + LINE + MARGIN)
    sheet.boxes([(*place, wide - 2, 2 * half) for place in places if place not in mine], PALE)
    for rank, colour in enumerate((ORANGE, BLUE)):
        sheet.boxes([(x, y + rank * half, wide - 2, half) for x, y in mine], (colour, 0.45))
    for number, (x, y) in enumerate(places):
        sheet.text(x + wide / 2 - 1, y + half + 5, str(number), "center", weight="bold" if (x, y) in mine else "normal")
    sheet.lines([[(MARGIN, y), (MARGIN + size // TILE["BN"] * wide, y)] for y in begins[1:]], linewidth=2)
    sheet.text(
        MARGIN,
        sheet.height - 8,
        f"A cell: a double tile. Orange: block {2 * cluster}. Blue: block {2 * cluster + 1}. Lines: a group ends.",
    )
    return sheet.finish(
        f"The double tiles of C with their numbers, which run down the columns of each group of {TILE['GROUP'] // 2} "
        f"rows of double tiles. Cluster {cluster} computes "
        + ", ".join(str(number) for number, place in enumerate(places) if place in mine)
        + f": block {2 * cluster} the upper half of each, block {2 * cluster + 1} the lower half."
    )


MOMENTS = (
    ("step 0: announces 49,152 bytes", "full[0] lacks 49,152 bytes", "", "", "full[0] lacks 1 arrival"),
    (
        "step 0: its A and its half of B land",
        "full[0] lacks 16,384 bytes",
        ">",
        "step 0: 36's half of B lands",
        "full[0] lacks 1 arrival, −16,384 bytes",
    ),
    ("", "", "", "step 0: announces 49,152 bytes", "full[0] lacks 32,768 bytes"),
    (
        "step 0: 37's half of B lands",
        "full[0]: phase over",
        "<",
        "step 0: its A and its half of B land",
        "full[0]: phase over",
    ),
    (
        "step 0: 8 warps multiply, let go",
        "empty[0] lacks 8 of 16",
        ">",
        "step 0: its warps multiply",
        "empty[0] lacks 8 of 16",
    ),
    (
        "step 4: producer waits for room",
        "empty[0] lacks 8 of 16",
        "",
        "step 0: its warps still multiply",
        "empty[0] lacks 8 of 16",
    ),
    ("", "empty[0]: phase over", "<", "step 0: 8 warps let go", "empty[0]: phase over"),
    (
        "step 4: announces 49,152 bytes",
        "full[0], phase 1: lacks 49,152 bytes",
        "",
        "",
        "full[0], phase 1: lacks 1 arrival",
    ),
)
"""The events of stage 0 in blocks 36 and 37 by step, the state of each block's barrier, and which acts on the other."""


def time_line() -> Figure:
    """Draw the events of stage 0 in two blocks of a cluster, in the order of time, with their barriers' counts."""
    wide, tall, told, boxes, arrows = 276, 52, [], [], []
    sides = ((3.5 * MARGIN, ORANGE, "Block 36"), (WIDTH - MARGIN - wide, BLUE, "Block 37"))
    sheet = Page(LINE + 58 * len(MOMENTS) + MARGIN)
    for row, (ours, count, arrow, theirs, other) in enumerate(MOMENTS):
        y = 1.4 * LINE + 58 * row
        sheet.text(MARGIN, y + 22, str(row + 1))
        for (x, colour, block), *said in ((sides[0], ours, count), (sides[1], theirs, other)):
            boxes += [((x, y, wide, tall), (colour, 0.35) if said[0] else "none", *said)] * any(said)
            told += [f"{row + 1}. {block}: {', '.join(filter(None, said))}."] * any(said)
        arrows += {
            ">": [((sides[0][0] + wide + 3, y + tall / 2), (sides[1][0] - 3, y + tall / 2))],
            "<": [((sides[1][0] - 3, y + tall / 2), (sides[0][0] + wide + 3, y + tall / 2))],
        }.get(arrow, [])
    for x, _, block in sides:
        sheet.text(x, LINE, block, weight="bold")
    sheet.diagram(boxes, arrows)
    return sheet.finish("Stage 0 of blocks 36 and 37 in the order of time. " + " ".join(told))


def chosen(size: int) -> int:
    """Return how many columns the tile has that 20 chooses."""
    return hopper.quickest(size, size, place()).BN


def change(kernel: Kernel, base: Kernel, size: int) -> str:
    """Return by how much a kernel's share of cuBLAS is above another's, in both recordings."""
    return ", ".join(f"{gain - 1:+.1%}" for gain in np.divide(*shares((kernel, base), [size])[:, 0]))


def steps_table() -> Table:
    """Return the change by each step of 20 at each size, its gain over 18, and how much equal code differs."""
    steps = (
        ("blocks stay, and write half late", STEPS[0], NINETEEN),
        ("groups", STEPS[1], STEPS[0]),
        ("clusters", STEPS[2], STEPS[1]),
        ("width as chosen", KERNEL, STEPS[2]),
        ("all of 20, against 18", KERNEL, EIGHTEEN),
    )
    return Table(
        ("step", *(f"{size:,}" for size in SIZES)),
        [
            *(
                (
                    name,
                    *(
                        "same code"
                        if base is STEPS[2] and chosen(size) == TILE["BN"]
                        else span(leads(kernel, base, size), size)
                        for size in SIZES
                    ),
                )
                for name, kernel, base in steps
            ),
            ("equal code: what ✓ must exceed", *(f"up to {copies(size):.1%}" for size in SIZES)),
        ],
        f"Change of the share of cuBLAS in six processes, M = N = K, {card().name}",
        "The first row is against 19, each of the next three against the row before it. The first three have tiles of "
        "256 columns. Processes: three each of the recordings hopper and hopper_again.",
    )


def widths_table() -> Table:
    """Return the expected and the measured gain of the chosen width, where it isn't 256 columns."""
    columns = {size: [hopper.columns(of, size, size, place()) for of in hopper.WIDTHS] for size in ALL}
    return Table(
        ("M = N = K", "rounds by columns", "by the formula", "measured", "equal code"),
        [
            (
                f"{size:,}",
                f"256: {rounds(size):.1f}; {chosen(size)}: {rounds(size, chosen(size)):.1f}",
                f"{columns[size][0] / min(columns[size]) - 1:+.1%}",
                span(leads(KERNEL, STEPS[2], size), size),
                f"up to {copies(size):.1%}",
            )
            for size in ALL
            if chosen(size) != TILE["BN"]
        ],
        f"A width for each problem: change of the share in six processes, {card().name}",
        "Of widths that 20 doesn't take, the formula is up to ten points wrong. Its worst case: 192 columns at 2,048, "
        f"{columns[2048][0] / columns[2048][2] - 1:+.1%} against 256 by the formula, but measured "
        + change(HOPPER_WIDTHS[3], STEPS[2], 2048)
        + " (two recordings).",
    )


def clusters_table() -> Table:
    """Return each width's share without clusters, by recording, and what they add, at two sizes."""
    return Table(
        ("columns of a tile", *(f"{size:,}: {what}" for size in (4096, 8192) for what in ("share without", "gain"))),
        [
            (
                str(width),
                *(
                    text
                    for size in (4096, 8192)
                    for text in (both(shares([without], [size])[0, 0], ".0f"), span(leads(of, without, size), size))
                ),
            )
            for width, (of, without) in reversed(WITH_AND_WITHOUT.items())
        ],
        f"Clusters against none, same width: share in two recordings, its change in six processes, {card().name}",
    )


def profile(kernel: Kernel) -> dict[str, int | float]:
    """Return the counters of a launch at 4096, among `profiles` or, if the kernel has a label, `variant_profiles`."""
    return counted(kernel, (4096,) * 3, "variant_profiles" if kernel.label else "profiles")


def spent(kernel: Kernel) -> list[float]:
    """Return a launch's cycles at 4096, and of an average SM: with products; with a block, but none; without one."""
    launch, products, busy = (
        profile(kernel)["SM cycles"],
        rounds(4096) * PRODUCT * 4096 / TILE["BK"],
        profile(kernel)["tensor cores used, %"] / 100,
    )
    return [launch, products, products / busy - products, launch - products / busy]


def profiles_table() -> Table:
    """Return the cycles of single launches at 4096, and those of an average SM without products or without a block."""
    return Table(
        ("one launch", "cycles", "with a block, but no products", "without a block", "million L2 sectors"),
        [
            (
                name,
                *(f"{round(cycles, -2):,.0f}" for cycles in np.delete(spent(kernel), 1)),
                f"{profile(kernel)['L2 sectors'] / 1e6:.1f}",
            )
            for name, kernel in zip(
                ("19", "blocks stay, and write late", "and in groups", "and in clusters: 20", "20, the same code"),
                (NINETEEN, *STEPS),
                strict=True,
            )
        ],
        f"Cycles of an average SM, M = N = K = 4096, by Nsight Compute, {card().name}",
        f"Both are derived. The products take {spent(KERNEL)[1]:,.0f} cycles by the data sheet. Divided by the share "
        "of time that Nsight's tensor cores are used, they give the cycles with a block. DRAM moves "
        + " to ".join(
            f"{of(profile(each)['DRAM bytes'] for each in (NINETEEN, *STEPS)) / 1e6:.0f}" for of in (min, max)
        )
        + " MB in each launch.",
    )


def both(found: Sequence[float], how: str = ".1f", mark: str = "%") -> str:
    """Return the two recordings' figures as one text."""
    return " and ".join(f"{value:{how}}{mark}" for value in found)


def figures() -> dict[str, str]:
    """Return the page's figures, by the names under which it shows them, if what it says of them holds."""
    (eighteen, *steps), (before, *more) = shares((EIGHTEEN, *STEPS)), [*map(spent, (NINETEEN, *STEPS))]
    stay, once, late, groups, shared, width, against = (  # by size, and by process
        np.array([leads(kernel, base, size) for size in SIZES])
        for kernel, base in (
            (STEPS[0], NINETEEN),
            (AT_ONCE, NINETEEN),
            (STEPS[2], AT_ONCE),
            (STEPS[1], STEPS[0]),
            (STEPS[2], STEPS[1]),
            (KERNEL, STEPS[2]),
            (KERNEL, EIGHTEEN),
        )
    )
    gains, taken, by_width, columns = (
        {width: np.array([leads(*of, size) for size in ALL]) for width, of in WITH_AND_WITHOUT.items()},
        {  # 20's lead, in each process, over its best width without clusters, with groups or without
            size: np.min(
                [
                    leads(KERNEL, base, size)
                    for base in (*(of for _, of in WITH_AND_WITHOUT.values()), *STEPS[: size in SIZES])
                ],
                axis=0,
            )
            for size in ALL
        },
        shares([of for of, _ in WITH_AND_WITHOUT.values()], ALL),
        np.array([[hopper.columns(of, size, size, place()) for size in ALL] for of in hopper.WIDTHS[:3]]),
    )
    # a width's gain less the formula's, by size and recording; 20 on random numbers and on zeros; alone; other calls
    off, lost, (numbers, zeros), (alone, apart), (small, added, odd), order = (
        by_width / by_width[0] - columns[:1, :, None] / columns[..., None],
        [1 - of[1] / of[0] for of in more[2:]],
        [sustained.of(KERNEL, 4096, inputs, "in turns") for inputs in ("normal", "zeros")],
        [sustained.of(of) for of in (KERNEL, STEPS[1])],
        [timed(KERNEL, size, name) for size, name in ((512, "any_shape"), (4096, "added"), (4095, "any_shape"))],
        leads(KERNEL, NINETEEN, 4096, ["order"]),
    )
    limit = files.load("sustained", files.Recording[sustained.Sustained]).provenance["power_limit_watts"]
    rest, last = [round(of[3], -2) for of in more[2:]], (4 - rounds(4096)) * PRODUCT * 4096 / TILE["BK"]
    assert (
        [
            [size for size, of in zip(SIZES, found, strict=True) if nearly(of, size)]
            for found in (stay, once, late, groups, shared)
        ]
        == [[4096, 8192], [4096], [], [], []]
        and [size for size, of in zip(SIZES, against, strict=True) if nearly(of, size)] == list(SIZES)
        and [of.mean() > 0 for of in against] == [False, True, True, True]
        and [(of < 0).sum() for of in (stay[0], *groups[1:3])] == [5, 6, 5]
        and order.min() > copies(4096)
        and not any(nearly(leads(NINETEEN, EIGHTEEN, size), size) for size in SIZES)
        and rounds(2048) < 1
        and STEPS[2].parameters == TILE
        and 0.9 * before[2] < min(more[2][2], more[3][2]) <= max(more[2][2], more[3][2]) < before[2]
        and all(0.15 < of < 0.19 for of in (*lost, 1 - zeros.ms / numbers.ms))
        and zeros.watts < 0.7 * limit
        and odd.percent_of_cublas < small.percent_of_cublas < 75
        and chosen(512) == 128
        and [[size for of, size in zip(gains[width], ALL, strict=True) if nearly(of, size)] for width in (256, 192)]
        == [[], list(ALL)]
        and [size for of, size in zip(gains[224], ALL, strict=True) if not nearly(of, size)] == [3584, 5120, 7168]
        and [size for size in ALL if nearly(taken[size], size)] == [2560, 3072]
        and [size for size in ALL if nearly(leads(KERNEL, STEPS[2], size), size)] == [2560, 3072, 5120]
        and [chosen(size) for size in ALL] == [256, 224, 192, 256, 256, 224, 256, 256, 224]
        and not any(
            leads(of, KERNEL, size).min() > copies(size)
            for pair in WITH_AND_WITHOUT.values()
            for of in pair
            for size in ALL
        )
        and 0.1 < abs(off).max() == off[2, 0].max() < 0.105
        and added.percent_of_cublas < steps[3][2].min() - 3
        and (steps[0][2] > steps[3][2]).all()
    )
    return {
        "card": card().name,
        "sms": f"{card().sms}",
        "head_18": f"{eighteen[2].mean():.1f}%",
        "head": f"{steps[3][2].mean():.1f}%",
        "equal": f"{copies(4096):.1%}",
        "equal_5120": f"{copies(5120):.1%}",
        "order": span(order),
        "plain": both(steps[0][2]),
        **{
            name: both([ms / sustained.of(of).ms * 100 for ms in theirs])
            for theirs in [[sustained.of(sustained.RIVALS[0], recording=of).ms for of in ("sustained", "lasting")]]
            for name, of in (("long_18", EIGHTEEN), ("share_long", KERNEL))
        },
        "paused_19": f"{round(before[2], -2):,.0f}",
        "paused": both([round(of[2], -2) for of in more[2:]], ",.0f", ""),
        "launch": both([round(of[0], -2) for of in more[2:]], ",.0f", ""),
        "products": f"{round(before[1], -2):,.0f}",
        "lost": both([100 * of for of in lost], ".0f"),
        "no_block": both(rest, ",.0f", ""),
        "unknown": both([round(of - last, -2) for of in rest], ",.0f", ""),
        **{
            f"{name}_{what}": text
            for name, of in (("random", numbers), ("zeros", zeros))
            for what, text in (
                ("ms", f"{of.ms:.3f} ms"),
                ("watts", f"{of.watts} W"),
                ("sheet", f"{2e-9 * 4096**3 / of.ms / 9.894:.0f}%"),
            )
        },
        "limit": f"{limit} W",
        "late": span(late[2]),
        "stay": span(stay[2]),
        "stay_2048": span(stay[0]),
        "once": span(once[2]),
        "width": span(width[1]),
        "gains_192": span(gains[192]),
        "gains_224": span(gains[224][ALL.index(7168)]),
        **{f"taken_{size}": span(taken[size]) for size in (2560, 3072)},
        "alone": f"{apart.ms / alone.ms - 1:.1%}",
        "joules": f"{1 - alone.joules / apart.joules:.1%}",
        "chosen": both(steps[3][1], ".0f"),
        "fixed": both(steps[2][1], ".0f"),
        "small": f"{small.percent_of_cublas:.0f}%",
        "added": f"{added.percent_of_cublas:.0f}%",
        "odd": f"{odd.percent_of_cublas:.0f}%",
    }
