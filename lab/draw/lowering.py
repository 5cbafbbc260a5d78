"""A player: the PTX and the machine code of a kernel's lines, and the work that each line does when it runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from ptxsim import Counts, ptx
from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run

from ..accesses import plural
from ..model.sass import hot_loop, sass
from .figure import (
    BLUE,
    GREEN,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    PINK,
    TITLE,
    Figure,
    Page,
)
from .player import WIDTH, Layer, Pick, Player, film

ROW, CODE = 17, 12
"""Pixels from one row of code to the next, and the size of its letters."""
LETTER = 7.3
"""The width of such a letter in pixels."""
TEXT_AT = MARGIN + 24
"""Pixels before the code, for its line's number and colour."""
LETTERS = 37
"""The most letters in a row."""
FIRST, LAST = 10, 5
"""The number of rows of a long listing that are shown at its beginning and at its end."""
COLOURS = (PINK, BLUE, ORANGE, GREEN)


@dataclass(frozen=True)
class _Row:
    """A row of code.

    Attributes
    ----------
    line : int
        Of the source; 0 for none.
    text : str
    y : float
        Of its baseline.
    times : int
        How many instructions it stands for.
    indent : float
        In pixels.
    goes_on : bool
        Whether the row before is of the same text.
    """

    line: int
    text: str
    y: float
    times: int = 1
    indent: float = 0
    goes_on: bool = False


@dataclass(frozen=True)
class _Listing:
    """PTX or machine code of the hot loop.

    Attributes
    ----------
    name : str
    top : float
        Pixels from the top to where it begins.
    lines : sequence of int
        The line of each instruction.
    rows : sequence of _Row
    """

    name: str
    top: float
    lines: Sequence[int]
    rows: Sequence[_Row]

    def share(self, line: int) -> str:
        """Say how many of the instructions are of a line."""
        return f"{self.lines.count(line)} of the loop's {len(self.lines)} instructions"


def lowering(name: str, run: Run, lines: tuple[int, int], line: int) -> Player:
    """Draw lines of a kernel's source, and beside them the PTX and the machine code of its hot loop.

    Parameters
    ----------
    name : str
        Of the player.
    run : Run
        A simulated run, which has the counts of each line.
    lines : (int, int)
        The first and the last line of the source to show.
    line : int
        The line that is chosen at first.

    Raises
    ------
    ArgumentError
        The hot loop is not a single basic block in PTX, or the compiler makes nothing of `line`.
    """
    kernel = run.kernel
    binary = kernel.build(ARCHITECTURE)
    program = ptx.parse(binary.ptx, binary.entry, kernel.dynamic_shared_bytes)
    made = {of.line for block in program.blocks for of in block}
    steps = [number for number in range(lines[0], lines[1] + 1) if number in made]
    if line not in steps:
        raise ArgumentError("line", str(line), f"one that something is made of: {', '.join(map(str, steps))}")
    source = list(_source(kernel, *lines))
    block = [(of.line, of.opcode, of.text) for of in _ptx_loop(kernel.name, program)]
    code = [(of.line * (of.file == kernel.path.name), of.opcode, of.text) for of in hot_loop(sass(kernel))]
    upper = _listing("PTX", block, MARGIN)
    lower = _listing(f"SASS for {ARCHITECTURE}", code, upper.rows[-1].y + LINE)
    colours = dict(zip(sorted({number for number, *_ in block}), COLOURS * len(block), strict=False))
    height = max(lower.rows[-1].y, source[-1].y + 7 * LINE) + 2 * MARGIN

    left, right = Page(height, WIDTH, kernel.name), Page(height, WIDTH)
    _write(left, source, colours)
    for listing in (upper, lower):
        right.text(MARGIN, listing.top + LINE - 8, listing.name, size=TITLE, weight="bold")
        _write(right, listing.rows, colours)

    def chosen(number: int) -> tuple[Figure, Figure]:
        texts = _counted(run.lines.get(number, Counts()))
        M, N = run.C.shape
        marked, made_of_it = Page(height, WIDTH), Page(height, WIDTH)
        _mark(marked, source, number)
        y = source[-1].y + 2 * LINE
        marked.text(MARGIN, y, f"Line {number} in C of {M} × {N}, K = {run.K}:", weight="bold")
        for i, text in enumerate(texts, 1):
            marked.text(MARGIN, y + i * (LINE - 2), text)
        for listing in (upper, lower):
            _mark(made_of_it, listing.rows, number)
            made_of_it.text(MARGIN, listing.top + 2 * LINE - 10, listing.share(number))
        words = " ".join(row.text for row in source if row.line == number)
        shares = "; ".join(f"{listing.name}: {listing.share(number)}" for listing in (upper, lower))
        return (
            marked.finish(f"Line {number}, {words} {', '.join(texts)}."),
            made_of_it.finish(f"Line {number} in {shares}."),
        )

    pictures = [chosen(number) for number in steps]
    return film(
        name,
        f"What becomes of the lines of {kernel.name}, in PTX and in machine code",
        [f"line {number}" for number in steps],
        [
            [Layer((0,), {(i,): of for i, (of, _) in enumerate(pictures)}), Layer((), {(): left.finish("")})],
            [Layer((0,), {(i,): of for i, (_, of) in enumerate(pictures)}), Layer((), {(): right.finish("")})],
        ],
        steps.index(line),
        [_pick(0, source, steps), _pick(1, [*upper.rows, *lower.rows], steps)],
    )


def _ptx_loop(name: str, program: ptx.Program) -> list[ptx.Instruction]:
    """Return the loop of one basic block that has the most multiply-adds."""
    loops = [
        block
        for i, block in enumerate(program.blocks)
        if block[-1].opcode.startswith("bra") and program.targets[block[-1].operands[-1].name] == i
    ]
    if not loops:
        raise ArgumentError("run", name, "a kernel with a loop of one basic block in PTX")
    return max(loops, key=lambda block: sum(of.opcode.startswith("fma.") for of in block))


def _source(kernel: Kernel, first: int, last: int) -> Iterator[_Row]:
    """Yield lines without their comments, on rows as wide as the picture, indented half as far."""
    lines = [text.partition("//")[0].rstrip() for text in kernel.source.splitlines()[first - 1 : last]]
    least = min(len(text) - len(text.lstrip()) for text in lines if text)
    y = MARGIN + 2.0 * LINE
    for number, text in enumerate(lines, first):
        indent = max(len(text) - len(text.lstrip()) - least, 0) // 2
        for i, part in enumerate(wrap(text.strip(), LETTERS - indent - 2)):
            yield _Row(number, part, y, indent=LETTER * (indent + 2 * (i > 0)), goes_on=i > 0)
            y += ROW


def _listing(name: str, code: Sequence[tuple[int, str, str]], top: float) -> _Listing:
    """Return a listing with a row for consecutive instructions of one line and opcode, the middle left out if long."""
    runs = [list(run) for _, run in groupby(code, key=lambda of: of[:2])]
    parts = [(run[0][0], _short(run[0][2], LETTERS - 4 * (len(run) > 1)), len(run)) for run in runs]
    if len(parts) > 2 * (FIRST + LAST):
        left_out = sum(times for *_, times in parts[FIRST:-LAST])
        parts[FIRST:-LAST] = [(0, f"… {left_out} more", 1)]
    y = top + 2 * LINE + 10
    rows = [_Row(line, text, y + ROW * i, times) for i, (line, text, times) in enumerate(parts)]
    return _Listing(name, top, [line for line, *_ in code], rows)


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _write(sheet: Page, rows: Sequence[_Row], colours: dict[int, str]) -> None:
    """Write rows of code, with their lines' numbers and colours."""
    for row in rows:
        if row.line and not row.goes_on:
            sheet.text(TEXT_AT - 8, row.y, str(row.line), "right", size=CODE, family="monospace")
        if row.line in colours:
            sheet.boxes([(TEXT_AT - 6, row.y - 11, 3, 14)], colours[row.line])
        sheet.text(TEXT_AT + row.indent, row.y, row.text, size=CODE, family="monospace")
        if row.times > 1:
            sheet.text(WIDTH - MARGIN, row.y, f"×{row.times}", "right", CODE, weight="bold")


def _mark(sheet: Page, rows: Sequence[_Row], line: int) -> None:
    left, right = TEXT_AT - 2, WIDTH - MARGIN + 2
    sheet.boxes([(left, row.y - 13, right - left, ROW) for row in rows if row.line == line], PALE)


def _pick(panel: int, rows: Sequence[_Row], steps: Sequence[int]) -> Pick:
    return Pick(panel, 0, "y", [(row.y - 5, steps.index(row.line)) for row in rows if row.line in steps])


def _counted(of: Counts) -> list[str]:
    """Say in words what a line did, over all warps."""
    said = [plural(of.instructions, "instruction") + " of PTX, counted by warp"]
    if of.by_class["fma"]:
        said.append(plural(of.by_class["fma"], "multiply-add") + " of a warp")
    for space, cost in (("global", "sector"), ("shared", "wavefront")):
        for kind in ("load", "store"):
            if requests := getattr(of, f"{space}_{kind}_requests"):
                needed = getattr(of, f"{space}_{kind}_{cost}s")
                said.append(f"{plural(requests, f'{space} {kind}')}: {plural(needed, cost)}")
    return said
