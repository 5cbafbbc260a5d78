"""Adds the suite's times by file to the recorded cost: ``python -m tools.cost REPORT.xml``.

The report is what ``pytest --junit-xml`` has written; the simulator's times are recorded by `measure`.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from xml.etree import ElementTree

from lab.records import cost, files
from lab.records.cost import File


def suite(report: Path) -> list[File]:
    """Return the files of tests and the notebooks in a report, those that took longest first."""
    found: dict[str, list[float]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found.setdefault(case.get("classname", "").split("::")[0], []).append(float(case.get("time", "0")))
    rows = [File(file, len(times), round(sum(times), 3)) for file, times in found.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def main(report: str) -> None:
    """Add a report's times to the shown card's recording."""
    files.write(files.path_of("cost"), dataclasses.replace(cost.load(), suite=suite(Path(report))))


if __name__ == "__main__":
    main(*sys.argv[1:])
