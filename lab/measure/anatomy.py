"""Records with Nsight Compute what cuBLAS launches for products, and for some how busy that keeps the SMs.

Between products a marker is launched, so that one process makes many and it is known whose a launch is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, operands
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import DeviceError
from sgemm_tutorial.timing import SPIN

from ..records import profiles
from ..records.anatomy import CLOSELY, METRICS, SIZES, Dissected, Launch
from ..records.files import Recording
from .driver import Item, Plan
from .nsight import made_on, number, profiled

AT_ONCE = 16
"""Products in one run of ncu: what is lost if it is broken off."""


def plan() -> Plan:
    """Return the plan of the recording: cuBLAS at all of `SIZES`, and 12 beside it at `CLOSELY`."""
    items = [(cublas.sgemm, size) for size in SIZES] + [(find("12"), size) for size in CLOSELY]
    settings = {"metrics": METRICS, "closely": profiles.METRICS}
    return Plan("anatomy", Recording[Dissected], items, measure, settings, takes=0.9, made_on=made_on)


def measure(missing: Sequence[Item]) -> Iterator[Dissected]:
    """Yield what is launched for each product, on this machine's GPU."""
    every = plan().items
    for closely in (False, True):
        items = [item for item in missing if (item[1] in CLOSELY) == closely]
        metrics = METRICS | (profiles.METRICS if closely else {})
        for first in range(0, len(items), AT_ONCE):
            now = items[first : first + AT_ONCE]
            command = ["-m", "lab.measure.anatomy", *(str(every.index(item)) for item in now)]
            products = divided(profiled(command, metrics))
            if len(products) != len(now) or not all(products):
                raise DeviceError(f"ncu saw {list(map(len, products))} launches of {len(now)} products")
            for (what, size), rows in zip(now, products, strict=True):
                yield Dissected.of(what, size, launches=[launch(row, metrics) for row in rows])


def divided(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Return the rows between markers, a list for each product."""
    products: list[list[dict[str, str]]] = []
    for row in rows:
        if re.match(rf"(void )?{SPIN.function}\b", row["Kernel Name"]):
            products.append([])
        elif products:
            products[-1].append(row)
    return products


def launch(row: dict[str, str], metrics: dict[str, str]) -> Launch:
    """Return what ncu says of a launch."""
    grid, block = (list(map(int, re.findall(r"\d+", row[f"{what} Size"]))) for what in ("Grid", "Block"))
    counts = {ours: number(row[theirs]) for ours, theirs in metrics.items()}
    return Launch(row["Kernel Name"], grid, block, counts)


def main(*places: str) -> None:
    """Compute these items of the plan, a marker before each: what ncu runs."""
    items, marker = plan().items, gpu.load(SPIN.instance)
    for place in map(int, places):
        what, (M, N, K) = items[place]
        A, B = (cupy.asarray(_numbers(*shape)) for shape in ((M, K), (K, N)))
        problem = operands.check(A, B, None, 1.0, 0.0)
        queue = what.launcher(problem)
        marker((1,), (1,), (np.int64(1),))
        queue()
        cupy.cuda.get_current_stream().synchronize()


def _numbers(rows: int, columns: int) -> np.ndarray:
    """Return a matrix of random numbers that repeat: which they are makes no difference here."""
    return np.resize(np.random.default_rng(0).standard_normal(1_000_003, np.float32), (rows, columns))


if __name__ == "__main__":
    main(*sys.argv[1:])
