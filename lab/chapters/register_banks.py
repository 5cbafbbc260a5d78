"""The page behind chapter 09: what it costs an FFMA to read its registers, predicted and measured."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import banks, profiles
from ..experiments.ceilings import card
from ..experiments.profiles import BETWEEN, DISPATCH, SHARED
from ..measure import nsight
from ..model.sass import hot_loop, operands, read_anew, sass
from ..records.timings import recorded
from ..variants import find_variant
from . import account

Reads = Sequence[set[int]]
"""The registers of each FFMA, in order, that it reads and that the one before it has not kept."""
RUNGS = LADDER[4:11]
"""05 to 11, which read fragments into registers or could."""
SHOWN = (
    "three of one bank",
    "two of one bank",
    "two of one bank, the banks in turn",
    "one kept, one of each bank",
    "one kept, one of each bank, not marked",
    "any three",
)


def reads(kernel: Kernel) -> list[set[int]]:
    """Return the registers that each FFMA of a kernel's main loop reads anew."""
    return read_anew(operands(hot_loop(sass(kernel))))


def pattern(name: str) -> list[set[int]]:
    """Return the same of a pattern of registers that was measured; `banks.PATTERNS` has the names."""
    return read_anew(banks.sequence(banks.PROBES[2], name))


def measured(name: str, kernel: Kernel | None = None) -> float:
    """Return the recorded cycles per FFMA of a pattern or of a kernel's FFMAs."""
    return banks.cycles(banks.LOOP if kernel else name, 2, kernel)


def patterns(models: Mapping[str, Callable[[Reads], float]]) -> Table:
    """Return the cycles per FFMA of some patterns of registers, by each model and measured."""
    rows = []
    for name in banks.PATTERNS:
        found, said = measured(name), [model(pattern(name)) for model in models.values()]
        assert abs(said[-1] / found - 1) < 0.02, name
        if name in SHOWN:
            rows.append((name, banks.PATTERNS[name], *(f"{cycles:.2f}" for cycles in (*said, found))))
    return Table(
        ("registers read", "", *models, "measured"), rows, f"Cycles per FFMA, two warps on a scheduler: {card().name}"
    )


def loops(models: Mapping[str, Callable[[Reads], float]]) -> Table:
    """Return the same of the FFMAs of each rung's main loop, in their order and without what stands between them."""
    rows = []
    for kernel in (*RUNGS, find("12"), *(find_variant(rung, "one way") for rung in ("09", "10", "11"))):
        found, sequence = measured("", kernel), read_anew(banks.sequence(kernel, banks.LOOP))
        said = [model(sequence) for model in models.values()]
        assert (said[-1] < 0.975 * found) == (said[0] > 1.01) and abs(said[-1] / found - 1) < 0.07, kernel.name
        rows.append((f"{kernel.name[:2]} {kernel.label}", *(f"{cycles:.2f}" for cycles in (*said, found))))
    return Table(
        ("FFMAs of", *models, "measured"),
        rows,
        f"Cycles per FFMA, two warps on a scheduler, nothing between the FFMAs: {card().name}",
    )


def one_at_a_time(reads: Reads) -> float:
    """Cycles per FFMA, if a bank delivers one register per cycle, and an FFMA may take three to collect its own."""
    start, busy = 0, np.zeros(2)  # when the next FFMA starts, and until when each bank delivers
    for read in reads:
        odd = sum(name % 2 for name in read)
        wanted = np.array([len(read) - odd, odd])
        start = max(start, *(busy + wanted - 3))
        busy = np.maximum(busy, start) + wanted
        start += 1
    return start / len(reads)


def dispatched(of: Mapping[str, int | float], cycles: float) -> float:
    """Return the dispatch stalls, for each instruction of a warp, that follow from cycles per FFMA and a profile.

    In each cycle that an FFMA takes beyond its first, every warp that could issue is held back.
    """
    return of["FFMA"] / WARP / of["all"] * (cycles - 1) * (of["state: issued"] + of["state: another warp was chosen"])


def waits(kernels: Mapping[str, Kernel]) -> Table:
    """Return the cycles between a warp's instructions, and of these dispatch, counted and by `one_at_a_time`."""
    rows = []
    for name, kernel in kernels.items():
        of = nsight.counted(kernel, (profiles.SIZE,) * 3, "variant_profiles")
        cycles = [of[BETWEEN], of[SHARED], of[DISPATCH]]
        cycles.append(dispatched(of, one_at_a_time(reads(kernel))))
        assert abs(cycles[-1] - cycles[-2]) < 0.16
        rows.append((name, *(f"{each:.2f}" for each in cycles)))
    return Table(
        ("", "all", "waits for shared memory", "dispatch", "dispatch, by the registers"),
        rows,
        f"Cycles from one instruction of a warp to its next, M = N = K = {profiles.SIZE}, {card().name}",
    )


def limits(kernel: Kernel) -> tuple[float, float, float, float]:
    """Return a variant's dispatch stalls, expected and counted, and its milliseconds: least and measured.

    The least are those of the FFMAs alone or those of the issue slots, whichever are more.
    """
    of, cycles = nsight.counted(kernel, (profiles.SIZE,) * 3, "variant_profiles"), measured("", kernel)
    slots = account.issuing(of["all"])
    least = max(slots, cycles * account.milliseconds(profiles.SIZE**3 / card().limits.fp32_lanes))
    return dispatched(of, cycles), of[DISPATCH], least, recorded(kernel, [profiles.SIZE], "variants").points[0].ms


def saved() -> Table:
    """Return the expected and the measured savings of walking to and fro: dispatch stalls, and time."""
    rows = []
    for name in ("09", "10", "11"):
        both = zip(limits(find_variant(name, "one way")), limits(find(name)), strict=True)
        rows.append((find(name).name, *(f"{one_way - to_and_fro:.2f}" for one_way, to_and_fro in both)))
    assert all(0 < 1.5 * float(row[2]) < float(row[1]) for row in rows)
    nine, ten, eleven = (float(row[4]) / float(row[3]) for row in rows)
    assert eleven < 1 < nine < ten / 2
    return Table(
        ("one way − to and fro", "dispatch, expected", "dispatch, counted", "ms, expected", "ms, measured"),
        rows,
        f"What is saved, M = N = K = {profiles.SIZE}, {card().name}",
    )


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue."""
    of = {kernel: profiles.measured(kernel) for kernel in RUNGS[:4]}
    shares = [dispatched(each, measured("", kernel)) / each[DISPATCH] for kernel, each in of.items()]
    assert 0.8 < min(shares) < max(shares) < 1
    nine, cycles = profiles.measured(find("09")), measured("", find("09"))
    ready = nine["state: issued"] + nine["state: another warp was chosen"]
    share = nine["FFMA"] / WARP / nine["all"]
    return {
        "least explained": f"{min(shares):.0%}",
        "most explained": f"{max(shares):.0%}",
        "worked": f"{share:.2f} · {cycles - 1:.3f} · {ready:.2f} = {dispatched(nine, cycles):.2f}",
        "worked counted": f"{nine[DISPATCH]:.2f}",
        "card": card().name,
    }
