"""What the GPUs named in this book can hold and do: limits by compute capability, and some boards.

Sources of the limits: CUDA Programming Guide 13, appendix "Compute Capabilities", table "Memory Information
per Compute Capability" and its neighbours; allocation granularities as in the CUDA occupancy calculator
(``cuda_occupancy.h`` of the CUDA toolkit). Sources of the boards: NVIDIA's data sheets and architecture
white papers; L2 sizes as CUDA reports them (``cudaDeviceProp::l2CacheSize``).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from ptxsim.limits import THREADS_MAX as THREADS_MAX
from ptxsim.limits import WARP as WARP

from .errors import ArgumentError
from .table import Table

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Limits:
    """What one streaming multiprocessor (SM) of a compute capability holds.

    Attributes
    ----------
    architecture : str
        For example ``"sm_86"``.
    fp32_lanes : int
        FP32 fused multiply-adds the SM can start per clock.
    max_threads_per_sm, max_blocks_per_sm : int
        Resident at once.
    shared_per_sm, max_shared_per_block : int
        Bytes of shared memory; more than 48 KiB per block only where the kernel opts in.
    shared_reserved_per_block : int
        Bytes that the system takes from every resident block.
    shared_granularity : int
        Bytes; a block's shared memory is rounded up to a multiple of it.
    registers_per_sm : int
        32-bit registers.
    register_granularity : int
        Registers; a warp's are rounded up to a multiple of it.
    warp_granularity : int
        The partitions of the SM. Each has an equal part of the registers and runs whole warps.
    """

    architecture: str
    fp32_lanes: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_per_sm: int
    max_shared_per_block: int
    shared_reserved_per_block: int = 1 * KIB
    shared_granularity: int = 128
    registers_per_sm: int = 65_536
    register_granularity: int = 256
    warp_granularity: int = 4
    max_threads_per_block: int = 1024
    max_registers_per_thread: int = 255

    @property
    def max_warps_per_sm(self) -> int:
        """Warps resident at once, which is what occupancy is a fraction of."""
        return self.max_threads_per_sm // WARP


LIMITS = {
    limits.architecture: limits
    for limits in (
        #      architecture lanes threads blocks shared memory per SM and per block
        Limits("sm_61", 128, 2048, 32, 96 * KIB, 48 * KIB, shared_reserved_per_block=0, shared_granularity=256),
        Limits("sm_75", 64, 1024, 16, 64 * KIB, 64 * KIB, shared_reserved_per_block=0, shared_granularity=256),
        Limits("sm_80", 64, 2048, 32, 164 * KIB, 163 * KIB),
        Limits("sm_86", 128, 1536, 16, 100 * KIB, 99 * KIB),
        Limits("sm_89", 128, 1536, 24, 100 * KIB, 99 * KIB),
        Limits("sm_90", 128, 2048, 32, 228 * KIB, 227 * KIB),
        Limits("sm_100", 128, 2048, 32, 228 * KIB, 227 * KIB),
        Limits("sm_120", 128, 1536, 24, 100 * KIB, 99 * KIB),
    )
}


@dataclass(frozen=True)
class Gpu:
    """A board.

    Attributes
    ----------
    name : str
        As the book calls it, for example ``"RTX 3080"``.
    limits : Limits
        What each of its SMs holds.
    sms : int
        Streaming multiprocessors.
    boost_mhz : int
        Highest clock that the data sheet states, in MHz.
    bandwidth_gbs : int
        Peak bandwidth of its memory, in GB/s (10⁹ bytes).
    l2_bytes : int
        Size of the L2 cache.
    """

    name: str
    limits: Limits
    sms: int
    boost_mhz: int
    bandwidth_gbs: int
    l2_bytes: int

    @property
    def architecture(self) -> str:
        """What to compile for, for example ``"sm_86"``."""
        return self.limits.architecture

    @property
    def fp32_tflops(self) -> float:
        """Peak FP32 rate in TFLOP/s, 2 FLOP × lanes × SMs × boost clock."""
        return 2 * self.limits.fp32_lanes * self.sms * self.boost_mhz / 1e6


GPUS = (
    #                                   SMs   MHz   GB/s  L2
    Gpu("GTX 1050", LIMITS["sm_61"], 5, 1455, 112, 1 * MIB),
    Gpu("T4", LIMITS["sm_75"], 40, 1590, 320, 4 * MIB),
    Gpu("RTX 3060", LIMITS["sm_86"], 28, 1777, 360, 2304 * KIB),
    Gpu("RTX 3080", LIMITS["sm_86"], 68, 1710, 760, 5 * MIB),
    Gpu("RTX 3090", LIMITS["sm_86"], 82, 1695, 936, 6 * MIB),
    Gpu("RTX A6000", LIMITS["sm_86"], 84, 1800, 768, 6 * MIB),
    Gpu("A100 SXM", LIMITS["sm_80"], 108, 1410, 2039, 40 * MIB),
    Gpu("RTX 4090", LIMITS["sm_89"], 128, 2520, 1008, 72 * MIB),
    Gpu("H100 SXM", LIMITS["sm_90"], 132, 1980, 3350, 50 * MIB),
    Gpu("H200 SXM", LIMITS["sm_90"], 132, 1980, 4800, 60 * MIB),
    Gpu("B200", LIMITS["sm_100"], 148, 1965, 8000, 129_536 * KIB),
    Gpu("RTX 5090", LIMITS["sm_120"], 170, 2407, 1792, 96 * MIB),
)


def find_gpu(name: str) -> Gpu:
    """Return the board of that name; its start ("H100") will do where only one fits.

    Raises
    ------
    ArgumentError
        There is none; the message suggests the nearest name.
    """
    wanted = str(name).casefold().strip()
    boards = {gpu.name.casefold(): gpu for gpu in GPUS}
    if wanted in boards:
        return boards[wanted]
    fitting = [gpu for key, gpu in boards.items() if wanted and key.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    near = difflib.get_close_matches(wanted, boards, n=1, cutoff=0.4)
    hint = f"; did you mean {boards[near[0]].name!r}?" if near else ""
    raise ArgumentError("name", repr(name), f"one of {', '.join(gpu.name for gpu in GPUS)}{hint}")


def limits_of(architecture: str) -> Limits:
    """Return the limits of an architecture such as ``"sm_90"`` (or ``"sm_90a"``).

    Raises
    ------
    ArgumentError
        The architecture is not in the table.
    """
    base = re.sub(r"(?<=\d)[af]$", "", str(architecture))
    if base not in LIMITS:
        raise ArgumentError("architecture", repr(architecture), f"one of {', '.join(LIMITS)}")
    return LIMITS[base]


def gpus_table() -> Table:
    """Return the boards with their peaks."""
    return Table(
        ("GPU", "Architecture", "SMs", "FP32 TFLOP/s", "GB/s", "FLOP per byte", "L2 MiB"),
        [
            (
                gpu.name,
                gpu.architecture,
                gpu.sms,
                gpu.fp32_tflops,
                gpu.bandwidth_gbs,
                1000 * gpu.fp32_tflops / gpu.bandwidth_gbs,
                gpu.l2_bytes / MIB,
            )
            for gpu in GPUS
        ],
        title="The GPUs of this book, from their data sheets",
    )


def limits_table() -> Table:
    """Return what one SM of each architecture holds."""
    return Table(
        ("Architecture", "Threads", "Blocks", "Registers", "Shared KiB", "Shared KiB per block", "FFMA per clock"),
        [
            (
                limits.architecture,
                limits.max_threads_per_sm,
                limits.max_blocks_per_sm,
                limits.registers_per_sm,
                limits.shared_per_sm // KIB,
                limits.max_shared_per_block // KIB,
                limits.fp32_lanes,
            )
            for limits in LIMITS.values()
        ],
        title="What one SM holds",
    )
