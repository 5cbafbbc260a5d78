"""Launches kernels 18 to 21, which use Hopper's copy engine, and 16 and 17, which take problems that it cannot fetch.

The copy engine wants rows that begin at multiples of 16 bytes. A problem that has others, or nothing to copy, is handed
over to another kernel. And 21 hands over to 13 what 13 does more quickly, by the models of both. 21's was fitted to 397
problems on an H200.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ptxsim import ALIGNMENT, MBARRIER_BYTES, SWIZZLE

from .. import gpu
from ..errors import ArgumentError
from ..kernel import Kernel
from ..launch import MULTIPROCESSORS, Box, Division, Family, Place, trial
from ..operands import FP16, INT_MAX, SPLIT, Problem, Types, named_in_cuda
from . import autotuned

BOX = SWIZZLE // 2
"""Columns of a box, of FP16 or BF16."""
RESIDENT = {1: 132, 2: 66, 3: 39, 4: 30, 6: 17, 8: 15}
"""Clusters of so many blocks on an H200 at a time, as its driver says: the simulated GPU has as many."""

ONE_TILE: dict[str, int | str] = {"T": "half", "BM": 128, "BN": 256, "BK": 64, "WM": 16, "WN": 256, "STAGES": 4}
"""18's template arguments in the source's order."""
PRODUCED: dict[str, int | str] = ONE_TILE | {"THREADS": 384}
"""19's."""
PARAMETERS: dict[str, int | str] = PRODUCED | {"GROUP": 12, "CLUSTER": 2}
"""20's, where none are chosen."""
IN_PARTS: dict[str, int | str] = {
    "BM": 128,
    "BN": 128,
    "BK": 32,
    "WM": 128,
    "WN": 16,
    "STAGES": 4,
    "THREADS": 384,
    "GROUP": 8,
    "CLUSTER": 1,
}
"""21's."""

START = 1.8  # µs of a launch of 21 or 17
BY_WGMMA = 1.02, 3.1  # µs of a multiply step of 21, and of the end of a tile
BY_MMA = 2.25, 5.1  # 17's, for rows that 21 cannot fetch


class Width(NamedTuple):
    """A tile's columns, the stages that fit, the blocks of a cluster, and the relative time per column."""

    BN: int
    STAGES: int
    CLUSTER: int
    slower: float = 1.0


WIDTHS = (Width(256, 4, 2), Width(224, 4, 2), Width(192, 5, 2, 1.04), Width(128, 6, 1, 1.25))


def tiles(types: Types, padding: int, of: Mapping[str, Any]) -> int:
    """Return the bytes of tiles of A and B, whose rows have so many elements of padding."""
    return (
        max(of["STAGES"], 1)
        * (of["BM"] * (of["BK"] + padding) + of["BK"] * (of["BN"] + padding))
        * types.operand.itemsize
    )


def tiles_if_shared(of: Mapping[str, Any]) -> int:
    """Return the bytes of 23's tiles of A and B, if it shares them, and of what it wants beside them."""
    return of["SHARED"] * of["BK"] * (of["BM"] + of["BN"]) * named_in_cuda(of["T"]).operand.itemsize + of["EXTRA"]


MMA = Kernel(
    "16_mma",
    "fragments that the warp loads itself, from tiles that are swizzled",
    {"T": "half", "BM": 128, "BN": 256, "BK": 32, "WM": 64, "WN": 64, "STAGES": 4, "BLOCKS": 1},
    (8, 0),
    types=FP16,
    family=Family(partial(tiles, FP16, 0)),
)
"""16, which takes what the copy engine cannot fetch."""

TF32X3 = Kernel(
    "17_tf32x3",
    "FP32 from tensor cores: each number in two parts, and sums of steps",
    {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "STAGES": 3, "BLOCKS": 1},
    (8, 0),
    types=SPLIT,
    family=Family(partial(tiles, SPLIT, 0)),
)
"""17, which takes what its version for Hopper cannot fetch, and everything on other GPUs."""


def addressable(problem: Problem) -> bool:
    """Whether the copy engine can fetch A and B: neither is empty, and every row begins at a multiple of 16 bytes."""
    begins = (*problem.alignment[:2], *(size * problem.types.operand.itemsize for size in (problem.K, problem.N)))
    return all(problem.shape) and not any(number % ALIGNMENT for number in begins)


def on_hopper(place: Place) -> bool:
    """Whether a place is a Hopper GPU, or the simulator of one."""
    return place.architecture.partition("_")[2].rstrip("a") == "90"


def resident(cluster: int, place: Place) -> int:
    """Return how many clusters of so many blocks are at a place at a time, with a block on each SM.

    A GPU's driver is asked, since it knows which SMs each group of them lacks. The simulator has as many as an H200's
    driver says, or in proportion to its multiprocessors.
    """
    if place.device is not None and cluster > 1 and on_hopper(place):
        return gpu.resident_clusters(cluster, place.device)
    return RESIDENT.get(cluster, MULTIPROCESSORS // cluster) * place.multiprocessors // MULTIPROCESSORS


def columns(width: Width, M: int, N: int, place: Place) -> float:
    """Return how many columns each multiprocessor does, of full tiles and in proportion to their time."""
    clusters = -(-M // (width.CLUSTER * PARAMETERS["BM"])) * -(-N // width.BN)
    return -(-clusters // resident(width.CLUSTER, place)) * width.BN * width.slower


def quickest(M: int, N: int, place: Place) -> Width:
    """Return the width that leaves a multiprocessor the fewest `columns` to do, of those whose clusters fit."""
    return min(
        (width for width in WIDTHS if resident(width.CLUSTER, place)),
        key=lambda width: columns(width, M, N, place),
    )


class Fetched(Family):
    """18, 19 and their copies: the copy engine brings tiles, and each block has a tile of C.

    A problem that the copy engine cannot fetch is handed over to 16.

    Parameters
    ----------
    parameters : dict of str to int or str
        Template arguments, whose names tell a copy.
    barriers : int
        Mbarriers for each stage.
    trials : sequence of dict
        Arguments of `lab.check` for code that otherwise only large problems reach.
    """

    arguments = ("TensorMap", "TensorMap")
    defaults: Mapping[str, Any] = {"least_capability": (9, 0), "exact": True}

    def __init__(self, parameters: Mapping[str, Any], barriers: int, trials: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__()
        self.parameters, self.barriers, self.trials = tuple(parameters), barriers, trials

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of the tiles of A and B, of 16 bits each, and of the mbarriers for each pair."""
        columns = -(-of["BN"] // BOX) * BOX
        return of["STAGES"] * (of["BK"] * (of["BM"] + columns) * 2 + self.barriers * MBARRIER_BYTES)

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return the kernel itself, or 16 for what the copy engine cannot fetch."""
        return kernel if addressable(problem) else MMA.variant(T=kernel.parameters["T"])

    def boxes(self, of: Mapping[str, Any], problem: Problem) -> tuple[Box, ...]:
        """Return the boxes: one of A is a tile; as many rows of B as a tile has lie in boxes side by side."""
        columns = SWIZZLE // problem.types.operand.itemsize
        return Box("mapA", "A", of["BM"], columns), Box("mapB", "B", of["BK"] // of.get("CLUSTER", 1), columns)


class Persistent(Fetched):
    """20 and its copies: blocks that stay, and do several tiles of C, and a choice among widths of a tile."""

    chooses = True

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return 20 with its own tile if settled, else with the width that leaves an SM the fewest columns to do."""
        if kernel.settled or not addressable(problem):
            return super().choose(kernel, problem, place)
        best = quickest(problem.M, problem.N, place)
        return kernel.variant(BN=best.BN, WN=best.BN, STAGES=best.STAGES, CLUSTER=best.CLUSTER)

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return as many blocks as are on the GPU at a time, or as there are tiles of C if those are fewer.

        Raises
        ------
        ArgumentError
            The kernel's division gives tiles a block of their own.
        """
        of, cluster = kernel.parameters, kernel.parameters["CLUSTER"]
        if kernel.division:
            whole, shares = kernel.division
            if whole:
                raise ArgumentError("division", str(whole), "0: none of the tiles has a block of its own")
            return Division(shares)
        tiles = -(-problem.M // (cluster * of["BM"])) * -(-problem.N // of["BN"])
        return Division(cluster * min(tiles, max(resident(cluster, place), 1)))

    def spread(self, place: Place) -> Place:
        """Return the place with an SM for each tile, so that no block does several."""
        return place._replace(multiprocessors=INT_MAX)


class InParts(Persistent):
    """21 and its copies; 17 takes problems that 21 cannot fetch, or whose C it cannot write in pairs.

    The catalogue's 21 is one call for all of FP32: 13 takes what 13 does more quickly. What is settled or edited, or a
    copy, hands nothing over to 13.
    """

    defaults: Mapping[str, Any] = Fetched.defaults | {"types": SPLIT}

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of the tiles of A, of A's small parts and of B, of FP32, and of three mbarriers for each."""
        return of["STAGES"] * (of["BK"] * (2 * of["BM"] + of["BN"]) * 4 + self.barriers * MBARRIER_BYTES)

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return the kernel itself on Hopper, for problems that suit it, else 17; or 13 if the models find it quicker.

        13 takes over from the catalogue's 21 alone, on Hopper alone, and only where there is something to multiply.
        """
        own = kernel if on_hopper(place) and problem.alignment[2] % 8 == 0 and addressable(problem) else TF32X3
        if kernel != TF32X3_WGMMA or not (on_hopper(place) and problem.M and problem.N and problem.K):
            return own
        other = autotuned.KERNEL.family.choose(autotuned.KERNEL, problem, place)
        return (
            other if autotuned.expected(other, problem, place) < in_parts(own, problem, place.multiprocessors) else own
        )

    def itself(self, kernel: Kernel) -> Kernel:
        """Return the kernel settled."""
        return kernel.variant()

    def tables(self, place: Place) -> tuple[Path, ...]:
        """Return the files that 13's choice depends on."""
        return autotuned.KERNEL.family.tables(place)


def in_parts(kernel: Kernel, problem: Problem, multiprocessors: int) -> float:
    """Return the µs that the model expects of 21, or of 17: each SM does one tile after the other."""
    step, end = BY_MMA if kernel is TF32X3 else BY_WGMMA
    tiles = -(-kernel.grid(problem.M, problem.N) // multiprocessors)
    return START + tiles * (-(-problem.K // kernel.parameters["BK"]) * step + end)


def _small(
    parameters: Mapping[str, Any],
    shape: tuple[int, int, int],
    blocks: int = 0,
    scalars: tuple[float, float] = (-1.5, 0.75),
    **more: Any,
) -> dict[str, Any]:
    """Return a case with these template arguments unless told otherwise, divided among so many blocks if any."""
    setting = tuple(more.pop(name, value) for name, value in parameters.items() if name != "T")
    return trial(shape, scalars, setting=setting, **more, **({"division": (0, blocks)} if blocks else {}))


_trial = partial(_small, PARAMETERS | {"BM": 64, "BN": 128, "WN": 128, "STAGES": 3, "THREADS": 256, "CLUSTER": 1})
_in_parts = partial(_small, IN_PARTS | {"BN": 64, "THREADS": 256, "STAGES": 3, "GROUP": 2})

TRIALS: tuple[dict[str, Any], ...] = (
    _trial((150, 264, 328), 2, GROUP=2),
    _trial((129, 264, 328)),
    # Blocks that do several tiles of C: of one step along K, of several, and of none.
    _trial((129, 264, 64), 3),  # the last row has a tile of its own
    _trial((129, 264, 200), 2),  # and so has its turn to be written late
    _trial((129, 264, 72), 2),  # part of it in the loop, part behind it
    _trial((150, 264, 64), 2, (0.0, 2.0)),
    _trial((150, 264, 136), 2, (1.0, 0.0), shift=(0, 0, 1)),
    # Clusters: the second block has no row, and several tiles each.
    _trial((64, 128, 200), CLUSTER=2),
    _trial((330, 264, 200), 4, CLUSTER=2, GROUP=2),
    _trial((330, 136, 64), 2, CLUSTER=2),
    # Every width, with tiles of full height.
    *(
        _trial((140, width.BN + 8, 136), BM=128, BN=width.BN, WN=width.BN, THREADS=384, CLUSTER=width.CLUSTER)
        for width in WIDTHS
    ),
)
"""Arguments of `lab.check` that make 20 do on small problems what it otherwise does on large ones only."""


TRIALS_IN_PARTS: tuple[dict[str, Any], ...] = (
    # Blocks that do several tiles of C: of several steps along K, and of one.
    _in_parts((390, 132, 264), 2),
    _in_parts((390, 132, 32), 4, GROUP=8),
    # Clusters: the second block has no row, and several tiles each.
    _in_parts((128, 68, 132), CLUSTER=2),
    _in_parts((520, 132, 100), 2, CLUSTER=2),
    # A tile of full width.
    _in_parts((130, 260, 100), BN=128, THREADS=384),
    # Past the edges an infinity meets zeros, and nobody looks at the result. Some are in the first of a row's four
    # products, some in the last.
    _in_parts((100, 52, 4), special=True),
    # After that the block goes on to another tile, for which its lanes have to be together again.
    _in_parts((390, 132, 40), 2, special=True),
)
"""Arguments of `lab.check` that make 21 do on small problems what it otherwise does on large ones only."""


def _kernel(name: str, idea: str, parameters: dict[str, int | str], family: Fetched) -> Kernel:
    """Return a kernel of the catalogue, of FP16 unless its family says otherwise."""
    return Kernel(name, idea, parameters, family=family, **{"types": FP16} | family.defaults)


WGMMA = _kernel(
    "18_wgmma",
    "a copy engine brings tiles, and four warps multiply them where they lie",
    ONE_TILE,
    Fetched(ONE_TILE, 1),
)
PRODUCER_WARP = _kernel(
    "19_producer_warp",
    "one warp does nothing but fetch, and the others never wait for each other",
    PRODUCED,
    Fetched(PRODUCED, 2),
)
PERSISTENT = _kernel(
    "20_persistent",
    "blocks stay for several tiles of C, and clusters share their tiles of B",
    PARAMETERS,
    Persistent(PARAMETERS, 2, TRIALS),
)
TF32X3_WGMMA = _kernel(
    "21_tf32x3_wgmma",
    "17 by wgmma: B in parts through registers, A's small parts in shared memory",
    IN_PARTS,
    InParts(IN_PARTS, 3, TRIALS_IN_PARTS),
)
