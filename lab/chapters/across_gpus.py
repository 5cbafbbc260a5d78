"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

import statistics

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw.chart import COLOURS, INK, Chart, Figure, dye
from ..experiments import launch_cost
from ..records import cards, published
from ..records.timings import Point, load

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
EARLY, SIZES = tuple(f"{number:02}" for number in range(1, 12)), range(128, 4097, 128)
"""The rungs that both have timed, and M = N = K."""
OURS, BOEHM, A6000, RTX = "H200, this book", "H100, Boehm's code", "RTX A6000, Boehm", "RTX 3080, junstar92"
"""Cards and sources, as `published.Result.label` names others'."""
BASE_MHZ = {A6000: 1410, RTX: 1440}
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
    """Return percentages of each card's peak by its data sheet, by card and source, and by rung or cuBLAS.

    Of our kernels, 09 on the H200 is among them.
    """
    h200, _ = both()["09", published.SIZE]
    rates = {
        name: {of: each.tflops for of, each in ladder(name).items()} for name in published.shares(published.load())
    }
    rates[OURS] = {"09": h200.tflops, published.CUBLAS: 2e-9 * published.SIZE**3 / h200.cublas_ms}
    return {
        name: {rung: 100 * rate / find_gpu(name.partition(",")[0]).fp32_tflops for rung, rate in of.items()}
        for name, of in rates.items()
    }


def tie(name: str) -> tuple[float, float]:
    """Return the MHz of a card's clock at which 09's share of its peak is the H200's, and cuBLAS's share then, in %."""
    sheet = of_data_sheet()
    ratio = sheet[name]["09"] / sheet[OURS]["09"]
    return find_gpu(name.partition(",")[0]).boost_mhz * ratio, sheet[name][published.CUBLAS] / ratio


def two_authors() -> Table:
    """Return the times of our kernels and of Boehm's on an H100."""
    pairs, theirs = both(), ladder(BOEHM)
    rungs = sorted(rung for rung in theirs if rung in EARLY)
    rows = [(rung, pairs[rung, published.SIZE][1].ms, theirs[rung].ms) for rung in rungs]
    return Table(
        ("kernel", "ours, ms", "Boehm's, ms", "Boehm's / ours"),
        [(find(rung).name, f"{ms:.3f}", f"{their:.3f}", f"{their / ms:.2f}") for rung, ms, their in rows],
        f"Two programs on an H100, M = N = K = {published.SIZE}",
    )


def exceptions() -> Table:
    """Return the launches that take over 5% longer on the H100, with those of cuBLAS beside them."""
    return Table(
        (
            "kernel, size",
            "H200's processes, ms",
            "H100's 10th to 90th percentile, ms",
            "longer on the H100",
            "cuBLAS beside it",
        ),
        [
            (
                f"{number} at {size}",
                ", ".join(f"{ms:#.4g}" for ms in own(h200)),
                f"{h100.ms_p10:#.4g} to {h100.ms_p90:#.4g}",
                f"{h100.ms / h200.ms - 1:+.1%}",
                f"{round(h100.cublas_ms / h200.cublas_ms - 1, 3) + 0:+.1%}",  # no -0.0%
            )
            for (number, size), (h200, h100) in sorted(both().items())
            if abs(h100.ms / h200.ms - 1) > 0.05
        ],
        "Where a launch takes over 5% longer on the H100",
    )


def own(point: Point) -> list[float]:
    """Return the medians of a point's processes, in ascending order."""
    return sorted(statistics.median(process.own.ms) for process in point.processes)


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


def ladder(name: str) -> dict[str, published.Result]:
    """Return one source's figures at 4096, by rung, or by its own name where no rung does the same."""
    return {of.rung or of.kernel: of for of in published.load() if of.table == "ladder" and of.label == name}


def figures() -> dict[str, str]:
    """Return the figures that the page's sentences name, by name, and assert what these say of them."""
    pairs, sheet = both(), of_data_sheet()
    late = {key: h100.ms / h200.ms - 1 for key, (h200, h100) in pairs.items()}
    far = {key for key, each in late.items() if abs(each) > 0.05}
    theirs = [pairs[number, 4096][1].cublas_ms for number in EARLY]
    code, first, a6000 = map(ladder, (BOEHM, RTX, A6000))
    tiled, cublas = map(sweep, (WARP_TILE, published.CUBLAS))
    ratio = {rung: of.ms / pairs[rung, 4096][1].ms for rung, of in code.items() if rung in EARLY}
    tuned = {of: each["9: Autotuning"].tflops / each["07"].tflops - 1 for of, each in ((BOEHM, code), (A6000, a6000))}
    shares = {of: 100 * sheet[of]["09"] / sheet[of][published.CUBLAS] for of in (BOEHM, A6000, RTX)}
    mhz, at_tie = ({of: tie(of)[which] for of in shares} for which in (0, 1))
    costs = launch_cost.load(cards.folder("h200") / "launch_cost.json")
    added = [  # µs, by two events round one launch
        1e6 * (each["events"][costs.sizes.index(1024)] - each["device"][costs.sizes.index(1024)])
        for each in map(costs.seconds, (launch_cost.KERNEL, published.CUBLAS))
    ]
    h200, h100 = pairs["09", 4096]
    later = [late["02", size] for size in SIZES if size >= 3200]
    assert (
        {*late} == {(number, size) for number in EARLY for size in SIZES}
        and {of.times for of, _ in pairs.values()} == {3}
        and {of.times for _, of in pairs.values()} == {0}  # one process, without clocks
        and all(
            len({record.provenance[what] for record in published.own()}) == 1
            for what in ("driver", "nvrtc", "cublas", "multiprocessors", "sm_clock_max_mhz")
        )
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and min(late[key] for key in far) > 0.07
        and {mhz for each in h200.processes for mhz in each.own.sm_mhz} == {1980}
        and 8 * 1536**2 < find_gpu("H100").l2_bytes == 8 * 2560**2 < find_gpu("H200").l2_bytes < 8 * 2816**2
        and max(later) < 0 < late["02", 3072]
        and all(  # at 2560, the H100's quickest samples are as quick as the H200's
            pairs["05", 2560][1].ms_p10 <= 1.001 * each for each in own(pairs["05", 2560][0])
        )
        and pairs["05", 2560][1].ms > 1.04 * own(pairs["05", 2560][0])[2] > 1.04 * 1.04 * own(pairs["05", 2560][0])[1]
        and len({of.digest for of in (h200, h100)}) == 1
        and all(of.ms is None for of in a6000.values())
        and abs(max(ratio[of] for of in EARLY[:3]) - 1) < 0.03
        and min(theirs) < code[published.CUBLAS].ms < max(theirs)
        and code[published.CUBLAS].ms / min(theirs) < 1.0135 > max(theirs) / code[published.CUBLAS].ms
        and shares[BOEHM] < sheet[OURS]["09"] < min(shares[of] for of in (A6000, RTX))
        and at_tie[BOEHM] > 100 > max(at_tie[of] for of in (A6000, RTX))
        and all(mhz[of] < BASE_MHZ[of] for of in BASE_MHZ)
        and mhz[A6000] < STATED_MHZ < BASE_MHZ[A6000]
        and all(
            abs(of.gflops - (2 * of.size**3 + 3 * of.size**2) / 2**30 / of.ms * 1e3) < 0.5 + of.gflops * 0.0005 / of.ms
            and abs(of.gflops / of.tflops / 1e3 - 0.9317) < 1e-4
            for of in first.values()
        )
        and min((of.tflops, size) for size, of in tiled.items() if size >= 1024)[1] == 1152
        and 0.01 < added[1] / 1e3 < 0.0115
    )
    return {
        "theirs ms": f"{first['09'].ms:.3f}",
        "theirs cuBLAS": f"{first[published.CUBLAS].ms:.3f}",
        "theirs of cuBLAS": f"{shares[RTX]:.1f}%",
        "theirs of peak": f"{sheet[RTX]['09']:.1f}%",
        "ours ms": f"{h200.ms:.3f}",
        "ours cuBLAS": f"{h200.cublas_ms:.3f}",
        "ours of peak": f"{sheet[OURS]['09']:.1f}%",
        "tie": f"{round(mhz[RTX], -1):,.0f} MHz",
        "tie cuBLAS": f"{at_tie[RTX]:.0f}%",
        "stated": f"{STATED_MHZ:,.0f} MHz",
        "stated above": f"{STATED_MHZ / mhz[A6000] - 1:.0%}",
        **{f"base {of.partition(',')[0]}": f"{each:,} MHz" for of, each in BASE_MHZ.items()},
        **{f"share {of}": f"{shares[each]:.0f}%" for of, each in (("Boehm H100", BOEHM), ("Boehm A6000", A6000))},
        "H100 09": f"{h100.ms:.3f}",
        "Boehm 09": f"{code['09'].ms:.3f}",
        "Boehm cuBLAS": f"{code[published.CUBLAS].ms:.3f}",
        "H100 cuBLAS": f"{min(theirs):.3f} to {max(theirs):.3f}",
        "apart": f"{min(ratio[of] for of in ratio if of > '03') - 1:.0%} to {max(ratio.values()) - 1:.0%}",
        "early": f"{max(abs(ratio[of] - 1) for of in EARLY[:3]) + 5e-4:.0%}",
        "protocol": f"{code[published.CUBLAS].ms / min(theirs) - 1:.1%}",
        "reading C": f"{4e-6 * 4096**2 / find_gpu('H100').bandwidth_gbs:.2f} ms",
        "gap": f"{code['09'].ms - h100.ms:.2f} ms",
        "tuned A6000": f"{tuned[A6000]:.0%}",
        "tuned H100": f"{-tuned[BOEHM]:.0%}",
        "second ms": f"{tiled[4096].ms:.3f}",
        "second cuBLAS": f"{cublas[4096].ms:.3f}",
        "mixed": f"{cublas[4096].ms / first['09'].ms:.0%}",
        "near": f"{len(late) - len(far)} of {len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far) + 5e-4:.1%}",  # rounded up
        "far": f"{min(late[key] for key in far):.0%} to {max(late[key] for key in far):.0%}",
        "beside": f"{max(pairs[key][1].cublas_ms / pairs[key][0].cublas_ms - 1 for key in far):.1%}",
        "later": f"{-max(later):.1%} to {-min(later):.1%}",
        "events": f"{min(added):.0f} to {max(added):.0f} µs",
    }
