"""Recordings as files: JSON, whole at any time, in ``book/results``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ArgumentError

Parsed = TypeVar("Parsed")


def write(path: str | Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file so that it is at any time either the old or the new one, whole.

    Raises
    ------
    ValueError
        A number is not finite, which JSON cannot hold; the file is left as it was.
    """
    path = Path(path)
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def read(path: Path, made_by: str, parse: Callable[[Any], Parsed]) -> Parsed:
    """Return what `parse` makes of a JSON file that another module has recorded.

    Parameters
    ----------
    path : Path
    made_by : str
        The function that makes such files, for the message.
    parse : callable
        Takes the file's content. What it raises on a missing or strange field means that the file is malformed.

    Raises
    ------
    ArgumentError
        The file is missing or malformed.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError("path", f"{path} ({error!r})", f"a recording that `{made_by}` made") from None
