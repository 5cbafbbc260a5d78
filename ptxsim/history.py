"""Keeps the order of accesses, and finds those of different threads that nothing orders, in global and shared memory.

Each warp knows how many releases of every other warp came before: a vector clock. A barrier makes all warps there know
what any of them does. An atomic operation, or a load or store that is volatile, relaxed, acquires or releases, is
strong: it may meet other strong ones. It passes on knowledge by its word, if a fence comes before the store and after
the load, or if the operation itself releases and acquires. A fence for the block (``.cta``) or for the cluster passes
on knowledge within it alone. Two accesses to a place, one of them a write and one not strong, are a race if the later
one's warp does not know of the earlier one, in whatever order they happen to run. A store of the value that is already
there is no race.

Two lanes of a warp are in order once the warp has passed a barrier or a fence, or made a release. Of several reads of a
place since its last write only one is remembered, so that a race may be missed; every race that is reported is one.
Semantics: NVIDIA, "Parallel Thread Execution ISA", "Memory Consistency Model".
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .lanes import Threads
from .limits import WARP
from .memory import INTERVAL, OF_WARP, SEVERAL, WARP_INTERVAL, Buffer, SharedMemory, refuse

MARK = np.dtype([(name, np.int32) for name in ("lane", "epoch", "line", "strong")] + [("interval", np.int64)])
"""The last write, or a read: its lane plus one, its warp's next release, its line, and the width of its scope if it was
strong, else 0.

In shared memory also how many barriers its block and its warp had passed, as a stamp of `SharedMemory` has them.
"""
WIDTHS = {"cta": 1, "cluster": 2}
"""The width of a scope: 1 for a block, 2 for a cluster. Other scopes, the grid and beyond, have 3."""


class History:
    """The order of a batch's accesses.

    Parameters
    ----------
    threads : Threads
    granule : int
        Bytes per mark in global memory.
    cluster : int
        Blocks of a cluster.

    Attributes
    ----------
    known : array of int32, shape (warps, warps)
        How many releases of another warp each warp knows of.
    epoch : array of int32
        The number of each warp's next release.
    fenced, pending : array of int32, shape (3, warps, warps)
        What a strong store passes on and what the next fence takes over: within the block, the cluster and the grid.
    words : dict
        The knowledge that a word passes on: by word and block, by word and cluster, or by the word alone.
    line, order, scope : int, str, str
        Those of the present instruction; the order is empty if it is not strong.
    """

    def __init__(self, threads: Threads, granule: int, cluster: int) -> None:
        self.threads, self.granule, self.cluster = threads, granule, cluster
        self.warp = (threads.slot // WARP).astype(np.intp)
        self.of_block = (threads.block[np.unique(self.warp, return_index=True)[1]]).astype(np.intp)
        count = threads.warps
        self.known, self.epoch = np.zeros((count, count), np.int32), np.ones(count, np.int32)
        self.fenced, self.pending = np.zeros((3, count, count), np.int32), np.zeros((3, count, count), np.int32)
        self.words: dict[object, np.ndarray] = {}
        self.marks: dict[str, dict[str, np.ndarray]] = {}
        self.line, self.order, self.scope = 0, "", ""

    def observe(self, shared: SharedMemory) -> None:
        """Remember accesses to shared memory, so that messages name their lines."""
        self.shared, shared.told = shared, self.told
        shared.apart()
        shared.watches.append(self)
        self.marks[""] = {did: np.zeros(len(shared.wrote), MARK) for did in ("wrote", "read")}

    @contextmanager
    def strong(self, order: str, scope: str) -> Iterator[None]:
        """Take the accesses within for strong ones."""
        self.order, self.scope = order, scope
        try:
            yield
        finally:
            self.order = ""

    def touch(self, buffer: Buffer, offsets: np.ndarray, lanes: np.ndarray, width: int, writes: bool) -> None:
        """Check and remember loads from global memory, or stores."""
        count = -(-buffer.data.size // self.granule)
        marks = self.marks.setdefault(buffer.name, {did: np.zeros(count, MARK) for did in ("wrote", "read")})
        first, does = offsets.view(np.int64) // self.granule, "writes" if writes else "reads"
        for behind in range(0, max(width // self.granule, 1)):
            granules = first + behind
            for did in ("wrote", "read")[: 1 + writes]:
                was = marks[did][granules]
                race = (was["lane"] > 0) & ~self._known(was, lanes)
                refuse(
                    "race",
                    race,
                    lambda lane, was=was, granules=granules, did=did: (
                        f"{does} {buffer.name} at byte {int(granules[lane]) * self.granule}, which "
                        f"{self._who(was[lane], did)}, unordered: {self._lacks(was[lane], lanes[lane])}"
                    ),
                )
            self._mark(marks["wrote" if writes else "read"], granules, lanes)

    def _known(self, was: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return which accesses were before the present ones of those lanes, or may meet them."""
        warp, own = self.warp[was["lane"] - 1], self.warp[lanes]
        before = (was["lane"] - 1 == lanes) | (self.known[own, warp] >= was["epoch"])
        one, other = (self.threads.block[of] for of in (was["lane"] - 1, lanes))
        apart = 1 + (one != other) + (one // self.cluster != other // self.cluster)  # the width that includes both
        return before | (np.minimum(was["strong"], self.width()) >= apart)

    def width(self) -> int:
        """Return the width of the scope of the present instruction, 0 if it is not strong."""
        return WIDTHS.get(self.scope, 3) if self.order else 0

    def _lacks(self, was: np.void, lane: int) -> str:
        """Return words for what would have ordered an earlier access and the present one of a lane."""
        if was["strong"] and self.order:
            return "both are atomic, but in a scope that does not include both threads"
        if (self.pending[:, self.warp[lane], self.warp[was["lane"] - 1]] >= was["epoch"]).any():
            return "no fence with both threads in its scope follows the read by which it learned of that"
        return "a barrier, or a release or fence before a signal and an acquire or fence after it, would order them"

    def _who(self, was: np.void | dict[str, int], did: str) -> str:
        lane = int(was["lane"]) - 1
        block, thread = self.threads.block_name(self.threads.block[lane]), self.threads.thread[lane]
        return f"thread {self.threads.thread_name(thread)} of block {block} {did} in line {was['line']}"

    def meeting(self, name: str, byte: int, lane: int) -> str:
        """Return words for a store to a place where a lane stores something else in the same instruction."""
        who = self._who({"lane": lane + 1, "line": self.line}, "writes something else there")
        return f"writes {name} at byte {byte} just when {who}"

    def _mark(self, marks: np.ndarray, granules: np.ndarray, lanes: np.ndarray, interval: np.ndarray | int = 0) -> None:
        made = np.empty(granules.shape, MARK)
        made["interval"] = interval
        made["lane"], made["epoch"] = lanes + 1, self.epoch[self.warp[lanes]]
        made["line"], made["strong"] = self.line, self.width()
        marks[granules] = made

    def see(
        self, did: str, offsets: np.ndarray, addresses: np.ndarray, block: np.ndarray, thread: np.ndarray, width: int
    ) -> None:
        """Remember loads from shared memory, or stores."""
        granules = self.shared.granules(offsets, width)
        lanes = np.broadcast_to(block * self.threads.per_block + thread % OF_WARP, granules.shape)
        self._mark(self.marks[""][did], granules, lanes, self.shared.stamps(block, thread) >> WARP_INTERVAL)

    def ordered(self, did: str, granules: np.ndarray, before: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Return where the present accesses to shared memory know of those before, or may meet them."""
        was = self.marks[""][did][granules]
        block = granules * self.shared.granule // self.shared.pitch
        own = block * self.threads.per_block + (stamps & SEVERAL) % OF_WARP
        apart = (self.warp[was["lane"] - 1] != self.warp[own]) | (was["interval"] != stamps >> WARP_INTERVAL)
        return (was["lane"] > 0) & (apart | bool(self.order)) & self._known(was, own)

    def told(self, did: str, granule: int, stamp: int) -> str:
        """Return words for the line of an access to shared memory that left a stamp; none if a copy has left it."""
        was, who = self.marks[""][did][granule], stamp & SEVERAL
        same = who & OF_WARP or (was["lane"] - 1) % self.threads.per_block == who
        return (
            f" in line {was['line']}"
            if same and was["interval"] >> INTERVAL - WARP_INTERVAL == stamp >> INTERVAL
            else ""
        )

    def meet(self, lanes: np.ndarray, party: np.ndarray) -> None:
        """Let the warps of each party know of all that they have done; `party` is a number per lane of the batch."""
        for number in np.unique(party[lanes]).tolist():
            warps = np.unique(self.warp[lanes[party[lanes] == number]])
            self.known[warps] = self._release(warps)
            for table in self.fenced:
                table[warps] = table[warps].max(axis=0)

    def _release(self, warps: np.ndarray) -> np.ndarray:
        """Return what these warps know and have done, and begin new releases."""
        row = self.known[warps].max(axis=0)
        row[warps] = self.known[warps, warps] = self.epoch[warps]
        self.epoch[warps] += 1
        return row

    def fence(self, lanes: np.ndarray, scope: str) -> None:
        """Let these lanes' strong stores pass on all that they know by now, and take over what they have read."""
        for warp in np.unique(self.warp[lanes]).tolist():
            for width in range(WIDTHS.get(scope, 3)):
                np.maximum(self.known[warp], self.pending[width, warp], out=self.known[warp])
            self.fenced[: WIDTHS.get(scope, 3), warp] = self._release(np.array([warp], np.intp))

    def pass_on(self, words: list[object], lanes: np.ndarray, reads: bool = True, writes: bool = True) -> None:
        """Let strong accesses to words take over the words' knowledge, and give them the lanes'."""
        for word, warp in dict.fromkeys(zip(words, self.warp[lanes].tolist(), strict=True)):
            block = int(self.of_block[warp])
            keys = ((word, block), (word, "cluster", block // self.cluster), word)[: WIDTHS.get(self.scope, 3)]
            for width, key in enumerate(keys):
                if reads and key in self.words:
                    to = self.known[warp] if "acq" in self.order else self.pending[width, warp]
                    np.maximum(to, self.words[key], out=to)
            if writes:
                row = self._release(np.array([warp], np.intp)) if "rel" in self.order.replace("relaxed", "") else None
                for width, key in enumerate(keys):
                    given = self.fenced[width, warp] if row is None else row
                    self.words[key] = (
                        np.maximum(given, self.words[key]) if key in self.words and reads else given.copy()
                    )
