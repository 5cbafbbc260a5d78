"""Runs a program over a grid of blocks."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from .batch import Batch
from .clusters import BLOCKS_MAX
from .counting import Counts
from .decode import decode
from .errors import ArgumentError, SimulationFault
from .execution import Execution
from .limits import THREADS_MAX
from .memory import GlobalMemory
from .progress import bar
from .ptx import DTYPES, TENSOR_MAP, Program, parse
from .scheduler import Scheduler
from .tensor_map import TensorMap
from .tracing import Access, Event

LANES = 1 << 15
"""Lanes to execute together: enough to spread Python's cost per instruction, few enough for the caches."""

BUDGET = 1 << 22
"""Instructions that a thread may execute unless `run` is told otherwise, far more than most kernels need."""

Extent = int | tuple[int, ...]
"""The extent of a block or a grid: a whole number, or up to three of them, x first."""


@dataclass(frozen=True)
class Run:
    """The result of a simulated run; the kernel's stores are in the arrays that it was given.

    Attributes
    ----------
    name : str
        The kernel's name.
    grid, block : tuple of int
        Blocks of the grid and threads of a block, along x, y and z.
    lines : dict of int to Counts
        The counts by source line: of the CUDA source if the PTX has locations, else of the PTX itself.
    trace : list of Access
        The traced blocks' accesses, in the order in which they were made.
    events : list of Event
        The traced blocks' other events, in order.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lines: dict[int, Counts] = field(repr=False)
    trace: list[Access] = field(repr=False)
    events: list[Event] = field(repr=False)

    @property
    def total(self) -> Counts:
        """The sum of the counts of all lines."""
        return sum(self.lines.values(), Counts())


def run(
    ptx: str,
    entry: str,
    grid: Extent,
    block: Extent,
    arguments: Mapping[str, np.ndarray | np.generic | TensorMap],
    shared: int = 0,
    *,
    name: str | None = None,
    fresh: Collection[str] = (),
    trace: Collection[int] = (),
    blocks: Collection[int] | None = None,
    budget: int = BUDGET,
    progress: bool | None = False,
) -> Run:
    """Run a kernel, given as PTX, on NumPy arrays.

    Parameters
    ----------
    ptx : str
        A PTX module.
    entry : str
        The name of the kernel in the module, mangled if it is.
    grid, block : int or tuple of int
        Blocks of the grid and threads of a block. Several numbers are the extents along x, y and z.
    arguments : mapping of str to array, NumPy scalar or TensorMap
        The kernel's arguments in order, by the names to use in messages. Arrays are passed by their addresses and
        changed in place. Scalars have the size that the kernel declares. The matrix of a tensor map is one of the
        arrays before it.
    shared : int
        Bytes of dynamic shared memory.
    name : str, optional
        The kernel's name in messages; `entry` if left out.
    fresh : collection of str
        Names of arrays that hold nothing yet: to read an element before the kernel has written it is a fault.
    trace : collection of int
        Linear indices of the blocks to trace.
    blocks : collection of int, optional
        Linear indices of the blocks to run, with the other blocks of their clusters; all if left out.
    budget : int
        Instructions that a thread may execute: more is taken for a loop that never ends, and is a fault.
    progress : bool, optional
        Whether to show a progress bar on stderr; None shows it in a terminal only.

    Raises
    ------
    ArgumentError
        An argument does not fit the kernel or the limits of GPUs.
    SimulationFault
        A check failed: the message names line, block and thread.
    UnsupportedInstruction
        The PTX contains something that the simulator does not know.
    """
    machine = Machine(parse(ptx, entry, shared), name or entry, block, arguments, fresh, trace, budget)
    machine.run(grid, blocks, progress)
    execution = machine.execution
    return Run(execution.name, extents("grid", grid), execution.shape, machine.counts(), machine.trace, machine.events)


class Machine:
    """Runs one program over grids, and adds up what it counts.

    Parameters
    ----------
    program : Program
    name : str
        The kernel's name, for messages.
    block : int or tuple of int
        Threads of a block.
    arguments, fresh, trace, budget
        As for `run`.
    """

    def __init__(
        self,
        program: Program,
        name: str,
        block: Extent,
        arguments: Mapping[str, np.ndarray | np.generic | TensorMap],
        fresh: Collection[str] = (),
        trace: Collection[int] = (),
        budget: int = BUDGET,
    ) -> None:
        shape = extents("block", block)
        if (threads := math.prod(shape)) > THREADS_MAX:
            raise ArgumentError("parameters", f"{threads} threads per block", f"at most {THREADS_MAX}")
        if program.cluster > BLOCKS_MAX:
            raise ArgumentError("parameters", f"{program.cluster} blocks per cluster", f"at most {BLOCKS_MAX}")
        if len(arguments) != len(program.parameters):
            raise ArgumentError("arguments", str(len(arguments)), f"{len(program.parameters)}, as {name} takes")
        memory, parameters, maps = GlobalMemory(), {}, {}
        for (mangled, kind), (argument, value) in zip(program.parameters.items(), arguments.items(), strict=True):
            if (kind == TENSOR_MAP) != isinstance(value, TensorMap):
                raise ArgumentError(argument, type(value).__name__, f"a {kind}, as the kernel declares")
            if isinstance(value, TensorMap):
                maps[program.address(mangled)] = value, memory.of(value.array)
                continue
            if isinstance(value, np.ndarray):
                value = np.uint64(memory.add(argument, value, argument not in fresh))
            if kind not in DTYPES or getattr(value, "itemsize", None) != DTYPES[kind].itemsize:
                came = str(getattr(value, "dtype", type(value).__name__))
                needs = f"{DTYPES[kind].itemsize} bytes" if kind in DTYPES else kind
                raise ArgumentError(argument, came, f"{needs}, as the kernel declares")
            parameters[mangled] = np.array([value])
        self.execution = Execution(
            name, program, decode(program), shape, memory, parameters, maps, frozenset(trace), budget
        )

    @property
    def trace(self) -> list[Access]:
        """The traced blocks' accesses, in the order in which they were made."""
        return self.execution.trace

    @property
    def events(self) -> list[Event]:
        """The traced blocks' other events, in order."""
        return self.execution.events

    @property
    def total(self) -> Counts:
        """The sum of the counts of all lines."""
        return sum(self.counts().values(), Counts())

    def run(self, grid: Extent, only: Collection[int] | None = None, progress: bool | None = False) -> None:
        """Execute a grid, or some blocks of it with their clusters; see `bar` for `progress`.

        Raises
        ------
        ArgumentError
            The grid does not consist of whole clusters.
        SimulationFault
            A check failed.
        """
        shape = extents("grid", grid, least=0)
        try:
            with np.errstate(all="ignore"):
                for batch in bar(list(self._batches(shape, only)), show=progress, unit="batch"):
                    Scheduler(Batch(self.execution, batch, shape)).run()
        except SimulationFault as fault:
            fault.trace, fault.events = self.trace, self.events
            raise

    def _batches(self, grid: tuple[int, int, int], only: Collection[int] | None) -> Iterator[np.ndarray]:
        """Yield the linear indices of the blocks to run together."""
        cluster = self.execution.program.cluster
        if grid[0] % cluster:
            raise ArgumentError(
                "blocks", str(grid[0]), f"a multiple of {cluster}, as {self.execution.name} has clusters"
            )
        chosen = np.arange(math.prod(grid) // cluster, dtype=np.int64)
        if only is not None:
            chosen = np.unique(np.array(sorted(only), np.int64) // cluster)
        todo = (chosen[:, None] * cluster + np.arange(cluster, dtype=np.int64)).reshape(-1)
        at_once = max(LANES // self.execution.threads // cluster, 1) * cluster
        for start in range(0, len(todo), at_once):
            yield todo[start : start + at_once]

    def counts(self) -> dict[int, Counts]:
        """Return the counts by source line."""
        lines = defaultdict(Counts)
        through = self.execution.warps_through.tolist(), self.execution.threads_through.tolist()
        for mix, warps, threads in zip(self.execution.code.mix, *through, strict=True):
            for number, (classes, flops) in mix.items():
                line = lines[number]
                if warps:
                    count = classes.total()
                    line.instructions += count * warps
                    line.thread_instructions += count * threads
                    line.flops += flops * threads
                    line.by_class.update({name: number_of * warps for name, number_of in classes.items()})
        for number, tally in self.execution.tallies.items():
            lines[number] += tally
        return dict(sorted(lines.items()))


def extents(argument: str, given: Extent, least: int = 1) -> tuple[int, int, int]:
    """Return an extent as three numbers.

    Raises
    ------
    ArgumentError
        It is not one to three whole numbers of at least `least`.
    """
    numbers = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(numbers) <= 3 or not all(isinstance(number, int | np.integer) for number in numbers):
        raise ArgumentError(argument, repr(given), "a whole number, or up to three of them")
    if min(numbers) < least:
        raise ArgumentError(argument, repr(given), f"{least} or more")
    x, y, z = (*map(int, numbers), 1, 1)[:3]
    return x, y, z
