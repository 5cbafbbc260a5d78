"""A player: a warp's requests to memory one after the other, of several kernels side by side and in step."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np

from ptxsim import BANKS, SECTOR
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.simulation import Run

from ..accesses import WORD, Request, plural, requests
from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    PALE,
    Figure,
    Page,
)
from .player import WIDTH, Layer, Player, film
from .requests import served
from .warp import in_words, lane_boxes, lanes_of, stretches, word_colour

PITCH = (WIDTH - 2 * MARGIN) / BANKS
LANES_AT, ROWS_AT = 4 * LINE + 24, 5 * LINE + 13  # pixels from the top


def warp_reads(
    name: str,
    runs: Sequence[Run],
    arrays: Sequence[str] = ("A", "B", "As", "Bs"),
    warp: int = 0,
) -> Player:
    """Draw a warp's requests one after the other, each as rows of 128 bytes.

    A row of a request to global memory is a line of 128 bytes, with its sectors that are fetched; a row of a request
    to shared memory is a wavefront. Kernels keep step along K: one that has fewer requests for a k waits at its last.

    Parameters
    ----------
    name : str
        Of the player.
    runs : sequence of Run
        Simulated with ``trace=[block]``, of problems of one K.
    arrays : sequence of str
        Show requests to these.
    warp : int
        Which warp of the block.

    Raises
    ------
    ArgumentError
        A run holds no trace, or no such request, or the problems' K differ.
    """
    if len({run.K for run in runs}) != 1:
        raise ArgumentError("runs", f"problems of K = {sorted({run.K for run in runs})}", "one or more of the same K")
    asked = [[r for r in requests(run, warp) if r.array in arrays] for run in runs]
    if not all(asked):
        raise ArgumentError("arrays", f"{', '.join(arrays)}, which a kernel does not use", "arrays that each run uses")
    depths = [_depths(run, of) for run, of in zip(runs, asked, strict=True)]
    steps = _in_step(depths)
    rows = max(in_rows(r)[1] for of in asked for r in of)
    height = max(8.0, min(14.0, 256 / rows))
    panels, longest = [], Counter[str]()
    for totals in map(_totals, asked):
        longest |= totals
    places = zip(*(places for _, places in steps), strict=True)
    for run, of, depth, at in zip(runs, asked, depths, places, strict=True):
        pictures = list(_pictures(of, depth, longest, rows, height))
        frames = {(step,): pictures[place] for step, place in enumerate(at)}
        panels.append([Layer((), {(): frame(run.kernel.name, rows, height)}), Layer((0,), frames)])
    names = " and of ".join(run.kernel.name for run in runs)
    labels = [f"k = {k} of {runs[0].K}" for k, _ in steps]
    return film(name, f"What warp {warp} of {names} asks of memory, request by request", labels, panels)


def _depths(run: Run, of: Sequence[Request]) -> list[int]:
    """Return for each request the k that it comes to: of a line that runs for each k or, if fewer times, for each tile.

    None goes back: a late fetch counts as one of the k at which it happens.
    """
    total = Counter((r.line, r.array, r.kind) for r in of)
    done: Counter[tuple] = Counter()
    tiles = -(-run.K // run.kernel.parameters.get("BK", run.K))
    found = []
    for r in of:
        kind = r.line, r.array, r.kind
        parts = run.K if total[kind] % run.K == 0 else tiles
        found.append(done[kind] * parts // total[kind] * (run.K // parts))
        done[kind] += 1
    return list(accumulate(found, max))


def _in_step(depths: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Return for each step its k and the place of each kernel's request."""
    at: list[defaultdict[int, list[int]]] = [defaultdict(list) for _ in depths]
    for places, of in zip(at, depths, strict=True):
        for place, k in enumerate(of):
            places[k].append(place)
    steps, last = [], [0] * len(depths)
    for k in sorted({k for of in depths for k in of}):
        for i in range(max(len(places[k]) for places in at)):
            last = [places[k][i] if i < len(places[k]) else before for places, before in zip(at, last, strict=True)]
            steps.append((k, last))
    return steps


def in_rows(r: Request) -> tuple[list[tuple[int, int, list[int]]], int]:
    """Return each word of a request with its row and its lanes, and how many rows there are."""
    if r.space == "shared":
        words = served(r)
    else:
        of = lanes_of(r.lanes, r.words)
        line = {line: row for row, line in enumerate(dict.fromkeys(word // BANKS for word in of))}
        words = [(line[word // BANKS], word, lanes) for word, lanes in of.items()]
    return words, 1 + max(row for row, _, _ in words)


def frame(title: str, rows: int, height: float) -> Figure:
    """Draw the parts that stand still in pictures of requests with up to so many rows, so many pixels high."""
    bottom = ROWS_AT + rows * height
    sheet = Page(under(rows, height), WIDTH, title)
    for lane in (8, 16, 24, 31):
        sheet.text(MARGIN + PITCH * (lane + 0.5), LANES_AT - 20, str(lane), "center")
    sheet.text(MARGIN, LANES_AT - 20, "lane 0")
    sheet.boxes([(MARGIN, ROWS_AT, WIDTH - 2 * MARGIN, rows * height)], edgecolor=(INK, 0.35), linewidth=0.7)
    sheet.lines(
        [[(x, ROWS_AT), (x, bottom)] for x in (MARGIN + 8 * i * PITCH for i in (1, 2, 3))],
        (INK, 0.35),
        linewidth=0.7,
    )
    return sheet.finish("")


def under(rows: int, height: float) -> float:
    """Return the height of such a picture, with room for text under its rows."""
    return ROWS_AT + rows * height + 4 * LINE


def _pictures(
    of: Sequence[Request],
    depths: Sequence[int],
    longest: Mapping[str, int],
    rows: int,
    height: float,
) -> Iterator[Figure]:
    """Draw each request, and the running totals.

    `longest` says which number is a bar as wide as the picture, the same in all pictures side by side.
    """
    so_far: Counter[str] = Counter()
    for r, k in zip(of, depths, strict=True):
        so_far += _totals([r])
        sheet = Page(under(rows, height), WIDTH)
        sheet.text(MARGIN, 2 * LINE, f"{r.kind} of {r.array}, line {r.line}, k = {k}")
        sheet.text(MARGIN, 3 * LINE - 2, r.cost, weight="bold")
        draw_request(sheet, r, height)
        y = ROWS_AT + rows * height + 18
        row = "a wavefront, 32 banks" if r.space == "shared" else "a line, 4 sectors"
        sheet.text(MARGIN, y, f"each row: {row}")
        for noun in longest:
            y += LINE
            sheet.text(MARGIN, y - 2, f"{plural(so_far[noun], noun[:-1])} so far")
            sheet.boxes([(MARGIN, y + 3, so_far[noun] * (WIDTH - 2 * MARGIN) / longest[noun], 5)], BLUE)
        yield sheet.finish(f"{r.kernel}, k = {k}: {in_words(r)}")


def _totals(of: Sequence[Request]) -> Counter[str]:
    """Return how many sectors and wavefronts some requests need."""
    sectors = sum(r.sectors for r in of if r.space == "global")
    wavefronts = sum(r.wavefronts for r in of if r.space == "shared")
    return +Counter(sectors=sectors, wavefronts=wavefronts)


def draw_request(sheet: Page, r: Request, height: float) -> None:
    """Draw the lanes that take part, and the words they want in rows of 128 bytes."""
    lane_boxes(sheet, LANES_AT, 14, 2, r)
    words, rows = in_rows(r)
    if r.space == "global":
        per_sector = SECTOR // WORD
        row_of = {word // BANKS: row for row, word, _ in words}
        sectors = np.unique([word // per_sector for _, word, _ in words]).tolist()
        sheet.boxes(
            [
                (
                    MARGIN + PITCH * (sector * per_sector % BANKS),
                    ROWS_AT + row_of[sector * per_sector // BANKS] * height,
                    PITCH * per_sector,
                    height,
                )
                for sector in sectors
            ],
            PALE,
        )
    wanted: defaultdict[tuple[int, int, tuple[int, ...]], list[int]] = defaultdict(list)
    for row, word, of in words:
        wanted[row, word // BANKS, tuple(of)].append(word)
    for (row, _, of), mine in wanted.items():
        boxes = [
            (MARGIN + PITCH * (first % BANKS) + 1, ROWS_AT + row * height + 1, PITCH * count - 2, height - 2)
            for first, count in stretches(mine)
        ]
        sheet.boxes(boxes, word_colour(of))
    sheet.boxes([(MARGIN, ROWS_AT, WIDTH - 2 * MARGIN, rows * height)], edgecolor=INK, linewidth=0.8)
