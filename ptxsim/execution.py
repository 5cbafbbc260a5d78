"""Declares the parts that all batches of one run share: the decoded program, the memory, the counts and the trace."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .counting import Counts
from .lanes import Lanes
from .memory import Buffer, GlobalMemory
from .ptx import Instruction, Program
from .tensor_map import TensorMap
from .tracing import Access, Event

Step = Callable[[Any, Lanes], None]
"""A decoded instruction: it changes a `Batch` for the active lanes, and raises Violation where a check fails."""


@dataclass(frozen=True, eq=False)
class Code:
    """A decoded program.

    Attributes
    ----------
    steps : list of list of (Instruction, Step, list of Instruction)
        The steps of each basic block. One step may do several instructions; the first of them comes with it, and those
        whose operands to look at before it, if some are undefined: none if the step does so itself.
    mix : list of dict of int to (Counter, int)
        For each basic block and source line, the number of instructions by class and the floating-point operations
        of one thread.
    granule : int
        Bytes of the narrowest access to shared memory, 4 at most.
    warpwise : bool
        Whether the program synchronises the lanes of a warp, so that the order of their accesses matters.
    proxies : bool
        Whether the copy engine or ``wgmma`` uses shared memory.
    clustered : bool
        Whether the program uses clusters, even clusters of one block.
    loop_exits : frozenset of int, optional
        Basic blocks whose branch may leave a loop; None if no instruction wants converged warps.
    finest : int
        Bytes of the narrowest access to any memory, 4 at most.
    flags : bool
        Whether words of shared memory, barriers of some warps or, where there are no proxies, mbarriers may order
        accesses to shared memory. A history of accesses is kept then: it is what knows that order.
    signals : bool
        Whether fences or strong accesses may order accesses to shared memory, of which no history is kept unless it is
        asked for.
    barriers : list of str
        The barrier at which each basic block ends: "warp" or "block" for a whole one; "sync", "arrive" or "red.popc",
        for example, for a named barrier or a vote; "" if none.
    spins : frozenset of int
        Basic blocks that end in a branch back, in a loop in which a thread may wait for a word of memory to change.
    """

    steps: list[list[tuple[Instruction, Step, list[Instruction]]]]
    mix: list[dict[int, tuple[Counter[str], int]]]
    granule: int
    warpwise: bool
    proxies: bool
    clustered: bool
    loop_exits: frozenset[int] | None
    finest: int
    flags: bool
    signals: bool
    barriers: list[str]
    spins: frozenset[int]


@dataclass(eq=False)
class Execution:
    """One run of a program over a grid.

    Attributes
    ----------
    name : str
        The kernel's name, for messages.
    program : Program
    code : Code
        The decoded program.
    shape : tuple of int
        Threads of a block along x, y and z.
    memory : GlobalMemory
    parameters : dict of str to array
        The kernel's arguments by their mangled names, one element each; tensor maps are not among them.
    maps : dict of int to (TensorMap, Buffer)
        Each tensor map by its address, with the memory of its matrix.
    budget : int
        Instructions that a thread may execute.
    careful : bool
        Whether to keep the history of all accesses.
    order : callable, optional
        A function of `Threads` that returns for each lane when its turn is: lanes with lower numbers go as far as they
        can before the others.
    traced : frozenset of int
        Linear indices of the blocks to trace.
    trace : list of Access
        The traced blocks' accesses, in the order in which they were made.
    events : list of Event
        The traced blocks' other events, in order.
    tallies : dict of int to Counts
        Memory requests by source line.
    notes : dict of int to str
        What threads have done, by source line, that is no fault.
    warps_through, threads_through : list of int
        How many warps and threads have run each basic block.
    """

    name: str
    program: Program
    code: Code
    shape: tuple[int, int, int]
    memory: GlobalMemory
    parameters: dict[str, np.ndarray]
    maps: dict[int, tuple[TensorMap, Buffer]]
    traced: frozenset[int]
    budget: int
    careful: bool = False
    order: Callable[[Any], np.ndarray] | None = None
    trace: list[Access] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    tallies: defaultdict[int, Counts] = field(default_factory=lambda: defaultdict(Counts))
    notes: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.warps_through = [0] * len(self.program.blocks)
        self.threads_through = [0] * len(self.program.blocks)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.shape)
