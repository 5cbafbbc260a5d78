"""The page behind chapter 11: what an asynchronous copy costs at its two ends, and what one more column adds."""

from collections.abc import Iterable

import numpy as np

from ptxsim import Access, sectors, wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..experiments import counters, profiles
from ..records.cards import folder
from ..records.timings import recorded
from . import account

BUFFERED, RUNG, STREAM_K = map(find, ("10", "11", "12"))


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
                totals += (to, *((banks, pieces) if through_l1 else (to, to)), max(to, banks))
    return totals.tolist()


def ends(sizes: Iterable[tuple[int, int, int]] = counters.SHAPES) -> Table:
    """Return the wavefronts of 11's copies by four rules, and those that Nsight Compute counted."""
    rows = []
    for M, N, K in sizes:
        ncu = counters.measured(RUNG, M, N, K)["copy_wavefronts"]
        *others, worse = copy_wavefronts(simulate(RUNG, *matrices(M, N, K, on_gpu=False), trace=range(RUNG.grid(M, N))))
        assert worse == ncu and (K != 70 or all(abs(rule / ncu - 1) > 0.04 for rule in others))
        rows.append((f"{M} × {N} × {K}", *others, worse, ncu))
    others, counts = (  # 12 was counted on no other card
        [counters.counted(kernel, size, folder("h200") / "counters.json")["copy_wavefronts"] for size in sizes]
        for kernel in (STREAM_K, RUNG)
    )
    assert [more - own for more, own in zip(others, counts, strict=True)] == [8 * 1024, 8 * 1024, 0]
    return Table(
        ("M × N × K", "the writing end", "the reading end", "sectors read", "the worse end", "counted"),
        rows,
        note=f"Counted for kernel 12 on the H200: {others[0]:,}, {others[1]:,} and {others[2]:,}.",
    )


def all_wavefronts() -> Table:
    """Return everything that passes through L1 and shared memory at 4096 in 10 and 11, as it was counted."""
    names = {
        "shared_load_wavefronts": "reads of the tiles",
        "shared_store_wavefronts": "stores to the tiles",
        "copy_wavefronts": "copies",
    }
    runs = ten, eleven = [counters.measured(kernel, *(profiles.SIZE,) * 3) for kernel in (BUFFERED, RUNG)]
    rest = [of["l1_data_wavefronts"] - sum(map(of.get, names)) for of in runs]
    busy, taken = account.milliseconds(eleven["l1_data_wavefronts"]), recorded(RUNG, [profiles.SIZE]).points[0].ms
    assert (
        0.7 < (eleven["shared_load_requests"] - ten["shared_load_requests"]) / rest[1] < 1
        and 0.95 * rest[0] < eleven["copy_wavefronts"] == (8 * 16 + 16 * 4) * 512**2 < rest[0]
        and 1 / 3 < busy / taken < 0.4
    )
    rows = [(name, *(of[counter] for of in runs)) for counter, name in names.items()]
    rows += [("the rest", *rest), ("all", *(of["l1_data_wavefronts"] for of in runs))]
    return Table(
        ("wavefronts", "10", "11"),
        rows,
        f"M = N = K = {profiles.SIZE}, counted by Nsight Compute",
        f"At one in a cycle, those of 11 take {busy:.2f} ms. The kernel takes {taken:.2f} ms.",
    )


def odd_rows() -> Table:
    """Return what 10 and 11 do where rows of A are a multiple of 16 bytes apart, and where not."""
    names = {
        "global_load_requests": "requests for A and B",
        "global_load_sectors": "sectors that they touch",
    }
    runs = [counters.measured(kernel, 256, 256, K) for kernel in (BUFFERED, RUNG) for K in (256, 257)]
    rows = [(name, *(of[counter] for of in runs)) for counter, name in names.items()]
    requests, pieces = ((odd / even, two / one) for _, even, odd, one, two in rows)
    assert 4 < requests[0] < 4.1 and requests[1] < 1.03 and pieces[0] > 4 and 1.305 < pieces[1] < 1.315
    return Table(
        ("", *(f"{kernel}, K = {K}" for kernel in (10, 11) for K in (256, 257))),
        rows,
        "256 × 256 × K, counted by Nsight Compute",
    )
