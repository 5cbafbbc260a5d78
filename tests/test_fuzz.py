"""The fuzzer and its record: its problems are varied, it notices a broken kernel, and every kernel has passed."""

import json

import pytest

from sgemm_tutorial import LADDER, check, find
from sgemm_tutorial.bench import digest
from sgemm_tutorial.correctness import CheckResult

from . import fuzz

every = pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)


def simulated(*given, **more) -> CheckResult:
    return check(*given, on_gpu=False, **more)


@every
def test_problems_are_varied(kernel):
    drawn = [fuzz.case(kernel, number) for number in range(fuzz.CASES)]
    assert drawn == [fuzz.case(kernel, number) for number in range(fuzz.CASES)]
    assert drawn[:50] != [fuzz.case(kernel, number, seed=1) for number in range(50)]
    tile = {"M": kernel.parameters["BM"], "N": kernel.parameters["BN"], "K": kernel.parameters.get("BK", 8)}
    for extent, size in tile.items():
        extents = [one[extent] for one in drawn]
        assert min(extents) == 0 and max(extents) > 1000
        assert sum(value % size == 0 for value in extents) > 200
        assert sum(value > size and value % size in (1, size - 1) for value in extents) > 20
    aligned = [one for one in drawn if one["shift"] == 0 and one["N"] % 4 == one["K"] % 4 == 0]
    assert 300 < len(aligned) < 1700
    assert {(one["alpha"], one["beta"]) for one in drawn} == set(fuzz.SCALARS)
    assert 50 < sum(one["special"] for one in drawn) < 400


def test_a_broken_kernel_is_noticed(capsys, monkeypatch):
    kernel = find("02")
    tiny = [number for number in range(500) if 0 < max(fuzz.case(kernel, number)[name] for name in "MNK") < 40][:12]
    monkeypatch.setattr(fuzz, "case", lambda kernel, number, draw=fuzz.case: draw(find("02"), tiny[number]))
    assert fuzz.fuzz(kernel, len(tiny), simulated)["failures"] == 0
    assert fuzz.fuzz(kernel.edited(("k < K", "k + 1 < K")), len(tiny), simulated)["failures"] > 0
    assert "wrong values" in capsys.readouterr().out


@every
def test_every_kernel_as_it_is_has_passed(kernel):
    """If not: ``python -m tests.fuzz``."""
    points = json.loads(fuzz.RECORD.read_text(encoding="utf-8"))["points"]
    (point,) = (point for point in points if point["kernel"] == kernel.name)
    assert (point["parameters"], point["source"]) == (kernel.parameters, digest(kernel))
    assert point["cases"] >= 2000
    assert point["failures"] == 0
    assert 0 < point["worst_error_over_bound"] <= 1
