"""Launch, check, simulate, time and draw the kernels of the book."""

from . import ceilings, cublas, draw, gpu, gpus, nsight, profile, published, quantisation, records, roofline, timing
from .bench import bench_or_recording, recorded
from .catalogue import CATALOGUE, LADDER, Kernel, find
from .compiler import build
from .correctness import check, matrices, suite, summary
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    SimulationFault,
    TutorialError,
    UnsupportedInstruction,
)
from .gpus import find_gpu, gpus_table, limits_of, limits_table
from .occupancy import occupancy
from .report import hot_loop, kernel_occupancy, resources, resources_table, sass, sass_mix, sass_table
from .simulator import simulate
from .source import diff, show
from .table import Table
from .trace import owners, request
from .variants import find_variant

__all__ = [
    "CATALOGUE",
    "LADDER",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Kernel",
    "SimulationFault",
    "Table",
    "TutorialError",
    "UnsupportedInstruction",
    "bench_or_recording",
    "build",
    "ceilings",
    "check",
    "cublas",
    "diff",
    "draw",
    "find",
    "find_gpu",
    "find_variant",
    "gpu",
    "gpus",
    "gpus_table",
    "hot_loop",
    "kernel_occupancy",
    "limits_of",
    "limits_table",
    "matrices",
    "nsight",
    "occupancy",
    "owners",
    "profile",
    "published",
    "quantisation",
    "recorded",
    "records",
    "request",
    "resources",
    "resources_table",
    "roofline",
    "sass",
    "sass_mix",
    "sass_table",
    "show",
    "simulate",
    "suite",
    "summary",
    "timing",
]
