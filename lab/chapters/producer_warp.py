"""What chapter 19 shows: a block's stages event by event, the life of one stage, and times beside 18's."""

from __future__ import annotations

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..draw import Player, Ring, pipeline
from .copy_engine import SIZES, spread, timed

BEFORE, RUNG = find("18_wgmma"), find("19_producer_warp")
STAGES = RUNG.parameters["STAGES"]
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
    """Return what happens to a stage until it is filled again, and what its mbarriers lack after each step.

    Parameters
    ----------
    run : Run
        Of 19, simulated with ``trace=[0]``.
    stage : int
    """
    full, empty = (FULL + 8 * (stage + before) for before in (0, STAGES))
    does = {
        ("arrive", full): "announces bytes, asks for boxes",
        ("go on", full): "go on: the stage is full",
        ("multiply", stage * A_BYTES): "start to multiply",
        ("arrive", empty): "let go of the stage",
        ("go on", empty): "goes on: the stage is empty",
    }
    over, rows = {full: 0, empty: 0}, []
    for event in run.events:
        what = event.kind, event.offset
        if event.array and what in does:
            over[event.offset] = over.get(event.offset, 0) + (what in (("go on", full), ("arrive", empty)))
            who = f"thread {event.threads[0]}" if len(event.threads) == 1 else f"{len(event.threads)} threads"
            lacks = f"{A_BYTES + B_BYTES:,} bytes" if what == ("arrive", full) else "1 arrival"
            rows.append((event.line, who, does[what], f"{over[full]}: {lacks}", f"{over[empty]}: 8 arrivals"))
    return Table(
        ("line", "who", "does what", f"full[{stage}]: phase, lacks", f"empty[{stage}]: phase, lacks"), rows[:6]
    )


def times() -> Table:
    """Return the shares of cuBLAS of 18 and 19 by size."""
    found = [[timed(kernel, size) for kernel in (BEFORE, RUNG)] for size in SIZES]
    rows = [(f"{size:,}", *(spread(point) for point, _ in both)) for size, both in zip(SIZES, found, strict=True)]
    return Table(
        ("M = N = K", BEFORE.name, RUNG.name),
        rows,
        "Share of cuBLAS, lowest and highest of three processes",
        max(note for both in found for _, note in both),
    )
