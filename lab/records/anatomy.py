"""What cuBLAS launches for a product: which kernels, with what tiles, grids and registers, and what keeps them busy.

The names of its kernels tell the tile, its depth and the number of stages. cuBLAS counts columns first, so that the
rows of its tiles are columns of our C.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from . import files, profiles
from .counters import made
from .files import Recording, Sized
from .shapes import SQUARES
from .sizes import Size, times_of

METRICS = {
    "registers": "launch__registers_per_thread",
    "static shared bytes": "launch__shared_mem_per_block_static",
    "dynamic shared bytes": "launch__shared_mem_per_block_dynamic",
    "nanoseconds": "gpu__time_duration.sum",
}
"""Our name of each metric and Nsight Compute's, of every launch."""

SIZES: tuple[Size, ...] = (
    *(size for size in SQUARES if size[0] <= 8192),
    *((1, 4096, 4096), (4096, 1, 4096), (16, 4096, 4096), (4096, 16, 4096), (64, 4096, 4096), (4096, 64, 4096)),
    *((64, 64, 16384), (256, 256, 65536), (65536, 64, 64), (4096, 4096, 16), (1023, 1023, 1023), (1024, 50257, 768)),
)
"""Products of which it is recorded what cuBLAS launches."""

CLOSELY: tuple[Size, ...] = tuple((n, n, n) for n in (256, 512, 1024, 2048, 2560, 4096))
"""Of these also `profiles.METRICS`, and the same of 12."""


@dataclass(frozen=True)
class Launch:
    """One kernel of a product.

    Attributes
    ----------
    name : str
        As Nsight Compute has it.
    grid, block : list of int
        Blocks and threads, in three dimensions.
    counts : dict of str to number
        By the names of `METRICS`, and of `profiles.METRICS` where it was looked at closely.
    """

    name: str
    grid: list[int] = field(hash=False)
    block: list[int] = field(hash=False)
    counts: dict[str, int | float] = field(hash=False)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def shared_bytes(self) -> int | float:
        """Shared memory of a block."""
        return self.counts["static shared bytes"] + self.counts["dynamic shared bytes"]


@dataclass(frozen=True)
class Dissected(Sized):
    """What was launched for one product, in order."""

    launches: list[Launch] = field(hash=False)

    @property
    def main(self) -> Launch:
        """The launch that takes longest."""
        return max(self.launches, key=lambda launch: launch.counts["nanoseconds"])


class Tile(NamedTuple):
    """What the name of a kernel of cuBLAS tells; None is what it does not."""

    rows: int
    columns: int
    depth: int | None
    stages: int | None


_NAMES = (
    r"tilesize(\d+)x(\d+)x(\d+)_stage(\d+)",
    r"gemm_(?:\w+?_)?(\d+)x(\d+)_(\d+)x(\d+)_",
    r"gemm_(?:\w+?_)?(\d+)x(\d+)(?:x(\d+))?()(?!\d)",
)


def tile_of(name: str) -> Tile | None:
    """Return the tile that a kernel's name tells, and nothing of one that multiplies no tiles."""
    for pattern in _NAMES:
        match = re.search(pattern, name)
        if match:
            return Tile(*(int(part) if part else None for part in match.groups()))
    return None


def short(name: str) -> str:
    """Return a kernel's name without its return type, namespaces, arguments and the template round it."""
    inner = re.search(r"<\s*((?:\w+::)*\w*gemm\w*)\s*>", name)
    return (inner[1] if inner else re.sub(r"^void |<.*|\(.*", "", name)).rpartition("::")[2]


def of(what: Kernel | Gemm, size: Size) -> Dissected:
    """Return what was launched for a product by cuBLAS, or by a kernel as it is now.

    Raises
    ------
    ArgumentError
        It was not recorded.
    """
    return files.point("anatomy", Dissected, what, size)


def launches_table(sizes: Sequence[Size] = SIZES) -> Table:
    """Return what cuBLAS launches, size by size; neighbouring squares of the same kernels share a row.

    Of a group the figures are those of its last.
    """
    rows = []
    points = [of(cublas.sgemm, size) for size in sizes]

    def alike(point: Dissected) -> tuple:
        square = point.M == point.N == point.K
        return tuple(short(launch.name) for launch in point.launches), None if square else point.size

    for (names, _), group in groupby(points, key=alike):
        same = list(group)
        main, tile = same[-1].main, tile_of(same[-1].main.name)
        rows.append(
            (
                " to ".join(dict.fromkeys(times_of(point.size) for point in (same[0], same[-1]))),
                f"{tile.rows}×{tile.columns}" if tile else None,
                tile and tile.depth,
                tile and tile.stages,
                "×".join(map(str, main.grid)),
                main.threads,
                main.counts["registers"],
                main.shared_bytes,
                " and ".join(names),
            )
        )
    columns = ("M×N×K", "tile", "depth", "stages", "grid", "threads", "registers", "shared bytes", "kernels")
    return Table(columns, rows, "What cuBLAS launches", made("anatomy", Recording[Dissected]))


def profile_table() -> Table:
    """Return how busy cuBLAS's main kernel and 12 keep the SMs, and what their warps wait for most."""
    rows = []
    for size in CLOSELY:
        for name, what in (("cuBLAS", cublas.sgemm), ("12", find("12"))):
            counts = of(what, size).main.counts
            rows.append(
                (
                    times_of(size),
                    name,
                    f"{counts['issue slots used, %']:.0f}%",
                    f"{counts['FMA pipes used, %']:.0f}%",
                    f"{counts['FFMA'] / 32 / counts['all']:.0%}",
                    counts["cycles between a warp's instructions"],
                    profiles.longest(counts),
                )
            )
    columns = ("M×N×K", "", "issue slots", "FMA pipes", "FFMA of all", "cycles per instruction", "most time")
    note = f"{made('anatomy', Recording[Dissected])}. The kernel that takes longest."
    return Table(columns, rows, "What keeps them busy", note)
