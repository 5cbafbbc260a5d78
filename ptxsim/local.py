"""Models local memory: each thread's own variables, and the stack on which calls keep them.

A function's variables lie in its frame. A call puts the callee's frame behind the caller's. Addresses count from the
first frame's start, so that a pointer into a caller's frame stays good; one beyond the present frame is out of bounds.
An access that leaves one variable for another one in the frame is not found.
"""

from collections.abc import Iterator

import numpy as np

from .memory import refuse, require_aligned
from .registers import RegisterFile

STACK_MAX = 1 << 16
"""Bytes of local memory per thread."""


class LocalMemory:
    """The local memories of a batch's lanes.

    Parameters
    ----------
    lanes : int
    frame : int
        Bytes of the kernel's own frame.

    Attributes
    ----------
    data, written : array of uint8 and of bool, shape (lanes, bytes)
        The bytes, and whether each was written; as many as were needed so far.
    base, top : array of uint64
        Where each lane's present frame begins and ends.
    """

    def __init__(self, lanes: int, frame: int) -> None:
        self.data, self.written = np.zeros((lanes, frame), np.uint8), np.zeros((lanes, frame), bool)
        self.base, self.top = np.zeros(lanes, np.uint64), np.full(lanes, frame, np.uint64)

    def load(
        self, who: np.ndarray, addresses: np.ndarray, dtype: np.dtype, count: int, strict: bool = True
    ) -> list[np.ndarray]:
        """Return `count` arrays: the elements at each lane's address, one behind the other.

        Unless `strict`, they may be elements that nothing wrote.
        """
        width = dtype.itemsize * count
        places = self._places(who, addresses, width)
        written = self.written[who[:, None], places[:, None] + np.arange(width, dtype=np.int64)].any(axis=1)
        detail = "reads local memory at byte {}, never written"
        refuse("uninitialised", ~written & strict, lambda lane: detail.format(addresses[lane]))
        elements, first = self.data.view(dtype), places // dtype.itemsize
        return [elements[who, first + i] for i in range(count)]

    def store(self, who: np.ndarray, addresses: np.ndarray, values: list[np.ndarray]) -> None:
        """Store one element per lane and value, one behind the other."""
        dtype = values[0].dtype
        addresses = np.broadcast_to(addresses, who.size)
        places = self._places(who, addresses, dtype.itemsize * len(values))
        for i, value in enumerate(values):
            self.data.view(dtype)[who, places // dtype.itemsize + i] = value
        width = dtype.itemsize * len(values)
        self.written[who[:, None], places[:, None] + np.arange(width, dtype=np.int64)] = True

    def copy(self, who: np.ndarray, to: np.ndarray, source: np.ndarray, size: int) -> None:
        """Copy bytes of each lane, whether they were written or not."""
        rows, behind = who[:, None], np.arange(size, dtype=np.int64)
        to, source = (at.astype(np.int64)[:, None] + behind for at in (to, source))
        for table in (self.data, self.written):
            table[rows, to] = table[rows, source]

    def move(self, who: np.ndarray, base: np.ndarray, frame: int) -> None:
        """Let the lanes' present frames begin there and have so many bytes."""
        self.base[who], self.top[who] = base, base + np.uint64(frame)
        most = int(self.top[who].max())
        refuse("stack overflow", self.top[who] > STACK_MAX, f"calls need more than {STACK_MAX:,} bytes")
        if most > self.data.shape[1]:
            more = ((0, 0), (0, 2 * most - self.data.shape[1]))
            self.data, self.written = np.pad(self.data, more), np.pad(self.written, more)

    def _places(self, who: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        require_aligned(addresses, width)
        top = self.top[who]
        refuse(
            "out of bounds",
            (addresses >= top) | (addresses + np.uint64(width) > top),
            lambda lane: (
                f"a {width}-byte access to local memory at byte {addresses[lane].view(np.int64)} of {top[lane]}"
            ),
        )
        return addresses.view(np.int64)


class Stack:
    """The calls that are not over, of each lane.

    Parameters
    ----------
    local : LocalMemory
    registers : RegisterFile

    Attributes
    ----------
    depth : array of int64
        How many calls of each lane are not over.
    calls : array of int64, shape (depth, 2, lanes)
        For each of them, the basic block where the lane goes on, and where the caller's frame begins.
    saved : dict of str to array, shape (depth, lanes)
        The callers' registers, where the call may change them.
    """

    def __init__(self, local: LocalMemory, registers: RegisterFile) -> None:
        self.local, self.registers = local, registers
        self.depth = np.zeros(registers.size, np.int64)
        self.calls = np.zeros((1, 2, registers.size), np.int64)
        self.saved: dict[str, np.ndarray] = {}

    def enter(self, who: np.ndarray, back: int, frames: tuple[int, int], keep: str) -> None:
        """Begin calls that go on at a basic block.

        Parameters
        ----------
        who : array of int64
        back : int
        frames : (int, int)
            Bytes of the caller's frame and of the callee's.
        keep : str
            How the names of the registers begin that are to be kept; empty for none.
        """
        depth = self.depth[who]
        while int(depth.max()) >= len(self.calls):
            self.calls = np.concatenate([self.calls, np.zeros_like(self.calls)])
        self.calls[depth, 0, who], self.calls[depth, 1, who] = back, self.local.base[who].astype(np.int64)
        for name in [name for name in self.registers.values if keep and name.startswith(keep)]:
            value = np.broadcast_to(self.registers.values[name], self.registers.size)
            kept = self.saved.get(name, np.zeros((1, self.registers.size), value.dtype))
            if len(kept) < len(self.calls):
                kept = np.pad(kept, ((0, len(self.calls) - len(kept)), (0, 0)))
            kept[depth, who] = value[who].view(kept.dtype)
            self.saved[name] = kept
        self.local.move(who, self.local.base[who] + np.uint64(frames[0]), frames[1])
        self.depth[who] += 1

    def leave(self, who: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """End calls; yield each basic block where lanes go on, with those lanes."""
        backs = self.calls[self.depth[who] - 1, 0, who]
        for back in np.unique(backs).tolist():
            yield back, who[backs == back]

    def below(self, who: np.ndarray) -> np.ndarray:
        """Return where the frames of the lanes' callers begin."""
        return self.calls[self.depth[who] - 1, 1, who].astype(np.uint64)

    def restore(self, who: np.ndarray, frame: int, keep: str) -> None:
        """Give lanes back their callers' frames, of so many bytes, and the registers that were kept."""
        self.local.move(who, self.below(who), frame)
        self.depth[who] -= 1
        depth = self.depth[who]
        for name, kept in self.saved.items():
            if keep and name.startswith(keep):
                self.registers.write(name, kept[depth, who], who)
