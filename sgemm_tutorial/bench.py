"""Measures kernels against cuBLAS over sizes, and keeps what it has measured, whatever happens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from . import arguments, correctness, cublas, gpu, records, timing
from .catalogue import LADDER, Kernel, find
from .dtypes import Types
from .errors import ArgumentError, DeviceError, TutorialError
from .progress import bar
from .records import Point, Record, Size
from .table import Table
from .timing import Timing

SEED = 0
MOST_SIZES = 10_000
SPOTS = 61  # rows and columns of C whose crossings are checked after timing

Measure = Callable[[Sequence[Kernel], Size, bool], Iterator[tuple[Kernel, Timing, Timing]]]
"""Takes kernels, a size and whether to flush L2; yields each kernel with its timing and cuBLAS's."""


class BenchError(DeviceError):
    """The GPU failed in the middle of a benchmark.

    Attributes
    ----------
    record : Record
        What was measured until then.
    """

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message)
        self.record = record


def bench(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] = (4096,),
    *,
    flush_l2: bool = False,
    path: str | Path | None = None,
    progress: bool | None = True,
    measure: Measure | None = None,
    provenance: Callable[[], dict[str, Any]] = records.provenance,
) -> Record:
    """Measure kernels against cuBLAS.

    Parameters
    ----------
    kernels : Kernel or str, or a sequence of them
    sizes : int, or a sequence of ints and of (M, N, K)
        An int stands for a square problem.
    flush_l2 : bool
        Start every launch with a cold L2 cache.
    path : str or Path, optional
        Where to save each point as soon as it is measured. A recording that is already there, made on
        the same GPU with the same software and settings, is continued: what it holds of these kernels'
        present sources is not measured again.
    progress : bool, optional
        Show a progress bar on stderr; None shows it in a terminal only.
    measure, provenance : callable, optional
        How to measure one size, and what to record about the machine: `on_gpu` and
        `records.provenance`, unless given.

    Returns
    -------
    Record
        With `complete` False if it was interrupted from the keyboard.

    Raises
    ------
    ArgumentError
        An unknown kernel, a size that is not positive, or a `path` whose recording cannot be continued.
    BenchError
        The GPU was lost or ran out of memory; the error carries what was measured until then, and it
        is saved if a path is given.
    DeviceError
        There is no GPU.
    TutorialError
        A kernel computed wrong values.
    """
    chosen, wanted = _kernels(kernels), _sizes(sizes)
    measure = measure or on_gpu
    record = Record(
        provenance(),
        {"flush_l2": flush_l2, "alpha": 1.0, "beta": 0.0, "inputs": "standard normal", "seed": SEED},
        complete=False,
    )
    if path is not None and Path(path).exists():
        record.points = _points_to_keep(record, Path(path))
    done = {_key(point.kernel, point.label, point.parameters, point.size, point.source) for point in record.points}

    def missing(size: Size) -> list[Kernel]:
        return [k for k in chosen if _key(k.name, k.label, k.parameters, size, digest(k)) not in done]

    def keep() -> None:
        if path is not None:
            records.save(path, record)

    plan = [(size, missing(size)) for size in wanted]
    kept = f"saved in {path}" if path is not None else "kept but not saved, as no path was given"
    with bar(total=sum(len(todo) for _, todo in plan), show=progress, unit="point") as counter:
        try:
            for size, todo in plan:
                counter.set_description(_times(size))
                for kernel, own, reference in measure(todo, size, flush_l2) if todo else ():
                    record.points = _with(record.points, _point(kernel, size, own, reference))
                    keep()
                    counter.update()
        except KeyboardInterrupt:
            return record
        except DeviceError as error:
            raise BenchError(f"{error}; points measured before: {len(record.points)}, {kept}", record) from error
    record.complete = True
    keep()
    return record


def bench_or_recording(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] = (4096,),
    recording: str | Path = "ladder",
    *,
    flush_l2: bool = False,
    progress: bool | None = None,
) -> Table:
    """Return the table of a benchmark on this GPU, or, where there is none, of the recorded one.

    Parameters
    ----------
    kernels, sizes, flush_l2, progress
        As for `bench`. Of a recording, those of these kernels and sizes that it holds are shown.
    recording : str or Path
        As for `records.load`.

    Raises
    ------
    ArgumentError
        As for `bench` and `records.load`, or the recording holds none of these kernels and sizes.
    DeviceError, TutorialError
        As for `bench`.
    """
    if gpu.available():
        return bench(kernels, sizes, flush_l2=flush_l2, progress=progress).table()
    record = recorded(kernels, sizes, recording)
    print(no_gpu(record))
    return record.table()


def recorded(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] | None = None,
    recording: str | Path = "ladder",
) -> Record:
    """Return what a recording holds of these kernels and sizes; all sizes unless given.

    Raises
    ------
    ArgumentError
        As for `records.load`, or it holds none of them.
    """
    chosen, wanted = _kernels(kernels), None if sizes is None else _sizes(sizes)
    record = records.load(recording)
    found = record.select(chosen, wanted)
    if not found.points:
        asked = ", ".join(kernel.expression for kernel in chosen)
        asked += "" if wanted is None else " at " + ", ".join(map(_times, wanted))
        has = sorted({point.kernel for point in record.points}), sorted({point.size for point in record.points})
        raise ArgumentError(
            "kernels, sizes",
            f"{asked}: not in the recording {recording}",
            f"some of {', '.join(has[0])} at {', '.join(map(_times, has[1]))}",
        )
    return found


def no_gpu(record: Record) -> str:
    """Return the line that says why a recording is shown."""
    of = record.provenance
    return f"No GPU here: showing the recording made on {of['gpu']} on {of['date'][:10]}."


def on_gpu(kernels: Sequence[Kernel], size: Size, flush_l2: bool) -> Iterator[tuple[Kernel, Timing, Timing]]:
    """Time each kernel and cuBLAS together at one size, on the current GPU, on the same random matrices.

    cuBLAS computes with the kernel's types; kernels of one type come together.

    Yields
    ------
    kernel : Kernel
    own, reference : Timing
        The kernel's and cuBLAS's.

    Raises
    ------
    DeviceError
        See `timing.time_interleaved`.
    CompileError
        A kernel's source does not compile; found before any is timed.
    TutorialError
        A spot check of C failed.
    """
    gpu.capability()
    for kernel in kernels:
        gpu.load(kernel)
    for types in dict.fromkeys(kernel.types for kernel in kernels):
        yield from _of_types(types, [kernel for kernel in kernels if kernel.types == types], size, flush_l2)


def _of_types(
    types: Types, kernels: Sequence[Kernel], size: Size, flush_l2: bool
) -> Iterator[tuple[Kernel, Timing, Timing]]:
    """Time kernels that take the same types; see `on_gpu`."""
    M, N, K = size
    with gpu.reported("making room for A, B and C"):
        A, B = cupy.empty((M, K), types.operand), cupy.empty((K, N), types.operand)
        C, reference_C = (cupy.empty((M, N), types.result) for _ in range(2))
    problem = arguments.check(A, B, C, 1.0, 0.0, types)
    launches = [gpu.launcher(kernel, problem) for kernel in kernels]
    reference = cublas.launch(arguments.check(A, B, reference_C, 1.0, 0.0, types))
    inputs = correctness.matrices(M, N, K, seed=SEED, on_gpu=False, types=types)
    with gpu.reported("copying A and B to the GPU"):
        A.set(inputs[0])
        B.set(inputs[1])
    for kernel, own in zip(kernels, launches, strict=True):
        with gpu.reported(kernel.name):
            C.data.memset_async(0xFF, C.nbytes)  # NaN
            reference_C.data.memset_async(0xFF, C.nbytes)
        times = timing.time_interleaved({kernel.name: own, "cuBLAS": reference}, flush_l2=flush_l2)
        for name, result in ((kernel.name, C), ("cuBLAS", reference_C)):
            _spot_check(name, result, *inputs)
        yield kernel, times[kernel.name], times["cuBLAS"]


def digest(kernel: Kernel) -> str:
    """Return what tells versions of a kernel's code apart, its headers included, 12 digits of a SHA-256.

    Comments, assertions at compile time and spacing are left out: they make no difference to what runs.
    """
    text = "\n".join(kernel.files.values())
    code = " ".join(re.sub(r"//[^\n]*|static_assert\([^;]*;", "", text).split())
    return hashlib.sha256(code.encode()).hexdigest()[:12]


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
        if not least <= min(size) <= max(size) <= arguments.INT_MAX:
            raise ArgumentError("sizes", "x".join(map(str, size)), needs)
    return tuple(sizes)


def _kernels(kernels: Kernel | str | Sequence[Kernel | str]) -> list[Kernel]:
    """Return the kernels that are named or given, each once."""
    listed = [kernels] if isinstance(kernels, Kernel | str) else list(kernels)
    found = [find(kernel) if isinstance(kernel, str) else kernel for kernel in listed]
    if not found or not all(isinstance(kernel, Kernel) for kernel in found):
        raise ArgumentError("kernels", repr(kernels), "one or more kernels or their names")
    return [kernel for i, kernel in enumerate(found) if kernel not in found[:i]]


def _sizes(sizes: int | Sequence[int | Size]) -> list[Size]:
    """Return sizes as (M, N, K), each once."""
    listed = [sizes] if isinstance(sizes, Integral) else list(sizes)
    full = [(size,) * 3 if isinstance(size, Integral) else tuple(size) for size in listed]
    for size in full:
        whole = all(isinstance(extent, Integral) and not isinstance(extent, bool) for extent in size)
        if len(size) != 3 or not whole or not 1 <= min(size) <= max(size) <= arguments.INT_MAX:
            raise ArgumentError("sizes", repr(size), "an int or (M, N, K), each 1 or more")
    if not full:
        raise ArgumentError("sizes", repr(sizes), "one or more sizes")
    return list(dict.fromkeys(tuple(map(int, size)) for size in full))


def _points_to_keep(record: Record, path: Path) -> list[Point]:
    """Return the points of the recording at `path`, if `record` may continue it."""
    earlier = records.load(path)
    same = {key: value for key, value in record.provenance.items() if key != "date"}
    for name, old, new in (
        *((key, earlier.provenance.get(key), value) for key, value in same.items()),
        ("settings", earlier.settings, record.settings),
    ):
        if old != new:
            raise ArgumentError("path", f"{path}, a recording with {name} {old!r}", f"{new!r}, or another file")
    record.provenance = earlier.provenance
    return earlier.points


def _key(kernel: str, label: str, parameters: dict[str, int | str], size: Size, source: str) -> tuple:
    return kernel, label, tuple(parameters.items()), size, source


def _point(kernel: Kernel, size: Size, own: Timing, reference: Timing) -> Point:
    return Point(
        kernel.name,
        kernel.parameters,
        *size,
        own.median_ms,
        own.p10_ms,
        own.p90_ms,
        len(own.samples),
        own.batch,
        reference.median_ms,
        reference.p10_ms,
        reference.p90_ms,
        digest(kernel),
        kernel.label,
        kernel.types.name,
    )


def _times(size: Size) -> str:
    return "×".join(map(str, size))


def _with(points: list[Point], new: Point) -> list[Point]:
    """Return the points with a new one, instead of those of older sources of the same kernel."""
    what = _key(new.kernel, new.label, new.parameters, new.size, "")
    return [old for old in points if _key(old.kernel, old.label, old.parameters, old.size, "") != what] + [new]


def _spot_check(name: str, C: Any, A: np.ndarray, B: np.ndarray) -> None:
    """Compare C = AB with float64 where `SPOTS` rows and columns cross, first and last among them."""
    rows, columns = (np.unique(np.linspace(0, extent - 1, SPOTS).astype(np.int64)) for extent in C.shape)
    with gpu.reported(name):
        got = np.stack([C[int(row)].get() for row in rows])[:, columns]
    ratio = correctness.excess(got, A[rows], B[:, columns], got, 1.0, 0.0)
    if not (ratio <= 1).all():
        row, column = np.unravel_index(np.argmax(ratio), ratio.shape)
        raise TutorialError(
            f"{name} is wrong at M×N×K = {C.shape[0]}×{C.shape[1]}×{A.shape[1]}: element "
            f"({rows[row]}, {columns[column]}) is {ratio.max():.3g} times its error bound off; "
            "not timed"
        )
