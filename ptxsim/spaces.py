"""Sends loads and stores to the memory that their state space names, and generic ones to that of their addresses."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from .distributed import DistributedShared
from .history import History
from .lanes import Lanes, Threads
from .limits import WARP
from .local import LocalMemory
from .mbarriers import Mbarriers
from .memory import LOCAL_WINDOW, OF_WARP, RANK, SHARED_WINDOW, GlobalMemory, SharedMemory, of_part, refuse

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
    history : History, optional
        The order of accesses, where it is kept.
    changes : int
        Increases with every store and every atomic operation that changes something.
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
        self.history: History | None = None
        self.changes = 0

    @cached_property
    def distributed(self) -> DistributedShared:
        """The other blocks' shared memories; made at the first access, as watching them costs time."""
        return DistributedShared(self.shared, self.barriers)

    def load(
        self,
        space: str,
        addresses: np.ndarray,
        lanes: Lanes,
        dtype: np.dtype,
        count: int,
        behind: Sequence[int] = (0,),
        as_warp: bool = False,
        unwritten: str = "none",
    ) -> list[np.ndarray]:
        """Load `count` elements at each address; from shared memory, at several distances `behind` it at once.

        If `as_warp`, the whole warp of each lane is taken to load from its address. `unwritten` tells how much of what
        a lane loads nothing need have written: "none", "some" or "all".
        """
        if space in OF_ALL:
            if self.history and space == "global":
                self._touch(addresses, lanes, dtype.itemsize * count)
            return self.memory.load(addresses, dtype, count, unwritten)
        if space in OF_THREADS:
            addresses = self.threads.spread(addresses, lanes)
            strict = space == "local" and unwritten != "all"
            return self.local.load(self.threads.places(lanes), addresses, dtype, count, strict)
        addresses, block, thread = self._owned(addresses, lanes, as_warp)
        if space != CLUSTER:
            return self.shared.load(addresses, block, thread, dtype, count, behind, unwritten)
        values = [np.empty(len(addresses), dtype) for _ in range(count)]
        for part, far in self.parts(addresses, lanes):
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
        self.changes += space not in OF_THREADS
        if space == "global":
            addresses = self.threads.spread(addresses, lanes)
            if self.history:
                self._touch(addresses, lanes, values[0].dtype.itemsize * len(values), values)
            self.memory.store(addresses, values)
            if self.history and not self.history.order:
                refuse(
                    "race",
                    self._differ(addresses, values),
                    lambda lane: self.history.meeting(
                        *self.memory.name(int(addresses[lane])),
                        self.threads.places(lanes)[addresses == addresses[lane]][-1],
                    ),
                )
            return
        if space in OF_THREADS:
            self.local.store(self.threads.places(lanes), addresses, values)
            return
        self._store_shared(space, addresses, lanes, values, as_warp)

    def _store_shared(
        self, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray], as_warp: bool = False
    ) -> None:
        """Store one element per value, one behind the other, at each address in shared memory or a cluster's."""
        addresses, block, thread = self._owned(addresses, lanes, as_warp)
        if space != CLUSTER:
            self.shared.store(addresses, block, thread, values)
            return
        for part, far in self.parts(addresses, lanes):
            pieces = [value if value.size == 1 else value[part] for value in values]
            with of_part(part):
                if far:
                    self.distributed.store(self.threads.places(lanes)[part], addresses[part], pieces)
                else:
                    self.shared.store(addresses[part], block[part], thread[part], pieces)

    def words(
        self, space: str, addresses: np.ndarray, lanes: Lanes, dtype: np.dtype
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield memory, the places in it of the words at the addresses, and the places of those lanes: to change them.

        The words are checked as if each lane loaded its own and stored it again.
        """
        loaded = self.load(space, addresses, lanes, dtype, 1)
        every = np.arange(len(addresses), dtype=np.int64)
        if space == "global":
            for buffer, part, offsets in self.memory.written(addresses, dtype.itemsize):
                part = every if part is None else part
                if self.history:
                    self.history.touch(buffer, offsets, self.threads.places(lanes)[part], dtype.itemsize, True)
                yield buffer.elements(dtype), (offsets // np.uint64(dtype.itemsize)).view(np.int64), part
            return
        self._store_shared(space, addresses, lanes, loaded)
        within, block = self.shared.located(addresses, self.threads.pick(self.threads.block, lanes), far=True)
        yield (
            self.shared.data.view(dtype),
            self.shared.placed(within, block, dtype.itemsize) // dtype.itemsize,
            every,
        )

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

    def pass_on(self, addresses: np.ndarray, lanes: Lanes, reads: bool, writes: bool) -> None:
        """Let strong accesses take over and pass on what is known, where the history is kept."""
        if self.history:
            self.history.pass_on(
                self.threads.spread(addresses, lanes).tolist(), self.threads.places(lanes), reads, writes
            )

    def parts(self, addresses: np.ndarray, lanes: Lanes) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the places of addresses in other blocks' shared memories with True, and of the rest with False."""
        own = self.threads.pick(self.window, lanes)
        far = (addresses >> np.uint64(RANK) != own >> np.uint64(RANK)) & self.clustered
        for kind in (True, False):
            if (far == kind).any():
                yield np.flatnonzero(far == kind), kind

    def _touch(self, addresses: np.ndarray, lanes: Lanes, width: int, values: list[np.ndarray] | None = None) -> None:
        """Tell the history of an access to global memory: a load, or a store of these values where others are."""
        addresses, who = self.threads.spread(addresses, lanes), self.threads.places(lanes)
        for buffer, part, offsets in self.memory.locate(addresses, width):
            part = np.arange(len(who), dtype=np.int64) if part is None else part
            if values:
                new = self._differ(addresses, values)[part]
                part, offsets = part[new], offsets[new]
            with of_part(part):
                self.history.touch(buffer, offsets, who[part], width, values is not None)

    def _differ(self, addresses: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        """Return for which lanes global memory does not have these values."""
        size = values[0].dtype.itemsize
        there, differ = np.dtype(f"u{size}"), np.zeros(addresses.size, bool)
        for buffer, part, offsets in self.memory.locate(addresses, size * len(values)):
            first = (offsets // np.uint64(size)).view(np.int64)
            for i, value in enumerate(values):
                value = value.view(there) if part is None or value.size == 1 else value.view(there)[part]
                differ[slice(None) if part is None else part] |= buffer.elements(there)[first + i] != value
        return differ

    def _owned(self, addresses: np.ndarray, lanes: Lanes, as_warp: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each active lane's address, its block within the batch, and its thread or warp."""
        threads = self.threads
        thread = threads.pick(threads.thread, lanes)
        if as_warp:
            thread = thread & -WARP | OF_WARP
        return threads.spread(addresses, lanes), threads.pick(threads.block, lanes), thread
