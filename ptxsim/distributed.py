"""Models distributed shared memory: accesses to the shared memories of a cluster's other blocks.

Only the barrier of the cluster orders such far accesses. Two accesses by threads of different blocks to the same place,
at least one of them a write, are a race unless their cluster has met in between, or both are strong, as atomic
operations are. The accesses of a block's own threads are in the stamps of `SharedMemory`; three more shadow arrays hold
the last far write of each granule, its far reads, and the last far write that was strong.
Semantics: NVIDIA, "Parallel Thread Execution ISA", "ld", "st" and "State Spaces"; "CUDA C++ Programming Guide",
"Distributed Shared Memory".
"""

import numpy as np

from .mbarriers import Mbarriers
from .memory import INTERVAL, OF_WARP, SEVERAL, SharedMemory, Violation

USED = "which another thread {} since the cluster met last"
LANES = (1 << INTERVAL) - 1  # in a lane's place: several lanes


class DistributedShared:
    """The far accesses to the shared memories of a batch.

    Parameters
    ----------
    shared : SharedMemory
    barriers : Mbarriers

    Attributes
    ----------
    wrote, read, changed : array of int64
        For each granule, ``since << INTERVAL | lane + 1`` of its last far write, of its far reads, and of its last far
        write that was strong, as atomic operations are. `since` is taken from `SharedMemory` at that time, and `LANES`
        stands for several lanes.
    """

    def __init__(self, shared: SharedMemory, barriers: Mbarriers) -> None:
        self.shared, self.barriers = shared, barriers
        shared.apart()
        self.others = list(shared.watches)
        shared.watches.append(self)
        self.wrote, self.read, self.changed = (np.zeros_like(shared.wrote) for _ in range(3))

    @property
    def strong(self) -> bool:
        """Whether the present instruction may meet others that are strong too, in their scope."""
        history = self.barriers.history
        return bool(history) and "" in history.marks and history.width() > 1

    def load(self, lanes: np.ndarray, addresses: np.ndarray, dtype: np.dtype, count: int) -> list[np.ndarray]:
        """Return `count` arrays: the elements at each lane's address and behind it."""
        width = dtype.itemsize * count
        offsets, granules, stamps = self._reach(lanes, addresses, width)
        self._refuse("uninitialised", self.shared.wrote[granules] == 0, addresses, "reads", "never written")
        self._require_ordered(granules, stamps, addresses, "reads", ("wrote",))
        for watch in self.others:
            watch.see("read", offsets, addresses, self.barriers.block[lanes], self.barriers.thread[lanes], width)
        if not self.strong:
            self._mark_read(granules, stamps)
        elements, first = self.shared.data.view(dtype), offsets // dtype.itemsize
        return [elements[first + i] for i in range(count)]

    def store(self, lanes: np.ndarray, addresses: np.ndarray, values: list[np.ndarray]) -> None:
        """Store one element per lane and value; the values' dtype gives the width."""
        dtype = values[0].dtype
        width = dtype.itemsize * len(values)
        offsets, granules, stamps = self._reach(lanes, addresses, width)
        self._require_ordered(granules, stamps, addresses, "writes", ("wrote", "read"))
        for watch in self.others:
            watch.see("wrote", offsets, addresses, self.barriers.block[lanes], self.barriers.thread[lanes], width)
        self.wrote[granules] = stamps
        self.changed[granules] = stamps if self.strong else 0
        self._require_unused(granules, stamps, addresses, "writes", ("wrote",))  # by another lane of this store
        self.shared.wrote[granules] = SEVERAL  # before all barriers of the block
        elements, first = self.shared.data.view(dtype), offsets // dtype.itemsize
        for i, value in enumerate(values):
            elements[first + i] = value

    def see(
        self, did: str, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Raise Violation where a lane reads what another block's thread has written in its block, or writes there.

        A write must not meet another block's read either.
        """
        lanes = block * self.shared.threads + thread % OF_WARP
        granules, stamps = self._granules(offsets, block, lanes, width)
        does, against = ("reads", ("wrote",)) if did == "read" else ("writes", ("wrote", "read"))
        self._require_unused(granules, stamps, addresses, does, against)

    def _reach(self, lanes: np.ndarray, addresses: np.ndarray, width: int) -> tuple[np.ndarray, ...]:
        """Return the offsets of the lanes' addresses in the batch's memory, and the `_granules` there."""
        addresses, home = self.shared.located(addresses, self.barriers.block[lanes], far=True)
        self.barriers.require_there(lanes, home)
        offsets = self.shared.placed(addresses, home, width)
        self.barriers.reach(lanes, home)
        return offsets, *self._granules(offsets, home, lanes, width)

    def _granules(
        self, offsets: np.ndarray, home: np.ndarray, lanes: np.ndarray, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return granules and stamps: the first ones of all lanes, then the second ones, and so on."""
        stamps = self.shared.since[home] << INTERVAL | lanes + 1
        return self.shared.granules(offsets, width).ravel(), np.tile(stamps, max(width // self.shared.granule, 1))

    def _mark_read(self, granules: np.ndarray, stamps: np.ndarray) -> None:
        before = self.read[granules]
        shared = (before >> INTERVAL == stamps >> INTERVAL) & (before != stamps)
        self.read[granules] = np.where(shared, stamps | LANES, stamps)
        twice = (self.read[granules] != stamps) & ~shared  # by several lanes of this load
        self.read[granules[twice]] = stamps[twice] | LANES

    def _require_ordered(
        self, granules: np.ndarray, stamps: np.ndarray, addresses: np.ndarray, does: str, against: tuple[str, ...]
    ) -> None:
        """Raise Violation where a copy is in flight, or another thread has used a granule since the cluster met."""
        self._refuse(
            "in flight",
            self.shared.wrote[granules] < 0,
            addresses,
            does,
            "to which an asynchronous copy is on its way",
        )
        for did in against:
            before = getattr(self.shared, did)[granules]
            race = before >> INTERVAL >= stamps >> INTERVAL
            if self.strong:
                race &= self.barriers.history.marks[""][did]["strong"][granules] <= 1
            self._refuse("race", race, addresses, does, USED.format(did))
        self._require_unused(granules, stamps, addresses, does, against)

    def _require_unused(
        self, granules: np.ndarray, stamps: np.ndarray, addresses: np.ndarray, does: str, against: tuple[str, ...]
    ) -> None:
        """Raise Violation where another lane has used a granule from afar since the cluster met."""
        for did in against:
            before = getattr(self, did)[granules]
            same = (before >> INTERVAL == stamps >> INTERVAL) & (before != stamps)
            same &= (before != self.changed[granules]) | (not self.strong)
            self._refuse("race", same, addresses, does, USED.format(did))

    def _refuse(self, kind: str, wrong: np.ndarray, addresses: np.ndarray, does: str, why: str) -> None:
        """Raise Violation where granules, those of all lanes in each row, are `wrong`."""
        if wrong.any():
            lane = np.flatnonzero(wrong)[0] % addresses.size
            raise Violation(kind, lane, f"{does} {self._name(addresses[lane])}, {why}")

    def _name(self, address: np.uint64) -> str:
        return self.shared.name(int(address), self.shared.cluster)
