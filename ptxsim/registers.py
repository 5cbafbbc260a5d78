"""Holds the register file of a batch: every register of every lane, special registers included."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .accumulators import Accumulators
from .faults import FaultWriter
from .lanes import NONE, Lanes, Threads
from .limits import WARP
from .memory import Violation
from .ptx import DTYPES, Instruction

SPECIAL = frozenset(
    f"%{name}.{axis}"
    for name in ("tid", "ctaid", "ntid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
    for axis in "xyz"
) | {"%laneid", "%cluster_ctarank", "%cluster_nctarank", *(f"%lanemask_{of}" for of in ("eq", "le", "lt", "ge", "gt"))}
"""The special registers that a kernel may read."""


def special(
    threads: Threads, block: tuple[int, int, int], grid: tuple[int, int, int], cluster: int
) -> dict[str, np.ndarray]:
    """Return the special registers of a batch, whose clusters extend along x."""
    count, per_block = len(threads.blocks), threads.per_block
    rank, (x, y, z) = threads.blocks % cluster, _along(threads.blocks, grid)
    of_blocks = {
        "%cluster_ctarank": rank,
        "%cluster_nctarank": cluster,
        **_axes("ntid", block),
        **_axes("ctaid", (x, y, z)),
        **_axes("nctaid", grid),
        **_axes("cluster_ctaid", (rank, 0, 0)),
        **_axes("cluster_nctaid", (cluster, 1, 1)),
        **_axes("clusterid", (x // cluster, y, z)),
        **_axes("nclusterid", (grid[0] // cluster, *grid[1:])),
    }
    thread = np.arange(per_block, dtype=np.int64)
    of_threads = {"%laneid": thread % WARP, **_axes("tid", _along(thread, block))}
    values = {name: np.atleast_1d(value).astype(np.uint32) for name, value in (of_blocks | of_threads).items()}
    values |= {name: np.repeat(values[name], per_block) for name in of_blocks if values[name].size == count > 1}
    values |= {name: np.tile(values[name], count) for name in of_threads if values[name].size == per_block > 1}
    return values


def _along(number: np.ndarray, shape: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """Return linear indices as indices along x, y and z, a single 0 where the extent is 1."""
    if shape[1] == shape[2] == 1:
        return number, 0, 0
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def _axes(name: str, values: tuple[Any, Any, Any]) -> dict[str, Any]:
    return {f"%{name}.{axis}": value for axis, value in zip("xyz", values, strict=True)}


class RegisterFile:
    """The registers of a batch. Each is an array with an element per lane, or one element that all lanes share.

    Parameters
    ----------
    threads : Threads
    values : dict of str to array
        The registers that have a value from the start.
    accumulators : Accumulators, optional
        The registers that a running ``wgmma`` uses.
    faults : FaultWriter
    """

    def __init__(
        self,
        threads: Threads,
        values: dict[str, np.ndarray],
        accumulators: Accumulators | None,
        faults: FaultWriter,
    ) -> None:
        self.threads, self.values, self.accumulators, self.faults = threads, values, accumulators, faults
        self.size = threads.size

    def read(self, name: str, dtype: np.dtype, lanes: Lanes, instruction: Instruction) -> np.ndarray:
        """Return the value of a register that the instruction reads, as that type."""
        value = self.values.get(name)
        if value is None:
            value = self._without_value(name, lanes, instruction)
        if value.dtype is not dtype:
            if value.dtype.itemsize > dtype.itemsize:  # PTX takes the low bits of a wider register
                value = value.astype(f"u{dtype.itemsize}")
            value = value.view(dtype)
        return value if lanes is None or value.size == 1 else value[lanes]

    def has(self, name: str) -> bool:
        """Return whether a lane has written a register."""
        return name in self.values or bool(self.accumulators and name in self.accumulators.held)

    def _without_value(self, name: str, lanes: Lanes, instruction: Instruction) -> np.ndarray:
        """Return the value of a register that is computed when it is read, or that other lanes' wgmma uses."""
        if name.startswith("%lanemask_"):
            below = (1 << self.values["%laneid"].astype(np.int64)) - 1
            masks = {"eq": below + 1, "lt": below, "le": 2 * below + 1, "ge": ~below, "gt": ~(2 * below + 1)}
            return masks[name.rpartition("_")[2]].astype(np.uint32)
        if self.accumulators and name in self.accumulators.held:
            return self.accumulators.touch(name, lanes, "reads")
        raise Violation("uninitialised", 0, f"reads {name}, which nothing wrote: {instruction.text}")

    def write(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a register a value in the active lanes.

        Raises
        ------
        SimulationFault
            A wgmma that has not been waited for uses the register; the fault names the wgmma's line.
        """
        if self.accumulators and name in self.accumulators.held:
            self._write_held(name, value, lanes)
            return
        if lanes is not None:
            before = self.values.get(name)
            if before is None or before.size < self.size:
                rest = np.zeros(1, value.dtype) if before is None else before.view(value.dtype)
                whole = rest.repeat(self.size)
            else:
                whole = before.view(value.dtype).copy()
            whole[lanes] = value
            value = whole
        self.values[name] = value

    def write_all(self, names: list[str], values: Iterable[np.ndarray], lanes: Lanes) -> None:
        """Give registers a value each in the active lanes, as `write` does."""
        if lanes is None and not (self.accumulators and self.accumulators.held):
            self.values.update(zip(names, values, strict=True))
            return
        for name, value in zip(names, values, strict=True):
            self.write(name, value, lanes)

    def _write_held(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a value to a register that other lanes' wgmma uses."""
        line = self.accumulators.held[name].line
        try:
            held = self.accumulators.touch(name, lanes, "something writes")
        except Violation as violation:
            raise self.faults.complete(violation, line, lanes) from None
        held[self.threads.places(lanes)] = value.view(held.dtype)

    def split(self, instruction: Instruction, lanes: Lanes) -> tuple[Lanes, Lanes]:
        """Return the lanes for which the instruction's guard holds, and the others."""
        if not instruction.guard:
            return lanes, NONE
        name, wanted = instruction.guard
        holds = self.read(name, DTYPES["pred"], lanes, instruction)
        count = np.count_nonzero(holds)  # faster than all() and any()
        if count in (0, holds.size):
            return (lanes, NONE) if wanted == (count > 0) else (NONE, lanes)
        yes, no = self.threads.among(lanes, holds), self.threads.among(lanes, ~holds)
        return (yes, no) if wanted else (no, yes)
