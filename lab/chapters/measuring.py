"""The page on measuring: what its method guards against, by recordings, and the figures in its sentences."""

from __future__ import annotations

import numpy as np

from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..draw import Figure, scaling
from ..experiments import launch_cost, sustained
from ..experiments.launch_cost import launches_or_recording
from ..experiments.profiles import SIZE
from ..records import cards
from ..records.timings import recorded

SIZES = (128, 512, 1024, 2048, 4096)


def single_launches() -> Figure:
    """Draw what one launch of cuBLAS seems to take, by size, timed in three ways."""
    costs = launch_cost.load()
    return scaling(costs.sizes, costs.seconds("cuBLAS"))


def launches(size: int) -> Table:
    """Return what single launches seem to take, measured on the reader's GPU, or else recorded."""
    return launches_or_recording(size)


def noise() -> Table:
    """Return by size the noise between kernels, and how far apart two with the same main loop were found."""
    every, rows = recorded(), []
    for size in SIZES:
        of = every.select(sizes=[(size,) * 3])
        ms = {point.kernel[:2]: point.ms for point in of.points}
        apart = ms["06"] / ms["05"] - 1
        rows.append((size, of.noise and f"{of.noise:.2%}", f"{apart:+.2%}"))
        assert abs(apart) < 0.02 and (of.noise or 0) < 0.02
    note = "Noise is known where a recording was made in several processes."
    return Table(("M = N = K", "noise", "06 against 05"), rows, every.made, note)


def cold() -> Table:
    """Return the microseconds that a cold L2 adds to a kernel and to cuBLAS, where this card's recordings have it."""
    sizes, rows, warm = (256, 512, 1024, 2048), [], recorded()
    if "cold" in cards.recordings():
        cold = {point.key: point for point in recorded(sizes=sizes, recording="cold").points}
        for point in warm.select(sizes=[(size,) * 3 for size in sizes]).points:
            if point.kernel == "08_conflict_free":
                there = cold[point.key]
                later = (1e3 * (there.ms - point.ms), 1e3 * (there.cublas_ms - point.cublas_ms))
                assert 0 < min(later) < max(later) < 10
                rows.append((point.M, 1e3 * point.ms, later[0], 1e3 * point.cublas_ms, later[1]))
    columns = ("M = N = K", "08, µs", "more if cold", "cuBLAS, µs", "more if cold")
    return Table(columns, rows, warm.made)


def lasting() -> Table:
    """Return the clock and the power of three products that ran for seconds, where this card's recordings have it."""
    rows = []
    if "sustained" in cards.recordings():
        fp16 = sustained.of(cublas.gemm_ex)
        for name, of in (
            ("cuBLAS, FP32", sustained.of(cublas.sgemm)),
            ("cuBLAS, FP16", fp16),
            ("16_mma, FP16", sustained.of(find("16_mma"))),
        ):
            rows.append((name, of.ms, f"{of.sm_mhz:,}", of.watts, f"{of.cycles:,.0f}"))
    columns = ("product", "ms", "SM clock, MHz", "power, W", "cycles")
    return Table(columns, rows, f"M = N = K = {SIZE} for seconds: {recorded().made}")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    costs, found = launch_cost.load(), {}
    added = {}
    for name in ("cuBLAS", launch_cost.KERNEL):
        times = costs.seconds(name)
        added[name] = [1e6 * (a - b) for a, b in zip(times["host clock"], times["device"], strict=True)]
        assert times["host clock"][0] > 2 * times["device"][0]
        assert min(added[name]) > 0 and max(added[name]) < 3 * min(added[name])
        found[f"added {name}"] = f"{min(added[name]):.0f} to {max(added[name]):.0f} µs"
    assert np.median(added["cuBLAS"]) > np.median(added[launch_cost.KERNEL])
    at_256 = {point.kernel: point.us for point in costs.points if point.size == 256}
    library, kernel = at_256["cuBLAS"], at_256[launch_cost.KERNEL]
    assert library["device"][0] < kernel["device"][0] and library["host clock"][0] > kernel["host clock"][0]
    everything = recorded()
    apart = []
    for size in SIZES:
        times = [point.cublas_ms for point in everything.select(sizes=[(size,) * 3]).points]
        apart.append(max(times) / min(times) - 1)
    spread = [point.ms_p90 / point.ms_p10 - 1 for point in everything.points]
    full = everything.select(sizes=[(SIZE,) * 3]).points
    own = [process.own for point in full for process in point.processes]
    clocks = [clock for samples in own for clock in samples.sm_mhz if clock]
    watts = [power for samples in own for power in samples.watts if power]
    most = everything.provenance["sm_clock_max_mhz"]
    assert not clocks or np.median(clocks) > 0.98 * most
    if "sustained" in cards.recordings():
        mma, fp16 = sustained.of(find("16_mma")), sustained.of(cublas.gemm_ex)
        assert fp16.sm_mhz < mma.sm_mhz < sustained.of(cublas.sgemm).sm_mhz
        found |= {"by time": f"{fp16.ms / mma.ms:.0%}", "by cycles": f"{fp16.cycles / mma.cycles:.0%}"}
    l2 = everything.provenance["l2_bytes"]
    return {
        "by time": "–",
        "by cycles": "–",
        **found,
        "apart": f"{max(apart):.1%}",
        "points": f"{len(spread):,}",
        "spread": f"{np.median(spread):.1%}",
        "widest": f"{max(spread):.0%}",
        "clock": f"{most:,} MHz",
        "watts": f"{min(watts):.0f} to {max(watts):.0f} W" if watts else "–",
        "l2": f"{l2 / 2**20:.0f} MiB",
        "needed": f"{3 * 4 * SIZE**2 / 2**20:.0f} MiB",
    }
