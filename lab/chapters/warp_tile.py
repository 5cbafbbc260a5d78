"""Chapter 09: where the lanes of a warp stand, and what each of its changes brings."""

from collections.abc import Mapping
from itertools import pairwise

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run, simulate
from sgemm_tutorial.table import Table

from ..accesses import owners, request
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, ORANGE, PINK, WIDTH, Figure, Page
from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..experiments.profiles import BARRIER, BETWEEN, DISPATCH, L2, SHARED
from ..measure import nsight
from ..model.resources import resources
from ..model.sass import hot_loop, sass
from ..records import cards
from ..records.timings import recorded
from ..variants import find_variant
from . import account, register_banks

RUNG = find("09_warp_tile")
STRIPS = find("08_conflict_free").variant(BM=128, BN=128, BK=32, TM=8, TN=8, BLOCKS=2)
"""08 with 09's block tile, so that like is compared with like."""
STRIPS_TO_AND_FRO = find_variant("08", "to and fro", **STRIPS.parameters)
IN_ROWS, ONE_WAY = find_variant("09", "lanes in rows"), find_variant("09", "one way")
NEITHER = find_variant("09", "lanes in rows, one way")
ANY = {
    sides: find_variant("09", "any warp tile", WM=sides[0], WN=sides[1]) for sides in ((64, 32), (32, 64), (16, 128))
}
"""09 with warp tiles of any sides, by these; the last is as wide as the block's, like the strips of 08."""
LARGE = RUNG.variant(BM=128, BN=256, BK=8, WM=128, WN=32, TM=16, TN=8, BLOCKS=1)
"""09 with the tile of 10."""
COLUMNS = ("wavefronts to read, per k", "spills in the loop", "ms at 4096")
WAVEFRONTS = ((BLUE, 0.4), (ORANGE, 0.4), (GREEN, 0.4), (PINK, 0.45))
CELL, TOP = 46, 3 * LINE  # pixels


def lanes(runs: Mapping[str, Run], array: str = "Bs") -> Figure:
    """Draw where the lanes of warp 0 stand in their tile of C, coloured by the wavefront that serves their first read.

    Parameters
    ----------
    runs : mapping of str to Run
        Simulated with ``trace=[0]``, by the words above each picture.
    array : str
        The tile that is read.
    """
    height, said, drawn = 0, [], []
    for title, run in runs.items():
        of, read = run.kernel.parameters, request(run, array=array)
        down, across = of["WM"] // of["TM"], of["WN"] // of["TN"]
        grid = owners(run.kernel)[: 4 * down : 4, : 4 * across : 4] % WARP
        together = WARP // read.wavefronts  # lanes that a wavefront serves, where nothing conflicts
        assert not read.conflicts
        height = max(height, down)
        cost = f"{read.cost}, {together} lanes each"
        drawn.append((title, grid, together, cost))
        said.append(f"{title}: {', '.join(' '.join(map(str, row)) for row in grid)}; {cost}")
    sheet = Page(TOP + height * CELL + LINE + MARGIN, title=f"The lanes of a warp, and a read of {array}")
    for number, (title, grid, together, cost) in enumerate(drawn):
        left = MARGIN + number * WIDTH / len(drawn)
        sheet.text(left, TOP - 12, title)
        for i, row in enumerate(grid):
            for j, lane in enumerate(row.tolist()):
                box = (left + j * CELL, TOP + i * CELL, CELL, CELL)
                sheet.boxes([box], WAVEFRONTS[lane // together], INK)
                sheet.text(box[0] + CELL / 2, box[1] + CELL / 2 + 5, str(lane), "center")
        sheet.text(left, TOP + height * CELL + LINE, cost)
    return sheet.finish("; ".join(said) + ".")


def counted(kernel: Kernel) -> float:
    """Return the wavefronts of L1 and shared memory that Nsight Compute counted for each k of a warp."""
    size, elements = profiles.SIZE, RUNG.parameters["TM"] * RUNG.parameters["TN"]
    return counters.measured(kernel, size, size, size)["l1_data_wavefronts"] / (size**3 / WARP / elements)


def milliseconds(kernel: Kernel) -> float:
    """Return the recorded time at 4096."""
    return recorded(kernel, [profiles.SIZE], "variants").points[0].ms


def local_accesses(kernel: Kernel) -> int:
    """Return how many instructions of the main loop go to local memory, where spilled registers lie."""
    return sum(x.opcode.startswith(("LDL", "STL")) for x in hot_loop(sass(kernel)))


def _timed(kernel: Kernel) -> tuple[str, int, str]:
    """Return the wavefronts that a warp needs for its reads at each k, simulated, the loop's spills, and the time."""
    of = kernel.parameters
    run = simulate(kernel, *matrices(of["BM"], of["BN"], of["BK"], on_gpu=False))
    return (
        f"{run.total.shared_load_wavefronts / (of['BK'] * kernel.threads // WARP):g}",
        local_accesses(kernel),
        f"{milliseconds(kernel):.3f}",
    )


def path() -> Table:
    """Return the way from 08 to 09, a row for each step: what reading takes, the spills, the time and what is saved."""
    steps = {
        "kernel 08, in its own tile": find("08"),
        "08 in 09's tile": STRIPS,
        "multiply-adds to and fro": STRIPS_TO_AND_FRO,
        "a rectangle for each warp: in_rows": IN_ROWS,
        "lanes in squares: kernel 09": RUNG,
    }
    saved = (f"{before - ms:.3f}" for before, ms in pairwise(map(milliseconds, steps.values())))
    return Table(
        ("step", *COLUMNS, "saves, ms"),
        [(words, *_timed(steps[words]), each) for words, each in zip(steps, ("", *saved), strict=True)],
        f"From 08 to 09, step by step: {recorded(RUNG, [profiles.SIZE], 'variants').made}",
    )


def shapes() -> Table:
    """Return figures of four warp tiles, lanes in squares: words and wavefronts to read for each k, and the time."""
    kernels = {(64, 32): RUNG, (128, 16): RUNG.variant(WM=128, WN=16)} | {sides: ANY[sides] for sides in list(ANY)[1:]}
    rows = [(f"{WM} × {WN}", WM + WN, *_timed(kernel)[::2]) for (WM, WN), kernel in kernels.items()]
    words, reading, ms = list(zip(*rows, strict=True))[1:]
    assert words[0] == words[2] < words[1] == words[3] and {*reading} == {"8"} and ms[3] < ms[2] < min(ms[:2])
    return Table(
        ("WM × WN", "different words, per k", *COLUMNS[::2]),
        rows,
        f"Warp tiles in a block tile of 128 × 128 × 32: {recorded(RUNG, [profiles.SIZE], 'variants').made}",
    )


def changes() -> Table:
    """Return wavefronts of reads, spills and time: lanes in strips, rows or squares, in both orders."""
    kernels = {
        ("strips (08)", "one way"): STRIPS,
        ("strips (08)", "to and fro"): STRIPS_TO_AND_FRO,
        ("rows", "one way"): NEITHER,
        ("rows", "to and fro"): IN_ROWS,
        ("squares", "one way"): ONE_WAY,
        ("squares", "to and fro"): RUNG,
    }
    return Table(
        ("lanes", "order", *COLUMNS),
        [(*words, *_timed(kernel)) for words, kernel in kernels.items()],
        f"Tile of 128 × 128 × 32, two blocks per SM: {recorded(RUNG, [profiles.SIZE], 'variants').made}",
    )


def kept(kernel: Kernel) -> float:
    """Return the share of the main loop's multiply-adds that keep a register of the one before."""
    reads = register_banks.reads(kernel)
    return sum(len(read) < 3 for read in reads) / len(reads)


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    kernels = STRIPS, STRIPS_TO_AND_FRO, NEITHER, IN_ROWS, ONE_WAY, RUNG
    strips, turned, neither, rows, one_way, now, edited, runner, strip = map(milliseconds, (*kernels, *ANY.values()))
    assert (
        rows - now > max(milliseconds(find("08")) - strips, strips - turned, turned - rows)
        and abs(edited / now - 1) < 0.003
        and neither > strips > turned > 1.01 * rows > 1.01 * one_way > 1.01 * now > 1.02 * strip
        and [local_accesses(kernel) for kernel in kernels] == [0, 2, 1, 0, 0, 0]
    )
    h100 = {
        kernel: recorded(kernel, [profiles.SIZE], cards.folder("h100") / "variants.json").points[0].ms
        for kernel in (IN_ROWS, RUNG)
    }
    of, before = (nsight.counted(kernel, (profiles.SIZE,) * 3, "variant_profiles") for kernel in (RUNG, IN_ROWS))
    (less, *same), (more, *other), share = *(account.busy(x).values() for x in (RUNG, "08")), profiles.shares(of)
    sizes = list(zip(*(recorded(rung).points for rung in ("07", "08", "09")), strict=True))
    slower = {nine.M: nine.ms / eight.ms - 1 for _, eight, nine in sizes if nine.ms > eight.ms}
    uneven = {  # by what fraction the busiest SM computes more of C in 09 than in 08
        M: 2 * -(-RUNG.grid(M, M) // card().sms) / -(-find("08").grid(M, M) // card().sms) - 1
        for M in (nine.M for *_, nine in sizes)
        if M > 1024
    }
    more_of_c, even_so = (
        [uneven[M] for M in uneven if uneven[M] > 0.1 and (M in slower) is lost] for lost in (True, False)
    )
    small = [[nine.ms / each[i].ms - 1 for each in sizes if (nine := each[2]).M <= 1024] for i in (1, 0)]
    assert (
        min(map(min, small)) > 0
        and len(more_of_c) == sum(M in slower for M in uneven)
        and len(even_so) == 2
        and runner < min(now, milliseconds(RUNG.variant(WM=128, WN=16)))
        and before[SHARED] < of[SHARED]
        and all(of[fallen] < before[fallen] for fallen in (BETWEEN, BARRIER, DISPATCH, L2))
        and [resources(kernel).spill_store_bytes for kernel in (IN_ROWS, RUNG)] == [8, 0]
        and same[1] < same[0] < now
        and less < 0.9 * more
        and max(abs(a / b - 1) for a, b in zip(same, other, strict=True)) < 0.01
    )
    return {
        "own 08": f"{recorded('08', [profiles.SIZE]).points[0].ms:.2f} ms",
        "now": f"{recorded('09', [profiles.SIZE]).points[0].ms:.2f} ms",
        "squares after": f"{rows - now:.2f} ms",
        "squares h100": f"{h100[IN_ROWS] - h100[RUNG]:.2f} ms",
        "fro after": f"{one_way - now:.2f} ms",
        "kept": f"{kept(RUNG):.0%}",
        "kept one way": f"{kept(ONE_WAY):.0%}",
        "ahead": f"{runner - strip:.2f} ms",
        "next": " and ".join(f"{milliseconds(find(name)):.3f}" for name in ("10", "11")) + " ms",
        "uneven": f"{min(more_of_c):.0%} to {max(more_of_c):.0%}",
        "even so": f"{max(even_so):.0%}",
        "lost": f"{now - strip:.2f} ms",
        "edited": f"{edited:.3f} ms",
        "fetching": f"{share['waits for L2 or DRAM'] + share['barrier']:.0%}",
        "shared": f"{share['waits for shared memory']:.0%}",
        "dispatch": f"{share['dispatch']:.0%}",
        "ready": f"{share['another warp was chosen']:.0%}",
        "issued": f"{share['issued']:.0%}",
        "idle": f"{1 - of['issue slots used, %'] / 100:.0%}",
        "issue": f"{same[0]:.2f} ms",
        "more": f"{before['all'] / of['all'] - 1:.1%}",
        "squares one way": f"{neither - one_way:.2f}",
        "rectangle": f"{turned - rows:.2f} ms",
        **{
            f"waits {name}": f"{before[state]:.2f} to {of[state]:.2f}"
            for name, state in (
                ("all", BETWEEN),
                ("shared", SHARED),
                ("barrier", BARRIER),
                ("dispatch", DISPATCH),
                ("l2", L2),
            )
        },
        "blocks": str(RUNG.grid(1024, 1024)),
        "sms": str(card().sms),
        "slower": f"{len(slower)} of {len(sizes)}",
        "small": f"{min(small[0]):.0%} to {max(small[0]):.0%}",
        "small 07": f"{min(small[1]):.0%} to {max(small[1]):.0%}",
        "larger": f"{sum(M > 1024 for M in slower)}",
        "most": f"{max(lost for M, lost in slower.items() if M > 1024):.0%}",
        "card": card().name,
    }
