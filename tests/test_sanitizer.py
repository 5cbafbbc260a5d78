"""compute-sanitizer's outputs are read rightly, and its record is of the kernels as they are and clean."""

import json

import pytest

from sgemm_tutorial import LADDER, SimulationFault, TutorialError, check
from sgemm_tutorial.bench import digest

from . import sanitizer


@pytest.mark.parametrize(
    ("output", "errors"),
    [
        ("========= COMPUTE-SANITIZER\n64 launches\n========= ERROR SUMMARY: 0 errors\n", 0),
        ("========= Invalid __global__ read\n========= ERROR SUMMARY: 1 error\n", 1),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0),
        ("========= RACECHECK SUMMARY: 12 hazards displayed (12 errors, 0 warnings)\n", 12),
    ],
)
def test_findings(output, errors):
    assert sanitizer.findings(output) == errors


def test_an_output_without_summary_is_an_error():
    with pytest.raises(TutorialError, match="no summary"):
        sanitizer.findings("========= Internal Sanitizer Error\n")


@pytest.mark.parametrize("tool", sanitizer.broken())
def test_the_broken_kernels_are_broken(tool):
    kernel = sanitizer.broken()[tool]
    M, N, K, _ = list(sanitizer.shapes(kernel))[1]
    result = check(kernel, M, N, K, 1.0, 0.0, on_gpu=False)
    assert not result.passed
    words = {"memcheck": "out of bounds", "racecheck": "race", "initcheck": "", "synccheck": "barrier"}
    assert words[tool] in (result.fault or "")


def test_every_kernel_as_it_is_was_clean_under_every_tool():
    """If not: ``python -m tests.sanitizer``."""
    record = json.loads(sanitizer.RECORD.read_text(encoding="utf-8"))
    assert [(one["kernel"], one["parameters"], one["source"]) for one in record["kernels"]] == [
        (kernel.name, kernel.parameters, digest(kernel)) for kernel in LADDER
    ]
    assert {one["tool"] for one in record["tools"]} == {"memcheck", "racecheck", "initcheck", "synccheck"}
    for one in record["tools"]:
        assert one["errors"] == 0
        assert one["launches"] == sum(len(kernel["shapes"]) * len(sanitizer.SCALARS) for kernel in record["kernels"])
        assert one["errors_in_broken_kernel"] > 0


def test_shapes_are_whole_ragged_and_unaligned():
    assert issubclass(SimulationFault, TutorialError)
    for kernel in LADDER:
        drawn = list(sanitizer.shapes(kernel))
        assert any(M % kernel.parameters["BM"] == 0 and K for M, N, K, _ in drawn)
        assert any(M % kernel.parameters["BM"] for M, N, K, _ in drawn)
        assert any(shift for *_, shift in drawn) and any(K == 0 for *_, K, _ in drawn)
