"""The tiles of everything.cu, the ways to divide a product among clusters, and a cost model that chooses among them.

A block's multiply step takes as long as the slowest of three things: its tensor cores, what its multiprocessor gets
from L2, and what all multiprocessors get from L2 together. The model adds a start, the ends of tiles and meetings of
parts. The total is at least the time of the matrices' bytes from memory, and of the products at the power limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

BK = 64
"""The depth of a multiply step."""
CLOCK, MULTIPLY_ADDS = 1980, 2048
"""MHz of the H200, and multiply-adds of a multiprocessor's tensor cores per clock, on two operands each."""
MEASURED_ON = 132
"""Multiprocessors of the GPU that the model and the table were measured on."""
RESIDENT = {1: 132, 2: 66, 4: 30, 8: 15}
"""Clusters of so many blocks that run at the same time on it, as its driver says."""

NUMBERS = {
    "start": 2.146,
    "cluster": 0.2373,
    "deep": 0.441,
    "mma": 1.267,  # times the time of the tensor cores at full speed
    "one group": 0.5952,  # times that, where one warpgroup multiplies alone on its multiprocessor
    "turned": 1.329,
    "turns": 0.8767,
    "sm": 103.2e3,
    "l2": 7.894e6,
    "end": 0.4946,
    "out": 46.47e3,
    "hidden": 0.1417,  # the part of a tile's end that shows where warpgroups take turns
    "two": 0.09751,  # the part of it that shows where two blocks share a multiprocessor
    "meet": 0.3753,
    "part": 6.716e-05,
    "part bytes": 22.51e3,
    "memory": 3.412e6,
    "peak": 636.9e6,
    "beyond": 2.318,
    "beside": 1.047,
}
"""µs, bytes per µs, FLOP per µs and factors, fitted to the times in results.json."""


class Tile(NamedTuple):
    """Template arguments of everything.cu after T and NARROW, in its order; see there."""

    BM: int
    BN: int
    STAGES: int
    DOWN: int = 1
    ACROSS: int = 1
    DEEP: int = 1
    TURNS: int = 0
    TURNED: int = 0
    THREADS: int = 160
    BLOCKS: int = 1

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.DOWN * self.ACROSS * self.DEEP

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return (self.THREADS // 128 - (self.THREADS % 128 == 0)) * 4

    @property
    def boxes(self) -> int:
        """Boxes of B that lie side by side in a tile."""
        return -(-self.BN // BK)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: tiles and their barriers, the warps' way out, and the sums of a cluster."""
        stages = self.STAGES * (BK * (self.BM + self.boxes * BK) * 2 + 16)
        return stages + 16 + self.warps * 16 * 40 * 4 + (self.BM * self.BN * 4 if self.DEEP > 1 else 0)

    def counted(self, M: int, N: int) -> int:
        """Return how many tiles of a cluster a matrix C has."""
        return -(-M // (self.BM * self.DOWN)) * -(-N // (self.BN * self.ACROSS))

    def resident(self, multiprocessors: int) -> int:
        """Return how many clusters run at the same time."""
        return max(RESIDENT[self.cluster] * multiprocessors // MEASURED_ON, 1) * self.BLOCKS


class Plan(NamedTuple):
    """A way to divide a product: tiles that are done whole, clusters, and the steps of a share of the other tiles."""

    whole: int
    clusters: int
    per: int = 0


def tile(
    BM: int,
    BN: int,
    STAGES: int,
    DOWN: int = 1,
    ACROSS: int = 1,
    DEEP: int = 1,
    BLOCKS: int = 1,
    TURNS: int = 0,
    TURNED: int = 0,
    groups: int = 0,
) -> Tile:
    """Return a tile with as many threads as it needs.

    Where a thread has many sums, a whole warpgroup fetches, as it has registers to give away; else one warp does.
    """
    groups = 2 if TURNS else groups or (BN if TURNED else BM) // 64
    sums = BM * BN // 128 // (1 if TURNS else groups)
    fetching = 128 if groups > 1 and sums > (64 if groups == 2 else 48) else 32
    return Tile(BM, BN, STAGES, DOWN, ACROSS, DEEP, TURNS, TURNED, groups * 128 + fetching, BLOCKS)


TILES = (
    tile(128, 256, 4, 2, 1),
    tile(128, 256, 4),
    tile(256, 128, 4, 1, 2, groups=2),
    tile(256, 128, 4, 1, 2, TURNED=1),
    tile(128, 128, 6, TURNS=1),
    tile(128, 128, 6, 1, 2, TURNS=1),
    tile(128, 160, 5, 2, 1, TURNS=1),
    tile(128, 144, 5, 2, 1, TURNS=1),
    tile(64, 256, 5, 2, 1, TURNS=1),
    tile(64, 192, 6, 2, 1, TURNS=1),
    tile(128, 96, 6, 2, 1, TURNS=1),
    tile(192, 160, 4, 2, 1),
    tile(192, 144, 4, 1, 2),
    tile(192, 128, 4, 1, 2),
    tile(192, 96, 4, 1, 2),
    tile(128, 192, 5, 2, 1),
    tile(128, 176, 5, 2, 1),
    tile(128, 160, 5, 2, 1),
    tile(128, 128, 6, 1, 2),
    tile(64, 256, 5, 2, 1),
    tile(64, 192, 6),
    tile(192, 64, 6, 1, 2, TURNED=1),
    tile(64, 128, 8),
    tile(64, 128, 8, 2, 1),
    tile(64, 128, 4, 2, 1, 1, 2),
    tile(64, 128, 4, 1, 1, 1, 2),
    tile(64, 96, 8, 2, 1),
    tile(128, 64, 8, TURNED=1),
    tile(128, 64, 8, 1, 2, TURNED=1),
    tile(64, 64, 8, 1, 2),
    tile(64, 64, 6, 1, 1, 1, 2),
    tile(64, 32, 8, 1, 4),
    tile(64, 32, 6, 1, 1, 1, 2),
    tile(32, 64, 8, TURNED=1, BLOCKS=2),
    tile(32, 128, 8, TURNED=1),
    tile(64, 128, 6, 1, 1, 2),
    tile(64, 64, 8, 1, 1, 2),
    tile(64, 64, 8, 1, 1, 4),
    tile(64, 64, 4, 1, 1, 4, 2),
    tile(64, 64, 4, 1, 1, 2, 2),
    tile(64, 32, 8, 1, 1, 2),
    tile(128, 128, 4, 1, 1, 4),
    tile(64, 256, 3, 1, 1, 4),
    tile(64, 256, 3, 1, 1, 2),
)
"""What there is to choose among."""


def share(of: Tile, shape: tuple[int, int, int], whole: int, clusters: int) -> int:
    """Return the steps of each cluster's share of the tiles that are not done whole; 0 where there are none.

    Raises
    ------
    ValueError
        The division does not add up: more whole tiles than there are, or no cluster. Where the blocks of a cluster
        split K, each cluster has one piece: all tiles are whole, or all are cut into the same number of parts.
    """
    M, N, K = shape
    tiles, steps = of.counted(M, N), -(-K // BK)
    cut = tiles - whole
    if clusters < 1 or not 0 <= whole <= tiles or (cut and not steps):
        raise ValueError(f"{tiles} tiles are not divided into {whole} whole ones and {clusters} clusters' shares")
    if of.DEEP > 1:
        if clusters % tiles or (whole and clusters != tiles) or 0 < whole < tiles:
            raise ValueError(f"{clusters} clusters that split K do not fit {tiles} tiles, {whole} of them whole")
        return -(-steps // (clusters // tiles)) if cut else 0
    return -(-cut * steps // clusters)


def plans(of: Tile, shape: tuple[int, int, int], multiprocessors: int) -> Iterator[Plan]:
    """Yield the ways to divide a product that are worth a try."""
    M, N, K = shape
    tiles, steps, slots = of.counted(M, N), -(-K // BK), of.resident(multiprocessors)
    if of.DEEP > 1:
        yield Plan(tiles, tiles)
        for parts in (2, 4, 8, 16):
            per = -(-steps // parts)
            if tiles * parts <= slots and per >= 2 * of.DEEP:
                yield Plan(0, tiles * -(-steps // per), per)
        return
    yield Plan(tiles, min(tiles, slots))
    if tiles >= slots:
        rest = tiles % slots
        if rest:
            yield Plan(tiles - rest, slots, -(-rest * steps // slots))
            if (tiles > 2 * slots or rest < slots // 3) and of.BM >= 128:
                rest += slots
                yield Plan(tiles - rest, slots, -(-rest * steps // slots))
        return
    for clusters in sorted({-(-tiles * steps // -(-steps // parts)) for parts in (2, 3, 4, 6, 8)} | {slots}):
        per = -(-tiles * steps // clusters)
        if per >= 2 and slots // 3 < clusters <= slots and per < steps:
            yield Plan(0, -(-tiles * steps // per), per)


def cost(of: Tile, plan: Plan, shape: tuple[int, int, int], multiprocessors: int) -> float:
    """Return the µs that the model expects."""
    M, N, K = shape
    n, steps, shared = NUMBERS, -(-K // BK), of.counted(M, N) - plan.whole
    resident = min(plan.clusters, of.resident(multiprocessors))
    blocks = resident * of.cluster
    beside = -(-blocks // multiprocessors)  # blocks of one multiprocessor
    rounds = -(-plan.whole // resident)
    shares = 0 if not shared else 1 if plan.whole else -(-plan.clusters // resident)
    each = (rounds * steps + plan.per * shares) / of.DEEP

    rows = min(of.BM, M) + n["beyond"] * max(of.BM - M, 0)  # rows beyond the matrix arrive as zeros, at another speed
    fetched = rows * 128 / of.ACROSS + of.boxes * 8192 / of.DOWN  # from L2, by this block
    arriving = rows * 128 + of.boxes * 8192  # and in it, with what the other blocks of its cluster fetch
    multiply = of.BM * of.BN * BK / MULTIPLY_ADDS / CLOCK * n["mma"]
    multiply *= n["one group"] if of.THREADS == 160 and beside == 1 else 1
    multiply *= (n["turned"] if of.TURNED else 1) * (n["turns"] if of.TURNS else 1)
    step = max(multiply * beside, arriving * beside / n["sm"], fetched * blocks / n["l2"])
    step *= n["beside"] if beside > 1 else 1

    end = n["end"] + min(of.BM, M) * min(of.BN, N) * 4 / n["out"]
    ends = rounds + (min(plan.per / max(steps, 1), 1.0) if shared else 0)
    if of.TURNS and ends > 1:
        ending = end * (1 + (ends - 1) * n["hidden"])
    else:
        ending = end * ends * (n["two"] if beside > 1 else 1)
    total = n["start"] + n["cluster"] * (of.cluster > 1) + n["deep"] * (of.DEEP > 1) + each * step + ending
    if shared and plan.per % max(steps, 1):
        parts = -(-steps // plan.per) + (steps % plan.per > 0)
        total += n["meet"] + parts * (n["part"] + min(of.BM, M) * of.BN * 4 / of.DEEP / n["part bytes"])
    floor = n["start"] + max(2 * (M * K + K * N + 2 * M * N) / n["memory"], 2 * M * N * K / n["peak"])
    return max(total, floor) + 0.02 * total


@lru_cache(maxsize=1)
def table() -> dict[tuple[int, int, int], list[tuple[Tile, Plan]]]:
    """Return the fastest three ways by shape that were found on the GPU, the fastest first."""
    found = json.loads(Path(__file__).with_name("tuned.json").read_text(encoding="utf-8"))
    ways = {}
    for text, listed in found.items():
        shape = tuple(map(int, text.split()))
        tiles = [(Tile(*of), *division) for of, division in listed]
        ways[shape] = [(of, Plan(*division, share(of, shape, *division))) for of, *division in tiles]
    return ways


def ranked(shape: tuple[int, int, int], multiprocessors: int) -> list[tuple[float, Tile, Plan]]:
    """Return ways to do a product and the µs that the model expects, the quickest first."""
    M, N, _ = shape
    found = []
    for of in TILES:
        rows, columns = of.BM * of.DOWN, of.BN * of.ACROSS
        if rows < 4 * max(M, 64) and columns < 4 * max(N, 64):
            found += [(cost(of, plan, shape, multiprocessors), of, plan) for plan in plans(of, shape, multiprocessors)]
    return sorted(found)


def best(shape: tuple[int, int, int], multiprocessors: int) -> tuple[Tile, Plan]:
    """Return the way to do a product: the table's, on a GPU like the one that it was measured on, else the model's."""
    if multiprocessors == MEASURED_ON and shape in table():
        return table()[shape][0]
    _, of, plan = ranked(shape, multiprocessors)[0]
    return of, plan
