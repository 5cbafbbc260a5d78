"""Lists all recordings with their plans, and which of them may be made at the same time."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sgemm_tutorial.catalogue import CATALOGUE, LADDER, find
from sgemm_tutorial.kernel import Kernel

from .. import variants
from ..measure.bench import plan
from ..measure.driver import Plan
from ..records.shapes import FITTED_TO, HELD_OUT, LAYERS, SHAPES, SQUARES
from ..records.sizes import Size, sizes_of
from . import (
    accuracy,
    anatomy,
    banks,
    ceilings,
    checksums,
    clocks,
    counters,
    fuzz,
    launch_cost,
    occupancy,
    profiles,
    sanitizer,
    split_errors,
    sustained,
    tune,
    two_gpus,
    wavefronts,
)

FIXED = [kernel for kernel in LADDER if not kernel.family.chooses]
"""The rungs whose settings are the same at every size."""

SIZES = sizes_of((128, *range(256, 4097, 128)))
"""Square problems that these are timed at: those of the sweep in ``published-results.csv``, and a smaller one."""

COLD_SIZES = sizes_of((128, 256, 512, 1024, 1536, 2048))
"""Square problems at which every rung is timed with a cold L2 cache."""

OTHER_SIZES = sizes_of((256, 512, 1024, 2048, 4096))
"""Square problems at which the kernels beside the ladder are timed."""

ADDED = ("autotuned", "mma", "tf32x3_wgmma", "persistent", "any_shape")
ADDED_SIZES = sizes_of((512, 1024, *range(1536, 4097, 512), 8192))
"""Kernels and square problems that are timed with C added to as well, β = 1."""

PITCHES = sizes_of([*((2048, 2048, K) for K in (2048, 2049, 2052, 2056, 2080)), (2048, 2049, 2048)])
"""Problems at which kernels without shared memory are timed: their rows start in different banks of the L1 cache."""

STEPS = (*variants.STEPS, *variants.STEPS_TESTED, variants.STEP_IN_FP64, *variants.STEPS_NOT_COUNTED)
STEP_SIZES = sizes_of([(4096, 4096, 4096), (3168, 4096, 4096)])
"""Kernel 23 and its steps, and where they are timed: the second problem is a whole number of rounds, with three or with
four blocks on each of 132 SMs."""

SAMPLING: dict[str, Any] = {"samples": 15, "least_samples": 7, "seconds": 0.25, "warm_s": (0.05, 0.1)}
IN_THREE: dict[str, Any] = {"samples": 11, "least_samples": 5, "seconds": 0.12, "warm_s": (0.05, 0.1)}
IN_SHORT: dict[str, Any] = {"samples": 7, "least_samples": 5, "seconds": 0.08, "warm_s": (0.02, 0.04)}
"""The ways to sample times: by one process, by three processes together, and where there are many sizes.

The GPU is busy all the time, so its clocks stay settled once they have settled at the start of the process.
"""


def _timed(name: str, kernels: Iterable[Kernel], sizes: Sequence[Size], **more: Any) -> Plan:
    sampling = IN_SHORT if more.get("search") else IN_THREE if more.get("processes", 1) > 1 else SAMPLING
    kernels = [kernel.family.itself(kernel) for kernel in kernels]
    return plan(name, [(kernel, size) for size in sizes for kernel in kernels], **sampling, **more)


FULL = sizes_of(4096)
LARGE = sizes_of((2048, 3072, 8192))
"""Other square problems that keep tensor cores busy."""
BETWEEN = sizes_of((2560, 3584, 5120, 6144, 7168))
"""More sizes for 20, whose different widths of tiles suit some of them better than others."""


def _tensor() -> Plan:
    """Return the plan of times of `variants.TENSOR` at full size and in BF16, and without 15 at other sizes."""
    items = [(kernel, size) for size in FULL for kernel in (*variants.TENSOR, *variants.IN_BF16)]
    items += [(kernel, size) for size in LARGE for kernel in variants.TENSOR if kernel not in variants.PADDED_TILES]
    return plan("tensor", items, **IN_SHORT)


def _hopper(name: str) -> Plan:
    """Return the plan of times of 18, 19 and 20 with its steps and widths, by three processes, as power differs.

    Two recordings hold them: what differs between the two is chance.
    """
    items = [(kernel, size) for size in (*FULL, *LARGE) for kernel in variants.HOPPER]
    widths = (find("persistent"), *variants.HOPPER_STEPS[1:], *variants.HOPPER_WIDTHS)
    items += [(kernel, size) for size in BETWEEN for kernel in widths]
    return plan(name, items, processes=3, **IN_THREE)


AWKWARD = [(256, 256, 16384), (1, 4096, 4096), (64, 4096, 4096), (333, 777, 1999), (4095, 4095, 4095)]
"""Problems with few tiles and a long K, with few rows, and with rows that begin anywhere."""
WRITTEN = sizes_of([(65536, 128, 128), (8192, 8192, 64), (4096, 4096, 4096)])
"""Problems at which 22 is timed with a C of 16 bits whose sums go through shared memory."""


def _any_shape() -> Plan:
    """Return the plan of times of 22 at all shapes, and at some of them without a part of what it does, and of 20.

    BF16 and a C of 16 bits are timed at every third shape, and the latter at a network's layers.
    """
    sizes, short = sizes_of([256, 512, 1024, *AWKWARD]), find("any_shape", BITS=16)
    items = [(find("any_shape"), size) for size in (*SQUARES, *SHAPES, *sizes)]
    items += [(kernel, size) for size in SHAPES[::3] for kernel in (find("any_shape", T="__nv_bfloat16"), short)]
    items += [(short, size) for size in LAYERS]
    items += [(kernel, size) for size in sizes for kernel in (*variants.ANY_SHAPE, find("persistent"))]
    items += [(kernel, size) for size in WRITTEN for kernel in (short, variants.THROUGH_PATCH)]
    items += [(kernel, AWKWARD[0]) for kernel in (variants.WHOLE, variants.OVERLAP[AWKWARD[0]][-1])]
    return plan("any_shape", list(dict.fromkeys(items)), search=True, **IN_SHORT)


TIMES: dict[str, Callable[[], Plan]] = {
    "ladder": lambda: _timed("ladder", FIXED, SIZES, processes=3),
    "added": lambda: _timed("added", [*map(find, ADDED), variants.FOUR_BY_FOUR], ADDED_SIZES, processes=3, beta=1.0),
    "cold": lambda: _timed("cold", FIXED, COLD_SIZES, flush_l2=True),
    "variants": lambda: _timed("variants", dict.fromkeys((*variants.VARIANTS, *variants.YOUR_KERNEL)), FULL),
    "resident": lambda: _timed("resident", variants.RESIDENT, FULL),
    "pitch": lambda: _timed("pitch", (find("naive"), find("coalesced")), PITCHES),
    "others": lambda: _timed("others", CATALOGUE[len(LADDER) :], OTHER_SIZES, processes=3),
    "fragments": lambda: _timed("fragments", variants.FRAGMENTS, FULL),
    "tensor": _tensor,
    "hopper": lambda: _hopper("hopper"),
    "hopper_again": lambda: _hopper("hopper_again"),
    # 19 before 20: elsewhere 20 comes first.
    "order": lambda: plan(
        "order",
        [(find(name), size) for size in (*LARGE[-1:], *FULL) for name in ("producer_warp", "persistent")],
        processes=3,
        **IN_THREE,
    ),
    "sustained": sustained.plan,
    "lasting": sustained.lasting_plan,
    "clocks": clocks.plan,
    "two_gpus": two_gpus.plan,
    "reach": two_gpus.reach_plan,
    "tune": lambda: tune.plan((*SQUARES, *SHAPES)),
    "tune_22": lambda: tune.tensor_plan((*SQUARES, *SHAPES, *LAYERS, *FITTED_TO)),
    "squares": lambda: _timed("squares", (find("autotuned"),), SQUARES, search=True),
    "shapes": lambda: _timed("shapes", (find("autotuned"),), SHAPES, search=True),
    "random": tune.random_plan,
    "random_22": lambda: tune.random_plan("random_22", tune.ON_TENSOR_CORES, HELD_OUT),
    "any_shape": _any_shape,
    "overlap": lambda: plan(
        "overlap", [(kernel, size) for size, kernels in variants.OVERLAP.items() for kernel in kernels], **SAMPLING
    ),
    # 21 as it is called: it leaves to 13 what 13 does more quickly.
    "fastest": lambda: plan(
        "fastest", [(find("tf32x3_wgmma"), size) for size in (*SQUARES, *SHAPES[::3])], search=True, **IN_SHORT
    ),
    "steps": lambda: _timed("steps", STEPS, STEP_SIZES, processes=3),
    "launch_cost": launch_cost.plan,
    "ceilings": ceilings.plan,
    "banks": banks.plan,
}
"""Recordings of times, for which the GPU must do nothing else."""

COUNTS: dict[str, Callable[[], Plan]] = {
    "counters": counters.plan,
    "sectors": counters.sectors_plan,
    "profiles": profiles.plan,
    "variant_profiles": profiles.variants_plan,
    "wavefronts": wavefronts.plan,
    "anatomy": anatomy.plan,
}
"""Recordings of Nsight Compute's counters, for which the GPU must do nothing else either."""

CHECKS: dict[str, Callable[[], Plan]] = {
    "checksums": checksums.plan,
    "occupancy": occupancy.plan,
    "accuracy": accuracy.plan,
    "split_errors": split_errors.plan,
    "fuzz": fuzz.plan,
    "sanitizer": sanitizer.plan,
}
"""Recordings that may be made at the same time."""

RECORDINGS = TIMES | COUNTS | CHECKS
GROUPS = {"times": TIMES, "counts": COUNTS, "checks": CHECKS}
TOGETHER = (("checksums", "occupancy", "accuracy", "split_errors"), ("fuzz",), ("sanitizer",))
"""The recordings of `CHECKS` by the processes that make them."""
NEEDS = dict.fromkeys(COUNTS, "ncu") | {"sanitizer": "compute-sanitizer"}
"""Programs that a recording needs."""
ON_TWO = ("two_gpus", "reach")
"""The recordings that need two GPUs."""
