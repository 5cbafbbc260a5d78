"""ptxsim runs PTX on NumPy arrays: without a GPU, bit for bit like one, with counts by source line and checks.

`run` runs a kernel and returns a `Run`. A check that fails raises `SimulationFault`; an instruction that the simulator
does not know raises `UnsupportedInstruction`. `compile` makes PTX of CUDA C++. The module `cuda_source` reads CUDA
sources: launches, signatures, constants. All other modules are the package's own.

Inside, `ptx` parses and `decode` turns each instruction into a function of a `Batch`, which is some blocks of the grid;
`scheduler` runs a batch and `machine` runs a grid of batches. `registers`, `memory`, `spaces` and `distributed` hold
data, `copies`, `proxy`, `accumulators`, `mbarriers` and `clusters` check asynchronous work, `counting` and `tracing`
observe. `history` knows what happened before what, `taint` what shuffles have left undefined. `instructions`,
`functions`, `rounding`, `fma`, `calls`, `atomics`, `exchange`, `sync`, `tensor`, `mma`, `wgmma` and `tma` know the
instructions.
"""

from . import cuda_source
from .compiling import Compiled, compile
from .counting import BANKS, SECTOR, Counts, by_warp, sectors, wavefronts
from .errors import ArgumentError, CompileError, Error, SimulationFault, UnsupportedInstruction
from .fma import fma32, fma64
from .limits import THREADS_MAX, WARP
from .machine import BUDGET, Machine, Run, run
from .mbarriers import BYTES as MBARRIER_BYTES
from .memory import Violation, past_alignment, require_aligned
from .mma import PLACES
from .progress import bar
from .ptx import Program, parse
from .tensor import multiply_accumulate
from .tensor_map import ALIGNMENT, SWIZZLE, TensorMap
from .tensor_map import BYTES as MAP_BYTES
from .tma import swizzled
from .tracing import Access, Event

__all__ = [
    "ALIGNMENT",
    "BANKS",
    "BUDGET",
    "MAP_BYTES",
    "MBARRIER_BYTES",
    "PLACES",
    "SECTOR",
    "SWIZZLE",
    "THREADS_MAX",
    "WARP",
    "Access",
    "ArgumentError",
    "CompileError",
    "Compiled",
    "Counts",
    "Error",
    "Event",
    "Machine",
    "Program",
    "Run",
    "SimulationFault",
    "TensorMap",
    "UnsupportedInstruction",
    "Violation",
    "bar",
    "by_warp",
    "compile",
    "cuda_source",
    "fma32",
    "fma64",
    "multiply_accumulate",
    "parse",
    "past_alignment",
    "require_aligned",
    "run",
    "sectors",
    "swizzled",
    "wavefronts",
]
