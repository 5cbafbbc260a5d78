"""Chapter 22 and its deeper page: who gets which pieces, what a division costs, and all shapes beside cuBLAS."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean, median

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape, hopper
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
"""What was timed at the examples: 20, 22 alone, also without a part of what it does, and 22 as it is called."""
SHORT = find("22", BITS=16)
"""22 with a C of 16 bits."""
WAYS = "rows fetched", "rows copied", "without tensor cores"
"""How 22 does a product: tensor cores multiply its rows as they are, or as `pad` copies them, or others do it."""
H200, RANDOM = (RESULTS / "h200" / f"{name}.json" for name in ("any_shape", "random_22"))
BRIEF = 0.01
"""The better opponent's ms under which the table counts a product as brief."""
LOW = 95
"""The percentage of the better opponent's speed under which a product counts as lost."""
LONG = (256, 256, 16384)
"""The product whose divisions the chapter weighs, in tiles of 64 × 128."""
WEIGHED = (4, 1), (4, 4), (4, 12), (4, 15), (2, 16)
"""The blocks of a cluster, and the parts of a tile, that it weighs."""
STRADDLING = (3864, 4088, 7800)
"""A product whose rows mostly begin within a line of L2."""
LINE = 64
"""Elements of 16 bits in a line of L2."""
KINDS = ("squares", *WAYS)
"""What the chart tells apart; a product is of the first that fits."""


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


@lru_cache
def way(size: Size) -> str:
    """Return which of `WAYS` a product goes."""
    name = launched(size).kernel.name
    return WAYS[2 if name not in (KERNEL.name, any_shape.DEEP.name) else size[1] % 8 + size[2] % 8 > 0]


def by_way(recording: str | Path = "any_shape") -> dict[str, list[Size]]:
    """Return a recording's shapes that go each of `WAYS`, the first by whether the better opponent takes long."""
    sizes, limit = points(recording=recording) if recording == RANDOM else SHAPES, f"{1e3 * BRIEF:.0f} µs"
    of = {name: [size for size in sizes if way(size) == name] for name in WAYS}
    return {
        f"{WAYS[0]}, opponent under {limit}": [size for size in of[WAYS[0]] if better(size, recording) < BRIEF],
        f"{WAYS[0]}, opponent {limit} or more": [size for size in of.pop(WAYS[0]) if better(size, recording) >= BRIEF],
        **of,
    }


@lru_cache
def searched() -> dict[Size, tune.Tuned]:
    """Return what the search found on an H200, by size."""
    found = tune.load(H200.with_name("tune_22.json")).points
    return {point.size: point for point in found if point.digest == KERNEL.digest}


def used() -> dict[str, list[Size]]:
    """Return the shapes at which the search on an H200 chose what 20 lacks, by what that is."""
    best = {size: searched()[size].best for size in SHAPES if size in searched()}
    own = {size: of for size, of in best.items() if len(of.setting) == len(any_shape.PARAMETERS)}
    return {
        "cut": [size for size, of in own.items() if of.whole and size[2] > any_shape.BK],  # of one step none is cut
        "in clusters": [size for size in best if size not in own],
        "in turns": [size for size, of in own.items() if of.setting[3] > 16],
    }


def moving() -> float:
    """Return the µs in which the model moves A, B and C of `LONG`."""
    return any_shape.START + any_shape.moved(*LONG) / any_shape.MEMORY


def costs(blocks: int, parts: int) -> tuple[float, ...]:
    """Return the µs by the model of `LONG` in such clusters and parts: of a step, all steps, adding, and all else."""
    (M, N, K), of = LONG, any_shape.setting(64, 128, 8, blocks)
    step, end = any_shape.pace(of)
    fetched = M * N * parts * (1 / of["BN"] + 1 / of["BM"] / blocks) * any_shape.SWIZZLE
    step = round(max(step, fetched / any_shape.L2), 3)
    multiply = -(-K // any_shape.BK // parts) * step * (any_shape.SHARED if parts > 1 else 1)
    add = any_shape.SECOND + parts * M * N * 4 / any_shape.PARTS_MOVED if parts > 1 else 0
    rest = round(any_shape.START, 2) + round(end, 2) + round(any_shape.HIDDEN * moving(), 2)
    return step, round(multiply, 2), round(add, 2), rest


def divided(blocks: int, parts: int) -> Way:
    """Return such a way to do `LONG`."""
    tiles = LONG[0] * LONG[1] // (64 * 128 * blocks)
    return Way(tuple(any_shape.setting(64, 128, 8, blocks).values()), tiles * (parts > 1), tiles * parts)


def finals(size: Size = LONG) -> dict[Way, float]:
    """Return the µs of what the search timed in turns with cuBLAS at a size."""
    return {of.way: 1e3 * of.ms for of in searched()[size].finalists}


def weighed() -> Table:
    """Return a pencil's µs of `LONG`, and what the search timed."""
    rows = [
        (
            f"{divided(*of).shares} of {of[0]}",
            of[1],
            f"{-(-256 // of[1])} steps, {multiply:.2f}",
            f"{add:.2f}",
            f"{multiply + add + rest:.1f}",
            f"{finals()[divided(*of)]:.1f}" if divided(*of) in finals() else None,
        )
        for of in WEIGHED
        for _, multiply, add, rest in [costs(*of)]
    ]
    heads = "clusters of blocks", "parts of a tile", "multiplying", "adding", "model's total", "timed"
    return Table(heads, rows, f"{times_of(LONG)} in blocks' tiles of 64 × 128: µs, H200 (timed: medians of the search)")


@lru_cache
def apart(BM: int, BN: int) -> dict[int, dict[Size, float]]:
    """Return by how much blocks that fetch alone take longer than pairs, by what N is a multiple of and by size.

    Of products that fill the GPU and whose rows are fetched as they are, in the search's first look.
    """
    every, found = tune.load(H200.with_name("tune_22.json")).settings["settings"], {}
    alone, paired = (
        every.index([*any_shape.setting(BM, BN, STAGES, of).values()])
        for STAGES in [next(of[2] for of in any_shape.PACES if of[:2] == (BM, BN))]
        for of in (1, 2)
    )
    for size, point in searched().items():
        us = {number: us for number, _, _, us in point.tried}
        if min(size) >= 2000 and max(size) <= 10_000 and way(size) == WAYS[0] and {alone, paired} <= us.keys():
            found.setdefault(min(size[1] & -size[1], LINE), {})[size] = us[alone] / us[paired] - 1
    return found


def fetching() -> Table:
    """Return what fetching B alone costs, by where B's rows begin."""
    rows = [
        (
            f"{of} or more" if of == LINE else f"{of}, no more",
            len(apart(128, 256)[of]),
            *(f"{median(more):.0%} ({min(more):.0%} to {max(more):.0%})" for more in each),
        )
        for of in sorted(apart(128, 256), reverse=True)
        for each in [[apart(128, BN)[of].values() for BN in (256, 192)]]
    ]
    heads = "a power of two that divides N", "products", "tiles of 128 × 256", "tiles of 128 × 192"
    title = "How much longer blocks alone take than pairs, at sides of 2,000 to 10,000: median (least to most), H200"
    return Table(heads, rows, title, "The search's first look: up to 24 launches, each way with its best division.")


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
    return Table(heads, rows, "The same tile, cluster and division, as one team and as two in turns, H200")


def opponents(size: Size, recording: str | Path = "any_shape") -> list[float]:
    """Return the µs of the better opponent beside each of `EACH`, from least to most."""
    return sorted(10 * each.ms * each.percent_of_searched for each in (points(of, recording)[size] for of in EACH))


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


def early() -> Table:
    """Return the µs of 22 alone, and without its early call, and by how much cuBLAS differs beside these two."""
    return Table(
        ("M×N×K", "22 alone", "without early call", "longer by", "cuBLAS beside it", "zeros of a block, KiB"),
        [
            (
                times_of(size),
                *(f"{each:#.3g}".rstrip(".") for each in (own, us)),
                f"{us - own:+.2f} ({us / own - 1:+.1%})",
                f"{moved:+.1%}",
                (of["BM"] - launch.division.counts["rows"]) * any_shape.SWIZZLE * of["STAGES"] // 1024,
            )
            for size, moved in lost_by(OVERLAP, "cublas_ms").items()
            for own, us in [[1e3 * points(of)[size].ms for of in (ALONE, OVERLAP)]]
            for launch, of in [(launched(size, ALONE), launched(size, ALONE).kernel.parameters)]
        ],
        f"µs of a launch, {ceilings.card().name}",
    )


def shuffled() -> Table:
    """Return the µs of 22 alone without the shuffle, and what it loses in a step."""
    return Table(
        ("M×N×K", "tile", "steps of a block", "without shuffle", "ns lost in a step"),
        [
            (
                times_of(size),
                "{BM} × {BN}".format(**launched(size, ALONE).kernel.parameters),
                steps(size),
                f"{1e3 * ms:#.3g}".rstrip(".") + f" ({lost:+.1%})",
                round(1e6 * (ms - points(ALONE)[size].ms) / steps(size)),
            )
            for size, lost in lost_by(OWN_NUMBER).items()
            for ms in [points(OWN_NUMBER)[size].ms]
        ],
        f"µs of a launch, {ceilings.card().name}",
    )


def better(size: Size, recording: str | Path = "any_shape") -> float:
    """Return the ms of the better opponent."""
    return points(recording=recording)[size].ms * points(recording=recording)[size].percent_of_searched / 100


def summary() -> Table:
    """Return 22's mean speed by the ways that products go, of random products, and of shapes, squares and layers."""
    cells: dict[str, list[str]] = {}
    for recording in (RANDOM, H200):
        of = {name: (KERNEL, sizes) for name, sizes in by_way(recording).items()}
        if recording != RANDOM:
            of |= {"squares": (KERNEL, SQUARES), "Llama 3 8B, C in FP16": (SHORT, LAYERS)}
        for name, (kernel, sizes) in of.items():
            share = [points(kernel, recording)[size].percent_of_searched for size in sizes]
            low = sum(each < LOW for each in share)
            cells.setdefault(name, []).append(f"{geometric_mean(share):.0f}% ({low} of {len(share)})")
    rows = [(name, *([None] * (2 - len(each))), *each) for name, each in cells.items()]
    heads = "", "new products, the model chose", "searched at these products"
    title = f"22's mean speed in percent of the better opponent's, H200 SXM (in brackets: products under {LOW}%)"
    return Table(heads, rows, title)


def mean(sizes: Iterable[Size], of: Mapping[Size, Point] | None = None) -> float:
    """Return the geometric mean of the percentages of the better opponent's speed, of 22's unless other points."""
    return geometric_mean((of or points())[size].percent_of_searched for size in sizes)


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    return KINDS[0] if size in SQUARES else way(size)


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
    _, second, third, *_ = (i for i, each in enumerate(loop) if each.opcode.startswith("HGMMA"))
    first = int(re.search(r"gdesc\[UR(\d+)\]", loop[third].text)[1])
    bring = [
        each.text for each in loop[second + 1 : third] if each.text.split()[1] in {f"UR{first + i}," for i in range(4)}
    ]
    return "\n    ".join(
        [
            f"{sum(each.opcode == 'R2UR' for each in loop)} R2UR in a step's {len(loop)} instructions",
            *bring,
            loop[third].text,
        ]
    )


def lost_by(kernel: Kernel, of: str = "ms") -> dict[Size, float]:
    """Return what share of its time 22 alone takes longer without a part of what it does, or cuBLAS beside it."""
    return {size: getattr(point, of) / getattr(points(ALONE)[size], of) - 1 for size, point in points(kernel).items()}


def bounds(BN: int, straddling: bool = True) -> tuple[float, float, float]:
    """Return the model's µs of a step in tiles 128 high: to multiply, and to fetch it alone and in pairs, from afar."""
    step, _ = next(us for of, us in any_shape.PACES.items() if (*of[:2], of[3]) == (128, BN, 2))
    each = ceilings.card().sms * any_shape.SWIZZLE * (any_shape.lines(STRADDLING[1]) if straddling else 1)
    return step, *(each * (128 + BN / blocks) / any_shape.FAR for blocks in (1, 2))


def figures() -> dict[str, str]:
    """Return the figures in the sentences of both pages, by their names for glue, after checking what they say."""
    own, alone, before, n4095, n4096 = points(), points(ALONE), points(BEFORE), (4095,) * 3, (4096,) * 3
    *quick, long, thin, few, odd, _ = lost_by(WHOLE)
    chosen, expected, pad = searched()[LONG].best, searched()[LONG].expected, own[n4095].ms - own[n4096].ms
    assert (long, chosen, expected) == (LONG, divided(4, 12), divided(4, 15)) and expected.shares == hopper.RESIDENT[4]
    assert [(launched(size, BEFORE).kernel.name, way(size)) for size in (odd, n4095)] == [("16_mma", WAYS[1])] * 2
    assert 3 * own[n4095].ms < own[n4095].cublas_ms and abs(pad + own[n4096].cublas_ms - own[n4095].ms) < 0.005
    (step, multiply, add, rest), (pace, end) = costs(2, 16), any_shape.pace(any_shape.setting(64, 128, 8, 2))
    fetch, fetch_alone = (128 * (64 + 128 / blocks) * 128 / any_shape.L2 for blocks in (2, 1))
    wide, middle, near = bounds(256), bounds(192), bounds(256, straddling=False)
    assert fetch < pace == step < fetch_alone and near[1] < near[0] < wide[1] > wide[0] > wide[2]
    assert middle[0] < middle[2] < middle[1] and 7800 * (3864 + 4088) > 4096 * 8192 > any_shape.LARGE / 2
    assert [any_shape.lines(of) for of in (*STRADDLING[1:], 4096)] == [any_shape.lines(8 * 511)] * 2 + [1]
    lost = [[sorted(apart(128, BN)[of].values()) for of in (8, 16, LINE)] for BN in (256, 192)]
    assert all(median(of[0]) > 0.25 > 0.1 > median(of[1]) > median(of[2]) and of[0][0] > median(of[1]) for of in lost)
    one = {size: us / other - 1 for tiles, size, us, other in turns() if tiles == 1}
    deep = [gain for size, gain in one.items() if size[2] >= 4096]
    [(together, in_turn)] = [us for tiles, size, *us in turns() if size == (2176,) * 3]
    assert len(deep) == 5 and min(deep) > 0.02 > 0.01 > max(gain for gain in one.values() if gain not in deep)
    new, (short, lengthy, *_) = points(recording=RANDOM), by_way(RANDOM).values()
    poor = sorted((new[size].percent_of_searched, size) for size in lengthy)
    assert mean(short, new) > 105 > 95 > mean(lengthy, new)
    worst = min(SQUARES, key=lambda size: own[size].percent_of_searched)
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
    assert late[quick[1]] > 0.05 > max(spread) > moved[0] and min(much) > 0.05 and max(much) == own_number[few]
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "deep": alone[LONG].ms,
                "deep before": before[LONG].ms,
                "deep better": alone[LONG].ms * alone[LONG].percent_of_searched / 100,
                "small": alone[quick[0]].ms,
                "cublas 4095": own[n4095].cublas_ms,
                "cublas 4096": own[n4096].cublas_ms,
                "one team": together / 1e3,
                "two teams": in_turn / 1e3,
            }.items()
        },
        **{
            name: f"{us:.3f} µs"
            for name, us in {
                "step alone": pace,
                "step one": fetch_alone,
                "wide step": wide[0],
                "wide alone": near[1],
                "straddling alone": wide[1],
                "straddling paired": wide[2],
                "middle step": middle[0],
                "middle alone": middle[1],
                "middle paired": middle[2],
            }.items()
        },
        "deep by": f"{finals()[expected] / finals()[chosen] - 1:.0%}",
        "new": str(len(new)),
        "new fetched": str(len(short + lengthy)),
        "new mean": f"{mean(short + lengthy, new):.0f}%",
        "new brief": f"{mean(short, new):.0f}%",
        "new lengthy": f"{mean(lengthy, new):.0f}%",
        "new low": f"{sum(each < 90 for each, _ in poor) / len(poor):.0%}",
        "new under": "90%",
        "new least": f"{poor[0][0]:.0f}%",
        "new least at": times_of(poor[0][1]),
        "step": f"128 · (64 + 128 / 2) · 128 / ({any_shape.L2 / 1e6:.1f} · 10⁶) = {fetch:.3f} µs",
        "L2": f"{any_shape.L2 / 1e6:.1f} MB",
        "L2 measured": f"{ceilings.load()['L2, read alone'].tera_per_second:.1f} MB",
        "fetched": f"{ceilings.card().sms} · (128 + 256) · 128 bytes",
        "far": f"{any_shape.FAR / 1e6:.1f} MB",
        "lines": f"{any_shape.lines(STRADDLING[1]):.2f}",
        "straddling at": times_of(STRADDLING),
        "straddling expected": f"{wide[1] / wide[0] - 1:.0%}",
        "middle expected": f"{middle[1] / middle[2] - 1:.0%}",
        "straddling timed": f"{apart(128, 256)[8][STRADDLING]:.0%}",
        "middle timed": f"{apart(128, 192)[8][STRADDLING]:.0%}",
        "turns deep": f"{min(deep):.0%} to {max(deep):.0%}",
        "times": f"{any_shape.SHARED:.2f}",
        "multiplying": f"16 · {step:.3f} · {any_shape.SHARED:.2f} = {multiply:.2f} µs",
        "second": f"{any_shape.SECOND} µs",
        "parts moved": f"{any_shape.PARTS_MOVED / 1e6:.1f} MB",
        "adding": f"{any_shape.SECOND} + 4.19 / {any_shape.PARTS_MOVED / 1e6:.1f} = {add:.2f} µs",
        "launch": f"{any_shape.START:.2f} µs",
        "end": f"{end:.2f} µs",
        "hidden": f"{any_shape.HIDDEN:.0%}",
        "traffic": f"{moving():.2f} µs",
        "else": f"{any_shape.START:.2f} + {end:.2f} + {any_shape.HIDDEN * moving():.2f} = {rest:.2f} µs",
        **{f"at {name}": str(len(sizes)) for name, sizes in used().items()},
        "no tensor cores": str(sum(size not in searched() for size in SHAPES)),
        "pad": f"{1e3 * pad:.0f}",
        "padded": f"{1e3 * (pad + own[n4096].cublas_ms):.0f} µs",
        "worst square": str(worst[0]),
        "worst square at": f"{own[worst].percent_of_searched:.0f}%",
        "card": ceilings.card().name,
        "sms": str(ceilings.card().sms),
        "chance": f"{max(spread):.1%}",
        "counted": "5%",
        **{f"early at {of[2]}": f"{1e3 * late[of] * alone[of].ms:.2f} µs" for of in (quick[0], thin)},
        "moved": f"{moved[0]:.1%}",
        "moved less": f"{moved[1]:.1%}",
        "shuffled": f"{min(much):.0%} to {max(much):.0%}",
        "tried": str(max(point.searched.tried for point in own.values())),
        "shapes": str(len(SHAPES)),
    }
