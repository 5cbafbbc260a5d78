"""A player: the occupancy calculator with sliders, which shows how many blocks fit on an SM and what stops one more."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from itertools import product
from textwrap import wrap

from ptxsim import THREADS_MAX
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import KIB, WARP
from sgemm_tutorial.kernel import Kernel

from ..accesses import plural
from ..boards import Gpu
from ..model.occupancy import Occupancy, occupancy
from ..model.resources import resources
from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    Box,
    Figure,
    Page,
)
from .player import (
    WIDTH,
    Computed,
    Control,
    Layer,
    Player,
    Preset,
)

HEIGHT = 304
RESOURCES = ("threads", "registers", "shared memory", "block slots")
DRAWN = 32
"""The most blocks that a bar shows; more never fit."""
ROW = 66
"""Pixels from one resource to the next."""
ACROSS = 16
"""Places for warps in a row."""
ROWS_AT, PLACES_AT = LINE + 12, 3 * LINE + 16  # pixels from the top
KERNEL, GPU, THREADS, REGISTERS, SHARED = range(5)  # the controls, in their order


def calculator(name: str, kernels: Sequence[Kernel], gpus: Sequence[Gpu], start: tuple[Kernel, Gpu]) -> Player:
    """Draw how many blocks each resource of an SM allows, given the needs of a block.

    Parameters
    ----------
    name : str
        Of the player.
    kernels, gpus : sequence of Kernel, sequence of Gpu
        The choices. A kernel sets the threads, registers and shared memory to what it takes when compiled for
        the GPU; one that does not compile for it lets them be.
    start : Kernel and Gpu
        What is shown at first.

    Raises
    ------
    ArgumentError
        The first kernel is not for the first GPU.
    """
    taken = dict(_taken(kernels, gpus))
    begin = kernels.index(start[0]) + 1, gpus.index(start[1])
    if begin not in taken:
        raise ArgumentError("start", f"{start[0].name} on {start[1].name}", "a kernel that compiles for the GPU")
    amounts = (
        range(WARP, max(gpu.limits.max_threads_per_block for gpu in gpus) + 1, WARP),
        range(1, max(gpu.limits.max_registers_per_thread for gpu in gpus) + 1),
        sorted(
            set(range(0, max(gpu.limits.max_shared_per_block for gpu in gpus) + 1, KIB))
            | {shared for *_, shared in taken.values()}
        ),
    )
    threads, registers, shared = map(list, amounts)
    states = {of: tuple(map(list.index, (threads, registers, shared), takes)) for of, takes in taken.items()}

    def numbers(state: Sequence[int]) -> dict[str, int]:
        limits = gpus[state[GPU]].limits
        if shared[state[SHARED]] > limits.max_shared_per_block:
            return {"too much": 1, "most shared": limits.max_shared_per_block}
        takes = threads[state[THREADS]], registers[state[REGISTERS]], shared[state[SHARED]]
        return _numbers(occupancy(*takes, limits))

    data = {
        "gpus": [dataclasses.asdict(gpu.limits) for gpu in gpus],
        "warp": WARP,
        "drawn": DRAWN,
        "threads": threads,
        "registers": registers,
        "shared": shared,
    }
    return Player(
        name,
        "How many blocks of a kernel fit on an SM, and which resource stops one more",
        [
            Control("Kernel", ("as set below", *(kernel.name for kernel in kernels)), start=begin[0]),
            Control("GPU", [gpu.name for gpu in gpus], start=begin[1]),
            Control("Threads per block", list(map(str, threads)), "range", states[begin][0]),
            Control("Registers per thread", list(map(str, registers)), "range", states[begin][1]),
            Control("Shared memory per block", [f"{size / KIB:g} KiB" for size in shared], "range", states[begin][2]),
        ],
        [_limits(), _places(gpus)],
        Computed("calculator", data, numbers),
        Preset((KERNEL, GPU), (THREADS, REGISTERS, SHARED), states),
    )


def _taken(kernels: Sequence[Kernel], gpus: Sequence[Gpu]) -> Iterator[tuple[tuple[int, int], tuple[int, int, int]]]:
    """Yield the places of kernel and GPU among the controls' values, with threads, registers and shared memory."""
    for (i, kernel), (j, gpu) in product(enumerate(kernels, 1), enumerate(gpus)):
        try:
            used = resources(kernel, gpu.architecture)
            occupancy(kernel.threads, used.registers, used.shared_bytes, gpu)
        except ArgumentError:  # it is for other GPUs, or takes more than this one has
            continue
        yield (i, j), (kernel.threads, used.registers, used.shared_bytes)


def _numbers(fit: Occupancy) -> dict[str, int]:
    """Return the numbers that are shown, by name; ``book/_static/calculator.js`` returns the same."""
    numbers = {
        "blocks": fit.blocks_per_sm,
        "warps": fit.warps,
        "block warps": fit.needs["threads"] // WARP,
        "most warps": fit.has["threads"] // WARP,
    }
    for name in RESOURCES:
        numbers |= {
            name: fit.limits[name],
            f"{name} drawn": min(fit.limits[name], DRAWN),
            f"{name} taken": fit.needs[name],
            f"{name} there": fit.has[name],
            f"{name} bind": int(name in fit.limiter.split(" and ")),
        }
    return numbers


def _limits() -> list[Layer]:
    """Draw each resource: the amount that a block takes, and a box for each block that fits."""
    frame, too_much = Page(HEIGHT, WIDTH, "Room for how many blocks?"), Page(HEIGHT, WIDTH)
    too_much.text(MARGIN, ROWS_AT + LINE, "A block of this GPU may have at most")
    too_much.text(MARGIN, ROWS_AT + 2 * LINE, "{most shared} bytes of shared memory.")
    message = "More shared memory than the {most shared} bytes that a block may have."
    layers = [Layer((), {(): frame.finish("")}), Layer(("too much",), {(1,): too_much.finish(message)})]
    for i, name in enumerate(RESOURCES):
        words = {(bind,): _row(name, ROWS_AT + ROW * i, bool(bind)) for bind in (0, 1)}
        bars = {
            (number, bind): bar
            for bind, colour in enumerate((BLUE, ORANGE))
            for number, bar in enumerate(_growing([_box(i, block) for block in range(DRAWN)], colour))
        }
        layers += [Layer((f"{name} bind",), words), Layer((f"{name} drawn", f"{name} bind"), bars)]
    return layers


def _box(row: int, block: int) -> Box:
    """Return where a block's box is in the bar of a resource."""
    pitch = (WIDTH - 2 * MARGIN) / DRAWN
    return MARGIN + pitch * block, ROWS_AT + ROW * row + 20, pitch - 2, 12


def _growing(boxes: Sequence[Box], colour: str) -> list[Figure]:
    """Draw none of the boxes, the first, the first two, and so on."""
    sheet = Page(HEIGHT, WIDTH)
    for box in boxes:
        sheet.boxes([box], colour)
    drawn = sheet.finish("")
    ends = [0, *(found.end() for found in re.finditer("/>", drawn.body))]
    return [dataclasses.replace(drawn, body=drawn.body[:end]) for end in ends]


def _row(name: str, top: float, bind: bool) -> Figure:
    """Write the amount of a resource that a block takes, and the number of blocks that fit."""
    unit = " bytes" * (name == "shared memory")
    takes = f"a block takes {{{name} taken}} of {{{name} there}}{unit}"
    weight = "bold" if bind else "normal"
    sheet = Page(HEIGHT, WIDTH)
    sheet.text(MARGIN, top + 14, name, weight=weight)
    sheet.text(WIDTH - MARGIN, top + 14, f"{{{name}}}" + ": the limit" * bind, "right", weight=weight)
    sheet.text(MARGIN, top + 50, takes)
    return sheet.finish(f"{name.capitalize()}: {takes}, room for {{{name}}}{', the limit' * bind}.")


def _places(gpus: Sequence[Gpu]) -> list[Layer]:
    """Draw an SM's places for warps, and how many of them are filled."""
    most = sorted({gpu.limits.max_threads_per_sm // WARP for gpu in gpus})
    sizes = range(1, THREADS_MAX // WARP + 1)
    below = _place(max(most) - 1)[1] + 2 * LINE

    def text(y: float, text: str, end: str = ",", align: str = "left", weight: str = "normal") -> Figure:
        sheet = Page(HEIGHT, WIDTH)
        for i, line in enumerate(wrap(text, 36)):
            sheet.text({"left": MARGIN, "right": WIDTH - MARGIN}[align], y + LINE * i, line, align, weight=weight)
        return sheet.finish(text + end)

    def empty(places: int) -> Figure:
        sheet = Page(HEIGHT, WIDTH)
        sheet.boxes(map(_place, range(places)), edgecolor=INK, linewidth=0.8)
        return sheet.finish("")

    def begins(warps: int, places: int) -> Figure:
        sheet = Page(HEIGHT, WIDTH)
        firsts = [_place(warp) for warp in range(0, places, warps)]
        sheet.lines([[(x - 1, y - 2), (x - 1, y + height + 2)] for x, y, _, height in firsts], linewidth=2)
        return sheet.finish("")

    titles = {(i,): text(LINE, f"An SM of the {gpu.name}", ":", weight="bold") for i, gpu in enumerate(gpus)}
    fit = {
        (blocks,): text(2 * LINE, f"{plural(blocks, 'block')} fit{'s' * (blocks == 1)}") for blocks in range(DRAWN + 1)
    }
    each = {(warps,): text(2 * LINE, f"{plural(warps, 'warp')} each", align="right") for warps in sizes}
    share = {
        (warps, of): text(3 * LINE, f"{warps} of {of} warps: {100 * warps / of:.1f}%", weight="bold")
        for of in most
        for warps in range(of + 1)
    }
    binding = {
        bind: text(
            below, "limited by " + " and ".join(name for name, binds in zip(RESOURCES, bind, strict=True) if binds), "."
        )
        for bind in product((0, 1), repeat=len(RESOURCES))
        if any(bind)
    }
    filled = {(warps,): figure for warps, figure in enumerate(_growing([_place(i) for i in range(max(most))], BLUE))}
    return [
        Layer((GPU,), titles),
        Layer(("blocks",), fit),
        Layer(("block warps",), each),
        Layer(("warps", "most warps"), share),
        Layer([f"{name} bind" for name in RESOURCES], binding),
        Layer(("warps",), filled),
        Layer(("most warps",), {(places,): empty(places) for places in most}),
        Layer(
            ("block warps", "most warps"),
            {(warps, of): begins(warps, of) for warps in sizes for of in most},
        ),
    ]


def _place(number: int) -> Box:
    """Return where a warp's place is."""
    pitch = (WIDTH - 2 * MARGIN) / ACROSS
    row, column = divmod(number, ACROSS)
    return MARGIN + pitch * column + 1, PLACES_AT + (pitch + 6) * row, pitch - 2, pitch - 2
