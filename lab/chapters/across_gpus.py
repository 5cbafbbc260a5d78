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
    (OURS, "09"),
    ("H100, this book", "09"),
    ("H100, Boehm's code", "09"),
    ("RTX A6000, Boehm", "09"),
    ("RTX 3080, junstar92", "09"),
    (OURS, "07"),
    ("T4, T4 article", "07"),
)
"""Cards and rungs whose shares the page compares with those of the H200, in the order of its tables."""
BASE_MHZ = {"RTX A6000": 1410, "RTX 3080": 1440, "T4": 585}
"""Rated base clocks, the RTX 3080's of the model with 10 GB."""
STATED_MHZ = 30e6 / (2 * 128 * find_gpu("RTX A6000").sms)
"""The clock at which an RTX A6000 has the 30 TFLOP/s that Boehm states."""
WARP_TILE = "warptiling_sgemm_kernel<128, 128, 8, 64, 32, 8>"
"""The name that junstar92's list of sizes has for his 09 with block tiles of 128 × 128."""


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


def tie(sheet: dict[str, dict[str, float]], name: str, rung: str) -> tuple[float, float]:
    """Return the MHz of a card's clock at which a kernel's share of its peak is the H200's, and cuBLAS's then, in %."""
    ratio = sheet[name][rung] / sheet[OURS][rung]
    return find_gpu(name.partition(",")[0]).boost_mhz * ratio, sheet[name]["cuBLAS"] / ratio


def two_shares() -> Table:
    """Return some kernels' two shares, and the clock at which the kernel's is the H200's, with cuBLAS's at both."""
    sheet, of_cublas = of_data_sheet(), published.by_gpu(published.own(), published.load())
    return Table(
        (
            "kernel, card, by whom",
            "of cuBLAS",
            "of the peak (cuBLAS's share)",
            "clock of a tie (cuBLAS's share then)",
            "base, boost in MHz",
        ),
        [
            (
                f"{rung} on the {name}",
                f"{of_cublas[name][rung]:.0f}%",
                f"{sheet[name][rung]:.0f}% ({sheet[name][published.CUBLAS]:.0f}%)",
                None if name == OURS else f"{round(ties[0], -1):,.0f} MHz ({ties[1]:.0f}%)",
                f"{BASE_MHZ[gpu]:,}, {find_gpu(gpu).boost_mhz:,}"
                if gpu in BASE_MHZ
                else f"–, {find_gpu(gpu).boost_mhz:,}",
            )
            for name, rung in SHOWN
            for gpu, ties in ((name.partition(",")[0], tie(sheet, name, rung)),)
        ],
        f"Shares of cuBLAS and of the peak, M = N = K = {published.SIZE}",
        "Peaks are at boost clocks. Only the H200's clock was recorded as it ran, in short turns: 1,980 MHz, but "
        "for 351 readings with 02 to 04 at 2560 to 3072. Times or rates: book/results, ladder.json of our cards and "
        "published-results.csv.",
    )


def steps() -> Table:
    """Return our cards' and Boehm's shares of cuBLAS by rung, in the order of `SHOWN`."""
    shares = published.by_gpu(published.own(), published.load())
    return published.table({name: shares[name] for name, _ in SHOWN[:4]})


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
    pairs, sheet, shares = both(), of_data_sheet(), published.by_gpu(published.own(), published.load())
    late = {key: h100.ms / h200.ms - 1 for key, (h200, h100) in pairs.items()}
    far = {key for key, each in late.items() if abs(each) > 0.05}
    theirs = [pairs[number, 4096][1].cublas_ms for number in EARLY]
    (quick, slow), (_, narrow) = pairs["05", 2560], pairs["05", 1536]
    H200, H100, BOEHM, A6000, RTX, T4 = dict(SHOWN)
    said = {(of.label, of.kernel): of for of in published.load() if of.table == "ladder"}
    tiled, cublas = map(sweep, (WARP_TILE, "cuBLAS"))
    printed = [of for of in said.values() if of.label == RTX]
    ahead = [shares[H100][of] - shares[BOEHM][of] for of in ("04", "05", "07", "09")]
    low = [  # where the H200's clock was lower than its most
        key
        for key, (of, _) in pairs.items()
        for each in of.processes
        for mhz in (*each.own.sm_mhz, *each.cublas.sm_mhz)
        if mhz != 1980
    ]
    hump = [100 * late["02", size] for size in range(2560, 3073, 128)]
    own = {
        size: sorted(statistics.median(each.own.ms) for each in pairs["05", size][0].processes) for size in (1536, 2560)
    }
    cold = {(of.kernel[:2], of.M): of.ms for of in load(cards.folder("h200") / "cold.json").points}
    assert (
        {*late} == {(number, size) for number in EARLY for size in SIZES}
        and {of.times for of, _ in pairs.values()} == {3}
        and {of.times for _, of in pairs.values()} == {0}  # one process, without clocks
        and all(
            len({record.provenance[what] for record in published.own()}) == 1
            for what in ("driver", "nvrtc", "cublas", "multiprocessors", "sm_clock_max_mhz")
        )
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and min(late[key] for key in far) > 0
        and {mhz for each in pairs["09", 4096][0].processes for mhz in each.own.sm_mhz} == {1980}
        and slow.ms_p10 < quick.ms < 0.93 * slow.ms
        and slow.ms < max(ms for each in quick.processes for ms in each.own.ms)
        and narrow.ms_p90 < 1.005 * narrow.ms_p10
        and {of.parameters["BM"] for of in pairs["09", 4096]} == {128}
        and {of.parameters["BK"] for of in pairs["09", 4096]} == {32}
        and max(abs(late["05", size] - late["06", size]) for size in SIZES) < 0.015
        and all(
            abs(of.gflops - (2 * of.size**3 + 3 * of.size**2) / 2**30 / of.ms * 1e3) < 0.5 + of.gflops * 0.0005 / of.ms
            and abs(of.gflops / of.tflops / 1e3 - 0.9317) < 1e-4
            for of in printed
        )
        and len({of.digest for of in pairs["09", 4096]}) == 1
        and pairs["09", 4096][1].ms < pairs["09", 4096][0].ms
        and tiled[4096].ms > said[RTX, "Warptiling SGEMM"].ms
        and all(abs(tie(sheet, A6000, "09")[1] - sheet[of]["cuBLAS"]) < 2.5 for of in (H200, H100))
        and sheet[T4]["cuBLAS"] < 0.6 * min(of["cuBLAS"] for name, of in sheet.items() if "cuBLAS" in of and name != T4)
        and len(low) == 351
        and {of for of, _ in low} == {"02", "03", "04"}
        and {size for _, size in low} == {*range(2560, 3073, 128)}
        and min(hump) > 0 > max(late["02", 2432], late["02", 3200])
        and find_gpu("H100").l2_bytes == 2 * 4 * 2560**2
        and max(own[1536]) < 0.9 * narrow.ms < narrow.ms < cold["05", 1536] < 1.05 * narrow.ms
        and all(shares[H100][of] < shares[H200][of] for of in EARLY[2:])
        and BASE_MHZ["T4"] < tie(sheet, T4, "07")[0] < 0.5 * find_gpu("T4").boost_mhz
        and all(abs(shares[BOEHM][of] - shares[H100][of]) < 0.5 for of in EARLY[:3])
        and min(ahead) > 5
        and abs(tie(sheet, H100, "09")[0] / find_gpu("H100").boost_mhz - 1) < 0.01
        and min(theirs) < said[BOEHM, "cuBLAS"].ms < max(theirs)
        and tie(sheet, BOEHM, "09")[1] > 100 > tie(sheet, RTX, "09")[1] > 90
        and tie(sheet, RTX, "09")[0] < 0.9 * BASE_MHZ["RTX 3080"]
        and 0.97 * BASE_MHZ["RTX A6000"] < tie(sheet, A6000, "09")[0] < STATED_MHZ < BASE_MHZ["RTX A6000"]
        and pairs["09", 4096][1].ms < 0.8 * said[BOEHM, "10: Warptiling"].ms
        and min((of.tflops, size) for size, of in tiled.items() if size >= 1024)[1] == 1152
        and all(0.81 < of[1152].tflops / of[1280].tflops < 0.87 for of in (tiled, cublas))
    )
    return {
        "cuBLAS table": f"{said[RTX, 'cuBLAS'].ms:.3f}",
        "09 table": f"{said[RTX, 'Warptiling SGEMM'].ms:.3f}",
        "share table": f"{shares[RTX]['09']:.0f}%",
        "peak share": f"{sheet[RTX]['09']:.1f}%",
        "even": f"{round(tie(sheet, RTX, '09')[0], -1):,.0f} MHz",
        **{
            f"{card} clock": f"{find_gpu(name).boost_mhz:,} MHz"
            for card, name in (("H200", "H200"), ("RTX", "RTX 3080"))
        },
        "even cuBLAS": f"{tie(sheet, RTX, '09')[1]:.0f}%",
        "H200 peak 09": f"{sheet[H200]['09']:.1f}%",
        "RTX base": f"{BASE_MHZ['RTX 3080']:,} MHz",
        "A6000 stated": f"{round(STATED_MHZ, -1):,.0f} MHz",
        "A6000 below": f"{1 - tie(sheet, A6000, '09')[0] / BASE_MHZ['RTX A6000']:.0%}",
        **{f"{card} share": f"{shares[label]['09']:.0f}%" for card, label in (("Boehm", BOEHM), ("A6000", A6000))},
        "apart": f"{min(ahead):.0f} to {max(ahead):.0f}",
        "all H100": f"{min(theirs):.3f} to {max(theirs):.3f}",
        "printed": f"{printed[0].gflops / printed[0].tflops / 1e3:.3f}",
        "cuBLAS sweep": f"{cublas[4096].ms:.3f}",
        "09 sweep": f"{tiled[4096].ms:.3f}",
        "share sweep": f"{tiled[4096].of(cublas[4096]):.0%}",
        "share mixed": f"{cublas[4096].ms / said[RTX, 'Warptiling SGEMM'].ms:.0%}",
        **{f"{card} peak cuBLAS": f"{sheet[name]['cuBLAS']:.0f}%" for card, name in (("H200", H200), ("T4", T4))},
        "H200 09": f"{pairs['09', 4096][0].ms:.3f}",
        "faster 09": f"{pairs['09', 4096][0].ms / pairs['09', 4096][1].ms - 1:.1%}",
        "faster cuBLAS": f"{pairs['09', 4096][0].cublas_ms / pairs['09', 4096][1].cublas_ms - 1:.1%}",
        "H100 09": f"{pairs['09', 4096][1].ms:.3f}",
        "Boehm 09": f"{said[BOEHM, '10: Warptiling'].ms:.3f}",
        "hump": "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}%".format(*hump),
        **{f"own {size}": "{:.3f}, {:.3f} and {:.3f}".format(*of) for size, of in own.items()},
        "05 narrow": f"{narrow.ms:.3f}",
        "05 cold": f"{cold['05', 1536]:.3f}",
        "05 slow": f"{slow.ms:.3f}",
        "far": "5%",
        "near": f"{len(late) - len(far)}",
        "all": f"{len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far) + 5e-4:.1%}",  # rounded up
        "05 1536": f"{late['05', 1536]:+.0%}",
        "05 2560": f"{late['05', 2560]:+.0%}",
    }
