"""Finds the kernels, in the checkout or within the package where a wheel has put them, and tells when files change."""

import contextlib
import ctypes
import os
import select
import sys
import threading
import time
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from .errors import ArgumentError

FRESH = 0.1
"""Seconds after a change for which a file's time may not show the next one: file systems round it."""


def folder(module: Path, installed: str, in_checkout: str) -> Path:
    """Return a folder of data: the one beside a package's module, or else the checkout's."""
    package = module.resolve().parent
    inside = package / installed
    return inside if inside.is_dir() else package.parent / in_checkout


def own() -> Path:
    """Return the folder for what the reader has measured: ``~/.local/share/sgemm-tutorial``, or in $XDG_DATA_HOME."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "sgemm-tutorial"


KERNELS = folder(Path(__file__), "kernels", "kernels")


def read(path: Path) -> str:
    """Return the text of a CUDA file, without the mark that some editors begin with.

    Raises
    ------
    ArgumentError
        It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError("path", f"{path}, which cannot be read ({error})", "a CUDA file") from None


def state_of(path: Path) -> tuple[int, int] | None:
    """Return when a file was last written, in ns, and its size; None where there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class Files:
    """Files as they were when this was made, to ask later whether they still are.

    A file system takes about 2 µs to say how one file is. Linux's inotify says as quickly that nothing has happened to
    any of them, so files are looked at again only when something has, in their folders or to these.
    """

    def __init__(self, paths: Collection[Path]) -> None:
        self._looked = _watch().stamp(), _watch().unseen(paths)
        self._states = {path: state_of(path) for path in paths}

    @property
    def settled(self) -> bool:
        """Whether all were written so long ago that another change would show."""
        return all(state is None or time.time() - state[0] / 1e9 > FRESH for state in self._states.values())

    def same(self) -> bool:
        """Whether they are as they were."""
        stamp, (before, unseen) = _watch().stamp(), self._looked
        paths: Collection[Path] = unseen
        if stamp is not before:
            paths, unseen = self._states, _watch().unseen(self._states)  # before a look, so that no change is missed
        same = all(state_of(path) == self._states[path] for path in paths)
        if same:
            self._looked = stamp, unseen
        return same


GONE, CHANGED, ADDED = 0xC00, 0xFCE, 0x20000000
"""Events of inotify: that a folder was deleted or moved; that, or any change to a file or to a folder's list of them;
and that a call's events come on top of those that were asked for before."""
LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1, 0xF2F52010}
"""File systems, as statfs knows them, that only this computer writes to: ext, XFS, Btrfs, tmpfs, overlays, ZFS, F2FS.
On a network's inotify does not tell what other computers do."""
EVENTS = 1 << 16  # bytes that are read at a time; whatever stays is news at the next call
_SYSTEM = ctypes.CDLL(None) if sys.platform == "linux" else None


class _Watch:
    """The files and folders that this process has Linux watch."""

    def __init__(self) -> None:
        self._lock, self._stamp = threading.Lock(), object()
        self._queue = _SYSTEM.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if _SYSTEM else -1  # or there are too many
        if self._queue >= 0:
            self._poll = select.poll()
            self._poll.register(self._queue, select.POLLIN)

    def __del__(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)

    def stamp(self) -> object:
        """Return the same object as long as nothing happens to what is watched."""
        if self._queue < 0:
            return object()
        with self._lock:
            if self._poll.poll(0):
                self._stamp = object()
                with contextlib.suppress(OSError):  # somebody has closed all files
                    os.read(self._queue, EVENTS)
            return self._stamp

    def unseen(self, paths: Collection[Path]) -> list[Path]:
        """Watch files, and return those of which changes may go unnoticed all the same.

        Those are files that other computers write to, behind links, or in folders that are not to be read.
        """
        sure = {folder for folder in {path.parent for path in paths} if self._follow(folder)}
        return [path for path in paths if not (path.parent in sure and self._follow_file(path))]

    def _follow(self, folder: Path) -> bool:
        """Watch a folder and those that it is in, the outermost first; return whether all changes will be noticed.

        Where it is missing, that is the nearest of those that it would be in, as long as that is still so at the end.
        """
        nearest = _nearest(folder)
        above = all(self._add(outer, GONE) for outer in reversed(nearest.parents))
        watched = above and self._add(nearest, CHANGED) and self._local(nearest)
        return watched and os.path.realpath(nearest) == str(nearest) and nearest == _nearest(folder)

    def _follow_file(self, path: Path) -> bool:
        """Watch a file, which may have other names elsewhere; return whether changes to it will be noticed."""
        there = self._add(path, CHANGED)
        return not path.is_symlink() and (self._local(path) if there else not path.exists())

    def _add(self, path: Path, events: int) -> bool:
        """Whether a file or a folder can be watched."""
        return bool(_SYSTEM) and _SYSTEM.inotify_add_watch(self._queue, os.fsencode(path), events | ADDED) >= 0

    def _local(self, path: Path) -> bool:
        """Whether only this computer writes there."""
        found = (ctypes.c_long * 32)()
        return _SYSTEM.statfs(os.fsencode(path), found) == 0 and found[0] in LOCAL


def _nearest(folder: Path) -> Path:
    """Return a folder, or the innermost of those that it would be in; a link that leads nowhere is there."""
    return next((at for at in (folder, *folder.parents) if os.path.lexists(at)), folder)


@lru_cache
def _watch() -> _Watch:
    """Return this process's watch, which is made when it is first asked for."""
    return _Watch()


if _SYSTEM:  # A child process has its parent's queue at first. What one of them reads there, the other misses.
    os.register_at_fork(after_in_child=_watch.cache_clear)
