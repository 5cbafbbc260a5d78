"""The page behind chapter 11: a rule for the wavefronts of asynchronous copies, and where it fails."""

from collections.abc import Iterable

import numpy as np

from ptxsim import Access, sectors, wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..experiments import counters
from ..records import cards
from ..variants import find_variant

RUNG = find("11")
SHIFTED = find_variant("11", "B at 16 bytes"), find_variant("12", "B at 32 bytes")
"""11 and 12 with the tile of B shifted by 16 bytes: 11's to where 12's is, and 12's to a multiple of 32 bytes."""
RECORDED = cards.folder("h200") / "counters.json"


def _one_warp(access: Access, warp: int, kind: str) -> tuple[int, int]:
    """Return the wavefronts and sectors of one warp's part of an access."""
    mine, lanes = access.threads // WARP == warp, np.full((1, WARP), -1)
    if not mine.any():
        return 0, 0
    lanes[0, access.threads[mine] % WARP] = access.offsets[mine]
    return wavefronts(lanes, access.width, kind)[0], sectors(lanes)


def copy_wavefronts(run: Run) -> list[int]:
    """Return the wavefronts of a traced run's copies by four rules, and the sectors that they read.

    The rules: the writing end, the reading end, sectors, and the worse end. Copies of 16 bytes pass L1 by, so each rule
    takes their writing end. A copy of nothing, beyond an edge, writes zeros and reads no byte.
    """
    totals, before = np.zeros(5, int), {}
    for access in run.trace:
        source = before.get(access.block)
        before[access.block] = access
        if (access.space, access.kind) == ("shared", "store") and access.width >= 4:  # 12 also stores flags, of a byte
            reads = source is not None and (source.line, source.kind) == (access.line, "load")
            for warp in np.unique(access.threads // WARP):
                to, _ = _one_warp(access, warp, "store")
                banks, pieces = _one_warp(source, warp, "load") if reads else (0, 0)
                rules = (banks, pieces, max(to, banks)) if access.width == 4 else (to, to, to)
                totals += (to, *rules, pieces)
    return totals.tolist()


def ends(sizes: Iterable[tuple[int, int, int]] = counters.SHAPES) -> Table:
    """Return the wavefronts of 11's copies by four rules, and those that Nsight Compute counted, on every card."""
    rows = []
    for size in sizes:
        of = [counters.counted(RUNG, size, cards.folder(card) / "counters.json") for card in cards.recorded()]
        *others, worse, pieces = copy_wavefronts(
            simulate(RUNG, *matrices(*size, on_gpu=False), trace=range(RUNG.grid(*size[:2])))
        )
        assert {(counts["copy_wavefronts"], counts["copy_sectors"]) for counts in of} == {(worse, pieces)}
        assert size[2] == 256 or all(abs(rule / worse - 1) > 0.03 for rule in others)
        rows.append((" × ".join(map(str, size)), *others, worse, worse))
    return Table(("M × N × K", "the writing end", "the reading end", "sectors read", "the worse end", "counted"), rows)


def shifted() -> Table:
    """Return what was predicted of 11 and 12 with B's tile elsewhere, the counts of the other kernel, and counted."""
    found = [
        [counters.counted(kernel, (256,) * 3, RECORDED)[f"copy_{what}"] for what in ("sectors", "wavefronts")]
        for kernel in (RUNG, find("12"), *SHIFTED)
    ]
    assert found == [[24_576, 12_288], [40_960, 20_480], [40_960, 20_480], [24_576, 16_384]]
    names = ("11", "12", "11, B shifted by 16 bytes", "12, B shifted to a multiple of 32")
    expected = ((None, None), (None, None), found[1], found[0])
    return Table(
        ("kernel", "sectors predicted", "sectors counted", "wavefronts predicted", "wavefronts counted"),
        [(name, of[0], got[0], of[1], got[1]) for name, of, got in zip(names, expected, found, strict=True)],
        f"Sums over all copies, M = N = K = 256, {find_gpu('H200').name}",
    )
