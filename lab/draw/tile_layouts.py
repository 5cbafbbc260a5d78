"""A player: one access of a warp to a tile in shared memory, with the tile's rows laid out in one way or another.

Which lane wants which part of which row comes from a trace. Where that part lies follows from the layout, and what
the access takes there is counted as in any simulated run.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxsim import BANKS, Violation, require_aligned
from sgemm_tutorial.errors import ArgumentError

from ..accesses import WORD, Request, plural
from .figure import (
    INK,
    LINE,
    MARGIN,
    PALE,
    Figure,
    Page,
)
from .maps import Matrix
from .player import WIDTH, Control, Layer, Player
from .reads import ROWS_AT, draw_request, frame, in_rows, under
from .warp import in_words, lanes_of, stretches, word_colour

AROUND = BANKS * WORD
"""Bytes that the banks hold side by side: a line of shared memory."""
LEFT = MARGIN + 34
PITCH = (WIDTH - MARGIN - LEFT) / BANKS
TALL = 256
"""Pixels that the lines of a tile, or the wavefronts of an access, should take together."""
PALER = (INK, 0.07)


@dataclass(frozen=True)
class TileLayout:
    """The layout of a tile's rows in shared memory, one behind the other.

    Attributes
    ----------
    padding : int
        Bytes left free behind each row.
    chunk : int
        Bytes that stay together where the chunks of a row change places: a chunk's number is XORed with that of its
        row. 0 where all stay in order.
    rows : int
        So many rows follow each other with the same order of chunks: the row's number is divided by this.
    """

    padding: int = 0
    chunk: int = 0
    rows: int = 1

    def __str__(self) -> str:
        if self.chunk:
            return f"{self.chunk}-byte chunks XOR row" + (f" / {self.rows}" if self.rows > 1 else "")
        return f"{plural(self.padding, 'byte')} of padding" if self.padding else "rows without gaps"

    def place(self, rows: np.ndarray, columns: np.ndarray, length: int) -> np.ndarray:
        """Return where bytes lie, counted from the tile's beginning, given their rows' length in bytes."""
        return rows * (length + self.padding) + (columns ^ self._order(rows, length))

    def held(self, places: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and columns of the bytes that lie at these places."""
        rows, columns = np.divmod(places, length + self.padding)
        return rows, columns ^ self._order(rows, length)

    def _order(self, rows: np.ndarray, length: int) -> np.ndarray:
        return rows // self.rows * self.chunk % min(length, AROUND)


@dataclass(frozen=True)
class TileAccess:
    """An access to a tile, as it was traced.

    Attributes
    ----------
    name : str
        What it does, in a word or two.
    request : Request
        To shared memory.
    length : int
        Bytes of a row of the tile, without padding.
    rows : int
        Rows of the tile that are drawn.
    layout : TileLayout
        How the tile lay there.
    start : int
        Byte of the request's array at which the tile began.
    """

    name: str
    request: Request
    length: int
    rows: int
    layout: TileLayout = TileLayout()
    start: int = 0

    def __str__(self) -> str:
        return f"{self.name}, {self.request.width} bytes"

    def laid_out(self, layout: TileLayout) -> Request:
        """Return the request for the same parts of the tile, counted from its beginning, with the tile laid out so.

        Raises
        ------
        Violation
            The bytes that a lane wants at once do not lie together, or not where an access of that width may begin.
        """
        rows, columns = self.layout.held(self.request.offsets - self.start, self.length)
        places, width = layout.place(rows, columns, self.length), self.request.width
        if 0 < layout.chunk < width:
            parts = plural(width // layout.chunk, "place")
            raise Violation("in pieces", 0, f"a lane's {width} bytes lie in {parts}")
        require_aligned(places.astype(np.uint64), width)
        return replace(self.request, offsets=places)

    def words(self, layout: TileLayout) -> dict[int, list[int]]:
        """Return for each word of the tile that is wanted, counted from its beginning, the lanes that want it."""
        rows, columns = self.layout.held(self.request.offsets - self.start, self.length)
        ahead = np.arange(0, self.request.width, WORD)
        places = layout.place(rows[:, None], columns[:, None] + ahead, self.length)
        return lanes_of(self.request.lanes, places // WORD)


def bank_layouts(name: str, accesses: Sequence[TileAccess], layouts: Sequence[TileLayout]) -> Player:
    """Draw a tile over the 32 banks and the wavefronts of an access to it, for each of several layouts and accesses.

    Parameters
    ----------
    name : str
        Of the player.
    accesses : sequence of TileAccess
    layouts : sequence of TileLayout

    Raises
    ------
    ArgumentError
        An access is not to shared memory, or rows have a length in which chunks cannot change places.
    """
    for access in accesses:
        if access.request.space != "shared":
            raise ArgumentError("accesses", str(access.request), "accesses to shared memory")
        if AROUND % access.length and access.length % AROUND and any(layout.chunk for layout in layouts):
            raise ArgumentError("accesses", f"rows of {access.length} bytes", f"a part or a multiple of {AROUND}")
    states = {(i, j): _taken(access, layout) for i, layout in enumerate(layouts) for j, access in enumerate(accesses)}
    most = max((in_rows(found)[1] for found in states.values() if isinstance(found, Request)), default=1)
    height = _height(most)
    lines = [max(_lines(access, layout) for layout in layouts) for access in accesses]
    tall = ROWS_AT + max(n * _height(n) for n in lines) + MARGIN
    controls = [Control("Layout", list(map(str, layouts))), Control("Access", list(map(str, accesses)))]
    where, taken = {}, {}
    for (i, j), found in states.items():
        lying = Matrix(lines[j], AROUND, LEFT, ROWS_AT, PITCH / WORD, _height(lines[j]))
        where[i, j] = _tile(accesses[j], layouts[i], tall, lying)
        taken[i, j] = _served(accesses[j], found, most, height)
    panels = [
        [Layer((), {(): _banks(tall)}), Layer((0, 1), where)],
        [Layer((), {(): frame("What the access takes", most, height)}), Layer((0, 1), taken)],
    ]
    return Player(name, "A tile in shared memory, over the banks, and what an access to it takes", controls, panels)


def _taken(access: TileAccess, layout: TileLayout) -> Request | Violation:
    """Return the request, or why there can be no such request."""
    try:
        return access.laid_out(layout)
    except Violation as violation:
        return violation


def _lines(access: TileAccess, layout: TileLayout) -> int:
    """Return the lines of 128 bytes that the drawn rows take."""
    return -(-access.rows * (access.length + layout.padding) // AROUND)


def _height(rows: int) -> float:
    """Return the height of each of so many rows."""
    return max(4.0, min(14.0, TALL / rows))


def _banks(tall: float) -> Figure:
    sheet = Page(tall, WIDTH, "The tile over the banks")
    sheet.text(MARGIN, ROWS_AT - 9, "row")
    for bank in (0, 8, 16, 24, 31):
        sheet.text(LEFT + PITCH * (bank + 0.5), ROWS_AT - 9, str(bank), "center")
    return sheet.finish("")


def _tile(access: TileAccess, layout: TileLayout, tall: float, lying: Matrix) -> Figure:
    """Draw the rows of the tile by turns in two shades, and over them the words wanted, in their lanes' colours.

    `lying` is shared memory as a matrix of bytes, whose rows go once round the banks.
    """
    pitch = access.length + layout.padding
    wanted = access.words(layout)
    apart = next(n for n in (1, 2, 4, 8, 16, 32) if n * pitch / AROUND * lying.down > 15)
    sheet = Page(tall, WIDTH)
    sheet.text(MARGIN, 2 * LINE, str(layout), weight="bold")
    sheet.text(MARGIN, 3 * LINE - 2, f"rows of {access.length} bytes, {pitch} apart")
    for shade, first in ((PALE, 0), (PALER, 1)):
        rows = range(first, access.rows, 2)
        sheet.boxes([box for row in rows for box in lying.strips(row * pitch, access.length)], shade)
    for row in range(0, access.rows, apart):
        sheet.text(LEFT - 8, ROWS_AT + row * pitch // AROUND * lying.down + 12, str(row), "right")
    of: defaultdict[str, list[int]] = defaultdict(list)
    for word, lanes in wanted.items():
        of[word_colour(lanes)].append(word)
    for colour, words in of.items():
        sheet.boxes([box for first, n in stretches(words) for box in lying.strips(first * WORD, n * WORD)], colour)
    banks = plural(len({word % BANKS for word in wanted}), "bank")
    return sheet.finish(
        f"A tile, {layout}: rows of {access.length} bytes, {pitch} apart. {access}: "
        f"{plural(len(wanted), 'word')} in {banks}."
    )


def _served(access: TileAccess, found: Request | Violation, most: int, height: float) -> Figure:
    sheet = Page(under(most, height), WIDTH)
    sheet.text(MARGIN, ROWS_AT + most * height + 18, "each row: a wavefront, 32 banks")
    sheet.text(MARGIN, ROWS_AT + most * height + 18 + LINE, str(access))
    if isinstance(found, Violation):
        head, note = found.kind, found.detail
        alt = f"No such access is possible: {head}, {note}."
    else:
        head, note = found.cost, f"{found.conflicts} lost to conflicts" if found.conflicts else "no conflict"
        alt = f"{in_words(found)} {note[0].upper()}{note[1:]}."
        draw_request(sheet, found, height)
    sheet.text(MARGIN, 2 * LINE, head, weight="bold")
    sheet.text(MARGIN, 3 * LINE - 2, note)
    return sheet.finish(alt)
