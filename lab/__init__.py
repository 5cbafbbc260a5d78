"""The laboratory behind the book's figures: checks, experiments with their recordings, models, pictures and players."""

from . import interrupts  # noqa: F401 - first, as the other imports take seconds

# isort: split
from ptxsim import sectors, swizzled, wavefronts
from sgemm_tutorial import compiler, timing, tuned
from sgemm_tutorial.hardware import limits_of

from . import boards, chapters, correctness, draw, several, variants
from .accesses import owners, request
from .boards import find_gpu
from .correctness import check, suite
from .diagnosis import diagnosis
from .experiments import (
    accuracy,
    anatomy,
    banks,
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
from .experiments.accuracy import error
from .experiments.ceilings import card
from .guessing import guessed, kernel_from
from .launching import launch
from .measure import sensors, sweep
from .measure.bench import bench_or_recording
from .model import compiled, predictions, roofline, waves
from .model.ceilings import ARITHMETIC, DRAM, MMA_FP16, MMA_TF32, READ
from .model.occupancy import occupancy
from .model.resources import kernel_occupancy, loops_table, obstacle, resources, resources_table
from .model.sass import hot_loop, operands, read_anew, sass, sass_class, sass_mix, sass_table
from .model.waves import tile_share, wave_share
from .paths import RESULTS
from .records import cards, checks, files, published, shapes
from .records.timings import climb, recorded
from .source import Source, diff, show
from .variants import (
    EVERY,
    FOUR_BY_FOUR,
    FRAGMENTS,
    HOPPER,
    HOPPER_STEPS,
    IN_BF16,
    PADDED_TILES,
    STEP_IN_FP64,
    STEPS,
    find_variant,
)

compiler.known = compiled.recorded
timing.watch = sensors.read
tuned.TABLES.extend(sorted(RESULTS.glob("*/tune*.json")))

__all__ = [
    "ARITHMETIC",
    "DRAM",
    "EVERY",
    "FOUR_BY_FOUR",
    "FRAGMENTS",
    "HOPPER",
    "HOPPER_STEPS",
    "IN_BF16",
    "MMA_FP16",
    "MMA_TF32",
    "PADDED_TILES",
    "READ",
    "RESULTS",
    "STEPS",
    "STEP_IN_FP64",
    "Source",
    "accuracy",
    "anatomy",
    "banks",
    "bench_or_recording",
    "boards",
    "card",
    "cards",
    "ceilings",
    "chapters",
    "check",
    "checks",
    "checksums",
    "climb",
    "clocks",
    "correctness",
    "counters",
    "diagnosis",
    "diff",
    "draw",
    "error",
    "files",
    "find_gpu",
    "find_variant",
    "guessed",
    "hot_loop",
    "kernel_from",
    "kernel_occupancy",
    "launch",
    "launch_cost",
    "limits_of",
    "loops_table",
    "obstacle",
    "occupancy",
    "operands",
    "owners",
    "predictions",
    "profiles",
    "published",
    "read_anew",
    "recorded",
    "request",
    "resources",
    "resources_table",
    "roofline",
    "sass",
    "sass_class",
    "sass_mix",
    "sass_table",
    "sectors",
    "several",
    "shapes",
    "show",
    "split_errors",
    "suite",
    "sustained",
    "sweep",
    "swizzled",
    "tile_share",
    "tune",
    "two_gpus",
    "variants",
    "wave_share",
    "wavefronts",
    "waves",
]
