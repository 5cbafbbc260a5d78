"""The page on several GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics
from collections.abc import Iterable

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw import Figure, lines
from ..model.waves import wave_share
from ..records import cards, published
from ..records.shapes import SHAPES, SQUARES
from ..records.sizes import Size
from ..records.timings import Point, climb, recorded
from ..variants import find_variant
from .by_size import RUNGS, fitted_to

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
BOEHM = {
    "7: Avoid Bank Conflicts (Linearize)": "6: Vectorized Mem Access",
    "8: Avoid Bank Conflicts (Offset)": "6: Vectorized Mem Access",
    "9: Autotuning": "6: Vectorized Mem Access",
    "11: Double Buffering": "10: Warptiling",
    "12: Double Buffering 2": "10: Warptiling",
}
"""Boehm's kernels that the page's table leaves out, each with the one that it starts from."""

SHOWN = (
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("H100, this book", "09"),
    ("T4, T4 article", "07"),
    ("RTX 3080, junstar92", "09"),
    ("H200, this book", "07"),
)
"""Cards and rungs whose two shares the page compares."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""What junstar92's list of sizes calls his warp tile."""

SQUARE = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2}
"""A tile in which both 09 and 10 are recorded."""
SWIZZLED = ({}, {"BK": 16}, {"BM": 128, "BK": 8, "BLOCKS": 2})
"""What tiles of 08 that are recorded with and without a swizzle have that its own has not."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point of kernels 01 to 11 on the H200 and on the H100, by number and size."""
    every = (climb(card=card).select(RUNGS).points for card in CARDS)
    first, second = ({(point.kernel[:2], point.M): point for point in points} for points in every)
    return {key: (first[key], second[key]) for key in first if key in second}


def means(number: str, recording: str, sizes: Iterable[Size], share: str) -> tuple[float, float]:
    """Return the geometric means of a kernel's shares of an opponent's speed on the H200 and the H100, in percent."""
    every = (recorded(number, list(sizes), cards.folder(card) / f"{recording}.json").points for card in CARDS)
    first, second = (statistics.geometric_mean(getattr(point, share) for point in points) for points in every)
    return first, second


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
    heads = ("card, by whom", "kernel", "of cuBLAS", "of the peak", "cuBLAS, of the peak")
    return Table(heads, rows, f"Shares of cuBLAS and of the data sheet's peak, M = N = K = {published.SIZE}")


def left_out() -> Table:
    """Return Boehm's other kernels on both cards, each beside the one that it starts from."""
    found = {(result.label, result.kernel): result for result in published.load() if result.table == "ladder"}
    gpus = ("RTX A6000, Boehm", "H100, Boehm's code")
    rows = [
        (
            f"B{name}",
            f"B{start}",
            *(f"{found[gpu, name].of(found[gpu, start]) - 1:+.0%}" if (gpu, name) in found else None for gpu in gpus),
        )
        for name, start in BOEHM.items()
    ]
    return Table(("Boehm's kernel", "compared with", "RTX A6000", "H100"), rows, "Gain in speed, M = N = K = 4096")


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
    pairs, sheet = both(), of_data_sheet()
    sizes = sorted({size for _, size in pairs})
    fastest = [[min((pairs[key][i].ms, key) for key in pairs if key[1] == size)[1] for size in sizes] for i in (0, 1)]
    assert fastest[0] == fastest[1]
    assert all(one.times == 3 and not other.processes for one, other in pairs.values())
    far = {key for key, pair in pairs.items() if abs(later(*pair)) > 0.05}
    several = {(number, size) for number in ("05", "06") for size in (1536, 2560)}
    assert far == several | {("02", 2816), ("02", 2944), ("08", 384)}
    longer = sorted(later(*pairs[key]) for key in far)
    assert longer[0] > 0.07
    shares = published.shares(published.load())
    for of in shares.values():
        assert list(of.values()) == [of[rung] for rung in sorted(of)] == sorted(of.values())
    below = [pair for (number, size), pair in pairs.items() if size > 2048 and number < "06"]
    first = [later(*pair) for pair in below]
    assert 3 * 4 * 2048**2 < find_gpu("H100").l2_bytes < 3 * 4 * 2176**2

    def ms_of(kernel: Kernel) -> float:
        return recorded(kernel, published.SIZE, "variants").points[0].ms

    swizzled = [(find("08").variant(**tile), find_variant("08", "not swizzled", **tile)) for tile in SWIZZLED]
    gains = sorted(ms_of(without) / ms_of(kernel) - 1 for kernel, without in swizzled)
    square = ms_of(find("09").variant(**SQUARE)) / ms_of(find("10").variant(**SQUARE))
    speeds, computed, _ = teeth()
    small = np.array([speeds[size] for size in speeds if size >= 1152])
    assert not [0 for size in speeds if size <= 1024 and speeds[size] > computed[size]]
    (theirs,) = (of for of in published.load() if (of.source, of.kernel, of.table) == ("junstar92", "cuBLAS", "ladder"))
    assert np.isclose(theirs.gflops / theirs.tflops / 1e3, 1e9 / 2**30, rtol=1e-3)
    steps = {name: of["07"] / of["05"] - 1 for name, of in published.by_gpu(published.own(), published.load()).items()}
    A6000, H100, _, T4, _, H200 = (label for label, _ in SHOWN)
    assert (min(steps, key=steps.get), max(steps, key=steps.get)) == (A6000, T4)
    squares = means("13", "squares", SQUARES, "percent_of_cublas")
    shapes = means("22", "any_shape", SHAPES, "percent_of_searched")
    assert squares[0] > squares[1] > 100 and shapes[0] > shapes[1] > 100
    ms = {number: pairs[number, published.SIZE][0].ms for number, _ in pairs}
    return {
        "sizes": str(len(sizes)),
        "cuBLAS ahead": f"{1 - np.median([other.cublas_ms / one.cublas_ms for one, other in below]):.1%}",
        "first pairs": str(len(first)),
        "first half": f"{np.median(np.abs(first)):.1%}",
        "first ahead": str(sum(by < 0 for by in first)),
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
        "sheet moved": f"{sheet[H100]['09']:.0f}%",
        "cuBLAS": f"{sheet[A6000]['cuBLAS']:.0f}%",
        "cuBLAS moved": f"{sheet[H100]['cuBLAS']:.0f}%",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "T4 cuBLAS": f"{sheet[T4]['cuBLAS']:.0f}%",
        "teeth": f"{wave_share(81, 68):.0%}",
        "full": f"{wave_share(121, 68):.0%}",
        "faster": f"{speeds[1408] / speeds[1152]:.2f}",
        "ours": f"{published.by_gpu(published.own(), ())[H200]['07']:.0f}%",
        "ours sheet": f"{sheet[H200]['07']:.0f}%",
        "gain 08": f"{gains[0]:.0%} to {gains[-1]:.0%}",
        "gain 10": f"{ms['09'] / ms['10'] - 1:.0%}",
        "loss 10": f"{1 / square - 1:.0%}",
        "flat": f"{small.std() / small.mean():.0%}",
        "too high": f"{max(computed[size] / speeds[size] - 1 for size in speeds if size <= 1024):.0%}",
        "coalesced": f"{ms['01'] / ms['02']:.0f}",
        "13 there": f"{squares[0]:.0f}%",
        "13 moved": f"{squares[1]:.0f}%",
        "squares": str(len(SQUARES)),
        "22 there": f"{shapes[0]:.0f}%",
        "22 moved": f"{shapes[1]:.0f}%",
        "shapes": str(len(SHAPES)),
        "off": f"{teeth()[2]:.0%}",
    }
