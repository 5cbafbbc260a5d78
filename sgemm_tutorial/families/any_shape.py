"""Chooses the tile of kernel 22 for a problem, and divides its work among clusters of blocks that stay.

Where a table of this GPU has the size, it decides; see `tuned`. Elsewhere a model gives the µs of each choice. It knows
the times of a tile's multiply step and of its end, what L2 and memory give to all multiprocessors together, what L2
gives to one, and the times of a launch and of another that adds parts of sums. Products that are too thin or too small
for tensor cores go to another kernel, `THIN`, vectors and pairs of them to `WIDE` or `TALL`, a small C with a long K to
`DEEP`, and a short K to `SHALLOW`; each has a model of its own. All were fitted to times on an H200: 22's to 14,245 of
1,023 products, and a setting to 176 of its own, `DEEP`'s to 1,984, `THIN`'s to 7,962 of 183, and a setting to 84 of its
own, and `SHALLOW`'s to 3,094 of 182. On another GPU only the order of the choices counts. Nothing is measured at a
call, and the same problem is always done the same way.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import ceil, inf, log2, sqrt
from typing import Any

import cupy
import numpy as np

from ptxsim import ALIGNMENT, MBARRIER_BYTES, SWIZZLE

from .. import gpu, simulator, tuned
from ..errors import ArgumentError
from ..hardware import WARP
from ..kernel import Kernel
from ..launch import MULTIPROCESSORS, Box, Division, Family, Launch, Place, nothing, trial
from ..operands import FP16, INT_MAX, Problem
from .hopper import BOX, Fetched, Persistent, resident

PARAMETERS = ("BM", "BN", "BK", "WM", "WN", "STAGES", "THREADS", "CLUSTER", "BLOCKS")
"""22's template parameters between T and BITS, in the source's order."""
BK, PATCH_BYTES, IN_TURNS = 64, 16 * 40 * 4, 32
"""Depth of a multiply step, shared memory of each warp on the way to C, and WM where warpgroups take turns."""
GROUP, SQUARE = 768, 2048
"""Rows of C in a group, and in one of a product with `LARGE` A and B: all tiles at work then make about a square, which
needs the fewest rows and columns, and lasting runs take up to 3% less energy for it."""
CHUNK = ALIGNMENT // 2
"""Elements of 16 bits in 16 bytes."""

START, HIDDEN = 1.50, 0.14  # µs of a launch, which was 1.69 in the fit, and less since; of a time that another hides
L2, FAR, MEMORY, EACH = 13.3e6, 11.5e6, 3.95e6, 0.171e6  # bytes per µs: L2, also for large A and B; memory; one SM
LARGE, UNTIMED, NEAR = 37.5e6, 2e8, 6  # bytes of A and B; multiply-adds of tiles that are turned; exponent of a sum
STRADDLE, ASKEW = 0.57, 1.15  # longer: fetching rows that begin at any 16 bytes of a line, for all SMs, and for one
CROWD, LOW = 1.71e-3, 0.10  # µs of a step for each cluster that wants the same rows; of a step, what missing rows save
RAGGED, SHARED = 0.37, 1.14  # longer: a tile's end where C's rows begin anywhere; times: a step where tiles are shared
SECOND, PARTS_MOVED = 1.96, 4.33e6  # µs of the launch that adds parts, and their bytes per µs
COPY, COPIED = 1.32, 3.62e6  # µs to copy A or B, and bytes per µs
PARTS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)  # of a tile's sum, where there are only a few tiles


def setting(BM: int, BN: int, STAGES: int, CLUSTER: int = 1, WM: int = 16) -> dict[str, int]:
    """Return template arguments: those of a turned tile, whose warps share its columns, if WM is BM."""
    side, WN = (BN, 16) if WM == BM else (BM, BN)
    return dict(
        zip(PARAMETERS, (BM, BN, BK, WM, WN, STAGES, 160 if side == 64 else 2 * side + 128, CLUSTER, 1), strict=True)
    )


PACED = ("BM", "BN", "STAGES", "CLUSTER", "WM")
PACES = {
    (48, 64, 12, 1, 48): (0.118, 0.534),
    (64, 32, 12, 1, 16): (0.087, 0.540),
    (64, 64, 12, 1, 16): (0.083, 0.743),
    (64, 64, 12, 4, 16): (0.125, 0.784),
    (64, 96, 8, 4, 16): (0.173, 0.927),
    (64, 128, 8, 1, 16): (0.101, 1.070),
    (64, 128, 8, 4, 16): (0.171, 1.211),
    (64, 160, 6, 4, 16): (0.223, 1.482),
    (64, 192, 6, 2, 16): (0.289, 1.918),
    (64, 192, 6, 4, 16): (0.235, 1.771),
    (64, 224, 5, 4, 16): (0.285, 2.007),
    (64, 256, 5, 4, 16): (0.306, 2.361),
    (80, 128, 7, 1, 80): (0.192, 1.604),
    (80, 128, 7, 2, 80): (0.247, 1.471),
    (96, 128, 7, 2, 96): (0.269, 1.700),
    (96, 192, 5, 2, 96): (0.395, 2.224),
    (112, 64, 9, 1, 112): (0.170, 1.117),
    (112, 128, 6, 1, 112): (0.359, 1.654),
    (112, 192, 5, 2, 112): (0.447, 2.524),
    (128, 48, 8, 4, 16): (0.196, 1.021),
    (128, 96, 6, 4, 16): (0.274, 1.417),
    (128, 112, 6, 4, 16): (0.306, 1.738),
    (128, 128, 6, 1, 128): (0.356, 1.865),
    (128, 128, 4, 1, 32): (0.360, 1.900),
    (128, 128, 6, 2, 32): (0.355, 2.483),
    (128, 144, 5, 2, 16): (0.428, 2.166),
    (128, 160, 5, 2, 32): (0.431, 3.244),
    (128, 176, 5, 2, 16): (0.476, 2.358),
    (128, 176, 5, 4, 16): (0.439, 2.366),
    (128, 192, 4, 2, 128): (0.492, 2.451),
    (128, 224, 4, 2, 16): (0.559, 2.982),
    (128, 256, 4, 1, 16): (0.620, 3.334),
    (144, 128, 6, 2, 144): (0.393, 2.315),
    (144, 192, 4, 2, 144): (0.550, 2.824),
    (160, 128, 5, 2, 160): (0.424, 2.457),
    (160, 192, 4, 2, 160): (0.601, 3.096),
    (176, 128, 5, 2, 176): (0.475, 2.543),
    (176, 192, 4, 2, 176): (0.669, 3.305),
    (192, 128, 4, 1, 16): (0.472, 2.467),
    (192, 160, 4, 2, 16): (0.616, 2.875),
    (192, 192, 4, 2, 16): (0.703, 3.744),
    (208, 128, 4, 2, 208): (0.528, 2.893),
    (128, 256, 4, 2, 16): (0.618, 3.365),
}
"""`PACED` to choose among, and the µs of a multiply step and of a tile's end."""
SETTINGS = tuple(setting(*of) for of in PACES)
"""The same as template arguments."""


def _trial(
    shape: tuple[int, int, int],
    division: tuple[int, int],
    tile: tuple[int, ...] = (64, 32, 3),
    scalars: tuple[float, float] = (-1.5, 0.75),
    bits: int = 32,
    blocks: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """Return a case with a small tile unless another is given, divided so, and elements of C of so many bits.

    So many `blocks` are on an SM at a time.
    """
    return trial(
        shape, scalars, setting=(*(setting(*tile) | {"BLOCKS": blocks}).values(), bits), division=division, **more
    )


PAIR = (64, 32, 3, 2)
"""A small tile in clusters of two blocks."""
TRIALS = (
    # Whole tiles alone, shares alone, and both; shares of several tiles, and many of one.
    _trial((130, 72, 200), (0, 4)),
    _trial((130, 72, 200), (9, 5)),
    _trial((130, 72, 200), (2, 5)),
    _trial((150, 40, 264), (6, 30), scalars=(1.0, 0.0)),
    _trial((60, 40, 1056), (2, 14)),
    # Sums of many parts, of which each thread that adds has several.
    _trial((60, 40, 1056), (2, 19)),
    _trial((40, 20, 1050), (1, 9)),
    _trial((70, 20, 1050), (2, 34), blocks=2),
    _trial((3, 9, 4170), (1, 66)),
    # Clusters; the second block has no row of C, or a few.
    _trial((64, 33, 200), (2, 3), PAIR),
    _trial((330, 72, 200), (2, 3), PAIR),
    _trial((330, 72, 200), (9, 7), PAIR, shift=(0, 0, 1)),
    # Rows that begin anywhere, fewer rows than a tile has, and more than a group has.
    _trial((35, 71, 201), (3, 4)),
    _trial((5, 66, 130), (1, 2), shift=(1, 1, 1)),
    _trial((1610, 40, 64), (0, 7)),
    # The other widths, and two warpgroups, or three.
    _trial((70, 72, 200), (2, 3), (64, 64, 3)),
    _trial((70, 136, 200), (2, 3), (64, 128, 3)),
    _trial((140, 168, 200), (1, 2), (128, 160, 3, 2)),
    _trial((140, 200, 200), (2, 3), (128, 192, 3, 2)),
    _trial((140, 261, 200), (1, 2), (128, 256, 3)),
    _trial((200, 98, 200), (2, 3), (192, 96, 3)),
    # Two warpgroups that take turns: one tile, an odd number, few rows, shares, and few steps.
    _trial((100, 136, 200), (0, 1), (128, 128, 3, 1, 32)),
    _trial((260, 300, 330), (0, 2), (128, 128, 3, 1, 32)),
    _trial((260, 168, 200), (3, 4), (128, 160, 3, 1, 32), shift=(0, 0, 1)),
    _trial((390, 168, 70), (2, 2), (128, 160, 3, 2, 32), bits=16),
    # Widths that are no multiple of 32; tiles that are turned, alone and in clusters, in shares, and with few rows.
    _trial((70, 200, 200), (1, 2), (64, 112, 3)),
    _trial((140, 261, 200), (2, 3), (128, 208, 3)),
    _trial((60, 72, 200), (0, 2), (16, 64, 3, 1, 16)),
    _trial((130, 129, 200), (2, 5), (48, 64, 3, 2, 48)),
    _trial((100, 261, 70), (2, 3), (96, 128, 3, 1, 96), bits=16),
    _trial((35, 71, 201), (1, 3), (112, 192, 3, 1, 112), shift=(1, 0, 1)),
    _trial((290, 136, 200), (1, 2), (256, 128, 3, 1, 256)),
    _trial((3, 20, 1050), (1, 9), (16, 64, 3, 1, 16), bits=16),
    # What BLAS does not read.
    _trial((70, 40, 200), (2, 3), scalars=(0.0, 2.0)),
    _trial((70, 40, 200), (2, 3), PAIR, scalars=(1.0, 0.0)),
    _trial((70, 40, 200), (2, 3), PAIR, scalars=(0.0, 2.0)),
    # More tiles than stages for a cluster, of one column of A each.
    _trial((130, 72, 1), (0, 2)),
    # Two blocks on an SM, and C in 16 bits, whose rows begin at 16 bytes, or at 8, or anywhere.
    _trial((70, 136, 200), (2, 3), (64, 128, 3), bits=16, blocks=2),
    _trial((130, 72, 200), (2, 5), bits=16, scalars=(1.0, 0.0)),
    _trial((35, 36, 200), (2, 3), bits=16),
    _trial((35, 40, 200), (2, 3), bits=16, shift=(0, 0, 4)),
    _trial((140, 71, 201), (4, 9), PAIR, bits=16),
    _trial((200, 20, 1050), (2, 19), PAIR, bits=16),
    _trial((70, 40, 200), (2, 3), bits=16, scalars=(0.0, 2.0)),
    # C in 16 bits straight from registers: widths that are no multiple of 32, edges, and a tile that is turned.
    _trial((70, 104, 200), (1, 2), (64, 112, 3), bits=16, scalars=(-1.5, 0.0)),
    _trial((109, 72, 200), (1, 2), (80, 64, 3, 1, 80), bits=16, scalars=(-1.5, 0.0)),
)
"""Cases in which 22 is checked besides those that it chooses for: arguments of `lab.check`."""


class AnyShape(Persistent):
    """22 and its copies. Rows that the copy engine cannot fetch are copied first, to where it can."""

    arguments = ("TensorMap", "TensorMap", "float*", "unsigned", "unsigned", "unsigned")
    scratch = ("workspace",)
    overlaps = True

    def claimed(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cases without those past 2³² elements whose rows are copied: simulated, that takes hours."""
        return [case for case in cases if not case.get("last_tile") or case["N"] % CHUNK == case["K"] % CHUNK == 0]

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of tiles and mbarriers, and of each warp's patch of C."""
        turns, warps = of["WM"] == IN_TURNS != of["BM"], of["BM"] * of["BN"] // of["WM"] // of["WN"]
        return super().shared_bytes(of) + (1 + turns) * warps * PATCH_BYTES + 2 * turns * MBARRIER_BYTES

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return 22 with the quickest tile and division, if not settled: as measured on this GPU, or by the model.

        `THIN`, `WIDE`, `TALL`, `DEEP` and `SHALLOW` take over what they do more quickly, unless it is `itself` or a
        variant. `THIN` also scales C where there is nothing to multiply.
        """
        own = {name: kernel.parameters[name] for name in ("T", "BITS")}
        if not (problem.M and problem.N and problem.K):
            return THIN.variant(**own)
        if kernel.settled:
            return kernel
        hands_over = self is not OWN and kernel.path == KERNEL.path and not (kernel.edits or kernel.label)
        way = place.name and tuned.best(dataclasses.replace(kernel, edits=()), place.name, problem.shape)
        if way and len(way.setting) == len(PARAMETERS):
            # A variant does it like the kernel that it is compared with.
            shared, clusters, of = way.whole, way.shares, dict(zip(PARAMETERS, way.setting, strict=True))
        elif way and hands_over:
            return DEEP.variant(**own, **dict(zip(DEEP_PARAMETERS, way.setting, strict=True)))
        else:
            expected = ((*ways(tuple(of.values()), problem.shape, place)[0], of) for of in SETTINGS)
            us, shared, clusters, of = min(expected, key=lambda way: way[0])
            if hands_over:
                quicker, other, settings = min(_others(problem, place), key=lambda way: way[0])
                if quicker < us + copying(problem):
                    return other.variant(**own, **settings)
        return dataclasses.replace(kernel, parameters=kernel.parameters | of, division=(shared, clusters), settled=True)

    def itself(self, kernel: Kernel) -> Kernel:
        """Return the kernel so that it hands nothing over to `THIN`."""
        return dataclasses.replace(kernel, family=OWN)

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return the kernel's division, (tiles that are cut into shares, blocks), or else the model's for its tile.

        Raises
        ------
        ArgumentError
            The division does not add up for the problem.
        """
        of, (M, N, K) = kernel.parameters, problem.shape
        tiles, steps = -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"]), -(-K // BK)
        shared, clusters = kernel.division or ways(tuple(map(of.get, PARAMETERS)), problem.shape, place)[0][1:]
        if not (0 <= shared <= tiles and 1 <= clusters <= (shared * steps or tiles)):
            needs = f"at most {tiles} shared tiles, and for each cluster a step of theirs, or a tile if none is shared"
            raise ArgumentError("division", f"{shared} and {clusters}", needs)
        high, group = of["BM"] * of["CLUSTER"], SQUARE if large(problem.shape) else GROUP
        counts = {"shared": shared, "rows": min(of["BM"], -(-M // 8) * 8), "group": max(group // high, 1)}
        return Division(clusters * of["CLUSTER"], counts, (clusters + shared) * high * of["BN"] if shared else 0)

    def fetchable(self, problem: Problem) -> tuple[Problem, Callable[[], None]]:
        """Return the problem with copies of A and B whose rows begin at multiples of 16 bytes, where they don't."""
        extents = unfetchable(problem)
        if not extents:
            return problem, nothing
        empty = cupy.empty if problem.on_gpu else np.empty
        copies = {
            name: empty((rows, pitch(columns)), problem.types.operand) for name, (rows, columns) in extents.items()
        }
        # Where alpha is 0, neither A nor B is read.
        return problem._replace(**copies), nothing if problem.alpha == 0 else padding(problem, copies)

    def finish(self, launch: Launch, problem: Problem) -> Callable[..., None]:
        """Return a function that adds the parts of sums that a launch cuts and leaves in the workspace."""
        of, (shared, _, group) = launch.kernel.parameters, launch.division.counts.values()
        if not shared:
            return nothing
        clusters = launch.blocks // of["CLUSTER"]
        slices = MANY if clusters >= 2 * MANY * shared else 1
        blocks = shared * of["BM"] * of["CLUSTER"] * of["BN"] * slices // (4 * ADD.threads)
        arguments = {
            "M": np.int32(problem.M),
            "N": np.int32(problem.N),
            "steps": np.uint32(-(-problem.K // BK)),
            "alpha": problem.alpha,
            "workspace": None,
            "beta": problem.beta,
            "C": problem.C,
            "shared": np.uint32(shared),
            "clusters": np.uint32(clusters),
            "group": np.uint32(group),
        }
        return _beside(problem)(adder(of, slices).instance, blocks, arguments)

    def boxes(self, of: Mapping[str, Any], problem: Problem) -> tuple[Box, ...]:
        """Return the boxes: one of A has as many rows as a tile, or as A if it has fewer."""
        return Box("mapA", "A", min(of["BM"], -(-problem.M // 8) * 8), BOX), Box(
            "mapB", "B", BK // of.get("CLUSTER", 1), BOX
        )


def _beside(problem: Problem) -> Callable[..., Callable[..., None]]:
    """Return the back end's function that queues another kernel on a problem's arrays, before 22 or after it."""
    return (gpu if problem.on_gpu else simulator).queue


def unfetchable(problem: Problem) -> dict[str, tuple[int, int]]:
    """Return rows and columns of those of A and B that the copy engine can't fetch as they are, by name."""
    return {
        name: of
        for name, of, begins in zip(
            "AB", ((problem.M, problem.K), (problem.K, problem.N)), problem.alignment, strict=False
        )
        if of[1] % CHUNK or begins % ALIGNMENT
    }


def padding(problem: Problem, copies: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function that copies A, B or both to arrays of longer rows, and fills these rows' ends with zeros."""
    arguments: dict[str, Any] = {}
    for name, matrix in (("A", problem.A), ("B", problem.B)):
        copy = copies.get(name, matrix)
        arguments |= {
            name: matrix,
            f"copy{name}": copy,
            f"rows{name}": np.uint32(len(matrix) if name in copies else 0),
            f"columns{name}": np.uint32(matrix.shape[1]),
            f"chunks{name}": np.uint32(copy.shape[1] // CHUNK),
        }
    chunks = sum(copy.size for copy in copies.values()) // CHUNK
    return _beside(problem)(PAD.instance, min(-(-chunks // PAD.threads), 8 * MULTIPROCESSORS), arguments)


def pitch(columns: int) -> int:
    """Return the elements of a row of a copy, so that what the copy engine fetches at once lies in one line of L2."""
    return -(-columns // BOX) * BOX if columns > BOX // 2 else max(CHUNK, 2 ** ceil(log2(columns)))


def copying(problem: Problem) -> float:
    """Return the µs that the model expects for copying what the copy engine can't fetch."""
    elements = sum(rows * columns for rows, columns in unfetchable(problem).values())
    return COPY + 4 * elements / COPIED if elements else 0.0


@lru_cache(maxsize=4096)
def ways(setting: tuple[int, ...], shape: tuple[int, int, int], place: Place) -> list[tuple[float, int, int]]:
    """Return each way to divide a problem, the quickest first: the µs expected, tiles that are shared, and clusters."""
    of, (M, N, K) = dict(zip(PARAMETERS, setting, strict=True)), shape
    tiles, steps = -(-M // (of["BM"] * of["CLUSTER"])) * -(-N // of["BN"]), -(-K // BK)
    if place.multiprocessors == INT_MAX:  # a `spread` place: no cluster does several tiles, and none shares one
        return [(0.0, 0, tiles)]
    plans = _plans(tiles, steps, max(resident(of["CLUSTER"], place) * of["BLOCKS"], 1))
    return sorted({(cost(of, shape, *plan), *plan) for plan in plans})


def _plans(tiles: int, steps: int, slots: int) -> Iterator[tuple[int, int]]:
    """Yield ways to divide tiles among clusters, of which `slots` are on the GPU at a time."""
    yield 0, min(tiles, slots)
    rest = tiles % slots
    if tiles >= slots and rest:
        most = (rest, rest + slots) if rest * 3 < slots else (rest,)
        # Parts are awaited of every share from a tile's first to its last: none may be empty.
        yield from ((shared, slots) for shared in most if shared * steps >= slots)
    elif rest:
        yield from ((tiles, tiles * of) for of in PARTS if tiles * of <= slots and of * 2 <= steps)
        if slots * 2 <= tiles * steps:
            yield tiles, slots


def pace(of: Mapping[str, Any]) -> tuple[float, float]:
    """Return the µs of a multiply step, and of the end of a tile: roughly, unless it is of `SETTINGS`."""
    return PACES.get(tuple(map(of.get, PACED))) or (of["BM"] * of["BN"] / 52e3, of["BM"] * of["BN"] / 10e3)


def large(shape: tuple[int, int, int]) -> bool:
    """Whether A and B of 16-bit elements have more than `LARGE` bytes."""
    return 2 * shape[2] * (shape[0] + shape[1]) > LARGE


def moved(M: int, N: int, K: int) -> int:
    """Return the bytes of A, B and C."""
    return 2 * (M * K + K * N) + 4 * M * N


def cost(of: Mapping[str, Any], shape: tuple[int, int, int], shared: int, clusters: int) -> float:
    """Return the µs that the model expects of 22 with these template arguments and this division, without copies."""
    M, N, K = shape
    BM, BN, CLUSTER = of["BM"], of["BN"], of["CLUSTER"]
    turned, turns, blocks, steps = of["WM"] == BM, of["WM"] == IN_TURNS != BM, clusters * CLUSTER, -(-K // BK)
    down, across = -(-M // (BM * CLUSTER)), -(-N // BN)
    whole, share = -(-(down * across - shared) // clusters), -(-shared * steps // clusters)  # tiles; steps of a share

    step, end = pace(of)
    rows, columns = min(BM, M), -(-BN // BOX) * BOX  # that a block fetches, or zeros beyond B's last
    alike = min(down, clusters / across) * max(1, BOX / (-(-N // CHUNK) * CHUNK))  # clusters that want the same lines
    step = _step(
        step * (1 - LOW * (1 - rows / BM) * (not turned)),
        (rows * lines(K, ASKEW) + columns * lines(N, ASKEW) / sqrt(CLUSTER)) * SWIZZLE,  # others' part of B arrives too
        (rows * lines(K) + columns * lines(N) / CLUSTER) * SWIZZLE * blocks,
        max(alike, min(across, clusters / down)),
        shape,
    )
    end *= (1 + rows / BM * min(1, N / BN)) / 2 * (1 + RAGGED * (N % 4 > 0))
    every, tiles = (whole * steps + share) * step * (SHARED if shared else 1), whole + -(-share // steps)
    # Where warpgroups take turns, one multiplies while the other writes: what takes longer counts, and the rest once.
    total = START + (max(every + end, every / tiles + tiles * end) if turns else every + tiles * end)
    if shared and share % steps:
        sums = (-(-steps // share) + (clusters % shared > 0)) * shared * min(BM * CLUSTER, M) * min(BN, N)  # of parts
        total += SECOND + 4 * sums / PARTS_MOVED
    # C counts twice where its rows begin anywhere. Turned tiles are not for small products: there they were not timed.
    return _with_traffic(
        total, shape, inf if turned and M * N * K < UNTIMED else START + 4 * M * N / MEMORY * (N % 4 > 0)
    )


def lines(columns: int, more: float = STRADDLE) -> float:
    """Return the bytes that count for one that is fetched of a matrix with so many columns, or of its copy.

    So many `more`, where rows begin at any 16 bytes of a line of L2; a half of them, where at 32; a quarter, at 64.
    """
    return 1 + more * CHUNK / (columns & -columns) * (CHUNK <= columns & -columns < BOX < columns)


def _step(us: float, own: float, fetched: float, alike: float, shape: tuple[int, int, int]) -> float:
    """Return the µs of a step that takes so many alone.

    A block fetches so many bytes for it, all blocks fetch so many, and so many clusters want the same lines. What takes
    longest counts, and more where something else takes about as long.
    """
    return sum(each**NEAR for each in (us, own / EACH, fetched / (FAR if large(shape) else L2), CROWD * alike)) ** (
        1 / NEAR
    )


def _with_traffic(us: float, shape: tuple[int, int, int], start: float = START) -> float:
    """Return the µs of a launch whose blocks take so many, and which moves A, B and C meanwhile, from `start` on."""
    traffic = start + moved(*shape) / MEMORY
    return max(us, traffic) + HIDDEN * min(us, traffic)


PAD = Kernel("pad", "rows that begin at multiples of 16 bytes", {"THREADS": 256}, (9, 0))
"""The kernel that copies rows TMA cannot fetch, before 22 is launched."""
ADD = Kernel(
    "add_parts",
    "the parts of sums that 22 cuts",
    {"T": "half", "HIGH": 64, "BN": 32, "SLICES": 1, "THREADS": 256, "BITS": 32},
    (9, 0),
    types=FP16,
)
"""The kernel that adds the parts of sums, after 22."""
MANY = 8
"""Threads that share a sum of `ADD`, if each has two parts of it at least."""


def adder(of: Mapping[str, Any], slices: int) -> Kernel:
    """Return the kernel that adds 22's parts for these template arguments, with so many threads to a sum."""
    return ADD.variant(T=of["T"], HIGH=of["BM"] * of["CLUSTER"], BN=of["BN"], SLICES=slices, BITS=of["BITS"])


class Thin(Family):
    """The family of `THIN`, `WIDE`, `TALL` and `SHALLOW`, whose launches may overlap."""

    overlaps = True


def _thin_setting(BM: int, BN: int, WM: int, SLICES: int) -> dict[str, int]:
    return {"BM": BM, "BN": BN, "WM": WM, "WN": BN, "SLICES": SLICES}


THIN_PACES = {
    (4, 1, 1, 2): (0.827, 0.217),
    (1, 8, 1, 16): (0.819, 0.230),
    (2, 8, 2, 16): (1.079, 0.343),
    (4, 8, 4, 8): (1.184, 0.362),
    (16, 8, 4, 2): (0.800, 0.420),
    (16, 8, 4, 4): (1.182, 0.489),
    (32, 8, 8, 2): (1.378, 0.377),
    (1, 16, 1, 16): (0.738, 0.234),
    (8, 16, 4, 2): (0.916, 0.309),
    (1, 32, 1, 8): (0.687, 0.235),
    (1, 32, 1, 32): (0.605, 0.234),
    (4, 32, 4, 4): (0.925, 0.279),
    (4, 32, 4, 16): (1.126, 0.365),
    (8, 32, 2, 2): (0.816, 0.239),
    (16, 32, 4, 1): (0.812, 0.210),
}
"""BM, BN, WM and SLICES of `THIN` to choose among, and µs: of a launch, and of the loads that are ahead."""
THIN_SETTINGS = tuple(_thin_setting(*of) for of in THIN_PACES)
"""The same as template arguments."""
AHEAD, NARROW = 8, 8
"""Times that loads of `THIN` are ahead, and columns below which a tile is for one or two columns of C only."""


def thin_cost(of: Mapping[str, int], shape: tuple[int, int, int], multiprocessors: int) -> float:
    """Return the µs that the model expects of `THIN` with these template arguments."""
    M, N, K = shape
    if of["BN"] < NARROW and N > 2:
        return inf
    launch, load = THIN_PACES[of["BM"], of["BN"], of["WM"], of["SLICES"]]
    times = -(-K // (WARP // of["WN"] * of["SLICES"] * AHEAD))
    warps, blocks = of["BM"] // of["WM"] * of["SLICES"], -(-M // of["BM"]) * -(-N // of["BN"])
    most = -(-blocks // multiprocessors)  # blocks of the busiest SM, and how many fit its threads and registers
    fit = min(2048, 65536 / (20 + 16 * of["WM"])) // (WARP * warps)
    issued = most * warps * (0.00402 * (of["WM"] + 1) * times + 0.0271)
    return launch + -(-most // max(fit, 1)) * times * load + issued + moved(M, N, K) * 0.0637e-6


def _thin_kernel(name: str, idea: str, of: Mapping[str, int]) -> Kernel:
    return Kernel(name, idea, {"T": "half", **of, "BITS": 32}, (9, 0), types=FP16, family=Thin())


THIN = _thin_kernel("thin", "products too thin or too small for tensor cores", THIN_SETTINGS[-1])
WIDE = _thin_kernel("wide", "one or two rows times a wide matrix", _thin_setting(1, 32, 1, 16))
TALL = _thin_kernel("tall", "a tall matrix times one, two or four columns", _thin_setting(16, 1, 4, 2))
ONCE, PER_SM, FROM_MEMORY = 1.5, 0.048e6, 4.2e6
"""µs of a launch of `WIDE` or `TALL`, and the bytes per µs of a matrix that is read once: by an SM, and by all."""


SHALLOW_PACES = {
    (16, 64, 32, 16, 16): (0.760, 0.637, 0.152, 0.0156),
    (16, 64, 64, 16, 16): (0.754, 0.816, 0.225, 0.0308),
    (32, 32, 64, 16, 16): (0.806, 0.770, 0.207, 0.0272),
    (32, 64, 16, 16, 32): (0.937, 0.500, 0.170, 0.0121),
    (32, 64, 64, 16, 32): (0.791, 1.016, 0.329, 0.0149),
    (64, 32, 32, 16, 16): (0.809, 0.682, 0.277, 0.0337),
    (64, 64, 16, 16, 32): (1.114, 0.475, 0.255, 0.0269),
    (64, 128, 16, 32, 32): (1.394, 0.543, 0.367, 0.0233),
}
"""BM, BN, BK, WM and WN of `SHALLOW` to choose among, and µs: of a launch, of the wait for a step's tiles, and, for
each block that an SM gets, of a step and of a write by each thread."""
SHALLOW_SETTINGS = tuple(dict(zip(("BM", "BN", "BK", "WM", "WN"), of, strict=True)) for of in SHALLOW_PACES)
"""The same as template arguments."""
SHALLOW_START, SHALLOW_K = 1.25, 128
"""µs of a launch that only moves A, B and C, and the longest K for which `SHALLOW` was the quickest."""


def shallow_cost(of: Mapping[str, int], shape: tuple[int, int, int], bits: int, multiprocessors: int) -> float:
    """Return the µs that the model expects of `SHALLOW` where C has so many bits an element; inf if K is too long."""
    (M, N, K), (launch, wait, step, write) = shape, SHALLOW_PACES[tuple(of.values())]
    writes = of["WM"] * of["WN"] / WARP / (8 * ALIGNMENT / bits if N * bits % (8 * ALIGNMENT) == 0 else 1)
    steps, blocks = -(-K // of["BK"]), -(-M // of["BM"]) * -(-N // of["BN"]) / multiprocessors
    return (
        _with_traffic(launch + steps * wait + blocks * (steps * step + writes * write), shape, SHALLOW_START)
        if K <= SHALLOW_K
        else inf
    )


SHALLOW = _thin_kernel("shallow", "a short K", SHALLOW_SETTINGS[-1])


class Deep(Fetched):
    """The family of `DEEP`: a tile of C for the blocks of a cluster."""

    overlaps = True
    choose, fetchable, boxes = Family.choose, AnyShape.fetchable, AnyShape.boxes

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return SPLIT blocks for each tile."""
        blocks = kernel.parameters["SPLIT"]
        return Division(kernel.grid(problem.M, problem.N) * blocks, last=blocks)


DEEP_PARAMETERS = (*PARAMETERS[:-2], "SPLIT")
"""The template parameters of `DEEP` between T and BITS, in the source's order."""


def deep_setting(BM: int, BN: int, STAGES: int, SPLIT: int) -> dict[str, int]:
    """Return template arguments of `DEEP`."""
    return dict(zip(DEEP_PARAMETERS, (BM, BN, BK, 16, BN, STAGES, 2 * BM + WARP, SPLIT), strict=True))


DEEP_PACES = {
    (64, 32, 12): (0.159, 0.526),
    (64, 64, 12): (0.144, 0.899),
    (64, 128, 8): (0.207, 1.541),
    (64, 192, 6): (0.296, 2.432),
    (64, 256, 5): (0.321, 3.573),
    (128, 64, 8): (0.174, 1.576),
    (128, 128, 6): (0.39, 2.325),
    (128, 192, 5): (0.584, 3.133),
    (128, 256, 4): (0.678, 4.406),
}
"""BM, BN and STAGES of `DEEP` to choose among, and the µs of a multiply step and of a tile's end."""
SPLITS = {2: 0.735, 3: 0.575, 4: 0.548, 6: 0.649, 8: 0.690}
"""SPLIT of `DEEP` to choose among, and the µs in which the sums of such a cluster meet."""
DEEP_SETTINGS = tuple(deep_setting(*of, SPLIT) for of in DEEP_PACES for SPLIT in SPLITS)
"""The same as template arguments."""
DEEP_LOW, DEEP_RAGGED = 0.27, 7.12e-5  # as LOW; µs to write a sum where C's rows begin anywhere


def deep_cost(of: Mapping[str, int], shape: tuple[int, int, int], place: Place) -> float:
    """Return the µs that the model expects of `DEEP`, without copies; inf where tiles are many, or steps few."""
    (M, N, K), BM, BN, SPLIT = shape, of["BM"], of["BN"], of["SPLIT"]
    (step, end), fit, meeting = DEEP_PACES[BM, BN, of["STAGES"]], resident(SPLIT, place), SPLITS[SPLIT]
    down, across = -(-M // BM), -(-N // BN)
    clusters, steps = down * across, -(-K // BK)
    if clusters > 2 * fit or steps < 2 * SPLIT:
        return inf
    rows, columns = min(BM, -(-M // 8) * 8), -(-min(BN, N) // BOX) * BOX  # that a block fetches
    own, fetched = ((rows * lines(K, more) + columns * lines(N, more)) * SWIZZLE for more in (ASKEW, STRADDLE))
    alike = max(down, across) * max(1, BOX / (-(-N // CHUNK) * CHUNK))
    step = _step(step * (1 - DEEP_LOW * (1 - rows / BM)), own, fetched * SPLIT * min(clusters, fit), alike, shape)
    sums = min(M, BM) * min(N, BN)
    end = end * (1 + sums / (BM * BN)) / 2 + meeting + DEEP_RAGGED * sums / SPLIT * (N % 4 > 0)
    return _with_traffic(START + -(-clusters // fit) * (-(-steps // SPLIT) * step + end), shape)


DEEP_FIRST = {"T": "half"} | DEEP_SETTINGS[0] | {"BITS": 32}
DEEP = Kernel("deep", "a small C with a long K", DEEP_FIRST, (9, 0), types=FP16, exact=True, family=Deep(DEEP_FIRST, 2))


def _others(problem: Problem, place: Place) -> Iterator[tuple[float, Kernel, dict[str, int]]]:
    """Yield the µs that the model expects of what could do a problem instead of 22, and its template arguments.

    Those of `WIDE` and `TALL` follow from the shape alone, by rules that suited an H200.
    """
    (M, N, K), copied, once = problem.shape, unfetchable(problem), []
    yield from ((thin_cost(of, problem.shape, place.multiprocessors), THIN, of) for of in THIN_SETTINGS)
    yield from ((deep_cost(of, problem.shape, place) + copying(problem), DEEP, of) for of in DEEP_SETTINGS)
    bits = 8 * problem.types.result.itemsize
    yield from ((shallow_cost(of, problem.shape, bits, place.multiprocessors), SHALLOW, of) for of in SHALLOW_SETTINGS)
    if M <= 2 and not copied:
        BN = 64 if N >= 6144 or K * N > 32e6 else 32 if N >= 2048 else 16
        slices = 2 ** ceil(log2(max(K * BN / 2048, 1)))  # as many as there are k for, or fit
        slices = 16 if M == 2 else min(slices, 32 if N < 220 * BN else 16)
        once.append((WIDE, _thin_setting(M, BN, M, slices), 1))
    if N in (1, 2, 4) and "A" not in copied and problem.alignment[1] % ALIGNMENT == 0:
        slices = min(2 ** round(log2(max(32768 / M, 1))), 8 if N == 4 else 16)
        once.append((TALL, _thin_setting(max(4, 32 // slices), N, 4, slices), max(1 + N**2 / 20, 256 / K)))
    for kernel, of, more in once:  # `more`: for more sums, or idle lanes
        bytes_read, blocks = 2 * max(M, N) * K, -(-M // of["BM"]) * -(-N // of["BN"])
        rate = min(PER_SM * min(blocks, place.multiprocessors) / more, FROM_MEMORY)
        yield ONCE + bytes_read / rate, kernel, of


FIRST = {"T": "half"} | SETTINGS[-1] | {"BITS": 32}
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


OWN = AnyShape(FIRST, 2, TRIALS)
"""The family of a 22 that does everything itself."""
