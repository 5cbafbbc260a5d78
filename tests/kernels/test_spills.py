"""No kernel keeps in memory what belongs in registers, on any architecture it is for."""

import pytest

from lab import limits_of, resources
from sgemm_tutorial import CATALOGUE, ArgumentError

from ..together import for_each

ARCHITECTURES = {
    "sm_75": (7, 5),
    "sm_80": (8, 0),
    "sm_86": (8, 6),
    "sm_89": (8, 9),
    "sm_90": (9, 0),
    "sm_100": (10, 0),
    "sm_120": (12, 0),
}


@for_each(kernel=CATALOGUE, architecture=ARCHITECTURES)
def test_nothing_spills(kernel, architecture):
    least = kernel.least_capability
    if ARCHITECTURES[architecture] < least or (kernel.exact and ARCHITECTURES[architecture] != least):
        needs = "sm_90" if kernel.exact else "sm_80 or later"
        with pytest.raises(ArgumentError, match=rf"architecture: got {architecture}, needs {needs} for {kernel.name}$"):
            resources(kernel, architecture)
        return
    used = resources(kernel, architecture)
    assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0)
    assert used.registers * kernel.threads * kernel.parameters.get("BLOCKS", 1) <= 65_536
    assert used.shared_bytes <= limits_of(architecture).max_shared_per_block
