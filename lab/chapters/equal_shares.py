"""Chapter 22: who gets which pieces, what the model expects, and all shapes beside cuBLAS."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from statistics import geometric_mean

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Part, division
from ..draw.figure import INK, Figure
from ..experiments.ceilings import card
from ..records.shapes import FAMILIES, FAMILY_OF, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from ..variants import ANY_SHAPE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
OVERLAP, WHOLE = ANY_SHAPE
KINDS = "squares", "rows to copy", "M or N up to 64", "others"
"""What the chart tells apart; a shape is of the first that fits."""


def pieces(cluster: int, clusters: int, shared: int, tiles: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Yield a cluster's pieces as `Work` deals them out: tile, first step, and the step before which it ends."""
    first, end = (share * shared * steps // clusters for share in (cluster, cluster + 1))
    while first < end:
        tile, begin = divmod(first, steps)
        first = min(end, first - begin + steps)
        yield tile, begin, first - tile * steps
    yield from ((tile, 0, steps) for tile in range(shared + cluster, tiles, clusters))


def picture(run: Run, shared: int) -> Figure:
    """Draw the pieces of a simulated run's blocks, which are clusters of one; which of them wrote, the trace says."""
    of, (M, N) = run.kernel.parameters, run.C.shape
    across, steps = -(-N // of["BN"]), -(-run.K // of["BK"])
    tiles = -(-M // of["BM"]) * across
    written = {
        (access.block, int(offset) // 4 // N // of["BM"], int(offset) // 4 % N // of["BN"])
        for access in run.trace
        if access.array == "C"
        for offset in access.offsets
    }
    blocks = sorted({access.block for access in run.trace})
    rows = -(-M // of["BM"])  # one group: down the columns of tiles
    found = [
        Part(block, tile % rows, tile // rows, begin, end, (block, tile % rows, tile // rows) in written)
        for block in blocks
        for tile, begin, end in pieces(block, len(blocks), shared, tiles, steps)
    ]
    return division(found, len(blocks), f"{tiles} tiles of {steps} steps, {shared} of them shared", steps=8)


@lru_cache(maxsize=1)
def points() -> dict[Size, Point]:
    """Return 22's recorded points by size."""
    return {point.size: point for point in recorded(KERNEL, recording="any_shape").points}


@lru_cache(maxsize=8)
def beside(kernel: Kernel) -> dict[Size, Point]:
    """Return the recorded points of 20, or of 22 without a part."""
    return {point.size: point for point in recorded(kernel, recording="any_shape").points}


def better(point: Point) -> float:
    """Return the µs of the quicker one of cuBLAS and cuBLASLt's quickest."""
    return 1e3 * min(point.cublas_ms, point.searched.ms)


def launched(size: Size) -> Launch:
    """Return what 22 launches for a product on the shown card."""
    return KERNEL.resolve(imagined(*size, types=KERNEL.types), Place(card().architecture, card().sms))


def by_model(setting: int, size: Size) -> list[tuple[float, int, int]]:
    """Return µs, shared tiles and clusters of each division with one of 22's settings, the quickest first."""
    return any_shape.ways(tuple(any_shape.SETTINGS[setting].values()), size, card().sms)


def expected(size: Size) -> float:
    """Return the µs that the model expects of what is launched, without copies."""
    launch = launched(size)
    of, blocks = launch.kernel.parameters, launch.division.blocks
    shared = launch.division.counts.get("shared", 0)
    return any_shape.cost(of, size, shared, blocks // of["CLUSTER"], card().sms)


def measured() -> Table:
    """Return the times of 20, of 22 without a part, and of 22, beside the better opponent's."""
    rows = [
        (
            times_of(size),
            *(f"{1e3 * beside(kernel)[size].ms:#.4g}".rstrip(".") for kernel in (BEFORE, WHOLE, OVERLAP, KERNEL)),
            f"{better(points()[size]):#.4g}".rstrip("."),
        )
        for size in beside(BEFORE)
    ]
    heads = ("M×N×K", "20", "22, whole tiles", "22, one after the other", "22", "better opponent")
    return Table(heads, rows, f"µs of a launch, {card().name}")


def choices(sizes: list[Size]) -> Table:
    """Return at each size what is launched, and the time that the model expects beside the recorded one."""
    rows = []
    for size in sizes:
        launch, us = launched(size), 1e3 * points()[size].ms
        of, blocks = launch.kernel.parameters, launch.division.blocks
        what = f"{launch.kernel.name[:2]}: {of['BM']}×{of['BN']}, {blocks // of['CLUSTER']} × {of['CLUSTER']} blocks"
        off = f"{us / expected(size) - 1:+.0%}"
        shared = launch.division.counts.get("shared", 0)
        rows.append((times_of(size), what, shared, f"{expected(size):.1f} → {us:.1f}", off))
    heads = ("M×N×K", "launched: tile, clusters", "shared tiles", "µs, expected → measured", "longer by")
    return Table(heads, rows, card().name)


def families() -> Table:
    """Return the mean share of cuBLAS and of the better opponent, and the least of these, by family of shapes."""
    of = {"squares": list(SQUARES)} | {
        name: [size for size in sizes if FAMILY_OF[size] == name and size not in SQUARES]
        for name, sizes in FAMILIES.items()
    }
    rows = []
    for name, sizes in of.items():
        both = [
            [getattr(points()[size], share) for size in sizes] for share in ("percent_of_cublas", "percent_of_searched")
        ]
        worst = min(sizes, key=lambda size: points()[size].percent_of_searched)
        means = (f"{geometric_mean(each):.0f}%" for each in both)
        rows.append((name, len(sizes), *means, f"{min(both[1]):.0f}% at {times_of(worst)}"))
    heads = ("family", "products", "of cuBLAS", "of the better opponent", "least")
    return Table(heads, rows, f"Speed of 22, geometric means, {card().name}")


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    M, N, K = size
    return KINDS[next(i for i, fits in enumerate((size in SQUARES, N % 8 or K % 8, min(M, N) <= 64, True)) if fits)]


def chart() -> Figure:
    """Draw every product's speed as a percentage of the better opponent's, by its operations."""
    of = {size: (2e-9 * size[0] * size[1] * size[2], point.percent_of_searched) for size, point in points().items()}
    x, y = ([each[i] for each in of.values()] for i in (0, 1))
    picture = Chart("22 and the better of cuBLAS and cuBLASLt", (min(x) / 2, max(x) * 2), (25, 500), (),
                    "GFLOP of the product", "Percent of the better opponent's speed", (), "xy", top=92)  # fmt: skip
    picture.ticks([10.0**n for n in range(-5, 5, 2)], (25, 50, 100, 200, 400))
    picture.line([(min(x) / 2, 100), (max(x) * 2, 100)], INK, wide=1)
    for i, (name, colour) in enumerate(zip(KINDS, COLOURS, strict=True)):
        where = [at for size, at in of.items() if kind(size) == name]
        mark = "osD^"[i]
        picture.axes.plot(*zip(*where, strict=True), mark, color=dye(colour), markersize=6, markeredgewidth=0,
                          alpha=0.75, label=f"{name} ({len(where)})")  # fmt: skip
    picture.axes.legend(ncols=4, frameon=False, loc="lower left", bbox_to_anchor=(0, 1.06), handletextpad=0.1,
                        borderaxespad=0, borderpad=0, columnspacing=1.2)  # fmt: skip
    means = "; ".join(
        f"{name}: {geometric_mean(at[1] for size, at in of.items() if kind(size) == name):.0f}%" for name in KINDS
    )
    return picture.finish(f"Speed of 22 as a percentage of the better opponent's, at {len(of)} products. Mean {means}.")
