"""What the book's own instruments cost: the simulator's time against the size, and the suite's by file.

``python -m tests.cost [--sizes 64 128]`` measures the simulator and prints a table. With ``--record``, the result goes
to ``book/results/cost.json``, together with the suite's times as ``pytest --junit-xml`` has written them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from tqdm import tqdm

from ..catalogue import LADDER
from ..compiler import build
from ..correctness import matrices
from ..kernel import Kernel
from ..paths import RESULTS
from ..records import files
from ..simulation import simulate
from ..table import Table

RECORD = RESULTS / "cost.json"


def seconds(kernel: Kernel, size: int) -> float:
    """Return the shorter time of two simulated runs of size³, or the time of one from 512 on; without compilation."""
    build(kernel)
    A, B = matrices(size, size, size, on_gpu=False)
    times = []
    for _ in range(2 if size < 512 else 1):
        begin = time.perf_counter()
        simulate(kernel, A, B)
        times.append(time.perf_counter() - begin)
    return min(times)


def simulator(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return one row per kernel and size."""
    rows = []
    for kernel in tqdm(LADDER, desc="simulating", leave=False, disable=None):
        rows += [{"kernel": kernel.name, "size": size, "seconds": seconds(kernel, size)} for size in sizes]
    return rows


def suite(report: Path) -> list[dict[str, Any]]:
    """Return one row per file of tests or notebook from what ``pytest --junit-xml`` wrote: its tests and seconds."""
    rows: dict[str, dict[str, Any]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").split("::")[0]
        row = rows.setdefault(file, {"file": file, "tests": 0, "seconds": 0.0})
        row["tests"] += 1
        row["seconds"] += float(case.get("time", "0"))
    return sorted(rows.values(), key=lambda row: -row["seconds"])


def provenance() -> dict[str, Any]:
    """Return what the times depend on, as far as it can be told without naming a machine."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print or save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024], help="M = N = K")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--record", type=Path, metavar="REPORT", help="save it, with the suite's times from this XML")
    options = parser.parse_args(arguments)
    rows = simulator(options.sizes)
    if options.record:
        files.write(RECORD, {"provenance": provenance(), "simulator": rows, "suite": suite(options.record)})
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        cells = [(row["kernel"], row["size"], row["seconds"], row["size"] ** 3 / row["seconds"] / 1e6) for row in rows]
        print(Table(("kernel", "M = N = K", "seconds", "million FMA per second"), cells, "The simulator's speed"))


if __name__ == "__main__":
    main()
