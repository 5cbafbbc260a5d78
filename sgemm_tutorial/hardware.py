"""Lists the limits of GPUs by compute capability: the threads, registers and memory of a multiprocessor, and its lanes.

Sources of the limits: CUDA Programming Guides 12 and 13, appendix "Compute Capabilities", table "Memory Information
per Compute Capability" and its neighbours; allocation granularities as in the CUDA occupancy calculator
(``cuda_occupancy.h`` of the CUDA toolkit).
"""

import re
from dataclasses import dataclass

from ptxsim import WARP as WARP

from .errors import ArgumentError

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Limits:
    """The limits of one streaming multiprocessor (SM) of a compute capability.

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


LIMITS = {
    limits.architecture: limits
    for limits in (
        #      architecture lanes threads blocks shared memory per SM and per block
        Limits("sm_60", 64, 2048, 32, 64 * KIB, 48 * KIB, 0, 256, warp_granularity=2),
        Limits("sm_61", 128, 2048, 32, 96 * KIB, 48 * KIB, 0, 256),
        Limits("sm_70", 64, 2048, 32, 96 * KIB, 96 * KIB, 0, 256),
        Limits("sm_75", 64, 1024, 16, 64 * KIB, 64 * KIB, 0, 256),
        Limits("sm_80", 64, 2048, 32, 164 * KIB, 163 * KIB),
        Limits("sm_86", 128, 1536, 16, 100 * KIB, 99 * KIB),
        Limits("sm_87", 128, 1536, 16, 164 * KIB, 163 * KIB),
        Limits("sm_89", 128, 1536, 24, 100 * KIB, 99 * KIB),
        Limits("sm_90", 128, 2048, 32, 228 * KIB, 227 * KIB),
        Limits("sm_100", 128, 2048, 32, 228 * KIB, 227 * KIB),
        Limits("sm_103", 128, 2048, 32, 228 * KIB, 227 * KIB),
        Limits("sm_110", 128, 1536, 24, 228 * KIB, 227 * KIB),
        Limits("sm_120", 128, 1536, 24, 100 * KIB, 99 * KIB),
        Limits("sm_121", 128, 1536, 24, 100 * KIB, 99 * KIB),
    )
}


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
