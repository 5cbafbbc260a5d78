"""What all tests share."""

import pytest


def pytest_collection_modifyitems(items):
    """Keep the tests of a file, or the cells of a notebook, in one process; a kernel's mutants may have their own."""
    for item in items:
        mutated = item.callspec.id if item.name.startswith("test_every_mutant_is_caught") else ""
        item.add_marker(pytest.mark.xdist_group(f"{item.path.name} {mutated}"))


def pytest_terminal_summary(terminalreporter):
    """Print what tests have recorded as their "summary": how many mutants were caught."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    lines = sorted({value for report in reports for name, value in report.user_properties if name == "summary"})
    if lines:
        terminalreporter.section("in numbers")
        for line in lines:
            terminalreporter.write_line(line)
