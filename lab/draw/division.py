"""A picture of the division of work: each block's parts of tiles on their multiprocessor, over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.simulation import Run

from ..accesses import WORD
from .chart import COLOURS
from .figure import (
    INK,
    LINE,
    MARGIN,
    TITLE,
    WIDTH,
    Figure,
    Page,
    room,
)

ROW, PITCH = 24, 30  # height of a bar, and from one bar to the next


@dataclass(frozen=True)
class Piece:
    """The part of one tile that one block computes.

    Attributes
    ----------
    block : int
    row, column : int
        Which tile, counted in tiles.
    begin, end : int
        The multiply steps that it does of it, from this one to before that one.
    writes : bool
        Whether this block writes the tile of C.
    """

    block: int
    row: int
    column: int
    begin: int
    end: int
    writes: bool


def parts(run: Run) -> list[Piece]:
    """Return the parts of tiles that each traced block of a simulated run computed, in order.

    It is read off the accesses: the rows of A, the columns of B and the k of both that a block fetched, and the tiles
    of C that it wrote.

    Raises
    ------
    ArgumentError
        There is no tile of A and B in the trace, or K is no multiple of BK, so that steps cannot be told apart.
    """
    of, (_, N) = run.kernel.parameters, run.C.shape
    if run.K % of["BK"]:
        raise ArgumentError("run", f"K = {run.K}", f"a multiple of BK, {of['BK']}")
    fetched: dict[int, dict[str, list[tuple[int, int]]]] = {}
    written: set[tuple[int, int, int]] = set()
    for access in run.trace:
        element = access.offsets // WORD
        if access.array == "C" and access.kind == "store":
            rows, columns = element // N // of["BM"], element % N // of["BN"]
            written |= {(access.block, *tile) for tile in zip(rows.tolist(), columns.tolist(), strict=True)}
        elif access.array in ("A", "B") and access.space == "global":
            rows, columns = np.divmod(element, run.K if access.array == "A" else N)
            tile, k = (rows // of["BM"], columns) if access.array == "A" else (columns // of["BN"], rows)
            seen = fetched.setdefault(access.block, {"A": [], "B": []})[access.array]
            step = int(tile[0]), int(k[0]) // of["BK"]
            if seen[-1:] != [step]:
                seen.append(step)
    if not fetched:
        raise ArgumentError("run", "a trace without accesses to A and B", "blocks to trace")
    found = []
    for block, seen in sorted(fetched.items()):
        steps = [(row, column, k) for (row, k), (column, _) in zip(seen["A"], seen["B"], strict=True)]
        for (row, column), group in groupby(steps, key=lambda step: step[:2]):
            ks = [k for *_, k in group]
            found.append(Piece(block, row, column, ks[0], ks[-1] + 1, (block, row, column) in written))
    return found


def division(found: Sequence[Piece], multiprocessors: int, title: str, steps: int = 0) -> Figure:
    """Draw the work of each multiprocessor over time, if it runs one block at a time and all steps take equally long.

    Blocks go to the multiprocessors in order, each to the one that is free first. Tiles are numbered in the order of
    the blocks; a part of a tile that its block doesn't write to C is pale.

    Parameters
    ----------
    found : sequence of Piece
    multiprocessors : int
    title : str
    steps : int
        Steps that there is room for; as many as it takes unless given.

    Raises
    ------
    ArgumentError
        There is no part, or no multiprocessor.
    """
    return divisions({title: found}, multiprocessors, steps)


def divisions(ways: Mapping[str, Sequence[Piece]], multiprocessors: int, steps: int, of: str = "SM") -> Figure:
    """Draw several divisions as `division` does, one below the other, by their titles.

    Multiprocessors and their blocks may stand for others, for example ``"cluster"``.
    """
    if not all(ways.values()) or multiprocessors < 1:
        counts = ", ".join(str(len(found)) for found in ways.values())
        raise ArgumentError("found, multiprocessors", f"{counts}, {multiprocessors}", "at least one of each")
    left, high, said = MARGIN + room(f"{of} 00") + 8, 4 * LINE + 8 + multiprocessors * PITCH, []
    sheet = Page(len(ways) * high)
    for i, (title, found) in enumerate(ways.items()):
        free, bars = [0] * multiprocessors, []
        for _, group in groupby(found, key=lambda part: part.block):
            place = free.index(min(free))
            for part in group:
                bars.append((place, free[place], part))
                free[place] += part.end - part.begin
        tiles = {tile: i for i, tile in enumerate(dict.fromkeys((part.row, part.column) for part in found))}
        longest, work = max(free), sum(part.end - part.begin for part in found)
        top, bottom = i * high + 2 * LINE + 8, (i + 1) * high - 2 * LINE
        scale = (WIDTH - MARGIN - left) / max(longest, steps)
        sheet.text(MARGIN, i * high + LINE, title, size=TITLE, weight="bold")
        for place in range(multiprocessors):
            sheet.text(left - 8, top + place * PITCH + 17, f"{of} {place}", "right")
        for place, start, part in bars:
            x, y, number = left + start * scale, top + place * PITCH, tiles[part.row, part.column]
            width, colour = (part.end - part.begin) * scale, COLOURS[number % 4]
            sheet.boxes([(x + 1, y, width - 2, ROW)], (colour, 0.45 if part.writes else 0.2), edgecolor=colour)
            texts = (f"{number}: {part.begin}–{part.end - 1}", str(number), "")
            sheet.text(x + width / 2, y + 17, next(text for text in texts if room(text) <= width), "center")
        sheet.lines([[(left, top - 6), (left, bottom - 2)]], INK)
        note = (
            f"Tile: steps. Pale: {'another block completes the tile' if of == 'SM' else 'a part of a sum'}. "
            f"{longest} steps, {work / (longest * multiprocessors):.0%} of the {of}s' time used."
        )
        sheet.text(MARGIN, bottom + LINE, note)
        each = (
            f"{of} {place}: "
            + (
                ", ".join(
                    f"tile {tiles[p.row, p.column]} steps {p.begin} to {p.end - 1}" for at, _, p in bars if at == place
                )
                or "nothing"
            )
            for place in range(multiprocessors)
        )
        said.append(f"{title}: who multiplies what, in turn. {'; '.join(each)}. {note}")
    return sheet.finish(" ".join(said))
