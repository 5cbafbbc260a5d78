"""Tries template arguments of any kernel, the reader's own too: every combination of the values that one names.

What does not compile, does not fit or computes one difficult problem wrongly is ruled out, with the reason; that needs
no GPU. On one, the others are timed as `bench` times kernels, each in turn with cuBLAS, but more briefly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ptxsim.progress import bar
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.correctness import check, difficult
from sgemm_tutorial.errors import ArgumentError, DeviceError, TutorialError, UnsupportedInstruction
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table, shown

from ..model.resources import kernel_occupancy, resources
from ..records import files
from ..records.sizes import Size, times_of
from ..records.timings import Point, Record
from .bench import bench, on_gpu
from .tune import Field, Setting, ruled

SAMPLING: dict[str, Any] = {"samples": 15, "least_samples": 7, "seconds": 0.2, "warm_s": (0.03, 0.3)}
QUICKEST = 10
"""Settings that are shown of each size."""


def field(
    name: str, values: Mapping[str, Sequence[int | str]], architecture: str, progress: bool | None = None
) -> Field:
    """Return who takes part of all combinations of some template arguments, and why the others don't.

    Parameters
    ----------
    name : str
        Of a kernel, or the path of a file.
    values : mapping of str to sequence
        What to try of each template parameter; others stay as they are.
    architecture : str
        To compile for. One difficult problem is computed on the GPU, or where there is none on the simulator.
    progress : bool, optional
        Show progress bars on stderr; None shows them in a terminal only.

    Raises
    ------
    ArgumentError
        The kernel cannot be had with any of them.
    DeviceError
        The GPU failed.
    """
    kernels: dict[Setting, Kernel] = {}
    errors: dict[Setting, ArgumentError] = {}
    for setting in product(*values.values()):
        try:
            kernels[setting] = find(name, **dict(zip(values, setting, strict=True)))
        except ArgumentError as error:
            errors[setting] = error
    if not kernels:
        raise next(iter(errors.values()))
    entered = Field(kernels, {setting: str(error) for setting, error in errors.items()}, tuple(values))
    return _right(ruled(entered, architecture, progress), progress)


def _right(entered: Field, progress: bool | None) -> Field:
    """Rule out what computes one difficult problem wrongly."""
    wrong = {}
    with bar(entered.kernels.items(), show=progress, unit="setting") as work:
        work.set_description("checking")
        for setting, kernel in work:
            problem = difficult(kernel)
            try:
                result = check(kernel, **problem)
            except DeviceError as error:
                raise DeviceError(f"{choice_of(setting, entered.names)}: {error}") from error
            except UnsupportedInstruction:  # a limit of the simulator's, and no fault of the kernel's
                continue
            except TutorialError as error:
                wrong[setting] = str(error).splitlines()[0]
                continue
            if not result.passed:
                wrong[setting] = f"{result.verdict} at M×N×K = {times_of((problem['M'], problem['N'], problem['K']))}"
    kept = {setting: kernel for setting, kernel in entered.kernels.items() if setting not in wrong}
    return Field(kept, entered.obstacles | wrong, entered.names)


def sweep(
    taking_part: Field,
    sizes: Sequence[Size],
    seconds: float = math.inf,
    path: Path | None = None,
    progress: bool | None = None,
) -> Record:
    """Time settings at some sizes on this GPU, each in turn with cuBLAS.

    Parameters
    ----------
    taking_part : Field
        With at least one kernel.
    sizes : sequence of (M, N, K)
    seconds : float
        After that many nothing else is begun.
    path, progress
        As for `bench`, which continues what is there.

    Returns
    -------
    Record
        As `bench` returns it; not `complete` if time ran out, too.
    """
    begin = time.monotonic()

    def briefly(kernels: Sequence[Kernel], size: Size, flush_l2: bool) -> Iterator[tuple]:
        if time.monotonic() - begin >= seconds:
            return
        for measured in on_gpu(kernels, size, flush_l2, **SAMPLING):
            yield measured
            if time.monotonic() - begin >= seconds:
                return

    return bench(list(taking_part.kernels.values()), sizes, path=path, progress=progress, measure=briefly)


def ranked(record: Record, taking_part: Field) -> list[tuple[Setting, Point]]:
    """Return settings with their times, size by size, the quickest first."""
    settings = {files.identity(kernel): setting for setting, kernel in taking_part.kernels.items()}
    sizes = list(dict.fromkeys(point.size for point in record.points))
    points = sorted(record.points, key=lambda point: (sizes.index(point.size), point.ms))
    return [(settings[point.identity], point) for point in points]


def quickest(ranking: Sequence[tuple[Setting, Point]], names: Sequence[str], made: str) -> Table:
    """Return the quickest settings of each size.

    Parameters
    ----------
    ranking : sequence of (tuple, Point)
        What `ranked` returns.
    names : sequence of str
        Of the template parameters.
    made : str
        Of the recording, for the title.
    """
    rows, seen = [], {}
    for setting, point in ranking:
        seen[point.size] = seen.get(point.size, 0) + 1
        if seen[point.size] <= QUICKEST:
            spread = f"{shown(point.ms_p10)}–{shown(point.ms_p90)}"
            rows.append(
                (times_of(point.size), *setting, point.ms, spread, point.tflops, f"{point.percent_of_cublas:.1f}%")
            )
    columns = ("M×N×K", *names, "ms", "10–90%", "TFLOP/s", "of cuBLAS")
    note = "Medians of device time, cuBLAS measured in the same run."
    if len(rows) < len(ranking):
        note += f" The {QUICKEST} quickest of each size, of {max(seen.values())}."
    return Table(columns, rows, f"What is quickest, {made}", note)


def choice_of(setting: Setting, names: Sequence[str]) -> str:
    """Return what to write on the command line for a setting: ``--set BM=64 --set BN=64``."""
    return " ".join(f"--set {name}={value}" for name, value in zip(names, setting, strict=True))


def able(taking_part: Field, architecture: str) -> Table:
    """Return what the compiler gives those that take part, where nothing can be timed."""
    limits, rows = limits_of(architecture), []
    for setting, kernel in taking_part.kernels.items():
        used, fit = resources(kernel, architecture), kernel_occupancy(kernel, limits)
        rows.append(
            (*setting, kernel.threads, used.registers, used.shared_bytes, fit.blocks_per_sm, f"{fit.fraction:.0%}")
        )
    columns = (*taking_part.names, "threads", "registers", "shared bytes", "blocks per SM", "occupancy")
    note = "Registers are per thread, shared bytes per block. What could be run computed a difficult problem right."
    return Table(columns, rows, f"What would be timed, compiled for {architecture}", note)
