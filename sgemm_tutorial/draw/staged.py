"""What a trace tells of a kernel that stages tiles in shared memory: which thread copies, reads and writes what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..accesses import WORD
from ..errors import ArgumentError
from ..simulation import Run
from ..simulator.batch import Access

OPERANDS = ("A", "B")
STAGING = "a kernel that stages tiles of A and B in shared memory"


@dataclass(frozen=True, eq=False)
class Staged:
    """What the threads of a block do with the tiles of A and B of a step along K: the same in each block and step.

    Attributes
    ----------
    origins : list of (int, int)
        For each block, the row and the column of C at which its tile begins.
    copied_in : list of list of int
        For each step, the tiles along K whose elements the block fetches in it: a step ends with the last read of its
        own tiles.
    copies : dict of str to array of bool, shape (threads, BM, BK) for A and (threads, BK, BN) for B
        Which elements of the tile of a step a thread copies into shared memory.
    reads : dict of str to array of int, shape (steps, threads, BM, BK) for A and (steps, threads, BK, BN) for B
        How many times a thread reads an element of the tile of a step from there: the same elements in each.
    writes : array of bool, shape (threads, BM, BN)
        Which elements of the block's tile of C a thread writes.
    """

    origins: list[tuple[int, int]]
    copied_in: list[list[int]]
    copies: dict[str, np.ndarray]
    reads: dict[str, np.ndarray]
    writes: np.ndarray


def staged(run: Run) -> Staged:
    """Return what the threads of a block do, if all blocks do the same in each step along K.

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
        pairs = [(other.writes, found.writes)]
        pairs += [(other.copies[m], found.copies[m]) for m in OPERANDS]
        pairs += [(other.reads[m], found.reads[m]) for m in OPERANDS]
        if other.copied_in != found.copied_in or any((its != ours).any() for its, ours in pairs):
            raise ArgumentError("run", f"a block {block} that does something else", "blocks that do the same")
        origins = origins + other.origins
    for m in OPERANDS:
        if not ((found.reads[m] > 0) == (found.reads[m][0] > 0)).all():
            raise ArgumentError("run", "steps that read other elements", "steps that do the same")
    return replace(found, origins=origins)


def _block(run: Run, trace: Sequence[Access]) -> Staged:
    """Return the same of one block."""
    of, (M, N), K = run.kernel.parameters, run.C.shape, run.K
    BM, BN, BK = of["BM"], of["BN"], of["BK"]
    threads, steps = run.kernel.threads, K // BK
    offset, columns = {"A": 0, "B": M * K}, {"A": K, "B": N}  # elements are counted through A, then B
    fetched = [a for a in trace if a.space == "global" and a.kind == "load" and a.array in OPERANDS]
    room = max(sum(a.width // WORD for a in fetched), 1)
    queue, put, got = np.full((threads, room), -1), np.zeros(threads, int), np.zeros(threads, int)
    held: dict[str, np.ndarray] = defaultdict(lambda: np.full(1 << 16, -1))  # by word of shared memory
    asked, taken, writes = [], [], np.zeros((threads, M, N), bool)
    for n, access in enumerate(trace):
        t, ahead = access.threads[:, None], np.arange(access.width // WORD)
        words = access.offsets[:, None] // WORD + ahead
        what = access.space, access.kind
        if what == ("global", "load") and access.array in OPERANDS:
            found = words + offset[access.array]
            queue[t, put[t] + ahead] = found
            put[access.threads] += len(ahead)
            asked.append((n, t, found))
        elif what == ("shared", "store"):  # a thread stores what it has fetched in the order in which it has
            mine = got[t] < put[t]
            held[access.array][words] = np.where(mine, queue[t, np.minimum(got[t] + ahead, room - 1)], -1)
            got[access.threads] += len(ahead) * mine[:, 0]
        elif what == ("shared", "load"):
            found = held[access.array][words]
            if (found >= 0).any():
                taken.append((n, np.broadcast_to(t, found.shape)[found >= 0], found[found >= 0]))
        elif what == ("global", "store") and access.array == "C":
            writes[t, words // N, words % N] = True
    if not taken or not writes.any():
        raise ArgumentError("run", run.kernel.name, STAGING)
    rows, cols = np.nonzero(writes.any(axis=0))
    row, col = int(rows.min()), int(cols.min())
    copies = {"A": np.zeros((steps, threads, BM, BK), bool), "B": np.zeros((steps, threads, BK, BN), bool)}
    reads = {m: np.zeros(tiles.shape, np.uint8) for m, tiles in copies.items()}

    def place(m: str, found: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the tile along K of elements of A or B, and their places in it."""
        r, c = np.divmod(found - offset[m], columns[m])
        return (c // BK, r - row, c % BK) if m == "A" else (r // BK, r % BK, c - col)

    fetches, last = [], [-1] * steps
    for (n, t, found), reading in [*((each, False) for each in asked), *((each, True) for each in taken)]:
        t = np.broadcast_to(t, found.shape)
        for m in OPERANDS:
            mine = (found >= offset["B"]) == (m == "B")
            if not mine.any():
                continue
            tile, r, c = place(m, found[mine])
            if reading:
                np.add.at(reads[m], (tile, t[mine], r, c), 1)
                for each in np.unique(tile).tolist():
                    last[each] = max(last[each], n)
            else:
                copies[m][tile, t[mine], r, c] = True
                fetches += [(n, each) for each in np.unique(tile).tolist()]
    copied: list[set[int]] = [set() for _ in range(steps)]
    for n, tile in fetches:
        copied[sum(end < n for end in last)].add(tile)
    mine = writes[:, row : row + BM, col : col + BN]
    if writes.sum() != mine.sum():
        raise ArgumentError("run", "a block that writes beyond a tile of C", "blocks with a tile of C each")
    for m in OPERANDS:
        if not (copies[m] == copies[m][0]).all():
            raise ArgumentError("run", "steps that copy other elements", "steps that do the same")
    once = {m: tiles[0] for m, tiles in copies.items()}
    return Staged([(row, col)], list(map(sorted, copied)), once, reads, mine)
