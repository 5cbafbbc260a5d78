"""Boards: the GPUs that this book speaks of, with what their data sheets say.

Sources: NVIDIA's data sheets and architecture white papers; L2 sizes as CUDA reports them
(``cudaDeviceProp::l2CacheSize``).
"""

import difflib
from dataclasses import dataclass

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import KIB, LIMITS, MIB, Limits


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
        """The architecture to compile for, for example ``"sm_86"``."""
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
