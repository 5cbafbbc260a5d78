"""Runs a kernel on NumPy arrays, and returns its result with counts and traces of its accesses."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ptxsim import Access, Counts, Event

from . import operands, simulator
from .catalogue import find
from .compiler import PTX_ALONE
from .errors import ArgumentError
from .kernel import Kernel
from .launch import MULTIPROCESSORS, Place
from .table import Table, Tabular

LISTED = {"fma", "tensor", "barrier", "cluster barrier", "copy", "commit", "wait"} | {
    f"{space} {kind}" for space in ("global", "shared") for kind in ("load", "store")
}
"""Classes of instructions whose lines have a row of their own in a table."""


@dataclass(frozen=True, repr=False)
class Run(Tabular):
    """The result of a simulated run.

    Attributes
    ----------
    kernel : Kernel
    K : int
        Columns of A and rows of B.
    C : array, shape (M, N)
        The result.
    lines : dict of int to Counts
        The counts by line of the kernel's source; a header's functions count for the line that calls them.
    total : Counts
        The sum over all lines.
    trace : list of Access
        The traced blocks' accesses, in the order they were made.
    events : list of Event
        Those blocks' events that began asynchronous work or kept it in order.
    """

    kernel: Kernel
    K: int
    C: np.ndarray = field(repr=False)
    lines: dict[int, Counts] = field(repr=False)
    trace: list[Access] = field(repr=False)
    events: list[Event] = field(default_factory=list, repr=False)

    @property
    def total(self) -> Counts:
        """The counts of the whole run."""
        return sum(self.lines.values(), Counts())

    def table(self) -> Table:
        """Return the counts by source line.

        Lines without memory access, FMA, product on tensor cores, barrier or asynchronous copy share a row; what no
        line has is left out.
        """
        source = self.kernel.source.splitlines()
        rows, other = [], Counts()
        for line, counts in self.lines.items():
            if LISTED & counts.by_class.keys():
                rows.append((line, source[line - 1].partition("//")[0].strip(), *_row(counts)))
            else:
                other += counts
        rows += [("", "all other lines", *_row(other)), ("", "sum", *_row(self.total))]
        M, N = self.C.shape
        columns = (
            "line",
            "source",
            "instructions",
            "FMA",
            "MMA",
            "global requests",
            "sectors",
            "shared requests",
            "wavefronts",
        )
        used = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
        columns, *rows = [[row[i] for i in used] for row in (columns, *rows)]
        return Table(
            columns,
            rows,
            f"{self.kernel.name}, C of {M} × {N}: summed over all warps, by source line",
            "Instructions are PTX's. A request is one warp's access.",
        )


def _row(c: Counts) -> tuple[int | None, ...]:
    """Return the cells of one row, None for zero."""
    return (
        c.instructions,
        c.by_class["fma"] or None,
        c.by_class["tensor"] or None,
        c.global_load_requests + c.global_store_requests or None,
        c.global_load_sectors + c.global_store_sectors or None,
        c.shared_load_requests + c.shared_store_requests or None,
        c.shared_load_wavefronts + c.shared_store_wavefronts or None,
    )


def simulate(
    kernel: Kernel | str,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    architecture: str = PTX_ALONE,
    trace: Collection[int] = (),
    blocks: Collection[int] | None = None,
    progress: bool | None = False,
    multiprocessors: int = MULTIPROCESSORS,
) -> Run:
    """Run a kernel on the simulator, counting.

    Parameters
    ----------
    kernel : Kernel or str
        What to run, or its name. Unlike a call, it leaves nothing to a quicker kernel.
    A, B, C, alpha, beta
        As for calling the kernel, NumPy arrays. C is updated in place.
    architecture : str
        The architecture to compile for; the PTX differs little. With a real one, such as ``"sm_90"``, ptxas must accept
        the kernel too.
    trace : collection of int
        Linear indices of the blocks whose accesses to keep.
    blocks : collection of int, optional
        Run only these blocks of the grid, and the others of their clusters; the other tiles of C stay as they are, NaN
        if C is not given.
    progress : bool, optional
        Show a progress bar on stderr; None shows it in a terminal only.
    multiprocessors : int
        Of the GPU that is simulated, where the kernel divides its work by them.

    Raises
    ------
    ArgumentError, CompileError
        As for calling the kernel.
    SimulationFault
        An access is out of bounds, misaligned, reads what was never written, races with another thread's, or meets
        an asynchronous copy that was not waited for; or a barrier is not reached by all threads of a block, or threads
        wait for an mbarrier's phase that never ends, or for their cluster; or a block of it has left when another
        reaches into its memory; or something asynchronous reads what no fence has shown it, or has registers that
        something else touches.
    UnsupportedInstruction
        The PTX holds something the simulator does not know.
    """
    kernel = find(kernel)
    kernel = kernel.family.itself(kernel)
    problem = operands.check(A, B, C, alpha, beta, kernel.types)
    if problem.on_gpu:
        raise ArgumentError("A", "a CuPy array", "a NumPy array: A.get()")
    launch = kernel.resolve(problem, Place(architecture, multiprocessors))
    for name, numbers in (("trace", trace), ("blocks", () if blocks is None else blocks)):
        if any(not 0 <= number < launch.blocks for number in numbers):
            raise ArgumentError(name, str(sorted(numbers)), f"blocks from 0 to {launch.blocks - 1}")
    machine = simulator.run(launch, problem, trace=trace, blocks=blocks, progress=progress)
    return Run(launch.kernel, problem.K, problem.C, machine.counts(), machine.trace, machine.events)
