"""Reads a simulated run's trace: one warp's request to memory, and which thread computes which element of C."""

from dataclasses import dataclass

import numpy as np

from ptxsim import BANKS, Access, counting
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run, simulate

WORD = 4  # bytes, what a bank serves at once


@dataclass(frozen=True, eq=False)
class Request:
    """One execution of one load or store by one warp.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    line : int
        Line of its source.
    space, kind : str
        "global" or "shared"; "load" or "store".
    array : str
        The kernel's parameter, or the shared variable, that is accessed.
    block, warp : int
        Linear index of the block in the grid, and of the warp in the block.
    lanes : array of int64
        The lanes that take part, 0 to 31, ascending.
    offsets : array of int64
        Each such lane's byte offset in `array`.
    width : int
        Bytes per lane.
    element : int
        Bytes of an element of the matrix; in shared memory, of a bank's word.
    """

    kernel: str
    line: int
    space: str
    kind: str
    array: str
    block: int
    warp: int
    lanes: np.ndarray
    offsets: np.ndarray
    width: int
    element: int

    @property
    def sectors(self) -> int:
        """The 32-byte sectors touched."""
        return counting.sectors(counting.by_warp(self.lanes, self.offsets, 1))

    @property
    def lines(self) -> int:
        """The 128-byte lines touched, if the array starts at one."""
        return len(np.unique(self.words // BANKS))

    @property
    def l1_cycles(self) -> int:
        """Cycles that a request to global memory keeps the L1 cache busy if all of it hits: a model, not a counter.

        L1 looks up the tags of at most 4 lines in a cycle, and its data lie in the 32 banks that shared memory has
        too. The slower of the two counts. The page on what an uncoalesced load costs holds the model against times.
        """
        return max(-(-self.lines // 4), self.wavefronts)

    @property
    def wavefronts(self) -> int:
        """The wavefronts that a request takes in shared memory, or in the data banks of L1."""
        return counting.wavefronts(counting.by_warp(self.lanes, self.offsets, 1), self.width, self.kind)[0]

    @property
    def conflicts(self) -> int:
        """The wavefronts that bank conflicts cost."""
        return counting.wavefronts(counting.by_warp(self.lanes, self.offsets, 1), self.width, self.kind)[1]

    @property
    def words(self) -> np.ndarray:
        """The 4-byte words of each lane, counted from the start of the array: shape (lanes, width // 4)."""
        return self.offsets[:, None] // WORD + np.arange(max(self.width // WORD, 1))

    @property
    def elements(self) -> np.ndarray:
        """The elements of each lane, counted from the start of the array: shape (lanes, width // element)."""
        return self.offsets[:, None] // self.element + np.arange(max(self.width // self.element, 1))

    @property
    def cost(self) -> str:
        """The cost of the request in words: "4 sectors", or "1 wavefront" in shared memory."""
        if self.space == "global":
            return plural(self.sectors, "sector")
        return plural(self.wavefronts, "wavefront")

    def __str__(self) -> str:
        few = [str(offset) for offset in self.offsets]
        if len(few) > 5:
            few[3:-1] = ["…"]
        return (
            f"{self.array} {self.kind}, line {self.line} of {self.kernel}, block {self.block}, warp {self.warp}: "
            f"{len(self.lanes)} lanes × {self.width} bytes at {', '.join(few)}: {self.cost}"
        )


def request(
    run: Run,
    line: int | None = None,
    kind: str = "load",
    array: str = "A",
    warp: int = 0,
    step: int = 0,
    block: int | None = None,
) -> Request:
    """Return a warp's request to memory in one execution of an access.

    Parameters
    ----------
    run : Run
        Simulated with ``trace=[block]``.
    line : int, optional
        Line of the kernel's source; the first that accesses the array in that way if left out.
    kind : str
        "load" or "store".
    array : str
        "A", "B", "C", or a variable in shared memory.
    warp : int
        Which warp of the block.
    step : int
        Which execution, counted from 0 in the order the warp made them.
    block : int, optional
        Which traced block; the first if left out.

    Raises
    ------
    ArgumentError
        The run holds no such access.
    """
    mine = _of_block(run, block)
    found = [access for access in mine if (access.array, access.kind) == (array, kind) and line in (None, access.line)]
    if not found:
        asked = f"a {kind} of {array}" + ("" if line is None else f" at line {line}")
        raise ArgumentError(
            "line" if line else "array", asked, _choice({f"a {a.kind} of {a.array} at line {a.line}" for a in mine})
        )
    found = [access for access in found if access.line == found[0].line]
    by_warp = [access for access in found if (access.threads // WARP == warp).any()]
    if not by_warp:
        warps = {int(number) for access in found for number in np.unique(access.threads // WARP)}
        raise ArgumentError("warp", str(warp), f"one that takes part: {_choice(warps)}")
    if not 0 <= step < len(by_warp):
        raise ArgumentError(
            "step",
            str(step),
            f"0 to {len(by_warp) - 1}, as warp {warp} comes to line {found[0].line} {plural(len(by_warp), 'time')}",
        )
    return _of_warp(run.kernel, by_warp[step], warp)


def requests(run: Run, warp: int = 0, block: int | None = None) -> list[Request]:
    """Return all that one warp asks of memory, in the order in which it does.

    Parameters
    ----------
    run : Run
        Simulated with ``trace=[block]``.
    warp : int
        Which warp of the block.
    block : int, optional
        Which traced block; the first if left out.

    Raises
    ------
    ArgumentError
        The run holds no trace of the block or of the warp.
    """
    of_warp = [access for access in _of_block(run, block) if (access.threads // WARP == warp).any()]
    if not of_warp:
        raise ArgumentError("warp", str(warp), "one of the block's that asks something of memory")
    return [_of_warp(run.kernel, access, warp) for access in of_warp]


def owners(kernel: Kernel | str) -> np.ndarray:
    """Return which thread of a block writes which element of the block's tile of C, as a simulated run shows it.

    Returns
    -------
    array of int64, shape (BM, BN)
        Linear index of the thread in the block.
    """
    kernel = find(kernel)
    BM, BN, BK = (kernel.parameters.get(name, 1) for name in ("BM", "BN", "BK"))
    A, B = np.zeros((BM, BK), kernel.types.operand), np.zeros((BK, BN), kernel.types.operand)
    owner = np.full(BM * BN, -1)
    for access in simulate(kernel, A, B, trace=[0]).trace:
        if (access.array, access.kind) == ("C", "store"):
            size = kernel.types.result.itemsize
            for element in range(access.width // size):
                owner[access.offsets // size + element] = access.threads
    return owner.reshape(BM, BN)


def plural(number: int, noun: str) -> str:
    """Return "1 sector", "2 sectors"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _of_block(run: Run, block: int | None) -> list[Access]:
    if not run.trace:
        raise ArgumentError("run", "one without a trace", "accesses to show: simulate(..., trace=[0])")
    block = run.trace[0].block if block is None else block
    mine = [access for access in run.trace if access.block == block]
    if not mine:
        raise ArgumentError("block", str(block), f"a traced one: {_choice({a.block for a in run.trace})}")
    return mine


def _of_warp(kernel: Kernel, access: Access, warp: int) -> Request:
    mine = access.threads // WARP == warp
    order = np.argsort(access.threads[mine])
    matrix = kernel.types.result if access.array == "C" else kernel.types.operand
    return Request(
        kernel.name,
        access.line,
        access.space,
        access.kind,
        access.array,
        access.block,
        warp,
        access.threads[mine][order] % WARP,
        access.offsets[mine][order],
        access.width,
        matrix.itemsize if access.space == "global" else WORD,
    )


def _choice(options: set) -> str:
    return " or ".join(map(str, sorted(options)))
