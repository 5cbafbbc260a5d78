"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..records import published
from ..records.timings import Point, of_card

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
SHOWN = (
    ("T4, T4 article", "07"),
    ("H200, this book", "07"),
    ("H200, this book", "09"),
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("RTX 3080, junstar92", "09"),
)
"""Cards and rungs whose two shares the page compares."""

FAR = {
    *(("02", size) for size in (2816, 2944)),
    *((number, size) for number in ("05", "06") for size in (1536, 2560)),
    ("08", 384),
    *(("13", size) for size in (640, 768, 896, 1024, 1408)),
    *(("15", size) for size in (2048, 4096)),
}
"""Kernels and sizes at which the H100 takes more than 5% longer, as the page lists them."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""What junstar92's list of sizes calls his warp tile."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point that the H200 and the H100 have of the same code, by number and size."""
    first, second = ({(point.identity, point.M): point for point in of_card(card).points} for card in CARDS)
    return {(second[key].kernel[:2], key[1]): (first[key], second[key]) for key in sorted(second) if key in first}


def later(one: Point, other: Point) -> float:
    """Return by which part the second takes longer."""
    return other.ms / one.ms - 1


def longer() -> dict[str, list[float]]:
    """Return by which part each kernel takes longer on the H100, at every size that both cards have."""
    pairs = both()
    return {
        number: [later(*pair) for (kernel, _), pair in pairs.items() if kernel == number]
        for number in sorted({kernel for kernel, _ in pairs})
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
        f"Shares of cuBLAS and of the peak, M = N = K = {published.SIZE}",
        "* No clock was recorded, nor in our own run of Boehm's code.",
    )


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    late = {key: later(*pair) for key, pair in pairs.items()}
    near = sum(abs(each) < 0.02 for each in late.values())
    assert {key for key in late if late[key] > 0.05} == FAR and near > 0.9 * len(pairs)
    assert max(late.values()) < 0.43 and len(longer()) == 15
    assert all(statistics.median(longer()[f"{number:02}"]) < 0 for number in range(1, 12))
    assert {number for (number, _), (_, h100) in pairs.items() if h100.processes} == {"13"}  # with clocks
    assert all(abs(late[key]) < 0.02 for key in late if key[0] in ("01", "07", "09", "10", "11"))
    h200, h100 = pairs["05", 2560]
    assert abs(h100.ms_p10 - h200.ms) < 0.02 * h200.ms and min(h200.ms_p90, h100.ms) > 1.04 * h200.ms
    assert h200.batch == h100.batch == 2
    h200, h100 = pairs["05", 1536]
    assert h200.ms_p90 < 0.9 * h100.ms_p10
    boehm = {(of.label, of.kernel.partition(":")[0]): of.gflops for of in published.load() if of.kernel[0].isdigit()}
    T4, H200, _, A6000, H100, RTX = (label for label, _ in SHOWN)
    assert all(boehm[at, "6"] > max(boehm[at, "7"], boehm[at, "8"]) for at in (A6000, H100))
    assert (
        abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
        and shares[A6000]["09"] > shares[H100]["09"]
        and sheet[A6000]["cuBLAS"] < sheet[H100]["cuBLAS"]
        and {mhz for of in pairs["07", published.SIZE][0].processes for mhz in of.own.sm_mhz} == {1980}
        and sheet[T4]["cuBLAS"] < sheet[H200]["cuBLAS"] / 2
        and 1710 * sheet[RTX]["09"] / sheet[H200]["09"] < 1440
        and shares[H100]["07"] / shares[H100]["05"] > 1.05 * shares[A6000]["07"] / shares[A6000]["05"]
    )
    ladder = {of.kernel: of for of in published.load() if of.label == RTX and of.table == "ladder"}
    counted = 2 * published.SIZE**3 + 3 * published.SIZE**2
    assert all(abs(1e3 * counted / of.ms / 2**30 / of.gflops - 1) < 1e-4 + 0.5 / of.gflops for of in ladder.values())
    swept = sweep("cuBLAS")[published.SIZE]
    return {
        **{
            f"{name} {what}": text
            for name, at in (("A6000", A6000), ("H100", H100))  # Boehm's code on both
            for what, text in (
                *((rung, f"{shares[at][rung]:.1f}%") for rung in ("05", "07")),
                ("step", f"{shares[at]['07'] / shares[at]['05'] - 1:.0%}"),
                ("09", f"{shares[at]['09']:.0f}%"),
                ("cuBLAS", f"{sheet[at]['cuBLAS']:.0f}%"),
            )
        },
        "theirs ms": f"{ladder['cuBLAS'].ms:.3f} ms",
        "theirs": f"{1e3 * ladder['cuBLAS'].tflops:,.0f}",
        "theirs said": f"{ladder['cuBLAS'].gflops:,.0f}",
        "all pairs": str(len(pairs)),
        "near": str(near),
        "within": "2%",
        "far": "5%",
        "most": f"{max(late.values()):.0%}",
        "swept ms": f"{swept.ms:.3f} ms",
        "swept 09": f"{100 * swept.ms / ladder['Warptiling SGEMM'].ms:.0f}%",
        "RTX 09": f"{shares[RTX]['09']:.0f}%",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 cuBLAS": f"{sheet[T4]['cuBLAS']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "ours": f"{published.by_gpu(published.own(), [])[H200]['07']:.0f}%",
        "ours 09": f"{sheet[H200]['09']:.0f}%",
    }
