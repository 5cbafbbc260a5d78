"""Records the blocks of each kernel that fit on an SM by CUDA's own count, to check `model.occupancy` against it."""

from collections.abc import Iterator, Sequence

from cupy.cuda import driver

from sgemm_tutorial import gpu

from .. import variants
from ..measure.driver import Item, Plan
from ..records.checks import Fit
from ..records.files import Recording


def plan() -> Plan:
    """Return the plan of the recording: every variant, and every kernel with fixed settings."""
    kernels = dict.fromkeys((*variants.FIXED, *variants.EVERY))
    return Plan("occupancy", Recording[Fit], [(kernel,) for kernel in kernels], measure)


def measure(missing: Sequence[Item]) -> Iterator[Fit]:
    """Ask ``cuOccupancyMaxActiveBlocksPerMultiprocessor`` of each kernel."""
    for (kernel,) in missing:
        function = gpu.load(kernel.instance).ptr
        blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(function, kernel.threads, kernel.dynamic_shared_bytes)
        yield Fit.of(kernel, blocks_per_sm=blocks)
