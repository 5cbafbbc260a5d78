"""Keeps compiled kernels and listings of their machine code on disk, in a cache that all processes share.

An entry's name is the SHA-256 of all that it was made from, so a change makes a new entry. A damaged entry is made
again. Entries lie in ``$XDG_CACHE_HOME/sgemm-tutorial``, else ``~/.cache/sgemm-tutorial``, or where the environment
variable SGEMM_TUTORIAL_CACHE says; if that is empty, nothing is kept. Without a place to keep entries, everything works
all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

VARIABLE = "SGEMM_TUTORIAL_CACHE"
SUFFIX = ".sgemm"  # only such files are ever removed, whatever folder is named
MOST = 256 << 20
"""Bytes that all entries may have; the ones longest unused go first."""


def cached(key: tuple[Any, ...], make: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Return the entry that an earlier call made of this key, in any process, or make it and keep it.

    Parameters
    ----------
    key : tuple of str or of such tuples
        All that the result depends on.
    make : callable
        Called without arguments if need be; what it raises is raised.
    """
    path, found = _place(key), kept(key)
    if found is None:
        found = make()
        if path:
            with contextlib.suppress(OSError):
                _prune(path.parent, _write(path, found))
    return found


def kept(key: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Return the entry of this key, None if there is none."""
    path = _place(key)
    return _read(path) if path else None


def _place(key: tuple[Any, ...]) -> Path | None:
    folder = _folder()
    return folder / (_digest(msgspec.msgpack.encode(key)) + SUFFIX) if folder else None


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(named).expanduser() if named else Path(home).expanduser() / "sgemm-tutorial"
    except RuntimeError:  # there is no home
        return None


def _read(path: Path) -> tuple[str, ...] | None:
    try:
        digest, _, packed = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if digest != _digest(packed).encode():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used just now
    return msgspec.msgpack.decode(zlib.decompress(packed), type=tuple[str, ...])


def _write(path: Path, value: tuple[str, ...]) -> int:
    """Write in one step, so that whoever reads sees the whole entry or none; return its bytes."""
    packed = zlib.compress(msgspec.msgpack.encode(value), 1)  # hardly larger than at 6, in a fourth of the time
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(SUFFIX, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(_digest(packed).encode() + b"\n" + packed)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    return path.stat().st_size


_BYTES: dict[Path, int] = {}
"""The bytes of all entries when this process last looked at a folder, and those it has written there since."""


def _prune(folder: Path, written: int) -> None:
    """Remove the oldest entries of a full folder, which is read at first and when it may be full: that takes time."""
    if folder in _BYTES and _BYTES[folder] + written <= MOST:
        _BYTES[folder] += written
        return
    entries = []
    for entry in os.scandir(folder):
        if entry.name.endswith(SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                entries.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    _BYTES[folder] = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if _BYTES[folder] <= MOST:
            break
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        _BYTES[folder] -= size


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
