"""A player: the panel of B that each of several GPUs multiplies by, and the panel that arrives meanwhile."""

import numpy as np

from sgemm_tutorial.operands import FP32

from ..several import Step, spread, steps
from .chart import COLOURS
from .figure import (
    INK,
    LINE,
    MARGIN,
    Box,
    Figure,
    Page,
)
from .maps import Matrix
from .player import WIDTH, Control, Layer, Player

GPUS = 4
SIDE = 12
"""Rows and columns of the matrices, which stand for matrices of any size."""
CELL = 20.0  # pixels
BELOW = LINE + 10 + SIDE * CELL + 2 * LINE
"""The top of A and of C in pixels."""
A, B, C = (Matrix(SIDE, SIDE, MARGIN, y, CELL) for y in (BELOW, LINE + 10, BELOW))
"""A stands on the left, below the notes, and B above C on the right."""
HEIGHT = BELOW + SIDE * CELL + MARGIN
WAYS = {"columns": "of columns", "ahead": "of rows"}


def panels(name: str) -> Player:
    """Draw the products and transfers of four GPUs, step by step, with panels of B's columns or of its rows.

    The steps are those of `several.steps`.

    Parameters
    ----------
    name : str
        Of the player.
    """
    grounds, scenes = ([{}, {}] for _ in range(2))
    for chosen, way in enumerate(WAYS):
        parts = spread(*np.zeros((2, SIDE, SIDE), np.float32), None, GPUS, way, FP32)
        order = [steps(part, way) for part in parts]
        for side, figure in enumerate(_ground(way)):
            grounds[side][(chosen,)] = figure
        for now in range(GPUS + 1):
            for side, figure in enumerate(_scene(way, order, now)):
                scenes[side][chosen, now] = figure
    moments = [f"{now + 1} of {GPUS}" for now in range(GPUS)] + ["done"]
    controls = [Control("Panels", list(WAYS.values())), Control("Step", moments, "step")]
    title = f"What {GPUS} GPUs multiply and fetch, step by step"
    return Player(name, title, controls, [[Layer([0], grounds[i]), Layer([0, 1], scenes[i])] for i in range(2)])


def _block(matrix: Matrix, across: int | None, down: int | None) -> Box:
    """Return the rectangle of a band, a panel or a block: None stands for all rows, or for all columns."""
    side = SIDE // GPUS
    row, height = (0, SIDE) if down is None else (down * side, side)
    column, width = (0, SIDE) if across is None else (across * side, side)
    return matrix.box(row, column, height, width)


def _panel(way: str, number: int) -> Box:
    return _block(B, *((number, None) if way == "columns" else (None, number)))


def _ground(way: str) -> tuple[Figure, Figure]:
    """Draw the parts that each GPU has at the start."""
    left, right = (Page(HEIGHT, WIDTH) for _ in range(2))
    for number, colour in enumerate(COLOURS[:GPUS]):
        left.boxes([_block(A, None, number)], (colour, 0.15), edgecolor=colour)
        right.boxes([_block(C, None, number), _panel(way, number)], (colour, 0.15), edgecolor=colour)
    for sheet, name, matrix in ((left, "A", A), (right, "B", B), (right, "C", C)):
        x, y, *_ = matrix.whole
        sheet.boxes([matrix.whole], edgecolor=INK)
        sheet.text(x, y - 8, name)
    has = f"{GPUS} GPUs have a band of rows of"
    return left.finish(f"{has} A each."), right.finish(f"{has} C and a panel {WAYS[way]} of B each.")


def _scene(way: str, order: list[list[Step]], now: int) -> tuple[Figure, Figure]:
    """Draw the panels that are multiplied and that arrive in one step; after the last step, draw the result."""
    left, right = (Page(HEIGHT, WIDTH) for _ in range(2))
    by_columns, notes, arrows = way == "columns", [], []
    for number, (colour, own) in enumerate(zip(COLOURS, order, strict=False)):
        left.boxes([(MARGIN, (number + 1) * LINE - 12, 14, 14)], colour)
        done = [_block(C, step.panel if by_columns else None, number) for step in own[:now]]
        right.boxes(done, (colour, 0.25))
        if now == GPUS:
            notes.append(f"GPU {number} has its band of C")
            continue
        q = own[now].panel
        left.boxes([_block(A, None if by_columns else q, number)], colour)
        right.boxes([_panel(way, q), _block(C, q if by_columns else None, number)], colour)
        product = f"C{number}{q} is A{number} B{q}" if by_columns else f"C{number} gets A{number}{q} B{q}"
        note = f"GPU {number}: {product}"
        if now + 1 < GPUS:
            coming = own[now + 1].panel
            x, y, width, height = _panel(way, coming)
            ground = next(c for c, of in zip(COLOURS, order, strict=False) if of[now].panel == coming)
            right.text(x + width / 2, y + height / 2 + 5, f"→ {number}", "center", on=ground)
            note += f"; panel {coming} comes"
            arrows.append(f"panel {coming} goes to GPU {number}")
        notes.append(note)
    for number, note in enumerate(notes):
        left.text(MARGIN + 22, (number + 1) * LINE, note)
    return left.finish(". ".join(notes) + "."), right.finish("; ".join(arrows))
