"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics
from itertools import product

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..experiments import tune
from ..records import cards, published
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

MODEL = "13, model"
"""The name of 13's times with the model's settings on both cards."""

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
    """Return by which part each kernel takes longer on the H100, at every size that both cards have.

    The H200's times of 13 are with a search's settings, and the H100's with the model's. `MODEL` compares the model's,
    which the search timed on the H200 too.
    """
    pairs, search = both(), tune.load(cards.folder(CARDS[0]) / "tune.json")
    model = {(point.M, point.N, point.K): point.expected_ms for point in tune.select(search, None)}
    return {
        number: [later(*pair) for (kernel, _), pair in pairs.items() if kernel == number]
        for number in sorted({kernel for kernel, _ in pairs})
    } | {MODEL: [h100.ms / model[h100.size] - 1 for (kernel, _), (_, h100) in pairs.items() if kernel == "13"]}


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
        "* Clock unknown. The H200 ran at 1,980 MHz.",
    )


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    late = {key: later(*pair) for key, pair in pairs.items() if key[0] != "13"}
    near = {name: sum(abs(each) < 0.02 for each in of) for name, of in longer().items()}
    early, sizes = [f"{number:02}" for number in range(1, 12)], [*range(128, 4097, 128)]
    turned = {
        (*two, size): gains
        for *two, size in product(early, early, sizes)
        for gains in [[later(*of) for of in zip(*(pairs[each, size] for each in two), strict=True)]]
        if gains[0] > 0 > gains[1] and max(gains[0], -gains[1]) > 0.02
    }
    beside = {
        size: h100.cublas_ms / h200.cublas_ms - 1 for (number, size), (h200, h100) in pairs.items() if number == "15"
    }
    (spread, long), (short, mixed), (searched, chosen) = pairs["05", 1536], pairs["05", 2560], pairs["13", 896]
    T4, H200, _, A6000, H100, RTX = (label for label, _ in SHOWN)
    ladder = {of.kernel: of for of in published.load() if of.label == RTX and of.table == "ladder"}
    counted = 2 * published.SIZE**3 + 3 * published.SIZE**2
    swept, tile = (sweep(kernel)[published.SIZE] for kernel in ("cuBLAS", WARP_TILE))
    assert (
        max(late.values()) < 0.2
        and all([size for number, size in pairs if number == each] == sizes for each in early)
        and {number for (number, _), (_, h100) in pairs.items() if h100.processes} == {"13"}  # with clocks
        and near["02"] == 18
        and near["05"] == 29
        and min(near[of] for of in ("01", "03", "04")) >= 31
        and near[MODEL] == sum(number == "13" for number, _ in pairs)
        and {size for size in sizes if late["02", size] > 0.02} == {128, *range(2688, 3073, 128)}
        and {*turned} == {("05", "04", 1536), ("06", "04", 1536)}
        and late["15", 1024] < 0 < beside[4096] < beside[1024]
    )
    assert (
        abs(mixed.ms_p10 / short.ms_p10 - 1) < 0.001
        and min(short.ms_p90, mixed.ms) > 1.04 * short.ms
        and short.batch == mixed.batch == 2
        and len(spread.processes) == 3
        and spread.ms_p90 < 0.9 * long.ms_p10
    )
    assert (
        abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
        and shares[A6000]["09"] > shares[H100]["09"]
        and sheet[A6000]["cuBLAS"] < sheet[H100]["cuBLAS"]
        and {mhz for of in ("07", "09") for each in pairs[of, 4096][0].processes for mhz in each.own.sm_mhz} == {1980}
        and [round(sheet[T4]["07"]), round(sheet[H200]["07"]), round(sheet[RTX]["09"]), round(sheet[H200]["09"])]
        == [28, 56, 55, 74]
        and 585 < 1590 * sheet[T4]["07"] / sheet[H200]["07"] < 1590
        and 1710 * sheet[RTX]["09"] / sheet[H200]["09"] < 1440
        and shares[H100]["07"] / shares[H100]["05"] > 1.05 * shares[A6000]["07"] / shares[A6000]["05"]
        and all(abs(1e3 * counted / of.ms / 2**30 / of.gflops - 1) < 1e-4 + 0.5 / of.gflops for of in ladder.values())
    )
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
        "theirs said": f"{ladder['cuBLAS'].gflops:,.0f}",
        "table 09": f"{ladder['cuBLAS'].ms:.3f} / {ladder['Warptiling SGEMM'].ms:.3f} = {shares[RTX]['09']:.0f}%",
        "swept 09": f"{swept.ms:.3f} / {tile.ms:.3f} = {tile.of(swept):.0%}",
        "mixed 09": f"{swept.ms / ladder['Warptiling SGEMM'].ms:.0%}",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 cuBLAS": f"{sheet[T4]['cuBLAS']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "ours": f"{published.by_gpu(published.own(), [])[H200]['07']:.0f}%",
        "within": "2%",
        "far": "5%",
        "near": f"{sum(near[of] for of in early)} of {len(early) * len(sizes)}",
        "near share": f"{sum(near[of] for of in early) / len(early) / len(sizes):.0%}",
        "13 apart": f"{max(longer()['13']):.0%}",
        "13 searched": f"{searched.percent_of_cublas:.0f}%",
        "13 model": f"{chosen.percent_of_cublas:.0f}%",
        "beside 1024": f"{beside[1024]:.1%}",
        "turned H200": f"{turned['05', '04', 1536][0]:.0%}",
        "turned H100": f"{-turned['05', '04', 1536][1]:.1%}",
    }
