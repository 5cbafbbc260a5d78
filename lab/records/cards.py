"""The cards with recordings, and the one that the book shows: each has a folder of its name in ``book/results``."""

import os
import re
from pathlib import Path

from sgemm_tutorial.errors import ArgumentError

from ..paths import RESULTS

SHOWN = "card.txt"
"""The file in ``book/results`` that names the card that the book shows."""
VARIABLE = "SGEMM_TUTORIAL_CARD"
"""The environment variable that names another card, for one process."""

MAKER = {"nvidia", "geforce", "tesla", "quadro"}
MEMORY = re.compile(r"\d+gb|hbm\d\w*")


def slug(gpu: str) -> str:
    """Return the card's name as its folder has it, without maker and memory: "NVIDIA H100 80GB HBM3" → "h100".

    Raises
    ------
    ArgumentError
        Nothing is left.
    """
    words = re.findall(r"[a-z0-9.]+", gpu.casefold())
    kept = [word for word in words if word not in MAKER and not MEMORY.fullmatch(word)]
    if not kept:
        raise ArgumentError("gpu", repr(gpu), "a card's name, such as 'NVIDIA H100 80GB HBM3'")
    return "-".join(kept)


def recorded() -> list[str]:
    """Return the cards that have recordings."""
    return sorted(folder.name for folder in RESULTS.iterdir() if folder.is_dir())


def shown() -> str:
    """Return the card that the book shows.

    Raises
    ------
    ArgumentError
        There are no recordings of it.
    """
    card = os.environ.get(VARIABLE) or (RESULTS / SHOWN).read_text(encoding="utf-8").strip()
    if not card or not (RESULTS / card).is_dir():
        raise ArgumentError(VARIABLE, repr(card), f"one of {', '.join(recorded())}")
    return card


def show(card: str) -> None:
    """Make this the card that the book shows."""
    (RESULTS / SHOWN).write_text(f"{card}\n", encoding="utf-8")


def folder(card: str | None = None) -> Path:
    """Return the folder of a card's recordings; the shown card's unless given."""
    return RESULTS / (card or shown())


def recordings(card: str | None = None) -> list[str]:
    """Return the names of a card's recordings; the shown card's unless given."""
    return sorted(path.stem for path in folder(card).glob("*.json"))


def stand_in(*names: str) -> str:
    """Make sure that the shown card has recordings of these names: if it doesn't, show one that does in this process.

    Returns
    -------
    str
        A line that says so; empty if the shown card has them.

    Raises
    ------
    ArgumentError
        No card has all of them.
    """
    if set(names) <= set(recordings()):
        return ""
    lacking = shown()
    for card in recorded():
        if set(names) <= set(recordings(card)):
            os.environ[VARIABLE] = card
            return f"There is no recording of this of the card {lacking}: what follows is of {card}."
    raise ArgumentError("names", ", ".join(names), f"recordings that one of {', '.join(recorded())} has")
