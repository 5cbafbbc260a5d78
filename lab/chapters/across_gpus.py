"""The page on results across GPUs: the same kernels on two cards of ours, and what others have published of theirs."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.table import Table

from ..boards import find_gpu
from ..draw.chart import COLOURS, Chart, Figure
from ..experiments import launch_cost
from ..records import cards, published
from ..records.timings import Point, load

CARDS = "h200", "h100"
"""The two cards of ours, as their folders are named."""
EARLY, SIZES = tuple(f"{number:02}" for number in range(1, 12)), range(128, 4097, 128)
"""The rungs that both have timed, and M = N = K."""
OURS, BOEHM, A6000, RTX = "H200, this book", "H100, Boehm's code", "RTX A6000, Boehm", "RTX 3080, junstar92"
"""Cards and sources, as `published.Result.label` names others'."""
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
            "H200, 10th to 90th percentile, ms",
            "H100, 10th to 90th percentile, ms",
            "median longer on the H100",
            "cuBLAS beside it",
        ),
        [
            (
                f"{number} at {size}",
                *(f"{of.ms_p10:#.4g} to {of.ms_p90:#.4g}" for of in (h200, h100)),
                f"{h100.ms / h200.ms - 1:+.1%}",
                f"{round(h100.cublas_ms / h200.cublas_ms - 1, 3) + 0:+.1%}",  # no -0.0%
            )
            for (number, size), (h200, h100) in sorted(both().items())
            if abs(h100.ms / h200.ms - 1) > 0.05
        ],
        "Where a launch takes over 5% longer on the H100",
    )


def by_size() -> Figure:
    """Draw how much longer some kernels take on the H100 than on the H200, by size."""
    title = "Time on the H100 against the H200"
    late = {key: 100 * (h100.ms / h200.ms - 1) for key, (h200, h100) in both().items()}
    lines = {of: [(size, late[of, size]) for size in SIZES] for of in ("01", "02", "05", "08")}
    chart = Chart(title, (128, 4096), (-5, 20), lines, "M = N = K", "% longer on the H100")
    chart.ticks(range(512, 4097, 512), range(-5, 21, 5))
    for colour, (of, line) in zip(COLOURS, lines.items(), strict=True):
        chart.curve(of, line, colour)
    return chart.finish(
        f"{title}, in percent: "
        + "; ".join(f"{of} at {size} {each:+.1f}" for of, line in lines.items() for size, each in line)
        + "."
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
    shares = {of: 100 * sheet[of]["09"] / sheet[of][published.CUBLAS] for of in (BOEHM, A6000, RTX)}
    mhz, at_tie = ({of: tie(of)[which] for of in shares} for which in (0, 1))
    boost = {of: sheet[of][published.CUBLAS] for of in (*shares, OURS)}
    costs = [launch_cost.load(cards.folder(card) / "launch_cost.json") for card in CARDS]
    added = [  # µs, by two events round one launch
        1e6 * (each["events"][of.sizes.index(1024)] - each["device"][of.sizes.index(1024)])
        for of in costs
        for each in map(of.seconds, (launch_cost.KERNEL, published.CUBLAS))
    ]
    h200, h100 = pairs["09", 4096]
    assert (
        {*late} == {(number, size) for number in EARLY for size in SIZES}
        and {of.times for of, _ in pairs.values()} == {3}
        and {of.times for _, of in pairs.values()} == {0}  # one process, without clocks
        and all(first.digest == second.digest for first, second in pairs.values())
        and all(
            len({record.provenance[what] for record in published.own()}) == 1
            for what in ("driver", "nvrtc", "cublas", "multiprocessors", "sm_clock_max_mhz")
        )
        and far == {("02", 2816), ("02", 2944), *((of, at) for of in ("05", "06") for at in (1536, 2560)), ("08", 384)}
        and min(late[key] for key in far) > 0.07
        and max(late[key] for key in far) < 0.2 < code["09"].ms / h100.ms - 1
        and {key for key in far if pairs[key][1].ms_p10 <= pairs[key][0].ms_p90} == {("05", 2560), ("06", 2560)}
        and {mhz for each in h200.processes for mhz in each.own.sm_mhz} == {find_gpu("H200").boost_mhz}
        and all(of.ms is None for of in a6000.values())
        and abs(max(ratio[of] for of in EARLY[:3]) - 1) < 0.03
        and min(theirs) < code[published.CUBLAS].ms < max(theirs)
        and boost[OURS] < at_tie[A6000] < at_tie[RTX] < 100 < at_tie[BOEHM]
        and abs(boost[BOEHM] - boost[OURS]) < 0.5
        and min((of.tflops, size) for size, of in tiled.items() if size >= 1024)[1] == 1152
        and 0.018 < max(added) / 1e3 < 0.0195
    )
    return {
        "theirs ms": f"{first['09'].ms:.3f}",
        "theirs cuBLAS": f"{first[published.CUBLAS].ms:.3f}",
        "theirs of cuBLAS": f"{shares[RTX]:.1f}%",
        "theirs of peak": f"{sheet[RTX]['09']:.1f}%",
        "ours ms": f"{h200.ms:.3f}",
        "ours cuBLAS": f"{h200.cublas_ms:.3f}",
        "ours of peak": f"{sheet[OURS]['09']:.1f}%",
        "tie": f"{mhz[RTX]:,.0f} MHz",
        "tie cuBLAS": f"{at_tie[RTX]:.0f}%",
        "boost cuBLAS": f"{boost[RTX]:.0f}%",
        "Hopper cuBLAS": f"{boost[OURS]:.1f}%",
        "A6000 boost": f"{boost[A6000]:.0f}%",
        "A6000 tie": f"{at_tie[A6000]:.0f}%",
        "H100 boost": f"{boost[BOEHM]:.1f}%",
        "H100 tie": f"{at_tie[BOEHM]:.0f}%",
        **{f"share {of}": f"{shares[each]:.0f}%" for of, each in (("Boehm H100", BOEHM), ("Boehm A6000", A6000))},
        "Boehm cuBLAS": f"{code[published.CUBLAS].ms:.3f}",
        "H100 cuBLAS": f"{min(theirs):.3f} to {max(theirs):.3f}",
        "apart": f"{min(ratio[of] for of in ratio if of > '03') - 1:.0%} to {max(ratio.values()) - 1:.0%}",
        "early": f"{max(abs(ratio[of] - 1) for of in EARLY[:3]) + 5e-4:.0%}",
        "mixed": f"{cublas[4096].ms / first['09'].ms:.0%}",
        "near": f"{len(late) - len(far)} of {len(late)}",
        "other": f"{max(abs(each) for key, each in late.items() if key not in far) + 5e-4:.1%}",  # rounded up
        "far": f"{min(late[key] for key in far):.0%} to {max(late[key] for key in far):.0%}",
        "beside": f"{max(abs(pairs[key][1].cublas_ms / pairs[key][0].cublas_ms - 1) for key in far):.1%}",
        "events": f"{min(added):.0f} to {max(added):.0f} µs",
    }
