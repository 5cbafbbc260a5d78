"""Chapter 22 and its deeper page: who gets which pieces, what a division costs, and all shapes beside cuBLAS."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Launch, Place
from sgemm_tutorial.operands import imagined
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from ..draw.chart import COLOURS, Chart, dye
from ..draw.division import Part, division
from ..draw.figure import BODY, INK, Figure
from ..experiments import tune
from ..experiments.ceilings import card
from ..model.sass import hot_loop, sass
from ..paths import RESULTS
from ..records.shapes import LAYERS, SHAPES, SQUARES
from ..records.sizes import Size, times_of
from ..records.timings import Point, load, recorded
from ..variants import ANY_SHAPE

KERNEL, BEFORE = find("22_any_shape"), find("20_persistent")
ALONE, OVERLAP, OWN_NUMBER, WHOLE = ANY_SHAPE
EACH = (BEFORE, *ANY_SHAPE, KERNEL)
"""What was timed at the examples: 20, 22 alone, also without a part of what it does, and 22 as it is called."""
SHORT = find("22", BITS=16)
"""22 with a C of 16 bits."""
WAYS = "rows fetched", "rows copied", "without tensor cores"
"""How 22 does a product: tensor cores multiply its rows as they are, or as `pad` copies them, or others do it."""
H200, H100, RANDOM = (RESULTS / f"{name}.json" for name in ("h200/any_shape", "h100/any_shape", "h200/random_22"))
BRIEF = 0.01
"""The better opponent's ms under which the table counts a product as brief."""
LOW = 95
"""The percentage of the better opponent's speed under which a product counts as lost."""
TINY, LONG = (256, 256, 256), (256, 256, 16384)
"""The smallest product, and the one whose divisions the chapter weighs."""
KINDS = ("squares", *WAYS)
"""What the chart tells apart; a product is of the first that fits."""


def pieces(cluster: int, clusters: int, shared: int, tiles: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Yield a cluster's pieces as `Work` deals them out: tile, first step, and the step before which it ends."""
    start, end = (share * shared * steps // clusters for share in (cluster, cluster + 1))
    for tile in range(start // steps, -(-end // steps)):
        yield tile, max(start - tile * steps, 0), min(end - tile * steps, steps)
    yield from ((tile, 0, steps) for tile in range(shared + cluster, tiles, clusters))


def picture(run: Run, shared: int, clusters: int) -> Figure:
    """Draw the pieces of a simulated run's blocks, which are clusters of one; which of them wrote, the trace says."""
    of, (M, N) = run.kernel.parameters, run.C.shape
    rows, tiles, steps = -(-M // of["BM"]), run.kernel.grid(M, N), -(-run.K // of["BK"])
    wrote = {
        (access.block, int(at) // 4 % N // of["BN"] * rows + int(at) // 4 // N // of["BM"])  # down the columns of tiles
        for access in run.trace
        if access.array == "C"
        for at in access.offsets
    }
    found = [
        Part(block, tile % rows, tile // rows, begin, end, (block, tile) in wrote)
        for block in range(clusters)
        for tile, begin, end in pieces(block, clusters, shared, tiles, steps)
    ]
    return division(found, clusters, f"{tiles} tiles of {steps} steps, {shared} of them shared", 8, "cluster")


@lru_cache
def points(kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> dict[Size, Point]:
    """Return the recorded points of 22, of 22 without a part, or of 20, by size."""
    return {point.size: point for point in recorded(kernel, recording=recording).points}


def launched(size: Size, kernel: Kernel = KERNEL, recording: str | Path = "any_shape") -> Launch:
    """Return what 22 launches for a product on a recording's card, by its table if it has one, else by the model."""
    place = Place(card().architecture, card().sms, name=load(recording).provenance["gpu"])
    return kernel.resolve(imagined(*size, types=KERNEL.types), place)


@lru_cache
def way(size: Size) -> str:
    """Return which of `WAYS` a product goes."""
    name = launched(size).kernel.name
    return WAYS[2 if name not in (KERNEL.name, any_shape.DEEP.name) else size[1] % 8 + size[2] % 8 > 0]


def by_way(recording: str | Path = "any_shape") -> dict[str, list[Size]]:
    """Return a recording's shapes that go each of `WAYS`, the first by whether the better opponent takes long."""
    sizes, limit = points(recording=recording) if recording == RANDOM else SHAPES, f"{1e3 * BRIEF:.0f} µs"
    of = {name: [size for size in sizes if way(size) == name] for name in WAYS}
    return {
        f"{WAYS[0]}, opponent under {limit}": [size for size in of[WAYS[0]] if better(size, recording) < BRIEF],
        f"{WAYS[0]}, opponent {limit} or more": [size for size in of.pop(WAYS[0]) if better(size, recording) >= BRIEF],
        **of,
    }


@lru_cache
def searched() -> dict[Size, tune.Tuned]:
    """Return what the search found on an H200, by size."""
    found = tune.load(H200.with_name("tune_22.json")).points
    return {point.size: point for point in found if point.digest == KERNEL.digest}


def setting(*wanted: int) -> Mapping[str, int]:
    """Return the setting of this BM, BN, and CLUSTER and BLOCKS, which are 1 unless given."""
    return next(
        of for of in any_shape.SETTINGS if tuple(map(of.get, ("BM", "BN", "CLUSTER", "BLOCKS"))) == (*wanted, 1, 1)[:4]
    )


def meeting(of: Mapping[str, int], parts: int, digits: int = 9) -> tuple[float, float]:
    """Return the µs by the model of a tile's parts that meet, and of each part among them, to so many digits."""
    part = round(any_shape.PART + of["BM"] * of["BN"] * 4 / any_shape.ADD, digits)
    rounds = min(parts, any_shape.TOGETHER), -(-parts // any_shape.TOGETHER)
    return sum(any_shape.MEET + added * part for added in rounds if added > 1), part


def tried(size: Size, of: Iterable[str] = any_shape.PARAMETERS) -> dict[tuple[tuple[int, ...], int], float]:
    """Return the µs of what the search on an H200 tried at a size, by the setting and how many tiles were shared.

    The settings are 22's, or those with the parameters of `any_shape.DEEP`.
    """
    every, many = tune.load(H200.with_name("tune_22.json")).settings["settings"], len(tuple(of))
    return {
        (tuple(every[number]), shared): us
        for number, shared, _, us in searched()[size].tried
        if len(every[number]) == many
    }


def finals(size: Size, of: Iterable[str] = any_shape.PARAMETERS) -> dict[tuple[int, ...], float]:
    """Return the µs of what the search timed carefully in the end, the quickest first, by the setting."""
    many, ran = len(tuple(of)), searched()[size].finalists
    return {each.way.setting: 1e3 * each.ms for each in ran if len(each.way.setting) == many}


def both() -> list[float]:
    """Return how many times as long 22 alone takes as `any_shape.DEEP`, at the shapes where both were finalists."""
    raced = [(finals(size), finals(size, any_shape.DEEP_PARAMETERS)) for size in SHAPES if size in searched()]
    return [min(own.values()) / min(other.values()) for own, other in raced if own and other]


def used() -> dict[str, list[Size]]:
    """Return the shapes at which the search on an H200 chose what 20 lacks, by what that is."""
    best = {size: searched()[size].best for size in SHAPES if size in searched()}
    own = {size: of for size, of in best.items() if len(of.setting) == len(any_shape.PARAMETERS)}
    return {
        "narrow": [size for size, of in own.items() if min(of.setting[:2]) < 128],
        "copied": [size for size in best if way(size) == WAYS[1]],
        "cut": [size for size, of in own.items() if of.whole and size[2] > any_shape.BK],  # of one step none is cut
        "in clusters": [size for size in best if size not in own],
    }


def remainder(of: Mapping[str, int]) -> list[float]:
    """Return the µs by the model of a launch at `LONG` besides steps and meetings: its own, a tile's end, memory's."""
    traffic = any_shape.START + any_shape.moved(*LONG) / any_shape.MEMORY
    launch = any_shape.START + any_shape.CLUSTERED * (of["CLUSTER"] > 1)
    return [round(us, 2) for us in (launch, any_shape.pace(of)[1], any_shape.HIDDEN * traffic)]


def weighed(*ways: tuple[Mapping[str, int], int]) -> Table:
    """Return a pencil's µs of `LONG` in some settings, with so many parts of each tile, beside measured ones."""
    (M, N, K), rows = LONG, []
    for of, parts in ways:
        tiles, steps = M // (of["BM"] * of["CLUSTER"]) * (N // of["BN"]), K // any_shape.BK // parts
        multiply = steps * any_shape.pace(of)[0] * (any_shape.SHARED if parts > 1 else 1)
        us = [round(each, 2) for each in (multiply, meeting(of, parts, 3)[0], sum(remainder(of)))]
        brief = tried(LONG).get((tuple(map(of.get, any_shape.PARAMETERS)), tiles * (parts > 1)))
        ran = 1e3 * points(WHOLE, H200)[LONG].ms if parts == 1 else brief if tiles * parts == 64 else None
        rows.append((parts, steps, *(f"{each:.2f}" for each in (*us, sum(us))), ran))
    return Table(
        ("parts", "steps", "multiplying", "meeting", "all else", "model's total", "measured"),
        rows,
        f"{times_of(LONG)} in tiles of {of['BM']} × {of['BN']}, in clusters of two, µs on an H200",
        "Measured: one part as in the table of times below, eight in the search's first pass.",
    )


def opponents(size: Size, recording: str | Path = "any_shape") -> list[float]:
    """Return the µs of the better opponent beside each of `EACH`, from least to most."""
    return sorted(10 * each.ms * each.percent_of_searched for each in (points(of, recording)[size] for of in EACH))


def shared(size: Size) -> int:
    """Return how many tiles 22 alone cuts into shares on the shown card."""
    return launched(size, ALONE).division.counts.get("shared", 0)


def measured() -> Table:
    """Return the times of 20, of 22 with whole tiles, alone and as called, beside the better opponent's in all runs."""
    rows = [
        (
            times_of(size),
            1e3 * points(BEFORE)[size].ms,
            1e3 * points(WHOLE)[size].ms if shared(size) else None,
            1e3 * points(ALONE)[size].ms,
            called + f" ({name}.cu)" * (name != KERNEL.name),
            f"{least} to {most}",
        )
        for size in lost_by(WHOLE)
        for name, us in [(launched(size).kernel.name, (1e3 * points()[size].ms, *opponents(size)[:: len(EACH) - 1]))]
        for called, least, most in [[f"{each:#.3g}".rstrip(".") for each in us]]
    ]
    return Table(
        ("M×N×K", "20", "22 alone, no shares", "22 alone", "22 as called (now by)", "better opponent, six runs"),
        rows,
        f"µs of a launch, {card().name}; in the last two lines, 20 hands over to 16, and 22 copies A and B",
        "–: 22 alone shares no tile there. wide.cu is for one or two rows.",
    )


def longer() -> Table:
    """Return the µs of 22 alone, and without each of its two gains, where 22 is called; in brackets: as by a build."""
    rows = [
        (
            f"{times_of(size)}, {name}",
            "{BM} × {BN}".format(**launched(size, ALONE, on).kernel.parameters),
            f"{1e3 * points(ALONE, on)[size].ms:#.3g}".rstrip("."),
            *(
                f"{1e3 * points(of, on)[size].ms:#.3g}".rstrip(".") + f" ({lost_by(of, on)[size]:+z.0%})" + "*" * within
                for of in (OVERLAP, OWN_NUMBER)
                for within in [by_build(size, lost_by(of, on)[size])]
            ),
        )
        for size in called()
        for name, on in (("H200", H200), ("H100", H100))
    ]
    heads = "M×N×K, card", "tile", "22 alone", "without early call", "without shuffle"
    return Table(heads, rows, "µs of a launch (*: two builds that do the same differ by as much)")


def called() -> list[Size]:
    """Return the products at which both gains were timed and that 22 does when it is called."""
    return [size for size in lost_by(OVERLAP) if launched(size, recording=H200).kernel.name == KERNEL.name]


def better(size: Size, recording: str | Path = "any_shape") -> float:
    """Return the ms of the better opponent."""
    return points(recording=recording)[size].ms * points(recording=recording)[size].percent_of_searched / 100


def summary() -> Table:
    """Return 22's mean speed by the ways that products go, of random products, and of shapes, squares and layers."""
    cells: dict[str, list[str]] = {}
    for recording in (RANDOM, H200):
        of = {name: (KERNEL, sizes) for name, sizes in by_way(recording).items()}
        if recording != RANDOM:
            of |= {"squares": (KERNEL, SQUARES), "Llama 3 8B, C in FP16": (SHORT, LAYERS)}
        for name, (kernel, sizes) in of.items():
            share = [points(kernel, recording)[size].percent_of_searched for size in sizes]
            low = sum(each < LOW for each in share)
            cells.setdefault(name, []).append(f"{geometric_mean(share):.0f}% ({low} of {len(share)})")
    rows = [(name, *([None] * (2 - len(each))), *each) for name, each in cells.items()]
    heads = "", "new products, the model chose", "searched at these products"
    title = f"22's mean speed in percent of the better opponent's, H200 SXM (in brackets: products under {LOW}%)"
    return Table(heads, rows, title)


def mean(sizes: Iterable[Size], of: Mapping[Size, Point] | None = None) -> float:
    """Return the geometric mean of the percentages of the better opponent's speed, of 22's unless other points."""
    return geometric_mean((of or points())[size].percent_of_searched for size in sizes)


def kind(size: Size) -> str:
    """Return which of `KINDS` a size is."""
    return KINDS[0] if size in SQUARES else way(size)


def chart() -> Figure:
    """Draw every product's speed as a percentage of the better opponent's, by its operations."""
    of = {
        size: (2e-9 * size[0] * size[1] * size[2], point.percent_of_searched)
        for size in (*SQUARES, *SHAPES)
        for point in [points()[size]]
    }
    drawn = Chart("22 as called and the better of cuBLAS and cuBLASLt", (5e-7, 2e4), (25, 500), (),
                  "GFLOP of the product", "Percent of the better opponent's speed", (), "xy", top=124)  # fmt: skip
    drawn.ticks([10.0**n for n in range(-6, 5, 2)], (25, 50, 100, 200, 400))
    drawn.line([(5e-7, 100), (2e4, 100)], INK, wide=1)
    for name, colour, mark in zip(KINDS, COLOURS, "osD^", strict=True):
        x, y = zip(*(at for size, at in of.items() if kind(size) == name), strict=True)
        drawn.axes.plot(x, y, mark, color=dye(colour), ms=5, mew=0, alpha=0.75, label=f"{name} ({len(x)})")
    drawn.axes.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(-0.1, 1.1), fontsize=BODY,
                      handletextpad=0)  # fmt: skip
    return drawn.finish(f"Speed of 22 as a percentage of the better opponent's at {len(of)} products, by operations.")


def descriptor(kernel: Kernel) -> str:
    """Return the instructions that bring the descriptors of a step's third product, and count the step's R2UR."""
    loop = hot_loop(sass(kernel))
    _, second, third, *_ = (i for i, each in enumerate(loop) if each.opcode.startswith("HGMMA"))
    first = int(re.search(r"gdesc\[UR(\d+)\]", loop[third].text)[1])
    bring = [
        each.text for each in loop[second + 1 : third] if each.text.split()[1] in {f"UR{first + i}," for i in range(4)}
    ]
    return "\n    ".join(
        [
            f"{sum(each.opcode == 'R2UR' for each in loop)} R2UR in a step's {len(loop)} instructions",
            *bring,
            loop[third].text,
        ]
    )


def lost_by(kernel: Kernel, recording: str | Path = "any_shape") -> dict[Size, float]:
    """Return what share of its time 22 alone takes longer without a part of what it does."""
    own, without = (points(of, recording) for of in (ALONE, kernel))
    return {size: point.ms / own[size].ms - 1 for size, point in without.items()}


def apart(lost: float) -> float:
    """Return by how much the longer of two times exceeds the shorter, given by how much one exceeds the other."""
    return max(1 + lost, 1 / (1 + lost)) - 1


def chance(smallest: bool) -> float:
    """Return by how much two builds that do the same differ at most: 22's, with its shares and without any.

    At the smallest product, or at all others.
    """
    lost = {(size, on): lost for on in (H200, H100) for size, lost in lost_by(WHOLE, on).items() if not shared(size)}
    return max(apart(each) for (size, _), each in lost.items() if (size == TINY) == smallest)


def by_build(size: Size, lost: float) -> bool:
    """Say whether two builds that do the same differ by as many percent, as the table prints them."""
    return round(apart(lost), 2) <= round(chance(size == TINY), 2)


def figures() -> dict[str, str]:
    """Return the figures in the sentences of both pages, by their names for glue, after checking what they say."""
    odd, tiny, n4095, few = (333, 777, 1999), TINY, (4095,) * 3, (64, 4096, 4096)
    own, alone, quick, pair = points(), points(ALONE), (tiny, (512,) * 3, (1024,) * 3), setting(64, 64, 2)
    for recording in (H200, H100):
        now, before, whole = (points(of, recording) for of in (ALONE, BEFORE, WHOLE))
        assert min(opponents(tiny, recording)) / 1e3 > now[tiny].ms < before[tiny].ms / 1.5
        assert before[LONG].ms > 2 * whole[LONG].ms > 5 * now[LONG].ms and now[LONG].ms > better(LONG, recording)
        assert before[odd].ms > min(opponents(odd, recording)) / 1e3 > now[odd].ms
        assert [1e3 * points(OVERLAP, recording)[of].ms > opponents(of, recording)[0] for of in quick] == [0, 0, 1]
    assert launched(tiny).kernel.parameters.items() >= setting(64, 32).items()
    assert {launched(size, BEFORE).kernel.name for size in (odd, n4095)} == {"16_mma"}
    late, late_too, own_number, own_number_too = [
        {size: lost_by(of, on)[size] for size in called() if not by_build(size, lost_by(of, on)[size])}
        for of in (OVERLAP, OWN_NUMBER)
        for on in (H200, H100)
    ]
    costs = {size: [lost_by(OVERLAP, on)[size] for on in (H200, H100)] for size in (LONG, few)}
    assert late.keys() == late_too.keys() == {*quick} and max(map(max, costs.values())) < -0.015
    assert own_number.keys() == {*quick, LONG} and own_number_too.keys() == {*quick[:2]}
    assert min(map(min, map(dict.values, (late, late_too, own_number, own_number_too)))) > 0.05
    assert all(shared(size) for size in costs) and launched(quick[2], ALONE).blocks == 128
    tiles = [[launched(size, ALONE, on).kernel.parameters for size in called()] for on in (H200, H100)]
    assert [ours == theirs for ours, theirs in zip(*tiles, strict=True)] == [True, False, False, True, True]
    assert not any(map(shared, (*quick, odd, n4095))) and way(odd) == way(n4095) == WAYS[1] != way(few) == way(LONG)
    assert own[(4096,) * 3].cublas_ms < own[n4095].ms < own[n4095].cublas_ms
    shown = {
        "deep": alone[LONG].ms,
        "deep before": points(BEFORE)[LONG].ms,
        "deep whole": points(WHOLE)[LONG].ms,
        "deep better": better(LONG),
        "deep model": searched()[LONG].expected_ms,
        "deep shares": searched()[LONG].ms,
        "odd": alone[odd].ms,
        "odd before": points(BEFORE)[odd].ms,
        "odd better": better(odd),
        "small": alone[tiny].ms,
        "small before": points(BEFORE)[tiny].ms,
        "small better": better(tiny),
        "cublas 4095": own[n4095].cublas_ms,
        "cublas 4096": own[(4096,) * 3].cublas_ms,
    }
    (step, _), (meet, part), (launch, end, memory) = any_shape.pace(pair), meeting(pair, 8, 3), remainder(pair)
    chosen, wide, widest = launched(LONG, ALONE), setting(128, 64, 2), setting(128, 128, 2)
    assert chosen.kernel.parameters.items() >= pair.items() and chosen.blocks == 2 * 8 * shared(LONG)
    ours, many, more = [weighed(of).rows[0][2:] for of in ((pair, 8), (wide, 16), (widest, 32))]
    assert all((float(ours[i]) < float(many[i]) < float(more[i])) == (i > 0) for i in (0, 1, 3, 4))
    at_random, (short, long, *_) = points(recording=RANDOM), by_way(RANDOM).values()
    poor = sorted((at_random[size].percent_of_searched, size) for size in long)
    assert mean(short, at_random) > 105 > 95 > mean(long, at_random)
    answers, best, ratio = used(), searched()[LONG].best, both()
    assert best.setting == tuple(pair.values()) and {few} < {*answers["in clusters"]} and {LONG} < {*answers["cut"]}
    six, models = next(iter(finals(LONG, any_shape.DEEP_PARAMETERS).items())), searched()[LONG].expected
    assert six[0][-1] == models.setting[-1] == 6 and finals(LONG)[best.setting] < six[1]
    assert (
        not any(searched()[size].expected.whole for size in answers["cut"])  # the model shares no tiles there
        and {(8192,) * 3, (16384,) * 3} == {of for of in SQUARES if of in searched() and searched()[of].best.whole}
        and all(101 < points(recording=H200)[(n,) * 3].percent_of_searched < 103 for n in (8192, 16384))
        and max(lost_by(WHOLE, on)[tiny] for on in (H200, H100)) < 0
    )
    careful, tiles = finals(tiny), [tuple(setting(*of).values()) for of in ((128, 64), (64, 64), (64, 32))]
    small = [tried(tiny)[of, 0] for of in tiles]
    assert small == sorted(small, reverse=True) and apart(careful[tiles[1]] / careful[tiles[2]] - 1) < chance(True)
    lost = {size for size in SHAPES if points(recording=H200)[size].percent_of_searched < LOW}
    worst = min(lost, key=lambda size: points(recording=H200)[size].percent_of_searched)
    assert {*answers["cut"], *((4096, N, 4096) for N in (8, 16, 32))} < lost and worst == (1, 4097, 4097)
    return {
        **{name: f"{1e3 * ms:.1f} µs" for name, ms in shown.items()},
        "new brief": f"{mean(short, at_random):.0f}%",
        "new lengthy": f"{mean(long, at_random):.0f}%",
        "new low": f"{sum(each < 90 for each, _ in poor) / len(poor):.0%}",
        "new under": "90%",
        "new least": f"{poor[0][0]:.0f}%",
        "new least at": times_of(poor[0][1]),
        "step": f"{step:.3f} µs",
        "times": f"{any_shape.SHARED:.2f}",
        "meet": f"{any_shape.MEET:.2f} µs",
        "fixed": f"{any_shape.PART} µs",
        "adds": f"{any_shape.ADD:,.0f} bytes per µs",
        "part": f"{any_shape.PART} + 64 · 64 · 4 / {any_shape.ADD:,.0f} = {part:.3f} µs",
        "multiplying": f"32 · {step:.3f} · {any_shape.SHARED:.2f} = {32 * step * any_shape.SHARED:.2f} µs",
        "meeting": f"{any_shape.MEET:.2f} + 8 · {part:.3f} = {meet:.2f} µs",
        "launch": f"{launch:.2f} µs",
        "end": f"{end:.2f} µs",
        "hidden": f"{any_shape.HIDDEN:.0%}",
        "moved": f"{any_shape.moved(*LONG) / 1e6:.2f} MB",
        "rate": f"{any_shape.MEMORY / 1e6:.2f} MB",
        "start": f"{any_shape.START:.2f} µs",
        "traffic": f"{any_shape.START + any_shape.moved(*LONG) / any_shape.MEMORY:.2f} µs",
        "else": f"{launch:.2f} + {end:.2f} + {memory:.2f} = {launch + end + memory:.2f} µs",
        "wide multiplying": f"16 · {any_shape.pace(wide)[0]} · {any_shape.SHARED:.2f} = {many[0]} µs",
        "wide meeting": f"2 · {any_shape.MEET:.2f} + (8 + 2) · {meeting(wide, 16, 3)[1]:.3f} = {many[1]} µs",
        "wide total": f"{many[3]} µs",
        "brief": f"{ours[4]:.1f} µs",
        "wide brief": f"{many[4]:.1f} µs",
        "wide step": f"{any_shape.pace(wide)[0]} µs",
        **{f"at {name}": str(len(of)) for name, of in answers.items()},
        "cut mean": f"{mean(answers['cut'], points(recording=H200)):.0f}%",
        "no tensor cores": str(sum(size not in searched() for size in SHAPES)),
        "both": str(len(ratio)),
        "both deep": str(sum(of > 1 for of in ratio)),
        "both deep by": f"{geometric_mean(of for of in ratio if of > 1) - 1:.0%}",
        "both own": str(sum(of < 1 for of in ratio)),
        "both own by": f"{1 / geometric_mean(of for of in ratio if of < 1) - 1:.0%}",
        "both shared": str(sum(len(finals(size, any_shape.DEEP_PARAMETERS)) > 0 for size in answers["cut"])),
        "deep six": f"{six[1]:.1f} µs",
        "deep share": f"{better(LONG) / alone[LONG].ms:.0%}",
        **{f"late {size[0]}": f"{1e3 * points(OVERLAP)[size].ms:.2f} µs" for size in quick},
        **{f"small {name}": f"{us:.2f} µs" for name, us in zip(("128x64", "64x64"), small[:2], strict=True)},
        **{f"careful {name}": f"{careful[of]:.2f} µs" for name, of in zip(("64x64", "64x32"), tiles[1:], strict=True)},
        "worst": times_of(worst),
        "worst at": f"{points(recording=H200)[worst].percent_of_searched:.0f}%",
        "card": card().name,
        "limit": f"{1e3 * BRIEF:.0f} µs",
        "sms": str(card().sms),
        "settings": str(len(any_shape.SETTINGS)),
        "chance": f"{chance(True):.1%}",
        "chance else": f"{chance(False):.1%}",
        **{
            name: f"{min(lost):.0%} to {max(lost):.0%}"
            for name, lost in (
                ("overlap", [*late.values(), *late_too.values()]),
                ("shuffled", own_number.values()),
            )
        },
        "costs few": " and ".join(f"{-lost:.0%}" for lost in costs[few]),
        "tried": str(max(point.searched.tried for point in own.values())),
        "shapes": str(len(SHAPES)),
        "shapes lost": str(len(lost)),
        "lost under": f"{LOW}%",
    }
