"""Chapter 22 and its deeper page: who gets which pieces, what a division costs, and all shapes beside cuBLAS."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape, hopper
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table

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
"""The product whose divisions the chapter weighs."""
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


def setting(*wanted: int) -> Mapping[str, int]:
    """Return the setting of this BM, BN, and CLUSTER and BLOCKS, which are 1 unless given."""
    return next(
        of for of in any_shape.SETTINGS if tuple(map(of.get, ("BM", "BN", "CLUSTER", "BLOCKS"))) == (*wanted, 1, 1)[:4]
    )


def used() -> dict[str, list[Size]]:
    """Return the shapes at which the search on an H200 chose what 20 lacks, by what that is."""
    best = {size: searched()[size].best for size in SHAPES if size in searched()}
    own = {size: of for size, of in best.items() if len(of.setting) == len(any_shape.PARAMETERS)}
    return {
        "narrow": [size for size, of in own.items() if min(of.setting[:2]) < 128],
        "copied": [size for size in best if way(size) == WAYS[1]],
        "cut": [size for size, of in own.items() if of.whole and size[2] > any_shape.BK],  # of one step none is cut
        "in clusters": [size for size in best if size not in own],
    }


def moving() -> float:
    """Return the µs in which the model moves A, B and C of `LONG`."""
    return any_shape.START + any_shape.moved(*LONG) / any_shape.MEMORY


def costs(parts: int) -> tuple[float, ...]:
    """Return the µs by the model of `LONG` in such tiles: of a step, of all of them, of adding, and of all else."""
    (M, N, K), of = LONG, setting(64, 128)
    blocks, (step, end) = M // of["BM"] * N // of["BN"] * parts, any_shape.pace(of)
    step = round(max(step, blocks * (of["BM"] + of["BN"]) * any_shape.SWIZZLE / any_shape.L2), 3)
    multiply = K // any_shape.BK // parts * step * (any_shape.SHARED if parts > 1 else 1)
    add = any_shape.SECOND + parts * M * N * 4 / any_shape.PARTS_MOVED if parts > 1 else 0
    rest = round(any_shape.START, 2) + round(end, 2) + round(any_shape.HIDDEN * moving(), 2)
    return step, round(multiply, 2), round(add, 2), rest


def weighed(*parts: int) -> Table:
    """Return a pencil's µs of `LONG` in tiles of 64 × 128, with so many parts of each tile."""
    rows = [(of, 256 // of, *(f"{us:.2f}" for us in (*costs(of)[1:], sum(costs(of)[1:])))) for of in parts]
    heads = "parts of a tile", "steps", "multiplying", "adding", "all else", "model's total"
    return Table(heads, rows, f"{times_of(LONG)} in tiles of 64 × 128, in clusters of one block: the model's µs, H200")


def opponents(size: Size, recording: str | Path = "any_shape") -> list[float]:
    """Return the µs of the better opponent beside each of `EACH`, from least to most."""
    return sorted(10 * each.ms * each.percent_of_searched for each in (points(of, recording)[size] for of in EACH))


def shared(size: Size) -> int:
    """Return how many tiles 22 alone cuts into shares on the shown card."""
    return launched(size, ALONE).division.counts.get("shared", 0)


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


def longer() -> Table:
    """Return the µs of 22 alone, and without each of its two gains; starred where that may be chance."""
    rows = [
        (
            times_of(size),
            "{BM} × {BN}".format(**launched(size, ALONE).kernel.parameters),
            launched(size, ALONE).blocks,
            *(f"{1e3 * points(of)[size].ms:#.3g}".rstrip(".") + more for of, more in ((ALONE, ""), *gains)),
        )
        for size in lost_by(WHOLE)
        for gains in [[(of, f" ({lost_by(of)[size]:+.1%})" + "*" * starred(of, size)) for of in (OVERLAP, OWN_NUMBER)]]
    ]
    heads = "M×N×K", "tile", "blocks", "22 alone", "without early call", "without shuffle"
    return Table(heads, rows, f"µs of a launch, {ceilings.card().name} (*: may be chance)")


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


def lost_by(kernel: Kernel, recording: str | Path = "any_shape") -> dict[Size, float]:
    """Return what share of its time 22 alone takes longer without a part of what it does."""
    own, without = (points(of, recording) for of in (ALONE, kernel))
    return {size: point.ms / own[size].ms - 1 for size, point in without.items()}


def twice(size: Size) -> list[float]:
    """Return the ms of 22 alone, and again, as called, where that is the same build."""
    return [points(of)[size].ms for of in (ALONE, KERNEL) if of == ALONE or launched(size).kernel.name == KERNEL.name]


def chance() -> float:
    """Return by how much two times of one build differ at most."""
    return max(max(twice(size)) / min(twice(size)) - 1 for size in lost_by(WHOLE))


def starred(kernel: Kernel, size: Size) -> bool:
    """Return whether 22 without a part differs from either time of 22 alone by no more than chance."""
    return any(max(us) / min(us) - 1 <= chance() for us in ((points(kernel)[size].ms, own) for own in twice(size)))


def figures() -> dict[str, str]:
    """Return the figures in the sentences of both pages, by their names for glue, after checking what they say."""
    own, alone, before, n4095 = points(), points(ALONE), points(BEFORE), (4095,) * 3
    *quick, long, _, few, odd, _ = lost_by(WHOLE)
    assert long == LONG and launched(LONG, ALONE).blocks == 96 and shared(LONG) == 2
    of = dict(zip(any_shape.PARAMETERS, searched()[LONG].best.setting, strict=True))
    assert (of["BM"], of["BN"], of["CLUSTER"]) == (64, 128, 4) and searched()[LONG].best.shares == 24
    model = searched()[LONG].expected
    assert model.setting == tuple(setting(64, 128).values()) and (model.whole, model.shares) == (8, 128)
    assert before[LONG].ms > 1.5 * points(WHOLE)[LONG].ms > 7 * alone[LONG].ms and alone[LONG].percent_of_searched > 102
    assert all(1e3 * points(OVERLAP)[size].ms < opponents(size)[0] for size in (*quick, LONG))
    assert {launched(size, BEFORE).kernel.name for size in (odd, n4095)} == {"16_mma"}
    assert way(odd) == way(n4095) == WAYS[1] != way(few) == way(LONG)
    tiny, pad = quick[0], own[n4095].ms - own[(4096,) * 3].ms
    assert 3 * own[n4095].ms < own[n4095].cublas_ms and abs(pad + own[(4096,) * 3].cublas_ms - own[n4095].ms) < 0.005
    step, multiply, add, rest = costs(16)
    (alone_us, end), measured_l2 = any_shape.pace(setting(64, 128)), ceilings.load()["L2, read alone"].tera_per_second
    total, uneven = sum(costs(16)[1:]), any_shape.cost(setting(64, 128), LONG, 8, 132, 132)
    dealt = [tile for cluster in range(132) for tile, *_ in pieces(cluster, 132, 8, 8, 256)]
    assert {dealt.count(tile) for tile in range(8)} == {17}
    assert 0.01 < uneven / total - 1 < total / (1e3 * searched()[LONG].expected_ms) - 1
    assert 2 * measured_l2 < any_shape.L2 / 1e6 < 2.1 * measured_l2 and step > alone_us == costs(8)[0]
    new, (short, lengthy, *_) = points(recording=RANDOM), by_way(RANDOM).values()
    poor = sorted((new[size].percent_of_searched, size) for size in lengthy)
    answers, every = used(), tune.load(H200.with_name("tune_22.json")).settings["settings"]
    [(tile, uncut)] = [
        (every[number][:2], us)
        for number, cut, _, us in searched()[LONG].tried
        if not cut and len(every[number]) == len(of)
    ]
    assert tile == [64, 32] and mean(short, new) > 105 > 95 > mean(lengthy, new) and LONG in answers["cut"]
    low = sorted((points(recording=H200)[size].percent_of_searched, size) for size in SHAPES)
    squares = sorted((points(recording=H200)[size].percent_of_searched, size) for size in SQUARES)
    assert [size[0] for percent, size in squares if percent < 97] == [3200, 2176, 3840, 3712]
    late, own_number = lost_by(OVERLAP), lost_by(OWN_NUMBER)
    some = [late[size] for size in quick[:2]]
    rest_late = [late[size] for size in late if size not in quick[:2] and not starred(OVERLAP, size)]
    much = [lost for lost in own_number.values() if lost > 0.05]
    assert min(some) > 0.05 > 0.03 > max(rest_late) and min(rest_late) > 0 and len(rest_late) == 3
    assert (
        max(much) == own_number[few]
        and len(much) == 5
        and own_number.keys() - {*quick, LONG, few} == {size for size, lost in own_number.items() if lost < 0.03}
    )
    assert launched(tiny).kernel.parameters.items() >= setting(64, 32).items() and not any(map(shared, quick))
    price = {size: alone[size].ms / points(WHOLE)[size].ms - 1 for size in lost_by(WHOLE) if not shared(size)}
    assert [size for size in sorted(price, key=price.get) if abs(price[size]) > chance()] == [
        odd,
        few,
        quick[2],
        tiny,
    ] and price[few] > 0.02 > -price[odd]
    return {
        **{
            name: f"{1e3 * ms:.1f} µs"
            for name, ms in {
                "deep": alone[LONG].ms,
                "deep before": before[LONG].ms,
                "deep whole": points(WHOLE)[LONG].ms,
                "deep model": searched()[LONG].expected_ms,
                "deep better": alone[LONG].ms * alone[LONG].percent_of_searched / 100,
                "small": alone[tiny].ms,
                "small before": before[tiny].ms,
                "cublas 4095": own[n4095].cublas_ms,
                "cublas 4096": own[(4096,) * 3].cublas_ms,
            }.items()
        },
        "deep uncut": f"{uncut:.1f} µs",
        "deep share": f"{alone[LONG].percent_of_searched:.0f}%",
        "new": str(len(new)),
        "new fetched": str(len(short + lengthy)),
        "new mean": f"{mean(short + lengthy, new):.0f}%",
        "new brief": f"{mean(short, new):.0f}%",
        "new lengthy": f"{mean(lengthy, new):.0f}%",
        "new low": f"{sum(each < 90 for each, _ in poor) / len(poor):.0%}",
        "new under": "90%",
        "new least": f"{poor[0][0]:.0f}%",
        "new least at": times_of(poor[0][1]),
        "step alone": f"{alone_us} µs",
        "step": f"128 · (64 + 128) · 128 / ({any_shape.L2 / 1e6:.1f} · 10⁶) = {step:.3f} µs",
        "L2": f"{any_shape.L2 / 1e6:.1f} MB",
        "L2 measured": f"{measured_l2:.1f} MB",
        "memory": f"{any_shape.MEMORY / 1e6:.2f} MB",
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
        "total": f"{total:.2f} µs",
        "uneven": f"{uneven:.2f} µs",
        "uneven by": f"{uneven / total - 1:.0%}",
        "resident": str(hopper.RESIDENT[4]),
        **{f"at {name}": str(len(sizes)) for name, sizes in answers.items()},
        "no tensor cores": str(sum(size not in searched() for size in SHAPES)),
        **{f"late {size[0]}": f"{1e3 * points(OVERLAP)[size].ms:.2f} µs" for size in quick},
        "again 1024": f"{1e3 * own[quick[2]].ms:.2f} µs",
        "pad": f"{1e3 * pad:.0f}",
        "padded": f"{1e3 * (pad + own[(4096,) * 3].cublas_ms):.0f} µs",
        "late long": f"{1e3 * points(OVERLAP)[LONG].ms:.2f} µs",
        "worst": times_of(low[0][1]),
        "worst at": f"{low[0][0]:.0f}%",
        "shapes lost": str(sum(percent < LOW for percent, _ in low)),
        "lost under": f"{LOW}%",
        "worst square": str(squares[0][1][0]),
        "worst square at": f"{squares[0][0]:.0f}%",
        "card": ceilings.card().name,
        "limit": f"{1e3 * BRIEF:.0f} µs",
        "sms": str(ceilings.card().sms),
        "settings": str(len(any_shape.SETTINGS)),
        "chance": f"{chance():.1%}",
        "overlap": " and ".join(f"{lost:.0%}" for lost in some),
        "overlap rest": f"{max(rest_late):.1%}",
        "shuffled": f"{min(much):.0%} to {max(much):.0%}",
        "carried": f"{price[few]:.0%} to {price[tiny]:.0%}",
        "carried less": f"{-price[odd]:.0%}",
        "tried": str(max(point.searched.tried for point in own.values())),
        "shapes": str(len(SHAPES)),
    }
