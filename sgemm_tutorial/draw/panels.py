"""A player: with which panel of B each of some GPUs multiplies, and which one comes meanwhile."""

from __future__ import annotations

import numpy as np

from ..operands import FP32
from ..several import Step, spread, steps
from .charts import COLOURS
from .figure import INK, LINE, SMALL, Figure, Page
from .maps import Matrix, Operands
from .player import Control, Layer, Player

GPUS = 4
SIDE = 12
"""Rows and columns of the matrices, which stand for any."""
WAYS = {"ahead": "of rows", "columns": "of columns"}


def panels(name: str) -> Player:
    """Draw what four GPUs multiply and fetch, step by step, with panels of B's rows or of its columns.

    Who does what is read off `several.steps`.

    Parameters
    ----------
    name : str
        Of the player.
    """
    place = Operands(SIDE, SIDE, SIDE, GPUS + 4)
    grounds, scenes = {}, {}
    for chosen, way in enumerate(WAYS):
        parts = spread(*np.zeros((2, SIDE, SIDE), np.float32), None, GPUS, way, FP32)
        order = [steps(parts, number, way) for number in range(GPUS)]
        grounds[(chosen,)] = _ground(place, way)
        for now in range(GPUS + 1):
            scenes[chosen, now] = _scene(place, way, order, now)
    moments = [f"{now + 1} of {GPUS}" for now in range(GPUS)] + ["done"]
    controls = [Control("Panels", list(WAYS.values())), Control("Step", moments, "step")]
    title = f"What {GPUS} GPUs multiply and fetch, step by step"
    return Player(name, title, controls, [[Layer([0], grounds), Layer([0, 1], scenes)]])


def _block(matrix: Matrix, across: int | None, down: int | None) -> tuple[float, float, float, float]:
    """Return the rectangle of a band, a panel or a block: None stands for all rows, or for all columns."""
    side = SIDE // GPUS
    row, height = (0, SIDE) if down is None else (down * side, side)
    column, width = (0, SIDE) if across is None else (across * side, side)
    return matrix.box(row, column, height, width)


def _panel(place: Operands, way: str, number: int) -> tuple[float, float, float, float]:
    return _block(place.matrices["B"], *((number, None) if way == "columns" else (None, number)))


def _ground(place: Operands, way: str) -> Figure:
    """Draw who has what to begin with."""
    sheet = Page(place.height)
    for number, colour in enumerate(COLOURS[:GPUS]):
        mine = [_block(place.matrices[name], None, number) for name in "AC"]
        sheet.boxes([*mine, _panel(place, way, number)], (colour, 0.15), edgecolor=colour)
    for name, matrix in place.matrices.items():
        x, y, _, height = matrix.whole
        sheet.boxes([matrix.whole], edgecolor=INK)
        sheet.text(x, y + height + 19 if name == "C" else y - 8, name)
    return sheet.finish(
        f"A and C in {GPUS} bands of rows and B in {GPUS} panels {WAYS[way]}, one of each for every GPU."
    )


def _scene(place: Operands, way: str, order: list[list[Step]], now: int) -> Figure:
    """Draw what is multiplied and what comes in one step; after the last, what has been made."""
    sheet, notes = Page(place.height), []
    for number, (colour, own) in enumerate(zip(COLOURS, order, strict=False)):
        done = [_block(place.matrices["C"], step.panel if way == "columns" else None, number) for step in own[:now]]
        sheet.boxes(done, (colour, 0.25))
        if now == GPUS:
            notes.append(f"GPU {number} has its band of C")
            continue
        q = own[now].panel
        across = None if way == "columns" else q
        lit = [_block(place.matrices["A"], across, number), _panel(place, way, q)]
        lit.append(_block(place.matrices["C"], q if way == "columns" else None, number))
        sheet.boxes(lit, (colour, 0.75))
        note = f"GPU {number}: {_named(way, number, q)}"
        if now + 1 < GPUS:
            x, y, width, height = _panel(place, way, own[now + 1].panel)
            sheet.text(x + width / 2, y + height / 2 + 5, f"→ GPU {number}", SMALL, "center")
            note += f"; panel {own[now + 1].panel} comes"
        notes.append(note)
    for line, note in enumerate(notes, 2):
        y = line * LINE
        sheet.boxes([(place.left, y - 12, 14, 14)], (COLOURS[line - 2], 0.75))
        sheet.text(place.left + 22, y, note, SMALL)
    return sheet.finish(". ".join(notes) + ".")


def _named(way: str, number: int, panel: int) -> str:
    """Say which product it is."""
    if way == "columns":
        return f"C{number}{panel} is A{number} B{panel}"
    return f"C{number} gets A{number}{panel} B{panel}"
