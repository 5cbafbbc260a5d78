"""What all tests share."""


def pytest_terminal_summary(terminalreporter):
    """Print what tests have recorded as their "summary": how many mutants were caught."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    lines = sorted({value for report in reports for name, value in report.user_properties if name == "summary"})
    if lines:
        terminalreporter.section("in numbers")
        for line in lines:
            terminalreporter.write_line(line)
