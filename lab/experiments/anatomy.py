"""Records with Nsight Compute which kernels cuBLAS launches for a product, and how busy they keep the SMs.

The names of its kernels tell the tile, its depth and the number of stages. cuBLAS is column-major, so the rows of its
tiles are columns of our C. One process computes many products, with a marker kernel launched before each, so that every
launch can be assigned to its product.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, operands
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.errors import DeviceError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.timing import SPIN

from ..measure.driver import Item, Plan
from ..measure.nsight import made_on, number, profiled, program
from ..records import files
from ..records.files import Recording, Sized
from ..records.shapes import SQUARES
from ..records.sizes import Size
from . import profiles

METRICS = {
    "registers": "launch__registers_per_thread",
    "static shared bytes": "launch__shared_mem_per_block_static",
    "dynamic shared bytes": "launch__shared_mem_per_block_dynamic",
    "nanoseconds": "gpu__time_duration.sum",
}
"""Our name and Nsight Compute's of each metric of every launch."""

SIZES: tuple[Size, ...] = (
    *(size for size in SQUARES if size[0] <= 8192),
    *((1, 4096, 4096), (4096, 1, 4096), (16, 4096, 4096), (4096, 16, 4096), (64, 4096, 4096), (4096, 64, 4096)),
    *((64, 64, 16384), (256, 256, 65536), (65536, 64, 64), (4096, 4096, 16), (1023, 1023, 1023), (1024, 50257, 768)),
)
"""Products whose launches are recorded."""

CLOSELY: tuple[Size, ...] = tuple((n, n, n) for n in (256, 512, 1024, 2048, 2560, 4096))
"""Products for which `profiles.METRICS` are recorded too, of cuBLAS and of 13."""


@dataclass(frozen=True)
class ProfiledLaunch:
    """One kernel of a product.

    Attributes
    ----------
    name : str
        As Nsight Compute has it.
    grid, block : list of int
        Blocks and threads, in three dimensions.
    counts : dict of str to number
        By the names of `METRICS`, and of `profiles.METRICS` for the sizes in `CLOSELY`.
    """

    name: str
    grid: list[int] = field(hash=False)
    block: list[int] = field(hash=False)
    counts: dict[str, int | float] = field(hash=False)


@dataclass(frozen=True)
class Dissected(Sized):
    """The launches of one product, in order."""

    launches: list[ProfiledLaunch] = field(hash=False)

    @property
    def main(self) -> ProfiledLaunch:
        """The launch that takes longest."""
        return max(self.launches, key=lambda launch: launch.counts["nanoseconds"])


def of(what: Kernel | Gemm, size: Size) -> Dissected:
    """Return the recorded launches of a product by cuBLAS, or by a kernel as it is now.

    Raises
    ------
    ArgumentError
        It was not recorded.
    """
    return files.point("anatomy", Dissected, what, size)


AT_ONCE = 16
"""Products in one run of ncu: what is lost if it is broken off."""


def plan() -> Plan:
    """Return the plan of the recording: cuBLAS at all of `SIZES`, and 13 beside it at `CLOSELY`."""
    items = [(cublas.sgemm, size) for size in SIZES] + [(find("autotuned"), size) for size in CLOSELY]
    settings = {"metrics": METRICS, "closely": profiles.METRICS}
    return Plan("anatomy", Recording[Dissected], items, measure, settings, takes=0.9, made_on=made_on)


def measure(missing: Sequence[Item]) -> Iterator[Dissected]:
    """Yield the launches of each product, on this machine's GPU."""
    every = plan().items
    for closely in (False, True):
        items = [item for item in missing if (item[1] in CLOSELY) == closely]
        metrics = METRICS | (profiles.METRICS if closely else {})
        for first in range(0, len(items), AT_ONCE):
            now = items[first : first + AT_ONCE]
            products = divided(profiled(program("anatomy", *(every.index(item) for item in now)), metrics))
            if len(products) != len(now) or not all(products):
                raise DeviceError(f"ncu saw {list(map(len, products))} launches of {len(now)} products")
            for (what, size), rows in zip(now, products, strict=True):
                yield Dissected.of(what, size, launches=[launched(row, metrics) for row in rows])


def divided(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Return the rows between markers, a list for each product."""
    products: list[list[dict[str, str]]] = []
    for row in rows:
        if re.match(rf"(void )?{SPIN.function}\b", row["Kernel Name"]):
            products.append([])
        elif products:
            products[-1].append(row)
    return products


def launched(row: dict[str, str], metrics: dict[str, str]) -> ProfiledLaunch:
    """Return a launch as a row of ncu's describes it."""
    grid, block = (list(map(int, re.findall(r"\d+", row[f"{what} Size"]))) for what in ("Grid", "Block"))
    counts = {ours: number(row[theirs]) for ours, theirs in metrics.items()}
    return ProfiledLaunch(row["Kernel Name"], grid, block, counts)


def launch(items: Sequence[Item]) -> None:
    """Compute the product of each item, and launch a marker before it."""
    marker = gpu.load(SPIN.instance)
    for what, (M, N, K) in items:
        A, B = (cupy.asarray(_numbers(*shape)) for shape in ((M, K), (K, N)))
        queue = what.launcher(operands.check(A, B, None, 1.0, 0.0))
        marker((1,), (1,), (np.int64(1),))
        queue()
        cupy.cuda.get_current_stream().synchronize()


def _numbers(rows: int, columns: int) -> np.ndarray:
    """Return a matrix of random numbers that repeat: their values make no difference to what is launched."""
    return np.resize(np.random.default_rng(0).standard_normal(1_000_003, np.float32), (rows, columns))
