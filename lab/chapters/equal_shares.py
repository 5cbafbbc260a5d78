"""Chapter 22 and its deeper pages: who gets which pieces, how long divisions take, and all shapes beside cuBLAS."""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise, product
from math import inf, prod
from pathlib import Path
from statistics import geometric_mean, median

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Piece, divisions
from ..draw.figure import BODY, INK, Figure
from ..experiments import ceilings, tune
from ..model.sass import hot_loop, sass
from ..paths import RESULTS
from ..records.shapes import SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, Spread, load, recorded
from ..variants import ANY_SHAPE, OVERLAP, THROUGH_PATCH, WHOLE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
ALONE, OWN_NUMBER = ANY_SHAPE
EACH = (BEFORE, *ANY_SHAPE, KERNEL)
"""The launches timed at the examples: 20; 22 alone and with a part left out; and 22 as it is called."""
H200, RANDOM = (RESULTS / "h200" / f"{name}.json" for name in ("any_shape", "random_22"))
SMALL = 128
"""Rows or columns of C below which a product is thin, and the longest K that is short."""
LONG = (256, 256, 16384)
"""The product whose divisions the chapter compares."""
TURNED = (1024, 4800, 1600)
"""The product at which a deeper page follows two teams."""
DEEP_AT = (256, 256, 4096)
"""The product at which it follows `DEEP`."""
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
    """Draw three ways to deal out tiles to clusters, on one axis of steps: whole, in even shares, in uneven ones."""
    return divisions(
        {
            name: [
                Piece(cluster, tile, 0, begin, end, end - begin == steps)
                for cluster in range(working)
                for tile, begin, end in pieces(cluster, working, cut, tiles, steps)
            ]
            for name, working, cut in (
                ("Whole tiles", clusters, 0),
                ("Split K: even shares", clusters // tiles * tiles, tiles),
                ("Uneven shares", clusters, tiles),
            )
        },
        clusters,
        steps,
        "cluster",
    )


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
    thin_or_short = K <= SMALL or min(M, N) < SMALL
    return KINDS[3 if N % 8 or K % 8 else 2 if thin_or_short else 1 if 2 * M * N * K <= 3e9 else 0]


@lru_cache
def search() -> tune.Tuning:
    """Return the recording of the search on an H200."""
    return tune.load(H200.with_name("tune_22.json"))


@lru_cache
def searched() -> dict[Size, tune.Tuned]:
    """Return its results, by size."""
    return {of.size: of for of in search().points if of.digest == KERNEL.digest}


def looked(size: Size) -> list[tuple[list[int], int, int, float]]:
    """Return what the search's brief look found: template arguments, cut tiles, clusters and µs, the quickest first."""
    return [(search().settings["settings"][number], *way) for number, *way in searched()[size].tried]


def parted() -> Table:
    """Return the ways to do `LONG` that the search timed in turns, all by shares."""
    return Table(
        ("a block's tile", "clusters of blocks", "shares of a tile", "µs"),
        [
            (
                f"{BM} × {BN}",
                f"{way.shares} of {cluster}",
                f"{way.shares / way.whole:g}" + " (uneven)" * (way.shares % way.whole > 0),
                f"{1e3 * of.ms:.1f}",
            )
            for of in searched()[LONG].finalists
            for way in [of.way]
            for BM, BN, *_, cluster, _ in [way.setting]
        ],
        f"Ways to do {times_of(LONG)}, timed in turns, {ceilings.card().name}",
    )


def sort(way: Way) -> str:
    """Return what a way does with tiles: 22 by shares, deep.cu, or 22 uncut."""
    return "shares" if way.whole else "uncut" if len(way.setting) == len(any_shape.PARAMETERS) else "deep.cu"


def gain(size: Size) -> float:
    """Return the speed of the quickest way with shares over that of the quickest without, in the brief look."""
    return min(us for _, cut, _, us in looked(size) if not cut) / min(us for _, cut, _, us in looked(size) if cut)


def over(own: Spread, other: Spread) -> int:
    """Return 1 if a time is less than another, −1 if it is more, and 0 if they tie: their 10 to 90% ranges overlap."""
    return (own.ms_p90 < other.ms_p10) - (other.ms_p90 < own.ms_p10)


def lead(size: Size, crossing: bool = False) -> int:
    """Return `over` of the quickest finalists with shares, or uneven ones, and without. Those that lack are slower."""
    own, others = (
        [
            of
            for of in searched()[size].finalists
            if mine == bool(of.way.whole and (not crossing or of.way.shares % of.way.whole))
        ]
        for mine in (True, False)
    )
    return over(own[0], others[0]) if own and others else 1 if own else -1


@lru_cache
def led() -> dict[tuple[int, int], list[Size]]:
    """Return products by the row of `when` that they belong to and by `lead`, if ways without shares were tried."""
    return {
        (row, by): [
            (M, N, K)
            for M, N, K in searched()
            if row == (0 if K >= 16384 and M * N <= 512**2 else 1 if K >= 3072 and K > 4 * (M * N) ** 0.5 else 2)
            if any(not cut for _, cut, *_ in looked((M, N, K))) and lead((M, N, K)) == by
        ]
        for row, by in product(range(3), (1, 0, -1))
    }


def when() -> Table:
    """Return at how many products each way is the fastest of ours, by what the chapter decides for them."""
    return Table(
        ("decision", "shares", "deep.cu", "uncut", "tie"),
        [
            (name, len(led()[row, 1]), *(others.count(of) for of in ("deep.cu", "uncut")), len(led()[row, 0]))
            for row, name in enumerate(
                (
                    "share: K from 16,384, C up to 512 · 512",
                    "try: other K from 3,072, above 4 · √(M · N)",
                    "don't: others",
                )
            )
            for others in [[sort(searched()[at].finalists[0].way) for at in led()[row, -1]]]
        ],
        f"At how many searched products each of our ways is the fastest, {ceilings.card().name}",
        "Tie: the 10th to 90th percentiles of shares and of the fastest other way overlap. A way that the search's "
        "brief look left behind or didn't try counts as slower. Left out: four squares with K = 65,536, at which only "
        "shares were tried.",
    )


def rivals() -> Table:
    """Return the times of calls by shares at squares of `when`'s first row, and their speeds beside the opponent's."""
    return Table(
        ("C", "µs, K = 16,384", "speed", "µs, K = 65,536", "speed"),
        [
            (
                f"{n} × {n}",
                *(
                    text
                    for K in (16384, 65536)
                    for at in [points()[n, n, K]]
                    for cublas in [Spread(ms=at.cublas_ms, ms_p10=at.cublas_ms_p10, ms_p90=at.cublas_ms_p90)]
                    for tie in [min(over(at, other) for other in (cublas, at.searched)) == 0]
                    for text in (f"{1e3 * at.ms:#.3g}", f"{at.percent_of_searched:.0f}%" + " (tie)" * tie)
                ),
            )
            for n in (16, 32, 64, 128, 256, 512)
        ],
        f"Calls by shares, and their speed in percent of the better opponent's, {ceilings.card().name}",
        "Tie: the ranges of both overlap, as above.",
    )


def turning(size: Size) -> float:
    """Return the speed of the quickest turned tile over that of the quickest other way, both timed in turns, or inf."""
    tiles, others = (
        [of.ms for of in searched()[size].finalists if turned(of.way.setting) == kind] for kind in (True, False)
    )
    return min(others, default=inf) / min(tiles)


def in_turns() -> str:
    """Return at how many products two teams take turns: warps of 32 rows, in tiles that aren't turned.

    Of those whose fastest way leaves tiles whole, and gives a cluster several.
    """
    ways = [
        way.setting
        for at, of in searched().items()
        for way in [of.finalists[0].way]
        if not way.whole and len(way.setting) == len(any_shape.PARAMETERS)
        if -(-at[0] // (way.setting[0] * way.setting[7])) * -(-at[1] // way.setting[1]) > way.shares
    ]
    return f"{sum(of[3] == any_shape.IN_TURNS and not turned(of) for of in ways)} of {len(ways)}"


def turned(setting: Iterable[int]) -> bool:
    """Return whether a tile of 22 is turned."""
    return dict(zip(any_shape.PARAMETERS, setting, strict=False))["WN"] == 16


def expected(*sizes: Size) -> Table:
    """Return the µs that the model expects of each kernel at these products, copies of A and B included."""
    place, names = ceilings.place(), ("22, whole tiles", "22, shares", "deep.cu", "thin.cu", "shallow.cu")
    columns = [
        (
            *(min((us for us, cut, _ in ways if (cut > 0) == of), default=inf) + copies for of in (False, True)),
            min(any_shape.deep_cost(of, size, place) for of in any_shape.DEEP_SETTINGS) + copies,
            min(any_shape.thin_cost(of, size, place.multiprocessors) for of in any_shape.THIN_SETTINGS),
            min(any_shape.shallow_cost(of, size, 32, place.multiprocessors) for of in any_shape.SHALLOW_SETTINGS),
        )
        for size in sizes
        for copies in [any_shape.copying(imagined(*size, types=KERNEL.types))]
        for ways in [[way for of in any_shape.SETTINGS for way in any_shape.ways((*of.values(),), size, place)]]
    ]
    return Table(
        ("", *map(times_of, sizes)),
        [
            (name, *("–" if of[row] == inf else f"{of[row]:.1f}" + " ←" * (of[row] == min(of)) for of in columns))
            for row, name in enumerate(names)
        ],
        f"µs that the model expects, {ceilings.card().name}",
        "←: the least. –: not for such a product. Copies of A and B count.",
    )


def opponent(size: Size) -> str:
    """Return the better opponent's least and most µs, in the recordings of 20 and of all builds of 22."""
    return " to ".join(
        f"{1e3 * end(points(of)[size].opponent_ms for of in EACH):#.3g}".rstrip(".") for end in (min, max)
    )


def measured(*sizes: Size) -> Table:
    """Return the times of 22 alone and as called, beside the better opponent's in all runs."""
    return Table(
        ("M×N×K", "22 alone", "22 as called (by, chosen by)", "better opponent, four runs"),
        [
            (
                times_of(size),
                *(f"{1e3 * points(of)[size].ms:#.3g}".rstrip(".") + by for of, by in ((ALONE, ""), (KERNEL, called))),
                opponent(size),
            )
            for size in sizes
            for called in [f" ({launched(size).kernel.name}.cu, {'table' if size in searched() else 'model'})"]
        ],
        f"µs from a call's end to the next, {ceilings.card().name}",
        "22 alone: it multiplies itself, after pad.cu where rows need it.",
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
    return Table(
        ("", "M×N×K", "blocks", "no attribute", "before the wait", "after the wait", "as it is", "cuBLAS"),
        [
            (
                "22" if of.kernel.name == KERNEL.name else f"{of.kernel.name}.cu",
                times_of(size),
                of.blocks,
                *(f"{1e3 * each.ms:#.3g}" for each in reversed(at)),
                f"{1e3 * at[0].cublas_ms:#.3g}",
            )
            for (of, size), at in placed().items()
        ],
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
    small, *_, odd, last = alone
    same = [size for size in alone if launched(size).kernel.name == KERNEL.name]
    helped = [at for at in own if longer(OWN_NUMBER, at)[0] > 0]
    spans = {size: at for (_, size), at in placed().items()}
    us = {size: [1e3 * of.ms for of in at] for size, at in spans.items()}
    last_best = [size for size, (asked, after, _, _) in us.items() if asked < after]
    worse = {size: before / one for size, (_, _, before, one) in us.items() if before > one}
    assert (
        [at for at in own if at not in helped] == [odd, last]
        and {launched(size, ALONE).kernel.threads for size in alone if size != last} == {160}
        and launched(odd, ALONE).kernel.parameters.items() >= any_shape.setting(64, 64, 12).items()
        and {len(at.processes) for of in (ALONE, OWN_NUMBER, KERNEL) for at in points(of).values()} == {1}
        and {of.samples for at in spans.values() for of in at} == {15}
        and all(asked < min(before, one) for asked, _, before, one in us.values())
        and us[1, 4097, 4097][1] > us[1, 4097, 4097][3]
        and all(at[0].ms_p90 < each.ms_p10 for size, at in spans.items() for each in at[1:] if size in last_best)
        and all(us[size][0] < 1.04 * us[size][1] for size in us)
        and all(
            of.kernel.parameters == called.kernel.parameters and of.division == called.division
            for of, called in ((launched(size, ALONE), launched(size)) for size in same)
        )
        and [
            descriptor(of.variant(**any_shape.setting(*at))).split(maxsplit=1)[0]
            for of in [KERNEL.edited(("if (warp >=", "if (threadIdx.x / 32 >="), label="line 80")]
            for at in ((64, 64, 12), (128, 256, 4, 2))
        ]
        == ["16", "0"]
    )
    return {
        "small": f"{1e3 * alone[small].ms:.1f} µs",
        "card": ceilings.card().name,
        "again": f"{max(abs(points()[size].ms / alone[size].ms - 1) for size in same):.1%}",
        "one": f"{us[small][3]:.1f} µs",
        "saved": "{:.1f} to {:.1f} µs".format(*(end(one - of for of, _, _, one in us.values()) for end in (min, max))),
        "worse": str(len(worse)),
        "worst": f"{max(worse.values()) - 1:.0%}",
        "best": str(len(last_best)),
        "of": str(len(us)),
        "close": f"{max(us[size][0] / us[size][1] for size in us.keys() - {*last_best}) - 1:.0%}",
        "shuffled": f"{min(own[size] for size in helped):.0%} to {max(own[size] for size in helped):.0%}",
        "between": f"{max(abs(us[of][0] / 1e3 / alone[of].ms - 1) for of in us.keys() & alone.keys()):.1%}",
        "padded": f"{own[odd]:.0%}",
        "wide": f"{own[last]:.1%}",
    }


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
                ("of these, large", [at for at in points(recording=RANDOM) if kind(at) == KINDS[0]], RANDOM),
            )
        ],
        "A call's speed in percent of the better opponent's, H200 SXM, in queues where ours overlap: geometric mean "
        "(in brackets: slower products)",
        "Slower: by the median over pairs of samples, one taken right after the other. Shapes by rule: layers of "
        "networks, powers of two and their neighbours, and random ones. Random products: sides from 8 to 11,600, half "
        "of them multiples of eight; in short queues. Large: above 3 GFLOP, aligned rows, neither thin nor short.",
    )


def by_work() -> Table:
    """Return a call's mean speed at random products by their operations, for aligned rows and others."""
    ends, new = (0, 0.01, 0.1, 1, 10, inf), points(recording=RANDOM)
    return Table(
        ("GFLOP", "aligned rows", "unaligned rows"),
        [
            (
                f"{least} to {end}" if end < inf else f"above {least}",
                *(cell([at for at in new if (kind(at) == KINDS[3]) == odd and least < 2e-9 * prod(at) <= end], RANDOM)
                  for odd in (False, True)),
            )
            for least, end in pairwise(ends)
        ],
        "A call's speed at random products in percent of the better opponent's, geometric mean, H200 SXM (in "
        "brackets: slower products)",
        "Better opponent: the faster of cuBLAS and of up to eight algorithms of cuBLASLt (16 at unaligned rows, where "
        "N or K is no multiple of 8).",
    )  # fmt: skip


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


def by_shares(size: Size) -> bool:
    """Return whether a new product is done by shares: a tile of one step can't be cut."""
    return chosen(size).name == KERNEL.name and size[2] > any_shape.BK and chosen(size).division[0] > 0


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
    own, new, found = points(), points(recording=RANDOM), searched()
    long, apart, whole = own[LONG], points(OVERLAP[LONG][-1])[LONG], points(WHOLE)[LONG]
    finals, crossing = found[LONG].finalists, {at for at in found for _, cut, of, _ in looked(at) if cut and of % cut}
    sharing, won = [at for at in new if by_shares(at)], led()[0, 1] + led()[1, 1]
    uneven = [  # of even shares and of uneven ones, whether a random product was slower than the opponent
        [
            new[at].percent_of_searched < 100
            for at in sharing
            for cut, of in [chosen(at).division]
            if (of % cut > 0) == odd
        ]
        for odd in (False, True)
    ]
    tried, parts = zip(
        *(
            (of.tried, int(of.algorithm.rpartition("split K ")[2]))
            for n, K in product((16, 32, 64, 128, 256, 512), (16384, 65536))
            for of in [own[n, n, K].searched]
        ),
        strict=True,
    )
    assert (
        found[LONG].best == finals[0].way == Way((*any_shape.setting(64, 128, 8, 4).values(),), 2, 24)
        and looked(LONG)[0][1:3] == (2, 24)
        and all(over(finals[0], of) == 1 for of in finals[1:])
        and {sort(of.way) for of in finals} == {"shares"}
        and (finals[1].way.setting, finals[1].way.shares) == (finals[0].way.setting, 30)
        and [of.way.shares % of.way.whole > 0 for of in finals] == [False] * 4 + [True]
        and {sort(Way(tuple(of), *way)) for of, *way, _ in looked(LONG)} == {"shares", "deep.cu"}
        and next(of[7] for of, cut, *_ in looked(LONG) if not cut) == 6
        # In queues 22 is ahead, as it is in the other runs; one by one, cuBLAS's own choice already is.
        and all(max(long.ms, points(ALONE)[LONG].ms) < points(of)[LONG].opponent_ms for of in EACH)
        and apart.searched.ms_p90 < apart.cublas_ms_p10 < apart.cublas_ms_p90 < apart.ms_p10
        and long.searched.ms == long.opponent_ms < long.cublas_ms
        and long.searched.algorithm.endswith("split K 12")
        and apart.searched.algorithm.endswith("split K 8")
        and (launched(LONG, BEFORE).kernel.parameters["BN"], launched(LONG, BEFORE).blocks) == (128, 4)
        and WHOLE.division == (0, 2)
        and launched(LONG).blocks == 24 * 4
        and min(parts) > 1
        # The decisions: nearly always right, open, and never wrong beyond a tie.
        and led()[0, -1] == [(1, 4096, 25088)]
        and sorted(M if M < N else 0 for M, N, _ in led()[0, 1] + led()[0, -1]) == [0] * 8 + [1] * 2
        and (led()[0, 0], led()[2, 1]) == ([], [])
        and len(led()[1, -1]) > 2 * len(led()[1, 1])
        and [at for at in found if all(cut for _, cut, *_ in looked(at))] == [(n, n, 65536) for n in (16, 32, 64, 128)]
        and max(at[2] for at in new) < 16384
        # Uneven shares win nowhere, and tie at large products only.
        and max(lead(at, True) for at in found) == 0
        and {at for at in found if lead(at, True) == 0} <= crossing & {*led()[2, 0]}
        # Beside the opponent, up to 128 × 128 elements: wins but for a tie. Above: Long wins, one ties and two lose.
        and [(int(text.split("%")[0]) < 100, "tie" in text) for *_, one, _, two in rivals().rows for text in (one, two)]
        == [(False, False)] * 7 + [(False, True), (False, False), (False, True), (True, False), (True, False)]
    )
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "before": points(BEFORE)[LONG].ms,
                "long": long.ms,
                "long better": long.opponent_ms,
                "long cuBLAS": long.cublas_ms,
                "whole": whole.ms,
                "apart": apart.ms,
                "apart better": apart.opponent_ms,
                "apart cuBLAS": apart.cublas_ms,
                "saved": apart.ms - long.ms,
                "brief": looked(LONG)[0][3] / 1e3,
                "brief deep": min(us for _, cut, _, us in looked(LONG) if not cut) / 1e3,
            }.items()
        },
        "gain of shares": f"{whole.ms / long.ms:.1f} times",
        "gain over deep": f"{gain(LONG):.1f} times",
        "gain first": " to ".join(f"{end(map(gain, led()[0, 1])):.2f}" for end in (min, max)),
        "gain second": f"{median(map(gain, led()[1, 1])):.2f}",
        "leads": " to ".join(
            f"{1e3 * end(own[n, n, 16384].opponent_ms - own[n, n, 16384].ms for n in (16, 32, 64, 128, 256)):.1f}"
            for end in (min, max)
        ),
        "tried": " to ".join(str(end(tried)) for end in (min, max)),
        "rivals cut": " to ".join(str(end(parts)) for end in (min, max)),
        "parts": f"{24 * 4 * 256 * 128 / 1e6:.1f} MB",
        "new deepest": f"{max(at[2] for at in new):,}",
        "won": str(len(won)),
        "won uneven": str(len(crossing & {*won})),
        **{f"{name} slower": f"{sum(of)} of {len(of)}" for name, of in zip(("even", "uneven"), uneven, strict=True)},
        "searched": str(len(found)),
        "cublas": load("any_shape").provenance["cublas"],
        "card": ceilings.card().name,
        "sms": str(ceilings.card().sms),
    }


def every_shape() -> dict[str, str]:
    """Return the figures in the sentences of the deeper page of that name, after checking what they say."""
    own, new, found = points(), points(recording=RANDOM), searched()
    two, one = (  # the quickest of each
        next(of for of in found[TURNED].finalists if of.way.setting[3] == rows) for rows in (32, 16)
    )
    sides = [  # mean speeds at large products, by the shorter side of C
        geometric_mean(
            at.percent_of_searched for of, at in new.items() if kind(of) == KINDS[0] and low <= min(of[:2]) < up
        )
        for low, up in pairwise((SMALL, 512, 1024, 2048, inf))
    ]
    gains = {at: turning(at) for at, of in found.items() if turned(of.best.setting) and turning(at) < inf}
    late = {at: {t.way: t.ms for t in of.finalists}[of.expected] / of.finalists[0].ms for at, of in found.items()}
    least, narrow = (
        min((at for at in new if kind(at) in kinds), key=lambda at: new[at].percent_of_searched)
        for kinds in (KINDS, KINDS[:1])
    )
    unaligned = [at for at in new if kind(at) == KINDS[3]]
    padded = [at for at in unaligned if new[at].searched.algorithm.endswith("padded")]
    thin, deep = (launched(size).kernel.parameters for size in ((1, 4097, 4097), DEEP_AT))
    by = {name: [at for at in new if chosen(at).name == name] for name in ("thin", "deep", "shallow")}
    odd, short, patched = own[(4095,) * 3], points(KERNEL.variant(BITS=16)), points(THROUGH_PATCH)
    narrow_least = min(short, key=lambda at: short[at].percent_of_searched)
    assert (
        (deep["BM"], deep["BN"], deep["SPLIT"], looked(DEEP_AT)[0][1]) == (64, 128, 6, 0)
        and (thin["BM"], thin["BN"], thin["SLICES"]) == (1, 32, 32)
        and (two.way, two.way.setting[:2], two.ms_p90 < one.ms_p10) == (found[TURNED].best, (128, 160), True)
        and (one.way.setting[:2], one.way.setting[7]) == ((512 // 4, 64), 4)
        and all(short[at].ms_p90 < of.ms_p10 for at, of in patched.items())
        and {(of.types, of.parameters["BITS"]) for of in new.values()} == {("FP16", 32)}
        and odd.searched.algorithm.endswith("padded")
        and (least[1], kind(least)) == (10, KINDS[3])
        and min(gains.values()) > 0.98
        and geometric_mean(at.percent_of_searched for of, at in own.items() if kind(of) != KINDS[3] and prod(of) > 5e8)
        > 100
        and sides == sorted(sides)
        and round(sides[-1]) >= 100
        and [of > 100 for of in percents(by_work(), 1)] == [True, True, True, False, False]
        and min(percents(by_work(), 2)) > 100
        and (any_shape.NEAR, 2 * any_shape.UNTIMED) == (6, 0.4e9)
        and launched((333, 777, 1999)).kernel.parameters == launched((333, 777, 1999), ALONE).kernel.parameters
        and not any(min(at[:2]) < 8 for at in new)
        and own[1, 4096, 4096].opponent_ms / own[1, 4096, 4096].ms > 1.05
        and 1 < own[1, 32000, 4096].opponent_ms / own[1, 32000, 4096].ms < 1.05
        and max(at[2] for at in by["shallow"]) <= any_shape.SHALLOW_K
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
                "turns cuBLAS": found[TURNED].cublas_ms,
                "deep": next(us for of, *_, us in looked(DEEP_AT) if [*of[:2], of[7]] == [64, 128, 6]) / 1e3,
                "deep shared": next(us for _, cut, _, us in looked(DEEP_AT) if cut) / 1e3,
                "large vector": own[1, 32000, 4096].ms,
                "large vector better": own[1, 32000, 4096].opponent_ms,
                "own 4095": odd.ms,
                "better 4095": odd.opponent_ms,
            }.items()
        },
        **{
            f"{name} most": f"{round(sorted(M * N for M, N, _ in by[name])[len(by[name]) * 9 // 10], -4):,}"
            for name in ("thin", "deep")
        },
        "overlapped": f"{geometric_mean(at[0].cublas_ms / at[0].ms for at in placed().values()):.0%}",
        "one by one": f"{geometric_mean(at[3].cublas_ms / at[3].ms for at in placed().values()):.0%}",
        "wide 8192": f"{1e3 * own[8192, 8192, 64].ms:.1f}",
        "new": f"{len(new):,}",
        "unaligned": str(len(unaligned)),
        "padded": str(len(padded)),
        "padded times": f"{geometric_mean(new[at].percent_of_searched for at in padded) / 100:.2f}",
        "padded K": f"{geometric_mean(new[at].percent_of_searched for at in padded if at[1] % 8 == 0) / 100:.2f}",
        "padded slower": str(sum(new[at].percent_of_searched < 100 for at in padded)),
        "as it is": f"{1e3 * odd.cublas_ms:.1f} µs",
        "lead now": f"{odd.opponent_ms / odd.ms - 1:.0%}",
        "in turns": in_turns(),
        "lost apart": f"{sum(at[3].ms > at[3].cublas_ms for at in placed().values())} of {len(placed())}",
        "new least": f"{new[least].percent_of_searched:.0f}%",
        "new least at": times_of(least),
        "new least copied": f"{2 * least[0] * least[2] / 1e6:.0f} MB",
        "large least": f"{new[narrow].percent_of_searched:.0f}%",
        "large least at": times_of(narrow),
        **{
            f"{name} {M}": f"{1e3 * of[M, N, K].ms:.{digits}f}"
            for M, N, K, digits in ((65536, 128, 128, 1), (8192, 8192, 64, 1), (4096, 4096, 4096, 0))
            for name, of in (("written", short), ("patched", patched))
        },
        "short": str(len(short)),
        "short mean": f"{geometric_mean(at.percent_of_searched for at in short.values()):.0f}%",
        "short slower": str(sum(at.percent_of_searched < 100 for at in short.values())),
        "short least": f"{short[narrow_least].percent_of_searched:.0f}%",
        "short least at": times_of(narrow_least),
        "chance": "{:.1f} to {:.1f} and {:.1f} to {:.1f} µs".format(
            *(1e3 * end(points(of)[333, 777, 1999].processes[0].own.ms) for of in (ALONE, KERNEL) for end in (min, max))
        ),
        **{name: f"{sides[of]:.0f}%" for name, of in (("narrow", 0), ("broad", -1))},
        "turned": str(sum(turned(of.best.setting) for of in found.values())),
        "turned both": str(len(gains)),
        **{
            f"turned {name}": f"{of(gains.values()):.2f}"
            for name, of in (("median", median), ("least", min), ("most", max))
        },
        "model": f"{geometric_mean(late.values()) - 1:.1%}",
        "model most": f"{max(late.values()) - 1:.0%}",
        "searched": str(len(found)),
    }
