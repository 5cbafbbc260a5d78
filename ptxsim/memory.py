"""Simulated memories. They hold the data and do a compute-sanitizer's checks on every access.

Addresses and data come as arrays with one element per active lane. A failed check raises `Violation`, which
says which lane and why; the machine adds kernel, block, thread and source line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .limits import WARP
from .ptx import Variable

WARPS_MAX = 32  # per block
OF_WARP = 1024  # past all threads' numbers; with that of a warp's first thread: "all threads of this warp, together"
OF_SOME = OF_WARP | 1  # and so "several threads of this warp, each on its own"
SEVERAL = 2047  # in a thread's place: "threads of several warps"
ALIGNMENT = 512  # bytes
WARP_INTERVAL, INTERVAL = 11, 32  # where in a stamp the counts of barriers begin; the thread is below them
ARRAYS = 1 << 40  # where the first array begins in global memory, and how far apart they are
RANK = 24  # where in an address of shared memory the rank of the block begins that has it, as in what ptxas makes
SHARED_WINDOW = 0x20_8000_0000  # where generic addresses of shared memory begin, far below those of the arrays


def past_alignment(array: np.ndarray) -> int:
    """Return the bytes between the last multiple of `ALIGNMENT` and where the simulator places an array.

    As CuPy does, memory is aligned to 512 bytes, and a view keeps its distance from the start of that memory.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return (array.ctypes.data - owner.ctypes.data) % ALIGNMENT


class Violation(Exception):  # noqa: N818 - caught and completed by the machine, never seen outside
    """A check failed: its kind, the first offending lane's place among the active ones, and details."""

    def __init__(self, kind: str, lane: int, detail: str) -> None:
        super().__init__(kind, lane, detail)
        self.kind, self.lane, self.detail = kind, int(lane), detail


def require_aligned(addresses: np.ndarray, width: int) -> None:
    """Raise Violation unless every address is a multiple of the access width in bytes."""
    if int(np.bitwise_or.reduce(addresses)) & width - 1:
        lane = np.flatnonzero(addresses & np.uint64(width - 1))[0]
        raise Violation("misaligned", lane, f"a {width}-byte access at address {int(addresses[lane]):#x}")


@dataclass
class Buffer:
    """One array in global memory: its name, address, bytes, and which 4-byte words have been written."""

    name: str
    base: int
    data: np.ndarray
    written: np.ndarray | None

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """Return the array's whole elements as if it were of that type."""
        return self.data[: self.data.size // dtype.itemsize * dtype.itemsize].view(dtype)


class GlobalMemory:
    """The kernel's arrays, each at an address of its own far from the others.

    Arrays are used in place: what the kernel stores is in them afterwards.
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, array: np.ndarray, written: bool = True) -> int:
        """Place an array and return its address; `written` is False where it holds nothing yet."""
        base = (len(self.buffers) + 1) * ARRAYS + past_alignment(array)
        data = np.asarray(array).reshape(-1).view(np.uint8)
        self.buffers.append(Buffer(name, base, data, None if written else np.zeros(-(-data.size // 4), bool)))
        return base

    def of(self, array: np.ndarray) -> Buffer:
        """Return where an array is that was added."""
        return next(buffer for buffer in self.buffers if buffer.data.ctypes.data == array.ctypes.data)

    def locate(self, addresses: np.ndarray, width: int) -> list[tuple[Buffer, np.ndarray | None, np.ndarray]]:
        """Return (buffer, which lanes or None for all, byte offsets) for each array that is accessed."""
        require_aligned(addresses, width)
        for buffer in self.buffers:  # nearly always, one instruction walks one array
            offsets = addresses - np.uint64(buffer.base)
            if int(offsets.max()) <= buffer.data.size - width:
                return [(buffer, None, offsets)]
        found = []
        homeless = np.ones(addresses.size, bool)
        for buffer in self.buffers:
            offsets = addresses - np.uint64(buffer.base)
            inside = offsets < np.uint64(max(buffer.data.size - width + 1, 0))
            if inside.any():
                found.append((buffer, np.flatnonzero(inside), offsets[inside]))
                homeless &= ~inside
        if homeless.any():
            lane = np.flatnonzero(homeless)[0]
            raise Violation("out of bounds", lane, self._describe(int(addresses[lane]), width))
        return found

    def load(self, addresses: np.ndarray, dtype: np.dtype, count: int) -> list[np.ndarray]:
        """Return `count` arrays: the elements at each lane's address and behind it."""
        width = dtype.itemsize * count
        parts = []
        for buffer, lanes, offsets in self.locate(addresses, width):
            self._require_written(buffer, lanes, offsets, width)
            elements, first = buffer.elements(dtype), (offsets // np.uint64(dtype.itemsize)).view(np.int64)
            parts.append((lanes, [elements[first + i] for i in range(count)]))
        if parts[0][0] is None:
            return parts[0][1]
        values = [np.empty(addresses.size, dtype) for _ in range(count)]
        for lanes, part in parts:
            for value, piece in zip(values, part, strict=True):
                value[lanes] = piece
        return values

    def store(self, addresses: np.ndarray, values: list[np.ndarray]) -> None:
        """Store one element per lane and value; the values' dtype gives the width."""
        dtype = values[0].dtype
        for buffer, lanes, offsets in self.locate(addresses, dtype.itemsize * len(values)):
            elements, first = buffer.elements(dtype), (offsets // np.uint64(dtype.itemsize)).view(np.int64)
            for i, value in enumerate(values):
                elements[first + i] = value if lanes is None or value.size == 1 else value[lanes]
                if buffer.written is not None:
                    buffer.written[(first + i) * dtype.itemsize // 4] = True

    def add_to(self, addresses: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Add a uint32 to the word at each lane's address, one lane after the other; return what each one found."""
        found = np.empty(addresses.size, np.uint32)
        for buffer, lanes, offsets in self.locate(addresses, 4):
            self._require_written(buffer, lanes, offsets, 4)
            words = buffer.elements(np.dtype(np.uint32))
            for lane, word in zip(range(addresses.size) if lanes is None else lanes, offsets // 4, strict=True):
                found[lane] = words[word]
                words[word] += values[lane]
        return found

    def name(self, address: int) -> tuple[str, int]:
        """Return the array an address points into, and the offset in bytes."""
        buffer = self.buffers[(address >> 40) - 1]
        return buffer.name, address - buffer.base

    @staticmethod
    def _require_written(buffer: Buffer, lanes: np.ndarray | None, offsets: np.ndarray, width: int) -> None:
        if buffer.written is None:
            return
        for start in range(0, width, 4):
            fresh = ~buffer.written[(offsets.view(np.int64) + start) // 4]
            if fresh.any():
                lane = np.flatnonzero(fresh)[0]
                place = int(offsets[lane]) + start
                lane = lane if lanes is None else lanes[lane]
                raise Violation("uninitialised", lane, f"reads {buffer.name} at byte {place}, never written")

    def _describe(self, address: int, width: int) -> str:
        for buffer in self.buffers:
            offset = address - buffer.base
            if -(1 << 39) <= offset < 1 << 39:
                size = buffer.data.size
                where = f"{-offset} bytes before its start" if offset < 0 else f"{offset - size} bytes past its end"
                if offset < size and offset >= 0:
                    where = "across its end"
                return f"a {width}-byte access to {buffer.name} ({size:,} bytes), {where}, address {address:#x}"
        return f"a {width}-byte access at address {address:#x}, in no array"


class Watch(Protocol):
    """Who looks after loads and stores of shared memory beside the memory itself, and raises Violation."""

    def loaded(
        self, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Each lane loads bytes from its offset in the batch's memory, which is its address, 16 at most."""

    def stored(
        self, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Each lane stores there."""


class SharedMemory:
    """The shared memories of a batch of blocks, side by side in one array.

    Two shadow arrays hold, per granule of memory, a stamp of its last write and of its reads. A stamp is
    ``interval << INTERVAL | warp's interval << WARP_INTERVAL | thread``, where a block's interval goes up at each
    barrier of the block, and a warp's at each of the warp: two accesses by different threads in the same interval of
    their block, at least one a write, are a race, unless both threads are of one warp and its intervals differ. Where
    an asynchronous copy is on its way, the last write is ``-1 - thread``. As long as all blocks do the same, which most
    do to their end, the first block's shadows stand for all, and no other is checked.

    Parameters
    ----------
    variables : collection of Variable
        What lies there.
    size : int
        Bytes per block.
    blocks : int
        Blocks in the batch.
    granule : int
        Bytes per shadow element: the narrowest access in the program, at most 4.
    warpwise : bool
        Whether the program has barriers of warps. If not, their intervals need no attention.
    threads : int
        Per block.
    cluster : int
        Blocks of a cluster, which reach each other's memories. The ranks of their blocks are in their addresses.
    """

    def __init__(
        self,
        variables: Collection[Variable],
        size: int,
        blocks: int,
        granule: int,
        warpwise: bool = False,
        threads: int = WARP,
        cluster: int = 1,
    ) -> None:
        self.variables, self.size, self.cluster = variables, size, cluster
        self.pitch = -(-size // 16) * 16
        self.granule, self.warpwise, self.threads = granule, warpwise, threads
        self.data = np.zeros(self.pitch * blocks, np.uint8)
        self.interval = np.ones(blocks, np.int64)
        self.since = np.ones(blocks, np.int64)  # each block's interval when its cluster met last
        self.warp_interval = np.zeros(blocks * WARPS_MAX, np.int64)
        self.wrote = np.zeros(self.pitch * blocks // granule, np.int64)
        self.read = np.zeros_like(self.wrote)
        self.alike = blocks > 1  # whether the first block's shadows stand for all
        self.watches: list[Watch] = []  # who else looks after loads and stores
        self.ordered: Callable[[str, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None
        """Tells of granules, the stamps of who "wrote" or "read" them and those of who comes now, where something other
        than a barrier of the block or of the warp lies between."""

    def load(
        self,
        addresses: np.ndarray,
        block: np.ndarray,
        thread: np.ndarray,
        dtype: np.dtype,
        count: int,
        behind: Sequence[int] = (0,),
    ) -> list[np.ndarray]:
        """Return `count` arrays: the elements at each lane's address, one after the other.

        `block` is each lane's block within the batch, `thread` its number in the block. Where a lane loads from several
        places at once, they are so many bytes `behind` its address, in ascending order and multiples of the access's
        width; then a Violation names one of them.
        """
        width = dtype.itemsize * count
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width, behind[-1])
        granule, stamp = self.granules(offsets, width), self._stamps(block, thread)
        if len(behind) > 1:
            granule = (granule + np.array(behind)[:, None, None] // self.granule).reshape(-1, offsets.size)
        wrote = self.wrote[granule]
        if wrote.min() <= 0:
            self._require_landed(wrote, addresses, "reads")
            lane = np.flatnonzero(wrote == 0)[0] % addresses.size
            raise Violation("uninitialised", lane, f"reads {self.name(int(addresses[lane]))}, never written")
        self._require_same(granule, wrote, stamp, addresses, "reads", "wrote")
        for watch in self.watches:
            watch.loaded(offsets, addresses, block, thread, width)
        before = self.read[granule]
        unordered = self._unordered(before, stamp)
        self.read[granule] = np.where(unordered, self._both(before, stamp), stamp) if unordered.any() else stamp
        kept = self.read[granule]
        overlapping = kept != stamp  # lanes of this access that read the same granule
        if overlapping.any():
            where = granule[overlapping]
            both = np.broadcast_to(self._both(kept, stamp), kept.shape)[overlapping]
            self.read[where] = both
            if self.warpwise:  # the widest must stay
                widest = both & SEVERAL == SEVERAL
                self.read[where[widest]] = both[widest]
        elements, first = self._elements(dtype), offsets // dtype.itemsize
        places = [place // dtype.itemsize + i for place in behind for i in range(count)]
        return [elements.take(first + place, axis=1).reshape(-1) for place in places]

    def store(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, values: list[np.ndarray]) -> None:
        """Store one element per lane and value; the values' dtype gives the width."""
        dtype = values[0].dtype
        width = dtype.itemsize * len(values)
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width)
        granule, stamp = self.granules(offsets, width), self._stamps(block, thread)
        self._require_free(granule, stamp, addresses, "writes")
        for watch in self.watches:
            watch.stored(offsets, addresses, block, thread, width)
        self.wrote[granule] = stamp
        self._require_same(granule, self.wrote[granule], stamp, addresses, "writes", "wrote")
        self._put(offsets, values)

    def depart(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int) -> None:
        """Let nobody touch the `width` bytes behind each lane's address until they `land`."""
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width)
        granule, stamp = self.granules(offsets, width), self._stamps(block, thread)
        self._require_free(granule, stamp, addresses, "copies to")
        mark = -1 - (stamp & SEVERAL)
        self.wrote[granule] = mark
        twice = np.where(self.wrote[granule] != mark, self.wrote[granule], 0)  # by another lane of this copy
        self._require_landed(twice, addresses, "copies to")

    def land(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, words: np.ndarray) -> None:
        """Store what was copied, an array of uint32 of shape (words, lanes), as a write that each thread makes now."""
        _, offsets, block, thread = self._reached(addresses, block, thread, 4 * len(words))
        self.wrote[self.granules(offsets, 4 * len(words))] = self._stamps(block, thread)
        self._put(offsets, words)

    def claim(self, address: int, size: int, block: int, thread: int, far: bool) -> slice:
        """Let nobody touch a range of a block's memory; return its granules, which are to be marked as written.

        The thread that wants it may be another block's, `far`: then only a barrier of the cluster orders accesses.
        """
        start = (block * self.pitch + address) // self.granule
        granules = np.arange(start, start + size // self.granule)
        addresses = np.arange(address, address + size, self.granule).astype(np.uint64)
        stamp = np.full(len(granules), int(self._stamps(np.array([block]), np.array([thread]))[0]))
        self._require_free(granules, stamp, addresses, "copies to")
        claimed = slice(start, start + len(granules))
        used = np.maximum(self.wrote[claimed], self.read[claimed]) >> INTERVAL >= self.since[block]
        if far and used.any():
            name = self.name(int(addresses[np.flatnonzero(used)[0]]))
            raise Violation("race", 0, f"copies to {name}, which a thread there has used since the cluster met last")
        self.wrote[claimed], self.read[claimed] = -1 - thread, 0
        return claimed

    def apart(self) -> None:
        """Let the first block's shadows stand for it alone from now on."""
        if self.alike:
            self.alike = False
            for shadow in (self.wrote, self.read):
                of_blocks = shadow.reshape(len(self.interval), -1)
                of_blocks[1:] = of_blocks[0]

    def located(self, addresses: np.ndarray, block: np.ndarray, far: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses without the ranks in them, and the blocks in the batch that have these ranks.

        Raises
        ------
        Violation
            A rank is none of the cluster's or, unless `far`, not that of the lane's own block.
        """
        if self.cluster == 1:
            return addresses, block
        rank, own = (addresses >> np.uint64(RANK)).astype(np.int64), block % self.cluster
        stray = np.flatnonzero((rank >= self.cluster) if far else (rank != own))
        if len(stray):
            raise Violation(
                "out of bounds",
                stray[0],
                f"an address in the memory of the cluster's block {rank[stray[0]]}, from block {own[stray[0]]} of "
                f"{self.cluster}",
            )
        return addresses & np.uint64((1 << RANK) - 1), block - own + rank

    def placed(self, addresses: np.ndarray, block: np.ndarray, width: int, behind: int = 0) -> np.ndarray:
        """Return where in the batch's memory the blocks' addresses lie, without ranks in them."""
        require_aligned(addresses, width)
        most = self.size - width - behind
        if int(addresses.max()) > most:
            lane = np.flatnonzero(addresses > np.uint64(most))[0] if most >= 0 else 0
            raise Violation(
                "out of bounds",
                lane,
                f"a {width}-byte access to shared memory at byte {int(addresses[lane].view(np.int64))} of {self.size}",
            )
        return block * self.pitch + addresses.view(np.int64)

    def _reached(
        self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int, behind: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return addresses, offsets, blocks and threads of the lanes to check: of blocks that do the same, the first's.

        The offsets are where the addresses lie in the batch's memory, and so many bytes `behind` it is still inside.
        """
        within, block = self.located(addresses, block)
        if self.alike and not self._do_the_same(within):
            self.apart()
        if self.alike:
            addresses, within, block, thread = (each[: self.threads] for each in (addresses, within, block, thread))
        return addresses, self.placed(within, block, width, behind), block, thread

    def _do_the_same(self, addresses: np.ndarray) -> bool:
        """Whether all lanes of all blocks access, each block what the first does, after as many barriers."""
        blocks = len(self.interval)
        if addresses.size != blocks * self.threads:
            return False
        of_blocks, clocks = addresses.reshape(blocks, -1), self.warp_interval.reshape(blocks, -1)
        return bool(
            (self.interval == self.interval[0]).all()
            and (not self.warpwise or (clocks == clocks[0]).all())
            and (of_blocks == of_blocks[0]).all()
        )

    def _elements(self, dtype: np.dtype) -> np.ndarray:
        """Return the memory with a row for each block that what `_reached` returns stands for."""
        return self.data.view(dtype).reshape(len(self.interval) if self.alike else 1, -1)

    def _put(self, offsets: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Store one element per lane and value, or the one value that all lanes store."""
        elements = self._elements(values[0].dtype)
        first = offsets // elements.itemsize
        for i, value in enumerate(values):
            elements[:, first + i] = value if value.size == 1 else value.reshape(len(elements), -1)

    def granules(self, offsets: np.ndarray, width: int) -> np.ndarray:
        """Return the granules that lanes access: all lanes' first, in the next row all lanes' second, and so on."""
        first = offsets // self.granule
        return first if width <= self.granule else first + np.arange(width // self.granule)[:, None]

    def name(self, address: int, cluster: int = 1) -> str:
        """Return what lies at an address, in words; in which block of the cluster if that has several."""
        rank, address = divmod(address, 1 << RANK)
        of = f" of block {rank} of the cluster" if cluster > 1 else ""
        for variable in self.variables:
            if variable.offset <= address < variable.offset + variable.size:
                return f"{variable.name}{of} at byte {address - variable.offset}"
        return f"shared memory{of} at byte {address}"

    @staticmethod
    def warp(block: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Return a number for each thread's warp: where in `warp_interval` it is counted."""
        return block * WARPS_MAX + thread % OF_WARP // WARP

    def _stamps(self, block: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Return the stamps that lanes leave on all granules that they access."""
        stamp = (self.interval[block] << INTERVAL) | thread
        if self.warpwise:
            stamp |= self.warp_interval[self.warp(block, thread)] << WARP_INTERVAL
        return stamp

    def _unordered(self, before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Return where two stamps are of different threads and no barrier lies between them."""
        differ = (before ^ stamp).view(np.uint64)
        unordered = differ - np.uint64(1) < np.uint64((1 << INTERVAL) - 1)  # they do, and not in the interval
        if self.warpwise and unordered.any():
            unordered &= ~_of_one_warp(before, stamp) | ((before ^ stamp) >> WARP_INTERVAL == 0)
        return unordered

    def _both(self, before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Return the stamps that stand for the threads of two stamps, which are of the same interval."""
        both = stamp | SEVERAL
        return np.where(_of_one_warp(before, stamp), stamp & -WARP | OF_SOME, both) if self.warpwise else both

    def _require_free(self, granule: np.ndarray, stamp: np.ndarray, addresses: np.ndarray, does: str) -> None:
        """Raise Violation where another thread wrote or read since the last barrier, or a copy is on its way."""
        wrote = self.wrote[granule]
        if wrote.min() < 0:
            self._require_landed(wrote, addresses, does)
        self._require_same(granule, wrote, stamp, addresses, does, "wrote")
        self._require_same(granule, self.read[granule], stamp, addresses, does, "read")

    def _require_landed(self, wrote: np.ndarray, addresses: np.ndarray, does: str) -> None:
        """Raise Violation where an asynchronous copy is on its way."""
        flying = np.flatnonzero(wrote < 0)
        if len(flying):
            lane = flying[0] % addresses.size
            raise Violation(
                "in flight",
                lane,
                f"{does} {self.name(int(addresses[lane]))}, whose asynchronous copy "
                f"by thread {-1 - wrote.flat[flying[0]]} has not been waited for",
            )

    def _require_same(
        self, granule: np.ndarray, before: np.ndarray, stamp: np.ndarray, addresses: np.ndarray, does: str, did: str
    ) -> None:
        """Raise Violation where another thread's stamp is already there and no barrier lies between."""
        race = self._unordered(before, stamp)
        if self.ordered and race.any():
            race[race] = ~self.ordered(did, granule[race], before[race], np.broadcast_to(stamp, race.shape)[race])
        if race.any():
            first = np.flatnonzero(race)[0]
            lane, other = first % addresses.size, int(before.flat[first]) & SEVERAL
            who = f"warp {other % OF_WARP // WARP}" if other & OF_WARP else f"thread {other}"
            who = "several threads" if other == SEVERAL else who
            raise Violation(
                "race", lane, f"{does} {self.name(int(addresses[lane]))}, which {who} {did} since the last barrier"
            )


def _of_one_warp(before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
    """Return where all threads that two stamps stand for are of one warp."""
    return ((before ^ stamp) & (OF_WARP - WARP) == 0) & (before & SEVERAL != SEVERAL)
