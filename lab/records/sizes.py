"""Sizes of problems, as a command line and a notebook name them."""

import re
from collections.abc import Sequence
from numbers import Integral

from sgemm_tutorial import operands
from sgemm_tutorial.errors import ArgumentError

MOST_SIZES = 10_000

Size = tuple[int, int, int]
"""M, N and K."""


def parse_sizes(text: str, least: int = 1) -> tuple[Size, ...]:
    """Return the sizes that a text like ``"512"``, ``"256:4096:128"`` or ``"512,300x200x100"`` names.

    Parameters
    ----------
    text : str
        Items between commas: N for a square problem, MxNxK, or first:last:step for squares, with the
        last included.
    least : int
        The smallest size allowed.

    Raises
    ------
    ArgumentError
        Anything else, or a size below `least` or past what the kernels take.
    """
    needs = f"N, MxNxK or first:last:step, between commas, {least} or more each"
    sizes: list[Size] = []
    for item in text.split(","):
        item = item.strip()
        if match := re.fullmatch(r"(\d{1,10})(?:x(\d{1,10})x(\d{1,10}))?", item, re.ASCII):
            M, N, K = (int(part or match[1]) for part in match.groups())
            sizes.append((M, N, K))
        elif match := re.fullmatch(r"(\d{1,10}):(\d{1,10}):0*([1-9]\d{0,9})", item, re.ASCII):
            first, last, step = map(int, match.groups())
            if first > last or (last - first) // step >= MOST_SIZES:
                raise ArgumentError("sizes", repr(item), f"first ≤ last and at most {MOST_SIZES} sizes")
            sizes += [(size, size, size) for size in range(first, last + 1, step)]
        else:
            raise ArgumentError("sizes", repr(item), needs)
    for size in sizes:
        if not least <= min(size) <= max(size) <= operands.INT_MAX:
            raise ArgumentError("sizes", "x".join(map(str, size)), needs)
    return tuple(sizes)


def sizes_of(sizes: int | Sequence[int | Size]) -> list[Size]:
    """Return sizes as (M, N, K), each once.

    Raises
    ------
    ArgumentError
        There is none, or one is no int and no three of them, or below 1.
    """
    listed = [sizes] if isinstance(sizes, Integral) else list(sizes)
    full = [(size,) * 3 if isinstance(size, Integral) else tuple(size) for size in listed]
    for size in full:
        whole = all(isinstance(extent, Integral) and not isinstance(extent, bool) for extent in size)
        if len(size) != 3 or not whole or not 1 <= min(size) <= max(size) <= operands.INT_MAX:
            raise ArgumentError("sizes", repr(size), "an int or (M, N, K), each 1 or more")
    if not full:
        raise ArgumentError("sizes", repr(sizes), "one or more sizes")
    return list(dict.fromkeys(tuple(map(int, size)) for size in full))


def times_of(size: Size) -> str:
    """Return "M×N×K"."""
    return "×".join(map(str, size))
