"""The page behind chapter 09: what it costs an FFMA to read its registers, predicted and measured.

Not every card's recordings have the measurement. Where it is missing, the tables are empty.
"""

from collections.abc import Callable, Mapping, Sequence

from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import banks, profiles
from ..experiments.ceilings import card
from ..model.predictions import predicted
from ..model.sass import hot_loop, operands, read_anew, sass
from ..records import cards
from ..records.timings import recorded
from ..variants import find_variant

Reads = Sequence[set[int]]
"""Of each FFMA, in order, the registers that it reads and that the one before it has not kept."""
RUNGS = LADDER[4:11]
"""05 to 11, which read fragments into registers or could."""
SHOWN = (
    "three of one bank",
    "two of one bank",
    "two of one bank, the banks in turn",
    "one kept, one of each bank",
    "one kept, one of each bank, not marked",
    "any three",
)


def reads(kernel: Kernel) -> list[set[int]]:
    """Return the registers that each FFMA of a kernel's main loop reads anew."""
    return read_anew(operands(hot_loop(sass(kernel))))


def pattern(name: str) -> list[set[int]]:
    """Return the same of a pattern of registers that was measured; `banks.PATTERNS` has the names."""
    return read_anew(banks.sequence(banks.PROBES[2], name))


def measured(name: str, kernel: Kernel | None = None) -> float | None:
    """Return the recorded cycles per FFMA of a pattern or of a kernel's FFMAs, if this card has them."""
    if "banks" not in cards.recordings():
        return None
    return banks.cycles(banks.LOOP if kernel else name, 2, kernel)


def patterns(models: Mapping[str, Callable[[Reads], float]]) -> Table:
    """Return the cycles per FFMA of some patterns of registers, by each model and measured."""
    rows = []
    for name in banks.PATTERNS if measured(SHOWN[0]) else ():
        found, said = measured(name), [model(pattern(name)) for model in models.values()]
        assert abs(said[-1] / found - 1) < 0.02, name
        if name in SHOWN:
            rows.append((name, banks.PATTERNS[name], *(f"{cycles:.2f}" for cycles in (*said, found))))
    return Table(
        ("registers read", "", *models, "measured"), rows, f"Cycles per FFMA, two warps on a scheduler: {card().name}"
    )


def loops(models: Mapping[str, Callable[[Reads], float]]) -> Table:
    """Return the same of the FFMAs of each rung's main loop, in their order and without what stands between them."""
    rows = []
    for kernel in (*RUNGS, find("12"), *(find_variant(rung, "one way") for rung in ("09", "10", "11"))):
        if found := measured("", kernel):
            sequence = read_anew(banks.sequence(kernel, banks.LOOP))
            said = [model(sequence) for model in models.values()]
            assert (abs(said[-1] / found - 1) < 0.05) == (kernel.name != "12_stream_k"), kernel.name
            rows.append((f"{kernel.name[:2]} {kernel.label}", *(f"{cycles:.2f}" for cycles in (*said, found))))
    return Table(
        ("FFMAs of", *models, "measured"),
        rows,
        f"Cycles per FFMA, two warps on a scheduler, nothing between the FFMAs: {card().name}",
    )


def dispatch() -> Table:
    """Return the dispatch stalls that the reads of registers lead one to expect, and those counted."""
    rows, explained = [], {}
    for kernel in RUNGS:
        if cycles := measured("", kernel):
            profile = profiles.measured(kernel)
            held = profile["FFMA"] / 32 / profile["all"] * (cycles - 1)
            expected = held * (profile["state: issued"] + profile["state: another warp was chosen"])
            counted = profile["state: dispatch"]
            explained[kernel.name] = expected / counted
            rows.append((kernel.name, f"{expected:.2f}", f"{counted:.2f}", f"{expected / counted:.0%}"))
    assert all(0.8 < share < 1 if name < "09" else 0.25 < share < 0.6 for name, share in explained.items())
    return Table(
        ("kernel", "expected", "counted", "explained"),
        rows,
        f"Dispatch, cycles per instruction of a warp: {card().name}",
    )


def saved() -> Table:
    """Return what walking to and fro should save by the FFMAs' cycles, and what it saves."""
    rows = []
    for rung in map(find, ("09", "10", "11")):
        other = find_variant(rung.name, "one way")
        if cycles := measured("", rung):
            _, floor = predicted(rung, card())
            expected = floor * (measured("", other) - cycles)
            to_and_fro, one_way = (recorded(k, [profiles.SIZE], "variants").points[0].ms for k in (rung, other))
            rows.append((rung.name, f"{expected:.2f}", f"{one_way - to_and_fro:.2f}"))
    if rows:
        nine, ten, eleven = ([float(cell) for cell in row[1:]] for row in rows)
        assert all(0 < found < 0.6 * expected for expected, found in (nine, eleven)) and ten[1] > 1.5 * ten[0]
    return Table(
        ("kernel", "expected, ms", "saved, ms"), rows, f"One way → to and fro at {profiles.SIZE}: {card().name}"
    )


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue."""
    found = dict.fromkeys(("least explained", "arrives 09"), "–")
    if rows := saved().rows:
        shares = {row[0][:2]: float(row[2]) / float(row[1]) for row in rows}
        assert 0.23 < shares["11"] < 0.28
        found["arrives 09"] = f"{shares['09']:.0%}"
        found["least explained"] = min(
            (row[3] for row in dispatch().rows if row[0] < "09"), key=lambda share: int(share[:-1])
        )
    return found
