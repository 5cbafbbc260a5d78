"""A picture of a fragment: which lane of a warp has which elements of a 16 × 16 matrix, for a tensor core."""

from __future__ import annotations

from ..accesses import request
from ..errors import ArgumentError
from ..hardware import WARP
from ..simulation import Run
from .figure import INK, LINE, MARGIN, SMALL, WIDTH, Figure, Page
from .warp import lane_colour

SIDE = 16
HEIGHT = 22  # pixels of a row


def fragment(run: Run, array: str = "A", kind: str = "load", warp: int = 0) -> Figure:
    """Draw the first fragment of a matrix in global memory that a warp loads or stores, element by element.

    Neighbours that a lane accesses at once are one box in the lane's colour, with its number. The quarters of 8 × 8
    are framed.

    Parameters
    ----------
    run : Run
        Of a kernel that loads or stores fragments, simulated with ``trace=[block]``.
    array, kind, warp
        As for `request`: "A", "B" or "C", "load" or "store", and the number of the warp.

    Raises
    ------
    ArgumentError
        As for `request`, or the warp's first accesses are not a 16 × 16 matrix's.
    """
    columns = run.K if array == "A" else run.C.shape[1]
    places: dict[tuple[int, int], int] = {}
    for step in range(SIDE**2 // WARP):
        asked = request(run, array=array, kind=kind, warp=warp, step=step)
        together = asked.width // asked.element
        for lane, offset in zip(asked.lanes, asked.offsets, strict=True):
            places[divmod(int(offset) // asked.element, columns)] = int(lane)
        if len(places) * together >= SIDE**2:
            break
    top, left = (min(place[axis] for place in places) for axis in (0, 1))
    if len(places) * together != SIDE**2 or max(row for row, _ in places) - top != SIDE - 1:
        raise ArgumentError("run", f"one whose first {kind}s of {array} are not of 16 × 16", "one with fragments")
    x0, y0 = MARGIN + 56, 2 * LINE + 16
    cell = (WIDTH - MARGIN - x0) / SIDE
    sheet = Page(y0 + SIDE * HEIGHT + MARGIN, title=f"A {kind} of {array}, {step + 1} requests")
    for (row, column), lane in places.items():
        x, y = x0 + (column - left) * cell, y0 + (row - top) * HEIGHT
        sheet.boxes([(x + 1, y + 1, together * cell - 2, HEIGHT - 2)], lane_colour(lane))
        sheet.text(x + together * cell / 2, y + 16, str(lane), SMALL, "center")
    for row in range(0, SIDE, 4):
        sheet.text(MARGIN, y0 + row * HEIGHT + 16, f"row {row}", SMALL)
    for column in (0, 8):
        sheet.text(x0 + column * cell, y0 - 8, f"column {column}", SMALL)
    half = SIDE // 2
    sheet.boxes(
        [(x0 + i * half * cell, y0 + j * half * HEIGHT, half * cell, half * HEIGHT) for i in (0, 1) for j in (0, 1)],
        edgecolor=INK,
        linewidth=2,
    )
    return sheet.finish(
        f"{run.kernel.name}, warp {warp}: which lane has which elements of a 16 × 16 matrix of "
        f"{array}. Lane 0 has {_listed(places, 0, top, left, together)}, lane 1 "
        f"{_listed(places, 1, top, left, together)}."
    )


def _listed(places: dict[tuple[int, int], int], lane: int, top: int, left: int, together: int) -> str:
    """Return a lane's elements in words."""
    mine = sorted((row - top, column - left) for (row, column), owner in places.items() if owner == lane)
    width = f"–{together - 1 + mine[0][1]}" if together > 1 else ""
    first = f"row {mine[0][0]}, column{'s' * (together > 1)} {mine[0][1]}{width}"
    return f"{first} and {len(mine) - 1} more such places"
