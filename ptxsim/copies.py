"""Models asynchronous copies from global to shared memory by ``cp.async``, and the waits that land them.

A thread's copies are in flight until it waits for them. It commits the copies that it has issued as a group, and waits
for all groups but the most recent few. Semantics: NVIDIA, "Parallel Thread Execution ISA", "cp.async",
"cp.async.commit_group" and "cp.async.wait_group".

The hardware may finish a copy at any time before its wait is over. Here each copy lands at the wait and no sooner, so
that a kernel which waits too little never gets the right result by luck. The source must not change meanwhile; it is
read when the copy is issued.
"""

from dataclasses import dataclass

import numpy as np

from .lanes import PerLane
from .memory import GlobalMemory, SharedMemory, of_part, refuse, require_aligned

WIDTHS = {
    f"cp.async.{way}.shared{of}.global{hint}": widths
    for way, widths in (("ca", (4, 8, 16)), ("cg", (16,)))
    for of in ("", "::cta")
    for hint in ("", ".L2::64B", ".L2::128B", ".L2::256B")
}
"""The copy instructions and the bytes that each may write: 16 only where it bypasses L1 (cg). L2 may fetch more."""

GROUPS = {"cp.async.commit_group": "commit", "cp.async.wait_group": "wait", "cp.async.wait_all": "wait"}
"""The instructions that end a group of copies or wait for groups, and their classes for the counters."""


@dataclass
class PendingCopy(PerLane):
    """The copies of one execution of a copy instruction that have not landed yet.

    Attributes
    ----------
    lanes : array of int64, shape (n,)
        The lanes that issued it, by their place in the batch.
    group : array of int64, shape (n,)
        The number of each copy's group, counted per lane.
    addresses : array of uint64, shape (n,)
        The destination of each copy in its block's shared memory.
    words : array of uint32, shape (width // 4, n)
        The data.
    """

    lanes: np.ndarray
    group: np.ndarray
    addresses: np.ndarray
    words: np.ndarray


class AsyncCopies:
    """The copies of a batch that are in flight.

    Parameters
    ----------
    shared : SharedMemory
        Their destination.
    block, thread : array of int64
        Each lane's block within the batch, and its number in the block.
    """

    def __init__(self, shared: SharedMemory, block: np.ndarray, thread: np.ndarray) -> None:
        self.shared, self.block, self.thread = shared, block, thread
        self.committed = np.zeros(len(block), np.int64)  # groups that each lane has committed
        self.flights: list[PendingCopy] = []

    def issue(self, addresses: np.ndarray, lanes: np.ndarray, words: np.ndarray) -> None:
        """Start to copy words, of shape (width // 4, lanes), to each lane's address."""
        self.shared.depart(addresses, self.block[lanes], self.thread[lanes], 4 * len(words))
        self.flights.append(PendingCopy(lanes, self.committed[lanes], addresses, words))

    def commit(self, lanes: np.ndarray) -> None:
        """Make a group of each lane's copies that are in none yet; the group may be empty."""
        self.committed[lanes] += 1

    def wait(self, lanes: np.ndarray, pending: int) -> None:
        """Land all groups that the lanes have committed except the `pending` most recent ones of each lane."""
        first_pending = np.zeros_like(self.committed)  # groups are numbered from 0: other lanes land none
        first_pending[lanes] = self.committed[lanes] - pending
        still = []
        for flight in self.flights:
            due = flight.group < first_pending[flight.lanes]
            if not due.any():
                still.append(flight)
                continue
            if not due.all():
                still.append(flight.part(~due))
                flight = flight.part(due)
            self.shared.land(flight.addresses, self.block[flight.lanes], self.thread[flight.lanes], flight.words)
        self.flights = still


def fetch(memory: GlobalMemory, addresses: np.ndarray, sizes: np.ndarray, width: int) -> np.ndarray:
    """Read the source of each lane's copy, and fill it up with zeros.

    Parameters
    ----------
    memory : GlobalMemory
    addresses : array of uint64, shape (n,)
        Each lane's source; ignored where the lane reads nothing.
    sizes : array of uint32, shape (n,)
        Bytes that each lane reads, 0 to `width`.
    width : int
        Bytes that each lane copies.

    Returns
    -------
    array of uint32, shape (width // 4, n)

    Raises
    ------
    Violation
        A lane's source is misaligned for `width` bytes, out of bounds, uninitialised, or longer than `width` bytes.
    """
    refuse("out of bounds", sizes > width, lambda lane: f"copies {sizes[lane]} bytes to a place of {width}")
    words = np.zeros((width // 4, len(sizes)), np.uint32)
    for size in np.flatnonzero(np.bincount(sizes[sizes > 0].astype(np.intp))).tolist():
        lanes = np.flatnonzero(sizes == size)
        with of_part(lanes):
            require_aligned(addresses[lanes], width, memory.where)
            if size % 4 == 0:
                words[: size // 4, lanes] = memory.load(addresses[lanes], words.dtype, size // 4)
            else:
                part = np.zeros((len(lanes), width), np.uint8)
                part[:, :size] = np.stack(memory.load(addresses[lanes], part.dtype, size), axis=1)
                words[:, lanes] = part.view(np.uint32).T
    return words
