"""Numbers the lanes of a batch: one lane for each thread of its blocks, block by block."""

import math
from typing import Self

import numpy as np

from .limits import WARP

Lanes = np.ndarray | None
"""Active lanes of a batch: their places in ascending order, or None for all."""

NONE = np.empty(0, np.int64)
"""No lanes."""


def lowest(values: np.ndarray) -> int:
    """Return the least element of an array of integers: for few lanes, far faster than min()."""
    return values.item(values.argmin())


def highest(values: np.ndarray) -> int:
    """Return the greatest element of an array of integers: for few lanes, far faster than max()."""
    return values.item(values.argmax())


class PerLane:
    """A dataclass whose arrays have an element per lane along their last axis."""

    def part(self, which: np.ndarray) -> Self:
        """Return the part for the lanes for which `which` is true."""
        return type(self)(*(v[..., which] if isinstance(v, np.ndarray) else v for v in vars(self).values()))


Extents = tuple[int, int, int]
"""An extent along x, y and z."""


def named(number: int, shape: Extents) -> str:
    """Return a linear index as people write it: the number where only x is used, else ``(x, y)`` or ``(x, y, z)``."""
    if shape[1] == shape[2] == 1:
        return str(number)
    place = number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])
    return str(place if shape[2] > 1 else place[:2])


class Threads:
    """The threads of a batch of blocks.

    Parameters
    ----------
    blocks : array of int64
        Linear indices of the blocks in the grid.
    shape, grid : tuple of int
        Threads of a block and blocks of the grid along x, y and z.

    Attributes
    ----------
    per_block : int
        Threads of a block.
    size : int
        Number of lanes.
    block, thread : array of int64
        Each lane's block within the batch, and its linear index in the block.
    slot : array of int64
        Each lane's place in a table with 32 places for every warp.
    warps : int
        Number of warps.
    full : bool
        Whether every warp has 32 threads.
    sizes : array of int64
        How many threads each warp has.
    """

    def __init__(self, blocks: np.ndarray, shape: Extents, grid: Extents) -> None:
        self.blocks, self.shape, self.grid = blocks, shape, grid
        self.per_block = per_block = math.prod(shape)
        self.size = len(blocks) * per_block
        self.block = np.repeat(np.arange(len(blocks), dtype=np.int64), per_block)
        self.thread = np.tile(np.arange(per_block, dtype=np.int64), len(blocks))
        warps_per_block = -(-per_block // WARP)
        self.warps = len(blocks) * warps_per_block
        self.slot = (self.block * warps_per_block + self.thread // WARP) * WARP + self.thread % WARP
        self.full = per_block % WARP == 0
        self.sizes = np.bincount((self.slot // WARP).astype(np.intp))

    def thread_name(self, thread: int) -> str:
        """Name a thread of a block by its indices."""
        return named(int(thread), self.shape)

    def block_name(self, block: int) -> str:
        """Name a block of the batch by its indices in the grid."""
        return named(int(self.blocks[block]), self.grid)

    def places(self, lanes: Lanes) -> np.ndarray:
        """Return the places of the active lanes, written out even where all are active."""
        return np.arange(self.size, dtype=np.int64) if lanes is None else lanes

    def spread(self, values: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Return one value per active lane, where `values` may hold a single one for all."""
        size = self.size if lanes is None else len(lanes)
        if values.size == size:
            return values
        return np.ndarray((size,), values.dtype, np.ascontiguousarray(values), 0, (0,))  # broadcast_to takes longer

    def count_warps(self, lanes: Lanes) -> int:
        """Return how many warps have an active lane."""
        if lanes is None:
            return self.warps
        warp = self.slot[lanes] >> WARP.bit_length() - 1
        return 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))

    def whole(self, lanes: Lanes) -> bool:
        """Return whether the active lanes are all lanes of whole warps."""
        if lanes is None or len(lanes) % WARP:
            return lanes is None and self.full
        slots = self.slot[lanes]
        first, last = slots[::WARP], slots[WARP - 1 :: WARP]
        return not (np.count_nonzero(first % WARP) or np.count_nonzero(last - first != WARP - 1))

    def lacking(self, lanes: np.ndarray) -> np.ndarray:
        """Return for each of the lanes whether another one of its warp is missing."""
        warp = (self.slot[lanes] // WARP).astype(np.intp)
        return (np.bincount(warp, minlength=self.warps) != self.sizes)[warp]

    @staticmethod
    def among(lanes: Lanes, holds: np.ndarray) -> Lanes:
        """Return the active lanes for which `holds` is true."""
        if np.count_nonzero(holds) == holds.size:  # faster than all()
            return lanes
        return np.flatnonzero(holds) if lanes is None else lanes[holds]

    def at(self, lanes: Lanes, part: np.ndarray) -> Lanes:
        """Return the active lanes at these places among them."""
        return lanes if len(part) == self.size else self.places(lanes)[part]

    @staticmethod
    def pick(values: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Return the active lanes' elements of an array with one per lane."""
        return values if lanes is None else values[lanes]


def packed(flags: np.ndarray) -> np.ndarray:
    """Return rows of 32 flags as the bits of numbers."""
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint32)[:, 0]
