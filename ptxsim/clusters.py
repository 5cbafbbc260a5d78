"""Clusters: the barrier at which their blocks meet, and when a block may leave.

The blocks of a cluster run at the same time. At the cluster's barrier a thread arrives, and may do other things before
it waits; threads that have left count as arrived. Where it is ``.aligned`` a warp has to come as one: no lane may still
wait for an mbarrier, nor may it be luck if none does. A phase at which a thread arrives relaxed orders no accesses;
then mbarriers are known to the cluster where a fence of theirs has shown them. Races are looked for as if a thread
waited where it arrives, so that one with what it does in between may not be found.

A block may leave as soon as it knows, by a barrier of the cluster or by an mbarrier, that nobody will reach into its
shared memory any more. Semantics: NVIDIA, "Parallel Thread Execution ISA", "barrier.cluster", "exit" and "fence";
"CUDA C++ Programming Guide", "Distributed Shared Memory".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .mbarriers import Barriers, grown, most
from .memory import Violation
from .tiles import Tiles

BLOCKS_MAX = 8  # of a cluster, on every GPU that has them


@dataclass(frozen=True)
class Meeting:
    """Lanes that wait at their clusters' barriers, and the line of the source."""

    lanes: np.ndarray
    line: int

    def part(self, which: np.ndarray) -> Meeting:
        """Return the lanes where `which` holds, alone."""
        return Meeting(self.lanes[which], self.line)


class Clusters:
    """The barriers of a batch's clusters.

    Parameters
    ----------
    barriers : Barriers
        The mbarriers of the batch, and what its lanes know.
    tiles : Tiles, optional
        The copies into its shared memories.

    Attributes
    ----------
    cluster : array of int64
        Each lane's cluster within the batch.
    arrived, waited : array of int64
        How often each lane has arrived at the barrier, and waited there.
    left, apart : array of bool
        Which lanes have left the kernel, and which may be behind their warps.
    warp : array of int64
        Each lane's warp within the batch.
    phase : array of int64
        How often each cluster has met.
    relaxed : array of bool
        Whether an arrival of the phase that runs orders nothing.
    carried, handed : array of int32, shape (clusters, at most as `Barriers.known`)
        What the arrivals of the phase that runs know, and what waits for the last phase get.
    """

    def __init__(self, barriers: Barriers, tiles: Tiles | None) -> None:
        self.barriers, self.tiles = barriers, tiles
        barriers.known = np.zeros((len(barriers.block), barriers.warps), np.int32)
        self.cluster = barriers.block // barriers.cluster
        lanes, count = len(self.cluster), barriers.blocks // barriers.cluster
        self.arrived, self.waited = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self.left, self.apart = np.zeros(lanes, bool), np.zeros(lanes, bool)
        self.warp = barriers.block * barriers.warps + barriers.warp
        self.phase, self.relaxed = np.zeros(count, np.int64), np.zeros(count, bool)
        self.carried = np.zeros((count, barriers.warps), np.int32)
        self.handed = np.zeros((count, barriers.warps), np.int32)

    def wait_alone(self, lanes: np.ndarray) -> None:
        """Remember which of the lanes wait for mbarriers without all of their warps, and so may fall behind them."""
        self.apart[lanes] |= self._lacks(lanes)

    def require_whole(self, lanes: np.ndarray) -> None:
        """Raise Violation unless every warp comes with all its lanes, none of which might still wait elsewhere."""
        detail = "comes to the cluster's barrier without all of its warp, though that is to come as one"
        for lane in np.flatnonzero(self._lacks(lanes)):
            raise Violation("divergence", lane, detail)
        for lane in np.flatnonzero(self.apart[lanes]):
            detail = "has waited at an mbarrier without all of its warp, and nothing has brought them together since"
            raise Violation("divergence", lane, detail + ", though a warp is to come to the cluster's barrier as one")

    def _lacks(self, lanes: np.ndarray) -> np.ndarray:
        """Return of which lanes the warps have others that are not here."""
        missing = np.ones(len(self.warp), bool)
        missing[lanes] = False
        return np.isin(self.warp[lanes], self.warp[missing])

    def arrive(self, lanes: np.ndarray, relaxed: bool) -> None:
        """Let lanes arrive at their clusters' barriers."""
        again = np.flatnonzero(self.arrived[lanes] > self.waited[lanes])
        if len(again):
            raise Violation("barrier", again[0], "arrives at the cluster's barrier again without having waited there")
        if relaxed:
            self.relaxed[self.cluster[lanes]] = True
        else:
            self.barriers.tell(lanes, "shown")
            self.barriers.release(lanes)
            found, rows = most(self.cluster[lanes], self.barriers.known[lanes])
            self.carried = grown(self.carried, len(self.phase), rows.shape[1])
            self.carried[found] = np.maximum(self.carried[found], rows)
        self.arrived[lanes] += 1
        self._meet()

    def meeting(self, lanes: np.ndarray, line: int) -> Meeting:
        """Return the wait of lanes at their clusters' barriers."""
        never = np.flatnonzero(self.arrived[lanes] == self.waited[lanes])
        if len(never):
            raise Violation("barrier", never[0], "waits at the cluster's barrier without having arrived there")
        return Meeting(lanes, line)

    def answered(self, meeting: Meeting) -> np.ndarray:
        """Return for which lanes the wait is over; those know from now on what the arrivals knew."""
        cluster = self.cluster[meeting.lanes]
        over = self.phase[cluster] >= self.arrived[meeting.lanes]
        lanes, rows = meeting.lanes[over], self.handed[cluster[over]]
        self.waited[lanes] = self.arrived[lanes]
        known = self.barriers.known[:, : rows.shape[1]]
        known[lanes] = np.maximum(known[lanes], rows)
        return over

    def leave(self, lanes: np.ndarray) -> None:
        """Let lanes leave the kernel.

        Raises
        ------
        Violation
            A block's last lane leaves, which does not know that nobody reaches into the block's memory any more.
        """
        barriers = self.barriers
        self.left[lanes] = True
        of_blocks = self.left.reshape(barriers.blocks, -1)
        blocks = np.unique(barriers.block[lanes])
        for block in blocks[of_blocks[blocks].all(axis=1)].tolist():
            last = np.flatnonzero(barriers.block[lanes] == block)[-1]
            detail = "leaves the kernel as the last of its block, "
            if self.tiles and self.tiles.coming(block):
                raise Violation("gone", last, detail + "into whose memory a copy is on its way")
            known = barriers.known[barriers.block == block, : barriers.warps].max(axis=0)
            unknown = np.flatnonzero(barriers.reached[block] > known)
            if len(unknown):
                who = barriers.warp_name(unknown[0])
                raise Violation("gone", last, f"{detail}without knowing that {who} is done with the block's memory")
            barriers.gone[block] = True
        self._meet()

    def _meet(self) -> None:
        """End the phases at which all have arrived that have not left."""
        barriers, phase = self.barriers, self.phase[self.cluster]
        over = np.bincount(self.cluster[self.arrived > phase], minlength=len(self.phase)) > 0
        over[self.cluster[(self.arrived == phase) & ~self.left]] = False
        if not over.any():
            return
        self.phase[over] += 1
        self.handed = grown(self.handed, *self.carried.shape)
        self.handed[over], self.carried[over] = self.carried[over], 0
        barriers.met[np.repeat(over, barriers.cluster)] += 1
        ordered = np.repeat(over & ~self.relaxed, barriers.cluster)
        barriers.shared.interval[ordered] += 1
        barriers.shared.since[ordered] = barriers.shared.interval[ordered]
        self.relaxed[over] = False
        barriers.changes += 1
