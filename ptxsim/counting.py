"""Counts events as the hardware does: instructions, memory requests, sectors, wavefronts and bank conflicts.

A warp's access to memory is one request. A request to global memory touches 32-byte sectors. A request to
shared memory takes wavefronts: one, unless lanes want different 4-byte words of the same of the 32 banks.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from .lanes import NONE, Lanes, Threads, lowest
from .limits import WARP
from .memory import RANK

SECTOR = 32  # bytes
BANKS = 32  # of 4 bytes


@dataclass
class Counts:
    """The counts of one source line or of a whole run.

    Attributes
    ----------
    instructions : int
        PTX instructions executed, counted once per warp.
    by_class : Counter of str
        The same by class: "fma", "tensor", "float", "integer", "convert", "compare", "move", "parameter", "branch",
        "barrier", "warp barrier", "cluster barrier", "global load", "global store", "shared load", "shared store",
        "generic load", "cluster load", "cluster store", "copy", "commit", "wait", "arrive", "registers", "shuffle",
        "atomic", "fence". A "generic load" is from global or from shared memory. A "copy" is asynchronous: a load from
        global memory and a store to shared memory; "commit" and "wait" go with it. "tensor" is a product of matrices,
        whose loads and stores make several requests each. The memory requests of an "atomic", a "cluster load" or a
        "cluster store" are not counted.
    thread_instructions : int
        The same, counted once per active thread.
    flops : int
        Floating-point operations: two per thread and fused multiply-add, one per addition or multiplication, and
        twice rows, columns and depth per warp and product of matrices.
    global_load_requests, global_load_sectors, global_load_bytes : int
        Warp-wide requests, the 32-byte sectors they touch, and the bytes all threads asked for together.
    global_store_requests, global_store_sectors, global_store_bytes : int
        The same for stores.
    shared_load_requests, shared_load_wavefronts, shared_load_conflicts, shared_load_bytes : int
        Requests, the wavefronts that they take, those of them that bank conflicts cost, and bytes.
    shared_store_requests, shared_store_wavefronts, shared_store_conflicts, shared_store_bytes : int
        The same for stores.
    """

    instructions: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    thread_instructions: int = 0
    flops: int = 0
    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_load_bytes: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    global_store_bytes: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_conflicts: int = 0
    shared_load_bytes: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_conflicts: int = 0
    shared_store_bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return added_up((self, other))


def added_up(counts: Collection[Counts]) -> Counts:
    """Return the sum of counts."""
    return Counts(*(sum(map(attrgetter(name), counts), none) for name, none in vars(Counts()).items()))


def sectors(addresses: np.ndarray) -> int:
    """Count the 32-byte sectors that warps touch.

    Parameters
    ----------
    addresses : array of int64, shape (warps, 32)
        Byte address of each lane's access. Accesses are aligned and at most 16 bytes wide, so that each is
        inside one sector. -1 for a lane that takes no part; in each warp one does.
    """
    sector = (_filled(addresses) >> SECTOR.bit_length() - 1).ravel()
    falls = sector[:-1] > sector[1:]
    falls[WARP - 1 :: WARP] = False  # from one warp to the next
    if np.count_nonzero(falls):
        sector = np.sort(sector.reshape(-1, WARP), axis=1).ravel()
    begins = sector[:-1] != sector[1:]
    begins[WARP - 1 :: WARP] = True
    return min(sector.size, 1) + int(np.count_nonzero(begins))


def wavefronts(addresses: np.ndarray, width: int, kind: str) -> tuple[int, int]:
    """Count the wavefronts of warps' accesses to shared memory, and those that bank conflicts cost.

    A wavefront serves each bank one 4-byte word, to any number of lanes. 32 banks hold 128 bytes, so accesses of 8
    bytes are served half a warp at a time, of 16 bytes a quarter. A load serves groups of twice that size if all over
    the warp lanes want the same as their neighbour, or all over the warp the same as the next lane but one. NVIDIA
    does not document these rules; an H100 counts so in all patterns of ``measure/wavefronts.py``.

    Parameters
    ----------
    addresses : array of int64, shape (warps, 32)
        Byte address of each lane's access, -1 for a lane that takes no part; in each warp one does.
    width : int
        Bytes per lane.
    kind : str
        "load" or "store".

    Returns
    -------
    wavefronts, conflicts : int
        Conflicts are the wavefronts beyond one per group.
    """
    words_per_lane = max(width // 4, 1)
    words = addresses // 4  # -1 stays -1
    lanes = WARP // words_per_lane
    if words_per_lane == 1 or kind == "store":
        return _serve(words.reshape(-1, lanes), words_per_lane)
    quads = words.reshape(-1, WARP // 4, 2, 2)
    twice = _alike(quads[..., 0], quads[..., 1]) | _alike(quads[:, :, 0], quads[:, :, 1])
    pairs = _serve(words[twice].reshape(-1, 2 * lanes), words_per_lane)
    singles = _serve(words[~twice].reshape(-1, lanes), words_per_lane)
    return pairs[0] + singles[0], pairs[1] + singles[1]


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return for each warp whether its lanes in `one` want the same as those in `other`, if both take part."""
    return ((one == other) | (one < 0) | (other < 0)).all(axis=(1, 2))


def _serve(groups: np.ndarray, words_per_lane: int) -> tuple[int, int]:
    """Return wavefronts and conflicts of groups of lanes: a group takes as many as its busiest bank has words."""
    groups = _filled(groups)
    if not len(groups):
        return 0, 0
    span = groups.max(axis=1) - groups.min(axis=1) + words_per_lane
    hard = groups[span > BANKS]  # consecutive words lie in different banks
    total = len(groups) - len(hard)
    if len(hard):
        words = np.sort((hard[:, :, None] + np.arange(words_per_lane, dtype=np.int64)).reshape(len(hard), -1), axis=1)
        distinct = np.ones(words.shape, bool)
        distinct[:, 1:] = words[:, 1:] != words[:, :-1]
        place = np.arange(len(words), dtype=np.int64)[:, None] * BANKS + words % BANKS
        degree = np.bincount(place[distinct].astype(np.intp), minlength=len(words) * BANKS).reshape(-1, BANKS)
        total += int(degree.max(axis=1).sum(dtype=np.int64))
    return total, total - len(groups)


def _filled(rows: np.ndarray) -> np.ndarray:
    """Give inactive lanes the value of an active one of their row; drop rows without an active lane."""
    if not rows.size or lowest(rows) >= 0:
        return rows
    most = rows.max(axis=1, keepdims=True)
    return np.where(rows < 0, most, rows)[most[:, 0] >= 0]


def by_warp(slots: np.ndarray | None, values: np.ndarray, warps: int) -> np.ndarray:
    """Arrange one value per active lane in rows of 32, a row for each warp with an active lane.

    Parameters
    ----------
    slots : array of int64, optional
        Each active lane's place, in ascending order: its warp times 32 plus its place in the warp. None if every lane
        of every warp is active.
    values : array of int64
        Not negative. One per active lane, or a single one for all.
    warps : int
        Warps there are.

    Returns
    -------
    array of int64, shape (active warps, 32)
        -1 for inactive lanes.
    """
    if slots is None:
        return (values if values.size == warps * WARP else np.broadcast_to(values, warps * WARP)).reshape(warps, WARP)
    warp = slots // WARP
    row = np.zeros(warp.size, np.int64)
    np.cumsum(warp[1:] != warp[:-1], out=row[1:])
    table = np.full((row[-1] + 1, WARP), -1, np.int64)
    table[row, slots % WARP] = values
    return table


class AccessCounter:
    """Counts the memory requests of a batch's instructions.

    Parameters
    ----------
    tallies : mapping of int to Counts
        The run's counts by source line.
    threads : Threads
    clustered : bool
        Whether addresses in shared memory carry the rank of a block of the cluster.
    """

    def __init__(self, tallies: Mapping[int, Counts], threads: Threads, clustered: bool) -> None:
        self.tallies, self.threads, self.clustered = tallies, threads, clustered
        self._lanes: tuple[Lanes, int] = NONE, 0  # those of the last access, and the digest of their slots

    def count(
        self,
        line: int,
        space: str,
        kind: str,
        addresses: np.ndarray,
        lanes: Lanes,
        width: int,
        total: int | None = None,
        times: int = 1,
    ) -> None:
        """Count an access by the active lanes, `times` over; `total` is its bytes if not all lanes access `width`."""
        tally, threads = self.tallies[line], self.threads
        if total is None:
            total = (threads.size if lanes is None else len(lanes)) * width
        alike = 1
        if space == "shared":
            if self.clustered:
                addresses = addresses & np.uint64((1 << RANK) - 1)
            if addresses.size == threads.size and lanes is None:
                of_blocks = addresses.reshape(-1, threads.per_block)
                if not np.count_nonzero(of_blocks != of_blocks[0]):  # as each block's shared memory begins at 0
                    alike, addresses = len(of_blocks), of_blocks[0]
        numbers = self._numbers(space, kind, addresses, lanes, width, alike)
        for what, number in zip(COUNTED[space, kind], (*numbers, total), strict=True):
            setattr(tally, what, getattr(tally, what) + times * number)

    def _numbers(
        self, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int, alike: int
    ) -> tuple[int, ...]:
        """Return the requests, and the sectors or the wavefronts and conflicts, of `alike` times these accesses.

        They depend on the addresses' distances from a line of 128 bytes, and are cached by them.
        """
        key = ()
        if addresses.size <= REMEMBERED_LANES:
            if lanes is not self._lanes[0]:
                self._lanes = lanes, _digest(self.threads.pick(self.threads.slot, lanes))
            distances = addresses - (addresses[0] & LINE)
            key = space, kind, width, alike, self.threads.size, self._lanes[1], _digest(distances)
            if found := _counted.get(key):
                return found
        slots = None if lanes is None and self.threads.full else self.threads.pick(self.threads.slot, lanes)
        if slots is not None and alike > 1:
            slots = slots[: self.threads.per_block]
        rows = by_warp(slots, addresses.view(np.int64), self.threads.warps // alike)
        counted = (sectors(rows),) if space == "global" else wavefronts(rows, width, kind)
        numbers = tuple(alike * number for number in (len(rows), *counted))
        if key:
            if len(_counted) >= REMEMBERED:
                _counted.clear()
            _counted[key] = numbers
        return numbers


def _digest(numbers: np.ndarray) -> int:
    """Return 64 bits that stand for the numbers: of all that are remembered, two are alike once in 10¹⁰ processes."""
    return hash(numbers.tobytes())


COUNTED = {
    (space, kind): [f"{space}_{kind}_{what}" for what in ("requests", *served, "bytes")]
    for space, served in (("global", ("sectors",)), ("shared", ("wavefronts", "conflicts")))
    for kind in ("load", "store")
}
"""The counters of an access, by its space and kind."""

LINE = np.uint64(2**64 - 128)
"""The bits of an address that name a line: all sectors and banks are at the same distances from each."""

REMEMBERED, REMEMBERED_LANES = 1 << 16, 1 << 12
"""The most access patterns whose numbers are cached, some 30 MB, and the most lanes of one."""

_counted: dict[tuple[str | int, ...], tuple[int, ...]] = {}
