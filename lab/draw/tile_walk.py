"""A player: the elements of A, B and C that a thread, a warp or a block fetches, reads and writes, step by step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.simulation import Run

from ..accesses import plural
from ..staged import OPERANDS, Staged, staged
from .figure import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    Figure,
    Page,
)
from .maps import Matrix, side_by_side
from .owners import rectangles
from .player import (
    WIDTH,
    Area,
    Control,
    Layer,
    Player,
    looked_up,
)

WHO, BLOCK, IN_BLOCK, LANE, STEP = range(5)
"""The controls, in their order: of whom, which block, which warp in it, which lane of that, and the step along K."""
GROUPS = ("thread", "warp", "block")
THREAD, WARPS, BLOCKS = range(3)
"""The values of the first control."""
COLOURS = {"A": BLUE, "B": ORANGE, "C": GREEN}
READ, EVER, FAINT = 0.4, 0.2, 0.08
"""The strength of the fill of elements read in this step, of those read in any step, and of the whole block's.

Elements that are read have a full edge, since a pale fill alone would be lost on a dark page."""
TOP, GAP, TALLEST = 3 * LINE + 8, 8, 176
ROWS = 5
"""Rows of the table below a picture."""
AT = {"A": 176, "B": 244, "C": WIDTH - MARGIN}
"""The right edges of its columns."""
LARGEST = 1000
"""Rows and columns: numbers from here on are written with a comma, which SVG would misunderstand."""

Rectangle = tuple[int, int, int, int]
"""Row, column, height and width in elements."""


MOVES = {
    "read A": ("0 {row}",),
    "read B": ("{column} 0",),
    "write C": ("{column} {row}",),
    "fetch A": ("{a column} {a row}",),
    "fetch B": ("{b column} {b row}",),
}
"""The names of the numbers that say how far a thread's share is moved from thread 0's, which has the same shape."""
NO_MOVES: Mapping[str, tuple[str, ...]] = dict.fromkeys(MOVES, ())


@dataclass(frozen=True)
class _Share:
    """The share that some threads have of their block's tiles.

    Attributes
    ----------
    areas : mapping of str to list of (int, int, int, int)
        By action, as in `Staged`: row, column, height and width in elements.
    moves : mapping of str to tuple of str
        By action, how far to move it: nothing, or names of numbers that are looked up.
    """

    areas: Mapping[str, list[Rectangle]]
    moves: Mapping[str, tuple[str, ...]]

    def fill(self, matrix: Matrix, what: str, colour: str, strength: float, *moves: str) -> str:
        """Return SVG that fills it in a tile, or in a matrix, where that tile is moved to its place."""
        return _fill(matrix, self.areas[what], colour, strength, *moves, *self.moves[what])


def tile_walk(name: str, run: Run, who: str = "thread", to_scale: bool = False) -> Player:
    """Draw which elements a thread, a warp or a block fetches for shared memory, reads from there and writes at last.

    On the left are the matrices, with the tiles of a step among those that a block walks along; on the right these
    tiles, enlarged. All of it was recorded in a simulated run.

    Parameters
    ----------
    name : str
        Of the player.
    run : Run
        Of a kernel that stages tiles of A and B in shared memory, with all blocks traced; of sizes that its tiles
        divide, below 1,000.
    who : str
        Whose share to show at first: that of a "thread", "warp" or "block".
    to_scale : bool
        Draw an element as wide as high. Otherwise K is drawn shorter or longer than it is, which shows more of a tile
        that is far from square.

    Raises
    ------
    ArgumentError
        The run is of another kind, blocks or steps differ, or threads do unequal shares; or `who` is nobody.
    """
    (M, N), K = run.C.shape, run.K
    if max(M, N, K) >= LARGEST:
        raise ArgumentError("run", f"M, N, K = {M}, {N}, {K}", f"sizes below {LARGEST:,}")
    if who not in GROUPS:
        raise ArgumentError("who", repr(who), f"one of {', '.join(map(repr, GROUPS))}")
    walk = _Walk(run, staged(run), to_scale)
    controls = [
        Control("Show", [f"a {group}" for group in GROUPS], start=GROUPS.index(who)),
        Control("Block", list(map(str, range(walk.blocks))), "range"),
        Control("Warp", list(map(str, range(walk.warps))), "range", walk.warps // 2),
        Control("Lane", list(map(str, range(WARP))), "range", WARP // 2 + 5),
        Control("Step", [f"step {i + 1} of {walk.steps}" for i in range(walk.steps)], "step", 1),
    ]
    title = f"What a thread, a warp and a block of {run.kernel.name} fetch, read and write, step by step along K"
    shapes, tables = walk.looked_up()
    return Player(name, title, controls, walk.panels(shapes), looked_up(*tables), areas=walk.areas())


class _Walk:
    """A run, and where to draw what."""

    def __init__(self, run: Run, found: Staged, to_scale: bool) -> None:
        self.kernel, self.found = run.kernel.name, found
        self.steps = len(found.fetched_in)
        self.sliced = not found.elements["read A"][:WARP].any(axis=(0, 1)).all()
        """Whether a warp reads a part of a step's depth only."""
        self.threads, self.BM, self.BN = found.elements["write C"].shape
        self.BK = found.elements["read B"].shape[1]
        self.warps, self.blocks = -(-self.threads // WARP), len(found.origins)
        (self.M, self.N), self.K = run.C.shape, run.K
        self.whole = _places(self.M, self.N, self.K, 0 if to_scale else 96)
        self.tiles = _places(self.BM, self.BN, self.BK, 0 if to_scale else min(max(3 * self.BK, 64), 128))
        self.below = LINE + max(C.y + C.whole[3] for *_, C in (self.whole, self.tiles))
        self.tall = round(self.below + ROWS * LINE)

    def areas(self) -> list[Area]:
        """Return where a pointer picks a block, and where a warp and a lane."""
        blocks = np.empty((self.M // self.BM, self.N // self.BN), int)
        for block, (row, column) in enumerate(self.found.origins):
            blocks[row // self.BM, column // self.BN] = block
        owner = self.found.elements["write C"].argmax(axis=0)
        down, across = map(_spacing, (owner, owner.T))
        return [
            Area(0, self.whole[-1].whole, [BLOCK], blocks.tolist()),
            Area(1, self.tiles[-1].whole, [IN_BLOCK, LANE], owner[::down, ::across].tolist()),
        ]

    def looked_up(self) -> tuple[list[_Share], list]:
        """Return the shapes that threads' shares have, and tables of numbers by controls."""
        counts = {(who, i): self.counts(who, i) for who in (THREAD, WARPS, BLOCKS) for i in range(self.steps)}
        shares, of_thread = [], {}
        for thread in range(self.threads):
            share, at = _at_corner(self.areas_of(slice(thread, thread + 1)))
            if share not in shares:
                shares.append(share)
            of_thread[divmod(thread, WARP)] = {"shape": shares.index(share), "thread": thread} | at
        of_block = {
            (i,): {"block": i, "block row": row, "block column": column}
            for i, (row, column) in enumerate(self.found.origins)
        }
        of_step = {
            (i,): {"k": i * self.BK, "last k": (i + 1) * self.BK - 1, "step": i + 1} | self.fetched(i)
            for i in range(self.steps)
        }
        tables = [
            ((IN_BLOCK, LANE), of_thread),
            ((IN_BLOCK,), {(i,): {"warp": i} for i in range(self.warps)}),
            ((LANE,), {(i,): {"lane": i} for i in range(WARP)}),
            ((BLOCK,), of_block),
            ((STEP,), of_step),
            ((WHO, STEP), counts),
        ]
        if self.sliced:
            tables.append(((WHO, IN_BLOCK, STEP), self.slices()))
        return shares, tables

    def slices(self) -> dict[tuple[int, int, int], dict[str, int]]:
        """Return the first and the last k that a thread, a warp or a block reads in a step."""
        depths = np.array_split(self.found.elements["read A"].any(axis=1), self.warps)
        of_warp = [np.flatnonzero(each.any(axis=0))[[0, -1]].tolist() for each in depths]
        return {
            (who, warp, i): {"read k": i * self.BK + first, "last read k": i * self.BK + last}
            for who in (THREAD, WARPS, BLOCKS)
            for warp, ends in enumerate(of_warp)
            for first, last in [ends if who < BLOCKS else (0, self.BK - 1)]
            for i in range(self.steps)
        }

    def fetched(self, step: int) -> dict[str, str]:
        """Say which k a block fetches in a step, in short and in words."""
        tiles = self.found.fetched_in[step]
        if not tiles:
            return {"span": "nothing", "fetched k": "nothing"}
        first, last = tiles[0] * self.BK, (tiles[-1] + 1) * self.BK - 1
        return {"span": f"{first}–{last}", "fetched k": f"k = {first} to {last}"}

    def counts(self, who: int, step: int) -> dict[str, int | str]:
        """Return how many elements a thread, a warp or a block fetches and reads in a step and up to it, and writes."""
        group = self.together(who)
        numbers: dict[str, int | str] = {"writes": _equal(self.found.elements["write C"], group, who)}
        tiles = [len(fetched) for fetched in self.found.fetched_in]
        for m in OPERANDS:
            letter = m.lower()
            fetches = _equal(self.found.elements[f"fetch {m}"], group, who)
            reads = [_equal(of, group, who) for of in self.found.reads[m][: step + 1]]
            different = int(self.found.elements[f"read {m}"][:group].any(axis=0).sum())
            numbers |= {
                f"fetches {letter}": fetches * tiles[step],
                f"fetched {letter}": fetches * sum(tiles[: step + 1]),
                f"reads {letter}": different,
                f"times {letter}": f"{reads[-1] / different:.4g}",
                f"read {letter}": sum(reads),
            }
        return numbers

    def together(self, who: int) -> int:
        """Return how many threads there are to a thread, a warp or a block."""
        return (1, WARP, self.threads)[who]

    def areas_of(self, threads: slice) -> dict[str, list[Rectangle]]:
        """Return the rectangles of some threads, by action."""
        return {
            what: [area for area, there in rectangles(of[threads].any(axis=0)) if there]
            for what, of in self.found.elements.items()
        }

    def panels(self, shapes: Sequence[_Share]) -> list[list[Layer]]:
        """Return both pictures, as layers: the fixed parts, the shares, the fetches of a step, and the numbers."""
        slices = {(WARPS, i): slice(WARP * i, WARP * (i + 1)) for i in range(self.warps)}
        groups = (
            ((WHO, "shape"), {(THREAD, i): share for i, share in enumerate(shapes)}),
            ((WHO, IN_BLOCK), {key: _Share(self.areas_of(threads), NO_MOVES) for key, threads in slices.items()}),
            ((WHO,), {(BLOCKS,): _Share(self.areas_of(slice(None)), NO_MOVES)}),
        )
        left, right = [Layer((), {(): self.matrices()})], [Layer((), {(): self.tiles_of_step()})]
        steps = [(i, tiles) for i, tiles in enumerate(self.found.fetched_in) if tiles]
        for on, shares in groups:
            left.append(Layer(on, {key: self.in_matrices(share) for key, share in shares.items()}))
            right.append(Layer(on, {key: self.in_tiles(share) for key, share in shares.items()}))
            fetched = {(*key, i): self.fetched_of(share, tiles) for key, share in shares.items() for i, tiles in steps}
            left.append(Layer((*on, STEP), fetched))
            fetched = {(*key, i): self.fetched_here(share) for key, share in shares.items() for i, _ in steps}
            right.append(Layer((*on, STEP), fetched))
        left.append(Layer((WHO,), {(who,): self.so_far(who) for who in (THREAD, WARPS, BLOCKS)}))
        right.append(Layer((WHO,), {(who,): self.now(who) for who in (THREAD, WARPS, BLOCKS)}))
        return [left, right]

    def matrices(self) -> Figure:
        """Draw the matrices, cut into tiles, and faintly the parts that the block needs."""
        A, B, C = self.whole
        sheet = Page(self.tall, WIDTH, self.kernel)
        sheet.text(MARGIN, 2 * LINE, f"C is {self.M} × {self.N}, K = {self.K};")
        sheet.text(MARGIN, 3 * LINE - 4, f"tiles of {self.BM} × {self.BN}, {self.BK} deep")
        for matrix, tile in zip((A, B, C), self.tiles, strict=True):
            sheet.lines(matrix.grid(tile.rows, tile.columns), (INK, 0.35), linewidth=0.7)
        _frames(sheet, A, B, C)
        drawn = sheet.finish(
            f"{self.kernel}: A, B and C, cut into tiles of {self.BM} × {self.BN} of C, {self.BK} deep."
        )
        block = _fill(A, [(0, 0, self.BM, self.K)], INK, FAINT, "0 {block row}")
        block += _fill(B, [(0, 0, self.K, self.BN)], INK, FAINT, "{block column} 0")
        block += _fill(C, [(0, 0, self.BM, self.BN)], INK, FAINT, "{block column} {block row}")
        return replace(drawn, body=block + drawn.body)

    def tiles_of_step(self) -> Figure:
        """Draw the frames of the tiles."""
        sheet = Page(self.tall, WIDTH, "The tiles of this step")
        _frames(sheet, *self.tiles)
        return sheet.finish("The tiles of this step.")

    def in_matrices(self, share: _Share) -> Figure:
        """Draw the elements read in any step, those read in this one, and those written."""
        A, B, C = self.whole
        rows = [(row, 0, height, self.K) for row, _, height, _ in share.areas["read A"]]
        columns = [(0, column, self.K, width) for _, column, _, width in share.areas["read B"]]
        return self.drawn(
            _fill(A, rows, BLUE, EVER, "0 {block row}", *share.moves["read A"]),
            _fill(B, columns, ORANGE, EVER, "{block column} 0", *share.moves["read B"]),
            share.fill(A, "read A", BLUE, READ, "{k} {block row}"),
            share.fill(B, "read B", ORANGE, READ, "{block column} {k}"),
            share.fill(C, "write C", GREEN, 1, "{block column} {block row}"),
        )

    def fetched_of(self, share: _Share, tiles: Sequence[int]) -> Figure:
        """Draw the elements fetched from some tiles along K."""
        A, B, _ = self.whole
        of_A = [(row, k + tile * self.BK, *size) for tile in tiles for row, k, *size in share.areas["fetch A"]]
        of_B = [(k + tile * self.BK, column, *size) for tile in tiles for k, column, *size in share.areas["fetch B"]]
        return self.drawn(
            _fill(A, of_A, BLUE, 1, "0 {block row}", *share.moves["fetch A"]),
            _fill(B, of_B, ORANGE, 1, "{block column} 0", *share.moves["fetch B"]),
        )

    def in_tiles(self, share: _Share) -> Figure:
        """Draw the elements read from the tiles, and those written."""
        A, B, C = self.tiles
        return self.drawn(
            share.fill(A, "read A", BLUE, READ),
            share.fill(B, "read B", ORANGE, READ),
            share.fill(C, "write C", GREEN, 1),
        )

    def fetched_here(self, share: _Share) -> Figure:
        """Draw the elements fetched, at their places in a tile."""
        A, B, _ = self.tiles
        return self.drawn(share.fill(A, "fetch A", BLUE, 1), share.fill(B, "fetch B", ORANGE, 1))

    def drawn(self, *body: str) -> Figure:
        return Figure("", WIDTH, self.tall, "".join(body))

    def so_far(self, who: int) -> Figure:
        """Write the totals up to this step."""
        one = ("Thread {thread} of block {block}", "Warp {warp} of block {block}", "Block {block}")[who]
        rows = (("fetched", 1, "AB", "fetched"), ("read", READ, "AB", "read"))
        sheet = Page(self.tall, WIDTH)
        self.table(sheet, "Up to here", "AB", rows)
        return sheet.finish(
            f"{one}, step {{step}} of {self.steps}: up to here it has fetched {{fetched a}} elements of A and "
            "{fetched b} of B, and read A {read a} times and B {read b} times from shared memory."
        )

    def now(self, who: int) -> Figure:
        """Write the share's owner and the numbers of this step."""
        one = ("Thread {thread}: warp {warp}, lane {lane}", "Warp {warp}", "Block {block}")[who]
        many = "" if who == THREAD else f": {plural(self.together(who), 'thread')}"
        first, last = ("{read k}", "{last read k}") if self.sliced else ("{k}", "{last k}")
        rows = (
            ("fetches", 1, "AB", "fetches"),
            ("reads", READ, "AB", "reads"),
            ("times each", 0, "AB", "times"),
            ("writes at last", 1, "C", "writes"),
        )
        sheet = Page(self.tall, WIDTH)
        sheet.text(MARGIN, 2 * LINE, one + many, weight="bold")
        sheet.text(MARGIN, 3 * LINE - 4, f"k: reads {first}–{last}, fetches {{span}}")
        self.table(sheet, "In this step", "ABC", rows)
        return sheet.finish(
            f"{one}{many}. It reads k = {first} to {last}: {{reads a}} elements of A, each {{times a}} ×, "
            "and {reads b} of B, each {times b} ×. It fetches {fetched k}: {fetches a} of A and {fetches b} of B. "
            "In the end it writes {writes} of C."
        )

    def table(self, sheet: Page, title: str, columns: str, rows: Sequence[tuple[str, float, str, str]]) -> None:
        """Write numbers in named columns; a row has a name, a shade, its columns and the name of its numbers."""
        sheet.text(MARGIN, self.below, title, weight="bold")
        for m in columns:
            sheet.text(AT[m], self.below, f"of {m}", "right")
        for i, (what, shade, of, number) in enumerate(rows, 1):
            y = self.below + i * LINE
            for j, m in enumerate(of if shade else ""):
                sheet.boxes([(MARGIN + 13 * j, y - 11, 11, 11)], (COLOURS[m], shade), edgecolor=COLOURS[m])
            sheet.text(MARGIN + 32, y, what)
            for m in of:
                name = number if of == "C" else f"{number} {m.lower()}"
                sheet.text(AT[m], y, f"{{{name}}}", "right")


def _places(rows: int, columns: int, depth: int, deep: float) -> tuple[Matrix, Matrix, Matrix]:
    """Return where A, B and C are: A to the left of C, B above it, so many pixels deep, or to scale if 0."""
    cell = min((WIDTH - 2 * MARGIN - GAP - deep - 18) / (columns if deep else columns + depth), TALLEST / rows)
    return side_by_side(rows, columns, depth, MARGIN, TOP, cell, deep or depth * cell, GAP)


def _fill(matrix: Matrix, areas: Sequence[Rectangle], colour: str, strength: float, *moves: str) -> str:
    """Return SVG that fills areas, moved by each "columns rows"; these may be names of computed numbers."""
    path = "".join(f"M{column} {row}h{width}v{height}h-{width}z" for row, column, height, width in areas)
    where = f"translate({matrix.x:.5g} {matrix.y:.5g}) scale({matrix.across:.5g} {matrix.down:.5g})"
    moved = "".join(f" translate({move})" for move in moves)
    edge = f' stroke="{colour}" vector-effect="non-scaling-stroke"' if FAINT < strength < 1 else ""
    return f'<path fill="{colour}" fill-opacity="{strength:g}"{edge} transform="{where}{moved}" d="{path}"/>'


def _frames(sheet: Page, A: Matrix, B: Matrix, C: Matrix) -> None:
    """Draw the frames of A, B and C, and their names."""
    sheet.boxes([A.whole, B.whole, C.whole], edgecolor=INK, linewidth=0.8)
    sheet.text(A.x, A.y - 6, "A", weight="bold")
    sheet.text(B.x - 6, B.y + 14, "B", align="right", weight="bold")
    x, y, width, _ = C.whole
    sheet.text(x + width + 4, y + 14, "C", weight="bold")


def _at_corner(areas: Mapping[str, list[Rectangle]]) -> tuple[_Share, dict[str, int]]:
    """Return a thread's share as if it lay in the corners of the tiles, and by what to move it to its place."""
    cornered = ("write C", "fetch A", "fetch B")
    corner = {what: [min(area[axis] for area in areas[what]) for axis in (0, 1)] for what in cornered}
    row, column = corner["write C"]
    corner |= {"read A": (row, 0), "read B": (0, column)}
    at = {"row": row, "column": column}
    for m, letter in zip(OPERANDS, "ab", strict=True):
        at[f"{letter} row"], at[f"{letter} column"] = corner[f"fetch {m}"]
    moved = {
        what: [(top - corner[what][0], left - corner[what][1], *size) for top, left, *size in of]
        for what, of in areas.items()
    }
    return _Share(moved, MOVES), at


def _spacing(rows: np.ndarray) -> int:
    """Return of how many rows each stretch of equal ones is a multiple."""
    return math.gcd(len(rows), *(np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1).tolist())


def _equal(tiles: np.ndarray, threads: int, who: int) -> int:
    """Return how much each group of threads has, if all have as much."""
    numbers = tiles.reshape(len(tiles) // threads, -1).sum(axis=1, dtype=int)
    if (numbers != numbers[0]).any():
        raise ArgumentError("run", f"{GROUPS[who]}s with unequal shares", "equal shares")
    return int(numbers[0])
