"""Launch, check, simulate, time and draw the kernels of the book."""

from . import correctness, cublas, draw, gpu, hardware, several, variants
from .accesses import owners, request
from .catalogue import CATALOGUE, LADDER, find
from .correctness import check, matrices, suite, summary
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .hardware import find_gpu, gpus_table, limits_of, limits_table
from .kernel import Kernel
from .launching import launch
from .measure import timing
from .measure.here import bench_or_recording
from .model import predictions, roofline, waves
from .model.occupancy import occupancy
from .model.resources import kernel_occupancy, resources, resources_table
from .model.sass import hot_loop, sass, sass_mix, sass_table
from .own import kernel_from
from .paths import RESULTS
from .records import ceilings, counters, profiles, published
from .records.ceilings import card
from .records.scoreboard import scoreboard
from .records.timings import climb, recorded
from .simulation import simulate
from .source import diff, show
from .table import Table
from .variants import find_variant

__all__ = [
    "CATALOGUE",
    "LADDER",
    "RESULTS",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "SimulationFault",
    "Table",
    "TutorialError",
    "UnsupportedInstruction",
    "bench_or_recording",
    "card",
    "ceilings",
    "check",
    "climb",
    "correctness",
    "counters",
    "cublas",
    "diff",
    "draw",
    "find",
    "find_gpu",
    "find_variant",
    "gpu",
    "gpus_table",
    "hardware",
    "hot_loop",
    "kernel_from",
    "kernel_occupancy",
    "launch",
    "limits_of",
    "limits_table",
    "matrices",
    "occupancy",
    "owners",
    "predictions",
    "profiles",
    "published",
    "recorded",
    "request",
    "resources",
    "resources_table",
    "roofline",
    "sass",
    "sass_mix",
    "sass_table",
    "scoreboard",
    "several",
    "show",
    "simulate",
    "suite",
    "summary",
    "timing",
    "variants",
    "waves",
]
