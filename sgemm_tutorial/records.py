"""Recorded measurements: JSON files that say what was measured, on what, with what, and when."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import cupy
import numpy as np
from cupy.cuda import nvrtc

from . import cublas, gpu
from .catalogue import Kernel
from .errors import ArgumentError
from .table import Table, shown

RESULTS = Path(__file__).resolve().parent.parent / "book" / "results"
DRIVER = Path("/proc/driver/nvidia/version")

Size = tuple[int, int, int]
"""M, N and K."""

Parsed = TypeVar("Parsed")


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


def provenance() -> dict[str, Any]:
    """Return what identifies a measurement: the GPU, the versions of all that takes part, and the date.

    Raises
    ------
    DeviceError
        There is no GPU or no cuBLAS.
    """
    major, minor = gpu.capability()
    runtime, device = cupy.cuda.runtime, cupy.cuda.Device().id
    properties = runtime.getDeviceProperties(device)

    def attribute(name: str) -> int:
        return runtime.deviceGetAttribute(getattr(runtime, name), device)

    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{major}.{minor}",
        "multiprocessors": attribute("cudaDevAttrMultiProcessorCount"),
        "memory_bytes": properties["totalGlobalMem"],
        "l2_bytes": attribute("cudaDevAttrL2CacheSize"),
        "sm_clock_max_mhz": attribute("cudaDevAttrClockRate") // 1000,
        "memory_clock_max_mhz": attribute("cudaDevAttrMemoryClockRate") // 1000,
        "driver": _driver(),
        "driver_cuda": _dotted(runtime.driverGetVersion()),
        "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, nvrtc.getVersion())),
        "cublas": cublas.version(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def save(path: str | Path, record: Record) -> None:
    """Write a record to a JSON file; see `write`."""
    write(path, record.as_dict())


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


def _dotted(version: int) -> str:
    """Return CUDA's 13020 as "13.2"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _driver() -> str:
    """Return the driver's version, which CUDA does not tell: from the kernel module, or else nvidia-smi."""
    command = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        text = DRIVER.read_text(encoding="utf-8")
    except OSError:
        try:
            text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"
    match = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else "unknown"
