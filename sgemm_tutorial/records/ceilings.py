"""The recorded ceilings of a GPU."""

from __future__ import annotations

from pathlib import Path

from ..model.ceilings import Ceiling, Ceilings
from ..paths import RESULTS
from . import files

RECORDING = RESULTS / "ceilings.json"


def load(path: Path = RECORDING) -> Ceilings:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed.
    """
    return files.read(
        path,
        "ceilings.record",
        lambda data: Ceilings(data["provenance"], {point["name"]: Ceiling(**point) for point in data["points"]}),
    )
