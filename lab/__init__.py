"""What makes the book's figures: experiments with their recordings, models, pictures and players."""

from sgemm_tutorial import compiler, hardware, tuned
from sgemm_tutorial.hardware import find_gpu, gpus_table, limits_of, limits_table
from sgemm_tutorial.source import show

from . import chapters, draw, several, variants
from .accesses import owners, request
from .measure.here import bench_or_recording
from .model import predictions, roofline, waves
from .model.occupancy import occupancy
from .model.resources import kernel_occupancy, resources, resources_table
from .model.sass import hot_loop, sass, sass_mix, sass_table
from .paths import RESULTS
from .records import cards, ceilings, compiled, counters, profiles, published, split_errors, sustained
from .records.ceilings import card
from .records.scoreboard import scoreboard
from .records.timings import climb, recorded
from .variants import find_variant

compiler.known = compiled.known
tuned.TABLES.extend(sorted(RESULTS.glob("*/tune.json")))

__all__ = [
    "RESULTS",
    "bench_or_recording",
    "card",
    "cards",
    "ceilings",
    "chapters",
    "climb",
    "counters",
    "draw",
    "find_gpu",
    "find_variant",
    "gpus_table",
    "hardware",
    "hot_loop",
    "kernel_occupancy",
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
    "split_errors",
    "sustained",
    "variants",
    "waves",
]
