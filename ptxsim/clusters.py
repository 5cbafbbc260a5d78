"""Models clusters: the barrier at which their blocks meet, and the check that no block leaves too early.

The blocks of a cluster run at the same time. A thread arrives at the cluster's barrier, and may do other things before
it waits there; threads that have left the kernel count as arrived. A phase in which a thread arrives with ``.relaxed``
orders no memory accesses; it then shows the cluster only those mbarriers that a fence covers. Accesses between a
thread's arrival and its wait are checked as if they came after the wait, so some races of theirs are not found.

A block may leave once it knows, by a barrier of the cluster or by an mbarrier, that no other block will reach into its
shared memory any more. Semantics: NVIDIA, "Parallel Thread Execution ISA", "barrier.cluster", "exit" and "fence";
"CUDA C++ Programming Guide", "Distributed Shared Memory".
"""

from dataclasses import dataclass

import numpy as np

from .lanes import PerLane
from .mbarriers import Mbarriers, grown, most
from .memory import of_part, refuse
from .proxy import AsyncProxy

BLOCKS_MAX = 8  # of a cluster, on every GPU that has clusters


@dataclass(frozen=True)
class ClusterWait(PerLane):
    """Lanes that wait at their clusters' barriers, and the source line of the wait."""

    lanes: np.ndarray
    line: int


class Clusters:
    """The barriers of a batch's clusters.

    Parameters
    ----------
    barriers : Mbarriers
        The batch's mbarriers, and the knowledge of its lanes.
    proxy : AsyncProxy, optional
        The copies into the batch's shared memories.

    Attributes
    ----------
    cluster : array of int64
        Each lane's cluster within the batch.
    arrived, waited : array of int64
        How often each lane has arrived at the barrier, and waited there.
    left : array of bool
        Which lanes have left the kernel.
    phase : array of int64
        How often each cluster has met.
    relaxed : array of bool
        Whether a thread has arrived with ``.relaxed`` in the current phase.
    carried, handed : array of int32, shape (clusters, at most as `Mbarriers.known`)
        The knowledge of the arrivals of the current phase, and the knowledge that a wait for the last phase passes on.
    """

    def __init__(self, barriers: Mbarriers, proxy: AsyncProxy | None) -> None:
        self.barriers, self.proxy = barriers, proxy
        barriers.known = np.zeros((len(barriers.block), barriers.warps), np.int32)
        self.cluster = barriers.block // barriers.cluster
        lanes, count = len(self.cluster), barriers.blocks // barriers.cluster
        self.arrived, self.waited = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self.left = np.zeros(lanes, bool)
        self.phase, self.relaxed = np.zeros(count, np.int64), np.zeros(count, bool)
        self.carried = np.zeros((count, barriers.warps), np.int32)
        self.handed = np.zeros((count, barriers.warps), np.int32)

    def arrive(self, lanes: np.ndarray, relaxed: bool) -> None:
        """Let lanes arrive at their clusters' barriers."""
        refuse(
            "barrier",
            self.arrived[lanes] > self.waited[lanes],
            "arrives at the cluster's barrier again without having waited there",
        )
        if relaxed:
            self.relaxed[self.cluster[lanes]] = True
        else:
            self.barriers.tell(lanes, "shown")
            self.barriers.release(lanes)
            self.barriers.hand_on([("cluster", of) for of in self.cluster[lanes].tolist()], lanes)
            found, rows = most(self.cluster[lanes], self.barriers.known[lanes])
            self.carried = grown(self.carried, len(self.phase), rows.shape[1])
            self.carried[found] = np.maximum(self.carried[found], rows)
        self.arrived[lanes] += 1
        self._meet()

    def wait(self, lanes: np.ndarray, line: int) -> ClusterWait:
        """Return the lanes' wait at their clusters' barriers."""
        refuse(
            "barrier",
            self.arrived[lanes] == self.waited[lanes],
            "waits at the cluster's barrier without having arrived there",
        )
        return ClusterWait(lanes, line)

    def passed(self, wait: ClusterWait) -> np.ndarray:
        """Return for which lanes the wait is over, and give those the knowledge of the phase's arrivals."""
        cluster = self.cluster[wait.lanes]
        over = self.phase[cluster] >= self.arrived[wait.lanes]
        lanes, rows = wait.lanes[over], self.handed[cluster[over]]
        self.waited[lanes] = self.arrived[lanes]
        self.barriers.hand_on([("cluster", of) for of in cluster[over].tolist()], lanes)
        known = self.barriers.known[:, : rows.shape[1]]
        known[lanes] = np.maximum(known[lanes], rows)
        return over

    def leave(self, lanes: np.ndarray) -> None:
        """Let lanes leave the kernel.

        Raises
        ------
        Violation
            The last lane of a block leaves before it knows that no other block will use the block's memory.
        """
        barriers = self.barriers
        self.left[lanes] = True
        of_blocks = self.left.reshape(barriers.blocks, -1)
        blocks = np.unique(barriers.block[lanes])
        for block in blocks[of_blocks[blocks].all(axis=1)].tolist():
            last = np.flatnonzero(barriers.block[lanes] == block)[-1]
            detail = "leaves the kernel as the last of its block, "
            known = barriers.known[barriers.block == block, : barriers.warps].max(axis=0)
            with of_part(np.full(barriers.warps, last)):
                coming = bool(self.proxy) and self.proxy.coming(block)
                refuse("gone", coming, detail + "into whose memory a copy is on its way")
                refuse(
                    "gone",
                    barriers.reached[block] > known,
                    lambda warp, detail=detail: (
                        f"{detail}without knowing that {barriers.warp_name(warp)} is done with the block's memory"
                    ),
                )
            barriers.gone[block] = True
        self._meet()

    def _meet(self) -> None:
        """End the phases at which every thread has arrived or left the kernel."""
        barriers, phase = self.barriers, self.phase[self.cluster]
        over = np.bincount(self.cluster[self.arrived > phase].astype(np.intp), minlength=len(self.phase)) > 0
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
