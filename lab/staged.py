"""Reads off a trace which thread fetches, reads and writes which elements of tiles staged in shared memory."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxsim import Access
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.simulation import Run

from .accesses import WORD
from .boards import GPUS

OPERANDS = ("A", "B")
NOTHING = -1
SHARED_MOST = max(gpu.limits.max_shared_per_block for gpu in GPUS)
"""The most bytes of shared memory that a block may have on any GPU."""
STAGING = "a kernel that stages tiles of A and B in shared memory"


@dataclass(frozen=True, eq=False)
class Staged:
    """The elements of A's and B's tiles that each thread fetches and reads: the same ones in each block and step.

    Attributes
    ----------
    origins : list of (int, int)
        For each block, the row and the column of C at which its tile begins.
    fetched_in : list of list of int
        For each step, the tiles along K whose elements the block fetches in it: a step ends with the last read of its
        own tiles.
    elements : dict of str to array of bool, shape (threads, rows, columns)
        "fetch A" and "fetch B": which elements of the tile of a step a thread fetches from global memory, for shared
        memory. "read A" and "read B": which of them it reads from there. "write C": which elements of the block's tile
        of C it writes.
    reads : dict of str to array of int, shape (steps, threads)
        How many times a thread reads elements of A, and of B, in each step.
    """

    origins: list[tuple[int, int]]
    fetched_in: list[list[int]]
    elements: dict[str, np.ndarray]
    reads: dict[str, np.ndarray]


def staged(run: Run) -> Staged:
    """Return the work of the threads of a block, if all blocks do the same in each step along K.

    Parameters
    ----------
    run : Run
        Simulated with all blocks traced.

    Raises
    ------
    ArgumentError
        The tiles don't divide the matrices, a block wasn't traced, elements don't have four bytes or don't go through
        shared memory, or blocks or steps differ.
    """
    of, sizes = run.kernel.parameters, (*run.C.shape, run.K)
    if "BK" not in of:
        raise ArgumentError("run", run.kernel.name, STAGING)
    if any(size % of[name] for size, name in zip(sizes, ("BM", "BN", "BK"), strict=True)):
        raise ArgumentError("run", "M, N, K = " + ", ".join(map(str, sizes)), "multiples of BM, BN, BK")
    if run.kernel.types.operand.itemsize != WORD or run.C.itemsize != WORD:
        raise ArgumentError("run", f"elements of {run.kernel.types.operand}", f"elements of {WORD} bytes")
    traced: defaultdict[int, list[Access]] = defaultdict(list)
    for access in run.trace:
        traced[access.block].append(access)
    blocks = run.C.size // (of["BM"] * of["BN"])
    if len(traced) != blocks:
        raise ArgumentError("run", f"a trace of {len(traced)} blocks", f"all of {blocks}, one to a tile of C")
    first, *others = sorted(traced)
    found = _block(run, traced[first])
    origins = found.origins
    for block in others:
        other = _block(run, traced[block])
        pairs = [(other.elements[what], ours) for what, ours in found.elements.items()]
        pairs += [(other.reads[m], ours) for m, ours in found.reads.items()]
        if other.fetched_in != found.fetched_in or any((its != ours).any() for its, ours in pairs):
            raise ArgumentError("run", f"a block {block} that does something else", "blocks that do the same")
        origins = origins + other.origins
    return replace(found, origins=origins)


def _block(run: Run, trace: Sequence[Access]) -> Staged:
    """Return the same of one block."""
    of, (M, N), K = run.kernel.parameters, run.C.shape, run.K
    BM, BN, BK = of["BM"], of["BN"], of["BK"]
    threads, steps = run.kernel.threads, K // BK
    uses = list(_uses(run, trace))
    written = [elements for does, *_, elements in uses if does == "write"]
    if not written or all(does != "read" for does, *_ in uses):
        raise ArgumentError("run", run.kernel.name, STAGING)
    row = min(int(elements.min()) // N for elements in written)
    column = min(int((elements % N).min()) for elements in written)
    shapes = {"A": (BM, BK), "B": (BK, BN)}
    found = {
        f"{does} {m}": np.zeros((steps, threads, *shapes[m]), bool) for does in ("fetch", "read") for m in OPERANDS
    }
    reads = {m: np.zeros((steps, threads), int) for m in OPERANDS}
    writes = np.zeros((threads, BM, BN), bool)
    asked, last = [], [-1] * steps  # tiles along K, and when; and when each is read for the last time
    for does, when, t, elements in uses:
        if does == "write":
            rows, columns = np.divmod(elements, N)
            writes[t, _within(rows - row, BM), _within(columns - column, BN)] = True
            continue
        for m, mine in zip(OPERANDS, (elements < M * K, elements >= M * K), strict=True):
            if not mine.any():
                continue
            if m == "A":
                rows, k = np.divmod(elements[mine], K)
                tiles, place = k // BK, (t[mine], _within(rows - row, BM), k % BK)
            else:
                k, columns = np.divmod(elements[mine] - M * K, N)
                tiles, place = k // BK, (t[mine], k % BK, _within(columns - column, BN))
            found[f"{does} {m}"][(tiles, *place)] = True
            if does == "read":
                np.add.at(reads[m], (tiles, t[mine]), 1)
                for tile in np.unique(tiles):
                    last[tile] = when
            else:
                asked += [(when, tile) for tile in np.unique(tiles).tolist()]
    fetched: list[set[int]] = [set() for _ in range(steps)]
    for when, tile in asked:
        fetched[min(sum(end < when for end in last), steps - 1)].add(tile)
    for what, of_steps in found.items():
        if (of_steps != of_steps[0]).any():
            raise ArgumentError("run", f"steps that {what.split()[0]} other elements", "steps that do the same")
    elements = {what: of_steps[0] for what, of_steps in found.items()} | {"write C": writes}
    return Staged([(row, column)], list(map(sorted, fetched)), elements, reads)


def _uses(run: Run, trace: Sequence[Access]) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yield actions: "fetch", "read" or "write", the time, the threads and the elements.

    The elements of A and B are counted through A and then B, those of C by themselves. What lies where in shared
    memory is followed from the loads on: a thread stores elements in the order in which it fetched them.
    """
    first = {"A": 0, "B": run.C.shape[0] * run.K}
    loads = [a for a in trace if (a.space, a.kind) == ("global", "load") and a.array in OPERANDS]
    most = max(sum(access.width // WORD for access in loads), 1)
    queue = np.full((run.kernel.threads, most), NOTHING)
    put, got = (np.zeros(run.kernel.threads, int) for _ in range(2))
    held: defaultdict[str, np.ndarray] = defaultdict(lambda: np.full(SHARED_MOST // WORD, NOTHING))
    for when, access in enumerate(trace):
        ahead = np.arange(access.width // WORD)
        words = access.offsets[:, None] // WORD + ahead
        t = np.broadcast_to(access.threads[:, None], words.shape)
        what = access.space, access.kind, access.array
        if what[:2] == ("global", "load") and access.array in OPERANDS:
            words = words + first[access.array]
            queue[t, put[t] + ahead] = words
            put[access.threads] += len(ahead)
            yield "fetch", when, t, words
        elif what[:2] == ("shared", "store"):
            there = got[t] < put[t]
            held[access.array][words] = np.where(there, queue[t, np.minimum(got[t] + ahead, most - 1)], NOTHING)
            got[access.threads] += len(ahead) * there[:, 0]
        elif what[:2] == ("shared", "load"):
            found = held[access.array][words]
            if (found != NOTHING).any():
                yield "read", when, t[found != NOTHING], found[found != NOTHING]
        elif what == ("global", "store", "C"):
            yield "write", when, t, words


def _within(places: np.ndarray, size: int) -> np.ndarray:
    """Return places in a tile, if they are in it."""
    if places.min() < 0 or places.max() >= size:
        raise ArgumentError("run", "a block that goes beyond what a tile of C needs", "blocks with a tile of C each")
    return places
