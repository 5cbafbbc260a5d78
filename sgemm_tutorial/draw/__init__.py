"""Pictures: of a kernel's tiles, of a simulated run's accesses, and of recorded measurements.

`figure` makes the SVG, `maps` draws matrices, `memories` what memories there are, `grid`, `owners`, `outer` and
`fragments` draw who has what, `requests` draws requests to memory, `timeline` draws what happens when, and `charts`
draws numbers.
Each picture is drawn from data alone and says in words what it shows, for readers who don't see it.
"""

from .charts import by_size, ladder, lines, prediction, roofline, scaling
from .figure import Figure
from .fragments import fragment
from .grid import grid
from .maps import access_map, tiles
from .memories import memories
from .outer import outer_product
from .owners import hierarchy
from .requests import address_line, banks
from .timeline import timeline

__all__ = [
    "Figure",
    "access_map",
    "address_line",
    "banks",
    "by_size",
    "fragment",
    "grid",
    "hierarchy",
    "ladder",
    "lines",
    "memories",
    "outer_product",
    "prediction",
    "roofline",
    "scaling",
    "tiles",
    "timeline",
]
