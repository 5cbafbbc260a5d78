"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw.chart import COLOURS, INK, Chart, Figure, dye
from ..records import cards, published
from ..records.timings import Point, load

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
EARLY, SIZES = tuple(f"{number:02}" for number in range(1, 12)), range(128, 4097, 128)
"""The rungs that both have timed, and M = N = K."""
OURS = "H200, this book"
SHOWN = (
    ("T4, T4 article", "07"),
    (OURS, "07"),
    (OURS, "09"),
    ("H100, this book", "09"),
    ("RTX 3080, junstar92", "09"),
    ("RTX A6000, Boehm", "09"),
)
"""Cards and rungs whose shares the page compares with those of the H200."""
WARP_TILE, SMALL_TILE = (f"warptiling_sgemm_kernel<{tile}, 8, 64, 32, 8>" for tile in ("128, 128", "64, 64"))
"""The names that junstar92's list of sizes has for his 09 with block tiles of 128 × 128, and of 64 × 64."""


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
        cublas_ms = statistics.median(point.cublas_ms for point in record.points)
        ours = {point.kernel[:2]: point.tflops for point in record.points}
        rates[published.label(record)] = ours | {published.CUBLAS: 2e-9 * published.SIZE**3 / cublas_ms}
    for result in published.load():
        name = published.CUBLAS if result.kernel == published.CUBLAS else result.rung
        if name and result.table == "ladder":
            rates.setdefault(result.label, {})[name] = result.tflops
    peaks = {name: find_gpu(name.partition(",")[0]).fp32_tflops for name in rates}
    return {name: {rung: 100 * rate / peaks[name] for rung, rate in of.items()} for name, of in rates.items()}


def tie(sheet: dict[str, dict[str, float]], name: str, rung: str) -> float:
    """Return the MHz of a card's clock at which a kernel's share of its peak is the H200's."""
    return find_gpu(name.partition(",")[0]).boost_mhz * sheet[name][rung] / sheet[OURS][rung]


def two_shares() -> Table:
    """Return some kernels' two shares, cuBLAS's, and the clock at which the share of the peak is the H200's."""
    sheet, of_cublas = of_data_sheet(), published.by_gpu(published.own(), published.load())
    return Table(
        (
            "kernel, card, by whom",
            "of cuBLAS",
            "of the peak",
            "cuBLAS, of the peak",
            "clock at which the shares tie, MHz",
        ),
        [
            (
                f"{rung} on the {name}",
                *(f"{share:.0f}%" for share in (of_cublas[name][rung], sheet[name][rung], sheet[name]["cuBLAS"])),
                None if name == OURS else f"{tie(sheet, name, rung):,.0f}",
            )
            for name, rung in SHOWN
        ],
        f"Shares of cuBLAS and of the peak, M = N = K = {published.SIZE}",
        "Peaks in TFLOP/s, at clocks in MHz: "
        + "; ".join(
            f"{gpu.name} {gpu.fp32_tflops:.1f}, {gpu.boost_mhz:,}"
            for gpu in map(find_gpu, ("T4", "RTX 3080", "RTX A6000", "H100", "H200"))
        )
        + ". These are NVIDIA's boost clocks, and the highest that the H100 and the H200 report. Only the H200's was "
        "recorded as it ran. Times: ladder.json of our cards and published-results.csv, in book/results.",
    )


def steps() -> Table:
    """Return the shares of cuBLAS by rung, on all cards but one: nobody recorded how Boehm's code was timed there."""
    return published.table(
        published.by_gpu(published.own(), [of for of in published.load() if of.label != "H100, Boehm's code"])
    )


def by_size() -> Figure:
    """Draw how much longer some kernels take on the H100 than on the H200, by size."""
    title = "Time on the H100 against the H200"
    note = "Dotted: where A and B together fill the H100's L2 (50 MiB) and the H200's (60 MiB)."
    late = {key: 100 * (h100.ms / h200.ms - 1) for key, (h200, h100) in both().items()}
    lines = {of: [(size, late[of, size]) for size in SIZES] for of in ("01", "02", "05", "08")}
    chart = Chart(title, (128, 4096), (-5, 20), lines, "M = N = K", "% longer on the H100", [note])
    chart.ticks(range(512, 4097, 512), range(-5, 21, 5))
    chart.axes.vlines([(find_gpu(card).l2_bytes / 8) ** 0.5 for card in CARDS], -5, 20, dye(INK), "dotted")
    for colour, (of, line) in zip(COLOURS, lines.items(), strict=True):
        chart.curve(of, line, colour)
    return chart.finish(
        f"{title}, in percent: "
        + "; ".join(f"{of} at {size} {each:+.1f}" for of, line in lines.items() for size, each in line)
        + f". {note}"
    )


def sweep(kernel: str) -> dict[int, published.Result]:
    """Return junstar92's figures of one kernel by size."""
    return {result.size: result for result in published.load() if result.table == "sweep" and result.kernel == kernel}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet, own, results = both(), of_data_sheet(), published.own(), published.load()
    cold = {of.kernel[:2]: of for of in load(cards.folder("h200") / "cold.json").points if of.size == (1536,) * 3}
    late = {key: h100.ms / h200.ms - 1 for key, (h200, h100) in pairs.items()}
    far = {key for key, each in late.items() if abs(each) > 0.05}
    shares = published.by_gpu(own, results)
    theirs = [pairs[number, 4096][1].cublas_ms for number in EARLY]
    (quick, slow), (_, narrow) = pairs["05", 2560], pairs["05", 1536]
    *_, H200, H100, RTX, A6000 = (label for label, _ in SHOWN)
    ladder = {of.kernel: of for of in results if of.label == RTX and of.table == "ladder"}
    tiled, small, cublas = map(sweep, (WARP_TILE, SMALL_TILE, "cuBLAS"))
    his, its = ladder["Warptiling SGEMM"], ladder["cuBLAS"]
    counted = 2 * published.SIZE**3 + 3 * published.SIZE**2  # as he counts, and 1000 · 2³⁰ to a TFLOP
    assert (
        {*late} == {(number, size) for number in EARLY for size in SIZES}
        and {of.times for of, _ in pairs.values()} == {3}
        and {of.times for _, of in pairs.values()} == {0}  # one process, without clocks
        and all(
            len({record.provenance[what] for record in own}) == 1
            for what in ("driver", "nvrtc", "cublas", "multiprocessors", "sm_clock_max_mhz")
        )
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and min(late[key] for key in far) > 0
        and [at for at in SIZES[7:] if late["02", at] > 0.005] == [*SIZES[19:24]] == [*range(2560, 3073, 128)]
        and max(late["02", at] for at in SIZES[24:]) < -0.02
        and [n for n in SIZES if 50 < 8 * n**2 / 2**20 <= 60] == [2688]  # A and B fit the H200's L2 alone
        and {mhz for each in pairs["09", 4096][0].processes for mhz in each.own.sm_mhz} == {1980}
        and {*sorted(EARLY, key=lambda of: pairs[of, 1536][0].ms - cold[of].ms)[:2]} == {"05", "06"}
        and slow.ms_p10 < quick.ms < 0.93 * slow.ms
        and quick.ms_p90 > 1.04 * quick.ms
        and narrow.ms_p90 < 1.005 * narrow.ms_p10
        and {of.parameters[what] for of in pairs["09", 4096] for what in ("BM", "BN")} == {128}
        and {of.parameters["BK"] for of in pairs["09", 4096]} == {32}
        and max(abs(late["05", size] - late["06", size]) for size in SIZES) < 0.015
        and shares[H200]["09"] / shares[H100]["09"] < max(theirs) / min(theirs)
        and all(abs(counted / of.ms * 1e3 / 2**30 / of.gflops - 1) < 1e-4 + 0.5 / of.gflops for of in ladder.values())
        and min((of.tflops, size) for size, of in tiled.items() if size >= 1024)[1] == 1152
        and small[1152].of(cublas[1152]) > 0.95
        and small[1152].tflops > small[1024].tflops
        and all(0.81 < of[1152].tflops / of[1280].tflops < 0.87 for of in (tiled, small, cublas))
    )
    return {
        **{
            f"{what} {name}": text
            for name, one, other in (("table", his, its), ("sweep", tiled[published.SIZE], cublas[published.SIZE]))
            for what, text in (
                ("cuBLAS", f"{other.ms:.3f}"),
                ("09", f"{one.ms:.3f}"),
                ("share", f"{one.of(other):.0%}"),
            )
        },
        "mixed share": f"{his.of(cublas[published.SIZE]):.0%}",
        "peak share": f"{sheet[RTX]['09']:.1f}%",
        "even": f"{tie(sheet, RTX, '09'):,.0f}",
        "even sweep": f"{tie(sheet, RTX, '09') * his.ms / tiled[published.SIZE].ms:,.0f}",
        "tie": f"{sheet[H100]['09'] / sheet[H200]['09'] - 1:.1%}",
        "rates said": f"{his.gflops:,.0f} / {its.gflops:,.0f}",
        "share said": f"{his.gflops / its.gflops:.2%}",
        "theirs said": f"{its.gflops:,.0f} GFLOPS",
        "theirs rounded": f"{counted / its.ms / 2**30:.3f} TFLOPS",
        "theirs counted": f"{its.tflops:.3f}",
        "H200 share": f"{shares[H200]['09']:.0f}%",
        "H200 peak 09": f"{sheet[H200]['09']:.1f}%",
        "H200 peak cuBLAS": f"{sheet[H200]['cuBLAS']:.0f}%",
        "A6000 share": f"{shares[A6000]['09']:.0f}%",
        "A6000 peak 09": f"{sheet[A6000]['09']:.0f}%",
        "A6000 peak cuBLAS": f"{sheet[A6000]['cuBLAS']:.0f}%",
        **{
            f"{card} {what}": text
            for card, of in zip(("H200", "H100"), pairs["09", 4096], strict=True)
            for what, text in (
                ("09", f"{of.ms:.3f}"),
                ("cuBLAS", f"{of.cublas_ms:.3f}"),
                ("share 09", f"{of.percent_of_cublas:.1f}%"),
            )
        },
        "cuBLAS spread": f"{max(theirs) / min(theirs) - 1:.1%}",
        "05 cold": f"{cold['05'].ms:.3f}",
        "05 warm": f"{pairs['05', 1536][0].ms:.3f}",
        "05 H100": f"{narrow.ms:.3f}",
        "05 slow": f"{slow.ms:.3f}",
        "05 quick": f"{slow.ms_p10:.3f}",
        "05 H200": f"{quick.ms:.3f}",
        "05 late": f"{quick.ms_p90:.3f}",
        "05 narrow": f"{narrow.ms_p10:.4f} to {narrow.ms_p90:.4f}",
        "median": f"{statistics.median(late.values()):+.1%}".replace("-", "−"),
        "large": f"{max(abs(each) for (_, at), each in late.items() if at >= 3072) + 5e-4:.1%}",  # rounded up
        "far": "5%",
        "near": f"{len(late) - len(far)}",
        "all": f"{len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far) + 5e-4:.1%}",  # rounded up
        "02 least": f"{-max(late['02', at] for at in SIZES[24:]):.1%}",
        "02 most": f"{-min(late['02', at] for at in SIZES[24:]):.1%}",
        **{f"02 {at}": f"{late['02', at]:+.1%}" for at in (2816, 2944)},
        "02 2688": f"{late['02', 2688]:.1%}",
        "05 1536": f"{late['05', 1536]:+.0%}",
        "05 2560": f"{late['05', 2560]:+.0%}",
    }
