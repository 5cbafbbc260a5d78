"""Chapter 22 and its deeper page: who gets which pieces, how long divisions take, and all shapes beside cuBLAS."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Part, division
from ..draw.figure import BODY, INK, Figure
from ..experiments import ceilings, tune
from ..model.sass import hot_loop, sass
from ..paths import RESULTS
from ..records.shapes import LAYERS, SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, load, recorded
from ..variants import ANY_SHAPE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
ALONE, OVERLAP, OWN_NUMBER, WHOLE = ANY_SHAPE
EACH = (BEFORE, *ANY_SHAPE, KERNEL)
"""The launches timed at the examples: 20; 22 alone, whole and with a part left out; and 22 as it is called."""
SHORT = find("22", BITS=16)
"""22 with a C of 16 bits."""
H200, RANDOM = (RESULTS / "h200" / f"{name}.json" for name in ("any_shape", "random_22"))
LOW = 90
"""The percentage of the better opponent's speed under which a product counts as lost."""
SMALL = 128
"""Rows or columns of C below which a product is thin, and the longest K that is short."""
LONG = (256, 256, 16384)
"""The product whose divisions the chapter compares."""
SHALLOW = (1481, 3393, 16)
"""A product of a short K."""
KINDS = "large", "small", "thin or short", "unaligned rows"
"""The groups of products that the chart and the table tell apart."""


def pieces(cluster: int, clusters: int, shared: int, tiles: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Yield a cluster's pieces as `Work` deals them out: tile, first step, and the step before which it ends."""
    share = cluster
    if shared and clusters % shared == 0:
        share = cluster % shared * (clusters // shared) + cluster // shared
    start, end = (number * shared * steps // clusters for number in (share, share + 1))
    for tile in range(start // steps, -(-end // steps)):
        yield tile, max(start - tile * steps, 0), min(end - tile * steps, steps)
    yield from ((tile, 0, steps) for tile in range(shared + cluster, tiles, clusters))


def picture(tiles: int, steps: int, clusters: int) -> Figure:
    """Draw the pieces of clusters that share all tiles."""
    found = [
        Part(cluster, tile, 0, begin, end, end - begin == steps)
        for cluster in range(clusters)
        for tile, begin, end in pieces(cluster, clusters, tiles, tiles, steps)
    ]
    return division(found, clusters, f"{tiles} tiles of {steps} steps", 8, "cluster")


@lru_cache
def points(kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> dict[Size, Point]:
    """Return the recorded points of 22, of 22 without a part, or of 20, by size."""
    return {point.size: point for point in recorded(kernel, recording=recording).points}


def launched(size: Size, kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> Launch:
    """Return what 22 launches for a product on a recording's card, by its table if it has one, else by the model."""
    place = Place(ceilings.card().architecture, ceilings.card().sms, name=load(recording).provenance["gpu"])
    return kernel.resolve(imagined(*size, types=KERNEL.types), place)


def kind(size: Size) -> str:
    """Return which of `KINDS` a product is."""
    M, N, K = size
    if N % 8 or K % 8:
        return KINDS[3]
    return KINDS[2 if K <= SMALL or min(M, N) < SMALL else 1 if 2 * M * N * K <= 3e9 else 0]


@lru_cache
def searched() -> dict[Size, tune.Tuned]:
    """Return what the search found on an H200, by size."""
    found = tune.load(H200.with_name("tune_22.json")).points
    return {point.size: point for point in found if point.digest == KERNEL.digest}


def is_cut(of: tune.Tuned) -> bool:
    """Whether the search's fastest way cuts sums of tiles; of one step none is cut."""
    return len(of.best.setting) == len(any_shape.PARAMETERS) and of.best.whole > 0 and of.K > any_shape.BK


def divided(blocks: int, parts: int) -> Way:
    """Return such a way to do `LONG`."""
    tiles = LONG[0] * LONG[1] // (64 * 128 * blocks)
    return Way(tuple(any_shape.setting(64, 128, 8, blocks).values()), tiles * (parts > 1), tiles * parts)


def finals(size: Size = LONG) -> dict[Way, float]:
    """Return the µs of what the search timed in turns with cuBLAS at a size."""
    return {of.way: 1e3 * of.ms for of in searched()[size].finalists}


def parted() -> Table:
    """Return the ways to do `LONG` that were timed in turns with cuBLAS: without shares, and what the search found."""
    rows = []
    for way, us in {divided(4, 1): 1e3 * points(WHOLE)[LONG].ms, **finals()}.items():
        if len(way.setting) != len(any_shape.PARAMETERS):  # `DEEP`, which cuts K in another way
            continue
        of, parts = dict(zip(any_shape.PARAMETERS, way.setting, strict=True)), way.shares // (way.whole or way.shares)
        moved = 4 * LONG[0] * LONG[1] * parts / 1e6 if parts > 1 else 0
        tile, clusters = f"{of['BM']} × {of['BN']}", f"{way.shares} of {of['CLUSTER']}"
        rows.append((tile, clusters, parts, -(-256 // parts), f"{moved:.1f}", f"{us:.1f}"))
    heads = "a block's tile", "clusters of blocks", "parts of a tile", "steps of a share", "MB of parts", "µs"
    return Table(heads, rows, f"22 at {times_of(LONG)}, {ceilings.card().name}")


@lru_cache
def turns() -> list[tuple[int, Size, float, float]]:
    """Return what the search timed both ways: tiles of a cluster at most, size, and µs together and in turns.

    Tile, cluster and division are the same.
    """
    return [
        (-(-(-(-size[0] // (BM * CLUSTER)) * -(-size[1] // BN)) // of.shares), size, us, finals(size)[other])
        for size in searched()
        for of, us in finals(size).items()
        for other in [replace(of, setting=(*of.setting[:3], 32, *of.setting[4:]))]
        if other != of and other in finals(size)
        for BM, BN, CLUSTER in [(of.setting[0], of.setting[1], of.setting[7])]
    ]


def in_turns() -> Table:
    """Return what turns bring where a cluster has one tile, or more."""
    rows = [
        (
            name,
            len(gains),
            sum(gain > 1 for gain in gains),
            f"{geometric_mean(gains) - 1:+.1%} ({min(gains) - 1:+.0%} to {max(gains) - 1:+.0%})",
        )
        for name, more in (("one", False), ("more", True))
        for gains in [[us / other for tiles, _, us, other in turns() if (tiles > 1) == more]]
    ]
    heads = "tiles of a cluster", "timed both ways", "quicker in turns", "speed gained, geometric mean (least to most)"
    return Table(
        heads,
        rows,
        "The same tile, cluster and division, as one team and as two in turns: finalists of the search, H200",
    )


def opponents(size: Size, recording: str | Path = "any_shape") -> list[float]:
    """Return the µs of the better opponent beside each of `EACH`, from least to most."""
    return sorted(1e3 * each.opponent_ms for each in (points(of, recording)[size] for of in EACH))


def measured() -> Table:
    """Return the times of 20, of 22 with whole tiles, alone and as called, beside the better opponent's in all runs."""
    rows = [
        (
            times_of(size),
            1e3 * points(BEFORE)[size].ms,
            1e3 * points(WHOLE)[size].ms,
            1e3 * points(ALONE)[size].ms,
            called + f" ({name}.cu)" * (name != KERNEL.name),
            f"{least} to {most}",
        )
        for size in lost_by(WHOLE)
        for name, us in [(launched(size).kernel.name, (1e3 * points()[size].ms, *opponents(size)[:: len(EACH) - 1]))]
        for called, least, most in [[f"{each:#.3g}".rstrip(".") for each in us]]
    ]
    return Table(
        ("M×N×K", "20", "22 alone, no shares", "22 alone", "22 as called (now by)", "better opponent, six runs"),
        rows,
        f"µs of a launch, {ceilings.card().name}; in the last two lines, 20 hands over to 16, and 22 copies A and B",
        "wide.cu is for one or two rows.",
    )


def steps(size: Size) -> int:
    """Return the steps of 22 alone's busiest block."""
    of, (shared, clusters) = (kernel := launched(size, ALONE).kernel).parameters, kernel.division
    tiles = -(-size[0] // (of["BM"] * of["CLUSTER"])) * -(-size[1] // of["BN"])
    return max(
        sum(end - begin for _, begin, end in pieces(each, clusters, shared, tiles, -(-size[2] // of["BK"])))
        for each in range(clusters)
    )


def slower(kernel: Kernel) -> dict[Size, tuple[float, float]]:
    """Return what share longer 22 alone takes without a part: in time, and in percent of cuBLAS's speed beside it."""
    shares = {size: points(ALONE)[size].percent_of_cublas / at.percent_of_cublas for size, at in points(kernel).items()}
    return {size: (lost, shares[size] - 1) for size, lost in lost_by(kernel).items()}


def without(kernel: Kernel, size: Size) -> tuple[str, str, str]:
    """Return the µs of a build; by how much longer than 22 alone, from least to most; and that beside cuBLAS."""
    at, (alone, ms) = points(kernel)[size], (points(of)[size].processes[0].own.ms for of in (ALONE, kernel))
    return (
        f"{1e3 * at.ms:#.4g} ({at.percent_of_cublas:.1f}%)",
        f"{1e3 * (min(ms) - max(alone)):+.2f} to {1e3 * (max(ms) - min(alone)):+.2f}",
        f"{slower(kernel)[size][1]:+.1%}",
    )


def early() -> Table:
    """Return the µs of 22 alone and without its early call, and by how much these are longer."""
    return Table(
        ("M×N×K", "blocks", "22 alone", "without early call", "longer by", "longer relative to cuBLAS"),
        [
            (
                times_of(size) + f" ({called}.cu)" * (called != KERNEL.name),
                f"{launch.blocks} of {launch.kernel.dynamic_shared_bytes // 1024} KiB",
                without(ALONE, size)[0],
                *without(OVERLAP, size),
            )
            for size in points(OVERLAP)
            for launch, called in [(launched(size, ALONE), launched(size).kernel.name)]
        ],
        f"µs of a launch (percent of cuBLAS's speed beside it), {ceilings.card().name}",
        "Longer by: the least and the most that two samples differ. A call of 22 leaves some products to the file in "
        "brackets. In the last two lines A and B are copied before; at 256×256×16384 and 1×4096×4096 add_parts comes "
        "after: there, the launch behind 22 isn't 22, and kept its early call.",
    )


def shuffled() -> Table:
    """Return the µs of 22 alone without the shuffle, by how much these are longer, and what that is for each step."""
    return Table(
        ("M×N×K", "steps, tile", "without shuffle", "longer by", "longer relative to cuBLAS", "ns for each step"),
        [
            (
                times_of(size),
                f"{steps(size)} of {of['BM']} × {of['BN']}",
                *without(OWN_NUMBER, size),
                f"{1e6 * ms / steps(size):.0f} + {1e6 * lost * ms / steps(size):.0f}",
            )
            for size, (lost, _) in slower(OWN_NUMBER).items()
            for of, ms in [(launched(size, ALONE).kernel.parameters, points(ALONE)[size].ms)]
        ],
        f"µs of a launch (percent of cuBLAS's speed beside it), {ceilings.card().name}",
        "ns for each step: 22 alone divided by the steps, plus the difference divided by the steps.",
    )


def short_launches() -> dict[str, str]:
    """Return the figures in the sentences of the deeper page, by their names for glue, after checking what they say."""
    alone, late, own = points(ALONE), slower(OVERLAP), slower(OWN_NUMBER)
    (small, half, *_, thin, few, _, last), much = alone, [min(lost) for lost in own.values()]
    same = [size for size in alone if launched(size).kernel.name == KERNEL.name]
    moved = [max(map(abs, lost_by(of, "cublas_ms").values())) for of in (OVERLAP, OWN_NUMBER)]
    assert [size for size in alone if min(late[size]) > 0.05] == [small, thin] and len(same) == 5
    assert min(much[:-1]) > 0.05 > max(own[last]) and moved[1] < 0.01
    assert all(max(map(abs, late[size])) < moved[0] for size in alone.keys() - {small, half, thin}) and all(
        of.kernel.parameters == called.kernel.parameters and of.division == called.division
        for of, called in ((launched(size, ALONE), launched(size)) for size in same)
    )
    assert {(len(at.processes), at.samples) for of in (ALONE, OVERLAP, OWN_NUMBER) for at in points(of).values()} == {
        (1, 5), (1, 6), (1, 7)
    }  # fmt: skip
    return {
        "small": f"{1e3 * alone[small].ms:.1f} µs",
        "card": ceilings.card().name,
        "sms": str(ceilings.card().sms),
        "counted": "5%",
        "again": f"{max(abs(points()[size].ms / alone[size].ms - 1) for size in same):.1%}",
        "half": f"{late[half][0]:.1%}",
        "half by percent": f"{late[half][1]:.1%}",
        "found": f"{min(us for of, us in finals(few).items() if len(of.setting) == len(any_shape.PARAMETERS)):.1f} µs",
        "thin": f"{1e3 * late[thin][0] * alone[thin].ms:.1f} µs",
        "shuffled": f"{min(much[:-1]):.0%} to {max(lost for lost, _ in own.values()):.0%}",
        "moved": f"{moved[0]:.1%}",
        "moved less": f"{moved[1]:.1%}",
    }


def better(size: Size, recording: str | Path = "any_shape") -> float:
    """Return the ms of the better opponent."""
    return points(recording=recording)[size].opponent_ms


def summary() -> Table:
    """Return 22's mean speed by `KINDS`, of random products and of shapes, and that of squares and layers."""
    sources = (points(recording=RANDOM), RANDOM), (SHAPES, H200)
    cells = [
        [cell([size for size in sizes if kind(size) == name], KERNEL, of) for sizes, of in sources] for name in KINDS
    ]
    cells += [[None, cell(SQUARES)], [None, cell(LAYERS, SHORT)]]
    names = (*KINDS, "squares", "layers of Llama 3 8B, M up to 256, C in FP16")
    title = f"22's mean speed in percent of the better opponent's, H200 SXM (in brackets: products under {LOW}%)"
    rows = [(name, *each) for name, each in zip(names, cells, strict=True)]
    return Table(("", "new products", "the shapes"), rows, title)


def cell(sizes: Iterable[Size], kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> str:
    """Return the mean speed in percent of the better opponent's, and how many products are under `LOW`."""
    share = [points(kernel, recording)[size].percent_of_searched for size in sizes]
    return f"{geometric_mean(share):.0f}% ({sum(each < LOW for each in share)} of {len(share)})"


def mean(sizes: Iterable[Size], of: Mapping[Size, Point] | None = None) -> float:
    """Return the geometric mean of the percentages of the better opponent's speed, of 22's unless other points."""
    return geometric_mean((of or points())[size].percent_of_searched for size in sizes)


def chart() -> Figure:
    """Draw every product's speed as a percentage of the better opponent's, by its operations."""
    of = {
        size: (2e-9 * size[0] * size[1] * size[2], point.percent_of_searched)
        for size in (*SQUARES, *SHAPES)
        for point in [points()[size]]
    }
    drawn = Chart("22 as called and the better of cuBLAS and cuBLASLt", (5e-7, 2e4), (25, 500), (),
                  "GFLOP of the product", "Percent of the better opponent's speed", (), "xy", top=124)  # fmt: skip
    drawn.ticks([10.0**n for n in range(-6, 5, 2)], (25, 50, 100, 200, 400))
    drawn.line([(5e-7, 100), (2e4, 100)], INK, wide=1)
    for name, colour, mark in zip(KINDS, COLOURS, "osD^", strict=True):
        x, y = zip(*(at for size, at in of.items() if kind(size) == name), strict=True)
        drawn.axes.plot(x, y, mark, color=dye(colour), ms=5, mew=0, alpha=0.75, label=f"{name} ({len(x)})")
    drawn.axes.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(-0.1, 1.1), fontsize=BODY,
                      handletextpad=0)  # fmt: skip
    return drawn.finish(f"Speed of 22 as a percentage of the better opponent's at {len(of)} products, by operations.")


def descriptor(kernel: Kernel) -> str:
    """Return the instructions that bring the descriptors of a step's third product, and count the step's R2UR."""
    loop = hot_loop(sass(kernel))
    third = [i for i, each in enumerate(loop) if each.opcode.startswith("HGMMA")][2]
    first, bring = int(re.search(r"gdesc\[UR(\d+)\]", loop[third].text)[1]), [loop[third].text]
    wanted = {f"UR{first + i}" for i in range(4)}
    for each in reversed(loop[:third]):
        to, _, of = each.text.partition(", ")
        if (to := to.split()[-1]) in wanted:
            bring.insert(0, each.text)
            wanted = wanted - {to} | ({of} if each.opcode == "R2UR" else set())
    return "\n    ".join([f"{sum(each.opcode == 'R2UR' for each in loop)} R2UR in a step", *bring])


def lost_by(kernel: Kernel, of: str = "ms") -> dict[Size, float]:
    """Return what share of its time 22 alone takes longer without a part of what it does, or cuBLAS beside it."""
    return {size: getattr(point, of) / getattr(points(ALONE)[size], of) - 1 for size, point in points(kernel).items()}


def figures() -> dict[str, str]:
    """Return the figures in the sentences of both pages, by their names for glue, after checking what they say."""
    own, alone, before, n4095, n4096 = points(), points(ALONE), points(BEFORE), (4095,) * 3, (4096,) * 3
    *quick, long, thin, few, odd, _ = lost_by(WHOLE)
    pad, best = own[n4095].ms - own[n4096].ms, searched()[LONG].best
    assert all(
        launched(LONG, WHOLE).kernel.parameters[name] == of for name, of in any_shape.setting(64, 128, 8, 4).items()
    )
    assert (long, best) == (LONG, divided(4, 12)) and divided(2, 16) in finals()
    assert [row[2] for row in parted().rows[1:4]] == [12, 8, 16] and sorted(finals().values())[2] < 1.02 * finals()[
        best
    ]
    assert 5 < 1e3 * points(WHOLE)[LONG].ms / finals()[best] < 5.5
    assert [(launched(size, BEFORE).kernel.name, kind(size)) for size in (odd, n4095)] == [("16_mma", KINDS[3])] * 2
    assert 3 * own[n4095].ms < own[n4095].cublas_ms and abs(pad + own[n4096].cublas_ms - own[n4095].ms) < 0.005
    assert launched(SHALLOW).kernel.name == any_shape.SHALLOW.name and own[SHALLOW].percent_of_searched > 130
    regret = [of.expected_ms / of.ms - 1 for of in searched().values()]
    carried = [alone[size].ms / points(WHOLE)[size].ms - 1 for size in quick]
    by = Counter(launched(size).kernel.name for size in SHAPES)
    assert min(carried) > 0 and max(carried) < 0.06
    new = points(recording=RANDOM)
    large = [new[size].percent_of_searched for size in new if kind(size) == KINDS[0]]
    least = min(new, key=lambda size: new[size].percent_of_searched)
    assert 88 < geometric_mean(large) < 95 and kind(least) == KINDS[2] and len(quick) == 3
    assert all(mean([size for size in new if kind(size) == name], new) > 102 for name in KINDS[1:])
    cut = [of.expected_ms / of.ms for of in searched().values() if is_cut(of)]
    late, own_number = lost_by(OVERLAP), lost_by(OWN_NUMBER)
    moved = [max(map(abs, lost_by(of, "cublas_ms").values())) for of in (OVERLAP, OWN_NUMBER)]
    spread = [
        max(each.own.ms) / min(each.own.ms) - 1
        for of in (ALONE, OVERLAP, OWN_NUMBER)
        for size in late
        for each in points(of)[size].processes
    ]
    much = [lost for lost in own_number.values() if lost > moved[1]]
    assert [size for size, lost in late.items() if abs(lost) > moved[0]] == [*quick[:2], thin] and max(
        late[at] * alone[at].ms for at in quick[:2]
    ) < 0.05 * min(alone[at].ms for at in late.keys() - quick[:2])
    tiles = {(launched(size, ALONE).kernel.expression, launched(size, ALONE).blocks) for size in (quick[1], few)}
    assert len(tiles) == 1 and max(tiles)[1] == 64
    assert late[quick[1]] > 0.05 > max(spread) > moved[0] and min(much) > 0.05 and max(much) == own_number[few]
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "deep": alone[LONG].ms,
                "deep before": before[LONG].ms,
                "deep better": alone[LONG].opponent_ms,
                "small": alone[quick[0]].ms,
                "cublas 4095": own[n4095].cublas_ms,
                "cublas 4096": own[n4096].cublas_ms,
            }.items()
        },
        "new": f"{len(new):,}",
        "new mean": f"{mean(new, new):.0f}%",
        "new large": f"{geometric_mean(large):.0f}%",
        "new lost": f"{sum(each < 100 for each in large)} of {len(large)}",
        "new low": f"{sum(each < LOW for each in large)} of {len(large)}",
        "new under": f"{LOW}%",
        "new least": f"{new[least].percent_of_searched:.0f}%",
        "new least at": times_of(least),
        "at cut": str(sum(is_cut(searched()[size]) for size in SHAPES if size in searched())),
        "at in clusters": str(by[any_shape.DEEP.name]),
        "at short K": str(by[any_shape.SHALLOW.name]),
        "at thin": str(sum(by[of.name] for of in (any_shape.THIN, any_shape.WIDE, any_shape.TALL))),
        "searched": str(len(regret)),
        "regret": f"{geometric_mean(1 + each for each in regret) - 1:.0%}",
        "regret cut": f"{geometric_mean(cut) - 1:.0%}",
        "long by model": f"{1e3 * searched()[LONG].expected_ms:.1f} µs",
        "algorithm": re.sub(", stages number 35", "", points(ALONE)[LONG].searched.algorithm.partition(", ")[2]),
        "cut": str(len(cut)),
        "shapes searched": str(sum(size in searched() for size in SHAPES)),
        "carried": f"{max(carried):.1%}",
        "shallow": f"{1e3 * own[SHALLOW].ms:.1f} µs",
        "shallow better": f"{1e3 * better(SHALLOW):.1f} µs",
        "shallow at": times_of(SHALLOW),
        "pad": f"{1e3 * pad:.0f}",
        "card": ceilings.card().name,
        "sms": str(ceilings.card().sms),
        "chance": f"{max(spread):.1%}",
        "counted": "5%",
        "early at 4096": f"{1e3 * late[thin] * alone[thin].ms:.2f} µs",
        "moved": f"{moved[0]:.1%}",
        "moved less": f"{moved[1]:.1%}",
        "shuffled": f"{min(much):.0%} to {max(much):.0%}",
        "tried": str(max(point.searched.tried for point in own.values())),
        "shapes": str(len(SHAPES)),
    }
