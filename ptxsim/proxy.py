"""Checks the uses of shared memory by the async proxy, the copy engine and ``wgmma``, beside threads' loads and stores.

The hardware may finish a copy at any time before its mbarrier's phase is over. Here it finishes when a thread waits for
that mbarrier and no sooner, so that a kernel which does not wait never gets the right result by luck. A kernel that
expects too few bytes does not either, because its last copies are still in flight when the phase is over.

For each cell of 16 bytes this remembers

- the phase of the copy that filled it: a reader must know that the phase is over, by its own wait or from a thread that
  has waited (see `mbarriers`);
- each warp's last read: a copy that overwrites the cell needs the knowledge that the warp has released since;
- the thread that last stored to it: a generic-proxy store must be followed by a fence before the async proxy reads it.

For each granule it remembers the release with which other warps learn of the last store, so that warps can hand tiles
to each other by mbarriers. A lane's release covers its own stores, and the stores of its warp's other lanes before the
warp last met, since all lanes release where they meet.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .lanes import PerLane
from .mbarriers import Mbarriers
from .memory import OF_WARP, RANK, SEVERAL, SharedMemory, of_part, refuse

CELL = 16  # bytes
READING = np.iinfo(np.int32).max  # in the place of a read that is not over
FENCES = 32  # the lowest bit of the lane in the mark of a store, above its number of fences


@dataclass(frozen=True)
class OperandRead(PerLane):
    """A read that is not over: its cells, the lane that began it for each cell, and that lane's warp in its cluster."""

    lanes: np.ndarray
    cells: np.ndarray
    warps: np.ndarray


class AsyncProxy:
    """The bulk copies into a batch's shared memories, and the reads and writes that they must not meet.

    Parameters
    ----------
    shared : SharedMemory
    barriers : Mbarriers

    Attributes
    ----------
    place, phase : array of int32
        For each cell, the mbarrier of the copy that filled it, -1 for none, and how many of its phases must be over.
    read : array of int32, shape (cells, warps)
        For each cell and each warp of its cluster, the release that follows the warp's last read; 0 for none.
    written : array of int64
        For each cell, the lane that last stored to it and its number of proxy fences at that time; -1 for none.
    released : array of int32
        For each granule, the release that follows the last store to it, of the warp that made the store.
    fences : array of int64
        The number of proxy fences of each lane.
    stores : list of (array, array)
        Granules, and the lanes that have stored to them without a release since.
    """

    def __init__(self, shared: SharedMemory, barriers: Mbarriers) -> None:
        self.shared, self.barriers = shared, barriers
        self.flights: defaultdict[int, list[tuple[int, slice, np.ndarray]]] = defaultdict(list)
        cells = -(-len(shared.data) // CELL)
        self.place = np.full(cells, -1, np.int32)
        self.phase = np.zeros(cells, np.int32)
        self.read = np.zeros((cells, barriers.warps), np.int32)
        self.written = np.full(cells, -1, np.int64)
        self.released = np.zeros(len(shared.wrote), np.int32)
        self.fences = np.zeros(len(barriers.block), np.int64)
        self.stores: list[tuple[np.ndarray, np.ndarray]] = []
        shared.alike = False  # nothing is in its shadows yet
        shared.watches.append(self)
        shared.ordered = self.ordered
        barriers.releasing = self.hold

    def depart(self, lane: int, address: int, data: np.ndarray, place: int) -> None:
        """Start to copy bytes to an address in the block of the mbarrier at `place`, which counts them as they land.

        Raises
        ------
        Violation
            A warp may still read the destination, or a copy to it is in flight, or the mbarrier is not visible to the
            copy engine.
        """
        shared, barriers, size = self.shared, self.barriers, len(data)
        thread, warp, block = int(barriers.thread[lane]), int(barriers.warp[lane]), place % barriers.blocks
        address -= block % shared.cluster << RANK
        begins = f"shared memory at byte {address} of {shared.size}"
        refuse("misaligned", address % CELL > 0, f"copies to {begins}, not a multiple of {CELL}")
        refuse("out of bounds", not 0 <= address <= shared.size - size, f"copies {size} bytes to {begins}")
        refuse(
            "proxy",
            not barriers.state["fenced"][place],
            "copies with an mbarrier that no fence has told the copy engine of",
        )
        start = block * shared.pitch + address
        cells = slice(start // CELL, (start + size) // CELL)
        known = barriers.known[lane, : barriers.warps].copy()
        known[warp] = READING - 1  # its own reads came before, except for one that is not over
        refuse(
            "race",
            self.read[cells] > known,
            lambda at: (
                f"copies to {shared.name(address + at // barriers.warps * CELL)}, which "
                f"{barriers.warp_name(at % barriers.warps)} may still read"
            ),
        )
        of_tiles = np.repeat(self.place[cells] >= 0, CELL // shared.granule)
        granules = slice(start // shared.granule, (start + size) // shared.granule)
        shared.read[granules][of_tiles] = 0  # their reads are in `self.read`
        granules = shared.claim(address, size, block, thread, block != barriers.block[lane])
        self.place[cells], self.phase[cells] = place, barriers.state["phase"][place] + 1
        self.read[cells], self.written[cells] = 0, -1
        self.flights[place].append((start, granules, data))
        barriers.changes += 1

    def land(self, places: np.ndarray) -> None:
        """Finish the copies that these mbarriers count, one after the other until a phase is over."""
        for place in self.flights.keys() & set(places.tolist()):
            flights, phase = self.flights[place], self.barriers.state["phase"][place]
            while flights and self.barriers.state["phase"][place] == phase:
                start, granules, data = flights.pop(0)
                self.shared.data[start : start + len(data)] = data
                self.shared.wrote[granules] = SEVERAL  # before all barriers of the block
                self.barriers.receive(np.array([place], np.int64), np.array([len(data)], np.int64))

    def coming(self, block: int) -> bool:
        """Return whether a copy to a block is in flight."""
        return any(flights and place % self.barriers.blocks == block for place, flights in self.flights.items())

    def fence(self, lanes: np.ndarray) -> None:
        """Make the lanes' stores visible to the async proxy."""
        self.fences[lanes] += 1

    def see(
        self, did: str, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Check and remember loads from shared memory by lanes or whole warps, or stores."""
        cells, lanes = offsets // CELL, block * self.shared.threads + thread % OF_WARP
        if did == "read":
            self._loaded(cells, lanes, addresses, block)
        else:
            self._stored(cells, lanes, self.shared.granules(offsets, width).ravel())

    def _loaded(self, cells: np.ndarray, lanes: np.ndarray, addresses: np.ndarray, block: np.ndarray) -> None:
        """Raise Violation where a lane, or a whole warp, reads a copy without knowing that it has landed."""
        of_tiles = np.flatnonzero(self.place[cells] >= 0)
        place, phase = self.place[cells[of_tiles]], self.phase[cells[of_tiles]]
        if len(of_tiles):
            known = self.barriers.known[lanes[of_tiles], self.barriers.column(place)]
            with of_part(of_tiles):
                refuse("in flight", known < phase, lambda i: self._unknown(int(addresses[of_tiles[i]]), int(place[i])))
        warp = self.barriers.warp[lanes]
        self.read[cells, warp] = np.maximum(self.read[cells, warp], self.barriers.releases[block, warp])

    def _unknown(self, address: int, place: int) -> str:
        told = self.shared.name(list(self.barriers.columns)[place // self.barriers.blocks])
        return f"reads {self.shared.name(address)} without having waited for the mbarrier {told}"

    def _stored(self, cells: np.ndarray, lanes: np.ndarray, granules: np.ndarray) -> None:
        """Remember which thread stores to each cell, and raise Violation where a read of it is not over."""
        refuse(
            "race",
            (self.read[cells] == READING).any(axis=1),
            "writes what a wgmma still reads that has not been waited for",
        )
        self.place[cells] = -1
        self.written[cells] = lanes << FENCES | self.fences[lanes]
        lanes = np.tile(lanes, len(granules) // len(lanes))
        self.released[granules] = self.barriers.releases[self.barriers.block[lanes], self.barriers.warp[lanes]]
        self.stores.append((granules, lanes))

    def hold(self, lanes: np.ndarray) -> None:
        """Assign the stores of other lanes of these warps to a later release than the one that these lanes make now."""
        barriers, stores = self.barriers, []
        warp = barriers.block * barriers.warps + barriers.warp
        these, of_these = np.zeros(len(warp), bool), np.zeros(len(warp), bool)  # by lane, and by warp
        these[lanes] = of_these[warp[lanes]] = True
        for granules, by in self.stores:
            now = of_these[warp[by]]
            late = now & ~these[by] & (self.shared.wrote[granules] & SEVERAL == barriers.thread[by])
            self.released[granules[late]] = barriers.releases[barriers.block[by], barriers.warp[by]][late] + 1
            if (kept := late | ~now).any():
                stores.append((granules[kept], by[kept]))
        self.stores = stores

    def ordered(self, did: str, granules: np.ndarray, before: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Return where the present access knows of a release by the warps that wrote or read the granules before.

        Reads by its own warp need no release.
        """
        barriers, shared = self.barriers, self.shared
        if not len(barriers.known):
            return np.zeros(len(granules), bool)
        block = granules * shared.granule // shared.pitch
        lanes, which = block * shared.threads + (stamps & SEVERAL) % OF_WARP, np.arange(len(granules))
        known, own = barriers.known[lanes, : barriers.warps], barriers.warp[lanes]
        if did == "wrote":
            thread = before & SEVERAL
            other = barriers.warp[block * shared.threads + np.where(thread == SEVERAL, 0, thread % OF_WARP)]
            return (thread != SEVERAL) & (other != own) & (known[which, other] >= self.released[granules])
        reads = self.read[granules * shared.granule // CELL]
        reads[which, own] = 0
        return (reads <= known).all(axis=1)

    def begin(self, lanes: np.ndarray, offsets: np.ndarray, addresses: np.ndarray) -> OperandRead:
        """Begin a read of the cell at each lane's offset by its warp, after `loaded` has checked it."""
        cells, warps = offsets // CELL, self.barriers.warp[lanes]
        mark = self.written[cells]
        refuse(
            "proxy",
            (mark >= 0) & (self.fences[mark >> FENCES] <= (mark & (1 << FENCES) - 1)),
            lambda lane: (
                f"reads {self.shared.name(int(addresses[lane]))}, which thread "
                f"{self.shared.thread_name(self.barriers.thread[mark[lane] >> FENCES])} wrote without a "
                "fence.proxy.async since"
            ),
        )
        reading = OperandRead(lanes, cells, warps)
        self.keep(reading)
        return reading

    def keep(self, reading: OperandRead) -> None:
        """Mark the cells of a read that is not over."""
        self.read[reading.cells, reading.warps] = READING

    def end(self, reading: OperandRead) -> None:
        """End a read."""
        block = self.barriers.block[reading.lanes]
        self.read[reading.cells, reading.warps] = self.barriers.releases[block, reading.warps]
