"""Link every word of the glossary where a page first uses it: ``python -m tools.terms``.

Prose alone counts: no code, no formula, no heading and no link. What is linked already stays as it is written. A page
is its cells in order, so the first use is the one that a reader meets first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat

from .live import BOOK

GLOSSARY = BOOK / "glossary.md"
ROLE = re.compile(r"\{(?P<role>[\w:.-]+)\}`(?P<text>[^`]*)`")
PROTECTED = re.compile(
    r"""
    ^(?P<fence>`{3,}|:{3,}).*?^(?P=fence)[ ]*$  # code, and directives, to their end
    | ^\#.*?$ | ^\(.*?\)=$                      # headings and labels
    | \{[\w:.-]+\}`[^`]*`                       # roles
    | `[^`]*`                                   # code
    | \$\$.*?\$\$ | \$[^$]*\$                   # formulas
    | \[[^\]]*\](?:\([^)]*\)|:)?                # links, and footnotes
    | <[a-zA-Z/!][^>]*>                         # HTML, and not a comparison
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


def terms(text: str) -> dict[str, str]:
    """Return a glossary's terms by each spelling of prose: "warps" is "warp", "BK" is "BM, BN, BK"."""
    found = {}
    for block in re.findall(r"^```\{glossary\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for term in re.findall(r"^(?=\S)(.+)$", block, re.MULTILINE):
            for name in term.split(", "):
                found |= {name: term, name + ("es" if name.endswith(("s", "x", "ch")) else "s"): term}
    return found


def linked(cells: Sequence[str], known: dict[str, str]) -> list[str]:
    """Return a page's texts with each term linked where it is first used.

    Parameters
    ----------
    cells : sequence of str
        The page's Markdown, in order.
    known : dict of str to str
        As `terms` returns.
    """
    done: set[str] = set()
    return ["".join(_linked(cell, known, done)) for cell in cells]


def _linked(text: str, known: dict[str, str], done: set[str]) -> Iterator[str]:
    """Yield the pieces of one text, some of them linked. The terms linked here are added to `done`."""
    spellings = sorted(known, key=len, reverse=True)
    lower = [word for word in spellings if word.islower()]
    first = "|".join(re.escape(word[0].upper() + word[1:]) for word in lower)
    words = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, spellings))}|{first})(?![\w-])")
    start = 0
    for span in [*PROTECTED.finditer(text), None]:
        end = span.start() if span else len(text)
        at = start
        for match in words.finditer(text, start, end):
            word = match[0]
            term = known.get(word) or known[word[0].lower() + word[1:]]
            if term not in done:
                done.add(term)
                yield text[at : match.start()]
                yield f"{{term}}`{word}`" if word == term else f"{{term}}`{word} <{term}>`"
                at = match.end()
        yield text[at:end]
        if span:
            for role in ROLE.finditer(span[0]):
                if role["role"] == "term":
                    done.add(re.sub(r".*<(.*)>$", r"\1", role["text"]))
            yield span[0]
            start = span.end()


Correction = tuple[nbformat.NotebookNode, str]
"""A cell, and the text that it should have."""


def pages(paths: Sequence[Path]) -> Iterator[tuple[Path, nbformat.NotebookNode, list[Correction]]]:
    """Yield each notebook with the corrections of its Markdown."""
    known = terms(GLOSSARY.read_text(encoding="utf-8"))
    for path in paths:
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        texts = linked([cell.source for cell in cells], known)
        yield path, notebook, [of for of in zip(cells, texts, strict=True) if of[0].source != of[1]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Link the terms of the notebooks that are named, or of all, in place."""
    paths = [Path(name) for name in (sys.argv[1:] if arguments is None else arguments)] or sorted(
        [*BOOK.glob("*.ipynb"), *BOOK.glob("deeper/*.ipynb")]
    )
    for path, notebook, corrections in pages(paths):
        for cell, text in corrections:
            cell.source = text
        if corrections:
            nbformat.write(notebook, path)
            print(f"{path.name}: {len(corrections)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
