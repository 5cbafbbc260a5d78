"""The page on measuring: what its method guards against, by recordings, and the figures in its sentences."""

import numpy as np

from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.table import Table

from ..experiments import launch_cost
from ..experiments.profiles import SIZE
from ..records import cards
from ..records.timings import Point, recorded

SIZES = (1024, 1536, 2560, 3200, 4096)
RUNGS = LADDER[:12]
"""The kernels of which the page speaks."""


def _pair(size: int) -> tuple[list[float], float, float | None]:
    """Return by which part 06 is slower than 05 in each process and in all samples, and the noise at that size."""
    at = recorded(LADDER, [size])
    five, six = (next(point for point in at.points if point.kernel[:2] == number) for number in ("05", "06"))
    single = [b / a - 1 for a, b in zip(five.medians, six.medians, strict=True)]
    return single, six.ms / five.ms - 1, at.noise


def noise() -> Table:
    """Return by size how far apart two kernels with the same main loop were found, and the noise between kernels."""
    rows = []
    for size in SIZES:
        single, pooled, noise = _pair(size)
        rows.append((size, ", ".join(f"{each:+.2%}" for each in single), f"{pooled:+.3%}", noise and f"{noise:.3%}"))
        assert abs(pooled) < 0.02 and (noise or 0) < 0.02
    columns = ("M = N = K", "06 against 05, by process", "all samples", "noise")
    return Table(columns, rows, recorded().made, "Noise is known where a recording was made in several processes.")


def cold() -> Table:
    """Return what an overwritten L2 adds to launches of two kernels and cuBLAS, where this card has it recorded."""
    rows, warm = [], {point.key: point for point in recorded(RUNGS).points}
    points = recorded(RUNGS, recording="cold").points if "cold" in cards.recordings() else []
    for size in (256, 512, 1024, 2048):
        at = [(point, warm[point.key]) for point in points if size == point.M]
        times = [[(1e3 * was.ms, 1e3 * now.ms)] for now, was in at if now.kernel[:2] in ("08", "11")]
        times.append([(1e3 * was.cublas_ms, 1e3 * now.cublas_ms) for now, was in at])
        if at:
            both = [np.median(each, axis=0) for each in times]
            assert all(0 < now - was < 10 for was, now in both) and (size > 1024 or round(np.diff(both[1])[0]) == 2)
            rows.append((size, *(f"{was:.1f} + {now - was:.1f}" for was, now in both)))
    columns = ("M = N = K", "08, µs", "11, µs", "cuBLAS, µs")
    return Table(columns, rows, recorded().made, "cuBLAS, timed beside each of 12 kernels: medians.")


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
    for name in (launch_cost.KERNEL, "cuBLAS"):
        host, device = (np.array(costs.seconds(name)[way]) for way in ("host clock", "device"))
        added = 1e6 * (host - device)
        assert 0 < max(added) < 3 * min(added) and host[0] / device[0] == max(host / device) > 2
        found[f"added {name}"] = f"{min(added):.1f} to {max(added):.1f} µs"
        found[f"slower {name}"] = f"{max(host / device):.1f}"
    at_256 = {point.kernel: point.us for point in costs.points if point.size == 256}
    by_host, by_device = (
        at_256["cuBLAS"][way][0] / at_256[launch_cost.KERNEL][way][0] for way in ("host clock", "device")
    )
    assert by_device < 1 < by_host
    rungs = recorded(RUNGS)
    spread = [point.ms_p90 / point.ms_p10 - 1 for point in rungs.points]
    taken = [(point.M, each) for point in rungs.points for of in point.processes for each in (of.own, of.cublas)]
    clocks = [(size, mhz) for size, each in taken for mhz in each.sm_mhz if mhz]
    watts, most = [power for _, each in taken for power in each.watts if power], rungs.provenance["sm_clock_max_mhz"]
    slowed = sorted({size for size, mhz in clocks if mhz < most})
    there = [mhz for size, mhz in clocks if size in slowed]
    assert SIZE not in slowed and np.ptp(slowed or [0]) <= 128 * (len(slowed) or 1)
    pairs = {size: _pair(size) for size in sorted({point.M for point in rungs.points})}
    single = sorted((abs(each) for alone, _, _ in pairs.values() for each in alone), reverse=True)
    assert all(abs(pooled) < noise for _, pooled, noise in pairs.values() if noise) and (
        single[2] < 0.005 or len(single) == len(pairs)  # that is, measured in one process
    )
    noises = {size: noise or 0 for size, (_, _, noise) in pairs.items()}
    three = [round(1e3 * ms, 3) for ms in recorded("05", 1024).points[0].medians]
    if "cold" in cards.recordings():
        points, warm = recorded(RUNGS, recording="cold").points, {point.key: point for point in rungs.points}
        lost = {point: 1e3 * (point.ms - warm[point.key].ms) for point in points}
        worst = max(lost, key=lost.get)
        found |= {
            "coldest": " and ".join(
                sorted(at.kernel[:2] for at in lost if at.M == worst.M and lost[at] > lost[worst] - 1)
            )
            + f" at {worst.M:,}",
            "coldest loses": f"{int(lost[worst])} µs",
            "coldest takes": f"{1e3 * warm[worst.key].ms:.0f} µs",
        }
    return {
        **dict.fromkeys(("coldest", "coldest loses", "coldest takes"), "–"),
        **found,
        **{
            f"{what} {size}": text
            for size in (256, SIZE)
            for what, text in zip(("time", "ratio"), _vary(recorded(RUNGS, size).points), strict=True)
        },
        "three": f"{', '.join(f'{us:.3f}' for us in three[:-1])} and {three[-1]:.3f}",
        "deviation": f"{np.std(three, ddof=1) / np.mean(three):.3%}" if noises[1024] else "–",
        "typical": f"{noises[1024] * np.sqrt(len(three) / 8):.3%}",
        "mean": f"{noises[1024] / np.sqrt(8):.3%}",
        "pair": f"{noises[1024] / 2:.3%}",
        "noise 1024": f"{noises[1024]:.2%}",
        "pairs": f"{len(single)}",
        "pairs near": f"{len(single) - 2}",
        "pairs far": f"{single[1]:.1%} and {single[0]:.1%}",
        "pooled": f"{max(abs(pooled) for _, pooled, _ in pairs.values()):.2%}",
        "pair sizes": f"{len(pairs)}",
        "noise most": "{:.2%}, at {:,}".format(*max((noise, size) for size, noise in noises.items())),
        "slowed": f"{slowed[0]:,} to {slowed[-1]:,}" if slowed else "–",
        "lower": f"{sum(mhz < most for mhz in there) / len(there):.0%}" if there else "–",
        "lowest": f"{min(there):,} MHz" if there else "–",
        "spread": f"{np.median(spread):.2%}",
        "widest": f"{max(spread):.0%}",
        "clock": f"{most:,} MHz",
        "watts": f"{max(watts)} W" if watts else "–",
        **{f"share {point.kernel[:2]}": f"{point.percent_of_cublas:.2f}%" for point in rungs.points if point.M == SIZE},
        "pair 4096": f"{abs(pairs[SIZE][1]):.2%}",
        "noise 4096": f"{noises[SIZE]:.2%}",
    }
