"""What the copy engine brings into the shared memory of a batch of blocks, and who may read or overwrite it.

The hardware may finish a copy at any time before its mbarrier's phase is over. Here it finishes when a thread waits for
that mbarrier and no sooner, so that a kernel which does not wait never comes out right by luck; nor one that expects
too few bytes, as the copies after those are still on their way when the phase is over.

Each 16 bytes that came so are remembered with the phase that they belong to: who reads them must know that it is over,
by a wait of its own or from a thread that tells it. And each warp's last read is remembered: who has them overwritten
must know that the warp has released since. See `mbarriers`. Of what threads store it is remembered who did, as what
reads it past their own loads and stores must be shown it by a fence; and with which release others learn of it, so that
warps may hand tiles to each other as the copy engine does. A lane releases what it has stored itself, and for the
others of its warp what they had stored when they last met: there all of them release.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .mbarriers import Barriers
from .memory import OF_WARP, RANK, SEVERAL, SharedMemory, Violation

CELL = 16  # bytes
READING = np.iinfo(np.int32).max  # in a read's place: it goes on
FENCES = 32  # where in the mark of a store the lane begins, above its number of fences


@dataclass(frozen=True)
class Reading:
    """A read that goes on: the lanes that began it, one per cell, the cells, and the lanes' warps in their clusters."""

    lanes: np.ndarray
    cells: np.ndarray
    warps: np.ndarray

    def part(self, which: np.ndarray) -> Reading:
        """Return the cells where `which` holds, alone."""
        return Reading(self.lanes[which], self.cells[which], self.warps[which])


class Tiles:
    """The copies into the shared memories of a batch, and who reads and writes there.

    Parameters
    ----------
    shared : SharedMemory
    barriers : Barriers

    Attributes
    ----------
    place, phase : array of int32
        For each cell, the mbarrier that told of it, -1 where none did, and how many of its phases must be over.
    read : array of int32, shape (cells, warps)
        For each cell and each warp of its cluster, the release that is the next after its last read; 0 where none was.
    written : array of int64
        For each cell, the lane that last stored to it and how many fences of proxies it had made; -1 where none did.
    released : array of int32
        For each granule, the release of the warp that last stored to it that is the next after that.
    fences : array of int64
        How many each lane has made.
    stores : list of pairs of arrays
        Granules and the lanes that have stored there and not released since.
    """

    def __init__(self, shared: SharedMemory, barriers: Barriers) -> None:
        self.shared, self.barriers = shared, barriers
        self.flights: defaultdict[int, list[tuple[int, slice, np.ndarray]]] = defaultdict(list)
        cells = -(-len(shared.data) // CELL)
        self.place = np.full(cells, -1, np.int32)
        self.phase = np.zeros(cells, np.int32)
        self.read = np.zeros((cells, barriers.warps), np.int32)
        self.written = np.full(cells, -1)
        self.released = np.zeros(len(shared.wrote), np.int32)
        self.fences = np.zeros(len(barriers.block), np.int64)
        self.stores: list[tuple[np.ndarray, np.ndarray]] = []
        shared.apart()
        shared.watches.append(self)
        shared.ordered = self.ordered
        barriers.releasing = self.hold

    def depart(self, lane: int, address: int, data: np.ndarray, place: int) -> None:
        """Send bytes on their way to an address of a block of the lane's cluster, to be told of by its mbarrier.

        Raises
        ------
        Violation
            Somebody may still read what is there, or a copy is on its way there, or the engine does not know of the
            mbarrier.
        """
        shared, barriers, size = self.shared, self.barriers, len(data)
        thread, warp, block = int(barriers.thread[lane]), int(barriers.warp[lane]), place % barriers.blocks
        address -= block % shared.cluster << RANK
        if address % CELL:
            raise Violation("misaligned", 0, f"copies to byte {address} of shared memory, not a multiple of {CELL}")
        if not 0 <= address <= shared.size - size:
            raise Violation(
                "out of bounds", 0, f"copies {size} bytes to shared memory at byte {address} of {shared.size}"
            )
        if not barriers.state["fenced"][place]:
            raise Violation("proxy", 0, "copies with an mbarrier that no fence has told the copy engine of")
        start = block * shared.pitch + address
        cells = slice(start // CELL, (start + size) // CELL)
        known = barriers.known[lane, : barriers.warps].copy()
        known[warp] = READING - 1  # its own reads came before, but for one that goes on
        busy = self.read[cells] > known
        if busy.any():
            cell, reader = np.argwhere(busy)[0]
            name = shared.name(address + int(cell) * CELL)
            raise Violation("race", 0, f"copies to {name}, which {barriers.warp_name(reader)} may still read")
        of_tiles = np.repeat(self.place[cells] >= 0, CELL // shared.granule)
        granules = slice(start // shared.granule, (start + size) // shared.granule)
        shared.read[granules][of_tiles] = 0  # their reads are in `self.read`
        granules = shared.claim(address, size, block, thread, block != barriers.block[lane])
        self.place[cells], self.phase[cells] = place, barriers.state["phase"][place] + 1
        self.read[cells], self.written[cells] = 0, -1
        self.flights[place].append((start, granules, data))
        barriers.changes += 1

    def land(self, places: np.ndarray) -> None:
        """Finish the copies that these mbarriers tell of, one after the other until a phase is over."""
        for place in self.flights.keys() & set(places.tolist()):
            flights, phase = self.flights[place], self.barriers.state["phase"][place]
            while flights and self.barriers.state["phase"][place] == phase:
                start, granules, data = flights.pop(0)
                self.shared.data[start : start + len(data)] = data
                self.shared.wrote[granules] = SEVERAL  # before all barriers of the block
                self.barriers.receive(np.array([place]), np.array([len(data)]))

    def coming(self, block: int) -> bool:
        """Whether a copy to a block is on its way."""
        return any(flights and place % self.barriers.blocks == block for place, flights in self.flights.items())

    def fence(self, lanes: np.ndarray) -> None:
        """Show what these lanes have stored to whatever is asynchronous."""
        self.fences[lanes] += 1

    def loaded(
        self, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Raise Violation where a lane, or a whole warp, reads what it does not know to have come."""
        cells, lanes = offsets // CELL, block * self.shared.threads + thread % OF_WARP
        of_tiles = np.flatnonzero(self.place[cells] >= 0)
        place, phase = self.place[cells[of_tiles]], self.phase[cells[of_tiles]]
        if len(of_tiles):
            late = np.flatnonzero(self.barriers.known[lanes[of_tiles], self.barriers.column(place)] < phase)
            if len(late):
                which = of_tiles[late[0]]
                name = self.shared.name(int(addresses[which]))
                told = self.shared.name(list(self.barriers.columns)[place[late[0]] // self.barriers.blocks])
                raise Violation("in flight", which, f"reads {name} without having waited for the mbarrier {told}")
        warp = self.barriers.warp[lanes]
        self.read[cells, warp] = np.maximum(self.read[cells, warp], self.barriers.releases[block, warp])

    def stored(
        self, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Remember who stores, and raise Violation where what reads it goes on."""
        cells, lanes = offsets // CELL, block * self.shared.threads + thread % OF_WARP
        busy = np.flatnonzero((self.read[cells] == READING).any(axis=1))
        if len(busy):
            raise Violation("race", busy[0], "writes what a wgmma still reads that has not been waited for")
        self.place[cells] = -1
        self.written[cells] = lanes << FENCES | self.fences[lanes]
        granules = self.shared.granules(offsets, width).ravel()
        lanes = np.tile(lanes, len(granules) // len(lanes))
        self.released[granules] = self.barriers.releases[self.barriers.block[lanes], self.barriers.warp[lanes]]
        self.stores.append((granules, lanes))

    def hold(self, lanes: np.ndarray) -> None:
        """Leave what other lanes of these warps have stored to a later release than the one that these make now."""
        barriers, stores = self.barriers, []
        warp = barriers.block * barriers.warps + barriers.warp
        these, of_these = np.zeros(len(warp), bool), np.zeros(len(warp), bool)  # by lane, and by warp: there are fewer
        these[lanes] = of_these[warp[lanes]] = True
        for granules, by in self.stores:
            now = of_these[warp[by]]
            late = now & ~these[by] & (self.shared.wrote[granules] & SEVERAL == barriers.thread[by])
            self.released[granules[late]] = barriers.releases[barriers.block[by], barriers.warp[by]][late] + 1
            if (kept := late | ~now).any():
                stores.append((granules[kept], by[kept]))
        self.stores = stores

    def ordered(self, did: str, granules: np.ndarray, before: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Return where who comes now knows of a release of the warps that wrote or read granules before.

        Of its own warp's threads it need not.
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

    def begin(self, lanes: np.ndarray, offsets: np.ndarray, addresses: np.ndarray) -> Reading:
        """Let each lane's warp read the cell at an offset until the reading is ended; `loaded` has been called."""
        cells, warps = offsets // CELL, self.barriers.warp[lanes]
        mark = self.written[cells]
        hidden = np.flatnonzero((mark >= 0) & (self.fences[mark >> FENCES] <= (mark & (1 << FENCES) - 1)))
        if len(hidden):
            name, writer = self.shared.name(int(addresses[hidden[0]])), mark[hidden[0]] >> FENCES
            raise Violation(
                "proxy",
                hidden[0],
                f"reads {name}, which thread {self.barriers.thread[writer]} wrote without a fence.proxy.async since",
            )
        reading = Reading(lanes, cells, warps)
        self.go_on(reading)
        return reading

    def go_on(self, reading: Reading) -> None:
        """Mark cells as being read."""
        self.read[reading.cells, reading.warps] = READING

    def end(self, reading: Reading) -> None:
        """Let a read be over."""
        block = self.barriers.block[reading.lanes]
        self.read[reading.cells, reading.warps] = self.barriers.releases[block, reading.warps]
