"""Defines tables that read well in a notebook, in a terminal and in plain text, and results that are shown as one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real

from .errors import ArgumentError

NUMBER = re.compile(r"[-+]?(\d[\d,.]*(e[-+]\d+)?|inf|nan) ?%?|–")


@dataclass(frozen=True, repr=False)
class Table:
    """Named columns and rows of cells.

    Integers get thousands separators, other numbers three significant digits, None a dash; a string is
    shown as it is. Columns of numbers, and of strings that are numbers ("67%"), are aligned right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ArgumentError("rows", f"{len(row)} cells, {row!r}", f"{len(self.columns)} cells, as columns")

    def laid_out(self) -> tuple[list[list[str]], list[str]]:
        """Return the cells as text, and for each column "right" or "left"."""
        cells = [[shown(cell) for cell in row] for row in self.rows]
        numeric = [bool(cells) and all(NUMBER.fullmatch(row[i]) for row in cells) for i in range(len(self.columns))]
        return cells, ["right" if right else "left" for right in numeric]

    def __str__(self) -> str:
        cells, sides = self.laid_out()
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        pad = [f"{'>' if side == 'right' else '<'}{width}" for side, width in zip(sides, widths, strict=True)]
        lines = (self.columns, ["─" * width for width in widths], *cells)
        text = ("  ".join(map(format, line, pad)).rstrip() for line in lines)
        return "\n".join(filter(None, [self.title, *text, self.note]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells, sides = self.laid_out()
        style = [f'style="text-align:{side}"' for side in sides]
        head = "".join(f'<th scope="col" {s}>{escape(c)}</th>' for s, c in zip(style, self.columns, strict=True))
        rows = ("".join(f"<td {s}>{escape(c)}</td>" for s, c in zip(style, row, strict=True)) for row in cells)
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return (
            '<div class="pst-scrollable-table-container">'  # the book's theme styles these two classes
            f'<table class="table">{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
            f"{note}</div>"
        )


class Tabular:
    """A result that shows itself as a table, wherever a table would do.

    A dataclass that is one is made with ``repr=False``.
    """

    def table(self) -> Table:
        """Return the table, for its rows and columns."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def shown(cell: object) -> str:
    """Return the text of a cell."""
    if isinstance(cell, bool) or not isinstance(cell, Real):
        return "–" if cell is None else str(cell)
    exponent = f"{cell:.2e}".partition("e")[2]  # empty for infinities and NaN
    if isinstance(cell, Integral) or not exponent or not -5 <= int(exponent) <= 14:
        return f"{cell:,}" if isinstance(cell, Integral) else f"{cell:.3g}"
    return f"{round(cell, 2 - int(exponent)):,.{max(2 - int(exponent), 0)}f}"
