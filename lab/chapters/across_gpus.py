"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics
from collections.abc import Iterable
from itertools import product

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
WIDE = {"BM": 128, "BN": 256, "BK": 8, "WM": 128, "WN": 32, "TM": 16, "TN": 8, "BLOCKS": 1}
"""Two tiles in which both 09 and 10 are recorded."""
SWIZZLED = ({}, {"BK": 16}, {"BM": 128, "BK": 8, "BLOCKS": 2})
"""What tiles of 08 that are recorded with and without a swizzle have that its own has not."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point of kernels 01 to 11 on the H200 and on the H100, by number and size."""
    first, second = (
        {(point.kernel[:2], point.M): point for point in climb(card=card).select(RUNGS).points} for card in CARDS
    )
    return {key: (first[key], second[key]) for key in first if key in second}


def of_both(number: str, recording: str, sizes: Iterable[Size]) -> list[list[Point]]:
    """Return a kernel's points on the H200 and on the H100."""
    return [recorded(number, list(sizes), cards.folder(card) / f"{recording}.json").points for card in CARDS]


def means(number: str, recording: str, sizes: Iterable[Size], share: str) -> tuple[float, ...]:
    """Return the geometric means of a kernel's shares of an opponent's speed on the H200 and the H100, in percent."""
    return tuple(
        statistics.geometric_mean(getattr(point, share) for point in points)
        for points in of_both(number, recording, sizes)
    )


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
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    assert all(one.times == 3 and not other.processes for one, other in pairs.values())
    far = {key for key, pair in pairs.items() if abs(later(*pair)) > 0.05}
    longer, (there, here) = sorted(later(*pairs[key]) for key in far), pairs["05", 2560]
    assert far == {*product(("05", "06"), (1536, 2560)), ("02", 2816), ("02", 2944), ("08", 384)}
    assert longer[0] > 0.07 and here.ms_p10 < there.ms < here.ms
    assert all(list(of.values()) == [of[rung] for rung in sorted(of)] == sorted(of.values()) for of in shares.values())
    below = [pair for (number, size), pair in pairs.items() if size > 2048 and number < "06"]
    first = [later(*pair) for pair in below]
    assert 3 * 4 * 2048**2 < find_gpu("H100").l2_bytes < 3 * 4 * 2176**2

    def ms_of(kernel: Kernel) -> float:
        return recorded(kernel, published.SIZE, "variants").points[0].ms

    plain, swizzled, padded = (
        np.array(
            [ms_of(find_variant("08", label, **tile) if label else find("08").variant(**tile)) for tile in SWIZZLED]
        )
        for label in ("not swizzled", "", "padded by 1")
    )
    gains, padding = plain / swizzled - 1, plain / padded - 1
    square, wide = (ms_of(find("09").variant(**tile)) / ms_of(find("10").variant(**tile)) for tile in (SQUARE, WIDE))
    assert square < 1 < wide and padding[2] < 0 < padding[0] < padding[1]
    speeds, computed, _ = teeth()
    small = np.array([speeds[size] for size in speeds if size >= 1152])
    assert 8**2 <= find_gpu("RTX 3080").sms == 68 < 9**2 < 11**2 <= 2 * 68
    assert (
        all(speeds[at] <= computed[at] for at in speeds if at <= 1024) and abs(speeds[1024] / speeds[1280] - 1) < 5e-3
    )
    longer_k = [(size / 1024) ** 2 * speeds[1024] / speeds[size] for size in (1152, 1280, 1408)]
    (theirs,) = (of for of in published.load() if (of.source, of.kernel, of.table) == ("junstar92", "cuBLAS", "ladder"))
    assert np.isclose(theirs.gflops / theirs.tflops / 1e3, 1e9 / 2**30, rtol=1e-3)
    steps = {name: of["07"] / of["05"] - 1 for name, of in published.by_gpu(published.own(), published.load()).items()}
    A6000, H100, _, T4, _, H200 = (label for label, _ in SHOWN)
    assert (
        min(steps, key=steps.get) == A6000
        and max(steps, key=steps.get) == T4
        and abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
    )
    squares = means("13", "squares", SQUARES, "percent_of_cublas")
    shapes = means("22", "any_shape", SHAPES, "percent_of_searched")
    slower = {one.M: later(one, other) for one, other in zip(*of_both("13", "squares", SQUARES), strict=True)}
    small_13 = sorted(slower.pop(size) for size in (640, 768, 896, 1024))
    assert squares[0] > squares[1] > 100 and shapes[0] > shapes[1] > 100 and small_13[0] > max(slower.values())
    ms = {number: pairs[number, published.SIZE][0].ms for number, _ in pairs}
    return {
        "sizes": str(len({size for _, size in pairs})),
        "cuBLAS ahead": f"{1 - np.median([other.cublas_ms / one.cublas_ms for one, other in below]):.1%}",
        "first pairs": str(len(first)),
        "first half": f"{np.median(np.abs(first)):.1%}",
        "first ahead": str(sum(by < 0 for by in first)),
        "all pairs": str(len(pairs)),
        "close": str(len(pairs) - len(far)),
        "near": f"{max(abs(later(*pairs[key])) for key in pairs if key not in far):.0%}",
        "far": {7: "seven"}[len(far)],
        "longer": f"{longer[0]:.0%} to {longer[-1]:.0%}",
        "fewest": str(min(other.samples for _, other in pairs.values())),
        "spread": f"{here.ms_p10:.2f} to {here.ms_p90:.2f} ms",
        "median": f"{there.ms:.2f} ms",
        "13 small": f"{small_13[0]:.0%} to {small_13[-1]:.0%}",
        "13 large": f"{max(abs(by) for size, by in slower.items() if size >= 3840):.1%}",
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
        "ours": f"{published.by_gpu(published.own(), ())[H200]['07']:.0f}%",
        "ours sheet": f"{sheet[H200]['07']:.0f}%",
        "gain 08": f"{min(gains):.0%} to {max(gains):.0%}",
        "gain 10": f"{ms['09'] / ms['10'] - 1:.0%}",
        "loss 10": f"{1 / square - 1:.0%}",
        "wide 10": f"{wide - 1:.0%}",
        "padding loses": f"{-padding[2]:.0%}",
        "padding gains": f"{padding[1]:.0%}",
        "along K": f"{min(longer_k):.1f} to {max(longer_k):.1f}",
        "ahead of 1280": f"{computed[1024] / computed[1280]:.2f}",
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
