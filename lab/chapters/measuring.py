"""The page on measuring: what its method guards against, by recordings, and the figures in its sentences."""

import numpy as np

from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.table import Table

from ..experiments import launch_cost
from ..experiments.profiles import SIZE
from ..records import cards
from ..records.timings import recorded

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
    pairs = {size: _pair(size) for size in sorted({point.M for point in rungs.points})}
    single = sorted((abs(each) for alone, _, _ in pairs.values() for each in alone), reverse=True)
    assert all(abs(pooled) < noise for _, pooled, noise in pairs.values() if noise) and (
        single[2] < 0.005 or len(single) == len(pairs)  # that is, measured in one process
    )
    noises = {size: noise or 0 for size, (_, _, noise) in pairs.items()}
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
        "pairs": f"{len(single)}",
        "pairs near": f"{len(single) - 2}",
        "pairs far": f"{single[1]:.1%} and {single[0]:.1%}",
        "pooled": f"{max(abs(pooled) for _, pooled, _ in pairs.values()):.2%}",
        "pair sizes": f"{len(pairs)}",
        "noise most": "{:.2%}, at {:,}".format(*max((noise, size) for size, noise in noises.items())),
        **{f"share {point.kernel[:2]}": f"{point.percent_of_cublas:.2f}%" for point in rungs.points if point.M == SIZE},
        "pair 4096": f"{abs(pairs[SIZE][1]):.2%}",
        "noise 4096": f"{noises[SIZE]:.2%}",
    }
