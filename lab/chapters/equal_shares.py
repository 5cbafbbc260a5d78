"""Chapter 22 and its deeper pages: who gets which pieces, how long divisions take, and all shapes beside cuBLAS."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import permutations, product
from pathlib import Path
from statistics import geometric_mean

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Piece, division
from ..draw.figure import BODY, INK, Figure
from ..experiments import ceilings, sustained, tune
from ..model.sass import hot_loop, sass
from ..paths import RESULTS
from ..records.shapes import SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, load, recorded
from ..variants import ANY_SHAPE, OVERLAP

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
ALONE, OWN_NUMBER, WHOLE = ANY_SHAPE
EACH = (BEFORE, *ANY_SHAPE, KERNEL)
"""The launches timed at the examples: 20; 22 alone, whole and with a part left out; and 22 as it is called."""
H200, RANDOM = (RESULTS / "h200" / f"{name}.json" for name in ("any_shape", "random_22"))
SMALL = 128
"""Rows or columns of C below which a product is thin, and the longest K that is short."""
LONG = (256, 256, 16384)
"""The product whose divisions the chapter compares."""
TURNED = (1024, 4800, 1600)
"""The product at which a deeper page follows two teams."""
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
        Piece(cluster, tile, 0, begin, end, end - begin == steps)
        for cluster in range(clusters)
        for tile, begin, end in pieces(cluster, clusters, tiles, tiles, steps)
    ]
    return division(found, clusters, f"{tiles} tiles of {steps} steps", 8, "cluster")


@lru_cache
def points(kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> dict[Size, Point]:
    """Return the recorded points of 22, of 22 without a part, or of 20, by size."""
    return {point.size: point for point in recorded(kernel, recording=recording).points}


def launched(size: Size, kernel: Kernel = KERNEL) -> Launch:
    """Return 22's launch of a product on the recording's card, by its table if it has one, else by the model."""
    return kernel.resolve(imagined(*size, types=KERNEL.types), ceilings.place(load("any_shape").provenance["gpu"]))


def kind(size: Size) -> str:
    """Return which of `KINDS` a product is."""
    M, N, K = size
    if N % 8 or K % 8:
        return KINDS[3]
    return KINDS[2 if K <= SMALL or min(M, N) < SMALL else 1 if 2 * M * N * K <= 3e9 else 0]


@lru_cache
def searched() -> dict[Size, tune.Tuned]:
    """Return the search's results on an H200, by size."""
    return {of.size: of for of in tune.load(H200.with_name("tune_22.json")).points if of.digest == KERNEL.digest}


def divided(blocks: int, parts: int) -> Way:
    """Return such a way to do `LONG`."""
    tiles = LONG[0] * LONG[1] // (64 * 128 * blocks)
    return Way(tuple(any_shape.setting(64, 128, 8, blocks).values()), tiles * (parts > 1), tiles * parts)


def finals() -> dict[Way, float]:
    """Return the µs of the ways to do `LONG` that the search timed in turns with cuBLAS."""
    return {of.way: 1e3 * of.ms for of in searched()[LONG].finalists}


def parted() -> Table:
    """Return the ways to do `LONG` that the search timed in turns with cuBLAS; the one without shares is `DEEP`'s."""
    return Table(
        ("a block's tile", "clusters of blocks", "parts of a tile", "steps of a block", "µs"),
        [
            (
                f"{BM} × {BN}" + " (deep.cu)" * (not way.whole),
                f"{shares} of {blocks}",
                parts,
                -(-256 // (parts if way.whole else blocks)),
                f"{us:.1f}",
            )
            for way, us in finals().items()
            for BM, BN, _, _, _, _, _, blocks, *_ in [way.setting]  # of a cluster, which are `DEEP`'s SPLIT
            for whole in [LONG[0] * LONG[1] // (BM * BN)]
            for parts, shares in [(way.shares // way.whole, way.shares) if way.whole else (1, whole)]
        ],
        f"Ways to do {times_of(LONG)}, {ceilings.card().name}",
    )


@lru_cache
def turns() -> list[tuple[int, Size, tune.Timed, tune.Timed]]:
    """Return the products that the search timed both ways: a cluster's tiles at most, size, times of both.

    Tile, cluster and division are the same.
    """
    return [
        (-(-(-(-size[0] // (BM * CLUSTER)) * -(-size[1] // BN)) // one.way.shares), size, one, two)
        for size, of in searched().items()
        for one, two in permutations(of.finalists, 2)
        for BM, BN, _, WM, *_, CLUSTER, _ in [one.way.setting]
        if WM == 16 and two.way == replace(one.way, setting=(*one.way.setting[:3], 32, *one.way.setting[4:]))
    ]


def in_turns() -> Table:
    """Return the gain by turns where a cluster has one tile, or more."""
    rows = [
        (
            name,
            len(gains),
            f"{sum(two.ms_p90 < one.ms_p10 for one, two in pairs)}, "
            f"{sum(one.ms_p90 < two.ms_p10 for one, two in pairs)}",
            f"{geometric_mean(gains) - 1:+.1%} ({min(gains) - 1:+.0%} to {max(gains) - 1:+.0%})",
        )
        for name, more in (("one", False), ("more", True))
        for pairs in [[times for tiles, _, *times in turns() if (tiles > 1) == more]]
        for gains in [[one.ms / two.ms for one, two in pairs]]
    ]
    return Table(
        (
            "tiles of a cluster",
            "timed both ways",
            "quicker, slower in turns",
            "speed gained, geometric mean (least to most)",
        ),
        rows,
        "The same tile, cluster and division, as one team and as two in turns: finalists of the search, H200",
        "Quicker or slower: the middle 80% of samples don't overlap.",
    )


def opponent(size: Size) -> str:
    """Return the better opponent's least and most µs, in the recordings of 20 and of all builds of 22."""
    return " to ".join(
        f"{1e3 * end(points(of)[size].opponent_ms for of in EACH):#.3g}".rstrip(".") for end in (min, max)
    )


def queued() -> Table:
    """Return the times of 20, and of 22 where launches overlap and where none does, beside the better opponent's."""
    return Table(
        ("M×N×K", "20", "22", "22, none overlaps", "better opponent, five runs"),
        [
            (
                times_of(size),
                *(f"{1e3 * ms:#.3g}" for ms in (points(BEFORE)[size].ms, points()[size].ms, at[3].ms)),
                opponent(size),
            )
            for (of, size), at in placed().items()
            if of.kernel.name == KERNEL.name
        ],
        f"µs from a launch's end to the next, {ceilings.card().name}",
    )


def measured(*sizes: Size) -> Table:
    """Return the times of 22 alone and as called, beside the better opponent's in all runs."""
    return Table(
        ("M×N×K", "22 alone", "22 as called (by)", "better opponent, five runs"),
        [
            (
                times_of(size),
                *(f"{1e3 * points(of)[size].ms:#.3g}".rstrip(".") + by for of, by in ((ALONE, ""), (KERNEL, called))),
                opponent(size),
            )
            for size in sizes
            for called in [f" ({launched(size).kernel.name}.cu)"]
        ],
        f"µs from a launch's end to the next, {ceilings.card().name}",
        "22 alone leaves nothing to other kernels, and has the tile that the model expects to be its best. If it is "
        "quicker than the call, the model chose wrongly, or the difference is noise.",
    )


def longer(kernel: Kernel, size: Size) -> tuple[float, float]:
    """Return by how many µs a build's samples are longer than those of 22 alone, from the least to the most.

    Samples of 22 as it is called count too, where that is the same launch.
    """
    twice = (ALONE, KERNEL)[: 1 + (launched(size).kernel.name == KERNEL.name)]
    alone, ms = ([ms for of in each for ms in points(of)[size].processes[0].own.ms] for each in (twice, (kernel,)))
    return 1e3 * (min(ms) - max(alone)), 1e3 * (max(ms) - min(alone))


def without(kernel: Kernel, size: Size) -> tuple[str, ...]:
    """Return the µs of 22 alone and of a build; by how much it is longer, from least to most; and that in percent."""
    return (
        *(f"{1e3 * points(of)[size].ms:#.4g}" for of in (ALONE, kernel)),
        "{:+.2f} to {:+.2f}".format(*longer(kernel, size)),
        f"{lost_by(kernel)[size]:+.1%}",
    )


@lru_cache
def placed() -> dict[tuple[Launch, Size], list[Point]]:
    """Return the launches of `OVERLAP` with their sizes, and the times of each by the place of its `let_next_begin`."""
    return {
        (launched(size, kernels[0]), size): [points(kernel, "overlap")[size] for kernel in kernels]
        for size, kernels in OVERLAP.items()
    }


def places() -> Table:
    """Return the µs of a launch by the place of its `let_next_begin`."""
    rows = [
        (
            "22" if of.kernel.name == KERNEL.name else f"{of.kernel.name}.cu",
            times_of(size),
            of.blocks,
            *(f"{1e3 * each.ms:#.3g}" for each in reversed(at)),
            f"{1e3 * at[0].cublas_ms:#.3g}",
        )
        for (of, size), at in placed().items()
    ]
    return Table(
        ("", "M×N×K", "blocks", "no attribute", "before the wait", "after the wait", "as it is", "cuBLAS"),
        rows,
        f"µs of a launch in a long queue, {ceilings.card().name}",
        "Medians of 15 samples of one process. Settings of thin.cu and shallow.cu are fixed; 22 is alone.",
    )


def shuffled() -> Table:
    """Return the µs of 22 alone and without the shuffle, and by how much these are longer."""
    return Table(
        ("M×N×K", "tile", "with shuffle", "without", "longer by, µs", "longer"),
        [
            (times_of(size), f"{of['BM']} × {of['BN']}", *without(OWN_NUMBER, size))
            for size in points(OWN_NUMBER)
            for of in [launched(size, ALONE).kernel.parameters]
        ],
        f"µs of a launch, {ceilings.card().name}",
    )


def short_launches() -> dict[str, str]:
    """Return the figures in the sentences of the deeper page, by their names for glue, after checking what they say."""
    alone, own = points(ALONE), lost_by(OWN_NUMBER)
    small, half, full, long, _, _, odd, last = alone
    same = [size for size in alone if launched(size).kernel.name == KERNEL.name]
    helped = [at for at, percent in own.items() if percent > 0.05]
    spans = {size: at for (_, size), at in placed().items()}
    us = {size: [1e3 * of.ms for of in at] for size, at in spans.items()}
    last_best = [size for size, (asked, after, _, _) in us.items() if asked < after]
    worse = {size: before / one for size, (_, _, before, one) in us.items() if before > one}
    assert (
        helped == [small, half, full, long, odd]
        and max(percent for at, percent in own.items() if at not in helped) < 0.02
        and {launched(size, ALONE).kernel.parameters["BM"] for size in alone if size != last} == {64}
        and {len(at.processes) for of in (ALONE, OWN_NUMBER, KERNEL) for at in points(of).values()} == {1}
        and {of.samples for at in spans.values() for of in at} == {15}
        and all(asked < min(before, one) and after < 1.001 * before for asked, after, before, one in us.values())
        and all(at[0].ms_p90 < each.ms_p10 for size, at in spans.items() for each in at[1:] if size in last_best)
        and all(us[size][0] < 1.04 * us[size][1] for size in us)
    )
    assert all(
        of.kernel.parameters == called.kernel.parameters and of.division == called.division
        for of, called in ((launched(size, ALONE), launched(size)) for size in same)
    )
    assert [
        descriptor(of.variant(**any_shape.setting(*at))).split(maxsplit=1)[0]
        for of in [KERNEL.edited(("if (warp >=", "if (threadIdx.x / 32 >="), label="line 75")]
        for at in ((64, 64, 12), (128, 256, 4, 2))
    ] == ["16", "0"]
    return {
        "small": f"{1e3 * alone[small].ms:.1f} µs",
        "card": ceilings.card().name,
        "again": f"{max(abs(points()[size].ms / alone[size].ms - 1) for size in same):.1%}",
        "one": f"{us[small][3]:.1f} µs",
        "asked": f"{us[small][0]:.1f} µs",
        "saved": "{:.1f} to {:.1f} µs".format(*(end(one - of for of, _, _, one in us.values()) for end in (min, max))),
        "worse": str(len(worse)),
        "worst": f"{max(worse.values()) - 1:.0%}",
        "best": str(len(last_best)),
        "of": str(len(us)),
        "close": f"{max(us[size][0] / us[size][1] for size in us.keys() - {*last_best}) - 1:.0%}",
        "shuffled": f"{min(own[size] for size in helped):.0%} to {max(own[size] for size in helped):.0%}",
        "between": f"{max(abs(us[of][0] / 1e3 / alone[of].ms - 1) for of in us.keys() & alone.keys()):.1%}",
        "wide": f"{own[last]:.1%}",
    }


def alone_for_long() -> list[list[float]]:
    """Return the milliseconds of 22, cuBLAS and cuBLASLt in lasting runs, by `sustained.LARGE`."""
    who = KERNEL, *sustained.RIVALS
    return [[sustained.of(of, n, recording="lasting").ms for of in who] for n in sustained.LARGE]


def lasting() -> Table:
    """Return the times of lasting runs of 22 and of its rivals, and 22's speed in percent of the better one's."""
    return Table(
        ("M = N = K", "22, ms", "cuBLAS, ms", "cuBLASLt, ms", "22 of the better one"),
        [(n, *of, f"{min(of[1:]) / of[0]:.1%}") for n, of in zip(sustained.LARGE, alone_for_long(), strict=True)],
        f"Each alone for {sustained.SECONDS:.0f} s, {ceilings.card().name}, one run",
    )


def sets() -> Table:
    """Return 22's mean speed and its least, of squares, of shapes, and of random products."""
    return Table(
        ("products", "mean speed", "least"),
        [
            (name, cell(sizes, of), f"{min(points(recording=of)[size].percent_of_searched for size in sizes):.0f}%")
            for name, sizes, of in (
                ("squares from 256 to 1024", [of for of in SQUARES if of[0] <= 1024], H200),
                ("squares from 1152 to 16384", [of for of in SQUARES if of[0] > 1024], H200),
                ("shapes by rule", SHAPES, H200),
                ("random products", points(recording=RANDOM), RANDOM),
            )
        ],
        "A call's speed in percent of the better opponent's, H200 SXM: geometric mean (in brackets: slower products)",
        "Slower: by the median over pairs of samples, one taken right after the other. Shapes by rule: layers of "
        "networks, powers of two and their neighbours. Random products: sides from 8 to 11,600, half of them multiples "
        "of eight.",
    )


def summary() -> Table:
    """Return 22's mean speed by `KINDS`, of random products and of shapes."""
    sources = (points(recording=RANDOM), RANDOM), (SHAPES, H200)
    return Table(
        ("", "random products", "shapes by rule"),
        [(name, *(cell([of for of in sizes if kind(of) == name], at) for sizes, at in sources)) for name in KINDS],
        "A call's speed in percent of the better opponent's, geometric mean, H200 SXM (in brackets: slower products)",
        "Unaligned rows: N or K is no multiple of 8. Thin or short: of the others, M or N is below 128, or K at most "
        "128. Small: of the rest, up to 3 GFLOP. Large: above.",
    )


def cell(sizes: Iterable[Size], recording: str | Path = "any_shape") -> str:
    """Return the mean speed in percent of the better opponent's, and at how many products 22 is slower."""
    share = [points(recording=recording)[size].percent_of_searched for size in sizes]
    return f"{geometric_mean(share):.0f}% ({sum(each < 100 for each in share)} of {len(share)})"


def percents(table: Table, column: int) -> list[int]:
    """Return the percentages that a column of `cell` begins with."""
    return [int(row[column].partition("%")[0]) for row in table.rows]


@cache
def chosen(size: Size) -> Kernel:
    """Return the kernel that does a new product. Its place has no name, as no table has the size."""
    return KERNEL.resolve(imagined(*size, types=KERNEL.types), ceilings.place()).kernel


def doer(size: Size) -> str:
    """Return the kernel that does a new product."""
    kernel = chosen(size)
    whole = "copying A or B" if kind(size) == KINDS[3] else "two teams" if kernel.parameters["WM"] > 16 else "one team"
    own = "shares" if size[2] > any_shape.BK and (kernel.division or [0])[0] else f"whole tiles, {whole}"
    other = f"{kernel.name}.cu" if kernel.name in ("deep", "shallow") else "thin.cu, wide.cu, tall.cu"
    return f"22, {own}" if kernel.name == KERNEL.name else other


def by_doer() -> Table:
    """Return 22's mean speed at new products by what does them, the most frequent first."""
    by = {size: doer(size) for size in points(recording=RANDOM)}
    return Table(
        ("done by", "speed"),
        [(name, cell([at for at in by if by[at] == name], RANDOM)) for name, _ in Counter(by.values()).most_common()],
        "The random products: geometric mean in percent (in brackets: slower products)",
    )


def chart() -> Figure:
    """Draw every new product's speed as a percentage of the better opponent's, by its operations."""
    of = {
        (M, N, K): (2e-9 * M * N * K, point.percent_of_searched)
        for (M, N, K), point in points(recording=RANDOM).items()
    }
    drawn = Chart("22 as called and the better of cuBLAS and cuBLASLt", (1e-6, 2e3), (40, 640), (),
                  "GFLOP of the product", "Percent of the better opponent's speed", (), "xy", top=124)  # fmt: skip
    drawn.ticks([10.0**n for n in range(-6, 3, 2)], (50, 100, 200, 400))
    drawn.line([(1e-6, 100), (2e3, 100)], INK, wide=1)
    for name, colour, mark in zip(KINDS, COLOURS, "osD^", strict=True):
        x, y = zip(*(at for size, at in of.items() if kind(size) == name), strict=True)
        drawn.axes.plot(x, y, mark, color=dye(colour), ms=4, mew=0, alpha=0.65, label=f"{name} ({len(x)})")
    drawn.axes.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(-0.1, 1.1), fontsize=BODY,
                      handletextpad=0)  # fmt: skip
    return drawn.finish(
        f"Speed of a call as a percentage of the better opponent's at {len(of):,} random products, by operations."
    )


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


def lost_by(kernel: Kernel) -> dict[Size, float]:
    """Return the extra time of a variant over 22 alone, as a share of the latter's, by size."""
    return {size: point.ms / points(ALONE)[size].ms - 1 for size, point in points(kernel).items()}


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    own, new, found, ways = points(), points(recording=RANDOM), searched(), finals()
    (best, *others, deep), alone = ways, [at[3] for (of, _), at in placed().items() if of.kernel.name == KERNEL.name]
    by_shares = {
        H200: [at for at in own if at in found and found[at].best.whole and at[2] > any_shape.BK],
        RANDOM: [at for at in new if doer(at) == "22, shares"],
    }
    share = {  # of the better opponent's speed, where C has as few elements as that, and where it has more
        (of, few): [points(recording=of)[at].percent_of_searched for at in sizes if (at[0] * at[1] <= SMALL**2) == few]
        for of, sizes in by_shares.items()
        for few in (True, False)
    }
    assert (
        (best, deep.whole, len(EACH)) == (divided(4, 12), 0, 5)
        and all(of.whole for of in others)
        and LONG in by_shares[H200]
        and max(own[LONG].ms, points(ALONE)[LONG].ms) < min(points(of)[LONG].opponent_ms for of in EACH)
        and min(min(share[of, True]) for of in by_shares) > 100 > geometric_mean(share[RANDOM, False])
        and min(percents(sets(), 1)) > 100
        and all(max(of) == of[3] for of in (percents(summary(), 1), percents(summary(), 2)))
        and len(alone) == 3
        and all(at.ms > at.cublas_ms for at in alone)
    )
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "deep": own[LONG].ms,
                "deep apart": ways[deep] / 1e3,
                "sixteen": ways[divided(2, 16)] / 1e3,
                "whole": points(WHOLE)[LONG].ms,
            }.items()
        },
        "deep better": f"{opponent(LONG)} µs",
        "split": " or ".join(
            sorted({points(of)[LONG].searched.algorithm.rpartition("split K ")[2] for of in EACH}, key=int)
        ),
        **{f"few {of.stem}": f"{geometric_mean(share[of, True]):.0f}%" for of in by_shares},
        **{f"few of {of.stem}": str(len(share[of, True])) for of in by_shares},
        **{
            f"many {of.stem}": f"{sum(x < 100 for x in share[of, False])} of {len(share[of, False])}"
            for of in by_shares
        },
        "new": f"{len(new):,}",
        "new shares": str(len(by_shares[RANDOM])),
        "by shares": str(sum(of.best.whole > 0 and of.K > any_shape.BK for of in found.values())),
        "searched": str(len(found)),
        "ways": str(max(len(of.tried) for of in found.values())),
        "gained": f"{ways[deep] / ways[best]:.2f}",
        "lasting": "{:.0%} to {:.0%}".format(
            *(end(min(theirs) / own for own, *theirs in alone_for_long()) for end in (min, max))
        ),
        "cublas": load("any_shape").provenance["cublas"],
        "card": ceilings.card().name,
        "sms": str(ceilings.card().sms),
        "tried": str(max(of.searched.tried for at, of in new.items() if kind(at) != KINDS[3])),
        "tried unaligned": str(max(of.searched.tried for of in new.values())),
    }


def every_shape() -> dict[str, str]:
    """Return the figures in the sentences of the deeper page of that name, after checking what they say."""
    own, new, found = points(), points(recording=RANDOM), searched()
    [(one, two)] = [times for tiles, size, *times in turns() if size == TURNED and tiles == 2]
    late = {at: {t.way: t.ms for t in of.finalists}[of.expected] / of.finalists[0].ms for at, of in found.items()}
    worst, least = (
        min(of, key=lambda at: new[at].percent_of_searched) for of in ([at for at in new if kind(at) == KINDS[0]], new)
    )
    unaligned = [at for at in new if kind(at) == KINDS[3]]
    padded = [at for at in unaligned if new[at].searched.algorithm.endswith("padded")]
    halves = {at: of.percent_of_searched for at, of in points(KERNEL.variant(BITS=16)).items() if at in SHAPES}
    [deep], thin, shallow = (
        [way for way in finals() if not way.whole],
        *(launched(size).kernel.parameters for size in ((1, 4097, 4097), (60, 3777, 84))),
    )
    assert (
        (deep, deep.setting[:2], deep.setting[-1]) == (found[LONG].expected, (64, 64), 6)
        and (thin["BM"], thin["BN"], thin["SLICES"]) == (1, 32, 32)
        and [shallow[name] for name in ("BM", "BN", "BK", "WM", "WN")] == [32, 32, 64, 16, 16]
        and (two.way, two.way.setting[:2], two.ms_p90 < one.ms_p10) == (found[TURNED].best, (128, 160), True)
        and all(new[at].searched.algorithm.startswith("algorithm 66,") for at in {*new} - {*unaligned} | {*padded})
        and own[4095, 4095, 4095].searched.algorithm.endswith("padded")
        and (least[1], worst[1], chosen(worst).parameters["BN"], kind(least)) == (10, 400, 192, KINDS[3])
        and all(
            (geometric_mean(of[at].percent_of_searched for at in sizes if kind(at) == name) < 100)
            == (name == KINDS[0] and of is new)
            for name, (of, sizes) in product(KINDS, ((new, new), (own, SHAPES)))
        )
    )
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "turns": two.ms,
                "turns one": one.ms,
                "turns better": own[TURNED].opponent_ms,
                **{f"own {n}": own[(n,) * 3].ms for n in (4095, 4096)},
                **{f"better {n}": own[(n,) * 3].opponent_ms for n in (4095, 4096)},
            }.items()
        },
        "paces": " and ".join(f"{any_shape.PACES[128, 128, 6, 2, rows][0]} µs" for rows in (16, 32)),
        "new": f"{len(new):,}",
        "unaligned": str(len(unaligned)),
        "padded": str(len(padded)),
        "padded speed": cell(padded, RANDOM).partition(" ")[0],
        "padded slower": str(sum(new[at].percent_of_searched < 100 for at in padded)),
        "as it is": f"{1e3 * own[4095, 4095, 4095].cublas_ms:.1f} µs",
        "aligned": str(sum(kind(at) != KINDS[3] for at in new)),
        "new least": f"{new[least].percent_of_searched:.0f}%",
        "new least at": times_of(least),
        "new least copied": f"{2 * least[0] * least[2] / 1e6:.0f} MB",
        "new worst": f"{new[worst].percent_of_searched:.0f}%",
        "new worst at": times_of(worst),
        "model": f"{geometric_mean(late.values()) - 1:.1%}",
        "model most": f"{max(late.values()) - 1:.0%}",
        "searched": str(len(found)),
        "16 bits": f"{geometric_mean(halves.values()):.0f}%",
        "16 bits of": str(len(halves)),
    }
