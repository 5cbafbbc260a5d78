"""Shows a kernel's source file, highlighted by Pygments: in the book, in Jupyter and in a terminal."""

import difflib
from dataclasses import dataclass

import pygments
import pygments.lexers
import rich.syntax
from pygments.formatters import HtmlFormatter

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.paths import KERNELS

# The book's theme and JupyterLab colour Pygments' classes themselves, light and dark, where IPython.display.Code would
# bring fixed light colours. What both lack: room after line numbers, and added and removed lines told apart.
_STYLE = """<style>
div.highlight-cuda div.highlight pre span.linenos { padding: 0 1em 0 0; user-select: none }
div.highlight-diff div.highlight pre .gi { color: var(--pst-color-success, var(--jp-success-color1)) }
div.highlight-diff div.highlight pre .gd { color: var(--pst-color-danger, var(--jp-error-color1)) }
</style>"""


@dataclass(frozen=True, repr=False)
class Source:
    """Source text that every front end shows in its own way.

    Attributes
    ----------
    text : str
        What is shown.
    caption : str
        Where it comes from.
    language : str
        A Pygments lexer: ``"cuda"``, ``"diff"`` or ``"python"``.
    first_line : int or None
        Number of the first line; None for no line numbers.
    """

    text: str
    caption: str
    language: str
    first_line: int | None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        formatter = HtmlFormatter(linenos="inline" if self.first_line else False, linenostart=self.first_line or 1)
        code = pygments.highlight(self.text, pygments.lexers.get_lexer_by_name(self.language, stripnl=False), formatter)
        # The same elements as Sphinx puts round a code block, so that the theme's rules apply.
        return (
            f'{_STYLE}<div class="literal-block-wrapper docutils container"><div class="code-block-caption">'
            f'<span class="caption-text">{self.caption}</span></div>'
            f'<div class="highlight-{self.language} notranslate">{code}</div></div>'
        )

    def rich(self) -> rich.syntax.Syntax:
        """Return the source for a terminal, in the terminal's own colours: ``rich.print(source.rich())``."""
        return rich.syntax.Syntax(
            self.text,
            self.language,
            theme="ansi_dark",
            background_color="default",
            line_numbers=bool(self.first_line),
            start_line=self.first_line or 1,
            word_wrap=True,
        )


def show(
    kernel: Kernel | str, lines: tuple[int, int] | tuple[str, str] | str | None = None, header: str | None = None
) -> Source:
    """Show the kernel's source file, or a header that it includes, as it is now.

    Parameters
    ----------
    kernel : Kernel or str
    lines : (int, int), str or (str, str), optional
        First and last line to show, counted from 1; or what stands in the first line of one statement, which is shown
        to its end, for example ``"for (int k = 0"``; or the same for the first and the last of several statements.
    header : str, optional
        The header to show instead, for example ``"edges.cuh"``.

    Raises
    ------
    ArgumentError
        The file has no such lines or several such statements, or the kernel no such header.
    """
    kernel = find(kernel)
    file, files = header or kernel.path.name, kernel.files
    if file not in files:
        raise ArgumentError("header", repr(header), f"one that {kernel.path.name} includes, of {', '.join(files)}")
    text = files[file].splitlines()
    ends = (lines, lines) if isinstance(lines, str) else lines or (1, len(text))
    first, last = (_statement(text, end, file)[i] if isinstance(end, str) else end for i, end in enumerate(ends))
    if not 1 <= first <= last <= len(text):
        raise ArgumentError("lines", str(lines), f"first and last line within 1 to {len(text)} of {file}")
    own = kernel.folder != KERNELS and (kernel.folder / file).is_file()
    return Source("\n".join(text[first - 1 : last]), file if own else f"kernels/{file}", "cuda", first)


def _statement(text: list[str], begins: str, file: str) -> tuple[int, int]:
    """Return the first and last line of the one statement in whose first line this stands."""
    found = [number for number, line in enumerate(text, start=1) if begins in line]
    if len(found) != 1:
        raise ArgumentError("lines", f"{begins!r}, in {len(found)} lines", f"what stands in one line of {file}")
    depth = 0
    for number, line in enumerate(text[found[0] - 1 :], start=found[0]):
        code = line.partition("//")[0]
        for sign in code if not code.lstrip().startswith("#") else "":
            depth += (sign in "([{") - (sign in ")]}")
            if depth == 0 and sign in ";}":
                return found[0], number
    return found[0], len(text)


def diff(before: Kernel | str, after: Kernel | str) -> Source:
    """Show what changed from one kernel's source file to another's, as a unified diff."""
    before, after = find(before), find(after)
    changes = difflib.unified_diff(
        before.source.splitlines(), after.source.splitlines(), before.path.name, after.path.name, lineterm=""
    )
    return Source("\n".join(changes), f"{before.path.name} → {after.path.name}", "diff", None)
