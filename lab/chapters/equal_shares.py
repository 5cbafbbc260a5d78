"""Chapter 22: who gets which pieces, what the model expects, and all shapes beside cuBLAS."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from statistics import geometric_mean, median

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Part, division
from ..draw.figure import BODY, INK, Figure
from ..experiments.ceilings import card
from ..records.shapes import FAMILIES, LAYERS, SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from ..variants import ANY_SHAPE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
OVERLAP, OWN_NUMBER, WHOLE = ANY_SHAPE
KINDS = "squares", "rows to copy", "M or N up to 64", "others"
"""What the chart tells apart; a shape is of the first that fits."""


def pieces(cluster: int, clusters: int, shared: int, tiles: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Yield a cluster's pieces as `Work` deals them out: tile, first step, and the step before which it ends."""
    start, end = (share * shared * steps // clusters for share in (cluster, cluster + 1))
    for tile in range(start // steps, -(-end // steps)):
        yield tile, max(start - tile * steps, 0), min(end - tile * steps, steps)
    yield from ((tile, 0, steps) for tile in range(shared + cluster, tiles, clusters))


def picture(run: Run, shared: int, clusters: int) -> Figure:
    """Draw the pieces of a simulated run's blocks, which are clusters of one; which of them wrote, the trace says."""
    of, (M, N) = run.kernel.parameters, run.C.shape
    rows, tiles, steps = -(-M // of["BM"]), run.kernel.grid(M, N), -(-run.K // of["BK"])
    wrote = {
        (access.block, int(at) // 4 % N // of["BN"] * rows + int(at) // 4 // N // of["BM"])  # down the columns of tiles
        for access in run.trace
        if access.array == "C"
        for at in access.offsets
    }
    found = [
        Part(block, tile % rows, tile // rows, begin, end, (block, tile) in wrote)
        for block in range(clusters)
        for tile, begin, end in pieces(block, clusters, shared, tiles, steps)
    ]
    return division(found, clusters, f"{tiles} tiles of {steps} steps, {shared} of them shared", 8, "cluster")


@lru_cache
def points(kernel: Kernel = KERNEL) -> dict[Size, Point]:
    """Return the recorded points of 22, of 22 without a part, or of 20, by size."""
    return {point.size: point for point in recorded(kernel, recording="any_shape").points}


def shares_of(kernel: Kernel, sizes: Iterable[Size]) -> list[float]:
    """Return the percentages of the better opponent's speed that are recorded of a kernel at those of some sizes."""
    of = points(kernel)
    return [of[size].percent_of_searched for size in sizes if size in of]


def launched(size: Size) -> Launch:
    """Return what 22 launches for a product on the shown card."""
    return KERNEL.resolve(imagined(*size, types=KERNEL.types), Place(card().architecture, card().sms))


def chosen(size: Size) -> tuple[str, int, float]:
    """Return the tile that is launched, its shared tiles, and the µs that the model expects of it, without copies."""
    launch = launched(size)
    of, blocks = launch.kernel.parameters, launch.division.blocks
    if launch.kernel.name == any_shape.THIN.name:
        return f"thin, {of['BM']}×{of['BN']}, {blocks} blocks", 0, any_shape.thin_cost(of, size)
    shared, clusters = launch.division.counts["shared"], blocks // of["CLUSTER"]
    tile = f"{of['BM']}×{of['BN']}, {clusters} × {of['CLUSTER']} blocks"
    return tile, shared, any_shape.cost(of, size, shared, clusters, card().sms)


def choices(sizes: Iterable[Size]) -> Table:
    """Return at each size what is launched, and the time that the model expects beside the recorded one."""
    rows = [
        (times_of(size), what, shared, f"{expected:.1f} → {us:.1f}", f"{us / expected - 1:+.0%}")
        for size in sizes
        for (what, shared, expected), us in [(chosen(size), 1e3 * points()[size].ms)]
    ]
    return Table(("M×N×K", "tile, clusters", "shared tiles", "µs, expected → measured", "longer by"), rows, card().name)


def times(of: Mapping[str, int]) -> tuple[float, ...]:
    """Return the model's µs for a setting: of a step, of a step of a share, after a tile, and of a part of a sum."""
    step, end = any_shape.pace(of)
    return step, step * any_shape.SHARED, end, any_shape.PART + of["BM"] * of["BN"] * 4 / any_shape.ADD


def setting(BM: int, BN: int, CLUSTER: int = 1) -> Mapping[str, int]:
    """Return the setting with this tile, in such clusters."""
    return next(of for of in any_shape.SETTINGS if (of["BM"], of["BN"], of["CLUSTER"]) == (BM, BN, CLUSTER))


def tile_of(of: Mapping[str, int]) -> str:
    """Return a setting in a few characters."""
    return f"{of['BM']}×{of['BN']}, clusters of {of['CLUSTER']}"


def pencil(*settings: Mapping[str, int]) -> Table:
    """Return `times` of some settings."""
    rows = [(tile_of(of), *(f"{us:.3f}" for us in times(of))) for of in settings]
    heads = ("a block's tile", "a step", "a step of a share", "end of a tile", "each part of a sum")
    return Table(heads, rows, f"µs by the model, {card().name}")


def worked(size: Size, *settings: Mapping[str, int]) -> Table:
    """Return the sum of the model's times for settings that cut each tile of a product into a few shares."""
    K, memory = size[2], any_shape.HIDDEN * (any_shape.START + any_shape.moved(*size) / any_shape.MEMORY)
    columns = []
    for of in settings:
        (expected, tiles, clusters), (_, step, end, part) = fewest(of, size), times(of)
        each, launch = clusters // tiles, any_shape.START + any_shape.CLUSTERED * (of["CLUSTER"] > 1)
        steps = K // any_shape.BK // each
        ran, sizes, parts = steps * step, [], each
        while parts > 1:
            sizes.append(min(parts, any_shape.TOGETHER))
            parts = -(-parts // any_shape.TOGETHER)
        met = len(sizes) * any_shape.MEET + sum(sizes) * part
        assert abs(launch + ran + end + met + memory - expected) < 0.001
        columns.append(
            (
                f"{tiles}, of {K // any_shape.BK} steps",
                f"{each}, so {clusters} clusters",
                f"{launch:.3f}",
                f"{steps} · {step:.3f} = {ran:.2f}",
                f"{end:.3f}",
                f"{len(sizes)} · {any_shape.MEET:.2f} + {sum(sizes)} · {part:.3f} = {met:.2f}",
                f"{memory:.2f}",
                f"{expected:.1f}",
            )
        )
    heads = ("tiles of a cluster", "shares of a tile", "launch", "steps of a share", "end of a tile",
             "meeting, and parts", "an eighth of memory's time", "sum, µs")  # fmt: skip
    return Table(("", *map(tile_of, settings)), list(zip(heads, *columns, strict=True)), times_of(size))


def fewest(of: Mapping[str, int], size: Size) -> tuple[float, int, int]:
    """Return the µs that the model expects of a setting at its best, its shared tiles, and its clusters."""
    return any_shape.ways(tuple(of.values()), size, card().sms)[0]


def measured() -> Table:
    """Return the times of 20, of 22 without a part, and of 22, beside the better opponent's."""
    kernels = BEFORE, WHOLE, OWN_NUMBER, OVERLAP, KERNEL
    rows = [
        (times_of(size), *(1e3 * points(of)[size].ms for of in kernels), 1e3 * better(size)) for size in points(BEFORE)
    ]
    return Table(
        ("M×N×K", "20", "22, whole tiles", "own numbers", "one by one", "22", "better opponent"),
        rows,
        f"µs of a launch, {card().name}",
    )


def better(size: Size) -> float:
    """Return the ms of the better opponent."""
    return points()[size].ms * points()[size].percent_of_searched / 100


def copied(size: Size) -> bool:
    """Whether A or B has rows that the copy engine cannot fetch."""
    return size[1] % 8 + size[2] % 8 > 0


FETCHED, COPIED = ([size for size in SHAPES if copied(size) == copies] for copies in (False, True))
"""The shapes by whether 22 copies A or B."""


def families() -> Table:
    """Return how 22 does beside the better opponent, family by family, and for all shapes with and without copies."""
    sizes = {"squares": SQUARES, **{name: sorted(set(of)) for name, of in FAMILIES.items()}}
    sizes |= {"all shapes, rows fetched": FETCHED, "all shapes, rows copied": COPIED}
    rows = []
    for name, of in sizes.items():
        share = {size: points()[size].percent_of_searched for size in of}
        least = min(of, key=share.__getitem__)
        rows.append(
            (
                name,
                len(of),
                *won(of),
                f"{geometric_mean(share.values()):.0f}%",
                f"{share[least]:.0f}% at {times_of(least)}",
            )
        )
    heads = ("family", "products", "over 105%", "under 95%", "geometric mean", "least")
    return Table(heads, rows, f"Percent of the better opponent's speed, {card().name}")


def won(sizes: Iterable[Size]) -> tuple[int, int]:
    """Return at how many of these 22 has over 105% of the better opponent's speed, and at how many under 95%."""
    share = [points()[size].percent_of_searched for size in sizes]
    return sum(each > 105 for each in share), sum(each < 95 for each in share)


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    fits = (size in SQUARES, copied(size), min(size[:2]) <= 64, True)
    return next(name for name, fit in zip(KINDS, fits, strict=True) if fit)


def chart() -> Figure:
    """Draw every product's speed as a percentage of the better opponent's, by its operations."""
    of = {size: (2e-9 * size[0] * size[1] * size[2], point.percent_of_searched) for size, point in points().items()}
    drawn = Chart("22 and the better of cuBLAS and cuBLASLt", (5e-7, 2e4), (25, 500), (),
                  "GFLOP of the product", "Percent of the better opponent's speed", (), "xy", top=124)  # fmt: skip
    drawn.ticks([10.0**n for n in range(-6, 5, 2)], (25, 50, 100, 200, 400))
    drawn.line([(5e-7, 100), (2e4, 100)], INK, wide=1)
    for name, colour, mark in zip(KINDS, COLOURS, "osD^", strict=True):
        x, y = zip(*(at for size, at in of.items() if kind(size) == name), strict=True)
        drawn.axes.plot(x, y, mark, color=dye(colour), ms=5, mew=0, alpha=0.75, label=f"{name} ({len(x)})")
    drawn.axes.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(-0.1, 1.1), fontsize=BODY,
                      handletextpad=0)  # fmt: skip
    return drawn.finish(f"Speed of 22 as a percentage of the better opponent's at {len(of)} products, by operations.")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    deep, vector, thin, odd, huge = (256, 256, 16384), (1, 4096, 4096), (64, 4096, 4096), (333, 777, 1999), (4095,) * 3
    own, tiny, n512, n1024 = points(), (256,) * 3, (512,) * 3, (1024,) * 3
    before, whole, number, late = (points(of) for of in (BEFORE, WHOLE, OWN_NUMBER, OVERLAP))
    beside = [[of[size].cublas_ms for of in (before, whole, number, late, own)] for size in before]
    chance = max(max(each) / min(each) - 1 for each in beside)
    saved, shares, shuffled = ({size: of[size].ms / own[size].ms - 1 for size in of} for of in (late, whole, number))
    fetched = [size for size in own if not copied(size)]
    off = [1e3 * own[size].ms / chosen(size)[2] - 1 for size in fetched]
    large = [1e3 * own[size].ms / chosen(size)[2] - 1 for size in SQUARES if size[0] >= 3200]
    added = [point.percent_of_cublas for point in recorded(KERNEL, recording="added").points]
    assert {size for size, gain in shares.items() if abs(gain) > chance} >= {deep, vector, thin}
    gains = [gain for gain in shuffled.values() if gain > chance]
    assert {size for size, gain in saved.items() if gain > chance} >= {tiny, n512} and min(saved.values()) > -chance
    hands = [size for size in own if launched(size).kernel.name == any_shape.THIN.name]
    assert not any(launched(size).division.counts["shared"] for size in (tiny, n512, n1024, odd, huge))
    short, bf16 = KERNEL.variant(BITS=16), KERNEL.variant(T="__nv_bfloat16")
    layers, third = shares_of(short, LAYERS), [size for size in SHAPES if size in points(bf16)]
    shown = {
        "deep": own[deep].ms,
        "deep before": before[deep].ms,
        "deep whole": whole[deep].ms,
        "deep better": better(deep),
        "odd": own[odd].ms,
        "odd before": before[odd].ms,
        "odd better": better(odd),
        "small": own[tiny].ms,
        "small before": before[tiny].ms,
        "small number": number[tiny].ms,
        "small better": better(tiny),
        "vector": own[vector].ms,
        "vector number": number[vector].ms,
        "huge": own[huge].ms,
        "huge before": before[huge].ms,
        "turn": own[n1024].ms,
        "pair": own[57, 2, 18].ms,
        "pair better": better((57, 2, 18)),
        "cublas 4096": own[4096, 4096, 4096].cublas_ms,
    }
    of_squares, of_fetched, of_copied = (
        [own[size].percent_of_searched for size in sizes] for sizes in (SQUARES, FETCHED, COPIED)
    )
    least = {
        "least": (1, 4097, 4097),
        "column": (4096, 1, 4096),
        "outer": (1024, 1024, 1),
        "long": (512, 512, 16384),
        **{f"s{n}": (n,) * 3 for n in (1408, 3200, 3840)},
    }
    return {
        **{name: f"{1e3 * ms:.1f} µs" for name, ms in shown.items()},
        **{name: f"{own[size].percent_of_searched:.0f}%" for name, size in least.items()},
        "card": card().name,
        "sms": str(card().sms),
        "settings": str(len(any_shape.SETTINGS)),
        "handed": str(len(hands)),
        "third": str(len(third)),
        "short mean": f"{geometric_mean(shares_of(short, third)):.0f}%",
        "third mean": f"{geometric_mean(shares_of(KERNEL, third)):.0f}%",
        "bf16 mean": f"{geometric_mean(shares_of(bf16, third)):.0f}%",
        "layers": str(len(layers)),
        "layers mean": f"{geometric_mean(layers):.0f}%",
        "layers least": f"{min(layers):.0f}%",
        "chance": f"{chance:.0%}",
        "squares": str(len(SQUARES)),
        "squares mean": f"{geometric_mean(of_squares):.1f}%",
        "shapes won": str(won(SHAPES)[0]),
        "shapes lost": str(won(SHAPES)[1]),
        "fetched": str(len(fetched)),
        "fetched shapes": str(len(of_fetched)),
        "fetched mean": f"{geometric_mean(of_fetched):.0f}%",
        "copied shapes": str(len(of_copied)),
        "copied mean": f"{geometric_mean(of_copied):.0f}%",
        "median": f"{median(map(abs, off)):.0%}",
        "missed": str(sum(abs(each) > 0.2 for each in off)),
        "large": f"{min(large):.0%} to {max(large):.0%}",
        "shuffled": f"{min(gains):.0%} to {max(gains):.0%}",
        "slower": str(len(gains)),
        "overlap": f"{saved[n512]:.0%} and {saved[tiny]:.0%}",
        "memory": f"{any_shape.MEMORY / 1e6:.2f} MB",
        "turn small": f"{fewest(setting(64, 64, 2), n1024)[0]:.1f} µs",
        "turn large": f"{fewest(setting(64, 128), n1024)[0]:.1f} µs",
        "in l2": str(sum(any_shape.moved(*size) <= card().l2_bytes for size in own)),
        "products": str(len(own)),
        "added": f"{min(added):.0f}% to {max(added):.0f}%",
    }
