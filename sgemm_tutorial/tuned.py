"""Looks up the quickest ways to do products with 13 or 22, in the reader's own table or in those that are handed in.

A table counts for the GPU of its name, and for the code that it was measured with. Nothing is guessed from it: the
models of `families.autotuned` and `families.any_shape` decide for all other sizes. The reader's own holds 13 alone.
"""

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from . import paths
from .kernel import Kernel

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
        Of 13, blocks that have a tile each, and blocks that share the others; of 22, tiles that are shared, and
        clusters.
    """

    setting: tuple[int, ...]
    whole: int
    shares: int


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
        if way := _read(file, paths.state_of(file)).get((gpu, *size, kernel.digest)):
            return way
    return None


@lru_cache(maxsize=8)
def _read(file: Path, state: tuple[int, int] | None) -> dict[tuple[str, int, int, int, str], Way]:
    """Return a table by GPU, size and digest; nothing if it cannot be read, as the model knows a way without it.

    A recording holds more; what the search saw besides matters to nobody here.
    """
    try:
        table = msgspec.json.decode(file.read_bytes())
        gpu = table["provenance"]["gpu"]
        return {
            (gpu, of["M"], of["N"], of["K"], of["digest"]): msgspec.convert(of["best"], Way) for of in table["points"]
        }
    except (OSError, msgspec.MsgspecError, LookupError, TypeError):
        return {}
