"""Draws a block's stages event by event and the life of one stage, and compares 19 with 18, for chapter 19."""

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..draw import Player, Ring, pipeline
from ..experiments import profiles
from ..experiments.ceilings import card

BEFORE, RUNG = find("18_wgmma"), find("19_producer_warp")
STAGES, WARPS = RUNG.parameters["STAGES"], RUNG.parameters["BM"] // 16
A_BYTES, B_BYTES = (2 * RUNG.parameters["BK"] * RUNG.parameters[side] for side in ("BM", "BN"))
FULL = STAGES * (A_BYTES + B_BYTES)
"""Byte of shared memory where the mbarriers begin, those for empty stages behind those for full ones."""


def player(A: np.ndarray, B: np.ndarray, wrong: dict[str, tuple[str, str]]) -> Player:
    """Return the player of 19's stages, and of those of kernels in which one piece of text is replaced."""
    kernels = {"as it is": RUNG, **{name: RUNG.edited(edit) for name, edit in wrong.items()}}
    rings = [
        Ring("tiles", "shared", A_BYTES),
        Ring("tiles", "shared", B_BYTES, STAGES * A_BYTES),
        Ring("full", "shared", 8, FULL),
        Ring("empty", "shared", 8, FULL + 8 * STAGES),
    ]
    return pipeline("producer", kernels, A, B, rings, STAGES)


def life(run: Run, stage: int = 1) -> Table:
    """Return a stage's events until it is filled again, and the arrivals that its mbarriers lack after each.

    Phases are counted from the run's events. The last byte is no event: a phase of ``full`` counts as over when threads
    go on.

    Parameters
    ----------
    run : Run
        Of 19, simulated with ``trace=[0]``.
    stage : int
    """
    full, empty = (FULL + 8 * (stage + before) for before in (0, STAGES))
    does = {
        ("arrive", full): ("full.arrive_and_expect", "announces tile {}, asks for it"),
        ("go on", full): ("full.wait", "go on: tile {} is there"),
        ("arrive", empty): ("empty.arrive", "tile {} is multiplied"),
        ("go on", empty): ("empty.wait", "goes on: the stage is empty"),
    }
    announced = over = left = 0
    rows = []
    for event in run.events:
        what = event.kind, event.offset
        if event.array and what in does:
            announced += what == ("arrive", full)
            over += what == ("go on", full)
            code, done = does[what]
            last = what == ("arrive", empty) and len(event.threads) > 1  # has a row of its own
            for threads in (event.threads[:-1], event.threads[-1:]) if last else (event.threads,):
                left += len(threads) * (what == ("arrive", empty))
                who = f"thread {threads[0]}" if len(threads) == 1 else f"{len(threads)} threads"
                lacks = f"{A_BYTES + B_BYTES:,} bytes" if announced > over else "1 arrival"
                now = f"phase {over} lacks {lacks}", f"phase {left // WARPS} lacks {WARPS - left % WARPS} of {WARPS}"
                rows.append((who, code, done.format(stage + STAGES * (announced - 1)), *now))
    return Table(("who", "code", "does what", f"full[{stage}] then", f"empty[{stage}] then"), rows[:6])


def compared() -> Table:
    """Return the profiled figures of a launch of 18 and of 19 at 4096."""
    counts, states = ([of(kernel) for kernel in (BEFORE, RUNG)] for of in (profiles.measured, profiles.states))
    rows = [
        ("cycles", *(f"{of['SM cycles']:,}" for of in counts)),
        ("tensor cores busy", *(f"{of['tensor cores used, %']:.1f}%" for of in counts)),
        ("warps' time in state barrier", *(f"{of['barrier']:.1%}" for of in states)),
    ]
    return Table(("", BEFORE.name, RUNG.name), rows, f"A profiled launch, M = N = K = {profiles.SIZE}, {card().name}")
