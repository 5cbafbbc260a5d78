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
from ..variants import PADDED_TILES, find_variant

RUNG, STREAM_K = map(find, ("11", "12"))
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


def by_sixteen() -> Table:
    """Return how many wavefronts and sectors copies of 16 bytes take at 4096, by the H200's counts."""
    many, few, sixteen, rows = 4096**3 // 128**2, 4096**3 // 256**2, find("16"), []  # copies of 11's B, and of 16's A
    for kernel, recording, copies, what, moved, others_read, K in (
        (RUNG, "counters", many, "11: B", "a row of 512 bytes", 4, 4096),
        (sixteen.variant(BK=64, STAGES=3), "sectors", few, "16, BK = 64: A", "four rows of 128 bytes", 16, 4096),
        (sixteen, "sectors", few, "16: A", "eight rows of 64 bytes", 16, 4096),
        (sixteen, "sectors", few * 4128 // 4096, "16, K = 4128: A", "eight rows of 64 bytes", 16, 4128),
        (STREAM_K, "counters", many, "12: B", "a row of 512 bytes", 4, 4096),
        (SHIFTED[0], "counters", many, "11, shifted by 16 bytes: B", "a row of 512 bytes", 4, 4096),
        (SHIFTED[1], "counters", many, "12, shifted by 16 bytes: B", "a row of 512 bytes", 4, 4096),
        (PADDED_TILES[3], "sectors", many, "15, padded by 32 bytes", "two or eight rows", 16, 4096),
        (PADDED_TILES[0], "sectors", many, "15, padded by 16 bytes", "two or eight rows", 16, 4096),
    ):
        counts = counters.counted(kernel, (4096, 4096, K), RECORDED.with_stem(recording))
        others, rest = (counts[f"copy_{of}"] - copies for of in ("instructions", "requests"))
        waves, pieces = counts["copy_wavefronts"] - 4 * others, counts["copy_sectors"] - others_read * rest
        rows.append((what, moved, waves / copies, pieces / copies))
    found = [(round(waves, 1), round(pieces)) for *_, waves, pieces in rows]
    assert found == [(4, 16), (4, 16), (8, 16), (8, 16), (12, 32), (12, 32), (8, 16), (8.1, 16), (11.9, 24)]
    return Table(
        ("kernel and tile", "a copy moves", "wavefronts", "sectors"),
        [(*of[:2], f"{waves:g}", pieces) for of, (waves, pieces) in zip(rows, found, strict=True)],
        f"Of one copy; M = N = K = 4096 unless named, {find_gpu('H200').name}",
        "Computed from the sums of all copies: those that aren't named are taken at four wavefronts each.",
    )
