"""Recordings: what all have in common, and the one reader and the one writer of their files.

A file is JSON, checked field by field against the dataclass that its reader names. What was measured of a kernel
carries the kernel's identity, down to the digest of its code, and is found by the whole of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel

from . import cards
from .provenance import Provenance
from .sizes import Size, times_of

ANEW = "`make record`, or for times `bench`, measures it anew"


@dataclass(frozen=True)
class Measured:
    """What was measured of one kernel, or of a routine of cuBLAS.

    Attributes
    ----------
    kernel : str
    parameters : dict of str to int or str
        Template arguments.
    types : str
        The name of the types of its elements.
    label : str
        What was changed in the kernel, if anything.
    digest : str
        Of its code, as `Kernel.digest` gives it. Empty for cuBLAS, whose version the provenance has.
    """

    kernel: str
    parameters: dict[str, int | str] = field(hash=False)
    types: str
    label: str
    digest: str

    PROBLEM: ClassVar[tuple[str, ...]] = ()
    """What tells problems apart that the same kernel is measured on."""

    @classmethod
    def of(cls, kernel: Kernel | Gemm, size: Size | tuple[()] = (), /, **more: Any) -> Self:
        """Return what was measured of a kernel as it is now; one that is `Sized` is given the size, `more` the rest."""
        return cls(**of(kernel, size), **more)

    @property
    def apart_from_code(self) -> Hashable:
        """What tells the kernel from every other."""
        return self.kernel, tuple(self.parameters.items()), self.types, self.label

    @property
    def identity(self) -> Hashable:
        """What tells it from its own former code too."""
        return self.apart_from_code, self.digest

    @property
    def key(self) -> Hashable:
        """What was measured: the kernel's identity, and on which problem, if there are several."""
        return (self.identity, *(getattr(self, name) for name in self.PROBLEM))

    @property
    def fault(self) -> str:
        """What is wrong with the kernel, if anything: then it is measured again."""
        return ""

    @property
    def times(self) -> int:
        """In how many processes it was measured."""
        return 0 if self.fault else 1

    def joined(self, other: Any) -> Any:
        """Return this and another measurement of the same as one; here the newer replaces the older."""
        return other


@dataclass(frozen=True)
class Sized(Measured):
    """What was measured on one problem, of M, N and K."""

    M: int
    N: int
    K: int

    PROBLEM = ("size",)

    @property
    def size(self) -> Size:
        """M, N and K."""
        return self.M, self.N, self.K


One = TypeVar("One", bound=Measured)
Point = TypeVar("Point")


@dataclass(frozen=True)
class Recording(Generic[Point]):
    """Measurements, with what they were made on and how.

    Attributes
    ----------
    provenance : dict
        What `provenance.provenance` returned when the measuring began.
    settings : dict
        How it was measured.
    complete : bool
        False if measuring was broken off.
    points : list
        One for each thing measured, in the order of the plan.
    """

    provenance: Provenance
    settings: dict[str, Any]
    complete: bool
    points: list[Point]

    @property
    def made(self) -> str:
        """The GPU and the date."""
        return f"{self.provenance['gpu']}, {self.provenance['date'][:10]}"


Form = TypeVar("Form")


def of(kernel: Kernel | Gemm, size: Size | tuple[()] = ()) -> dict[str, Any]:
    """Return the fields of `Measured` for a kernel as it is now, and with a size those of `Sized`."""
    return {
        "kernel": kernel.name,
        "parameters": dict(getattr(kernel, "parameters", {})),
        "types": kernel.types.name,
        "label": getattr(kernel, "label", ""),
        "digest": getattr(kernel, "digest", ""),
        **dict(zip("MNK", size, strict=False)),
    }


def identity(kernel: Kernel | Gemm) -> Hashable:
    """Return the identity of a kernel as it is now."""
    return Measured.of(kernel).identity


def find(points: Iterable[Measured], kernel: Kernel | Gemm, recording: str) -> list[Any]:
    """Return the points that are of a kernel as it is now.

    Parameters
    ----------
    points : iterable of Measured
    kernel : Kernel or Gemm
    recording : str
        The recording's name, for the message.

    Raises
    ------
    ArgumentError
        There are none, or only of other code.
    """
    wanted, points = identity(kernel), list(points)
    found = [point for point in points if point.identity == wanted]
    if not found:
        raise ArgumentError("kernel", *unknown(kernel, points, recording))
    return found


def unknown(kernel: Kernel | Gemm, points: Iterable[Measured], recording: str) -> tuple[str, str]:
    """Return what to say of a kernel that is not among the points: what came, and what is needed."""
    wanted = Measured.of(kernel)
    values = ", ".join(map(str, wanted.parameters.values()))
    name = f"{wanted.kernel}<{values}>" + (f", {wanted.label}" if wanted.label else "")
    if any(point.apart_from_code == wanted.apart_from_code for point in points):
        return f"{name}, in {recording} recorded of other code", f"the code that was recorded; {ANEW}"
    return f"{name}, not in the recording {recording}", "a kernel that was recorded"


def point(recording: str | Path, form: type[One], kernel: Kernel | Gemm, *problem: Hashable) -> One:
    """Return what a recording holds of a kernel as it is now, or of a routine of cuBLAS, on one problem.

    Parameters
    ----------
    recording : str or Path
        As for `load`.
    form : type
        Of the recording's points.
    kernel : Kernel or Gemm
    *problem
        What `form.PROBLEM` names.

    Raises
    ------
    ArgumentError
        The recording is missing or malformed, or has no such kernel, or only of other code, or no such problem of it.
    """
    points = find(load(recording, Recording[form]).points, kernel, str(recording))
    for found in points:
        if found.key[1:] == problem:
            return found

    def said(problem: Iterable[Hashable]) -> str:
        return ", ".join(times_of(part) if isinstance(part, tuple) else str(part) for part in problem)

    has = "; ".join(said(found.key[1:]) for found in points)
    raise ArgumentError(", ".join(form.PROBLEM), said(problem), f"what was recorded of {kernel.name}: {has}")


def path_of(name: str | Path) -> Path:
    """Return a recording's file: that of the shown card for a name such as ``"ladder"``, or the path itself."""
    return Path(name) if Path(name).suffix == ".json" else cards.folder() / f"{name}.json"


def load(name: str | Path, form: type[Form]) -> Form:
    """Read a recording; a file that has not changed since is not read again.

    Parameters
    ----------
    name : str or Path
        As for `path_of`.
    form : type
        A `Recording` of some points, or another dataclass.

    Raises
    ------
    ArgumentError
        The file is missing or malformed; the message names the file and the field.
    """
    path = path_of(name)
    try:
        state = path.stat()
        return _read(path, form, state.st_mtime_ns, state.st_size)
    except FileNotFoundError:
        stems = ", ".join(sorted(file.stem for file in path.parent.glob("*.json"))) or "none so far"
        raise ArgumentError("name", f"{name}, no file {path}", f"a recording ({stems}) or a path of one") from None
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ArgumentError(str(path), f"a malformed file ({error})", "a recording") from None


@lru_cache(maxsize=64)
def _read(path: Path, form: type[Form], *state: int) -> Form:
    return msgspec.json.decode(path.read_bytes(), type=form)


def write(path: str | Path, recording: Any) -> None:
    """Write a recording so that the file is at any time either the old or the new one, whole.

    Raises
    ------
    ValueError
        A number is not finite, which JSON cannot hold; the file is left as it was.
    """
    path, draft = Path(path), Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
    text = json.dumps(msgspec.to_builtins(recording), ensure_ascii=False, allow_nan=False)
    text = _OF_NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", msgspec.json.format(text, indent=1)) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


_OF_NUMBERS = re.compile(r'\[\n([^][{}"]+)\]')
"""A list of numbers alone, which stands on one line."""
