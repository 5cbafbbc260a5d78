"""The form that all recordings share, and the one reader and the one writer of their files.

A file is JSON, checked field by field against the dataclass that its reader names. A point that was measured with a
kernel carries the kernel's identity, down to the digest of its code, and is found by the whole of it. The number in
front of the kernel's name is no part of the identity, so a kernel may move in the book and keep its recordings.
"""

import dataclasses
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
    """One measurement of a kernel, or of a routine of cuBLAS.

    Attributes
    ----------
    kernel : str
    parameters : dict of str to int or str
        Template arguments.
    types : str
        The name of the types of its elements.
    label : str
        The changes to the kernel's source, if there are any, in a few words.
    digest : str
        The digest of its code, as `Kernel.digest` gives it. Empty for cuBLAS, whose version the provenance has.
    """

    kernel: str
    parameters: dict[str, int | str] = field(hash=False)
    types: str
    label: str
    digest: str

    PROBLEM: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that distinguish the problems on which the same kernel is measured."""

    @classmethod
    def of(cls, kernel: Kernel | Gemm, size: Size | tuple[()] = (), /, **more: Any) -> Self:
        """Return a measurement of a kernel as it is now. `size` is for one that is `Sized`, `more` are other fields."""
        return cls(**fields(kernel, size), **more)

    @property
    def apart_from_code(self) -> Hashable:
        """The kernel's identity without its code: its name without the number, parameters, types and label."""
        return unnumbered(self.kernel), tuple(self.parameters.items()), self.types, self.label

    @property
    def identity(self) -> Hashable:
        """The kernel's identity, which distinguishes it from its own former code too."""
        return self.apart_from_code, self.digest

    @property
    def key(self) -> Hashable:
        """The kernel's identity, and the problem if there are several."""
        return (self.identity, *(getattr(self, name) for name in self.PROBLEM))

    @property
    def fault(self) -> str:
        """The fault that the measurement found in the kernel, if any. The kernel is measured again then."""
        return ""

    @property
    def times(self) -> int:
        """The number of processes in which it was measured."""
        return 0 if self.fault else 1

    def joined(self, other: Any) -> Any:
        """Return this measurement and another one of the same as one. Here the newer replaces the older."""
        return other


@dataclass(frozen=True)
class Sized(Measured):
    """One measurement on a problem of M, N and K."""

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
    """Measurements, with the machine and the settings with which they were made.

    Attributes
    ----------
    provenance : dict
        As `provenance.provenance` returned it when the measuring began.
    settings : dict
        Settings of the measuring.
    complete : bool
        False if measuring was broken off.
    points : list
        One point for each item of the plan, in its order.
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


def fields(kernel: Kernel | Gemm, size: Size | tuple[()] = ()) -> dict[str, Any]:
    """Return the fields of `Measured` for a kernel as it is now, and with a size those of `Sized`."""
    return {
        "kernel": kernel.name,
        "parameters": dict(getattr(kernel, "parameters", {})),
        "types": kernel.types.name,
        "label": getattr(kernel, "label", ""),
        "digest": getattr(kernel, "digest", ""),
        **dict(zip("MNK", size, strict=False)),
    }


def unnumbered(name: str) -> str:
    """Return a kernel's name without the number in front of it."""
    return name.lstrip("0123456789_")


def named(point: One, kernel: Kernel | Gemm) -> One:
    """Return a point under the name that its kernel has now."""
    return point if point.kernel == kernel.name else dataclasses.replace(point, kernel=kernel.name)


def identity(kernel: Kernel | Gemm) -> Hashable:
    """Return the identity of a kernel as it is now."""
    return Measured.of(kernel).identity


def find(points: Iterable[Measured], kernel: Kernel | Gemm, recording: str) -> list[Any]:
    """Return the points of a kernel as it is now, under the name that it has now.

    Parameters
    ----------
    points : iterable of Measured
    kernel : Kernel or Gemm
    recording : str
        The recording's name, for the message.

    Raises
    ------
    ArgumentError
        There are none, or only with other code.
    """
    wanted, points = identity(kernel), list(points)
    found = [named(point, kernel) for point in points if point.identity == wanted]
    if not found:
        raise ArgumentError("kernel", *unknown(kernel, points, recording))
    return found


def unknown(kernel: Kernel | Gemm, points: Iterable[Measured], recording: str) -> tuple[str, str]:
    """Return the two parts of the message about a kernel that is not among the points: what came, what is needed."""
    wanted = Measured.of(kernel)
    values = ", ".join(map(str, wanted.parameters.values()))
    name = f"{wanted.kernel}<{values}>" + (f", {wanted.label}" if wanted.label else "")
    if any(point.apart_from_code == wanted.apart_from_code for point in points):
        return f"{name}, in {recording} recorded of other code", f"the code that was recorded; {ANEW}"
    return f"{name}, not in the recording {recording}", "a kernel that was recorded, or a GPU to time this one"


def point(recording: str | Path, form: type[One], kernel: Kernel | Gemm, *problem: Hashable) -> One:
    """Return the recorded point of a kernel as it is now, or of a routine of cuBLAS, on one problem.

    Parameters
    ----------
    recording : str or Path
        As for `load`.
    form : type
        The form of the recording's points.
    kernel : Kernel or Gemm
    *problem
        The fields that `form.PROBLEM` names.

    Raises
    ------
    ArgumentError
        The recording is missing or malformed, or has no such kernel, or only with other code, or no such problem of it.
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
    """Write a recording. At any time the file is either the old one or the new one, whole.

    Raises
    ------
    ValueError
        A number is not finite, which JSON cannot hold. The file stays as it was.
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
"""A list of numbers alone, which is written on one line."""
