"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw import Figure, lines
from ..model.waves import wave_share
from ..records import published
from ..records.timings import Point, climb, recorded
from .by_size import RUNGS, fitted_to

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
DOUBLED = {"B11": ("RTX A6000, Boehm", "11: Double Buffering"), "B12": ("H100, Boehm's code", "12: Double Buffering 2")}
"""Boehm's kernels with double buffering, and the cards on which they were timed."""

SHOWN = (
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("H100, this book", "09"),
    ("T4, T4 article", "07"),
    ("H200, this book", "07"),
)
"""Cards and rungs whose two shares the page compares."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""What junstar92's list of sizes calls his warp tile."""

SQUARE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
WIDE = {"BM": 128, "BN": 256, "BK": 8, "WM": 128, "WN": 32, "TM": 16, "TN": 8, "BLOCKS": 1}
"""Two tiles in which both 09 and 10 are recorded."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point of kernels 01 to 11 on the H200 and on the H100, by number and size."""
    first, second = (
        {(point.kernel[:2], point.M): point for point in climb(card=card).select(RUNGS).points} for card in CARDS
    )
    return {key: (first[key], second[key]) for key in first if key in second}


def later(one: Point, other: Point) -> float:
    """Return by which part the second takes longer."""
    return other.ms / one.ms - 1


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


def doubled() -> dict[str, str]:
    """Return by which part Boehm's kernels with double buffering are slower than his warp tile on the same card."""
    found = {(result.label, result.kernel): result for result in published.load() if result.table == "ladder"}
    slower = {name: 1 - found[at].of(found[at[0], "10: Warptiling"]) for name, at in DOUBLED.items()}
    assert min(slower.values()) > 0
    return {name: f"{by:.0%}" for name, by in slower.items()}


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
    far = {key for key, pair in pairs.items() if abs(later(*pair)) > 0.05}
    longer = sorted(later(*pairs[key]) for key in far)
    assert longer[0] > 0.07
    every = published.by_gpu(published.own(), published.load())
    tabled = sorted({rung for of in shares.values() for rung in of})
    assert all((row := [of[rung] for rung in tabled if rung in of]) == sorted(row) for of in every.values())
    below = [pair for (number, size), pair in pairs.items() if size > 2048 and number < "06"]
    first = [later(*pair) for pair in below]
    assert 3 * 4 * 2048**2 < find_gpu("H100").l2_bytes < 3 * 4 * 2176**2

    def ms_of(kernel: Kernel) -> float:
        return recorded(kernel, published.SIZE, "variants").points[0].ms

    square, wide = (ms_of(find("09").variant(**tile)) / ms_of(find("10").variant(**tile)) for tile in (SQUARE, WIDE))
    assert square < 1 < wide
    speeds, computed, _ = teeth()
    small = np.array([speeds[size] for size in speeds if size >= 1152])
    assert 8**2 <= find_gpu("RTX 3080").sms == 68 < 9**2 < 11**2 <= 2 * 68
    assert all(speeds[at] <= computed[at] for at in speeds if at <= 1024)
    (theirs,) = (of for of in published.load() if (of.source, of.kernel, of.table) == ("junstar92", "cuBLAS", "ladder"))
    assert np.isclose(theirs.gflops / theirs.tflops / 1e3, 1e9 / 2**30, rtol=1e-3)
    boehm = {(of.source, of.kernel[:2]): of.gflops for of in published.load() if of.kernel[:2] in ("6:", "7:", "8:")}
    assert len(boehm) == 6 and all(boehm[source, "6:"] >= speed for (source, _), speed in boehm.items())
    steps = {name: of["07"] / of["05"] - 1 for name, of in every.items()}
    A6000, H100, _, T4, H200 = (label for label, _ in SHOWN)
    assert (
        min(steps, key=steps.get) == A6000
        and max(steps, key=steps.get) == T4
        and abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
    )
    ms = {number: pairs[number, published.SIZE][0].ms for number, _ in pairs}
    return doubled() | {
        "sizes": str(len({size for _, size in pairs})),
        "first pairs": str(len(first)),
        "first half": f"{np.median(np.abs(first)):.1%}",
        "all pairs": str(len(pairs)),
        "close": str(len(pairs) - len(far)),
        "near": f"{max(abs(later(*pairs[key])) for key in pairs if key not in far):.0%}",
        "far": {7: "seven"}[len(far)],
        "longer": f"{longer[0]:.0%} to {longer[-1]:.0%}",
        "step least": f"{steps[A6000]:.0%}",
        "step most": f"{steps[T4]:.0%}",
        "warp": f"{shares[A6000]['09']:.0f}%",
        "warp moved": f"{shares[H100]['09']:.0f}%",
        "sheet": f"{sheet[A6000]['09']:.0f}%",
        "cuBLAS": f"{sheet[A6000]['cuBLAS']:.0f}%",
        "cuBLAS moved": f"{sheet[H100]['cuBLAS']:.0f}%",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "T4 cuBLAS": f"{sheet[T4]['cuBLAS']:.0f}%",
        "teeth": f"{wave_share(81, 68):.0%}",
        "full": f"{wave_share(121, 68):.0%}",
        "faster": f"{speeds[1408] / speeds[1152]:.2f}",
        "ours": f"{every[H200]['07']:.0f}%",
        "ours sheet": f"{sheet[H200]['07']:.0f}%",
        "loss 10": f"{1 / square - 1:.0%}",
        "wide 10": f"{wide - 1:.0%}",
        "flat": f"{small.std() / small.mean():.0%}",
        "too high": f"{max(computed[size] / speeds[size] - 1 for size in speeds if size <= 1024):.0%}",
        "coalesced": f"{ms['01'] / ms['02']:.0f}",
        "off": f"{teeth()[2]:.0%}",
    }
