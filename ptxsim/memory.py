"""Models global and shared memory, which hold the data and check every access as compute-sanitizer does.

Addresses and data are arrays with one element per active lane. A failed check raises `Violation`, which names the lane
and the reason; the batch adds kernel, block, thread and source line.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .lanes import highest, lowest
from .limits import WARP
from .modules import Variable

WARPS_MAX = 32  # per block
OF_WARP = 1024  # above all threads' numbers; added to that of a warp's first thread, "all threads of this warp"
OF_SOME = OF_WARP | 1  # added likewise, "several threads of this warp, each on its own"
SEVERAL = 2047  # in a thread's place, "threads of several warps"
ALIGNMENT = 512  # bytes
NULL = 1 << 16  # addresses below this come of a null pointer
WARP_INTERVAL, INTERVAL = 11, 32  # the lowest bits of a stamp's barrier counts; the thread is below them
ARRAYS = 1 << 40  # the address of the first array in global memory, and the distance between arrays
RANK = 24  # the lowest bit of the block's rank in an address of a cluster's shared memory, as in ptxas's code
SHARED_WINDOW = 0x20_8000_0000  # the first generic address of shared memory, far below those of the arrays
BYTE = np.dtype(np.uint8)
WIDEST = np.dtype(np.complex128)  # 16 bytes, to load as one element where it doesn't matter what they are
LOCAL_WINDOW = 0x30_0000_0000  # that of local memory
MANY = 1 << 12  # bytes of a load whose granules are worth looking at once each


def past_alignment(array: np.ndarray) -> int:
    """Return the bytes between the last multiple of `ALIGNMENT` and the address that the simulator gives an array.

    As CuPy does, memory is aligned to 512 bytes, and a view keeps its distance from the start of that memory.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return (array.ctypes.data - owner.ctypes.data) % ALIGNMENT


class Violation(Exception):  # noqa: N818 - caught and completed by the batch, never seen outside
    """A failed check: its kind, the first offending lane's place among the active ones, and the details."""

    def __init__(self, kind: str, lane: int, detail: str) -> None:
        super().__init__(kind, lane, detail)
        self.kind, self.lane, self.detail = kind, int(lane), detail


def refuse(kind: str, wrong: np.ndarray | bool, detail: str | Callable[[int], str]) -> None:
    """Raise Violation for the first lane for which `wrong` is true; `detail` may be a function of its place."""
    if np.count_nonzero(wrong):  # faster than any()
        lane = int(np.flatnonzero(wrong)[0])
        raise Violation(kind, lane, detail if isinstance(detail, str) else detail(lane))


@contextmanager
def of_part(part: np.ndarray | None) -> Iterator[None]:
    """Let a Violation raised for some of the active lanes name the lane's place among all of them; None means all."""
    try:
        yield
    except Violation as violation:
        place = violation.lane if part is None else part[violation.lane]
        raise Violation(violation.kind, place, violation.detail) from None


def require_aligned(
    addresses: np.ndarray, width: int, where: Callable[[int], str] = lambda address: f"at address {address:#x}"
) -> None:
    """Raise Violation unless every address is a multiple of the access width in bytes; `where` names an address."""
    if int(np.bitwise_or.reduce(addresses)) & width - 1:
        lane = np.flatnonzero(addresses & np.uint64(width - 1))[0]
        raise Violation("misaligned", lane, f"a {width}-byte access {where(int(addresses[lane]))}")


@dataclass
class Buffer:
    """One array in global memory: its name, address and bytes, and for each 4-byte word whether it was written."""

    name: str
    base: int
    data: np.ndarray
    written: np.ndarray | None

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """Return the whole elements of that type in the array, the first at a multiple of its size."""
        whole = self.data[-self.base % dtype.itemsize :]
        return whole[: whole.size // dtype.itemsize * dtype.itemsize].view(dtype)

    def first(self, offsets: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the places among those elements of byte offsets in the array."""
        return offsets.view(np.int64) >> dtype.itemsize.bit_length() - 1


class GlobalMemory:
    """The kernel's arrays, each at an address far from the others.

    Arrays are used in place: the kernel's stores change them.
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, array: np.ndarray, written: bool = True, at: int | None = None) -> int:
        """Place an array, unless it is there, and return its address; `written` is False if it holds nothing yet.

        `at` is the address of a variable of the module, which has one from the start; they come last.
        """
        data = np.asarray(array).reshape(-1).view(np.uint8)
        for buffer in self.buffers:
            if buffer.data.ctypes.data == data.ctypes.data and buffer.data.size == data.size > 0 and at is None:
                return buffer.base
        base = (len(self.buffers) + 1) * ARRAYS + past_alignment(array) if at is None else at
        self.buffers.append(Buffer(name, base, data, None if written else np.zeros(-(-data.size // 4), bool)))
        return base

    def of(self, array: np.ndarray) -> Buffer:
        """Return the buffer of an array that was added."""
        return next(buffer for buffer in self.buffers if buffer.data.ctypes.data == array.ctypes.data)

    def locate(self, addresses: np.ndarray, width: int) -> list[tuple[Buffer, np.ndarray | None, np.ndarray]]:
        """Return (buffer, its lanes or None for all, byte offsets) for each array that is accessed."""
        require_aligned(addresses, width, self.where)
        for buffer in self.buffers:  # nearly always, one instruction walks one array
            offsets = addresses - np.uint64(buffer.base)
            if highest(offsets) <= buffer.data.size - width:
                return [(buffer, None, offsets)]
        found = []
        homeless = np.ones(addresses.size, bool)
        for buffer in self.buffers:
            offsets = addresses - np.uint64(buffer.base)
            inside = offsets < np.uint64(max(buffer.data.size - width + 1, 0))
            if inside.any():
                found.append((buffer, np.flatnonzero(inside), offsets[inside]))
                homeless &= ~inside
        refuse("out of bounds", homeless, lambda lane: self._describe(int(addresses[lane]), width))
        return found

    def written(self, addresses: np.ndarray, width: int) -> list[tuple[Buffer, np.ndarray | None, np.ndarray]]:
        """Return what `locate` does, for lanes that write; raise Violation if an array is read-only."""
        found = self.locate(addresses, width)
        for buffer, lanes, _ in found:
            if not buffer.data.flags.writeable:
                detail = f"writes {buffer.name}, a NumPy array that is read-only; a copy of it would not be"
                raise Violation("read-only", 0 if lanes is None else lanes[0], detail)
        return found

    def load(self, addresses: np.ndarray, dtype: np.dtype, count: int, unwritten: str = "none") -> list[np.ndarray]:
        """Return `count` arrays: the element at each lane's address, the one behind it, and so on.

        `unwritten` tells how many of a lane's words nothing need have written: "none", "some" or "all".
        """
        width = dtype.itemsize * count
        parts = []
        for buffer, lanes, offsets in self.locate(addresses, width):
            if buffer.written is not None and unwritten != "all":
                with of_part(lanes):
                    self._require_written(buffer, offsets, width, unwritten == "some")
            elements, first = buffer.elements(dtype), buffer.first(offsets, dtype)
            parts.append((lanes, [elements[first + i if i else first] for i in range(count)]))
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
        for buffer, lanes, offsets in self.written(addresses, dtype.itemsize * len(values)):
            elements, first = buffer.elements(dtype), buffer.first(offsets, dtype)
            for i, value in enumerate(values):
                elements[first + i] = value if lanes is None or value.size == 1 else value[lanes]
            if buffer.written is not None:
                buffer.written[_words(offsets, dtype.itemsize * len(values))] = True

    def text(self, address: int) -> str:
        """Return the characters from an address on, up to a zero."""
        (buffer, _, offsets), *_ = self.locate(np.array([address], np.uint64), 1)
        return buffer.data[int(offsets[0]) :].tobytes().partition(b"\0")[0].decode("utf-8", "replace")

    def name(self, address: int) -> tuple[str, int]:
        """Return the array that an address points into, and the offset in bytes."""
        buffer = next(buffer for buffer in self.buffers if buffer.base // ARRAYS == address // ARRAYS)
        return buffer.name, address - buffer.base

    @staticmethod
    def _require_written(buffer: Buffer, offsets: np.ndarray, width: int, partly: bool) -> None:
        fresh = ~buffer.written[_words(offsets, width)]
        wrong, where = fresh.all(axis=1) if partly else fresh.any(axis=1), offsets.view(np.int64)
        refuse(
            "uninitialised",
            wrong,
            lambda lane: f"reads {buffer.name} at byte {where[lane] + 4 * fresh[lane].argmax()}, never written",
        )

    def where(self, address: int) -> str:
        """Return words for an address: the array that it points into, if there is one, with the place in it."""
        for buffer in self.buffers:
            if 0 <= (place := address - buffer.base) < buffer.data.size:
                return f"at address {address:#x}, {buffer.name} at byte {place}"
        return f"at address {address:#x}"

    def _describe(self, address: int, width: int) -> str:
        for buffer in self.buffers:
            offset = address - buffer.base
            if -(1 << 39) <= offset < 1 << 39:
                size = buffer.data.size
                past = f"{offset - size} bytes past its end" if offset >= size else "across its end"
                where = f"{-offset} bytes before its start" if offset < 0 else past
                return f"a {width}-byte access to {buffer.name} ({size:,} bytes), {where}, address {address:#x}"
        null = ": a null pointer" * (address < NULL)
        return f"a {width}-byte access at address {address:#x}, in no array{null}"


def _words(offsets: np.ndarray, width: int) -> np.ndarray:
    """Return the numbers of the 4-byte words of accesses at these bytes: a row for each."""
    return offsets.view(np.int64)[:, None] // 4 + np.arange(-(-width // 4), dtype=np.int64)


class SharedMemory:
    """The shared memories of a batch of blocks, side by side in one array.

    Two shadow arrays hold, per granule of memory, a stamp of its last write and a stamp of its reads. A stamp is
    ``interval << INTERVAL | warp's interval << WARP_INTERVAL | thread``. A block's interval increases at each barrier
    of the block, and a warp's at each barrier of the warp. Two accesses by different threads in the same interval of
    their block, at least one of them a write, are a race, unless both threads are in one warp and its intervals differ.
    Two writes of the same value are noted, and are no fault.
    Where an asynchronous copy is in flight, the last write is ``-1 - thread``. As long as all blocks do the same, which
    most do to their end, the first block's shadows stand for all blocks, and no other block is checked.

    Parameters
    ----------
    variables : collection of Variable
        The kernel's shared variables.
    size : int
        Bytes per block.
    blocks : int
        Blocks in the batch.
    granule : int
        Bytes per shadow element: the narrowest access in the program, at most 4.
    warpwise : bool
        Whether the program has barriers of warps; if not, their intervals are not kept.
    threads : int
        Per block.
    cluster : int
        Blocks of a cluster, which can reach each other's memories by addresses that carry a block's rank.
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
        self.since = np.ones(blocks, np.int64)  # each block's interval when its cluster last met
        self.warp_interval = np.zeros(blocks * WARPS_MAX, np.int64)
        self.wrote = np.zeros(self.pitch * blocks // granule, np.int64)
        self.read = np.zeros_like(self.wrote)
        self.alike = blocks > 1  # whether the first block's shadows stand for all blocks
        self.thread_name: Callable[[int], str] = str  # as messages name a thread of a block
        self.watches: list[Any] = []
        """Further checks. Each has a method `see`, which takes "read" or "wrote", the offsets in the batch's memory,
        the addresses, the blocks and the threads of lanes, and the width of their access; it raises Violation."""
        self.ordered: Callable[[str, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None
        """A function of "wrote" or "read", granules, the stamps on them and those of the present accesses. It returns
        where something other than a barrier of the block or the warp orders the two."""
        self.told: Callable[[str, int, int], str] = lambda did, granule, stamp: ""
        """A function of "wrote" or "read", a granule and its stamp that returns words for the line where that was."""
        self.notes: list[Violation] = []
        """Remarks on the present stores that are no faults; each names its lane of the batch."""

    def load(
        self,
        addresses: np.ndarray,
        block: np.ndarray,
        thread: np.ndarray,
        dtype: np.dtype,
        count: int,
        behind: Sequence[int] = (0,),
        unwritten: str = "none",
    ) -> list[np.ndarray]:
        """Return `count` arrays: the elements at each lane's address, one after the other.

        `block` is each lane's block within the batch, `thread` its number in the block. A lane may load from several
        places at once, so many bytes `behind` its address: in ascending order, and multiples of the access's width. A
        Violation then names one of them. `unwritten` tells how many granules of a lane's access nothing need have
        written: "none", "some" or "all".
        """
        width = dtype.itemsize * count
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width, behind[-1])
        if not (
            offsets.size * len(behind) * width >= MANY
            and self._read_once(offsets, addresses, block, thread, width, tuple(behind))
        ):
            self._read(offsets, addresses, block, thread, width, behind, unwritten)
        whole = dtype if count == 1 else WIDEST if width == WIDEST.itemsize else np.dtype(f"u{width}")
        found = self.data.view(whole)[self._everywhere(offsets, whole) + np.array(behind, np.int64)[:, None] // width]
        parts = found.view(dtype).reshape(*found.shape, count).swapaxes(1, 2)
        return list(np.ascontiguousarray(parts).reshape(-1, found.shape[1]))

    def _read(
        self,
        offsets: np.ndarray,
        addresses: np.ndarray,
        block: np.ndarray,
        thread: np.ndarray,
        width: int,
        behind: Sequence[int],
        unwritten: str = "none",
    ) -> None:
        """Check loads and leave their stamps; see `load`."""
        granule, stamp = self.granules(offsets, width), self.stamps(block, thread)
        if len(behind) > 1:
            granule = (granule + np.array(behind, np.int64)[:, None, None] // self.granule).reshape(-1, offsets.size)
        wrote = self.wrote[granule]
        if lowest(wrote) <= 0:
            self._require_landed(wrote, addresses, "reads")
            fresh = (wrote == 0).reshape(-1, addresses.size)
            if unwritten != "all":
                wrong = fresh.all(axis=0) if unwritten == "some" else fresh.any(axis=0)
                refuse("uninitialised", wrong, lambda lane: f"reads {self.name(int(addresses[lane]))}, never written")
        self._require_same(granule, wrote, stamp, addresses, "reads", "wrote")
        for watch in self.watches:
            watch.see("read", offsets, addresses, block, thread, width)
        before = self.read[granule]
        unordered = None if self._past(before, stamp) else self._unordered(before, stamp)
        doubtful = unordered is not None and np.count_nonzero(unordered)
        self.read[granule] = np.where(unordered, self._both(before, stamp), stamp) if doubtful else stamp
        kept = self.read[granule]
        overlapping = kept != stamp  # several lanes of this access read the same granule
        if np.count_nonzero(overlapping):
            self._share(self.read, granule, kept, stamp, overlapping)

    def _read_once(
        self,
        offsets: np.ndarray,
        addresses: np.ndarray,
        block: np.ndarray,
        thread: np.ndarray,
        width: int,
        behind: tuple[int, ...],
    ) -> bool:
        """Do what `_read` does if whole blocks do the same and all was written, and nothing read, before a barrier.

        Each granule is looked at once then, however many lanes read it. Return False, and do nothing, otherwise.
        """
        lanes = self.threads if offsets.size % self.threads == 0 else offsets.size
        of_blocks, which = offsets.reshape(-1, lanes), block.reshape(-1, lanes)
        least = of_blocks.min(axis=1, keepdims=True)
        within = of_blocks - least
        differ = (which != which[:, :1]) | (within != within[0])
        if np.count_nonzero(differ) or (self.warpwise and np.count_nonzero(self.warp_interval)):
            return False
        places, marks = _touched(
            within[0].tobytes(), thread[:lanes].tobytes(), width, behind, self.granule, self.warpwise, self.pitch
        )
        granules, interval = least // self.granule + places, self.interval[which[:, :1]] << INTERVAL
        wrote = self.wrote[granules]
        if lowest(wrote) <= 0 or np.count_nonzero(np.maximum(wrote, self.read[granules]) >= interval):
            return False
        for watch in self.watches:
            watch.see("read", offsets, addresses, block, thread, width)
        self.read[granules] = interval | marks
        return True

    def store(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, values: list[np.ndarray]) -> None:
        """Store one element per lane and value; the values' dtype gives the width."""
        width = values[0].dtype.itemsize * len(values)
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width)
        granule, stamp = self.granules(offsets, width), self.stamps(block, thread)
        before, lanes = self.wrote[granule], (offsets, addresses, block, thread)
        if lowest(before) < 0:
            self._require_landed(before, addresses, "writes")
        if (race := self._races(granule, before, stamp, "wrote")) is not None:
            self._require_equal(race, granule, before, lanes, values)
        self._require_same(granule, self.read[granule], stamp, addresses, "writes", "read")
        for watch in self.watches:
            watch.see("wrote", offsets, addresses, block, thread, width)
        self.wrote[granule] = stamp
        kept = self.wrote[granule] if race is None else np.where(race, before, self.wrote[granule])
        # Several lanes of this access may write the same granule.
        race = self._races(granule, kept, stamp, "wrote") if np.count_nonzero(kept != stamp) else None
        self._put(offsets, values)
        if race is not None:
            self._require_equal(race, granule, kept, lanes, values)
            self._share(self.wrote, granule, kept, stamp, race)

    def depart(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int) -> None:
        """Reserve the `width` bytes at each lane's address for a copy, until it lands."""
        addresses, offsets, block, thread = self._reached(addresses, block, thread, width)
        granule, stamp = self.granules(offsets, width), self.stamps(block, thread)
        self._require_free(granule, stamp, addresses, "copies to")
        mark = -1 - (stamp & SEVERAL)
        self.wrote[granule] = mark
        twice = np.where(self.wrote[granule] != mark, self.wrote[granule], 0)  # by another lane of this copy
        self._require_landed(twice, addresses, "copies to")

    def land(self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, words: np.ndarray) -> None:
        """Store copied words, an array of uint32 of shape (words, lanes), as if each thread wrote them now."""
        _, offsets, block, thread = self._reached(addresses, block, thread, 4 * len(words))
        self.wrote[self.granules(offsets, 4 * len(words))] = self.stamps(block, thread)
        self._put(offsets, words)

    def claim(self, address: int, size: int, block: int, thread: int, far: bool) -> slice:
        """Reserve a range of a block's memory for a copy; return its granules, to mark as written when the copy lands.

        If `far`, a thread of another block starts the copy, and only a barrier of the cluster orders accesses before.
        """
        start = (block * self.pitch + address) // self.granule
        granules = np.arange(start, start + size // self.granule, dtype=np.int64)
        addresses = np.arange(address, address + size, self.granule, np.uint64)
        stamp = np.repeat(self.stamps(np.array([block], np.int64), np.array([thread], np.int64)), len(granules))
        self._require_free(granules, stamp, addresses, "copies to")
        claimed = slice(start, start + len(granules))
        used = np.maximum(self.wrote[claimed], self.read[claimed]) >> INTERVAL >= self.since[block]
        refuse(
            "race",
            used & far,
            lambda at: (
                f"copies to {self.name(int(addresses[at]))}, which a thread there has used since the cluster met last"
            ),
        )
        self.wrote[claimed], self.read[claimed] = -1 - thread, 0
        return claimed

    def apart(self) -> None:
        """Let the first block's shadows stand for that block alone from now on."""
        if self.alike:
            self.alike = False
            for shadow in (self.wrote, self.read):
                of_blocks = shadow.reshape(len(self.interval), -1)
                of_blocks[1:] = of_blocks[0]

    def located(self, addresses: np.ndarray, block: np.ndarray, far: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses without ranks, and the blocks within the batch that the ranks name.

        Raises
        ------
        Violation
            The cluster has no block of that rank or, unless `far`, the rank is not that of the lane's own block.
        """
        if self.cluster == 1:
            return addresses, block
        rank, own = (addresses >> np.uint64(RANK)).astype(np.int64), block % self.cluster
        refuse(
            "out of bounds",
            (rank >= self.cluster) if far else (rank != own),
            lambda lane: (
                f"an address in the memory of the cluster's block {rank[lane]}, "
                f"from block {own[lane]} of {self.cluster}"
            ),
        )
        return addresses & np.uint64((1 << RANK) - 1), block - own + rank

    def placed(self, addresses: np.ndarray, block: np.ndarray, width: int, behind: int = 0) -> np.ndarray:
        """Return the offsets in the batch's memory of addresses without ranks."""
        require_aligned(addresses, width, lambda address: f"at address {address:#x}, {self.name(address)}")
        most = self.size - width - behind
        refuse(
            "out of bounds",
            addresses > most,
            lambda lane: (
                f"a {width}-byte access to shared memory at byte {addresses[lane].view(np.int64)} of {self.size}"
            ),
        )
        return block * self.pitch + addresses.view(np.int64)

    def _reached(
        self, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int, behind: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return addresses, offsets, blocks and threads of the lanes to check: one block's if all blocks do the same.

        The offsets are those of the addresses in the batch's memory. `behind` is how far behind them lanes also access.
        """
        within, block = self.located(addresses, block)
        if self.alike and not self._do_the_same(within):
            self.apart()
        if self.alike:
            addresses, within, block, thread = (each[: self.threads] for each in (addresses, within, block, thread))
        return addresses, self.placed(within, block, width, behind), block, thread

    def _do_the_same(self, addresses: np.ndarray) -> bool:
        """Return whether all lanes are active, and every block does what the first does after as many barriers."""
        blocks = len(self.interval)
        if addresses.size != blocks * self.threads:
            return False
        of_blocks, clocks = addresses.reshape(blocks, -1), self.warp_interval.reshape(blocks, -1)
        return not (
            np.count_nonzero(self.interval != self.interval[0])
            or (self.warpwise and np.count_nonzero(clocks != clocks[0]))
            or np.count_nonzero(of_blocks != of_blocks[0])
        )

    def _everywhere(self, offsets: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the elements of that type at offsets, in the memory of each block for which they stand."""
        first = offsets >> dtype.itemsize.bit_length() - 1
        if not self.alike:
            return first
        blocks = np.arange(len(self.interval), dtype=np.int64)
        return (blocks[:, None] * (self.pitch // dtype.itemsize) + first).reshape(-1)

    def _put(self, offsets: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Store one element per lane and value; a value of one element is stored by all lanes."""
        elements, first = self.data.view(values[0].dtype), self._everywhere(offsets, values[0].dtype)
        for i, value in enumerate(values):
            elements[first + i] = value

    def granules(self, offsets: np.ndarray, width: int) -> np.ndarray:
        """Return the granules of an access: the first one of every lane, in the next row the second one, and so on."""
        first = offsets >> self.granule.bit_length() - 1
        return first if width <= self.granule else first + np.arange(width // self.granule, dtype=np.int64)[:, None]

    def name(self, address: int, cluster: int = 1) -> str:
        """Name the variable at an address, and its block of the cluster if that has several."""
        rank, address = divmod(address, 1 << RANK)
        of = f" of block {rank} of the cluster" if cluster > 1 else ""
        for variable in self.variables:
            if variable.offset <= address < variable.offset + variable.size:
                return f"{variable.name}{of} at byte {address - variable.offset}"
        return f"shared memory{of} at byte {address}"

    @staticmethod
    def warp(block: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Return the place of each thread's warp in `warp_interval`."""
        return block * WARPS_MAX + thread % OF_WARP // WARP

    def stamps(self, block: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Return the stamp that each lane leaves on the granules that it accesses."""
        stamp = (self.interval[block] << INTERVAL) | thread
        if self.warpwise and np.count_nonzero(self.warp_interval):
            stamp |= self.warp_interval[self.warp(block, thread)] << WARP_INTERVAL
        return stamp

    @staticmethod
    def _past(before: np.ndarray, stamp: np.ndarray) -> bool:
        """Return whether a barrier lies between all stamps `before` and the others: usual, and found quickly."""
        return highest(before) >> INTERVAL < lowest(stamp) >> INTERVAL

    def _unordered(self, before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Return where two stamps belong to different threads and no barrier lies between them."""
        differ = (before ^ stamp).view(np.uint64)
        unordered = differ - np.uint64(1) < np.uint64((1 << INTERVAL) - 1)  # they differ, but not in the interval
        if self.warpwise and np.count_nonzero(unordered):
            unordered &= ~_of_one_warp(before, stamp) | ((before ^ stamp) >> WARP_INTERVAL == 0)
        return unordered

    def _both(self, before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Return the stamps that stand for the threads of both stamps, which have the same interval."""
        both = stamp | SEVERAL
        return np.where(_of_one_warp(before, stamp), stamp & -WARP | OF_SOME, both) if self.warpwise else both

    def _require_free(self, granule: np.ndarray, stamp: np.ndarray, addresses: np.ndarray, does: str) -> None:
        """Raise Violation where another thread wrote or read since the last barrier, or a copy is in flight."""
        wrote = self.wrote[granule]
        if lowest(wrote) < 0:
            self._require_landed(wrote, addresses, does)
        self._require_same(granule, wrote, stamp, addresses, does, "wrote")
        self._require_same(granule, self.read[granule], stamp, addresses, does, "read")

    def _require_landed(self, wrote: np.ndarray, addresses: np.ndarray, does: str) -> None:
        """Raise Violation where an asynchronous copy is in flight."""
        flying = np.flatnonzero(wrote < 0)
        if len(flying):
            lane = flying[0] % addresses.size
            raise Violation(
                "in flight",
                lane,
                f"{does} {self.name(int(addresses[lane]))}, whose asynchronous copy "
                f"by thread {self.thread_name(-1 - wrote.flat[flying[0]])} has not been waited for",
            )

    def _require_same(
        self, granule: np.ndarray, before: np.ndarray, stamp: np.ndarray, addresses: np.ndarray, does: str, did: str
    ) -> None:
        """Raise Violation where another thread's stamp is there and no barrier lies between."""
        if (race := self._races(granule, before, stamp, did)) is not None:
            raise Violation("race", *self._meeting(race, granule, before, addresses, does, did))

    def _races(self, granule: np.ndarray, before: np.ndarray, stamp: np.ndarray, did: str) -> np.ndarray | None:
        """Return where another thread's stamp is there and no barrier lies between, None if nowhere."""
        if self._past(before, stamp):
            return None
        race = self._unordered(before, stamp)
        if self.ordered and np.count_nonzero(race):
            race[race] = ~self.ordered(did, granule[race], before[race], np.broadcast_to(stamp, race.shape)[race])
        return race if np.count_nonzero(race) else None

    def _meeting(
        self, race: np.ndarray, granule: np.ndarray, before: np.ndarray, addresses: np.ndarray, does: str, did: str
    ) -> tuple[int, str]:
        """Return the first lane of a race, and words for it and for whoever left the stamp before."""
        first = int(np.flatnonzero(race)[0])
        lane, other = first % addresses.size, int(before.flat[first]) & SEVERAL
        who = f"warp {other % OF_WARP // WARP}" if other & OF_WARP else f"thread {self.thread_name(other)}"
        who = "several threads" if other == SEVERAL else who
        told = self.told(did, int(granule.flat[first]), int(before.flat[first]))
        return lane, f"{does} {self.name(int(addresses[lane]))}, which {who} {did}{told} since the last barrier"

    def _require_equal(
        self,
        race: np.ndarray,
        granule: np.ndarray,
        before: np.ndarray,
        lanes: tuple[np.ndarray, ...],
        values: list[np.ndarray],
    ) -> None:
        """Raise Violation where racing stores bring other values than memory has, in any block; else make a note.

        `lanes` are the offsets, addresses, blocks and threads of those that store.
        """
        offsets, addresses, block, thread = lanes
        places, rows = self._everywhere(offsets, BYTE), race.size // offsets.size
        stored = np.stack([np.broadcast_to(value, places.shape) for value in values], axis=-1).view(BYTE)
        equal = stored == self.data[places[:, None] + np.arange(stored.shape[1], dtype=np.int64)]
        equal = equal.reshape(-1, offsets.size, rows, stored.shape[1] // rows).all(axis=3).swapaxes(1, 2)
        differ = race & ~equal.reshape(-1, *race.shape)
        for where in np.flatnonzero(differ)[:1] // race.size:
            first, detail = self._meeting(differ[where], granule, before, addresses, "writes", "wrote")
            raise Violation("race", first + where * offsets.size, detail)
        first, detail = self._meeting(race, granule, before, addresses, "writes", "wrote")
        detail += ", the same value: no fault, but nothing orders the two"
        self.notes.append(Violation("note", block[first] * self.threads + thread[first] % OF_WARP, detail))

    def _share(
        self, shadow: np.ndarray, granule: np.ndarray, kept: np.ndarray, stamp: np.ndarray, part: np.ndarray
    ) -> None:
        """Give this part of the granules stamps that stand for the threads of two stamps each."""
        where, both = granule[part], self._both(kept[part], np.broadcast_to(stamp, kept.shape)[part])
        shadow[where] = both
        if self.warpwise:  # of several stamps on one granule, the widest must stay
            widest = both & SEVERAL == SEVERAL
            shadow[where[widest]] = both[widest]


def _of_one_warp(before: np.ndarray, stamp: np.ndarray) -> np.ndarray:
    """Return where all threads of two stamps are in one warp."""
    return ((before ^ stamp) & (OF_WARP - WARP) == 0) & (before & SEVERAL != SEVERAL)


@lru_cache(maxsize=256)
def _touched(
    within: bytes, who: bytes, width: int, behind: tuple[int, ...], granule: int, warpwise: bool, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the granules that loads touch in a block, each once, and what their stamps have below the interval.

    `within` are the distances from the first of them, `who` the threads; the rest is that of a `SharedMemory` and its
    `load`.
    """
    shared, offsets = SharedMemory((), size, 1, granule, warpwise), np.frombuffer(within, np.int64)
    shared.wrote[:] = 1
    shared._read(offsets, offsets, np.zeros_like(offsets), np.frombuffer(who, np.int64), width, behind)
    places = np.flatnonzero(shared.read)
    return places, shared.read[places] - (1 << INTERVAL)
