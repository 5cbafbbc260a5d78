"""Chooses the tile of kernel 22 for a problem, and divides its work among clusters of blocks that stay.

A model gives the µs of each choice. It knows how fast a multiprocessor multiplies and fetches, what L2 and memory give
to all of them together, and the times of a launch, of the end of a tile, and of parts of sums that meet. It was fitted
to some 6,000 times on an H200; on another GPU only the order of the choices counts. Nothing is measured at a call, and
the same problem is always done in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import cupy
import numpy as np

from ptxsim import ALIGNMENT, SWIZZLE

from .. import gpu, simulator
from ..errors import ArgumentError
from ..kernel import Kernel
from ..launch import SIMULATOR, Box, Division, Place, nothing, trial
from ..operands import FP16, INT_MAX, Problem
from .hopper import BOX, MMA, PERSISTENT, Persistent, addressable

PARAMETERS = ("BM", "BN", "BK", "WM", "WN", "STAGES", "THREADS", "CLUSTER", "BLOCKS")
"""22's template parameters after T, in the source's order."""
BK, GROUP, PATCH_BYTES = 64, 1536, 16 * 40 * 4
"""Depth of a multiply step, rows of C in a group, and shared memory of each warp on the way to C."""
CHUNK = ALIGNMENT // 2
"""Elements of 16 bits in 16 bytes."""
PAD_BLOCKS = 1056
"""Blocks of `PAD` at most: eight for each SM of an H200."""

START, CLUSTERED = 2.04, 0.09  # µs of a launch, and more of one in clusters
MULTIPLY_ADDS, ALONE = 2.7e6, 1.29  # of an SM per µs, and how much longer they take a warpgroup that is alone there
SM, L2, MEMORY = 80.8e3, 9.04e6, 3.21e6  # bytes per µs that one SM takes, and that L2 and memory give to all
STEP, FLIGHT = 0.2, 1.27  # µs of a multiply step at least, and from the request for a tile to its arrival
PEAK = 678e6  # floating-point operations per µs of all SMs at the power limit
END, OUT, RAGGED = 0.657, 61.8e3, 2.8  # µs after a tile's last step, bytes of C per µs, how much longer where ragged
LATE = 0.155  # the part of that time which 20 spends waiting, except after its last tile
SHARED, MEET, PART, ADD = 1.02, 1.8, 0.031, 97e3  # of shares: longer steps; µs to meet, and of a part; its bytes per µs
FLAT = 0.02  # of the time that is hidden by a limit, so that the quicker of two is still found


def setting(BM: int, BN: int, STAGES: int, CLUSTER: int = 1, BLOCKS: int = 1) -> dict[str, int]:
    """Return template arguments."""
    threads = 160 if BM == 64 else 384
    return dict(zip(PARAMETERS, (BM, BN, BK, 16, BN, STAGES, threads, CLUSTER, BLOCKS), strict=True))


SETTINGS = (
    setting(64, 32, 12),
    setting(64, 64, 6, BLOCKS=2),
    setting(64, 64, 12),
    setting(64, 64, 12, CLUSTER=2),
    setting(64, 128, 4, BLOCKS=2),
    setting(64, 128, 8),
    setting(64, 128, 8, CLUSTER=2),
    setting(128, 192, 5, CLUSTER=2),
    setting(128, 256, 4, CLUSTER=2),
)
"""What there is to choose among."""


def _trial(
    shape: tuple[int, int, int],
    division: tuple[int, int],
    tile: tuple[int, ...] = (64, 32, 3),
    scalars: tuple[float, float] = (-1.5, 0.75),
    **more: Any,
) -> dict[str, Any]:
    """Return a case with a small tile unless another is given, divided so."""
    return trial(shape, scalars, setting=tuple(setting(*tile).values()), division=division, **more)


PAIR = (64, 32, 3, 2)
"""A small tile in clusters of two blocks."""
TRIALS = (
    # Whole tiles alone, shares alone, and both; shares of several tiles, and many of one.
    _trial((130, 72, 200), (0, 4)),
    _trial((130, 72, 200), (9, 5)),
    _trial((130, 72, 200), (2, 5)),
    _trial((150, 40, 264), (6, 30), scalars=(1.0, 0.0)),
    _trial((60, 40, 1056), (2, 14)),
    # Clusters; the second block has no row of C, or a few.
    _trial((64, 33, 200), (2, 3), PAIR),
    _trial((330, 72, 200), (2, 3), PAIR),
    _trial((330, 72, 200), (9, 7), PAIR, shift=(0, 0, 1)),
    # Rows that begin anywhere, fewer rows than a tile has, and more than a group has.
    _trial((35, 71, 201), (3, 4)),
    _trial((5, 66, 130), (1, 2), shift=(1, 1, 1)),
    _trial((1610, 40, 64), (0, 7)),
    # The other widths, and two warpgroups.
    _trial((70, 72, 200), (2, 3), (64, 64, 3)),
    _trial((70, 136, 200), (2, 3), (64, 128, 3)),
    _trial((140, 200, 200), (2, 3), (128, 192, 3, 2)),
    _trial((140, 261, 200), (1, 2), (128, 256, 3)),
    # What BLAS does not read.
    _trial((70, 40, 200), (2, 3), scalars=(0.0, 2.0)),
    _trial((70, 40, 200), (2, 3), PAIR, scalars=(1.0, 0.0)),
    _trial((70, 40, 200), (2, 3), PAIR, scalars=(0.0, 2.0)),
    # More tiles than stages for a cluster, of one column of A each.
    _trial((130, 72, 1), (0, 2)),
)
"""Cases in which 22 is checked besides those that it chooses for: arguments of `check`."""


class AnyShape(Persistent):
    """22 and its copies. Rows that the copy engine cannot fetch are copied first, to where it can."""

    arguments = ("TensorMap", "TensorMap", "float*", "unsigned*", "unsigned", "unsigned", "unsigned")
    overlaps = True

    def claimed(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cases without those past 2³² elements whose rows are copied: simulated, that takes hours."""
        return [case for case in cases if not case.get("last_tile") or case["N"] % CHUNK == case["K"] % CHUNK == 0]

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of tiles and mbarriers, and of each warp's patch of C."""
        return super().shared_bytes(of) + of["BM"] // 16 * PATCH_BYTES

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return 22 with the quickest tile and division if not settled, or 20 if that is quicker, by the model.

        Where there is nothing to multiply, 16 scales C.
        """
        T, shape = kernel.parameters["T"], problem.shape
        if not (problem.M and problem.N and problem.K):
            return MMA.variant(T=T)
        if kernel.settled:
            return kernel
        found = [(*ways(tuple(of.values()), shape, place.multiprocessors)[0], of) for of in SETTINGS]
        expected, shared, clusters, of = min(found, key=lambda way: way[0])
        if addressable(problem):
            large = PERSISTENT.family.choose(PERSISTENT.variant(T=T), problem, place)
            blocks = large.family.divide(large, problem, SIMULATOR).blocks
            if (
                cost(large.parameters, shape, 0, blocks // large.parameters["CLUSTER"], place.multiprocessors)
                < expected
            ):
                return large
        return dataclasses.replace(kernel, parameters=kernel.parameters | of, division=(shared, clusters), settled=True)

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return the kernel's division, (tiles that are cut into shares, blocks), or else the model's for its tile.

        Raises
        ------
        ArgumentError
            The division does not add up for the problem.
        """
        of, (M, N, K) = kernel.parameters, problem.shape
        tiles, steps = -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"]), -(-K // BK)
        setting = tuple(of[name] for name in PARAMETERS)
        shared, clusters = kernel.division or ways(setting, problem.shape, place.multiprocessors)[0][1:]
        if not (0 <= shared <= tiles and 1 <= clusters <= (shared * steps or tiles)):
            needs = f"at most {tiles} shared tiles, and for each cluster a step of theirs, or a tile if none is shared"
            raise ArgumentError("division", f"{shared} and {clusters}", needs)
        high = of["BM"] * of["CLUSTER"]
        counts = {"shared": shared, "rows": min(of["BM"], -(-M // 8) * 8), "group": max(GROUP // high, 1)}
        workspace = (clusters + shared) * high * of["BN"] if shared else 0
        return Division(clusters * of["CLUSTER"], counts, workspace, shared * high // 16)

    def fetchable(self, problem: Problem) -> tuple[Problem, Callable[[], None]]:
        """Return the problem with copies of A and B whose rows begin at multiples of 16 bytes, where they don't."""
        matrices = {"A": problem.A, "B": problem.B}
        copies, arguments, empty = {}, {}, cupy.empty if problem.on_gpu else np.empty
        for (name, matrix), begins in zip(matrices.items(), problem.alignment, strict=False):
            if matrix.shape[1] % CHUNK or begins % ALIGNMENT:
                copies[name] = empty((len(matrix), -(-matrix.shape[1] // CHUNK) * CHUNK), matrix.dtype)
        if not copies:
            return problem, nothing
        copied = dataclasses.replace(problem, **copies)
        if problem.alpha == 0:  # neither A nor B is read
            return copied, nothing
        for name, matrix in matrices.items():
            rows, columns = len(matrix) if name in copies else 0, matrix.shape[1]
            arguments |= {name: matrix, f"copy{name}": copies.get(name, matrix)}
            arguments |= {f"rows{name}": np.uint32(rows), f"columns{name}": np.uint32(columns)}
        blocks = -(-sum(made.size for made in copies.values()) // (CHUNK * PAD.threads))
        if problem.on_gpu:
            return copied, gpu.queue(PAD.instance, min(blocks, PAD_BLOCKS), arguments)
        return copied, partial(simulator.run_instance, PAD.instance, blocks, arguments)

    def boxes(self, of: Mapping[str, Any], problem: Problem) -> tuple[Box, ...]:
        """Return the boxes: one of A has as many rows as a tile, or as A if it has fewer."""
        return Box("mapA", "A", min(of["BM"], -(-problem.M // 8) * 8), BOX), Box("mapB", "B", BK // of["CLUSTER"], BOX)


@lru_cache(maxsize=4096)
def ways(setting: tuple[int, ...], shape: tuple[int, int, int], multiprocessors: int) -> list[tuple[float, int, int]]:
    """Return each way to divide a problem, the quickest first: the µs expected, tiles that are shared, and clusters."""
    of, (M, N, K) = dict(zip(PARAMETERS, setting, strict=True)), shape
    tiles, steps = -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"]), -(-K // BK)
    if multiprocessors == INT_MAX:  # a `spread` place: no cluster does several tiles, and none shares one
        return [(0.0, 0, tiles)]
    plans = _plans(tiles, steps, multiprocessors * of["BLOCKS"] // of["CLUSTER"])
    return sorted({(cost(of, shape, *plan, multiprocessors), *plan) for plan in plans})


def _plans(tiles: int, steps: int, slots: int) -> Iterator[tuple[int, int]]:
    """Yield ways to divide tiles among clusters, of which `slots` are on the GPU at a time."""
    yield 0, min(tiles, slots)
    rest = tiles % slots
    if tiles >= slots and rest:
        most = (rest, rest + slots) if rest * 3 < slots else (rest,)
        # Parts are awaited of every share from a tile's first to its last: none may be empty.
        yield from ((shared, slots) for shared in most if shared * steps >= slots)
    elif rest:
        parts = [of for of in (2, 3, 4, 6, 8, 12, 16) if tiles * of <= slots and of * 2 <= steps]
        yield from ((tiles, tiles * of) for of in parts)
        if slots * 2 <= tiles * steps:
            yield tiles, slots


def cost(of: Mapping[str, Any], shape: tuple[int, int, int], shared: int, clusters: int, multiprocessors: int) -> float:
    """Return the µs that the model expects of 22, or of 20, with these template arguments and this division."""
    M, N, K = shape
    blocks, steps, late = clusters * of["CLUSTER"], -(-K // BK), "GROUP" in of
    tiles = -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"])
    beside = min(of.get("BLOCKS", 1), -(-blocks // multiprocessors))  # blocks of an SM
    whole, share = -(-(tiles - shared) // clusters), -(-shared * steps // clusters)  # tiles, and steps of a share

    rows, columns = min(of["BM"], -(-M // 8) * 8), -(-of["BN"] // BOX) * BOX  # that a block fetches
    lone = ALONE if of["BM"] == 64 and beside == 1 else 1
    step = max(
        of["BM"] * of["BN"] * BK / MULTIPLY_ADDS * beside * lone,
        (rows + columns) * SWIZZLE * beside / SM,
        (rows + columns / of["CLUSTER"]) * SWIZZLE * blocks / L2,
        STEP,
        FLIGHT / (of["STAGES"] - 1),
    )
    done = whole + -(-share // steps)  # tiles, by the busiest cluster
    written = min(of["BM"], M) * min(of["BN"], N) * 4
    end = END + written * (RAGGED if N % 4 else 1) * beside / OUT
    total = START + CLUSTERED * (of["CLUSTER"] > 1) + (whole * steps + share) * step * (SHARED if shared else 1)
    total += end * (1 + (done - 1) * (LATE if late else 1))
    if shared and share % steps:
        pieces = 1 if clusters % shared == 0 else 2
        parts = -(-steps // share) + (steps % share > 0)
        total += MEET * pieces + parts * (PART + min(of["BM"], -(-M // 16) * 16) * of["BN"] * 4 / ADD)
    traffic = (2 * (M * K + K * N) + 4 * M * N) / MEMORY
    return max(total, START + max(traffic, 2 * M * N * K / PEAK)) + FLAT * total


PAD = Kernel("pad", "rows that begin at multiples of 16 bytes", {"THREADS": 256}, (9, 0))
"""What copies rows that begin elsewhere, before 22 is launched."""
FIRST = {"T": "half"} | SETTINGS[-1]
KERNEL = Kernel(
    "22_any_shape",
    "equal shares on tensor cores, in tiles of many sizes, wherever rows begin",
    FIRST,
    (9, 0),
    types=FP16,
    exact=True,
    family=AnyShape(FIRST, 2, TRIALS),
)
"""22, with the largest of its tiles where it is not to choose."""
