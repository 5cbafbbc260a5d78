"""What all tests share."""

import os

import pytest
from xdist.scheduler import LoadScopeScheduling


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
