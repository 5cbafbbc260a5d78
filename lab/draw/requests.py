"""Pictures of one request to memory: the sectors of global memory, or the banks of shared memory."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ptxsim import BANKS, SECTOR
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run

from ..accesses import WORD, Request, plural, request
from .figure import (
    INK,
    LINE,
    MARGIN,
    PALE,
    WIDTH,
    Box,
    Figure,
    Page,
)
from .warp import (
    in_words,
    key_to_shared,
    lane_colour,
    lane_row,
    lanes_of,
    paint,
    stretches,
    word_colour,
)

LANES_AT = 5 * LINE  # pixels from the top


def address_line(
    run: Run,
    line: int | None = None,
    kind: str = "load",
    array: str = "A",
    warp: int = 0,
    step: int = 0,
    block: int | None = None,
) -> Figure:
    """Draw one request to global memory: lines from the lanes to the bytes they want, in 32-byte sectors.

    Untouched memory between sectors is left out. Parameters are those of `request`.

    Raises
    ------
    ArgumentError
        The run holds no such request, or it goes to shared memory.
    """
    r = request(run, line, kind, array, warp, step, block)
    if r.space != "global":
        raise ArgumentError("array", f"{r.array} in {r.space} memory", "one in global memory; see banks")
    sectors = np.unique(r.offsets // SECTOR)
    runs = list(stretches(sectors))
    gap = 6 if len(runs) > 8 else 24
    width = min(72.0, (WIDTH - 2 * MARGIN - gap * (len(runs) - 1)) / len(sectors))
    x = (WIDTH - width * len(sectors) - gap * (len(runs) - 1)) / 2
    left: dict[int, float] = {}
    for first, count in runs:
        for sector in range(first, first + count):
            left[sector], x = x, x + width
        x += gap
    top, height = LANES_AT + 118, 26
    scale = width / SECTOR

    def place(element: int, count: int) -> list[Box]:
        byte = element * r.element
        return [(left[byte // SECTOR] + byte % SECTOR * scale, top, count * r.element * scale, height)]

    sheet = _page(top + height + 3 * LINE + 8, r, step)
    middles = lane_row(sheet, LANES_AT, r)
    frames = [(x, top, width, height) for x in left.values()]
    sheet.boxes(frames, PALE)
    for lane, elements, middle in zip(r.lanes, r.elements.tolist(), middles, strict=True):
        ((x, _, across, _),) = place(elements[0], len(elements))
        sheet.lines([[(middle, LANES_AT), (x + across / 2, top)]], lane_colour(lane), linewidth=1.2)
    paint(sheet, r, place)
    sheet.boxes(frames, edgecolor=INK)
    starts = [first * SECTOR for first, _ in runs]
    _addresses(sheet, top + height + LINE, frames, starts, int(sectors[-1] + 1) * SECTOR - 1)
    asked = len(np.unique(r.elements)) * r.element
    sum_up = f"{asked:,} bytes asked for, {len(sectors) * SECTOR:,} bytes in the sectors touched"
    sheet.text(WIDTH / 2, top + height + 2 * LINE + 8, sum_up, align="center")
    return sheet.finish(f"{r.kernel}, block {r.block}, warp {warp}, step {step}. {in_words(r)} {sum_up}.")


def banks(
    run: Run,
    line: int | None = None,
    kind: str = "load",
    array: str = "As",
    warp: int = 0,
    step: int = 0,
    block: int | None = None,
) -> Figure:
    """Draw which words one request wants from each of the 32 banks, of shared memory or of L1's data.

    The words wanted of a bank stand below it, a row for each wavefront: a bank with two words is a two-way
    conflict. Parameters are those of `request`; banks are counted from the array's start, as if that lay at a
    multiple of 128 bytes.

    Raises
    ------
    ArgumentError
        The run holds no such request.
    """
    r = request(run, line, kind, array, warp, step, block)
    wanted = served(r)
    rows = 1 + max(row for row, _, _ in wanted)
    pitch, top, height = (WIDTH - 2 * MARGIN) / BANKS, LANES_AT + 120, 22 if rows <= 8 else 14
    sheet = _page(top + rows * height + 2 * LINE + 4, r, step)
    middles = lane_row(sheet, LANES_AT, r)
    columns = [(MARGIN + pitch * bank, top, pitch, rows * height) for bank in range(BANKS)]
    sheet.boxes(columns, edgecolor=(INK, 0.35), linewidth=0.7)
    sheet.text(MARGIN, top + rows * height + 17, "bank 0")
    for bank in (8, 16, 24, 31):
        sheet.text(columns[bank][0] + pitch / 2, top + rows * height + 17, str(bank), "center")
    for row, word, lanes in wanted:
        x, y = columns[word % BANKS][0], top + row * height
        sheet.boxes([(x + 1.5, y + 1.5, pitch - 3, height - 3)], word_colour(lanes))
    for lane, middle, words in zip(r.lanes, middles, r.words, strict=True):
        x = MARGIN + pitch * (np.mean(words % BANKS) + 0.5)
        sheet.lines([[(middle, LANES_AT), (x, top)]], lane_colour(lane), linewidth=1.2)
    words = plural(len(wanted), "word")
    used = plural(len({word % BANKS for _, word, _ in wanted}), "bank")
    lost = plural(r.conflicts, "wavefront") + " lost to conflicts" if r.conflicts else "no conflict"
    sum_up = f"{words} from {used}: {lost}"
    sheet.text(WIDTH / 2, top + rows * height + 2 * LINE, sum_up, align="center")
    return sheet.finish(f"{r.kernel}, block {r.block}, warp {warp}, step {step}. {in_words(r)} {sum_up}.")


def served(r: Request) -> list[tuple[int, int, list[int]]]:
    """Return each word wanted, with its wavefront and the lanes that want it.

    How many lanes are served together is `counting.wavefronts`'s to say: 32 for accesses of 4 bytes, else as
    many as give the number of wavefronts that it counts.
    """
    group = WARP // max(r.width // WORD, 1)
    found = [list(_by_group(r, size)) for size in (2 * group, group)]
    return next((words for words in found if 1 + max(row for row, _, _ in words) == r.wavefronts), found[-1])


def _by_group(r: Request, group: int) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each word, its wavefront and its lanes, where so many lanes are served together."""
    done = 0
    for first in range(0, WARP, group):
        together = (first <= r.lanes) & (r.lanes < first + group)
        of_bank: Counter[int] = Counter()
        for word, lanes in lanes_of(r.lanes[together], r.words[together]).items():
            yield done + of_bank[word % BANKS], word, lanes
            of_bank[word % BANKS] += 1
        done += max(of_bank.values(), default=0)


def _page(height: float, r: Request, step: int) -> Page:
    """Return a page that names the request and its cost."""
    sheet = Page(height, title=f"{r.kernel}: {r.array} {r.kind}, line {r.line}")
    sheet.text(MARGIN, 2 * LINE + 2, f"block {r.block}, warp {r.warp}, step {step}: {r.cost}")
    if len(np.unique(r.elements)) < r.elements.size:
        key_to_shared(sheet, WIDTH - MARGIN - 196, 2 * LINE + 2)
    return sheet


def _addresses(sheet: Page, y: float, frames: list[Box], starts: list[int], end: int) -> None:
    """Write the first byte, the last, and the distance between stretches of sectors if it is always the same."""
    left, right = frames[0][0], frames[-1][0] + frames[-1][2]
    if right - left < 240:
        sheet.text((left + right) / 2, y, f"bytes {starts[0]:,} to {end:,} of the array", "center")
        return
    sheet.text(left, y, f"byte {starts[0]:,}")
    sheet.text(right, y, f"{end:,}", "right")
    strides = {after - before for before, after in pairwise(starts)}
    if len(strides) == 1:
        sheet.text((left + right) / 2, y, f"{strides.pop():,} bytes apart", "center")
