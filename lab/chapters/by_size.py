"""The page on speed by size: shares of cuBLAS, and what whole tiles on whole SMs make of a size."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..draw import Figure, lines
from ..experiments.ceilings import card
from ..model.waves import tile_share, wave_share
from ..records.timings import Point, recorded

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
    """Return the fastest kernel at each size, with its tile and its share of cuBLAS, and that of kernel 11."""
    rows, of = [], points()
    for size, point in best(sizes).items():
        tile = f"{point.parameters['BM']} × {point.parameters['BN']}"
        shares = (f"{each.percent_of_cublas:.0f}%" for each in (point, of["11", size]))
        rows.append((size, point.kernel, tile, *shares))
    return Table(("M = N = K", "fastest", "its tile", "of cuBLAS", "kernel 11"), rows, card().name)


def every() -> Table:
    """Return all shares of cuBLAS at all sizes."""
    of, numbers = points(), [kernel.name[:2] for kernel in RUNGS]
    rows = [(size, *(f"{of[number, size].percent_of_cublas:.0f}%" for number in numbers)) for size in SIZES]
    return Table(("size", *numbers), rows, f"Percent of cuBLAS, {card().name}")


def used(kernel: Kernel | str, size: int) -> float:
    """Return the share of the GPU's work that is of use: what whole tiles leave, times what the busiest SM leaves."""
    return tile_share(kernel, size, size) * wave_share(find(kernel).grid(size, size), card().sms)


def rounds(kernel: Kernel | str, sizes: Iterable[int]) -> Table:
    """Return how many tiles there are at each size, how many the busiest SM has, what is used, and the speed."""
    rows, of, kernel = [], points(), find(kernel)
    for size in sizes:
        tiles, share = kernel.grid(size, size), of[kernel.name[:2], size].percent_of_cublas
        rows.append((size, tiles, -(-tiles // card().sms), f"{used(kernel, size):.0%}", f"{share:.0f}%"))
    title = f"Kernel {kernel.name[:2]} on {card().sms} SMs"
    return Table(("M = N = K", "tiles", "on the busiest SM", "used", "of cuBLAS"), rows, title)


def fitted(kernel: Kernel | str) -> tuple[float, float]:
    """Return the TFLOP/s that would be there if all were used, fitted from 1,024 on, and by which part that is off."""
    of, large = points(), [size for size in SIZES if size >= 1024]
    speeds = np.array([of[find(kernel).name[:2], size].tflops for size in large])
    shares = np.array([used(kernel, size) for size in large])
    level = speeds @ shares / (shares @ shares)
    return level, np.sqrt(np.mean((speeds - level * shares) ** 2)) / speeds.mean()


def teeth(kernel: Kernel | str) -> Figure:
    """Draw the recorded speed by size, and what follows from `used` and one number."""
    number, of, (level, _) = find(kernel).name[:2], points(), fitted(kernel)
    drawn = {
        "measured": [(size, of[number, size].tflops) for size in SIZES],
        "computed": [(size, level * used(kernel, size)) for size in SIZES],
    }
    return lines(f"Kernel {number}", drawn, "Across: M = N = K. Up: TFLOP/s.", " TFLOP/s")
