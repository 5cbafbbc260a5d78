"""What makes the book's figures: experiments with their recordings, models, pictures and players."""

from ptxsim.counting import wavefronts
from sgemm_tutorial import compiler, tuned
from sgemm_tutorial.hardware import limits_of

from . import boards, chapters, compiled, draw, several, variants
from .accesses import owners, request
from .boards import find_gpu, gpus_table, limits_table
from .launching import launch
from .measure.here import bench_or_recording
from .model import predictions, roofline, waves
from .model.occupancy import occupancy
from .model.resources import kernel_occupancy, resources, resources_table
from .model.sass import hot_loop, sass, sass_mix, sass_table
from .paths import RESULTS
from .records import ceilings, counters, profiles, published
from .records.ceilings import card
from .records.scoreboard import scoreboard
from .records.timings import climb, recorded
from .source import diff, show
from .variants import find_variant

compiler.known = compiled.known
tuned.TABLES.extend(sorted(RESULTS.glob("*/tune.json")))

__all__ = [
    "RESULTS",
    "bench_or_recording",
    "boards",
    "card",
    "ceilings",
    "chapters",
    "climb",
    "counters",
    "diff",
    "draw",
    "find_gpu",
    "find_variant",
    "gpus_table",
    "hot_loop",
    "kernel_occupancy",
    "launch",
    "limits_of",
    "limits_table",
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
    "variants",
    "wavefronts",
    "waves",
]
