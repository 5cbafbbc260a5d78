"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import dataclasses
import statistics

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..records import cards, published
from ..records.timings import Point, load

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
SHOWN = (
    ("T4, T4 article", "07"),
    ("H200, this book", "07"),
    ("H200, this book", "09"),
    ("H100, this book", "09"),
    ("H100, Boehm's code", "09"),
    ("RTX A6000, Boehm", "09"),
    ("RTX 3080, junstar92", "09"),
)
"""Cards and rungs whose two shares the page compares."""
FAR = 0.05
"""How far the two cards' times must differ for the page to name the size."""
LACKING = "Of our run of Boehm's code, we have neither clock nor compiler nor protocol."
"""The caveat that both tables state."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""The name that junstar92's list of sizes has for his warp tile."""


def both(recording: str = "ladder") -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point that the H200 and the H100 have in their recordings of a name, by number and size."""
    first, second = (
        {(point.identity, point.M): point for point in load(cards.folder(card) / f"{recording}.json").points}
        for card in CARDS
    )
    return {(second[key].kernel[:2], key[1]): (first[key], second[key]) for key in sorted(second) if key in first}


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
        f"* Clock unknown. The H200 ran at 1,980 MHz. {LACKING}",
    )


def steps() -> Table:
    """Return the shares of cuBLAS on all cards, by rung, with what one column lacks."""
    return dataclasses.replace(published.table(published.by_gpu(published.own(), published.load())), note=LACKING)


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.shares(published.load())
    late = {key: h100.ms / h200.ms - 1 for key, (h200, h100) in pairs.items()}
    early, sizes = [f"{number:02}" for number in range(1, 12)], [*range(128, 4097, 128)]
    spread = {key: max(h200.medians) / min(h200.medians) - 1 for key, (h200, _) in pairs.items()}
    far = {key for key, each in late.items() if abs(each) > FAR}
    same = max(abs(late[number, 4096]) for number in ("03", "07", "09"))
    medians = [statistics.median(late[number, size] for size in sizes) for number in early]
    cublas = [statistics.median(pairs[each, 4096][card].cublas_ms for each in early) for card in (0, 1)]
    warm = {number: pairs[number, 1536] for number in ("04", "05", "06")}
    flushed = {(of.identity, of.M): of.ms for of in load(cards.folder(CARDS[0]) / "cold.json").points}
    cold = {number: flushed[h200.identity, 1536] for number, (h200, _) in warm.items()}
    tensor = both("others")["15", 2048]
    T4, H200, _, _, H100, A6000, RTX = (label for label, _ in SHOWN)
    ladder = {of.kernel: of for of in published.load() if of.label == RTX and of.table == "ladder"}
    first = ladder["Warptiling SGEMM"], ladder["cuBLAS"]
    second = tuple(sweep(kernel)[published.SIZE] for kernel in (WARP_TILE, "cuBLAS"))
    counted = 2 * published.SIZE**3 + 3 * published.SIZE**2
    assert (
        {*late} == {(number, size) for number in early for size in sizes}
        and {h200.times for h200, _ in pairs.values()} == {3}
        and {h100.times for _, h100 in pairs.values()} == {tensor[1].times} == {0}  # one process, without clocks
        and max(spread.values()) < FAR
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and max(map(abs, medians)) < 0.01
    )
    assert (
        all(cold[number] > max(h200.ms_p90, h100.ms_p90) for number, (h200, h100) in warm.items())
        and max(max(each.own.ms) for of in ("05", "06") for each in warm[of][0].processes) < 0.9 * warm["05"][1].ms_p10
        and abs(late["04", 1536]) < 0.001
        and cold["04"] < cold["05"]
        and {mhz for of in ("07", "09") for each in pairs[of, 4096][0].processes for mhz in each.own.sm_mhz} == {1980}
    )
    assert (
        [round(1.59 * sheet[T4]["07"] / sheet[H200]["07"], 1), round(1.8 * sheet[A6000]["09"] / sheet[H200]["09"], 1)]
        == [0.8, 1.4]
        and round(1.71 * sheet[RTX]["09"] / sheet[H200]["09"], 1) == 1.3
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
                ("peak 09", f"{sheet[at]['09']:.0f}%"),
                ("peak cuBLAS", f"{sheet[at]['cuBLAS']:.0f}%"),
            )
        },
        "A6000 slow 09": f"{sheet[A6000]['09'] * 1800 / 1400:.0f}%",
        "A6000 slow cuBLAS": f"{sheet[A6000]['cuBLAS'] * 1800 / 1400:.0f}%",
        **{
            f"{what} {name}": text
            for name, (his, its) in (("table", first), ("sweep", second))
            for what, text in (("cuBLAS", f"{its.ms:.3f}"), ("09", f"{his.ms:.3f}"), ("share", f"{his.of(its):.0%}"))
        },
        "mixed share": f"{first[0].of(second[1]):.0%}",
        "theirs said": f"{ladder['cuBLAS'].gflops / 1e3:.3f}",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "cuBLAS less": f"{1 - cublas[1] / cublas[0]:.1%}",
        "same": f"{same:.1%}",
        "far": f"{FAR:.0%}",
        "spread": f"{max(spread.values()):.1%}",
        "near": f"{len(late) - len(far)} of {len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far):.1%}",
        "H200 1536": f"{warm['05'][0].ms:.3f}",
        "H100 1536": f"{warm['05'][1].ms:.3f}",
        "cold 1536": f"{cold['05']:.3f}",
        "turned warm": f"{warm['04'][0].ms / warm['05'][0].ms - 1:.0%}",
        "turned cold": f"{1 - cold['04'] / cold['05']:.0%}",
        "15 at 2048": f"{tensor[1].ms / tensor[0].ms - 1:.0%}",
    }
