"""Runs a program over a grid of blocks."""

import copy
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from .batch import Batch
from .clusters import BLOCKS_MAX
from .counting import Counts, added_up
from .decode import decode
from .errors import ArgumentError, SimulationFault
from .execution import Execution
from .history import History
from .lanes import Threads
from .limits import WARP
from .memory import GlobalMemory
from .modules import plain
from .progress import bar
from .ptx import DTYPES, TENSOR_MAP, Program, parse
from .scheduler import Scheduler
from .tensor_map import TensorMap
from .tracing import Access, Event

LANES = 1 << 15
"""Lanes to execute together: enough to spread Python's cost per instruction, few enough for the caches."""

BUDGET = 1 << 22
"""Instructions that a thread may execute unless `run` is told otherwise, far more than most kernels need."""

SHARED_MAX = 227 << 10
"""Bytes of shared memory that a block may have on an H100; no GPU so far has more."""

ORDERS = (
    "the last warp first",
    "each block's first warp ahead",
    "each block's last warp ahead",
    "the last block first",
)
"""Orders of execution that a careless kernel does not expect."""

TURNS = 4
"""The number of groups into which another order puts the warps; the groups run one after the other."""

TOLERANCE = 1e-3
"""The difference, also relative, of floats that sums in another order are taken to explain."""

PYTHON = {bool: "biuf", int: "iuf", float: "f"}
"""The kinds of NumPy's types that Python's numbers may become."""

MEMBERS = {bool: np.bool_, int: np.int32, float: np.float32}
"""The types that Python's numbers get as members of a struct."""

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
    findings : list of str
        What need not be a mistake: stores of one value by several threads that nothing orders, and how results differ
        in other orders of execution.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lines: dict[int, Counts] = field(repr=False)
    trace: list[Access] = field(repr=False)
    events: list[Event] = field(repr=False)
    findings: list[str] = field(default_factory=list)

    @property
    def total(self) -> Counts:
        """The sum of the counts of all lines."""
        return added_up(self.lines.values())


def run(
    ptx: str,
    entry: str,
    grid: Extent,
    block: Extent,
    arguments: Mapping[str, Any],
    shared: int = 0,
    *,
    name: str | None = None,
    fresh: Collection[str] = (),
    trace: Collection[int] = (),
    blocks: Collection[int] | None = None,
    budget: int = BUDGET,
    variables: Mapping[str, np.ndarray] = MappingProxyType({}),
    orders: int = 0,
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
    arguments : mapping of str to array, NumPy scalar, number, tuple, list, TensorMap or None
        The kernel's arguments in order, by the names to use in messages. Arrays are passed by their addresses and
        changed in place, and the same one twice is one; None is a null pointer. Scalars have the size that the kernel
        declares; Python's numbers take the type of a parameter of up to 4 bytes, or of a float. A tuple is a struct:
        its members lie as C has them, an array among them is its address, and Python's numbers become int32, float32 or
        bool. A list of arrays, with None for a null pointer, is an array of their addresses, as for ``float**``. The
        array at place 2 of an argument A is called ``A[2]``. A scalar of a structured type is a struct, too, or an
        array of one such element. The matrix of a tensor map is one of the arrays before it.
    shared : int
        Bytes of dynamic shared memory.
    name : str, optional
        The kernel's name in messages; if left out, the one that `entry` stands for in the source.
    fresh : collection of str
        Names of arrays that hold nothing yet: to read an element before the kernel has written it is a fault.
    trace : collection of int
        Linear indices of the blocks to trace.
    blocks : collection of int, optional
        Linear indices of the blocks to run, with the other blocks of their clusters; all if left out.
    budget : int
        Instructions that a thread may execute: more is taken for a loop that never ends, and is a fault.
    variables : mapping of str to array
        Arrays for the module's ``__device__`` and ``__constant__`` variables, by their names in the source: used in
        place, as those of arguments. Other variables have the values that the module gives them.
    orders : int
        In how many other orders to run it, on copies of the arrays: those of `ORDERS` first, then random ones. If not
        0, the history of all accesses is kept, so that races in global memory are found, and missing fences. Nothing is
        printed in other orders.
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
    if not isinstance(arguments, Mapping):
        needs = 'a mapping of names to values, in the order of the kernel\'s parameters: {"a": a}'
        raise ArgumentError("arguments", f"a {type(arguments).__name__}", needs)
    program, given, name = parse(ptx, entry, shared), (dict(arguments), dict(variables)), name or plain(entry)
    machine = Machine(program, name, block, arguments, fresh, trace, budget, variables, orders > 0)
    doubtful = not orders and machine.execution.code.signals
    before = copy.deepcopy(given) if orders or doubtful else given
    try:
        machine.run(grid, blocks, progress)
        doubtful = doubtful and bool(machine.notes)
    except SimulationFault as fault:
        if not doubtful or fault.kind != "race":
            raise
    if doubtful:
        for arrays, old in zip(map(_arrays, given), map(_arrays, before), strict=True):
            for name_of, array in arrays.items():
                if array.flags.writeable:
                    array[...] = old[name_of]
        machine = Machine(program, name, block, arguments, fresh, trace, budget, variables, True)
        machine.run(grid, blocks, progress)  # the history knows what else than barriers orders accesses
    execution, findings = machine.execution, machine.notes
    for order in [*ORDERS, *(f"random order {seed}" for seed in range(orders))][:orders]:
        there, these = copy.deepcopy(before)
        other = Machine(program, name, block, there, fresh, (), budget, these, True, order)
        try:
            with redirect_stdout(None):  # a kernel prints once
                other.run(grid, blocks, progress)
        except SimulationFault as fault:
            fault.args = (f"{fault} (found with {order})",)
            raise
        findings += [
            f"{of} differs with {order}: element {place} is {found}, not {usual}"
            for of, mine in _arrays(given[0] | given[1]).items()
            for place, found, usual in _difference(_arrays(there | these)[of], mine)
        ]
    return Run(
        execution.name,
        extents("grid", grid),
        execution.shape,
        machine.counts(),
        machine.trace,
        machine.events,
        findings,
    )


def _arrays(given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays among arguments, those in structs too, by their names in messages."""
    found = {}
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            found[name] = value
        if isinstance(value, tuple | list):
            found |= _arrays({f"{name}[{place}]": member for place, member in enumerate(value)})
    return found


def _passed(memory: GlobalMemory, name: str, value: Any, fresh: Collection[str]) -> Any:
    """Return what a kernel gets for an argument: an array's address, a struct for a tuple, the value itself otherwise.

    Of a list of arrays, it is the address of an array of their addresses.

    Raises
    ------
    ArgumentError
        An array is not contiguous, or a struct or a list cannot have a member of that type.
    """
    if isinstance(value, list):
        if not value or not all(of is None or isinstance(of, np.ndarray) for of in value):
            raise ArgumentError(name, repr(value), "a list of arrays, or of None for null pointers")
        value = np.array(
            [0 if of is None else _passed(memory, f"{name}[{place}]", of, fresh) for place, of in enumerate(value)],
            np.uint64,
        )
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ArgumentError(name, f"strides {value.strides}", f"np.ascontiguousarray({name})")
        return np.uint64(memory.add(name, value, name not in fresh))
    if not isinstance(value, tuple):
        return value
    members = []
    for place, of in enumerate(value):
        member = np.uint64(0) if of is None else _passed(memory, f"{name}[{place}]", of, fresh)
        if type(member) in MEMBERS and (type(member) is not int or -(1 << 31) <= member < 1 << 31):
            member = MEMBERS[type(member)](member)
        if not isinstance(member, np.generic):
            needs = "an array, None, a NumPy scalar, a tuple, a list of arrays, a bool, a float, or an int of 32 bits"
            raise ArgumentError(f"{name}[{place}]", repr(of), needs)
        members.append(member)
    struct = np.zeros((), np.dtype([(f"f{place}", of.dtype) for place, of in enumerate(members)], align=True))
    struct[()] = tuple(members)
    return struct[()]


def _described(came: Any, value: Any) -> str:
    """Return words for an argument that came, and is passed as that value."""
    if isinstance(came, np.ndarray | list):
        return f"an array of {getattr(came, 'dtype', 'arrays')}, passed by its address of 8 bytes"
    dtype = getattr(value, "dtype", type(value).__name__)
    if getattr(dtype, "names", None):
        return f"a struct of {dtype.itemsize} bytes: {', '.join(str(of[0]) for of in dtype.fields.values())}"
    return str(dtype)


def _difference(found: np.ndarray, usual: np.ndarray) -> list[tuple[int, Any, Any]]:
    """Return place and values of the first element that differs; floats may, as in another order of sums."""
    found, usual = found.reshape(-1), usual.reshape(-1)
    equal = found == usual
    if found.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            equal = np.isclose(found, usual, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    return [(int(at), found[at], usual[at]) for at in np.flatnonzero(~equal)[:1]]


def _turns(order: str, threads: Threads) -> np.ndarray:
    """Return for each lane when its turn is, in an order of `ORDERS` or a random one."""
    warp, of_block = threads.slot // WARP, threads.thread // WARP
    last, blocks = int(of_block[-1]), len(threads.blocks)
    if order in ORDERS:
        return (
            (int(warp[-1]) - warp) * TURNS // threads.warps,
            np.minimum(of_block, 1),
            (of_block < last).astype(np.int64),
            (blocks - 1 - threads.block) * TURNS // blocks,
        )[ORDERS.index(order)]
    return np.random.default_rng(int(order.split()[-1])).integers(TURNS, size=threads.warps)[warp]


class Machine:
    """Runs one program over grids, and adds up what it counts.

    Parameters
    ----------
    program : Program
    name : str
        The kernel's name, for messages.
    block : int or tuple of int
        Threads of a block.
    arguments, fresh, trace, budget, variables
        As for `run`.
    careful : bool
        Whether to keep the history of all accesses.
    order : str
        The order of execution, the usual one if empty.

    Attributes
    ----------
    execution : Execution
    trace : list of Access
        The traced blocks' accesses, in the order in which they were made.
    events : list of Event
        The traced blocks' other events, in order.
    """

    def __init__(
        self,
        program: Program,
        name: str,
        block: Extent,
        arguments: Mapping[str, Any],
        fresh: Collection[str] = (),
        trace: Collection[int] = (),
        budget: int = BUDGET,
        variables: Mapping[str, np.ndarray] = MappingProxyType({}),
        careful: bool = False,
        order: str = "",
    ) -> None:
        shape = extents("block", block)
        for argument, number, what, most in (
            ("block", math.prod(shape), "threads per block", program.threads),
            ("block", shape[2], "threads along z", 64),
            ("cluster", program.cluster, "blocks per cluster", BLOCKS_MAX),
            ("shared", program.shared_bytes, "bytes of shared memory per block", SHARED_MAX),
        ):
            if number > most:
                raise ArgumentError(argument, f"{number} {what}", f"at most {most}")
        if len(arguments) != len(program.parameters):
            raise ArgumentError("arguments", str(len(arguments)), f"{len(program.parameters)}, as {name} takes")
        memory, parameters, maps = GlobalMemory(), {}, {}
        for (mangled, kind), (argument, value) in zip(program.parameters.items(), arguments.items(), strict=True):
            if (kind == TENSOR_MAP) != isinstance(value, TensorMap):
                raise ArgumentError(argument, type(value).__name__, f"a {kind}, as the kernel declares")
            if isinstance(value, TensorMap):
                maps[program.address(mangled)] = value, memory.of(value.array)
                continue
            if kind[-1] == "]" and isinstance(value, np.ndarray) and value.dtype.names and value.size == 1:
                value = value.reshape(-1)[0]
            came, value = value, _passed(memory, argument, value, fresh)
            if value is None and kind == "u64":
                value = np.uint64(0)
            bare, _, count = kind.partition("[")
            of, size = DTYPES[bare], DTYPES[bare].itemsize * int(count.rstrip("]") or 1)
            if of.kind in PYTHON.get(type(value), "") and (of.kind == "f" or (size <= 4 and abs(value) < 1 << 31)):
                value = np.array(value).astype(of)[()]
            dtype = getattr(value, "dtype", None)
            if getattr(value, "itemsize", None) != size or (
                kind[0] != "b" and dtype.kind in "iuf" and (dtype.kind == "f") != (of.kind == "f")
            ):
                needs = f"{size} bytes of type {kind}, as the kernel declares"
                needs += ": an array, a list of arrays, None, or np.uint64" * (kind == "u64")
                needs += ": a tuple of the struct's members" * bool(count)
                raise ArgumentError(argument, _described(came, value), needs)
            parameters[mangled] = np.array([value])
        given = dict(variables)
        for variable in program.variables.values():
            array = given.pop(variable.name, None)
            if array is not None and array.nbytes != len(variable.data):
                raise ArgumentError(variable.name, f"{array.nbytes} bytes", f"{len(variable.data)}, as the module has")
            bare = np.frombuffer(variable.data, np.uint8).copy()
            memory.add(variable.name, bare if array is None else array, at=variable.address)
        if given:
            names = ", ".join(variable.name for variable in program.variables.values())
            raise ArgumentError("variables", ", ".join(given), names or "none, as the kernel uses none")
        self.execution = Execution(
            name,
            program,
            decode(program),
            shape,
            memory,
            parameters,
            maps,
            frozenset(trace),
            budget,
            careful,
            partial(_turns, order) if order else None,
        )
        self.trace, self.events = self.execution.trace, self.execution.events

    @property
    def notes(self) -> list[str]:
        """Remarks on things that threads did and that are no faults, once for each source line."""
        return list(self.execution.notes.values())

    @property
    def total(self) -> Counts:
        """The sum of the counts of all lines."""
        return added_up(self.counts().values())

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
            fault = self._again(fault, shape)
            fault.trace, fault.events = self.trace, self.events
            raise fault from None

    def _again(self, fault: SimulationFault, grid: tuple[int, int, int]) -> SimulationFault:
        """Return a race in shared memory as its cluster alone makes it again, with the line of the other access.

        It is the same fault if that is none, or known. Memory is as the fault has left it.
        """
        code, cluster = self.execution.code, self.execution.program.cluster
        if fault.kind != "race" or ((self.execution.careful or code.flags) and not code.proxies):
            return fault
        blocks = fault.block // cluster * cluster + np.arange(cluster, dtype=np.int64)
        batch = Batch(replace(self.execution, traced=frozenset(), order=None), blocks, grid)
        batch.history = batch.history or History(batch.threads, code.finest, cluster)
        batch.history.observe(batch.shared)
        try:
            with np.errstate(all="ignore"):
                Scheduler(batch).run()
        except SimulationFault as again:
            if (again.kind, again.line, again.thread) == (fault.kind, fault.line, fault.thread):
                return again
        return fault

    def _batches(self, grid: tuple[int, int, int], only: Collection[int] | None) -> Iterator[np.ndarray]:
        """Yield the linear indices of the blocks to run together."""
        cluster = self.execution.program.cluster
        if grid[0] % cluster:
            raise ArgumentError(
                "blocks", str(grid[0]), f"a multiple of {cluster}, as {self.execution.name} has clusters"
            )
        chosen = range(math.prod(grid) // cluster) if only is None else sorted({block // cluster for block in only})
        at_once = max(LANES // self.execution.threads // cluster, 1)
        for start in range(0, len(chosen), at_once):
            clusters = np.array(chosen[start : start + at_once], np.int64)
            yield (clusters[:, None] * cluster + np.arange(cluster, dtype=np.int64)).reshape(-1)

    def counts(self) -> dict[int, Counts]:
        """Return the counts by source line."""
        lines = defaultdict(Counts)
        through = self.execution.warps_through, self.execution.threads_through
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
    return (*map(int, numbers), 1, 1)[:3]
