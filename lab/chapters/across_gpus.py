"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

import numpy as np

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw import Figure, lines
from ..model.waves import wave_share
from ..records import published
from ..records.timings import Point, climb
from .by_size import RUNGS, fitted_to

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
SHOWN = (
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("H100, this book", "09"),
    ("T4, T4 article", "07"),
    ("H200, this book", "07"),
)
"""Cards and rungs whose two shares the page compares."""

FAR = {("02", 2816), ("02", 2944), ("05", 1536), ("05", 2560), ("06", 1536), ("06", 2560), ("08", 384)}
"""Kernels and sizes at which the H100 takes more than 5% longer, as the page lists them."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""What junstar92's list of sizes calls his warp tile."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point of kernels 01 to 11 on the H200 and on the H100, by number and size."""
    first, second = (
        {(point.kernel[:2], point.M): point for point in climb(card=card).select(RUNGS).points} for card in CARDS
    )
    return {key: (first[key], second[key]) for key in first if key in second}


def later(one: Point, other: Point) -> float:
    """Return by which part the second takes longer."""
    return other.ms / one.ms - 1


def longer_above_2048() -> dict[str, list[float]]:
    """Return by which part kernels 01 to 05 take longer on the H100 at each size above 2048."""
    pairs = both()
    return {
        number: [later(*pair) for (kernel, size), pair in pairs.items() if kernel == number and size > 2048]
        for number in ("01", "02", "03", "04", "05")
    }


def two_cards() -> Table:
    """Return the median, the least and the most by which the H100 takes longer."""
    found = longer_above_2048().items()
    rows = [(name, *(f"{by:+z.1%}" for by in (statistics.median(of), min(of), max(of)))) for name, of in found]
    return Table(("kernel", "median", "least", "most"), rows, "By how much the H100's time is longer, 2176 to 4096")


def of_data_sheet() -> dict[str, dict[str, float]]:
    """Return percentages of each card's peak by its data sheet, by card and source, and by rung or cuBLAS."""
    rates: dict[str, dict[str, float]] = {}
    for record in published.own():
        cublas = 2e-9 * published.SIZE**3 / statistics.median(point.cublas_ms for point in record.points)
        ours = {point.kernel[:2]: point.tflops for point in record.points}
        rates[published.label(record)] = ours | {published.CUBLAS: cublas}
    for result in published.load():
        name = published.CUBLAS if result.kernel == published.CUBLAS else result.rung
        if name and result.table == "ladder":
            rates.setdefault(result.label, {})[name] = result.tflops
    peaks = {name: find_gpu(name.partition(",")[0]).fp32_tflops for name in rates}
    return {name: {rung: 100 * rate / peaks[name] for rung, rate in of.items()} for name, of in rates.items()}


def two_shares() -> Table:
    """Return some kernels' shares of cuBLAS and of the data sheet's peak, and cuBLAS's share of the peak."""
    sheet, of_cublas = of_data_sheet(), published.by_gpu(published.own(), published.load())
    rows = [
        (name, rung, *(f"{share:.0f}%" for share in (of_cublas[name][rung], sheet[name][rung], sheet[name]["cuBLAS"])))
        for name, rung in SHOWN
    ]
    return Table(
        ("card, by whom", "kernel", "of cuBLAS", "of the peak", "cuBLAS, of the peak"),
        rows,
        f"Shares of cuBLAS and of the data sheet's peak, M = N = K = {published.SIZE}",
    )


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def teeth() -> tuple[dict[int, float], dict[int, float], float]:
    """Return TFLOP/s of junstar92's warp tile by size, what follows from whole tiles, and how far that is off."""
    speeds = {size: result.tflops for size, result in sweep(WARP_TILE).items()}
    used = {size: wave_share((size // 128) ** 2, find_gpu("RTX 3080").sms) for size in speeds}
    level, off = fitted_to({size: speed for size, speed in speeds.items() if size >= 1152}, used)
    return speeds, {size: level * share for size, share in used.items()}, off


def teeth_drawn() -> Figure:
    """Draw the speeds that `teeth` returns."""
    measured, computed, _ = teeth()
    return lines(
        "junstar92's warp tile on an RTX 3080",
        {"measured": [*measured.items()], "computed": [*computed.items()]},
        "Across: M = N = K. Up: TFLOP/s.",
        " TFLOP/s",
    )


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    assert all(one.times == 3 and not other.processes for one, other in pairs.values())
    assert {key for key, pair in pairs.items() if later(*pair) > 0.05} == FAR
    longer = {f"{number} at {size}": f"{later(*pairs[number, size]):.0%}" for number, size in sorted(FAR)}
    assert all(longer[f"05 at {size}"] == longer[f"06 at {size}"] for size in (1536, 2560))
    every = published.by_gpu(published.own(), published.load())
    tabled = sorted({rung for of in shares.values() for rung in of})
    assert all((row := [of[rung] for rung in tabled if rung in of]) == sorted(row) for of in every.values())
    above = longer_above_2048()
    assert {number for number, of in above.items() if max(of) > 0.05} == {"02", "05"}
    assert 3 * 4 * 2048**2 < find_gpu("H100").l2_bytes < 3 * 4 * 2176**2
    speeds, computed, _ = teeth()
    assert 8**2 <= find_gpu("RTX 3080").sms == 68 and all(speeds[at] <= computed[at] for at in speeds if at <= 1024)
    (theirs,) = (of for of in published.load() if (of.source, of.kernel, of.table) == ("junstar92", "cuBLAS", "ladder"))
    assert np.isclose(theirs.gflops / theirs.tflops / 1e3, 1e9 / 2**30, rtol=1e-3)
    large = [size for size in speeds if size >= 1152]
    small = np.array([speeds[size] for size in large])
    misses = {size: abs(computed[size] / speeds[size] - 1) for size in large}
    assert {*sorted(large, key=speeds.get)[:5]} == {*sorted(large, key=computed.get)[:5]}
    assert misses[1152] == max(misses.values())
    boehm = {(of.label, of.kernel.partition(":")[0]): of.gflops for of in published.load() if of.kernel[0].isdigit()}
    lost = [(at, "6" if at[1] in "78" else "10") for at in boehm if at[1] in ("7", "8", "11", "12")]
    assert len(lost) == 6 and all(boehm[at] < boehm[at[0], before] for at, before in lost)
    A6000, H100, _, T4, H200 = (label for label, _ in SHOWN)
    assert (
        abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
        and abs(2 * sheet[T4]["07"] - sheet[H200]["07"]) < 1
        and shares[A6000]["09"] > shares[H100]["09"]
        and sheet[T4]["cuBLAS"] < sheet[H200]["cuBLAS"] / 2
    )
    same = {"A6000": shares[A6000], "H100": shares[H100]}
    assert same["H100"]["07"] / same["H100"]["05"] > 1.05 * same["A6000"]["07"] / same["A6000"]["05"]
    (theirs,) = (of for of in published.load() if of.kernel == "Warptiling SGEMM")
    ms = {number: pairs[number, published.SIZE][0].ms for number, _ in pairs}
    return longer | {
        **{f"{name} {rung}": f"{of[rung]:.1f}%" for name, of in same.items() for rung in ("05", "07")},
        **{f"{name} step": f"{of['07'] / of['05'] - 1:.0%}" for name, of in same.items()},
        "median": f"{max(abs(statistics.median(of)) for of in above.values()):.1%}",
        "sweep ms": f"{sweep(WARP_TILE)[published.SIZE].ms:.2f} ms",
        "ladder ms": f"{theirs.ms:.2f} ms",
        "miss": f"{misses[1152]:.0%}",
        "sizes": str(len({size for _, size in pairs})),
        "all pairs": str(len(pairs)),
        "close": str(len(pairs) - len(FAR)),
        "near": f"{max(abs(later(*pairs[key])) for key in pairs if key not in FAR):.0%}",
        "warp": f"{shares[A6000]['09']:.0f}%",
        "warp moved": f"{shares[H100]['09']:.0f}%",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "T4 cuBLAS": f"{sheet[T4]['cuBLAS']:.0f}%",
        "H200 cuBLAS": f"{sheet[H200]['cuBLAS']:.0f}%",
        "teeth": f"{wave_share(81, 68):.0%}",
        "faster": f"{speeds[1408] / speeds[1152]:.2f}",
        "ours": f"{every[H200]['07']:.0f}%",
        "ours sheet": f"{sheet[H200]['07']:.0f}%",
        "flat": f"{small.std() / small.mean():.0%}",
        "too high": f"{max(computed[size] / speeds[size] - 1 for size in speeds if size <= 1024):.0%}",
        "coalesced": f"{ms['01'] / ms['02']:.0f}",
        "off": f"{teeth()[2]:.0%}",
    }
