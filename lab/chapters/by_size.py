"""The page on speed by size: shares of cuBLAS, and what whole tiles on whole SMs make of a size."""

from collections.abc import Iterable

import numpy as np

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw import Figure, lines
from ..draw.figure import BLUE, LINE, MARGIN, PALE, Page
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy
from ..model.waves import tile_share, wave_share
from ..records.timings import Point, climb, recorded

RUNGS = LADDER[:11]
SIZES = range(256, 4097, 128)


def points() -> dict[tuple[str, int], Point]:
    """Return the recorded points of kernels 01 to 11, by number and size."""
    return {(point.kernel[:2], point.M): point for point in recorded(RUNGS, SIZES).points}


def best(sizes: Iterable[int] = SIZES) -> dict[int, Point]:
    """Return the point of the fastest kernel at each size."""
    of = points()
    return {size: min((of[kernel.name[:2], size] for kernel in RUNGS), key=lambda point: point.ms) for size in sizes}


def table(sizes: Iterable[int]) -> Table:
    """Return the fastest kernel at each size, with its tile and its share of cuBLAS, and that of kernel 11.

    Where it is 10, and 11 takes less than 0.5% longer, the two are named together.
    """
    rows, of = [], points()
    for size, point in best(sizes).items():
        shares = (f"{each.percent_of_cublas:.0f}%" for each in (point, of["11", size]))
        name = "10 or 11" if point == of["10", size] and of["11", size].ms < 1.005 * point.ms else point.kernel
        rows.append((size, name, " × ".join(str(point.parameters[side]) for side in ("BM", "BN")), *shares))
    return Table(
        ("M = N = K", "fastest", "its tile", "of cuBLAS", "kernel 11"),
        rows,
        card().name,
        "10 or 11: 11 takes 0.5% more at most.",
    )


def every() -> Table:
    """Return all shares of cuBLAS at all sizes, with a star at the fastest kernel of each."""
    of, fastest, numbers = points(), best(), [kernel.name[:2] for kernel in RUNGS]
    rows = [
        (size, *(f"{'*' * (of[n, size] == fastest[size])}{of[n, size].percent_of_cublas:.0f}%" for n in numbers))
        for size in SIZES
    ]
    return Table(("size", *numbers), rows, f"Percent of cuBLAS, {card().name}; * the fastest")


def used(kernel: Kernel | str, size: int) -> float:
    """Return the share of the GPU's work that is of use if each round gives every SM one block, or none."""
    return tile_share(kernel, size, size) * wave_share(find(kernel).grid(size, size), card().sms)


def rounds(kernel: Kernel | str, sizes: Iterable[int]) -> Figure:
    """Draw a GPU's SMs as boxes, once for each round of tiles, with those that have a tile filled."""
    row, box, kernel, sms = 44, 14, find(kernel), card().sms
    tiles = {size: kernel.grid(size, size) for size in sizes}
    taken = [(size, start, min(count - start, sms)) for size, count in tiles.items() for start in range(0, count, sms)]
    pitch = LINE + box * -(-sms // row) + 8
    sheet = Page(LINE + pitch * len(taken) + 8, title=f"Kernel {kernel.name[:2]} on {sms} SMs")
    texts = []
    for line, (size, start, busy) in enumerate(taken):
        top = LINE + 8 + line * pitch
        texts.append(f"{size}, round {start // sms + 1} of {-(-tiles[size] // sms)}: {busy} SMs have a tile")
        sheet.text(MARGIN, top + LINE - 7, texts[-1])
        boxes = [(MARGIN + i % row * box, top + LINE + i // row * box, box - 2, box - 2) for i in range(sms)]
        sheet.boxes(boxes[:busy], BLUE)
        sheet.boxes(boxes[busy:], PALE)
    return sheet.finish("; ".join(texts) + ".")


def level(kernel: Kernel | str) -> float:
    """Return the TFLOP/s that a kernel would have if all were used, from its speed at 2048 alone."""
    return points()[find(kernel).name[:2], 2048].tflops / used(kernel, 2048)


def off(kernel: Kernel | str) -> float:
    """Return how far `level` and the shares that are used are off the speeds, as a root mean square, of their mean."""
    of, number, sizes = points(), find(kernel).name[:2], [size for size in SIZES if size >= 1024]
    speed, share = (
        np.array(each) for each in zip(*((of[number, s].tflops, used(kernel, s)) for s in sizes), strict=True)
    )
    return np.sqrt(np.mean((speed - level(kernel) * share) ** 2)) / speed.mean()


def teeth(kernel: Kernel | str) -> Figure:
    """Draw the recorded speed by size, what follows from `used` and `level`, and cuBLAS's speed."""
    number, of, most = find(kernel).name[:2], points(), level(kernel)
    drawn = {
        f"{number}, measured": [(size, of[number, size].tflops) for size in SIZES],
        f"{number}, computed": [(size, most * used(kernel, size)) for size in SIZES],
        "cuBLAS": [(size, cublas(of[number, size])) for size in SIZES],
    }
    return lines(f"Kernel {number} and cuBLAS", drawn, "Across: M = N = K. Up: TFLOP/s.", " TFLOP/s")


def cublas(point: Point) -> float:
    """Return cuBLAS's TFLOP/s at a point."""
    return point.tflops * point.ms / point.cublas_ms


def per_round(number: str) -> tuple[dict[int, int], dict[int, float]]:
    """Return a kernel's rounds by size, from 1,024 on, and how many nanoseconds a round takes for each k."""
    of, rounds = points(), {size: -(-find(number).grid(size, size) // card().sms) for size in SIZES if size >= 1024}
    return rounds, {size: 1e6 * of[number, size].ms / size / count for size, count in rounds.items()}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    of, fastest, most = points(), best(), level("11")
    ahead = [point for point in fastest.values() if point.percent_of_cublas > 100]
    worst = min((size for size in SIZES if size >= 1024), key=lambda size: fastest[size].percent_of_cublas)
    assert {point.kernel[:2] for point in ahead} == {"08", "09"} and [
        fastest[size].kernel[:2] for size in (512, 1152, 1280, 1536, 2176)
    ] == ["03", "09", "09", "08", "08"]
    twelve = [p for p in climb(list(SIZES)).points if p.kernel[:2] == "12" and p.ms < fastest[p.M].ms]
    small, large = of["11", 2048], of["11", 2176]
    assert card().sms == 132 and large.ms > 2.1 * small.ms and find("03").grid(512, 512) == 256
    tie = max(abs(of["10", size].ms / of["11", size].ms - 1) for size in SIZES if size >= 2048)
    turns, per_k = per_round("11")
    assert max(per_k[size] for size in range(1024, 4097, 256)) < 1.03 * min(
        per_k[size] for size in range(1024, 4097, 256)
    ) and all(max(per_k[size - 128], per_k[size + 128]) < per_k[size] for size in per_k if size % 256)
    even = [per_k[size] for size in range(1024, 4097, 256)]
    slope, fixed = np.polyfit(SIZES[:15:2], [1e6 * of["11", size].ms for size in SIZES[:15:2]], 1)  # nanoseconds
    edges = [turns[s] * (per_k[s] - (per_k[s - 128] + per_k[s + 128]) / 2) for s in per_k if s % 256]
    assert tie < 0.011 and all(
        abs(1e6 * of["11", size].ms - fixed - slope * size) < 1500 < fixed and turns.get(size, 1) == 1
        for size in SIZES[:15:2]
    )
    nine, misses = [of["09", size] for size in (1280, 1536)], {number: off(number) for number in ("08", "09", "11")}
    assert [kernel_occupancy(find(number), card()).blocks_per_sm for number in misses] == [3, 2, 1]
    assert misses["11"] < misses["09"] < 0.05 < misses["08"]
    assert [find("09").grid(size, size) for size in (1280, 1536)] == [100, 144] and 6 < min(edges) < max(edges) < 16
    return {
        "twelve": str(len(twelve)),
        "fixed": f"{fixed / 1e3:.1f} µs",
        "slope": f"{slope:.1f} ns",
        "edges": f"{min(edges):.0f} to {max(edges):.0f} ns",
        "nine": f"{nine[1].ms / nine[0].ms:.2f}",
        "nine predicted": f"{2 * 1536 / 1280:.2f}",
        "shared": f"{nine[1].ms / nine[0].ms / 1.2:.2f}",
        "eight": f"{of['08', 1024].tflops:.0f} TFLOP/s instead of {level('08') * used('08', 1024):.0f}",
        "slower": f"{1 - large.tflops / small.tflops:.0%}",
        "off 09": f"{misses['09']:.1%}",
        "off 08": f"{misses['08']:.0%}",
        "sizes": str(len(fastest)),
        "ahead": str(len(ahead)),
        "worst": f"{worst:,}",
        "worst share": f"{fastest[worst].percent_of_cublas:.0f}%",
        "last 512": f"{of['11', 512].percent_of_cublas:.0f}%",
        "last 4096": f"{of['11', 4096].percent_of_cublas:.0f}%",
        "tie": f"{tie:.0%}",
        "small ms": f"{small.ms:.3f} ms",
        "large ms": f"{large.ms:.3f} ms",
        "longer": f"{large.ms / small.ms:.2f}",
        "level": f"{most:.1f} TFLOP/s",
        "off": f"{misses['11']:.1%}",
        "each k 2048": f"{per_k[2048]:.1f} ns",
        "each k": f"{min(even):.0f} to {max(even):.0f} ns",
        "cublas high": f"{cublas(small):.0f} TFLOP/s",
        "cublas low": f"{cublas(of['11', 2304]):.0f} TFLOP/s",
        "finer": f"{fastest[2176].percent_of_cublas:.0f}%",
        "coarse": f"{large.percent_of_cublas:.0f}%",
        "finer 4096": f"{of['08', 4096].percent_of_cublas:.0f}%",
    }
