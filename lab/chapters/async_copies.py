"""The page behind chapter 11: what an asynchronous copy costs at its two ends, and what odd sizes cost."""

from collections.abc import Iterable

import numpy as np

from ptxsim import Access, sectors, wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..accesses import request
from ..experiments import counters, profiles
from ..records.timings import recorded

BUFFERED, RUNG = find("10_double_buffer"), find("11_async_pipeline")


def _one_warp(access: Access, warp: int, kind: str) -> tuple[int, int]:
    """Return the wavefronts and sectors of one warp's part of an access."""
    mine, lanes = access.threads // WARP == warp, np.full((1, WARP), -1)
    if not mine.any():
        return 0, 0
    lanes[0, access.threads[mine] % WARP] = access.offsets[mine]
    return wavefronts(lanes, access.width, kind)[0], sectors(lanes)


def copy_wavefronts(run: Run) -> list[int]:
    """Return the wavefronts of a traced run's copies: by writing end, reading end, sectors, and worse end."""
    totals, before = np.zeros(4, int), {}
    for access in run.trace:
        source = before.get(access.block)
        before[access.block] = access
        if (access.space, access.kind) == ("shared", "store"):
            through_l1 = source is not None and (source.line, source.kind, source.width) == (access.line, "load", 4)
            for warp in np.unique(access.threads // WARP):
                to, _ = _one_warp(access, warp, "store")
                banks, pieces = _one_warp(source, warp, "load") if through_l1 else (0, 0)
                totals += (to, banks if through_l1 else to, max(to, pieces), max(to, banks))
    return totals.tolist()


def ends(sizes: Iterable[tuple[int, int, int]] = counters.SHAPES) -> Table:
    """Return the wavefronts of 11's copies by four rules, and those that Nsight Compute counted."""
    rows = []
    for M, N, K in sizes:
        traced = simulate(RUNG, *matrices(M, N, K, on_gpu=False), trace=range(RUNG.grid(M, N)))
        counted = counters.measured(RUNG, M, N, K)["copy_wavefronts"]
        *others, worse = copy_wavefronts(traced)
        assert worse == counted
        if K == 70:
            assert all(abs(rule / counted - 1) > 0.04 for rule in others)
        rows.append((f"{M} × {N} × {K}", *others, worse, counted))
    return Table(("M × N × K", "the writing end", "the reading end", "sectors read", "the worse end", "counted"), rows)


def all_wavefronts() -> Table:
    """Return everything that passes through L1 and shared memory at 4096 in 10 and 11, per multiply-add of a warp."""
    size, of = profiles.SIZE, BUFFERED.parameters
    traced = simulate(BUFFERED, *matrices(256, 256, 256, on_gpu=False), trace=[0])
    of_a, of_b = (request(traced, array=name).wavefronts for name in "AB")
    fetches = of["BM"] * of["BK"] // 128 * of_a + of["BK"] * of["BN"] // 128 * of_b  # of a pair of tiles
    loads = BUFFERED.grid(size, size) * size // of["BK"] * fetches
    columns = []
    for kernel in (BUFFERED, RUNG):
        large = counters.measured(kernel, size, size, size)
        parts = {
            "reads of the tiles": large["shared_load_wavefronts"],
            "loads from global memory, by the rule": loads if kernel is BUFFERED else 0,
            "stores to the tiles": large["shared_store_wavefronts"],
            "copies": large["copy_wavefronts"],
        }
        parts["C and the rest"] = large["l1_data_wavefronts"] - sum(parts.values())
        columns.append(parts | {"all": large["l1_data_wavefronts"]})
    assert abs(columns[1]["copies"] / loads - 1) < 0.01 and columns[1]["all"] < columns[0]["all"]
    each = WARP / size**3
    rows = [(part, *(f"{of[part] * each:.3f}" if of[part] else None for of in columns)) for part in columns[0]]
    buffered, rung = (recorded(kernel, size).points[0].ms for kernel in (BUFFERED, RUNG))
    assert abs(rung / buffered - 1) < 0.005
    return Table(
        ("wavefronts of", "10", "11"),
        rows,
        "Per multiply-add of a warp at 4096, counted but for 10's loads",
        f"The whole product takes {buffered:.2f} ms in 10 and {rung:.2f} ms in 11.",
    )


def odd_rows() -> Table:
    """Return what reading A and B costs 10 and 11 where rows of A are a multiple of 16 bytes apart, and where not."""
    rows, counts = [], {}
    names = ("global_load_requests", "global_load_sectors", "instructions")
    for kernel in (BUFFERED, RUNG):
        for K in (256, 257):
            counted = counts[kernel.name[:2], K] = counters.measured(kernel, 256, 256, K)
            rows.append((kernel.name[:2], K, *(counted[name] for name in names)))
    for name in names[:2]:
        assert counts["10", 257][name] > 3.9 * counts["10", 256][name]
        assert counts["11", 257][name] < 1.5 * counts["11", 256][name]
    return Table(("rung", "K", "requests", "sectors", "instructions"), rows, "256 × 256 × K, counted by Nsight Compute")
