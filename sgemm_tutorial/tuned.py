"""Looks up the quickest ways to do products with 13 on a GPU, in the reader's own table or in those that are handed in.

A table counts for the GPU of its name, and for the code that it was measured with. Nothing is guessed from it: the
model of `families.autotuned` decides for all other sizes.
"""

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from . import paths
from .kernel import Kernel, state_of

TABLES: list[Path] = []
"""Files of tables besides the reader's own, in the order in which they are asked. Other packages add theirs."""


@dataclass(frozen=True)
class Way:
    """One way to do a product: template arguments, and how the tiles are divided among blocks.

    Attributes
    ----------
    setting : tuple of int
        The template arguments in the source's order.
    whole, shares : int
        Blocks that have a tile each, and blocks that share the others.
    """

    setting: tuple[int, ...]
    whole: int
    shares: int


@dataclass(frozen=True)
class _Found:
    M: int
    N: int
    K: int
    digest: str
    best: Way


@dataclass(frozen=True)
class _Gpu:
    gpu: str


@dataclass(frozen=True)
class _Table:
    """The part of a recording that matters here; its whole form is in `records.tune`."""

    provenance: _Gpu
    points: list[_Found]


def path(gpu: str) -> Path:
    """Return the file of the reader's own table for a GPU of that name."""
    return _path(gpu, os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=8)
def _path(gpu: str, *homes: str | None) -> Path:
    """Return that file. It is remembered as long as the environment's folders stay, as every call of 13 asks."""
    return paths.own() / f"tune-{'-'.join(re.findall('[a-z0-9]+', gpu.casefold()))}.json"


def best(kernel: Kernel, gpu: str, size: tuple[int, int, int]) -> Way | None:
    """Return the quickest way for a size (M, N, K) on a GPU, if it was measured with this kernel's code.

    The reader's own table is asked first.
    """
    for file in (path(gpu), *TABLES):
        found = _read(file, state_of(file)).get((gpu, size))
        if found and found.digest == kernel.digest:
            return found.best
    return None


@lru_cache(maxsize=8)
def _read(file: Path, state: tuple[int, int] | None) -> dict[tuple[str, tuple[int, int, int]], _Found]:
    """Return a table by GPU and size; nothing if it cannot be read, as the model knows a way without it."""
    try:
        table = msgspec.json.decode(file.read_bytes(), type=_Table)
    except (OSError, msgspec.DecodeError):
        return {}
    return {(table.provenance.gpu, (of.M, of.N, of.K)): of for of in table.points}
