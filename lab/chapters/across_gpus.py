"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..experiments import tune
from ..records import cards, published
from ..records.timings import Point, load, of_card

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

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""The name that junstar92's list of sizes has for his warp tile."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point that the H200 and the H100 have of the same code, by number and size."""
    first, second = ({(point.identity, point.M): point for point in of_card(card).points} for card in CARDS)
    return {(second[key].kernel[:2], key[1]): (first[key], second[key]) for key in sorted(second) if key in first}


def longer() -> dict[str, dict[int, float]]:
    """Return by which part each kernel takes longer on the H100, by number, at every size that both cards have.

    The H200's times of 13 are with a search's settings, and the H100's with the model's. So 13 is compared with the
    times of the model's settings, which the search took on the H200 too.
    """
    search = tune.load(cards.folder(CARDS[0]) / "tune.json")
    model = {(point.M, point.N, point.K): point.expected_ms for point in tune.select(search, None)}
    found: dict[str, dict[int, float]] = {}
    for (kernel, size), (h200, h100) in sorted(both().items()):
        before = model[h100.size] if kernel == "13" else h200.ms
        found.setdefault(kernel, {})[size] = h100.ms / before - 1
    return found


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
    pairs, late, sheet, shares = both(), longer(), of_data_sheet(), published.shares(published.load())
    early, sizes = [f"{number:02}" for number in range(1, 12)], [*range(128, 4097, 128)]
    near = {number: sum(abs(each) < 0.02 for each in of.values()) for number, of in late.items()}
    cublas = [[of.cublas_ms for of in card] for card in zip(*(pairs[each, 4096] for each in early), strict=True)]
    short, mixed = pairs["05", 2560]
    warm, slow = zip(*(pairs[each, 1536] for each in ("05", "06")), strict=True)
    samples, some = ([ms for of in points for each in of.processes for ms in each.own.ms] for points in (warm, [short]))
    long = [ms for ms in some if ms > 1.25]
    ranks = [one.ms / two.ms - 1 for one, two in zip(pairs["04", 1536], pairs["05", 1536], strict=True)]
    flushed = {(of.identity, of.M): of.ms for of in load(cards.folder(CARDS[0]) / "cold.json").points}
    T4, H200, _, A6000, H100, RTX = (label for label, _ in SHOWN)
    ladder = {of.kernel: of for of in published.load() if of.label == RTX and of.table == "ladder"}
    his, swept = ladder["Warptiling SGEMM"], sweep("cuBLAS")[published.SIZE]
    counted = 2 * published.SIZE**3 + 3 * published.SIZE**2
    assert (
        all([*late[each]] == sizes for each in early)
        and {number for (number, _), (_, h100) in pairs.items() if h100.processes} == {"13"}  # with clocks
        and [near[each] for each in early[:5]] == [32, 18, 31, 31, 29]
        and near["13"] == len(late["13"])
        and {*late["13"]} == {*sizes, 8192, 16384} - {128}
        and {size for size in sizes if late["02"][size] > 0.02} == {128, *range(2688, 3073, 128)}
        and {size for size in sizes if late["02"][size] < -0.02} == {256, *range(3200, 4097, 128)}
    )
    assert (
        max(samples) < 0.91 * min(of.ms_p10 for of in slow)
        and flushed[warm[0].identity, 1536] > max(of.ms_p90 for of in slow)
        and abs(mixed.ms_p10 / short.ms_p10 - 1) < 0.001
        and sum(ms > 1.3 for ms in long) == 1
    )
    assert (
        abs(sheet[A6000]["09"] - sheet[H100]["09"]) < 2
        and abs(sheet[A6000]["cuBLAS"] * 1800 / 1410 - sheet[H100]["cuBLAS"]) < 1
        and {mhz for of in ("07", "09") for each in pairs[of, 4096][0].processes for mhz in each.own.sm_mhz} == {1980}
        and round(1590 * sheet[T4]["07"] / sheet[H200]["07"]) == 792
        and 1710 * sheet[RTX]["09"] / sheet[H200]["09"] < 1440
        and 1800 * sheet[A6000]["09"] / sheet[H200]["09"] < 1410
        and all(abs(1e3 * counted / of.ms / 2**30 / of.gflops - 1) < 1e-4 + 0.5 / of.gflops for of in ladder.values())
        and min((of.tflops, size) for size, of in sweep(WARP_TILE).items() if size >= 1024)[1] == 1152
    )
    return {
        **{
            f"{name} {what}": text
            for name, at in (("A6000", A6000), ("H100", H100))  # Boehm's code on both
            for what, text in (
                *((rung, f"{shares[at][rung]:.1f}%") for rung in ("04", "05")),
                ("step", f"{shares[at]['05'] / shares[at]['04'] - 1:.0%}"),
                ("09", f"{shares[at]['09']:.0f}%"),
            )
        },
        "H100 peak 09": f"{sheet[H100]['09']:.0f}%",
        "H100 peak cuBLAS": f"{sheet[H100]['cuBLAS']:.0f}%",
        "cuBLAS spread": f"{max(max(of) / min(of) for of in cublas) - 1:.1%}",
        "cuBLAS table": f"{ladder['cuBLAS'].ms:.3f}",
        "cuBLAS sweep": f"{swept.ms:.3f}",
        "his 09": f"{his.ms:.3f}",
        "his share": f"{his.of(ladder['cuBLAS']):.0%}",
        "mixed share": f"{his.of(swept):.0%}",
        **{
            f"beside 15 at {size}": f"{two.cublas_ms / one.cublas_ms - 1:.1%}"
            for size in (2048, 4096)
            for one, two in [pairs["15", size]]
        },
        "theirs said": f"{ladder['cuBLAS'].gflops:,.0f}",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "within": "2%",
        "near": f"{sum(near[of] for of in early)} of {len(early) * len(sizes)}",
        "near share": f"{sum(near[of] for of in early) / len(early) / len(sizes):.0%}",
        "samples 1536": str(len(samples)),
        "least 1536": f"{min(samples):.3f}",
        "most 1536": f"{max(samples):.3f}",
        "H100 1536": f"{min(of.ms_p10 for of in slow):.3f}",
        "cold 1536": f"{flushed[warm[0].identity, 1536]:.3f}",
        "short 2560": f"{short.ms_p10:.2f}",
        "long H200": f"{statistics.median(long):.2f}",
        "long H100": f"{mixed.ms:.2f}",
        "turned H200": f"{ranks[0]:.0%}",
        "turned H100": f"{-ranks[1]:.1%}",
    }
