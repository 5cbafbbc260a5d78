"""Chooses the template arguments of kernel 13 for a problem, and divides the work of kernels 12 and 13.

A model gives the cost of each choice. It knows the speed at which an SM gets through multiply steps, full and with a
single block on it, the speed at which tiles come from L2 and matrices from memory, and the times of a launch and of
adding up partial sums. The model was fitted to some 13,000 times on an H200, and four settings to 319 random
problems; on another GPU only the order of the choices counts. Nothing is measured at a call, and the same problem is
always done in the same way on the same GPU. Where ``python -m lab tune`` has measured a size on a GPU, its table
decides there, not the model; on the simulator the model always decides.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import tuned
from ..errors import ArgumentError
from ..hardware import WARP, limits_of
from ..kernel import Kernel
from ..launch import Division, Family, Place, trial
from ..operands import Problem

PARAMETERS = ("BM", "BN", "BK", "WM", "WN", "TM", "TN", "SLICES", "STAGES", "WORDS", "BLOCKS", "SHARING")
"""13's template parameters, in the source's order."""

SETTINGS = {
    (128, 256, 8, 64, 64, 8, 16, 1, 4, 4, 1, 1): (1.28, 1.09),
    (192, 128, 8, 96, 32, 12, 8, 1, 4, 4, 1, 1): (0.799, 1),
    (96, 256, 8, 96, 32, 12, 8, 1, 4, 4, 1, 1): (1, 0.815),
    (64, 128, 16, 32, 64, 8, 8, 2, 4, 4, 1, 1): (0.533, 0.735),
    (64, 128, 8, 32, 64, 8, 8, 1, 4, 4, 3, 0): (0.336, 0.412),
    (96, 64, 32, 96, 32, 12, 8, 4, 4, 4, 1, 1): (0.799, 1.16),
    (64, 64, 8, 32, 32, 8, 4, 1, 4, 4, 5, 0): (0.21, 0.245),
    (32, 128, 16, 16, 64, 4, 8, 2, 4, 4, 2, 1): (0.382, 0.407),
    (32, 64, 8, 16, 32, 4, 4, 1, 4, 4, 8, 0): (0.115, 0.147),
    (16, 128, 32, 16, 64, 4, 8, 4, 4, 4, 2, 1): (0.427, 0.542),
    (32, 64, 32, 32, 32, 8, 4, 4, 4, 4, 2, 1): (0.467, 0.272),
    (32, 32, 64, 32, 32, 8, 4, 8, 4, 4, 2, 0): (0.516, 0.541),
    (64, 16, 32, 64, 16, 4, 8, 4, 4, 4, 4, 1): (0.333, 0.385),
    (16, 64, 32, 16, 32, 4, 4, 4, 4, 4, 3, 1): (0.293, 0.136),
    (16, 32, 32, 16, 32, 4, 4, 4, 4, 4, 5, 1): (0.15, 0.178),
    (48, 32, 32, 48, 32, 12, 4, 4, 4, 4, 3, 1): (0.342, 0.376),
    (32, 32, 32, 32, 32, 8, 4, 4, 4, 4, 4, 1): (0.251, 0.288),
    (32, 16, 32, 32, 16, 4, 4, 4, 4, 4, 4, 1): (0.187, 0.193),
    (16, 64, 16, 16, 32, 4, 4, 2, 4, 4, 5, 1): (0.135, 0.158),
    (1, 16, 128, 1, 16, 1, 4, 16, 1, 4, 1, 1): (0.128, 0.128),
    (4, 1, 512, 4, 1, 1, 4, 4, 1, 4, 4, 1): (0.0062, 0.063),
    (1, 32, 64, 1, 32, 1, 4, 16, 1, 4, 2, 1): (0.0124, 0.0955),
}
"""Template arguments to choose among, and the µs of one multiply step of a block on an SM that is full, its share of
them, and of a block that is alone there. SHARING says whether tiles may be shared; where none is after all, it is 0."""

TILE = 8  # the first parameters, which define a multiply step
PACE, VECTOR_PACE = 5.2e-6, 47e-6  # µs per multiply-add of a step whose µs are not known
WARPS = 8  # that keep an SM busy
LANES = 128  # of the SM that all these µs were measured on
LAUNCH = 2.39  # µs
FILL = 1.78  # steps that go by before a tile's first and after its last
L2, MEMORY = 12.2e6, 3.98e6  # bytes per µs
MEETING, ADDING = 2.57, 8.71e-6  # µs where parts of sums meet, and per byte of them on the busiest SM
TOGETHER = 16  # parts that one block adds up
NARROW = {4: 1.0, 2: 1.08, 1: 1.08}  # times the µs, by how many words are copied at once
RAGGED, HIDDEN = 0.2e-3, 4  # µs to write an element where rows begin anywhere, unless so many blocks of an SM hide it
MOST_SUMS = 96  # of a thread whose registers hold what is under way too
GROUP = 8  # rows of tiles that are walked column by column


def named(setting: Iterable[int]) -> dict[str, int]:
    """Return template arguments in the source's order by their names."""
    return dict(zip(PARAMETERS, setting, strict=True))


ONE_WARP = (16, 32, 8, 16, 32, 4, 4, 1, 3, 4, 1, 1)
SLICES = (16, 64, 32, 16, 64, 4, 8, 4, 4, 4, 1, 1)
REGISTERS = (16, 32, 8, 16, 32, 4, 4, 1, 0, 4, 1, 1)
UNEVEN_A = (24, 64, 8, 24, 64, 12, 4, 4, 0, 4, 1, 1)  # some threads fetch more rows than others
UNEVEN_B = (16, 32, 16, 16, 32, 4, 4, 8, 0, 4, 1, 1)  # here too; and one slice is left with the sums
WIDE = (4, 256, 8, 4, 256, 4, 8, 1, 3, 4, 1, 1)  # lanes in a row, and rows of B too long to be fetched at once
TALL = (128, 4, 8, 128, 4, 4, 4, 1, 3, 4, 1, 1)  # lanes in a column
COLUMN = (8, 1, 256, 4, 1, 1, 4, 2, 1, 4, 1, 1)
ROW = (1, 32, 16, 1, 16, 1, 4, 2, 1, 4, 1, 1)


def _trial(
    setting: tuple[int, ...],
    shape: tuple[int, int, int],
    division: tuple[int, int],
    scalars: tuple[float, float] = (-1.5, 0.75),
    **more: Any,
) -> dict[str, Any]:
    return trial(shape, scalars, **more, setting=setting, division=division)


TRIALS: tuple[dict[str, Any], ...] = (
    _trial(ONE_WARP, (35, 68, 43), (2, 5)),
    _trial(ONE_WARP, (19, 33, 51), (1, 7), (1.0, 0.0)),
    _trial(ONE_WARP, (19, 34, 51), (1, 3)),
    _trial(COLUMN, (21, 1, 2052), (0, 7)),
    _trial(COLUMN, (12, 1, 1283), (1, 2)),
    _trial(ROW, (3, 68, 301), (2, 4)),
    _trial(ROW, (2, 41, 301), (1, 5)),
    _trial(REGISTERS, (35, 68, 43), (2, 5)),
    _trial(REGISTERS, (19, 33, 51), (1, 7)),
    _trial(SLICES, (35, 68, 170), (1, 9)),
    _trial(SLICES, (19, 33, 330), (0, 6)),
    _trial(UNEVEN_A, (35, 68, 43), (1, 4)),
    _trial(UNEVEN_A, (35, 67, 43), (1, 4)),
    _trial(UNEVEN_B, (35, 68, 83), (2, 5)),
    _trial(UNEVEN_B, (35, 66, 83), (2, 5)),  # no slice but the first has sums to write, by way of shared memory
    _trial(WIDE, (9, 260, 43), (1, 6)),
    _trial(WIDE, (9, 257, 43), (1, 6)),
    _trial(TALL, (131, 8, 43), (1, 5)),
    # Whole tiles alone, more parts than 16 and than 256, bands of tiles, and C off its boundary.
    _trial(ONE_WARP, (16, 32, 40), (1, 0)),
    _trial(ONE_WARP, (32, 64, 40), (1, 3)),
    _trial(ONE_WARP, (16, 32, 320), (0, 40)),
    _trial(ONE_WARP, (20, 32, 325), (0, 35)),
    _trial(ONE_WARP, (16, 32, 136), (0, 17)),  # the last of them has nobody beside it at first
    _trial(ONE_WARP, (16, 32, 248), (0, 31)),  # the second group is one short
    _trial(ONE_WARP, (3, 4, 2400), (0, 300)),
    _trial(ONE_WARP, (150, 68, 9), (30, 0)),
    _trial(ONE_WARP, (150, 68, 20), (13, 7)),
    _trial(ONE_WARP, (109, 68, 9), (21, 0)),  # a row short of a band
    _trial(ONE_WARP, (16, 32, 40), (0, 2), shift=(0, 0, 1)),
    # What BLAS does not read; where K = 0, there is a step all the same.
    _trial(ONE_WARP, (35, 68, 43), (0, 20), (0.0, 2.0)),
    _trial(ONE_WARP, (20, 36, 0), (0, 3)),
    _trial(COLUMN, (21, 1, 1028), (0, 7), (0.0, 2.0)),
    _trial(COLUMN, (5, 1, 3), (1, 0)),
    _trial(COLUMN, (16, 1, 3076), (2, 0), (1.0, 0.0)),
    _trial(COLUMN, (5, 1, 513), (0, 3)),  # a share begins at k = 1
    _trial(ROW, (2, 68, 40), (0, 5), (0.0, 2.0)),
    _trial(ROW, (2, 3, 5), (2, 0), (1.0, 0.0)),
    _trial(ROW, (1, 64, 128), (2, 0)),
)
"""Cases in which 13 is checked besides those that it chooses for: arguments of `lab.check`.

The tiles are small and divided by hand, so that small problems have all that large ones have: tiles that two blocks
share, and three, more parts than one block adds up at once, bands of tiles, rows that are fetched by fours of words, by
twos and one by one.
"""


class Autotuned(Family):
    """13 and its copies: the quickest setting for a problem, and an equal share of the work for every SM."""

    parameters = PARAMETERS
    arguments = ("float*", "unsigned*", "unsigned", "unsigned", "unsigned")
    chooses = True
    trials = TRIALS

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of the tiles, or of the sums that slices add up where the tiles were."""
        words = (of["STAGES"] or 3) * of["BK"] * (of["BM"] + 4 + of["BN"])
        tiles = words if min(of["BM"], of["BN"]) > 1 else 0
        takers = of["SLICES"] if of["TM"] % of["SLICES"] == 0 else 1  # slices that are left with a part of the sum
        return 4 * max(tiles, _part(of) * of["SLICES"] // takers if of["SLICES"] > 1 else 0)

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return 13 with template arguments for a problem: its own if settled, else the quickest.

        That is what was measured to be quickest on this GPU, with its division, or else what the model finds so. Rows
        that do not begin at multiples of 16 bytes are copied by twos of words, or word by word. Before compute
        capability 8.0 tiles go through registers, of which there must be more, and a thread has fewer sums.
        """
        a, b, _ = problem.alignment
        measured = place.name and not kernel.settled and a % 16 == b % 16 == 0
        if measured and (way := tuned.best(kernel, place.name, problem.shape)):
            return _settled(kernel, named(way.setting)).divided(way.whole, way.shares)
        choices = _choices(kernel, problem.shape, (a, b), place)
        found = [
            (*ways(tuple(of.values()), problem.shape, place.architecture, place.multiprocessors)[0], number)
            for number, of in enumerate(choices)
        ]
        *_, shares, number = min(found)
        return _settled(kernel, choices[number] if kernel.settled else choices[number] | {"SHARING": int(shares > 0)})

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return the division that a kernel brings, or the one that the model finds quickest.

        Raises
        ------
        ArgumentError
            A tile of one column is for a B of one column, and a high one for a K that is not astronomical. Or the
            kernel's division does not add up for the problem.
        """
        if unsuited := _unsuited(kernel.parameters, problem.shape):
            raise unsuited
        whole, shares = (
            kernel.division
            or ways(tuple(kernel.parameters.values()), problem.shape, place.architecture, place.multiprocessors)[0][1:]
        )
        return division(kernel.parameters, problem.shape, whole, shares)

    def tables(self, place: Place) -> tuple[Path, ...]:
        """Return the reader's own table for the GPU, which `tune` writes; those that are handed in do not change."""
        return (tuned.path(place.name),) if place.name else ()


def _choices(
    kernel: Kernel, shape: tuple[int, int, int], begins: tuple[int, int], place: Place
) -> list[dict[str, int]]:
    """Return the settings that a problem can be done with, each as the problem's rows and the GPU want it."""
    possible, choices = [dict(kernel.parameters)], []
    if not kernel.settled:
        possible = [of for of in map(named, SETTINGS) if not _unsuited(of, shape)]
        possible = [of for of in possible if meant(of, shape)] or possible  # a long K leaves those of vectors alone
    (a, b), (_, N, K) = begins, shape
    for of in possible:
        of["WORDS"] = min(of["WORDS"], _words(of, K * 4 | a | b if of["BN"] == 1 else N * 4 | b))
        if int(re.findall(r"\d+", place.architecture)[0]) < 80 and of["STAGES"]:
            if of["TM"] * of["TN"] > MOST_SUMS and not kernel.settled:
                continue
            of |= {"STAGES": 0, "BLOCKS": max(of["BLOCKS"] * 2 // 3, 1)}
        choices.append(of)
    return choices


def _settled(kernel: Kernel, parameters: dict[str, int]) -> Kernel:
    """Return 13 with these template arguments, for the GPUs that can do with them."""
    least = kernel.least_capability if parameters["STAGES"] else (7, 5)
    return dataclasses.replace(kernel, parameters=parameters, least_capability=least, settled=True)


def division(parameters: Mapping[str, Any], shape: tuple[int, int, int], whole: int, shares: int) -> Division:
    """Return the division by which `whole` tiles have a block each and `shares` blocks share the others.

    Raises
    ------
    ArgumentError
        There are fewer tiles, or no blocks for the rest of them, or more blocks than the rest has steps.
    """
    M, N, K = shape
    down, across = -(-M // parameters["BM"]), -(-N // parameters["BN"])
    rest = down * across - whole
    if min(whole, rest) < 0 or not (int(rest > 0) <= shares <= rest * max(-(-K // parameters["BK"]), 1)):
        needs = f"some of {down * across} tiles, and for the rest at least one block, each with at least one step"
        raise ArgumentError("division", f"{whole} and {shares}", needs)
    counts = {"whole": whole, "shares": shares, "group": GROUP if GROUP * across < 2**32 else 1}  # counted in 32 bits
    return Division(whole + shares, counts, (shares + rest) * _part(parameters), shares + rest, last=max(shares, 1))


def meant(of: Mapping[str, Any], shape: tuple[int, int, int]) -> bool:
    """Return whether template arguments are worth a try for a problem (M, N, K): vectors have some of their own."""
    M, N, _ = shape
    if N == 1 or of["BN"] == 1:
        return of["BN"] == N
    return M <= 2 if of["BM"] == 1 else M != 1


def _unsuited(of: Mapping[str, Any], shape: tuple[int, int, int]) -> ArgumentError | None:
    """Return the error to raise if these template arguments do not suit a problem."""
    _, N, K = shape
    if of["BN"] == 1 != N:
        return ArgumentError("B", f"{N} columns", "1 column, as BN is 1")
    if min(of["BM"], of["BN"]) > 1 and of["BM"] * K >= 2**32:
        return ArgumentError("A", f"{K} columns", f"fewer than 2**32 / BM, which is {2**32 // of['BM']}")
    return None


def _words(of: Mapping[str, Any], places: int) -> int:
    """Return how many words can be fetched at once where rows begin at multiples of the lowest bit of `places`."""
    return 4 if places % 16 == 0 else 2 if places % 8 == 0 and min(of["BM"], of["BN"]) > 1 else 1


def _part(of: Mapping[str, Any]) -> int:
    """Return the words that one block adds to a sum: BM × BN, or more where several lanes have the same."""
    return of["BM"] // of["WM"] * (of["BN"] // of["WN"]) * WARP * of["TM"] * of["TN"]


@lru_cache(maxsize=4096)
def ways(
    setting: tuple[int, ...], shape: tuple[int, int, int], architecture: str, multiprocessors: int
) -> list[tuple[float, int, int]]:
    """Return each way to divide a problem, the quickest first.

    Each is the µs that the model expects, the blocks that have a whole tile, and the blocks that share the others.
    """
    of, (M, N, K) = named(setting), shape
    limits = limits_of(architecture.replace("compute", "sm"))
    tiles, steps = -(-M // of["BM"]) * -(-N // of["BN"]), max(-(-K // of["BK"]), 1)
    fitting = limits.shared_per_sm // (
        KERNEL.family.shared_bytes(of) + limits.shared_reserved_per_block + limits.shared_granularity
    )
    per_sm = max(min(of["BLOCKS"], fitting), 1)

    guess = (VECTOR_PACE if min(of["BM"], of["BN"]) == 1 else PACE) * of["BM"] * of["BN"] * of["BK"]
    warps = of["BM"] // of["WM"] * (of["BN"] // of["WN"]) * of["SLICES"]
    paces = [of for tile, of in SETTINGS.items() if tile[:TILE] == setting[:TILE]]
    full, alone = paces[0] if paces else (guess, guess * max(WARPS / max(warps, 1), 1))
    slower = LANES / limits.fp32_lanes * NARROW.get(of["WORDS"], 1.0)
    writing = RAGGED * of["BM"] * of["BN"] if of["WORDS"] < 4 and per_sm < HIDDEN else 0.0
    fetching = max(4 * K * tiles * (of["BM"] + of["BN"]) / L2, 4 * (M * K + K * N + M * N) / MEMORY)

    def cost(whole: int, shares: int) -> float:
        def step(blocks: int) -> float:
            return slower * max(full, alone / max(blocks, 1))

        rounds, rest = divmod(whole, per_sm * multiprocessors)
        last, sharing = -(-rest // multiprocessors), -(-shares // multiprocessors)
        each = -(-(tiles - whole) * steps // max(shares, 1))
        work = last * (steps + FILL) + sharing * (each + FILL * -(-each // steps))
        if per_sm > 1 and last and sharing:  # who is beside whom is up to the GPU: it may be nothing but whole tiles
            work = (last + sharing) * (max(steps, each) + FILL)
        busy = rounds * per_sm * (steps + FILL) * step(per_sm) + work * step(min(last + sharing, per_sm))
        written = rounds * per_sm + last + sharing * -(-each // steps)  # tiles, by the busiest SM
        parts = min(-(-steps // max(each, 1)) + 1, TOGETHER)
        meeting = MEETING + ADDING * 4 * _part(of) * sharing * parts if shares else 0
        return LAUNCH + max(busy + written * writing, fetching) + meeting

    plans = _plans(tiles, steps, per_sm, multiprocessors) if of["SHARING"] else [(tiles, 0)]
    return sorted((cost(*plan), *plan) for plan in plans)


def expected(kernel: Kernel, problem: Problem, place: Place) -> float:
    """Return the µs that the model expects of 13 as it was chosen for a problem."""
    return ways(tuple(kernel.parameters.values()), problem.shape, place.architecture, place.multiprocessors)[0][0]


def _plans(tiles: int, steps: int, per_sm: int, multiprocessors: int) -> Iterator[tuple[int, int]]:
    """Yield ways to divide tiles: blocks that have one each, and blocks that share the others."""
    yield tiles, 0
    rounds = tiles // (per_sm * multiprocessors)
    wholes = {max(rounds - 1, 0) * per_sm * multiprocessors, rounds * per_sm * multiprocessors}
    for whole in sorted(wholes | {tiles // multiprocessors * multiprocessors} - {tiles}):
        rest = tiles - whole
        for blocks in range(1, per_sm + 1):
            shares = min(blocks * multiprocessors, rest * steps)
            yield whole, shares
            if shares > rest:
                yield whole, shares // rest * rest  # each within one tile


class StreamK(Family):
    """12 and its copies: the multiply steps of all tiles in equal shares, one for each block that is on the GPU."""

    parameters = ("BM", "BN", "BK", "WM", "WN", "TM", "TN", "STAGES", "BLOCKS")
    arguments = ("float*", "unsigned*", "unsigned")
    defaults: Mapping[str, Any] = {"least_capability": (8, 0)}
    trials = tuple(
        trial((130, 70, K), (-1.5, 0.75), division=(0, shares)) for K, shares in ((83, 3), (200, 2), (200, 7))
    )

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return the shares that are asked for, or as many as blocks are on the GPU at a time; at most one a step."""
        of, tiles = kernel.parameters, kernel.grid(problem.M, problem.N)
        steps = max(-(-problem.K // of["BK"]), 1)
        _, asked = kernel.division or (0, 0)
        shares = min(asked or place.multiprocessors * of["BLOCKS"] or tiles, tiles * steps)
        incomplete = 2 * shares * of["BM"] * of["BN"] if shares and tiles % shares else 0
        with_the_last = shares and shares - ((tiles * steps - steps + 1) * shares - 1) // (tiles * steps)
        return Division(shares, {"shares": shares}, incomplete, tiles, last=with_the_last)

    def spread(self, place: Place) -> Place:
        """Return a place whose number of SMs is not known: there a share is a tile."""
        return place._replace(multiprocessors=0)


STREAM_K = Kernel(
    "12_stream_k",
    "every block has an equal share of the multiply steps",
    {"BM": 128, "BN": 256, "BK": 8, "WM": 64, "WN": 64, "TM": 16, "TN": 8, "STAGES": 3, "BLOCKS": 1},
    (8, 0),
    family=StreamK(),
)
"""12, whose tiles and loop are 11's."""

KERNEL = Kernel(
    "13_autotuned",
    "the tile and the division of the work are chosen for the problem's shape",
    named(next(iter(SETTINGS))),
    (8, 0),
    family=Autotuned(),
)
"""13, with the first of its settings where it is not to choose."""
