"""Counts what the hardware's counters count, per instruction and per source line.

A warp's access to memory is one request. A request to global memory touches 32-byte sectors. A request to
shared memory takes wavefronts: one, unless lanes want different 4-byte words of the same of the 32 banks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np

from .limits import WARP

SECTOR = 32  # bytes
BANKS = 32  # of 4 bytes


@dataclass
class Counts:
    """What was counted, for one source line or for a whole run.

    Attributes
    ----------
    instructions : int
        PTX instructions executed, counted once per warp.
    by_class : Counter of str
        The same by class: "fma", "tensor", "float", "integer", "convert", "compare", "move", "parameter", "branch",
        "barrier", "warp barrier", "cluster barrier", "global load", "global store", "shared load", "shared store",
        "generic load", "cluster load", "cluster store", "copy", "commit", "wait", "arrive", "registers", "shuffle",
        "atomic", "fence". A "generic load" is of tiles in global or in shared memory, as it turns out. A "copy" is
        asynchronous, a load from global memory and a store to shared memory; "commit" and "wait" go with it. "tensor"
        is a product of matrices; what loads or stores them makes several requests. What an "atomic", a "cluster load"
        or a "cluster store" does to memory is counted nowhere else.
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
        Requests, wavefronts they take, those among them that bank conflicts cost, and bytes.
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

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def sectors(addresses: np.ndarray) -> int:
    """Count the 32-byte sectors that warps touch.

    Parameters
    ----------
    addresses : array of int64, shape (warps, 32)
        Byte address of each lane's access. Accesses are aligned and at most 16 bytes wide, so that each is
        inside one sector. -1 for a lane that takes no part; in each warp one does.
    """
    sector = _filled(addresses) >> SECTOR.bit_length() - 1
    before, after = sector[:, :-1], sector[:, 1:]
    if not (before <= after).all():
        sector = np.sort(sector, axis=1)
        before, after = sector[:, :-1], sector[:, 1:]
    return len(sector) + int(np.count_nonzero(before != after))


def wavefronts(addresses: np.ndarray, width: int, kind: str) -> tuple[int, int]:
    """Count the wavefronts that warps' accesses to shared memory take, and those that bank conflicts cost.

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
    key = hashlib.blake2b(np.ascontiguousarray(addresses), digest_size=16).digest(), width, kind
    if key not in _counted:  # a loop asks for the same again and again
        if len(_counted) >= REMEMBERED:
            _counted.clear()
        _counted[key] = _wavefronts(addresses, width, kind)
    return _counted[key]


REMEMBERED = 1 << 16
"""Accesses to shared memory of which it is remembered what they take, some 20 MB."""

_counted: dict[tuple[bytes, int, str], tuple[int, int]] = {}


def _wavefronts(addresses: np.ndarray, width: int, kind: str) -> tuple[int, int]:
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
    """Return for each warp whether its lanes in `one` want what those in `other` want, if both take part."""
    return ((one == other) | (one < 0) | (other < 0)).all(axis=(1, 2))


def _serve(groups: np.ndarray, words_per_lane: int) -> tuple[int, int]:
    """Return wavefronts and conflicts of groups of lanes: as many as the busiest bank has distinct words."""
    groups = _filled(groups)
    if not len(groups):
        return 0, 0
    span = groups.max(axis=1) - groups.min(axis=1) + words_per_lane
    hard = groups[span > BANKS]  # consecutive words lie in different banks
    total = len(groups) - len(hard)
    if len(hard):
        words = np.sort((hard[:, :, None] + np.arange(words_per_lane)).reshape(len(hard), -1), axis=1)
        distinct = np.ones(words.shape, bool)
        distinct[:, 1:] = words[:, 1:] != words[:, :-1]
        place = np.arange(len(words))[:, None] * BANKS + words % BANKS
        degree = np.bincount(place[distinct], minlength=len(words) * BANKS).reshape(-1, BANKS)
        total += int(degree.max(axis=1).sum())
    return total, total - len(groups)


def _filled(rows: np.ndarray) -> np.ndarray:
    """Let lanes that take no part repeat the value of one that does; drop rows where none does."""
    if not rows.size or rows.min() >= 0:
        return rows
    most = rows.max(axis=1, keepdims=True)
    return np.where(rows < 0, most, rows)[most[:, 0] >= 0]


def by_warp(slots: np.ndarray | None, values: np.ndarray, warps: int) -> np.ndarray:
    """Arrange one value per active lane as rows of 32, a row per warp that has an active lane.

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
