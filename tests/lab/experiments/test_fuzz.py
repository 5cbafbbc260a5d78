"""The fuzzer and its record: its problems are varied, it notices broken kernels, and every kernel has passed."""

from collections import Counter

import numpy as np
import pytest

from lab.experiments import fuzz
from lab.records import files
from lab.records.checks import Fuzzed
from lab.records.files import Recording
from sgemm_tutorial import CATALOGUE, LADDER
from tools.mutants import instances

from ...together import for_each


def quick(kernel):
    """Return the kernel with template arguments that compile, and simulate, in no time."""
    return instances(kernel)[0]


def problems(kernel, count, of=lambda problem: True):
    """Return the first problems that are small enough to simulate, and such as asked for."""
    drawn = (fuzz.case(kernel, number) for number in range(fuzz.PROBLEMS))
    small = (one for one in drawn if of(one) and 0 < one["M"] * one["N"] < 40_000 and one["K"] < 150)
    return [one for one, _ in zip(small, range(count), strict=False)]


def run(kernel, ones):
    """Return (worst error over bound, nothing but C touched) of each problem, simulated."""
    return [fuzz.judge(kernel, one, np) for one in ones]


@for_each(kernel=LADDER)
def test_problems_are_varied(kernel):
    drawn = [fuzz.case(kernel, number) for number in range(fuzz.PROBLEMS)]
    assert str(drawn) == str([fuzz.case(kernel, number) for number in range(fuzz.PROBLEMS)])
    tile = {"M": kernel.parameters["BM"], "N": kernel.parameters["BN"], "K": kernel.parameters.get("BK", 8)}
    for name, size in tile.items():
        extents = [one[name] for one in drawn]
        assert min(extents) == 0 and max(extents) > 2000
        assert sum(value > 0 and value % size == 0 for value in extents) > 300
        for beside in (1, 2, 4):
            assert sum(value > size and value % size in (beside, size - beside) for value in extents) > 50
    kinds = Counter(one["kind"] for one in drawn)
    assert kinds.keys() == fuzz.KINDS.keys() and min(kinds.values()) > 80
    assert {(one["alpha"], one["beta"]) for one in drawn} > set(fuzz.SCALARS)
    assert 80 < sum(bool(one["special"]) for one in drawn) < 400
    whole = [one for one in drawn if one["kind"] == "tiles"]
    assert not any(one[name] % size for name, size in tile.items() for one in whole)
    assert sum(fuzz.is_aligned(one) for one in whole) > 100
    for which in range(3):  # whole tiles, in which one pointer alone is unaligned
        alone = tuple(int(i == which) for i in range(3))
        assert sum(tuple(map(bool, one["shifts"])) == alone for one in whole) > 10


@pytest.mark.filterwarnings("error")
def test_what_float16_cannot_hold_is_infinite():
    large = [one for one in problems(CATALOGUE[-1], 99) if one["alpha"]]
    one = next(one for one in large if any(of < 2 and value == 1e38 for of, _, value in one["special"]))
    ratio, intact = fuzz.judge(quick(CATALOGUE[-1]), one, np)
    assert ratio <= 1 and intact


SEVENTH = quick(LADDER[6])
ONE_ALONE = {"A, K": (True, False, False), "B, N": (False, True, False), "C, N": (False, False, True)}


def one_alone(operand):
    """Return what chooses whole tiles in which this pointer, and no other, is unaligned, and all three are read."""

    def fits(one):
        read = one["alpha"] and one["beta"] and one["N"] % 4 == one["K"] % 4 == 0
        return read and one["kind"] == "tiles" and tuple(map(bool, one["shifts"])) == ONE_ALONE[operand]

    return fits


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_a_few_problems_simulated(kernel):
    kernel = quick(kernel)
    ones = problems(kernel, 3) + problems(kernel, 1, fuzz.is_aligned)
    ones += [one for operand in ONE_ALONE for one in problems(kernel, 1, one_alone(operand))]
    assert len(ones) == 7
    assert all(worst <= 1 and intact for worst, intact in run(kernel, ones))


@pytest.mark.parametrize("operand", ONE_ALONE)
def test_a_pointer_whose_alignment_is_not_looked_at_is_noticed(operand, capsys, monkeypatch):
    ones = problems(SEVENTH, 2, one_alone(operand))
    monkeypatch.setattr(fuzz, "case", lambda kernel, number: ones[number])
    assert fuzz.fuzz(SEVENTH, 2, xp=np).failures == 0
    broken = SEVENTH.edited((f" && aligned({operand})", ""), label="broken")
    assert fuzz.fuzz(broken, 2, xp=np).failures == 2
    said = capsys.readouterr().out
    assert said.count("FAILED: ") == 2 and "misaligned" in said
    assert "case 1 of seed 2026" in said and str(ones[1]) in said


@pytest.mark.parametrize("change", [("k < K", "k + 1 < K"), ("if (beta != 0.0f) ", ""), ("alpha == 0.0f", "false")])
def test_a_broken_kernel_is_noticed(change):
    kernel = LADDER[1]
    ones = problems(kernel, 30, lambda one: one["kind"] in ("tiny", "primes", "edges"))
    assert all(worst <= 1 and intact for worst, intact in run(kernel, ones))
    assert any(worst > 1 for worst, _ in run(kernel.edited(change), ones))


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("place", [0, -1])
def test_a_write_outside_c_is_noticed(which, place):
    def strays(*operands):
        LADDER[1](*operands)
        operands[which].base[place] ^= 1

    strays.types = LADDER[1].types
    ones = problems(LADDER[1], 3)
    assert [intact for _, intact in run(LADDER[1], ones)] == [True] * 3
    assert [intact for _, intact in run(strays, ones)] == [False] * 3


def test_every_kernel_as_it_is_has_passed():
    """Otherwise ``make record`` is due."""
    points = files.load("fuzz", Recording[Fuzzed]).points
    for kernel in CATALOGUE:
        (point,) = files.find(points, kernel, "fuzz")
        assert point.problems >= 2000 and not point.failures and not point.fault
        assert 0 < point.worst_error_over_bound <= 1
        assert 0.15 < point.aligned / point.problems < 0.85
