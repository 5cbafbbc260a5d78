"""Records with Nsight Compute what the hardware counts: each kernel's accesses to memory, and a profile at full size.

It needs a GPU and ncu, which must be allowed to read counters there.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache

from sgemm_tutorial.catalogue import CATALOGUE
from sgemm_tutorial.correctness import matrices
from sgemm_tutorial.errors import DeviceError

from .. import variants
from ..records import counters, profiles
from ..records.counters import Counted
from ..records.files import Recording
from ..records.provenance import Provenance, provenance
from .driver import Item, Plan

AT_ONCE = 24
"""Launches in one run of ncu: what is lost if it is broken off."""


def counters_plan() -> Plan:
    """Return the plan that counts accesses: the catalogue and `COUNTED`, on all of `SHAPES` and on `LARGE`.

    What chooses for each problem is left out: the copy engine's accesses are none of those that are counted.
    """
    sizes, fixed = (*counters.SHAPES, counters.LARGE), [kernel for kernel in CATALOGUE if not kernel.family.chooses]
    return _plan("counters", [(k, size) for k in (*fixed, *variants.COUNTED) for size in sizes], counters.METRICS)


def sectors_plan() -> Plan:
    """Return the plan that counts the same of `variants.TENSOR` and `variants.HOPPER`, at full size."""
    return _plan(
        "sectors", [(kernel, counters.LARGE) for kernel in (*variants.TENSOR, *variants.HOPPER)], counters.METRICS
    )


def profiles_plan() -> Plan:
    """Return the plan of profiles at full size: the catalogue, and what 13 becomes step by step."""
    kernels = (*CATALOGUE, *variants.STEPS[1:], variants.STEP_IN_FP64)
    return _plan("profiles", [(kernel, (profiles.SIZE,) * 3) for kernel in kernels], profiles.METRICS)


def _plan(name: str, items: list[Item], metrics: dict[str, str]) -> Plan:
    def measure(missing: Sequence[Item]) -> Iterator[Counted]:
        for first in range(0, len(missing), AT_ONCE):
            now = missing[first : first + AT_ONCE]
            command = ["-m", "lab.measure.nsight", name, *(str(items.index(item)) for item in now)]
            rows = counted(command, [kernel.function for kernel, _ in now], metrics)
            for (kernel, size), row in zip(now, rows, strict=True):
                yield Counted.of(kernel, size, counts=row)

    return Plan(name, Recording[Counted], items, measure, {"metrics": metrics}, takes=2.0, made_on=made_on)


def made_on() -> Provenance:
    """Return the provenance, with ncu's version."""
    return {**provenance(), "ncu": version()}


def counted(python: list[str], functions: list[str], metrics: dict[str, str]) -> list[dict[str, int | float]]:
    """Run a Python program under ncu and return the metrics of its launches.

    Parameters
    ----------
    python : list of str
        Arguments of the interpreter.
    functions : list of str
        Names of the kernels it launches, in order; its launches of others are not looked at.
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
    """Run a Python program under ncu and return what it says of each launch, by Nsight Compute's names.

    Raises
    ------
    DeviceError
        There is no ncu, or it failed.
    """
    if not shutil.which("ncu"):
        raise DeviceError("ncu, Nsight Compute's command line, is not on the PATH")
    how = ("--csv", "--page", "raw", "--clock-control", "none", "--metrics", ",".join(metrics.values()))
    command = ["ncu", *how, *options, sys.executable, *python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


def main(name: str, *places: str) -> None:
    """Launch these items of a plan: what ncu runs."""
    items = {"counters": counters_plan, "sectors": sectors_plan, "profiles": profiles_plan}[name]().items
    for place in map(int, places):
        kernel, size = items[place]
        kernel(*matrices(*size, types=kernel.types))


if __name__ == "__main__":
    main(*sys.argv[1:])
