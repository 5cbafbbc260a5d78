"""What all tests share."""

import os
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "tests/records/test_recordings.py",
    "tests/simulator/test_properties.py",
    "tests/simulator/test_simulator.py",
    "tests/test_correctness.py",
    "tests/kernels/test_half_kernels.py",
    "tests/kernels/test_register_l1.py",
    "tests/kernels/test_spills.py",
    "tests/model/test_occupancy.py",
    "tests/model/test_resources.py",
    "tests/model/test_roofline.py",
    "tests/measure/test_fuzz.py",
    "tests/test_cli.py",
    "tests/test_installing.py",
    "tests/tools/test_live.py",
    "tests/tools/test_mutants.py",
    "tests/book/test_book.py",
)
"""The files that take longest: they come before the rest, so that no process is left with one in the end."""


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out the files that take longest")


def _place(path, config):
    return Path(os.path.relpath(path, config.rootpath)).as_posix()


def pytest_ignore_collect(collection_path, config):
    """Leave out the longest files if that is asked for."""
    return True if config.getoption("--quick") and _place(collection_path, config) in LONGEST else None


def pytest_collection_modifyitems(config, items):
    """Put the notebooks first, each of which needs a second process; then the longest files, then the rest."""

    def order(item):
        place = _place(item.path, config)
        if place.endswith(".ipynb"):
            return -1
        return LONGEST.index(place) if place in LONGEST else len(LONGEST)

    items.sort(key=order)


class ByFile(LoadScopeScheduling):
    """Keeps the tests of a file, or the cells of a notebook, in one process; a kernel's mutants may have their own."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        return nodeid if test.startswith("test_every_mutant_is_caught") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give the tests out to processes by file. (xdist's own loadgroup does nothing under pytest 9.2.)"""
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In continuous integration nothing is skipped: what cannot be tested there has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped, which CI=true forbids: {report.longrepr[-1]}"
    return report


def pytest_terminal_summary(terminalreporter):
    """Print what tests have recorded as their "summary": how many mutants were caught."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    lines = sorted({value for report in reports for name, value in report.user_properties if name == "summary"})
    if lines:
        terminalreporter.section("in numbers")
        for line in lines:
            terminalreporter.write_line(line)
