"""Cases that are checked several at once: the same verdicts in the same order, and what ends them."""

import itertools
import os
import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab import correctness, side_by_side
from sgemm_tutorial import ArgumentError, find
from sgemm_tutorial.catalogue import CATALOGUE
from sgemm_tutorial.own import kernel_from

from ..together import for_each

CASES = [{"M": size, "N": 5, "K": size % 4, "seed": size} for size in (9, 3, 17, 0, 8)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Other processes from the second case on."""
    monkeypatch.setattr(side_by_side, "SOON", 0.0)


class Noted:
    """Processes, and the cases that they are given."""

    def __init__(self, processes):
        self.processes, self.cases = processes, []

    def submit(self, *given, **case):
        self.cases.append(case)
        return self.processes.submit(*given, **case)


@pytest.fixture
def started(monkeypatch):
    """The cases that went to other processes."""
    noted = Noted(side_by_side._processes())
    monkeypatch.setattr(side_by_side, "_processes", lambda: noted)
    return noted.cases


def test_verdicts_are_the_same_and_in_order(started):
    kernel = find("02")
    wrong = replace(kernel, edits=(("row >= M ||", "row >= M - 1 ||"),))
    for each in (kernel, wrong):
        there = list(side_by_side.checked(each, CASES, False, 0))
        assert there == list(correctness.checked(each, CASES, False))
    assert any(not result for result in there) and any(there), "of the wrong kernel, some cases fail"
    assert [case["M"] for case in started] == 2 * [3, 17, 0, 8]


def test_it_ends_where_the_kernel_does_not(tmp_path, started):
    path = tmp_path / "endless.cu"
    guard = "if (row >= M || col >= N) return;"
    path.write_text(find("01").source.replace(guard, guard + " while (M > 4) alpha += 1.0f;"))
    cases = [{"M": M, "N": 4, "K": 1} for M in (4, 3, 9, 8, 7)]
    found = list(side_by_side.checked(kernel_from(path, BM=8, BN=32), cases, False, 1000))
    assert [result.endless for result in found] == [False, False, True] and len(started) == 4


def test_errors_come_back_as_they_are():
    with pytest.raises(ArgumentError, match=r"^K: got -1, needs 0 or more$") as caught:
        list(side_by_side.checked(find("01"), [CASES[0], CASES[1] | {"K": -1}], False, 0))
    assert caught.value.argument == "K"


def test_a_process_that_is_killed_is_told():
    side_by_side._processes().submit(os._exit, 1)
    with pytest.raises(MemoryError, match="was killed"):
        list(side_by_side.checked(find("01"), CASES, False, 0))
    assert len(list(side_by_side.checked(find("01"), CASES, False, 0))) == len(CASES), "and the next time is as before"


@for_each(kernel=CATALOGUE)
def test_every_kernel_of_the_catalogue_goes_to_other_processes(kernel):
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel and again.dynamic_shared_bytes == kernel.dynamic_shared_bytes


@pytest.mark.parametrize(("seconds", "elsewhere"), [(0.6, 0), (3.0, 4)])
def test_processes_are_for_what_takes_several_times_their_start(seconds, elsewhere, monkeypatch, started):
    clock = SimpleNamespace(monotonic=itertools.count(0.0, seconds).__next__)
    monkeypatch.setattr(side_by_side, "time", clock)
    monkeypatch.setattr(side_by_side, "SOON", 1.0)
    assert len(list(side_by_side.checked(find("01"), CASES, False, 0))) == len(CASES) and len(started) == elsewhere
