"""Models mbarriers: words of shared memory that count arriving threads and bytes.

A phase of an mbarrier is over when as many threads have arrived as it was initialised for and all expected bytes have
come; then the next phase begins. A wait names the parity of a phase, 0 for the first, and is over as soon as the
current phase has the other parity. So a wait for parity 1 of a new mbarrier is over at once. Semantics: NVIDIA,
"Parallel Thread Execution ISA", "Parallel Synchronization and Communication Instructions: mbarrier".

The order between threads is kept as in a vector clock. Each thread has a row of numbers: for each warp of its cluster,
how many of the warp's releases the thread knows of, and for each mbarrier, how many of its phases. An arrival is a
release. A wait passes on the knowledge of the phase's arrivals; a barrier of a cluster, a block or a warp passes on the
knowledge of all its threads. The scope of an arrival or a wait, block or cluster, is not checked.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .history import History
from .lanes import PerLane, Threads
from .limits import WARP
from .memory import SharedMemory, refuse, require_aligned

BYTES = 8  # of an mbarrier
COUNT_MAX = 2**20 - 1  # arrivals, and bytes at once
NEVER = 2**31 - 1  # above the numbers of all releases
STATE = np.dtype(
    [(name, np.int64) for name in ("count", "pending", "bytes", "phase", "maker", "interval", "met")]
    + [("fenced", bool), ("shown", bool)]
)
"""The state of one mbarrier of one block.

`count` is the arrivals of a phase, `pending` and `bytes` are the arrivals and bytes that the current phase lacks, and
`phase` is the number of phases that are over. `bytes` is negative where bytes have come before they were expected.
`maker` is the lane that initialised it, `interval` and `met` are the counts of its block's and its cluster's barriers
at that time, and `fenced` and `shown` tell whether a fence has made it visible to the copy engine and to the cluster.
"""


@dataclass(frozen=True)
class MbarrierWait(PerLane):
    """Lanes that each wait at an mbarrier.

    Attributes
    ----------
    target : str
        The register to set when the wait is over.
    lanes, places, parity : array of int64, shape (n,)
        The lanes, the places of their mbarriers in `Mbarriers.state`, and the parities of the phases.
    addresses : array of uint64, shape (n,)
        The addresses of those mbarriers.
    line : int
        The source line of the wait.
    """

    target: str
    lanes: np.ndarray
    places: np.ndarray
    parity: np.ndarray
    addresses: np.ndarray
    line: int


class Mbarriers:
    """The mbarriers of a batch, and the knowledge of its lanes.

    Parameters
    ----------
    shared : SharedMemory
        The memory that holds them.
    threads : Threads

    Attributes
    ----------
    state : array of `STATE`
        An element per mbarrier and block, block by block for each mbarrier.
    warp : array of int64
        Each lane's warp, numbered throughout its cluster.
    known : array of int32, shape (lanes, warps + mbarriers)
        For each lane, the releases and phases of its cluster that it knows of; without rows until it is needed.
    releases : array of int32, shape (blocks, warps)
        The number of each warp's next release, counted from 1.
    whole : array of int32, shape (blocks, warps)
        For each warp, the number of its last release to an mbarrier by all its lanes together, or `NEVER`.
    met : array of int64
        For each block, how often its cluster has met.
    reached : array of int32, shape (blocks, warps)
        For each warp of the cluster, the release that follows its last access to this block from another one.
    gone : array of bool
        Which blocks have left the kernel.
    changes : int
        Increases with every change that may end a wait.
    """

    def __init__(self, shared: SharedMemory, threads: Threads) -> None:
        self.shared, self.threads = shared, threads
        self.block, self.thread = block, thread = threads.block, threads.thread
        self.blocks, self.cluster, warps = len(shared.interval), shared.cluster, int(thread[-1]) // WARP + 1
        self.warp, self.warps = block % self.cluster * warps + thread // WARP, warps * self.cluster
        self.columns: dict[int, int] = {}  # each mbarrier's number by its address
        self.state = np.zeros(0, STATE)
        self.known = np.zeros((0, self.warps), np.int32)
        self.releases = np.ones((self.blocks, self.warps), np.int32)
        self.carried = np.zeros((0, self.warps), np.int32)  # the knowledge of each mbarrier's arrivals so far
        self.handed = np.zeros((0, self.warps), np.int32)  # and that of its last phase's arrivals
        self.whole = np.full((self.blocks, self.warps), NEVER, np.int32)
        self.met = np.zeros(self.blocks, np.int64)
        self.reached = np.zeros((self.blocks, self.warps), np.int32)
        self.gone = np.zeros(self.blocks, bool)
        self.changes = 0
        self.history: History | None = None
        self.releasing: Callable[[np.ndarray], None] | None = None
        """A function to call with lanes before they release."""

    def make(self, lanes: np.ndarray, addresses: np.ndarray, counts: np.ndarray) -> None:
        """Initialise the word at each lane's address as an mbarrier for so many arrivals."""
        addresses, home = self.shared.located(addresses, self.block[lanes])
        self._require_shared(addresses)
        refuse(
            "barrier",
            (counts < 1) | (counts > COUNT_MAX),
            lambda lane: f"makes an mbarrier for {counts[lane]} arrivals, 1 to {COUNT_MAX:,}",
        )
        new = [address for address in dict.fromkeys(addresses.tolist()) if address not in self.columns]
        if new:
            self.columns |= {address: len(self.columns) + i for i, address in enumerate(new)}
            self._grow(len(new))
        places = self._places(home, addresses)
        alone = np.zeros(len(lanes), bool)
        alone[np.unique(places, return_index=True)[1]] = True
        refuse(
            "barrier",
            ~alone | (self.state["count"][places] > 0),
            lambda lane: f"makes an mbarrier of {self.shared.name(int(addresses[lane]))}, which is one",
        )
        made = self.state[places]
        made["count"] = made["pending"] = counts
        made["maker"], made["interval"], made["met"] = lanes, self.shared.interval[home], self.met[home]
        self.state[places] = made

    def tell(self, lanes: np.ndarray, whom: str) -> None:
        """Make the lanes' mbarriers visible to the copy engine ("fenced") or to the cluster ("shown")."""
        if len(self.state):
            self.state[whom] |= (self.state["count"] > 0) & np.isin(self.state["maker"], lanes)

    def find(self, lanes: np.ndarray, addresses: np.ndarray, far: bool = False) -> np.ndarray:
        """Return the place in `state` of each lane's mbarrier, which may be in another block of the cluster if `far`.

        Raises
        ------
        Violation
            There is no mbarrier, or it is not visible to the lane yet, or its block has left.
        """
        addresses, home = self.shared.located(addresses, self.block[lanes], far)
        self._require_shared(addresses)
        if far:
            self.require_there(lanes, home)

        def none(lane: int) -> str:
            return f"uses {self.shared.name(int(addresses[lane]))} as an mbarrier, which nothing has made one"

        refuse("uninitialised", np.array([address not in self.columns for address in addresses.tolist()], bool), none)
        places = self._places(home, addresses)
        refuse("uninitialised", self.state["count"][places] == 0, none)
        state, maker = self.state[places], self.state["maker"][places]
        hasty = (state["interval"] == self.shared.interval[home]) | (home != self.block[lanes])
        hasty &= (state["met"] == self.met[home]) | ~state["shown"]
        hasty &= self.warp[maker] != self.warp[lanes]

        def detail(lane: int) -> str:
            who, when = f"thread {self.shared.thread_name(self.thread[maker[lane]])}", "since the last barrier"
            if home[lane] != self.block[lanes[lane]]:
                who += f" of block {home[lane] % self.cluster} of the cluster"
                when = "that no fence and barrier of the cluster have shown since"
            return f"uses {self.shared.name(int(addresses[lane]))}, of which {who} made an mbarrier {when}"

        refuse("race", hasty, detail)
        return places

    def require_there(self, lanes: np.ndarray, home: np.ndarray) -> None:
        """Raise Violation where a lane uses the memory of another block that has left, or may not have begun."""
        for absent, why in ((self.gone[home], "has left the kernel"), (self.met[home] == 0, "may not have begun")):
            refuse(
                "gone",
                absent & (home != self.block[lanes]),
                lambda lane, why=why: f"reaches into block {home[lane] % self.cluster} of the cluster, which {why}",
            )

    def reach(self, lanes: np.ndarray, home: np.ndarray) -> None:
        """Remember accesses to other blocks' memories: those blocks must know that they are over before they leave."""
        far = np.flatnonzero(home != self.block[lanes])
        if len(far):
            lanes, home = lanes[far], home[far]
            warp = self.warp[lanes]
            self.reached[home, warp] = np.maximum(self.reached[home, warp], self.releases[self.block[lanes], warp])

    def arrive(self, lanes: np.ndarray, places: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Count each lane as so many arrivals, which release its accesses and its knowledge; return their phases."""
        found, total = np.unique(places, return_inverse=True)
        if len(lanes) > 1 and (np.bincount(total.astype(np.intp), counts) > self.state["pending"][found]).any():
            return np.concatenate(
                [self.arrive(*(of[i : i + 1] for of in (lanes, places, counts))) for i in range(len(lanes))]
            )
        refuse(
            "barrier",
            counts > self.state["pending"][places],
            lambda lane: f"arrives {counts[lane]} times, more often than the phase has room for",
        )
        phases = self.state["phase"][places]
        self.reach(lanes, places % self.blocks)
        self.release(lanes)
        self.hand_on([("mbarrier", place) for place in places.tolist()], lanes)
        whole = lanes[~self.threads.lacking(lanes)]
        self.whole[self.block[whole], self.warp[whole]] = self.known[whole, self.warp[whole]]
        where, rows = most(places, self.known[lanes])
        self.carried[where] = np.maximum(self.carried[where], rows)
        np.subtract.at(self.state["pending"], places, counts)
        self._end(found)
        return phases

    def expect(self, places: np.ndarray, sizes: np.ndarray) -> None:
        """Let the current phases wait for so many more bytes."""
        np.add.at(self.state["bytes"], places, sizes.astype(np.int64))

    def receive(self, places: np.ndarray, sizes: np.ndarray) -> None:
        """Count bytes that have come."""
        np.subtract.at(self.state["bytes"], places, sizes.astype(np.int64))
        self._end(np.unique(places))

    def over(self, wait: MbarrierWait) -> np.ndarray:
        """Return for which lanes the wait is over."""
        return self.state["phase"][wait.places] % 2 != wait.parity

    def passed(self, wait: MbarrierWait) -> np.ndarray:
        """Return for which lanes the wait is over, and give those the knowledge of the phase's arrivals.

        Where all lanes of a warp have arrived together, and now all go on, the mbarrier is a barrier of the warp too.
        """
        over = self.over(wait)
        lanes = wait.lanes[over]
        self.hand_on([("mbarrier", place) for place in wait.places[over].tolist()], lanes)
        self.known[lanes] = np.maximum(self.known[lanes], self.handed[wait.places[over]])
        came = self.whole[self.block[lanes], self.warp[lanes]] <= self.handed[wait.places[over], self.warp[lanes]]
        together = lanes[came & ~self.threads.lacking(lanes)]
        self.shared.warp_interval[np.unique(self.shared.warp(self.block[together], self.thread[together]))] += 1
        return over

    def meet(self, lanes: np.ndarray, party: np.ndarray) -> None:
        """Give all lanes of each party the knowledge of all of them; `party` is a number per lane of the batch."""
        if len(self.known) and len(lanes):
            self.release(lanes)
            found, rows = most(party[lanes], self.known[lanes])
            self.known[lanes] = rows[np.searchsorted(found, party[lanes])]

    def hand_on(self, words: list[object], lanes: np.ndarray) -> None:
        """Let lanes that meet at something take over and pass on what is known, where the history is kept."""
        if self.history:
            with self.history.strong("acq_rel", "gpu"):
                self.history.pass_on(words, lanes)

    def describe(self, wait: MbarrierWait, i: int) -> str:
        """Describe the wait of one of its lanes."""
        state = self.state[wait.places[i]]
        address = list(self.columns)[wait.places[i] // self.blocks]
        missing = [f"{state['pending']} of {state['count']} arrivals"] * bool(state["pending"])
        missing += [f"{state['bytes']:,} bytes"] * bool(state["bytes"] > 0)
        missing += [f"somebody who expects {-state['bytes']:,} bytes that have come"] * bool(state["bytes"] < 0)
        return (
            f"waits for parity {wait.parity[i]} of the mbarrier {self.shared.name(address)}, of which "
            f"{state['phase']} phase{'s are' if state['phase'] != 1 else ' is'} over and "
            f"the next lacks {' and '.join(missing)}"
        )

    def column(self, places: np.ndarray) -> np.ndarray:
        """Return the column of `known` that counts the phases of each mbarrier."""
        return self.warps + places // self.blocks * self.cluster + places % self.blocks % self.cluster

    def warp_name(self, warp: int) -> str:
        """Name a warp of a cluster."""
        rank, number = divmod(int(warp), self.warps // self.cluster)
        return f"warp {number}" + (f" of block {rank} of the cluster" if self.cluster > 1 else "")

    def _places(self, home: np.ndarray, addresses: np.ndarray) -> np.ndarray:
        different, which = np.unique(addresses, return_inverse=True)
        columns = np.array([self.columns[address] for address in different.tolist()], np.int64)
        return columns[which] * self.blocks + home

    def _grow(self, more: int) -> None:
        self.state = np.concatenate([self.state, np.zeros(more * self.blocks, STATE)])
        rows = len(self.block), len(self.state), len(self.state)
        width = self.warps + len(self.columns) * self.cluster
        for name, count in zip(("known", "carried", "handed"), rows, strict=True):
            setattr(self, name, grown(getattr(self, name), count, width))

    def release(self, lanes: np.ndarray) -> None:
        """Advance the lanes' own clocks, so that others which learn from them know of all accesses so far."""
        if self.releasing:
            self.releasing(lanes)
        block, warp = self.block[lanes], self.warp[lanes]
        self.known[lanes, warp] = self.releases[block, warp]
        self.releases.reshape(-1)[np.unique(block * self.warps + warp)] += 1

    def _end(self, places: np.ndarray) -> None:
        """End the phases that lack nothing any more."""
        self.changes += 1
        over = places[(self.state["pending"][places] == 0) & (self.state["bytes"][places] == 0)]
        if len(over):
            self.state["phase"][over] += 1
            self.state["pending"][over] = self.state["count"][over]
            self.handed[over] = self.carried[over]
            self.handed[over, self.column(over)] = self.state["phase"][over]

    def _require_shared(self, addresses: np.ndarray) -> None:
        require_aligned(addresses, BYTES)
        refuse(
            "out of bounds",
            addresses > np.uint64(max(self.shared.size - BYTES, 0)),
            lambda lane: f"an mbarrier at byte {addresses[lane]} of {self.shared.size}",
        )


def grown(table: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return a table extended with zeros to so many rows and columns."""
    wide = np.zeros((rows, columns), table.dtype)
    wide[: len(table), : table.shape[1]] = table
    return wide


def most(keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in order, and for each the maximum of its rows."""
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    return found, np.maximum.reduceat(rows[order], first)
