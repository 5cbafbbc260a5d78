"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

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
    ("RTX 3080, junstar92", "09"),
    ("RTX A6000, Boehm", "09"),
    ("H100, Boehm's code", "09"),
    ("H100, this book", "09"),
)
"""Cards and rungs whose two shares the page compares, each with the next."""
FAR = 0.05
"""How far the two cards' times must differ for the page to name the size."""

WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""The name that junstar92's list of sizes has for his 09 with block tiles of 128 × 128."""
SMALL_TILE = "warptiling_sgemm_kernel<64, 64, 8, 64, 32, 8>"
"""The same with block tiles of 64 × 64."""


def both() -> dict[tuple[str, int], tuple[Point, Point]]:
    """Return each point that the H200 and the H100 have in their ladders, by number and size."""
    first, second = (
        {(point.identity, point.M): point for point in load(cards.folder(card) / "ladder.json").points}
        for card in CARDS
    )
    return {(second[key].kernel[:2], key[1]): (first[key], second[key]) for key in sorted(second) if key in first}


def of_data_sheet() -> dict[str, dict[str, float]]:
    """Return percentages of each card's peak by its data sheet, by card and source, and by rung or cuBLAS."""
    rates: dict[str, dict[str, float]] = {}
    for record in published.own():
        cublas = 2e-9 * published.SIZE**3 / statistics.median(point.cublas_ms for point in record.points)
        rates[published.label(record)] = {point.kernel[:2]: point.tflops for point in record.points} | {
            published.CUBLAS: cublas
        }
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
        "* Clock not recorded. The H200 ran at 1,980 MHz. "
        "Ours are in each card's ladder.json in book/results, the others in published-results.csv.",
    )


def steps() -> Table:
    """Return the shares of cuBLAS on all cards, by rung."""
    return published.table(published.by_gpu(published.own(), published.load()))


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, shares = both(), of_data_sheet(), published.by_gpu(published.own(), published.load())
    late = {key: h100.ms / h200.ms - 1 for key, (h200, h100) in pairs.items()}
    early, sizes = [f"{number:02}" for number in range(1, 12)], [*range(128, 4097, 128)]
    far = {key for key, each in late.items() if abs(each) > FAR}
    less = [1 - h100.cublas_ms / h200.cublas_ms for h200, h100 in (pairs[number, 4096] for number in early)]
    slow = {
        key: mhz
        for key, (h200, _) in pairs.items()
        for mhz in [min(mhz for each in h200.processes for mhz in each.own.sm_mhz)]
        if mhz < 1980
    }
    T4, H200, _, RTX, A6000, H100, ours = (label for label, _ in SHOWN)
    ladder = {of.kernel: of for of in published.load() if of.label == RTX and of.table == "ladder"}
    first, second = (
        (ladder["Warptiling SGEMM"], ladder["cuBLAS"]),
        (sweep(WARP_TILE)[published.SIZE], sweep("cuBLAS")[published.SIZE]),
    )
    code = {of.rung or of.kernel: of.ms for of in published.load() if of.label == H100}
    h200, h100 = pairs["09", 4096]
    slowed = sheet[A6000]["cuBLAS"] / sheet[H100]["cuBLAS"]  # the A6000's clock / its boost clock, for equal shares
    assert (
        {*late} == {(number, size) for number in early for size in sizes}
        and {of.times for of, _ in pairs.values()} == {3}
        and {of.times for _, of in pairs.values()} == {0}  # one process, without clocks
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and {key for key in far if pairs[key][1].ms_p10 < pairs[key][0].ms_p90} == {("05", 2560), ("06", 2560)}
        and [at for at in sizes[1:] if late["02", at] > 0.01] == sizes[20:24] == [*range(2688, 3073, 128)]
        and max(late["02", at] for at in sizes[24:]) < 0
        and {at for of, at in slow if of == "02"} == {at for _, at in slow} == {*sizes[19:24]}
        and {mhz for each in h200.processes for of in (each.own, each.cublas) for mhz in of.sm_mhz} == {1980}
        and abs(code["cuBLAS"] / h100.cublas_ms - 1) < 0.01
        and all(shares[ours][number] < shares[H200][number] for number in ("03", "07", "09"))
        and f"{sheet[ours]['cuBLAS']:.0f}" == f"{sheet[H100]['cuBLAS']:.0f}"
        and all(
            abs((2 * 4096**3 + 3 * 4096**2) / of.ms * 1e3 / 2**30 / of.gflops - 1) < 1e-4 + 0.5 / of.gflops
            for of in ladder.values()
        )
        and min((of.tflops, size) for size, of in sweep(WARP_TILE).items() if size >= 1024)[1] == 1152
        and sweep(SMALL_TILE)[1152].of(sweep("cuBLAS")[1152]) > 0.95
        and sweep(SMALL_TILE)[1152].tflops > sweep(SMALL_TILE)[1024].tflops
        and all(0.81 < of[1152].tflops / of[1280].tflops < 0.87 for of in map(sweep, (WARP_TILE, SMALL_TILE, "cuBLAS")))
    )
    return {
        **{
            f"{name} {what}": text
            for name, at in (("A6000", A6000), ("H100", H100))  # Boehm's code on both
            for what, text in (
                ("step", f"{shares[at]['05'] / shares[at]['04'] - 1:.0%}"),
                ("09", f"{shares[at]['09']:.0f}%"),
                ("peak 09", f"{sheet[at]['09']:.0f}%"),
                ("peak cuBLAS", f"{sheet[at]['cuBLAS']:.0f}%"),
            )
        },
        "A6000 slow 09": f"{sheet[A6000]['09'] / slowed:.0f}%",
        "slow MHz": f"{find_gpu('RTX A6000').boost_mhz * slowed:,.0f}",
        **{
            f"{what} {name}": text
            for name, (his, its) in (("table", first), ("sweep", second))
            for what, text in (("cuBLAS", f"{its.ms:.3f}"), ("09", f"{his.ms:.3f}"), ("share", f"{his.of(its):.0%}"))
        },
        "mixed share": f"{first[0].of(second[1]):.0%}",
        "theirs said": f"{ladder['cuBLAS'].gflops / 1e3:.3f}",
        "T4": f"{shares[T4]['07']:.0f}%",
        "T4 sheet": f"{sheet[T4]['07']:.0f}%",
        "H200 peak 09": f"{sheet[H200]['09']:.0f}%",
        "H100 share": f"{shares[ours]['09']:.0f}%",
        "H100 ms": f"{h100.ms:.3f}",
        "H100 cuBLAS": f"{h100.cublas_ms:.3f}",
        "code ms": f"{code['09']:.3f}",
        "code cuBLAS": f"{code['cuBLAS']:.3f}",
        "cuBLAS least": f"{min(less):.1%}",
        "cuBLAS most": f"{max(less):.1%}",
        "same": f"{max(abs(late[number, 4096]) for number in ('03', '07', '09')) + 5e-4:.1%}",  # rounded up
        "far": f"{FAR:.0%}",
        "near": f"{len(late) - len(far)}",
        "all": f"{len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far) + 5e-4:.1%}",  # rounded up
        "05 spread": f"{max(pairs['05', 1536][0].medians) / min(pairs['05', 1536][0].medians) - 1:.0%}",
        "slowest": f"{min(slow.values()):,}",
    }
