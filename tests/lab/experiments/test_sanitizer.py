"""compute-sanitizer's outputs are read rightly, and its record is of the kernels as they are and clean."""

import os

import numpy as np
import pytest

from lab import check
from lab.experiments import sanitizer
from lab.records import files
from lab.records.checks import Sanitized
from lab.records.files import Recording
from sgemm_tutorial import LADDER, SimulationFault, TutorialError

CONTROLS = sanitizer.controls()

HEAD = "========= COMPUTE-SANITIZER\n"
INVALID = """========= Invalid __global__ write of size 4 bytes
=========     at coalesced<(int)8, (int)32>(int, int, int, float, const float *, ...)+0x480 in 02_coalesced.cu:29
=========     by thread (5,0,0) in block (3,0,0)
"""
CLEAN = HEAD + "64 launches\n========= ERROR SUMMARY: 0 errors\n"
ERRORS = HEAD + INVALID + "========= ERROR SUMMARY: 12 errors\n"
ABRIDGED = HEAD + INVALID + "========= ERROR SUMMARY: 978 errors were found. 878 were not printed\n"
RACES = HEAD + "========= RACECHECK SUMMARY: 48 hazards displayed (48 errors, 0 warnings)\n"
NO_RACES = HEAD + "64 launches\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
CRASHED = HEAD + "========= Error: Target application terminated before first instrumented API call\n"
RAISED = HEAD + "Traceback (most recent call last):\nImportError: cupy\n========= ERROR SUMMARY: 0 errors\n"


@pytest.fixture
def says(tmp_path, monkeypatch):
    """A function that puts a compute-sanitizer on the PATH which only says something and exits."""

    def install(text, code=0):
        (tmp_path / "said").write_text(text, encoding="utf-8")
        tool = tmp_path / "compute-sanitizer"
        tool.write_text(f'#!/bin/sh\ncd {tmp_path}\necho "$@" > asked\ncat said\nexit {code}\n', encoding="utf-8")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "asked"

    return install


@pytest.mark.parametrize(
    ("text", "code", "found", "launches"),
    [(CLEAN, 0, 0, 64), (NO_RACES, 0, 0, 64), (ERRORS, 99, 12, 0), (ABRIDGED, 1, 978, 0), (RACES, 99, 48, 0)],
)
def test_a_run_is_read(says, text, code, found, launches):
    asked = says(text, code)
    assert sanitizer.run("memcheck", 3)[:2] == (found, launches)
    words = asked.read_text(encoding="utf-8").split()
    assert words[:3] == ["--tool", "memcheck", "--error-exitcode=99"]
    assert words[-3:] == [
        "lab.experiments.program",
        "sanitizer",
        "3",
    ]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [(CRASHED, 1, "no summary"), ("", 0, "no summary"), (RAISED, 1, "ended with 1"), (CLEAN, 99, "ended with 99")],
)
def test_a_run_that_did_not_end_well_is_an_error(says, text, code, message):
    says(text, code)
    with pytest.raises(TutorialError, match=message):
        sanitizer.run("memcheck", 3)


@pytest.mark.parametrize(("text", "code", "noticed"), [(ERRORS, 99, True), (CLEAN, 0, False), (RACES, 99, False)])
def test_a_control_counts_if_its_own_kernel_is_reported(says, text, code, noticed):
    says(text, code)
    tool, kernel = CONTROLS[0]
    (point,) = sanitizer.measure([(kernel, tool, True)])
    assert bool(point.errors) == noticed
    assert point.fault == "" if noticed else "memcheck of 02_coalesced no bounds: not noticed"


@pytest.mark.parametrize(
    ("text", "code", "fault"), [(NO_RACES, 0, ""), (RACES, 99, "racecheck of 01_naive : 48 errors")]
)
def test_what_is_found_in_a_kernel_is_a_fault(says, text, code, fault):
    says(text, code)
    points = list(sanitizer.measure([(kernel, "racecheck", False) for kernel in LADDER[:3]]))
    assert {point.kernel for point in points} == {kernel.name for kernel in LADDER[:3]}
    assert all(bool(point.fault) == bool(fault) for point in points)
    assert any(point.fault.startswith(fault) for point in points)


def test_every_tool_has_a_control():
    assert {tool for tool, _ in CONTROLS} == set(sanitizer.TOOLS)


@pytest.mark.parametrize(("tool", "kernel"), CONTROLS)
def test_the_broken_kernels_are_broken(tool, kernel):
    words = {"memcheck": "out of bounds|misaligned", "racecheck": "race", "synccheck": "barrier"}
    if tool == "initcheck":  # C, where β = 0
        assert "never written" in check(kernel, 64, 64, 8, 1.0, 0.0, on_gpu=False).fault
    else:
        with pytest.raises(SimulationFault, match=words[tool]):
            sanitizer.launched([kernel], np)


def test_what_is_launched_is_whole_ragged_and_unaligned():
    for kernel in LADDER:
        drawn = list(sanitizer.shapes(kernel))
        of = kernel.parameters
        whole = [shifts for M, N, K, shifts in drawn if K and not (M % of["BM"] or N % of["BN"] or K % of.get("BK", 1))]
        assert set(whole) == {(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)}
        assert any(M % of["BM"] and N % of["BN"] and K % of.get("BK", 8) for M, N, K, _ in drawn)
        assert any(K == 0 for _, _, K, _ in drawn)
    assert any(beta == 0 for _, beta in sanitizer.SCALARS) and any(alpha == 0 for alpha, _ in sanitizer.SCALARS)


def test_launches_are_all_made_and_counted():
    assert sanitizer.launched(LADDER[:2], np) == 2 * 6 * len(sanitizer.SCALARS)


def test_every_kernel_as_it_is_was_clean_under_every_tool():
    """Otherwise ``make record`` is due."""
    points = files.load("sanitizer", Recording[Sanitized]).points
    for kernel in sanitizer.kernels():
        launches = len(list(sanitizer.shapes(kernel))) * len(sanitizer.SCALARS)
        found = files.find(points, kernel, "sanitizer")
        assert [(p.tool, p.launches, p.errors) for p in found] == [(tool, launches, 0) for tool in sanitizer.TOOLS]
    broken = [(point.tool, point.label) for point in points if point.broken and point.errors]
    assert broken == [(tool, kernel.label) for tool, kernel in CONTROLS]
