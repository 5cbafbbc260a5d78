"""A player: the stages of a pipeline, event by event, as threads fill, await, read and free them; and any fault.

The events are a simulated block's, in the order in which the simulator comes to them: one that the hardware may keep
to. Without clocks, their distances say nothing about time.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ptxsim import Access, Event
from sgemm_tutorial.errors import ArgumentError, SimulationFault
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run, simulate

from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    Figure,
    Page,
)
from .player import WIDTH, Control, Layer, Player

FREE, COMING, THERE, READ = range(4)
"""The states of a stage: free, being filled, complete, or being read."""
FILLS = {COMING: ORANGE, THERE: PALE, READ: BLUE}
NAMES = {FREE: "free", COMING: "pair {} on the way", THERE: "pair {} is there", READ: "pair {} is read"}
TILES, FULL, EMPTY = "tiles", "full", "empty"
LEAVES = {f"go on {FULL}": THERE, "read": READ, "multiply": READ, f"arrive {EMPTY}": FREE}
"""The state of a stage after each action that alone decides it."""
OPERANDS, REGISTERS = ("A", "B"), "registers"
ROW, PITCH = 22, 26  # height of a stage's bar, and from one to the next
TOP = 4 * LINE
LETTERS = 38  # of a line of text below the bars


@dataclass(frozen=True)
class Ring:
    """The place in shared memory of an array that each stage has, one stage behind the other.

    Attributes
    ----------
    what : str
        "tiles", or an mbarrier: "full" or "empty".
    array : str
        The variable in shared memory.
    size : int
        Bytes from one stage's to the next.
    start : int
        Byte of the variable where the first stage's begins.
    """

    what: str
    array: str
    size: int
    start: int = 0


@dataclass(frozen=True)
class _Rows:
    """The layout: names before the bars, the bars' left edge, the width of a step, and the height of the picture."""

    names: Sequence[str]
    left: float
    width: float
    tall: float


@dataclass(frozen=True)
class _Step:
    """Some threads do something, with a stage or with none."""

    does: str
    stage: int
    line: int
    threads: tuple[int, int]
    pending: int = 0

    @property
    def words(self) -> str:
        return {
            "load": "load a pair into registers",
            "store": f"store it to stage {self.stage}",
            "copy": f"copy to stage {self.stage}",
            "read": f"read stage {self.stage}",
            "multiply": f"multiply stage {self.stage}",
            "commit copies": "end a group of copies",
            "wait for copies": f"wait for all groups but {self.pending}" if self.pending else "wait for all groups",
            "wait for products": f"wait for all products but {self.pending}"
            if self.pending
            else "wait for all products",
            "barrier": "wait for all threads",
            f"ask {FULL}": f"wait until stage {self.stage} is full",
            f"ask {EMPTY}": f"wait until stage {self.stage} is empty",
            f"go on {FULL}": f"stage {self.stage} is full: go on",
            f"go on {EMPTY}": f"stage {self.stage} is empty: go on",
            f"arrive {EMPTY}": f"let go of stage {self.stage}",
        }[self.does]

    @property
    def who(self) -> str:
        first, last = self.threads
        return f"thread {first}" if first == last else f"threads {first} to {last}"


def pipeline(
    name: str, kernels: Mapping[str, Kernel], A: np.ndarray, B: np.ndarray, rings: Sequence[Ring], stages: int
) -> Player:
    """Draw how a block uses the stages of its pipeline, step by step, and the fault of a kernel that is wrong.

    Where nothing is copied asynchronously, tiles travel through registers, which are drawn like a stage more. At the
    start all of it stands there, as what paper and notebooks show.

    Parameters
    ----------
    name : str
        Of the player.
    kernels : mapping of str to Kernel
        What to choose from, in a few words each.
    A, B : array
        What they multiply; block 0 is shown.
    rings : sequence of Ring
        Where the stages lie, in all of the kernels.
    stages : int

    Raises
    ------
    ArgumentError
        A kernel does nothing with the stages.
    """
    found = [_tried(kernel, A, B) for kernel in kernels.values()]
    registers = not any(event.kind in ("copy", "commit copies") for left in found for event in left.events)
    films = [list(_steps(left, rings, stages, registers)) for left in found]
    faults = [left if isinstance(left, SimulationFault) else None for left in found]
    for kernel, film in zip(kernels.values(), films, strict=True):
        if all(step.stage not in range(stages) for step in film):
            raise ArgumentError("rings", f"places that {kernel.name} does nothing with", "those of its stages")
    most = max(len(film) + (fault is not None) for film, fault in zip(films, faults, strict=True))
    names = [*map(str, range(stages)), *[REGISTERS] * registers]
    left = MARGIN + (104 if registers else 78)
    tall = TOP + len(names) * PITCH + max(len(_lines(fault)) for fault in faults) * 18 + MARGIN
    rows = _Rows(names, left, (WIDTH - MARGIN - left) / most, tall)
    bars, words = {}, {}
    for i, (film, fault) in enumerate(zip(films, faults, strict=True)):
        states = list(_states(film, len(names), registers))
        for step in range(most):
            now = min(step, len(film) - 1)
            failed = fault if step >= len(film) else None
            bars[i, step] = _bars(states[: now + 1], rows)
            words[i, step] = _words(film[now], states[now], failed, now + (failed is not None), rows)
    controls = [
        Control("Kernel", list(kernels)),
        Control("Step", [f"step {step + 1} of {most}" for step in range(most)], "step", most - 1),
    ]
    panel = [Layer((), {(): _frame(rows)}), Layer((0, 1), bars), Layer((0, 1), words)]
    kernel = next(iter(kernels.values()))
    return Player(name, f"Block 0 of {kernel.name} and the stages of its pipeline, step by step", controls, [panel])


def _tried(kernel: Kernel, A: np.ndarray, B: np.ndarray) -> Run | SimulationFault:
    try:
        return simulate(kernel, A, B, trace=[0])
    except SimulationFault as fault:
        return fault


def _steps(left: Run | SimulationFault, rings: Sequence[Ring], stages: int, registers: bool) -> Iterator[_Step]:
    """Yield each use of stages and registers by the block; equal uses in a row are one step."""
    happened = [(event.before, 0, event) for event in left.events]
    happened += [(number, 1, access) for number, access in enumerate(left.trace)]
    happened.sort(key=lambda what: what[:2])
    steps = [step for *_, what in happened if (step := _step(what, rings, stages, registers))]
    for _, same in groupby(steps, key=lambda step: (step.does, step.stage)):
        first, *others = same
        threads = [first.threads, *(step.threads for step in others)]
        yield replace(first, threads=(min(low for low, _ in threads), max(high for _, high in threads)))


def _step(what: Access | Event, rings: Sequence[Ring], stages: int, registers: bool) -> _Step | None:
    """Return how an access or an event uses a stage or registers; None if the picture does not show it."""
    threads = int(what.threads.min()), int(what.threads.max())
    if isinstance(what, Access):
        if registers and what.space == "global" and what.kind == "load" and what.array in OPERANDS:
            return _Step("load", stages, what.line, threads)
        does = {"load": "read", "store": "store" if registers else "copy"}[what.kind]
        offset, pending = int(what.offsets.min()), 0
    else:
        does, offset, pending = what.kind, what.offset, what.pending
    if not what.array:
        return None if does == "commit products" else _Step(does, -1, what.line, threads, pending)
    for ring in rings:
        stage = (offset - ring.start) // ring.size
        if ring.array == what.array and 0 <= stage < stages:
            if ring.what == TILES:
                return _Step(does, stage, what.line, threads)
            if (does, ring.what) != ("arrive", FULL):  # the thread that asks for tiles announces their bytes
                return _Step(f"{does} {ring.what}", stage, what.line, threads)
    return None


def _states(film: Sequence[_Step], rows: int, registers: bool) -> Iterator[list[tuple[int, int]]]:
    """Yield after each step the state of each stage and the number of its pair of tiles, -1 for none; registers last.

    What threads have stored themselves is there for all of them from the next barrier on.
    """
    state, tile = [FREE] * rows, [-1] * rows
    copied: list[int] = []  # to which stages since the last group ended
    groups: list[list[int]] = []
    number = 0
    for step in film:
        if step.does in ("copy", "load"):
            if state[step.stage] != COMING:
                tile[step.stage], number = number, number + 1
            state[step.stage] = COMING
            copied.append(step.stage)
        elif step.does == "store":
            state[step.stage], tile[step.stage] = COMING, tile[-1]
            state[-1], tile[-1] = FREE, -1
        elif step.does == "commit copies":
            groups.append(copied)
            copied = []
        elif step.does == "wait for copies":
            for stage in (stage for group in groups[: len(groups) - step.pending] for stage in group):
                state[stage] = THERE if state[stage] == COMING else state[stage]
            groups = groups[len(groups) - step.pending :]
        elif step.does in LEAVES:
            state[step.stage] = LEAVES[step.does]
        elif step.does == "barrier":
            state = [FREE if was == READ else was for was in state]
            if registers:
                state[:-1] = [THERE if was == COMING else was for was in state[:-1]]
        yield list(zip(state, tile, strict=True))


def _lines(fault: SimulationFault | None) -> list[str]:
    """Return the description of a fault, in lines."""
    return textwrap.wrap(fault.detail, LETTERS) if fault else []


def _frame(rows: _Rows) -> Figure:
    sheet = Page(rows.tall, WIDTH, "Stages")
    for x, fill, text in ((92, ORANGE, "coming"), (172, PALE, "there"), (242, BLUE, "read")):
        sheet.boxes([(x, LINE - 12, 12, 12)], fill)
        sheet.text(x + 17, LINE, text)
    edges = [(rows.left, TOP + i * PITCH, WIDTH - MARGIN - rows.left, ROW) for i in range(len(rows.names))]
    sheet.boxes(edges, edgecolor=(INK, 0.35), linewidth=0.7)
    return sheet.finish("")


def _bars(states: Sequence[Sequence[tuple[int, int]]], rows: _Rows) -> Figure:
    """Draw the states of each stage so far, from left to right."""
    sheet = Page(rows.tall, WIDTH)
    for step, stages in enumerate(states):
        for i, (state, _) in enumerate(stages):
            if state in FILLS:
                sheet.boxes([(rows.left + step * rows.width, TOP + i * PITCH, rows.width, ROW)], FILLS[state])
    return sheet.finish("")


def _words(
    step: _Step, stages: Sequence[tuple[int, int]], fault: SimulationFault | None, at: int, rows: _Rows
) -> Figure:
    """Write the action and its threads, the pair of tiles in each stage, and the fault if there is one."""
    sheet = Page(rows.tall, WIDTH)
    sheet.text(MARGIN, 2 * LINE, fault.kind if fault else step.words, weight="bold")
    where = f"line {fault.line}, thread {fault.thread}" if fault else f"{step.who}, line {step.line}"
    sheet.text(MARGIN, 3 * LINE - 2, where)
    for i, ((_, tile), name) in enumerate(zip(stages, rows.names, strict=True)):
        pair = f"{tile}" if name == REGISTERS else f"pair {tile}"
        sheet.text(MARGIN, TOP + i * PITCH + 16, f"{name}: {pair if tile >= 0 else '–'}")
    x, bottom = rows.left + (at + 1) * rows.width, TOP + len(stages) * PITCH
    sheet.lines([[(x, TOP - 4), (x, bottom)]], INK, linewidth=1.5)
    if fault:
        for i, line in enumerate(_lines(fault)):
            sheet.text(MARGIN, bottom + (i + 1) * 18, line)
        return sheet.finish(f"The simulator stops here: {fault}.")
    each = "; ".join(
        f"{name if name == REGISTERS else 'stage ' + name}: {NAMES[state].format(tile)}"
        for (state, tile), name in zip(stages, rows.names, strict=True)
    )
    return sheet.finish(f"{step.who}, line {step.line}: {step.words}. {each[0].upper()}{each[1:]}.")
