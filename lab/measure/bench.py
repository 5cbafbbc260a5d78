"""Measures kernels against cuBLAS over sizes, and keeps the points that it has measured, whatever happens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from sgemm_tutorial import cublas, gpu, operands, timing
from sgemm_tutorial.catalogue import LADDER
from sgemm_tutorial.errors import ArgumentError, DeviceError, TutorialError
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import Types
from sgemm_tutorial.timing import Timing

from ..correctness import excess
from ..records import files, timings
from ..records.files import Measured
from ..records.provenance import provenance
from ..records.sizes import Size, sizes_of
from ..records.timings import Point, Process, Record, Samples, kernels_of, no_gpu, recorded
from . import cublaslt
from .driver import Item, Plan, follow

SEED = 0
SPOTS = 61  # rows and columns of C whose crossings are checked after timing

Found = tuple[Timing, tuple[str, int]]
"""The timing of the quickest algorithm of cuBLASLt, and which it is of how many."""

Taken = tuple[Kernel, Timing, Timing, Found | None]
"""A kernel, its timing and cuBLAS's, and cuBLASLt's if it was searched for and offers any algorithm."""

Measure = Callable[..., Iterator[Taken]]
"""Takes kernels, a size, whether to flush L2, and how to sample; yields the timings of each kernel."""


class BenchError(DeviceError):
    """The GPU failed in the middle of a benchmark.

    Attributes
    ----------
    record : Record
        The points that were measured until then.
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
        the same GPU with the same software and settings, is continued: its points of these kernels'
        present sources are not measured again.
    progress : bool, optional
        Show a progress bar on stderr; None shows it in a terminal only.
    measure : callable, optional
        How to measure the kernels of one size: `on_gpu`, unless given.

    Returns
    -------
    Record
        With `complete` False if it was interrupted from the keyboard.

    Raises
    ------
    ArgumentError
        An unknown kernel, a size that is not positive, or a `path` whose recording cannot be continued.
    BenchError
        The GPU was lost or ran out of memory. The error carries the points that were measured until then, and they
        are saved if a path is given.
    DeviceError
        There is no GPU.
    TutorialError
        A kernel computed wrong values.
    """
    items = [(kernel, size) for size in sizes_of(sizes) for kernel in kernels_of(kernels)]
    wanted = plan("bench", items, flush_l2=flush_l2, measure=measure)
    made, record = provenance(), None
    made, kept = _continued(Path(path), wanted, made) if path is not None and Path(path).exists() else (made, [])

    def save(now: Record) -> None:
        nonlocal record
        record = now
        if path is not None:
            files.write(path, now)

    try:
        return follow(wanted, made, kept, save, progress=progress)
    except KeyboardInterrupt:
        return record
    except DeviceError as error:
        where = f"saved in {path}" if path is not None else "kept but not saved, as no path was given"
        raise BenchError(f"{error}; points measured before: {len(record.points)}, {where}", record) from error


def bench_or_recording(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] = (4096,),
    recording: str | Path = "ladder",
) -> Record:
    """Return the times of a benchmark on this GPU, or without a GPU the recorded ones.

    Parameters
    ----------
    kernels, sizes
        As for `bench`. Of a recording, the points of these kernels and sizes are shown.
    recording : str or Path
        As for `timings.load`.

    Raises
    ------
    ArgumentError
        As for `bench` and `timings.load`, or the recording holds none of these kernels and sizes.
    DeviceError, TutorialError
        As for `bench`.
    """
    if gpu.available():
        return bench(kernels, sizes)
    record = recorded(kernels, sizes, recording)
    print(no_gpu(record))
    return record


def plan(
    name: str,
    items: Sequence[Item],
    *,
    flush_l2: bool = False,
    beta: float = 0.0,
    search: bool = False,
    processes: int = 1,
    measure: Measure | None = None,
    **sampling: Any,
) -> Plan:
    """Return the plan of a recording of times.

    Parameters
    ----------
    name : str
    items : sequence of (Kernel, (M, N, K))
        Items of one size stand together.
    flush_l2, **sampling
        As for `timing.time_interleaved`.
    beta : float
        Unless it is 0, C is read.
    search : bool
        Time the quickest algorithm of cuBLASLt too.
    processes
        As for `Plan`.
    measure : callable, optional
        How to measure the kernels of one size: `on_gpu`, unless given.
    """
    measure = measure or on_gpu

    def points(missing: Iterable[Item]) -> Iterator[Point]:
        for turn, (size, group) in enumerate(groupby(missing, key=lambda item: item[1])):
            how = {name: value for name, value in sampling.items() if turn or name != "warm_s"}  # clocks settle first
            how |= ({"beta": beta} if beta else {}) | ({"search": True} if search else {})
            for kernel, own, reference, found in measure([kernel for kernel, _ in group], size, flush_l2, **how):
                best, which = found or (None, None)
                process = Process(samples_of(own), samples_of(reference), best and samples_of(best))
                yield Point.summing(own.batch, [process], which, **files.fields(kernel, size))

    settings = {"flush_l2": flush_l2, "alpha": 1.0, "beta": beta, "inputs": "standard normal", "seed": SEED}
    if search:
        settings["cublaslt"] = {"requested": cublaslt.REQUESTED, "workspace_bytes": cublaslt.WORKSPACE}
    return Plan(name, Record, items, points, settings, takes=0.5, processes=processes)


def samples_of(taken: Timing) -> Samples:
    """Return the samples as they are recorded: times to six digits, which is more than they are good for."""
    return Samples(
        [float(f"{ms:.6g}") for ms in taken.samples],
        list(taken.sm_mhz),
        [None if watts is None else round(watts) for watts in taken.watts],
    )


def on_gpu(kernels: Sequence[Kernel], size: Size, flush_l2: bool, **how: Any) -> Iterator[Taken]:
    """Time each kernel and cuBLAS together at one size, on the current GPU, on the same random matrices.

    cuBLAS computes with the kernel's types, and kernels with the same types are timed one after the other. `how` may
    have ``beta``, with which C is read, ``search``, and the arguments of `timing.time_interleaved`.

    Yields
    ------
    kernel : Kernel
    own, reference : Timing
        The kernel's and cuBLAS's.
    found : Found or None
        The quickest algorithm that cuBLASLt offers, if there is any and ``search=True`` is given.

    Raises
    ------
    DeviceError
        See `timing.time_interleaved`.
    CompileError
        A kernel's source does not compile; found before any is timed.
    TutorialError
        A spot check of C failed.
    """
    for kernel in kernels:
        gpu.load(kernel.instance)
    for types in dict.fromkeys(kernel.types for kernel in kernels):
        alike = [kernel for kernel in kernels if kernel.types == types]
        yield from _of_types(types, alike, size, flush_l2=flush_l2, **how)


def _of_types(
    types: Types, kernels: Sequence[Kernel], size: Size, beta: float = 0.0, search: bool = False, **sampling: Any
) -> Iterator[Taken]:
    """Time kernels that take the same types; see `on_gpu`."""

    def clear(array: Any) -> None:
        array.data.memset_async(0 if beta else 0xFF, array.nbytes)  # NaN, where it is not to be read

    M, N, K = size
    with gpu.reported("making room for A, B and C"):
        A, B = cupy.empty((M, K), types.operand), cupy.empty((K, N), types.operand)
        C, reference_C = (cupy.empty((M, N), types.result) for _ in range(2))
    problem = operands.check(A, B, C, 1.0, beta, types)
    launches = [kernel.launcher(problem) for kernel in kernels]
    reference_problem = operands.check(A, B, reference_C, 1.0, beta, types)
    reference = cublas.launch(reference_problem)
    inputs = matrices(M, N, K, seed=SEED, on_gpu=False, types=types)
    with gpu.reported("copying A and B to the GPU"):
        A.set(inputs[0])
        B.set(inputs[1])
    best, offered = cublaslt.quickest(reference_problem) if search else (None, 0)
    if best:
        clear(reference_C)
        best.launch()
        _spot_check(f"cuBLASLt's {best.text}", reference_C, *inputs, types)
    for kernel, own in zip(kernels, launches, strict=True):
        with gpu.reported(kernel.name):
            clear(C)
            clear(reference_C)
        rivals = {"cuBLAS": reference} | ({"cuBLASLt": best.launch} if best else {})
        times = timing.time_interleaved({kernel.name: own} | rivals, **sampling)
        if beta:  # C has grown with each launch: once more, from nothing
            for array, launch in ((C, own), (reference_C, reference)):
                clear(array)
                launch()
        for name, result in ((kernel.expression, C), (" or ".join(rivals), reference_C)):
            _spot_check(name, result, *inputs, types)
        found = (times["cuBLASLt"], (best.text, offered)) if best else None
        yield kernel, times[kernel.name], times["cuBLAS"], found


def _continued(path: Path, wanted: Plan, made: Any) -> tuple[Any, list[Point]]:
    """Return the provenance and the points of the recording at `path`, if it can be continued on this machine.

    Its points of the same kernels and sizes, but with former code, are left out.
    """
    earlier = timings.load(path)
    for name, old, new in (
        *((key, earlier.provenance.get(key), value) for key, value in made.items() if key != "date"),
        ("settings", earlier.settings, wanted.settings),
    ):
        if old != new:
            raise ArgumentError("path", f"{path}, a recording with {name} {old!r}", f"{new!r}, or another file")
    keys = wanted.keys()
    named = {(Measured.of(kernel).apart_from_code, size) for kernel, size in wanted.items}
    kept = [p for p in earlier.points if p.key in keys or (p.apart_from_code, p.size) not in named]
    return earlier.provenance, kept


def _spot_check(name: str, C: Any, A: np.ndarray, B: np.ndarray, types: Types) -> None:
    """Compare C = AB with float64 where `SPOTS` rows and columns cross, first and last among them."""
    rows, columns = (np.unique(np.linspace(0, extent - 1, SPOTS).astype(np.int64)) for extent in C.shape)
    with gpu.reported(name):
        got = np.stack([C[int(row)].get() for row in rows])[:, columns]
    ratio = excess(got, A[rows], B[:, columns], got, 1.0, 0.0, types)
    if not (ratio <= 1).all():
        row, column = np.unravel_index(np.argmax(ratio), ratio.shape)
        raise TutorialError(
            f"{name} is wrong at M×N×K = {C.shape[0]}×{C.shape[1]}×{A.shape[1]}: element "
            f"({rows[row]}, {columns[column]}) is {ratio.max():.3g} times its error bound off; "
            "not timed"
        )
