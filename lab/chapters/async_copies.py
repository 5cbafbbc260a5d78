"""The page behind chapter 11: a rule for the wavefronts of asynchronous copies, and where it fails."""

from collections.abc import Iterable, Mapping

import numpy as np

from ptxsim import Access, sectors, wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..experiments import counters
from ..records.cards import folder

RUNG, STREAM_K = map(find, ("11", "12"))
RECORDED = folder("h200") / "counters.json"
BLOCKS = {"11": 2, "12": 64, "15": 4, "16": 2, "17": 4}
"""The kernels with copies that were counted, and how many blocks of each make a product of 256 × 256 × 256."""


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
    """Return the wavefronts of 11's copies by four rules, and those that Nsight Compute counted."""
    rows = []
    for M, N, K in sizes:
        counts = counters.measured(RUNG, M, N, K)
        *others, worse, pieces = copy_wavefronts(
            simulate(RUNG, *matrices(M, N, K, on_gpu=False), trace=range(RUNG.grid(M, N)))
        )
        assert (worse, pieces) == (counts["copy_wavefronts"], counts["copy_sectors"])
        assert K == 256 or all(abs(rule / worse - 1) > 0.03 for rule in others)
        rows.append((f"{M} × {N} × {K}", *others, worse, counts["copy_wavefronts"]))
    return Table(("M × N × K", "the writing end", "the reading end", "sectors read", "the worse end", "counted"), rows)


def elsewhere(blocks: Mapping[str, int] = BLOCKS) -> Table:
    """Return what the worse end makes of each kernel's copies at 256, and the H200's counts: no other card has all."""
    size, rows = counters.SHAPES[0], []
    for kernel in map(find, blocks):
        counts = counters.counted(kernel, size, RECORDED)
        operands = matrices(*size, on_gpu=False, types=kernel.types)
        *_, rule, pieces = copy_wavefronts(simulate(kernel, *operands, trace=range(blocks[kernel.name[:2]])))
        rows.append((kernel.name[:2], rule, counts["copy_wavefronts"], pieces, counts["copy_sectors"]))
    ragged, large = (counters.counted(STREAM_K, size, RECORDED) for size in (counters.SHAPES[2], counters.LARGE))
    parts = [large[name] for name in ("shared_load_wavefronts", "copy_wavefronts", "l1_data_wavefronts")]
    assert [counted - rule for _, rule, counted, *_ in rows] == [0, 8 * 1024, 6080, 4 * 256, 0]
    assert [counted - ours for *_, ours, counted in rows] == [0, 16 * 1024, 8 * 1024, 0, 0]
    assert ragged["copy_wavefronts"] == 5448 and parts[0] + parts[1] > 1.1 * parts[2]
    return Table(
        ("kernel", "the worse end", "wavefronts counted", "sectors by the addresses", "sectors counted"),
        rows,
        f"256 × 256 × 256, {find_gpu('H200').name}",
        f"Kernel 12 at 131 × 67 × 70: {ragged['copy_wavefronts']:,} wavefronts of copies. Kernel 12 at 4096, in "
        "millions: {:.0f} of reads of the tiles, {:.0f} of copies, {:.0f} of all kinds.".format(
            *(part / 1e6 for part in parts)
        ),
    )
