"""Shared parts of pictures of a warp's requests: lanes and their colours, and descriptions for screen readers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from sgemm_tutorial.hardware import WARP

from ..accesses import Request, plural
from .figure import (
    INK,
    LINE,
    MARGIN,
    PALE,
    Box,
    Page,
)

_ENDS = ((0x00, 0x72, 0xB2), (0xB5, 0x65, 0xA7), (0xDE, 0x79, 0x00))
_COLOURS = np.transpose([np.interp(np.linspace(0, 2, WARP), range(3), part) for part in zip(*_ENDS, strict=True)])
"""Colours from blue to orange, which colour-blind readers tell apart, at equal contrast to white and to near-black."""


def lane_colour(lane: int) -> str:
    """Return the colour of one of a warp's 32 lanes."""
    return "#{:02x}{:02x}{:02x}".format(*map(round, _COLOURS[lane].tolist()))


def lane_boxes(sheet: Page, bottom: float, tall: float, gap: float, r: Request) -> list[Box]:
    """Draw and return the 32 lanes as a row of boxes across the page, empty where a lane takes no part."""
    pitch = (sheet.width - 2 * MARGIN) / WARP
    boxes = [(MARGIN + pitch * lane + gap / 2, bottom - tall, pitch - gap, tall) for lane in range(WARP)]
    for lane in r.lanes:
        sheet.boxes([boxes[lane]], lane_colour(lane))
    sheet.boxes([boxes[lane] for lane in range(WARP) if lane not in r.lanes], edgecolor=INK, linewidth=0.8)
    return boxes


def lane_row(sheet: Page, bottom: float, r: Request) -> list[float]:
    """Draw the lanes with some of their numbers; return the middles of those that take part."""
    boxes = lane_boxes(sheet, bottom, 16, 4, r)
    middles = [x + width / 2 for x, _, width, _ in boxes]
    for lane in (8, 16, 24, 31):
        sheet.text(middles[lane], bottom - 23, str(lane), "center")
    sheet.text(boxes[0][0], bottom - 23, "lane 0")
    return [middles[lane] for lane in r.lanes]


def lanes_of(lanes: np.ndarray, words: np.ndarray) -> dict[int, list[int]]:
    """Return for each word that is wanted, ascending, the lanes that want it.

    Parameters
    ----------
    lanes : array of int
    words : array of int, shape (lanes, words)
        What each lane wants.
    """
    found = defaultdict(list)
    for lane, mine in zip(lanes.tolist(), words.tolist(), strict=True):
        for word in mine:
            found[word].append(lane)
    return dict(sorted(found.items()))


def word_colour(lanes: Sequence[int]) -> str:
    """Return the colour of a word: that of the one lane that wants it, or the text's if several do."""
    return lane_colour(lanes[0]) if len(lanes) == 1 else INK


def stretches(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield, of words in ascending order, the first of each consecutive few and how many they are."""
    numbers = np.array(words)
    for few in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
        yield int(few[0]), len(few)


def paint(sheet: Page, r: Request, place: Callable[[int, int], Iterable[Box]]) -> None:
    """Paint the elements that a lane touches in its colour, and those that several touch in the colour of text.

    `place` says where so many consecutive elements are, given the first and their number.
    """
    count = Counter(r.elements.ravel().tolist())
    several = {element for element, lanes in count.items() if lanes > 1}
    for lane, elements in zip(r.lanes, r.elements.tolist(), strict=True):
        if not several.issuperset(elements):
            sheet.boxes(place(elements[0], len(elements)), lane_colour(lane))
    sheet.boxes([box for element in sorted(several) for box in place(element, 1)], INK)


def key(sheet: Page, x: float, y: float) -> None:
    """Explain the colours, in three lines of text from (x, y) on."""
    sheet.text(x, y, "lane 0")
    for lane in range(WARP):
        sheet.boxes([(x + 52 + 5 * lane, y - 11, 5.5, 12)], lane_colour(lane))
    sheet.text(x + 56 + 5 * WARP, y, "31")
    key_to_shared(sheet, x, y + LINE)
    sheet.boxes([(x, y + 2 * LINE - 11, 12, 12)], PALE, edgecolor=INK)
    sheet.text(x + 20, y + 2 * LINE, "32-byte sector touched")


def key_to_shared(sheet: Page, x: float, y: float) -> None:
    """Explain what `paint` does, in a line of text from (x, y) on."""
    sheet.boxes([(x, y - 11, 12, 12)], INK)
    sheet.text(x + 20, y, "touched by several lanes")


def in_words(r: Request) -> str:
    """Return a sentence: how many lanes touch how many elements, at what cost."""
    what = plural(len(np.unique(r.elements)), f"different {'element' if r.space == 'global' else 'word'}")
    lanes = "1 lane touches" if len(r.lanes) == 1 else f"{len(r.lanes)} lanes touch"
    return f"{r.array} {r.kind}, line {r.line}: {lanes} {what} in {r.cost}."
