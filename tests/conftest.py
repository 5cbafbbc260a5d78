"""Fixtures for all tests, runs that they share, and a summary of memory."""

import atexit
import gc
import os
import resource
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported: threads would wait, not help
os.environ.pop(
    "COLUMNS", None
)  # readline sets it for the processes that pytest starts, and tables would take its width

import pytest

from lab.correctness import IN_MEMORY

from . import heap, shared_runs


def pytest_configure(config):
    """Make the folder of the runs that are shared, and tell the notebooks' kernels, before there are any processes."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="sgemm-tutorial-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # last, after IPython has closed its history there
        startup = Path(folder, "ipython", "profile_default", "startup", "shared_runs.py")
        startup.parent.mkdir(parents=True)
        startup.write_text(shared_runs.STARTUP)
        os.environ |= {shared_runs.FOLDER: folder, "IPYTHONDIR": f"{folder}/ipython"}


@pytest.fixture
def place():
    """A folder for files with holes; in memory if possible, where they take no time."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def share_runs():
    """What the test simulates it shares with the notebooks."""
    with shared_runs.sharing():
        yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Free what only the tests of a file have held."""
    if nextitem is None or nextitem.path != item.path:
        heap.give_back()


def pytest_collection():
    """Look for no garbage among the tests, all of which stay, while they are collected and after."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In continuous integration nothing is skipped: what cannot be tested there has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped, which CI=true forbids: {report.longrepr[-1]}"
    return report


def _peaks():
    """Return the most memory that this process has held at a time, and any that it started and waited for, in MB."""
    return [resource.getrusage(who).ru_maxrss >> 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peaks"] = _peaks()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Keep what a process has told of itself."""
    if not error:
        node.config.stash.setdefault(PEAKS, {})[node.gateway.id] = node.workeroutput["peaks"]


PEAKS = pytest.StashKey[dict[str, list[int]]]()


def pytest_terminal_summary(terminalreporter, config):
    """Print what tests have recorded as their "summary", how many mutants were caught, and the memory they took."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    lines = sorted({value for report in reports for name, value in report.user_properties if name == "summary"})
    for name, (own, others) in sorted(config.stash.get(PEAKS, {"this process": _peaks()}).items()):
        lines.append(f"{name}: at most {own} MB, and {others} MB each that it started")
    terminalreporter.section("in numbers")
    for line in lines:
        terminalreporter.write_line(line)
