"""The page on measuring: what its method guards against, by recordings, and the figures in its sentences."""

import numpy as np

from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.table import Table

from ..experiments import launch_cost
from ..experiments.profiles import SIZE
from ..records import cards
from ..records.timings import Point, recorded

SIZES = (128, 1024, 1536, 3200, 4096)


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
                rows.append((point.M, 1e3 * point.ms, f"{later[0]:.0f}", 1e3 * point.cublas_ms, f"{later[1]:.0f}"))
    columns = ("M = N = K", "08, µs", "cold: + µs", "cuBLAS, µs", "cold: + µs")
    return Table(columns, rows, warm.made)


def _vary(points: list[Point]) -> list[str]:
    """Return by how much kernels' times vary between processes, and their ratios to cuBLAS."""
    several = [
        (point.medians, [np.median(process.cublas.ms) for process in point.processes])
        for point in points
        if len(point.processes) > 1
    ]
    own, library = np.log(several).swapaxes(0, 1) if several else (None, None)
    return (
        [f"{np.sqrt(np.var(of, axis=1, ddof=1).mean()):.2%}" for of in (own, own - library)] if several else ["–"] * 2
    )


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    costs, found = launch_cost.load(), {}
    added = {}
    for name in ("cuBLAS", launch_cost.KERNEL):
        times = costs.seconds(name)
        added[name] = [1e6 * (a - b) for a, b in zip(times["host clock"], times["device"], strict=True)]
        assert times["host clock"][0] > 2 * times["device"][0]
        assert min(added[name]) > 0 and max(added[name]) < 3 * min(added[name])
        found[f"added {name}"] = f"{min(added[name]):.1f} to {max(added[name]):.1f} µs"
        found[f"slower {name}"] = f"{max(np.divide(times['host clock'], times['device'])):.1f}"
        assert times["host clock"][0] / times["device"][0] == max(np.divide(times["host clock"], times["device"]))
    assert np.median(added["cuBLAS"]) > np.median(added[launch_cost.KERNEL])
    at_256 = {point.kernel: point.us for point in costs.points if point.size == 256}
    library, kernel = at_256["cuBLAS"], at_256[launch_cost.KERNEL]
    assert library["device"][0] < kernel["device"][0] and library["host clock"][0] > kernel["host clock"][0]
    assert float(found["slower cuBLAS"]) > float(found[f"slower {launch_cost.KERNEL}"])
    everything = recorded()
    rungs = everything.select(LADDER[:11])
    spread = [point.ms_p90 / point.ms_p10 - 1 for point in everything.points]
    samples = [
        (point.M, taken) for point in rungs.points for each in point.processes for taken in (each.own, each.cublas)
    ]
    clocks = {size: [mhz for M, taken in samples if size <= M for mhz in taken.sm_mhz if mhz] for size in (0, SIZE)}
    watts = [power for M, taken in samples if M == SIZE for power in taken.watts if power]
    most = everything.provenance["sm_clock_max_mhz"]
    assert min(clocks[SIZE], default=most) == most
    lower = sum(mhz < most for mhz in clocks[0])
    assert lower < 0.02 * max(1, len(clocks[0]))
    noises = {size: everything.select(sizes=[(size,) * 3]).noise or 0 for size in sorted({at.M for at in rungs.points})}
    vary = {size: _vary([point for point in rungs.points if size == point.M]) for size in (256, SIZE)}
    if "cold" in cards.recordings():
        cold, warm = recorded(recording="cold").points, {point.key: point for point in rungs.points}
        lost = {point: 1e3 * (point.ms - warm[point.key].ms) for point in cold if point.key in warm}
        least, worst = min(lost, key=lost.get), max(lost, key=lost.get)
        found |= {
            "coldest": " and ".join(
                sorted(at.kernel[:2] for at in lost if at.M == worst.M and lost[at] > lost[worst] - 1)
            )
            + f" at {worst.M:,}",
            "coldest loses": f"{int(lost[worst])} µs",
            "warmest": f"{least.kernel[:2]} at {least.M:,}",
            "warmest gains": f"{-lost[least]:.0f} µs",
        }
    return {
        **dict.fromkeys(("coldest", "coldest loses", "warmest", "warmest gains", "one 256", "one 4096"), "–"),
        **found,
        **{f"time {size}": own for size, (own, _) in vary.items()},
        **{f"ratio {size}": ratio for size, (_, ratio) in vary.items()},
        **{f"one {size}": f"{np.sqrt(8) * float(own[:-1]):.1f}%" for size, (own, _) in vary.items() if own != "–"},
        "noise most": "{:.2%}, at {:,}".format(*max((noise, size) for size, noise in noises.items())),
        "lower": f"{lower:,} of {len(clocks[0]):,}" if watts else "–",
        "lowest": f"{min(clocks[0]):,} MHz" if watts else "–",
        "spread": f"{np.median(spread):.2%}",
        "widest": f"{max(spread):.0%}",
        "clock": f"{most:,} MHz",
        "watts": f"{min(watts):.0f} to {max(watts):.0f} W" if watts else "–",
    }
