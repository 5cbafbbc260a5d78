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
    ("T4, T4 article", "07"),
    ("H200, this book", "07"),
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("RTX 3080, junstar92", "09"),
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
        (
            rung,
            f"{name}{'' if name == 'H200, this book' else ' *'}",
            *(f"{share:.0f}%" for share in (of_cublas[name][rung], sheet[name][rung], sheet[name]["cuBLAS"])),
        )
        for name, rung in SHOWN
    ]
    return Table(
        ("kernel", "card, by whom", "of cuBLAS", "of the peak", "cuBLAS, of the peak"),
        rows,
        f"Shares of cuBLAS and of the data sheet's peak, M = N = K = {published.SIZE}",
        "* The clock wasn't recorded.",
    )


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def teeth(kernel: str = WARP_TILE, side: int = 128) -> tuple[dict[int, float], dict[int, float], float, float]:
    """Return TFLOP/s of a kernel of junstar92's by size, and what follows from whole tiles of that side.

    The others are how far this is off from 1,152 on, and how far a constant speed would be.
    """
    speeds = {size: result.tflops for size, result in sweep(kernel).items()}
    used = {size: wave_share((size // side) ** 2, find_gpu("RTX 3080").sms) for size in speeds}
    large = {size: speed for size, speed in speeds.items() if size >= 1152}
    level, off = fitted_to(large, used)
    flat = statistics.pstdev(large.values()) / statistics.mean(large.values())
    return speeds, {size: level * share for size, share in used.items()}, off, flat


def teeth_drawn() -> Figure:
    """Draw the speeds that `teeth` returns."""
    measured, computed, *_ = teeth()
    return lines(
        "junstar92's warp tile on an RTX 3080",
        {"measured": [*measured.items()], "computed": [*computed.items()]},
        "From another run of his than the table's. Across: M = N = K. Up: TFLOP/s.",
        " TFLOP/s",
    )


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    assert {key for key, pair in pairs.items() if later(*pair) > 0.05} == FAR and all(
        one.times == 3 and not other.processes for one, other in pairs.values()
    )
    longer = {f"{number} at {size}": f"{later(*pairs[number, size]):.0%}" for number, size in sorted(FAR)}
    one, other = pairs["05", 2560]
    assert longer["05 at 1536"] == longer["06 at 1536"] and longer["05 at 2560"] == longer["06 at 2560"]
    assert all(max(of.own.ms) > 1.04 * min(of.own.ms) for of in one.processes) and other.ms > 1.04 * other.ms_p10
    near = sum(abs(later(*pair)) < 0.02 for pair in pairs.values())
    assert near > 0.9 * len(pairs)
    every = published.by_gpu(published.own(), published.load())
    tabled = sorted({rung for of in shares.values() for rung in of})
    assert all((row := [of[rung] for rung in tabled if rung in of]) == sorted(row) for of in every.values())
    above = [statistics.median(of) for of in longer_above_2048().values()]
    assert 3 * 4 * 2048**2 < find_gpu("H100").l2_bytes < 3 * 4 * 2176**2 < find_gpu("H200").l2_bytes < 3 * 4 * 2304**2
    (speeds, computed, off, flat), (*_, off_64, flat_64), (*_, off_07, flat_07) = (
        teeth(),
        teeth(WARP_TILE.replace("128", "64"), 64),
        teeth("vectorize_sgemm<128, 128, 8, 8, 8>"),
    )
    misses = {size: abs(computed[size] / speeds[size] - 1) for size in speeds if size >= 1152}
    assert {*sorted(misses, key=speeds.get)[:5]} == {*sorted(misses, key=computed.get)[:5]}
    assert (
        misses[1152] == max(misses.values())
        and off_64 > flat_64
        and max(off, off_07) < 0.4 * min(flat, flat_07)
        and find_gpu("RTX 3080").sms == 68
        and all(speeds[size] <= computed[size] for size in speeds if size <= 1024)
    )
    boehm = {(of.label, of.kernel.partition(":")[0]): of.gflops for of in published.load() if of.kernel[0].isdigit()}
    T4, H200, A6000, H100, _ = (label for label, _ in SHOWN)
    assert (
        boehm[A6000, "9"] > boehm[A6000, "6"] > max(boehm[A6000, "7"], boehm[A6000, "8"])
        and boehm[A6000, "10"] > boehm[A6000, "11"]
        and boehm[H100, "9"] < boehm[H100, "6"]
        and abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
        and shares[A6000]["09"] > shares[H100]["09"]
        and {mhz for of in pairs["07", published.SIZE][0].processes for mhz in of.own.sm_mhz} == {1980}
        and shares[H100]["07"] / shares[H100]["05"] > 1.05 * shares[A6000]["07"] / shares[A6000]["05"]
    )
    ladders = {(of.label, of.kernel): of for of in published.load() if of.table == "ladder"}
    theirs = ladders["RTX 3080, junstar92", "cuBLAS"]
    assert np.isclose(theirs.gflops / theirs.tflops / 1e3, 1e9 / 2**30, rtol=1e-3)
    return longer | {
        **{
            f"{name} {what}": text
            for name, at in (("A6000", A6000), ("H100", H100))  # Boehm's code on both
            for what, text in (
                *((rung, f"{shares[at][rung]:.1f}%") for rung in ("05", "07")),
                ("step", f"{shares[at]['07'] / shares[at]['05'] - 1:.0%}"),
                ("tile", f"{boehm[at, '9'] / boehm[at, '6'] - 1:+.0%}"),
            )
        },
        "median": f"{max(map(abs, above)):.1%}",
        "theirs ms": f"{theirs.ms:.3f} ms",
        "theirs": f"{1e3 * theirs.tflops:,.0f}",
        "theirs said": f"{theirs.gflops:,.0f}",
        "all pairs": str(len(pairs)),
        "near": str(near),
        "within": "2%",
        "warp": f"{shares[A6000]['09']:.0f}%",
        "warp moved": f"{shares[H100]['09']:.0f}%",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "T4 rate": f"{ladders[T4, 'cuBLAS'].tflops:.2f} TFLOP/s",
        "T4 least": f"{find_gpu('T4').boost_mhz * sheet[T4]['cuBLAS'] / 100:.0f} MHz",
        "T4 most": f"{sheet[T4]['07'] / sheet[T4]['cuBLAS']:.0%}",
        "teeth": f"{wave_share(81, 68):.0%}",
        "teeth 64": f"{min(wave_share((size // 64) ** 2, 68) for size in misses):.0%}",
        "off 07": f"{off_07:.1%}",
        "flat 07": f"{flat_07:.1%}",
        "ours sheet": f"{sheet[H200]['07']:.0f}%",
        "one tile": f"{wave_share(64, 68):.0%}",
        "too high": f"{computed[1024] / speeds[1024] - 1:.0%}",
        "off": f"{off:.1%}",
        "flat": f"{flat:.1%}",
        "off 64": f"{off_64:.1%}",
        "flat 64": f"{flat_64:.1%}",
    }
