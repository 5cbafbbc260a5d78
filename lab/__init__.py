"""The laboratory behind the book's figures: checks, experiments with their recordings, models, pictures and players."""

from . import interrupts  # noqa: F401 - first, as the other imports take seconds

# isort: split
from ptxsim import swizzled, wavefronts
from sgemm_tutorial import compiler, timing, tuned
from sgemm_tutorial.hardware import limits_of

from . import boards, chapters, correctness, draw, several, variants
from .accesses import owners, request
from .boards import find_gpu
from .correctness import check, suite
from .experiments import (
    accuracy,
    ceilings,
    checksums,
    clocks,
    counters,
    launch_cost,
    profiles,
    split_errors,
    sustained,
    tune,
    two_gpus,
)
from .experiments.ceilings import card
from .guessing import kernel_from
from .launching import launch
from .measure import sensors
from .measure.bench import bench_or_recording
from .model import compiled, predictions, roofline, waves
from .model.occupancy import occupancy
from .model.resources import kernel_occupancy, loops_table, resources, resources_table
from .model.sass import hot_loop, sass, sass_mix, sass_table
from .paths import RESULTS
from .records import cards, files, published, shapes
from .records.timings import climb, recorded
from .source import Source, diff, show
from .variants import IN_BF16, STEPS, find_variant

compiler.known = compiled.recorded
timing.watch = sensors.read
tuned.TABLES.extend(sorted(RESULTS.glob("*/tune*.json")))

__all__ = [
    "IN_BF16",
    "RESULTS",
    "STEPS",
    "Source",
    "accuracy",
    "bench_or_recording",
    "boards",
    "card",
    "cards",
    "ceilings",
    "chapters",
    "check",
    "checksums",
    "climb",
    "clocks",
    "correctness",
    "counters",
    "diff",
    "draw",
    "files",
    "find_gpu",
    "find_variant",
    "hot_loop",
    "kernel_from",
    "kernel_occupancy",
    "launch",
    "launch_cost",
    "limits_of",
    "loops_table",
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
    "several",
    "shapes",
    "show",
    "split_errors",
    "suite",
    "sustained",
    "swizzled",
    "tune",
    "two_gpus",
    "variants",
    "wavefronts",
    "waves",
]
