"""Occupancy: how many blocks of a kernel fit on a streaming multiprocessor (SM), and what stops one more."""

from dataclasses import dataclass

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP, Limits
from sgemm_tutorial.table import Table, Tabular

from ..boards import Gpu


@dataclass(frozen=True, repr=False)
class Occupancy(Tabular):
    """The blocks and warps of a kernel that fit on an SM, and the resource that limits them.

    Attributes
    ----------
    blocks_per_sm, warps : int
        Resident at once. No blocks: the kernel cannot be launched.
    fraction : float
        `warps` over the warps that the SM could hold.
    needs, has : dict of str to int
        What one block takes of each resource, rounded up as the hardware does, and what the SM has:
        threads, registers, bytes of shared memory and block slots.
    limits : dict of str to int
        How many blocks each resource allows; the least of them is `blocks_per_sm`.
    limiter : str
        The resource or resources that allow the fewest.
    """

    blocks_per_sm: int
    warps: int
    fraction: float
    needs: dict[str, int]
    has: dict[str, int]
    limits: dict[str, int]
    limiter: str

    def table(self) -> Table:
        """Return each limit in a row."""
        return Table(
            ("Resource", "A block takes", "An SM has", "Blocks"),
            [
                (name + ", bytes" * (name == "shared memory"), self.needs[name], self.has[name], self.limits[name])
                for name in self.limits
            ],
            title="Occupancy: how many blocks fit on an SM",
            note=f"{self.warps} of {self.has['threads'] // WARP} warps: {self.fraction:.0%}, limited by {self.limiter}",
        )


def occupancy(threads: int, registers: int, shared_bytes: int, gpu: Gpu | Limits) -> Occupancy:
    """Return how many blocks fit on one SM, as the CUDA occupancy calculator counts.

    Warps are given out whole. A warp's registers are rounded up to 256 and come from the one quarter of
    the SM that runs the warp; a block's shared memory is rounded up, with what the system reserves for
    it (the rules of ``cuda_occupancy.h`` in the CUDA toolkit).

    Parameters
    ----------
    threads : int
        Per block.
    registers : int
        Per thread.
    shared_bytes : int
        Per block, static and dynamic together.
    gpu : Gpu or Limits
        Occupancy depends on the GPU's limits only, not on how many SMs it has.

    Raises
    ------
    ArgumentError
        More than any block may have.
    """
    limits = gpu.limits if isinstance(gpu, Gpu) else gpu
    for name, value, least, most in (
        ("threads", threads, 1, limits.max_threads_per_block),
        ("registers", registers, 1, limits.max_registers_per_thread),
        ("shared_bytes", shared_bytes, 0, limits.max_shared_per_block),
    ):
        if not least <= value <= most:
            raise ArgumentError(name, str(value), f"{least} to {most} on {limits.architecture}")

    warps = -(-threads // WARP)
    warp_registers = _round_up(registers * WARP, limits.register_granularity)
    shared = _round_up(shared_bytes + limits.shared_reserved_per_block, limits.shared_granularity)
    needs = {"threads": warps * WARP, "registers": warps * warp_registers, "shared memory": shared, "block slots": 1}
    has = {
        "threads": limits.max_threads_per_sm,
        "registers": limits.registers_per_sm,
        "shared memory": limits.shared_per_sm,
        "block slots": limits.max_blocks_per_sm,
    }

    allowed = {name: has[name] // needs[name] if needs[name] else has["block slots"] for name in needs}
    partition = limits.registers_per_sm // limits.warp_granularity
    allowed["registers"] = partition // warp_registers * limits.warp_granularity // warps

    blocks = min(allowed.values())
    limiter = " and ".join(name for name in allowed if allowed[name] == blocks and needs[name])
    return Occupancy(
        blocks, blocks * warps, blocks * warps * WARP / limits.max_threads_per_sm, needs, has, allowed, limiter
    )


def _round_up(value: int, granularity: int) -> int:
    return -(-value // granularity) * granularity
