"""Skeletons of the rungs: a kernel's own file, in which the lines that the reader is to write say TODO instead."""

import re
from collections.abc import Sequence

from ptxsim.cuda_source import blanked
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel

from .beside import Gap, beside, names

GAPS: dict[str, tuple[Gap, ...]] = {name: beside(name).gap for name in names() if beside(name).gap}
"""The gaps of each kernel's skeleton."""


A_LINE = 7  # template parameters with defaults


TODO = re.compile(r"//\s*TODO\b")


def skeleton(kernel: Kernel | str, gaps: Sequence[Gap] | None = None) -> str:
    """Return the source of a rung with gaps for the reader to fill. Its parameters become defaults.

    A kernel whose launch always adds the same amount of shared memory gets a parameter SHARED_BYTES, which says it.

    Parameters
    ----------
    kernel : Kernel or str
    gaps : sequence of Gap, optional
        Other gaps than the rung's own; an empty sequence gives its solution.

    Raises
    ------
    ArgumentError
        There is no skeleton of the kernel, its file cannot be read, or it lacks the lines that a gap names.
    """
    kernel = find(kernel)
    if kernel.name not in GAPS:
        raise ArgumentError("rung", kernel.name, f"one with a skeleton: {', '.join(GAPS)}")
    fixed = kernel.dynamic_shared_bytes and not kernel.family.parameters
    shared = {"SHARED_BYTES": kernel.dynamic_shared_bytes} if fixed else {}
    lines, at = with_defaults(kernel.source, kernel.parameters | shared).splitlines(), 0
    for gap in GAPS[kernel.name] if gaps is None else gaps:
        first = _holding(lines, gap.first, at, kernel)
        last = _holding(lines, gap.last, first, kernel)
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        put = [indent + line for line in gap.put.splitlines()]
        lines[first : last + 1] = put
        at = first + len(put)
    return "\n".join(lines) + "\n"


def _holding(lines: Sequence[str], text: str, start: int, kernel: Kernel) -> int:
    """Return the index of the next line that holds a text."""
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    raise ArgumentError("rung", f"{kernel.path.name} without a line {text!r}", "the file as it was, for its skeleton")


def with_defaults(text: str, values: dict[str, int | str]) -> str:
    """Return a kernel's source whose template parameters have these defaults; those that it lacks are added."""
    start, end = re.search(r"template\s*<([^<>]*)>\s*__global__", blanked(text)).span(1)
    types = {words[-1]: words[0] for words in map(str.split, text[start:end].split(","))}
    declared = [f"{types.get(name, 'int')} {name} = {value}" for name, value in values.items()]
    lines = [", ".join(declared[i : i + A_LINE]) for i in range(0, len(declared), A_LINE)]
    return text[:start] + ",\n          ".join(lines) + text[end:]


def unfinished(kernel: Kernel) -> list[int]:
    """Return the lines of a kernel's file with a comment that begins with TODO, as a skeleton's do."""
    return [number for number, line in enumerate(kernel.source.splitlines(), 1) if TODO.search(line)]
