"""The page on occupancy: what resident warps buy, by kernels of which only so many blocks fit on an SM."""

from collections.abc import Iterable

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..experiments import profiles
from ..experiments.ceilings import card
from ..experiments.profiles import BETWEEN
from ..measure.nsight import counted
from ..model.resources import kernel_occupancy
from ..records.checks import Fit, load
from ..records.files import identity
from ..records.timings import recorded
from ..variants import EVERY, RESIDENT
from . import account

L1, WAIT = "L1 and shared memory used, %", "waits for L2 or DRAM"
KERNELS = {(kernel.name[:2], kernel_occupancy(kernel, find_gpu("H200")).blocks_per_sm): kernel for kernel in RESIDENT}
"""02, 04 and 07 by number and the blocks that fit. The machine code is the same, and so is the size of L1."""

TURN, HELD = "ready, not its turn", "held back: a queue is full, or a conflict"
STATES = {
    "waits for data from global memory": (WAIT,),
    "waits for shared memory or at a barrier": ("waits for shared memory", "barrier"),
    TURN: ("another warp was chosen",),
    HELD: ("queue to L1 full", "queue to shared memory full", "dispatch"),
    "issues, or waits for arithmetic": ("issued", "fixed latency"),
}
"""The page's names for the states of a warp in a cycle, and those of `profiles.STALLS` that each stands for."""


def profile(number: str, blocks: int) -> dict[str, int | float]:
    """Return the recorded profile of one of `KERNELS`."""
    return counted(KERNELS[number, blocks], (profiles.SIZE,) * 3, "variant_profiles")


def milliseconds(number: str, blocks: int) -> float:
    """Return the recorded time of one of `KERNELS`."""
    return recorded(KERNELS[number, blocks], profiles.SIZE, "resident").points[0].ms


def fewer(which: Iterable[tuple[str, int]]) -> Table:
    """Return the profile and the time of these of `KERNELS`."""
    rows = []
    for number, blocks in which:
        of = profile(number, blocks)
        shares = (f"{of[part]:.1f}%" for part in ("issue slots used, %", L1))
        rows.append((f"{number}, {blocks}", f"{of[BETWEEN]:.2f}", *shares, f"{milliseconds(number, blocks):.2f}"))
    columns = ("kernel, blocks per SM", "cycles between instructions", "issue slots filled", "L1 and shared busy", "ms")
    return Table(columns, rows, f"M = N = K = {profiles.SIZE}, {card().name}")


def _cycles(number: str, blocks: int) -> dict[str, float]:
    """Return the cycles that a warp of one of `KERNELS` spends in each of `STATES` from one instruction to its next."""
    of = profile(number, blocks)
    shares = profiles.shares(of)
    cycles = {name: of[BETWEEN] * sum(map(shares.get, states)) for name, states in STATES.items()}
    return cycles | {"all else": of[BETWEEN] - sum(cycles.values())}


def states(which: Iterable[tuple[str, int]]) -> Table:
    """Return the cycles in each of `STATES`, for these of `KERNELS`."""
    spent = {f"{number}, {blocks}": _cycles(number, blocks) for number, blocks in which}
    rows = [(name, *(f"{of[name]:.1f}" for of in spent.values())) for name in (*STATES, "all else")]
    return Table(
        ("kernel, blocks per SM:", *spent), rows, "Cycles from one instruction of a warp to its next, by state"
    )


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    asked = load("occupancy", Fit).points
    kernels = {identity(kernel): kernel for kernel in (*CATALOGUE, *EVERY, *RESIDENT)}
    assert all(kernel_occupancy(kernels[p.identity], card()).blocks_per_sm == p.blocks_per_sm for p in asked)
    for kernel in KERNELS.values():
        of = profiles.shares(counted(kernel, (profiles.SIZE,) * 3, "variant_profiles"))
        assert kernel.threads == 256 and (kernel.name[:2] == "02") == (of[WAIT] > 0.5)
    between = [profile("02", blocks)[BETWEEN] for blocks in (1, 2, 3, 4, 6)]
    one, four, eight = _cycles("04", 1), _cycles("04", 4), _cycles("02", 8)
    grown = {name: four[name] - one[name] for name in one}
    assert grown[TURN] + grown[HELD] > 0.8 * sum(grown.values()) and grown["waits for data from global memory"] < 0
    queue = profiles.shares(profile("02", 8))["queue to L1 full"] * profile("02", 8)[BETWEEN]
    assert queue > 0.9 * eight[HELD]
    (usual,) = recorded("02", profiles.SIZE).points
    of_l2 = [profile("02", blocks) for blocks in (1, 2, 4, 8)]
    time = {of: account.busy(of[0])["shared memory and L1"] / milliseconds(*of) for of in (("04", 4), ("07", 2))}
    tall = {TM: recorded(find("04").variant(TM=TM), profiles.SIZE, "variants").points[0].ms for TM in (4, 8, 16)}
    doubled = [(number, blocks) for number in ("02", "04") for blocks in (1, 2)] + [("02", 4)]
    return {
        "asked": f"{len(asked)}",
        "least g": f"{min(between):.0f}",
        "most g": f"{max(between):.0f}",
        "wait": f"{_cycles('02', 1)['waits for data from global memory']:.1f} of {profile('02', 1)[BETWEEN]:.2f}",
        "wait 04": f"{one['waits for data from global memory']:.1f} of {profile('04', 1)[BETWEEN]:.2f}",
        "held": f"{eight[HELD]:.1f} of {profile('02', 8)[BETWEEN]:.2f}",
        "grown": f"{sum(grown.values()):.1f}",
        "turns": f"{round(four[TURN], 1) - round(one[TURN], 1):.1f}",
        "held more": f"{round(four[HELD], 1) - round(one[HELD], 1):.1f}",
        "one g": f"{profile('04', 1)[BETWEEN]:.2f}",
        "one slots": f"{2 / profile('04', 1)[BETWEEN]:.0%}",
        "four w": f"{profile('04', 4)['warps resident, %'] * 0.16:.2f}",  # of the 16 that a scheduler can hold
        "four g": f"{profile('04', 4)[BETWEEN]:.2f}",
        "four slots": f"{profile('04', 4)['warps resident, %'] * 0.16 / profile('04', 4)[BETWEEN]:.0%}",
        "02 slots": f"{2 / profile('02', 1)[BETWEEN]:.0%}",
        "usual": f"{usual.ms:.2f}",
        "hits": ", ".join(f"{of['L2 hits, %']:.0f}%" for of in of_l2),
        "moved": ", ".join(f"{of['DRAM bytes'] / 1e9:.0f}" for of in of_l2),
        "04 L1": f"{profile('04', 4)[L1]:.0f}%",
        "04 time": f"{time['04', 4]:.2f}",
        **{f"{n} from {of}": f"{milliseconds(n, of) / milliseconds(n, 2 * of):.2f}" for n, of in doubled},
        "more": f"{1 / time['04', 4] - 1:.0%}",
        **{f"TM {TM}": f"{ms:.2f}" for TM, ms in tall.items()},
        "07 slots": f"{profile('07', 2)['issue slots used, %']:.1f}%",
        "07 L1": f"{time['07', 2]:.0%}",
        "07 more": f"{1 / time['07', 2] - 1:.0%}",
        "third": f"{milliseconds('07', 2) / milliseconds('07', 3) - 1:.0%}",
    }
