"""Launches everything.cu, vector.cu and pad.cu through the package: kernels with families, and products of any shape.

``sgemm_tutorial.check(KERNEL, M, N, K)`` checks the kernel where the copy engine can fetch A and B, and
``check(ANY, M, N, K)`` the product with everything that belongs to it: vectors, and copies of rows that begin anywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import ptxsim
from ptxsim.tensor_map import ALIGNMENT
from sgemm_tutorial import gpu, operands, simulator
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.families.hopper import MMA, addressable
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import SIMULATOR, Box, Division, Family, Place
from sgemm_tutorial.operands import FP16, INT_MAX, Problem, Types

from .choice import BK, TILES, Tile, best, plans, share

HERE = Path(__file__).parent
TOGETHER = 1536
"""Rows of C that are done together, for L2."""
CHUNK = ALIGNMENT // 2
"""Elements that pad.cu makes at a time."""


def _tile(of: Mapping[str, Any]) -> Tile:
    """Return the tile that template arguments name."""
    return Tile(*(of[name] for name in Tile._fields))


class Column(Family):
    """C of one column, by vector.cu."""

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return a block for every ROWS rows."""
        return Division(-(-problem.M // kernel.parameters["ROWS"]))


class Row(Family):
    """C of one row, by vector.cu."""

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return a cluster for every 256 columns."""
        return Division(-(-problem.N // 256) * kernel.parameters["DEEP"])


class Everything(Family):
    """everything.cu: a tile and a division for each problem, by a table or a cost model.

    A kernel's ``division`` is (tiles that are done whole, clusters). The other tiles are cut into equal shares, one to
    a cluster. A product with a vector goes to vector.cu.

    Parameters
    ----------
    padded : bool
        Whether rows of A and B are known to begin at multiples of 16 bytes, whatever K and N are. If not, 16_mma gets
        the problems whose rows don't.
    """

    parameters = ("T", "NARROW", *Tile._fields)
    arguments = ("TensorMap", "TensorMap", "float4*", "unsigned*", "unsigned", "unsigned", "unsigned")
    chooses = True

    def __init__(self, padded: bool = False) -> None:
        super().__init__()
        self.padded = padded

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of a block's tiles, barriers and sums."""
        return _tile(of).shared_bytes

    def choose(self, kernel: Kernel, problem: Problem, place: Place) -> Kernel:
        """Return the kernel with its own tile if settled, else with the best one, or another kernel."""
        if not kernel.settled and not self.padded and (vector := _vector(kernel, problem)):
            return vector
        if not (self.padded or addressable(problem)):
            if kernel.parameters["NARROW"]:
                raise ArgumentError(
                    "A", "rows that the copy engine can't fetch", "a call of AnyShape, which copies them"
                )
            return MMA.variant(T=kernel.parameters["T"])
        if kernel.settled:
            return kernel
        of, plan = best(problem.shape, place.multiprocessors)
        return dataclasses.replace(
            kernel, parameters=kernel.parameters | of._asdict(), division=(plan.whole, plan.clusters), settled=True
        )

    def divide(self, kernel: Kernel, problem: Problem, place: Place) -> Division:
        """Return the kernel's division, or else the first plan for its tile: whole tiles.

        Raises
        ------
        ArgumentError
            The division does not add up for the problem.
        """
        of, (M, N, K) = _tile(kernel.parameters), problem.shape
        whole, clusters = kernel.division or next(plans(of, problem.shape, place.multiprocessors))[:2]
        try:
            per = share(of, problem.shape, whole, clusters)
        except ValueError as error:
            raise ArgumentError("division", f"{whole} and {clusters}", str(error)) from None
        shared = of.counted(M, N) - whole if per else 0
        if shared * -(-K // BK) + (clusters + 1) * per >= 2**32:
            raise ArgumentError("K", str(K), "fewer steps of shared tiles than 2**32")
        counts = {"shared": shared, "per": max(per, 1), "together": max(TOGETHER // (of.BM * of.DOWN), 1)}
        workspace = (clusters + shared) * of.DOWN * of.ACROSS * of.BM * of.BN if shared else 0
        return Division(clusters * of.cluster, counts, workspace, shared * of.cluster * of.warps)

    def boxes(self, of: Mapping[str, Any], problem: Problem) -> tuple[Box, ...]:
        """Return the boxes: a block fetches a part of its cluster's rows of A, and boxes of B or rows of each."""
        tile = _tile(of)
        rows = BK if tile.boxes % tile.DOWN == 0 else BK // tile.DOWN
        return Box("mapA", "A", tile.BM // tile.ACROSS, BK), Box("mapB", "B", rows, BK)


def _vector(kernel: Kernel, problem: Problem) -> Kernel | None:
    """Return the kernel of vector.cu for a problem, None if it is none: of one column, or of one unaligned row."""
    a, b, _ = problem.alignment
    chosen = {name: kernel.parameters[name] for name in ("T", "NARROW")}
    if problem.N == 1:
        wide = problem.K % CHUNK == a % ALIGNMENT == b % ALIGNMENT == 0
        return COLUMN.variant(**chosen, WORDS=8 if wide else 1, ROWS=8 if problem.M >= 1024 else 1)
    if problem.M == 1 and not addressable(problem):
        return ROW.variant(**chosen, WORDS=8 if problem.N % CHUNK == b % ALIGNMENT == 0 else 1)
    return None


_SHARED_FIELDS: dict[str, Any] = {"least_capability": (9, 0), "folder": HERE, "types": FP16, "exact": True}
COLUMN = Kernel(
    "vector",
    "C of one column",
    {"T": "half", "NARROW": 0, "WORDS": 8, "ROWS": 8, "THREADS": 256},
    entry="column",
    family=Column(),
    **_SHARED_FIELDS,
)
ROW = Kernel(
    "vector",
    "C of one row",
    {"T": "half", "NARROW": 0, "WORDS": 8, "DEEP": 8, "THREADS": 512},
    entry="row",
    family=Row(),
    **_SHARED_FIELDS,
)
KERNEL = Kernel(
    "everything",
    "equal shares, clusters both ways, C of 16 or 32 bits: TMA and wgmma for any shape",
    {"T": "half", "NARROW": 0} | TILES[0]._asdict(),
    family=Everything(),
    **_SHARED_FIELDS,
)
PAD = Kernel("pad", "rows that begin at multiples of 16 bytes", {"THREADS": 256}, **_SHARED_FIELDS)


@dataclasses.dataclass(frozen=True)
class AnyShape:
    """A product of any shape and alignment, called like a kernel: ``product(A, B, C=None, alpha=1.0, beta=0.0)``.

    Attributes
    ----------
    kernel : Kernel
        A variant of `KERNEL`. C's type follows its template arguments: float32, or that of A and B if NARROW is 1.
    """

    kernel: Kernel = KERNEL

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def types(self) -> Types:
        """The types of A, B and C; α and β are float32 in any case."""
        types = self.kernel.types
        return dataclasses.replace(types, result=types.operand) if self.kernel.parameters["NARROW"] else types

    @cached_property
    def _of_copies(self) -> Kernel:
        """The kernel for problems whose A and B are copies; it remembers its launches."""
        return dataclasses.replace(self.kernel, family=Everything(padded=True))

    def __call__(self, A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Compute C ← αAB + βC on the GPU for CuPy arrays, on the simulator for NumPy arrays; see `Kernel.__call__`."""
        problem = operands.check(A, B, C, alpha, beta, self.types)
        alpha, beta = np.float32(alpha), np.float32(beta)
        problem = dataclasses.replace(problem, alpha=alpha, beta=beta)
        M, N, K = problem.shape
        kernel = self.kernel
        if not M * N:
            return problem.C
        if K == 0 or alpha == 0:  # C ← βC: a column of all its elements, with nothing to add
            if M * N > INT_MAX:
                raise ArgumentError("C", f"{M * N} elements", f"at most {INT_MAX} where there is nothing to multiply")
            chosen = {name: kernel.parameters[name] for name in ("T", "NARROW")}
            kernel = COLUMN.variant(**chosen, WORDS=1)
            problem = dataclasses.replace(problem, M=M * N, N=1, K=0)
        elif not addressable(problem) and (kernel.settled or _vector(kernel, problem) is None):
            A, B = _padded(problem)
            problem = dataclasses.replace(problem, A=A, B=B)
            kernel = self._of_copies
        if problem.on_gpu:
            with gpu.reported(self.name):
                kernel.launcher(problem)()
        else:
            simulator.run(kernel.resolve(problem, SIMULATOR), problem)
        return problem.C


def _padded(problem: Problem) -> tuple[Any, Any]:
    """Return A and B, or copies whose rows begin at multiples of 16 bytes, with zeros after each row's last element."""
    module = cupy if problem.on_gpu else np
    matrices, arguments, total = [], {}, 0
    for name, matrix, begins in zip("AB", (problem.A, problem.B), problem.alignment[:2], strict=True):
        rows, columns = matrix.shape
        chunks = -(-columns // CHUNK)
        copied = bool(columns % CHUNK or begins % ALIGNMENT)
        made = module.empty((rows if copied else 1, chunks * CHUNK), matrix.dtype)
        counts = rows if copied else 0, columns, chunks
        arguments |= {name: matrix, f"copy of {name}": made}
        named = zip(("rows", "columns", "chunks"), counts, strict=True)
        arguments |= {f"{what} of {name}": np.uint32(count) for what, count in named}
        matrices.append(made if copied else matrix)
        total += counts[0] * chunks
    threads = PAD.threads
    if problem.on_gpu:
        blocks = min(-(-total // threads), gpu.place().multiprocessors * 8)
        gpu.load(PAD.instance)((blocks,), (threads,), tuple(arguments.values()))
    else:
        binary = PAD.build(SIMULATOR.architecture)
        fresh = {name for name in arguments if name.startswith("copy")}
        blocks = -(-total // threads)
        ptxsim.run(binary.ptx, binary.entry, blocks, threads, arguments, name=PAD.name, fresh=fresh)
    return tuple(matrices)


ANY = AnyShape()
"""Products in FP16 with C of FP32."""
