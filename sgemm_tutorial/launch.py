"""Defines a launch: its place, its division of the work, and the arguments that the kernel is given.

`Kernel.resolve` makes a `Launch` of a kernel and a problem, and `gpu.launcher` and `simulator.run` are the two ways to
run one. A kernel's `Family` chooses its template arguments and divides its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .compiler import PTX_ALONE, Instance
from .hardware import WARP
from .operands import Problem

MULTIPROCESSORS = 132
"""The simulated GPU's multiprocessors: as many as the cards of the recorded measurements have."""


class Place(NamedTuple):
    """A place where launches run: a GPU, or the simulator.

    Attributes
    ----------
    architecture : str
        For which kernels are compiled: ``"sm_90"``, or ``"compute_90"`` on the simulator, which needs PTX alone.
    multiprocessors : int
        Among which work is divided.
    device : int or None
        CuPy's number of the GPU; None on the simulator.
    name : str
        The GPU's, by which tables of tuned settings know it.
    """

    architecture: str = PTX_ALONE
    multiprocessors: int = MULTIPROCESSORS
    device: int | None = None
    name: str = ""


SIMULATOR = Place()
"""The place where NumPy arrays are multiplied unless another is asked for."""


@dataclass(frozen=True)
class Division:
    """A launch's division of a problem among blocks, and the arguments for it, which stand after C.

    Attributes
    ----------
    blocks : int
    counts : dict of str to int
        The kernel's last arguments by name, unsigned. Where there are none, there are no arrays before them either.
    workspace, arrived : int
        Words of the two arrays before them: of float32, in which nothing has been written, and of uint32, which are
        zero and are left so.
    last : int
        How many blocks at the grid's end have the last tile of C, together.
    grid : tuple of int
        Blocks along x, y and z, where the grid has more than one dimension.
    """

    blocks: int
    counts: Mapping[str, int] = field(default_factory=dict)
    workspace: int = 0
    arrived: int = 0
    last: int = 1
    grid: tuple[int, ...] = ()


class Box(NamedTuple):
    """A tensor map among the arguments: its name there, its matrix, and the box that one copy takes."""

    argument: str
    matrix: str
    rows: int
    columns: int


def trial(shape: tuple[int, int, int], scalars: tuple[float, float], **more: Any) -> dict[str, Any]:
    """Return the arguments of `lab.check` for a shape, α and β, and more of them."""
    return dict(zip("MNK", shape, strict=True)) | dict(zip(("alpha", "beta"), scalars, strict=True)) | more


def nothing(*_: Any) -> None:
    """Do nothing, where there is nothing to copy before a launch, or to add after it."""


class Family:
    """The rule by which kernels of one kind are launched: here with a block for each tile of C, and with no choice.

    Parameters
    ----------
    shared : callable, optional
        A function of the template arguments: the bytes of shared memory that a launch adds to what the source declares.
        SHARED_BYTES, or none, unless given.
    """

    parameters: tuple[str, ...] = ()
    """Template parameters of a family whose launches differ, in the source's order; a copy is recognised by them."""
    arguments: tuple[str, ...] = ()
    """Types of the arguments after C, by which a copy is recognised too."""
    defaults: Mapping[str, Any] = {}
    """Fields of `Kernel` that a copy shares, such as the least compute capability."""
    chooses = False
    """Whether it makes a choice among settings."""
    trials: Sequence[Mapping[str, Any]] = ()
    """Cases of the suite beside those that follow from a tile."""
    overlaps = False
    """Whether a launch may begin while the one before it in the stream ends: the kernel waits for that itself."""
    scratch = ("workspace", "arrived")
    """Arguments before the counts of a `Division`, where it has any."""
    zeroed = False
    """Whether C is to hold zeros where β = 0, as a kernel that reads it all the same needs."""

    def __init__(self, shared: Callable[[Mapping[str, Any]], int] | None = None) -> None:
        self._shared = shared

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of shared memory that a launch adds to what the source declares."""
        return self._shared(of) if self._shared else of.get("SHARED_BYTES", 0)

    def block(self, of: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the threads of a block, the tile of C being divided among threads of TM × TN elements each.

        Where a warp has a tile of WM × WN, it is divided among warps, and there may be several SLICES of them. Where
        there is a parameter THREADS, it says how many there are.
        """
        if "THREADS" in of:
            return (of["THREADS"],)
        if "WM" in of:
            return (WARP * of["BM"] * of["BN"] // (of["WM"] * of["WN"]) * of.get("SLICES", 1),)
        return (of.get("BM", 1) * of.get("BN", 1) // (of.get("TM", 1) * of.get("TN", 1)),)

    def tile(self, of: Mapping[str, Any]) -> tuple[int, int]:
        """Return the rows and columns of C that a block has."""
        return of.get("BM", 32), of.get("BN", 32)

    def prepared(self, files: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return the source as the compiler is given it."""
        return files

    def arguments_of(self, problem: Problem) -> dict[str, Any]:
        """Return the kernel's arguments by name, in its order, without those that a `Division` and boxes add."""
        return problem.arguments

    def fetchable(self, problem: Problem) -> tuple[Problem, Callable[[], None]]:
        """Return the problem with operands that the kernel can fetch, and what copies to them before each launch."""
        return problem, nothing

    def finish(self, launch: Launch, problem: Problem) -> Callable[..., None]:
        """Return a function that is called with a launch's workspace after it."""
        return nothing

    def claimed(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return those cases of the suite that a kernel claims to handle: all."""
        return cases

    def itself(self, kernel: Any) -> Any:
        """Return the kernel that checks and counts are of, where a call may launch a quicker one."""
        return kernel

    def choose(self, kernel: Any, problem: Problem, place: Place) -> Any:
        """Return the kernel that is launched for a problem: with other template arguments, or another one."""
        return kernel

    def divide(self, kernel: Any, problem: Problem, place: Place) -> Division:
        """Return a launch's division of a problem among blocks.

        Raises
        ------
        ArgumentError
            The template arguments name no tile, or are for other problems.
        """
        return Division(kernel.grid(problem.M, problem.N))

    def boxes(self, of: Mapping[str, Any], problem: Problem) -> tuple[Box, ...]:
        """Return the tensor maps that a launch is given after C."""
        return ()

    def spread(self, place: Place) -> Place:
        """Return a place like this one, where no block does several tiles of C."""
        return place

    def tables(self, place: Place) -> tuple[Path, ...]:
        """Return the files besides the source that the choice depends on."""
        return ()


@dataclass(frozen=True, eq=False)
class Launch:
    """All that it takes to run a kernel on problems of one shape and alignment; made once and never changed.

    Attributes
    ----------
    kernel : Kernel
        With the template arguments of this launch.
    place : Place
    instance : Instance
        What is compiled.
    shape : tuple of int
        M, N and K.
    division : Division
        Its blocks are the grid.
    boxes : tuple of Box
        Of the tensor maps that the kernel is given.
    """

    kernel: Any
    place: Place
    instance: Instance
    shape: tuple[int, int, int]
    division: Division
    boxes: tuple[Box, ...]

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.division.blocks

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Blocks along each dimension of the grid."""
        return self.division.grid or (self.blocks,)

    @cached_property
    def block(self) -> tuple[int, ...]:
        """Threads along each dimension of a block."""
        return self.kernel.family.block(self.kernel.parameters)
