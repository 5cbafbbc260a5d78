"""Chapter 12: which steps a block has, blocks in any order, and the time that is expected of equal shares."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from statistics import geometric_mean
from typing import Any

import numpy as np

import ptxsim
from ptxsim import Machine
from sgemm_tutorial import compiler, operands, simulator
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import SimulationFault
from sgemm_tutorial.families.autotuned import ADDING, MEETING
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.table import Table

from ..experiments import profiles
from ..experiments.ceilings import card
from ..model.resources import resources
from ..records.timings import Point, recorded
from . import by_size

BEFORE, KERNEL = find("11_async_pipeline"), find("12_stream_k")
TILE = KERNEL.parameters
PART = 4 * TILE["BM"] * TILE["BN"]
"""Bytes of a part of a tile's sum."""
FRESH = ("workspace", "C")
"""Arrays that hold nothing before the kernel writes them."""


def busiest(size: int) -> tuple[int, int]:
    """Return the multiply steps of the SM that has most of them, with a tile for each block and with equal shares."""
    tiles, steps, sms = KERNEL.grid(size, size), -(-size // TILE["BK"]), card().sms
    return -(-tiles // sms) * steps, -(-tiles * steps // sms)


def parts(size: int) -> list[int]:
    """Return into how many parts each tile's sum is cut."""
    steps, tiles = -(-size // TILE["BK"]), KERNEL.grid(size, size)
    total = tiles * steps
    shares = min(card().sms, total)
    owners = ((np.arange(total) + 1) * shares - 1) // total
    return [len(set(of)) for of in owners.reshape(tiles, steps).tolist()]


def moved(size: int) -> tuple[int, int]:
    """Return the bytes that blocks fetch of A and B, and those that meetings write and read."""
    fetched = 4 * TILE["BK"] * (TILE["BM"] + TILE["BN"]) * KERNEL.grid(size, size) * -(-size // TILE["BK"])
    return fetched, 2 * PART * sum(count for count in parts(size) if count > 1)


@lru_cache(maxsize=1)
def pace() -> tuple[float, float, float]:
    """Return the µs of a step of 11 and those besides, fitted to its recorded times, and by which part it is off."""
    of = by_size.points()
    steps = np.array([busiest(size)[0] for size in by_size.SIZES])
    us = np.array([1e3 * of["11", size].ms for size in by_size.SIZES])
    step, besides = np.polyfit(steps, us, 1, w=1 / us)
    return step, besides, float(abs((step * steps + besides) / us - 1).max())


def expected(size: int) -> float:
    """Return the ms that 12 should take: its longest share at 11's pace, and a meeting as 13's model has it.

    That model's two constants were fitted to times of 13, which leaves parts and adds them as 12 does.
    """
    step, besides, _ = pace()
    return (besides + step * busiest(size)[1] + MEETING + ADDING * PART * max(parts(size))) / 1e3


def predicted(sizes: Iterable[int]) -> Table:
    """Return the steps of the busiest SM, the parts of a tile, 11's recorded time and what is expected of 12."""
    before = by_size.points()
    rows = [(n, "{:,} → {:,}".format(*busiest(n)), max(parts(n)), before["11", n].ms, expected(n)) for n in sizes]
    heads = ("M = N = K", "steps, 11 → 12", "parts of a tile", "11, measured ms", "12, predicted ms")
    return Table(heads, rows, card().name, "Steps: of the busiest SM. Parts: at most.")


def times() -> dict[int, tuple[Point, Point]]:
    """Return the recorded points of 11 and 12, by size."""
    return {point.M: (by_size.points()["11", point.M], point) for point in recorded(KERNEL, by_size.SIZES).points}


def measured(sizes: Iterable[int]) -> Table:
    """Return what was expected of 12 beside its recorded times, and the shares of cuBLAS of 11 and 12."""
    rows, of = [], times()
    for n in sizes:
        longer, shares = of[n][1].ms / expected(n) - 1, (f"{point.percent_of_cublas:.0f}%" for point in of[n])
        rows.append((n, expected(n), of[n][1].ms, f"{longer:+.0%}", " → ".join(shares)))
    heads = ("M = N = K", "predicted ms", "measured ms", "longer by", "of cuBLAS, 11 → 12")
    return Table(heads, rows, f"Kernel 12, {card().name}")


def _given(kernel: Kernel, A: np.ndarray, B: np.ndarray, multiprocessors: int) -> tuple[Launch, dict[str, Any]]:
    """Return the launch of a product on a GPU with so many SMs, and what the kernel is given for it."""
    problem = operands.check(A, B, None, 1.0, 0.0)
    launch = kernel.resolve(problem, Place(multiprocessors=multiprocessors))
    return launch, simulator.given(launch, problem)


def in_order(kernel: Kernel, A: np.ndarray, B: np.ndarray, order: Iterable[int], multiprocessors: int) -> np.ndarray:
    """Return the product as it comes out where blocks run one after the other, in this order."""
    launch, arguments = _given(kernel, A, B, multiprocessors)
    binary = compiler.build(launch.instance, launch.place.architecture)
    machine = Machine(ptxsim.parse(binary.ptx, binary.entry), kernel.name, launch.block, arguments, FRESH)
    for block in order:
        machine.run(launch.grid, [block])
    return arguments["C"]


def races(kernel: Kernel, A: np.ndarray, B: np.ndarray, multiprocessors: int, orders: int = 3) -> str:
    """Say what the simulator finds where it runs the blocks in other orders too, and looks for races among them."""
    launch, arguments = _given(kernel, A, B, multiprocessors)
    binary = compiler.build(launch.instance, launch.place.architecture)
    held = (binary.ptx, binary.entry, launch.grid, launch.block, arguments)
    try:
        ptxsim.run(*held, name=kernel.name, fresh=FRESH, orders=orders)
    except SimulationFault as fault:
        return str(fault)
    return f"no race in {orders} other orders"


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, (step, besides, off), (fetched, met) = times(), pace(), moved(2176)
    apart = {size: after.ms / expected(size) - 1 for size, (_, after) in of.items()}
    large, small = ([late for size, late in apart.items() if (size >= 640) is wide] for wide in (True, False))
    assert [n for n, (before, after) in of.items() if after.ms > 1.001 * before.ms] == [2048, 3584, 4096]
    assert min(large) > 0 > max(small) and expected(2176) < of[2176][1].cublas_ms < of[2176][1].ms
    profile = [profiles.measured(kernel) for kernel in (BEFORE, KERNEL)]
    dram, hits = ([counts[name] for counts in profile] for name in ("DRAM bytes", "L2 hits, %"))
    assert dram[1] - dram[0] > 10 * moved(4096)[1] and not resources(KERNEL).spill_store_bytes
    means = [
        f"{geometric_mean(point.percent_of_cublas for point in points):.0f}%"
        for points in zip(*of.values(), strict=True)
    ]
    return {
        "mean before": means[0],
        "mean": means[1],
        **{f"before {n}": f"{of[n][0].percent_of_cublas:.1f}%" for n in (2048, 2176, 4096)},
        **{f"share {n}": f"{of[n][1].percent_of_cublas:.1f}%" for n in (2048, 2176, 4096)},
        "card": card().name,
        "step": f"{step:.3f} µs",
        "besides": f"{besides:.1f} µs",
        "off": f"{off:.1%}",
        "meeting": f"{MEETING:.2f} µs",
        "part": f"{ADDING * PART:.2f} µs",
        "fetched": f"{fetched / 2**20:.0f} MiB",
        "met": f"{met / 2**20:.1f} MiB",
        "met 4096": f"{moved(4096)[1] / 2**20:.0f} MiB",
        "more": f"{met / fetched:.0%}",
        "cut": str(sum(count > 1 for count in parts(2176))),
        "registers": f"{resources(KERNEL).registers} registers",
        "short": f"{min(large):.0%} to {max(large):.0%}",
        "long": f"{-min(small):.0%}",
        "worked": f"{busiest(2176)[1]} · {step:.3f} + {besides:.1f} + {MEETING:.2f} + {max(parts(2176))} · "
        f"{ADDING * PART:.2f} = {1e3 * expected(2176):.0f}",
        "lead": f"{1 - expected(2176) / of[2176][1].cublas_ms:.0%}",
        "cublas": f"{of[2176][1].cublas_ms:.3f} ms",
        "now": f"{of[2176][1].ms:.3f} ms",
        "dram before": f"{dram[0] / 2**20:,.0f} MiB",
        "dram": f"{dram[1] / 2**20:,.0f} MiB",
        "hits before": f"{hits[0]:.0f}%",
        "hits": f"{hits[1]:.0f}%",
    }
