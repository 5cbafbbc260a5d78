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
from pathlib import Path

from ..catalogue import CATALOGUE
from ..correctness import matrices
from ..errors import DeviceError
from ..kernel import Kernel
from ..records import counters, files, profiles
from ..records.provenance import provenance
from ..variants import COUNTED, STEP_IN_FP64, STEPS

PROFILED = (*CATALOGUE, *STEPS[1:], STEP_IN_FP64)
"""Every kernel, and what 13 becomes step by step."""


def record_counters(path: Path) -> None:
    """Count the catalogue's kernels and those of `COUNTED` on all of `SHAPES` and on `LARGE`, and save the record.

    Raises
    ------
    DeviceError
        There is no GPU or no ncu, or ncu may not read the counters.
    """
    launches = _launches()
    rows = counted(
        ["-m", "sgemm_tutorial.measure.nsight", "counters"],
        [kernel.function for kernel, *_ in launches],
        counters.METRICS,
    )
    points = [
        {"kernel": kernel.name, "label": kernel.label, "parameters": kernel.parameters, "M": M, "N": N, "K": K, **row}
        for (kernel, M, N, K), row in zip(launches, rows, strict=True)
    ]
    files.write(path, {"provenance": provenance() | {"ncu": version()}, "metrics": counters.METRICS, "points": points})


def record_profiles(path: Path) -> None:
    """Profile all of `PROFILED` at full size and save the record.

    Raises
    ------
    DeviceError
        There is no GPU or no ncu, or ncu may not read the counters.
    """
    rows = counted(
        ["-m", "sgemm_tutorial.measure.nsight", "profiles"], [kernel.function for kernel in PROFILED], profiles.METRICS
    )
    points = [
        {"kernel": kernel.name, "parameters": kernel.parameters, "size": profiles.SIZE, **row}
        for kernel, row in zip(PROFILED, rows, strict=True)
    ]
    files.write(path, {"provenance": provenance() | {"ncu": version()}, "metrics": profiles.METRICS, "points": points})


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
    if not shutil.which("ncu"):
        raise DeviceError("ncu, Nsight Compute's command line, is not on the PATH")
    command = [
        "ncu",
        "--csv",
        "--page",
        "raw",
        "--clock-control",
        "none",
        "--metrics",
        ",".join(metrics.values()),
        "--kernel-name",
        f"regex:^({'|'.join(sorted(set(functions)))})$",
        sys.executable,
        *python,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise DeviceError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = list(csv.DictReader(io.StringIO(done.stdout[start:])))[1:]  # the first row holds the units
    seen = [re.search(r"(\w+)(<.*>)?\(", row["Kernel Name"])[1] for row in rows]
    if seen != functions:
        raise DeviceError(f"ncu saw the launches {seen}, not {functions}")
    return [{ours: _number(row[theirs]) for ours, theirs in metrics.items()} for row in rows]


def _number(text: str) -> int | float:
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


def version() -> str:
    """Version of Nsight Compute's command line."""
    return re.search(r"Version ([\d.]+)", subprocess.check_output(["ncu", "--version"], text=True))[1]


def _launches() -> list[tuple[Kernel, int, int, int]]:
    return [(kernel, *shape) for kernel in (*CATALOGUE, *COUNTED) for shape in (*counters.SHAPES, counters.LARGE)]


if __name__ == "__main__":  # what ncu runs
    PLANS = {"counters": _launches(), "profiles": [(kernel, *(profiles.SIZE,) * 3) for kernel in PROFILED]}
    for launched, *size in PLANS[sys.argv[1]]:
        launched(*matrices(*size, types=launched.types))
