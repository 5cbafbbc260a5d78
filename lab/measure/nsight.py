"""Runs Nsight Compute's command line on our launches, and reads the counters that it prints.

It needs a GPU and ncu, which must be allowed to read counters there.
"""

import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sgemm_tutorial.errors import DeviceError
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel

from ..records import files
from ..records.files import Recording, Sized
from ..records.provenance import Provenance, provenance
from ..records.sizes import Size
from .driver import Item, Plan

AT_ONCE = 24
"""Launches in one run of ncu. If it is broken off, at most this many are lost."""


@dataclass(frozen=True)
class Counted(Sized):
    """The counters of one launch, by our names of Nsight Compute's metrics."""

    counts: dict[str, int | float] = field(hash=False)


def counted(kernel: Kernel, size: Size, recording: str) -> dict[str, int | float]:
    """Return the counters that a recording of `Counted` holds of a kernel, as it is now, on a problem.

    Raises
    ------
    ArgumentError
        It has no such kernel, or only of other code, or no such problem of it.
    """
    return dict(files.point(recording, Counted, kernel, size).counts)


def made(recording: str) -> str:
    """Return on which GPU, when, and with which Nsight Compute a recording was made."""
    of = files.load(recording, Recording[Counted]).provenance
    return f"Measured on {of['gpu']}, {of['date'][:10]}, Nsight Compute {of['ncu']}"


def plan(name: str, items: list[Item], metrics: dict[str, str]) -> Plan:
    """Return the plan that counts metrics of single launches.

    Parameters
    ----------
    name : str
        The recording's name.
    items : list of (Kernel, (M, N, K))
    metrics : dict of str to str
        Our names and Nsight Compute's.
    """

    def measure(missing: Sequence[Item]) -> Iterator[Counted]:
        for first in range(0, len(missing), AT_ONCE):
            now = missing[first : first + AT_ONCE]
            python = program(name, *(items.index(item) for item in now))
            rows = count(python, [kernel.function for kernel, _ in now], metrics)
            for (kernel, size), row in zip(now, rows, strict=True):
                yield Counted.of(kernel, size, counts=row)

    return Plan(name, Recording[Counted], items, measure, {"metrics": metrics}, takes=2.0, made_on=made_on)


def program(name: str, *places: int) -> list[str]:
    """Return the arguments of a Python that launches these items of a recording's plan, and nothing else."""
    return ["-m", "lab.experiments.program", name, *map(str, places)]


def launch(items: Sequence[Item]) -> None:
    """Launch each kernel on random matrices of its size, on this machine's GPU."""
    for kernel, size in items:
        kernel(*matrices(*size, types=kernel.types))


def made_on() -> Provenance:
    """Return the provenance, with ncu's version."""
    return {**provenance(), "ncu": version()}


def count(python: list[str], functions: list[str], metrics: dict[str, str]) -> list[dict[str, int | float]]:
    """Run a Python program under ncu and return the metrics of its launches.

    Parameters
    ----------
    python : list of str
        Arguments of the interpreter.
    functions : list of str
        Names of the kernels that it launches, in order. Its launches of other kernels are ignored.
    metrics : dict of str to str
        Our names and Nsight Compute's.

    Returns
    -------
    list of dict of str to int or float
        For each launch, the metrics by our names.

    Raises
    ------
    DeviceError
        There is no ncu, it failed, or it saw other launches.
    """
    rows = profiled(python, metrics, "--kernel-name", f"regex:^({'|'.join(sorted(set(functions)))})$")
    seen = [re.search(r"(\w+)(<.*>)?\(", row["Kernel Name"])[1] for row in rows]
    if seen != functions:
        raise DeviceError(f"ncu saw the launches {seen}, not {functions}")
    return [{ours: number(row[theirs]) for ours, theirs in metrics.items()} for row in rows]


def profiled(python: list[str], metrics: dict[str, str], *options: str) -> list[dict[str, str]]:
    """Run a Python program under ncu and return a row for each launch, by Nsight Compute's names.

    Raises
    ------
    DeviceError
        There is no ncu, or it failed.
    """
    if not shutil.which("ncu"):
        raise DeviceError("ncu, Nsight Compute's command line, is not on the PATH")
    how = ("--csv", "--page", "raw", "--clock-control", "none", "--metrics", ",".join(metrics.values()))
    done = subprocess.run(["ncu", *how, *options, sys.executable, *python], capture_output=True, text=True, check=False)
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise DeviceError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return list(csv.DictReader(io.StringIO(done.stdout[start:])))[1:]  # the first row holds the units


def number(text: str) -> int | float:
    """Return a number as ncu writes it."""
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


@lru_cache(maxsize=1)
def version() -> str:
    """Version of Nsight Compute's command line."""
    return re.search(r"Version ([\d.]+)", subprocess.check_output(["ncu", "--version"], text=True))[1]
