"""Sends loads and stores to the memory that their state space names, and generic ones to that of their addresses."""

from collections.abc import Iterator, Sequence

import numpy as np

from .distributed import DistributedShared
from .lanes import Lanes, Threads
from .limits import WARP
from .local import LocalMemory
from .mbarriers import Mbarriers
from .memory import LOCAL_WINDOW, OF_WARP, RANK, SHARED_WINDOW, GlobalMemory, SharedMemory, of_part

CLUSTER = "shared::cluster"
"""The state space of a cluster's shared memories."""

OF_ALL = ("global", "const")
"""The spaces that all blocks have in common; both have addresses of their own."""
OF_THREADS = ("local", "param")
"""The spaces that are each thread's own; "param" holds what calls pass."""


class AddressSpaces:
    """The memories that a batch of blocks can reach.

    Parameters
    ----------
    threads : Threads
    memory : GlobalMemory
    shared : SharedMemory
    local : LocalMemory
    barriers : Mbarriers
    clustered : bool
        Whether the program uses clusters.

    Attributes
    ----------
    window : array of uint64
        For each lane, the address at which its block's shared memory begins in its cluster's window.
    """

    def __init__(
        self,
        threads: Threads,
        memory: GlobalMemory,
        shared: SharedMemory,
        local: LocalMemory,
        barriers: Mbarriers,
        clustered: bool,
    ) -> None:
        self.threads, self.memory, self.shared, self.local, self.barriers = threads, memory, shared, local, barriers
        self.clustered = clustered
        self.window = (threads.block % shared.cluster).astype(np.uint64) << np.uint64(RANK)
        self._distributed: DistributedShared | None = None

    @property
    def distributed(self) -> DistributedShared:
        """The other blocks' shared memories; made at the first access, as watching them costs time."""
        if self._distributed is None:
            self._distributed = DistributedShared(self.shared, self.barriers)
        return self._distributed

    def load(
        self,
        space: str,
        addresses: np.ndarray,
        lanes: Lanes,
        dtype: np.dtype,
        count: int,
        behind: Sequence[int] = (0,),
        as_warp: bool = False,
    ) -> list[np.ndarray]:
        """Load `count` elements at each address; from shared memory, at several distances `behind` it at once.

        If `as_warp`, the whole warp of each lane is taken to load from its address.
        """
        if space in OF_ALL:
            return self.memory.load(addresses, dtype, count)
        if space in OF_THREADS:
            addresses = self.threads.spread(addresses, lanes)
            return self.local.load(self.threads.places(lanes), addresses, dtype, count, space == "local")
        addresses, block, thread = self._owned(addresses, lanes, as_warp)
        if space != CLUSTER:
            return self.shared.load(addresses, block, thread, dtype, count, behind)
        values = [np.empty(len(addresses), dtype) for _ in range(count)]
        for part, far in self._parts(addresses, lanes):
            with of_part(part):
                if far:
                    loaded = self.distributed.load(self.threads.places(lanes)[part], addresses[part], dtype, count)
                else:
                    loaded = self.shared.load(addresses[part], block[part], thread[part], dtype, count)
            for value, piece in zip(values, loaded, strict=True):
                value[part] = piece
        return values

    def store(
        self, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray], as_warp: bool = False
    ) -> None:
        """Store one element per value, one behind the other, at each address; by whole warps if `as_warp`."""
        addresses, block, thread = self._owned(addresses, lanes, as_warp)
        if space == "global":
            self.memory.store(addresses, values)
            return
        if space in OF_THREADS:
            self.local.store(self.threads.places(lanes), addresses, values)
            return
        if space != CLUSTER:
            self.shared.store(addresses, block, thread, values)
            return
        for part, far in self._parts(addresses, lanes):
            pieces = [value if value.size == 1 else value[part] for value in values]
            with of_part(part):
                if far:
                    self.distributed.store(self.threads.places(lanes)[part], addresses[part], pieces)
                else:
                    self.shared.store(addresses[part], block[part], thread[part], pieces)

    def homes(self, addresses: np.ndarray, lanes: Lanes) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield the spaces into which generic addresses point, the addresses there, and the places of those lanes."""
        addresses = self.threads.spread(addresses, lanes)
        rest = np.ones(len(addresses), bool)
        windows = {
            "local": (LOCAL_WINDOW, 1 << 32),
            CLUSTER if self.clustered else "shared": (SHARED_WINDOW, 16 << RANK),
        }
        for space, (start, size) in windows.items():
            inside = addresses - np.uint64(start) < np.uint64(size)
            if inside.any():
                yield space, addresses[inside] - np.uint64(start), np.flatnonzero(inside)
                rest &= ~inside
        if rest.any():
            yield "global", addresses[rest], np.flatnonzero(rest)

    def _owned(self, addresses: np.ndarray, lanes: Lanes, as_warp: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each active lane's address, its block within the batch, and its thread or warp."""
        threads = self.threads
        thread = threads.pick(threads.thread, lanes)
        if as_warp:
            thread = thread & -WARP | OF_WARP
        return threads.spread(addresses, lanes), threads.pick(threads.block, lanes), thread

    def _parts(self, addresses: np.ndarray, lanes: Lanes) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the places of addresses in other blocks' shared memories with True, and of the rest with False."""
        own = self.threads.pick(self.window, lanes)
        far = (addresses >> np.uint64(RANK) != own >> np.uint64(RANK)) & self.clustered
        for kind in (True, False):
            if (far == kind).any():
                yield np.flatnonzero(far == kind), kind
