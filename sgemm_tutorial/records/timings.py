"""Recorded measurements: JSON files that say what was measured, on what, with what, and when."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

from .. import operands
from ..catalogue import LADDER, find
from ..errors import ArgumentError
from ..kernel import Kernel
from ..paths import RESULTS
from ..table import Table, shown
from . import files

MOST_SIZES = 10_000

Size = tuple[int, int, int]
"""M, N and K."""


@dataclass(frozen=True)
class Point:
    """One kernel at one size, and cuBLAS, measured in the same run.

    Attributes
    ----------
    kernel : str
    parameters : dict of str to int or str
        Template arguments.
    M, N, K : int
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of one launch.
    samples, batch : int
        Samples taken, and launches in each.
    cublas_ms, cublas_ms_p10, cublas_ms_p90 : float
        The same of cuBLAS.
    source : str
        The first digits of the SHA-256 of the kernel's code, as `bench.digest` gives it.
    label : str
        What was changed in the kernel's source; nothing if empty.
    types : str
        The name of the kernel's element types, and of those that cuBLAS had; see `dtypes`.
    """

    kernel: str
    parameters: dict[str, int | str] = field(hash=False)
    M: int
    N: int
    K: int
    ms: float
    ms_p10: float
    ms_p90: float
    samples: int
    batch: int
    cublas_ms: float
    cublas_ms_p10: float
    cublas_ms_p90: float
    source: str
    label: str = ""
    types: str = "FP32"

    @property
    def size(self) -> Size:
        """M, N and K."""
        return self.M, self.N, self.K

    @property
    def tflops(self) -> float:
        """Rate in 10¹² operations per second: 2MNK of them, as the field counts."""
        return 2 * self.M * self.N * self.K / self.ms / 1e9

    @property
    def percent_of_cublas(self) -> float:
        """Speed as a percentage of cuBLAS's: the ratio of the medians."""
        return 100 * self.cublas_ms / self.ms


@dataclass
class Record:
    """Measurements with their provenance and settings.

    Attributes
    ----------
    provenance : dict
        What `provenance` returned when the measuring began.
    settings : dict
        How it was measured.
    points : list of Point
    complete : bool
        False if measuring was broken off.
    """

    provenance: dict[str, Any]
    settings: dict[str, Any]
    points: list[Point] = field(default_factory=list)
    complete: bool = True

    @property
    def made(self) -> str:
        """The GPU and the date."""
        return f"{self.provenance['gpu']}, {self.provenance['date'][:10]}"

    def select(self, kernels: Collection[Kernel] | None = None, sizes: Collection[Size] | None = None) -> Record:
        """Return a record of only these kernels, with their parameters and labels, and sizes; None means all."""
        wanted = None if kernels is None else [(kernel.name, kernel.parameters, kernel.label) for kernel in kernels]
        points = [
            point
            for point in self.points
            if (wanted is None or (point.kernel, point.parameters, point.label) in wanted)
            and (sizes is None or point.size in sizes)
        ]
        return dataclasses.replace(self, points=points)

    def table(self) -> Table:
        """Return the points as a table, by size, in the order measured.

        It names the template parameters where a kernel was measured with several, and what was changed in its source.
        """
        varied = len({(point.kernel, point.size, point.label) for point in self.points}) < len(self.points)
        columns = ["kernel", "M×N×K", "ms", "10–90%", "cuBLAS ms", "TFLOP/s", "% of cuBLAS"]
        rows = [
            [
                point.kernel,
                "×".join(map(str, point.size)),
                point.ms,
                f"{shown(point.ms_p10)}–{shown(point.ms_p90)}",
                point.cublas_ms,
                point.tflops,
                point.percent_of_cublas,
            ]
            for point in self._by_size()
        ]
        if varied:
            columns.insert(1, "parameters")
            for row, point in zip(rows, self._by_size(), strict=True):
                row.insert(1, ", ".join(f"{name} {value}" for name, value in point.parameters.items()))
        if len({point.types for point in self.points}) > 1:
            columns.insert(1, "types")
            for row, point in zip(rows, self._by_size(), strict=True):
                row.insert(1, point.types)
        if any(point.label for point in self.points):
            columns.insert(1, "change")
            for row, point in zip(rows, self._by_size(), strict=True):
                row.insert(1, point.label)
        of = self.provenance
        title = self.made + ("" if self.complete else " (broken off)")
        note = (
            f"Medians of device time, cuBLAS measured in the same run. Driver {of['driver']}, "
            f"NVRTC {of['nvrtc']}, cuBLAS {of['cublas']}, CuPy {of['cupy']}."
        )
        return Table(columns, rows, title, note)

    def _by_size(self) -> list[Point]:
        return sorted(self.points, key=lambda point: point.M * point.N * point.K)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as it is written to JSON, with each point's rates for other readers."""
        points = [
            dataclasses.asdict(point)
            | {"tflops": round(point.tflops, 4), "percent_of_cublas": round(point.percent_of_cublas, 3)}
            for point in self.points
        ]
        return {"provenance": self.provenance, "settings": self.settings, "complete": self.complete, "points": points}


def save(path: str | Path, record: Record) -> None:
    """Write a record to a JSON file; see `write`."""
    files.write(path, record.as_dict())


def load(name: str | Path) -> Record:
    """Read a record.

    Parameters
    ----------
    name : str or Path
        The stem of a file in ``book/results``, for example ``"ladder"``, or the path of a JSON file.

    Raises
    ------
    ArgumentError
        The file is missing or malformed; the message names the file and the field.
    """
    path = Path(name) if Path(name).suffix == ".json" else RESULTS / f"{name}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        stems = ", ".join(sorted(file.stem for file in RESULTS.glob("*.json"))) or "none so far"
        raise ArgumentError("name", f"{name}, no file {path}", f"a recording ({stems}) or a path of one") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(str(path), f"malformed JSON ({error})", "a recording") from None
    top = _fields(path, "", data, {"provenance": dict, "settings": dict, "points": list})
    _fields(
        path,
        "provenance.",
        top["provenance"],
        {"gpu": str, "date": str, "driver": str, "nvrtc": str, "cublas": str, "cupy": str},
    )
    points = [_point(path, f"points[{i}].", point) for i, point in enumerate(top["points"])]
    return Record(top["provenance"], top["settings"], points, bool(data.get("complete", True)))


def _point(path: Path, where: str, data: Any) -> Point:
    """Check and return one point; the rates are computed, so what the file says of them is not read."""
    number = (int, float)
    kinds = {
        "kernel": str,
        "parameters": dict,
        "M": int,
        "N": int,
        "K": int,
        "samples": int,
        "batch": int,
        "source": str,
    }
    kinds |= {item.name: number for item in dataclasses.fields(Point) if "ms" in item.name.split("_")}
    values = _fields(path, where, data, kinds)
    for name in ("ms", "cublas_ms"):
        if not 0 < values[name] < float("inf"):
            raise ArgumentError(f"{path}, {where}{name}", repr(values[name]), "a positive time")
    return Point(**values, label=data.get("label", ""), types=data.get("types", "FP32"))


def _fields(path: Path, where: str, data: Any, kinds: dict[str, Any]) -> dict[str, Any]:
    """Return these fields of a JSON object, each of its kind; an ArgumentError names the first that is not."""
    if not isinstance(data, dict):
        raise ArgumentError(f"{path}, {where.rstrip('.') or 'top'}", type(data).__name__, "an object")
    for name, kind in kinds.items():
        if name not in data:
            raise ArgumentError(f"{path}, {where}{name}", "nothing", "this field")
        if not isinstance(data[name], kind) or isinstance(data[name], bool):
            wanted = "a number" if isinstance(kind, tuple) else f"a JSON value of type {kind.__name__}"
            raise ArgumentError(f"{path}, {where}{name}", repr(data[name])[:60], wanted)
    return {name: data[name] for name in kinds}


def recorded(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] | None = None,
    recording: str | Path = "ladder",
) -> Record:
    """Return what a recording holds of these kernels and sizes; all sizes unless given.

    Raises
    ------
    ArgumentError
        As for `load`, or it holds none of them.
    """
    chosen, wanted = kernels_of(kernels), None if sizes is None else sizes_of(sizes)
    record = load(recording)
    found = record.select(chosen, wanted)
    if not found.points:
        asked = ", ".join(kernel.expression for kernel in chosen)
        asked += "" if wanted is None else " at " + ", ".join(map(times_of, wanted))
        has = sorted({point.kernel for point in record.points}), sorted({point.size for point in record.points})
        raise ArgumentError(
            "kernels, sizes",
            f"{asked}: not in the recording {recording}",
            f"some of {', '.join(has[0])} at {', '.join(map(times_of, has[1]))}",
        )
    return found


def no_gpu(record: Record) -> str:
    """Return the line that says why a recording is shown."""
    of = record.provenance
    return f"No GPU here: showing the recording made on {of['gpu']} on {of['date'][:10]}."


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


def kernels_of(kernels: Kernel | str | Sequence[Kernel | str]) -> list[Kernel]:
    """Return the kernels that are named or given, each once."""
    listed = [kernels] if isinstance(kernels, Kernel | str) else list(kernels)
    found = [find(kernel) if isinstance(kernel, str) else kernel for kernel in listed]
    if not found or not all(isinstance(kernel, Kernel) for kernel in found):
        raise ArgumentError("kernels", repr(kernels), "one or more kernels or their names")
    return [kernel for i, kernel in enumerate(found) if kernel not in found[:i]]


def sizes_of(sizes: int | Sequence[int | Size]) -> list[Size]:
    """Return sizes as (M, N, K), each once."""
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
