"""Chapter 12: which steps a block has, races between blocks, and the time that is expected of equal shares."""

from collections.abc import Iterable
from functools import lru_cache
from statistics import geometric_mean

import numpy as np

import ptxsim
from sgemm_tutorial import compiler, operands, simulator
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import SimulationFault
from sgemm_tutorial.families.autotuned import ADDING, MEETING
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Place
from sgemm_tutorial.table import Table

from ..experiments import profiles
from ..experiments.ceilings import card
from ..model.sass import hot_loop, sass
from ..model.waves import wave_share
from ..records import cards
from ..records.timings import Point, recorded
from . import by_size, register_banks

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
    ends = np.arange(steps, total + 1, steps)  # of the tiles' steps; every share has some steps of its own
    first, last = ((of * shares - 1) // total for of in (ends - steps + 1, ends))
    return (last - first + 1).tolist()


def pace() -> tuple[float, float]:
    """Return the µs of a step of 11, and those of a product besides, fitted to its recorded times."""
    of = times()
    us = np.array([1e3 * of[size][0].ms for size in by_size.SIZES])
    step, besides = np.polyfit([busiest(size)[0] for size in by_size.SIZES], us, 1, w=1 / us)
    return step, besides


def expected(size: int) -> float:
    """Return the ms that 12 should take: its longest share at 11's pace, and a meeting as 13's model has it.

    That model's two constants were fitted to times of 13, and it counts 16 parts of a tile at most. Here all are
    counted.
    """
    step, besides = pace()
    return (besides + step * busiest(size)[1] + MEETING + ADDING * PART * max(parts(size))) / 1e3


def longer(size: int) -> tuple[float, float]:
    """Return by what fraction 11 takes longer than `pace` says, and 12 than is expected of it."""
    (before, after), (step, besides) = times()[size], pace()
    return 1e3 * before.ms / (besides + step * busiest(size)[0]) - 1, after.ms / expected(size) - 1


def predicted(sizes: Iterable[int]) -> Table:
    """Return the steps of the busiest SM, the parts of a tile, 11's recorded time and what is expected of 12."""
    return Table(
        ("M = N = K", "steps, 11 → 12", "parts of a tile", "11, measured µs", "12, predicted µs"),
        [(n, "{:,} → {:,}".format(*busiest(n)), max(parts(n)), _us(times()[n][0].ms), _us(expected(n))) for n in sizes],
        card().name,
        "Steps: of the busiest SM. Parts: at most.",
    )


def times() -> dict[int, tuple[Point, Point]]:
    """Return the recorded points of 11 and 12, by size."""
    return _times(cards.shown())


@lru_cache(maxsize=1)
def _times(card: str) -> dict[int, tuple[Point, Point]]:
    """Return `times` of the shown card."""
    before = by_size.points()
    return {point.M: (before["11", point.M], point) for point in recorded(KERNEL, by_size.SIZES).points}


def measured(sizes: Iterable[int]) -> Table:
    """Return 12's expected times beside its recorded ones, and both 12's and 11's as multiples of what was expected."""
    return Table(
        ("M = N = K", "12, predicted µs", "12, measured µs", "12: measured / predicted", "11: measured / its line"),
        [(n, _us(expected(n)), _us(times()[n][1].ms), *(f"{1 + late:.3f}" for late in longer(n)[::-1])) for n in sizes],
        card().name,
    )


def _us(ms: float) -> str:
    """Return milliseconds as microseconds with one decimal."""
    return f"{1e3 * ms:,.1f}"


def step_cycles(kernel: Kernel) -> float:
    """Return the cycles of a profiled launch for each step of the busiest SM."""
    return profiles.measured(kernel)["SM cycles"] / busiest(profiles.SIZE)[kernel == KERNEL]


def loops() -> Table:
    """Return figures of the machine code of 11's and 12's loops, and their measurements."""
    columns = []
    for kernel in (BEFORE, KERNEL):
        counts = profiles.measured(kernel)
        columns.append(
            (
                f"{len(hot_loop(sass(kernel))):,}",
                f"{register_banks.measured('', kernel):.3f}",
                f"{counts['all'] / 1e6:,.0f}",
                f"{counts[profiles.BETWEEN]:.2f}",
                f"{counts['state: dispatch']:.2f}",
                f"{step_cycles(kernel):,.0f}",
            )
        )
    heads = (
        "machine instructions of the loop",
        "cycles of an FFMA, all of them alone",
        f"instructions at {profiles.SIZE}, millions",
        "cycles from a warp's instruction to its next",
        "of these, dispatch",
        "SM cycles, for each step of the busiest SM",
    )
    return Table(("", "11", "12"), list(zip(heads, *columns, strict=True)), card().name)


def races(kernel: Kernel, A: np.ndarray, B: np.ndarray, multiprocessors: int, orders: int = 3) -> str:
    """Return the simulator's finding where it runs the blocks in other orders too, and looks for races among them."""
    problem = operands.check(A, B, None, 1.0, 0.0)
    launch = kernel.resolve(problem, Place(multiprocessors=multiprocessors))
    arguments = simulator.given(launch, problem)
    binary = compiler.build(launch.instance, launch.place.architecture)
    held = (binary.ptx, binary.entry, launch.grid, launch.block, arguments)
    try:
        ptxsim.run(*held, name=kernel.name, fresh=FRESH, orders=orders)
    except SimulationFault as fault:
        return str(fault)
    return f"no race in {orders} other orders of the warps"


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, (step, besides) = times(), pace()
    full = {n: wave_share(KERNEL.grid(n, n), card().sms) for n in of}  # of the SMs' time, in 11's rounds of whole tiles
    late = {size: longer(size) for size in of}
    large, small = ([late[size][1] for size in of if (size >= 640) == above] for above in (True, False))
    lost = [n for n, (before, after) in of.items() if after.ms > 1.001 * before.ms]
    assert lost == [2048, 3584, 4096] and all(of[n][1].ms_p10 > of[n][0].ms_p90 for n in lost)
    assert (
        all((eleven > 0) == (size % 256 > 0) for size, (eleven, _) in late.items())
        and max(small) < 0 < min(large)
        and sorted(max(parts(size)) for size in of if size < 640) == [17, 22, 32]
        and all((full[n] > 0.96) == (n in lost) for n in of)
        and abs(of[3456][1].ms / of[3456][0].ms - 1) < 0.001
    )
    profile = [profiles.measured(kernel) for kernel in (BEFORE, KERNEL)]
    per_step = step_cycles(KERNEL) / step_cycles(BEFORE)
    more, slower = (profile[1][name] / profile[0][name] for name in ("all", profiles.BETWEEN))
    assert abs(more * slower / per_step - 1) < 0.002
    means = [
        f"{geometric_mean(point.percent_of_cublas for point in points):.0f}%"
        for points in zip(*of.values(), strict=True)
    ]
    return {
        "mean before": means[0],
        "mean": means[1],
        **{f"lost {n}": f"{of[n][1].ms / of[n][0].ms - 1:.1%}" for n in (2048, 3584)},
        "full": "{:.0%} to {:.0%}".format(*(function(map(full.get, lost)) for function in (min, max))),
        "after large": f"{of[4096][1].ms:.2f} ms",
        "before large": f"{of[4096][0].ms:.2f} ms",
        "behind": str(sum(after.percent_of_cublas < 100 for _, after in of.values())),
        "slower 4096": f"{of[4096][1].ms / of[4096][0].ms - 1:.1%}",
        "card": card().name,
        "step": f"{step:.3f} µs",
        "besides": f"{besides:.1f} µs",
        "meeting": f"{MEETING:.2f} µs",
        "part": f"{ADDING * PART:.2f} µs",
        "more": f"{more - 1:.1%}",
        "slower": f"{slower - 1:.1%}",
        "between": f"{profile[1][profiles.BETWEEN]:.2f}",
        "waits": f"{profile[1]['state: waits for L2 or DRAM']:.2f}",
        "short": f"{min(large):.0%} to {max(large):.0%}",
        "worked": f"{busiest(2176)[1]} · {step:.3f} + {besides:.1f} + {MEETING:.2f} + {max(parts(2176))} · "
        f"{ADDING * PART:.2f} = {1e3 * expected(2176):.0f}",
        "per step": f"{per_step - 1:.1%}",
    }
