"""Tries template arguments of any kernel, the reader's own too: every combination of the values that are named.

Settings that don't compile, don't fit or compute one difficult problem wrongly are ruled out, with the reason. That
needs no GPU. The others are timed on a GPU as `bench` times kernels, each in turn with cuBLAS, but more briefly.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ptxsim import bar
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError, DeviceError, TutorialError, UnsupportedInstruction
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table, shown

from ..correctness import check, difficult
from ..guessing import kernel_from
from ..model.resources import kernel_occupancy, obstacle, resources
from ..records import files
from ..records.sizes import Size, times_of
from ..records.timings import Point, Record
from ..written import Written
from .bench import bench, on_gpu
from .driver import compile_kernels

SAMPLING: dict[str, Any] = {"samples": 15, "least_samples": 7, "seconds": 0.2, "warm_s": (0.03, 0.3)}
QUICKEST = 10
"""Settings that are shown of each size."""

Setting = tuple[int, ...]
"""Template arguments."""


@dataclass(frozen=True)
class Field:
    """The settings that take part, on one architecture.

    Attributes
    ----------
    kernels : dict of tuple to Kernel
        The kernels that take part, by their template arguments.
    obstacles : dict of tuple to str
        What the compiler or the occupancy calculator said of the settings that were ruled out.
    names : sequence of str
        Names of the template arguments.
    """

    kernels: dict[Setting, Kernel]
    obstacles: dict[Setting, str]
    names: Sequence[str]

    def table(self) -> Table:
        """Return the settings that were ruled out, and why."""
        rows = [(", ".join(map(str, setting)), why) for setting, why in self.obstacles.items()]
        note = f"{len(rows)} of {len(rows) + len(self.kernels)}. Settings are {', '.join(self.names)}."
        return Table(("setting", "why"), rows, "Ruled out before anything is timed", note)


def ruled(entered: Field, architecture: str, progress: bool | None = None) -> Field:
    """Return the settings that take part: those that neither the compiler nor the occupancy calculator rules out."""
    compile_kernels(entered.kernels.values(), architecture, progress)
    why = {setting: obstacle(kernel, limits_of(architecture)) for setting, kernel in entered.kernels.items()}
    kept = {setting: kernel for setting, kernel in entered.kernels.items() if not why[setting]}
    reasons = {setting: reason for setting, reason in why.items() if reason}
    return Field(kept, entered.obstacles | reasons, entered.names)


def field(
    name: str | Kernel, values: Mapping[str, Sequence[int | str]], architecture: str, progress: bool | None = None
) -> Field:
    """Return the combinations of some template arguments that take part, and why the others don't.

    Parameters
    ----------
    name : str or Kernel
        A kernel or its name, or the path of a file.
    values : mapping of str to sequence
        The values to try for each template parameter. Other parameters stay as they are.
    architecture : str
        The one to compile for. The difficult problem is computed on the GPU, or without one on the simulator.
    progress : bool, optional
        Show progress bars on stderr; None shows them in a terminal only.

    Raises
    ------
    ArgumentError
        The kernel can take none of them.
    DeviceError
        The GPU failed.
    """
    make = partial(find, name)
    if isinstance(name, Kernel) and isinstance(name.family, Written):  # read again: defaults may follow from others
        make = partial(kernel_from, name.path, f"{name.family.rule}, kernel = {name.entry}")
    kernels: dict[Setting, Kernel] = {}
    errors: dict[Setting, ArgumentError] = {}
    for setting in product(*values.values()):
        try:
            kernels[setting] = make(**dict(zip(values, setting, strict=True)))
        except ArgumentError as error:
            errors[setting] = error
    if not kernels:
        raise next(iter(errors.values()))
    entered = Field(kernels, {setting: str(error) for setting, error in errors.items()}, tuple(values))
    return _right(ruled(entered, architecture, progress), progress)


def _right(entered: Field, progress: bool | None) -> Field:
    """Rule out the settings that compute one difficult problem wrongly."""
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
        Nothing else is begun after that many seconds.
    path, progress
        As for `bench`, which continues a recording that is there.

    Returns
    -------
    Record
        As `bench` returns it; not `complete` either if time ran out.
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
        As `ranked` returns them.
    names : sequence of str
        Names of the template parameters.
    made : str
        The recording's `made`, for the title.
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
    """Return a setting as it is written on the command line: ``--set BM=64 --set BN=64``."""
    return " ".join(f"--set {name}={value}" for name, value in zip(names, setting, strict=True))


def able(taking_part: Field, architecture: str) -> Table:
    """Return registers and occupancy of the settings that take part, where nothing can be timed."""
    limits, rows = limits_of(architecture), []
    for setting, kernel in taking_part.kernels.items():
        used, fit = resources(kernel, architecture), kernel_occupancy(kernel, limits)
        rows.append(
            (*setting, kernel.threads, used.registers, used.shared_bytes, fit.blocks_per_sm, f"{fit.fraction:.0%}")
        )
    columns = (*taking_part.names, "threads", "registers", "shared bytes", "blocks per SM", "occupancy")
    note = "Registers are per thread, shared bytes per block. Those that could run were right on a difficult product."
    return Table(columns, rows, f"What would be timed, compiled for {architecture}", note)
