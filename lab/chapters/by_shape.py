"""Compares the model's choices with the search's, 12's loop and cuBLAS, for chapter 13 and its deeper pages."""

import re
from collections.abc import Iterable
from functools import lru_cache
from statistics import geometric_mean

import numpy as np

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.table import Table
from sgemm_tutorial.tuned import Way

from ..draw import Figure, lines
from ..experiments import anatomy, tune
from ..experiments.ceilings import card, place
from ..model.resources import resources
from ..model.sass import SassInstruction, hot_loop, operands, sass
from ..records.shapes import SHAPES
from ..records.sizes import Size, times_of
from ..records.timings import Point, recorded
from ..variants import find_variant
from .by_size import SIZES

RUNG = find("13_autotuned")
TILES = ("128×256", "64×128/2", "32×64/4", "16×32/4")
"""Tiles that the charts show, as `tune.tile_of` names them. The search timed the last at few sizes."""
RANGES = ((256, 640), (768, 896), (1024, 2048), (2176, 4096))
"""The first and the last square."""
SMALL, MEDIUM = (16, 32, 32, 16, 32, 4, 4, 4, 4, 4, 5, 1), (32, 64, 32, 32, 32, 8, 4, 4, 4, 4, 2, 1)
LARGE = next(iter(autotuned.SETTINGS))
"""The settings of the last, the third and the first of these tiles."""
SHARED, MANY = (32, 128, 16, 16, 64, 4, 8, 2, 4, 4, 2, 1), (64, 128, 8, 32, 64, 8, 8, 1, 4, 4, 3, 1)
"""Settings that the search timed in whole tiles and in shares: at 640, and at 1408."""
UNDONE = {
    "13": ("", {}),
    "1 undone: a k's fragments are read at that k": ("fragments of this k", {}),
    "2 undone: barrier and first read begin the step": ("barrier between steps", {}),
    "3 undone: every copy asks about k": ("remainder last", {}),
    "3 undone: a branch for whole steps": ("remainder last, in a branch of its own", {}),
    "4 undone: columns in order": ("columns in order", {}),
    "control: each copy asks whether a pair is left, not one if for all six": ("copies turned off one by one", {}),
    "control: a thread has 16 × 8 sums, as in 12, not 8 × 16": ("", {"TM": 16, "TN": 8}),
    "control: 3 buffers, not 4": ("", {"STAGES": 3}),
    "control: blocks take tiles row by row, not by columns of a group of rows": ("tiles row by row", {}),
}
"""The labels and settings of variants of 13, by what is edited in them."""
LONG = 0.02
"""The ms from which a random product counts as long."""


def chosen(size: Size) -> Way:
    """Return the model's choice on the shown card."""
    launch = RUNG.resolve(imagined(*size), place())
    return Way(tuple(launch.kernel.parameters.values()), *(launch.division.counts[of] for of in ("whole", "shares")))


@lru_cache
def before() -> dict[Size, Point]:
    """Return 12's times at the squares, by size."""
    return {point.size: point for point in recorded("12", [(n, n, n) for n in SIZES]).points}


def drawn() -> list[Point]:
    """Return the products at random, at which the model alone chooses."""
    return recorded(RUNG, recording="random").points


def hard(M: int, N: int, K: int) -> bool:
    """Tell whether a product is of the kind at which 13 is behind most often."""
    return min(M, N) >= 256 and K < 512 and N % 4 > 0 and M * N * K >= 3e8


@lru_cache
def found() -> dict[Size, tune.Tuned]:
    """Return the search's results by size."""
    return {point.size: point for point in tune.select(tune.load(), None)}


def slower() -> dict[Size, float]:
    """Return how many times as long the model's choice takes as the fastest way found."""
    return {size: point.expected_ms / point.ms for size, point in found().items()}


@lru_cache
def raced() -> dict[Size, Point]:
    """Return the race's points at every size, with the table that the search wrote."""
    return {point.size: point for name in ("shapes", "squares") for point in recorded(RUNG, recording=name).points}


def tried(size: Size) -> dict[str, float]:
    """Return the µs of each tile in the search, with the fastest of its settings and divisions that were tried."""
    of = tune.load().settings["settings"]
    return {tune.tile_of(tuple(of[number])): us for number, *_, us in reversed(found()[size].tried)}


def timed(n: int, tile: str) -> float | None:
    """Return the least ms that the search timed carefully, at M = N = K = n, of a tile; None if it didn't."""
    return min((of.ms for of in found()[n, n, n].finalists if tune.tile_of(of.way.setting) == tile), default=None)


def fastest(n: int, tile: str) -> float | None:
    """Return the least µs that the search timed of a tile at M = N = K = n, carefully or else briefly."""
    return 1e3 * careful if (careful := timed(n, tile)) else tried((n, n, n)).get(tile)


def share(size: Size, searches: str) -> float:
    """Return 13's percentage of cuBLAS where "only 13", "both" or "neither" searches."""
    if searches == "neither":
        return 100 * found()[size].cublas_ms / found()[size].expected_ms
    return raced()[size].percent_of_searched if searches == "both" else raced()[size].percent_of_cublas


def mean_and_least(sizes: Iterable[Size], searches: str) -> tuple[str, str]:
    """Return the mean and the least share of cuBLAS where "only 13", "both" or "neither" searches."""
    return means([share(size, searches) for size in sizes])


def means(shares: list[float]) -> tuple[str, str]:
    """Return the geometric mean and the least of percentages."""
    return f"{geometric_mean(shares):.0f}%", f"{min(shares):.1f}%"


def by_model(setting: tuple[int, ...], size: Size) -> list[tuple[float, int, int]]:
    """Return the µs that the model expects of a setting in each division, the quickest first."""
    return autotuned.ways(setting, size, card().architecture, card().sms)


def steps() -> Table:
    """Return the model's times of a step of the charts' tiles: µs of one on an SM, and of each of several."""
    known = {tune.tile_of(setting): (autotuned.named(setting), paces) for setting, paces in autotuned.SETTINGS.items()}
    return Table(
        ("tile/slices", "BK", "blocks that fit on an SM", "µs of a step, alone", "µs, each of several"),
        [
            (tile, of["BK"], of["BLOCKS"], max(paces), paces[0] if of["BLOCKS"] > 1 else None)
            for tile in TILES
            for of, paces in [known[tile]]
        ],
        f"In the model, {card().name}",
    )


def miss(point: tune.Tuned) -> float:
    """Return how many times as long the model's choice takes as the model expects."""
    return 1e3 * point.expected_ms / by_model(point.expected.setting, point.size)[0][0]


def divided(way: Way) -> str:
    """Return a way's tile and division."""
    return f"{tune.tile_of(way.setting)}, {way.whole} + {way.shares}"


def pencil(sizes: Iterable[int]) -> Table:
    """Return by M = N = K what the model chooses, what that should take and took, and the fastest of the search."""
    return Table(
        ("M = N = K", "the model's choice", "µs expected", "µs measured", "the search's fastest", "its µs"),
        [
            (at.M, divided(at.expected), *texts[:2], divided(at.best), texts[2])
            for at in [found()[n, n, n] for n in sizes]
            for times in [(at.expected_ms / miss(at), at.expected_ms, at.ms)]
            for texts in [[f"{1e3 * ms:,.{2 if ms < 0.1 else 0}f}" for ms in times]]
        ],
        f"Tile, whole tiles + shares; {card().name}",
    )


def by_range() -> dict[tuple[int, int], tuple[list[float], list[float], list[float]]]:
    """Return by range the shares of cuBLAS of 12, and of 13 with 12's tile and with the model's choices."""
    of = {ends: [found()[n, n, n] for n in SIZES if ends[0] <= n <= ends[1]] for ends in RANGES}
    return {
        ends: (
            [before()[at.size].percent_of_cublas for at in points],
            [1e5 * at.cublas_ms / us for at in points if (us := fastest(at.M, TILES[0]))],
            [share(at.size, "neither") for at in points],
        )
        for ends, points in of.items()
    }


def ranges() -> Table:
    """Return the means of these shares."""
    brief = sum(not timed(n, TILES[0]) for n in SIZES if n > RANGES[0][1])
    return Table(
        ("M = N = K", "12", "13, always 128×256", "13, the model chooses"),
        [
            ("{:,} to {:,}".format(*ends), *(means(of)[0] if of else None for of in row))
            for ends, row in by_range().items()
        ],
        f"Of plain cuBLAS, geometric means, {card().name}",
        f"–: 13 was not timed with this tile. Of its other times, {brief} are from the search's first, brief pass.",
    )


def behind_barrier(kernel: Kernel | str) -> list[str]:
    """Return the hot loop's barrier and what follows, up to its sixth read, with the FFMAs before and until a use."""
    loop, rows = hot_loop(sass(kernel)), (kernel if isinstance(kernel, Kernel) else find(kernel)).parameters["TM"]
    at = next(at for at, of in enumerate(loop) if "BAR.SYNC" in of.text)
    behind = [n for n in (*range(at, len(loop)), *range(at)) if re.match("BAR.SYNC|LDGSTS|LDS.128", loop[n].opcode)]
    reads = [n for n in behind if loop[n].opcode == "LDS.128"][:6]
    bases = [re.split(r"[\[+\]]", loop[n].text)[1] for n in reads]
    return [
        f"after {len(operands(loop[:n])):4} FFMAs  "
        + (
            f"{'A' if 4 * bases.count(bases[reads.index(n)]) == rows else 'B'}  {loop[n].text:27}  "
            f"first used {until(loop[n:] + loop[:n])} later"
            if n in reads
            else f"   {loop[n].text}"
        )
        for n in behind[: behind.index(reads[-1]) + 1]
    ]


def until(loop: list[SassInstruction]) -> int:
    """Return the FFMAs between a read, which a loop begins with, and the first use of one of its four words."""
    words = {int(loop[0].text.split(" R")[1].split(",")[0]) + n for n in range(4)}
    return next(n for n, of in enumerate(operands(loop)) if words & {*of.sources})


@lru_cache
def undone() -> dict[str, tuple[Kernel, Point]]:
    """Return these variants with their times at 4096."""
    return {
        name: (of, recorded(of, [4096], "variants").points[0])
        for name, (label, settings) in UNDONE.items()
        for of in [find_variant("13", label, **settings)]
    }


def loops() -> Table:
    """Return the extra time of these variants."""
    base = undone()["13"][1].ms
    return Table(
        ("edit of 13", "time"),
        [
            (name, f"{more:+.{1 + (abs(more) < 0.002)}%}".replace("-", "−") if more else f"{at.ms:.3f} ms")
            for name, (_, at) in undone().items()
            for more in [at.ms / base - 1]
        ],
        f"M = N = K = 4096, {card().name}; at 1,980 MHz, medians of 15 samples of one process",
        "16 × 8 sums spill a register, outside the loop.",
    )


def tiles() -> Figure:
    """Draw by size the best speed that the search timed of each tile."""
    speeds = {n: {tile: 2e-6 * n**3 / us for tile, us in tried((n, n, n)).items()} for n in SIZES}
    return lines(
        "Four tiles in the search's first pass",
        {tile: [(n, speeds[n][tile]) for n in SIZES if tile in speeds[n]] for tile in TILES},
        "Across: M = N = K. Up: TFLOP/s. After a slash, slices.",
        log_x=True,
    )


def squares() -> Figure:
    """Draw by size the shares of cuBLAS of 12, and of 13 with the model's choices and with the search's."""
    of = {
        "12": [(n, before()[n, n, n].percent_of_cublas) for n in SIZES],
        "13, the model chooses": [(n, share((n, n, n), "neither")) for n in SIZES],
        "13, the search chooses": [(n, share((n, n, n), "only 13")) for n in SIZES],
        "cuBLAS": [(SIZES[0], 100.0), (SIZES[-1], 100.0)],
    }
    return lines("% of plain cuBLAS by size", of, "Across: M = N = K. Up: % of plain cuBLAS.", "%", log_x=True)


def loop_figures() -> dict[str, str]:
    """Return the figures in the sentences of the page on 13's loop, after checking what they say."""
    kernels, points = zip(*undone().values(), strict=True)
    costs, before_13 = [at.ms / points[0].ms - 1 for at in points], recorded("12", [4096]).points[0].ms
    (barrier, *behind), (first, *others) = [
        [[int(n) for n in re.findall(r"after +(\d+)|used (\d+)", row) for n in n if n] for row in behind_barrier(of)]
        for of in (RUNG, "12")
    ]
    copies, (befores, uses) = behind[:6], zip(*behind[6:], strict=True)
    loops = [hot_loop(sass(kernel)) for kernel in kernels]
    codes, (order, *orders) = [[[getattr(i, of) for i in loop] for loop in loops] for of in ("text", "opcode")]
    both, in_order = [
        sum(len({n % 2 for n, kept in zip(of.sources, of.kept, strict=True) if not kept}) == 2 for of in ffmas)
        for ffmas in map(operands, (loops[0], loops[5]))
    ]
    assert (
        {mhz for at in points for each in at.processes for mhz in each.own.sm_mhz} == {1980}
        and {(at.times, at.samples) for at in points} == {(1, 15)}
        and [n for n, of in enumerate(kernels) if resources(of).spill_store_bytes] == [7]
        and resources(kernels[7]).spill_store_bytes == 4
        and not any("STL" in of or "LDL" in of for of in codes[7])
        and {sum(of.startswith("FFMA") for of in code) for code in codes} == {1024}
        and both > 0.85 * 1024 > 0.3 * 1024 > in_order
        # The control: as many copies, each with a predicate, and one branch, back to the loop's beginning.
        and all(
            sum("LDGSTS" in of for of in code) == sum(of.startswith("@!P3 LDGSTS") for of in code) == 6
            for code in codes[:7:6]
        )
        and all(sum("BRA" in of for of in code) == 1 for code in codes[:7:6])
        and next(of for of in codes[0] if " P3," in of) == "ISETP.GE.U32.AND P3, PT, R48, R177, PT"
        and "IADD3 R48, R174, 0x3, RZ" in codes[0]  # the step's number and 3
        and [of == order for of in orders[5:]] == [False, False, True, True]
        and max(costs[3:6]) < costs[6] == max(costs[6:]) < costs[1] < costs[6] + 0.01 < costs[2] - 0.03
        and max(costs[8:], key=abs) < 0.0015 < 0.02 < min(costs[5], costs[7])
        and all(len(of) == 1 and barrier[0] < of[0] < befores[0] for of in copies)
        and all(before < 1024 <= before + use for before, use in zip(befores, uses, strict=True))
        and (min(uses), befores[0] + uses[0]) == (77, 1026)
        and costs[6] < before_13 / points[0].ms - 1 < costs[6] + 0.005
        # No FFMA before the barrier is multiply 7's: the first to use its fragments is behind it.
        and barrier[0]
        < 880
        == min(
            len(operands(loops[0][:n])) + until(loops[0][n:] + loops[0][:n])
            for n in [
                n
                for n, of in enumerate(loops[0])
                if of.opcode == "LDS.128" and len(operands(loops[0][:n])) < barrier[0]
            ][-6:]
        )
        and [len(operands(loops[0][: order.index(of)])) for of in ("DEPBAR.LE", "LDGDEPBAR")] == [825, 976]
        # Columns 0 to 3: their factors are the words of one read of B.
        and all(f"FFMA R{73 + n}, R{12 + m}, R32.reuse, R{73 + n}" in codes[0] for m, n in enumerate((0, -1, 2, 1)))
        and "LDS.128 R12, [R173+0x1800]" in codes[0]
        # One block of eight warps fits an SM, by registers.
        and all(2 * 256 * resources(of).registers > 2**16 for of in (RUNG, find("12")))
        and (first, others[:2]) == ([0], [[0, 0]] * 2)
        and chosen((4096,) * 3).shares > 0
    )
    return {
        "cost 2": f"{costs[2]:.1%}",
        "over 2": f"{100 * (costs[2] - costs[6]):.1f}",
        "over 1": f"{100 * (costs[1] - costs[6]):.1f}",
        "cost 12": f"{before_13 / points[0].ms - 1:.1%}",
        "moved": str(7 * 128 - barrier[0]),
        "buffers": f"{costs[8]:.2%}",
        "both 13": str(both),
        "both 4": str(in_order),
        "nvrtc": "NVRTC " + recorded(RUNG, [4096], "variants").provenance["nvrtc"],
        "card": card().name,
    }


def figures() -> dict[str, str]:
    """Return the figures in the sentences of chapter 13, after checking what they say."""
    squares, random = [(n, n, n) for n in SIZES], drawn()
    late = {size: slower()[size] for size in (*squares, *SHAPES)}
    new, steps = anatomy.of(RUNG, (4096,) * 3).main.counts, 512 * 512 / card().sms  # of each SM in 128×256
    long = [p for p in random if p.ms >= LONG]
    kind, others = [p for p in random if hard(*p.size)], [raced()[size] for size in SHAPES]
    lost = [sum(p.percent_of_searched < 100 for p in of) for of in (kind, random, others)]
    assert (
        lost[0] / len(kind) > 0.75 > 5 * (lost[1] - lost[0]) / (len(random) - len(kind))
        and sum(hard(*size) for size in SHAPES) == 1
    )
    worst, large = max(late, key=late.get), 1e3 * found()[4096, 4096, 4096].expected_ms
    gains = {n: before()[n, n, n].ms / found()[n, n, n].expected_ms for n in SIZES}
    large_gain = geometric_mean(gains[n] for n in SIZES if n >= RANGES[-1][0])
    assert max(gains.values()) == gains[256] > 2 * gains[640] and large_gain < 1.1
    wrong, right = [[found()[n, n, n] for n in of] for of in ((640, 896), (256, 512, 2560, 4096))]
    assert all(of.expected.whole == of.best.shares == 0 for of in wrong) and max(map(miss, right)) < 1.02
    brief, (least, *_, low), (*_, high_up) = [
        sorted(late[n, n, n] for n in SIZES if first <= n <= last)
        for first, last in ((256, 512), (640, 1024), (1152, 4096))
    ]
    (equal, whole), (many, few) = [
        [in_way(n, *of, tile) for of in ways]
        for n, tile, ways in ((640, SHARED, ((132, 0), (0, 100))), (1408, MANY, ((396, 0), (0, 242))))
    ]
    assert (
        equal > whole
        and many < few
        and low > 1.1 > least > 1.06 > high_up > brief[-1]
        and late[513, 513, 513] > late[1025, 1025, 1025] > 1.1
    )
    small, middle, _, high = [[geometric_mean(of) if of else 0.0 for of in row] for row in by_range().values()]
    assert small[2] > 3 * small[0] and middle[2] - middle[1] > 2 * (middle[1] - middle[0])
    issued, ffma = new["issue slots used, %"] / 100, new["FFMA"] / WARP / new["all"]
    peak = raced()[4096, 4096, 4096].tflops / card().fp32_tflops
    assert abs(high[2] / high[1] - 1) < 0.01 < 0.05 < high[1] / high[0] - 1 and abs(issued * ffma / peak - 1) < 0.015
    return {
        "card": card().name,
        "before": f"{geometric_mean(before()[size].percent_of_cublas for size in squares):.0f}%",
        "alone": mean_and_least(squares, "neither")[0],
        **{f"12 at {n}": f"{1e3 * before()[n, n, n].ms:.1f} µs" for n in (256, 640)},
        "gain at 256": f"{gains[256]:.0f}",
        "gain at 640": f"{gains[640]:.1f}",
        "large gain": f"{large_gain - 1:.0%}",
        "close": f"{max(abs(miss(of) - 1) for of in right):.1%}",
        **{f"miss {of.M}": f"{miss(of) - 1:.0%}" for of in wrong},
        "late from 1152": f"{high_up - 1:.0%}",
        "late to 512": f"{brief[-1] - 1:.1%}",
        "late below": f"{least - 1:.0%} to {low - 1:.0%}",
        **{f"late {n}": f"{late[n, n, n] - 1:.0%}" for n in (513, 1025)},
        "fair squares": mean_and_least(squares, "both")[0],
        "fair others": mean_and_least(SHAPES, "both")[0],
        "others": str(len(SHAPES)),
        "searched": str(len(late)),
        "late": str(sum(of > 1.1 for of in late.values())),
        "worst": f"{late[worst] - 1:.0%}",
        "worst shape": times_of(worst).replace("×", " × "),
        "random": f"{len(random):,}",
        "long": f"{1e3 * LONG:.0f} µs",
        **{
            f"{name}{who}": text
            for name, of in (("random", random), ("long", long))
            for who, shares in (
                (" plain", [p.percent_of_cublas for p in of]),
                (" better", [p.percent_of_searched for p in of]),
            )
            for text in [means(shares)[0]]
        },
        "random behind better": str(lost[1]),
        "hard": f"{lost[0]} of {len(kind)}",
        "hard median": f"{np.median([p.percent_of_searched for p in kind]):.0f}%",
        "others alone": str(sum(found()[p.size].expected_ms > p.opponent_ms for p in others)),
        "others lost": str(lost[2]),
        "pace": f"{large:,.0f} µs for {steps:,.0f} steps on each SM, {large / steps:.2f} µs each",
        "of several": f"{autotuned.SETTINGS[SMALL][0]:.3f}",
        "one": f"{autotuned.SETTINGS[SMALL][1]:.3f}",
        "shared one": f"{max(autotuned.SETTINGS[SHARED]):.3f}",
        "fill": str(autotuned.FILL),
        "launch": str(autotuned.LAUNCH),
        "meeting": str(autotuned.MEETING),
        "adding": f"{autotuned.ADDING * 1e6:.2f}",
        **sums(),
        "whole timed": f"{1e3 * whole:.1f} µs",
        "equal timed": f"{1e3 * equal:.1f} µs",
        "few timed": f"{1e3 * few:.1f} µs",
        "many timed": f"{1e3 * many:.1f} µs",
        "small 256 timed": f"{1e3 * timed(256, '16×32/4'):.2f} µs",
        "issued": f"{issued:.1%}",
        "ffma": f"{ffma:.1%}",
        "useful": f"{issued * ffma:.0%}",
        "left": f"{1 / issued / ffma:.2f} times",
        "peak": f"{peak:.0%}",
    }


def sums() -> dict[str, str]:
    """Return the model's sums as a pencil writes them."""
    small, medium, alone = (max(autotuned.SETTINGS[of]) for of in (SMALL, MEDIUM, SHARED))
    fill, launch, meeting = autotuned.FILL, autotuned.LAUNCH, autotuned.MEETING
    part = f"{autotuned.ADDING * 4 * SHARED[0] * SHARED[1]:.2f}"
    return {
        "part": part,
        "saved": f"{9 * alone:.1f} µs",
        "price": f"{meeting} + 3 · {part} = {meeting + 3 * float(part):.2f} µs",
        **{
            f"{name} {n}": f"{text} + {launch}{more} = {us(setting, n, shares):.{digits}f} µs"
            for name, setting, n, shares, text, more, digits in (
                ("small", SMALL, 256, 0, f"(8 + {fill}) · {small}", "", 2),
                ("medium", MEDIUM, 256, 0, f"(8 + {fill}) · {medium}", "", 2),
                ("whole", SHARED, 640, 0, f"(40 + {fill}) · {alone}", "", 1),
                ("equal", SHARED, 640, 132, f"(31 + {fill}) · {alone}", f" + {meeting} + 3 · {part}", 1),
            )
        },
    }


def us(setting: tuple[int, ...], n: int, shares: int) -> float:
    """Return the µs that the model expects of a setting at M = N = K = n, with all tiles whole or all in shares."""
    tiles = n * n // (setting[0] * setting[1])
    return next(us for us, *way in by_model(setting, (n, n, n)) if way == [0 if shares else tiles, shares])


def in_way(n: int, shares: int, whole: int = 0, setting: tuple[int, ...] = LARGE) -> float | None:
    """Return the careful ms of so many shares and whole tiles at M = N = K = n, in 12's tile unless told."""
    way = Way((*setting[:-1], int(shares > 0)), whole, shares)
    return next((of.ms for of in found()[n, n, n].finalists if of.way == way), None)
