"""Chapter 22: who gets which pieces, what the model expects, and all shapes beside cuBLAS."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
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
from ..experiments import sustained
from ..experiments.ceilings import card
from ..paths import RESULTS
from ..records.shapes import FAMILIES, LAYERS, SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from ..variants import ANY_SHAPE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
OVERLAP, OWN_NUMBER, WHOLE = ANY_SHAPE
SHORT = find("22", BITS=16)
"""22 with a C of 16 bits."""
WAYS = "rows fetched", "rows copied", "without tensor cores"
"""How 22 does a product: tensor cores multiply its rows as they are, or as `pad` copies them, or `thin` does it all."""
H100 = RESULTS / "h100/any_shape.json"
KINDS = ("squares", *WAYS)
"""What the chart tells apart; a product is of the first that fits."""


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
def points(kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> dict[Size, Point]:
    """Return the recorded points of 22, of 22 without a part, or of 20, by size."""
    return {point.size: point for point in recorded(kernel, recording=recording).points}


def launched(size: Size) -> Launch:
    """Return what 22 launches for a product on the shown card."""
    return KERNEL.resolve(imagined(*size, types=KERNEL.types), Place(card().architecture, card().sms))


@lru_cache
def way(size: Size) -> str:
    """Return which of `WAYS` a product goes."""
    return WAYS[2 if launched(size).kernel.name != KERNEL.name else size[1] % 8 + size[2] % 8 > 0]


def by_way() -> dict[str, list[Size]]:
    """Return the shapes that go each of `WAYS`."""
    return {name: [size for size in SHAPES if way(size) == name] for name in WAYS}


def chosen(size: Size) -> tuple[str, int, float]:
    """Return the tile that 22 takes, its shared tiles, and the µs that the model expects of it and of copies."""
    launch = launched(size)
    of, shared = launch.kernel.parameters, launch.division.counts["shared"]
    clusters = launch.division.blocks // of["CLUSTER"]
    tile = f"{of['BM']}×{of['BN']}, {clusters} × {of['CLUSTER']} blocks"
    copying = any_shape.copying(imagined(*size, types=KERNEL.types))
    return tile, shared, any_shape.cost(of, size, shared, clusters, card().sms) + copying


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


def setting(*of: int) -> Mapping[str, int]:
    """Return the setting of this BM, BN, and CLUSTER and BLOCKS, which are 1 unless given."""
    wanted = (*of, 1, 1)[:4]
    return next(of for of in any_shape.SETTINGS if tuple(map(of.get, ("BM", "BN", "CLUSTER", "BLOCKS"))) == wanted)


def tile_of(of: Mapping[str, int]) -> str:
    """Return a setting in a few characters."""
    return f"{of['BM']}×{of['BN']}, " + ("two on an SM" if of["BLOCKS"] > 1 else f"clusters of {of['CLUSTER']}")


def pencil(*settings: Mapping[str, int]) -> Table:
    """Return `times` of some settings."""
    rows = [(tile_of(of), *(f"{us:.3f}" for us in times(of))) for of in settings]
    heads = ("a block's tile", "a step", "a step of a share", "end of a tile", "each part of a sum")
    return Table(heads, rows, f"µs by the model, {card().name}")


def worked(size: Size, *settings: Mapping[str, int]) -> Table:
    """Return the sum of the model's times for settings that cut each tile of a product into a few shares."""
    K, memory, columns = size[2], hidden(size), []
    for of in settings:
        (expected, tiles, clusters), (_, step, end, part) = fewest(of, size), times(of)
        each, launch = clusters // tiles, any_shape.START + any_shape.CLUSTERED * (of["CLUSTER"] > 1)
        groups = [each] if each <= any_shape.TOGETHER else [any_shape.TOGETHER, each // any_shape.TOGETHER]
        ran, met = (steps := K // any_shape.BK // each) * step, len(groups) * any_shape.MEET + sum(groups) * part
        assert abs(launch + ran + end + met + memory - expected) < 0.001
        columns.append(
            (
                f"{tiles}, of {K // any_shape.BK} steps",
                f"{each}, so {clusters} clusters",
                f"{launch:.3f}",
                f"{steps} · {step:.3f} = {ran:.2f}",
                f"{end:.3f}",
                f"{len(groups)} · {any_shape.MEET:.2f} + {sum(groups)} · {part:.3f} = {met:.2f}",
                f"{memory:.2f}",
                f"{expected:.1f}",
            )
        )
    heads = ("tiles of a cluster", "shares of a tile", "launch", "steps of a share", "end of a tile",
             "meetings, and parts", f"{any_shape.HIDDEN:.0%} of memory's time", "sum, µs")  # fmt: skip
    return Table(("", *map(tile_of, settings)), list(zip(heads, *columns, strict=True)), times_of(size))


def hidden(size: Size) -> float:
    """Return the µs of memory's time that count where clusters take longer."""
    return any_shape.HIDDEN * (any_shape.START + any_shape.moved(*size) / any_shape.MEMORY)


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


def families() -> Table:
    """Return how 22 does beside the better opponent, family by family, and for all shapes by the way that they go."""
    sizes = {"squares": SQUARES, **{name: sorted(set(of)) for name, of in FAMILIES.items()}}
    sizes |= {f"all shapes, {name}": of for name, of in by_way().items()} | {"all shapes": SHAPES}
    rows = []
    for name, of in sizes.items():
        least, worst = min((points()[size].percent_of_searched, size) for size in of)
        rows.append((name, len(of), *won(of), f"{mean(of):.0f}%", f"{least:.0f}% at {times_of(worst)}"))
    heads = ("family", "products", "over 105%", "under 95%", "geometric mean", "least")
    return Table(heads, rows, f"Percent of the better opponent's speed, {card().name}")


def mean(sizes: Iterable[Size], of: Mapping[Size, Point] | None = None) -> float:
    """Return the geometric mean of the percentages of the better opponent's speed, of 22's unless other points."""
    return geometric_mean((of or points())[size].percent_of_searched for size in sizes)


def won(sizes: Iterable[Size]) -> tuple[int, int]:
    """Return at how many of these 22 has over 105% of the better opponent's speed, and at how many under 95%."""
    share = [points()[size].percent_of_searched for size in sizes]
    return sum(each > 105 for each in share), sum(each < 95 for each in share)


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    return KINDS[0] if size in SQUARES else way(size)


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
    own, tiny, n512, n1024, two = points(), (256,) * 3, (512,) * 3, (1024,) * 3, (57, 2, 18)
    before, whole, number, late = (points(of) for of in (BEFORE, WHOLE, OWN_NUMBER, OVERLAP))
    beside = [[of[size].cublas_ms for of in (before, whole, number, late, own)] for size in before]
    chance = max(max(each) / min(each) - 1 for each in beside)
    saved, shares, shuffled = ({size: of[size].ms / own[size].ms - 1 for size in of} for of in (late, whole, number))
    off = {size: 1e3 * point.ms / chosen(size)[2] - 1 for size, point in own.items() if way(size) != WAYS[2]}
    large = [off[size] for size in SQUARES if size[0] >= 3200]
    added = [point.percent_of_cublas for point in recorded(KERNEL, recording="added").points]
    lasting = [100 * sustained.cublas_ms(KERNEL, n) / sustained.of(KERNEL, n).ms for n in (2048, 3072, 4096, 8192)]
    assert {size for size, gain in shares.items() if abs(gain) > chance} == {deep, vector, thin}
    gains = [gain for gain in shuffled.values() if gain > chance]
    assert {thin, huge} == {size for size, gain in shuffled.items() if gain <= chance}
    overlapped = {size: gain for size, gain in saved.items() if gain > chance}
    assert set(overlapped) == {tiny, n512, vector, odd} and min(saved.values()) > -chance
    assert set(before) <= set(off) and not any(
        launched(size).division.counts["shared"] for size in (tiny, n512, n1024, odd, huge)
    )
    shown = {
        "deep": own[deep].ms,
        "deep before": before[deep].ms,
        "deep whole": whole[deep].ms,
        "deep better": better(deep),
        "odd": own[odd].ms,
        "odd before": before[odd].ms,
        "odd better": better(odd),
        "small before": before[tiny].ms,
        "small better": better(tiny),
        "turn": own[n1024].ms,
        "two": own[two].ms,
        "two better": better(two),
        "two by 22": min(fewest(of, two)[0] for of in any_shape.SETTINGS) / 1e3,
        "two copied": any_shape.copying(imagined(*two, types=KERNEL.types)) / 1e3,
        "cublas 4096": own[4096, 4096, 4096].cublas_ms,
    }
    least = {
        "least": (1, 4097, 4097),
        "long": (512, 512, 16384),
        **{f"s{n}": (n,) * 3 for n in (1408, 3200, 3840)},
    }
    assert min(own, key=lambda size: own[size].percent_of_searched) == least["least"]
    means = {
        "all": mean(SHAPES),
        "squares": mean(SQUARES),
        "fp16": mean(SHAPES[::3]),
        "bf16": mean(SHAPES[::3], points(find("22", T="__nv_bfloat16"))),
        "short": mean(SHAPES[::3], points(SHORT)),
        "layers": mean(LAYERS, points(SHORT)),
        "h100": mean(SHAPES, points(recording=H100)),
        "h100 squares": mean(SQUARES, points(recording=H100)),
    }
    return {
        **{name: f"{1e3 * ms:.1f} µs" for name, ms in shown.items()},
        **{name: f"{own[size].percent_of_searched:.0f}%" for name, size in least.items()},
        "card": card().name,
        "sms": str(card().sms),
        "settings": str(len(any_shape.SETTINGS)),
        "chance": f"{chance:.0%}",
        "squares": str(len(SQUARES)),
        "shapes": str(len(SHAPES)),
        "shapes lost": str(won(SHAPES)[1]),
        "layers least": f"{min(points(SHORT)[size].percent_of_searched for size in LAYERS):.0f}%",
        "handed over": str(len(by_way()[WAYS[2]])),
        **{f"{name} mean": f"{each:.0f}%" for name, each in means.items()},
        "alone": str(len(off)),
        "median": f"{median(map(abs, off.values())):.0%}",
        "missed": str(sum(abs(each) > 0.2 for each in off.values())),
        "large": f"{min(large):.0%} to {max(large):.0%}",
        "shuffled": f"{min(gains):.0%} to {max(gains):.0%}",
        "overlap": f"{min(overlapped.values()):.0%} to {max(overlapped.values()):.0%}",
        "memory": f"{any_shape.MEMORY / 1e6:.2f} MB",
        "hidden": f"{any_shape.HIDDEN:.0%}",
        "turn memory": f"{hidden(n1024):.2f} µs",
        "turn small": f"{fewest(setting(64, 64, 2), n1024)[0]:.1f} µs",
        "turn large": f"{fewest(setting(64, 128), n1024)[0]:.1f} µs",
        "in l2": str(sum(any_shape.moved(*size) <= card().l2_bytes for size in own)),
        "products": str(len(own)),
        "added": f"{min(added):.0f}% to {max(added):.0f}%",
        "lasting": f"{min(lasting):.0f}% to {max(lasting):.0f}%",
    }
