"""Chapter 22: who gets which pieces, what the model expects, and all shapes beside cuBLAS."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

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
from ..records.shapes import SQUARES
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


def launched(size: Size) -> Launch:
    """Return what 22 launches for a product on the shown card."""
    return KERNEL.resolve(imagined(*size, types=KERNEL.types), Place(card().architecture, card().sms))


def chosen(size: Size) -> tuple[str, int, float]:
    """Return what is launched, its shared tiles, and the µs that the model expects of it, without copies."""
    launch = launched(size)
    of, shared = launch.kernel.parameters, launch.division.counts.get("shared", 0)
    clusters = launch.division.blocks // of["CLUSTER"]
    kernel = f"{launch.kernel.name[:2]}: {of['BM']}×{of['BN']}, {clusters} × {of['CLUSTER']} blocks"
    return kernel, shared, any_shape.cost(of, size, shared, clusters)


def choices(sizes: Iterable[Size]) -> Table:
    """Return at each size what is launched, and the time that the model expects beside the recorded one."""
    rows = [
        (times_of(size), what, shared, f"{expected:.1f} → {us:.1f}", f"{us / expected - 1:+.0%}")
        for size in sizes
        for (what, shared, expected), us in [(chosen(size), 1e3 * points()[size].ms)]
    ]
    return Table(
        ("M×N×K", "launched: tile, clusters", "shared tiles", "µs, expected → measured", "longer by"), rows, card().name
    )


def times(of: Mapping[str, int]) -> tuple[float, ...]:
    """Return the model's µs for a setting: of a step, of a step of a share, after a tile, and of a part of a sum."""
    step, end = any_shape.pace(of)
    return step, step * any_shape.SHARED, end, any_shape.PART + of["BM"] * of["BN"] * 4 / any_shape.ADD


def pencil() -> Table:
    """Return `times` of all settings."""
    rows = [(f"{of['BM']}×{of['BN']}", of["CLUSTER"], *(f"{us:.3f}" for us in times(of))) for of in any_shape.SETTINGS]
    heads = ("a block's tile", "blocks", "a step", "a step of a share", "end of a tile", "each part of a sum")
    return Table(heads, rows, f"µs by the model, {card().name}")


def measured() -> Table:
    """Return the times of 20, of 22 without a part, and of 22, beside the better opponent's."""
    kernels = BEFORE, OWN_NUMBER, WHOLE, OVERLAP, KERNEL
    rows = [
        (times_of(size), *(1e3 * points(of)[size].ms for of in kernels), 10 * own.ms * share)
        for size in points(BEFORE)
        for own, share in [(points()[size], points()[size].percent_of_searched)]
    ]
    return Table(
        ("M×N×K", "20", "22, own numbers", "whole tiles", "one by one", "22", "better opponent"),
        rows,
        f"µs of a launch, {card().name}",
    )


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    fits = (size in SQUARES, size[1] % 8 or size[2] % 8, min(size[:2]) <= 64, True)
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
