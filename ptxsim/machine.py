"""Runs a decoded program over a grid: the memory, what is counted, and the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from .batch import Access, Batch, Event, Launch
from .clusters import BLOCKS_MAX
from .counting import Counts
from .decode import decode
from .errors import ArgumentError, SimulationFault
from .limits import THREADS_MAX
from .memory import GlobalMemory
from .progress import bar
from .ptx import DTYPES, TENSOR_MAP, Program
from .tensor_map import TensorMap

LANES = 1 << 15
"""Lanes executed together: enough to spread Python's cost per instruction, few enough for the caches."""


class Machine:
    """Runs one program over a grid of one dimension.

    Parameters
    ----------
    program : Program
    name : str
        The kernel's name, for messages.
    threads : int
        Threads per block.
    arguments : mapping of str to array or scalar
        The kernel's arguments in order; arrays are used in place. Scalars are NumPy scalars of the type declared. The
        matrix of a `TensorMap` is one of the arrays before it.
    fresh : collection of str
        Names of the arrays that hold nothing yet.
    trace : collection of int
        Blocks whose accesses are kept.
    """

    def __init__(
        self,
        program: Program,
        name: str,
        threads: int,
        arguments: Mapping[str, np.ndarray | np.generic | TensorMap],
        fresh: Collection[str] = (),
        trace: Collection[int] = (),
    ) -> None:
        if threads > THREADS_MAX:
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
            if value.itemsize != DTYPES[kind].itemsize:
                raise ArgumentError(
                    argument, str(value.dtype), f"{DTYPES[kind].itemsize} bytes, as the kernel declares"
                )
            parameters[mangled] = np.array([value])
        self.launch = Launch(name, program, decode(program), threads, memory, parameters, maps, frozenset(trace))

    @property
    def trace(self) -> list[Access]:
        """The traced blocks' accesses, in the order in which they were made."""
        return self.launch.trace

    @property
    def events(self) -> list[Event]:
        """What else they did, in order."""
        return self.launch.events

    def run(self, blocks: int, only: Collection[int] | None = None, progress: bool | None = False) -> None:
        """Execute a grid of that many blocks, or only some blocks of it with their clusters; see `bar` for `progress`.

        Raises
        ------
        ArgumentError
            The grid does not consist of whole clusters.
        SimulationFault
            A check failed.
        """
        cluster = self.launch.program.cluster
        if blocks % cluster:
            raise ArgumentError("blocks", str(blocks), f"a multiple of {cluster}, as {self.launch.name} has clusters")
        chosen = np.arange(blocks // cluster) if only is None else np.unique(np.array(sorted(only)) // cluster)
        todo = (chosen[:, None] * cluster + np.arange(cluster)).reshape(-1)
        at_once = max(LANES // self.launch.threads // cluster, 1) * cluster
        try:
            with np.errstate(all="ignore"):
                for start in bar(range(0, len(todo), at_once), show=progress, unit="batch"):
                    Batch(self.launch, todo[start : start + at_once], blocks).run()
        except SimulationFault as fault:
            fault.trace, fault.events = self.trace, self.events
            raise

    def counts(self) -> dict[int, Counts]:
        """Return what was counted, by source line."""
        lines = defaultdict(Counts)
        through = self.launch.warps_through.tolist(), self.launch.threads_through.tolist()
        for mix, warps, threads in zip(self.launch.code.mix, *through, strict=True):
            for number, (classes, flops) in mix.items():
                line = lines[number]
                if warps:
                    count = classes.total()
                    line.instructions += count * warps
                    line.thread_instructions += count * threads
                    line.flops += flops * threads
                    for name, number_of in classes.items():
                        line.by_class[name] += number_of * warps
        for number, tally in self.launch.tallies.items():
            lines[number] += tally
        return dict(sorted(lines.items()))
