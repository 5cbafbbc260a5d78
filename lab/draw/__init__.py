"""Pictures of a kernel's tiles, of a simulated run's accesses, and of recorded measurements.

`figure` makes the SVG, `maps` draws matrices, `memories` what memories there are, `grid`, `owners`, `outer`
and `layouts` draw who has what, `requests` draws requests to memory, `timeline` and `division` draw what
happens when, and `charts` and `climb` draw numbers. `player` makes pictures that move, or that a reader sets:
`reads` of a warp's requests, `tile_layouts` of a tile in shared memory, `tile_walk` of who has what of tiles, as
`staged` reads it off a trace, `pipeline` of the stages of a pipeline, `panels` of several GPUs.
Each picture is drawn from data alone and says in words what it shows, for readers who don't see it.
"""

from .calculator import calculator
from .charts import (
    by_size,
    ladder,
    lines,
    roofline,
    scaling,
)
from .climb import climb
from .division import division, parts
from .figure import Figure
from .grid import grid
from .layouts import chunks, fragment, held
from .lowering import lowering
from .maps import access_map, tiles
from .memories import memories
from .outer import outer_product
from .owners import hierarchy
from .panels import panels
from .pipeline import Ring, pipeline
from .player import (
    Area,
    Computed,
    Control,
    Layer,
    Pick,
    Player,
    Preset,
    film,
    looked_up,
)
from .reads import warp_reads
from .requests import address_line, banks
from .tile_layouts import TileAccess, TileLayout, bank_layouts
from .tile_walk import tile_walk
from .timeline import timeline

__all__ = [
    "Area",
    "Computed",
    "Control",
    "Figure",
    "Layer",
    "Pick",
    "Player",
    "Preset",
    "Ring",
    "TileAccess",
    "TileLayout",
    "access_map",
    "address_line",
    "bank_layouts",
    "banks",
    "by_size",
    "calculator",
    "chunks",
    "climb",
    "division",
    "film",
    "fragment",
    "grid",
    "held",
    "hierarchy",
    "ladder",
    "lines",
    "looked_up",
    "lowering",
    "memories",
    "outer_product",
    "panels",
    "parts",
    "pipeline",
    "roofline",
    "scaling",
    "tile_walk",
    "tiles",
    "timeline",
    "warp_reads",
]
