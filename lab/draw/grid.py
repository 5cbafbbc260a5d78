"""A picture of a launch: the grid's blocks, one block's warps, and which element each lane of one warp has."""

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP

from ..boards import Gpu
from ..launching import Launched
from .figure import (
    BLUE,
    BODY,
    INK,
    MARGIN,
    PALE,
    WIDTH,
    Box,
    Figure,
    Page,
)
from .warp import lane_colour

HEIGHT, PITCH, TOP = 30, 84, 58


def grid(launched: Launched, array: str, gpu: Gpu, block: int = 0, warp: int = 0) -> Figure:
    """Draw a launch from the whole grid down to one warp's lanes, and the SMs that the blocks are shared out among.

    Parameters
    ----------
    launched : Launched
        On the simulator, with that block traced; at most as many blocks and warps as can be seen, some 40.
    array : str
        The argument whose stores say which element a lane has.
    gpu : Gpu
        Whose SMs to draw.
    block, warp : int
        What to open: a block of the grid, and a warp of it.

    Raises
    ------
    ArgumentError
        There is no such store in the trace.
    """
    stores = [a for a in launched.trace if (a.array, a.kind, a.block) == (array, "store", block)]
    places = {
        int(thread) % WARP: int(offset) // access.width
        for access in stores
        for thread, offset in zip(access.threads, access.offsets, strict=True)
        if thread // WARP == warp
    }
    if not places:
        raise ArgumentError(
            "array", f"{array!r}, block {block}, warp {warp}", "what that warp stores to, and is traced"
        )
    warps = -(-launched.threads // WARP)
    sheet = Page(TOP + 3 * PITCH + 52, title=f"One launch of {launched.name}")
    blocks = _row(sheet, 0, f"grid: {launched.blocks} blocks", launched.blocks, block)
    of_block = _row(sheet, 1, f"block {block}: {launched.threads} threads in {warps} warps", warps, warp)
    _open(sheet, blocks[block], of_block)
    sheet.text(MARGIN, TOP + 2 * PITCH - 8, f"warp {warp}: 32 lanes, and the elements of {array} that they have")
    pitch = (WIDTH - 2 * MARGIN) / WARP
    boxes = [(MARGIN + pitch * lane, TOP + 2 * PITCH, pitch - 2, HEIGHT) for lane in range(WARP)]
    for lane, box in enumerate(boxes):
        sheet.boxes([box], lane_colour(lane) if lane in places else PALE, edgecolor=INK)
    _open(sheet, of_block[warp], boxes)
    first, last = min(places), max(places)
    sheet.text(boxes[first][0], TOP + 2 * PITCH + HEIGHT + 16, str(places[first]))
    sheet.text(boxes[last][0] + pitch, TOP + 2 * PITCH + HEIGHT + 16, str(places[last]), "right")
    y = TOP + 3 * PITCH + 14
    sheet.text(MARGIN, y - 8, f"{gpu.name}: {gpu.sms} SMs; the hardware chooses one for each block")
    across, cell = 66, (WIDTH - 2 * MARGIN) / 66
    squares = [(MARGIN + i % across * cell, y + i // across * cell, cell - 2, cell - 2) for i in range(gpu.sms)]
    sheet.boxes(squares, edgecolor=INK, linewidth=0.7)
    elements = f"element {places[first]} to lane {last} element {places[last]}"
    return sheet.finish(
        f"A launch of {launched.name}: a grid of {launched.blocks} blocks; block {block} has {launched.threads} "
        f"threads in {warps} warps; in warp {warp}, lane {first} has {elements} of {array}. The {gpu.name} has "
        f"{gpu.sms} SMs, and the hardware chooses one for each block."
    )


def _row(sheet: Page, row: int, title: str, count: int, lit: int) -> list[Box]:
    """Draw a row of numbered boxes under a title, one of them lit; return the boxes."""
    y, pitch = TOP + row * PITCH, (WIDTH - 2 * MARGIN) / count
    sheet.text(MARGIN, y - 8, title)
    boxes = [(MARGIN + pitch * number, y, pitch - 4, HEIGHT) for number in range(count)]
    sheet.boxes([boxes[lit]], (BLUE, 0.45))
    sheet.boxes(boxes, edgecolor=INK)
    for number, (x, _, width, _) in enumerate(boxes):
        if pitch >= 2 * BODY:
            sheet.text(x + width / 2, y + HEIGHT / 2 + 5, str(number), "center")
    return boxes


def _open(sheet: Page, box: Box, below: list[Box]) -> None:
    """Draw lines from the corners of a box to the ends of the row that it is opened to."""
    x, y, width, height = box
    first, last = below[0], below[-1]
    title = 22  # pixels of text above the row, which the lines end before
    for start, end in ((x, first[0]), (x + width, last[0] + last[2])):
        sheet.lines([[(start, y + height), (end, first[1] - title)]], (INK, 0.5))
